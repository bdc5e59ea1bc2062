"""The service behind the handlers: the one of this installation, or another one that a setting names."""

from __future__ import annotations

from functools import cache
from typing import cast

from django.conf import settings
from django.utils.module_loading import import_string

from integration.authority.protocols import ConnectorEventsAdminService


def connector_events() -> ConnectorEventsAdminService:
    """Return the service that the setting names; made once a process.

    Raises:
        ImportError: The setting names nothing that is there.
    """
    return _make(settings.LOCKHOUSE_CONNECTOR_EVENTS_SERVICE)


@cache
def _make(dotted_path: str) -> ConnectorEventsAdminService:
    return cast("ConnectorEventsAdminService", import_string(dotted_path)())
