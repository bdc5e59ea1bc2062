#!/usr/bin/env python
"""Django's command line for this project."""

from __future__ import annotations

import os
import sys

#: The client library's numbers for a server that is not there.
NOT_THERE = frozenset({2002, 2003, 2005})
#: What a shell reports of a program that ended since nobody read it: 128 and the signal's number.
SIGPIPE_CODE = 141


def main() -> None:
    """Run a management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        execute_from_command_line(sys.argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who read the output has seen enough, as `head` does. What is left must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(SIGPIPE_CODE)
    except OperationalError as error:
        if not error.args or error.args[0] not in NOT_THERE:
            raise
        # The driver's text names a path or a host, and says less.
        sys.exit(
            "The database does not answer. Start it (manage.py localdb start, if it is the embedded one), "
            "or look at LOCKHOUSE_DATABASE_URL."
        )


if __name__ == "__main__":
    main()
