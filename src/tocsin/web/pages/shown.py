"""A match as a person reads it: what the document is called, where the words were found, and why it matched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tocsin.model import Document
from tocsin.site.site import Site
from tocsin.store import documents
from tocsin.store.glance import Told
from tocsin.store.relations import NO_DOCUMENT
from tocsin.text import Analysis, values_of
from tocsin.views.spoken import sentence
from tocsin.web.pages.highlight import Part, marked, shortened

TITLES = ("title", "name", "subject", "headline")
BYLINES = ("author", "authors", "creator")
LINKS = ("link", "url", "href")
BODIES = ("abstract", "summary", "description", "body", "text", "content")
TITLE_CHARACTERS_MAX, VALUE_CHARACTERS_MAX, SNIPPETS_MAX, VALUES_MAX = 300, 2_000, 4, 60
SHORT_CHARACTERS_MAX = 60  # values of one field that are shorter stand on one line


@dataclass(frozen=True, slots=True)
class Snippet:
    """A field's value with what was found in it."""

    field: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """One atom of the query that held, and where."""

    atom: str
    where: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A match on a page."""

    document: str
    version: int
    title: tuple[Part, ...]
    byline: str
    link: str | None
    """Where the document says it is; only http and https."""
    source: str | None
    snippets: tuple[Snippet, ...]
    clause: str
    reasons: tuple[Reason, ...]
    fields: tuple[tuple[str, str], ...]
    score: float
    moment: float
    is_there: bool
    """Is its content still stored?"""
    told: Told | None = None
    is_row: bool = False
    """Is it a row of a view, and no document?"""


def shown_all(site: Site, told: Sequence[Told]) -> list[Shown]:
    """Notifications with their documents, which are read together."""
    stored = documents.at_positions(site.store, [one.position for one in told if one.position != NO_DOCUMENT])
    found = []
    for one in told:
        if one.position == NO_DOCUMENT:
            found.append(_row(one))
            continue
        at = stored.get(one.position)
        document = None if at is None else at.document()
        about = (one.document, one.version, one.score, one.made)
        found.append(shown(site.analysis, document, one.evidence, about, one))
    return found


def _row(one: Told) -> Shown:
    """A row of a view in a new state."""
    title, text = sentence(one.evidence)
    snippets = (Snippet("", (Part(text, False),)),) if text else ()
    link, fields = None, (("view", title), ("row", text))
    return Shown(
        one.document, one.version, (Part(title, False),), "", link, None, snippets, "", (), fields, one.score, one.made,
        False, one, is_row=True,
    )  # fmt: skip


def shown(
    analysis: Analysis,
    document: Document | None,
    evidence: Any,
    about: tuple[str, int, float, float],
    told: Told | None = None,
) -> Shown:
    """A match on a page; `about` is (id, version, score, moment)."""
    id, version, score, moment = about
    atoms = _atoms(evidence)
    hits = _hits(atoms)
    field, title = _title(document, id)
    path = evidence.get("xpath") if isinstance(evidence, Mapping) else None
    reasons = [_reason(atom) for atom in atoms]
    if isinstance(path, Mapping):
        reasons.append(Reason(str(path.get("path", "")), f"selects “{str(path.get('text') or '')[:200]}”"))
    return Shown(
        id,
        version,
        tuple(marked(title, analysis.of(field), hits.get((field, 0), ()))) if field else (Part(title, False),),
        "" if document is None else ", ".join(str(value) for value in _first(document, BYLINES)[:6]),
        None if document is None else _link(document),
        None if document is None else document.source,
        () if document is None else tuple(_snippets(document, analysis, hits, field)),
        str(evidence.get("clause", "")) if isinstance(evidence, Mapping) else "",
        tuple(reasons),
        () if document is None else tuple(_fields(document)),
        score,
        moment,
        document is not None,
        told,
    )


def _atoms(evidence: Any) -> list[Mapping[str, Any]]:
    found = evidence.get("atoms") if isinstance(evidence, Mapping) else None
    return [atom for atom in found if isinstance(atom, Mapping)] if isinstance(found, list) else []


def _hits(atoms: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], set[int]]:
    """By field and the number of the value in it: the positions of the words that were found."""
    found: dict[tuple[str, int], set[int]] = {}
    for atom in atoms:
        if "positions" in atom:
            found.setdefault((atom["field"], atom.get("value_index", 0)), set()).update(atom["positions"])
    return found


def _title(document: Document | None, id: str) -> tuple[str, str]:
    """The field that is the title, and its text; without one, the document's id."""
    if document is not None:
        for field in TITLES:
            for value in document.fields.get(field, ())[:1]:
                if isinstance(value, str) and value.strip() and len(value) <= TITLE_CHARACTERS_MAX:
                    return field, value
    return "", id


def _first(document: Document, fields: Sequence[str]) -> tuple[Any, ...]:
    return next((document.fields[field] for field in fields if document.fields.get(field)), ())


def _link(document: Document) -> str | None:
    for value in (*_first(document, LINKS), document.id):
        if isinstance(value, str):
            try:
                parts = urlsplit(value)
            except ValueError:
                continue
            if parts.scheme in ("http", "https") and parts.netloc and value.isprintable():
                return value
    return None


def _snippets(
    document: Document, analysis: Analysis, hits: Mapping[tuple[str, int], set[int]], title: str
) -> list[Snippet]:
    found = []
    for (field, index), positions in hits.items():
        values = values_of(document, field)
        if (field, index) != (title, 0) and index < len(values) and isinstance(values[index], str):
            parts = marked(str(values[index]), analysis.of(field), positions)
            found.append(Snippet(field, tuple(shortened(parts))))
    if not found:
        body = [str(value) for value in _first(document, BODIES)[:1]]
        found = [Snippet("", tuple(shortened([Part(text, False)]))) for text in body]
    return found[:SNIPPETS_MAX]


def _reason(atom: Mapping[str, Any]) -> Reason:
    field, text = atom.get("field"), str(atom.get("atom", ""))
    if "positions" in atom:
        said = " ".join(str(word) for word in atom.get("words", ()) if word)
        places = atom["positions"]
        which = f"word {places[0] + 1}" if len(places) == 1 else f"words {places[0] + 1} to {places[-1] + 1}"
        where = f"“{said}” in {field}, {which}"
        if atom.get("between"):
            where += f" ({', '.join(str(count) for count in atom['between'])} between)"
    elif "cosine" in atom:
        where = f"{field} is {atom['cosine']:.2f} similar, at least {atom['threshold']:g} is asked for"
    elif "value" in atom:
        where = f"{field} is {atom['value']}"
    else:
        where = f"{field} is there" if field else "it holds"
    return Reason(text, where)


def _fields(document: Document) -> list[tuple[str, str]]:
    """Everything that the document says, cut where it is long."""
    found = [("id", document.id)]
    found += [(name, str(said)) for name, said in (("source", document.source), ("time", document.time)) if said]
    for field, values in document.fields.items():
        texts = [str(value) for value in values]
        is_short = all(len(text) <= SHORT_CHARACTERS_MAX for text in texts)
        found += [(field, " · ".join(texts))] if is_short else [(field, text) for text in texts]
    return [
        (field, text if len(text) <= VALUE_CHARACTERS_MAX else text[:VALUE_CHARACTERS_MAX] + " …")
        for field, text in found[:VALUES_MAX]
    ]
