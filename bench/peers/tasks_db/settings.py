"""django-tasks-db as its documentation sets it up."""

from __future__ import annotations

import os

SECRET_KEY = "only-for-the-benchmark-0123456789-0123456789-0123456789"
USE_TZ = True
INSTALLED_APPS = ["django_tasks", "django_tasks_db"]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.mysql",
        "NAME": os.environ["PEER_DATABASE"],
        "USER": "root",
        "CONN_MAX_AGE": 60,
        "OPTIONS": {"unix_socket": os.environ["PEER_SOCKET"], "charset": "utf8mb4"},
    }
}
