"""Numbers for words, formulas and conjunctions, so that inner loops see only integers; freed numbers are used again."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tocsin.match.awp_kernels import NONE, Ints
from tocsin.match.tries.awp import Chain
from tocsin.match.tries.flat import START, longer


class Numbers:
    """Small numbers, given out and taken back."""

    def __init__(self, first: int = 0) -> None:
        self.end = first
        self._free: list[int] = []

    def take(self) -> int:
        """A number that is not in use."""
        if self._free:
            return self._free.pop()
        self.end += 1
        return self.end - 1

    def give(self, number: int) -> None:
        """The number may be used again."""
        self._free.append(number)

    @property
    def used(self) -> int:
        """How many are in use (if they begin at 0)."""
        return self.end - len(self._free)


class Vocabulary:
    """The words of all queries; 0 is a word that no query has."""

    def __init__(self) -> None:
        self.number_of: dict[str, int] = {}
        self._word_of: dict[int, str] = {}
        self._uses: dict[int, int] = {}
        self._numbers = Numbers(1)

    def take(self, words: Iterable[str]) -> list[int]:
        """The words' numbers; each is counted as used once more."""
        return [self._take(word) for word in words]

    def _take(self, word: str) -> int:
        number = self.number_of.get(word, 0)
        if not number:
            number = self._numbers.take()
            self.number_of[word] = number
            self._word_of[number] = word
        self._uses[number] = self._uses.get(number, 0) + 1
        return number

    def give(self, numbers: Iterable[int]) -> None:
        """Each is used once less; a word that is not used any more is forgotten."""
        for number in numbers:
            self._uses[number] -= 1
            if not self._uses[number]:
                del self.number_of[self._word_of.pop(number)], self._uses[number]
                self._numbers.give(number)

    @property
    def end(self) -> int:
        """One more than the largest number ever used."""
        return self._numbers.end


class ProximityArray:
    """PA of P2P-DIET §4: the proximity formulas of each word pattern, their operands as numbers of words.

    `pool[at[formula]:]` is the length of what follows, the number of chains, then each chain: whether it is
    ordered, how many words it has, the words, and two bounds for each gap. `at` is NONE without a chain.
    """

    def __init__(self) -> None:
        self.at: Ints = np.full(START, NONE, np.int32)
        self.pool: Ints = np.zeros(START, np.int32)
        self._used = 0
        self._unused = 0

    def put(self, formula: int, chains: Iterable[Chain], number_of: dict[str, int]) -> None:
        """Keeps the formula's chains, if it has any."""
        if formula >= len(self.at):
            old = len(self.at)
            self.at = longer(self.at, formula + 1)
            self.at[old:] = NONE
        written = [_written(chain, number_of) for chain in chains]
        if written:
            block = [0, len(written), *(number for chain in written for number in chain)]
            block[0] = len(block)
            self.at[formula] = self._used
            self.pool = longer(self.pool, self._used + len(block))
            self.pool[self._used : self._used + len(block)] = block
            self._used += len(block)

    def remove(self, formula: int) -> None:
        """Forgets the formula's chains."""
        if self.at[formula] != NONE:
            self._unused += int(self.pool[self.at[formula]])
            self.at[formula] = NONE
            if self._unused > self._used // 2:
                self._compact()

    def _compact(self) -> None:
        kept = [(int(formula), int(self.at[formula])) for formula in np.flatnonzero(self.at != NONE)]
        blocks = [self.pool[at : at + self.pool[at]].copy() for _, at in kept]
        self._used = self._unused = 0
        for (formula, _), block in zip(kept, blocks, strict=True):
            self.at[formula] = self._used
            self.pool[self._used : self._used + len(block)] = block
            self._used += len(block)

    @property
    def bytes(self) -> int:
        """Memory of what is stored."""
        return (self._used - self._unused) * self.pool.itemsize


def _written(chain: Chain, number_of: dict[str, int]) -> list[int]:
    bounds = [bound for gap in chain.gaps for bound in gap]
    return [int(chain.ordered), len(chain.words), *(number_of[word] for word in chain.words), *bounds]
