"""JSON lines to spans: where the values of each document lie in the bytes that it came in.

A *plain* line is a flat object as almost all are: strings, numbers, lists of these, null. It is read here, and nothing
of it is copied. Any other line is *odd*: what is wrong with it, or right after all, only `intake.document_from_json`
says. So this reader may call any line odd that it does not care for, but a line that it calls plain must be one that
intake takes, with these very values.

Strings are skipped 64 bytes at a time, as `kernels` splits words: one vector comparison finds what ends a string or
needs a second look.
"""
# ruff: noqa: PLR0917 — a kernel takes arrays, and many

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tocsin.match import reference
from tocsin.match.kernels import COMPILED, I64, U8, U32, U64, kernel, load8, lowest_bit, part

KEYS_MAX = 64  # keys of a plain line
NAME_BYTES_MAX = 63
NUMBER_BYTES_MAX = 32
EXPONENT_DIGITS_MAX = 2  # with so few digits, the number is finite
VERSION_DIGITS_MAX = 18  # below 2^63

NUMBER, ESCAPED, NOT_ASCII = 1, 2, 4  # kinds of values; 0: a string that is ASCII as it stands

U = np.uint64
_0, _1, _2, _3, _4, _5, _6, _8, _64 = U(0), U(1), U(2), U(3), U(4), U(5), U(6), U(8), U(64)
_BAD = U(0xFFFFFFFFFFFFFFFF)
_PLAIN, _ODD, _FULL = 0, 1, 2
_FIELD, _ID, _SOURCE, _TIME, _VERSION, _XML = 0, 1, 2, 3, 4, 5
_SPACE, _DIGIT, _LETTER, _MARK, _HEX, _ESCAPE = 1, 2, 4, 8, 16, 32


def _classes() -> U8:
    table = np.zeros(256, np.uint8)
    for characters, kind in (
        (b" \t\r\n", _SPACE),
        (b"0123456789", _DIGIT | _HEX),
        (b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", _LETTER),
        (b"_-.", _MARK),
        (b"abcdefABCDEF", _HEX),
        (b'"\\/bfnrt', _ESCAPE),
    ):
        for character in characters:
            table[character] |= kind
    table.flags.writeable = False
    return table


def _own_names() -> U64:
    names = [int.from_bytes(name, "little") for name in (b"", b"id", b"source", b"time", b"version", b"xml")]
    table = np.array(names, np.uint64)
    table.flags.writeable = False
    return table


_CLASS, _OWN_NAMES = _classes(), _own_names()


class Heads(NamedTuple):
    """One row for each line; the rows of odd lines mean nothing else."""

    odd: U8
    id_start: I64
    id_end: I64
    version: I64


class Spans(NamedTuple):
    """The keys and values of plain lines, in order. A value that is null, or an empty list, has no span."""

    key_start: I64
    key_end: I64
    start: I64
    end: I64
    key: U32  # of a value: the number of its key
    line: U32
    kind: U8


if TYPE_CHECKING or not COMPILED:
    stop_bits = reference.stop_bits
    high_bits = reference.high_bits
else:
    _ir = cgutils.ir

    def _load64(context, builder, array_type, array, index):
        vector = _ir.VectorType(_ir.IntType(8), 64)
        place = builder.gep(context.make_array(array_type)(context, builder, array).data, [index])
        loaded = builder.load(builder.bitcast(place, vector.as_pointer()))
        loaded.align = 1
        return vector, loaded

    @intrinsic
    def stop_bits(typing, buffer, at):
        """One bit for each of 64 bytes: a quotation mark, a backslash or a control character."""

        def generate(context, builder, signature, arguments):
            vector, loaded = _load64(context, builder, signature.args[0], *arguments)

            def constant(value):
                return _ir.Constant(vector, [value] * 64)

            quote = builder.icmp_unsigned("==", loaded, constant(0x22))
            backslash = builder.icmp_unsigned("==", loaded, constant(0x5C))
            control = builder.icmp_unsigned("<", loaded, constant(0x20))
            return builder.bitcast(builder.or_(builder.or_(quote, backslash), control), _ir.IntType(64))

        return types.uint64(buffer, types.uint64), generate

    @intrinsic
    def high_bits(typing, buffer, at):
        """One bit for each of 64 bytes: not ASCII."""

        def generate(context, builder, signature, arguments):
            vector, loaded = _load64(context, builder, signature.args[0], *arguments)
            high = builder.icmp_signed("<", loaded, _ir.Constant(vector, [0] * 64))
            return builder.bitcast(high, _ir.IntType(64))

        return types.uint64(buffer, types.uint64), generate


# --- parts of a line ------------------------------------------------------------------------------------------------


@part
def _skip_space(buffer: U8, at: np.uint64, end: np.uint64) -> np.uint64:
    """The next byte that is no white space."""
    while at < end and _CLASS[buffer[at]] & _SPACE:
        at += _1
    return at


@part
def _is_utf8(buffer: U8, at: np.uint64, end: np.uint64) -> bool:
    """Whole characters only: nothing longer than it need be, no surrogates, nothing above U+10FFFF."""
    while at < end:
        lead = buffer[at]
        low, high = 0x80, 0xBF  # of the second byte
        if lead < 0x80:
            at += _1
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        size = _2 if lead < 0xE0 else (_3 if lead < 0xF0 else _4)
        if lead == 0xE0:
            low = 0xA0
        elif lead == 0xED:
            high = 0x9F
        elif lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
        if at + size > end or buffer[at + _1] < low or buffer[at + _1] > high:
            return False
        for more in range(_2, size):
            if buffer[at + U(more)] & 0xC0 != 0x80:
                return False
        at += size
    return True


@part
def _escape_size(buffer: U8, at: np.uint64) -> np.uint64:
    """The bytes of the escape at this backslash; 0 if it is none, or half of a pair of surrogates."""
    kind = buffer[at + _1]
    if _CLASS[kind] & _ESCAPE:
        return _2
    if kind != 0x75:
        return _0
    for digit in range(_2, _6):
        if not _CLASS[buffer[at + U(digit)]] & _HEX:
            return _0
    is_surrogate = buffer[at + _2] | 0x20 == 0x64 and buffer[at + _3] >= 0x38
    return _0 if is_surrogate else _6


@part
def _skip_string(buffer: U8, start: np.uint64, end: np.uint64) -> tuple[np.uint64, int]:
    """Where the string that begins here is closed, and its kind; _BAD if it is no string."""
    at, high, kind = start, _0, 0
    while at < end:
        stops, highs = stop_bits(buffer, at), high_bits(buffer, at)
        if stops == _0:
            high |= highs
            at += _64
            continue
        first = lowest_bit(stops)
        high |= highs & ((_1 << first) - _1)
        at += first
        if buffer[at] == 0x22:
            if high != _0:
                if not _is_utf8(buffer, start, at):
                    return _BAD, 0
                kind |= NOT_ASCII
            return at, kind
        size = _escape_size(buffer, at) if buffer[at] == 0x5C else _0
        if size == _0:
            return _BAD, 0
        at += size
        kind |= ESCAPED
    return _BAD, 0


@part
def _skip_digits(buffer: U8, at: np.uint64, end: np.uint64) -> np.uint64:
    """The next byte that is no digit."""
    while at < end and _CLASS[buffer[at]] & _DIGIT:
        at += _1
    return at


@part
def _skip_number(buffer: U8, start: np.uint64, end: np.uint64) -> np.uint64:
    """Where the number that begins here ends; _BAD if it is none, or long, or large."""
    at = start
    if buffer[at] == 0x2D:
        at += _1
    digits = at
    at = _skip_digits(buffer, at, end)
    if at == digits or (buffer[digits] == 0x30 and at > digits + _1):
        return _BAD
    if at < end and buffer[at] == 0x2E:
        digits = at + _1
        at = _skip_digits(buffer, digits, end)
        if at == digits:
            return _BAD
    if at < end and buffer[at] | 0x20 == 0x65:
        at += _1
        if at < end and (buffer[at] == 0x2B or buffer[at] == 0x2D):
            at += _1
        digits = at
        at = _skip_digits(buffer, digits, end)
        if at == digits or at - digits > U(EXPONENT_DIGITS_MAX):
            return _BAD
    return at if at - start <= U(NUMBER_BYTES_MAX) else _BAD


@part
def _two_digits(buffer: U8, at: np.uint64) -> int:
    """The number that two digits write; -1 if they are none."""
    if not _CLASS[buffer[at]] & _CLASS[buffer[at + _1]] & _DIGIT:
        return -1
    return (int(buffer[at]) - 48) * 10 + int(buffer[at + _1]) - 48


@part
def _is_time(buffer: U8, at: np.uint64, end: np.uint64) -> bool:
    """Is this a date or a time, as `dates.span` reads it?"""
    if end - at < U(10):
        return False
    century, year = _two_digits(buffer, at), _two_digits(buffer, at + _2)
    month, day = _two_digits(buffer, at + _5), _two_digits(buffer, at + _8)
    if century < 0 or year < 0 or century + year == 0 or not 1 <= month <= 12 or day < 1:
        return False
    if buffer[at + _4] != 0x2D or buffer[at + U(7)] != 0x2D:
        return False
    days = 30 if month in (4, 6, 9, 11) else 31
    if month == 2:
        whole = 100 * century + year
        days = 29 if whole % 4 == 0 and (whole % 100 != 0 or whole % 400 == 0) else 28
    if day > days:
        return False
    at += U(10)
    if at == end:
        return True
    if end - at < U(9) or not (buffer[at] | 0x20 == 0x74 or buffer[at] == 0x20):
        return False
    hour, minute, second = _two_digits(buffer, at + _1), _two_digits(buffer, at + _4), _two_digits(buffer, at + U(7))
    if not 0 <= hour <= 23 or not 0 <= minute <= 59 or not 0 <= second <= 60:
        return False
    if buffer[at + _3] != 0x3A or buffer[at + _6] != 0x3A:
        return False
    at += U(9)
    if at < end and buffer[at] == 0x2E:
        digits = at + _1
        at = _skip_digits(buffer, digits, end)
        if at == digits:
            return False
    if at == end:
        return True
    if end - at == _1:
        return bool(buffer[at] | 0x20 == 0x7A)
    if end - at != _6 or not (buffer[at] == 0x2B or buffer[at] == 0x2D) or buffer[at + _3] != 0x3A:
        return False
    return 0 <= _two_digits(buffer, at + _1) <= 23 and 0 <= _two_digits(buffer, at + _4) <= 59


@part
def _name_size(buffer: U8, start: np.uint64, end: np.uint64) -> np.uint64:
    """The bytes of the field name that begins here and ends at a quotation mark; 0 if there is none."""
    if not _CLASS[buffer[start]] & _LETTER:
        return _0
    at, last = start, min(end, start + U(NAME_BYTES_MAX))
    while at < last and _CLASS[buffer[at]] & (_LETTER | _DIGIT | _MARK):
        at += _1
    return at - start if at < end and buffer[at] == 0x22 else _0


@part
def _low_bytes(size: np.uint64) -> np.uint64:
    """The bits of so many bytes, at most 8."""
    return _BAD if size >= _8 else (_1 << (size << _3)) - _1


@part
def _is_new(buffer: U8, start: np.uint64, end: np.uint64, key_start: I64, key_end: I64, first: int, keys: int) -> bool:
    """Is the key none of those before it in its line?"""
    for key in range(first, keys):
        other = U(key_start[key])
        if U(key_end[key]) - other != end - start:
            continue
        at = start
        while at < end and (load8(buffer, at) ^ load8(buffer, other)) & _low_bytes(end - at) == _0:
            at += _8
            other += _8
        if at >= end:
            return False
    return True


@part
def _own(buffer: U8, start: np.uint64, size: np.uint64) -> int:
    """Which of the keys with a meaning of their own this is (`intake.OWN_KEYS`)."""
    if size < _8:
        head = load8(buffer, start) & _low_bytes(size)
        for name in range(1, 6):
            if head == _OWN_NAMES[name]:
                return name
    return _FIELD


# --- lines ----------------------------------------------------------------------------------------------------------


@part
def _scan_line(
    buffer: U8, at: np.uint64, end: np.uint64, line: int, fields_max: int, values_max: int, keys: int, values: int,
    heads: Heads, spans: Spans,
) -> tuple[int, int, int]:  # fmt: skip
    """Append the keys and values of one line: whether it is plain, and how many keys and values there are then.

    Bytes may be read behind the line's end, which are another line's: then it ends too late, and is odd.
    """
    _, id_start, id_end, version = heads
    key_start, key_end, start, finish, key_of, line_of, kind_of = spans
    first_key, most = keys, min(values + values_max, start.size)
    full = _FULL if most == start.size else _ODD
    has_id = False
    version[line] = 1
    at = _skip_space(buffer, at, end)
    if at >= end or buffer[at] != 0x7B:
        return _ODD, keys, values
    while True:
        at = _skip_space(buffer, at + _1, end)
        name = at + _1
        size = _name_size(buffer, name, end) if at < end and buffer[at] == 0x22 else _0
        at = name + size
        if size == _0 or keys - first_key >= min(fields_max, KEYS_MAX):
            return _ODD, keys, values
        if not _is_new(buffer, name, at, key_start, key_end, first_key, keys):
            return _ODD, keys, values
        own = _own(buffer, name, size)
        key_start[keys] = name
        key_end[keys] = at
        keys += 1
        at = _skip_space(buffer, at + _1, end)
        if at >= end or buffer[at] != 0x3A:
            return _ODD, keys, values
        at = _skip_space(buffer, at + _1, end)
        in_list = at < end and buffer[at] == 0x5B
        if in_list:
            at = _skip_space(buffer, at + _1, end)
        if at >= end:
            return _ODD, keys, values
        if in_list and buffer[at] == 0x5D:
            if own == _ID:
                return _ODD, keys, values
            at += _1
        elif not in_list and buffer[at] == 0x6E:
            if own == _ID or load8(buffer, at) & _low_bytes(_4) != U(0x6C6C756E):
                return _ODD, keys, values
            at += _4
        elif own == _VERSION:
            begin = at
            at = _skip_digits(buffer, at, end)
            if (
                in_list
                or at == begin
                or at - begin > U(VERSION_DIGITS_MAX)
                or (buffer[begin] == 0x30 and at > begin + _1)
            ):
                return _ODD, keys, values
            number = 0
            for digit in range(begin, at):
                number = 10 * number + int(buffer[U(digit)]) - 48
            version[line] = number
        elif own == _XML or (own != _FIELD and (in_list or buffer[at] != 0x22)):
            return _ODD, keys, values  # XML is read as a whole, so its document is made
        else:
            while True:  # one value, or all of a list
                if buffer[at] == 0x22:
                    begin = at + _1
                    stop, kind = _skip_string(buffer, begin, end)
                    at = stop + _1
                    if stop == _BAD:
                        return _ODD, keys, values
                    if own != _FIELD:
                        if kind & ESCAPED or (own == _ID and stop == begin):
                            return _ODD, keys, values
                        if own == _TIME and not _is_time(buffer, begin, stop):
                            return _ODD, keys, values
                    if own == _ID:
                        has_id = True
                        id_start[line] = begin
                        id_end[line] = stop
                else:
                    begin, kind = at, NUMBER
                    at = stop = _skip_number(buffer, begin, end)
                    if stop == _BAD:
                        return _ODD, keys, values
                if values >= most:
                    return full, keys, values
                start[values] = begin
                finish[values] = stop
                key_of[values] = keys - 1
                line_of[values] = line
                kind_of[values] = kind
                values += 1
                if not in_list:
                    break
                at = _skip_space(buffer, at, end)
                if at < end and buffer[at] == 0x5D:
                    at += _1
                    break
                if at >= end or buffer[at] != 0x2C:
                    return _ODD, keys, values
                at = _skip_space(buffer, at + _1, end)
                if at >= end:
                    return _ODD, keys, values
        at = _skip_space(buffer, at, end)
        if at >= end or buffer[at] != 0x2C:
            break
    if at >= end or buffer[at] != 0x7D or not has_id or _skip_space(buffer, at + _1, end) != end:
        return _ODD, keys, values
    return _PLAIN, keys, values


@kernel
def scan_lines(
    buffer: U8,
    offsets: I64,
    bytes_max: int,
    fields_max: int,
    values_max: int,
    heads: Heads,
    spans: Spans,
) -> tuple[int, int, int]:
    """Read the lines buffer[offsets[i]:offsets[i + 1]]; returns how many of them, keys and values there are.

    Stops before a line for which spans have no room. A line that would not fit into empty spans is odd.
    """
    keys, values = 0, 0
    for line in range(offsets.size - 1):
        if keys + KEYS_MAX > spans.key_start.size:
            return line, keys, values
        at, end = U(offsets[line]), U(offsets[line + 1])
        status, new_keys, new_values = _ODD, keys, values
        if end - at <= U(bytes_max):
            status, new_keys, new_values = _scan_line(
                buffer, at, end, line, fields_max, values_max, keys, values, heads, spans
            )
            if status == _FULL and values > 0:
                return line, keys, values
        heads.odd[line] = status != _PLAIN
        if status == _PLAIN:
            keys, values = new_keys, new_values
    return offsets.size - 1, keys, values


@kernel
def lower_values(buffer: U8, starts: I64, ends: I64, lowered: U8, bounds: I64) -> None:
    """Copy ASCII values one after the other, lower-cased: value v becomes lowered[bounds[v]:bounds[v + 1]].

    bounds[0] is 0, and there is room.
    """
    count = _0
    for value in range(starts.size):
        for at in range(U(starts[value]), U(ends[value])):
            byte = buffer[at]
            if byte - np.uint8(0x41) < np.uint8(26):
                byte |= np.uint8(0x20)
            lowered[count] = byte
            count += _1
        bounds[value + 1] = count


@part
def _hex4(buffer: U8, at: np.uint64) -> np.uint64:
    """The number that four hexadecimal digits write."""
    number = _0
    for digit in range(_4):
        byte = U(buffer[at + U(digit)])
        number = (number << _4) | ((byte & U(15)) + U(9) * (byte >> _6))
    return number


@kernel
def fold_values(
    buffer: U8, starts: I64, ends: I64, first: U32, forms: U8, folded: U8, bounds: I64, is_whole: U8
) -> None:
    """Strings as they stand in plain lines, unescaped and folded: value v becomes folded[bounds[v]:bounds[v + 1]].

    Character c becomes forms[first[c]:first[c + 1]]. Where that is nothing, or c is beyond first, is_whole[v] is 0 and
    the value is left out. ASCII stays as it is, but for escapes that are no part of a word, which become spaces.
    bounds[0] is 0, and there is room.
    """
    count, known = _0, U(first.size) - _1
    for value in range(starts.size):
        at, end, begin = U(starts[value]), U(ends[value]), count
        is_whole[value] = 1
        while at < end:
            run = min(lowest_bit(stop_bits(buffer, at) | high_bits(buffer, at)), end - at)
            for ahead in range(run):
                folded[count + U(ahead)] = buffer[at + U(ahead)]
            count += run
            at += run
            if at >= end or run == _64:
                continue
            lead = U(buffer[at])
            if lead < U(0x80):  # a backslash: nothing else in a string stops here
                character, size = U(0x20), _2
                if buffer[at + _1] == 0x75:
                    character, size = _hex4(buffer, at + _2), _6
            elif lead < U(0xE0):
                character, size = ((lead & U(31)) << _6) | (U(buffer[at + _1]) & U(63)), _2
            elif lead < U(0xF0):
                character = ((U(buffer[at + _1]) & U(63)) << _6) | (U(buffer[at + _2]) & U(63))
                character, size = character | ((lead & U(15)) << U(12)), _3
            else:
                character, size = known, _4
            at += size
            if character < U(0x80):
                folded[count] = character
                count += _1
                continue
            if character >= known or first[character] == first[character + _1]:
                is_whole[value] = 0
                count = begin
                break
            for place in range(U(first[character]), U(first[character + _1])):
                folded[count] = forms[place]
                count += _1
        bounds[value + 1] = count
