"""The console's settings with one flow that does nothing."""

from __future__ import annotations

from console.settings import *  # noqa: F403
from console.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "bench.app"]
