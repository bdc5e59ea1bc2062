"""The dead-letter table as an unmanaged model: what a team would write to look at it in Django's own admin."""

from __future__ import annotations

from django.db import models


class DeadWork(models.Model):
    """One WorkItem."""

    work_id = models.CharField(primary_key=True, max_length=36, db_column="WorkId")
    event_id = models.CharField(max_length=36, db_column="EventId")
    namespace = models.CharField(max_length=128, db_column="Namespace")
    event_kind = models.CharField(max_length=128, db_column="EventKind")
    source_lane = models.CharField(max_length=255, null=True, db_column="SourceLane")  # noqa: DJ001
    state = models.CharField(max_length=32, db_column="State")
    attempt = models.IntegerField(db_column="Attempt")
    terminal_at = models.DateTimeField(null=True, db_column="TerminalAt")
    replayed_at = models.DateTimeField(null=True, db_column="ReplayedAt")

    class Meta:
        managed = False
        db_table = "_System_ConnectorWorkItem"
        app_label = "admin_peer"

    def __str__(self) -> str:
        return self.work_id
