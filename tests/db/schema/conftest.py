"""A database of its own for each test, and a Django connection to it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import load_backend

from tests.support.sessions import scratch_database


@pytest.fixture
def empty(django_db_modify_db_settings: None, django_db_blocker: Any) -> Iterator[BaseDatabaseWrapper]:
    """Return a connection to an empty database, with the program's own options."""
    with scratch_database() as name:
        settings = copy.deepcopy(connections["default"].settings_dict)
        settings["NAME"] = name
        connection: BaseDatabaseWrapper = load_backend(settings["ENGINE"]).DatabaseWrapper(settings, "empty")
        with django_db_blocker.unblock():
            yield connection
            connection.close()
