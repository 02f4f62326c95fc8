"""What a query means: the oracle.

Short, slow and obvious. Every engine, placement and pipeline is tested against `holds` and `score`;
read it as the specification. `knowledge` supplies what a document alone does not tell: how fields are
analysed, how frequent words are (for `~` and scores), and the documents seen (for nested queries).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from tocsin import dates
from tocsin.model import Document, Value
from tocsin.query.ast import And, Bound, Equals, Exists, In, Near, Not, Or, Prefix, Query, Range, Similar, Words
from tocsin.query.score import ROUNDING, Statistics
from tocsin.query.vector import similarity_to
from tocsin.text import Analysis, fold, texts, value_key, values_of, words


@dataclass(frozen=True)
class Knowledge:
    """All that a query's truth depends on beside the document."""

    analysis: Analysis = Analysis()
    statistics: Statistics = Statistics()
    documents: Sequence[Document] = ()
    sets: dict[tuple[Query, str], AbstractSet[str | float]] = field(default_factory=dict)

    def values(self, query: Query, source: str) -> AbstractSet[str | float]:
        """The values of the field `source` in the documents that match the query."""
        if (query, source) not in self.sets:
            matching = [document for document in self.documents if holds(query, document, self)]
            found = {value_key(value) for document in matching for value in values_of(document, source)}
            self.sets[query, source] = frozenset(found)
        return self.sets[query, source]


def holds(query: Query, document: Document, knowledge: Knowledge) -> bool:
    """Does the document match the query?"""
    match query:
        case And(parts):
            return all(holds(part, document, knowledge) for part in parts)
        case Or(parts):
            return any(holds(part, document, knowledge) for part in parts)
        case Not(part):
            return not holds(part, document, knowledge)
        case Words(name):
            numbers = values_of(document, name) if name and query.number is not None else ()
            return any(is_number(value) and float(value) == query.number for value in numbers) or any(
                has_phrase(value, words(query.text, analysis))
                for value, analysis in texts(document, name, knowledge.analysis)
            )
        case Near(name, operands, gaps, ordered):
            return any(
                has_chain(value, [words(operand, analysis) for operand in operands], gaps, ordered)
                for value, analysis in texts(document, name, knowledge.analysis)
            )
        case Equals(name):
            return any(is_number(value) and float(value) == query.number for value in values_of(document, name)) or any(
                only_words(value) == only_words(words(query.text, analysis)) != ()
                for value, analysis in texts(document, name, knowledge.analysis)
            )
        case Prefix(name, text):
            start = fold(text)
            return any(
                word.startswith(start) for value, _ in texts(document, name, knowledge.analysis) for word in value
            )
        case Exists(name):
            return bool(values_of(document, name))
        case Range(name, low, high):
            return any(within(value, low, high, query.is_date) for value in values_of(document, name))
        case Similar(threshold=threshold):
            weight = similarity_to(query, document, knowledge.analysis, knowledge.statistics)
            return weight >= round(threshold, ROUNDING)
        case In(name, source, inner):
            among = knowledge.values(inner, source)
            return any(value_key(value) in among for value in values_of(document, name))


def is_number(value: Value) -> bool:
    """Is the value a number?"""
    return not isinstance(value, str)


def only_words(value: tuple[str, ...]) -> tuple[str, ...]:
    """The words without the positions whose word was dropped."""
    return tuple(filter(None, value))


def has_phrase(value: tuple[str, ...], phrase: tuple[str, ...]) -> bool:
    """Do the phrase's words stand in the value at the phrase's distances? Dropped words may be anything."""
    wanted = [(offset, word) for offset, word in enumerate(phrase) if word]
    if not wanted:
        return False
    first, rarest = wanted[0]
    starts = [position - first for position, word in enumerate(value) if word == rarest]
    end = len(value)
    return any(all(0 <= s + o < end and value[s + o] == word for o, word in wanted) for s in starts)


def has_chain(
    value: tuple[str, ...], operands: list[tuple[str, ...]], gaps: tuple[tuple[int, int], ...], ordered: bool
) -> bool:
    """Can each operand be given a position so that every two neighbours are within their gap?

    Going from left to right, `reached` holds the positions at which the chain so far can end; an
    operand's position serves both of its sides (AWP's proximity formulas: P2P-DIET §2).
    """
    if not all(len(operand) == 1 and operand[0] for operand in operands):
        return False
    reached = [position for position, word in enumerate(value) if word == operands[0][0]]
    for (low, high), (word,) in zip(gaps, operands[1:], strict=True):
        nexts = [position for position, other in enumerate(value) if other == word]
        reached = [
            after
            for after in nexts
            if has_between(reached, after - 1 - high, after - 1 - low)
            or (not ordered and has_between(reached, after + 1 + low, after + 1 + high))
        ]
    return bool(reached)


def has_between(positions: list[int], first: int, last: int) -> bool:
    """Is one of the positions, which are in order, in first … last?"""
    at = bisect_left(positions, first)
    return at < len(positions) and positions[at] <= last


def within(value: Value, low: Bound | None, high: Bound | None, is_date: bool) -> bool:
    """Does the value lie between the bounds? A day as a bound means the whole day."""
    if is_date:
        at: int | float | None = dates.moment(value) if isinstance(value, str) else None
    else:
        at = float(value) if not isinstance(value, str) else None
    if at is None:
        return False
    above = low is None or (at >= low.first if low.inclusive else at > low.last)
    below = high is None or (at <= high.last if high.inclusive else at < high.first)
    return above and below
