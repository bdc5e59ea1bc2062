"""The pressure of durable work as Prometheus gauges. Labels come from closed sets: families, states, spans."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Gauge

from integration.work.pressure import LONG_SECONDS, SHORT_SECONDS, FamilyPressure


def register_pressure(registry: CollectorRegistry, pressure: Mapping[str, FamilyPressure]) -> None:
    """Put the pressure of every family into a scrape's registry.

    Args:
        registry: The registry of one scrape; nothing is carried over to the next.
        pressure: The families' figures by name, as they were read for this scrape.

    Rule: K-13.
    """
    depth = Gauge(
        "lockhouse_queue_depth", "WorkItems that have not ended, up to a cap.", ["family", "state"], registry=registry
    )
    oldest = Gauge(
        "lockhouse_queue_oldest_due_seconds", "How long the oldest due item waits.", ["family"], registry=registry
    )
    ended = Gauge(
        "lockhouse_queue_ended",
        "WorkItems that ended within the last seconds, up to a cap.",
        ["family", "state", "seconds"],
        registry=registry,
    )
    rate = Gauge(
        "lockhouse_queue_ended_per_second",
        "How fast WorkItems ended lately, by outcome.",
        ["family", "state"],
        registry=registry,
    )
    in_lanes = Gauge(
        "lockhouse_lane_items", "Sampled items that stand in a source lane.", ["family"], registry=registry
    )
    behind = Gauge(
        "lockhouse_lane_waiting", "Sampled items that wait behind their lane's head.", ["family"], registry=registry
    )
    capped = Gauge(
        "lockhouse_queue_capped",
        "1 when a figure stopped at its cap: there may be more.",
        ["family", "figure"],
        registry=registry,
    )
    for family, found in pressure.items():
        for state, count in found.depth.items():
            depth.labels(family=family, state=str(state)).set(count)
        for seconds, counts in ((SHORT_SECONDS, found.ended_short), (LONG_SECONDS, found.ended_long)):
            for state, count in counts.items():
                ended.labels(family=family, state=str(state), seconds=str(seconds)).set(count)
        oldest.labels(family=family).set(found.oldest_due_seconds)
        in_lanes.labels(family=family).set(found.in_lanes)
        behind.labels(family=family).set(found.behind_heads)
        for state, per_second in found.ended_per_second.items():
            rate.labels(family=family, state=str(state)).set(per_second)
        for figure, is_capped in found.capped.items():
            capped.labels(family=family, figure=figure).set(float(is_capped))
