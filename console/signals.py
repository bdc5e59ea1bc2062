"""What follows a migrate: the starting groups exist and hold their permissions."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


def connect() -> None:
    """Connect the handlers; called once, when the apps are loaded."""
    post_migrate.connect(ensure_groups, dispatch_uid="console.ensure_groups")


def ensure_groups(sender: AppConfig, using: str = "default", **kwargs: Any) -> None:
    """Create the starting groups and give them what they lack.

    Permissions that an administrator added to a group stay; nothing is ever taken away here.

    Args:
        sender: The app that was migrated; only those that own one of the permissions matter.
        using: The database alias.
        **kwargs: What else the signal carries.
    """
    if sender.label not in {"integration", "console", "auth"}:
        return
    from django.contrib.auth.models import Group, Permission

    from console.permissions import GROUPS

    known = {
        f"{app}.{codename}": pk
        for pk, app, codename in Permission.objects.using(using).values_list(
            "pk", "content_type__app_label", "codename"
        )
    }
    for name, keys in GROUPS.items():
        group, _ = Group.objects.using(using).get_or_create(name=name)
        group.permissions.add(*[known[key] for key in keys if key in known])
