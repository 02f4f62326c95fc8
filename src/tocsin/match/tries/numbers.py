"""Numbers for words, formulas and conjunctions, so that inner loops see only integers; freed numbers are used again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from tocsin.match import awp_kernels as kernels
from tocsin.match.awp_kernels import NONE, SEVERAL, Chains, Ints, Longs, Occurrences
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


class Blocks:
    """Lists of numbers in one array; the place of one that is given back is used for the next of its length."""

    def __init__(self) -> None:
        self.pool: Ints = np.zeros(START, np.int32)
        self._end = 0
        self._free: defaultdict[int, list[int]] = defaultdict(list)
        self.used = 0

    def put(self, numbers: Sequence[int]) -> int:
        """Where the numbers stand now."""
        size = len(numbers)
        if self._free[size]:
            at = self._free[size].pop()
        else:
            at = self._end
            self._end += size
            self.pool = longer(self.pool, self._end)
        self.pool[at : at + size] = numbers
        self.used += size
        return at

    def give(self, at: int, size: int) -> None:
        """Forgets so many numbers."""
        self._free[size].append(at)
        self.used -= size


class ProximityArray:
    """PA of P2P-DIET §4: the proximity formulas (chains) of each word pattern, their operands as numbers of words.

    Queries that name the same technical term have the same chain, so each different one is kept once, and is looked
    at once in a document. The arrays are described in `awp_kernels.Chains`.
    """

    def __init__(self) -> None:
        self._of: Ints = np.full(START, NONE, np.int32)
        self._start: Ints = np.zeros(START, np.int32)
        self._known: Longs = np.zeros(START, np.int64)
        self._blocks = Blocks()
        self._numbers = Numbers()
        self._chains: dict[tuple[int, ...], int] = {}
        self._uses: dict[int, int] = {}
        self._turn = 0

    def put(self, formula: int, chains: Iterable[Chain], number_of: dict[str, int]) -> None:
        """Keeps the formula's chains, if it has any."""
        if formula >= len(self._of):
            old = len(self._of)
            self._of = longer(self._of, formula + 1)
            self._of[old:] = NONE
        numbers = [self._take(_written(chain, number_of)) for chain in chains]
        if len(numbers) == 1:
            self._of[formula] = numbers[0]
        elif numbers:
            self._of[formula] = SEVERAL - self._blocks.put([len(numbers), *numbers])

    def _take(self, written: tuple[int, ...]) -> int:
        chain = self._chains.get(written)
        if chain is None:
            chain = self._chains[written] = self._numbers.take()
            self._start, self._known = longer(self._start, chain + 1), longer(self._known, chain + 1)
            self._start[chain] = self._blocks.put(written)
            self._known[chain] = 0
            self._uses[chain] = 0
        self._uses[chain] += 1
        return chain

    def has(self, formula: int) -> bool:
        """Has the formula any chain?"""
        return bool(self._of[formula] != NONE)

    def remove(self, formula: int) -> None:
        """Forgets the formula's chains."""
        kept = int(self._of[formula])
        numbers = [kept] if kept >= 0 else []
        if kept <= SEVERAL:
            at = SEVERAL - kept
            size = int(self._blocks.pool[at])
            numbers = self._blocks.pool[at + 1 : at + 1 + size].tolist()
            self._blocks.give(at, size + 1)
        for chain in numbers:
            self._give(chain)
        self._of[formula] = NONE

    def _give(self, chain: int) -> None:
        self._uses[chain] -= 1
        if not self._uses[chain]:
            at, pool = int(self._start[chain]), self._blocks.pool
            size = 3 * int(pool[at + 1])  # two numbers, the words, and two bounds for each but the first
            del self._uses[chain], self._chains[tuple(pool[at : at + size].tolist())]
            self._blocks.give(at, size)
            self._numbers.give(chain)

    def keep_near(self, found: Ints, occurrences: Occurrences) -> Ints:
        """Those of the formulas found whose chains hold."""
        self._turn += 1
        chains = Chains(self._of, self._start, self._blocks.pool, self._known)
        return found[: kernels.keep_near(found, chains, self._turn, occurrences)]

    @property
    def bytes(self) -> int:
        """Memory of what is stored."""
        chains = len(self._uses) * (self._start.itemsize + self._known.itemsize)
        return self._blocks.used * self._blocks.pool.itemsize + chains


def _written(chain: Chain, number_of: dict[str, int]) -> tuple[int, ...]:
    bounds = [bound for gap in chain.gaps for bound in gap]
    return (int(chain.ordered), len(chain.words), *(number_of[word] for word in chain.words), *bounds)
