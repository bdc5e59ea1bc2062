"""What the OpenAPI document says beside each address's own shapes: how one comes in, and every kind of no."""

from __future__ import annotations

from typing import Any, Final

from ninja.openapi.schema import OpenAPISchema

from console.answers import ANSWERS
from console.api.problems import CONTENT_TYPE

_PROBLEM: Final = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457; `code` is stable, a refusal's is the same as in the audit trail.",
    "required": ["type", "title", "status", "code", "detail", "next_step"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "next_step": {"type": "string"},
    },
}
_SECURITY: Final = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token of your account's page."},
    "session": {"type": "apiKey", "in": "cookie", "name": "__Host-lockhouse-session"},
}
_KEY: Final = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": True,
    "description": "Names this request for 24 hours: the same one again gets the first answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
}
_READS: Final = (400, 401, 403, 404, 409, 422, 429, 501, 503)
_REFUSALS: Final = {
    409: "Refused, or another one was first; `code` says by which rule.",
    501: "The installed service does not offer this.",
}


def complete(schema: OpenAPISchema) -> OpenAPISchema:
    """Return the document with its problems, its ways in, and the key that every write needs.

    Args:
        schema: As the library makes it.
    """
    parts: dict[str, Any] = schema.setdefault("components", {})
    parts.setdefault("schemas", {})["Problem"] = _PROBLEM
    parts["securitySchemes"] = _SECURITY
    parts["responses"] = {f"Problem{status}": _response(status) for status in _READS}
    schema["security"] = [{name: []} for name in _SECURITY]
    for operations in schema["paths"].values():
        for method, operation in operations.items():
            for status in _READS:
                operation["responses"].setdefault(str(status), {"$ref": f"#/components/responses/Problem{status}"})
            if method == "post":
                operation.setdefault("parameters", []).append(_KEY)
    return schema


def _response(status: int) -> dict[str, Any]:
    answer = ANSWERS.get(status)
    return {
        "description": _REFUSALS.get(status) or (answer.sentence if answer else "Refused."),
        "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
