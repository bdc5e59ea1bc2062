"""Replaying one row: the confirm page, the act, the refusals, the lost race, the child's progress."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.http import HttpResponse
from django.test import Client

from console.models import AuditEntry, User
from integration.authority import service
from tests.support.authority import World
from tests.support.html import Markup
from tests.support.rows import Installation

pytestmark = pytest.mark.django_db(transaction=True)


def _form(client: Client, ref: str) -> dict[str, str]:
    text = client.get(f"/dlq/{ref}/replay").content.decode()
    fields = dict(re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)"', text))
    assert {"csrfmiddlewaretoken", "idempotency_key", "route"} <= set(fields)
    return fields


def _send(client: Client, ref: str, **over: str) -> Any:
    return client.post(f"/dlq/{ref}/replay", {**_form(client, ref), "reason": "Stage names are fixed", **over})


def _children(ref: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM _System_ConnectorWorkItem WHERE ReplayOfWorkId = %s", [ref])
        return int(cursor.fetchone()[0])


def test_confirm__says_where_it_goes(replayer: Client, installation: Installation) -> None:
    text = replayer.get(f"/dlq/{installation.work()}/replay").content.decode()
    assert [] == Markup(text).faults()
    for words in ("Where it goes", "incarnation 4", "version 12", "tests.noop"):
        assert words in text


def test_replay__makes_one_child_and_shows_how_it_fares(replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    response = _send(replayer, ref)
    assert (302, f"/dlq/{ref}/replayed") == (response.status_code, response["Location"])
    text = replayer.get(response["Location"]).content.decode()
    assert "waits for a worker" in text
    assert "by rolf, because: Stage names are fixed" in text
    assert 1 == _children(ref)
    entry = AuditEntry.objects.get(action="work_item.replayed")
    assert ("done", "rolf", "console", "Stage names are fixed") == (
        entry.outcome,
        entry.actor_name,
        entry.via,
        entry.reason,
    )


def test_replay__a_double_submit_makes_one_child_and_answers_the_same(
    replayer: Client, installation: Installation
) -> None:
    ref = installation.work()
    form = {**_form(replayer, ref), "reason": "Once is enough"}
    first, second = (replayer.post(f"/dlq/{ref}/replay", form) for _ in range(2))
    assert [(302, f"/dlq/{ref}/replayed")] * 2 == [(one.status_code, one["Location"]) for one in (first, second)]
    assert 1 == _children(ref)
    assert 1 == AuditEntry.objects.filter(ref_id=ref).count()


def test_replay__the_loser_reads_who_won_and_that_it_wrote_nothing(
    signed_in: Callable[..., Client], installation: Installation
) -> None:
    ref = installation.work()
    ana, boris = signed_in("ana", "Replayer"), signed_in("boris", "Replayer")
    late = {**_form(boris, ref), "reason": "Me too"}
    _send(ana, ref)
    response = boris.post(f"/dlq/{ref}/replay", late)
    text = response.content.decode()
    assert 409 == response.status_code
    assert "<h2>It was replayed already</h2>" in text
    assert "Somebody was faster" not in text
    assert "<b>ana</b>" in text
    assert "Your request wrote nothing" in text
    assert re.search(r'href="/work/[0-9a-f-]{36}/"', text)
    assert 1 == _children(ref)
    assert ["done", "refused"] == sorted(
        "refused" if entry.outcome == "lost" else entry.outcome for entry in AuditEntry.objects.filter(ref_id=ref)
    )


def test_replay__the_loser_of_a_race_reads_that_somebody_was_faster(
    signed_in: Callable[..., Client], installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = installation.work()
    ana, boris = signed_in("ana", "Replayer"), signed_in("boris", "Replayer")
    late = {**_form(boris, ref), "reason": "Me too"}
    real = service.gather.read_facts

    def overtaken(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(service.gather, "read_facts", real)
        found = real(*arguments, **options)
        _send(ana, ref)
        return found

    monkeypatch.setattr(service.gather, "read_facts", overtaken)
    text = boris.post(f"/dlq/{ref}/replay", late).content.decode()
    assert "<h2>Somebody was faster</h2>" in text
    assert "<b>ana</b>" in text
    assert "<code>lost_race</code>" in text
    assert 1 == _children(ref)


def test_replay__a_second_try_reads_that_one_replayed_it_oneself(replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    again = {**_form(replayer, ref), "reason": "Once more"}
    _send(replayer, ref)
    response = replayer.post(f"/dlq/{ref}/replay", again)
    text = response.content.decode()
    assert 409 == response.status_code
    assert "<h2>You replayed it already</h2>" in text
    assert "Somebody was faster" not in text
    assert "<b>rolf</b> replayed it" not in text
    assert 1 == text.count("It was replayed already; a row has one child.")
    assert [] == Markup(text).faults()


def test_replay__a_refusal_is_a_409_with_code_sentence_and_next_step(
    replayer: Client, installation: Installation
) -> None:
    ref = installation.work()
    form = {**_form(replayer, ref), "reason": "Through the fence"}
    installation.fence("*")
    response = replayer.post(f"/dlq/{ref}/replay", form)
    text = response.content.decode()
    assert 409 == response.status_code
    assert "Not replayed" in text
    assert 2 == text.count("An admission fence over the namespace")
    assert [] == Markup(text).faults()
    assert "<code>admission_fenced</code>" in text
    assert "Through the fence" in text
    assert 0 == _children(ref)
    assert "refused" == AuditEntry.objects.get(ref_id=ref).outcome


def test_replay__the_button_of_a_refused_row_is_disabled_with_its_reason(
    replayer: Client, installation: Installation
) -> None:
    ref = installation.work()
    installation.fence("*")
    text = replayer.get(f"/dlq/{ref}/replay").content.decode()
    assert 'disabled aria-describedby="refused-why"' in text
    assert 2 == text.count("An admission fence over the namespace")
    assert [] == Markup(text).faults()


@pytest.mark.parametrize(
    "reason", ["", "   ", "x" * 501, "\u200b\u2060", "\u00ad", "right \u202e to left", "\x1b[31mred"]
)
def test_replay__needs_a_reason_that_can_be_read(reason: str, replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    response = _send(replayer, ref, reason=reason)
    assert 422 == response.status_code
    assert 'aria-invalid="true"' in response.content.decode()
    assert 0 == _children(ref)


def test_replay__a_reason_of_several_lines_is_kept_as_one(replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    assert 302 == _send(replayer, ref, reason="First line\r\nsecond line").status_code
    assert "First line second line" == AuditEntry.objects.get(ref_id=ref).reason


def test_replay__needs_its_token(replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    response = replayer.post(f"/dlq/{ref}/replay", {"reason": "x", "idempotency_key": str(uuid.uuid4())})
    assert 403 == response.status_code
    assert "did not come from this console" in response.content.decode()
    assert 0 == _children(ref)


@pytest.mark.evidence("A-32")
def test_confirm__shows_no_row_to_whoever_may_replay_and_not_view(
    signed_in: Callable[..., Client], installation: Installation
) -> None:
    ref = installation.work()
    client = signed_in("nora")
    User.objects.get(username="nora").user_permissions.add(Permission.objects.get(codename="replay_connector_event"))
    response = client.get(f"/dlq/{ref}/replay")
    assert 403 == response.status_code
    assert installation.namespace not in response.content.decode()


@pytest.mark.evidence("A-32")
def test_replay__a_right_revoked_while_the_page_was_open_refuses_the_post(
    replayer: Client, installation: Installation
) -> None:
    ref = installation.work()
    form = {**_form(replayer, ref), "reason": "Too late"}
    user = User.objects.get(username="rolf")
    user.groups.set(Group.objects.filter(name="Viewer"))
    assert 403 == replayer.post(f"/dlq/{ref}/replay", form).status_code
    assert 403 == replayer.get(f"/dlq/{ref}/replay").status_code
    assert 0 == _children(ref)


def test_replay__a_route_that_moved_since_the_page_was_drawn_refuses(
    replayer: Client, installation: Installation
) -> None:
    ref = installation.work()
    response = _send(replayer, ref, route="11")
    assert 409 == response.status_code
    assert 0 == _children(ref)


def test_replay__is_never_done_by_a_get(replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    replayer.get(f"/dlq/{ref}/replay", _form(replayer, ref) | {"reason": "by link"})
    assert 0 == _children(ref)


def test_progress__a_poll_that_finds_nothing_new_is_a_204(replayer: Client, installation: Installation) -> None:
    ref = installation.work()
    _send(replayer, ref)

    def poll(seen: str) -> HttpResponse:
        return replayer.get(f"/dlq/{ref}/replayed", {"seen": seen}, headers={"HX-Request": "true"})

    assert 204 == poll("pending").status_code
    changed = poll("processing")
    assert 200 == changed.status_code
    assert 'hx-trigger="every 1s"' in changed.content.decode()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE _System_ConnectorWorkItem SET State = 'succeeded', Attempt = 1, TerminalAt = UTC_TIMESTAMP(6)"
            " WHERE ReplayOfWorkId = %s",
            [ref],
        )
    ended = poll("pending").content.decode()
    assert "The child succeeded" in ended
    assert "hx-trigger" not in ended


def test_progress__names_who_replayed_what_the_event_executor_gave_up(replayer: Client, db: None) -> None:
    ref = World().legacy()
    response = _send(replayer, str(ref))
    assert 302 == response.status_code
    assert "by rolf, because: Stage names are fixed" in replayer.get(response["Location"]).content.decode()


def test_progress__says_that_nobody_replayed_it(viewer: Client, installation: Installation) -> None:
    assert "nobody replayed it" in viewer.get(f"/dlq/{installation.work()}/replayed").content.decode()
