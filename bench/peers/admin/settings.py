"""The console's own settings, accounts and sessions, with the peer's page in the Django admin."""

from __future__ import annotations

from console.settings import *  # noqa: F403
from console.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "bench.peers.admin"]
