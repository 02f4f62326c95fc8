"""Reads one feed with feedparser, in a process of its own: RSS 0.9 to 2.0, RDF, Atom 0.3 and 1.0, well-formed or not.

feedparser is handed bytes only, so it opens nothing; it takes out a document type, and with it entities. Items beyond
the limit are cut off before it sees them. HTML becomes plain text.
"""

from __future__ import annotations

import io
import re
import time
import warnings
from html.parser import HTMLParser
from typing import Any

import feedparser  # type: ignore[import-untyped]

from tocsin.site.harvest.apart import serve

_ITEM = re.compile(rb"<(?:[A-Za-z][\w.-]*:)?(?:item|entry)[\s/>]")
_BLOCKS = frozenset(
    "address article aside blockquote br dd div dl dt figcaption figure footer h1 h2 h3 h4 h5 h6 header hr li main "
    "nav ol p pre section table td th tr ul".split()
)
_UNSEEN = frozenset("script style template noscript".split())
_BLANKS = re.compile(r"[ \t\r\f\v\xa0]+")
_LINES = re.compile(r" ?\n[ \n]*")


def read_feed(request: dict[str, Any], data: bytes) -> dict[str, Any]:
    """`{"version", "title", "items", "cut", "bozo"}` of a feed."""
    most, characters = int(request["items_max"]), int(request["characters_max"])
    starts = [found.start() for _, found in zip(range(most + 1), _ITEM.finditer(data), strict=False)]
    is_cut = len(starts) > most
    if is_cut:
        data = data[: starts[most]]
    headers = {"content-type": str(request.get("type") or "application/xml"), "content-location": request["url"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = feedparser.parse(
            io.BytesIO(data), response_headers=headers, sanitize_html=False, resolve_relative_uris=False
        )
    problem = found.get("bozo_exception") if found.get("bozo") and not is_cut else None
    items = [_item(entry, characters) for entry in found.entries[:most]]
    return {
        "version": str(found.get("version") or ""),
        "title": _plain(found.feed.get("title_detail") or found.feed.get("title"), 1_000),
        "items": items,
        "cut": is_cut or len(found.entries) > most,
        "bozo": None if problem is None else str(problem)[:200],
    }


def _item(entry: Any, characters: int) -> dict[str, Any]:
    contents = [_plain(one, characters) for one in entry.get("content") or []]
    people = [*(entry.get("authors") or []), *(entry.get("contributors") or [])]
    names = [str(one.get("name") or one.get("email") or "") for one in people if hasattr(one, "get")]
    if not any(names) and entry.get("author"):
        names = [str(entry.get("author"))]
    labels = [str(one.get("label") or one.get("term") or "") for one in entry.get("tags") or []]
    moment = entry.get("published_parsed") or entry.get("updated_parsed") or entry.get("created_parsed")
    return {
        "id": str(entry.get("id") or "")[:characters],
        "link": str(entry.get("link") or "")[:characters],
        "title": _plain(entry.get("title_detail") or entry.get("title"), characters),
        "summary": _plain(entry.get("summary_detail") or entry.get("summary"), characters),
        "text": "\n".join(one for one in contents if one)[:characters],
        "author": [name[:1_000] for name in names[:1_000] if name],
        "category": [label[:1_000] for label in labels[:1_000] if label],
        "time": _stamp(moment),
    }


def _stamp(moment: time.struct_time | None) -> str | None:
    """RFC 3339; feedparser's times are in UTC."""
    if moment is None or not 1 <= moment.tm_year <= 9_999:
        return None
    year, month, day, hour, minute, second = moment[:6]
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{min(second, 59):02}Z"


def _plain(detail: Any, characters: int) -> str:
    if detail is None:
        return ""
    value = detail if isinstance(detail, str) else str(detail.get("value") or "")
    kind = "" if isinstance(detail, str) else str(detail.get("type") or "")
    value = value[: 4 * characters]
    if kind.endswith("html") or (not isinstance(detail, str) and "</" in value):
        value = plain_text(value)
    value = _LINES.sub("\n", _BLANKS.sub(" ", value)).strip()
    return value[:characters]


class _Plain(HTMLParser):
    """Collects the text; blocks begin on a new line, scripts are left out."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._unseen += tag in _UNSEEN
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._unseen = max(0, self._unseen - (tag in _UNSEEN))
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.parts.append(data)


def plain_text(html: str) -> str:
    """The text of HTML."""
    parser = _Plain()
    parser.feed(html)
    parser.close()
    return "".join(parser.parts)


if __name__ == "__main__":
    serve(read_feed)
