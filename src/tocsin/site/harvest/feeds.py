"""RSS and Atom: a feed's items as documents.

An item is known by its guid, or its link, or its words. It is news when its words are: feeds change links, counts and
times without telling anything new.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from tocsin import dates
from tocsin.errors import DocumentError
from tocsin.intake import document_from_object
from tocsin.site.harvest.apart import ApartError
from tocsin.site.harvest.fetch import SourceError
from tocsin.site.harvest.near import mark_of, sketch_of
from tocsin.site.harvest.settings import HarvestSettings
from tocsin.site.harvest.visit import Ended, Visit
from tocsin.store.harvested import Item
from tocsin.store.sources import Source

ACCEPT = (
    "application/atom+xml, application/rss+xml, application/rdf+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.1"
)
VALIDATOR_CHARACTERS_MAX = 1_000
NO_XML = ("image/", "video/", "audio/", "font/", "application/pdf", "application/zip", "application/json")


async def visit(one: Visit) -> Ended:
    """Asks whether the feed has changed, and takes what is new."""
    source, settings = one.source, one.settings
    answer = await one.fetcher.get(source.address, _conditions(source))
    moved = None if answer.moved_to is None else "it has moved for good: change its address"
    if answer.status == 304:
        return Ended(source.note)
    kind = answer.headers.get("content-type", "")[:200]
    if kind.lower().startswith(NO_XML):
        raise SourceError(f"this is no feed but {kind.partition(';')[0]}")
    asked = {
        "url": answer.url,
        "type": kind,
        "items_max": settings.harvest_items_max,
        "characters_max": settings.harvest_item_characters_max,
    }
    try:
        feed = await one.parser.ask(asked, answer.body, settings.harvest_parse_seconds_max)
    except ApartError as error:
        raise SourceError(f"reading the feed {error}") from None
    if not feed["version"] and not feed["items"]:
        said = f": {feed['bozo']}" if feed["bozo"] else ""
        raise SourceError(f"this is no feed ({kind.partition(';')[0] or 'no type'}){said}")
    items, notes = await asyncio.to_thread(items_of, source, feed, settings, time.time())
    ended = Ended("; ".join(note for note in (moved, *notes) if note)[:500] or None, is_noted=True)
    validators = {"etag": _validator(answer.headers.get("etag"))}
    validators["modified"] = _validator(answer.headers.get("last-modified"))
    await one.deliver(items, validators | one.success(ended))
    return ended


def _conditions(source: Source) -> dict[str, str]:
    conditions = {"accept": ACCEPT}
    if source.etag:
        conditions["if-none-match"] = source.etag
    if source.modified:
        conditions["if-modified-since"] = source.modified
    return conditions


def _validator(value: str | None) -> str | None:
    """An ETag or a time as it may be sent back."""
    if value is None or len(value) > VALIDATOR_CHARACTERS_MAX or not value.isascii() or not value.isprintable():
        return None
    return value


def items_of(
    source: Source, feed: Mapping[str, Any], settings: HarvestSettings, now: float
) -> tuple[list[Item], list[str]]:
    """The items of a feed as it was read, and what is odd about it."""
    found: list[Item] = []
    refused: list[str] = []
    ahead = 0
    for key, entry, mark in _named(feed["items"]):
        moment = _moment(entry.get("time"))
        is_ahead = moment is not None and moment > now + settings.harvest_future_seconds_max
        ahead += is_ahead
        id = f"{source.key}/{key.hex()}"
        try:
            document = document_from_object(_object(id, source, entry, with_time=not is_ahead))
        except DocumentError as error:
            refused.append(error.reason)
            continue
        found.append(Item(key, id, document, mark, sketch_of(_text(entry), settings.near_words_min)))
    notes = [
        f"it has more than {settings.harvest_items_max:,} items: the others are left out" if feed["cut"] else "",
        f"it is not well-formed ({feed['bozo']}), and was read as far as possible" if feed["bozo"] else "",
        f"{ahead:,} items are from the future: their times are left out" if ahead else "",
        f"{len(refused):,} items were refused: {refused[0]}" if refused else "",
    ]
    return found, [note for note in notes if note]


def _named(entries: Sequence[Mapping[str, Any]]) -> list[tuple[bytes, Mapping[str, Any], bytes]]:
    """(key, entry, mark of its words), each key once.

    Some feeds give all their items one guid: then the words are a part of the key.
    """
    marked = [(_name(entry), entry, mark_of(_text(entry))) for entry in entries]
    variants = Counter(name for name, _ in {(name, mark) for name, _, mark in marked})
    found: dict[bytes, tuple[bytes, Mapping[str, Any], bytes]] = {}
    for name, entry, mark in marked:
        whole = name.encode() + b"\0" + mark if not name or variants[name] > 1 else name.encode()
        key = blake2b(whole, digest_size=16).digest()
        found.setdefault(key, (key, entry, mark))
    return list(found.values())


def _name(entry: Mapping[str, Any]) -> str:
    return clean(str(entry.get("id") or entry.get("link") or ""))


def _text(entry: Mapping[str, Any]) -> str:
    return "\n".join(clean(str(entry.get(name) or "")) for name in ("title", "summary", "text"))


def _object(id: str, source: Source, entry: Mapping[str, Any], with_time: bool) -> dict[str, Any]:
    link = clean(str(entry.get("link") or ""))
    text, summary = clean(str(entry.get("text") or "")), clean(str(entry.get("summary") or ""))
    return {
        "id": id,
        "source": source.name,
        "time": entry.get("time") if with_time and _moment(entry.get("time")) is not None else None,
        "title": clean(str(entry.get("title") or "")) or None,
        "summary": summary if summary and summary != text else None,
        "text": text or None,
        "author": [name for name in map(clean, entry.get("author") or []) if name],
        "category": [name for name in map(clean, entry.get("category") or []) if name],
        "link": link if is_web(link) else None,
    }


def is_web(link: str) -> bool:
    """Is it an address that a page may link to?"""
    try:
        return urlsplit(link).scheme.lower() in ("http", "https")
    except ValueError:
        return False


def _moment(text: object) -> float | None:
    found = dates.moment(text) if isinstance(text, str) else None
    return None if found is None else found / dates.SECOND


def clean(text: str) -> str:
    """Without what a store cannot hold: NUL and halves of characters."""
    return text.replace("\0", "").encode("utf-8", "ignore").decode().strip()
