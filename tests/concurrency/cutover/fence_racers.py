"""What the processes of the fences' races run; the control takes the barrier away in its own process alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from integration.authority import service as authority
from integration.authority.values import BOTH_PERMISSIONS, Ref, Replayed
from integration.cutover.fences import service
from integration.cutover.rights import CUTOVER_PERMISSION
from integration.errors import Busy
from integration.ingress import materialize
from integration.ingress.service import materialize_ready
from integration.values import Actor
from tests.support import webhooks
from tests.support.admission import materialize_patiently
from tests.support.meetings import await_file, await_lock, hold_until_waited_for
from tests.support.work import query

DELIA = Actor(user_id=21, name="delia", permissions=BOTH_PERMISSIONS | {CUTOVER_PERMISSION})
MARIA = Actor(user_id=22, name="maria", permissions=BOTH_PERMISSIONS)
PACKS = "_System_ConnectorPackInstall"
ARMED = "armed"


def admitted() -> list[int]:
    """Return how many Events and WorkItems there are: each admission and each replay adds to both."""
    tables = ("_System_ConnectorEvent", "_System_ConnectorWorkItem")
    return [int(query(f"SELECT COUNT(*) AS Found FROM {table}")[0]["Found"]) for table in tables]


def _hold(folder: str, point: str, until: str) -> Any:
    """Stop at a point with the pack's row held: until somebody waits for it, or until the fence's arming returned."""

    def failpoint(name: str) -> None:
        if name != point:
            return
        if until == "waited_for":
            hold_until_waited_for(Path(folder), PACKS)
        else:
            (Path(folder) / "locked").touch()
            await_file(Path(folder) / ARMED)

    return failpoint


def admit(folder: str, until: str) -> int:
    """Materialize, and stop with everything written and nothing committed."""
    materialize.failpoint = _hold(folder, "materialize.before_commit", until)
    return materialize_ready()


def admit_late(folder: str, *, is_stale: bool) -> int:
    """Materialize, and come to the pack's row only when arming has returned.

    Args:
        folder: Where the processes meet.
        is_stale: The fences are read before the row is locked, which is what must not be done.
    """
    lock_pack, read_fences = materialize.lock_pack, materialize.read_fences

    def lock_late(tx: Any, pack_install_id: str) -> Any:
        seen = read_fences(tx, "demo")
        (Path(folder) / "locked").touch()
        await_file(Path(folder) / ARMED)
        if is_stale:
            materialize.read_fences = lambda *_: seen
        return lock_pack(tx, pack_install_id)

    materialize.lock_pack = lock_late
    return materialize_ready()


def replay(folder: str, until: str, ref: str) -> str:
    """Replay, and stop when every rule has let it through and nothing is written yet."""
    authority.failpoint = _hold(folder, "replay.decided", until)
    outcome = authority.replay(Ref.parse(ref), actor=MARIA, reason="mended")
    return "replayed" if isinstance(outcome, Replayed) else outcome.code


def arm(folder: str, namespace: str, *, barrier: bool = True) -> list[int]:
    """Arm once the other holds the pack's row; return what is admitted at the moment at which arming returned."""
    if not barrier:
        service.await_admissions = lambda *_, **__: ()
    await_lock(Path(folder))
    service.arm_fence(namespace, "*", reason="cutover", actor=DELIA)
    found = admitted()
    (Path(folder) / ARMED).touch()
    return found


def arm_in_the_middle(folder: str, sides: list[str]) -> list[int]:
    """Arm while all the others are at it."""
    for side in sides:
        await_file(Path(folder) / side)
    service.arm_fence("demo", "*", reason="cutover", actor=DELIA)
    found = admitted()
    (Path(folder) / ARMED).touch()
    return found


def post_all(folder: str, base: str, count: int) -> int:
    """Post as a provider does, before the fence and behind it; return how many were acknowledged."""
    place, acknowledged = Path(folder), 0
    for number in range(count):
        if number == count // 2:
            await_file(place / ARMED)
        while (status := webhooks.send(base, webhooks.deal(number), f"d-{number}")) == 503:
            pass
        assert status == 200
        acknowledged += 1
        (place / "posting").touch()
    (place / "posted").touch()
    return acknowledged


def materialize_all(folder: str) -> int:
    """Materialize in small pages until everything is posted, and once more."""
    place, done, is_over = Path(folder), 0, False
    while not is_over:
        is_over = (place / "posted").exists()
        done += materialize_patiently(2)
        if done:
            (place / "materializing").touch()
    return done


def replay_all(folder: str, refs: list[str]) -> list[str]:
    """Replay half of the rows before the fence or while it is armed, the others behind it; return what came of each."""
    place, outcomes = Path(folder), []
    for number, ref in enumerate(refs):
        if number == len(refs) // 2:
            await_file(place / ARMED)
        outcome = None
        while outcome is None:
            with suppress(Busy):
                outcome = authority.replay(Ref.parse(ref), actor=MARIA, reason="mended")
        outcomes.append("replayed" if isinstance(outcome, Replayed) else outcome.code)
        (place / "replaying").touch()
    return outcomes


def play(part: str, options: dict[str, Any]) -> Any:
    """Play one part of a race."""
    return _PARTS[part](**options)


_PARTS: dict[str, Any] = {
    "admit": admit,
    "admit_late": admit_late,
    "replay": replay,
    "arm": arm,
    "arm_in_the_middle": arm_in_the_middle,
    "post_all": post_all,
    "materialize_all": materialize_all,
    "replay_all": replay_all,
}
