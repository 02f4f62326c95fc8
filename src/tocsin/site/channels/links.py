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
from tocsin.site.problems import Invalid, NotFound, OverQuota
from tocsin.store import Store, channels, journal, subscriptions
from tocsin.store.channels import AtomFeed, Saved

if TYPE_CHECKING:
    from tocsin.site.site import Site

PROOF_BYTES = 24
SALT_BYTES = 16
USES_MAX = 1_000_000
FEEDS_MAX = 100


def unsubscribe_token(store: Store, number: int) -> str:
    """What proves that somebody got a message of this subscription."""
    raw = number.to_bytes(8, "big")
    return written(raw + proof(store, b"unsubscribe", raw))


def unsubscribe_link(store: Store, settings: ChannelSettings, number: int) -> str | None:
    """The link in messages; None if the site does not know where people reach it."""
    if settings.public_url is None:
        return None
    return f"{settings.public_url.rstrip('/')}/unsubscribe/{unsubscribe_token(store, number)}"


def stop_link(store: Store, settings: ChannelSettings, one: Saved) -> str | None:
    """The link that ends all messages to a mailbox, in those about several subscriptions."""
    if settings.public_url is None:
        return None
    raw = one.number.to_bytes(8, "big")
    token = written(raw + _mailbox_proof(store, one))
    return f"{settings.public_url.rstrip('/')}/unsubscribe/{token}"


def _mailbox_proof(store: Store, one: Saved) -> bytes:
    return proof(store, b"mailbox", "\0".join((str(one.number), one.account, one.address)).encode())


def subscription_in(store: Store, token: str) -> tuple[str, str]:
    """(account, id) of the subscription that a token is about; NotFound if it is no token of ours."""
    raw = read(token)
    if len(raw) == 8 + PROOF_BYTES and hmac.compare_digest(raw[8:], proof(store, b"unsubscribe", raw[:8])):
        found = channels.subscription_of(store, int.from_bytes(raw[:8], "big"))
        if found is not None:
            return found
    raise NotFound("this link is not in force any more")


def number_in(raw: bytes) -> int:
    """The number that a token claims; one that no store has if it is not among those that stores give."""
    return int.from_bytes(raw[:8], "big") & (1 << 63) - 1


def mailbox_in(store: Store, token: str) -> Saved | None:
    """The mailbox that a token is about, if it is about one."""
    raw = read(token)
    one = channels.find_saved(store, number_in(raw)) if len(raw) == 8 + PROOF_BYTES else None
    return one if one is not None and hmac.compare_digest(raw[8:], _mailbox_proof(store, one)) else None


def subject_of(store: Store, token: str) -> str:
    """What a token would end, in words; NotFound."""
    one = mailbox_in(store, token)
    return f"all subscriptions to {one.address}" if one is not None else subscription_in(store, token)[1]


def unsubscribe(site: Site, token: str) -> str:
    """Ends the messages of a subscription, or all to a mailbox; returns what it was about.

    The subscriptions go on in the inbox: a wrong click loses nothing.
    """
    one = mailbox_in(site.store, token)
    if one is not None:
        end_messages(site, accounts.find(site.store, one.account), f"{one.kind}:{one.address}")
        journal.note(site.store, one.account, "unsubscribe by link", f"channel {one.number}")
        return subject_of(site.store, token)
    account, id = subscription_in(site.store, token)
    life.edit(site, accounts.find(site.store, account), id, {"channel": "inbox"})
    journal.note(site.store, account, "unsubscribe by link", id)
    return id


def end_messages(site: Site, account: Account, stored: str) -> list[str]:
    """Puts all of the account's subscriptions that are told there back to the inbox; returns their ids."""
    ended = [use.subscription for use in channels.uses(site.store, account.name, USES_MAX) if use.url == stored]
    for id in ended:
        life.edit(site, account, id, {"channel": "inbox"})
    return ended


# --- Atom feeds ------------------------------------------------------------------------------------------------------


def make_feed(store: Store, account: Account, subscription: str | None = None, tag: str | None = None) -> AtomFeed:
    """A feed of the account's own subscription, of a tag, or of all."""
    if subscription is not None and tag is not None:
        raise Invalid("a feed is of a subscription or of a tag, not of both", field="tag")
    if subscription is not None and subscriptions.find(store, account.name, subscription) is None:
        raise NotFound(f"there is no subscription {subscription[:60]!r}")
    if len(channels.feeds_of(store, account.name)) >= FEEDS_MAX:
        raise OverQuota(f"an account keeps at most {FEEDS_MAX} feeds: remove one that is not used")
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
    return written(proof(store, b"atom", salt))


def _mark(secret: str) -> bytes:
    return blake2b(secret.encode("utf-8", "surrogatepass"), digest_size=16, person=b"tocsin-atom").digest()


def proof(store: Store, purpose: bytes, what: bytes) -> bytes:
    """What only this site can make of it."""
    return hmac.new(channels.secret(store), purpose + b"\0" + what, sha256).digest()[:PROOF_BYTES]


def written(raw: bytes) -> str:
    """Bytes as they stand in a link."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def read(text: str) -> bytes:
    """The bytes of a link; none if it is no link of ours."""
    try:
        return base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        return b""
