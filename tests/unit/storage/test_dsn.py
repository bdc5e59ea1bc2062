"""An address names a database and who asks; whatever else it holds is refused by name and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connections

from integration import errors
from integration.storage.dsn import register_dsn

ALIAS, NAME, SECRET = "cutover_of_a_test", "CONNECTOR_CUTOVER_DSN", "s3cr3t"
ADDRESS = f"mysql://somebody:{SECRET}@db.example:3307/lockhouse"


@pytest.fixture(autouse=True)
def no_alias_is_left() -> Iterator[None]:
    yield
    connections.settings.pop(ALIAS, None)


def register(dsn: str) -> None:
    register_dsn(dsn, name=NAME, alias=ALIAS, timeout_seconds=30)


def test_address__has_the_session_of_the_settings_whatever_it_names():
    register(f"{ADDRESS}?unix_socket=/run/db.sock")
    found, default = connections.settings[ALIAS], connections.settings["default"]
    assert [found[key] for key in ("HOST", "PORT", "USER", "NAME")] == ["db.example", 3307, "somebody", "lockhouse"]
    assert found["OPTIONS"]["unix_socket"] == "/run/db.sock"
    session = default["OPTIONS"].get("init_command", "")
    assert found["OPTIONS"]["init_command"].startswith(session)
    assert found["OPTIONS"].get("isolation_level") == default["OPTIONS"].get("isolation_level")


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("foo=bar", "foo"),
        ("isolation_level=chaos", "isolation_level"),
        ("init_command=SET+autocommit=1", "init_command"),
        ("read_timeout=999999", "read_timeout"),
        ("conv=1", "conv"),
        ("unix_socket=/run/db.sock&charset=latin1", "charset"),
        ("ssl-ca=/etc/ca.pem", "ssl"),
        (f"{SECRET}%40=1", "of another name"),
    ],
)
def test_option__that_is_not_taken_is_refused_by_its_name(option: str, named: str):
    with pytest.raises(errors.InvalidInput) as caught:
        register(f"{ADDRESS}?{option}")
    assert f"not taken, {named};" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.data_fields == {"field": NAME}
    assert ALIAS not in connections.settings


@pytest.mark.parametrize(
    "dsn",
    [
        "mysql://u:p%00w@h/n",
        "mysql://u%00:p@h/n",
        "mysql://u:p@h%00/n",
        "mysql://u:p@h/n%00",
        "mysql://u:p@h/n?unix_socket=/a%00b",
    ],
)
def test_nul__in_an_address_is_refused(dsn: str):
    with pytest.raises(errors.InvalidInput, match="NUL"):
        register(dsn)
    assert ALIAS not in connections.settings
