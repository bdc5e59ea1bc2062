"""A scratch database for the whole run, and sessions on it that are closed after each test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.support.sessions import Session, scratch_database


@pytest.fixture(scope="session")
def scratch(django_db_modify_db_settings: None) -> Iterator[str]:
    """Return the name of a database that only these tests use."""
    with scratch_database() as name:
        yield name


@pytest.fixture
def connect(scratch: str) -> Iterator[Callable[..., Session]]:
    """Return a function that opens a session; a lock wait ends after a second unless told otherwise."""
    opened: list[Session] = []

    def open_session(**options: int) -> Session:
        session = Session(scratch, **options)
        opened.append(session)
        return session

    yield open_session
    for session in reversed(opened):
        session.close()


@pytest.fixture
def table() -> str:
    """Return a table name that no other test uses; tables go with the scratch database."""
    return f"T{uuid.uuid4().hex[:12]}"


@pytest.fixture
def items(connect: Callable[..., Session], table: str) -> str:
    """Return a table of three rows: Id 1 to 3, Value 0."""
    session = connect()
    session.run(f"CREATE TABLE {table} (Id INT NOT NULL PRIMARY KEY, Value INT NOT NULL) ENGINE=InnoDB")
    session.run(f"INSERT INTO {table} VALUES (1, 0), (2, 0), (3, 0)")
    return table
