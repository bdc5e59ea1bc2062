"""Management commands as a terminal runs them, in this process: exit code, standard output, standard error."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from typing import Any

from django.core.management import CommandError, load_command_class


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A command that ended.

    Attributes:
        code: Its exit code.
        out: What it wrote for its reader.
        err: What it wrote beside that.
    """

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document that it printed."""
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def said(self) -> str:
        """Everything that it printed."""
        return self.out + self.err


def run(name: str, *arguments: str) -> Ended:
    """Run a command of `integration` with the arguments of a shell, on this process's connections."""
    out, err = io.StringIO(), io.StringIO()
    command = load_command_class("integration", name)
    # What tells the parser to end with a usage message instead of raising.
    command._called_from_command_line = True
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            options = vars(command.create_parser("manage.py", name).parse_args(arguments))
            command.execute(**{**options, "args": (), "skip_checks": True, "stdout": out, "stderr": err})
        except CommandError as error:
            err.write(str(error))
            code = error.returncode
        except SystemExit as end:
            code = end.code
    return Ended(code=code or 0, out=out.getvalue(), err=err.getvalue())
