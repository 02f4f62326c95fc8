"""What is answered: one shape for every error, `{"error": {"code", "message", "position"?}}`.

A code is for programs and does not change; a message is for people: what is wrong, where, and what to do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from typing import Any

from starlette.responses import Response

from tocsin.errors import PipelineError, StoreError, TocsinError
from tocsin.intake import shown
from tocsin.site.problems import Invalid, Problem, TooFast, problem_of

NDJSON = "application/x-ndjson"
RETRY_SECONDS_MAX = 3_600.0


class Refusal(Exception):
    """A call is refused."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        position: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.position = position
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The error, as it stands under "error" in an answer or in a line of one."""
        found: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.position is not None:
            found["position"] = self.position
        return found

    def response(self) -> Response:
        """The whole answer."""
        return json_answer({"error": self.body()}, self.status, self.headers)


def json_answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(encoded(content), status, headers, media_type="application/json")


def encoded(content: Any) -> bytes:
    """JSON as it is sent: no NaN, no lone surrogates."""
    try:
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def not_found(what: str, id: str) -> Refusal:
    """There is none, or it is another account's: nobody may learn which."""
    return Refusal(404, "not_found", f"there is no {what} {shown(id)}")


def not_yet(what: str) -> Refusal:
    """A form that the contract names and that is not built."""
    return Refusal(501, "not_yet", f"{what}: this is not built yet")


def refusal_of(error: TocsinError) -> Refusal:
    """How an error of the rooms below is answered. What cannot be understood is 422; a message names its field."""
    if isinstance(error, StoreError | PipelineError):
        return Refusal(503, "unavailable", "the store does not answer: try again soon", headers={"Retry-After": "5"})
    problem = problem_of(error)
    headers = {}
    if isinstance(problem, TooFast):
        headers["Retry-After"] = str(max(1, ceil(min(problem.retry_after_seconds, RETRY_SECONDS_MAX))))
    status = 422 if isinstance(problem, Invalid) else problem.status
    return Refusal(status, problem.kind, _naming(problem), problem.position, headers)


def _naming(problem: Problem) -> str:
    named = problem.field is None or problem.field in problem.message or problem.position is not None
    return problem.message if named else f"{problem.field}: {problem.message}"
