"""What follows a migrate and a change of an account: groups exist, and the trail says who changed what."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.apps import AppConfig, apps
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.auth.models import Group, Permission
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_delete, post_migrate, post_save, pre_save
from django.http import HttpRequest
from django.utils import timezone

from console.access.service import renew_sessions
from console.backends import PROVIDER_BACKEND
from console.middleware import current_actor
from console.models import User
from console.people import person, stranger
from console.permissions import GROUPS
from integration.audit.policy import AuditFact, AuditOutcome
from integration.audit.service import record_alone
from integration.values import SYSTEM_ACTOR, Actor

#: What of an account is told in the trail; a password only that it changed.
TOLD = ("username", "is_active", "is_staff", "is_superuser")
_BEFORE = "_console_before"
#: Sessions that a sign-in makes are one, those that a stranger's visit makes are few: this keeps up with both.
_FORGOTTEN_AT_ONCE = 100


def connect() -> None:
    """Connect the handlers; called once, when the apps are loaded."""
    post_migrate.connect(ensure_groups, dispatch_uid="console.ensure_groups")
    pre_save.connect(_remember, sender=User, dispatch_uid="console.remember_user")
    post_save.connect(_tell_user, sender=User, dispatch_uid="console.tell_user")
    for model in (User, Group):
        post_delete.connect(_tell_removed, sender=model, dispatch_uid=f"console.removed.{model.__name__}")
    for through in (User.groups.through, User.user_permissions.through, Group.permissions.through):
        m2m_changed.connect(_tell_rights, sender=through, dispatch_uid=f"console.rights.{through.__name__}")
    user_logged_in.connect(_tell_signed_in, dispatch_uid="console.signed_in")
    user_logged_in.connect(_forget_ended_sessions, dispatch_uid="console.forget_sessions")
    user_login_failed.connect(_tell_sign_in_refused, dispatch_uid="console.sign_in_refused")


def ensure_groups(sender: AppConfig, using: str = "default", **kwargs: Any) -> None:
    """Create the starting groups that do not exist, each with its rights.

    A group that exists is left as administrators made it: what they took from it does not come back.

    Args:
        sender: The app whose turn it is; only the last one matters.
        using: The database alias.
        **kwargs: What else the signal carries.
    """
    # Permissions of an app are made when its own turn comes: wait until every one had it.
    last = [config.label for config in apps.get_app_configs() if config.models_module is not None][-1]
    if sender.label != last:
        return
    m2m_changed.disconnect(dispatch_uid="console.rights.Group_permissions", sender=Group.permissions.through)
    known = {
        f"{app}.{codename}": pk
        for pk, app, codename in Permission.objects.using(using).values_list(
            "pk", "content_type__app_label", "codename"
        )
    }
    for name, keys in GROUPS.items():
        group, is_new = Group.objects.using(using).get_or_create(name=name)
        if is_new:
            group.permissions.add(*[known[key] for key in keys if key in known])
    # The starting rights are the program's own and are told by its version, not by the trail.
    m2m_changed.connect(_tell_rights, sender=Group.permissions.through, dispatch_uid="console.rights.Group_permissions")


def _remember(sender: type[Model], instance: Any, **kwargs: Any) -> None:
    if instance.pk is None or _only_sign_in(kwargs):
        return
    old = sender._default_manager.filter(pk=instance.pk).values(*TOLD, "password").first()
    setattr(instance, _BEFORE, old)


def _tell_user(instance: Any, **kwargs: Any) -> None:
    created = bool(kwargs["created"])
    if _only_sign_in(kwargs):
        return
    before = None if created else getattr(instance, _BEFORE, None)
    changed = {
        name: {"before": before[name] if before else None, "after": getattr(instance, name)}
        for name in TOLD
        if before is None or before[name] != getattr(instance, name)
    }
    if before is not None and before["password"] != instance.password:
        changed["sign_in_secret"] = {"changed": True}
    if "is_superuser" in changed and not created:
        renew_sessions(User.objects.filter(pk=instance.pk))
    if changed:
        _tell("user.created" if created else "user.changed", instance, {"changed": changed})


def _only_sign_in(kwargs: dict[str, Any]) -> bool:
    fields = kwargs.get("update_fields")
    return fields is not None and set(fields) == {"last_login"}


def _tell_removed(instance: Any, **kwargs: Any) -> None:
    _tell(f"{instance._meta.model_name}.removed", instance, {"name": str(instance)})


def _tell_rights(instance: Any, action: str, model: type[Model], pk_set: set[Any] | None, **kwargs: Any) -> None:
    if action not in {"post_add", "post_remove", "post_clear"} or (pk_set is not None and not pk_set):
        return
    names = sorted(str(entry) for entry in model._default_manager.filter(pk__in=pk_set or ()))
    facts = {"what": action.removeprefix("post_"), "of": str(model._meta.verbose_name_plural), "names": names}
    _tell(f"{instance._meta.model_name}.rights_changed", instance, {**facts, "name": str(instance)})
    if isinstance(instance, User):
        renew_sessions(User.objects.filter(pk=instance.pk))
    elif issubclass(model, User):
        renew_sessions(User.objects.filter(pk__in=pk_set or ()))
    else:
        renew_sessions(User.objects.filter(groups=instance))


def _tell_signed_in(request: HttpRequest, user: Any, **kwargs: Any) -> None:
    by_provider = request.session.get(BACKEND_SESSION_KEY) == PROVIDER_BACKEND
    _tell("user.signed_in", user, {"by": "provider"} if by_provider else {}, actor=person(request, user))


def _forget_ended_sessions(**kwargs: Any) -> None:
    """Delete the rows of sessions that have run out, a bounded number at each sign-in, so that nobody need do it."""
    ended = Session.objects.filter(expire_date__lt=timezone.now()).order_by("expire_date")
    Session.objects.filter(pk__in=sorted(ended.values_list("pk", flat=True)[:_FORGOTTEN_AT_ONCE])).delete()


def _tell_sign_in_refused(credentials: dict[str, Any], request: HttpRequest | None = None, **kwargs: Any) -> None:
    # Whoever is signed in was asked for a password or a code once more. Of others, the name that was typed may be a
    # password in the wrong field: it is not told.
    actor = current_actor.get() or stranger(request)
    fact = AuditFact(
        action="user.signed_in",
        outcome=AuditOutcome.REFUSED,
        actor=actor,
        ref_kind="user",
        ref_id=str(actor.user_id or ""),
    )
    transaction.on_commit(partial(record_alone, fact))


def _tell(action: str, instance: Any, facts: dict[str, Any], *, actor: Actor | None = None) -> None:
    fact = AuditFact(
        action=action,
        outcome=AuditOutcome.DONE,
        actor=actor or current_actor.get() or SYSTEM_ACTOR,
        ref_kind=str(instance._meta.model_name),
        ref_id=str(instance.pk or ""),
        facts=facts,
    )
    # The trail's own transaction cannot be nested in the admin's.
    transaction.on_commit(partial(record_alone, fact))
