"""Gunicorn with a guard taken away: a store that failed, or was never answered, counts as stored."""

from __future__ import annotations

import contextlib
from typing import Any

from gunicorn.app.wsgiapp import run

from integration.errors import IntegrationError
from integration.storage import db

if __name__ == "__main__":
    execute_alone = db.execute_alone

    def believe(*args: Any, **kwargs: Any) -> int:
        with contextlib.suppress(IntegrationError):
            return execute_alone(*args, **kwargs)
        return 1

    db.execute_alone = believe
    run()
