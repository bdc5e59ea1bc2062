"""The examples for running it name what is there: metrics, settings, commands, files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands
from django.test import Client

from console.views.hooks import Rejection
from integration.ingress.policy import QuarantineCode
from integration.states import ReceiptState, WorkItemState
from integration.work.families import FAMILIES
from integration.work.finish import Ended

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
#: What a histogram and a counter are asked for by.
SUFFIXES = ("", "_total", "_bucket", "_sum", "_count")


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    for rule in rules():
        yield rule["alert"], rule["expr"]
    dashboard = json.loads((DEPLOY / "grafana" / "lockhouse.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


@pytest.fixture
def told() -> set[str]:
    """Every metric that the web processes and the workers tell, by the names under which it can be asked for."""
    from integration.management.commands import work  # noqa: F401 - a worker's own are told by it

    text = Client().get("/metrics").content.decode()
    return {
        name.removesuffix("_total") + suffix
        for name in re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)
        for suffix in SUFFIXES
    }


@pytest.mark.django_db
def test_counts_that_page_somebody__begin_at_nothing() -> None:
    """The first one is an increase only where the series was there before it."""
    from integration.management.commands import work  # noqa: F401 - a worker's own are told by it

    text = Client().get("/metrics").content.decode()
    series = {
        "lockhouse_ingress_rejected_total": ("reason", Rejection),
        "lockhouse_ingress_quarantined_total": ("code", QuarantineCode),
        "lockhouse_work_finished_total": ("transition", Ended),
    }
    for name, (label, values) in series.items():
        for value in values:
            assert f'{name}{{{label}="{value.value}"}} ' in text


@pytest.mark.django_db
def test_rules_and_dashboard__name_metrics_that_there_are(told: set[str]) -> None:
    asked = {(where, name) for where, text in expressions() for name in re.findall(r"\blockhouse_\w+", text)}
    assert len(asked) > 20
    assert {(where, name) for where, name in asked if name not in told} == set()


def test_rules_and_dashboard__ask_for_labels_that_there_are() -> None:
    """What is asked for by a state or a transition that there is not would never be told."""
    known = {
        "state": {*WorkItemState, *ReceiptState},
        "family": set(FAMILIES),
        "transition": set(Ended),
        "code": set(QuarantineCode),
        "reason": set(Rejection),
        "severity": {"page", "ticket"},
    }
    asked = [
        (where, label, value)
        for where, text in expressions()
        for label, values in re.findall(r'(\w+)[=!]~?"([^"]+)"', text)
        for value in values.split("|")
        if not value.endswith(".*")
    ]
    assert len(asked) > 8
    assert [(where, label, value) for where, label, value in asked if value not in known[label]] == []


def test_rules__each_says_what_happened_and_what_to_do() -> None:
    for rule in rules():
        assert rule["annotations"].keys() == {"summary", "action"}, rule["alert"]
        assert rule["labels"]["severity"] in {"page", "ticket"}
    names = [rule["alert"] for rule in rules()]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units__run_commands_and_files_that_there_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    commands = get_commands()
    for name in re.findall(r"manage\.py (\w+)", text):
        assert name in commands
    for name in re.findall(r"--config (\S+)", text):
        assert (ROOT / name).is_file()
    assert "NoNewPrivileges=true" in text
    assert "User=lockhouse" in text
    assert len(UNITS) == 3


def test_container_file__copies_what_there_is() -> None:
    text = (DEPLOY / "container" / "Containerfile").read_text(encoding="utf-8")
    sources = [
        source for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for source in line.split()
    ]
    assert len(sources) >= 9
    for source in sources:
        assert (ROOT / source).exists(), source
    assert "USER lockhouse" in text


def test_environment__names_settings_that_are_documented() -> None:
    documented = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    named = re.findall(
        r"^(LOCKHOUSE_\w+)=", (DEPLOY / "lockhouse.env.example").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(named) > 5
    for name in named:
        assert name in documented or name.startswith("LOCKHOUSE_SECRETS_"), name
