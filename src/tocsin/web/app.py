"""The application: the routes of the table, on one site."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from tocsin.errors import TocsinError
from tocsin.site.site import Site
from tocsin.web import (
    accounts,
    asked,
    channels,
    documents,
    feedback,
    feeds,
    notifications,
    operation,
    preview,
    search,
    sources,
    subscriptions,
    views,
)
from tocsin.web.answers import Refusal, refusal_of
from tocsin.web.guard import FAILED, Guard
from tocsin.web.limits import LIMITS, WebLimits
from tocsin.web.metrics import Metrics
from tocsin.web.pages import table
from tocsin.web.pages.session import Sessions
from tocsin.web.pages.tally import Tally
from tocsin.web.routes import BASE, ROWS, template
from tocsin.web.schemas import COMPONENTS
from tocsin.web.stream import Streams

DESCRIPTION = """Standing queries over streams of documents: say once what you look for, be told when it appears.

Every error has one shape: `{"error": {"code", "message", "position"?}}`. A call with an `Idempotency-Key` that is
sent again gets the answer of the first. Ids in paths are percent-encoded, slashes too."""


class Application:
    """The site over HTTP, as an ASGI application."""

    def __init__(self, site: Site, limits: WebLimits = LIMITS) -> None:
        self.metrics = Metrics()
        self.streams = Streams()
        self.api = _api(site, limits, self.metrics, self.streams)
        self._guarded: ASGIApp = Guard(self.api, self.metrics, self.methods_of, limits.header_bytes_max)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One call."""
        await self._guarded(scope, receive, send)

    def stop(self) -> None:
        """Ends the open streams, so that the server can stop."""
        self.streams.stop()

    def methods_of(self, path: str) -> list[str]:
        """The methods that the path answers."""
        return methods_of(self.api, path)


def _api(site: Site, limits: WebLimits, metrics: Metrics, streams: Streams) -> FastAPI:
    api = FastAPI(
        title="Tocsin",
        version="1",
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
    )
    api.state.site, api.state.limits, api.state.metrics, api.state.streams = site, limits, metrics, streams
    api.state.sessions, api.state.tally = Sessions(), Tally(site.store)
    api.router.routes.extend(table.routes())
    api.router.routes.extend(operation.open_router.routes)
    api.router.routes.extend(feeds.open_router.routes)
    api.router.routes.extend(channels.open_router.routes)
    api.router.routes.extend([*channels.router.routes, *sources.router.routes])
    for module in (subscriptions, documents, notifications, accounts, operation, preview, search, feeds, views):
        api.router.routes.extend(module.router.routes)
    api.router.routes.extend(feedback.router.routes)
    for kind in (Refusal, TocsinError, HTTPException, RequestValidationError):
        api.add_exception_handler(kind, _refused)
    api.add_exception_handler(Exception, _failed)
    check_rows(api)
    api.openapi = lambda: _openapi(api)  # type: ignore[method-assign]
    return api


def check_rows(api: FastAPI) -> None:
    """Every route has its row in the table, and every row its route."""
    found = {(method, template(route.path)) for route in _routes(api) for method in route.methods or ()}
    found.add(("GET", "/openapi.json"))
    if found != set(ROWS):
        raise AssertionError(f"routes without a row, or rows without a route: {sorted(found ^ set(ROWS))}")


def _routes(api: FastAPI) -> list[APIRoute]:
    return [route for route in api.routes if isinstance(route, APIRoute)]


def methods_of(api: FastAPI, path: str) -> list[str]:
    """The methods that the path answers, HEAD and OPTIONS among them; none if there is no such path."""
    scope = {"type": "http", "path": path, "root_path": "", "method": "GET", "headers": []}
    found: set[str] = set()
    for route in api.routes:
        if route.matches(scope)[0] is not Match.NONE:
            found |= set(getattr(route, "methods", None) or ())
    if found:
        found |= {"OPTIONS"} | ({"HEAD"} if "GET" in found else set())
    return sorted(found)


async def _failed(_request: Request, _error: Exception) -> Response:
    """The guard, which sees the error after this, logs it."""
    return FAILED.response()


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, Refusal):
        return error.response()
    if isinstance(error, TocsinError):
        return refusal_of(error).response()
    if isinstance(error, RequestValidationError):
        return _invalid(error).response()
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = methods_of(request.app, request.scope["path"])
        message = f"this path answers {', '.join(allowed)}"
        return Refusal(405, "method_not_allowed", message, headers={"Allow": ", ".join(allowed)}).response()
    if error.status_code == 404:
        return Refusal(
            404, "not_found", f"there is nothing here: the calls are listed at /openapi.json ({BASE}/…)"
        ).response()
    return Refusal(error.status_code, "bad_request", "this call cannot be read").response()


def _invalid(error: RequestValidationError) -> Refusal:
    """The first thing that is wrong with a parameter, by its name."""
    first = error.errors()[0]
    name = str(first["loc"][-1]) if first.get("loc") else "the call"
    return Refusal(422, "bad_value", f"{name}: {first['msg'][:1].lower()}{first['msg'][1:]}")


def _openapi(api: FastAPI) -> dict[str, Any]:
    if api.openapi_schema is None:
        found = get_openapi(
            title=api.title, version=api.version, description=api.description, routes=api.routes, tags=api.openapi_tags
        )
        schemas = found.setdefault("components", {}).setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas.update(
            COMPONENTS | asked.SCHEMAS | accounts.SCHEMAS | channels.SCHEMAS | sources.SCHEMAS | views.SCHEMAS
        )
        api.openapi_schema = found
    return api.openapi_schema
