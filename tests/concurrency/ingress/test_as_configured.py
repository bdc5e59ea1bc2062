"""The web server with the settings that it is deployed with: several processes that share their counts."""

from __future__ import annotations

import re
import urllib.request
from collections import Counter

import pytest

from tests.support.processes import await_port, free_port, start_python

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def test_gunicorn__tells_each_gauge_once_however_often_it_is_asked_and_logs_without_a_fault(database_url: str):
    """A gauge made for one scrape would be kept in the files that the processes share, and be told by all others."""
    port = free_port()
    server = start_python(
        ["-m", "gunicorn", "--config", "console/gunicorn.conf.py", f"--bind=127.0.0.1:{port}"], database_url
    ).listen()
    try:
        await_port(server, port)
        scrapes = []
        for _ in range(6):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                scrapes.append(answer.read().decode())
    finally:
        server.process.terminate()
        server.wait()
    for text in scrapes:
        families = Counter(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
        assert families["lockhouse_work_items"] == 1
        assert {name: count for name, count in families.items() if count > 1} == {}
        assert 'pid="' not in "".join(re.findall(r"^lockhouse_(?:work|queue|lane|receipts).*$", text, re.MULTILINE))
    assert "Starting gunicorn" in server.output
    assert "Logging error" not in server.output
