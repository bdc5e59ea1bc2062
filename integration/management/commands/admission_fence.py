"""`manage.py admission_fence`: arm, lift and override admission fences, and see what waits behind them."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError

from integration import errors
from integration.authority.values import VIEW_PERMISSION
from integration.cutover.fences import policy, reads, service
from integration.cutover.fences.barrier import WAIT_SECONDS
from integration.cutover.fences.values import Fence, Override
from integration.cutover.rights import demand_cutover
from integration.ingress.policy import EVERY_SCOPE
from integration.ingress.reads import Backlog
from integration.management.operators import check_text, find_operator
from integration.values import Actor, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the command prints: for a reader, and as one JSON document."""

    text: str
    document: Any


class Command(BaseCommand):
    """Stop admission and replay in a namespace, and let them go on; receipts are stored all the time."""

    help = "Admission fences. Exit 0 done, 1 error, 2 usage, 3 refused with a code, 4 not found, 5 permission denied."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the verbs and their options."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        arm = verbs.add_parser("arm", help="Arm one; returns when every admission that began before has ended.")
        arm.add_argument("namespace")
        arm.add_argument("--scope", default=EVERY_SCOPE, help="One event kind; every kind when left out.")
        arm.add_argument("--wait-seconds", type=float, default=WAIT_SECONDS, help="For what began before (60).")
        arm.add_argument("--dry-run", action="store_true", help="Say what it would stop; writes nothing.")
        lift = verbs.add_parser("lift", help="Lift one: what waited becomes work.")
        lift.add_argument("fence", help="The id of a fence.")
        status = verbs.add_parser("status", help="Show what is armed and what waits behind it.")
        status.add_argument("--namespace", help="Of this namespace alone, armed or not.")
        override = verbs.add_parser("override", help="Let one event kind through a fence, or stop it again.")
        changes = override.add_subparsers(dest="change", required=True)
        grant = changes.add_parser("grant", help="Let a scope through.")
        grant.add_argument("fence", help="The id of a fence.")
        grant.add_argument("--scope", required=True, help="One event kind, or * for all that the fence stops.")
        close = changes.add_parser("lift", help="Stop it again; returns when what it let through has ended.")
        close.add_argument("override", help="The id of an override.")
        for verb in (arm, grant):
            verb.add_argument("--expires-in", help="Ends by itself after 90s, 30m, 2h or 1d; never when left out.")
            verb.add_argument("--reason", required=True, help="Why, 1 to 500 characters on one line.")
        for verb in (lift, close):
            verb.add_argument("--reason", default="", help="Why; it goes into the audit trail.")
        for verb in (arm, lift, status, grant, close):
            verb.add_argument("--as", dest="operator", required=True, help="Whose rights count, by user name.")
            verb.add_argument("--json", action="store_true", help="Print one JSON document.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the verb; print; map an error to its exit code."""
        try:
            answer = _run(options)
        except errors.IntegrationError as error:
            if options["json"]:
                self._document({"error": error.code, "message": error.operator_message(), **plain(error.data_fields)})
            else:
                self.stderr.write(f"{error.code}: {error.operator_message()}")
            sys.exit(error.exit_code)
        if options["json"]:
            self._document(answer.document)
        else:
            self.stdout.write(answer.text)

    def _document(self, document: Any) -> None:
        self.stdout.write(json.dumps(document, ensure_ascii=False, sort_keys=True))


def _run(options: dict[str, Any]) -> Answer:
    check_text(options)
    try:
        actor = find_operator(options["operator"])
        match options["verb"]:
            case "arm":
                return _arm(actor, options)
            case "lift":
                fence = service.lift_fence(options["fence"], actor=actor, reason=options["reason"])
                return Answer(text=f"lifted {_fence(fence)}", document=plain(fence))
            case "override" if options["change"] == "grant":
                return _grant(actor, options)
            case "override":
                override = service.lift_override(options["override"], actor=actor, reason=options["reason"])
                return Answer(text=f"stopped again: {override.scope}", document=plain(override))
            case _:
                return _status(actor, options["namespace"])
    except (OperationalError, InterfaceError):
        # Plain reads pass the driver's error on, and its text names the server and the account.
        raise errors.DatabaseUnavailable from None


def _arm(actor: Actor, options: dict[str, Any]) -> Answer:
    namespace, scope = options["namespace"], options["scope"]
    expires_in = None if options["expires_in"] is None else policy.parse_duration(options["expires_in"])
    if options["dry_run"]:
        demand_cutover(actor, namespace)
        effect = reads.read_effect(namespace, policy.check_scope(scope))
        stops = ", ".join(effect.stopped) or "nothing that has a route now"
        text = f"would stop {stops}\n{effect.received_a_minute:.1f} receipts a minute come; {_waits(effect.backlog)}"
        return Answer(text=text, document={**plain(effect), "received_a_minute": effect.received_a_minute})
    armed = service.arm_fence(
        namespace,
        scope,
        expires_in=expires_in,
        reason=options["reason"],
        actor=actor,
        wait_seconds=options["wait_seconds"],
    )
    was = "armed" if armed.is_new else "was armed already"
    text = f"{was}: {_fence(armed.fence)}\nNothing that began before is under way any more."
    return Answer(text=text, document=plain(armed))


def _grant(actor: Actor, options: dict[str, Any]) -> Answer:
    granted = service.grant_override(
        options["fence"],
        options["scope"],
        expires_in=None if options["expires_in"] is None else policy.parse_duration(options["expires_in"]),
        reason=options["reason"],
        actor=actor,
    )
    was = "lets through" if granted.is_new else "lets through already"
    return Answer(text=f"{was}: {_override(granted.override)}", document=plain(granted))


def _status(actor: Actor, namespace: str | None) -> Answer:
    within = actor.reach(VIEW_PERMISSION)
    if not within:
        raise errors.NotAllowed
    status = reads.read_status(namespace, within=within)
    lines = []
    for fence in status.armed:
        lines += [_fence(fence), f"  by {fence.armed_by}: {fence.reason}"]
        lines += [f"  lets through {_override(override)}" for override in fence.live_overrides]
    for waiting in status.waiting:
        refused = f", {waiting.replays_refused} replays refused" if waiting.replays_refused else ""
        lines.append(f"{waiting.namespace}: {_waits(waiting.backlog)}{refused}")
    return Answer(text="\n".join(lines) or "No fence is armed.", document=plain(status))


def _fence(fence: Fence) -> str:
    what = "every kind" if fence.scope == EVERY_SCOPE else fence.scope
    return f"{fence.fence_id}  {fence.namespace}  {what}  {_until(fence.expires_at)}"


def _override(override: Override) -> str:
    what = "every kind" if override.scope == EVERY_SCOPE else override.scope
    return f"{override.override_id}  {what}  {_until(override.expires_at)}"


def _until(moment: datetime | None) -> str:
    return "until it is lifted" if moment is None else f"until {moment:%Y-%m-%d %H:%M:%SZ}"


def _waits(backlog: Backlog) -> str:
    if backlog.oldest_age_seconds is None:
        return "no receipt waits"
    more = "+" if backlog.is_capped else ""
    return f"{backlog.count:,}{more} receipts wait, the oldest for {backlog.oldest_age_seconds:.0f} s"
