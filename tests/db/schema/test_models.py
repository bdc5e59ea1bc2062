"""The models map what pages may show, as it is in the database, and write nothing."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from django.apps import apps
from django.db import connections, models

from integration.models import ConnectorEvent, ConnectorWorkItem
from integration.models.base import ReadOnlyModel, ReadOnlyModelWrite
from integration.models.events import PERMISSIONS
from integration.storage.schema import declared_tables

MODELS = sorted(apps.get_app_config("integration").get_models(), key=lambda model: model.__name__)

#: Columns that no page, API schema or export may reach.
FORBIDDEN = re.compile(
    r"^(?:Payload|Body|Request|RequestBody|SafeHeaders|RouteSnapshot|Definition|OperationDefinition|DesiredDefinition"
    r"|LocalCompletion|AuthoritySnapshot|ProviderReceipt|IdempotencyMaterial|CredentialReference|SecretReference"
    r"|FailureClass|FailureSummary|LastError|LeaseOwner|ClaimedBy|RefreshOwner|Host|KeyId|TokenBundle"
    r"|.*Token)$"
)
#: Tables that no page shows at all: worker identity, admission keys, the legacy oracle, the Runtime's side.
UNMAPPED = {
    "_System_ConnectorClaimProcess",
    "_System_ConnectorPushAttempt",
    "_System_ConnectorSchedulerLease",
    "_System_IntegrationHandoff",
    "_System_RuntimeInbox",
    "_System_RuntimeLead",
    "_System_RuntimeOutbox",
}
KINDS: dict[type[models.Field[Any, Any]], set[str]] = {
    models.CharField: {"char", "varchar"},
    models.TextField: {"longtext"},
    models.IntegerField: {"int"},
    models.BigIntegerField: {"bigint"},
    models.DateTimeField: {"datetime"},
}


@pytest.mark.evidence("A-31")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_models__map_no_forbidden_column(model: type[models.Model]) -> None:
    assert [f.column for f in model._meta.concrete_fields if FORBIDDEN.match(str(f.column))] == []


def test_models__the_forbidden_pattern_finds_what_it_must() -> None:
    for column in ("LeaseToken", "ClaimToken", "CleanupToken", "RefreshToken", "Payload", "FailureClass", "LastError"):
        assert FORBIDDEN.match(column), column
    assert not FORBIDDEN.match("TokenVersion")
    assert not FORBIDDEN.match("PayloadHash")


def test_models__cover_every_table_that_a_page_shows() -> None:
    assert set(declared_tables()) - UNMAPPED == {model._meta.db_table for model in MODELS}


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_models__columns_are_as_in_the_database(model: type[models.Model]) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, IS_NULLABLE, COLUMN_TYPE "
            "FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s",
            [model._meta.db_table],
        )
        found = {row[0]: row[1:] for row in cursor.fetchall()}
        cursor.execute(
            "SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() "
            "AND TABLE_NAME = %s AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX",
            [model._meta.db_table],
        )
        primary = [row[0] for row in cursor.fetchall()]
    for field in model._meta.concrete_fields:
        kind, length, nullable, column_type = found[field.column]
        assert str(kind).lower() in KINDS[type(field)], field
        assert field.null is (nullable == "YES"), field
        if isinstance(field, models.CharField):
            assert field.max_length == int(length), field
        if isinstance(field, models.DateTimeField):
            assert str(column_type).lower() == "datetime(6)", field
    assert primary == [field.column for field in model._meta.pk_fields]
    assert list(model.objects.all()[:1]) == []  # type: ignore[attr-defined]


WRITES: dict[str, Any] = {
    "create": lambda manager: manager.create(),
    "get_or_create": lambda manager: manager.get_or_create(),
    "update_or_create": lambda manager: manager.update_or_create(),
    "bulk_create": lambda manager: manager.bulk_create([ConnectorEvent()]),
    "bulk_update": lambda manager: manager.bulk_update([ConnectorEvent()], ["status"]),
    "update": lambda manager: manager.update(status="dead"),
    "delete": lambda manager: manager.all().delete(),
    "raw_delete": lambda manager: manager.all()._raw_delete("default"),
    "select_for_update": lambda manager: manager.select_for_update(),
    "acreate": lambda manager: asyncio.run(manager.acreate()),
    "aget_or_create": lambda manager: asyncio.run(manager.aget_or_create()),
    "aupdate_or_create": lambda manager: asyncio.run(manager.aupdate_or_create()),
    "abulk_create": lambda manager: asyncio.run(manager.abulk_create([])),
    "abulk_update": lambda manager: asyncio.run(manager.abulk_update([], [])),
    "aupdate": lambda manager: asyncio.run(manager.aupdate(status="dead")),
    "adelete": lambda manager: asyncio.run(manager.all().adelete()),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("manager", ["objects", "_base_manager", "_default_manager"])
def test_managers__refuse_every_write(manager: str, write: Any) -> None:
    with pytest.raises(ReadOnlyModelWrite):
        write(getattr(ConnectorEvent, manager))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_instances__refuse_to_be_written(model: type[ReadOnlyModel]) -> None:
    row = model()
    for write in (row.save, row.delete, row.save_base):
        with pytest.raises(ReadOnlyModelWrite):
            write()
    for write_later in (row.asave, row.adelete):
        with pytest.raises(ReadOnlyModelWrite):
            asyncio.run(write_later())


def test_managers__every_method_of_django_that_writes_is_listed() -> None:
    """A Django upgrade that adds a writing method must not slip through."""
    altering = {
        name
        for name in dir(models.QuerySet)
        if getattr(getattr(models.QuerySet, name), "alters_data", False) and not name.startswith("_")
    }
    assert altering <= set(WRITES)


@pytest.mark.django_db
def test_permissions__exist_and_no_others() -> None:
    from django.contrib.auth.models import Permission

    found = set(Permission.objects.filter(content_type__app_label="integration").values_list("codename", flat=True))
    assert {codename for codename, _ in PERMISSIONS} == found
    assert {"view_connector_event", "replay_connector_event"} <= found


@pytest.mark.django_db
def test_models__read_a_row() -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "INSERT INTO _System_ConnectorWorkItem (WorkId, WorkFamily, WorkType, SubjectKind, SubjectId, EventId, OrgId, "
            "Namespace, PackInstallId, RouteId, RouteVersion, FlowName, FlowVersion, EventKind, CatalogDigest, State, "
            "RunAfter, MaxAttempts, CreatedAt, UpdatedAt, LeaseToken) VALUES ('w', 'event', 'connector_event', 'event', "
            "'e', 'e', 'o', 'acme', 'p', 'r', 1, 'flow', '1', 'kind', %s, 'dead', UTC_TIMESTAMP(6), 3, "
            "UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), 'secret')",
            ["0" * 64],
        )
    row = ConnectorWorkItem.objects.get(pk="w")
    assert ("dead", 0, None) == (row.state, row.attempt, row.replay_of_work_id)
    assert row.created_at.tzinfo is not None
    assert "secret" not in repr(row.__dict__)
