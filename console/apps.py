"""The console application: operators, their groups, and the audit trail."""

from __future__ import annotations

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Wire the console's checks and the group setup that follows every migrate."""

    name = "console"
    verbose_name = "Operator console"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks and the handlers that keep groups and audit complete."""
        from console import checks, signals  # noqa: F401, PLC0415 - both need loaded apps - registration needs loaded apps

        signals.connect()
