"""Signing in and out."""

from __future__ import annotations

import time
from typing import Any

from django.contrib.auth import logout
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.middleware import STARTED_KEY
from console.permissions import SIGNED_IN, requires


class SignIn(LoginView):
    """Take a name and a password; the same answer whatever was wrong with them."""

    template_name = "console/sign_in.html"
    redirect_authenticated_user = True

    def form_valid(self, form: Any) -> HttpResponse:
        """Sign in and note when, so that the session's age is counted from here."""
        response = super().form_valid(form)
        self.request.session[STARTED_KEY] = int(time.time())
        return response


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """Send browsers that ask at the old address, as on the account pages, to the logo."""
    return redirect(static("console/logo.svg"))


@never_cache
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    """Show the sign-in form, or sign in."""
    return SignIn.as_view()(request)  # type: ignore[return-value]


@require_POST
@requires(SIGNED_IN)
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    logout(request)
    return redirect("sign-in")
