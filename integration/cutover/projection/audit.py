"""The audit of a projection cutover: everything without locks, then again under them what can have changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from integration.cutover.projection import reads
from integration.cutover.projection.history import SHOWN, Finding, Rows, Tally, findings_of
from integration.cutover.projection.patience import Patience
from integration.cutover.projection.policy import (
    Conditions,
    CutoverRefused,
    Reason,
    decide_conditions,
    decide_unchanged,
)
from integration.storage.db import Reader, Tx

#: Told how many Events were read, and how many there may be; 0 when that is not known.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was read without locks.

    Attributes:
        pack: The incarnation.
        began_at: The database's time before anything was read.
        conditions: As of then.
        findings: What refuses, in the order in which it is asked; empty when nothing does.
        events: How many Events were read.
        inputs: How many of them are inputs of source projections.
        indirect: How many of those no WorkItem names.
    """

    pack: reads.Pack
    began_at: datetime
    conditions: Conditions
    findings: tuple[Finding, ...]
    events: int = 0
    inputs: int = 0
    indirect: int = 0


def audit(reader: Reader, pack: reads.Pack, patience: Patience, progress: Progress, *, is_whole: bool) -> Audit:
    """Read everything that can refuse a cutover.

    Args:
        reader: Where to read, without locks.
        pack: The incarnation.
        patience: Asked after each page.
        progress: Told after each page.
        is_whole: Read the history also where something refuses without it.

    Raises:
        TimeIsUp: It took too long.
        Stopped: It was asked to stop.

    Rule: P-14, P-15.
    """
    began_at = reads.read_time(reader)
    conditions = reads.read_conditions(reader, pack, since=began_at)
    refusing = list(decide_conditions(conditions))
    unended = reads.read_unended(reader, pack, limit=SHOWN) if is_whole or not refusing else Rows()
    found = {Reason.UNENDED_WORK: unended} if unended.count else {}
    tally, events = Tally(), 0

    def step(done: int) -> None:
        nonlocal events
        events = done
        progress(done, conditions.cutoff)
        patience.check()

    if is_whole or not (refusing or found):
        tally = reads.audit_history(reader, pack, step)
    for reason, rows in tally.found.items():
        found.setdefault(reason, Rows()).extend(rows)
    patience.check()
    return Audit(
        pack=pack,
        began_at=began_at,
        conditions=conditions,
        findings=findings_of(refusing, found),
        events=events,
        inputs=tally.inputs,
        indirect=tally.indirect,
    )


def look_again(tx: Tx, audited: Audit) -> tuple[Finding, ...]:
    """Ask again under the locks what can have changed since the audit; a few short ranges.

    Args:
        tx: Holds the namespace and the incarnation.
        audited: What nothing refused.

    Returns:
        What refuses now.

    Rule: P-14.
    """
    conditions = reads.read_conditions(tx, audited.pack, since=audited.began_at)
    refusing = list(decide_conditions(conditions))
    changed = decide_unchanged(audited.conditions, conditions)
    if changed is not None:
        refusing.append(changed)
    if reads.is_executing(tx, audited.pack):
        refusing.append(Reason.UNENDED_WORK)
    unended = reads.read_unended(tx, audited.pack, limit=1)
    return findings_of(refusing, {Reason.UNENDED_WORK: unended} if unended.count else {})


def refusal_of(findings: tuple[Finding, ...]) -> CutoverRefused:
    """Return the refusal of the first finding, with the counts of all."""
    counts = {finding.reason.value: finding.count for finding in findings}
    return CutoverRefused(findings[0].reason, found=counts, rows=[row.id for row in findings[0].rows])
