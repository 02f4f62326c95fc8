"""Why a document matched, or what it lacked.

For a match: the clause that holds and, for each of its atoms, where; for a nested query also which documents put the
values into its sets. For a pair that does not match: the clause that comes nearest, with what fails in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tocsin.markup import read_accepted
from tocsin.match.nested import Reason
from tocsin.model import Document, Subscription
from tocsin.query.ast import And, Atom, Equals, Exists, In, Near, Not, Or, Prefix, Query, Range, Similar, Words, atoms
from tocsin.query.normal import Clause, clauses, inward
from tocsin.query.score import Vector, score_parts
from tocsin.query.semantics import Knowledge, holds, is_number, only_words, within
from tocsin.query.show import show
from tocsin.query.vector import similarity_to
from tocsin.query.xpath.semantics import evidence_xpath
from tocsin.text import Analysis, fold, value_key, values_of, words

Evidence = dict[str, Any]


@dataclass(frozen=True)
class Traced(Knowledge):
    """Knowledge that remembers for one subscription which documents put the values into its sets."""

    reasons: Callable[[Document], Sequence[Reason]] = lambda document: ()


def why(subscription: Subscription, document: Document, knowledge: Knowledge, vector: Vector | None = None) -> Evidence:
    """Why a subscription's words and path hold, and where the values of its sets come from.

    `vector`: the document's, if it is known already.
    """
    found = {} if subscription.query is None else evidence(subscription.query, document, knowledge, vector)
    if subscription.path is not None and (markup := read_accepted(document.xml)) is not None:
        selected = evidence_xpath(subscription.path, markup)
        found["xpath"] = None if selected is None else {"path": selected[0], "text": selected[1]}
    if isinstance(knowledge, Traced):
        found["nested"] = [told(reason) for reason in knowledge.reasons(document)]
    return found


def told(reason: Reason) -> Evidence:
    """Which document put the value into the set, and through which others that one is there."""
    found: Evidence = {"field": reason.field, "value": reason.value, "document": reason.document}
    if reason.reasons:
        found["because"] = [told(inner) for inner in reason.reasons]
    return found


def outermost_nested(query: Query) -> list[In]:
    """The nested queries that are inside no other, each once."""
    return list(dict.fromkeys(atom for atom in atoms(query) if isinstance(atom, In)))


class Origins:
    """Which document put each value into the set of a nested query: the first that has it."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._first: dict[tuple[Query, str], dict[str | float, Document]] = {}

    def reasons(self, query: Query, document: Document) -> list[Evidence]:
        """For each nested part that holds, a value through which it does and where that comes from."""
        found = []
        for atom in outermost_nested(query):
            first = self._of(atom)
            values = [value for value in map(value_key, values_of(document, atom.field)) if value in first]
            if values:
                by = first[values[0]]
                reason: Evidence = {"field": atom.field, "value": values[0], "document": by.id}
                because = self.reasons(atom.query, by)
                found.append(reason | ({"because": because} if because else {}))
        return found

    def _of(self, atom: In) -> dict[str | float, Document]:
        asked = atom.query, atom.source
        if asked not in self._first:
            first = self._first[asked] = {}
            for document in self._knowledge.documents:
                values = [value_key(value) for value in values_of(document, atom.source)]
                if any(value not in first for value in values) and holds(atom.query, document, self._knowledge):
                    first.update((value, document) for value in values if value not in first)
        return self._first[asked]


def evidence(query: Query, document: Document, knowledge: Knowledge, vector: Vector | None = None) -> Evidence:
    """Where in the document the query found what it asks for."""
    clause = _holding(query, document, knowledge)
    if clause is not None:
        holding: Sequence[Atom] = clause.positive
    else:
        holding = [atom for atom in _positive(inward(query)) if holds(atom, document, knowledge)]
    return {
        "clause": show(clause.query() if clause else query),
        "atoms": [_where(atom, document, knowledge) for atom in holding],
        "score": score_parts(query, document, knowledge.analysis, knowledge.statistics, vector),
    }


def nearest(query: Query, document: Document, knowledge: Knowledge) -> Evidence:
    """The clause that fails in the fewest atoms, and those atoms."""
    options = clauses(query)
    if options is None:
        return {"clause": show(query), "failing": _failing_parts(inward(query), document, knowledge)}
    if not options:
        return {"clause": show(query), "failing": ["the query contradicts itself: it never holds"]}
    failures = [(_failing(clause, document, knowledge), clause) for clause in options]
    failing, clause = min(failures, key=lambda failure: len(failure[0]))
    return {"clause": show(clause.query()), "failing": failing}


def _holding(query: Query, document: Document, knowledge: Knowledge) -> Clause | None:
    """The clause that holds; clauses are disjoint, so there is one at most."""
    for clause in clauses(query) or ():
        if holds(clause.query(), document, knowledge):
            return clause
    return None


def _failing(clause: Clause, document: Document, knowledge: Knowledge) -> list[str]:
    missing = [show(atom) for atom in clause.positive if not holds(atom, document, knowledge)]
    unwanted = [show(Not(atom)) for atom in clause.negative if holds(atom, document, knowledge)]
    return missing + unwanted


def _failing_parts(query: Query, document: Document, knowledge: Knowledge) -> list[str]:
    """For a query kept whole: the failing parts of its outermost AND."""
    parts = query.parts if isinstance(query, And) else (query,)
    return [show(part) for part in parts if not holds(part, document, knowledge)]


def _positive(query: Query) -> list[Atom]:
    match query:
        case And(parts) | Or(parts):
            return [atom for part in parts for atom in _positive(part)]
        case Not():
            return []
    return list(atoms(query))


def _where(atom: Atom, document: Document, knowledge: Knowledge) -> Evidence:
    """One place that satisfies the atom."""
    found: Evidence = {"atom": show(atom)}
    match atom:
        case Words() | Near() | Prefix() | Equals():
            found |= _in_text(atom, document, knowledge.analysis) or _number(atom, document)
        case Range(field, low, high):
            values = values_of(document, field)
            found |= {"field": field, "value": next(v for v in values if within(v, low, high, atom.is_date))}
        case Exists(field):
            found |= {"field": field}
        case Similar(field):
            weight = similarity_to(atom, document, knowledge.analysis, knowledge.statistics)
            found |= {"field": field, "cosine": weight, "threshold": atom.threshold}
            if atom.moved:
                found["moved"] = True
        case In(field, source, inner):
            among = knowledge.values(inner, source)
            value = next(value for value in values_of(document, field) if value_key(value) in among)
            found |= {"field": field, "value": value}
    return found


def _number(atom: Atom, document: Document) -> Evidence:
    if not isinstance(atom, Words | Equals) or atom.field is None:
        return {}
    values = values_of(document, atom.field)
    return {"field": atom.field, "value": next(v for v in values if is_number(v) and float(v) == atom.number)}


def _in_text(atom: Words | Near | Prefix | Equals, document: Document, analysis: Analysis) -> Evidence:
    """The field, the number of the value in it, the words and their positions."""
    for field in document.fields if atom.field is None else (atom.field,):
        for index, value in enumerate(values_of(document, field)):
            if isinstance(value, str):
                name = analysis.of(field)
                positions = _positions(atom, words(value, name), name)
                if positions:
                    found = [words(value, name)[position] for position in positions]
                    return _place(atom, field, index, found, positions)
    return {}


def _place(atom: Atom, field: str, index: int, found: list[str], positions: list[int]) -> Evidence:
    place: Evidence = {"field": field, "value_index": index, "words": found, "positions": positions}
    if isinstance(atom, Near):
        pairs = pairwise(positions)
        place["between"] = [abs(after - before) - 1 for before, after in pairs]
    return place


def _positions(atom: Words | Near | Prefix | Equals, value: tuple[str, ...], name: str) -> list[int]:
    """Positions in the value that satisfy the atom; none if it does not hold there."""
    match atom:
        case Words(text=text):
            phrase = words(text, name)
            return _phrase_at(value, phrase)
        case Equals(text=text):
            same = only_words(value) == only_words(words(text, name)) != ()
            return [position for position, word in enumerate(value) if word] if same else []
        case Prefix(text=text):
            start = fold(text)
            return next(([position] for position, word in enumerate(value) if word.startswith(start)), [])
        case Near(words=operands, gaps=gaps, ordered=ordered):
            return chain_at(value, [words(operand, name) for operand in operands], gaps, ordered)


def _phrase_at(value: tuple[str, ...], phrase: tuple[str, ...]) -> list[int]:
    """Where the phrase stands first; dropped words may be anything."""
    offsets = [offset for offset, word in enumerate(phrase) if word]
    at = 0
    while offsets:
        try:
            at = value.index(phrase[offsets[0]], at)
        except ValueError:
            break
        start = at - offsets[0]
        if start + offsets[-1] < len(value) and all(value[start + one] == phrase[one] for one in offsets):
            return [start + one for one in offsets]
        at += 1
    return []


def chain_at(
    value: tuple[str, ...], operands: list[tuple[str, ...]], gaps: tuple[tuple[int, int], ...], ordered: bool
) -> list[int]:
    """Positions of the operands that satisfy every gap; none if there are none.

    Each position remembers the one before it, so that one chain can be told at the end.
    """
    if not all(len(operand) == 1 and operand[0] for operand in operands):
        return []
    chains = {position: [position] for position, word in enumerate(value) if word == operands[0][0]}
    for (low, high), (word,) in zip(gaps, operands[1:], strict=True):
        reached: dict[int, list[int]] = {}
        for after in (position for position, other in enumerate(value) if other == word):
            for before, chain in chains.items():
                if low <= (after - before if ordered else abs(after - before)) - 1 <= high:
                    reached[after] = [*chain, after]
                    break
        chains = reached
    return next(iter(chains.values()), [])
