"""What the settings refuse to start with."""

from __future__ import annotations

import runpy
import secrets
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as running
from django.core.exceptions import ImproperlyConfigured

CONSOLE = Path(__file__).resolve().parents[3] / "console"
SETTINGS = str(CONSOLE / "settings.py")
GOOD_KEY = secrets.token_urlsafe(64)
PRODUCTION = {
    "LOCKHOUSE_LOCAL": "0",
    "LOCKHOUSE_DEBUG": "0",
    "LOCKHOUSE_SECRET_KEY": GOOD_KEY,
    "LOCKHOUSE_PAYLOAD_KEYS": "k1:" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
    "LOCKHOUSE_ALLOWED_HOSTS": "lockhouse.example",
}


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return what reads the settings anew, in an environment that is production's but for what is named."""

    def read(**changes: str) -> dict[str, Any]:
        for name, value in {**PRODUCTION, "LOCKHOUSE_VAR_DIR": str(tmp_path), **changes}.items():
            monkeypatch.setenv(name, value)
        return runpy.run_path(SETTINGS)

    return read


def test_boot__goes_on_with_production_settings(boot: Any) -> None:
    settings = boot()
    assert (False, ["lockhouse.example"]) == (settings["DEBUG"], settings["ALLOWED_HOSTS"])


@pytest.mark.advisory("CVE-2020-17526")
@pytest.mark.parametrize(
    "key",
    ["", "short", "a" * 80, "ab" * 40, "django-insecure-" + GOOD_KEY, "tests-only-" + GOOD_KEY],
    ids=["missing", "short", "one character", "two characters", "a draft of Django's", "the tests' own"],
)
def test_boot__refuses_a_default_or_missing_secret(boot: Any, key: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="LOCKHOUSE_SECRET_KEY"):
        boot(LOCKHOUSE_SECRET_KEY=key)


def test_boot__refuses_to_go_without_payload_keys(boot: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match="LOCKHOUSE_PAYLOAD_KEYS"):
        boot(LOCKHOUSE_PAYLOAD_KEYS="")


def test_boot__refuses_an_open_debug_mode(boot: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match="LOCKHOUSE_DEBUG"):
        boot(LOCKHOUSE_DEBUG="1")
    assert boot(LOCKHOUSE_DEBUG="1", LOCKHOUSE_LOCAL="1", LOCKHOUSE_ALLOWED_HOSTS="localhost")["DEBUG"] is True


@pytest.mark.parametrize("hosts", ["lockhouse.example", "localhost,lockhouse.example", "*", "192.0.2.1"])
def test_boot__refuses_a_local_run_that_answers_to_other_hosts(boot: Any, hosts: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="LOCKHOUSE_LOCAL"):
        boot(LOCKHOUSE_LOCAL="1", LOCKHOUSE_ALLOWED_HOSTS=hosts)


def test_boot__production_cookies_are_for_this_host_over_https_alone(boot: Any) -> None:
    settings = boot()
    for cookie in ("SESSION", "CSRF"):
        assert settings[f"{cookie}_COOKIE_SECURE"] is True
        assert settings[f"{cookie}_COOKIE_HTTPONLY"] is True
        assert settings[f"{cookie}_COOKIE_NAME"].startswith("__Host-")
    assert ("Lax", "Strict") == (settings["SESSION_COOKIE_SAMESITE"], settings["CSRF_COOKIE_SAMESITE"])
    assert settings["SECURE_SSL_REDIRECT"] is True
    assert settings["SECURE_HSTS_SECONDS"] >= 31_536_000


@pytest.mark.parametrize(
    ("surfaces", "served"), [("console", {"console"}), ("ingress,console", {"console", "ingress"})]
)
def test_boot__serves_the_surfaces_that_are_named(boot: Any, surfaces: str, served: set[str]) -> None:
    assert served == boot(LOCKHOUSE_SURFACES=surfaces)["LOCKHOUSE_SURFACES"]


@pytest.mark.parametrize("surfaces", ["admin", "console;ingress", "console,ingres"])
def test_boot__refuses_a_surface_that_there_is_not(boot: Any, surfaces: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="LOCKHOUSE_SURFACES"):
        boot(LOCKHOUSE_SURFACES=surfaces)


@pytest.mark.parametrize("name", ["LOCKHOUSE_API_PER_MINUTE", "LOCKHOUSE_API_AT_ONCE"])
def test_boot__refuses_a_pace_that_lets_nobody_in(boot: Any, name: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=name):
        boot(**{name: "0"})


def test_web_server__serves_a_local_run_to_this_machine_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    start = runpy.run_path(str(CONSOLE / "gunicorn.conf.py"))["on_starting"]

    def bound_to(*addresses: Any) -> SimpleNamespace:
        return SimpleNamespace(cfg=SimpleNamespace(address=list(addresses)))

    assert running.LOCKHOUSE_LOCAL
    start(bound_to(("127.0.0.1", 8700), ("localhost", 8700), ("::1", 8700), "/run/lockhouse.sock"))
    for host in ("0.0.0.0", "192.0.2.1", "::", "lockhouse.example"):
        with pytest.raises(SystemExit):
            start(bound_to(("127.0.0.1", 8700), (host, 8700)))
    monkeypatch.setattr(running, "LOCKHOUSE_LOCAL", False)
    start(bound_to(("0.0.0.0", 8700)))


PROVIDER = {
    "LOCKHOUSE_OIDC_ISSUER": "https://login.acme.example/",
    "LOCKHOUSE_OIDC_CLIENT_ID": "lockhouse",
    "LOCKHOUSE_OIDC_CLIENT_SECRET": "of-the-client",
}


def test_boot__signs_in_through_no_provider_unless_one_is_named(boot: Any) -> None:
    assert boot()["LOCKHOUSE_OIDC"] is None
    settings = boot(**PROVIDER)
    provider = settings["LOCKHOUSE_OIDC"]
    assert ("https://login.acme.example/", "your organization", False) == (
        provider.issuer,
        provider.name,
        provider.creates,
    )
    assert "console.backends.ProviderBackend" == settings["AUTHENTICATION_BACKENDS"][-1]
    assert "of-the-client" not in repr(provider)


@pytest.mark.parametrize("missing", sorted(PROVIDER))
def test_boot__names_what_a_provider_lacks(boot: Any, missing: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=f"^{missing} is not set"):
        boot(**{**PROVIDER, missing: ""})


@pytest.mark.parametrize("given", ["LOCKHOUSE_OIDC_NAME", "LOCKHOUSE_OIDC_CREATE"])
def test_boot__refuses_half_a_provider(boot: Any, given: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="LOCKHOUSE_OIDC_ISSUER, LOCKHOUSE_OIDC_CLIENT_ID"):
        boot(**{given: "1"})


@pytest.mark.parametrize("issuer", ["http://login.acme.example", "login.acme.example", "file:///etc"])
def test_boot__refuses_a_provider_that_could_be_anybody(boot: Any, issuer: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="LOCKHOUSE_OIDC_ISSUER"):
        boot(**{**PROVIDER, "LOCKHOUSE_OIDC_ISSUER": issuer})
