"""What machines ask."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from django.test import Client

from integration.work import reads
from tests.support.rows import CANARIES, Installation


def test_healthz__touches_no_database() -> None:
    assert (200, b"ok\n") == ((response := Client().get("/healthz")).status_code, response.content)


@pytest.mark.django_db
def test_readyz__is_ready_when_the_database_answers() -> None:
    assert 200 == Client().get("/readyz").status_code


def test_readyz__says_no_more_than_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    def down() -> bool:
        raise OperationalError(2002, "Can't connect to secret-host")

    monkeypatch.setattr(reads, "answers", down)
    response = Client().get("/readyz")
    assert (503, b"not ready\n") == (response.status_code, response.content)


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
