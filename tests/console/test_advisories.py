"""The faults that other consoles for background work were published for, looked for in this one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import Group
from django.test import Client

from console.models import AuditEntry, User
from console.permissions import ADMIN_SITE, ANONYMOUS, walk_routes
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone
from tests.console.conftest import PASSWORD
from tests.support.authority import MARIA, rows_of
from tests.support.html import Markup
from tests.support.rows import CANARIES, Installation

NOBODY = "00000000-0000-7000-8000-000000000000"
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7|add:7 }}'
LISTS = ["/", "/dlq/", "/work/", "/receipts/", "/fences/", "/batches/", "/audit/"]
GUARDED = [route for route in walk_routes() if route.access not in {ADMIN_SITE, ANONYMOUS}]


def path_of(pattern: str) -> str:
    parts = [NOBODY if part.startswith("<") else part for part in pattern.split("/")]
    return "/" + "/".join(parts)


CSRF = pytest.mark.advisory(
    "OSVDB-125675", "OSVDB-126331", "CVE-2022-51020", "CVE-2017-17835", "PYSEC-2018-11", "CVE-2016-10522"
)


@CSRF
@pytest.mark.django_db
def test_csrf__a_write_without_the_form_token_is_refused(signed_in: Callable[..., Client]) -> None:
    client = signed_in("olga", "Admin")
    for route in GUARDED:
        for method in ("post", "put", "patch", "delete"):
            response = getattr(client, method)(path_of(route.pattern), {}, content_type="application/json")
            assert response.status_code in {403, 405}, (route.name, method)
            assert method != "post" or response.status_code == 403 or "POST" not in response.get("Allow", "")


@CSRF
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_csrf__a_write_that_another_site_sent_is_refused_whatever_token_it_has(
    site: str, replayer: Client, installation: Installation
) -> None:
    ref = installation.work()
    replayer.get("/dlq/")
    headers = {
        "X-CSRFToken": replayer.cookies["lockhouse-csrf"].value,
        "Idempotency-Key": "k",
        "Sec-Fetch-Site": site,
    }
    where = f"/api/v1/connector-events/{ref}/replay"
    response = replayer.post(where, {"reason": "x"}, content_type="application/json", headers=headers)
    assert (403, "cross_site") == (response.status_code, response.json()["code"])
    assert [] == rows_of("_System_ConnectorWorkItem", "ReplayOfWorkId = %s", ref)
    # Negative control: the same request from this site does write.
    headers["Sec-Fetch-Site"] = "same-origin"
    assert 201 == replayer.post(where, {"reason": "x"}, content_type="application/json", headers=headers).status_code


@pytest.mark.django_db
def test_csrf__reading_from_another_site_is_not_refused(viewer: Client) -> None:
    assert 200 == viewer.get("/", headers={"Sec-Fetch-Site": "cross-site"}).status_code


@pytest.mark.advisory(
    "CVE-2021-41238",
    "CVE-2022-30034",
    "CVE-2026-53576",
    "CVE-2026-49869",
    "CVE-2026-126752",
    "CVE-2026-7723",
    "CVE-2026-68982",
)
@pytest.mark.django_db
def test_door__no_spelling_of_an_address_opens_it_to_nobody() -> None:
    client = Client()
    for route in GUARDED:
        for spelling in spellings_of(path_of(route.pattern)):
            assert client.get(spelling).status_code in CLOSED, spelling
        for headers in POSING:
            assert client.get(path_of(route.pattern), headers=headers).status_code in CLOSED, (route.name, headers)


#: A redirect to the sign-in page, a problem document, a plain no.
CLOSED = {301, 302, 401, 404, 405}
POSING = (
    {"Upgrade": "websocket", "Connection": "Upgrade", "X-Original-URL": "/healthz"},
    {"Authorization": "Basic YWRtaW46YWRtaW4="},
    {"X-Forwarded-User": "root", "Remote-User": "root"},
)


def spellings_of(path: str) -> list[str]:
    return [
        path,
        f"{path}/healthz",
        f"{path};/healthz",
        f"{path}%2e",
        f"{path}.json",
        f"{path}?next=/healthz",
        f"/healthz/..{path}",
        f"/static/..%2f..{path}",
        f"/{path}",
        path.upper(),
    ]


@pytest.mark.advisory(
    "CVE-2021-30151",
    "CVE-2023-1892",
    "CVE-2024-32887",
    "OSVDB-126329",
    "CVE-2023-50724",
    "CVE-2023-50725",
    "CVE-2023-50727",
    "CVE-2024-25122",
    "CVE-2017-12097",
    "CVE-2025-67202",
    "Hangfire #1441",
    "CVE-2023-29247",
)
@pytest.mark.django_db(transaction=True)
def test_xss__what_a_provider_or_an_operator_wrote_is_text(
    signed_in: Callable[..., Client], installation: Installation
) -> None:
    client = signed_in("olga", "Admin")
    ref = installation.work(SourceLane=HOSTILE, TargetLane=HOSTILE, Outcome="dead")
    fact = AuditFact(
        action="x.done",
        outcome=AuditOutcome.DONE,
        actor=MARIA,
        ref_kind="user",
        ref_id="1",
        reason=HOSTILE,
        facts={HOSTILE: HOSTILE},
    )
    record_alone(fact)
    seen = ""
    for place in ("/", "/dlq/", f"/dlq/{ref}/", f"/dlq/{ref}/replay", "/work/", f"/work/{ref}/", "/audit/"):
        text = client.get(place).content.decode()
        assert [] == Markup(text).faults(), place
        assert "<script>alert" not in text
        assert "<img" not in text
        seen += "".join(Markup(text).text)
    assert seen.count("{{ 7|add:7 }}") >= 5, "it is shown, as text"


@pytest.mark.advisory("CVE-2023-1892", "CVE-2024-32887", "CVE-2023-50727")
@pytest.mark.django_db
@pytest.mark.parametrize("place", LISTS)
def test_xss__what_an_address_says_is_text(place: str, signed_in: Callable[..., Client]) -> None:
    client = signed_in("olga", "Admin")
    for name in ("search", "namespace", "state", "cursor", "tz", "since", "unknown"):
        text = client.get(place, {name: HOSTILE}).content.decode()
        assert "<script>alert" not in text, name
        assert "<img" not in text, name
        assert [] == Markup(text).faults(), name


@pytest.mark.advisory("CVE-2022-43982", "CVE-2022-45402")
@pytest.mark.django_db
@pytest.mark.parametrize(
    "target",
    [
        "https://elsewhere.example/",
        "//elsewhere.example/",
        "/\\elsewhere.example",
        "javascript:alert(1)",
        "https:/elsewhere.example",
        "\thttps://elsewhere.example",
    ],
)
def test_redirect__signing_in_leads_nowhere_else(target: str, person: Callable[..., User]) -> None:
    person("vera", "Viewer")
    client = Client()
    assert "<script>alert" not in client.get("/sign-in/", {"next": target}).content.decode()
    response = client.post("/sign-in/", {"username": "vera", "password": PASSWORD, "next": target})
    assert (302, "/") == (response.status_code, response["Location"])


@pytest.mark.advisory("CVE-2022-23837", "CVE-2023-26141")
@pytest.mark.django_db
@pytest.mark.parametrize("place", LISTS)
def test_limits__no_parameter_makes_a_page_larger(place: str, signed_in: Callable[..., Client]) -> None:
    client = signed_in("olga", "Admin")
    for query in (
        "days=1000000000",
        "limit=999999999999999999999",
        "hours=1e308",
        "page=-1",
        "cursor=" + "9" * 3_000,
        "attempts=999999999999999999999999",
        "after=99999999999999999999",
        "&".join(f"namespace={number}" for number in range(400)),
    ):
        response = client.get(f"{place}?{query}")
        assert response.status_code in {200, 400, 422}, query
        assert len(response.content) < 400_000, query


@pytest.mark.advisory("CVE-2022-23837")
@pytest.mark.django_db
def test_limits__a_list_of_the_api_has_a_largest_page(viewer: Client) -> None:
    for limit in (0, -1, 10_000, 10**30):
        assert 422 == viewer.get("/api/v1/connector-events", {"limit": limit}).status_code


@pytest.mark.advisory(
    "CVE-2026-22922", "CVE-2024-26280", "CVE-2024-28746", "CVE-2023-42780", "CVE-2021-45230", "CVE-2023-40611"
)
@pytest.mark.django_db(transaction=True)
def test_objects__a_right_to_one_thing_is_none_to_another(
    viewer: Client, auditor: Client, installation: Installation
) -> None:
    ref = installation.work()
    assert 403 == viewer.get("/audit/").status_code
    for place in (f"/dlq/{ref}/", f"/work/{ref}/", f"/api/v1/connector-events/{ref}", "/batches/", "/receipts/"):
        assert 403 == auditor.get(place).status_code
    assert 403 == viewer.get(f"/dlq/{ref}/replay").status_code
    assert 403 == viewer.get("/batches/new").status_code
    # A right that no route asks for opens none.
    assert 302 == viewer.get("/admin/").status_code


@pytest.mark.advisory(
    "CVE-2023-40712", "CVE-2022-27949", "CVE-2020-17511", "CVE-2024-45784", "Airflow 3.0.3 connections"
)
@pytest.mark.django_db(transaction=True)
def test_secrets__no_parameter_and_no_state_shows_one(
    signed_in: Callable[..., Client], installation: Installation
) -> None:
    client = signed_in("olga", "Admin")
    fresh, ended = installation.work("pending", Attempt=0), installation.work()
    said = ""
    for ref in (fresh, ended):
        for query in ("", "?unmask=1", "?reveal=true", "?raw=1", "?fields=Payload,LeaseToken,LastError", "?debug=1"):
            for place in ("/dlq/{}/", "/work/{}/", "/dlq/{}/json", "/api/v1/connector-events/{}"):
                said += client.get(place.format(ref) + query).content.decode()
    User.objects.create_user("nina", password="another-long-phrase-3")
    said += str(list(AuditEntry.objects.values_list("reason", "facts")))
    for canary in (*CANARIES.values(), "another-long-phrase-3"):
        assert canary not in said


@pytest.mark.advisory("CVE-2026-43826")
def test_secrets__a_log_line_keeps_no_password_of_an_address() -> None:
    from console.logging import redact

    line = redact(None, "info", {"event": "tried mysql://root:hunter2@db/x", "deep": ["https://u:hunter2@h/?a=b@c"]})
    assert "hunter2" not in json.dumps(line)
    assert "@db/x" in line["event"]
    assert line["deep"] == ["https://[redacted]@h/?a=b@c"]


@pytest.mark.advisory("CVE-2022-38054")
@pytest.mark.django_db
def test_session__one_that_was_planted_is_not_signed_in(person: Callable[..., User]) -> None:
    person("vera", "Viewer")
    client = Client()
    session = client.session
    session["planted"] = "x"
    session.save()
    client.cookies["lockhouse-session"] = planted = session.session_key
    client.post("/sign-in/", {"username": "vera", "password": PASSWORD})
    assert client.session.session_key != planted
    other = Client()
    other.cookies["lockhouse-session"] = planted
    assert 302 == other.get("/dlq/").status_code


@pytest.mark.advisory("CVE-2023-40273")
@pytest.mark.django_db
def test_session__ends_with_the_password(viewer: Client) -> None:
    assert 200 == viewer.get("/dlq/").status_code
    user = User.objects.get(username="vera")
    user.set_password("an-altogether-new-one-8")
    user.save()
    assert 302 == viewer.get("/dlq/").status_code


@pytest.mark.advisory("CVE-2020-17526")
@pytest.mark.django_db
def test_session__is_a_row_of_this_database_and_not_a_signature(viewer: Client, settings: Any) -> None:
    """Another installation's secret key, even the same one, makes no session here."""
    assert settings.SESSION_ENGINE == "django.contrib.sessions.backends.db"
    forged = Client()
    forged.cookies["lockhouse-session"] = "a" * 32
    assert 302 == forged.get("/dlq/").status_code
    assert SESSION_KEY in viewer.session
    settings.SECRET_KEY = "another-installation-" * 4
    assert 302 == viewer.get("/dlq/").status_code


@pytest.mark.django_db
def test_session__moves_when_the_rights_of_its_account_change(viewer: Client) -> None:
    viewer.get("/dlq/")
    before = viewer.session.session_key
    viewer.get("/dlq/")
    assert before == viewer.session.session_key
    User.objects.get(username="vera").groups.add(Group.objects.get(name="Replayer"))
    assert 200 == viewer.get("/dlq/").status_code
    assert before != viewer.session.session_key
    stale = Client()
    stale.cookies["lockhouse-session"] = before
    assert 302 == stale.get("/dlq/").status_code


@pytest.mark.advisory("CVE-2025-59681", "CVE-2025-64459", "CVE-2026-1287", "CVE-2026-1312")
@pytest.mark.django_db
@pytest.mark.parametrize(
    "name", ["_connector", "_negated", "action__contains", "x`); --", "a.b", "1 OR 1=1", "ordering", "\u0000"]
)
def test_queries__a_parameters_name_never_reaches_the_database(
    name: str, auditor: Client, django_capture_on_commit_callbacks: Any
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as plain:
        assert 200 == auditor.get("/audit/").status_code
    with CaptureQueriesContext(connection) as asked:
        assert 200 == auditor.get(f"/audit/?{quote(name)}=XOR").status_code
    of_trail = [[query["sql"] for query in held if "auditentry" in query["sql"]] for held in (plain, asked)]
    assert of_trail[0] == of_trail[1] != []


@pytest.mark.parametrize(
    ("body", "directive"),
    [
        ({"csp-report": {"effective-directive": "script-src-elem", "blocked-uri": "canary-1"}}, "script-src-elem"),
        ({"csp-report": {"violated-directive": "style-src 'self'"}}, "style-src"),
        ({"csp-report": {"effective-directive": "canary-2"}}, "other"),
        ({"csp-report": []}, "unreadable"),
        ([], "unreadable"),
        ({"csp-report": {"effective-directive": "x" * 9_000}}, "unreadable"),
    ],
)
def test_csp_report__is_counted_and_not_repeated(body: Any, directive: str, caplog: pytest.LogCaptureFixture) -> None:
    from console.views.reports import REPORTS

    before = REPORTS.labels(directive)._value.get()
    client = Client(enforce_csrf_checks=True)
    response = client.post("/csp-report", json.dumps(body), content_type="application/csp-report")
    assert (204, b"") == (response.status_code, response.content)
    assert before + 1 == REPORTS.labels(directive)._value.get()
    assert "canary" not in caplog.text


@pytest.mark.django_db
def test_csp_report__of_somebody_signed_in_reads_and_keeps_no_session_alive(
    viewer: Client, django_assert_num_queries: Any
) -> None:
    viewer.get("/dlq/")
    report = json.dumps({"csp-report": {"effective-directive": "script-src"}})
    with django_assert_num_queries(0):
        assert 204 == viewer.post("/csp-report", report, content_type="application/csp-report").status_code


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("is_behind", "forwarded", "address"),
    [
        (True, "198.51.100.7", "198.51.100.7"),
        (True, "203.0.113.9, 198.51.100.7", "198.51.100.7"),
        (True, "198.51.100.7, nonsense", "127.0.0.1"),
        (True, "2001:db8::1", "2001:db8::1"),
        (True, "", "127.0.0.1"),
        (False, "198.51.100.7", "127.0.0.1"),
    ],
)
def test_address__is_what_the_proxy_appended_and_nothing_that_a_client_says(
    settings: Any, *, is_behind: bool, forwarded: str, address: str
) -> None:
    settings.LOCKHOUSE_BEHIND_TLS_PROXY = is_behind
    sent = {"username": "nobody", "password": "wrong"}
    Client().post("/sign-in/", sent, headers={"X-Forwarded-For": forwarded})
    assert [address] == [row["ip_address"] for row in rows_of("axes_accessattempt")]
    assert [address] == [row["remote_addr"] for row in rows_of("console_auditentry")]


@pytest.mark.django_db
def test_headers__say_what_browsers_must_hold_to(viewer: Client) -> None:
    for place in ("/", "/sign-in/", "/no-such", "/api/v1/connector-events"):
        response = viewer.get(place)
        policy = response["Content-Security-Policy"]
        directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
        assert "unsafe" not in policy
        assert directives == {
            "default-src": "'none'",
            "script-src": "'self'",
            "style-src": "'self'",
            "img-src": "'self' data:",
            "font-src": "'self'",
            "connect-src": "'self'",
            "form-action": "'self'",
            "base-uri": "'none'",
            "frame-ancestors": "'none'",
            "object-src": "'none'",
            "report-uri": "/csp-report",
        }
        kept = {
            name: response.get(name)
            for name in (
                "X-Frame-Options",
                "X-Content-Type-Options",
                "Referrer-Policy",
                "Cross-Origin-Opener-Policy",
                "Server",
                "X-Powered-By",
            )
        }
        assert kept == {
            "X-Frame-Options": "DENY",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Server": None,
            "X-Powered-By": None,
        }


@pytest.mark.django_db
def test_sign_in__an_unknown_name_costs_as_much_as_a_wrong_password(
    person: Callable[..., User], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: either way one password is hashed."""
    from django.contrib.auth.hashers import MD5PasswordHasher

    person("vera", "Viewer")
    hashed: list[str] = []
    encode = MD5PasswordHasher.encode

    def count(self: Any, password: str, salt: str) -> str:
        hashed.append(password)
        return encode(self, password, salt)

    monkeypatch.setattr(MD5PasswordHasher, "encode", count)
    costs = []
    for name in ("vera", "nobody"):
        hashed.clear()
        Client().post("/sign-in/", {"username": name, "password": "wrong-password-1"})
        costs.append(len(hashed))
    assert costs == [1, 1]
