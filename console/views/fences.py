"""Admission fences: what is armed and what was, arming one, letting a kind through, lifting."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from console.access.reads import rights_of
from console.fence_forms import FenceTerms, LiftForm, OverrideForm
from console.forms import ReasonForm
from console.middleware import actor_of
from console.paging import neighbour
from console.permissions import CUTOVER, VIEW, requires
from integration.cutover.fences import reads, service
from integration.cutover.fences.values import AdmissionsUnderWay, Fence, OverrideNotFound
from integration.errors import InvalidInput, NotFound, Refused
from integration.scopes import Scope
from integration.work.figures import namespaces

#: How long a page waits for what began before; whoever needs longer sends it again, or uses the command.
WAIT_SECONDS = 10.0


@require_safe
@requires(VIEW, scoped=True)
def list_rows(request: HttpRequest) -> HttpResponse:
    """List what is armed with what waits behind it, and what was armed, newest first; a fragment is the rows alone."""
    cursor = request.GET.get("cursor") or None
    rights = rights_of(request.user)
    within = rights.reach(VIEW)
    status = reads.read_status(within=within)
    past = reads.list_past(cursor, within=within)
    context = {
        "section": "fences",
        "armed": status.armed,
        "waiting": status.waiting,
        "past": past.fences,
        "is_further": cursor is not None,
        "older": neighbour(request, past.older),
        "may_arm": bool(rights.reach(CUTOVER)),
        "read_at": timezone.now(),
    }
    template = "console/fences/_rows.html" if request.htmx else "console/fences/page.html"  # type: ignore[attr-defined]
    return render(request, template, context)


@require_safe
@requires(VIEW, scoped=True)
def show(request: HttpRequest, fence_id: str) -> HttpResponse:
    """Show one fence: what it stops, until when, who armed it and why, and what it lets through."""
    fence = _get(request, fence_id)
    context = {
        **_about(fence),
        "may_arm": rights_of(request.user).reach(CUTOVER).covers(fence.namespace),
    }
    return render(request, "console/fences/detail.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(CUTOVER, scoped=True)
@requires(VIEW, scoped=True)
def arm(request: HttpRequest) -> HttpResponse:
    """Ask for the terms, show what they would stop, and arm.

    The terms stand in the address, so that what is sent is what was shown. A POST that succeeds is answered with a
    redirect to the fence, when nothing is under way any more that began before it.
    """
    is_asked = "namespace" in request.GET
    terms = FenceTerms(request.GET if is_asked else None, initial={"scope": request.GET.get("scope", "")})
    context: dict[str, Any] = {"section": "fences", "terms": terms, "read_at": timezone.now()}
    within = rights_of(request.user).reach(CUTOVER).within(rights_of(request.user).reach(VIEW))
    effect = _effect(terms, within) if is_asked and terms.is_valid() else None
    if effect is None:
        context["namespaces"] = namespaces() if within.is_everywhere else within.namespaces
        is_wrong = is_asked or request.method == "POST"
        return render(request, "console/fences/new.html", context, status=422 if is_wrong else 200)
    form, refusal, status = ReasonForm(request.POST or None), None, 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                armed = service.arm_fence(
                    effect.namespace,
                    effect.scope,
                    expires_in=terms.cleaned_data["expires"],
                    reason=form.cleaned_data["reason"],
                    actor=actor_of(request),
                    wait_seconds=WAIT_SECONDS,
                )
            except AdmissionsUnderWay as error:
                refusal, status = error, error.http_status
            else:
                return redirect(reverse("fence", args=[armed.fence.fence_id]))
    context |= {"effect": effect, "form": form, "refusal": refusal, "query": request.GET.urlencode()}
    return render(request, "console/fences/confirm.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(CUTOVER, scoped=True)
@requires(VIEW, scoped=True)
def lift(request: HttpRequest, fence_id: str) -> HttpResponse:
    """Show what lifting a fence lets go on, or lift it; a fence that is over is a conflict."""
    form, refusal, status = LiftForm(request.POST or None), None, 200
    fence = _get(request, fence_id)
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                service.lift_fence(fence_id, actor=actor_of(request), reason=form.cleaned_data["reason"])
            except Refused as error:
                refusal, status = error, error.http_status
                fence = reads.get_fence(fence_id)
            else:
                return redirect(reverse("fence", args=[fence_id]))
    others = [other for other in reads.list_armed(fence.namespace) if other.fence_id != fence_id]
    context = {**_about(fence), "others": others, "form": form, "refusal": refusal}
    return render(request, "console/fences/lift.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(CUTOVER, scoped=True)
@requires(VIEW, scoped=True)
def override(request: HttpRequest, fence_id: str) -> HttpResponse:
    """Let a scope through an armed fence; one that is over is a conflict."""
    fence = _get(request, fence_id)
    form = OverrideForm(request.POST or None, initial={"scope": "" if fence.scope == "*" else fence.scope})
    refusal, status = None, 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                service.grant_override(
                    fence_id,
                    form.cleaned_data["scope"],
                    expires_in=form.cleaned_data["expires"],
                    reason=form.cleaned_data["reason"],
                    actor=actor_of(request),
                )
            except InvalidInput as error:
                form.add_error("scope", error.operator_message())
            except Refused as error:
                refusal, status = error, error.http_status
                fence = reads.get_fence(fence_id)
            else:
                return redirect(reverse("fence", args=[fence_id]))
    context = {**_about(fence), "form": form, "refusal": refusal}
    return render(request, "console/fences/override.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@requires(CUTOVER, scoped=True)
@requires(VIEW, scoped=True)
def lift_override(request: HttpRequest, override_id: str) -> HttpResponse:
    """Show what taking an override back stops again, or take it back; one that is over is a conflict."""
    form, refusal, status = LiftForm(request.POST or None), None, 200
    found = reads.get_override(override_id)
    if not rights_of(request.user).reach(VIEW).covers(reads.get_fence(found.fence_id).namespace):
        raise OverrideNotFound
    if request.method == "POST":
        status = 422
        if form.is_valid():
            reason = form.cleaned_data["reason"]
            try:
                service.lift_override(override_id, actor=actor_of(request), reason=reason, wait_seconds=WAIT_SECONDS)
            except (Refused, AdmissionsUnderWay) as error:
                refusal, status = error, error.http_status
            else:
                return redirect(reverse("fence", args=[found.fence_id]))
    context = {**_about(reads.get_fence(found.fence_id)), "override": found, "form": form, "refusal": refusal}
    return render(request, "console/fences/close.html", context, status=status)


def _get(request: HttpRequest, fence_id: str) -> Fence:
    """Return a fence; one of where the reader may not look is none."""
    return reads.get_fence(fence_id, within=rights_of(request.user).reach(VIEW))


def _effect(terms: FenceTerms, within: Scope) -> reads.Effect | None:
    try:
        return reads.read_effect(terms.cleaned_data["namespace"], terms.cleaned_data["scope"], within=within)
    except NotFound as error:
        terms.add_error("namespace", error.operator_message())
        return None


def _about(fence: Fence) -> dict[str, Any]:
    """Return what every page of a fence shows of it."""
    return {
        "section": "fences",
        "fence": fence,
        "waiting": reads.read_waiting(fence.namespace, reads.list_armed(fence.namespace)),
        "read_at": timezone.now(),
    }
