"""Who is signed in: a session in this process for each browser, named by a cookie that only the server reads.

A session's id is drawn anew at every sign-in, so an id that somebody else planted is worth nothing. It holds the
token, which is asked for again at every call: one that is revoked ends the session with it. Sessions are not stored;
after a restart everybody signs in again.

Every form carries a seal that only this site can make from the browser's cookie (an HMAC): another site's form has
none. Before the sign-in a second cookie plays that part, so that nobody is signed in by a stranger's form either.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b, sha256

from starlette.requests import Request
from starlette.responses import Response

COOKIE, BEFORE = "tocsin_session", "tocsin_before"
IDLE_SECONDS_MAX = 12 * 3_600.0
AGE_SECONDS_MAX = 7 * 86_400.0
SESSIONS_MAX = 10_000
ID_BYTES = 32


@dataclass(slots=True)
class Session:
    """A browser that is signed in."""

    token: str = field(repr=False)
    begun: float
    seen: float


class Sessions:
    """All of them. Safe to share between threads."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._sessions: dict[bytes, Session] = {}
        self._secret = secrets.token_bytes(32)

    def begin(self, token: str) -> str:
        """A new session, under a new id."""
        id = secrets.token_urlsafe(ID_BYTES)
        now = self._now()
        with self._lock:
            if len(self._sessions) >= SESSIONS_MAX:
                self._forget_old(now)
            self._sessions[_key(id)] = Session(token, now, now)
        return id

    def find(self, id: str) -> Session | None:
        """The session of this id, if it is in force."""
        now = self._now()
        with self._lock:
            found = self._sessions.get(_key(id))
            if found is None:
                return None
            if now - found.seen > IDLE_SECONDS_MAX or now - found.begun > AGE_SECONDS_MAX:
                del self._sessions[_key(id)]
                return None
            found.seen = now
            return found

    def end(self, id: str) -> None:
        """Signs out."""
        with self._lock:
            self._sessions.pop(_key(id), None)

    def seal(self, cookie: str) -> str:
        """What a form of the browser with this cookie carries."""
        return hmac.new(self._secret, cookie.encode("utf-8", "surrogatepass"), sha256).hexdigest()

    def is_ours(self, cookie: str, seal: str) -> bool:
        """Did this site make the form, for this browser?"""
        given = seal.encode("utf-8", "surrogatepass")
        return bool(cookie) and hmac.compare_digest(self.seal(cookie).encode(), given)

    def _forget_old(self, now: float) -> None:
        """Those that are over, and then the longest idle: one who signs in again and again shuts out nobody new."""
        by_age = sorted(self._sessions, key=lambda key: self._sessions[key].seen)
        for key in by_age[: SESSIONS_MAX // 10]:
            del self._sessions[key]


def _key(id: str) -> bytes:
    """What is kept of an id: to look one up tells nothing about others by the time that it takes."""
    return blake2b(id.encode("utf-8", "surrogatepass"), digest_size=32).digest()


def set_cookie(response: Response, request: Request, name: str, value: str) -> None:
    """A cookie that scripts cannot read and other sites cannot send; over TLS, never without it."""
    response.set_cookie(name, value, path="/", httponly=True, samesite="strict", secure=request.url.scheme == "https")


def drop_cookie(response: Response, name: str) -> None:
    """Forgets a cookie."""
    response.delete_cookie(name, path="/", httponly=True, samesite="strict")


def new_before() -> str:
    """A value for the cookie before the sign-in."""
    return secrets.token_urlsafe(ID_BYTES)
