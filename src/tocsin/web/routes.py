"""Every route, who may call it, and whose things it reaches.

The application asks this table on each call, so a route without a row answers nobody; the security tests are made
from it, each role against each row, with its own things and with another account's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tocsin.site.accounts import RIGHTS, Right, Role

BASE = "/api/v1"


class Reach(StrEnum):
    """Whose things a route reaches."""

    OPEN = "open"
    """Nobody's: it needs no token."""
    COMMON = "common"
    """Everybody's, such as documents."""
    OWN = "own"
    """The caller's; another account's do not exist for it. The administrator names an account to act for it."""
    SITE = "site"
    """The whole site's: for the administrator only."""


def _may(right: Right) -> frozenset[Role]:
    return frozenset(role for role in Role if right in RIGHTS[role])


ANYBODY = frozenset(Role)
PUBLISHERS, SUBSCRIBERS, ADMINISTRATORS = _may(Right.PUBLISH), _may(Right.SUBSCRIBE), _may(Right.ADMINISTER)


@dataclass(frozen=True, slots=True)
class Row:
    """One route."""

    method: str
    path: str
    reach: Reach
    roles: frozenset[Role]
    names: str = ""
    """What the id in its path names: subscription, document, account, undelivered, view, channel, …; none: ""."""


def _own(method: str, path: str, roles: frozenset[Role] = SUBSCRIBERS, names: str = "") -> Row:
    return Row(method, BASE + path, Reach.OWN, roles, names)


def _common(method: str, path: str, roles: frozenset[Role], names: str = "") -> Row:
    return Row(method, BASE + path, Reach.COMMON, roles, names)


def _site(method: str, path: str, names: str = "") -> Row:
    return Row(method, BASE + path, Reach.SITE, ADMINISTRATORS, names)


def _open(path: str) -> Row:
    return Row("GET", path, Reach.OPEN, ANYBODY)


TABLE: tuple[Row, ...] = (
    _open("/healthz"),
    _open("/metrics"),
    _open("/openapi.json"),
    _open("/feeds/{secret}.atom"),
    _open("/unsubscribe/{token}"),
    Row("POST", "/unsubscribe/{token}", Reach.OPEN, ANYBODY),
    _open("/confirm/{code}"),
    Row("POST", "/confirm/{code}", Reach.OPEN, ANYBODY),
    _own("GET", "/feeds"),
    _own("POST", "/feeds"),
    _own("DELETE", "/feeds/{mark}", names="feed"),
    _own("GET", "/channels"),
    _own("POST", "/channels"),
    _own("GET", "/channels/{number}", names="channel"),
    _own("DELETE", "/channels/{number}", names="channel"),
    _own("POST", "/channels/{number}/ask", names="channel"),
    _own("POST", "/channels/{number}/confirm", names="channel"),
    _own("POST", "/channels/{number}/test", names="channel"),
    _own("POST", "/test"),
    _common("GET", "/sources", ANYBODY),
    _common("POST", "/sources", PUBLISHERS),
    _common("GET", "/sources/{number}", ANYBODY, names="source"),
    _common("PATCH", "/sources/{number}", PUBLISHERS, names="source"),
    _common("DELETE", "/sources/{number}", PUBLISHERS, names="source"),
    _common("POST", "/sources/{number}/visit", PUBLISHERS, names="source"),
    _common("GET", "/opml", PUBLISHERS),
    _common("POST", "/opml", PUBLISHERS),
    _own("POST", "/subscriptions"),
    _own("GET", "/subscriptions"),
    _own("GET", "/subscriptions/{id}", names="subscription"),
    _own("PATCH", "/subscriptions/{id}", names="subscription"),
    _own("DELETE", "/subscriptions/{id}", names="subscription"),
    _own("POST", "/subscriptions/{id}/thumbs", names="subscription"),
    _common("POST", "/documents", PUBLISHERS),
    _common("GET", "/documents/{id}", ANYBODY, names="document"),
    _common("DELETE", "/documents/{id}", PUBLISHERS, names="document"),
    _own("GET", "/notifications"),
    _own("GET", "/stream"),
    _own("GET", "/undelivered"),
    _own("POST", "/undelivered/{number}/again", names="undelivered"),
    _own("DELETE", "/undelivered/{number}", names="undelivered"),
    _own("GET", "/account", ANYBODY),
    _common("GET", "/search", ANYBODY),
    _common("POST", "/preview", ANYBODY),
    _common("POST", "/events", PUBLISHERS),
    _own("POST", "/views"),
    _own("GET", "/views"),
    _own("GET", "/views/{name}", names="view"),
    _own("DELETE", "/views/{name}", names="view"),
    _site("GET", "/accounts"),
    _site("POST", "/accounts"),
    _site("GET", "/accounts/{name}", names="account"),
    _site("PATCH", "/accounts/{name}", names="account"),
    _site("POST", "/accounts/{name}/tokens", names="account"),
    _site("DELETE", "/accounts/{name}/tokens", names="account"),
    _site("GET", "/journal"),
    _site("GET", "/slow"),
    _site("GET", "/rejected"),
    _site("GET", "/audit"),
    _site("POST", "/audit"),
)

ROWS = {(row.method, row.path): row for row in TABLE}


def template(path: str) -> str:
    """A route's path as the table writes it: `{id:path}` is `{id}`."""
    return path.replace(":path}", "}")
