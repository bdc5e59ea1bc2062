"""What commands that write a file share: its options, and where its parts go."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from pathlib import Path

from django.core.management.base import OutputWrapper

from integration import errors
from integration.exports.policy import Format


def add_export(parser: ArgumentParser) -> None:
    """Declare the options of an export."""
    parser.add_argument("--format", choices=[str(form) for form in Format], default=Format.CSV.value)
    parser.add_argument("--output", help="The file, which must not exist; standard output if none is named.")
    parser.add_argument("--oldest-first", action="store_true", help="Turn the order round.")


def write_parts(begin: Callable[[], Iterator[str]], output: str | None, out: OutputWrapper) -> None:
    """Begin an export once its file can be written, and write its parts as they come.

    Raises:
        InvalidInput: The file is there already, or cannot be made.
    """
    if output is None:
        for part in begin():
            out.write(part, ending="")
        return
    try:
        with Path(output).open("x", encoding="utf-8", newline="") as file:
            file.writelines(begin())
    except FileExistsError:
        message = "The output is there already: name a new file."
        raise errors.InvalidInput(message, field="output") from None
    except OSError as error:
        message = f"The output cannot be written: {error.strerror}."
        raise errors.InvalidInput(message, field="output") from None
