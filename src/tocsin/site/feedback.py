"""Relevance feedback: a thumb for what a subscription has told moves the texts of its `~` (Rocchio's method).

    q' = q + 0.75 · mean(liked) - 0.15 · mean(disliked)     negative words dropped, the heaviest 100 kept, normalised

Always from the text as it was written and from all thumbs, so their order does not matter and a thumb that is taken
back leaves no trace. The new words are a new revision of the subscription, in force for the documents that are accepted
from then on, as any change of a query is; what each revision compared with is kept, so a score can be computed again.
A document that was deleted since moves nothing any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tocsin.errors import QueryError, SubscriptionError
from tocsin.query.ast import Query
from tocsin.query.parse import parse
from tocsin.query.score import Statistics
from tocsin.query.vector import (
    Rocchio,
    attached,
    factors,
    factors_in,
    from_text,
    is_sound,
    movable,
    rocchio,
    to_text,
    weighed,
)
from tocsin.settings import QueryLimits
from tocsin.site.problems import Conflict, Invalid, NotFound, Problem, problem_of
from tocsin.store import documents, journal, subscriptions, thumbs
from tocsin.store.subscriptions import Asked, Kept
from tocsin.store.thumbs import Thumb

if TYPE_CHECKING:
    from tocsin.site.accounts import Account
    from tocsin.site.site import Site
    from tocsin.text import Analysis

UP, DOWN = "up", "down"
_NAMES = {True: UP, False: DOWN, None: None}
KEY = "feedback"
"""Of what the store keeps about a subscription: there if it takes thumbs, with the version of the statistics."""
ROCCHIO = Rocchio()
ANY_SIZE = QueryLimits(1 << 31, 1 << 31, 1 << 31)  # the query was accepted before
TRIES = 5
_HINT = 'feedback is true or false, or as it was exported: {"thumbs": […], "texts": […]}'


def takes_thumbs(kept: Kept) -> bool:
    """Has the subscription opted in?"""
    return KEY in kept.about


# --- a thumb ---------------------------------------------------------------------------------------------------------


class Given(NamedTuple):
    """A thumb for a document that was told: up, down, or None to take it back; without a version, the newest told."""

    document: str
    version: int | None
    is_up: bool | None


def given(body: Mapping[str, Any]) -> Given:
    """The thumb in a body: `{"document": …, "version"?: …, "thumb": "up", "down" or null}`."""
    for key in body:
        if key not in ("document", "version", "thumb"):
            raise Invalid(f"a thumb has no key {str(key)[:60]!r}: document, version, thumb", field=str(key)[:60])
    document, version, value = body.get("document"), body.get("version"), body.get("thumb", "")
    if not isinstance(document, str) or not document or "\0" in document:
        raise Invalid('a thumb names its "document"', field="document")
    if version is not None and (isinstance(version, bool) or not isinstance(version, int) or not 0 < version < 2**63):
        raise Invalid('"version" is a number from 1 on', field="version")
    if value not in (UP, DOWN, None):
        raise Invalid('a "thumb" is "up", "down", or null to take it back', field="thumb")
    return Given(document, version, None if value is None else value == UP)


def rate(site: Site, account: Account, id: str, thumb: Given) -> Kept:
    """Sets the thumb of one notification; the subscription as it is then."""
    for left in reversed(range(TRIES)):
        kept = subscriptions.find(site.store, account.name, id)
        if kept is None:
            raise NotFound(f"there is no subscription {id[:60]!r}")
        try:
            return _rate(site, account, kept, thumb)
        except SubscriptionError as error:  # somebody else has changed it meanwhile
            if isinstance(error, Problem) or not left:
                raise problem_of(error) from None
    raise AssertionError("the last try returns or raises")  # pragma: no cover


def _rate(site: Site, account: Account, kept: Kept, thumb: Given) -> Kept:
    if not takes_thumbs(kept):
        raise Conflict('it takes no thumbs: set its "feedback" to true first', field=KEY)
    document = thumb.document
    told = thumbs.told(site.store, kept.number, document, thumb.version)
    if told is None:
        raise NotFound(f"this subscription has not told of the document {document[:60]!r}")
    before = thumbs.of(site.store, kept.number)
    others = [one for one in before if (one.document, one.version) != (document, told)]
    new = others if thumb.is_up is None else [*others, Thumb(document, told, thumb.is_up)]
    if set(new) == set(before):
        return kept
    most = site.settings.thumbs_max
    if len(new) > max(most, len(before)):
        raise Conflict(f"a subscription keeps at most {most:,} thumbs: take one back first", field="thumb")
    statistics = weights(site)
    moved = moved_by(site, kept.asked, new, statistics)
    with site.store.write() as transaction:
        asked = None if moved == kept.asked.moved else replace(kept.asked, moved=moved)
        about = {**kept.about, KEY: {"statistics": statistics.version}}
        now = subscriptions.change_in(transaction, kept, asked=asked, about=about)
        thumbs.take_in(transaction, kept.number, document, told)
        thumbs.put_in(transaction, kept.number, [one for one in new if one not in others])
        detail = {"document": document, "version": told, "thumb": _NAMES[thumb.is_up], "statistics": statistics.version}
        journal.note_in(transaction, account.name, "thumb", kept.id, **detail)
    site.changed()
    return now


# --- the words -------------------------------------------------------------------------------------------------------


def moved_by(site: Site, asked: Asked, all_thumbs: Sequence[Thumb], statistics: Statistics) -> str | None:
    """What these thumbs make of the texts, for the store; None: they stay as they were written."""
    query = _parsed(asked, site.analysis)
    if query is None or not all_thumbs:
        return None
    rated = [(one.is_up, found.document()) for one in all_thumbs if (found := _stored(site, one)) is not None]
    vectors = {}
    for atom in movable(query):
        text = factors(atom, site.analysis)
        liked, disliked = (
            [factors_in(document, atom.field, site.analysis) for is_up, document in rated if is_up is wanted]
            for wanted in (True, False)
        )
        words = rocchio(text, filter(None, liked), filter(None, disliked), statistics, ROCCHIO)
        if words and (any(liked) or any(disliked)):
            vectors[atom.field, atom.text] = words
    return to_text(vectors)


def _stored(site: Site, one: Thumb) -> documents.Stored | None:
    return documents.find(site.store, one.document, one.version)


def _parsed(asked: Asked, analysis: Analysis) -> Query | None:
    if asked.query is None or "~" not in asked.query:
        return None
    try:
        return parse(asked.query, analysis, ANY_SIZE)
    except QueryError:
        return None  # it was accepted by an earlier Tocsin, and cannot be read now


def weights(site: Site) -> Statistics:
    """What words weigh now: by the pipeline's snapshot, or without one by the newest documents."""
    tell = getattr(site.pipeline, "statistics", None)
    found = tell() if tell is not None else None
    if isinstance(found, Statistics):
        return found
    last = documents.last_position(site.store)
    newest = documents.sample(site.store, 0, last, site.settings.history_documents_max)
    return Statistics.of((one.document() for one in newest), site.analysis)


# --- with a subscription ---------------------------------------------------------------------------------------------


def wanted(value: object) -> tuple[tuple[Thumb, ...], str | None] | None:
    """The `feedback` of a body: None if it is off, else its thumbs and moved words, as they were exported."""
    if value is None or value is False:
        return None
    if value is True:
        return (), None
    if not isinstance(value, Mapping) or value.keys() - {"thumbs", "texts", "statistics"}:
        raise Invalid(_HINT, field=KEY)
    return _thumbs(value.get("thumbs", [])), _texts(value.get("texts", []))


def _thumbs(value: object) -> tuple[Thumb, ...]:
    found: dict[tuple[str, int], Thumb] = {}
    for one in value if isinstance(value, list) else [None]:
        match one:
            case {"document": str(document), "version": int(version), "thumb": "up" | "down" as which} if (
                document and "\0" not in document and 0 < version < 2**63
            ):
                found[document, version] = Thumb(document, version, which == UP)
            case _:
                raise Invalid(_HINT, field=KEY)
    return tuple(found.values())


def _texts(value: object) -> str | None:
    vectors = {}
    for one in value if isinstance(value, list) else [None]:
        match one:
            case {"field": str(field), "text": str(text), "words": list(rows)}:
                pairs = [_pair(row) for row in rows]
                if not is_sound(pairs, ROCCHIO):
                    raise Invalid(_HINT, field=KEY)
                vectors[field, text] = dict(pairs)
            case _:
                raise Invalid(_HINT, field=KEY)
    return to_text({key: words for key, words in vectors.items() if words})


def _pair(row: object) -> tuple[str, float]:
    match row:
        case {"word": str(word), "factor": int() | float() as factor} if not isinstance(factor, bool):
            return word, float(factor)
    raise Invalid(_HINT, field=KEY)


def checked(asked: Asked, analysis: Analysis) -> None:
    """Invalid unless there is something that thumbs can move."""
    query = _parsed(asked, analysis)
    if query is None or not movable(query):
        reason = 'feedback moves the text of a similarity, such as abstract ~ "some text" >= 0.4: there is none'
        raise Invalid(reason, field=KEY)


def after_change(site: Site, kept: Kept, asked: Asked | None, about: dict[str, Any]) -> Asked | None:
    """What is asked for after a change of the query or of `feedback`: the thumbs move the new text; None: as before."""
    base = asked or kept.asked
    if KEY not in about:
        moved = None
    else:
        checked(base, site.analysis)
        if asked is None and takes_thumbs(kept):
            return None
        statistics = weights(site)
        moved = moved_by(site, base, thumbs.of(site.store, kept.number), statistics)
        about[KEY] = {"statistics": statistics.version} if moved is not None else {}
    new = replace(base, moved=moved)
    return None if new == kept.asked else new


def as_json(site: Site, kept: Kept) -> dict[str, Any] | None:
    """The feedback of a subscription, as the API shows it and an export holds it; None if it takes no thumbs."""
    if not takes_thumbs(kept):
        return None
    shown = [
        {"document": one.document, "version": one.version, "thumb": UP if one.is_up else DOWN}
        for one in thumbs.of(site.store, kept.number)
    ]
    found: dict[str, Any] = {"thumbs": shown, "texts": []}
    if "statistics" in kept.about[KEY]:
        found["statistics"] = kept.about[KEY]["statistics"]
    statistics = weights(site)
    for (field, text), words in sorted(from_text(kept.asked.moved).items()):
        vector = weighed(words, statistics)
        heaviest = sorted(words, key=lambda word: (-vector.weights[word], word))
        rows = [
            {"word": word, "factor": words[word], "weight": round(vector.weights[word] / (vector.length or 1.0), 4)}
            for word in heaviest
        ]
        found["texts"].append({"field": field, "text": text, "words": rows})
    return found


def moved_query(asked: Asked, query: Query) -> Query:
    """The query as it is in force: with the texts that thumbs have moved."""
    return query if asked.moved is None else attached(query, from_text(asked.moved))
