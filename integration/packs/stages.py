"""The deal stages that the demo flow accepts: a small file that an operator changes while the worker runs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Final

from django.conf import settings

from integration.errors import InvalidInput

FILE_NAME: Final = "demo-stages.json"
DEFAULT_STAGES: Final = frozenset({"prospecting", "qualified", "proposal", "won", "lost"})
_STAGE: Final = re.compile(r"[a-z][a-z0-9_]{0,40}", re.ASCII)


def stages_path() -> Path:
    """Return where the stages are kept."""
    return Path(settings.LOCKHOUSE_VAR_DIR) / FILE_NAME


def allowed_stages() -> frozenset[str]:
    """Return the stages that are allowed now; the default ones while nothing was changed.

    Raises:
        ValueError: The file is not a list of texts.
    """
    try:
        found = json.loads(stages_path().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return DEFAULT_STAGES
    if not isinstance(found, list) or not all(isinstance(stage, str) for stage in found):
        message = f"{FILE_NAME} is not a list of stages"
        raise ValueError(message)
    return frozenset(found)


def change_stages(*, allow: frozenset[str] = frozenset(), forbid: frozenset[str] = frozenset()) -> frozenset[str]:
    """Allow and forbid stages.

    Args:
        allow: Stages to accept from now on.
        forbid: Stages to reject from now on; it wins over `allow`.

    Returns:
        The stages that are allowed afterwards.

    Raises:
        InvalidInput: A stage is not a short lower-case word.
    """
    for stage in allow | forbid:
        if not _STAGE.fullmatch(stage):
            message = "a stage is a lower-case word of letters, digits and underscores"
            raise InvalidInput(message)
    stages = (allowed_stages() | allow) - forbid
    path = stages_path()
    draft = path.with_name(f".{FILE_NAME}.{os.getpid()}")
    draft.write_text(json.dumps(sorted(stages)) + "\n", encoding="utf-8")
    # A flow that reads meanwhile sees the old file or the new one, never a part.
    draft.replace(path)
    return stages
