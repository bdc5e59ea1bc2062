"""The naive webhook: check the signature, two INSERTs in one transaction, answer. A whole Django project.

No middleware, one URL, a connection that is kept: nothing here slows it down but what it does.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os

import dj_database_url
from django.conf import settings

dj_database_url.register("tidb", "django_tidb")
_DATABASE = dict(dj_database_url.parse(os.environ["LOCKHOUSE_DATABASE_URL"], conn_max_age=60))
_DATABASE["OPTIONS"] = {**_DATABASE.get("OPTIONS", {}), "charset": "utf8mb4", "isolation_level": "read committed"}
if not settings.configured:
    settings.configure(
        SECRET_KEY="only-for-the-benchmark",
        ALLOWED_HOSTS=["*"],
        DATABASES={"default": _DATABASE},
        INSTALLED_APPS=[],
        MIDDLEWARE=[],
        ROOT_URLCONF=__name__,
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )

import django  # noqa: E402

django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import IntegrityError, connection, models, transaction  # noqa: E402
from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

SECRET = os.environ["LOCKHOUSE_SECRETS_DEMO"].encode()


class Delivery(models.Model):
    """A webhook as it came."""

    delivery_id = models.CharField(max_length=255, unique=True)
    body = models.BinaryField()
    received_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "naive"

    def __str__(self) -> str:
        return self.delivery_id


class Job(models.Model):
    """What is to be done about it."""

    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE)
    kind = models.CharField(max_length=64)
    payload = models.JSONField()
    state = models.CharField(max_length=16, default="ready", db_index=True)

    class Meta:
        app_label = "naive"

    def __str__(self) -> str:
        return self.kind


def receive(request: HttpRequest) -> HttpResponse:
    """Store the webhook and its job together."""
    body = request.body
    expected = hmac.new(SECRET, body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, request.headers.get("X-Demo-Signature", "")):
        return HttpResponse(status=401)
    payload = json.loads(body)
    try:
        with transaction.atomic():
            delivery = Delivery.objects.create(delivery_id=request.headers["X-Demo-Delivery"], body=body)
            Job.objects.create(delivery=delivery, kind=payload["event"], payload=payload)
    except IntegrityError:
        pass
    return HttpResponse(status=200)


urlpatterns = [path("hooks/demo/deals", receive)]
application = get_wsgi_application()

if __name__ == "__main__":
    with connection.schema_editor() as editor:
        editor.create_model(Delivery)
        editor.create_model(Job)
