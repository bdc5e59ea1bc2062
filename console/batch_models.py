"""The tables of bulk replays, which `integration.batches` alone writes."""

from __future__ import annotations

from django.db import models


class ReplayBatch(models.Model):
    """A bulk replay: what was selected, by whom and why, and how far it is.

    Read here; written by `integration.batches` alone. What became of the selection stands in the items.
    """

    id = models.CharField(primary_key=True, max_length=36, editable=False)
    state = models.CharField(max_length=16)
    created_at = models.DateTimeField()
    created_by_id = models.BigIntegerField(null=True)
    created_by_name = models.CharField(max_length=150)
    reason = models.CharField(max_length=500)
    #: The filter as canonical JSON, or the word that ids were given.
    selection = models.TextField()
    selection_digest = models.CharField(max_length=64)
    request_digest = models.CharField(max_length=64, null=True, unique=True)  # noqa: DJ001 - absent is not empty
    total = models.IntegerField()
    is_capped = models.BooleanField()
    left_out = models.IntegerField()
    canary = models.IntegerField()
    is_past_canary = models.BooleanField()
    halt_after = models.IntegerField()
    per_minute = models.IntegerField()
    resumed_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    halt_code = models.CharField(max_length=64)
    runner_id = models.CharField(max_length=36, null=True)  # noqa: DJ001 - absent is not empty
    lease_until = models.DateTimeField(null=True)

    class Meta:
        """What a runner looks for."""

        indexes = [models.Index(fields=["state", "id"], name="batch_state_id")]

    def __str__(self) -> str:
        """Name the batch by its id and state."""
        return f"{self.id} {self.state}"


class ReplayBatchItem(models.Model):
    """One row of a bulk replay. `outcome` is empty while it is left, and is written once."""

    id = models.CharField(primary_key=True, max_length=36, editable=False)
    batch_id = models.CharField(max_length=36)
    position = models.IntegerField()
    ref_kind = models.CharField(max_length=16)
    ref_id = models.CharField(max_length=36)
    namespace = models.CharField(max_length=191, null=True)  # noqa: DJ001 - absent is not empty
    event_kind = models.CharField(max_length=191, null=True)  # noqa: DJ001 - absent is not empty
    source_lane = models.CharField(max_length=255, null=True)  # noqa: DJ001 - absent is not empty
    outcome = models.CharField(max_length=16)
    code = models.CharField(max_length=64)
    child_work_id = models.CharField(max_length=36, null=True)  # noqa: DJ001 - absent is not empty
    child_event_id = models.CharField(max_length=36, null=True)  # noqa: DJ001 - absent is not empty
    ended_at = models.DateTimeField(null=True)

    class Meta:
        """The frozen order, the uniqueness of a row in its batch, and the ranges that the ledger is read by."""

        constraints = [
            models.UniqueConstraint(fields=["batch_id", "position"], name="batch_item_position"),
            models.UniqueConstraint(fields=["batch_id", "ref_id"], name="batch_item_ref"),
        ]
        indexes = [
            models.Index(fields=["batch_id", "outcome", "position"], name="batch_item_outcome"),
            models.Index(fields=["batch_id", "ended_at", "position"], name="batch_item_ended"),
        ]

    def __str__(self) -> str:
        """Name the item by its place and what it points at."""
        return f"{self.batch_id}#{self.position} {self.ref_id} {self.outcome or 'left'}"


class ReplayBatchPlace(models.Model):
    """A namespace that rows of a bulk replay are of: who may not look into one of them does not see the bulk replay.

    Empty for a row that was not found when somebody named it who may look everywhere.
    """

    id = models.CharField(primary_key=True, max_length=36, editable=False)
    batch_id = models.CharField(max_length=36)
    #: As the namespace itself: names that differ in case are two.
    namespace = models.CharField(max_length=128, db_collation="utf8mb4_bin")

    class Meta:
        """Each once."""

        constraints = [models.UniqueConstraint(fields=["batch_id", "namespace"], name="batch_place")]

    def __str__(self) -> str:
        """Name the place by its batch and namespace."""
        return f"{self.batch_id} in {self.namespace}"
