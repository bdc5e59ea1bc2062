"""Webhook secrets by reference: from the environment, or from a file that the deployment mounts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final

from django.conf import settings

from integration import errors

#: Shorter than this is guessed, not known.
MIN_SECRET_BYTES: Final = 8
_MAX_FILE_BYTES: Final = 8192


class SecretUnavailable(errors.SetupError):
    """A webhook secret that a pack refers to is not set, or is too short."""

    code = "secret_unavailable"


def resolve_secrets(references: Iterable[str]) -> tuple[bytes, ...]:
    """Return every active secret that a verifier may try.

    Args:
        references: Names such as `demo` (LOCKHOUSE_SECRETS_DEMO; several values joined by a comma while a
            secret is rotated), or `file:/path` (one secret a line).

    Returns:
        The secrets in the order of the references, at least one.

    Raises:
        SecretUnavailable: One of them is not set or is shorter than 8 bytes; names the reference alone.
    """
    secrets: list[bytes] = []
    for reference in references:
        found = _from_file(reference) if reference.startswith("file:") else _from_environment(reference)
        if not found or any(len(secret) < MIN_SECRET_BYTES for secret in found):
            message = f"The webhook secret {reference!r} is not set, or is shorter than {MIN_SECRET_BYTES} bytes."
            raise SecretUnavailable(message, reference=reference)
        secrets.extend(found)
    if not secrets:
        raise SecretUnavailable
    return tuple(secrets)


def environment_name(reference: str) -> str:
    """Return the environment variable of a reference by name."""
    return "LOCKHOUSE_SECRETS_" + reference.upper().replace("-", "_")


def _from_environment(reference: str) -> tuple[bytes, ...]:
    values: dict[str, str] = settings.LOCKHOUSE_SECRETS
    return _split(values.get(environment_name(reference).removeprefix("LOCKHOUSE_SECRETS_"), ""))


@lru_cache(maxsize=256)
def _split(value: str) -> tuple[bytes, ...]:
    return tuple(part.strip().encode() for part in value.split(",") if part.strip())


def _from_file(reference: str) -> tuple[bytes, ...]:
    path = Path(reference.removeprefix("file:"))
    try:
        # By the file's own facts, so that a rotated secret is seen without a restart.
        stat = path.stat()
        return _read_file(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)
    except OSError:
        return ()


@lru_cache(maxsize=64)
def _read_file(path: Path, _changed_ns: int, size_bytes: int, _inode: int) -> tuple[bytes, ...]:
    if size_bytes > _MAX_FILE_BYTES:
        return ()
    return tuple(line.strip() for line in path.read_bytes().splitlines() if line.strip())
