"""What machines ask."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from django.test import Client

from integration.work import figures
from tests.support.rows import CANARIES, Installation


def test_healthz__touches_no_database() -> None:
    assert (200, b"ok\n") == ((response := Client().get("/healthz")).status_code, response.content)


@pytest.mark.django_db
def test_readyz__is_ready_when_the_database_answers() -> None:
    assert 200 == Client().get("/readyz").status_code


def test_readyz__says_no_more_than_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    def down() -> bool:
        raise OperationalError(2002, "Can't connect to secret-host")

    monkeypatch.setattr(figures, "answers", down)
    response = Client().get("/readyz")
    assert (503, b"not ready\n") == (response.status_code, response.content)


@pytest.mark.evidence("A-32")
@pytest.mark.parametrize(
    "request_from",
    [
        {"REMOTE_ADDR": "192.0.2.4"},
        {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "127.0.0.1"},
        {"REMOTE_ADDR": "::1", "HTTP_FORWARDED": "for=192.0.2.4"},
        {"REMOTE_ADDR": ""},
    ],
)
def test_metrics__are_told_to_this_machine_and_to_whoever_may_view(
    request_from: dict[str, str], viewer: Client, auditor: Client
) -> None:
    assert [200, 200] == [Client(REMOTE_ADDR=own).get("/metrics").status_code for own in ("127.0.0.1", "::1")]
    assert [403, 200, 403] == [
        client.get("/metrics", **request_from).status_code for client in (Client(), viewer, auditor)
    ]


@pytest.mark.evidence("A-31")
def test_metrics__counts_and_names_nobody(installation: Installation) -> None:
    installation.work()
    installation.worker()
    installation.quarantined()
    text = Client().get("/metrics").content.decode()
    assert 'lockhouse_work_items{state="dead"} 1.0' in text
    assert 'lockhouse_receipts{state="quarantined"} 1.0' in text
    assert "lockhouse_workers_alive 1.0" in text
    for hidden in (*CANARIES.values(), installation.namespace, installation.kind):
        assert hidden not in text
