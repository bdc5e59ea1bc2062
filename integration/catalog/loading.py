"""YAML text to plain values, within limits, and every problem named by its place in the document.

A pack is written by people who may not hold the platform's secrets, and a mistake may put one into it:
no message here repeats a value, only its kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from integration import errors

MAX_DOCUMENT_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 16
MAX_NODES: Final = 10_000
_SHOWN_KEY_CHARACTERS: Final = 40

Path_ = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong in a document.

    Attributes:
        path: The place, such as `routes[0].retry.factor`; `document` for the whole.
        line: The line in the file, from 1; None when it is not known.
        expected: What belongs there.
        found: The kind of what stands there, never the value.
    """

    path: str
    line: int | None
    expected: str
    found: str


class DocumentInvalid(errors.InvalidInput):
    """The pack document is not valid; nothing was installed."""

    code = "document_invalid"

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        """Keep every problem; the message lists them, one a line."""
        self.source = source
        self.problems = tuple(problems)
        lines = [
            f"{source}{'' if problem.line is None else f':{problem.line}'}: {problem.path}: "
            f"expected {problem.expected}, found {problem.found}"
            for problem in self.problems
        ]
        super().__init__("\n".join(lines), source=source, problem_count=len(self.problems))


def kind_of(value: object) -> str:  # noqa: PLR0911
    """Return what a value is in a reader's words, without the value."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return f"a text of {len(value)} characters"
        case list() | tuple():
            return f"a list of {len(value)}"
        case dict():
            return f"a mapping of {len(value)}"
        case _:
            return f"a {type(value).__name__}"


def path_text(path: Sequence[str | int]) -> str:
    """Return a path as `routes[0].retry.factor`; long keys are cut."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + _shown(part)
    return text or "document"


def _shown(key: str) -> str:
    printable = "".join(character if character.isprintable() else "?" for character in key)
    return printable if len(printable) <= _SHOWN_KEY_CHARACTERS else printable[:_SHOWN_KEY_CHARACTERS] + "..."


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """A document as plain values, with the node tree that knows the lines.

    Attributes:
        source: The file's name, for messages.
        value: Mappings, lists, texts, numbers, booleans and nothing.
    """

    source: str
    value: Any
    _root: yaml.Node

    def line_of(self, path: Sequence[str | int]) -> int | None:
        """Return the line of the deepest node on a path that exists, from 1."""
        node = self._root
        for part in path:
            child = _child(node, part)
            if child is None:
                break
            node = child
        return _line(node.start_mark)


def _line(mark: Any) -> int | None:
    return None if mark is None else int(mark.line) + 1


def _child(node: yaml.Node, part: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == part:
                return value  # type: ignore[no-any-return]
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part]  # type: ignore[no-any-return]
    return None


def read_document(path: Path) -> SourceDocument:
    """Read a pack file.

    Args:
        path: The file.

    Returns:
        The document as plain values.

    Raises:
        DocumentInvalid: The file cannot be read, or is not one YAML mapping within the limits.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise _invalid(path.name, "a readable file", error.strerror or "an error") from None
    return parse_document(raw, source=path.name)


def parse_document(raw: bytes, *, source: str) -> SourceDocument:
    """Parse one YAML document.

    Anchors and aliases are refused as a whole: a pack needs none, and they are how a small file becomes a
    large value. A key that occurs twice is refused, because the second one would win in silence.

    Args:
        raw: The file's bytes, UTF-8.
        source: The file's name, for messages.

    Returns:
        The document as plain values.

    Raises:
        DocumentInvalid: It is not one YAML mapping within the limits; every duplicate key is named.
    """
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise _invalid(source, f"at most {MAX_DOCUMENT_BYTES} bytes", "more")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _invalid(source, "UTF-8 text", "other bytes") from None
    try:
        root = _compose(text, source)
    except yaml.YAMLError as error:
        line = _line(getattr(error, "problem_mark", None))
        raise _invalid(source, "one YAML document", "text that is not YAML", line) from None
    if not isinstance(root, yaml.MappingNode):
        raise _invalid(source, "a mapping at the top", "another kind")
    problems = list(_key_problems(root, ()))
    if problems:
        raise DocumentInvalid(source, problems)
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_document(root)
    except (yaml.YAMLError, ValueError):
        raise _invalid(source, "plain YAML values", "a tag or value that is not plain") from None
    return SourceDocument(source=source, value=value, _root=root)


def _invalid(source: str, expected: str, found: str, line: int | None = None) -> DocumentInvalid:
    return DocumentInvalid(source, [Problem(path="document", line=line, expected=expected, found=found)])


def _compose(text: str, source: str) -> yaml.Node | None:
    """Build the node tree only once its events are known to be within the limits."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = _line(event.start_mark)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _invalid(source, "no anchors and aliases", "one", line)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _invalid(source, f"at most {MAX_DEPTH} levels", "more", line)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        nodes += isinstance(event, yaml.NodeEvent)
        if nodes > MAX_NODES:
            raise _invalid(source, f"at most {MAX_NODES} values", "more", line)
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _key_problems(node: yaml.Node, path: Path_) -> Iterator[Problem]:
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _key_problems(item, (*path, index))
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        line = _line(key.start_mark)
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            yield Problem(path=path_text(path), line=line, expected="a text as key (quote it)", found="another kind")
            continue
        if key.value in seen:
            yield Problem(path=path_text((*path, key.value)), line=line, expected="each key once", found="it twice")
        seen.add(key.value)
        yield from _key_problems(value, (*path, key.value))
