"""The verbs of `manage.py inbound_cutover` that give a pack's work back, and take note of what became of it."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from integration.cutover.inbound import projector, rollback
from integration.cutover.inbound.service import check_pack_install_id
from integration.management.builds import build_version
from integration.management.inbound import Answer, Verb, add_operator
from integration.management.operators import find_operator
from integration.values import plain


class Rollback:
    """Give the waiting work back to the Event executor."""

    name: ClassVar[str] = "rollback"
    help: ClassVar[str] = (
        "Stop the pack's claims, prove that nothing is in hand, and give its waiting work back to Events."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the verb's own options."""
        add_operator(parser)
        parser.add_argument(
            "--attest",
            default="",
            help="That no unregistered build claims WorkItems, and who saw to it, on one line.",
        )
        parser.add_argument(
            "--approve-build",
            action="append",
            help=f"A build whose Event executor is admitted, instead of this one ({build_version()}); may be repeated.",
        )
        parser.add_argument(
            "--chunk",
            type=int,
            default=rollback.CHUNK,
            help=f"How many WorkItems one transaction hands over, up to {rollback.LARGEST_CHUNK} ({rollback.CHUNK}).",
        )
        parser.add_argument("--abandon", action="store_true", help="Give up a rollback that has no receipt yet.")

    def run(self, options: Mapping[str, Any]) -> Answer:
        """Roll the pack back, or give the rollback up."""
        pack_install_id, reason = check_pack_install_id(options["pack_install_id"]), options["reason"]
        actor = find_operator(options["operator"])
        if options["abandon"]:
            fence_id = rollback.abandon(pack_install_id, actor=actor, reason=reason)
            text = "abandoned: WorkItems may be claimed again"
            return Answer(text=text, document={"abandoned": True, "rollback_fence_id": fence_id})
        wanted = options["approve_build"] or [build_version()]
        done = rollback.roll_back(
            pack_install_id,
            actor=actor,
            reason=reason,
            attestation=options["attest"],
            approved_builds=wanted,
            chunk=options["chunk"],
        )
        said = "rolled back" if done.is_new else "was rolled back already"
        text = (
            f"{said}: receipt {done.receipt_id}, owner generation {done.owner_generation}\n"
            f"{done.item_count} WorkItems wait for the Event executor under fence {done.fence_id}\n"
            f"its receipt admits an Event executor of these builds: {', '.join(done.approved_builds)}"
        )
        if left_out := [build for build in wanted if build.strip() not in done.approved_builds]:
            text += f"\nnot admitted, since a receipt is never changed: {', '.join(left_out)}"
        return Answer(text=text, document=plain(done))


class Reconcile:
    """Store what the Event executor did."""

    name: ClassVar[str] = "reconcile"
    help: ClassVar[str] = (
        "Store on a rollback's WorkItems what the Event executor did; close the fence when all have ended."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the verb's own options."""
        parser.add_argument("--as", dest="operator", required=True, help="Whose rights count, by user name.")

    def run(self, options: Mapping[str, Any]) -> Answer:
        """Reconcile the pack's rollback; work that is left is no error."""
        pack_install_id = check_pack_install_id(options["pack_install_id"])
        done = projector.reconcile(pack_install_id, actor=find_operator(options["operator"]))
        if done.fence_id is None:
            text = "nothing to reconcile"
        else:
            text = (
                f"{done.reconciled} reconciled, {done.lost} found unknown; {done.awaiting} still wait, "
                f"{done.unknown} are unknown\nfence {done.fence_id}: {'closed' if done.is_closed else 'not closed'}"
            )
        return Answer(text=text, document=plain(done))


VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in (Rollback(), Reconcile())}
