"""Signatures after the Standard Webhooks specification: the receiver can tell that a call is ours, whole and fresh.

Signed is "id.timestamp.body", with HMAC-SHA256 and the subscription's secret. The id stays the same however often an
item is sent, so a receiver that remembers ids does nothing twice.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from hashlib import sha256

from tocsin.errors import TocsinError
from tocsin.site.wishes import SECRET_START

TOLERANCE_SECONDS = 300
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


class BadSignature(TocsinError):
    """The call is not from the site, was altered, or is too old."""


def headers(secret: str, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """What a call carries."""
    return {ID: id, TIMESTAMP: str(timestamp), SIGNATURE: sign(secret, id, str(timestamp), body)}


def sign(secret: str, id: str, timestamp: str, body: bytes) -> str:
    """The signature, with its version."""
    content = b".".join((id.encode(), timestamp.encode(), body))
    digest = hmac.new(_key(secret), content, sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def verify(secret: str, given: Mapping[str, str], body: bytes, now: float, tolerance: float = TOLERANCE_SECONDS) -> str:
    """The id of a call that is genuine; BadSignature if it is not. For receivers, and for our tests."""
    found = {name.lower(): value for name, value in given.items()}
    try:
        id, timestamp, signatures = found[ID], found[TIMESTAMP], found[SIGNATURE]
    except KeyError as missing:
        raise BadSignature(f"the header {missing} is missing") from None
    if not (timestamp.isascii() and timestamp.isdecimal()) or abs(now - int(timestamp)) > tolerance:
        raise BadSignature("the call is too old, or from the future")
    wanted = sign(secret, id, timestamp, body).encode()
    # Several signatures, while a secret is replaced: one of them must be right.
    if not any(hmac.compare_digest(wanted, one.encode()) for one in signatures.split(" ")):
        raise BadSignature("the signature does not fit")
    return id


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(SECRET_START), validate=True)
    except (binascii.Error, ValueError):
        raise BadSignature("the secret is no base64") from None
