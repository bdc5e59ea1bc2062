"""The flows of the packs that come with the program. They check and decide; none of them calls a provider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from integration.packs.stages import allowed_stages
from integration.work.flows import FlowContext, FlowRejected, FlowSkip, flow

_PROSPECT_EVENTS: Final = frozenset({"prospect.created", "prospect.updated", "prospect.destroyed"})


class TemporaryTrouble(RuntimeError):
    """The demo's stand-in for a dependency that is away for a while."""


@flow("demo.apply_deal", version=1)
def apply_deal(context: FlowContext) -> None:
    """Accept a deal whose stage is allowed.

    A stage that is not allowed is rejected until an operator allows it; a replay then succeeds. A deal may
    ask to fail its first attempts, to show retries.

    Raises:
        FlowRejected: The deal has no stage, or one that is not allowed.
        FlowSkip: The deal is marked as a test.
        TemporaryTrouble: The deal asks this attempt to fail.
    """
    deal = _object(context.payload, "deal")
    if deal.get("is_test") is True:
        raise FlowSkip
    fail_first = deal.get("fail_first", 0)
    if isinstance(fail_first, int) and context.attempt <= fail_first:
        raise TemporaryTrouble
    stage = deal.get("stage")
    if not isinstance(stage, str) or stage not in allowed_stages():
        raise FlowRejected


@flow("demo.apply_contact", version=1)
def apply_contact(context: FlowContext) -> None:
    """Accept a contact as its changes leave it: the payload is all of them, merged field by field.

    Raises:
        FlowRejected: There is no contact with an id, or an email that is none.
    """
    contact = _object(context.payload, "contact")
    email = contact.get("email")
    if contact.get("id") is None or (email is not None and (not isinstance(email, str) or "@" not in email)):
        raise FlowRejected


@flow("outreach.apply_prospect", version=1)
def apply_prospect(context: FlowContext) -> None:
    """Accept a prospect event of the published shape.

    Raises:
        FlowRejected: It is not a prospect with an id, or not one of its three events.
    """
    data = _object(context.payload, "data")
    meta = _object(context.payload, "meta")
    has_id = isinstance(data.get("id"), (int, str)) and not isinstance(data.get("id"), bool) and data.get("id") != ""
    if data.get("type") != "prospect" or not has_id or meta.get("eventName") not in _PROSPECT_EVENTS:
        raise FlowRejected
    # A destroyed prospect may come without attributes; the others say what changed.
    if meta["eventName"] != "prospect.destroyed":
        _object(data, "attributes")


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    if not isinstance(found, Mapping):
        raise FlowRejected
    return found
