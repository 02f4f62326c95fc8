"""Compiled evaluation of conditions on the elements of a document; its twin is `path_reference.evaluate`.

A condition is a node of a graph (`path_guards`), its answer the set of elements at which it holds: a row of bits, one
for each element and, behind them, one for the document itself. A node is answered once per document, however many
queries share it, and only if some query comes to it: a conjunction with an empty side is empty. Sets are walked by
their members, so that a step costs what it finds.

What needs values of the document, or an answer of the oracle, is first reported as *missing*; the caller fetches it and
asks again.
"""
# ruff: noqa: PLR0917, PLR1714, SIM109, SIM110 — a kernel takes arrays, and many; Numba likes plain loops and comparisons

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

# What a node says; `left` and `right` are nodes but where noted
(
    NOTHING,  # nowhere
    START,  # the document
    NAMED,  # left: a label
    ATTRIBUTE,  # at an element of the label right >> 4 an attribute of the label left compares, as right & 15 says
    CONTENT,  # the string-value of an element of the label left compares
    CHILD,  # at an element of the label right >> 4 a child of the label left has such a string-value
    TEXT,  # at an element of the label right >> 4 a text compares
    ASKED,  # left: what the oracle is asked
    BOTH,
    EITHER,
    WITHOUT,  # all elements but those
    PARENTS,
    ABOVE,
    CHILDREN,
    BELOW,
    PLACED,  # right: a comparison of the position among the siblings of the set
    EVERYWHERE,  # every element, if the document is in the set
) = range(17)
EXISTS, SAME, DIFFERENT, EQUAL, UNEQUAL, LESS, AT_MOST, MORE, AT_LEAST = range(9)
"""Comparisons: of strings (by their numbers), then of numbers."""
WILDCARD, ANY_ATTRIBUTE = 1, 2
ANSWERED, MISSING, NO_ROOM = 0, 1, 2
ATTRIBUTES, CONTENTS, TEXTS = 0, 1, 2
"""Kinds of values."""
KIND_OF = {ATTRIBUTE: ATTRIBUTES, CONTENT: CONTENTS, CHILD: CONTENTS, TEXT: TEXTS}
PARENT, LAST, FIRST_CHILD, SIBLING, LABEL, SAME_LABEL = range(6)
"""Columns of `tree`; -1 for none."""
OWNER, VALUE_LABEL, STRING, NEXT, NEXT_NUMBER, NEXT_STRING = range(6)
"""Columns of `rows`: the element, the label, the number of the string (or -1), and the chains that a row is in."""
FEW = 4
"""Members of a family that are looked at one by one."""
RUN, ROWS, STAMP = 0, 1, 2
"""Places in `counts`."""
_PLACES = "0 1 28 2 29 14 24 3 30 22 20 15 25 17 4 8 31 27 13 23 21 19 16 7 26 12 18 6 11 5 10 9"
_BITS = np.array([int(place) for place in _PLACES.split()], np.int64)  # by de Bruijn's sequence 0x077CB531


class Document(NamedTuple):
    """A document as the kernel takes it. The document itself stands behind its elements: the root's parent."""

    tree: Any  # of an element: see the columns
    by_label: Any  # of a label: its first element, and the label of `p:*` that it falls under (or -1)
    rows: Any  # values of all kinds
    number: Any  # of a row
    by_kind: Any  # of a kind and a label: its first row, and its first row with a number (or -1)
    by_string: Any  # of a kind and a string: its first row
    range: Any  # of a kind: its first row (-1: not fetched) and the one after its last
    asked: Any  # of a question: its row in the pool, -1 if empty, -2 if not asked yet


class Answers(NamedTuple):
    """What is known so far: memo[n] is run << 32 | row + 1, row in `pool`; row -1 is the empty set."""

    memo: Any
    pool: Any
    counts: Any
    stack: Any
    places: Any  # of an element (for positions): last stamp, and how many children have been met


@njit(cache=True, nogil=True, inline="always")
def _lowest(word: Any) -> Any:
    """The place of the lowest bit that is set."""
    return _BITS[(((word & -word) * 0x077CB531) & 0xFFFFFFFF) >> 27]


@njit(cache=True, nogil=True)
def compares(value: Any, how: Any, literal: Any) -> Any:
    """Does a number compare so?"""
    if how == EQUAL:
        return value == literal
    if how == UNEQUAL:
        return value != literal
    if how == LESS:
        return value < literal
    if how == AT_MOST:
        return value <= literal
    if how == MORE:
        return value > literal
    return value >= literal


@njit(cache=True, nogil=True)
def _mark(pool: Any, row: Any, one: Any) -> None:
    """Puts an element into a set."""
    pool[row, one >> 5] |= np.uint32(np.int64(1) << (one & 31))


@njit(cache=True, nogil=True)
def _fill(pool: Any, row: Any, first: Any, end: Any) -> None:
    """Puts the elements first, …, end - 1 into a set."""
    at = first
    while at < end and at & 31:
        _mark(pool, row, at)
        at += 1
    while at + 32 <= end:
        pool[row, at >> 5] = np.uint32(0xFFFFFFFF)
        at += 32
    while at < end:
        _mark(pool, row, at)
        at += 1


@njit(cache=True, nogil=True)
def _named(tree: Any, by_label: Any, label: Any, pool: Any, row: Any) -> None:
    size = np.int64(tree.shape[0] - 1)
    if label == WILDCARD:
        _fill(pool, row, np.int64(0), size)
        return
    at = np.int64(by_label[label, 0])
    while at >= 0:
        _mark(pool, row, at)
        at = np.int64(tree[at, SAME_LABEL])
    if by_label[label, 1] == label:
        for one in range(size):
            if by_label[tree[one, LABEL], 1] == label:
                _mark(pool, row, np.int64(one))


@njit(cache=True, nogil=True)
def _first_row(by_label: Any, by_kind: Any, by_string: Any, kind: Any, label: Any, how: Any, literal: Any) -> Any:
    """The first value that could compare, or -1; -2 where all of a kind must be looked at."""
    if how == SAME:
        return np.int64(by_string[kind, np.int64(literal)])
    if label == WILDCARD or label == ANY_ATTRIBUTE or by_label[label, 1] == label:
        return np.int64(-2)
    if how == EQUAL or how >= LESS:
        return np.int64(by_kind[kind, label, 1])
    return np.int64(by_kind[kind, label, 0])


@njit(cache=True, nogil=True)
def _held(
    tree: Any,
    by_label: Any,
    rows: Any,
    number: Any,
    first: Any,
    start: Any,
    end: Any,
    up: Any,
    label: Any,
    right: Any,
    literal: Any,
    pool: Any,
    row: Any,
) -> None:
    """The elements of a label whose values (with `up`: their children's) of another label compare.

    Walks only what can compare: the rows of the string, those of the label that are numbers, or those of the label.
    """
    how, owner = right & 15, right >> 4
    every = label == WILDCARD or label == ANY_ATTRIBUTE
    group = not every and by_label[label, 1] == label
    following = NEXT_STRING if how == SAME else (NEXT_NUMBER if how == EQUAL or how >= LESS else NEXT)
    at = start if first == -2 else first
    while at >= 0 and at < end:
        if how == EXISTS:
            holds = True
        elif how == SAME:
            holds = every or group or rows[at, VALUE_LABEL] == label
        elif how == DIFFERENT:
            holds = rows[at, STRING] != literal
        else:
            holds = compares(number[at], how, literal)
        if holds and (not group or by_label[rows[at, VALUE_LABEL], 1] == label):
            one = np.int64(rows[at, OWNER])
            if up:
                one = np.int64(tree[one, PARENT])
            if owner == WILDCARD or (
                one < tree.shape[0] - 1 and (tree[one, LABEL] == owner or by_label[tree[one, LABEL], 1] == owner)
            ):
                _mark(pool, row, one)
        at = at + 1 if first == -2 else np.int64(rows[at, following])


@njit(cache=True, nogil=True)
def _step(tree: Any, what: Any, pool: Any, source: Any, row: Any) -> None:
    """From a set to its parents, ancestors, children or descendants."""
    size = np.int64(tree.shape[0] - 1)
    done = np.int64(0)
    for at in range(pool.shape[1]):
        word = np.int64(pool[source, at])
        while word:
            one = (np.int64(at) << 5) + _lowest(word)
            word &= word - 1
            if what == PARENTS:
                if one < size:
                    _mark(pool, row, np.int64(tree[one, PARENT]))
            elif what == ABOVE:
                while one < size:
                    one = np.int64(tree[one, PARENT])
                    if (np.int64(pool[row, one >> 5]) >> (one & 31)) & 1:
                        break
                    _mark(pool, row, one)
            elif what == CHILDREN:
                one = np.int64(tree[one, FIRST_CHILD]) if one < size else np.int64(0)
                while one >= 0:
                    _mark(pool, row, one)
                    one = np.int64(tree[one, SIBLING])
            elif one == size:
                _fill(pool, row, np.int64(0), size)
            elif one >= done:
                done = np.int64(tree[one, LAST])
                _fill(pool, row, one + 1, done)


@njit(cache=True, nogil=True)
def _placed(tree: Any, places: Any, counts: Any, how: Any, number: Any, pool: Any, source: Any, row: Any) -> None:
    """Those whose position among the siblings in the set compares."""
    counts[STAMP] += 1
    stamp = counts[STAMP]
    for at in range(pool.shape[1]):
        word = np.int64(pool[source, at])
        while word:
            one = (np.int64(at) << 5) + _lowest(word)
            word &= word - 1
            parent = tree[one, PARENT]
            if places[parent, 0] != stamp:
                places[parent, 0] = stamp
                places[parent, 1] = 0
            places[parent, 1] += 1
            if compares(np.float64(places[parent, 1]), how, number):
                _mark(pool, row, one)


@njit(cache=True, nogil=True)
def _combine(what: Any, pool: Any, first: Any, second: Any, row: Any, size: Any) -> None:
    """Sets from sets, word by word."""
    if what == BOTH:
        for at in range(pool.shape[1]):
            pool[row, at] = pool[first, at] & pool[second, at]
    elif what == EITHER:
        for at in range(pool.shape[1]):
            pool[row, at] = pool[first, at] | pool[second, at]
    elif what == WITHOUT:
        _fill(pool, row, np.int64(0), size)
        if first >= 0:
            for at in range(pool.shape[1]):
                pool[row, at] &= ~pool[first, at]
    elif (np.int64(pool[first, size >> 5]) >> (size & 31)) & 1:  # EVERYWHERE
        _fill(pool, row, np.int64(0), size)


@njit(cache=True, nogil=True)
def _is_empty(pool: Any, row: Any) -> Any:
    for at in range(pool.shape[1]):
        if pool[row, at] != 0:
            return False
    return True


@njit(cache=True, nogil=True)
def _miss(missing: Any, what: Any) -> None:
    """Reports a question, or values (~kind); `missing[0]` counts."""
    for at in range(1, missing[0] + 1):
        if missing[at] == what:
            return
    if missing[0] + 1 < missing.shape[0]:
        missing[0] += 1
        missing[missing[0]] = what


@njit(cache=True, nogil=True)
def chain_elements(tree: Any, by_label: Any) -> None:
    """Chains the elements of each label, in document order."""
    for at in range(tree.shape[0] - 2, -1, -1):
        tree[at, SAME_LABEL] = by_label[tree[at, LABEL], 0]
        by_label[tree[at, LABEL], 0] = at


@njit(cache=True, nogil=True)
def chain_values(rows: Any, number: Any, first: Any, by_label: Any, by_string: Any) -> None:
    """Chains rows by label, by label if they are numbers, and by string."""
    for at in range(rows.shape[0] - 1, first - 1, -1):
        label, text = rows[at, VALUE_LABEL], rows[at, STRING]
        rows[at, NEXT] = by_label[label, 0]
        by_label[label, 0] = at
        rows[at, NEXT_NUMBER] = by_label[label, 1]
        if number[at] == number[at]:
            by_label[label, 1] = at
        rows[at, NEXT_STRING] = -1
        if text >= 0:
            rows[at, NEXT_STRING] = by_string[text]
            by_string[text] = at


@njit(cache=True, nogil=True)
def place(member: Any, literals: Any, low: Any, high: Any, how: Any, literal: Any, after: Any) -> Any:
    """Where the first member is that does not come before this comparison and literal (`after`: nor equals it)."""
    while low < high:
        middle = (low + high) >> 1
        if (
            member[middle, 0] < how
            or (member[middle, 0] == how and literals[middle] < literal)
            or (after and member[middle, 0] == how and literals[middle] == literal)
        ):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _flag(member: Any, low: Any, high: Any, flags: Any) -> None:
    for at in range(low, high):
        flags[member[at, 1]] = 1


@njit(cache=True, nogil=True)
def mark_members(member: Any, literals: Any, first: Any, end: Any, strings: Any, numbers: Any, flags: Any) -> None:
    """Marks the slots of the members first, …, end - 1 that some value meets.

    A value is the number of its string, -1 if no condition mentions that, and its number, NaN if it is none.
    """
    if strings.size == 0:
        return
    low, high = np.inf, -np.inf
    one_string, one_number = np.int64(strings[0]) >= 0, numbers[0] == numbers[0]
    for at in range(strings.size):
        text, value = np.int64(strings[at]), numbers[at]
        one_string = one_string and text == strings[0]
        one_number = one_number and value == numbers[0]
        if text >= 0:
            begin = place(member, literals, first, end, SAME, np.float64(text), False)
            _flag(member, begin, place(member, literals, begin, end, SAME, np.float64(text), True), flags)
        if not np.isnan(value):
            begin = place(member, literals, first, end, EQUAL, value, False)
            _flag(member, begin, place(member, literals, begin, end, EQUAL, value, True), flags)
            low, high = min(low, value), max(high, value)
    for how in (DIFFERENT, UNEQUAL):
        begin = place(member, literals, first, end, how, -np.inf, False)
        stop = place(member, literals, begin, end, how, np.inf, True)
        if (how == DIFFERENT and one_string) or (how == UNEQUAL and one_number):  # all but those that equal it
            only = np.float64(strings[0]) if how == DIFFERENT else numbers[0]
            _flag(member, begin, place(member, literals, begin, stop, how, only, False), flags)
            begin = place(member, literals, begin, stop, how, only, True)
        _flag(member, begin, stop, flags)
    if low <= high:
        begin = place(member, literals, first, end, LESS, low, True)
        _flag(member, begin, place(member, literals, begin, end, LESS, np.inf, True), flags)
        begin = place(member, literals, first, end, AT_MOST, low, False)
        _flag(member, begin, place(member, literals, begin, end, AT_MOST, np.inf, True), flags)
        begin = place(member, literals, first, end, MORE, -np.inf, False)
        _flag(member, begin, place(member, literals, begin, end, MORE, high, False), flags)
        begin = place(member, literals, first, end, AT_LEAST, -np.inf, False)
        _flag(member, begin, place(member, literals, begin, end, AT_LEAST, high, True), flags)


@njit(cache=True, nogil=True)
def _is_in(pool: Any, found: Any, one: Any) -> Any:
    """Is the element in all three sets?"""
    word = pool[found[0], one >> 5] & pool[found[1], one >> 5] & pool[found[2], one >> 5]
    return (np.int64(word) >> (one & 31)) & 1


@njit(cache=True, nogil=True)
def _one_member(
    tree: Any,
    by_label: Any,
    rows: Any,
    number: Any,
    first: Any,
    start: Any,
    end: Any,
    up: Any,
    label: Any,
    how: Any,
    literal: Any,
    pool: Any,
    found: Any,
) -> Any:
    """Does a value of the label compare, at an element of the sets? Walks only what can, as `_held` does."""
    every = label == WILDCARD or label == ANY_ATTRIBUTE
    group = not every and by_label[label, 1] == label
    following = NEXT_STRING if how == SAME else (NEXT_NUMBER if how == EQUAL or how >= LESS else NEXT)
    at = start if first == -2 else first
    while at >= 0 and at < end:
        if how == SAME:
            holds = every or group or rows[at, VALUE_LABEL] == label
        elif how == DIFFERENT:
            holds = rows[at, STRING] != literal
        else:
            holds = compares(number[at], how, literal)
        if holds and (not group or by_label[rows[at, VALUE_LABEL], 1] == label):
            one = np.int64(rows[at, OWNER])
            if up:
                one = np.int64(tree[one, PARENT])
            if _is_in(pool, found, one):
                return True
        at = at + 1 if first == -2 else np.int64(rows[at, following])
    return False


@njit(cache=True, nogil=True)
def _values_at(
    tree: Any, by_label: Any, rows: Any, first: Any, start: Any, end: Any, up: Any, label: Any, pool: Any, found: Any
) -> Any:
    """The rows of the label at the elements of the sets."""
    every = label == WILDCARD or label == ANY_ATTRIBUTE
    group = not every and by_label[label, 1] == label
    values = np.empty(16, np.int64)
    count = 0
    at = start if first == -2 else first
    while at >= 0 and at < end:
        if not group or by_label[rows[at, VALUE_LABEL], 1] == label:
            one = np.int64(rows[at, OWNER])
            if up:
                one = np.int64(tree[one, PARENT])
            if _is_in(pool, found, one):
                if count == values.size:
                    more = np.empty(2 * count, np.int64)
                    more[:count] = values
                    values = more
                values[count] = at
                count += 1
        at = at + 1 if first == -2 else np.int64(rows[at, NEXT])
    return values[:count]


@njit(cache=True, nogil=True)
def select(  # one loop, without calls that pass many arrays: it runs for every candidate
    node: Any,
    literal: Any,
    tree: Any,
    by_label: Any,
    rows: Any,
    number: Any,
    by_kind: Any,
    by_string: Any,
    ranges: Any,
    asked: Any,
    memo: Any,
    pool: Any,
    counts: Any,
    stack: Any,
    places: Any,
    tests: Any,
    clauses: Any,
    slots: Any,
    family: Any,
    member: Any,
    literals: Any,
    flags: Any,
    waiting: Any,
    missing: Any,
) -> Any:
    """Marks the slots of the clauses whose conditions hold together at some element.

    A clause has up to three conditions, tests[clause]. One of a family (its slot is ~family) marks the members whose
    comparison some value at such an element meets. Gives how many clauses were looked at: fewer than all if the
    pool is full. waiting[0] counts the clauses that need something missing, written behind it.

    node[n] is what a condition says, left and right; `literal` what values and positions compare with. The other
    arrays are those of `Document` and `Answers`.
    """
    run, size = counts[RUN], np.int64(tree.shape[0] - 1)
    found = np.zeros(3, np.int64)
    for at in range(clauses.shape[0]):
        clause = clauses[at]
        slot = np.int64(slots[clause])
        kind, low, high = np.int64(0), np.int64(0), np.int64(0)  # of a family: its values and its members
        if slot >= 0:
            if flags[slot]:
                continue
        else:
            low = np.int64(family[~slot, 0])
            high = low + np.int64(family[~slot, 1])
            kind = np.int64(ATTRIBUTES if family[~slot, 2] == ATTRIBUTE else CONTENTS)
            if ranges[kind, 0] < 0:
                _miss(missing, ~kind)
                waiting[0] += 1
                waiting[waiting[0]] = clause
                continue
            if high - low <= FEW:  # values decide sooner than structure
                is_possible = False
                for which in range(low, high):
                    if (
                        not flags[member[which, 1]]
                        and _first_row(
                            by_label,
                            by_kind,
                            by_string,
                            kind,
                            np.int64(family[~slot, 3]),
                            member[which, 0],
                            literals[which],
                        )
                        != -1
                    ):
                        is_possible = True
                        break
                if not is_possible:
                    continue
        status, result = ANSWERED, np.int64(0)
        for part in range(3):
            root = np.int64(tests[clause, part])
            if root < 0:
                found[part] = found[0]
                continue
            depth = 0
            if memo[root] >> 32 != run:
                stack[0] = root
                depth = 1
            while depth > 0:
                one = np.int64(stack[depth - 1])
                if memo[one] >> 32 == run:
                    depth -= 1
                    continue
                what, left, right = node[one, 0], np.int64(node[one, 1]), np.int64(node[one, 2])
                first, second, used = np.int64(-1), np.int64(-1), counts[ROWS]
                known = np.int64(-1)  # the row of the answer, if nothing has to be computed
                compute = True
                if what >= BOTH:
                    if memo[left] >> 32 != run:
                        stack[depth] = left
                        depth += 1
                        continue
                    first = (memo[left] & 0xFFFFFFFF) - 1
                    compute = first >= 0 or what == EITHER or what == WITHOUT
                    if compute and what <= EITHER:
                        if memo[right] >> 32 != run:
                            stack[depth] = right
                            depth += 1
                            continue
                        second = (memo[right] & 0xFFFFFFFF) - 1
                        if first < 0 or second < 0:  # of BOTH only the second can be empty here
                            compute = False
                            known = np.int64(-1) if what == BOTH else max(first, second)
                elif what == ASKED:
                    if asked[left] == -2:
                        _miss(missing, left)
                        status = MISSING
                        break
                    known, compute = np.int64(asked[left]), False
                elif what >= ATTRIBUTE:
                    second = np.int64(ATTRIBUTES if what == ATTRIBUTE else (TEXTS if what == TEXT else CONTENTS))
                    if ranges[second, 0] < 0:
                        _miss(missing, ~second)
                        status = MISSING
                        break
                    first = _first_row(by_label, by_kind, by_string, second, left, right & 15, literal[one])
                    compute = first != -1
                if compute:
                    if used >= pool.shape[0]:
                        return at
                    if what != BOTH and what != EITHER:
                        for word in range(pool.shape[1]):
                            pool[used, word] = 0
                    if what == NAMED:
                        _named(tree, by_label, left, pool, used)
                    elif what == START:
                        _mark(pool, used, size)
                    elif what >= ATTRIBUTE and what <= TEXT:
                        start, end, up = ranges[second, 0], ranges[second, 1], what == CHILD
                        _held(
                            tree, by_label, rows, number, first, start, end, up, left, right, literal[one], pool, used
                        )
                    elif what == PLACED:
                        _placed(tree, places, counts, right, literal[one], pool, first, used)
                    elif what == BOTH or what == EITHER or what == WITHOUT or what == EVERYWHERE:
                        _combine(what, pool, first, second, used, size)
                    elif what != NOTHING:
                        _step(tree, what, pool, first, used)
                    if not _is_empty(pool, used):
                        counts[ROWS] += 1
                        known = used
                memo[one] = (run << 32) | (known + 1)
                depth -= 1
            if status != ANSWERED:
                break
            result = (memo[root] & 0xFFFFFFFF) - 1
            if result < 0:
                break
            found[part] = result
        if status == MISSING:
            waiting[0] += 1
            waiting[waiting[0]] = clause
        elif result >= 0:
            is_somewhere = False
            for word in range(pool.shape[1]):
                if pool[found[0], word] & pool[found[1], word] & pool[found[2], word]:
                    is_somewhere = True
                    break
            if not is_somewhere:
                continue
            if slot >= 0:
                flags[slot] = 1
                continue
            label, up = np.int64(family[~slot, 3]), family[~slot, 2] == CHILD
            start, stop = ranges[kind, 0], ranges[kind, 1]
            if high - low <= FEW:
                for which in range(low, high):
                    if flags[member[which, 1]]:
                        continue
                    how = np.int64(member[which, 0])
                    first = _first_row(by_label, by_kind, by_string, kind, label, how, literals[which])
                    if first != -1 and _one_member(
                        tree, by_label, rows, number, first, start, stop, up, label, how, literals[which], pool, found
                    ):
                        flags[member[which, 1]] = 1
            else:
                first = _first_row(by_label, by_kind, by_string, kind, label, np.int64(EXISTS), 0.0)
                values = _values_at(tree, by_label, rows, first, start, stop, up, label, pool, found)
                mark_members(member, literals, low, high, rows[values, STRING], number[values], flags)
    return clauses.shape[0]
