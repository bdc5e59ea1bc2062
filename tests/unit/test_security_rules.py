"""What no line of the program does: found in the source, so that a new line is held to it as well."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import django
import pytest

from console import settings

ROOT = Path(__file__).resolve().parents[2]
SOURCE = sorted([*(ROOT / "console").rglob("*.py"), *(ROOT / "integration").rglob("*.py")])
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
#: What opens a connection to somewhere: the demo, to the address that its caller gives, and the sign-in, to the provider
#: that the settings name.
SENDERS = {"httpx", "requests", "urllib.request", "http.client", "ftplib", "smtplib", "aiohttp", "urllib3", "authlib"}
MAY_SEND = {"integration/packs/demo.py", "console/oidc.py"}
#: What makes code of stored bytes.
MAKERS = {"pickle", "marshal", "shelve", "dill", "jsonpickle", "cPickle"}
#: What takes a name and returns what it names, and where: names of the program and its settings, never of a row.
NAMERS = {"import_string", "import_module", "eval", "exec", "compile", "__import__"}
MAY_NAME = {"console/api/services.py", "integration/storage/statements.py"}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))


def called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="re" | "jmespath" as module), attr="compile"):
            return f"{module}.compile"
        case ast.Attribute(attr=name):
            return name
    return ""


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.advisory(
    "GitLab #63959",
    "GitLab #293733",
    "CVE-2026-30242",
    "CVE-2026-104973",
    "GHSA-vwq2-jx9q-9h9f",
    "Harbor PR 23568",
)
def test_source__sends_no_request_of_its_own() -> None:
    found = {relative(path) for path in SOURCE if imported(path) & SENDERS}
    assert found == MAY_SEND


@pytest.mark.advisory("CVE-2021-23727", "CVE-2023-50943", "CVE-2025-53623")
def test_source__makes_nothing_of_stored_bytes_but_json() -> None:
    assert {relative(path) for path in SOURCE if imported(path) & MAKERS} == set()
    assert {relative(path) for path in SOURCE for call in calls(path) if called(call) in NAMERS} == MAY_NAME
    for path in SOURCE:
        for call in calls(path):
            # `yaml.load` and its like make objects of whatever class a document names.
            assert called(call) not in {"unsafe_load", "full_load", "load_all"}, relative(path)
    assert getattr(settings, "SESSION_SERIALIZER", "JSONSerializer").endswith("JSONSerializer")


@pytest.mark.advisory("CVE-2026-21858")
def test_source__takes_no_upload_and_opens_no_file_that_a_request_names() -> None:
    views = [path for path in SOURCE if "console/views" in relative(path) or "console/api" in relative(path)]
    assert views
    assert [relative(path) for path in views if "FILES" in path.read_text(encoding="utf-8")] == []
    assert [relative(path) for path in views for call in calls(path) if called(call) in {"open", "read_text"}] == []
    assert [relative(path) for path in TEMPLATES if "multipart/form-data" in path.read_text(encoding="utf-8")] == []


@pytest.mark.advisory("CVE-2026-45426")
def test_source__strips_no_prefix_with_a_set_of_characters() -> None:
    """`strip("prefix")` removes characters, not the word: as the guard of a path it lets others through."""
    found = [
        relative(path)
        for path in SOURCE
        for call in calls(path)
        if called(call) in {"lstrip", "rstrip", "strip"}
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and len(set(str(call.args[0].value))) > 1
    ]
    assert found == []


@pytest.mark.advisory("CVE-2025-59681", "CVE-2025-57833", "CVE-2025-64459", "CVE-2026-1287", "CVE-2026-1312")
def test_source__names_no_column_by_what_a_request_says() -> None:
    """Nothing of a request is spread into a query: not as an alias, not as a condition, not as an order."""
    spread = {"annotate", "alias", "aggregate", "extra", "order_by", "raw"}
    found = [
        relative(path)
        for path in SOURCE
        for call in calls(path)
        if (called(call) in spread and any(keyword.arg is None for keyword in call.keywords))
        or called(call) in {"extra", "RawSQL"}
        or any(keyword.arg is None and "request." in ast.unparse(keyword.value) for keyword in call.keywords)
    ]
    assert found == []
    assert django.VERSION[:3] >= (5, 2, 11)


@pytest.mark.advisory("CVE-2025-14550", "CVE-2026-7723")
def test_project__has_one_door_and_it_is_wsgi() -> None:
    assert [relative(path) for path in SOURCE if path.name == "asgi.py"] == []
    assert getattr(settings, "ASGI_APPLICATION", None) is None
    assert {relative(path) for path in SOURCE if imported(path) & {"channels", "websockets", "asgiref.wsgi"}} == set()


@pytest.mark.advisory("CVE-2021-30151", "CVE-2023-1892", "CVE-2024-32887", "OSVDB-126329", "Hangfire #1441")
@pytest.mark.parametrize("path", TEMPLATES, ids=relative)
def test_templates__escape_everything_and_hold_no_code(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert (
        re.findall(r"\|\s*safe\b|autoescape\s+off|<script(?![^>]*\bsrc=)|\son\w+=|hx-on|\sstyle=|javascript:", text)
        == []
    )


@pytest.mark.advisory("CVE-2021-30151", "CVE-2023-1892")
def test_source__marks_no_text_as_safe() -> None:
    assert [
        relative(path) for path in SOURCE for call in calls(path) if called(call) in {"mark_safe", "SafeString"}
    ] == []


@pytest.mark.advisory("CVE-2023-26141")
def test_scripts__take_no_interval_from_the_browsers_storage() -> None:
    for path in sorted((ROOT / "static").rglob("*.js")):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not ("Storage" in line and re.search(r"setInterval|setTimeout|parseInt|Number\(", line)), line


@pytest.mark.advisory("CVE-2024-21491", "Flower < 2.0 basic auth")
def test_source__compares_secrets_in_constant_time() -> None:
    text = (ROOT / "integration/ingress/verify.py").read_text(encoding="utf-8")
    assert "hmac.compare_digest(" in text
    assert re.findall(r"(?:signature|digest|given|mac)\w*\s*==", text) == []


#: Every advisory of the document, and every one that a test names.
DOCUMENT = ROOT / "docs" / "security.md"


def test_document__every_advisory_is_named_by_a_test_and_the_other_way_round() -> None:
    listed = {
        name
        for row in re.findall(r"^\| ([^|]+) \| `tests/[^|]+\|$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
        for name in row.split(", ")
    }
    named = {
        argument.value
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "mark.advisory" in path.read_text(encoding="utf-8")
        for call in calls(path)
        if called(call) == "advisory"
        for argument in call.args
        if isinstance(argument, ast.Constant)
    }
    assert listed == named
    assert len(listed) > 50


def test_document__every_test_that_it_names_is_there() -> None:
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", DOCUMENT.read_text(encoding="utf-8")):
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not name or f"def {name}" in text, f"{path}::{name}"
