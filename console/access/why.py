"""Why somebody may or may not do something: the checks in the order in which the code makes them."""

from __future__ import annotations

from typing import Final

from console.access.policy import GRANTABLE, IMPLIED
from console.access.reads import GrantState, rights_of, with_state
from console.models import User
from console.permissions import BULK, REPLAY, VIEW
from integration import errors
from integration.authority import reads, service
from integration.authority.values import OwnerAmbiguous, Ref, Ruling, Verdict
from integration.scopes import Scope
from integration.values import Actor

#: What each action asks for, one key after the other, as its page does.
NEEDS: Final[dict[str, tuple[str, ...]]] = {
    key: (key,) if key == VIEW or key.endswith("audit") else (VIEW, key) for key in GRANTABLE
}
#: What a row says of itself; for these the plan's rules are asked too.
_REPLAYS: Final = frozenset({REPLAY, BULK})
#: Why a grant gives nothing, by its state.
_STANDS: Final = {
    GrantState.PROPOSED.value: " The newest grant of it waits for a second person.",
    GrantState.EXPIRED.value: " The newest grant of it has run out.",
    GrantState.REVOKED.value: " The newest grant of it was revoked.",
    GrantState.IN_FORCE.value: " The newest grant of it covers no namespace that there is.",
}
#: The plan's first rules ask again what the steps before them have told.
_TOLD: Final = frozenset({"permission_denied", "not_found"})


def explain(user: User, action: str, ref: Ref | None, *, asker: Actor) -> tuple[Verdict, ...]:
    """Return every check of an action by an account, on a row if one is named.

    Args:
        user: Whose action it is.
        action: A key of `NEEDS`.
        ref: The row; None to ask about the permission alone.
        asker: Who wants to know: nothing is told of a row that he may not view himself.

    Returns:
        The verdicts in the order in which the code asks; the plan's rules once nothing before them refuses.

    Locks: none.
    """
    steps = [_open(user)]
    rights = rights_of(user)
    reaches = {key: rights.reach(key) for key in NEEDS[action]}
    steps += [_held(user, key, reach) for key, reach in reaches.items()]
    if ref is None:
        return tuple(steps)
    try:
        namespace = reads.get_detail(ref, within=asker.reach(VIEW)).row.namespace
    except errors.NotFound:
        return (*steps, _no("not_found", "There is no such row in what you may see yourself.", "Check the id."))
    except OwnerAmbiguous as error:
        return (*steps, _no(error.code, error.operator_message(), "Repair the data; no right helps."))
    steps += [_covered(key, reach, namespace) for key, reach in reaches.items()]
    if action in _REPLAYS and all(step.ruling is Ruling.OK for step in steps):
        actor = Actor(user_id=user.pk, name=user.username, permissions=rights.permissions, scopes=rights.scopes)
        steps += [step for step in service.plan(ref, actor).verdicts if step.code not in _TOLD]
    return tuple(steps)


def _open(user: User) -> Verdict:
    if user.is_active:
        return _ok("signed_out", "The account is open; it may sign in.")
    return _no("signed_out", "The account is closed: every request is answered with the sign-in page.", "Open it.")


def _held(user: User, key: str, reach: Scope) -> Verdict:
    verb = GRANTABLE[key].lower()
    if not reach:
        return _no(
            "permission_denied",
            f"No group, no permission of the account and no grant in force lets it {verb}.{_last_grant(user, key)}",
            "Grant it, or add the account to a group that may.",
        )
    if reach.is_everywhere:
        return _ok("permission_denied", f"It may {verb}, everywhere: {_source(user, key)}.")
    count = len(reach.places)
    return _ok("permission_denied", f"It may {verb} in {count} namespace{'' if count == 1 else 's'}, by grants.")


def _last_grant(user: User, key: str) -> str:
    """Say why the newest grant that would give a permission does not."""
    giving = [granted for granted in GRANTABLE if key in (granted, *IMPLIED.get(granted, ()))]
    last = with_state().filter(user=user, permission__in=giving).order_by("-id").first()
    return "" if last is None else _STANDS.get(last.state, "")


def _source(user: User, key: str) -> str:
    """Say what gives a permission everywhere."""
    if user.is_superuser:
        return "it is a superuser"
    asked = REPLAY if key == BULK else key
    app, _, codename = asked.partition(".")
    group = user.groups.filter(permissions__codename=codename, permissions__content_type__app_label=app).first()
    if group is not None:
        return f"by the group {group.name}"
    if user.user_permissions.filter(codename=codename, content_type__app_label=app).exists():
        return "by a permission of its own"
    return "by a grant without a place"


def _covered(key: str, reach: Scope, namespace: str) -> Verdict:
    verb = GRANTABLE[key].lower()
    if not reach:
        return Verdict(code="out_of_scope", ruling=Ruling.NOT_REACHED, sentence=f"Where it may {verb} was not asked.")
    if reach.covers(namespace):
        return _ok("out_of_scope", f"The row's namespace is one where it may {verb}.", namespace=namespace)
    if key == VIEW:
        sentence = "The row's namespace is none where it may view: it is told that there is no such row."
    else:
        sentence = f"The row's namespace is none where it may {verb}."
    return _no("out_of_scope", sentence, "Grant it for this namespace.", namespace=namespace)


def _ok(code: str, sentence: str, **facts: str) -> Verdict:
    return Verdict(code=code, ruling=Ruling.OK, sentence=sentence, facts=facts)


def _no(code: str, sentence: str, next_step: str, **facts: str) -> Verdict:
    return Verdict(code=code, ruling=Ruling.REFUSED, sentence=sentence, facts=facts, next_step=next_step)
