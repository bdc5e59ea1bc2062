"""Access: who may do what where, granting, confirming, revoking, and why somebody may not."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from console.access import reads, service
from console.access.policy import GRANTABLE
from console.access.why import explain
from console.access_forms import GrantForm, GrantTerms, WhyForm
from console.forms import ReasonForm
from console.middleware import actor_of
from console.models import ScopeGrant
from console.paging import neighbour
from console.permissions import ACCESS, requires
from integration.authority.values import Ruling
from integration.errors import InvalidInput, Refused
from integration.values import new_id
from integration.work.figures import namespaces


@require_safe
@requires(ACCESS)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List what waits for a second person, the grants, and what groups give to whom."""
    cursor = request.GET.get("cursor") or None
    grants, older = reads.list_grants(before=cursor)
    accounts, further = reads.list_accounts(after=request.GET.get("after", ""))
    context = {
        "section": "access",
        "proposed": [] if cursor else reads.list_proposed(),
        "grants": grants,
        "accounts": accounts,
        "further": further,
        "words": GRANTABLE,
        "is_further": cursor is not None,
        "older": neighbour(request, older),
        "read_at": timezone.now(),
    }
    return render(request, "console/access/page.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(ACCESS)
def create(request: HttpRequest) -> HttpResponse:
    """Ask for the terms, show what they would give now, and grant.

    The terms stand in the address, so that what is sent is what was shown.
    """
    is_asked = "user" in request.GET
    terms = GrantTerms(request.GET if is_asked else None)
    context: dict[str, Any] = {"section": "access", "terms": terms, "read_at": timezone.now()}
    if not (is_asked and terms.is_valid()):
        context |= {"namespaces": namespaces(), "accounts": reads.list_accounts()[0]}
        is_wrong = is_asked or request.method == "POST"
        return render(request, "console/access/new.html", context, status=422 if is_wrong else 200)
    user = terms.cleaned_data["user"]
    form, refusal, status = GrantForm(request.POST or None, initial={"grant_id": new_id()}), None, 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                made = service.grant(
                    user.pk,
                    terms.terms(),
                    expires_in=terms.cleaned_data["expires"],
                    reason=form.cleaned_data["reason"],
                    actor=actor_of(request),
                    grant_id=str(form.cleaned_data["grant_id"]),
                )
            except (Refused, InvalidInput) as error:
                refusal, status = error, 409 if isinstance(error, Refused) else 422
            else:
                return redirect(reverse("grant", args=[made.id]))
    context |= {
        "account": user,
        "word": GRANTABLE[terms.terms().permission],
        "effect": reads.read_effect(user, terms.terms()),
        "is_self": user.pk == request.user.pk,
        "form": form,
        "refusal": refusal,
        "query": request.GET.urlencode(),
    }
    return render(request, "console/access/confirm.html", context, status=status)


@require_safe
@requires(ACCESS)
def show(request: HttpRequest, grant_id: str) -> HttpResponse:
    """Show one grant."""
    return _page(request, _find(grant_id))


@require_http_methods(["POST"])
@requires(ACCESS)
def confirm(request: HttpRequest, grant_id: str) -> HttpResponse:
    """Confirm a proposed grant, as the second person."""
    try:
        service.confirm(grant_id, actor=actor_of(request))
    except Refused as error:
        return _page(request, _find(grant_id), refusal=error)
    return redirect(reverse("grant", args=[grant_id]))


@require_http_methods(["POST"])
@requires(ACCESS)
def revoke(request: HttpRequest, grant_id: str) -> HttpResponse:
    """Take a grant back."""
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return _page(request, _find(grant_id), form=form)
    try:
        service.revoke(grant_id, reason=form.cleaned_data["reason"], actor=actor_of(request))
    except Refused as error:
        return _page(request, _find(grant_id), refusal=error)
    return redirect(reverse("grant", args=[grant_id]))


@never_cache
@require_safe
@requires(ACCESS)
def why(request: HttpRequest) -> HttpResponse:
    """Say why somebody may or may not do something, check by check."""
    is_asked = "user" in request.GET
    form = WhyForm(request.GET if is_asked else None)
    context: dict[str, Any] = {"section": "access", "form": form, "accounts": reads.list_accounts()[0]}
    if not is_asked:
        return render(request, "console/access/why.html", context)
    if not form.is_valid():
        return render(request, "console/access/why.html", context, status=422)
    user, action, ref = (form.cleaned_data[name] for name in ("user", "action", "ref"))
    steps = explain(user, action, ref, asker=actor_of(request))
    context |= {
        "account": user,
        "word": GRANTABLE[action],
        "ref": ref,
        "steps": steps,
        "refused": next((step for step in steps if step.ruling is Ruling.REFUSED), None),
    }
    return render(request, "console/access/why.html", context)


def _find(grant_id: str) -> ScopeGrant:
    found = reads.find_grant(grant_id)
    if found is None:
        raise service.GrantNotFound
    return found


def _page(
    request: HttpRequest, grant: ScopeGrant, *, form: ReasonForm | None = None, refusal: Refused | None = None
) -> HttpResponse:
    context = {
        "section": "access",
        "grant": grant,
        "word": GRANTABLE.get(grant.permission, grant.permission),
        "is_own": request.user.pk in {grant.user_id, grant.granted_by_id},
        "form": form or ReasonForm(),
        "refusal": refusal,
        "read_at": timezone.now(),
    }
    status = 409 if refusal else 422 if form else 200
    return render(request, "console/access/detail.html", context, status=status)
