"""`manage.py api_token`: make, list and revoke the API tokens of a named operator."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError

from integration import errors
from integration.callers import tokens
from integration.callers.policy import LONGEST_DAYS, SCOPES, Token
from integration.management.operators import check_text, find_operator
from integration.values import Actor, plain


class Command(BaseCommand):
    """The tokens of one account; the secret of a new one is printed once and kept nowhere."""

    help = "API tokens. Exit 0 done, 1 error, 2 usage, 4 not found, 5 permission denied."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the verbs and their options."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        create = verbs.add_parser("create", help="Make one and print its secret.")
        create.add_argument("--name", required=True, help="What it is for.")
        create.add_argument("--scope", required=True, action="append", choices=sorted(SCOPES), help="May be repeated.")
        create.add_argument("--days", type=int, default=90, help=f"Until it runs out, 1 to {LONGEST_DAYS} (90).")
        listing = verbs.add_parser("list", help="Show the newest ones.")
        revoke = verbs.add_parser("revoke", help="End one.")
        revoke.add_argument("token", help="Its id.")
        for verb in (create, listing, revoke):
            verb.add_argument("--as", dest="operator", required=True, help="Whose tokens, by user name.")
            verb.add_argument("--json", action="store_true", help="Print one JSON document.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what the verb says; print; map an error to its exit code."""
        try:
            text, document = self._answer(options)
        except errors.IntegrationError as error:
            document = {"error": error.code, "message": error.operator_message(), **plain(error.data_fields)}
            if options["json"]:
                self._document(document)
            else:
                self.stderr.write(f"{error.code}: {error.operator_message()}")
            sys.exit(error.exit_code)
        if options["json"]:
            self._document(document)
        else:
            self.stdout.write(text)

    def _answer(self, options: dict[str, Any]) -> tuple[str, Any]:
        check_text(options)
        try:
            actor = find_operator(options["operator"])
            match options["verb"]:
                case "create":
                    return _create(actor, options)
                case "revoke":
                    token = tokens.revoke(options["token"], actor=actor)
                    return f"revoked {token.token_id} ({token.name})", plain(token)
                case _:
                    found = tokens.list_tokens(int(actor.user_id or 0))
                    return "\n".join(_line(token) for token in found) or "no tokens", plain(found)
        except (OperationalError, InterfaceError):
            # Plain reads pass the driver's error on, and its text names the server and the account.
            raise errors.DatabaseUnavailable from None

    def _document(self, document: Any) -> None:
        self.stdout.write(json.dumps(document, ensure_ascii=False, sort_keys=True))


def _create(actor: Actor, options: dict[str, Any]) -> tuple[str, Any]:
    issued = tokens.issue(actor=actor, name=options["name"], scopes=options["scope"], days=options["days"])
    return issued.secret, plain(issued)


def _line(token: Token) -> str:
    state = "live" if token.is_live else "revoked" if token.revoked_at else "expired"
    used = token.last_used_on.isoformat() if token.last_used_on else "never"
    scopes = ",".join(scope.partition(".")[2] for scope in token.scopes)
    return f"{token.token_id}  {state:<7}  used {used:<10}  {scopes}  {token.name}"
