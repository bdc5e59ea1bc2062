"""What the kernel counts. Labels come from closed sets or from packs, never from a caller."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

CLAIMS: Final = Counter("lockhouse_work_claims_total", "Claims tried, by how they ended.", ["outcome"])
FINISHED: Final = Counter("lockhouse_work_finished_total", "Executions finished, by transition.", ["transition"])
STALE: Final = Counter("lockhouse_work_stale_total", "Transitions refused because the claim was no longer live.")
REAPED: Final = Counter("lockhouse_work_reaped_total", "Expired leases taken back, by transition.", ["transition"])
BLOCKED: Final = Counter("lockhouse_work_blocked_total", "Items that wait or waited for a dependency.", ["outcome"])
RENEWALS: Final = Counter("lockhouse_work_renewals_total", "Lease renewals, by outcome.", ["outcome"])
# The web processes, which share their counts, load it too: without a mode it would be told of each of them.
IN_FLIGHT: Final = Gauge(
    "lockhouse_work_in_flight", "Claims that this process holds, waiting ones too.", multiprocess_mode="livesum"
)
FLOW_SECONDS: Final = Histogram("lockhouse_work_flow_seconds", "How long flows ran, in seconds.", ["flow"])
OUTAGES: Final = Counter("lockhouse_work_outages_total", "Meetings with a database that did not answer.", ["role"])
