"""Notifications as people read them: with the title, the link and the beginning of each document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tocsin.model import Document
from tocsin.site.harvest.feeds import is_web
from tocsin.store import Store, channels, documents
from tocsin.store.inbox import Item
from tocsin.store.outbox import Notification
from tocsin.store.relations import NO_STATISTICS
from tocsin.views.spoken import sentence

TITLES = ("title", "dc.title", "headline", "name", "subject")
TEXTS = ("summary", "abstract", "text", "dc.description", "description", "body", "content")
LISTED_MIN = 3  # of each subscription in a message
LINKS = ("link", "url", "dc.identifier", "href")


class Telling(NamedTuple):
    """One document that matched."""

    document: str
    version: int
    title: str
    link: str | None
    source: str | None
    time: str | None
    text: str
    score: float
    made: float


class Told(NamedTuple):
    """What one subscription has to tell."""

    number: int
    """Of the subscription in the store; 0 in a test."""
    subscription: str
    name: str
    tellings: tuple[Telling, ...]
    more: int = 0
    """Further documents that are not listed."""
    stop: str | None = None
    """The link that ends this subscription's messages."""

    @property
    def total(self) -> int:
        """All of them."""
        return len(self.tellings) + self.more


def told_of(store: Store, items: Sequence[Item], most: int) -> list[Told]:
    """What items tell, by subscription, in the order of their first; each document once, the highest version."""
    gathered: dict[int, tuple[Item, dict[str, Notification]]] = {}
    for item in items:
        _, found = gathered.setdefault(item.number, (item, {}))
        for notification in item.notifications:
            known = found.get(notification.document)
            if known is None or known.version < notification.version:
                found[notification.document] = notification
    told = []
    most = max(LISTED_MIN, most // max(1, len(gathered)))  # shared between them: no subscription hides the others
    for number, (item, found) in gathered.items():
        about = channels.about_of(store, item.account, [item.subscription]).get(item.subscription, {})
        listed = list(found.values())
        name = str(about.get("name") or item.subscription)
        tellings = tuple(telling_of(store, one) for one in listed[:most])
        told.append(Told(number, item.subscription, name, tellings, max(0, len(listed) - most)))
    return told


def telling_of(store: Store, notification: Notification) -> Telling:
    """A notification with its document; one that was deleted since is told by its id, a row of a view by its key."""
    if notification.statistics == NO_STATISTICS:
        title, text = sentence(notification.evidence)
        made = notification.made
        return Telling(notification.document, notification.version, title, None, None, None, text, 1.0, made)
    stored = documents.find(store, notification.document, notification.version)
    document = stored.document() if stored is not None else Document(notification.document)
    return Telling(
        document.id,
        notification.version,
        _first(document, TITLES) or document.id,
        next((value for name in LINKS for value in _texts(document, name) if is_web(value)), None),
        document.source,
        document.time,
        _first(document, TEXTS),
        notification.score,
        notification.made,
    )


def _first(document: Document, names: Sequence[str]) -> str:
    return next((value for name in names for value in _texts(document, name) if value), "")


def _texts(document: Document, name: str) -> list[str]:
    return [" ".join(value.split()) for value in document.fields.get(name, ()) if isinstance(value, str)]
