"""The verbs of `manage.py inbound_cutover`, one class each."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

from integration import errors
from integration.cutover.inbound import service
from integration.cutover.inbound.verify import Status, Verification, read_status, verify
from integration.cutover.projection.patience import parse_timeout
from integration.cutover.receipts import Direction
from integration.management.operators import find_operator
from integration.values import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a verb has to say.

    Attributes:
        text: For a person; never ends with a line break.
        document: For a program, JSON values.
        exit_code: 0, or what the answer itself amounts to.
    """

    text: str
    document: Any
    exit_code: int = 0


class Verb(Protocol):
    """One verb of the command."""

    name: ClassVar[str]
    help: ClassVar[str]

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the verb's own options."""

    def run(self, options: Mapping[str, Any]) -> Answer:
        """Do it.

        Raises:
            IntegrationError: As the service does.
        """


def add_operator(parser: ArgumentParser) -> None:
    """Declare the options of a verb that changes something: whose rights count, and why."""
    parser.add_argument("--as", dest="operator", required=True, help="Whose rights count, by user name.")
    parser.add_argument("--reason", required=True, help="Why, 1 to 500 characters on one line.")


class Forward:
    """Hand the work to WorkItems."""

    name: ClassVar[str] = "forward"
    help: ClassVar[str] = "Stop the Event executor, materialize, drain, prove, and hand the work to WorkItems."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the verb's own options."""
        add_operator(parser)
        parser.add_argument(
            "--attest", default="", help="That every unregistered build is stopped, and who saw to it, on one line."
        )
        parser.add_argument(
            "--timeout",
            default=f"{service.TIMEOUT_SECONDS:g}s",
            help=f"How long to wait for what runs: 90, 90s, 5m ({service.TIMEOUT_SECONDS:g}s); 0 looks once.",
        )

    def run(self, options: Mapping[str, Any]) -> Answer:
        """Move the pack forward."""
        done = service.move_forward(
            options["pack_install_id"],
            actor=find_operator(options["operator"]),
            reason=options["reason"],
            attestation=options["attest"],
            timeout_seconds=_seconds(options["timeout"]),
        )
        said = "handed over" if done.is_new else "was handed over already"
        text = f"{said}: receipt {done.receipt_id}, owner generation {done.owner_generation}"
        if done.materialized or done.taken_back:
            text += f"\n{done.materialized} WorkItems made, {done.taken_back} lost claims taken back"
        return Answer(text=text, document=plain(done))


class Abandon:
    """Give up a cutover that has no receipt yet."""

    name: ClassVar[str] = "abandon"
    help: ClassVar[str] = "Give up a forward cutover that has no receipt yet: the Event executor may be started again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the verb's own options."""
        add_operator(parser)

    def run(self, options: Mapping[str, Any]) -> Answer:
        """Let Events be claimed again."""
        given = service.abandon(
            options["pack_install_id"], actor=find_operator(options["operator"]), reason=options["reason"]
        )
        text = "abandoned: Events may be claimed again" if given else "nothing to abandon: no claims were stopped"
        return Answer(text=text, document={"abandoned": given})


class Verify:
    """Say what the receipts still prove."""

    name: ClassVar[str] = "verify"
    help: ClassVar[str] = "Recompute the receipts' digests and chain, and hold the newest against today's rows."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the verb's own options: none."""

    def run(self, options: Mapping[str, Any]) -> Answer:
        """Verify; a receipt that does not hold is exit 3."""
        found = verify(options["pack_install_id"])
        code = 0 if found.holds else errors.EXIT_REFUSED
        return Answer(text=_say(found), document={**plain(found), "holds": found.holds}, exit_code=code)


class Show:
    """Say what stands in the way."""

    name: ClassVar[str] = "status"
    help: ClassVar[str] = "Say where the pack stands, and what still stands in the way."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the verb's own options: none."""

    def run(self, options: Mapping[str, Any]) -> Answer:
        """Read the status."""
        status = read_status(options["pack_install_id"])
        return Answer(text=_say_status(status), document=plain(status))


VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in (Forward(), Abandon(), Verify(), Show())}


def _seconds(text: str) -> float:
    """Return how long to wait, of seconds alone or of a number with a unit."""
    try:
        return float(text)
    except ValueError:
        return parse_timeout(text).total_seconds()


def _say(found: Verification) -> str:
    lines = [
        f"{one.owner_generation}  {one.direction}  {one.receipt_id}  {one.kind}  by {one.written_by}"
        for one in found.receipts
    ]
    lines += [f"FAULT  {fault.code} in generation {fault.owner_generation}: {fault.sentence}" for fault in found.faults]
    lines += [f"{'ok' if one.agrees else 'NO'}  {one.name}: {one.sentence}" for one in found.agreements]
    lines.append("It holds." if found.holds else "It does not hold.")
    return "\n".join(lines)


def _say_status(status: Status) -> str:
    newest = status.newest
    lines = [
        "no cutover receipt: Events are executed"
        if newest is None
        else f"{newest.direction}: receipt {newest.receipt_id}, owner generation {newest.owner_generation}"
    ]
    if status.is_under_way:
        lines.append("a forward cutover is under way: nobody claims until `forward` is run to its end, or `abandon`")
    lines += [f"{one.code}: {one.sentence} {one.next_step}" for one in status.obstacles]
    if newest is not None and newest.direction == Direction.FORWARD and not status.is_forward:
        lines.append("Nobody claims until the rollback is run to its end, or abandoned.")
    if status.is_forward:
        lines.append("WorkItems are executed.")
    return "\n".join(lines)
