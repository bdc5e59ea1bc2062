"""`/api/v1/connector-events`: list, one Event, the plan of its replay, the replay.

The handlers ask the service for the WorkItem addition and do without it where there is none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI, Query, Status
from ninja.errors import HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema

from console.answers import ANSWERS, say
from console.api import batches, work
from console.api.document import complete
from console.api.once import UNCHANGED
from console.api.problems import SOON, is_for_the_log, problem, retry_after
from console.api.queries import refuse_unknown
from console.api.schemas import (
    ContextOut,
    DetailOut,
    ListQuery,
    PageOut,
    PlanOut,
    ReplayedOut,
    ReplayIn,
    RowOut,
    WorkItemOut,
)
from console.api.services import connector_events
from console.middleware import actor_of
from console.permissions import REPLAY, VIEW
from integration import errors
from integration.authority.events_admin import event_of
from integration.authority.listing import DeadFilters, DeadRow
from integration.authority.protocols import WorkItemDlqCapability
from integration.authority.values import Ref, Refused
from integration.values import Actor, plain

#: What the published interface narrows a list by, beside the page.
PUBLISHED_FILTERS: Final = frozenset({"namespace", "event_kind", "provider", "replayed"})
_PAGE: Final = frozenset({"cursor", "limit"})


class Api(NinjaAPI):
    """The API, whose document names every problem that an address can answer with."""

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        """Return the OpenAPI document."""
        return complete(super().get_openapi_schema(**options))


api = Api(title="Lockhouse", version="1", urls_namespace="api", docs_url=None)
api.add_router("", batches.router)
api.add_router("", work.router)


@api.get("connector-events", response=PageOut, url_name="connector-events")
def list_events(request: HttpRequest, query: Query[ListQuery]) -> Any:
    """List dead Events of both owners, latest death first."""
    refuse_unknown(request, ListQuery)
    service, within = connector_events(), _actor(request).reach(VIEW)
    filters = query.model_dump(exclude=set(_PAGE))
    if isinstance(service, WorkItemDlqCapability):
        page = service.list_dead(DeadFilters(**filters), cursor=query.cursor, limit=query.limit, within=within)
        return {
            "items": [_row(row) for row in page.rows],
            "newer": page.newer,
            "older": page.older,
            "searched_back_to": page.searched_back_to,
            "rejected": [plain(rejected) for rejected in page.rejected],
        }
    if not within.is_everywhere:
        return _unscoped(request)
    if any(value is not None for name, value in filters.items() if name not in PUBLISHED_FILTERS):
        return _not_supported("This filter is not one that the installed service has.")
    published = {name: filters[name] for name in sorted(PUBLISHED_FILTERS)}
    events = service.list(**published, cursor=query.cursor, limit=query.limit)
    return {
        "items": [RowOut.from_orm(event) for event in events.events],
        "newer": events.newer,
        "older": events.older,
    }


@api.get("connector-events/{str:ref}", response=DetailOut, url_name="connector-event")
def get_event(request: HttpRequest, ref: str) -> Any:
    """Return one Event by its id, or by its WorkItem's."""
    service, parsed, within = connector_events(), Ref.parse(ref), _actor(request).reach(VIEW)
    if isinstance(service, WorkItemDlqCapability):
        detail = service.get_dead(parsed, within=within)
        return {**_row(detail.row).model_dump(), "context": ContextOut(**plain(detail))}
    if not within.is_everywhere:
        return _unscoped(request)
    return DetailOut.from_orm(service.get(parsed.id))


@api.get("connector-events/{str:ref}/plan", response=PlanOut, url_name="connector-event-plan")
def plan_replay(request: HttpRequest, ref: str, route_version: int | None = None) -> Any:
    """Say what a replay would do now, rule by rule; nothing is written."""
    service, parsed = connector_events(), Ref.parse(ref)
    if not isinstance(service, WorkItemDlqCapability):
        return _not_supported("The installed service has no plans.")
    plan = service.plan_replay(parsed, actor=_actor(request), route_version=route_version)
    return {**plain(plan), "ref": str(plan.ref)}


@api.post(
    "connector-events/{str:ref}/replay",
    response={200: ReplayedOut, 201: ReplayedOut},
    url_name="connector-event-replay",
)
def replay(request: HttpRequest, ref: str, body: ReplayIn) -> Any:
    """Replay one Event. `Idempotency-Key` names the request: within a day the same one gets the first answer."""
    # Beyond the day for which an answer is kept, the trail still knows the key.
    key = request.headers["Idempotency-Key"]
    service, parsed, actor = connector_events(), Ref.parse(ref), _actor(request)
    outcome: Any
    if isinstance(service, WorkItemDlqCapability):
        outcome = service.replay_dead(
            parsed, actor=actor, reason=body.reason, route_version=body.route_version, idempotency_key=key
        )
    elif not actor.reach(VIEW).within(actor.reach(REPLAY)).is_everywhere:
        return _unscoped(request)
    elif body.route_version is not None:
        return _not_supported("The installed service confirms no route version; nothing was changed.")
    else:
        outcome = service.replay(parsed.id, actor=actor, reason=body.reason, idempotency_key=key)
    if isinstance(outcome, Refused):
        return _refusal(outcome)
    return Status(200 if outcome.is_repeat else 201, ReplayedOut.from_orm(outcome))


def _actor(request: HttpRequest) -> Actor:
    return replace(actor_of(request), via="api")


def _unscoped(request: HttpRequest) -> HttpResponse:
    # The published interface knows no places: only who may look everywhere is let through to it.
    return say(request, 403, code="permission_denied")


def _row(row: DeadRow) -> RowOut:
    event = RowOut.from_orm(event_of(row))
    event.work_item = WorkItemOut(**{**plain(row), "ref": str(row.ref)})
    return event


def _refusal(refused: Refused) -> HttpResponse:
    return _say(
        refused.http_status,
        refused.code,
        refused.sentence,
        next_step=refused.next_step,
        facts=plain(refused.facts),
        winner=plain(refused.winner),
    )


def _say(status: int, code: str, detail: str, **more: Any) -> HttpResponse:
    answer = ANSWERS.get(status, ANSWERS[400])
    return problem(status, code=code, title=answer.title, detail=detail, **{"next_step": answer.next_step, **more})


def _not_supported(detail: str) -> HttpResponse:
    return problem(501, code="not_supported", title="Not offered here", detail=detail)


@api.exception_handler(errors.IntegrationError)
def _domain_error(request: HttpRequest, error: errors.IntegrationError) -> HttpResponse:
    if is_for_the_log(error):
        raise error
    fields = {name: plain(value) for name, value in error.data_fields.items()}
    response = _say(error.http_status, error.code, error.operator_message(), fields=fields)
    if error.retryable:
        setattr(request, UNCHANGED, True)
    wait = retry_after(error)
    if wait is not None:
        response["Retry-After"] = wait
    return response


@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
def _database_away(request: HttpRequest, error: Exception) -> HttpResponse:
    # The driver's words name the server and the account. Where it broke nobody knows: the key stays bound.
    response = _say(503, errors.DatabaseUnavailable.code, ANSWERS[503].title)
    response["Retry-After"] = SOON
    return response


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    # Where and what is wrong, never the value itself.
    faults = [
        {"at": [str(part) for part in fault.get("loc", ())], "message": str(fault.get("msg", ""))}
        for fault in error.errors
    ]
    return _say(422, "invalid_input", "A value is not valid; nothing was changed.", faults=faults)


@api.exception_handler(HttpError)
def _http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    return _say(error.status_code, "invalid_input", "The request could not be read; nothing was changed.")


@api.exception_handler(Http404)
def _no_such(request: HttpRequest, error: Http404) -> HttpResponse:
    return say(request, 404, code="not_found")
