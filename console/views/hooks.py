"""The door for providers' webhooks."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt


@csrf_exempt
def receive(request: HttpRequest, namespace: str, route_key: str) -> HttpResponse:
    """Answer 503 until the ingress is there."""
    return HttpResponse(status=503)
