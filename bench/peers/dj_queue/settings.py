"""dj-queue as its documentation sets it up, with as many workers and threads as the others have."""

from __future__ import annotations

import os

SECRET_KEY = "only-for-the-benchmark-0123456789-0123456789-0123456789"
USE_TZ = True
INSTALLED_APPS = ["dj_queue"]
DATABASE_ROUTERS = ["dj_queue.routers.DjQueueRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TASKS = {
    "default": {
        "BACKEND": "dj_queue.backend.DjQueueBackend",
        "QUEUES": [],
        "OPTIONS": {
            "workers": [
                {
                    "queues": "*",
                    "threads": int(os.environ.get("PEER_THREADS", "8")),
                    "processes": int(os.environ.get("PEER_PROCESSES", "1")),
                    "polling_interval": float(os.environ.get("PEER_POLL", "0.1")),
                }
            ],
        },
    }
}
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.mysql",
        "NAME": os.environ["PEER_DATABASE"],
        "USER": "root",
        "CONN_MAX_AGE": 60,
        "OPTIONS": {"unix_socket": os.environ["PEER_SOCKET"], "charset": "utf8mb4"},
    }
}
