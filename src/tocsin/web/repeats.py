"""Idempotency-Key: the same call again gets the answer of the first, and is done once.

A key belongs to an account, and to one call: method, path, parameters and body. Another call under the same key is
refused. A call that was refused gives its key back, since nothing was done.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import blake2b

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from tocsin.errors import TocsinError
from tocsin.site.site import Site
from tocsin.store import replies
from tocsin.web.answers import Refusal
from tocsin.web.bodies import Spool, chunks
from tocsin.web.limits import WebLimits

HEADER = "Idempotency-Key"
REPLAYED = {"Idempotent-Replayed": "true"}

Do = Callable[[AsyncIterator[bytes], str | None], Awaitable[Response]]
"""Does the call with its body, and with the key if there is one."""

_running: set[tuple[str, str, str]] = set()


async def once(request: Request, site: Site, account: str, do: Do, *, bytes_max: int, limits: WebLimits) -> Response:
    """The call, done once for its key; a call without a key is done each time."""
    key = key_of(request, limits)
    if key is None:
        return await do(chunks(request, bytes_max, limits), None)
    mark = (site.store.url, account, key)
    if mark in _running:
        raise Refusal(409, "in_progress", "a call with this key is under way", headers={"Retry-After": "1"})
    if sum(store == mark[0] and owner == account for store, owner, _ in _running) >= limits.keyed_per_account_max:
        message = f"{limits.keyed_per_account_max} calls with a key are under way: wait for one of them"
        raise Refusal(429, "too_many", message, headers={"Retry-After": "1"})
    _running.add(mark)
    spool = Spool()
    try:
        await spool.fill(chunks(request, min(bytes_max, limits.keyed_bytes_max), limits))
        return await _once(request, site, (account, key), spool, do)
    finally:
        spool.close()
        _running.discard(mark)


def key_of(request: Request, limits: WebLimits) -> str | None:
    """The key of the call."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not 1 <= len(key) <= limits.key_characters_max or not key.isascii() or not key.isprintable():
        raise Refusal(422, "bad_value", f"{HEADER}: 1 to {limits.key_characters_max} printable ASCII characters")
    return key


async def _once(request: Request, site: Site, whose: tuple[str, str], spool: Spool, do: Do) -> Response:
    account, key = whose
    call = f"{request.method} {request.url.path}?{request.url.query} {request.headers.get('content-type', '')}"
    fingerprint = blake2b(call.encode() + spool.fingerprint(), digest_size=32).digest()
    known = await run_in_threadpool(replies.take, site.store, account, key, fingerprint)
    if known is not None:
        if known.fingerprint != fingerprint:
            raise Refusal(422, "key_reused", f"{HEADER}: this key was used for another call: draw a new one")
        if known.status is not None:
            kind, _, body = (known.body or "").partition("\n")
            return Response(body, known.status, REPLAYED, media_type=kind)
    try:
        answer = await do(spool.chunks(), key)
    except (Refusal, TocsinError):
        await run_in_threadpool(replies.release, site.store, account, key)
        raise
    kept = f"{answer.media_type}\n{bytes(answer.body).decode()}"
    await run_in_threadpool(replies.answer, site.store, account, key, answer.status_code, kept)
    return answer


def refuse_key(request: Request) -> None:
    """For calls whose answer holds a secret, which is kept nowhere."""
    if HEADER.lower() in request.headers:
        raise Refusal(422, "bad_value", f"{HEADER}: the answer of this call is shown once, and is not kept")
