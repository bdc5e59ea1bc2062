"""Gunicorn's settings: one process for each core, threads for requests that wait for the database."""

from __future__ import annotations

import gc
import ipaddress
import os
import shutil
import sys
import tempfile
from typing import Any

wsgi_app = "console.wsgi:application"
# Threads, and a client that sends slowly cannot hold one of them for long.
worker_class = "console.patience.PatientWorker"
workers = int(os.environ.get("LOCKHOUSE_WEB_PROCESSES", "2"))
threads = int(os.environ.get("LOCKHOUSE_WEB_THREADS", "8"))
# Whole before it listens: the first request of a new process meets a warm one.
preload_app = True
# A process whose loop hangs is replaced; threads that wait for the database end by its own limits.
timeout = 30
graceful_timeout = 20
keepalive = 5
# Long signatures and cookies fit, and a page of ticked rows beside its filter; floods of headers do not.
limit_request_line = 8190
limit_request_fields = 60
limit_request_field_size = 8190
# The access log names paths, which hold ids; the application's own log says what matters.
accesslog = None
errorlog = "-"
# It would listen in the home directory, where another installation may listen too.
control_socket_disable = True

# Each process counts for itself; a scrape meets one of them and reads the sum from here.
_metrics = os.environ.get("PROMETHEUS_MULTIPROC_DIR") or tempfile.mkdtemp(prefix="lockhouse-metrics-")
os.environ["PROMETHEUS_MULTIPROC_DIR"] = _metrics


def on_starting(server: Any) -> None:
    """Refuse to serve a local run, plain HTTP with keys made up on the spot, beyond this machine."""
    from django.conf import settings  # noqa: PLC0415 - only once the application is loaded

    hosts = [address[0] for address in server.cfg.address if isinstance(address, tuple)]
    if settings.LOCKHOUSE_LOCAL and not all(_is_loopback(host) for host in hosts):
        sys.exit("LOCKHOUSE_LOCAL=1 is for this machine alone: bind to a loopback address, 127.0.0.1 for one.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def when_ready(_server: Any) -> None:
    """Keep the program's own objects out of every collection: a request then never waits for a walk over them."""
    gc.collect()
    gc.freeze()


def child_exit(_server: Any, worker: Any) -> None:
    """Drop the gauges of a process that ended; its counts stay."""
    from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415 - only once the directory is named

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def on_exit(_server: Any) -> None:
    """Remove the shared counts with the last process."""
    shutil.rmtree(_metrics, ignore_errors=True)
