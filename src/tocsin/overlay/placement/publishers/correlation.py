"""Words that are asked for together (MAPS, "Optimizations": "Aguilera" almost always with "Christina").

The directory node of a word sees the queries that ask for it. A set with that word is recognised when enough
subscriptions ask for all of it, and they are a large enough share of those who ask for the word. From then on the
directory keeps statistics of the set beside those of its words, under a key of its own: publishers that have much of
each word, but in different documents, are not taken for good ones any more.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from itertools import combinations

SUBSCRIPTIONS_MAX = 10_000
"""Subscriptions that a directory node remembers for each word."""


SEPARATOR = "\x1f"
"""Between the words of a set: no word has this character, though values of keyword fields have spaces."""


def set_name(words: Iterable[str]) -> str:
    """A set of words as one text."""
    return SEPARATOR.join(sorted(set(words)))


def words_of(name: str) -> frozenset[str]:
    """The words of a set."""
    return frozenset(name.split(SEPARATOR))


class Correlations:
    """What a directory node has learnt from queries about the words it owns."""

    def __init__(self, support: int, confidence: float, words_max: int) -> None:
        self.support, self.confidence, self.words_max = support, confidence, words_max
        self._asked: dict[str, OrderedDict[str, tuple[str, ...]]] = {}
        self._together: dict[str, Counter[str]] = {}

    def learn(self, word: str, subscription: str, query: Iterable[str]) -> list[str]:
        """A subscription asks for a word: the sets with it that are recognised now."""
        words = tuple(sorted(set(query)))
        if not self.support or word not in words:
            return []
        asked = self._asked.setdefault(word, OrderedDict())
        together = self._together.setdefault(word, Counter())
        before = asked.pop(subscription, ())
        asked[subscription] = words
        if before != words:
            together.subtract(self._sets(word, before))
            together.update(self._sets(word, words))
        if len(asked) > SUBSCRIPTIONS_MAX:
            together.subtract(self._sets(word, asked.popitem(last=False)[1]))
        enough = max(self.support, self.confidence * len(asked))
        return [name for name in self._sets(word, words) if together[name] >= enough]

    def _sets(self, word: str, words: tuple[str, ...]) -> Iterator[str]:
        others = [other for other in words if other != word]
        for size in range(1, min(self.words_max, len(words))):
            for some in combinations(others, size):
                yield set_name((word, *some))


def cover(words: Iterable[str], sets: Iterable[str]) -> list[str]:
    """The recognised sets that stand for a query: the largest first, and no more than bring words of their own."""
    left = set(words)
    terms: list[str] = []
    for name in sorted(set(sets), key=lambda name: (-len(words_of(name)), name)):
        some = words_of(name)
        if some <= set(words) and some & left and len(some & left) > 1:
            terms.append(name)
            left -= some
    return terms
