"""`bin/connector-projection-cutover` as a delivery owner runs it, on the database of its variable."""

from __future__ import annotations

import json
import subprocess

import pytest

from integration.errors import EXIT_ERROR, EXIT_NOT_ALLOWED, EXIT_REFUSED, EXIT_USAGE
from integration.values import new_id
from tests.support.old_projections import OldPack, protocol_rows
from tests.support.processes import environment
from tests.support.servers import BOUND_TO_CALLER, ROOT
from tests.support.sessions import Session

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "s3cret-of-the-account"
_LONGEST_SECONDS = 200.0


def prepare() -> str:
    pack = OldPack()
    pack.lane().coalesced()
    return pack.settle()


def script(database_url: str, *arguments: str, dsn: str | None) -> subprocess.CompletedProcess[str]:
    """Run the console script; the settings name a database that is not there."""
    env = environment("mysql://nobody@127.0.0.1:1/nowhere", DJANGO_SETTINGS_MODULE="tests.support.settings")
    env.pop("CONNECTOR_CUTOVER_DSN", None)
    if dsn is not None:
        env["CONNECTOR_CUTOVER_DSN"] = dsn
    if dsn and dsn.startswith("tidb"):
        # The tests' settings give the session of the engine that they are made for.
        env["LOCKHOUSE_DATABASE_URL"] = "tidb://nobody@127.0.0.1:1/nowhere"
    return subprocess.run(
        [*BOUND_TO_CALLER, str(ROOT / "bin" / "connector-projection-cutover"), *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=_LONGEST_SECONDS,
    )


@pytest.mark.evidence("P-16")
def test_script__works_on_the_database_of_its_variable_with_one_dash_and_with_two(database_url: str):
    pack_id = prepare()
    refused = script(database_url, "-pack-install-id", pack_id, dsn=None)
    assert refused.returncode == EXIT_USAGE
    assert "CONNECTOR_CUTOVER_DSN" in refused.stderr

    done = script(database_url, "-pack-install-id", pack_id, "-timeout", "5m", dsn=database_url)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{pack_id} cut over: the old protocol ended at ordinal 3\n"
    again = script(database_url, f"--pack-install-id={pack_id}", "--timeout=5m", "--json", dsn=database_url)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["outcome"] == "unchanged"
    assert len(protocol_rows()) == 1


def test_script__with_an_account_without_rights__names_neither_it_nor_its_password(database_url: str):
    pack_id = prepare()
    admin = Session(None)
    admin.run("DROP USER IF EXISTS rightless")
    admin.run(f"CREATE USER rightless IDENTIFIED BY '{SECRET}'")
    try:
        scheme, _, rest = database_url.partition("://")
        dsn = f"{scheme}://rightless:{SECRET}@{rest.partition('@')[2]}"
        wrong = dsn.replace(SECRET, f"not-{SECRET}")
        for address in (dsn, wrong):
            ended = script(database_url, "-pack-install-id", pack_id, dsn=address)
            assert ended.returncode == EXIT_NOT_ALLOWED, ended.stderr
            assert ended.stderr.startswith("permission_denied: ")
            for part in (SECRET, "rightless"):
                assert part not in ended.stdout + ended.stderr
    finally:
        admin.run("DROP USER rightless")
        admin.close()
    assert protocol_rows() == []


def test_script__refused__exits_with_three(database_url: str):
    pack = OldPack()
    pack.lane().indirect()
    ended = script(database_url, "-pack-install-id", pack.settle(), "-dry-run", dsn=database_url)
    assert ended.returncode == EXIT_REFUSED
    assert ended.stdout.startswith("missing_owner (1): ")


def test_script__where_nobody_answers__says_so_without_the_address(database_url: str):
    scheme = database_url.partition("://")[0]
    dsn = f"{scheme}://somebody:{SECRET}@127.0.0.1:1/lockhouse"
    ended = script(database_url, "-pack-install-id", new_id(), dsn=dsn)
    assert ended.returncode == EXIT_ERROR
    assert ended.stderr.startswith("database_unavailable: ")
    for part in (SECRET, "somebody", "127.0.0.1"):
        assert part not in ended.stdout + ended.stderr
