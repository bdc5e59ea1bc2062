"""The API keeps to its own document, whatever is sent: valid values, and values that are not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as bounds
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from console.models import User
from console.permissions import AUDIT, BULK, REPLAY, VIEW
from integration.callers import tokens
from integration.values import Actor
from tests.support.authority import MARIA
from tests.support.batches import batch_of
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
#: The same ones each time: what fails here fails again.
FEW = bounds(
    max_examples=4,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def headers(settings: Any) -> dict[str, str]:
    settings.LOCKHOUSE_API_PER_MINUTE = settings.LOCKHOUSE_API_AT_ONCE = 60_000
    root = User.objects.create_superuser("root")
    actor = Actor(user_id=root.pk, name="root", permissions=frozenset({VIEW, REPLAY, BULK, AUDIT}))
    secret = tokens.issue(actor=actor, name="fuzz", scopes=[VIEW, REPLAY, BULK, AUDIT], days=1).secret
    return {"Authorization": f"Bearer {secret}"}


@pytest.fixture
def known(installation: Installation) -> dict[str, dict[str, str]]:
    """Ids that are there, by the parameter that takes them."""
    return {
        "ref": {"ref": installation.work()},
        "work_id": {"work_id": installation.work("processing")},
        "receipt_id": {"receipt_id": installation.quarantined()},
        "fence_id": {"fence_id": installation.fence()},
        "batch_id": {"batch_id": batch_of(MARIA).id},
        "pack_install_id": {"pack_install_id": installation.work()},
    }


def strategies(operation: Any, known: dict[str, dict[str, str]]) -> Iterator[Any]:
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        yield operation.as_strategy(generation_mode=mode)
    for name, there in known.items():
        if f"{{{name}}}" in operation.path:
            yield operation.as_strategy(path_parameters=there)


def exercise(strategy: Any, headers: dict[str, str]) -> set[int]:
    """Send a few requests, hold each answer against the document, return the statuses."""
    statuses: set[int] = set()

    @FEW
    @given(case=strategy)
    def send(case: Any) -> None:
        statuses.add(case.call_and_validate(headers=headers, checks=CHECKS).status_code)

    send()
    return statuses


def test_api__answers_as_its_document_says(headers: dict[str, str], known: dict[str, dict[str, str]]) -> None:
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application(), headers=headers)
    seen: dict[str, set[int]] = {}
    for found in schema.get_all_operations():
        operation = found.ok()
        label = f"{operation.method.upper()} {operation.path}"
        for strategy in strategies(operation, known):
            seen.setdefault(label, set()).update(exercise(strategy, headers))
    assert len(seen) == 19
    # Every address was met with a good answer as well, but for two whose ids nothing here has.
    assert {label for label, statuses in seen.items() if not statuses & {200, 201}} <= {
        "GET /api/v1/cutovers/{pack_install_id}",
        "POST /api/v1/connector-events/{ref}/replay",
        "POST /api/v1/batches",
        "POST /api/v1/batches/{batch_id}/go",
        "POST /api/v1/batches/{batch_id}/cancel",
    }
