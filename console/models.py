"""Tables that the console owns: its operators and the append-only audit trail.

Everything that describes connector work lives in the ``_System_*`` tables and is read through
``integration``; nothing here may describe it a second time.
"""

from __future__ import annotations

from typing import Any, NoReturn

from django.contrib.auth.models import AbstractUser
from django.db import models

from integration.values import new_id


class User(AbstractUser):
    """A person who signs in to the console."""


class AuditImmutable(TypeError):
    """An audit entry was written once and is never changed or removed."""


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """Reads of the trail, and nothing that would rewrite it."""

    def update(self, **kwargs: Any) -> NoReturn:
        """Refuse: the trail is append-only."""
        raise AuditImmutable("audit entries cannot be updated")

    def delete(self) -> NoReturn:
        """Refuse: the trail is append-only."""
        raise AuditImmutable("audit entries cannot be deleted")

    def bulk_update(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: the trail is append-only."""
        raise AuditImmutable("audit entries cannot be updated")


class AuditEntry(models.Model):
    """One fact about what somebody did, tried to do, or lost to somebody else.

    The rows of a stream are chained: ``digest`` covers the entry and ``previous_digest``. There is
    no foreign key to the actor, so that removing an account never touches the trail.
    """

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    stream = models.CharField(max_length=80)
    seq = models.BigIntegerField()
    previous_digest = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    at = models.DateTimeField()
    actor_id = models.BigIntegerField(null=True)
    actor_name = models.CharField(max_length=150)
    via = models.CharField(max_length=16)
    remote_addr = models.CharField(max_length=45, null=True)  # noqa: DJ001 - absent is not empty
    action = models.CharField(max_length=64)
    outcome = models.CharField(max_length=16)
    ref_kind = models.CharField(max_length=16)
    ref_id = models.CharField(max_length=64)
    org_id = models.CharField(max_length=64, null=True)  # noqa: DJ001 - absent is not empty
    namespace = models.CharField(max_length=191, null=True)  # noqa: DJ001 - absent is not empty
    pack_install_id = models.CharField(max_length=36, null=True)  # noqa: DJ001 - absent is not empty
    event_kind = models.CharField(max_length=191, null=True)  # noqa: DJ001 - absent is not empty
    reason = models.TextField()
    facts = models.TextField()

    objects = AuditQuerySet.as_manager()

    class Meta:
        """Reading orders of the audit page, and the uniqueness that the chain rests on."""

        constraints = [models.UniqueConstraint(fields=["stream", "seq"], name="audit_stream_seq")]
        indexes = [
            models.Index(fields=["at", "id"], name="audit_at_id"),
            models.Index(fields=["ref_id", "at"], name="audit_ref_at"),
        ]

    def __str__(self) -> str:
        """Name the entry by its place in the chain."""
        return f"{self.stream}#{self.seq} {self.action} {self.outcome}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert a new entry; refuse to write one that exists.

        Raises:
            AuditImmutable: the entry is already in the trail.
        """
        if not self._state.adding:
            raise AuditImmutable("audit entries cannot be changed")
        kwargs["force_insert"] = True
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: the trail is append-only."""
        raise AuditImmutable("audit entries cannot be deleted")
