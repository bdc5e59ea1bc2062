"""Columns by kind, so that a model's line names a column and what it holds."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.db import models

_IDENTITY_LENGTH: Final = 36
_DIGEST_LENGTH: Final = 64


def text(column: str, length: int, *, primary_key: bool = False) -> models.CharField[str, str]:
    """Return text of at most `length` characters."""
    return models.CharField(max_length=length, db_column=column, primary_key=primary_key)


def optional_text(column: str, length: int) -> models.CharField[str | None, str | None]:
    """Return text of at most `length` characters, or None."""
    return models.CharField(max_length=length, db_column=column, null=True)


def identity(column: str, *, primary_key: bool = False) -> models.CharField[str, str]:
    """Return an id of 36 characters."""
    return text(column, _IDENTITY_LENGTH, primary_key=primary_key)


def optional_identity(column: str) -> models.CharField[str | None, str | None]:
    """Return an id of 36 characters, or None."""
    return optional_text(column, _IDENTITY_LENGTH)


def digest(column: str) -> models.CharField[str, str]:
    """Return a digest of 64 lower-case hex characters."""
    return text(column, _DIGEST_LENGTH)


def optional_digest(column: str) -> models.CharField[str | None, str | None]:
    """Return a digest of 64 lower-case hex characters, or None."""
    return optional_text(column, _DIGEST_LENGTH)


def number(column: str) -> models.IntegerField[int, int]:
    """Return a whole number of four bytes."""
    return models.IntegerField(db_column=column)


def optional_number(column: str) -> models.IntegerField[int | None, int | None]:
    """Return a whole number of four bytes, or None."""
    return models.IntegerField(db_column=column, null=True)


def big_number(column: str) -> models.BigIntegerField[int, int]:
    """Return a whole number of eight bytes."""
    return models.BigIntegerField(db_column=column)


def optional_big_number(column: str) -> models.BigIntegerField[int | None, int | None]:
    """Return a whole number of eight bytes, or None."""
    return models.BigIntegerField(db_column=column, null=True)


def instant(column: str) -> models.DateTimeField[datetime, datetime]:
    """Return a time in UTC, to the microsecond."""
    return models.DateTimeField(db_column=column)


def optional_instant(column: str) -> models.DateTimeField[datetime | None, datetime | None]:
    """Return a time in UTC, to the microsecond, or None."""
    return models.DateTimeField(db_column=column, null=True)


def document(column: str) -> models.TextField[str, str]:
    """Return canonical text that a digest is taken of."""
    return models.TextField(db_column=column)


def optional_document(column: str) -> models.TextField[str | None, str | None]:
    """Return canonical text, or None."""
    return models.TextField(db_column=column, null=True)
