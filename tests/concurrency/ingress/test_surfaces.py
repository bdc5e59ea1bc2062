"""The console and the ingress as processes of their own: each serves its own addresses and none of the other's."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import pytest

from tests.support.processes import web_server

pytestmark = pytest.mark.django_db(transaction=True)


def statuses(base: str, asked: list[tuple[str, str]]) -> list[int]:
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=60)
    found = []
    for method, path in asked:
        connection.request(method, path, headers={"Content-Length": "0"} if method == "POST" else {})
        response = connection.getresponse()
        response.read()
        found.append(response.status)
    connection.close()
    return found


def test_surfaces__each_process_serves_its_own(database_url: str) -> None:
    asked = [
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/sign-in/"),
        ("GET", "/dlq/"),
        ("GET", "/api/v1/connector-events"),
        ("GET", "/no-such"),
        ("POST", "/hooks/nowhere/none"),
        ("GET", "/hooks/nowhere/none"),
    ]
    with web_server(database_url, LOCKHOUSE_SURFACES="ingress") as (server, base):
        assert [200, 200, 200, 404, 404, 404, 404, 404, 405] == statuses(base, asked)
    assert "Traceback" not in server.output
    with web_server(database_url, LOCKHOUSE_SURFACES="console") as (server, base):
        assert [200, 200, 200, 200, 302, 401, 404, 404, 404] == statuses(base, asked)
    assert "Traceback" not in server.output
