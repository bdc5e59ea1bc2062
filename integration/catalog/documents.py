"""The pack document: what an integrator may say, validated as a whole.

L1 is everything but `binding`; L2 is the `binding` block, which a deployment may also give on its own. A
secret is named by reference and never stands in a document.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import ErrorDetails

from integration.catalog.consistency import cross_problems
from integration.catalog.loading import (
    DocumentInvalid,
    Problem,
    SourceDocument,
    kind_of,
    parse_document,
    path_text,
    read_document,
)
from integration.states import ExecutionClass, ReduceBy, WorkType
from integration.values import canonical_json, digest_text

MAX_EXPRESSION_CHARACTERS: Final = 512
DEFAULT_MAX_BODY_BYTES: Final = 256 * 1024
LARGEST_BODY_BYTES: Final = 4 * 1024 * 1024
#: A name has words; a run this long without a separator is a secret that someone pasted.
_LONGEST_NAME_PART: Final = 24
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_TEMPLATE_FIELD: Final = re.compile(r"\{([^{}]*)\}")
_TEMPLATE_FIELDS: Final = frozenset({"body", "method", "uri", "timestamp"})


@lru_cache(maxsize=1024)
def compile_expression(text: str) -> ParsedResult:
    """Return a JMESPath expression compiled, once per text."""
    return jmespath.compile(text)


def _check_expression(text: str) -> str:
    try:
        compile_expression(text)
    except JMESPathError:
        message = "a JMESPath expression"
        raise ValueError(message) from None
    return text


def _check_reference(text: str) -> str:
    if text.startswith("file:"):
        if not text.removeprefix("file:").startswith("/"):
            message = "file: and an absolute path"
            raise ValueError(message)
        return text
    parts = text.split("-")
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,63}", text) or max(map(len, parts)) > _LONGEST_NAME_PART:
        message = "the name of a secret (lower-case words joined by '-', or file:/path), never the secret itself"
        raise ValueError(message)
    return text


Expression = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_EXPRESSION_CHARACTERS), AfterValidator(_check_expression)
]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
DottedName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,64}$")]
SecretReference = Annotated[str, StringConstraints(min_length=1, max_length=512), AfterValidator(_check_reference)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TimestampRule(_Part):
    """The header that carries the time of signing, and how old it may be."""

    header: HeaderName
    unit: Literal["seconds", "milliseconds"] = "seconds"
    tolerance_seconds: Annotated[int, Field(ge=1, le=3600)] = 300


class VerifierRule(_Part):
    """How the provider signs: the parameters of the one verifier."""

    algorithm: Literal["hmac-sha256"] = "hmac-sha256"
    header: HeaderName
    encoding: Literal["hex", "base64"] = "hex"
    prefix: Annotated[str, StringConstraints(max_length=32)] = ""
    message: Annotated[str, StringConstraints(min_length=1, max_length=256)] = "{body}"
    timestamp: TimestampRule | None = None
    secrets: Annotated[tuple[Name, ...], Field(min_length=1, max_length=8, strict=False)]

    @model_validator(mode="after")
    def _check_template(self) -> Self:
        fields = _TEMPLATE_FIELD.findall(self.message)
        if set(fields) - _TEMPLATE_FIELDS or fields.count("body") != 1:
            message = "a message template of {method}, {uri}, {timestamp} and exactly one {body}"
            raise ValueError(message)
        # An unsigned timestamp would only look like protection against replayed requests.
        if ("timestamp" in fields) != (self.timestamp is not None):
            message = "{timestamp} in the message template exactly when a timestamp header is declared"
            raise ValueError(message)
        return self


class ItemsRule(_Part):
    """A body that carries several events: where the list is, and what identifies one of them."""

    value: Expression = "@"
    id: Expression | None = None


class OccurredRule(_Part):
    """When it happened at the provider."""

    value: Expression
    format: Literal["rfc3339", "epoch_seconds", "epoch_milliseconds"] = "rfc3339"


class IdentityRule(_Part):
    """The parts of the deterministic key, used when a delivery has no id of its own."""

    event_name: Expression
    resource_type: Expression
    resource_id: Expression
    delivered_at: Expression


class WebhookRule(_Part):
    """One address that a provider posts to."""

    key: Name
    verifier: VerifierRule
    response_status: Annotated[int, Field(ge=200, le=299)] = 200
    max_body_bytes: Annotated[int, Field(ge=1, le=LARGEST_BODY_BYTES)] = DEFAULT_MAX_BODY_BYTES
    delivery_id_header: HeaderName | None = None
    identity: IdentityRule
    items: ItemsRule | None = None
    event_kind: Expression
    event_kinds: dict[str, DottedName] | None = None
    occurred_at: OccurredRule | None = None


class RetryRule(_Part):
    """When a failed execution is tried again, and how often."""

    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    base_seconds: Annotated[float, Field(gt=0, le=86_400, strict=False)] = 2.0
    factor: Annotated[float, Field(ge=1, le=10, strict=False)] = 2.0
    cap_seconds: Annotated[float, Field(gt=0, le=604_800, strict=False)] = 900.0
    jitter: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.2

    @model_validator(mode="after")
    def _check_cap(self) -> Self:
        if self.cap_seconds < self.base_seconds:
            message = "cap_seconds of at least base_seconds"
            raise ValueError(message)
        return self


class FlowRule(_Part):
    """The Python function that does the work."""

    name: DottedName
    version: Annotated[int, Field(ge=1, le=1_000_000)]


class ReduceRule(_Part):
    """What a projection's flow is given of its inputs.

    A replay carries the new replay Event alone. Whatever folds several inputs into one therefore says that it
    accepts that: `replay: selected_only`.
    """

    by: Annotated[ReduceBy, Field(strict=False)] = ReduceBy.LAST
    name: DottedName | None = None
    version: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    replay: Literal["selected_only"] | None = None

    @model_validator(mode="after")
    def _check_function(self) -> Self:
        is_custom = self.by is ReduceBy.CUSTOM
        if (self.name is not None) != is_custom or (self.version is not None) != is_custom:
            message = "a name and a version exactly when it reduces by custom"
            raise ValueError(message)
        if self.by is not ReduceBy.LAST and self.replay is None:
            message = "replay: selected_only, since a replay carries one input and not the ones that were folded"
            raise ValueError(message)
        return self


class RouteRule(_Part):
    """An immutable rule: event kind to flow, work type, lanes, execution class."""

    event: DottedName
    version: Annotated[int, Field(ge=1, le=1_000_000)]
    execution: Annotated[ExecutionClass, Field(strict=False)] = ExecutionClass.PER_EVENT
    work_type: Annotated[WorkType, Field(strict=False)] = WorkType.CONNECTOR_EVENT
    flow: FlowRule
    source_lane: Expression | None = None
    target_lane: Expression | None = None
    queue: Name = "default"
    payload_schema_version: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    retry: RetryRule = RetryRule()
    on_dead: Literal["pass", "block"] = "pass"
    reduce: ReduceRule | None = None
    waits_for: DottedName | None = None

    @model_validator(mode="after")
    def _check_projection(self) -> Self:
        is_projection = self.execution is ExecutionClass.SOURCE_PROJECTION
        wrong = {
            "a source_lane for a source_projection": is_projection and self.source_lane is None,
            "reduce for a source_projection only": not is_projection and self.reduce is not None,
            # Its replay waits for the generation behind it, which would wait for the replay.
            "on_dead: pass for a source_projection": is_projection and self.on_dead == "block",
        }
        if found := [message for message, is_wrong in wrong.items() if is_wrong]:
            raise ValueError(found[0])
        return self

    @model_validator(mode="after")
    def _check_dependency(self) -> Self:
        if self.waits_for is not None and self.target_lane is None:
            message = "a target_lane, in which a route that waits_for another event looks for it"
            raise ValueError(message)
        if self.waits_for == self.event:
            message = "another event than the route's own to wait for"
            raise ValueError(message)
        return self


class BindingRule(_Part):
    """L2: the org's binding of the pack; secrets by reference."""

    namespace: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
    org: Annotated[str, StringConstraints(pattern=_UUID)]
    app_installation: Annotated[str, StringConstraints(pattern=_UUID)] | None = None
    subscription_generation: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1
    secrets: dict[Name, SecretReference]


class PackDocument(_Part):
    """A whole pack."""

    lockhouse: Literal[1]
    pack: Name
    version: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$")]
    provider: Name
    webhooks: Annotated[tuple[WebhookRule, ...], Field(min_length=1, max_length=32, strict=False)]
    routes: Annotated[tuple[RouteRule, ...], Field(min_length=1, max_length=512, strict=False)]
    binding: BindingRule

    def canonical(self) -> str:
        """Return the text that the catalog stores and digests: every default written out."""
        return canonical_json(self.model_dump(mode="json"))

    def digest(self) -> str:
        """Return the CatalogDigest, 64 lowercase hex characters."""
        return digest_text(self.canonical())


def load_pack(path: Path, *, namespace: str | None = None, org: str | None = None) -> PackDocument:
    """Read and validate a pack file.

    Args:
        path: The YAML file.
        namespace: Replaces `binding.namespace`.
        org: Replaces `binding.org`.

    Returns:
        The validated document.

    Raises:
        DocumentInvalid: Names every problem by file, line and path; never a value.
    """
    return validate_pack(read_document(path), namespace=namespace, org=org)


def parse_pack(raw: bytes, *, source: str) -> PackDocument:
    """Validate a pack given as bytes; as `load_pack`."""
    return validate_pack(parse_document(raw, source=source))


def validate_pack(document: SourceDocument, *, namespace: str | None = None, org: str | None = None) -> PackDocument:
    """Validate a parsed document; as `load_pack`."""
    value = document.value
    overrides = {name: given for name, given in (("namespace", namespace), ("org", org)) if given is not None}
    if overrides and isinstance(value.get("binding", {}), dict):
        value = {**value, "binding": {**value.get("binding", {}), **overrides}}
    try:
        pack = PackDocument.model_validate(value)
    except ValidationError as error:
        # A list whose items are all invalid is also "too short" to pydantic, which tells nobody anything.
        found = [item for item in error.errors() if item["type"] != "too_short" or not item["input"]]
        raise DocumentInvalid(document.source, [_problem(document, item) for item in found]) from None
    problems = [
        Problem(path=path_text(path), line=document.line_of(path), expected=expected, found=found)
        for path, expected, found in cross_problems(pack)
    ]
    if problems:
        raise DocumentInvalid(document.source, problems)
    return pack


def _problem(document: SourceDocument, found: ErrorDetails) -> Problem:
    # Pydantic names the place of a mapping's key by a last part that no reader would look for.
    path = tuple(part for part in found["loc"] if part != "[key]")
    match found["type"]:
        case "missing":
            expected, kind = "a value", "nothing"
        case "extra_forbidden":
            expected, kind = "no such key", kind_of(found["input"])
        case "value_error":
            expected, kind = str(found["ctx"]["error"]), kind_of(found["input"])
        case "string_type":
            expected, kind = "a text (quote it)", kind_of(found["input"])
        case "string_pattern_mismatch" if found["ctx"]["pattern"] == _UUID:
            expected, kind = "an id of 36 characters in lower case", kind_of(found["input"])
        case "string_pattern_mismatch":
            expected, kind = f"a text like {found['ctx']['pattern']}", kind_of(found["input"])
        case _:
            expected, kind = _expected(str(found["msg"])), kind_of(found["input"])
    return Problem(path=path_text(path), line=document.line_of(path), expected=expected, found=kind)


def _expected(message: str) -> str:
    return message.removeprefix("Input should be ").removeprefix("Value should ")
