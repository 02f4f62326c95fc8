"""OAI-PMH 2.0 (openarchives.org): a repository's records, page by page, then what has changed since.

Each page and the resumption token after it are stored in one transaction, so whoever is killed goes on with the page
after the last that was stored. A token that the repository no longer knows starts the same list again: records that
were seen are repeats. The next list begins when this one did, by the repository's clock, or by ours if its clock is
ahead. A client of our own, as oaipmh-scythe makes its own connections: they could not be guarded or bounded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

from lxml import etree

from tocsin import dates
from tocsin.dublin_core import ELEMENTS, NAMESPACES, document_from_dublin_core
from tocsin.errors import DocumentError
from tocsin.site.harvest.feeds import clean
from tocsin.site.harvest.fetch import SourceError
from tocsin.site.harvest.near import mark_of, sketch_of, text_of
from tocsin.site.harvest.settings import HarvestSettings
from tocsin.site.harvest.visit import Ended, Visit
from tocsin.store.harvested import Item
from tocsin.store.sources import Source

OAI = "{http://www.openarchives.org/OAI/2.0/}"
TOKEN_CHARACTERS_MAX = 10_000
TEXT_FIELDS = ("dc.title", "dc.description", "dc.creator", "dc.subject")


@dataclass(frozen=True, slots=True)
class Record:
    """A record: its name, when it changed, and its Dublin Core; None: it was deleted."""

    identifier: str
    datestamp: str
    fields: Mapping[str, list[str]] | None


@dataclass(frozen=True, slots=True)
class Page:
    """One answer."""

    answered: str = ""
    records: list[Record] = field(default_factory=list)
    token: str | None = None
    error: str | None = None
    message: str = ""
    granularity: str = ""


async def visit(one: Visit) -> Ended:
    """Goes on with the list that was begun, or begins the next; as many pages as one visit may take."""
    cursor: dict[str, Any] = dict(one.source.cursor)
    if "granularity" not in cursor:
        cursor["granularity"] = (await _ask(one, {"verb": "Identify"})).granularity
    restarts = 0
    refused: list[str] = []
    for _ in range(one.settings.harvest_pages_max):
        token = cursor.get("token")
        page = await _ask(one, _question(one.source, cursor))
        if page.error == "badResumptionToken" and token and not restarts:
            restarts += 1
            cursor = {**cursor, "token": None, "first": None, "pages": 0}
            await one.deliver([], {"cursor": cursor})
            continue
        if page.error not in (None, "noRecordsMatch"):
            raise SourceError(f"the repository answers {page.error}: {page.message}"[:500])
        if page.token and page.token == token:
            raise SourceError("the repository repeats its resumption token: the list would never end")
        cursor = _moved(cursor, page)
        if cursor.get("pages", 0) > one.settings.harvest_list_pages_max:
            raise SourceError("the list never ends (harvest_list_pages_max)")
        items, bad = await asyncio.to_thread(items_of, one.source, page, one.settings)
        refused += bad
        await one.deliver(items, {"cursor": cursor})
        if not page.token:
            return Ended(_note(refused))
        if one.is_over:
            break
    return Ended(_note(refused) or f"{cursor['pages']:,} pages of the list so far", has_more=True)


def _note(refused: list[str]) -> str | None:
    return f"{len(refused):,} records were refused: {refused[0]}"[:500] if refused else None


def _question(source: Source, cursor: Mapping[str, Any]) -> dict[str, str]:
    if cursor.get("token"):
        return {"verb": "ListRecords", "resumptionToken": str(cursor["token"])}
    asked = {"verb": "ListRecords", "metadataPrefix": source.options.get("prefix", "oai_dc")}
    since = cursor.get("from") or source.options.get("from")
    if since:
        asked["from"] = str(since)
    for name in ("set", "until"):
        if source.options.get(name):
            asked[name] = source.options[name]
    return asked


def _moved(cursor: Mapping[str, Any], page: Page) -> dict[str, Any]:
    """Where the list stands after a page. At its end the next one begins where this one did."""
    first = cursor.get("first") or _since(page.answered, str(cursor.get("granularity", "")), time.time())
    if page.token:
        return {**cursor, "token": page.token, "first": first, "pages": int(cursor.get("pages") or 0) + 1}
    return {"granularity": cursor.get("granularity", ""), "from": first}


def _since(answered: str, granularity: str, now: float) -> str:
    """When a list began, as the repository writes times. A repository whose clock is ahead would lose records."""
    found = dates.moment(answered)
    moment = now - 86_400.0 if found is None else min(found / dates.SECOND, now)
    said = datetime.fromtimestamp(moment, UTC)
    return said.strftime("%Y-%m-%dT%H:%M:%SZ" if granularity.endswith("Z") else "%Y-%m-%d")


async def _ask(one: Visit, asked: Mapping[str, str]) -> Page:
    parts = urlsplit(one.source.address)
    query = "&".join(filter(None, (parts.query, urlencode(asked))))
    answer = await one.fetcher.get(urlunsplit(parts._replace(query=query)), {"accept": "text/xml, application/xml"})
    return await asyncio.to_thread(read_page, answer.body)


# --- reading ---------------------------------------------------------------------------------------------------------


def read_page(data: bytes) -> Page:
    """An answer of a repository; SourceError if it is none."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        raise SourceError(f"the answer is no XML: {error.msg}"[:300]) from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise SourceError("the answer has a DOCTYPE, which is not accepted")
    if root.tag != f"{OAI}OAI-PMH":
        raise SourceError("the answer is not OAI-PMH: is this the base address of the repository?")
    answered = _text(root, "responseDate")
    problem = root.find(f"{OAI}error")
    if problem is not None:
        message = clean(" ".join(str(problem.text or "").split()))[:300]
        return Page(answered, error=clean(str(problem.get("code")))[:100], message=message)
    token = _text(root, f"ListRecords/{OAI}resumptionToken")
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise SourceError("the repository's resumption token is too long")
    records = [_record(element) for element in root.iterfind(f"{OAI}ListRecords/{OAI}record")]
    granularity = _text(root, f"Identify/{OAI}granularity")
    return Page(answered, [one for one in records if one.identifier], token or None, granularity=granularity)


def _text(element: Any, path: str) -> str:
    return clean(str(element.findtext(f"{OAI}{path}") or ""))


def _record(element: Any) -> Record:
    name, stamp = _text(element, f"header/{OAI}identifier"), _text(element, f"header/{OAI}datestamp")
    header = element.find(f"{OAI}header")
    if header is not None and header.get("status") == "deleted":
        return Record(name, stamp, None)
    fields: dict[str, list[str]] = {}
    metadata = element.find(f"{OAI}metadata")
    for child in () if metadata is None else metadata.iter():
        tag = etree.QName(child) if isinstance(child.tag, str) else None
        if tag is not None and tag.namespace in NAMESPACES and tag.localname in ELEMENTS:
            value = clean("".join(map(str, child.itertext())))
            if value:
                fields.setdefault(tag.localname, []).append(value)
    return Record(name, stamp, fields)


def items_of(source: Source, page: Page, settings: HarvestSettings) -> tuple[list[Item], list[str]]:
    """The records of a page, the last of each name; and why others were refused."""
    found: dict[bytes, Item] = {}
    refused: list[str] = []
    for record in page.records:
        key = blake2b(record.identifier.encode(), digest_size=16).digest()
        id = f"{source.key}/{record.identifier}"
        found.pop(key, None)
        if record.fields is None:
            found[key] = Item(key, id, None)
            continue
        try:
            # Some records have no identifier of their own; the document is known by the record's name anyway.
            fields = {"identifier": [record.identifier], **record.fields}
            document = document_from_dublin_core(fields)
        except DocumentError as error:
            refused.append(error.reason)
            continue
        moment = document.time or (record.datestamp if dates.span(record.datestamp) else None)
        document = replace(document, id=id, source=source.name, time=moment)
        text = text_of(document, TEXT_FIELDS)
        found[key] = Item(key, id, document, mark_of(text), sketch_of(text, settings.near_words_min))
    return list(found.values()), refused
