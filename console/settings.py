"""Settings: everything comes from the environment, and what is left out is safe.

`LOCKHOUSE_LOCAL=1` is the local run on this machine's loopback over plain HTTP: it generates the keys it lacks
into `LOCKHOUSE_VAR_DIR` and sends cookies without the secure flag. Without it nothing is generated, and a
missing key stops the boot.
"""

from __future__ import annotations

import base64
import os
import secrets
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import dj_database_url
from csp.constants import NONE, SELF
from django.contrib.messages import constants as message_levels
from django.core.exceptions import ImproperlyConfigured
from environs import Env

from console.logging import logging_config
from console.oidc_settings import read_oidc
from integration.storage.addresses import DATABASE_NAME, socket_path

BASE_DIR: Final = Path(__file__).resolve().parent.parent

env = Env()
LOCKHOUSE_VAR_DIR: Path = Path(env.str("LOCKHOUSE_VAR_DIR", str(BASE_DIR / "var"))).absolute()
# The local run notes its own choices there, so that a command typed by hand meets the same database.
env.read_env(str(LOCKHOUSE_VAR_DIR / "lockhouse.env"), recurse=False, override=False)

LOCKHOUSE_LOCAL: bool = env.bool("LOCKHOUSE_LOCAL", default=False)
DEBUG = env.bool("LOCKHOUSE_DEBUG", default=False)
_MAY_GENERATE: Final = LOCKHOUSE_LOCAL
if DEBUG and not LOCKHOUSE_LOCAL:
    _open_debug = "LOCKHOUSE_DEBUG shows settings and rows to whoever asks: it needs LOCKHOUSE_LOCAL=1 beside it."
    raise ImproperlyConfigured(_open_debug)


def _generated_once(file_name: str, value: str) -> str:
    """Return what the file in the var directory holds, writing the value there if it has none yet."""
    path = LOCKHOUSE_VAR_DIR / file_name
    LOCKHOUSE_VAR_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{file_name}.{os.getpid()}")
    try:
        stored = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(value + "\n")
        # A link never replaces: of two processes that start together, both read the first one's value.
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        stored = path.read_text(encoding="utf-8").strip()
    if not stored:
        message = f"{path} is empty; remove it and start again"
        raise ImproperlyConfigured(message)
    return stored


def _secret(name: str, file_name: str, value: str) -> str:
    given = env.str(name, "")
    if given:
        return given
    if _MAY_GENERATE:
        return _generated_once(file_name, value)
    message = f"{name} is not set. Set it, or set LOCKHOUSE_LOCAL=1 for a run on this machine alone."
    raise ImproperlyConfigured(message)


SECRET_KEY = _secret("LOCKHOUSE_SECRET_KEY", "secret-key", secrets.token_urlsafe(64))
#: How keys begin that stand in published source: Django's own drafts, and this program's tests.
_PUBLISHED: Final = ("django-insecure-", "tests-only-")
if not _MAY_GENERATE and (len(SECRET_KEY) < 50 or len(set(SECRET_KEY)) < 5 or SECRET_KEY.startswith(_PUBLISHED)):
    _weak = "LOCKHOUSE_SECRET_KEY is too short, too plain or published: use at least 50 random characters."
    raise ImproperlyConfigured(_weak)

# The first key encrypts; the others still open what they sealed.
LOCKHOUSE_PAYLOAD_KEYS: str = _secret(
    "LOCKHOUSE_PAYLOAD_KEYS",
    "payload-keys",
    "k1:" + base64.b64encode(secrets.token_bytes(32)).decode(),
)
# Webhook secrets by the name that a pack refers to; never in a pack.
LOCKHOUSE_SECRETS: dict[str, str] = {
    name.removeprefix("LOCKHOUSE_SECRETS_"): value
    for name, value in os.environ.items()
    if name.startswith("LOCKHOUSE_SECRETS_") and value
}
if _MAY_GENERATE and "DEMO" not in LOCKHOUSE_SECRETS:
    LOCKHOUSE_SECRETS["DEMO"] = _generated_once("demo-secret", secrets.token_urlsafe(32))
# What serves `/api/v1/connector-events`: a class of the published interface, without arguments.
LOCKHOUSE_CONNECTOR_EVENTS_SERVICE: str = env.str(
    "LOCKHOUSE_CONNECTOR_EVENTS_SERVICE", "integration.authority.events_admin.ConnectorEvents"
)
#: Requests of one API token: a minute in the long run, and at once after a rest.
LOCKHOUSE_API_PER_MINUTE: int = env.int("LOCKHOUSE_API_PER_MINUTE", 600)
LOCKHOUSE_API_AT_ONCE: int = env.int("LOCKHOUSE_API_AT_ONCE", 60)
if min(LOCKHOUSE_API_PER_MINUTE, LOCKHOUSE_API_AT_ONCE) < 1:
    _no_pace = "LOCKHOUSE_API_PER_MINUTE and LOCKHOUSE_API_AT_ONCE are 1 at least."
    raise ImproperlyConfigured(_no_pace)
_SURFACES: Final = frozenset({"console", "ingress"})
LOCKHOUSE_SURFACES: frozenset[str] = frozenset(env.list("LOCKHOUSE_SURFACES", sorted(_SURFACES)))
if not LOCKHOUSE_SURFACES or not LOCKHOUSE_SURFACES <= _SURFACES:
    _no_surface = "LOCKHOUSE_SURFACES is console, ingress, or both with a comma between them."
    raise ImproperlyConfigured(_no_surface)
#: Rows of one exported file, at most.
LOCKHOUSE_EXPORT_ROWS: int = env.int("LOCKHOUSE_EXPORT_ROWS", 50_000)
if LOCKHOUSE_EXPORT_ROWS < 1:
    _few = "LOCKHOUSE_EXPORT_ROWS is the most rows that an exported file may have: 1 or more."
    raise ImproperlyConfigured(_few)

_LOOPBACK: Final = ["localhost", "127.0.0.1", "[::1]"]
ALLOWED_HOSTS: list[str] = env.list(
    "LOCKHOUSE_ALLOWED_HOSTS",
    _LOOPBACK if LOCKHOUSE_LOCAL else [],
)
if LOCKHOUSE_LOCAL and not set(ALLOWED_HOSTS) <= set(_LOOPBACK):
    _not_local = f"LOCKHOUSE_LOCAL=1 answers to {', '.join(_LOOPBACK)} alone: it runs over plain HTTP."
    raise ImproperlyConfigured(_not_local)
CSRF_TRUSTED_ORIGINS: list[str] = env.list("LOCKHOUSE_TRUSTED_ORIGINS", [])

# Database

dj_database_url.register("tidb", "django_tidb")

_SESSION: Final = (
    "SET time_zone = '+00:00', innodb_lock_wait_timeout = 5, "
    "sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
)


def databases(url: str) -> dict[str, Any]:
    """Return DATABASES for one database address.

    Args:
        url: `mysql://...` for MariaDB or MySQL, `tidb://...` for TiDB; a Unix socket by `?unix_socket=PATH`.

    Returns:
        `default`, and `ingress`: the same database with timeouts short enough for a provider's patience.
    """
    parsed: dict[str, Any] = dict(dj_database_url.parse(url, conn_max_age=600, conn_health_checks=True))
    options = {
        **parsed.get("OPTIONS", {}),
        "isolation_level": "read committed",
        "charset": "utf8mb4",
        "init_command": _SESSION,
        # The client library's default takes several statements in one call: half of every injection.
        "multi_statements": False,
    }
    default = {
        **parsed,
        "ATOMIC_REQUESTS": False,
        "OPTIONS": {"connect_timeout": 10, **options},
        "TEST": {"CHARSET": "utf8mb4"},
    }
    ingress = {
        **parsed,
        # A check before each use would spend the patience twice; the ingress asks again on a fresh connection.
        "CONN_HEALTH_CHECKS": False,
        "ATOMIC_REQUESTS": False,
        "OPTIONS": {
            **options,
            "connect_timeout": 1,
            "read_timeout": 3,
            "write_timeout": 3,
        },
        "TEST": {"MIRROR": "default"},
    }
    return {"default": default, "ingress": ingress}


LOCALDB_DIR: Path = LOCKHOUSE_VAR_DIR / "mariadb"
_LOCALDB_URL: Final = (
    f"mysql://root@localhost/{DATABASE_NAME}?unix_socket={quote(str(socket_path(LOCALDB_DIR)), safe='/')}"
)
DATABASES = databases(env.str("LOCKHOUSE_DATABASE_URL", "") or _LOCALDB_URL)
#: The alias through which receipts are stored.
LOCKHOUSE_INGRESS_DATABASE = "ingress"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Application

INSTALLED_APPS = [
    "console",
    "integration",
    "integration.packs",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.humanize",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "csp",
    "axes",
]
MIDDLEWARE = [
    "console.middleware.ClientAddress",
    "django.middleware.security.SecurityMiddleware",
    # Webhooks end here: the layers below are for sessions and pages.
    "console.views.hooks.WebhookDoor",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "console.middleware.SentFrom",
    "console.middleware.SessionAge",
    "console.api.door.TokenDoor",
    "console.middleware.Zone",
    "console.middleware.Answers",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "console.urls"
WSGI_APPLICATION = "console.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.context.rail",
            ],
        },
    },
]

# Accounts

AUTH_USER_MODEL = "console.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "console.backends.OperatorBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
#: Signing in through a provider; None when it is switched off.
LOCKHOUSE_OIDC = read_oidc(env, is_local=LOCKHOUSE_LOCAL)
if LOCKHOUSE_OIDC is not None:
    AUTHENTICATION_BACKENDS += ["console.backends.ProviderBackend"]
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = LOGIN_URL
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
# A name and an address together: a stranger cannot lock an operator out of another address.
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_VERBOSE = False
# What a failed attempt is stored without: a code typed wrong is most of a right one.
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "password", "code", "csrfmiddlewaretoken"]
AXES_SENSITIVE_PARAMETERS += ["old_password", "new_password1", "new_password2"]
AXES_LOCKOUT_CALLABLE = "console.views.errors.locked_out"

# What a message is drawn as: what went well is no warning.
MESSAGE_TAGS = {message_levels.SUCCESS: "good", message_levels.ERROR: "dead"}

# Transport

_SECURE: Final = not _MAY_GENERATE
SECURE_SSL_REDIRECT = env.bool("LOCKHOUSE_SSL_REDIRECT", default=_SECURE)
SECURE_HSTS_SECONDS = 63_072_000 if _SECURE else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = _SECURE
SECURE_HSTS_PRELOAD = _SECURE
SECURE_REFERRER_POLICY = "same-origin"
LOCKHOUSE_BEHIND_TLS_PROXY: bool = env.bool("LOCKHOUSE_BEHIND_TLS_PROXY", default=False)
if LOCKHOUSE_BEHIND_TLS_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_SECURE = _SECURE
SESSION_COOKIE_AGE = 12 * 60 * 60
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_NAME = "__Host-lockhouse-session" if _SECURE else "lockhouse-session"
CSRF_COOKIE_SECURE = _SECURE
CSRF_COOKIE_NAME = "__Host-lockhouse-csrf" if _SECURE else "lockhouse-csrf"
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Strict"
CSRF_FAILURE_VIEW = "console.views.errors.csrf_failure"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
        "report-uri": "/csp-report",
    },
}

# Static files

STATIC_URL = "/static/"
STATIC_ROOT = LOCKHOUSE_VAR_DIR / "static"
STATICFILES_DIRS: list[Path | tuple[str, Path]] = [path for path in (BASE_DIR / "static",) if path.is_dir()]
for _package, _folder in (
    ("htmx", "htmx.org/dist"),
    ("inter", "@fontsource-variable/inter/files"),
    ("mono", "@fontsource-variable/jetbrains-mono/files"),
):
    if (BASE_DIR / "node_modules" / _folder).is_dir():
        STATICFILES_DIRS.append((_package, BASE_DIR / "node_modules" / _folder))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

# Language, time, logs

LANGUAGE_CODE = "en-us"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"
LOGGING = logging_config(env.str("LOCKHOUSE_LOG_LEVEL", "INFO"))
