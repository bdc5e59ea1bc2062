"""Which build this is, as its processes register themselves and as a rollback admits them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def build_version() -> str:
    """Return the installed version, or `unreleased` in a checkout that was not installed."""
    try:
        return version("lockhouse")
    except PackageNotFoundError:
        return "unreleased"
