"""The WSGI application that gunicorn serves."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

application = get_wsgi_application()
# Django imports the views with the first request; a provider's five seconds are not for that.
_ = get_resolver().url_patterns
