"""Compiled evaluation of conditions on the elements of a document; its twin is `path_reference.evaluate`.

A condition is a node of a graph (`path_graph`), its answer the set of elements at which it holds: a row of bits, one
for each element and, behind them, one for the document itself. A node is answered once per document, however many
queries share it, and only if some query comes to it: a conjunction with an empty side is empty. Sets are walked by
their members, so that a step costs what it finds.

What needs values of the document, or an answer of the oracle, is first reported as *missing*; the caller fetches it and
asks again.
"""
# ruff: noqa: PLR0917, PLR1714, SIM109 — a kernel takes arrays, and many; Numba likes plain loops and comparisons

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from tocsin.match.path_conditions import (
    ANSWERED,
    ASKED,
    ATTRIBUTE,
    ATTRIBUTES,
    BOTH,
    CHILD,
    CONTENTS,
    EITHER,
    EVERYWHERE,
    EXISTS,
    FEW,
    LABEL,
    MISSING,
    NAMED,
    NEXT,
    NEXT_NUMBER,
    NEXT_STRING,
    NOTHING,
    PLACED,
    ROWS,
    RUN,
    SAME_LABEL,
    START,
    STRING,
    TEXT,
    TEXTS,
    VALUE_LABEL,
    WITHOUT,
)
from tocsin.match.path_member_kernels import mark_members, meets_one, values_at
from tocsin.match.path_set_kernels import (
    first_row,
    is_empty,
    mark,
    set_combined,
    set_held,
    set_named,
    set_placed,
    set_stepped,
)


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
    strings, numbers = np.empty(rows.shape[0], np.int32), np.empty(rows.shape[0], np.float64)
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
                        and first_row(
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
                    first = first_row(by_label, by_kind, by_string, second, left, right & 15, literal[one])
                    compute = first != -1
                if compute:
                    if used >= pool.shape[0]:
                        return at
                    if what != BOTH and what != EITHER:
                        for word in range(pool.shape[1]):
                            pool[used, word] = 0
                    if what == NAMED:
                        set_named(tree, by_label, left, pool, used)
                    elif what == START:
                        mark(pool, used, size)
                    elif what >= ATTRIBUTE and what <= TEXT:
                        start, end, up = ranges[second, 0], ranges[second, 1], what == CHILD
                        set_held(
                            tree, by_label, rows, number, first, start, end, up, left, right, literal[one], pool, used
                        )
                    elif what == PLACED:
                        set_placed(tree, places, counts, right, literal[one], pool, first, used)
                    elif what == BOTH or what == EITHER or what == WITHOUT or what == EVERYWHERE:
                        set_combined(what, pool, first, second, used, size)
                    elif what != NOTHING:
                        set_stepped(tree, what, pool, first, used)
                    if not is_empty(pool, used):
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
                    first = first_row(by_label, by_kind, by_string, kind, label, how, literals[which])
                    if first != -1 and meets_one(
                        tree, by_label, rows, number, first, start, stop, up, label, how, literals[which], pool, found
                    ):
                        flags[member[which, 1]] = 1
            else:
                first = first_row(by_label, by_kind, by_string, kind, label, np.int64(EXISTS), 0.0)
                count = values_at(
                    tree, by_label, rows, number, first, start, stop, up, label, pool, found, strings, numbers
                )
                mark_members(member, literals, low, high, strings[:count], numbers[:count], flags)
    return clauses.shape[0]
