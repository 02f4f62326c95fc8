"""What each kernel means: the same names in plain Python over lists, sets and dictionaries. Slow, and the definition.

Here a value is bytes, a clause is a list of keys, a batch's marks are {key: mask of documents}; a missing word is None.
Kernels whose names begin with an underscore are parts of others and have no twin. The first seven stand in for single
machine instructions when Numba does not compile (NUMBA_DISABLE_JIT=1).
"""
# ruff: noqa: PLR0917 — as many arguments as the kernels have

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.dates import span

Marks = dict[int, int]
Clause = Sequence[int]
Own = dict[tuple[int, int], int]  # (field, word): the key made for it; the field of bare keys is FIELD_ANY
Further = dict[tuple[int, int], list[int]]  # (field, word): keys added to it

FIELD_ANY = 0xFFFFFFFD
ONLY_SCOPED = 0x80000000
_WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]+")

# --- single instructions --------------------------------------------------------------------------------------------


def word_bits(buffer: npt.NDArray[np.uint8], at: int | np.uint64) -> np.uint64:
    """One bit for each of 64 bytes: an ASCII letter or digit, or not ASCII at all."""
    window = buffer[int(at) : int(at) + 64].tobytes()
    bits = 0
    for found in _WORD.finditer(window):
        bits |= (1 << found.end()) - (1 << found.start())
    return np.uint64(bits)


def stop_bits(buffer: npt.NDArray[np.uint8], at: int | np.uint64) -> np.uint64:
    """One bit for each of 64 bytes: a quotation mark, a backslash or a control character."""
    window = buffer[int(at) : int(at) + 64].tobytes()
    return np.uint64(sum(1 << place for place, byte in enumerate(window) if byte in b'"\\' or byte < 0x20))


def high_bits(buffer: npt.NDArray[np.uint8], at: int | np.uint64) -> np.uint64:
    """One bit for each of 64 bytes: not ASCII."""
    window = buffer[int(at) : int(at) + 64].tobytes()
    return np.uint64(sum(1 << place for place, byte in enumerate(window) if byte >= 0x80))


def load8(buffer: npt.NDArray[np.uint8], at: int | np.uint64) -> np.uint64:
    """Eight bytes from any place, the first one lowest."""
    return np.uint64(int.from_bytes(buffer[int(at) : int(at) + 8].tobytes(), "little"))


def lowest_bit(bits: int | np.uint64) -> np.uint64:
    """The number of the lowest bit that is set; 64 if there is none."""
    return np.uint64((int(bits) & -int(bits)).bit_length() - 1 if bits else 64)


def count_bits(bits: int | np.uint64) -> np.uint64:
    """How many bits are set."""
    return np.uint64(int(bits).bit_count())


def fetch(array: npt.NDArray[Any], at: int | np.uint64) -> None:
    """Nothing: a hint to the cache."""


# --- words and their table ------------------------------------------------------------------------------------------


def has_non_ascii(values: Sequence[bytes]) -> list[bool]:
    """Has the value a byte outside ASCII?"""
    return [not value.isascii() for value in values]


def split_words(value: bytes) -> list[tuple[int, int]]:
    """Start and end of each word: runs of ASCII letters and digits and of bytes that are not ASCII."""
    return [found.span() for found in _WORD.finditer(value)]


def insert_words(values: Sequence[bytes], numbers: dict[bytes, int]) -> list[int]:
    """Words are numbered in order of arrival."""
    return [numbers.setdefault(value, len(numbers)) for value in values]


def rebuild_slots(words: Sequence[bytes]) -> dict[bytes, int]:
    """A table from the list of its words."""
    return {word: number for number, word in enumerate(words)}


def find_values(values: Sequence[bytes], numbers: Mapping[bytes, int]) -> list[int | None]:
    """Each value as one word."""
    return [numbers.get(value) for value in values]


# --- keys of words --------------------------------------------------------------------------------------------------


def bind_bare(words: Sequence[int], own: Own, next_key: int) -> list[int]:
    """The bare key of each word; those without one get the next free keys."""
    return bind_scoped(words, FIELD_ANY, own, next_key)


def bind_scoped(words: Sequence[int], field: int, own: Own, next_key: int) -> list[int]:
    """The key of each word in the field; pairs without one get the next free keys."""
    keys = []
    for word in words:
        if (field, word) not in own:
            own[field, word] = next_key
            next_key += 1
        keys.append(own[field, word])
    return keys


def insert_scopes(words: Sequence[int], fields: Sequence[int], keys: Sequence[int], further: Further) -> int:
    """Give each (field, word) a further key; how many were new."""
    new = 0
    for word, field, key in zip(words, fields, keys, strict=True):
        held = further.setdefault((field, word), [])
        if key not in held:
            held.append(key)
            new += 1
    return new


def rebuild_scopes(own: Own, further: Further) -> tuple[Own, Further]:
    """The same keys in another table."""
    return dict(own), {pair: list(keys) for pair, keys in further.items()}


# --- text to marks --------------------------------------------------------------------------------------------------


def _keys_of(word: int, field: int, own: Own, further: Further) -> set[int]:
    fields = [field & ~ONLY_SCOPED] if field & ONLY_SCOPED else [field, FIELD_ANY]
    made = {own[at, word] for at in fields if (at, word) in own}
    return made.union(*(further.get((at, word), []) for at in fields))


def mark_words(
    values: Sequence[bytes],
    docs: Sequence[int],
    fields: Sequence[int],
    numbers: Mapping[bytes, int],
    own: Own,
    further: Further,
) -> Marks:
    """In which documents does each key occur? ASCII is lower-cased here, the rest by the caller."""
    marks: Marks = {}
    for value, doc, field in zip(values, docs, fields, strict=True):
        for start, end in split_words(value):
            word = numbers.get(value[start:end].lower())
            for key in () if word is None else _keys_of(word, field, own, further):
                marks[key] = marks.get(key, 0) | 1 << doc
    return marks


def mark_values(
    values: Sequence[bytes],
    docs: Sequence[int],
    fields: Sequence[int],
    numbers: Mapping[bytes, int],
    own: Own,
    further: Further,
) -> Marks:
    """The same where each value is one folded word."""
    marks: Marks = {}
    for value, doc, field in zip(values, docs, fields, strict=True):
        word = numbers.get(value)
        for key in () if word is None else _keys_of(word, field, own, further):
            marks[key] = marks.get(key, 0) | 1 << doc
    return marks


def mark_surfaces(
    values: Sequence[bytes],
    docs: Sequence[int],
    fields: Sequence[int],
    surfaces: Mapping[bytes, int | None],
    own: Own,
    further: Further,
) -> tuple[Marks, list[tuple[int, int, int]]]:
    """The same where surface forms stand for words after analysis; and the surface forms that are not known."""
    marks: Marks = {}
    unknown = []
    for number, (value, doc, field) in enumerate(zip(values, docs, fields, strict=True)):
        for start, end in split_words(value):
            surface = value[start:end].lower()
            if surface not in surfaces:
                unknown.append((number, start, end))
            elif (word := surfaces[surface]) is not None:
                for key in _keys_of(word, field, own, further):
                    marks[key] = marks.get(key, 0) | 1 << doc
    return marks, unknown


def find_occurrences(
    values: Sequence[bytes],
    docs: Sequence[int],
    chosen: int,
    surfaces: Mapping[bytes, int | None],
    wanted: Callable[[int], bool],
) -> list[tuple[int, int, int]]:
    """(word, value, position) of the wanted words in the values of chosen documents."""
    return [
        (word, number, position)
        for number, (value, doc) in enumerate(zip(values, docs, strict=True))
        if chosen >> doc & 1
        for position, (start, end) in enumerate(split_words(value))
        if (word := surfaces.get(value[start:end].lower())) is not None and wanted(word)
    ]


def sort_occurrences(occurrences: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """By word; otherwise in the order given."""
    return sorted(occurrences, key=lambda row: row[0])


# --- marks to clauses -----------------------------------------------------------------------------------------------


def collect_touched(marks: Marks) -> list[int]:
    """The keys that occur, in order."""
    return sorted(key for key, mask in marks.items() if mask)


def count_marks(marks: Marks, frequency: dict[int, int]) -> None:
    """Add to the frequency of each key the number of documents that have it."""
    for key, mask in marks.items():
        frequency[key] = frequency.get(key, 0) + mask.bit_count()


def clear_marks(marks: Marks) -> None:
    """No key occurs."""
    marks.clear()


def match_masks(clauses: Sequence[Clause], marks: Marks, documents: int) -> dict[int, int]:
    """The clauses that hold in some document: all their keys occur there. documents is the mask of the whole batch."""
    found = {}
    for number, clause in enumerate(clauses):
        mask = documents
        for key in clause:
            mask &= marks.get(key, 0)
        if mask:
            found[number] = mask
    return found


def match_one(clauses: Sequence[Clause], keys: Iterable[int]) -> list[int]:
    """The clauses that hold in the document that has these keys."""
    present = set(keys)
    return [number for number, clause in enumerate(clauses) if present.issuperset(clause)]


def match_chains(clauses: Sequence[Clause], marks: Marks, documents: int, count: int) -> dict[int, int]:
    """match_masks over the first so many clauses."""
    return match_masks(clauses[:count], marks, documents)


def expand_owners(
    found: Iterable[tuple[int, int]], owners: Sequence[Sequence[int]], dead: set[int]
) -> list[tuple[int, int]]:
    """(owner, mask) for each living owner of the entries found."""
    return [(owner, mask) for entry, mask in found for owner in owners[entry] if owner not in dead]


def order_owners(found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """By owner; one that comes several times gets all its bits."""
    merged: dict[int, int] = {}
    for owner, mask in found:
        merged[owner] = merged.get(owner, 0) | mask
    return sorted(merged.items())


def expand_pairs(found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """(owner, document) for each bit of each mask."""
    return [(owner, doc) for owner, mask in found for doc in range(64) if mask >> doc & 1]


def expand_documents(found: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The owners of each document, in the order given."""
    return [[owner for owner, mask in found if mask >> doc & 1] for doc in range(64)]


# --- building segments ----------------------------------------------------------------------------------------------


def rarest_first(clauses: Sequence[Clause], frequency: Sequence[int]) -> list[list[int]]:
    """Distinct keys but 0, the key of fewest documents first; of equally rare ones, the newer."""

    def rarity(key: int) -> tuple[int, int]:
        return (frequency[key] if key < len(frequency) else 0, -key)

    return [sorted(set(clause) - {0}, key=rarity) for clause in clauses]


def place_clauses(clauses: Sequence[Clause]) -> list[int]:
    """The numbers of the clauses, ordered by their first keys."""
    return sorted(range(len(clauses)), key=lambda number: list(clauses[number][:1]) or [0])


def sort_postings(clauses: Sequence[Clause]) -> list[int]:
    """The numbers of the clauses, ordered by first key, length (15 stands for more) and the other keys."""

    def order(number: int) -> tuple[list[int], int, list[int]]:
        clause = list(clauses[number])
        return (clause[:1] or [0], min(len(clause), 15), clause[1:])

    return sorted(range(len(clauses)), key=order)


def find_repeats(clauses: Sequence[Clause], order: Sequence[int]) -> list[bool]:
    """Has a clause the same keys as the one before it in this order?"""
    ordered = [list(clauses[number]) for number in order]
    return [at > 0 and ordered[at] == ordered[at - 1] for at in range(len(ordered))]


def write_postings(clauses: Sequence[Clause], ids: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """The entries of a segment: distinct clauses in order, each with its owners in order of arrival."""
    entries: list[tuple[list[int], list[int]]] = []
    order = sort_postings(clauses)
    for number, repeated in zip(order, find_repeats(clauses, order), strict=True):
        if not repeated:
            entries.append((list(clauses[number]), []))
        entries[-1][1].append(ids[number])
    return entries


def read_postings(entries: Sequence[tuple[Clause, Sequence[int]]], dead: set[int]) -> list[tuple[list[int], int]]:
    """(keys, id) for each living owner."""
    return [(list(clause), owner) for clause, owners in entries for owner in owners if owner not in dead]


def add_chains(clauses: Sequence[Clause]) -> dict[int, list[int]]:
    """For each key, the clauses that wait under it, newest first."""
    chains: dict[int, list[int]] = {}
    for number, clause in enumerate(clauses):
        chains.setdefault((list(clause) or [0])[0], []).insert(0, number)
    return chains


def read_chains(clauses: Sequence[Clause], ids: Sequence[int], dead: set[int]) -> list[tuple[list[int], int]]:
    """(keys, id) for each living clause, in order of arrival."""
    return [(list(clause), owner) for clause, owner in zip(clauses, ids, strict=True) if owner not in dead]


# --- JSON lines -----------------------------------------------------------------------------------------------------


class PlainLine(NamedTuple):
    """What a plain line says; values as they are written, strings without their quotation marks."""

    id: str
    version: int
    values: list[tuple[str, bytes]]  # (key, value), of id, source, time and all fields


_NAME = rb'"([A-Za-z][A-Za-z0-9_.-]{0,62})"'
_STRING = rb'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*"'
_NUMBER = rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?(?![0-9.eE])"
_VALUE = rb"(?:" + _STRING + rb"|" + _NUMBER + rb")"
_SPACED = rb"[ \t\r\n]*"
_LIST = rb"\[" + _SPACED + rb"(?:" + _VALUE + _SPACED + rb"(?:," + _SPACED + _VALUE + _SPACED + rb")*)?\]"
_MEMBER = _NAME + _SPACED + rb":" + _SPACED + rb"(" + _VALUE + rb"|" + _LIST + rb"|null)" + _SPACED
_PLAIN_MEMBER, _ONE_VALUE = re.compile(_MEMBER), re.compile(_VALUE)
_PLAIN_LINE = re.compile(_SPACED + rb"\{" + _SPACED + _MEMBER + rb"(?:," + _SPACED + _MEMBER + rb")*\}" + _SPACED)


def scan_lines(lines: Sequence[bytes], bytes_max: int, fields_max: int, values_max: int) -> list[PlainLine | None]:
    """Each line, if it is plain; None for odd ones."""
    return [_plain_line(line, bytes_max, fields_max, values_max) for line in lines]


def _plain_line(line: bytes, bytes_max: int, fields_max: int, values_max: int) -> PlainLine | None:
    try:
        line.decode()
    except UnicodeDecodeError:
        return None
    if len(line) > bytes_max or _PLAIN_LINE.fullmatch(line) is None:
        return None
    members = [(name.decode(), value) for name, value in _PLAIN_MEMBER.findall(line)]
    own = {name: value for name, value in members if name in ("id", "source", "time", "version")}
    values = [(name, one) for name, value in members if name != "version" for one in _ONE_VALUE.findall(value)]
    texts = [own.get(name, b"null") for name in ("id", "source", "time")]
    version = own.get("version", b"null")
    if (
        len(dict(members)) < len(members)
        or len(members) > min(fields_max, 64)
        or any(one[:1] != b'"' and len(one) > 32 for _, one in values)
        or any(text[:1] != b'"' and not _is_absent(text) for text in texts)
        or any(b"\\" in text for text in texts)
        or not _is_absent(dict(members).get("xml", b"null"))
        or len(texts[0]) <= 2
        or _is_absent(texts[0])
        or not (_is_absent(version) or re.fullmatch(rb"0|[1-9][0-9]{0,17}", version))
        or (texts[2][:1] == b'"' and span(texts[2][1:-1].decode()) is None)
    ):
        return None
    values = [(name, one[1:-1] if one[:1] == b'"' else one) for name, one in values]
    if len(values) > values_max:
        return None
    return PlainLine(json.loads(texts[0]), 1 if _is_absent(version) else int(version), values)


def _is_absent(value: bytes) -> bool:
    return value == b"null" or (value[:1] == b"[" and not value[1:-1].strip())


def lower_values(values: Sequence[bytes]) -> list[bytes]:
    """ASCII letters lower-cased."""
    return [value.lower() for value in values]


_ESCAPE = re.compile(r"\\(?:u(....)|.)")


def fold_values(values: Sequence[bytes], forms: Mapping[str, str]) -> list[bytes | None]:
    """Strings as they stand in plain lines, each character in its form; None if some character has none."""
    answer: list[bytes | None] = []
    for value in values:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", value.decode())
        known = all(one.isascii() or one in forms for one in text)
        answer.append("".join(one if one.isascii() else forms[one] for one in text).encode() if known else None)
    return answer
