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
        from django.db.backends.signals import connection_created

        from integration import checks  # noqa: F401 - registration needs loaded apps
        from integration.storage.backends import refuse_wrong_backend

        connection_created.connect(refuse_wrong_backend, dispatch_uid="integration.refuse_wrong_backend")
