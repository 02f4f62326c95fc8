"""Places of keys by array: what a dictionary says, key by key."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tocsin.views.column_keys import Codes, Keys
from tocsin.views.columns import Encoder
from tocsin.views.expression import Column, Type

VALUES: dict[Type, list[Any]] = {
    Type.TEXT: ["a", "b", "", "é", None],
    Type.INTEGER: [0, 1, -1, 3, (1 << 63) - 1, -(1 << 63), None],
    Type.REAL: [0.0, -0.0, 1.0, 0.1, -2.5, 1e300, None],
    Type.BOOLEAN: [True, False, None],
}


@pytest.mark.parametrize("seed", range(40))
def test_keys_have_the_places_that_a_dictionary_gives_them(seed):
    """Any number of columns of any types, null among them, batch after batch."""
    chance = random.Random(seed)
    types = [chance.choice(list(VALUES)) for _ in range(chance.randint(1, 4))]
    encoder = Encoder([Column(at, kind) for at, kind in enumerate(types)])
    keys, twin = Keys(types), dict[tuple[Any, ...], int]()
    for _ in range(6):
        rows = [tuple(chance.choice(VALUES[kind]) for kind in types) for _ in range(chance.randint(1, 12))]
        columns = encoder.encode(range(len(rows)), list(zip(*rows, strict=True)))
        before = len(twin)
        wanted = [twin.setdefault(row, len(twin)) for row in rows]
        places, new = keys.places(columns.vectors)
        assert places.tolist() == wanted
        assert [rows[at] for at in new.tolist()] == list(twin)[before:]
        held = [vector.scalars() for vector in keys.at(np.arange(len(keys)))]
        assert list(zip(*held, strict=True)) == list(twin)


def test_integers_beyond_64_bits_have_places_of_their_own():
    """They come as Python's own, some batches and not others."""
    from tocsin.views.columns import Vector

    keys = Keys([Type.INTEGER])
    assert keys.places([Vector(np.array([1, 2]))])[0].tolist() == [0, 1]
    found, new = keys.places([Vector(np.array([2, 1 << 70, -(1 << 70), 1, 1 << 70], object))])
    assert found.tolist() == [1, 2, 3, 0, 2]
    assert new.tolist() == [1, 2]


def test_numbers_are_given_in_the_order_of_appearance():
    """However many come at once, and whatever was there before."""
    chance, codes, twin = random.Random(1), Codes(), dict[int, int]()
    for size in [1, 3, 500, 2, 2, 40, 1000, 1]:
        values = [chance.randint(-300, 300) << chance.choice([0, 40]) for _ in range(size)]
        assert codes.encode(np.array(values)).tolist() == [twin.setdefault(value, len(twin)) for value in values]
        assert len(codes) == len(twin)
