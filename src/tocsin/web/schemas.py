"""How calls and answers look, as OpenAPI tells it. Bodies are read by `web.bodies`, not by these.

They are written by hand because a body is read as a stream, and strictly: FastAPI would read all of it first.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
Responses = dict[int | str, dict[str, Any]]


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


def _array(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def ref(name: str) -> Schema:
    """A schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TIME: Schema = {"type": "string", "format": "date-time"}
MAYBE_TIME: Schema = {"type": ["string", "null"], "format": "date-time"}
CURSOR: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"}

_TOLD: dict[str, Schema] = {
    "subscription": TEXT,
    "document": TEXT,
    "version": {"type": "integer"},
    "score": {"type": "number", "minimum": 0, "maximum": 1},
    "evidence": {"description": "Why it matched."},
}

COMPONENTS: dict[str, Schema] = {
    "Error": _object(
        ["error"],
        error=_object(
            ["code", "message"],
            code={"type": "string", "description": "For programs; it does not change."},
            message={"type": "string", "description": "For people: what is wrong, where, and what to do."},
            position={"type": "integer", "minimum": 0, "description": "Where in the query, from 0."},
        ),
    ),
    "Document": {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "string", "minLength": 1},
            "source": TEXT,
            "time": {"type": "string", "description": "RFC 3339."},
            "version": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1, "default": 1},
            "xml": {"type": "string", "description": "Raw XML, for XPath queries."},
        },
        "additionalProperties": {
            "description": "A field.",
            "anyOf": [
                {"type": ["string", "number", "null"]},
                _array({"type": ["string", "number"]}),
            ],
        },
    },
    "Accepted": _object(
        ["accepted", "rejected"],
        accepted=COUNT,
        rejected=_array(_object(["line", "error"], line={"type": "integer", "minimum": 1}, error=ref("Reason"))),
        rejected_more={"type": "integer", "minimum": 1, "description": "Rejected lines that are not listed."},
    ),
    "Reason": _object(["code", "message"], code=TEXT, message=TEXT, position=COUNT),
    "Notification": _object(
        ["cursor", "subscription", "document", "version", "score", "evidence"], cursor=CURSOR, **_TOLD
    ),
    "Digest": _object(
        ["cursor", "subscription", "digest"],
        cursor=CURSOR,
        subscription=TEXT,
        digest=_array({"anyOf": [_object(sorted(_TOLD), **_TOLD), {"type": "object", "required": ["view", "key"]}]}),
    ),
    "RowChange": _object(
        ["cursor", "subscription", "view", "key", "row", "final"],
        cursor=CURSOR,
        subscription=TEXT,
        view=TEXT,
        key={"type": "object"},
        row={"type": ["object", "null"], "description": "Null: it has left."},
        final={"type": "boolean"},
    ),
    "Notifications": _object(
        ["items", "next"],
        items=_array({"anyOf": [ref("Notification"), ref("Digest"), ref("RowChange")]}),
        next=CURSOR,
    ),
}


def json_body(schema: Schema, description: str = "") -> dict[str, Any]:
    """`openapi_extra` of a route that takes one JSON object."""
    return bodies({"application/json": schema}, description)


def bodies(content: dict[str, Schema], description: str = "") -> dict[str, Any]:
    """`openapi_extra` of a route that takes one of several types."""
    found = {kind: {"schema": schema} for kind, schema in content.items()}
    return {"requestBody": {"required": True, "description": description, "content": found}}


def key_parameter() -> dict[str, Any]:
    """`openapi_extra` of a route that may be repeated under a key."""
    about = "The same call again under this key gets the answer of the first, and is done once."
    schema = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"}
    return {
        "parameters": [
            {"name": "Idempotency-Key", "in": "header", "required": False, "description": about, "schema": schema}
        ]
    }


def answer(schema: Schema, description: str, kind: str = "application/json") -> dict[str, Any]:
    """One answer of a route."""
    return {"description": description, "content": {kind: {"schema": schema}}}


def answers(first: dict[int, dict[str, Any]], *others: Responses) -> Responses:
    """The answers of a route."""
    found: Responses = dict(first.items())
    for other in others:
        found |= other
    return found


def _errors(**descriptions: str) -> Responses:
    return {int(status[1:]): answer(ref("Error"), text) for status, text in descriptions.items()}


ERROR: Responses = _errors(
    _401="No token, or one that is not known.",
    _403="The account's role may not do this.",
    _422="Something in the call cannot be used; the message names it.",
    _429="More than the account may; Retry-After says when to try again.",
    _500="Something went wrong at the site.",
    _503="The site is not ready, or the store is busy.",
)
FOUND: Responses = _errors(_404="There is none, or it is another account's.")
BODY: Responses = _errors(
    _400="The call ended in the middle.",
    _408="The body arrived too slowly.",
    _413="The body is too large.",
    _415="The body has another type.",
)
CONFLICT: Responses = _errors(_409="The id, or the key, is in use.")
NOT_YET: Responses = _errors(_501="Not built yet.")
