"""`manage.py dlq batch`: bulk replays from a terminal."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from integration import errors
from integration.authority.listing import DeadFilters
from integration.authority.values import VIEW_PERMISSION, Ref
from integration.batches import reads, service
from integration.batches.expected import expect
from integration.batches.rights import demand_bulk, in_bulk
from integration.batches.selection import Selection, select
from integration.batches.values import HALT_AFTER, LARGEST, Batch
from integration.management.filters import add_filters, filters_of
from integration.scopes import Scope
from integration.values import Actor, plain

_MOVES: Final = {"go": service.go, "pause": service.pause, "resume": service.resume, "cancel": service.cancel}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the command prints: for a reader, and as one JSON document."""

    text: str
    document: Any


def add_verbs(parser: ArgumentParser) -> tuple[ArgumentParser, ...]:
    """Declare the verbs and their options; return their parsers."""
    verbs = parser.add_subparsers(dest="verb", required=True)
    create = verbs.add_parser("create", help="Select rows by filters or ids and have the workers replay them.")
    add_filters(create)
    create.add_argument("--all", action="store_true", help="Without any filter: everything that is dead.")
    create.add_argument("--ref", action="append", dest="refs", help="A WorkId or an EventId; may be repeated.")
    create.add_argument("--reason", required=True, help="Why, 1 to 500 characters on one line.")
    create.add_argument("--cap", type=int, default=LARGEST, help=f"Rows at most ({LARGEST}).")
    create.add_argument("--canary", type=int, default=0, help="Replay so many, then wait for `go` (0).")
    create.add_argument("--halt-after", type=int, default=HALT_AFTER, help=f"Same refusals in a row ({HALT_AFTER}).")
    create.add_argument("--per-minute", type=int, default=0, help="Replays a minute at most; 0 is no limit.")
    create.add_argument("--expect-digest", help="Refuse if the selection is another one than a dry run showed.")
    create.add_argument("--idempotency-key", help="Names this request: the same one again makes no second batch.")
    create.add_argument("--dry-run", action="store_true", help="Count and digest the selection; writes nothing.")
    listing = verbs.add_parser("list", help="List bulk replays, newest first.")
    listing.add_argument("--before", help="`older` of another page.")
    show = verbs.add_parser("show", help="Show one bulk replay, its totals and its items.")
    show.add_argument("--after", type=int, default=0, help="Items behind this place.")
    show.add_argument("--limit", type=int, default=reads.PAGE_ROWS)
    go = verbs.add_parser("go", help="Let one go on that waits after its canary or was halted.")
    pause = verbs.add_parser("pause", help="Stop a running one for a while, before its next row.")
    resume = verbs.add_parser("resume", help="Let a paused one go on where it was.")
    cancel = verbs.add_parser("cancel", help="Stop one for good; what was replayed stays so.")
    moves = (go, pause, resume, cancel)
    for verb in moves:
        verb.add_argument("--reason", default="", help="Why; it goes into the audit trail.")
    for verb in (show, *moves):
        verb.add_argument("batch", help="The id of a bulk replay.")
    return create, listing, show, *moves


def run(actor: Actor, options: dict[str, Any]) -> Answer:
    """Run a verb as somebody.

    Raises:
        NotAllowed: He may not.
        IntegrationError: As the verb does.
    """
    within = actor.reach(VIEW_PERMISSION)
    if not within:
        raise errors.NotAllowed
    match options["verb"]:
        case "create":
            return _create(actor, options)
        case "list":
            return _list(options, within)
        case "show":
            return _show(options, within)
        case verb:
            batch = _MOVES[verb](options["batch"], actor=actor, reason=options["reason"])
    return Answer(text=_line(batch), document=plain(batch))


def _create(actor: Actor, options: Mapping[str, Any]) -> Answer:
    selection = _selection(options, actor.reach(VIEW_PERMISSION) if options["dry_run"] else demand_bulk(actor))
    if options["dry_run"]:
        expected = expect(selection, in_bulk(actor))
        more = " There are more; the latest to die were taken." if selection.is_capped else ""
        lines = [
            f"{len(selection.items)} rows, {selection.left_out} left out.{more}",
            f"of {expected.sampled} that were asked {expected.passing} would be replayed now",
            *(f"refused {one.count}: {one.code}: {one.sentence}" for one in expected.refusals),
            f"digest {selection.digest}",
        ]
        document = {**plain(selection), "items": len(selection.items), "expected": plain(expected)}
        return Answer(text="\n".join(lines), document=document)
    batch = service.create(
        selection,
        actor=actor,
        reason=options["reason"],
        canary=options["canary"],
        halt_after=options["halt_after"],
        per_minute=options["per_minute"],
        expected_digest=options["expect_digest"],
        idempotency_key=options["idempotency_key"],
    )
    more = "\nMore rows match; the latest to die were taken." if batch.is_capped else ""
    return Answer(text=_line(batch) + more, document=plain(batch))


def _selection(options: Mapping[str, Any], within: Scope) -> Selection:
    filters = filters_of(options)
    if options["refs"]:
        if filters != DeadFilters() or options["all"]:
            message = "Give filters or ids, not both."
            raise errors.InvalidInput(message, field="ref")
        return select(refs=[Ref.parse(text) for text in options["refs"]], within=within)
    if filters == DeadFilters() and not options["all"]:
        message = "Give a filter or ids, or --all for everything that is dead."
        raise errors.InvalidInput(message, field="selection")
    return select(filters, cap=options["cap"], within=within)


def _list(options: Mapping[str, Any], within: Scope) -> Answer:
    page = reads.list_batches(options["before"], within=within)
    lines = [_line(batch) for batch in page.batches] or ["No bulk replays."]
    if page.older is not None:
        lines.append(f"older: --before {page.older}")
    return Answer(text="\n".join(lines), document=plain(page))


def _show(options: Mapping[str, Any], within: Scope) -> Answer:
    if not 1 <= options["limit"] <= LARGEST:
        message = f"A page has 1 to {LARGEST} rows."
        raise errors.InvalidInput(message, field="limit")
    batch = reads.get_batch(options["batch"], within=within)
    items = reads.list_items(batch.id, options["after"], options["limit"])
    refusals = reads.refusals(batch.id)
    lines = [_line(batch), f"by {batch.created_by_name}, because: {batch.reason}"]
    lines += [f"refused {count}: {code}" for code, count in refusals.items()]
    lines += [
        "\t".join(
            (str(item.position), item.ref, item.outcome or "left", item.code or item.child_work_id or "")
        ).rstrip()
        for item in items
    ]
    return Answer(text="\n".join(lines), document={**plain(batch), "refusals": refusals, "items": plain(items)})


def _line(batch: Batch) -> str:
    totals = batch.totals
    state = f"{batch.state} ({batch.halt_code})" if batch.halt_code else batch.state
    return (
        f"{batch.id}  {state}  {totals.replayed} replayed, {totals.refused} refused, {totals.lost_race} lost, "
        f"{totals.vanished} vanished, {totals.left} left, of {batch.total}"
    )
