"""A plainer query that holds wherever another does: what a home can decide from the document alone.

A site judges for itself what its subscribers are told; the ring brings it every document that could matter. So where a
query depends on what only the site knows (how frequent words are, which documents it has seen), homes check less:

    field ~ "some text" >= 0.4      one of the words of the text is in the field, or of those that feedback moved it to
    field:IN:(…)                    the field is there

Under NOT, where less would be more, such a part is taken as open: it holds.
"""

from __future__ import annotations

from tocsin.query.ast import And, Exists, In, Not, Or, Query, Similar, Words, conjunction, disjunction
from tocsin.query.normal import inward
from tocsin.query.score import ROUNDING
from tocsin.text import Analysis, words

ALWAYS = Exists("id")
"""Every document has an id."""


def cover(query: Query, analysis: Analysis) -> Query:
    """A query without similarity and nested parts that holds wherever this one does."""
    match query:
        case And(parts):
            return conjunction([cover(part, analysis) for part in parts])
        case Or(parts):
            return disjunction([cover(part, analysis) for part in parts])
        case Not(Similar() | In()):
            return ALWAYS
        case Not(Not() | And() | Or()):
            return cover(inward(query), analysis)
        case Similar():
            return _some_word(query, analysis)
        case In(field):
            return Exists(field)
    return query


def _some_word(atom: Similar, analysis: Analysis) -> Query:
    if round(atom.threshold, ROUNDING) <= 0:
        return ALWAYS
    how = analysis.of(atom.field)
    if atom.moved:
        moved = [word for word, _ in atom.moved]
        is_plain = all(words(word, how) == (word,) for word in moved)
        return disjunction([Words(atom.field, word, quoted=True) for word in moved]) if is_plain else Exists(atom.field)
    pieces = [(piece, words(piece, how)) for piece in dict.fromkeys(atom.text.split())]
    apart = [piece for piece, found in pieces if len(found) == 1 and found[0]]
    if {words(piece, how)[0] for piece in apart} != {word for word in words(atom.text, how) if word}:
        return Exists(atom.field)  # its words cannot be written one by one
    return disjunction([Words(atom.field, piece, quoted=True) for piece in apart]) if apart else Exists(atom.field)
