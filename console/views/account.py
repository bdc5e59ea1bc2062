"""One's own account: its API tokens, its password and its second factor."""

from __future__ import annotations

from typing import cast

import segno
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from console import attempts, factors
from console.account_forms import CodeForm, PasswordForm, TokenForm
from console.middleware import actor_of
from console.models import User
from console.permissions import SIGNED_IN, requires
from console.views.errors import locked_out
from integration.callers import tokens
from integration.callers.policy import SCOPES
from integration.errors import InvalidInput


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(SIGNED_IN)
def show(request: HttpRequest) -> HttpResponse:
    """Show one's tokens; a POST makes one, and this one answer shows its secret."""
    actor, account_id = actor_of(request), _account_id(request)
    held = frozenset(key for key in SCOPES if actor.reach(key))
    form = TokenForm(request.POST or None, held=held)
    issued, status = None, 200
    if request.method == "POST":
        if form.is_valid():
            try:
                issued = tokens.issue(actor=actor, **form.cleaned_data)
            except InvalidInput as error:
                form.add_error(str(error.data_fields["field"]), error.operator_message())
            else:
                form = TokenForm(held=held)
        if issued is None:
            status = 422
    context = {
        "section": "account",
        "form": form,
        "issued": issued,
        "tokens": tokens.list_tokens(account_id),
        "scope_words": SCOPES,
        "has_factor": factors.is_enrolled(account_id),
        "has_password": cast("User", request.user).has_usable_password(),
        "read_at": timezone.now(),
    }
    return render(request, "console/account/page.html", context, status=status)


@require_POST
@requires(SIGNED_IN)
def revoke(request: HttpRequest, token_id: str) -> HttpResponse:
    """End one of one's own tokens."""
    tokens.revoke(token_id, actor=actor_of(request))
    return redirect("account")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(SIGNED_IN)
def second_factor(request: HttpRequest) -> HttpResponse:
    """Show the second factor; a POST begins one, confirms it by a code, or takes it away by one."""
    user = User.objects.get(pk=_account_id(request))
    step, status = request.POST.get("step", ""), 200
    codes: tuple[str, ...] = ()
    form = CodeForm(request.POST if step in {"confirm", "remove"} else None)
    if step == "begin":
        factors.begin(user)
    elif form.is_bound and form.is_valid():
        if attempts.is_closed(request, user):
            return locked_out(request)
        try:
            codes = _step(request, user, step, form.cleaned_data["code"])
        except InvalidInput as error:
            form.add_error("code", error.operator_message())
        else:
            # What an old copy of the session's id could do, it can do no more.
            request.session.cycle_key()
            form = CodeForm()
    if form.errors:
        status = 422
    secret = factors.drafted(user.pk)
    context = {
        "section": "account",
        "form": form,
        "codes": codes,
        "is_enrolled": factors.is_enrolled(user.pk),
        "secret": secret and " ".join(secret[start : start + 4] for start in range(0, len(secret), 4)),
        "picture": secret
        and segno.make(factors.address_of(user, secret)).svg_data_uri(scale=5, border=2, light="white"),
    }
    return render(request, "console/account/second_factor.html", context, status=status)


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(SIGNED_IN)
def password(request: HttpRequest) -> HttpResponse:
    """Show the form of one's own password, or change it: then every other session of the account ends.

    A wrong password of now counts as a failed sign-in, so that whoever found a session open cannot try them all.
    """
    user = User.objects.get(pk=_account_id(request))
    has_password, status = user.has_usable_password(), 200
    form = PasswordForm(user, request.POST if request.method == "POST" else None)
    if form.is_bound and has_password:
        if attempts.is_closed(request, user):
            return locked_out(request)
        if form.is_valid():
            # The new id of this session is what an old copy of it does not know.
            update_session_auth_hash(request, form.save())
            messages.success(request, "The password is changed. Every other session of your account has ended.")
            return redirect("account")
        if form.has_error("old_password", "password_incorrect"):
            attempts.count_wrong(request, user)
    if form.is_bound:
        status = 422 if has_password else 409
    context = {"section": "account", "form": form, "has_password": has_password}
    return render(request, "console/account/password.html", context, status=status)


def _step(request: HttpRequest, user: User, step: str, code: str) -> tuple[str, ...]:
    actor = actor_of(request)
    if step == "confirm":
        return factors.confirm(user, code, actor=actor)
    if not factors.accept(user.pk, code, actor=actor):
        # Whoever took over a session could else guess until the factor is gone.
        attempts.count_wrong(request, user)
        raise InvalidInput("That is not the code that the app shows now, nor a recovery code.", field="code")
    factors.remove(user.pk, actor=actor)
    return ()


def _account_id(request: HttpRequest) -> int:
    # The guard has let in nobody without an account.
    return int(request.user.pk or 0)
