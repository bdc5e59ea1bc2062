"""Tables that the console owns: operators, grants, tokens, saved views, the append-only audit trail, bulk replays.

Everything that describes connector work lives in the ``_System_*`` tables and is read through
``integration``; nothing here may describe it a second time.
"""

from __future__ import annotations

from typing import Any, NoReturn

from django.contrib.auth.models import AbstractUser
from django.db import models

from console import batch_models, sign_in_models  # noqa: F401 - their tables are this app's as well
from integration.scopes import Rights
from integration.values import new_id


class User(AbstractUser):
    """A person who signs in to the console, or whose token lets a request in."""

    #: What a token narrows this request's rights to; None for a session, which has all of the account's.
    token_scopes: frozenset[str] | None = None

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        """Say whether the account, and the token if one let the request in, gives this right."""
        if self.token_scopes is not None and perm not in self.token_scopes:
            return False
        return super().has_perm(perm, obj)

    def get_all_permissions(self, obj: Any = None) -> set[str]:
        """Return the account's rights, narrowed to the token's scopes."""
        held = super().get_all_permissions(obj)
        return held if self.token_scopes is None else held & self.token_scopes

    #: Counts changes of the account's rights: a session that began under other ones gets a new key.
    rights_version = models.PositiveIntegerField(default=0, editable=False)

    def rights(self) -> Rights:
        """Return what the account may do now and where, read from the database once a request."""
        from console.access.reads import rights_of  # noqa: PLC0415 - it reads this module's tables

        return rights_of(self)


class ScopeGrant(models.Model):
    """A permission that an account has in a place, maybe for a time; written by `console.access` alone.

    It is never changed: a grant of other terms is another one, and this one is revoked. Its expiry counts by the
    database's clock.
    """

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="scope_grants")
    permission = models.CharField(max_length=100)
    #: Null means every org.
    org_id = models.CharField(max_length=36, null=True)  # noqa: DJ001 - absent is not empty
    #: Null means every namespace.
    namespace = models.CharField(max_length=128, null=True)  # noqa: DJ001 - absent is not empty
    expires_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=500)
    granted_at = models.DateTimeField()
    granted_by_id = models.BigIntegerField(null=True)
    granted_by_name = models.CharField(max_length=150)
    #: It counts only once somebody else has confirmed it.
    needs_second = models.BooleanField()
    confirmed_at = models.DateTimeField(null=True)
    confirmed_by_id = models.BigIntegerField(null=True)
    confirmed_by_name = models.CharField(max_length=150)
    revoked_at = models.DateTimeField(null=True)
    revoked_by_name = models.CharField(max_length=150)

    class Meta:
        """What every request reads: an account's grants that were not revoked."""

        indexes = [models.Index(fields=["user", "revoked_at"], name="grant_user_revoked")]

    def __str__(self) -> str:
        """Name the grant by its key and place."""
        return f"{self.permission} in {self.org_id or '*'}/{self.namespace or '*'}"


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

    def replay_of(self, ref_id: str) -> AuditEntry | None:
        """Return the entry of the replay that a row had, or None."""
        replayed = ("work_item.replayed", "event.replayed")
        return self.filter(ref_id=ref_id, action__in=replayed, outcome="done").order_by("-at").first()

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
            models.Index(fields=["ref_id", "at", "id"], name="audit_ref_at_id"),
            models.Index(fields=["actor_name", "at", "id"], name="audit_actor_at_id"),
            models.Index(fields=["action", "at", "id"], name="audit_action_at_id"),
            models.Index(fields=["outcome", "at", "id"], name="audit_outcome_at_id"),
            models.Index(fields=["namespace", "at", "id"], name="audit_namespace_at_id"),
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


class ApiToken(models.Model):
    """A token of the API: what its secret's digest is, whose it is, what it may be used for, until when.

    Read here; written by `integration.callers` alone.
    """

    id = models.CharField(primary_key=True, max_length=36, editable=False)
    digest = models.CharField(max_length=64, unique=True)
    owner_id = models.BigIntegerField()
    name = models.CharField(max_length=80)
    #: Permission keys, with a space between them.
    scopes = models.CharField(max_length=500)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_used_on = models.DateField(null=True)
    #: When its next request is due; one that comes too long before it is too early.
    due_at = models.DateTimeField()

    class Meta:
        """What its owner's page reads."""

        indexes = [models.Index(fields=["owner_id", "id"], name="api_token_owner")]

    def __str__(self) -> str:
        """Name the token as its owner does."""
        return self.name


class KeptAnswer(models.Model):
    """The answer to an API request that changed something, by its Idempotency-Key, for a day.

    Written by `integration.callers` alone.
    """

    #: Digest of the account and the key.
    id = models.CharField(primary_key=True, max_length=64, editable=False)
    request_digest = models.CharField(max_length=64)
    #: Who works on it; empty of meaning once it has a status.
    claim = models.CharField(max_length=36)
    under_way_until = models.DateTimeField()
    expires_at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(null=True)  # noqa: DJ001 - absent is not empty

    class Meta:
        """What is swept."""

        indexes = [models.Index(fields=["expires_at"], name="kept_answer_expires")]

    def __str__(self) -> str:
        """Name it by its key's digest."""
        return self.id


class SavedView(models.Model):
    """A list's filter and order under a name. `query` opens it again, and is made of the checked filter alone."""

    id = models.CharField(primary_key=True, max_length=36, default=new_id, editable=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views")
    page = models.CharField(max_length=16)
    name = models.CharField(max_length=60)
    query = models.TextField()
    is_shared = models.BooleanField()
    created_at = models.DateTimeField()

    class Meta:
        """One of a name to an account and page, and the order in which the shared ones are listed."""

        constraints = [models.UniqueConstraint(fields=["owner", "page", "name"], name="saved_view_name")]
        indexes = [models.Index(fields=["page", "is_shared", "name", "id"], name="saved_view_shared")]

    def __str__(self) -> str:
        """Name the view by its page and name."""
        return f"{self.page} {self.name}"
