"""What a site refuses, each with a code that a program can act on and a sentence for a person.

Problem                  (a TocsinError)
├── Invalid              400   the request cannot be understood: names the field, and in a query the position
├── Unauthorized         401   no token, or one that is not in force
├── Forbidden            403   the account's role may not do this
├── NotFound             404   there is none, or it is somebody else's
├── Conflict             409   the id is in use, or somebody else was quicker
├── TooLarge             413   more than a limit allows
├── OverQuota            403   the account has used up what it may
├── TooFast              429   more than the account's rate: says when to come back
└── NotYet               501   a form that is not built yet
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from tocsin.errors import DocumentError, QueryError, SubscriptionError, TocsinError


class Problem(TocsinError):
    """Something that is refused: `code`, `message`, and where it stands."""

    code: ClassVar[str] = "problem"
    status: ClassVar[int] = 400

    def __init__(
        self, message: str, *, code: str | None = None, position: int | None = None, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = code or self.code
        self.position = position
        self.field = field

    def as_json(self) -> dict[str, Any]:
        """`{"code", "message", "position"?, "field"?}`: what stands under "error" in an answer."""
        found: dict[str, Any] = {"code": self.kind, "message": self.message}
        if self.position is not None:
            found["position"] = self.position
        if self.field is not None:
            found["field"] = self.field
        return found


class Invalid(Problem):
    """The request cannot be understood."""

    code = "invalid"


class Unauthorized(Problem):
    """No token, or one that is not in force."""

    code, status = "unauthorized", 401


class Forbidden(Problem):
    """The account's role may not do this."""

    code, status = "forbidden", 403


class OverQuota(Problem):
    """The account has used up what it may."""

    code, status = "over_quota", 403


class NotFound(Problem):
    """There is none, or it is somebody else's."""

    code, status = "not_found", 404


class Conflict(Problem):
    """The id is in use, or somebody else was quicker."""

    code, status = "conflict", 409


class TooLarge(Problem):
    """More than a limit allows."""

    code, status = "too_large", 413


class TooFast(Problem):
    """More than the account's rate."""

    code, status = "too_fast", 429

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class NotYet(Problem):
    """A form that is not built yet."""

    code, status = "not_yet", 501


def problem_of(error: TocsinError, field: str | None = None) -> Problem:
    """Any refusal as a Problem; a query's keeps its position."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, QueryError):
        return Invalid(str(error), code=_code(type(error)), position=error.position, field=field or "query")
    if isinstance(error, DocumentError):
        return Invalid(error.reason, code="document", field=field)
    if isinstance(error, SubscriptionError):
        return Conflict(str(error), field=field)
    return Invalid(str(error), code=_code(type(error)), field=field)


def _code(kind: type[TocsinError]) -> str:
    """QueryTooLong -> query_too_long."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    return words.replace("x_path", "xpath").removesuffix("_error")
