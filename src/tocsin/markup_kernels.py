"""Compiled scan of XML that libxml2 has found well-formed; its twin is the reading by events in `markup`.

It takes UTF-8 without an internal DTD subset, so that finding names, values and texts is a matter of delimiters. It
resolves nothing: names are numbered by their bytes and the namespace *scope* they stand in (a scope is opened by an
element that declares a prefix), values and texts are places in the bytes. What would need more than that (very many
names or scopes) gives UNSURE, and the document is read by events instead. It never reads past the end, whatever it is
given.
"""
# ruff: noqa: PLR0917, PLR1714 — a kernel takes arrays, and many; Numba compares numbers faster than it searches sets

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

DONE, UNSURE = 0, 1
END, COMMENT = 0, -1
PROBES_MAX = 64
# Places in `counts`
EVENTS, PIECES, ATTRIBUTES, NAMES, SCOPES, DECLARED, DEEPEST, LONGEST, MOST = range(9)
COUNTS = 9


class Scan(NamedTuple):
    """Where everything stands in a document."""

    tape: Any  # 1 + number of the name of an element that starts, END, or COMMENT
    marks: Any  # pieces of text before the event
    piece: Any  # start and end of a piece of text, and whether it is CDATA
    attribute: Any  # event, name, start and end of the value
    name: Any  # start and end of a name, and its scope
    scope: Any  # of a scope: the one around it
    declared: Any  # scope, start and end of the name 'xmlns…', start and end of the value
    counts: Any


@njit(cache=True, nogil=True, inline="always")
def is_space(byte: Any) -> Any:
    return byte == 32 or byte == 10 or byte == 9 or byte == 13


@njit(cache=True, nogil=True)
def _after(data: Any, at: Any, first: Any, second: Any) -> Any:
    """The place after the next occurrence of two bytes; after three if the first is doubled (--> and ]]>)."""
    end = data.shape[0]
    doubled = first != 63  # '?>' is two bytes, '-->' and ']]>' are three
    while at < end:
        if data[at] == second and data[at - 1] == first and (not doubled or data[at - 2] == first):
            return at + 1
        at += 1
    return at


@njit(cache=True, nogil=True)
def _number(data: Any, start: Any, end: Any, scope: Any, names: Any, table: Any, counts: Any) -> Any:
    """The number of a name in a scope, new if need be; -1 if there are too many."""
    mask = table.shape[0] - 1
    mixed = scope
    for at in range(start, end):
        mixed = (mixed * 31 + data[at]) & 0x3FFFFFFF
    slot = (mixed ^ (mixed >> 15)) & mask
    for _ in range(PROBES_MAX):
        known = table[slot]
        if known < 0:
            number = counts[NAMES]
            if number >= names.shape[0]:
                return np.int64(-1)
            names[number, 0], names[number, 1], names[number, 2] = start, end, scope
            table[slot] = number
            counts[NAMES] += 1
            return np.int64(number)
        if names[known, 2] == scope and names[known, 1] - names[known, 0] == end - start:
            same = True
            for at in range(end - start):
                if data[names[known, 0] + at] != data[start + at]:
                    same = False
                    break
            if same:
                return np.int64(known)
        slot = (slot + 1) & mask
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _is_declaration(data: Any, start: Any, end: Any) -> Any:
    """Is this attribute's name xmlns or xmlns:…?"""
    if end - start < 5 or (end - start > 5 and data[start + 5] != 58):
        return False
    return (
        data[start] == 120
        and data[start + 1] == 109
        and data[start + 2] == 108
        and (data[start + 3] == 110 and data[start + 4] == 115)
    )


@njit(cache=True, nogil=True)
def _start_tag(data: Any, at: Any, scope: Any, attribute: Any, scopes: Any, declared: Any, counts: Any) -> Any:
    """Reads a start tag from the place after its name up to its '>' or '/'.

    Gives that place and the scope of the element; the scope is -1 if there are too many.
    """
    outer, size = scope, data.shape[0]
    while True:
        while at < size and is_space(data[at]):
            at += 1
        if at >= size or data[at] == 62 or data[at] == 47:
            return at, scope
        start = at
        while at < size and not (is_space(data[at]) or data[at] == 61):
            at += 1
        end = at
        while at < size and data[at] != 34 and data[at] != 39:
            at += 1
        value = at + 1
        quote = data[at] if at < size else 0
        at = value
        while at < size and data[at] != quote:
            at += 1
        if _is_declaration(data, start, end):
            if scope == outer:
                scope = counts[SCOPES]
                if scope >= scopes.shape[0]:
                    return at, np.int64(-1)
                scopes[scope] = outer
                counts[SCOPES] += 1
            row = counts[DECLARED]
            if row >= declared.shape[0]:
                return at, np.int64(-1)
            declared[row, 0], declared[row, 1], declared[row, 2] = scope, start, end
            declared[row, 3], declared[row, 4] = value, at
            counts[DECLARED] += 1
        else:
            row = counts[ATTRIBUTES]
            attribute[row, 0], attribute[row, 1], attribute[row, 2], attribute[row, 3] = start, end, value, at
            counts[ATTRIBUTES] += 1
            counts[LONGEST] = max(counts[LONGEST], at - value)
        at += 1


@njit(cache=True, nogil=True)
def _doctype(data: Any, at: Any) -> Any:
    """The place after a DOCTYPE, which has no internal subset."""
    quote = 0
    while at < data.shape[0] and (data[at] != 62 or quote != 0):
        if quote == 0 and (data[at] == 34 or data[at] == 39):
            quote = data[at]
        elif data[at] == quote:
            quote = 0
        at += 1
    return at + 1


@njit(cache=True, nogil=True)
def scan(data: Any, names_max: Any, scopes_max: Any, depth_max: Any) -> Any:
    """DONE and the `Scan` of well-formed XML, or UNSURE and something.

    '<a>' is an event, '<a>x' has a piece, ' a=""' is an attribute, '<a/>' has a name, ' xmlns=""' a scope, and
    '<a></a>' a level: there is room for all that can be. Memory that is never written costs nothing.
    """
    size = data.shape[0]
    names, scopes = min(names_max, size // 4 + 2), min(scopes_max, size // 8 + 2)
    tape, marks = np.empty(size // 2 + 2, np.int32), np.empty(size // 2 + 2, np.int32)
    piece, attribute = np.empty((size // 3 + 2, 3), np.int32), np.empty((size // 5 + 2, 4), np.int32)
    name, declared = np.empty((names, 3), np.int32), np.empty((scopes, 5), np.int32)
    room = 4
    while room < 4 * names:
        room *= 2
    table, scope = np.full(room, -1, np.int32), np.zeros(scopes, np.int32)
    stack, counts = np.zeros(min(depth_max, size // 7 + 3), np.int32), np.zeros(COUNTS, np.int64)
    counts[SCOPES] = 1
    status = _scan(data, tape, marks, piece, attribute, name, table, scope, declared, stack, counts)
    found = Scan(
        tape[: counts[EVENTS]],
        marks[: counts[EVENTS]],
        piece[: counts[PIECES]],
        attribute[: counts[ATTRIBUTES]],
        name[: counts[NAMES]],
        scope[: counts[SCOPES]],
        declared[: counts[DECLARED]],
        counts,
    )
    return status, found


@njit(cache=True, nogil=True)
def _scan(
    data: Any,
    tape: Any,
    marks: Any,
    piece: Any,
    attribute: Any,
    name: Any,
    table: Any,
    scopes: Any,
    declared: Any,
    stack: Any,
    counts: Any,
) -> int:
    """Fills the arrays; one loop, since it runs over every byte of every document."""
    at, size = np.int64(0), np.int64(data.shape[0])
    events, pieces, depth, deepest, most = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while at < size:
        if data[at] != 60:
            start = at
            while at < size and data[at] != 60:
                at += 1
            if depth > 0:
                piece[pieces, 0], piece[pieces, 1], piece[pieces, 2] = start, at, 0
                pieces += 1
            continue
        if at + 2 >= size:
            return UNSURE
        kind = data[at + 1]
        if kind == 47:
            while at < size and data[at] != 62:
                at += 1
            at += 1
            depth -= 1
            tape[events], marks[events] = END, pieces
            events += 1
        elif kind == 63:
            at = _after(data, at + 3, 63, 62)
            tape[events], marks[events] = COMMENT, pieces
            events += 1
        elif kind == 33 and data[at + 2] == 45:
            at = _after(data, at + 6, 45, 62)
            tape[events], marks[events] = COMMENT, pieces
            events += 1
        elif kind == 33 and data[at + 2] == 91:
            start = at + 9
            at = _after(data, at + 11, 93, 62)
            piece[pieces, 0], piece[pieces, 1], piece[pieces, 2] = start, at - 3, 1
            pieces += 1
        elif kind == 33:
            at = _doctype(data, at)
        else:
            start = at + 1
            at = start
            while at < size and not (is_space(data[at]) or data[at] == 47 or data[at] == 62):
                at += 1
            end, first = at, counts[ATTRIBUTES]
            at, scope = _start_tag(data, at, np.int64(stack[depth]), attribute, scopes, declared, counts)
            if scope < 0 or at >= size:
                return UNSURE
            number = _number(data, start, end, scope, name, table, counts)
            if number < 0:
                return UNSURE
            for row in range(first, counts[ATTRIBUTES]):
                of = _number(data, attribute[row, 0], attribute[row, 1], scope, name, table, counts)
                if of < 0:
                    return UNSURE
                attribute[row, 0], attribute[row, 1] = events, of
            most = max(most, counts[ATTRIBUTES] - first)
            tape[events], marks[events] = number + 1, pieces
            events += 1
            deepest = max(deepest, depth + 1)
            if data[at] == 47:
                at += 1
                tape[events], marks[events] = END, pieces
                events += 1
            else:
                depth += 1
                if depth >= stack.shape[0]:
                    return UNSURE
                stack[depth] = scope
            at += 1
    counts[EVENTS], counts[PIECES], counts[DEEPEST], counts[MOST] = events, pieces, deepest, most
    return DONE


@njit(cache=True, nogil=True)
def lay_out(tape: Any, marks: Any, element: Any, text: Any, stack: Any) -> Any:
    """Elements and texts of a tape; gives how many of each.

    element[e] is its parent (-1 for the root), the element after all below it, its first child and next sibling (or
    -1), and the pieces of text inside it, first and end. text[t] is the element that it is in, and its pieces.
    """
    elements, texts, depth, before = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for at in range(tape.shape[0]):
        mark = np.int64(marks[at])
        if mark > before and depth > 0:
            text[texts, 0], text[texts, 1], text[texts, 2] = stack[depth, 0], before, mark
            texts += 1
        before = mark
        if tape[at] == END:
            done = stack[depth, 0]
            element[done, 1], element[done, 5] = elements, mark
            depth -= 1
        elif tape[at] > 0:
            parent = stack[depth, 0] if depth > 0 else np.int64(-1)
            element[elements, 0], element[elements, 4] = parent, mark
            element[elements, 2], element[elements, 3] = -1, -1
            if depth > 0:
                if stack[depth, 1] < 0:
                    element[parent, 2] = elements
                else:
                    element[stack[depth, 1], 3] = elements
                stack[depth, 1] = elements
            depth += 1
            stack[depth, 0], stack[depth, 1] = elements, -1
            elements += 1
    return elements, texts
