"""What cannot be guessed: the address of an Atom feed, and the link that ends messages."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING
from urllib.parse import quote

from tocsin.site import accounts, life
from tocsin.site.accounts import Account
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.problems import Invalid, NotFound
from tocsin.store import Store, channels, journal, subscriptions
from tocsin.store.channels import AtomFeed

if TYPE_CHECKING:
    from tocsin.site.site import Site

PROOF_BYTES = 24
SALT_BYTES = 16


def unsubscribe_token(store: Store, number: int) -> str:
    """What proves that somebody got a message of this subscription."""
    raw = number.to_bytes(8, "big")
    return _written(raw + _proof(store, b"unsubscribe", raw))


def unsubscribe_link(store: Store, settings: ChannelSettings, number: int) -> str | None:
    """The link in messages; None if the site does not know where people reach it."""
    if settings.public_url is None:
        return None
    return f"{settings.public_url.rstrip('/')}/unsubscribe/{unsubscribe_token(store, number)}"


def subscription_in(store: Store, token: str) -> tuple[str, str]:
    """(account, id) of the subscription that a token is about; NotFound if it is no token of ours."""
    raw = _read(token)
    number, proof = raw[:8], raw[8:]
    if len(raw) == 8 + PROOF_BYTES and hmac.compare_digest(proof, _proof(store, b"unsubscribe", number)):
        found = channels.subscription_of(store, int.from_bytes(number, "big"))
        if found is not None:
            return found
    raise NotFound("this link is not in force any more")


def unsubscribe(site: Site, token: str) -> str:
    """Ends the messages of a subscription; returns its id. It goes on in the inbox: a wrong click loses nothing."""
    account, id = subscription_in(site.store, token)
    life.edit(site, accounts.find(site.store, account), id, {"channel": "inbox"})
    journal.note(site.store, account, "unsubscribe by link", id)
    return id


# --- Atom feeds ------------------------------------------------------------------------------------------------------


def make_feed(store: Store, account: Account, subscription: str | None = None, tag: str | None = None) -> AtomFeed:
    """A feed of the account's own subscription, of a tag, or of all."""
    if subscription is not None and tag is not None:
        raise Invalid("a feed is of a subscription or of a tag, not of both", field="tag")
    if subscription is not None and subscriptions.find(store, account.name, subscription) is None:
        raise NotFound(f"there is no subscription {subscription[:60]!r}")
    salt = secrets.token_bytes(SALT_BYTES)
    return channels.add_feed(store, _mark(_secret(store, salt)), salt, account.name, subscription=subscription, tag=tag)


def feed_secret(store: Store, feed: AtomFeed) -> str:
    """What stands in the feed's address."""
    return _secret(store, feed.salt)


def feed_link(store: Store, settings: ChannelSettings, feed: AtomFeed) -> str:
    """The feed's address; without the site's own if that is not known."""
    return f"{(settings.public_url or '').rstrip('/')}/feeds/{quote(feed_secret(store, feed))}.atom"


def find_feed(store: Store, secret: str) -> AtomFeed:
    """The feed with this secret; NotFound."""
    found = channels.find_feed(store, _mark(secret))
    if found is None:
        raise NotFound("there is no such feed")
    return found


def drop_feed(store: Store, account: Account, feed: AtomFeed) -> None:
    """Ends a feed: its address answers nothing any more."""
    if not channels.drop_feed(store, account.name, feed.mark):
        raise NotFound("there is no such feed")


def _secret(store: Store, salt: bytes) -> str:
    return _written(_proof(store, b"atom", salt))


def _mark(secret: str) -> bytes:
    return blake2b(secret.encode("utf-8", "surrogatepass"), digest_size=16, person=b"tocsin-atom").digest()


def _proof(store: Store, purpose: bytes, what: bytes) -> bytes:
    return hmac.new(channels.secret(store), purpose + b"\0" + what, sha256).digest()[:PROOF_BYTES]


def _written(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _read(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        return b""
