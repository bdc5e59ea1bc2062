"""What machines ask: is the process up, can it work, how much waits."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator

from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from console.permissions import VIEW
from console.pressure import pressure_gauges
from integration.errors import IntegrationError
from integration.states import ReceiptState, WorkItemState
from integration.work import figures
from integration.work.families import CONNECTOR
from integration.work.pressure import COVERED_CAP, read_pressure

#: Counting for a scrape stops here; the gauge then stands at the cap.
METRICS_CAP = COVERED_CAP


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer 200 while the process serves requests; touches nothing else."""
    return HttpResponse("ok\n", content_type="text/plain; charset=utf-8")


@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 200 when the database answers, 503 otherwise; never says why."""
    try:
        ready = figures.answers()
    except (DatabaseError, IntegrationError):
        ready = False
    return HttpResponse(
        "ok\n" if ready else "not ready\n",
        status=200 if ready else 503,
        content_type="text/plain",
    )


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Expose gauges without names: no namespace, lane, id or worker is a label.

    To this machine and to whoever may view; a stranger could make the database count at will.
    """
    if not (_is_local(request) or request.user.has_perm(VIEW)):
        raise PermissionDenied
    registry = CollectorRegistry()
    registry.register(_Scrape())
    return HttpResponse(generate_latest(registry) + _counted(), content_type=CONTENT_TYPE_LATEST)


class _Scrape(Collector):
    """What the database says now.

    Families instead of gauges: where several processes share their counts, every gauge is written to a file that each
    of them reads, and this scrape's would be told again by all later ones.
    """

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read and yield all gauges of one scrape."""
        pressure = read_pressure()
        connector = pressure[CONNECTOR.name]
        work = GaugeMetricFamily(
            "lockhouse_work_items", f"WorkItems by state, counted up to {METRICS_CAP}.", labels=["state"]
        )
        for state in WorkItemState:
            # What has not ended is counted already, to the same cap.
            count = connector.depth.get(state)
            if count is None:
                count = figures.count_in_state(state, cap=METRICS_CAP).value
            work.add_metric([str(state)], count)
        yield work
        receipts = GaugeMetricFamily(
            "lockhouse_receipts", f"Waiting receipts by state, counted up to {METRICS_CAP}.", labels=["state"]
        )
        for waiting in (ReceiptState.RECEIVED, ReceiptState.QUARANTINED):
            receipts.add_metric([str(waiting)], figures.count_receipts(waiting, cap=METRICS_CAP).value)
        yield receipts
        workers = figures.workers_alive(timezone.now())
        yield GaugeMetricFamily("lockhouse_workers_alive", "Claim processes heard of lately.", workers.alive)
        yield GaugeMetricFamily("lockhouse_claims_in_flight", "Claims that workers hold.", workers.in_flight)
        yield GaugeMetricFamily(
            "lockhouse_oldest_due_seconds",
            "How long the longest waiting due WorkItem waits.",
            connector.oldest_due_seconds,
        )
        yield from pressure_gauges(pressure)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield nothing: to name the gauges beforehand would be to read them."""
        return iter(())


def _is_local(request: HttpRequest) -> bool:
    # Behind a proxy on this machine every request comes from loopback: it says so in a header.
    if {"HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED"} & set(request.META):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def _counted() -> bytes:
    """Return what the web processes counted, of all of them where gunicorn runs several."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest(REGISTRY)
    shared = CollectorRegistry()
    MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
    return generate_latest(shared)
