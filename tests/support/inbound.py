"""Inbound cutovers for tests: who runs them, and what they leave."""

from __future__ import annotations

from typing import Any, Final

from integration.cutover import receipts
from integration.cutover.inbound.claimers import evict_claimers
from integration.cutover.inbound.service import Forwarded, move_forward
from integration.cutover.receipts import Direction
from integration.cutover.rights import CUTOVER_PERMISSION
from integration.storage import db
from integration.storage.db import Tx
from integration.storage.locks import lock_pack
from integration.values import Actor, new_id
from tests.support.commands import Ended, run
from tests.support.dlq import operator
from tests.support.work import Pack, Row, query

OWNER: Final = Actor(user_id=None, name="owner", permissions=frozenset({CUTOVER_PERMISSION}))
REASON: Final = "WorkItems take over"
ATTESTED: Final = "Every host of the old build is off; seen to by the owner"


def forward(pack: Pack, **options: Any) -> Forwarded:
    """Hand a pack's work to WorkItems, as an operator who attests."""
    asked = {"actor": OWNER, "reason": REASON, "attestation": ATTESTED, "timeout_seconds": 0.0, **options}
    return move_forward(pack.pack_id, **asked)


def arguments(pack: Pack, verb: str, *options: str) -> list[str]:
    """Return what a terminal would be given; the account is made at the first call."""
    if not query("SELECT id FROM console_user WHERE username = 'owner'"):
        operator("owner", "Admin")
    asked = ["inbound_cutover", verb, "--pack-install-id", pack.pack_id, "--json"]
    if verb in {"forward", "abandon"}:
        asked += ["--as", "owner", "--reason", REASON]
    if verb == "forward":
        asked += ["--attest", ATTESTED]
    return [*asked, *options]


def command(pack: Pack, verb: str, *options: str) -> Ended:
    """Run a verb in this process."""
    return run(*arguments(pack, verb, *options))


def receipts_of(pack: Pack) -> list[Row]:
    """Return a pack's receipts, oldest first."""
    return query(
        "SELECT * FROM _System_ConnectorCutoverReceipt WHERE PackInstallId = %s ORDER BY OwnerGeneration", pack.pack_id
    )


def roll_back(pack: Pack) -> str:
    """Evict a pack's claimers and write a rollback's receipt, as a rollback that hands nothing over does."""
    receipt_id = new_id()

    def unit(tx: Tx) -> None:
        locked = lock_pack(tx, pack.pack_id)
        evict_claimers(locked, actor=OWNER)
        receipts.append(
            locked, receipt_id=receipt_id, direction=Direction.ROLLBACK, kind="inbound_rollback", facts={}, actor=OWNER
        )

    db.run(unit, name="tests.roll_back")
    return receipt_id


def work_of(event_id: str) -> list[Row]:
    """Return the WorkItems that name an Event."""
    return query("SELECT * FROM _System_ConnectorWorkItem WHERE EventId = %s", event_id)


def actions() -> list[tuple[str, str]]:
    """Return what the audit trail tells of cutovers: action and outcome, in order."""
    rows = query(
        "SELECT action, outcome FROM console_auditentry WHERE action LIKE 'inbound_cutover.%%' ORDER BY at, id"
    )
    return [(row["action"].partition(".")[2], row["outcome"]) for row in rows]
