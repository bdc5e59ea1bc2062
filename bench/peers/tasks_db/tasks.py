"""The task that does nothing."""

from __future__ import annotations

from django_tasks import task

from bench.pacing import note


@task()
def noop(payload: dict[str, object]) -> None:
    """Do nothing with a payload of the same size as the other sides'."""
    if "at" in payload:
        note(float(str(payload["at"])))
