"""One's own account: its API tokens."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from console.account_forms import TokenForm
from console.middleware import actor_of
from console.permissions import SIGNED_IN, requires
from integration.callers import tokens
from integration.callers.policy import SCOPES


@never_cache
@require_http_methods(["GET", "POST"])
@requires(SIGNED_IN)
def show(request: HttpRequest) -> HttpResponse:
    """Show one's tokens; a POST makes one, and this one answer shows its secret."""
    actor, account_id = actor_of(request), _account_id(request)
    held = frozenset(key for key in SCOPES if actor.reach(key))
    form = TokenForm(request.POST or None, held=held)
    issued, status = None, 200
    if request.method == "POST":
        if form.is_valid():
            issued = tokens.issue(actor=actor, **form.cleaned_data)
            form = TokenForm(held=held)
        else:
            status = 422
    context = {
        "section": "account",
        "form": form,
        "issued": issued,
        "tokens": tokens.list_tokens(account_id),
        "scope_words": SCOPES,
        "read_at": timezone.now(),
    }
    return render(request, "console/account/page.html", context, status=status)


@require_POST
@requires(SIGNED_IN)
def revoke(request: HttpRequest, token_id: str) -> HttpResponse:
    """End one of one's own tokens."""
    tokens.revoke(token_id, actor=actor_of(request))
    return redirect("account")


def _account_id(request: HttpRequest) -> int:
    # The guard has let in nobody without an account.
    return int(request.user.pk or 0)
