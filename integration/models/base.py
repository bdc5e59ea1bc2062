"""The base of all models here: it reads, and refuses every method that writes."""

from __future__ import annotations

from typing import Any, NoReturn, Self

from django.db import models

from integration import errors


class ReadOnlyModelWrite(errors.InvariantBroken):
    """A model of a system table was asked to write; only named statements do."""

    code = "read_only_model"


def _refuse(what: str) -> NoReturn:
    message = f"{what} is refused: system tables are written by named statements only."
    raise ReadOnlyModelWrite(message)


class ReadOnlyQuerySet(models.QuerySet[Any]):
    """A queryset whose write and lock methods raise `ReadOnlyModelWrite`."""

    def create(self, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("create")

    async def acreate(self, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("acreate")

    def get_or_create(self, defaults: Any = None, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("get_or_create")

    async def aget_or_create(self, defaults: Any = None, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("aget_or_create")

    def update_or_create(self, defaults: Any = None, create_defaults: Any = None, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("update_or_create")

    async def aupdate_or_create(self, defaults: Any = None, create_defaults: Any = None, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("aupdate_or_create")

    def bulk_create(self, objs: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("bulk_create")

    async def abulk_create(self, objs: Any, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("abulk_create")

    def bulk_update(self, objs: Any, fields: Any, batch_size: Any = None) -> NoReturn:
        """Refuse."""
        _refuse("bulk_update")

    async def abulk_update(self, objs: Any, fields: Any, batch_size: Any = None) -> NoReturn:
        """Refuse."""
        _refuse("abulk_update")

    def update(self, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("update")

    async def aupdate(self, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("aupdate")

    def delete(self) -> NoReturn:
        """Refuse."""
        _refuse("delete")

    async def adelete(self) -> NoReturn:
        """Refuse."""
        _refuse("adelete")

    def _raw_delete(self, using: Any) -> NoReturn:
        _refuse("delete")

    def select_for_update(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: rows are locked by the functions of `storage.locks`, in their order."""
        _refuse("select_for_update")


class ReadOnlyManager(models.Manager.from_queryset(ReadOnlyQuerySet)):  # type: ignore[misc]
    """The manager of every model here."""


class ReadOnlyModel(models.Model):
    """A row of a system table as pages may see it."""

    objects = ReadOnlyManager()

    class Meta:
        """Unmanaged, and without Django's own add, change, delete and view permissions."""

        abstract = True
        managed = False
        default_permissions = ()
        base_manager_name = "objects"

    def __str__(self) -> str:
        """Return what it is called and its key."""
        return f"{self._meta.verbose_name} {self.pk}"

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("save")

    async def asave(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("asave")

    def save_base(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: fixtures and serializers come in here."""
        _refuse("save_base")

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("delete")

    async def adelete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse."""
        _refuse("adelete")

    @classmethod
    def reading(cls, using: str = "default") -> models.QuerySet[Self]:
        """Return all rows of a database alias, to be filtered."""
        queryset: models.QuerySet[Self] = cls.objects.using(using)
        return queryset
