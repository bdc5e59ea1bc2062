"""`manage.py link_operator`: let somebody whom the sign-in provider knows sign in to an account."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from console import identities
from console.models import User
from integration.errors import IntegrationError
from integration.values import SYSTEM_ACTOR


class Command(BaseCommand):
    """Link an account to a subject of the provider, or to nobody; running it again changes nothing."""

    help = "Let a subject of the sign-in provider sign in to an account, or nobody any more."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the account and the subject."""
        parser.add_argument("--username", required=True)
        either = parser.add_mutually_exclusive_group(required=True)
        either.add_argument("--subject", default="", help="The `sub` by which the provider knows the person.")
        either.add_argument("--remove", action="store_true", help="Take every link of the account away.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write or remove the link.

        Raises:
            CommandError: There is no such account, no provider is set, or the subject is another account's.
        """
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError("There is no such account.")
        if options["remove"]:
            was_linked = identities.unlink(user, actor=SYSTEM_ACTOR)
            self.stdout.write(f"{user.username} {'is no longer linked' if was_linked else 'was not linked'}.")
            return
        if settings.LOCKHOUSE_OIDC is None:
            raise CommandError("No provider is set: LOCKHOUSE_OIDC_ISSUER and its like are missing.")
        try:
            is_new = identities.link(user, settings.LOCKHOUSE_OIDC.issuer, options["subject"], actor=SYSTEM_ACTOR)
        except IntegrationError as error:
            raise CommandError(error.operator_message()) from error
        self.stdout.write(f"{user.username} {'is linked' if is_new else 'was linked already'}.")
