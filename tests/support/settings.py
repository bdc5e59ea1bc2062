"""The console's settings as tests use them: cheap passwords, plain static files, keys of their own."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

os.environ.setdefault("LOCKHOUSE_SECRET_KEY", "tests-only-" + "0123456789abcdefghijklmnopqrstuvwxyz" * 2)
os.environ.setdefault("LOCKHOUSE_PAYLOAD_KEYS", "t1:" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
os.environ.setdefault("LOCKHOUSE_SECRETS_DEMO", "demo-secret-of-the-tests")
os.environ.setdefault("LOCKHOUSE_SECRETS_OUTREACH", "outreach-secret-of-the-tests")
os.environ["LOCKHOUSE_LOCAL"] = "1"
os.environ["LOCKHOUSE_DEBUG"] = "0"
os.environ.setdefault("LOCKHOUSE_TESTING", "1")
# Never the developer's own var directory, nor what a local run noted there.
if "LOCKHOUSE_VAR_DIR" not in os.environ:
    os.environ["LOCKHOUSE_VAR_DIR"] = tempfile.mkdtemp(prefix="lh-var-")
    atexit.register(shutil.rmtree, os.environ["LOCKHOUSE_VAR_DIR"], ignore_errors=True)
os.environ.setdefault("LOCKHOUSE_LOG_LEVEL", "INFO")

from console.settings import *  # noqa: F403
from console.settings import DATABASES, INSTALLED_APPS, STORAGES

# A second connection would not see what a test has not committed.
DATABASES = {"default": DATABASES["default"]}
LOCKHOUSE_INGRESS_DATABASE = "default"
# For the flows that tests watch.
INSTALLED_APPS = [*INSTALLED_APPS, "tests.support"]
ALLOWED_HOSTS = ["*"]
# What one test leaves in a cache, another would read.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {**STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
WHITENOISE_AUTOREFRESH = True
WHITENOISE_USE_FINDERS = True
