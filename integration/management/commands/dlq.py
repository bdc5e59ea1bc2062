"""`manage.py dlq`: list, export, show, plan and replay dead work, one or many, under a named operator's rights."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError

from integration import errors
from integration.authority import reads, service
from integration.authority.listing import CappedCount, DeadPage
from integration.authority.values import VIEW_PERMISSION, Plan, Ref, Refused, Replayed, Ruling
from integration.exports.policy import Format
from integration.exports.service import export_dead
from integration.management import batches
from integration.management.exports import add_export, write_parts
from integration.management.filters import add_filters, filters_of
from integration.management.operators import check_text, find_operator
from integration.values import Actor, plain


class Command(BaseCommand):
    """Find dead work, see who owns it and whether it may be replayed, and replay it."""

    help = "Dead letters. Exit 0 done, 1 error, 2 usage, 3 refused with a code, 4 not found, 5 permission denied."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the actions and their options."""
        actions = parser.add_subparsers(dest="action", required=True)
        listing = actions.add_parser("list", help="List dead rows, latest death first.")
        add_filters(listing)
        listing.add_argument("--cursor", help="`newer` or `older` of another page.")
        listing.add_argument("--limit", type=int, default=reads.PAGE_ROWS)
        listing.add_argument("--count", action="store_true", help="Count too, up to a cap.")
        listing.add_argument("--oldest-first", action="store_true", help="Turn the order round.")
        export = actions.add_parser("export", help="Write the rows that match as a file; the audit trail tells of it.")
        add_filters(export)
        add_export(export)
        show = actions.add_parser("show", help="Show one row: owner and why, attempts, lineage, fences.")
        plan = actions.add_parser("plan", help="Show what a replay would do; writes nothing.")
        replay = actions.add_parser("replay", help="Replay one dead row.")
        for action in (show, plan, replay):
            action.add_argument("ref", help="A WorkId or an EventId.")
        replay.add_argument("--reason", required=True, help="Why, 1 to 500 characters on one line.")
        replay.add_argument("--idempotency-key", help="Names this request: the same one again changes nothing.")
        replay.add_argument("--dry-run", action="store_true", help="As `plan`.")
        for action in (plan, replay):
            action.add_argument("--route-version", type=int, help="Refuse if another route version is live.")
        batch = actions.add_parser("batch", help="Replay in bulk: create, show, list, go, pause, resume, cancel.")
        for action in (listing, export, show, plan, replay, *batches.add_verbs(batch)):
            action.add_argument("--as", dest="operator", required=True, help="Whose rights count, by user name.")
            action.add_argument("--json", action="store_true", help="Print one JSON document.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the action; print; map an error to its exit code."""
        try:
            code = self._run(options)
        except errors.IntegrationError as error:
            self._fail(error, as_json=options["json"])
            code = error.exit_code
        if code:
            sys.exit(code)

    def _run(self, options: dict[str, Any]) -> int:
        check_text(options)
        try:
            actor = find_operator(options["operator"])
            return int(getattr(self, f"_{options['action']}")(actor, options))
        except (OperationalError, InterfaceError):
            # Plain reads pass the driver's error on, and its text names the server and the account.
            raise errors.DatabaseUnavailable from None

    def _list(self, actor: Actor, options: dict[str, Any]) -> int:
        _demand(actor, VIEW_PERMISSION)
        filters = filters_of(options)
        within, oldest_first = actor.reach(VIEW_PERMISSION), options["oldest_first"]
        page = reads.list_dead(filters, options["cursor"], options["limit"], within=within, oldest_first=oldest_first)
        count = reads.count_dead(filters, within=within) if options["count"] else None
        if options["json"]:
            self._document({**plain(page), **({} if count is None else {"count": plain(count)})})
            return 0
        self._print_page(page)
        if count is not None:
            self.stdout.write(_match(count))
        return 0

    def _export(self, actor: Actor, options: dict[str, Any]) -> int:
        filters = filters_of(options)

        def begin() -> Iterator[str]:
            form = Format(options["format"])
            return export_dead(filters, actor=actor, form=form, oldest_first=options["oldest_first"])

        write_parts(begin, options["output"], self.stdout)
        return 0

    def _print_page(self, page: DeadPage) -> None:
        for row in page.rows:
            died = "-" if row.terminal_at is None else f"{row.terminal_at:%Y-%m-%d %H:%M:%SZ}"
            mark = "replayed" if row.replayed_at is not None else row.note or ""
            attempts = _counted(row.attempt, "attempt")
            shown = (row.ref.id, died, row.owner.value, row.namespace, row.event_kind, attempts, mark)
            self.stdout.write("\t".join(shown).rstrip())
        for rejected in page.rejected:
            self.stdout.write(f"left out: Event {rejected.event_id}: {rejected.sentence}")
        if page.searched_back_to is not None:
            self.stdout.write(f"searched back to {page.searched_back_to:%Y-%m-%d %H:%M:%SZ}; go on with --cursor")
        for word, cursor in (("newer", page.newer), ("older", page.older)):
            if cursor is not None:
                self.stdout.write(f"{word}: --cursor {cursor}")
        if not page.rows and page.newer is None and page.older is None:
            self.stdout.write("No dead rows match.")

    def _show(self, actor: Actor, options: dict[str, Any]) -> int:
        _demand(actor, VIEW_PERMISSION)
        detail = reads.get_detail(Ref.parse(options["ref"]), within=actor.reach(VIEW_PERMISSION))
        if options["json"]:
            self._document(plain(detail))
            return 0
        row = detail.row
        self.stdout.write(f"{row.ref}  {row.state}  {row.namespace}  {row.event_kind}")
        self.stdout.write(f"owner {detail.owner.kind}: {detail.owner.why.sentence} (rule {detail.owner.why.rule})")
        for attempt in detail.attempts:
            self.stdout.write(f"attempt {attempt.attempt}: {attempt.started_at:%H:%M:%SZ} {attempt.outcome or 'runs'}")
        for name, nodes in (("replays", detail.lineage.ancestors), ("child", detail.lineage.descendants)):
            for node in nodes:
                self.stdout.write(f"{name} {node.work_id or node.event_id} ({node.state})")
        for fence in detail.fences:
            self.stdout.write(f"fence {fence.fence_id} over {fence.scope}{' (overridden)' * fence.is_overridden}")
        return 0

    def _plan(self, actor: Actor, options: dict[str, Any]) -> int:
        plan = service.plan(Ref.parse(options["ref"]), actor, route=options["route_version"])
        if options["json"]:
            self._document(plain(plan))
        else:
            self._print_plan(plan)
        return 0 if plan.refusal is None else plan.refusal.exit_code

    def _print_plan(self, plan: Plan) -> None:
        signs = {Ruling.OK: "ok", Ruling.REFUSED: "NO", Ruling.NOT_REACHED: "--"}
        for verdict in plan.verdicts:
            # A code is the name of a refusal: beside "ok" it would say the opposite.
            code = f"{verdict.code}: " if verdict.ruling is Ruling.REFUSED else ""
            self.stdout.write(f"{signs[verdict.ruling]}  {code}{verdict.sentence}")
        for note in plan.notes:
            self.stdout.write(f"note: {note}")
        self.stdout.write(f"locks: {', '.join(plan.lock_order)}")
        if plan.refusal is None:
            self.stdout.write("A replay would go through now.")
        else:
            self.stdout.write(f"A replay would be refused: {plan.refusal.code}. {plan.refusal.next_step}")

    def _replay(self, actor: Actor, options: dict[str, Any]) -> int:
        if options["dry_run"]:
            return self._plan(actor, options)
        outcome = service.replay(
            Ref.parse(options["ref"]),
            actor=actor,
            reason=options["reason"],
            route=options["route_version"],
            idempotency_key=options["idempotency_key"],
        )
        if options["json"]:
            self._document({"outcome": "replayed" if isinstance(outcome, Replayed) else "refused", **plain(outcome)})
        elif isinstance(outcome, Replayed):
            again = " (this request was answered before)" if outcome.is_repeat else ""
            self.stdout.write(f"replayed {outcome.original}: child {outcome.child_work_id}{again}")
        else:
            self._print_refusal(outcome)
        return 0 if isinstance(outcome, Replayed) else outcome.exit_code

    def _print_refusal(self, refused: Refused) -> None:
        self.stderr.write(f"{refused.code}: {refused.sentence} {refused.next_step}")
        winner = refused.winner
        if winner is not None:
            at = "" if winner.at is None else f" at {winner.at:%Y-%m-%d %H:%M:%SZ}"
            self.stderr.write(
                f"won by {winner.actor_name or 'somebody'}{at}, child {winner.child_work_id or 'unknown'}"
            )

    def _batch(self, actor: Actor, options: dict[str, Any]) -> int:
        answer = batches.run(actor, options)
        if options["json"]:
            self._document(answer.document)
        else:
            self.stdout.write(answer.text)
        return 0

    def _document(self, document: Any) -> None:
        self.stdout.write(json.dumps(document, ensure_ascii=False, sort_keys=True))

    def _fail(self, error: errors.IntegrationError, *, as_json: bool) -> None:
        if as_json:
            self._document({"error": error.code, "message": error.operator_message(), **plain(error.data_fields)})
        else:
            self.stderr.write(f"{error.code}: {error.operator_message()}")


def _match(count: CappedCount) -> str:
    """Return a count as a sentence; of a search that stopped at its bound, among how many rows it counted."""
    if count.searched is not None:
        verb = "matches" if count.count == 1 else "match"
        return f"{count.count:,} of the {count.searched:,} rows that died last {verb}."
    return f"{count} {'row matches' if str(count) == '1' else 'rows match'}."


def _demand(actor: Actor, permission: str) -> None:
    if not actor.reach(permission):
        raise errors.NotAllowed


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
