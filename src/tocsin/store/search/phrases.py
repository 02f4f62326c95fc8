"""Phrases in documents that were not read yet: which of them need not be read.

Tokens tell which documents hold all words of a phrase; most hold them far apart. Where the words stand next to each
other in a value, they do so in its JSON too, with nothing but other characters between: a look at the stored text rules
the others out, at a tenth of what reading and analysing them costs. It only ever rules out; the language decides.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tocsin.query.ast import And, Equals, Query, Words
from tocsin.text import STANDARD, Analysis, fold, words

Patterns = tuple[re.Pattern[str], ...]
_BETWEEN = "[^a-z0-9]+"  # whatever is no letter, mark or number is no ASCII letter or digit


def patterns_of(query: Query, analysis: Analysis) -> Patterns:
    """What the folded JSON of every document that matches must show; none if nothing is known."""
    parts = query.parts if isinstance(query, And) else (query,)
    found = (_pattern(part, analysis) for part in parts if isinstance(part, Words | Equals))
    return tuple(pattern for pattern in found if pattern is not None)


def _pattern(atom: Words | Equals, analysis: Analysis) -> re.Pattern[str] | None:
    if analysis.names(atom.field) != (STANDARD,) or atom.number is not None:
        return None  # words may be dropped or cut there, and 2010.0 is also the number 2010
    several = words(atom.text, STANDARD)
    return _compiled(several) if len(several) > 1 else None


@lru_cache(maxsize=256)
def _compiled(several: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(_BETWEEN.join(map(re.escape, several)))


def may_hold(body: str, patterns: Patterns) -> bool:
    """Could a document with this JSON match? True if its text is written with escapes."""
    if not patterns or "\\" in body:
        return True
    folded = fold(body)
    return all(pattern.search(folded) for pattern in patterns)
