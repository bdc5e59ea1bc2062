"""The test databases: which engine, one database a worker, every table, and clean again after each test."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from django.test import TransactionTestCase
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from console.settings import databases
from tests.support import cleaning, servers

pytest_plugins = ("tests.support.evidence", "tests.support.recorder")
_URL = "LOCKHOUSE_TEST_SERVER_URL"
_running = contextlib.ExitStack()

# How long an example takes says nothing of the program on a machine that runs much besides.
hypothesis_settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("tests")


def _use(url: str) -> None:
    settings.DATABASES["default"].clear()
    settings.DATABASES["default"].update(databases(url)["default"])
    with contextlib.suppress(AttributeError):
        delattr(connections._connections, "default")
    connections.settings = connections.configure_settings(settings.DATABASES)


def _start() -> None:
    if _URL not in os.environ:
        os.environ[_URL] = _running.enter_context(servers.server(servers.engine()))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the server in the controller when there are workers, so that they share it."""
    numprocesses = getattr(session.config.option, "numprocesses", None)
    if numprocesses and not hasattr(session.config, "workerinput") and not session.config.option.collectonly:
        _start()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server, if this process started it."""
    _running.close()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> Iterator[None]:
    """Point Django at the test server; without workers this is where it starts."""
    _start()
    _use(os.environ[_URL])
    suffix = os.environ.get("PYTEST_XDIST_WORKER")
    if suffix:
        settings.DATABASES["default"]["TEST"]["NAME"] = f"test_{settings.DATABASES['default']['NAME']}_{suffix}"
    return None


def _install_schema() -> None:
    try:
        from integration.storage.install import install_schema
    except ImportError as error:
        message = "integration.storage.install.install_schema is missing: the _System_ tables cannot be made"
        raise pytest.UsageError(message) from error
    install_schema(connections["default"])


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Create the tables that migrations do not own, once a worker."""
    with django_db_blocker.unblock():
        _install_schema()
        cleaning.remember_reference_rows()


def _clean(self: TransactionTestCase) -> None:
    cleaning.empty_database()


# Django's own flush knows managed tables only, and rebuilds permissions every time.
TransactionTestCase._fixture_teardown = _clean  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def engine() -> str:
    """Return the engine under test: `mariadb` or `tidb`."""
    return servers.engine()


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """Return the address of this worker's test database, for a process that a test starts."""
    request.getfixturevalue("transactional_db")
    server, _, query = os.environ[_URL].partition("?")
    base = server.rsplit("/", 1)[0]
    return f"{base}/{connections['default'].settings_dict['NAME']}?{query}"
