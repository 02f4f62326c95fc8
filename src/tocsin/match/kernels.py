"""The hot loops of matching: bytes to word marks, word marks to clauses. Integers only; no side effects.

**Words.** Text is split 64 bytes at a time: one vector comparison gives a bit per byte (word character or not), and the
edges of that bit mask are the words. A small sieve (two bits of one 64-bit block, chosen by a hash of the word) drops
most words that no query names, before the table of words is touched. What is left is looked up while the slots of the
words after it are fetched, so that cache misses overlap. A slot holds the first eight bytes of its word, and the word's
key: for a short word it is all there is to read.

**Clauses.** `masks[key]` says in which of up to 64 documents a key occurs, one bit each. A clause waits under its
rarest key (P2P-DIET §4 registers a query under one word, too, and counts the others: Total and Count; here the others
are tested in order of rarity, which needs no counters). Pass 1 has no branch: `m = masks[key] & masks[second]` is
stored, and kept by moving on if it is not 0; where few survive, four clauses are tested together, by the union of their
second masks. Few clauses survive the two rarest words, so the passes for the third and the further words are short. Key
0 is the key that every document has: it pads clauses of one or two words.

All in one file, since Numba's cache does not see that a function of another file has changed.

Every array that is read only should be read only in numpy, too (`flags.writeable`): Numba compiles each kernel once for
each combination of types. Buffers of text carry 64 readable bytes after their last value. Kernels unpack tuples of
arrays at once and call parts with arrays for whole chunks, not for each word: Numba counts references to arrays that
pass through calls with branches, at 25 ns each.

Tried and dropped, as time against what was kept (200 / 6,900 words, 10^5 to 3·10^6 queries; prototypes, best of a few
runs of one batch repeated, which warms caches and teaches the branch predictor: trust directions, not digits): keys in
order of first sight, not sorted: 1.2–2.4×; clauses of a key not grouped by length: 1.0–1.5×; a bit set of touched keys
before `masks`: 1.0–1.8×; each length in arrays of its own: 0.67× at 3·10^6 queries and 6,900 words, 1.1–2.8× elsewhere;
three boundaries per key: 0.9–1.7×; 16-bit second words: 0.8–1.0×, but at most 65,536 keys; third words tested without a
branch: 0.95–1.2×; no sieve: 1.0–1.5×; keeping the 16 bytes of a word instead of loading them again: 1.0×; one document
at a time: 0.7–0.95× for a single one (used there), 0.8–1.8× for two to four, and each document's keys must then be
selected first. Over many batches in turn, on a loaded machine: short postings in blocks of four 0.8–0.95× at 10^5 and
1.0–1.1× from 10^6 on; without fetching whole postings ahead 1.5–1.7× (10^6 and 3·10^6 queries on 200 words; else 1.0×).
Beside what is kept now: eight clauses together 1.0–1.2×; short postings listed first, then tested without a branch
0.85–1.0× at 10^5, 1.1–1.6× from 10^6 on; two slots compared at once 1.05–1.15×; a sieve of one bit, chunks of 256 or
512 words, fetching postings past the second-level cache, marks in a pass of their own: 1.0–1.1×; no sieve: 1.9×.
"""
# ruff: noqa: PLR0917 — a kernel takes arrays, and many; names would not make the call cheaper

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from tocsin.match import reference

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

NONE = 0xFFFFFFFF  # no word, no key
FIELD_ANY = 0xFFFFFFFD  # the scope of keys that a word has beside its bare key
ONLY_SCOPED = 0x80000000  # in a value's field number: its words do not count as bare words
HAS_SCOPED = 1  # flags of a word: it has keys in some fields
HAS_MORE_BARE = 2  # it has several bare keys
HAS_POSITIONS = 4  # a phrase or proximity reads its positions
MORE = 0x80000000  # in lists without lengths: another element follows
KEY_MAX = (1 << 28) - 1
WORD_BYTES_MAX = (1 << 24) - 1
PADDING = 64  # readable bytes after the last value of a buffer

COMPILED: bool = not config.DISABLE_JIT  # type: ignore[attr-defined]  # numba sets it from the environment

U = np.uint64
_0, _1, _2, _3, _4, _6, _8 = U(0), U(1), U(2), U(3), U(4), U(6), U(8)
_16, _28, _29, _31, _32, _33, _40, _63, _64 = U(16), U(28), U(29), U(31), U(32), U(33), U(40), U(63), U(64)
_LOW28, _LOW31, _LOW32, _LOW40 = U(0xFFFFFFF), U(0x7FFFFFFF), U(0xFFFFFFFF), U(0xFFFFFFFFFF)
_SIZE_AT, _FURTHER_AT = U(56), U(62)  # in the second number of a slot
_NONE, _OWN = U(NONE), U(1 << 31)
_MORE, _FIELD_ANY = U(MORE), U(FIELD_ANY)
_HAS_SCOPED, _HAS_FURTHER = U(HAS_SCOPED), U(HAS_SCOPED | HAS_MORE_BARE)
_LETTER_BITS = U(0x4040404040404040)
_MIX_A, _MIX_B = U(0x9E3779B97F4A7C15), U(0xD6E8FEB86659FD93)
_AHEAD = U(8)  # postings fetched ahead
_FAR_AHEAD = U(32)  # single numbers fetched ahead
_SLOTS_AHEAD = U(16)  # slots of words fetched ahead
_LINE = U(16)  # numbers in a line of the cache
_FETCHED = U(256)  # numbers of a posting fetched; of longer ones the processor guesses the rest
CHUNK_WORDS = 1024  # words looked up together: their hashes and places stay in the first-level cache
EDGES_SPARE = 72  # a block of 64 bytes may begin and end so many words, and eight are written at a time


def _kept_bytes() -> U64:
    """For a word of n bytes (16 stands for more): which bits of its first and second eight bytes are its own."""
    kept = [(1 << 8 * min(max(n - skip, 0), 8)) - 1 for n in range(17) for skip in (0, 8)]
    table = np.array(kept, dtype=np.uint64)
    table.flags.writeable = False
    return table


_KEPT = _kept_bytes()


class Table(NamedTuple):
    """Words by their bytes. A record has four numbers: bytes 0–7, bytes 8–15, length and place in long, payload.

    A slot has two, so that words of up to eight bytes are found without their records: bytes 0–7, and from the lowest
    bit on: word + 1 (28 bits; 0: the slot is empty), bare key (28 bits; 0: none), length (6 bits, 63 stands for more),
    and a bit for words that have further keys.
    """

    slots: U64  # a power of two of them, at most three quarters full
    records: U64
    long: U8  # all bytes of the words of more than 16 bytes, 8 readable bytes after the last
    sieve: U64  # two bits of one block for each word
    seed: np.uint64


class Scopes(NamedTuple):
    """Keys of (field, word); a pair may have several. An open table like Table."""

    slots: U64  # field + 1, then word; 0: empty
    keys: U32  # with bit 31 on the one that was made for the pair; others were added


class Postings(NamedTuple):
    """The clauses that wait under key k are first[k] to first[k + 1], by length, then by their other words."""

    first: U32
    second: U32  # the second rarest key, 0 if there is none
    third: U32  # the third, 0 if there is none; or MORE and a place in rest, for clauses of four keys and more
    rest: U32  # the third and further keys of long clauses, MORE on the fourth and further ones but the last


class Chains(NamedTuple):
    """Clauses in order of arrival, chained by their rarest key: head[key] and next hold clause + 1, 0 ends."""

    head: U32
    next: U32
    second: U32
    third: U32
    rest: U32


_F = TypeVar("_F", bound=Callable[..., Any])


def kernel(function: _F) -> _F:
    """Compile, keep the machine code beside the source, let other threads run meanwhile."""
    if COMPILED:
        return njit(cache=True, nogil=True)(function)  # type: ignore[return-value]
    return np.errstate(over="ignore")(function)  # unsigned numbers wrap here as they do in machine code


def part(function: _F) -> _F:
    """Compile into the kernels that use it: a call would cost more than what it does."""
    if COMPILED:
        return njit(cache=True, nogil=True, forceinline=True)(function)  # type: ignore[return-value]
    return function


# --- what Python cannot say: single instructions --------------------------------------------------------------------

if TYPE_CHECKING or not COMPILED:
    word_bits = reference.word_bits
    load8 = reference.load8
    lowest_bit = reference.lowest_bit
    count_bits = reference.count_bits
    fetch = reference.fetch
else:
    _ir = cgutils.ir

    def _at(context, builder, array_type, array, index):
        return builder.gep(context.make_array(array_type)(context, builder, array).data, [index])

    @intrinsic
    def word_bits(typing, buffer, at):
        """One bit for each of 64 bytes: an ASCII letter or digit, or not ASCII at all."""

        def generate(context, builder, signature, arguments):
            vector = _ir.VectorType(_ir.IntType(8), 64)
            place = _at(context, builder, signature.args[0], *arguments)
            bytes_ = builder.load(builder.bitcast(place, vector.as_pointer()))
            bytes_.align = 1

            def constant(value):
                return _ir.Constant(vector, [value] * 64)

            def between(value, low, high):
                return builder.icmp_unsigned("<", builder.sub(value, constant(low)), constant(high - low + 1))

            letter = between(builder.or_(bytes_, constant(0x20)), ord("a"), ord("z"))
            digit = between(bytes_, ord("0"), ord("9"))
            not_ascii = builder.icmp_signed("<", bytes_, constant(0))
            return builder.bitcast(builder.or_(builder.or_(letter, digit), not_ascii), _ir.IntType(64))

        return types.uint64(buffer, types.uint64), generate

    @intrinsic
    def load8(typing, buffer, at):
        """Eight bytes from any place, the first one lowest."""

        def generate(context, builder, signature, arguments):
            place = _at(context, builder, signature.args[0], *arguments)
            loaded = builder.load(builder.bitcast(place, _ir.IntType(64).as_pointer()))
            loaded.align = 1
            return loaded

        return types.uint64(buffer, types.uint64), generate

    @intrinsic
    def lowest_bit(typing, bits):
        """The number of the lowest bit that is set; 64 if there is none."""

        def generate(context, builder, signature, arguments):
            return builder.cttz(arguments[0], _ir.Constant(_ir.IntType(1), 0))

        return types.uint64(types.uint64), generate

    @intrinsic
    def count_bits(typing, bits):
        """How many bits are set."""

        def generate(context, builder, signature, arguments):
            return builder.ctpop(arguments[0])

        return types.uint64(types.uint64), generate

    @intrinsic
    def fetch(typing, array, at):
        """Begin to load array[at] into the cache."""

        def generate(context, builder, signature, arguments):
            byte, number = _ir.IntType(8).as_pointer(), _ir.IntType(32)
            shape = _ir.FunctionType(_ir.VoidType(), [byte, number, number, number])
            place = builder.bitcast(_at(context, builder, signature.args[0], *arguments), byte)
            prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], shape)
            builder.call(prefetch, [place, *(_ir.Constant(number, value) for value in (0, 3, 1))])
            return context.get_dummy_value()

        return types.void(array, types.uint64), generate


# --- words and their table ------------------------------------------------------------------------------------------


@kernel
def has_non_ascii(buffer: U8, starts: I64, ends: I64, answer: U8) -> None:
    """answer[v] = 1 where value v has a byte outside ASCII, so that the caller must fold it."""
    for value in range(starts.size):
        seen = np.uint8(0)
        for at in range(U(starts[value]), U(ends[value])):
            seen |= buffer[at]
        answer[value] = seen >> np.uint8(7)


@part
def _lower8(eight: np.uint64) -> np.uint64:
    """Lower-case eight bytes that are letters, digits or not ASCII: letters have the bit 0x40 and not 0x80."""
    return eight | ((eight & _LETTER_BITS & ~((eight >> _1) & _LETTER_BITS)) >> _1)


@part
def _head_of(buffer: U8, start: np.uint64, size: np.uint64, fold: bool) -> tuple[np.uint64, np.uint64]:
    """The first and the second eight bytes of a word, zeros after its end."""
    row = min(size, _16) << _1
    first, second = load8(buffer, start), load8(buffer, start + _8)
    if fold:
        first, second = _lower8(first), _lower8(second)
    return first & _KEPT[row], second & _KEPT[row + _1]


@part
def _even8(eight: np.uint64) -> np.uint64:
    """Upper and lower case made alike, more cheaply than by _lower8. Different text in UTF-8 stays different."""
    return eight | ((eight & _LETTER_BITS) >> _1)


@part
def _hash_word(
    first: np.uint64, second: np.uint64, buffer: U8, start: np.uint64, size: np.uint64, seed: np.uint64
) -> np.uint64:
    """Mix all bytes of a word, given its head in any case. The high bits choose the slot."""
    mixed = (_even8(first) ^ seed) * _MIX_A
    mixed = (mixed ^ (mixed >> _29) ^ _even8(second)) * _MIX_B
    if size > _16:
        at = _16
        while at < size:
            eight = _even8(load8(buffer, start + at)) & _KEPT[min(size - at, _8) << _1]
            mixed = (mixed ^ (mixed >> _29) ^ eight) * _MIX_B
            at += _8
    return mixed ^ (mixed >> _32)


@part
def _same_tail(buffer: U8, start: np.uint64, size: np.uint64, fold: bool, long: U8, place: np.uint64) -> bool:
    """Is the word, from its byte 16 on, the one in long?"""
    at = _16
    while at < size:
        eight = load8(buffer, start + at)
        if fold:
            eight = _lower8(eight)
        if (eight ^ load8(long, place + at)) & _KEPT[min(size - at, _8) << _1]:
            return False
        at += _8
    return True


@part
def _find_word(
    slots: U64,
    records: U64,
    long: U8,
    buffer: U8,
    start: np.uint64,
    size: np.uint64,
    fold: bool,
    first: np.uint64,
    second: np.uint64,
    slot: np.uint64,
) -> tuple[np.uint64, np.uint64]:
    """The word's number, or NONE, and the slot where the search ended."""
    last, wanted = (U(slots.size) >> _1) - _1, min(size, _63)
    while True:
        held = slots[(slot << _1) + _1]
        if held == _0:
            return _NONE, slot
        if slots[slot << _1] == first and (held >> _SIZE_AT) & _63 == wanted:
            word = (held & _LOW28) - _1
            record = word << _2
            length = records[record + _2]
            if size <= _8 or (
                records[record + _1] == second
                and length >> _40 == size
                and (size <= _16 or _same_tail(buffer, start, size, fold, long, length & _LOW40))
            ):
                return word, slot
        slot = (slot + _1) & last


@part
def _place_word(slots: U64, slot: np.uint64, first: np.uint64, size: np.uint64, word: np.uint64) -> None:
    """Fill an empty slot. Other threads may be reading: what makes it a word comes last."""
    slots[slot << _1] = first
    slots[(slot << _1) + _1] = (min(size, _63) << _SIZE_AT) | (word + _1)


@part
def _slot_of(slots: U64, records: U64, long: U8, seed: np.uint64, word: np.uint64) -> np.uint64:
    """The slot of a word that the table has."""
    record, last = word << _2, (U(slots.size) >> _1) - _1
    length = records[record + _2]
    mixed = _hash_word(records[record], records[record + _1], long, length & _LOW40, length >> _40, seed)
    slot = mixed >> _pair_shift(slots)
    while slots[(slot << _1) + _1] & _LOW28 != word + _1:
        slot = (slot + _1) & last
    return slot


@part
def _slot_shift(slots: U64) -> np.uint64:
    """A hash is shifted right by this to choose one of a power of two of slots."""
    return _64 - lowest_bit(U(slots.size))


@part
def _pair_shift(slots: U64) -> np.uint64:
    """The same where a slot has two numbers."""
    return _slot_shift(slots) + _1


@part
def _sieve_bits(mixed: np.uint64) -> np.uint64:
    """The bits of a word in its block of the sieve."""
    return (_1 << (mixed & _63)) | (_1 << ((mixed >> _6) & _63))


@kernel
def insert_words(buffer: U8, starts: I64, ends: I64, begin: int, table: Table, used: U64, words: U32) -> int:
    """Number the values begin and following, new ones with the payload NONE; used = [words, bytes of long].

    Stops when the table is full and returns the first value that has no number yet: let it grow, then go on.
    """
    slots, records, long, sieve, seed = table
    shift, sieve_shift = _pair_shift(slots), _slot_shift(sieve)
    for value in range(begin, starts.size):
        start = U(starts[value])
        size = U(ends[value]) - start
        first, second = _head_of(buffer, start, size, False)
        mixed = _hash_word(first, second, buffer, start, size, seed)
        word, slot = _find_word(slots, records, long, buffer, start, size, False, first, second, mixed >> shift)
        if word == _NONE:
            word, place = used[0], used[1]
            record = word << _2
            if record + _4 > U(records.size) or (word + _1) << _3 > _3 * U(slots.size):
                return value
            if size > _16:
                if place + size + _8 > U(long.size):
                    return value
                for at in range(size):
                    long[place + U(at)] = buffer[start + U(at)]
                used[1] += size
            records[record] = first
            records[record + _1] = second
            records[record + _2] = (size << _40) | place
            records[record + _3] = _NONE
            sieve[mixed >> sieve_shift] |= _sieve_bits(mixed)
            _place_word(slots, slot, first, size, word)
            used[0] += _1
        words[value] = word
    return starts.size


@part
def _keys_in_slot(payload: np.uint64) -> np.uint64:
    """What a slot says of the keys in a record's payload."""
    key = payload & _LOW32
    key = _0 if key == _NONE else key & _LOW28
    return (key << _28) | (U((payload >> _32) & _HAS_FURTHER != _0) << _FURTHER_AT)


@kernel
def rebuild_slots(table: Table, words: int) -> None:
    """Fill empty slots and sieve from the records of the words 0 to words - 1."""
    slots, records, long, sieve, seed = table
    shift, sieve_shift, last = _pair_shift(slots), _slot_shift(sieve), (U(slots.size) >> _1) - _1
    for number in range(U(words)):
        word = U(number)
        record = word << _2
        length = records[record + _2]
        first, second = records[record], records[record + _1]
        mixed = _hash_word(first, second, long, length & _LOW40, length >> _40, seed)
        sieve[mixed >> sieve_shift] |= _sieve_bits(mixed)
        slot = mixed >> shift
        while slots[(slot << _1) + _1] != _0:
            slot = (slot + _1) & last
        _place_word(slots, slot, first, length >> _40, word)
        slots[(slot << _1) + _1] |= _keys_in_slot(records[record + _3])


@kernel
def find_values(buffer: U8, starts: I64, ends: I64, table: Table, words: U32) -> None:
    """words[v] = the number of value v, taken whole as one folded word, or NONE."""
    slots, records, long, _, seed = table
    shift = _pair_shift(slots)
    for value in range(starts.size):
        start = U(starts[value])
        size = U(ends[value]) - start
        first, second = _head_of(buffer, start, size, False)
        mixed = _hash_word(first, second, buffer, start, size, seed)
        word, _ = _find_word(slots, records, long, buffer, start, size, False, first, second, mixed >> shift)
        words[value] = word


# --- keys of words --------------------------------------------------------------------------------------------------


@kernel
def bind_bare(words: U32, table: Table, next_key: int, keys: U32) -> int:
    """keys[i] = the bare key of words[i], from next_key on for words without one; returns the next free key."""
    slots, records, long, _, seed = table
    free = U(next_key)
    for i in range(words.size):
        word = U(words[i])
        place = (word << _2) + _3
        payload = records[place]
        if payload & _LOW32 == _NONE:
            payload = (payload & ~_LOW32) | free
            records[place] = payload
            slot = _slot_of(slots, records, long, seed, word)
            slots[(slot << _1) + _1] |= free << _28
            free += _1
        keys[i] = payload & _LOW32
    return int(free)


@part
def _flag_word(slots: U64, records: U64, long: U8, seed: np.uint64, word: np.uint64, flag: np.uint64) -> None:
    """The word has keys beside its bare one."""
    place = (word << _2) + _3
    if (records[place] >> _32) & flag == _0:
        records[place] |= flag << _32
        slot = _slot_of(slots, records, long, seed, word)
        slots[(slot << _1) + _1] |= _1 << _FURTHER_AT


@part
def _scope_hash(pair: np.uint64) -> np.uint64:
    """Mix (field + 1, word); the high bits choose the slot."""
    mixed = pair * _MIX_A
    return (mixed ^ (mixed >> _29)) * _MIX_B


@part
def _insert_scope(slots: U64, keys: U32, pair: np.uint64, key: np.uint64) -> bool:
    """Add the key to the pair's; False if it was there."""
    last = U(slots.size) - _1
    slot = _scope_hash(pair) >> _slot_shift(slots)
    while slots[slot] != _0:
        if slots[slot] == pair and (U(keys[slot]) ^ key) & _LOW31 == _0:
            return False
        slot = (slot + _1) & last
    keys[slot] = key
    slots[slot] = pair  # last: other threads may be reading
    return True


@kernel
def insert_scopes(words: U32, fields: U32, keys: U32, flag: int, table: Table, scopes: Scopes) -> int:
    """Give each (field, word) a further key and the word the flag; there must be room. Returns how many were new."""
    slots, records, long, _, seed = table
    pairs, held = scopes
    new = 0
    for i in range(words.size):
        word = U(words[i])
        if _insert_scope(pairs, held, ((U(fields[i]) + _1) << _32) | word, U(keys[i])):
            new += 1
        _flag_word(slots, records, long, seed, word, U(flag))
    return new


@kernel
def bind_scoped(words: U32, field: int, table: Table, scopes: Scopes, next_key: int, keys: U32) -> int:
    """keys[i] = the key of words[i] in the field, from next_key on for new pairs; there must be room."""
    slots, records, long, _, seed = table
    pairs, held = scopes
    free, last = U(next_key), U(pairs.size) - _1
    for i in range(words.size):
        word = U(words[i])
        pair = ((U(field) + _1) << _32) | word
        at = _scope_hash(pair) >> _slot_shift(pairs)
        while pairs[at] != _0 and not (pairs[at] == pair and U(held[at]) & _OWN):
            at = (at + _1) & last
        if pairs[at] == _0:
            held[at] = free | _OWN
            pairs[at] = pair
            _flag_word(slots, records, long, seed, word, _HAS_SCOPED)
            free += _1
        keys[i] = U(held[at]) & _LOW31
    return int(free)


@kernel
def rebuild_scopes(old: Scopes, new: Scopes) -> None:
    """Move all pairs to a larger table."""
    old_slots, old_keys = old
    slots, keys = new
    for slot in range(old_slots.size):
        if old_slots[slot] != _0:
            _insert_scope(slots, keys, old_slots[slot], U(old_keys[slot]))


# --- text to marks --------------------------------------------------------------------------------------------------


@part
def _find_words(buffer: U8, at: np.uint64, end: np.uint64, edges: U32, count: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Append the words of buffer[at:end]; returns their new count and where to go on when there was no room.

    Word k begins at edges[2 k] and ends at edges[2 k + 1].
    """
    room = U(edges.size) - U(EDGES_SPARE)
    placed, inside = count << _1, _0
    while at < end and placed < room:
        bits = word_bits(buffer, at)
        if end - at < _64:
            bits &= (_1 << (end - at)) - _1
        changes = bits ^ ((bits << _1) | inside)
        inside = bits >> _63
        then = placed + count_bits(changes)
        while (
            placed < then
        ):  # eight at a time, so that the processor guesses when this ends; the next come over the rest
            for ahead in range(8):
                edges[placed + U(ahead)] = at + lowest_bit(changes)
                changes &= changes - _1
            placed += _8
        placed = then
        at += _64
    if at >= end:
        edges[placed] = end
        return (placed + _1) >> _1, end
    if placed & _1:
        return placed >> _1, U(edges[placed - _1])
    return placed >> _1, at


@part
def _fill_chunk(
    buffer: U8,
    starts: I64,
    ends: I64,
    docs: U8,
    chosen: np.uint64,
    value: np.uint64,
    at: np.uint64,
    edges: U32,
    word_value: U32,
) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Find the words of values of chosen documents, from byte at of this value on, until the chunk is full.

    Returns how many, and the value and byte to go on from.
    """
    count, room, values = _0, (U(edges.size) - U(EDGES_SPARE)) >> _1, U(starts.size)
    while value < values and count < room:
        end = U(ends[value])
        if (chosen >> U(docs[value])) & _1:
            known = count
            count, at = _find_words(buffer, at, end, edges, known)
            for k in range(known, count):
                word_value[k] = value
        else:
            at = end
        if at >= end:
            value += _1
            if value < values:
                at = U(starts[value])
    return count, value, at


@part
def _mark_pairs(pairs: U64, bits: U64, count: np.uint64, slots: U64, keys: U32, masks: U64, touched: U64) -> None:
    """Mark every key of each pair (field + 1, word)."""
    known, last, shift = U(masks.size), U(slots.size) - _1, _slot_shift(slots)
    for k in range(count):
        slot = _scope_hash(pairs[k]) >> shift
        while slots[slot] != _0:
            key = U(keys[slot]) & _LOW31
            if slots[slot] == pairs[k] and key < known:
                masks[key] |= bits[k]
                touched[key >> _6] |= _1 << (key & _63)
            slot = (slot + _1) & last


@part
def _bare_key(held: np.uint64, field: np.uint64, known: np.uint64) -> np.uint64:
    """The bare key of a word in a value of this field, given what the word's slot says.

    Keys from known on are nobody's yet. For these, and for a word without a bare key, it is key 0, which every document
    has anyway.
    """
    key = ((held >> _28) & _LOW28) * (_1 - (field >> _31))
    return key if key < known else _0


@part
def _mark_further(
    held: U64,
    values: U32,
    count: np.uint64,
    docs: U8,
    fields: U32,
    scope_slots: U64,
    scope_keys: U32,
    masks: U64,
    touched: U64,
) -> None:
    """Mark the further keys that words have in their values' fields, given what their slots say."""
    pairs, bits, more = np.empty(2 * CHUNK_WORDS + 128, np.uint64), np.empty(2 * CHUNK_WORDS + 128, np.uint64), _0
    for k in range(count):
        word, field, bit = (held[k] & _LOW28) - _1, U(fields[values[k]]), _1 << U(docs[values[k]])
        pairs[more] = (((field & _LOW31) + _1) << _32) | word
        bits[more] = bit
        more += _1
        pairs[more] = ((_FIELD_ANY + _1) << _32) | word
        bits[more] = bit
        more += _1 - (field >> _31)
    _mark_pairs(pairs, bits, more, scope_slots, scope_keys, masks, touched)


@kernel
def mark_words(
    buffer: U8,
    starts: I64,
    ends: I64,
    docs: U8,
    fields: U32,
    table: Table,
    scopes: Scopes,
    masks: U64,
    touched: U64,
) -> None:
    """Mark the keys of the words of every value: masks[key] |= 1 << its document."""
    slots, records, long, sieve, seed = table
    scope_slots, scope_keys = scopes
    edges, word_value = np.empty(2 * CHUNK_WORDS + EDGES_SPARE, np.uint32), np.empty(CHUNK_WORDS + 64, np.uint32)
    passed, hashes = np.empty(CHUNK_WORDS + 64, np.uint32), np.empty(CHUNK_WORDS + 64, np.uint64)
    shift, sieve_shift, last = _pair_shift(slots), _slot_shift(sieve), (U(slots.size) >> _1) - _1
    value, values, known = _0, U(starts.size), U(masks.size)
    at = U(starts[0]) if values > _0 else _0
    while value < values:
        count, value, at = _fill_chunk(buffer, starts, ends, docs, ~_0, value, at, edges, word_value)
        kept = _0
        for k in range(count):
            start = U(edges[U(k) << _1])
            size = U(edges[(U(k) << _1) + _1]) - start
            first, second = _head_of(buffer, start, size, False)
            mixed = _hash_word(first, second, buffer, start, size, seed)
            block = sieve[mixed >> sieve_shift]
            hashes[kept] = mixed
            passed[kept] = k
            kept += (block >> (mixed & _63)) & (block >> ((mixed >> _6) & _63)) & _1
        for k in range(min(kept, _SLOTS_AHEAD)):
            fetch(slots, (hashes[k] >> shift) << _1)
        further = _0
        for k in range(kept):
            fetch(slots, (hashes[min(U(k) + _SLOTS_AHEAD, kept - _1)] >> shift) << _1)
            slot, of = hashes[k] >> shift, U(passed[k])
            start = U(edges[of << _1])
            size = U(edges[(of << _1) + _1]) - start
            first = _lower8(load8(buffer, start)) & _KEPT[min(size, _8) << _1]
            wanted = min(size, _63)
            held = slots[(slot << _1) + _1]
            while held != _0 and not (slots[slot << _1] == first and (held >> _SIZE_AT) & _63 == wanted):
                slot = (slot + _1) & last
                held = slots[(slot << _1) + _1]
            if size > _8 and held != _0:
                second = _lower8(load8(buffer, start + _8)) & _KEPT[(min(size, _16) << _1) + _1]
                _, slot = _find_word(slots, records, long, buffer, start, size, True, first, second, slot)
                held = slots[(slot << _1) + _1]
            of = U(word_value[of])
            key = _bare_key(held, U(fields[of]), known)
            masks[key] |= _1 << U(docs[of])
            touched[key >> _6] |= _1 << (key & _63)
            hashes[further] = held
            passed[further] = of
            further += held >> _FURTHER_AT
        if further > _0:
            _mark_further(hashes, passed, further, docs, fields, scope_slots, scope_keys, masks, touched)


@kernel
def mark_values(
    buffer: U8,
    starts: I64,
    ends: I64,
    docs: U8,
    fields: U32,
    table: Table,
    scopes: Scopes,
    masks: U64,
    touched: U64,
) -> None:
    """Like mark_words for values that are one word each (keyword analysis), folded by the caller."""
    slots, records, long, _, seed = table
    scope_slots, scope_keys = scopes
    held, word_value = np.empty(CHUNK_WORDS, np.uint64), np.empty(CHUNK_WORDS, np.uint32)
    shift, values, known = _pair_shift(slots), U(starts.size), U(masks.size)
    for begin in range(_0, values, U(CHUNK_WORDS)):
        further = _0
        for value in range(begin, min(U(begin) + U(CHUNK_WORDS), values)):
            start = U(starts[value])
            size = U(ends[value]) - start
            first, second = _head_of(buffer, start, size, False)
            mixed = _hash_word(first, second, buffer, start, size, seed)
            _, slot = _find_word(slots, records, long, buffer, start, size, False, first, second, mixed >> shift)
            held[further] = slots[(slot << _1) + _1]
            word_value[further] = value
            key = _bare_key(held[further], U(fields[value]), known)
            masks[key] |= _1 << U(docs[value])
            touched[key >> _6] |= _1 << (key & _63)
            further += held[further] >> _FURTHER_AT
        _mark_further(held, word_value, further, docs, fields, scope_slots, scope_keys, masks, touched)


@kernel
def mark_surfaces(
    buffer: U8,
    starts: I64,
    ends: I64,
    docs: U8,
    fields: U32,
    surfaces: Table,
    records: U64,
    scopes: Scopes,
    masks: U64,
    touched: U64,
    unknown: I64,
) -> int:
    """Like mark_words for analysed values: the payload of a surface form is its word after analysis, or NONE.

    Surface forms that the table lacks become columns (value, start, end) of unknown, as far as there is room; returns
    how many there are. Each is a value of one word: insert it, then mark these alone. records are the words'.
    """
    slots, forms, long, _, seed = surfaces
    scope_slots, scope_keys = scopes
    edges, word_value = np.empty(2 * CHUNK_WORDS + EDGES_SPARE, np.uint32), np.empty(CHUNK_WORDS + 64, np.uint32)
    hashes = np.empty(CHUNK_WORDS + 64, np.uint64)
    shift, known = _pair_shift(slots), U(masks.size)
    value, values, missing, room = _0, U(starts.size), _0, U(unknown.shape[1])
    at = U(starts[0]) if values > _0 else _0
    while value < values:
        count, value, at = _fill_chunk(buffer, starts, ends, docs, ~_0, value, at, edges, word_value)
        for k in range(count):
            start = U(edges[U(k) << _1])
            size = U(edges[(U(k) << _1) + _1]) - start
            first, second = _head_of(buffer, start, size, False)
            hashes[k] = _hash_word(first, second, buffer, start, size, seed)
            fetch(slots, (hashes[k] >> shift) << _1)
        further = _0
        for k in range(count):
            start = U(edges[U(k) << _1])
            size = U(edges[(U(k) << _1) + _1]) - start
            first, second = _head_of(buffer, start, size, True)
            form, _ = _find_word(slots, forms, long, buffer, start, size, True, first, second, hashes[k] >> shift)
            of = word_value[k]
            if form == _NONE:
                if missing < room:
                    unknown[0, missing] = of
                    unknown[1, missing] = start
                    unknown[2, missing] = start + size
                missing += _1
            else:
                word = forms[(form << _2) + _3] & _LOW32
                if word != _NONE:
                    hashes[further] = _keys_in_slot(records[(word << _2) + _3]) | (word + _1)
                    word_value[further] = of
                    key = _bare_key(hashes[further], U(fields[of]), known)
                    masks[key] |= _1 << U(docs[of])
                    touched[key >> _6] |= _1 << (key & _63)
                    further += hashes[further] >> _FURTHER_AT
        _mark_further(hashes, word_value, further, docs, fields, scope_slots, scope_keys, masks, touched)
    return int(missing)


@kernel
def find_occurrences(
    buffer: U8,
    starts: I64,
    ends: I64,
    docs: U8,
    chosen: np.uint64,
    surfaces: Table,
    records: U64,
    analysed: bool,
    flag: int,
    occurrences: U32,
) -> int:
    """Rows (word, value, position) of the known words with this flag (0: all), in the values of chosen documents.

    A position counts all words of its value. When analysed, the payload of a surface form is its word. Returns how many
    rows there are, also those for which there was no room.
    """
    slots, records, long, sieve, seed = surfaces
    edges, word_value = np.empty(2 * CHUNK_WORDS + EDGES_SPARE, np.uint32), np.empty(CHUNK_WORDS + 64, np.uint32)
    shift, sieve_shift = _pair_shift(slots), _slot_shift(sieve)
    value, values, found, room = _0, U(starts.size), _0, U(occurrences.shape[0])
    at = U(starts[0]) if values > _0 else _0
    before, position = values, _0
    while value < values:
        count, value, at = _fill_chunk(buffer, starts, ends, docs, chosen, value, at, edges, word_value)
        for k in range(count):
            of = U(word_value[k])
            position = position + _1 if of == before else _0
            before = of
            start = U(edges[U(k) << _1])
            size = U(edges[(U(k) << _1) + _1]) - start
            first, second = _head_of(buffer, start, size, True)
            mixed = _hash_word(first, second, buffer, start, size, seed)
            bits = _sieve_bits(mixed)
            if sieve[mixed >> sieve_shift] & bits != bits:
                continue
            word, _ = _find_word(slots, records, long, buffer, start, size, True, first, second, mixed >> shift)
            if word != _NONE and analysed:
                word = records[(word << _2) + _3] & _LOW32
            if word != _NONE and (records[(word << _2) + _3] >> _32) & U(flag) == U(flag):
                if found < room:
                    occurrences[found, 0] = word
                    occurrences[found, 1] = of
                    occurrences[found, 2] = position
                found += _1
    return int(found)


@kernel
def sort_occurrences(occurrences: U32, words: int) -> U32:
    """The rows by word, then value and position as before: a counting sort, eleven bits of the word at a time."""
    shift, rows, digits = _0, occurrences.shape[0], U(2047)
    counts = np.empty(2049, np.int64)
    other = np.empty_like(occurrences)
    while shift < _32 and U(words) >> shift != _0:
        counts[:] = 0
        for row in range(rows):
            counts[((U(occurrences[row, 0]) >> shift) & digits) + _1] += 1
        for smaller in range(2048):
            counts[smaller + 1] += counts[smaller]
        for row in range(rows):
            digit = (U(occurrences[row, 0]) >> shift) & digits
            place = counts[digit]
            counts[digit] += 1
            other[place, 0] = occurrences[row, 0]
            other[place, 1] = occurrences[row, 1]
            other[place, 2] = occurrences[row, 2]
        occurrences, other = other, occurrences
        shift += U(11)
    return occurrences


@kernel
def split_words(buffer: U8, starts: I64, ends: I64, first: I64, spans: I64) -> int:
    """The bytes of all words: those of value v are the rows (start, end) first[v] to first[v + 1] of spans."""
    edges = np.empty(2 * CHUNK_WORDS + EDGES_SPARE, np.uint32)
    total, room = _0, U(spans.shape[1])
    for value in range(starts.size):
        first[value] = total
        at, end = U(starts[value]), U(ends[value])
        while at < end:
            count, at = _find_words(buffer, at, end, edges, _0)
            for k in range(count):
                if total < room:
                    spans[0, total] = edges[U(k) << _1]
                    spans[1, total] = edges[(U(k) << _1) + _1]
                total += _1
    first[starts.size] = total
    return int(total)


# --- marks to clauses -----------------------------------------------------------------------------------------------

CHUNK_CLAUSES = 4096  # survivors of the second key that wait for the third
BLOCK_CLAUSES = 4  # clauses whose second keys are looked at together
_DENSE = U(16)  # if more than one in so many survives, each is looked at by itself


@kernel
def collect_touched(touched: U64, keys: U32) -> int:
    """The keys whose bit is set, in order."""
    count = _0
    for block in range(U(touched.size)):
        bits = touched[block]
        while bits != _0:
            keys[count] = (U(block) << _6) + lowest_bit(bits)
            bits &= bits - _1
            count += _1
    return int(count)


@kernel
def count_marks(keys: U32, masks: U64, frequency: U32) -> None:
    """Add to the frequency of each of these keys the number of documents that have it."""
    for i in range(U(keys.size)):
        frequency[keys[i]] += count_bits(masks[keys[i]])


@kernel
def clear_marks(keys: U32, masks: U64, touched: U64) -> None:
    """Forget the marks of these keys."""
    for i in range(keys.size):
        masks[keys[i]] = _0
        touched[U(keys[i]) >> _6] = _0


@part
def _fetch_posting(first: U32, second: U32, key: np.uint64) -> None:
    """Begin to load the second keys of all clauses that wait under this key."""
    at = U(first[key])
    end = min(U(first[key + _1]), at + _FETCHED)
    while at < end:
        fetch(second, at)
        at += _LINE
    fetch(second, end)


@part
def _fetch_start(first: U32, second: U32, key: np.uint64) -> None:
    """Begin to load the second keys of the first clauses that wait under this key, without asking how many."""
    at, end = U(first[key]), U(first[key + _1])
    for line in range(4):
        fetch(second, min(at + _LINE * U(line), end))


@kernel
def match_masks(keys: U32, masks: U64, postings: Postings, entries: U32, found: U64) -> int:
    """The clauses whose keys all occur in some document: entries[i] in the documents found[i]. Returns how many.

    keys are sorted, and so are postings: both are read from front to back. entries has room for every clause.
    """
    first, second, third, rest = postings
    waiting, waiting_mask = np.empty(CHUNK_CLAUSES, np.uint32), np.empty(CHUNK_CLAUSES, np.uint64)
    blocks = np.empty(CHUNK_CLAUSES // BLOCK_CLAUSES, np.uint64)
    room, known = U(CHUNK_CLAUSES), U(first.size) - _1
    count, visit, total = _0, _0, U(keys.size)
    while total > _0 and U(keys[total - _1]) >= known:  # keys that no clause of this segment names
        total -= _1
    reached = U(first[keys[0]]) if total > _0 else _0
    dense = False
    while visit < total:
        kept, seen = _0, _0
        if dense:  # clause by clause
            while visit < total:
                key = U(keys[visit])
                _fetch_posting(first, second, U(keys[min(visit + _AHEAD, total - _1)]))
                end = U(first[key + _1])
                stop = min(end, reached + (room - kept))
                mask = masks[key]
                seen += stop - reached
                for at in range(reached, stop):
                    both = mask & masks[second[at]]
                    waiting[kept] = at
                    waiting_mask[kept] = both
                    kept += U(both != _0)
                reached = stop
                if stop < end:
                    break
                visit += _1
                if visit < total:
                    reached = U(first[keys[visit]])
            dense = bool(kept * _DENSE > seen)
        else:  # four at a time: first those of which any survives, then which
            listed, near_end = _0, False
            while visit < total:
                key = U(keys[visit])
                _fetch_start(first, second, U(keys[min(visit + _AHEAD, total - _1)]))
                end = U(first[key + _1])
                near_end = bool(end + _4 > U(second.size))  # here a block could reach too far
                if near_end:
                    break
                stop = min(end, reached + ((U(blocks.size) - listed) << _2))
                mask = masks[key]
                seen += stop - reached
                while reached < stop:
                    some = masks[second[reached]] | masks[second[reached + _1]]
                    some |= masks[second[reached + _2]] | masks[second[reached + _3]]
                    blocks[listed] = (visit << _32) | reached
                    listed += U(some & mask != _0)
                    reached += _4
                if reached < end:
                    break
                visit += _1
                if visit < total:
                    reached = U(first[keys[visit]])
            for i in range(listed):
                key = U(keys[blocks[i] >> _32])
                end, mask = U(first[key + _1]), masks[key]
                for ahead in range(BLOCK_CLAUSES):
                    at = (blocks[i] & _LOW32) + U(ahead)
                    both = mask & masks[second[at]]
                    waiting[kept] = at
                    waiting_mask[kept] = both
                    kept += U(both != _0) & U(at < end)
            dense = near_end or bool(kept * _DENSE > seen)
        for i in range(kept):
            fetch(third, U(waiting[i]))
        long = _0
        for i in range(kept):
            entry = U(waiting[i])
            key = U(third[entry])
            if key & _MORE:
                waiting[long] = entry
                waiting_mask[long] = waiting_mask[i]
                long += _1
            else:
                mask = waiting_mask[i] & masks[key]
                entries[count] = entry
                found[count] = mask
                count += U(mask != _0)
        for i in range(long):
            fetch(rest, U(third[waiting[i]]) & _LOW31)
        for i in range(long):
            entry = U(waiting[i])
            place = U(third[entry]) & _LOW31
            key = U(rest[place + _1])
            mask = waiting_mask[i] & masks[rest[place]] & masks[key & _LOW31]
            place += _2
            while key & _MORE and mask != _0:
                key = U(rest[place])
                mask &= masks[key & _LOW31]
                place += _1
            entries[count] = entry
            found[count] = mask
            count += U(mask != _0)
    return int(count)


@part
def _has_bit(bits: U64, key: np.uint64) -> np.uint64:
    """1 if the key is in the set."""
    block: np.uint64 = bits[key >> _6]
    return (block >> (key & _63)) & _1


@kernel
def match_one(keys: U32, bits: U64, postings: Postings, entries: U32) -> int:
    """match_masks for one document, whose keys are a list and a bit set: that is small enough to stay in the cache."""
    first, second, third, rest = postings
    known, total, count = U(first.size) - _1, U(keys.size), _0
    while total > _0 and U(keys[total - _1]) >= known:
        total -= _1
    for visit in range(total):
        key = U(keys[visit])
        _fetch_posting(first, second, U(keys[min(visit + _AHEAD, total - _1)]))
        kept = count
        for at in range(U(first[key]), U(first[key + _1])):
            entries[kept] = at
            kept += _has_bit(bits, U(second[at]))
        for i in range(count, kept):
            entry = U(entries[i])
            key = U(third[entry])
            if key & _MORE:
                place = key & _LOW31
                key = U(rest[place + _1])
                holds = _has_bit(bits, U(rest[place])) & _has_bit(bits, key & _LOW31)
                place += _2
                while key & _MORE and holds:
                    key = U(rest[place])
                    holds = _has_bit(bits, key & _LOW31)
                    place += _1
            else:
                holds = _has_bit(bits, key)
            entries[count] = entry
            count += holds
    return int(count)


@kernel
def match_chains(keys: U32, masks: U64, chains: Chains, clauses: int, entries: U32, found: U64) -> int:
    """match_masks for the clauses 0 to clauses - 1 of a delta; later ones belong to a later snapshot."""
    head, following, second, third, rest = chains
    known, limit, count = U(head.size), U(clauses), _0
    for i in range(keys.size):
        key = U(keys[i])
        if key >= known:
            break
        link = U(head[key])
        mask = masks[key]
        while link != _0:
            entry = link - _1
            link = U(following[entry])
            if entry >= limit:
                continue
            both = mask & masks[second[entry]]
            if both == _0:
                continue
            other = U(third[entry])
            if other & _MORE:
                at = other & _LOW31
                both &= masks[rest[at]]
                while other & _MORE and both != _0:
                    at += _1
                    other = U(rest[at])
                    both &= masks[other & _LOW31]
            else:
                both &= masks[other]
            entries[count] = entry
            found[count] = both
            count += U(both != _0)
    return int(count)


@part
def _is_dead(dead: U64, owner: np.uint64) -> bool:
    """Has this owner been removed?"""
    block = owner >> _6
    return bool(block < U(dead.size)) and bool((dead[block] >> (owner & _63)) & _1)


@kernel
def expand_owners(
    entries: U32, found: U64, owner: U32, shared: U32, dead: U64, begin: int, owners: U32, masks: U64
) -> int:
    """Append the living owners of the entries that were found, from place begin on.

    Returns where the next ones belong, also if there was no room.
    """
    count, room, total = U(begin), U(owners.size), U(entries.size)
    for number in range(total):
        i = U(number)
        fetch(owner, U(entries[min(i + _FAR_AHEAD, total - _1)]))
        one = U(owner[entries[i]])
        at = one & _LOW31
        while True:
            if one & _MORE:
                one = U(shared[at])
                at += _1
            if not _is_dead(dead, one & _LOW31):
                if count < room:
                    owners[count] = one & _LOW31
                    masks[count] = found[i]
                count += _1
            if not one & _MORE:
                break
    return int(count)


@kernel
def order_owners(owners: U32, masks: U64, other_owners: U32, other_masks: U64) -> int:
    """Sort owners in place, some bits at a time; one that comes several times gets all its bits. Returns how many.

    The other arrays are room of the same size.
    """
    total, highest = U(owners.size), _0
    for number in range(total):
        highest = max(highest, U(owners[number]))
    width = U(11) if total > U(1024) else _8  # for few owners, the counts of digits would be most of the work
    digits = (_1 << width) - _1
    shift, counts, moved = _0, np.empty(int(digits) + 2, np.int64), False
    while highest >> shift != _0:
        counts[:] = 0
        for number in range(total):
            counts[((U(owners[number]) >> shift) & digits) + _1] += 1
        for smaller in range(counts.size - 1):
            counts[smaller + 1] += counts[smaller]
        for number in range(total):
            digit = (U(owners[number]) >> shift) & digits
            place = counts[digit]
            counts[digit] += 1
            other_owners[place] = owners[number]
            other_masks[place] = masks[number]
        owners, other_owners, masks, other_masks = other_owners, owners, other_masks, masks
        moved = not moved
        shift += width
    into_owners, into_masks = owners, masks
    if moved:  # the caller looks into what is other now
        into_owners, into_masks = other_owners, other_masks
    count = _0
    for number in range(total):
        owner, mask = owners[number], masks[number]
        if count > _0 and into_owners[count - _1] == owner:
            into_masks[count - _1] |= mask
        else:
            into_owners[count] = owner
            into_masks[count] = mask
            count += _1
    return int(count)


@kernel
def expand_pairs(owners: U32, masks: U64, pair_owner: U32, pair_doc: U8) -> int:
    """One (owner, document) for each bit; there is room."""
    count = _0
    for number in range(U(owners.size)):
        bits = masks[number]
        while bits != _0:
            pair_owner[count] = owners[number]
            pair_doc[count] = lowest_bit(bits)
            bits &= bits - _1
            count += _1
    return int(count)


@kernel
def expand_documents(owners: U32, masks: U64, bounds: I64, found: U32) -> None:
    """The owners of document d are found[bounds[d]:bounds[d + 1]], in the order given.

    bounds is 65 zeros before, and there is room.
    """
    total = U(owners.size)
    for number in range(total):
        bits = masks[number]
        while bits != _0:
            bounds[lowest_bit(bits) + _1] += 1
            bits &= bits - _1
    for doc in range(64):
        bounds[doc + 1] += bounds[doc]
    places = bounds.copy()
    for number in range(total):
        bits = masks[number]
        while bits != _0:
            of = lowest_bit(bits)
            found[places[of]] = owners[number]
            places[of] += 1
            bits &= bits - _1


# --- building segments ----------------------------------------------------------------------------------------------


@part
def _frequency_of(key: np.uint32, frequency: U32) -> np.uint32:
    """In how many documents the key was seen; unknown keys were never seen."""
    return frequency[key] if U(key) < U(frequency.size) else np.uint32(0)


@part
def _is_rarer(a: np.uint32, b: np.uint32, frequency: U32) -> bool:
    """Fewer documents have a; of equally rare ones, the newer comes first."""
    of_a, of_b = _frequency_of(a, frequency), _frequency_of(b, frequency)
    return bool(of_a < of_b) or bool(of_a == of_b and a > b)


@part
def _sift_down(keys: U32, low: int, at: int, size: int, frequency: U32) -> None:
    """Restore the heap keys[low:low + size], commonest key on top, below its place at."""
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and _is_rarer(keys[low + child], keys[low + child + 1], frequency):
            child += 1
        if not _is_rarer(keys[low + at], keys[low + child], frequency):
            return
        keys[low + at], keys[low + child] = keys[low + child], keys[low + at]
        at = child


@kernel
def rarest_first(first: I64, keys: U32, frequency: U32, sorted_keys: U32, lengths: U32) -> None:
    """The distinct keys of each clause but 0, rarest first: lengths[i] of them, from first[i] on."""
    for clause in range(first.size - 1):
        low, size = first[clause], 0
        for at in range(first[clause], first[clause + 1]):
            sorted_keys[low + size] = keys[at]
            size += int(keys[at] != 0)
        if size <= 32:
            for at in range(low + 1, low + size):
                key, place = sorted_keys[at], at
                while place > low and _is_rarer(key, sorted_keys[place - 1], frequency):
                    sorted_keys[place] = sorted_keys[place - 1]
                    place -= 1
                sorted_keys[place] = key
        else:
            for at in range(size // 2 - 1, -1, -1):
                _sift_down(sorted_keys, low, at, size, frequency)
            for last in range(size - 1, 0, -1):
                sorted_keys[low], sorted_keys[low + last] = sorted_keys[low + last], sorted_keys[low]
                _sift_down(sorted_keys, low, 0, last, frequency)
        distinct = min(size, 1)
        for at in range(low + 1, low + size):
            if sorted_keys[at] != sorted_keys[at - 1]:
                sorted_keys[low + distinct] = sorted_keys[at]
                distinct += 1
        lengths[clause] = distinct


@kernel
def place_clauses(first: I64, keys: U32, lengths: U32, bounds: I64, order: U32, rank: U64) -> None:
    """Sort clauses by rarest key, stably: those of key k become order[bounds[k]:bounds[k + 1]] (bounds is 0 before).

    rank packs what decides their order inside: length (15 for more), second and third key.
    """
    for clause in range(lengths.size):
        key = U(keys[first[clause]]) if lengths[clause] else _0
        bounds[key + _1] += 1
    for smaller in range(bounds.size - 1):
        bounds[smaller + 1] += bounds[smaller]
    next_place = bounds[:-1].copy()
    for clause in range(lengths.size):
        low, length = first[clause], U(lengths[clause])
        key = U(keys[low]) if length > _0 else _0
        place = next_place[key]
        next_place[key] += 1
        packed = min(length, U(15)) << U(60)
        if length > _1:
            packed |= U(keys[low + 1]) << _32
        if length > _2:
            packed |= U(keys[low + 2])
        order[place] = clause
        rank[place] = packed


@part
def _compare_tails(a: int, b: int, first: I64, keys: U32, lengths: U32) -> int:
    """-1, 0 or 1: how the keys of two clauses compare after the third."""
    for at in range(3, min(lengths[a], lengths[b])):
        left, right = keys[first[a] + at], keys[first[b] + at]
        if left != right:
            return -1 if left < right else 1
    if lengths[a] == lengths[b]:
        return 0
    return -1 if lengths[a] < lengths[b] else 1


@part
def _follows(a: int, rank_a: np.uint64, b: int, rank_b: np.uint64, first: I64, keys: U32, lengths: U32) -> bool:
    """Does clause a, which came before b, belong after it?"""
    if rank_a != rank_b:
        return bool(rank_a > rank_b)
    return bool(rank_a >> U(60) > _3) and _compare_tails(a, b, first, keys, lengths) > 0


@kernel
def sort_postings(bounds: I64, order: U32, rank: U64, first: I64, keys: U32, lengths: U32) -> None:
    """Sort order inside each key's bounds, by rank and then by the further keys: insertion, then merging."""
    longest = 0
    for key in range(bounds.size - 1):
        longest = max(longest, bounds[key + 1] - bounds[key])
    other_order, other_rank = np.empty(longest, np.uint32), np.empty(longest, np.uint64)
    for key in range(bounds.size - 1):
        low, high = bounds[key], bounds[key + 1]
        for begin in range(low, high, 16):
            for at in range(begin + 1, min(begin + 16, high)):
                clause, ranked, place = order[at], rank[at], at
                while place > begin and _follows(
                    order[place - 1], rank[place - 1], clause, ranked, first, keys, lengths
                ):
                    order[place], rank[place] = order[place - 1], rank[place - 1]
                    place -= 1
                order[place], rank[place] = clause, ranked
        width = 16
        while width < high - low:
            for begin in range(low, high, 2 * width):
                middle, end = min(begin + width, high), min(begin + 2 * width, high)
                left, right = begin, middle
                for at in range(begin, end):
                    if right < end and (
                        left == middle
                        or _follows(order[left], rank[left], order[right], rank[right], first, keys, lengths)
                    ):
                        other_order[at - low], other_rank[at - low] = order[right], rank[right]
                        right += 1
                    else:
                        other_order[at - low], other_rank[at - low] = order[left], rank[left]
                        left += 1
            order[low:high] = other_order[: high - low]
            rank[low:high] = other_rank[: high - low]
            width *= 2


@kernel
def find_repeats(
    bounds: I64, order: U32, rank: U64, first: I64, keys: U32, lengths: U32, repeats: U8
) -> tuple[int, int, int]:
    """repeats[i] = 1 where clause order[i] has the same keys as the one before.

    Returns the numbers of distinct clauses, of elements of rest, and of elements of shared.
    """
    distinct, rest, shared = 0, 0, 0
    for key in range(bounds.size - 1):
        for at in range(bounds[key], bounds[key + 1]):
            repeats[at] = (
                at > bounds[key]
                and rank[at] == rank[at - 1]
                and (rank[at] >> U(60) <= _3 or _compare_tails(order[at - 1], order[at], first, keys, lengths) == 0)
            )
            if not repeats[at]:
                distinct += 1
                if lengths[order[at]] > 3:
                    rest += int(lengths[order[at]]) - 2
            else:
                shared += 1 if repeats[at - 1] else 2
    return distinct, rest, shared


@kernel
def write_postings(
    bounds: I64,
    order: U32,
    repeats: U8,
    first: I64,
    keys: U32,
    lengths: U32,
    ids: U32,
    postings: Postings,
    owner: U32,
    shared: U32,
) -> None:
    """Fill the arrays of a segment, whose sizes find_repeats told."""
    posting, second, third, rest = postings
    entry, rest_at, shared_at = 0, 0, 0
    for key in range(bounds.size - 1):
        posting[key] = entry
        for at in range(bounds[key], bounds[key + 1]):
            clause = order[at]
            if repeats[at]:
                if not repeats[at - 1]:
                    shared[shared_at] = owner[entry - 1]
                    owner[entry - 1] = MORE | shared_at
                    shared_at += 1
                shared[shared_at - 1] |= np.uint32(MORE)
                shared[shared_at] = ids[clause]
                shared_at += 1
                continue
            low, length = first[clause], int(lengths[clause])
            second[entry] = keys[low + 1] if length > 1 else 0
            if length > 3:
                third[entry] = MORE | rest_at
                for word in range(2, length):
                    follow = MORE if 2 < word < length - 1 else 0
                    rest[rest_at] = keys[low + word] | np.uint32(follow)
                    rest_at += 1
            else:
                third[entry] = keys[low + 2] if length > 2 else 0
            owner[entry] = ids[clause]
            entry += 1
    posting[bounds.size - 1] = entry


@kernel
def add_chains(first: I64, keys: U32, lengths: U32, begin: int, chains: Chains, key_of: U32, rest_used: int) -> int:
    """Chain clauses, given rarest key first, as entries begin and following; returns how much of rest is used."""
    head, following, second, third, rest = chains
    for clause in range(lengths.size):
        entry, low, length = begin + clause, first[clause], int(lengths[clause])
        key = keys[low] if length > 0 else np.uint32(0)
        key_of[entry] = key
        second[entry] = keys[low + 1] if length > 1 else 0
        if length > 3:
            third[entry] = MORE | rest_used
            for word in range(2, length):
                follow = MORE if 2 < word < length - 1 else 0
                rest[rest_used] = keys[low + word] | np.uint32(follow)
                rest_used += 1
        else:
            third[entry] = keys[low + 2] if length > 2 else 0
        following[entry] = head[key]
        head[key] = entry + 1  # last: other threads may be reading
    return rest_used


@part
def _read_clause(
    key: np.uint64, entry: np.uint64, second: U32, third: U32, rest: U32, keys: U32, at: np.uint64
) -> np.uint64:
    """Write the keys of a clause from keys[at] on, as far as there is room; returns where the next one begins."""
    room = U(keys.size)
    if key != _0:
        if at < room:
            keys[at] = key
        at += _1
    if second[entry] != 0:
        if at < room:
            keys[at] = second[entry]
        at += _1
    other = U(third[entry])
    if other & _MORE:
        place = other & _LOW31
        if at < room:
            keys[at] = rest[place]
        at += _1
        while other & _MORE:
            place += _1
            other = U(rest[place])
            if at < room:
                keys[at] = other & _LOW31
            at += _1
    elif other != _0:
        if at < room:
            keys[at] = other
        at += _1
    return at


@kernel
def read_postings(
    postings: Postings, owner: U32, shared: U32, dead: U64, first: I64, keys: U32, ids: U32
) -> tuple[int, int]:
    """Undo write_postings for living owners: clause i has the keys first[i] to first[i + 1] and the id ids[i].

    Returns the numbers of clauses and of keys, also those for which there was no room.
    """
    posting, second, third, rest = postings
    count, at, room = _0, _0, U(ids.size)
    for key in range(posting.size - 1):
        for number in range(U(posting[key]), U(posting[key + 1])):
            entry = U(number)
            one = U(owner[entry])
            place = one & _LOW31
            while True:
                if one & _MORE:
                    one = U(shared[place])
                    place += _1
                if not _is_dead(dead, one & _LOW31):
                    if count < room:
                        first[count] = at
                        ids[count] = one & _LOW31
                    at = _read_clause(U(key), entry, second, third, rest, keys, at)
                    count += _1
                if not one & _MORE:
                    break
    if count < U(first.size):
        first[count] = at
    return int(count), int(at)


@kernel
def read_chains(
    chains: Chains, key_of: U32, owner: U32, clauses: int, dead: U64, first: I64, keys: U32, ids: U32
) -> tuple[int, int]:
    """Undo add_chains for living owners, in order of arrival; answers like read_postings."""
    _, _, second, third, rest = chains
    count, at, room = _0, _0, U(ids.size)
    for number in range(U(clauses)):
        entry = U(number)
        if not _is_dead(dead, U(owner[entry])):
            if count < room:
                first[count] = at
                ids[count] = owner[entry]
            at = _read_clause(U(key_of[entry]), entry, second, third, rest, keys, at)
            count += _1
    if count < U(first.size):
        first[count] = at
    return int(count), int(at)
