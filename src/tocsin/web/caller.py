"""Who calls: a bearer token, the account that it belongs to, and whether its role may do this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool

from tocsin.site import accounts
from tocsin.site.accounts import Account, Role
from tocsin.site.site import Site
from tocsin.web.answers import Refusal
from tocsin.web.limits import WebLimits
from tocsin.web.metrics import Metrics
from tocsin.web.routes import ROWS, Reach, Row, template

bearer = HTTPBearer(auto_error=False, description="An account's token; `tocsin account` makes one.")
UNAUTHENTICATED = {"WWW-Authenticate": 'Bearer realm="tocsin"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """An account that calls, and the account whose things it means: its own, or one that an administrator names."""

    account: Account
    owner: Account
    token: str

    def __repr__(self) -> str:
        return f"Caller({self.account.name!r} for {self.owner.name!r})"  # never the token


def site_of(request: Request) -> Site:
    """The site that is called."""
    site: Site = request.app.state.site
    return site


def limits_of(request: Request) -> WebLimits:
    """The server's limits."""
    limits: WebLimits = request.app.state.limits
    return limits


def metrics_of(request: Request) -> Metrics:
    """What the server counts."""
    metrics: Metrics = request.app.state.metrics
    return metrics


def row_of(request: Request) -> Row:
    """The table's row for this call; a route without one answers nobody."""
    path: Any = getattr(request.scope.get("route"), "path", "")
    row = ROWS.get((request.method, template(path)))
    if row is None:
        raise Refusal(403, "forbidden", "this route is closed")
    return row


async def admitted(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> Caller:
    """The caller, if the token is good and its role may call this route."""
    row = row_of(request)
    if credentials is None:
        raise Refusal(401, "unauthenticated", "send `Authorization: Bearer TOKEN`", headers=UNAUTHENTICATED)
    site = site_of(request)
    account = await run_in_threadpool(site.authenticate, credentials.credentials)
    if account is None:
        message = "this token is not known, was revoked, or has expired"
        raise Refusal(401, "unauthenticated", message, headers=UNAUTHENTICATED)
    if account.role not in row.roles:
        allowed = ", ".join(sorted(row.roles))
        raise Refusal(403, "forbidden", f"the role {account.role} may not do this: it is for {allowed}")
    site.take(account, "calls")
    return Caller(account, account, credentials.credentials)


async def acting(
    request: Request,
    caller: Annotated[Caller, Depends(admitted)],
    account: Annotated[
        str | None, Query(description="For administrators: act for this account.", max_length=200)
    ] = None,
) -> Caller:
    """The caller of a route that reaches an account's own things; an administrator may name the account."""
    if account is None or account == caller.account.name:
        return caller
    if caller.account.role is not Role.ADMIN:
        raise Refusal(403, "forbidden", "only an administrator may name an account")
    site = site_of(request)
    owner = await run_in_threadpool(accounts.find, site.store, account, site.settings.quotas)
    return Caller(caller.account, owner, caller.token)


Admitted = Annotated[Caller, Depends(admitted)]
Acting = Annotated[Caller, Depends(acting)]
TheSite = Annotated[Site, Depends(site_of)]
TheLimits = Annotated[WebLimits, Depends(limits_of)]
TheMetrics = Annotated[Metrics, Depends(metrics_of)]

__all__ = ["Acting", "Admitted", "Caller", "Reach", "TheLimits", "TheMetrics", "TheSite", "admitted"]
Limit = Annotated[int, Query(ge=1, le=1_000, description="At most so many.")]
