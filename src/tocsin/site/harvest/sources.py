"""Which sources a site harvests: common to all, as their documents are. Whoever may publish may add one.

An address may hold a secret, so only its account and administrators see it. Folders are an administrator's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from tocsin.site.accounts import Account, Right
from tocsin.site.harvest.feeds import clean
from tocsin.site.harvest.fetch import checked, host_of
from tocsin.site.harvest.opml import read_opml, write_opml
from tocsin.site.harvest.settings import HarvestSettings
from tocsin.site.moments import stamp
from tocsin.site.problems import Conflict, Forbidden, Invalid, NotFound, OverQuota, Problem
from tocsin.store import Store, journal
from tocsin.store import sources as kept
from tocsin.store.sources import ACTIVE, PAUSED, Source

FEED, OAI, FOLDER = "feed", "oai", "folder"
KINDS = (FEED, OAI, FOLDER)
KEYS = ("address", "kind", "name", "tags", "interval", "set", "from", "until", "prefix")
CHANGEABLE = ("name", "tags", "interval", "state", "address")
OF_A_LIST = ("token", "first", "pages")  # of OAI-PMH, in a cursor
NAME_CHARACTERS_MAX, TAGS_MAX, INTERVAL_MAX = 1_000, 100, 366 * 86_400.0
OPTION_CHARACTERS_MAX = 500


def add(store: Store, settings: HarvestSettings, account: Account, body: object) -> Source:
    """Makes a source of `{"address", "kind"?, "name"?, "tags"?, "interval"?, "set"?, …}`; it is visited at once."""
    _may_publish(account)
    given = _given(body, KEYS, "source")
    kind = given.get("kind", FEED)
    if kind not in KINDS:
        raise Invalid(f"a source's kind is one of {', '.join(KINDS)}", field="kind")
    address = (
        _folder(given.get("address"), settings, account) if kind == FOLDER else checked(given.get("address"), settings)
    )
    if kept.count(store) >= settings.harvest_sources_max:
        raise OverQuota(f"the site has {settings.harvest_sources_max:,} sources already (harvest_sources_max)")
    options = {} if kind != OAI else _options(given)
    _check_free(store, kind, address, options)
    now = time.time()
    made = kept.add(
        store,
        Source(
            number=0,
            key=key_of(kind, address, options),
            kind=kind,
            address=address,
            name=_name(given.get("name")) or (address if kind == FOLDER else host_of(address).rpartition(":")[0]),
            account=account.name,
            interval=_interval(given.get("interval"), settings),
            tags=_tags(given.get("tags")),
            options=options,
            created=now,
            due=now,
        ),
    )
    if made is None:
        other = kept.with_key(store, key_of(kind, address, options))
        raise Conflict(f"this is harvested already: source {other.number if other else ''}".strip(), field="address")
    return made


def key_of(kind: str, address: str, options: Mapping[str, str]) -> str:
    """What begins the ids of a source's documents: the same whenever it is added."""
    named = "\0".join((kind, address, options.get("set", ""), options.get("prefix", "")))
    return blake2b(named.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def get(store: Store, number: int) -> Source:
    """A source; NotFound."""
    found = kept.find(store, number)
    if found is None:
        raise NotFound(f"there is no source {number}")
    return found


def listed(store: Store, after: int = 0, limit: int = 1_000) -> list[Source]:
    """All sources, by number."""
    return kept.listed(store, after, limit)


def change(store: Store, settings: HarvestSettings, account: Account, number: int, body: object) -> Source:
    """Changes name, tags, interval, state (active, paused) or address: a source that has moved knows its items.

    One that has moved, or is made active again, is visited at once.
    """
    source = _own(store, account, number)
    given = _given(body, CHANGEABLE, "change of a source")
    values: dict[str, Any] = {}
    if "name" in given:
        values["name"] = _name(given["name"]) or source.name
    if "tags" in given:
        values["tags"] = list(_tags(given["tags"]))
    if "interval" in given:
        values["interval"] = _interval(given["interval"], settings)
    if "state" in given:
        if given["state"] not in (ACTIVE, PAUSED):
            raise Invalid('a source\'s state is "active" or "paused"', field="state")
        values["state"] = given["state"]
        if given["state"] == ACTIVE and source.state != ACTIVE:
            values |= {"due": time.time(), "failures": 0}
    if "address" in given and given["address"] != source.address:
        if source.kind == FOLDER:
            raise Invalid("a folder that has moved is another source: add it", field="address")
        address = checked(given["address"], settings)
        _check_free(store, source.kind, address, source.options)
        values |= {"address": address, "etag": None, "modified": None, "due": time.time(), "failures": 0}
        # The list that was begun is the old repository's; how far the lists before it reached holds for both.
        values["cursor"] = {name: value for name, value in source.cursor.items() if name not in OF_A_LIST}
    if values:
        kept.change(store, number, **values)
        journal.note(store, account.name, "change source", str(number), keys=sorted(given))
    return get(store, number)


def visit_soon(store: Store, account: Account, number: int) -> None:
    """Has a source visited now, whenever it is due."""
    _own(store, account, number)
    kept.change(store, number, due=time.time())


def remove(store: Store, account: Account, number: int) -> None:
    """Forgets a source; its documents stay."""
    _own(store, account, number)
    kept.remove(store, number)
    journal.note(store, account.name, "remove source", str(number))


def health(source: Source) -> str:
    """new (not visited yet), ok, failing or paused."""
    if source.state == PAUSED:
        return "paused"
    if source.failures:
        return "failing"
    return "new" if source.succeeded is None else "ok"


def as_json(source: Source, account: Account) -> dict[str, Any]:
    """As the API answers it, to this account."""
    shown = source.address if _is_own(source, account) else _hidden(source)
    return {
        "number": source.number,
        "kind": source.kind,
        "address": shown,
        "name": source.name,
        "tags": list(source.tags),
        **({"options": dict(source.options)} if source.options else {}),
        "account": source.account,
        "interval": source.interval,
        "state": source.state,
        "health": health(source),
        "problem": source.problem,
        "note": source.note,
        "failures": source.failures,
        "last_visit": stamp(source.tried),
        "last_success": stamp(source.succeeded),
        "last_new": stamp(source.brought),
        "next_visit": stamp(source.due) if source.state == ACTIVE else None,
        "documents": source.documents,
        "twins": source.twins,
    }


def _hidden(source: Source) -> str:
    return "a folder of the site" if source.kind == FOLDER else f"{host_of(source.address)}/…"


# --- lists -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a list of feeds."""

    added: tuple[Source, ...]
    repeated: int
    """Were harvested already."""
    refused: tuple[tuple[str, Problem], ...]
    """(name, why)."""


def import_opml(store: Store, settings: HarvestSettings, account: Account, data: bytes) -> Imported:
    """Adds the feeds of a list; those that cannot be are named."""
    _may_publish(account)
    added: list[Source] = []
    refused: list[tuple[str, Problem]] = []
    repeated = 0
    for outline in read_opml(data):
        body = {"address": outline.address, "name": outline.name[:NAME_CHARACTERS_MAX], "tags": list(outline.tags)}
        try:
            added.append(add(store, settings, account, body))
        except Conflict:
            repeated += 1
        except Problem as problem:
            refused.append((outline.name, problem))
    return Imported(tuple(added), repeated, tuple(refused))


def export_opml(store: Store, account: Account) -> bytes:
    """The feeds whose addresses the account may see, as a list."""
    found: list[Source] = []
    while page := kept.listed(store, found[-1].number if found else 0):
        found += page
    return write_opml(source for source in found if _is_own(source, account))


# --- checks ----------------------------------------------------------------------------------------------------------


def _check_free(store: Store, kind: str, address: str, options: Mapping[str, str]) -> None:
    other = kept.at_address(store, kind, address, options)
    if other is not None:
        raise Conflict(f"this is harvested already: source {other.number}", field="address")


def _may_publish(account: Account) -> None:
    if not account.may(Right.PUBLISH):
        raise Forbidden("only publishers and administrators may add sources")


def _is_own(source: Source, account: Account) -> bool:
    return source.account == account.name or account.may(Right.ADMINISTER)


def _own(store: Store, account: Account, number: int) -> Source:
    source = get(store, number)
    if not _is_own(source, account):
        raise Forbidden("this source is somebody else's: ask them, or an administrator")
    return source


def _given(body: object, keys: Sequence[str], what: str) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise Invalid(f"a {what} is an object of {', '.join(keys)}")
    for key in body:
        if key not in keys:
            raise Invalid(f"unknown key {str(key)[:60]!r}: a {what} has {', '.join(keys)}", field=str(key)[:60])
    return body


def _folder(value: object, settings: HarvestSettings, account: Account) -> str:
    if not account.may(Right.ADMINISTER):
        raise Forbidden("only an administrator may have a folder watched")
    if not settings.harvest_allows_folders:
        raise Forbidden("this site watches no folders (harvest_allows_folders)")
    if not isinstance(value, str) or "\0" in value or not Path(value).is_absolute():
        raise Invalid("the address of a folder is its whole path", field="address")
    if not Path(value).is_dir():
        raise Invalid("there is no such folder", field="address")
    return str(Path(value))


def _name(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > NAME_CHARACTERS_MAX:
        raise Invalid(f"a name is a string of at most {NAME_CHARACTERS_MAX:,} characters", field="name")
    return clean(value) or None


def _tags(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or len(value) > TAGS_MAX:
        raise Invalid(f"tags are a list of at most {TAGS_MAX} strings", field="tags")
    tags = [clean(tag) if isinstance(tag, str) else "" for tag in value]
    if not all(tags) or any(len(tag) > NAME_CHARACTERS_MAX for tag in tags):
        raise Invalid("tags are a list of strings that are not empty", field="tags")
    return tuple(dict.fromkeys(tags))


def _interval(value: object, settings: HarvestSettings) -> float:
    if value is None:
        return settings.harvest_interval_seconds
    least = settings.harvest_interval_min_seconds
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= INTERVAL_MAX:
        raise Invalid(f"an interval is a number of seconds from {least:g} on", field="interval")
    return float(value)


def _options(given: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ("set", "from", "until", "prefix"):
        value = given.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or not 0 < len(value) <= OPTION_CHARACTERS_MAX or not value.isprintable():
            raise Invalid(f'"{name}" is a short string', field=name)
        found[name] = value
    if found.get("prefix", "oai_dc") != "oai_dc":
        raise Invalid('only records in "oai_dc" are read', field="prefix")
    return found
