"""The pressure of durable work as Prometheus gauges. Labels come from closed sets: families, states, spans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily

from integration.work.pressure import LONG_SECONDS, SHORT_SECONDS, FamilyPressure


def pressure_gauges(pressure: Mapping[str, FamilyPressure]) -> Iterator[GaugeMetricFamily]:
    """Yield the pressure of every family as gauges.

    Args:
        pressure: The families' figures by name, as they were read for this scrape.

    Rule: K-13.
    """
    depth = GaugeMetricFamily(
        "lockhouse_queue_depth", "WorkItems that have not ended, up to a cap.", labels=["family", "state"]
    )
    oldest = GaugeMetricFamily(
        "lockhouse_queue_oldest_due_seconds", "How long the oldest due item waits.", labels=["family"]
    )
    ended = GaugeMetricFamily(
        "lockhouse_queue_ended",
        "WorkItems that ended within the last seconds, up to a cap.",
        labels=["family", "state", "seconds"],
    )
    rate = GaugeMetricFamily(
        "lockhouse_queue_ended_per_second",
        "How fast WorkItems ended lately, by outcome.",
        labels=["family", "state"],
    )
    in_lanes = GaugeMetricFamily(
        "lockhouse_lane_items", "Sampled items that stand in a source lane.", labels=["family"]
    )
    behind = GaugeMetricFamily(
        "lockhouse_lane_waiting", "Sampled items that wait behind their lane's head.", labels=["family"]
    )
    capped = GaugeMetricFamily(
        "lockhouse_queue_capped",
        "1 when a figure stopped at its cap: there may be more.",
        labels=["family", "figure"],
    )
    for family, found in pressure.items():
        for state, count in found.depth.items():
            depth.add_metric([family, str(state)], count)
        for seconds, counts in ((SHORT_SECONDS, found.ended_short), (LONG_SECONDS, found.ended_long)):
            for state, count in counts.items():
                ended.add_metric([family, str(state), str(seconds)], count)
        oldest.add_metric([family], found.oldest_due_seconds)
        in_lanes.add_metric([family], found.in_lanes)
        behind.add_metric([family], found.behind_heads)
        for state, per_second in found.ended_per_second.items():
            rate.add_metric([family, str(state)], per_second)
        for figure, is_capped in found.capped.items():
            capped.add_metric([family, figure], float(is_capped))
    yield from (depth, oldest, ended, rate, in_lanes, behind, capped)
