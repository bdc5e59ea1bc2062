"""Signing in by a password, the second factor where an account has one; and out."""

from __future__ import annotations

import time
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME, login, logout
from django.contrib.auth.views import LoginView, redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console import attempts, factors
from console.middleware import STARTED_KEY
from console.models import User
from console.people import person
from console.permissions import SIGNED_IN, requires
from console.views.errors import locked_out

#: Who was proved by a password or by the provider, until the code is right too.
PENDING_KEY: Final = "awaits_code"
PENDING_SECONDS: Final = 300


class SignIn(LoginView):
    """Take a name and a password; the same answer whatever was wrong with them."""

    template_name = "console/sign_in.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Offer the provider as well, if there is one."""
        return super().get_context_data(provider=settings.LOCKHOUSE_OIDC, **kwargs)

    def form_valid(self, form: Any) -> HttpResponse:
        """Sign in, or ask for the code."""
        user = form.get_user()
        return proceed(self.request, user, user.backend, self.get_success_url())


def proceed(request: HttpRequest, user: User, backend: str, onwards: str) -> HttpResponse:
    """Sign in who was proved to be somebody, or ask for the code of an account that has a second factor.

    Args:
        request: The request; its session notes when, so that the session's age is counted from here.
        user: An open account.
        backend: Which way somebody was proved.
        onwards: A page of this console.
    """
    if factors.is_enrolled(user.pk):
        pending = {"user": user.pk, "backend": backend, "at": int(time.time()), "next": onwards}
        request.session[PENDING_KEY] = pending
        return redirect("sign-in-code")
    return _open(request, user, backend, onwards)


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """Send browsers that ask at the old address, as on the account pages, to the logo."""
    return redirect(static("console/logo.svg"))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Show the sign-in form, or sign in."""
    return SignIn.as_view()(request)  # type: ignore[return-value]


@never_cache
@require_safe
def to_sign_in(request: HttpRequest) -> HttpResponse:
    """Send whoever comes for the account pages to the one way in, and from there back.

    Raises:
        PermissionDenied: Somebody is signed in already, and may not open them: the way in would lead back here.
    """
    if request.user.is_authenticated:
        raise PermissionDenied
    return redirect_to_login(request.GET.get(REDIRECT_FIELD_NAME, reverse("admin:index")))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_code(request: HttpRequest) -> HttpResponse:
    """Take the code of an account that a password or the provider proved within the last five minutes.

    A wrong code counts as a failed sign-in, so that they are closed together.
    """
    pending: dict[str, Any] = request.session.get(PENDING_KEY) or {}
    user = None
    if pending and time.time() - pending["at"] <= PENDING_SECONDS:
        user = User.objects.filter(pk=pending["user"], is_active=True).first()
    if user is None:
        request.session.pop(PENDING_KEY, None)
        return redirect("sign-in")
    if request.method != "POST":
        return render(request, "console/sign_in_code.html", {})
    if attempts.is_closed(request, user):
        return locked_out(request)
    if not factors.accept(user.pk, request.POST.get("code", "")[:64], actor=person(request, user)):
        attempts.count_wrong(request, user)
        return render(request, "console/sign_in_code.html", {"is_wrong": True}, status=422)
    response = _open(request, user, pending["backend"], pending["next"])
    request.session.pop(PENDING_KEY, None)
    return response


def _open(request: HttpRequest, user: User, backend: str, onwards: str) -> HttpResponse:
    login(request, user, backend=backend)
    request.session[STARTED_KEY] = int(time.time())
    return redirect(onwards)


@require_POST
@requires(SIGNED_IN)
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    return redirect("sign-in")
