"""The laws of monotonic types, before any engine (relational subscriptions §2.4)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tocsin.views import value as v
from tocsin.views.aggregate import FUNCTIONS, Member, aggregate, count, largest, latest, loosely, tally, total
from tocsin.views.expression import OPERATIONS
from tocsin.views.value import (
    DELETED,
    SILENT,
    UNKNOWN,
    Growing,
    Latest,
    Rows,
    SoFar,
    at_least,
    at_most,
    between,
    bounds,
    is_final,
    json_of,
    may_evolve,
    now_of,
)

SMALL = st.integers(-3, 3)
FINALS = st.one_of(SMALL, st.none())
NUMBERS = st.one_of(
    FINALS,
    st.just(UNKNOWN),
    SMALL.map(at_least),
    SMALL.map(at_most),
    st.tuples(SMALL, SMALL).map(lambda pair: between(min(pair), max(pair))),
    st.one_of(SMALL, st.none()).map(SoFar),
)
TRUTHS = st.one_of(st.booleans(), st.none(), st.just(UNKNOWN), st.one_of(st.booleans(), st.none()).map(SoFar))
ANY = st.one_of(NUMBERS, TRUTHS, st.sampled_from([SILENT, DELETED]),
                st.tuples(SMALL, SMALL).map(lambda pair: Latest(*pair)))  # fmt: skip

BINARY = ["+", "-", "*", "div", "/", "%", "<", "<=", ">", ">=", "=", "<>", "greatest", "least", "coalesce"]
UNARY = ["neg", "abs", "isnull", "floor", "ceil", "round", "real", "integer", "text"]


POOL: list[v.Value] = [
    *range(-3, 4), None, UNKNOWN, *map(at_least, range(-3, 4)), *map(at_most, range(-3, 4)),
    *(between(a, b) for a in range(-3, 4) for b in range(a + 1, 4)), *map(SoFar, range(-3, 4)), SoFar(None),
]  # fmt: skip


def later(value: v.Value) -> st.SearchStrategy[v.Value]:
    """Values that it may evolve to."""
    return st.sampled_from([value, *(other for other in POOL if may_evolve(value, other))])


def fact(value: v.Value) -> object:
    """What is certain; now is not."""
    return (SoFar, value.low, value.high) if isinstance(value, SoFar) else value


# --- the order -------------------------------------------------------------------------------------------------------


@given(ANY)
def test_every_value_may_stay_as_it_is(value):
    assert may_evolve(value, value)


@given(ANY, ANY)
def test_two_values_that_may_evolve_to_each_other_say_the_same(value, other):
    if may_evolve(value, other) and may_evolve(other, value):
        assert fact(value) == fact(other)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_the_order_is_transitive(first, second, third):
    if may_evolve(first, second) and may_evolve(second, third):
        assert may_evolve(first, third)


@given(ANY)
def test_unknown_is_the_bottom(value):
    assert may_evolve(UNKNOWN, value)
    assert value is UNKNOWN or not may_evolve(value, UNKNOWN)


@given(ANY, ANY)
def test_finals_never_change(value, other):
    if is_final(value) and may_evolve(value, other):
        assert other == value


# --- operators -------------------------------------------------------------------------------------------------------


@pytest.mark.row("G6")
@pytest.mark.parametrize("name", BINARY)
@given(data=st.data())
def test_every_operation_of_two_is_monotone(name, data):
    """v › v' implies F(v) › F(v')."""
    a, b = data.draw(NUMBERS), data.draw(NUMBERS)
    a2, b2 = data.draw(later(a)), data.draw(later(b))
    operation = OPERATIONS[name]
    assert may_evolve(operation(a, b), operation(a2, b2))


@pytest.mark.row("G6")
@pytest.mark.parametrize("name", UNARY)
@given(data=st.data())
def test_every_operation_of_one_is_monotone(name, data):
    a = data.draw(NUMBERS)
    assert may_evolve(OPERATIONS[name](a), OPERATIONS[name](data.draw(later(a))))


@pytest.mark.row("G6")
@given(st.data())
def test_logic_and_choice_are_monotone(data):
    def evolved(value: v.Value) -> v.Value:
        found: v.Value = data.draw(TRUTHS.filter(lambda other: may_evolve(value, other)))
        return found

    a, b = data.draw(TRUTHS), data.draw(TRUTHS)
    a2, b2 = evolved(a), evolved(b)
    x, y = data.draw(NUMBERS), data.draw(NUMBERS)
    x2, y2 = data.draw(later(x)), data.draw(later(y))
    assert may_evolve(v.both(a, b), v.both(a2, b2))
    assert may_evolve(v.either(a, b), v.either(a2, b2))
    assert may_evolve(v.negation(a), v.negation(a2))
    assert may_evolve(v.truth(a), v.truth(a2))
    assert may_evolve(v.choose(a, x, y), v.choose(a2, x2, y2))


@pytest.mark.row("G6")
@given(st.data())
def test_compositions_are_monotone(data):
    """§2.4: all operators preserve monotonicity, so that compositions do; predicates go from so far to final."""
    names = data.draw(st.lists(st.sampled_from(["+", "-", "*", "div", "greatest", "least"]), min_size=1, max_size=4))
    values = [data.draw(NUMBERS) for _ in range(len(names) + 1)]
    evolved = [data.draw(later(value)) for value in values]

    def compute(operands):
        held = operands[0]
        for name, operand in zip(names, operands[1:], strict=True):
            held = OPERATIONS[name](held, operand)
        return held

    assert may_evolve(compute(values), compute(evolved))
    before, after = v.less(compute(values), 2), v.less(compute(evolved), 2)
    assert may_evolve(before, after)
    assert not is_final(before) or after == before


@given(st.data())
def test_the_final_value_lies_within_the_bounds(data):
    a, b = data.draw(NUMBERS), data.draw(NUMBERS)
    x, y = (data.draw(st.sampled_from([o for o in POOL if is_final(o) and may_evolve(c, o)])) for c in (a, b))
    for name in BINARY:
        assert may_evolve(OPERATIONS[name](a, b), OPERATIONS[name](x, y)), name


@given(ANY, ANY)
def test_the_algebra_is_total_on_special_values(value, other):
    """§2.1: operations are fully defined over all values including unknown, silent and deleted."""
    assume(not any(isinstance(now_of(x), bool) for x in (value, other)))
    for special, name in product((SILENT, DELETED, UNKNOWN), BINARY[:-1]):
        if name not in ("greatest", "least"):
            result = OPERATIONS[name](special, other)
            assert result in (SILENT, DELETED, UNKNOWN, None) or isinstance(result, SoFar)
        OPERATIONS[name](value, special)


def test_integer_division_truncates_and_division_by_zero_is_null():
    assert [v.divide_integers(a, b) for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2))] == [3, -3, -3, 3]
    assert [v.remainder(a, b) for a, b in ((7, 2), (-7, 2), (7, -2))] == [1, -1, 1]
    assert v.divide(1, 0) is v.divide_integers(1, 0) is v.remainder(1, 0) is None
    assert v.multiply(1e308, 10.0) is None


def test_a_predicate_is_so_far_until_the_bounds_decide():
    """§1.2.3: max(price) < 100 is temporarily true, then finally true or false."""
    assert v.less(at_least(80), 100) == SoFar(True)
    assert v.less(at_least(100), 100) is False
    assert v.less(99, 100) is True
    assert v.greater(at_least(101), 100) is True


def test_growing_values_on_both_sides_of_a_minus_bound_nothing():
    assert v.subtract(at_least(5), at_least(3)) == SoFar(2)
    assert bounds(v.subtract(at_least(5), at_most(3))) == (2, None)
    assert v.subtract(10, between(1, 3)) == SoFar(9, 7, 9)


# --- Figure 2 --------------------------------------------------------------------------------------------------------


def members(*cells: v.Value) -> tuple[list[Member], int]:
    """A column of Figure 2(a): numbers, S and ?."""
    return [Member(True, (cell,)) for cell in cells if cell not in (SILENT, UNKNOWN)], cells.count(UNKNOWN)


S, Q = SILENT, UNKNOWN
COLUMN: list[v.Value] = [Q, S, 0, 1, 2, 3]


@pytest.mark.row("G5")
def test_figure_2():
    """§2.4, Figure 2: (a) a column of 0..3, (b) its max, (c) its count over three rows that the key bounds."""
    assert largest(*members(S, Q, 2)) == at_least(2)
    assert largest(*members(S, S, 2)) == 2
    assert largest(*members(Q, Q, 1)) == at_least(1)
    assert count(*members(Q, Q, Q)) == between(0, 3)
    assert count(*members(1, Q, Q)) == between(1, 3)
    assert count(*members(1, S, Q)) == between(1, 2)
    assert count(*members(1, S, 2)) == 2
    assert json_of(count(*members(1, S, Q))) == {"between": [1, 2]}
    assert json_of(largest(*members(S, Q, 2))) == {"at_least": 2}
    assert json_of(latest([Member(True, (81,), (17, 0))], 1)) == {"latest": 81, "tick": 17}
    for rows in product(COLUMN, repeat=3):
        for at, cell in product(range(3), COLUMN):
            if rows[at] is Q:
                evolved = (*rows[:at], cell, *rows[at + 1 :])
                for function in (largest, count, FUNCTIONS["min"]):
                    assert may_evolve(function(*members(*rows)), function(*members(*evolved)))


ROWS = st.tuples(st.one_of(SMALL, st.none(), st.floats(-9, 9)), st.integers(0, 99))
MEMBERS = st.tuples(st.sampled_from([True, SoFar(True), SoFar(False), False]), NUMBERS, st.integers(0, 5))


@pytest.mark.row("G6")
@pytest.mark.parametrize("name", ["count", "sum", "max", "min"])
@given(data=st.data())
def test_aggregates_are_monotone_in_members_and_in_what_may_come(name, data):
    drawn = data.draw(st.lists(MEMBERS, max_size=4))
    before = [Member(present, (value,), (0, 0), (at,)) for at, (present, value, _) in enumerate(drawn)]
    after = []
    for member in before:
        present = data.draw(st.sampled_from([member.present, True, False]) if not is_final(member.present)
                            else st.just(member.present))  # fmt: skip
        after.append(Member(present, (data.draw(later(member.value)),), (0, 0), member.key))
    arriving = data.draw(st.integers(0, 3))
    more = data.draw(st.one_of(st.none(), st.integers(arriving, 5)))
    after += [Member(True, (data.draw(FINALS),), (0, 0), (100 + at,)) for at in range(arriving)]
    left = None if more is None else data.draw(st.integers(0, more - arriving))
    first, second = aggregate(name, before, more), aggregate(name, after, left)
    assert may_evolve(loosely(first), loosely(second)) or second is UNKNOWN
    if second is not UNKNOWN:
        assert may_evolve(first, second)


@pytest.mark.parametrize("name", ["count", "sum", "max", "min", "latest", "collect"])
@given(rows=st.lists(ROWS, max_size=6, unique_by=lambda row: row[1]), more=st.one_of(st.none(), st.integers(0, 3)))
def test_a_tally_gives_what_its_definition_gives(name, rows, more):
    counted = tally(name, ("value",))
    for value, tick in rows:
        counted.add((value,), (tick, 0), (tick,))
    found = [Member(True, (value,), (tick, 0), (tick,)) for value, tick in rows]
    assert counted.result(more) == aggregate(name, found, more, ("value",))


@given(st.lists(st.floats(-1e300, 1e300), max_size=8), st.randoms(use_true_random=False))
def test_a_sum_does_not_depend_on_the_order_of_arrival(numbers, chance):
    shuffled = numbers[:]
    chance.shuffle(shuffled)
    sums = []
    for order in (numbers, shuffled):
        counted = tally("sum")
        for at, number in enumerate(order):
            counted.add((number,), (at, 0), (at,))
        sums.append(counted.result(0))
    assert sums[0] == sums[1]
    assert total([Member(True, (number,)) for number in numbers], 0) == sums[0]


# --- deletion --------------------------------------------------------------------------------------------------------


def test_a_relation_as_a_value_only_grows():
    one, two = Rows(("x",), ((1,),)), Rows(("x",), ((1,), (2,)))
    assert may_evolve(Growing(one), Growing(two))
    assert may_evolve(Growing(one), two)
    assert not may_evolve(Growing(two), Growing(one))
    assert not may_evolve(two, Growing(two))
    assert json_of(Growing(one)) == {"so_far": [{"x": 1}]}
    assert json_of(two) == [{"x": 1}, {"x": 2}]
