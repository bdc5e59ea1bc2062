"""Installing and activating packs."""

from __future__ import annotations

import hashlib
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from integration import errors
from integration.catalog import activation, reads
from integration.catalog.loading import DocumentInvalid
from integration.catalog.policy import ActivationFacts, CatalogRefused, decide_activation
from integration.catalog.service import activate_pack, install_pack
from integration.states import PackStatus
from integration.storage import db
from integration.values import SYSTEM_ACTOR
from tests.support import webhooks

pytestmark = pytest.mark.django_db
NEWER = ('version: "1.0.0"', 'version: "1.0.1"')


@pytest.fixture(autouse=True)
def _forget() -> None:
    reads.forget_all()


def install(document: Any = None) -> Any:
    return install_pack(document or webhooks.pack(), actor=SYSTEM_ACTOR)


def refusal(document: Any) -> str:
    with pytest.raises(CatalogRefused) as caught:
        activate_pack(install(document).pack_install_id, actor=SYSTEM_ACTOR)
    assert caught.value.exit_code == 3
    return str(caught.value.refusal_code)


def audited() -> list[str]:
    from django.db import connections

    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT action FROM console_auditentry ORDER BY at, id")
        return [row[0] for row in cursor.fetchall()]


def test_install__the_same_document_again__makes_no_incarnation():
    first = install()
    again = install()
    assert (first.incarnation, first.status, first.is_new) == (1, PackStatus.INSTALLED, True)
    assert (again.pack_install_id, again.is_new) == (first.pack_install_id, False)
    activate_pack(first.pack_install_id, actor=SYSTEM_ACTOR)
    assert install().status is PackStatus.ACTIVE
    assert not activate_pack(first.pack_install_id, actor=SYSTEM_ACTOR).is_new
    assert len(webhooks.rows("PackInstall")) == 1
    assert audited() == ["pack.installed", "pack.activated"]


def test_activate__an_empty_incarnation__writes_cutoff_0_and_the_forward_receipt():
    pack_id = webhooks.activate()
    (protocol,), (receipt,), (pack,) = (
        webhooks.rows(name) for name in ("ProjectionProtocol", "CutoverReceipt", "PackInstall")
    )
    assert (protocol["PackInstallId"], protocol["ProtocolVersion"], protocol["LegacyMaxOrdinal"]) == (pack_id, 1, 0)
    assert (receipt["PackInstallId"], receipt["Direction"], receipt["OwnerGeneration"]) == (pack_id, "forward", 1)
    assert receipt["ProofDigest"] == hashlib.sha256(receipt["Proof"].encode()).hexdigest()
    proof = json.loads(receipt["Proof"])
    assert (proof["kind"], set(proof["counts"].values())) == ("greenfield_activation", {0})
    assert (pack["Status"], pack["ActiveKey"], pack["CatalogRevision"]) == ("active", "demo:demo", 1)
    assert pack["CatalogDigest"] == webhooks.pack().digest() == hashlib.sha256(pack["Definition"].encode()).hexdigest()
    assert {row["LiveKey"] for row in webhooks.rows("Route")} == {
        "demo:deal.created",
        "demo:deal.updated",
        "demo:contact.changed",
    }


def test_activate__a_newer_incarnation__retires_the_old_one_and_sweeps_its_routes():
    old = webhooks.activate()
    assert reads.find_webhook("demo", "deals").pack_install_id == old
    new = webhooks.activate(webhooks.variant("demo", NEWER))
    found = {row["PackInstallId"]: row for row in webhooks.rows("PackInstall")}
    assert (found[old]["Status"], found[old]["ActiveKey"], found[old]["RetiredAt"] is None) == ("retired", None, False)
    assert (found[new]["Status"], found[new]["Incarnation"], found[new]["CatalogRevision"]) == ("active", 2, 2)
    assert found[old]["AppInstallationId"] == found[new]["AppInstallationId"]
    status = {(row["PackInstallId"], row["Status"], row["LiveKey"] is None) for row in webhooks.rows("Route")}
    assert status == {(old, "swept", True), (new, "live", False)}
    assert reads.find_webhook("demo", "deals").pack_install_id == new
    with pytest.raises(CatalogRefused, match="never active"):
        activate_pack(old, actor=SYSTEM_ACTOR)
    assert len(webhooks.rows("CutoverReceipt")) == 2


@pytest.mark.evidence("P-18")
def test_activate__a_source_projection__is_live_with_cutoff_zero():
    document = webhooks.variant("demo", ("execution: per_event", "execution: source_projection"))
    pack_id = webhooks.activate(document)
    assert {(row["Status"], row["ExecutionClass"]) for row in webhooks.rows("Route")} == {("live", "source_projection")}
    (protocol,) = webhooks.rows("ProjectionProtocol")
    expected = {"PackInstallId": pack_id, "ProtocolVersion": 1, "LegacyMaxOrdinal": 0}
    assert {name: protocol[name] for name in expected} == expected


@pytest.mark.evidence("P-18")
@pytest.mark.django_db(transaction=True)
def test_activate__writes_the_cutoff_in_its_own_transaction(monkeypatch: pytest.MonkeyPatch):
    document = webhooks.variant("demo", ("execution: per_event", "execution: source_projection"))
    seen: list[int] = []
    record = activation.record

    def fail(*arguments: Any) -> None:
        record(*arguments)
        seen.append(len(webhooks.rows("ProjectionProtocol")))
        raise ZeroDivisionError

    monkeypatch.setattr(activation, "record", fail)
    installed = install_pack(document, actor=SYSTEM_ACTOR)
    with pytest.raises(ZeroDivisionError):
        activate_pack(installed.pack_install_id, actor=SYSTEM_ACTOR)
    assert seen == [1]
    assert webhooks.rows("ProjectionProtocol") == []
    assert {row["Status"] for row in webhooks.rows("PackInstall")} == {"installed"}


def test_activate__a_source_projection_without_a_source_lane__is_refused():
    """Such a document is not installed by this build, but an older one may have stored it."""
    document = webhooks.variant("demo", ("execution: per_event", "execution: source_projection"))
    bare = document.routes[0].model_copy(update={"source_lane": None})
    facts = ActivationFacts(
        status=PackStatus.INSTALLED,
        incarnation=1,
        newest_incarnation=1,
        has_events=False,
        document=document.model_copy(update={"routes": (bare,)}),
        kinds_live_elsewhere={},
        webhook_keys_elsewhere={},
    )
    refused = decide_activation(facts)
    assert refused is not None
    assert refused.refusal_code == "source_lane_required"
    with pytest.raises(DocumentInvalid, match="a source_lane for a source_projection"):
        webhooks.variant(
            "demo",
            ("execution: per_event", "execution: source_projection"),
            ("""    source_lane: "deal.id && join(':', ['deal', to_string(deal.id)])"\n""", ""),
        )


def test_activate__a_lane_that_stops_at_a_dead_item__is_accepted():
    flow = "flow: {name: demo.apply_deal, version: 1}"
    webhooks.activate(webhooks.variant("demo", (flow, f"on_dead: block\n    {flow}")))
    assert {row["Status"] for row in webhooks.rows("PackInstall")} == {"active"}


def test_activate__a_kind_that_another_pack_routes__is_refused():
    webhooks.activate()
    assert refusal(webhooks.variant("demo", ("pack: demo", "pack: second"))) == "route_live_elsewhere"


def test_activate__a_webhook_key_that_another_pack_has__is_refused():
    webhooks.activate()
    renamed = webhooks.variant(
        "demo",
        ("pack: demo", "pack: second"),
        ("event: deal.created", "event: x.a"),
        ("event: deal.updated", "event: x.b"),
        ("event: contact.changed", "event: x.c"),
    )
    assert refusal(renamed) == "webhook_key_taken"


def test_activate__an_older_incarnation__is_refused():
    older = install()
    install(webhooks.variant("demo", NEWER))
    with pytest.raises(CatalogRefused, match="newer"):
        activate_pack(older.pack_install_id, actor=SYSTEM_ACTOR)


def test_install__a_route_changed_under_its_version__is_refused():
    install()
    with pytest.raises(CatalogRefused) as caught:
        install(webhooks.variant("demo", ("max_attempts: 3", "max_attempts: 4")))
    assert caught.value.refusal_code == "route_version_changed"
    assert "version 2" in caught.value.operator_message()


def test_install__into_another_orgs_namespace__is_refused():
    install()
    with pytest.raises(CatalogRefused) as caught:
        install(webhooks.pack("demo", org="00000000-0000-4000-8000-000000000002"))
    assert caught.value.refusal_code == "namespace_of_another_org"


def test_activate__a_pack_that_does_not_exist__is_not_found():
    with pytest.raises(errors.PackNotFound):
        activate_pack("00000000-0000-7000-8000-000000000009", actor=SYSTEM_ACTOR)


def test_find_webhook__is_revalidated_by_revision(monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any):
    webhooks.activate()
    clock = [100.0]
    monkeypatch.setattr(reads.time, "monotonic", lambda: clock[0])
    reads.forget_all()
    with django_assert_num_queries(2):
        assert reads.find_webhook("demo", "deals") is not None
    with django_assert_num_queries(0):
        assert reads.find_webhook("demo", "deals") is not None
    clock[0] += 1.5
    with django_assert_num_queries(1):
        assert reads.find_webhook("demo", "deals") is not None
    assert reads.find_webhook("demo", "none") is None
    assert reads.find_webhook("nowhere", "deals") is None


def test_get_route__returns_the_definition():
    webhooks.activate()
    route_id = next(row["RouteId"] for row in webhooks.rows("Route") if row["EventKind"] == "deal.created")
    route = reads.get_route(route_id)
    assert (route.flow_name, route.flow_version, route.on_dead) == ("demo.apply_deal", 1, "pass")
    assert (route.retry.max_attempts, route.retry.base_seconds) == (3, 0.5)
    with pytest.raises(errors.RouteNotFound):
        reads.get_route("00000000-0000-7000-8000-000000000009")


def run(*arguments: str) -> tuple[int, dict[str, Any]]:
    out = StringIO()
    try:
        call_command("install_pack", *arguments, "--json", stdout=out, stderr=out)
    except SystemExit as end:
        return int(end.code or 0), json.loads(out.getvalue())
    return 0, json.loads(out.getvalue())


def test_command__installs_activates_and_says_so(tmp_path: Path):
    path = str(webhooks.PACKS / "demo.yaml")
    code, report = run(path, "--dry-run")
    assert (code, report["routes"], "pack_install_id" in report) == (0, 3, False)
    assert webhooks.rows("PackInstall") == []
    code, report = run(path, "--activate")
    assert (code, report["installed"], report["activated"], report["incarnation"]) == (0, True, True, 1)
    code, report = run(path, "--activate")
    assert (code, report["installed"], report["activated"]) == (0, False, False)
    code, report = run(path, "--namespace", "other", "--activate")
    assert (code, report["namespace"]) == (0, "other")


def test_command__maps_errors_to_exit_codes(tmp_path: Path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("lockhouse: 2\n", encoding="utf-8")
    code, report = run(str(broken))
    assert (code, report["error"]) == (2, "document_invalid")
    assert {problem["path"] for problem in report["problems"]} >= {"lockhouse", "pack", "routes"}
    assert run(str(tmp_path / "none.yaml"))[0] == 2
    webhooks.activate()
    second = tmp_path / "second.yaml"
    text = (webhooks.PACKS / "demo.yaml").read_text(encoding="utf-8")
    second.write_text(text.replace("pack: demo", "pack: second"), encoding="utf-8")
    code, report = run(str(second), "--activate")
    assert (code, report["error"], report["refusal"]) == (3, "refused", "route_live_elsewhere")


def test_activate__locks_namespace_pack_route_in_that_order(monkeypatch: pytest.MonkeyPatch):
    webhooks.activate()
    traces: list[list[str]] = []
    execute = db.Tx.execute

    def trace(self: db.Tx, statement: Any, params: Any = None) -> int:
        found = execute(self, statement, params)
        if self.name == "catalog.activate_pack":
            traces.append([rank.name for rank in self.lock_trace])
        return found

    monkeypatch.setattr(db.Tx, "execute", trace)
    webhooks.activate(webhooks.variant("demo", NEWER))
    assert traces[-1][:2] == ["NAMESPACE", "PACK"]
    assert set(traces[-1][2:]) == {"ROUTE"}
