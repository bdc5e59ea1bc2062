"""Log lines: one JSON object a line on stderr, and nothing in them that must not leave the process.

Redaction is by name: a field that may carry a payload, a credential or a lease is replaced, at any depth,
whoever logged it. The name and the password in an address are replaced wherever the address stands.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

REDACTED: Final = "[redacted]"
_SECRET_NAME: Final = re.compile(
    r"(?i)(body|payload|secret|token|password|passwd|authorization|cookie|signature|credential|session"
    r"|api_?key|private_?key|payload_?keys?|lease_?owner|worker|failure_?(class|summary)|last_?error)"
)
#: The name and the password that an address may carry.
_USERINFO: Final = re.compile(r"://[^\s/?#@]*@")
_MAX_DEPTH: Final = 4


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    """Whether a field's name says that it may hold a secret; the same few names come with every line."""
    return _SECRET_NAME.search(name) is not None


def _redacted(value: Any, depth: int = 0) -> Any:
    if depth >= _MAX_DEPTH:
        return REDACTED
    if isinstance(value, str):
        return _USERINFO.sub("://" + REDACTED + "@", value) if "://" in value else value
    if isinstance(value, (int, float)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {
            str(name): REDACTED if _is_secret(str(name)) else _redacted(item, depth + 1) for name, item in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_redacted(item, depth + 1) for item in value]
    return REDACTED if isinstance(value, (bytes, bytearray, memoryview)) else value


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace every field whose name says that it may hold a secret, a payload or a lease."""
    cleaned: EventDict = _redacted(event)
    return cleaned


def drop_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Keep only method and path of the request object that Django attaches to its records."""
    record = event.get("_record")
    request = getattr(record, "request", None)
    if request is not None and hasattr(request, "path"):
        event["method"], event["path"] = request.method, request.path
    return event


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def logging_config(level: str) -> dict[str, Any]:
    """Return Django's LOGGING value and set structlog up to feed the same handler.

    Args:
        level: The lowest level that is written, by name.

    Returns:
        A `logging.config.dictConfig` mapping.
    """
    # No line says any of these, and every record would look for them. The process stays: gunicorn's own lines name it.
    logging.logThreads = logging.logMultiprocessing = False
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared(),
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _shared(),
                "processors": [
                    drop_request,
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    # Only the kind and the place of an error: its text may quote a row or a request.
                    structlog.processors.ExceptionRenderer(_error_shape),
                    redact,
                    structlog.processors.JSONRenderer(default=str),
                ],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"level": level, "handlers": [], "propagate": True},
            "django.server": {"level": level, "handlers": [], "propagate": True},
            # Its records carry the statement's parameters.
            "django.db.backends": {"level": "WARNING", "propagate": True},
            # A line for each request that the demo sends.
            "httpx": {"level": "WARNING", "propagate": True},
            # What proves a sign-in would stand in its lines, and in an address that it asks.
            "authlib": {"level": "WARNING", "propagate": True},
            "urllib3": {"level": "WARNING", "propagate": True},
        },
    }


def _error_shape(exc_info: Any) -> list[str]:
    error = exc_info[1]
    lines = []
    while error is not None:
        frames = []
        step = error.__traceback__
        while step is not None:
            frames.append(f"{step.tb_frame.f_globals.get('__name__', '?')}:{step.tb_lineno}")
            step = step.tb_next
        lines.append(f"{type(error).__module__}.{type(error).__qualname__} at {' > '.join(frames[-8:])}")
        error = error.__cause__
    return lines
