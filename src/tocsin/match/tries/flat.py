"""The stores of `plain` over arrays of numbers: same methods, same nodes, compiled loops.

An array grows by doubling when a kernel finds no room; what is deleted goes to free lists and is used
again, and `reorganise` builds everything anew. A formula is known by its number, a row of `links`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tocsin.match import trie_kernels as kernels
from tocsin.match.trie_kernels import Arrays, Bytes, Ints, Longs
from tocsin.match.tries.plain import Stored

START = 64  # rows of an empty array

Array = TypeVar("Array", bound=npt.NDArray[np.generic])


def longer(array: Array, length: int) -> Array:
    """The array, at least this long; new rows are 0."""
    if len(array) >= length:
        return array
    grown = np.zeros((max(length, 2 * len(array)), *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown  # type: ignore[return-value]  # of the same kind


class Store:
    """What the kinds of store share: arrays that grow, word directories, measures."""

    def __init__(self) -> None:
        state = np.zeros(kernels.STATE_SIZE, np.int64)
        state[kernels.NODES_FREE] = kernels.NONE
        self._arrays = Arrays(
            nodes=np.zeros((START, 8), np.int32),
            pool=np.zeros(16 * START, np.int32),
            links=np.zeros((START, 3), np.int32),
            free=np.full(kernels.CLASSES, kernels.NONE, np.int32),
            state=state,
            marks=np.zeros(START, np.uint8),
            stack=np.zeros(START, np.int32),
            turns=np.zeros(START, np.int32),
        )
        self._queue: Ints = np.zeros(START, np.int32)
        self._found: Ints = np.zeros(START, np.int32)
        self._directories = 0
        self._formulas = 0

    def _grow(self, size: int) -> None:
        """Makes room for a set of this size."""
        a = self._arrays
        if not kernels.has_room(a, size):
            used, pool, largest = (int(a.state[at]) for at in (kernels.NODES_USED, kernels.POOL_USED, kernels.LARGEST))
            self._arrays = a._replace(
                nodes=longer(a.nodes, used + size + 4),
                pool=longer(a.pool, pool + 3 * max(largest, 16) + 8 * (size + 4)),
                stack=longer(a.stack, size + 2),
                turns=longer(a.turns, size + 2),
            )

    def _admit(self, words: Ints, formulas: Ints) -> None:
        """Makes the arrays long enough that these words and formulas can be numbers of rows."""
        top, last = int(words.max()), int(formulas.max())
        a = self._arrays
        if top >= len(a.marks) or last >= len(a.links):
            self._arrays = a._replace(marks=longer(a.marks, top + 1), links=longer(a.links, last + 1))

    # --- word directories --------------------------------------------------------------------

    def open(self) -> int:
        """A new word directory."""
        self._grow(1)
        self._directories += 1
        return int(kernels.new_node(self._arrays, 0, kernels.NONE))

    def close(self, directory: int) -> None:
        """Frees an empty word directory."""
        self._directories -= 1
        kernels.free_node(self._arrays, directory)

    # --- sets of words -----------------------------------------------------------------------

    def insert(self, directory: int, words: Sequence[int], formula: int) -> None:
        """Stores a set of distinct words, in their order, under the formula that has it."""
        self.insert_many(
            directory, np.array([0, len(words)], np.int64), np.array(words, np.int32), np.array([formula], np.int32)
        )

    def insert_many(self, directory: int, offsets: Longs, words: Ints, formulas: Ints) -> None:
        """Stores many sets: that of formulas[i] is words[offsets[i]:offsets[i + 1]]."""
        if not len(formulas):
            return
        self._admit(words, formulas)
        done = 0
        while (done := self._insert_from(directory, offsets, words, formulas, done)) < len(formulas):
            self._grow(int(offsets[done + 1] - offsets[done]))
        self._formulas += len(formulas)

    def _insert_from(self, directory: int, offsets: Longs, words: Ints, formulas: Ints, begin: int) -> int:
        raise NotImplementedError

    def remove(self, formula: int) -> None:
        """Takes the formula's set away, and every node that only it needed."""
        self._grow(1)
        self._formulas -= 1
        self._remove(formula)

    def _remove(self, formula: int) -> None:
        raise NotImplementedError

    def qualifying(self, directory: int, present: Bytes, words: Ints) -> Ints:
        """The formulas whose words are all present, in a buffer that the next call uses again."""
        self._found = longer(self._found, self._formulas + 1)
        return self._found[: self._filter(directory, present, words)]

    def _filter(self, directory: int, present: Bytes, words: Ints) -> int:
        raise NotImplementedError

    def sets(self, formulas: Ints) -> tuple[Longs, Ints, Ints]:
        """Offsets and words of the formulas' sets, and the word directory of each."""
        sizes, directories = np.zeros(len(formulas), np.int64), np.zeros(len(formulas), np.int32)
        self._measure(formulas, sizes, directories)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        words = np.zeros(int(offsets[-1]), np.int32)
        self._read(formulas, offsets, words)
        return offsets, words, directories

    def _measure(self, formulas: Ints, sizes: Longs, directories: Ints) -> None:
        raise NotImplementedError

    def _read(self, formulas: Ints, offsets: Longs, words: Ints) -> None:
        raise NotImplementedError

    # --- measures ----------------------------------------------------------------------------

    @property
    def nodes(self) -> int:
        """How many nodes there are, word directories not counted."""
        return self._rows + int(self._arrays.state[kernels.TWIGS])

    @property
    def _rows(self) -> int:
        return int(self._arrays.state[kernels.NODES]) - self._directories

    @property
    def bytes(self) -> int:
        """Memory of what is stored; free blocks and room to grow are not counted."""
        a = self._arrays
        pool = int(a.state[kernels.POOL_USED] - a.state[kernels.POOL_FREE]) * a.pool.itemsize
        return (
            pool + (self._rows + self._directories) * int(a.nodes[0].nbytes) + self._formulas * int(a.links[0].nbytes)
        )


class Forest(Store):
    """Tries: PrefixTrie where words are sequences, BestFitTrie where they are sets."""

    def __init__(self, by_prefix: bool) -> None:
        super().__init__()
        self._by_prefix = by_prefix

    def _insert_from(self, directory: int, offsets: Longs, words: Ints, formulas: Ints, begin: int) -> int:
        done = kernels.insert_many(self._arrays, directory, offsets, words, formulas, begin, self._by_prefix)
        return int(done)

    def _remove(self, formula: int) -> None:
        kernels.remove_words(self._arrays, formula)

    def _filter(self, directory: int, present: Bytes, words: Ints) -> int:
        self._queue = longer(self._queue, self._rows + 2)
        return int(kernels.filter_tries(self._arrays, directory, present, words, self._queue, self._found))

    def _measure(self, formulas: Ints, sizes: Longs, directories: Ints) -> None:
        kernels.measure_sets(self._arrays, formulas, sizes, directories)

    def _read(self, formulas: Ints, offsets: Longs, words: Ints) -> None:
        kernels.read_sets(self._arrays, formulas, offsets, words)

    # --- what it looks like ------------------------------------------------------------------

    def stored(self, directory: int) -> Iterator[Stored]:
        """Every node, parents first."""
        waiting: list[tuple[int, tuple[int, ...]]] = [(directory, ())]
        for node, path in waiting:
            if node < 0:
                yield Stored(path, (), frozenset((~node,)), frozenset())
                continue
            children = dict(self._children(node))
            waiting += ((child, (*path, word)) for word, child in children.items())
            if path:
                yield Stored(path, self._remainder(node), frozenset(self._queries(node)), frozenset(children))

    def _children(self, node: int) -> Iterator[tuple[int, int]]:
        if self._remainder(node):
            return
        start, _, capacity = self._arrays.nodes[node, kernels.BLOCK : kernels.CAPACITY + 1].tolist()
        block = self._arrays.pool[start : start + 2 * capacity].tolist()
        yield from ((word, child) for word, child in zip(block[:capacity], block[capacity:], strict=True) if word)

    def _remainder(self, node: int) -> tuple[int, ...]:
        size, block = self._arrays.nodes[node, kernels.REST_SIZE : kernels.REST + 1].tolist()
        return tuple(int(kernels.rest_word(self._arrays, node, block, size, index)) for index in range(size))

    def _queries(self, node: int) -> list[int]:
        head = int(self._arrays.nodes[node, kernels.HEAD])
        if head >= kernels.NONE:
            return [head] if head >= 0 else []
        block = int(kernels.SEVERAL) - head
        several: list[int] = self._arrays.pool[block + 2 : block + 2 + self._arrays.pool[block]].tolist()
        return several


class Lists(Store):
    """Sets of words one by one: SWIN, which looks at those that wait at a word of the document, and the scan."""

    def __init__(self, by_word: bool) -> None:
        super().__init__()
        self._by_word = by_word

    def _insert_from(self, directory: int, offsets: Longs, words: Ints, formulas: Ints, begin: int) -> int:
        return int(kernels.list_many(self._arrays, directory, offsets, words, formulas, begin, self._by_word))

    def _remove(self, formula: int) -> None:
        kernels.unlist_words(self._arrays, formula)

    def _filter(self, directory: int, present: Bytes, words: Ints) -> int:
        return int(kernels.filter_lists(self._arrays, directory, present, words, self._by_word, self._found))

    def _measure(self, formulas: Ints, sizes: Longs, directories: Ints) -> None:
        kernels.measure_listed(self._arrays, formulas, sizes, directories)

    def _read(self, formulas: Ints, offsets: Longs, words: Ints) -> None:
        kernels.read_listed(self._arrays, formulas, offsets, words)

    @property
    def bytes(self) -> int:
        """As for all; a list's room to grow is not counted, either."""
        rows = self._arrays.nodes[: self._arrays.state[kernels.NODES_USED]]
        lists = rows[(rows[:, kernels.PARENT] != kernels.NONE) == self._by_word]
        room = lists[:, kernels.CAPACITY].sum() - lists[:, kernels.CHILDREN].sum()
        return super().bytes - int(room) * self._arrays.pool.itemsize
