"""Strings that queries mention are found in the bytes of a document, while they come and go."""

from __future__ import annotations

import numpy as np

from tocsin.markup import read_markup
from tocsin.markup.value_kernels import find_values
from tocsin.match.path_graph import Interned
from tocsin.match.path_texts import OLD_MAX, TextTable


def found_in(table, words):
    raw = read_markup("<r>" + "".join(f"<a x='{word}'/>" for word in words) + "</r>").raw
    assert raw is not None
    size = len(words)
    strings, numbers, asked = np.full(size, -1, np.int32), np.full(size, np.nan), np.empty(size, np.int32)
    each = np.arange(size + 1)
    count = find_values(raw.data, raw.value, True, each[:-1], each[1:], table.texts, numbers, strings, asked)
    assert count == 0
    return strings.tolist()


def test_texts_come_go_and_get_other_numbers():
    rng = np.random.default_rng(2)
    words = [f"w{number}" * (1 + number % 3) for number in range(3_000)] + ["", "ü", "x" * 300]
    interned: Interned[str] = Interned()
    table, alive = TextTable(), []
    rebuilt = 0
    for step in range(9_000):
        if step % 3 < 2:
            word = words[rng.integers(len(words))]
            if word in interned.numbers:
                continue
            rows = len(table._rows)
            number = interned.take(word)
            table.put(word, number, interned.numbers)
            rebuilt += len(table._rows) < rows
            alive.append(word)
        while len(alive) > 300 or (alive and step % 3 == 2 and rng.random() < 0.3):
            interned.release(interned.numbers[alive.pop(rng.integers(len(alive)))])
        if step % 1_500 == 0:
            asked = [words[at] for at in rng.permutation(len(words))[:500]]
            found = found_in(table, asked)
            # A number that nobody uses says nothing; all others are right.
            used = set(interned.numbers.values())
            assert [one if one in used else -1 for one in found] == [interned.numbers.get(one, -1) for one in asked]
    assert rebuilt
    assert len(table._rows) <= 2 * len(alive) + OLD_MAX + 1
    assert found_in(table, alive) == [interned.numbers[one] for one in alive]
