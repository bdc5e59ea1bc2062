"""The integration application: the domain's models, permission keys and system checks."""

from __future__ import annotations

from django.apps import AppConfig


class IntegrationConfig(AppConfig):
    """Register the checks of the database that the domain relies on."""

    name = "integration"
    label = "integration"
    verbose_name = "Integration"
    default_auto_field = "django.db.models.AutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from integration import checks  # noqa: F401 - registration needs loaded apps
