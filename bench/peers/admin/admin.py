"""The peer's page, found by Django's own autodiscovery."""

from __future__ import annotations

from django.contrib import admin

from bench.peers.admin.models import DeadWork


@admin.register(DeadWork)
class DeadWorkAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A changelist as Django's documentation shows it."""

    list_display = ["work_id", "event_id", "namespace", "event_kind", "source_lane", "attempt", "terminal_at"]
    list_filter = ["state"]
    list_per_page = 50
    ordering = ["-terminal_at"]
