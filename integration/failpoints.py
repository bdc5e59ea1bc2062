"""Named points at which a test kills the process, to prove that nothing is lost or done twice.

Inert unless `LOCKHOUSE_FAILPOINT` names one, which only a test process may set.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

from integration.errors import SetupError

_ARMED: Final = os.environ.get("LOCKHOUSE_FAILPOINT", "")
_FIRED_FILE: Final = os.environ.get("LOCKHOUSE_FAILPOINT_FIRED", "")

if _ARMED and os.environ.get("LOCKHOUSE_TESTING") != "1":
    _message = "LOCKHOUSE_FAILPOINT is set outside a test; unset it"
    raise SetupError(_message)


def failpoint(name: str) -> None:
    """Kill this process with SIGKILL if this point is armed.

    Args:
        name: `noun.place`, for instance `claim.after_commit`. The file that LOCKHOUSE_FAILPOINT_FIRED names gets
            the name first, so that a test can assert that the point was reached.
    """
    if name != _ARMED:
        return
    if _FIRED_FILE:
        Path(_FIRED_FILE).write_text(name, encoding="ascii")
    os.kill(os.getpid(), signal.SIGKILL)
