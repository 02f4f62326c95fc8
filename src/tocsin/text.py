"""Text to words: the only place where a string becomes words.

Queries and documents pass through the same functions, so that what is written the same is found
the same (SmartSeer §II: "the same analysis on both sides"). The position of a word is its index in
the tuple; an empty string marks a position whose word was dropped.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import Stemmer

from tocsin.errors import SettingError
from tocsin.model import Document, Value

STANDARD, ENGLISH, KEYWORD = "standard", "english", "keyword"
ANALYSES = (STANDARD, ENGLISH, KEYWORD)

UNSEEN_BY_BARE = ("id", "source", "time")
"""What can be named in queries like a field, but is not looked into by bare words."""

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these "
    "they this to was will with".split()
)

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number as JSON writes it."""

_stemmer = Stemmer.Stemmer("english")


class _Breaks(dict[int, int]):
    """For str.translate: keeps letters, marks and numbers, makes everything else a space."""

    def __missing__(self, code: int) -> int:
        self[code] = code if unicodedata.category(chr(code))[0] in "LMN" else 32
        return self[code]


_BREAKS = _Breaks()


def is_field_name(text: str) -> bool:
    """A letter, then letters, digits, `_`, `-` and `.`."""
    return text[:1].isalpha() and all(c in "_-." or c.isalpha() or c.isdecimal() for c in text)


def fold(text: str) -> str:
    """Case and compatibility forms away: NFKC, casefold, NFKC again."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def spaced(text: str) -> str:
    """The folded text with a space for every character that is in no word."""
    return fold(text).translate(_BREAKS)


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    return "" if word in STOP_WORDS else str(_stemmer.stemWord(word))


def words(text: str, analysis: str = STANDARD) -> tuple[str, ...]:
    """The words of one value, by position; "" where the analysis dropped a word."""
    for longest, remembered in _REMEMBERED:
        if len(text) <= longest:
            return remembered(text, analysis)
    return _words(text, analysis)


def _words(text: str, analysis: str) -> tuple[str, ...]:
    if analysis == KEYWORD:
        return (fold(text),) if text else ()
    found = spaced(text).split()
    return tuple(map(_stem, found)) if analysis == ENGLISH else tuple(found)


# Many queries ask about one document in turn, so the words of the last texts are remembered: the longer, the fewer.
_REMEMBERED = [
    (characters, lru_cache(maxsize=texts)(_words)) for characters, texts in ((256, 4_096), (16_384, 16), (262_144, 4))
]


def has_words(text: str, analysis: str) -> bool:
    """Does anything of the text remain under this analysis?"""
    return any(words(text, analysis))


def value_key(value: str | int | float) -> str | float:
    """A value as nested queries compare it: numbers as numbers, strings folded, white space too."""
    return " ".join(fold(value).split()) if isinstance(value, str) else float(value)


@dataclass(frozen=True)
class Analysis:
    """Which analysis each field has: standard unless named."""

    fields: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, analysis in self.fields.items():
            if not is_field_name(name):
                raise SettingError(f"{name!r} is no field name: a letter, then letters, digits, '_', '-' and '.'")
            if analysis not in ANALYSES:
                raise SettingError(f"unknown analysis {analysis!r} for field {name!r}: one of {', '.join(ANALYSES)}")
            if name in ("id", "source") and analysis != KEYWORD:
                raise SettingError(f"the analysis of {name!r} is always keyword")

    def of(self, field: str) -> str:
        """The analysis of this field."""
        return KEYWORD if field in ("id", "source") else self.fields.get(field, STANDARD)

    def names(self, field: str | None) -> tuple[str, ...]:
        """The analyses under which a query on this field (None: on any field) is read."""
        if field is not None:
            return (self.of(field),)
        found = {analysis for name, analysis in self.fields.items() if name not in UNSEEN_BY_BARE}
        return (STANDARD, *sorted(found - {STANDARD}))

    @staticmethod
    def parse(pairs: Iterable[str]) -> Analysis:
        """From FIELD=NAME pairs, as on the command line."""
        fields = {}
        for pair in pairs:
            name, equals, analysis = pair.partition("=")
            if not equals or not name:
                raise SettingError(f"an analysis is given as FIELD=NAME, not {pair!r}")
            fields[name] = analysis
        return Analysis(fields)


def values_of(document: Document, name: str) -> tuple[Value, ...]:
    """The values of a field; id, source and time can be named like fields."""
    match name:
        case "id":
            return (document.id,)
        case "source":
            return () if document.source is None else (document.source,)
        case "time":
            return () if document.time is None else (document.time,)
    return document.fields.get(name, ())


def texts(document: Document, name: str | None, analysis: Analysis) -> Iterator[tuple[tuple[str, ...], str]]:
    """The words of each string value of the field (None: of every field), with the analysis they had."""
    for field_name in document.fields if name is None else (name,):
        for value in values_of(document, field_name):
            if isinstance(value, str):
                yield words(value, analysis.of(field_name)), analysis.of(field_name)
