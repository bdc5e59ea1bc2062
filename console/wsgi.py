"""The WSGI application that gunicorn serves."""

from __future__ import annotations

import os

from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

application = get_wsgi_application()
# Django imports the views with the first request; a provider's five seconds are not for that.
_ = get_resolver().url_patterns
# What `manage.py check` refuses is not served either: a route without a permission, for one.
if _faults := [fault for fault in run_checks(tags=["security"]) if fault.is_serious()]:
    raise ImproperlyConfigured("; ".join(str(fault.msg) for fault in _faults))
