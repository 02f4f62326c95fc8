"""The stores of word sets of P2P-DIET §4 as inner loops over integers; their twins are in `match.tries.plain`.

Words are numbers from 1 on; 0 is no word, and never occurs. A formula is a number, too: a row of `links`.

A node is a row of `nodes`. Only a leaf has a Remainder and only an inner node has children, so they share
four cells: up to four words, or where in `pool` the words or the children are. A block of children holds
their words, then their nodes; more than SMALL children are a hash table, so a root with a hundred thousand
children is found through in one step, and is still read from front to back when a document comes by.
A node's only query stands in the node itself; several stand together in a block. A leaf with one query
and no Remainder, which most sets of a large store come to, is a *twig*: it is no row at all, the entry among
its parent's children names its query (as ~formula).

All in one file, since Numba's cache does not see that a function of another file has changed.
"""
# ruff: noqa: PLR0917 — a kernel takes arrays, and many; names would not make the call cheaper

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tocsin.match.kernels import kernel, part

Number = Any  # an int; in machine code an int64
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

WORD, PARENT, HEAD, REST_SIZE, REST = range(5)  # columns of nodes; from REST on: the words of a Remainder,
BLOCK, CHILDREN, CAPACITY = range(4, 7)  # or where in the pool they are, or the children; of a list also:
REMOVED = 7  # how much of it is no longer wanted
NODE, PLACE, TWIG_WORD = range(3)  # columns of links: a formula's node, and its place among the node's queries;
TWIG = np.int64(-2)  # in place of a place: it is a twig of the node, with this word
NODES_USED, NODES_FREE, NODES, TWIGS, POOL_USED, POOL_FREE, LARGEST = range(7)  # of state
CHOSEN, SHARED = range(7, 9)  # of state: what a choice returns
STATE_SIZE = 9

NONE = np.int64(-1)  # typed: Numba compiles a function once more for each literal that it is called with
ZERO = np.int64(0)
SEVERAL = np.int64(-2)  # a HEAD of SEVERAL - b: several queries, in block b after their number and the room for them
INLINE = 4  # words of a Remainder that stand in the node
SMALL = 8  # children that are found by looking at each
EXACT = 16  # blocks up to this size are as long as asked for, larger ones a power of two
CLASSES = 48
LOOKUPS_MAX = 20_000  # as in tries.plain
PROBE = 8  # a document probes a table that is this much longer than its list of words
AHEAD = 64  # nodes that are fetched from memory together
IN_SET, ON_PATH, IS_SHARED = 1, 2, 3  # marks of words


class Arrays(NamedTuple):
    """Everything that a store of word sets consists of."""

    nodes: Ints
    pool: Ints
    links: Ints
    free: Ints
    state: Longs
    marks: Bytes
    stack: Ints
    turns: Ints


# --- blocks of the pool ----------------------------------------------------------------------


@kernel
def block_class(size: Number) -> Number:
    """Blocks of one class have one size."""
    if size <= EXACT:
        return size
    found = EXACT
    length = EXACT
    while length < size:
        length *= 2
        found += 1
    return found


@kernel
def block_size(size: Number) -> Number:
    """How long a block for so many numbers is."""
    if size <= EXACT:
        return size
    length = EXACT
    while length < size:
        length *= 2
    return length


@kernel
def take_block(a: Arrays, size: Number) -> Number:
    """A block of at least this size; the caller has made sure that there is room."""
    kind = block_class(size)
    found = a.free[kind]
    length = block_size(size)
    if found != NONE:
        a.free[kind] = a.pool[found]
        a.state[POOL_FREE] -= length
        return np.int64(found)
    start = a.state[POOL_USED]
    a.state[POOL_USED] = start + length
    a.state[LARGEST] = max(a.state[LARGEST], length)
    return start


@kernel
def give_block(a: Arrays, start: Number, size: Number) -> None:
    """Frees a block."""
    kind = block_class(size)
    a.pool[start] = a.free[kind]
    a.free[kind] = start
    a.state[POOL_FREE] += block_size(size)


# --- children --------------------------------------------------------------------------------


@part
def slot_of(word: Number, capacity: Number) -> Number:
    """Where a word belongs in a table of children."""
    return ((np.int64(word) * 0x9E3779B1) >> 15) & (capacity - 1)


@part
def find_child(a: Arrays, node: Number, word: Number) -> Number:
    """Where in the pool the node's child of this word is named, or NONE."""
    if a.nodes[node, REST_SIZE] > 0:
        return NONE
    capacity = np.int64(a.nodes[node, CAPACITY])
    start = np.int64(a.nodes[node, BLOCK])
    if capacity <= SMALL:
        for index in range(a.nodes[node, CHILDREN]):
            if a.pool[start + index] == word:
                return start + capacity + index
        return NONE
    at = slot_of(word, capacity)
    while a.pool[start + at] != 0:
        if a.pool[start + at] == word:
            return start + capacity + at
        at = (at + 1) & (capacity - 1)
    return NONE


@part
def child_count(a: Arrays, node: Number) -> Number:
    """How many children the node has."""
    return np.int64(a.nodes[node, CHILDREN]) if a.nodes[node, REST_SIZE] == 0 else ZERO


@kernel
def put_child(a: Arrays, start: Number, capacity: Number, count: Number, word: Number, child: Number) -> None:
    """Writes a child into a block that has room for it and `count` others."""
    at = np.int64(count)
    if capacity > SMALL:
        at = slot_of(word, capacity)
        while a.pool[start + at] != 0:
            at = (at + 1) & (capacity - 1)
    a.pool[start + at] = word
    a.pool[start + capacity + at] = child


@kernel
def resize_children(a: Arrays, node: Number, capacity: Number) -> None:
    """Moves the children into a block for `capacity` of them; 0: none are left."""
    old_start = np.int64(a.nodes[node, BLOCK])
    old = np.int64(a.nodes[node, CAPACITY])
    if capacity > 0:
        start = take_block(a, 2 * capacity)
        a.pool[start : start + capacity] = 0
        count = ZERO
        for index in range(old):
            word = np.int64(a.pool[old_start + index])
            if word != 0:
                put_child(a, start, capacity, count, word, np.int64(a.pool[old_start + old + index]))
                count += 1
        a.nodes[node, BLOCK] = start
    a.nodes[node, CAPACITY] = capacity
    if old > 0:
        give_block(a, old_start, 2 * old)


@kernel
def add_child(a: Arrays, node: Number, word: Number, child: Number) -> None:
    """Names the child in the node; the node has none of this word yet."""
    capacity = np.int64(a.nodes[node, CAPACITY])
    count = np.int64(a.nodes[node, CHILDREN])
    most = capacity if capacity <= SMALL else capacity - capacity // 4
    if count == most:
        capacity = max(np.int64(2), 2 * capacity)
        resize_children(a, node, capacity)
    put_child(a, np.int64(a.nodes[node, BLOCK]), capacity, count, np.int64(word), np.int64(child))
    a.nodes[node, CHILDREN] = count + 1


@kernel
def remove_child(a: Arrays, node: Number, word: Number) -> None:
    """Forgets the child of this word."""
    capacity = np.int64(a.nodes[node, CAPACITY])
    start = np.int64(a.nodes[node, BLOCK])
    count = np.int64(a.nodes[node, CHILDREN]) - 1
    at = find_child(a, node, word) - capacity - start
    a.nodes[node, CHILDREN] = count
    if capacity <= SMALL:
        a.pool[start + at] = a.pool[start + count]
        a.pool[start + capacity + at] = a.pool[start + capacity + count]
        a.pool[start + count] = 0
    else:
        close_gap(a, start, capacity, at)
    if count == 0:
        resize_children(a, node, ZERO)
    elif capacity > SMALL and count < capacity // 4:
        resize_children(a, node, capacity // 2)


@kernel
def close_gap(a: Arrays, start: Number, capacity: Number, gap: Number) -> None:
    """Takes an entry out of a table and moves those up that had to give way to it."""
    mask = capacity - 1
    at = (gap + 1) & mask
    while a.pool[start + at] != 0:
        home = slot_of(a.pool[start + at], capacity)
        if ((at - home) & mask) >= ((at - gap) & mask):
            a.pool[start + gap] = a.pool[start + at]
            a.pool[start + capacity + gap] = a.pool[start + capacity + at]
            gap = at
        at = (at + 1) & mask
    a.pool[start + gap] = 0


# --- nodes -----------------------------------------------------------------------------------


@kernel
def new_node(a: Arrays, word: Number, parent: Number) -> Number:
    """A node without children, queries and Remainder, named by its parent (NONE: a word directory)."""
    node = a.state[NODES_FREE]
    if node == NONE:
        node = a.state[NODES_USED]
        a.state[NODES_USED] = node + 1
    else:
        a.state[NODES_FREE] = a.nodes[node, PARENT]
    a.state[NODES] += 1
    a.nodes[node, :] = 0
    a.nodes[node, WORD] = word
    a.nodes[node, PARENT] = parent
    a.nodes[node, HEAD] = NONE
    if parent != NONE:
        add_child(a, parent, word, node)
    return node


@kernel
def free_node(a: Arrays, node: Number) -> None:
    """Gives a node back that has no children and that nobody names any more."""
    if a.nodes[node, REST_SIZE] > INLINE:
        give_block(a, np.int64(a.nodes[node, REST]), np.int64(a.nodes[node, REST_SIZE]))
    a.nodes[node, HEAD] = NONE
    a.nodes[node, PARENT] = a.state[NODES_FREE]
    a.state[NODES_FREE] = node
    a.state[NODES] -= 1


@kernel
def attach(a: Arrays, node: Number, formula: Number) -> None:
    """Puts the formula among the node's queries."""
    head = np.int64(a.nodes[node, HEAD])
    place = ZERO
    if head == NONE:
        a.nodes[node, HEAD] = formula
    elif head >= 0:
        place = np.int64(1)
        block = take_block(a, np.int64(4))
        a.pool[block : block + 4] = 2
        a.pool[block + 2] = head
        a.pool[block + 3] = formula
        a.nodes[node, HEAD] = SEVERAL - block
    else:
        block = SEVERAL - head
        place, room = np.int64(a.pool[block]), np.int64(a.pool[block + 1])
        if place == room:
            wider = take_block(a, 2 + 2 * room)
            a.pool[wider : wider + 2 + room] = a.pool[block : block + 2 + room]
            a.pool[wider + 1] = 2 * room
            give_block(a, block, 2 + room)
            block = wider
            a.nodes[node, HEAD] = SEVERAL - block
        a.pool[block] = place + 1
        a.pool[block + 2 + place] = formula
    a.links[formula, NODE] = node
    a.links[formula, PLACE] = place


@kernel
def detach(a: Arrays, formula: Number) -> Number:
    """Takes the formula from its node's queries; returns the node."""
    node, place = np.int64(a.links[formula, NODE]), np.int64(a.links[formula, PLACE])
    a.links[formula, NODE] = NONE
    head = np.int64(a.nodes[node, HEAD])
    if head >= 0:
        a.nodes[node, HEAD] = NONE
        return node
    block = SEVERAL - head
    count = np.int64(a.pool[block]) - 1
    last = np.int64(a.pool[block + 2 + count])
    a.pool[block] = count
    a.pool[block + 2 + place] = last
    a.links[last, PLACE] = place
    if count == 1:
        only = np.int64(a.pool[block + 2])
        a.nodes[node, HEAD] = only
        a.links[only, PLACE] = 0
        give_block(a, block, 2 + np.int64(a.pool[block + 1]))
    return node


# --- twigs -----------------------------------------------------------------------------------


@part
def put_twig(a: Arrays, parent: Number, word: Number, formula: Number) -> None:
    """The formula becomes a twig; the parent names it already, or will."""
    a.links[formula, NODE] = parent
    a.links[formula, PLACE] = TWIG
    a.links[formula, TWIG_WORD] = word
    a.state[TWIGS] += 1


@kernel
def sprout(a: Arrays, formula: Number) -> Number:
    """Makes a node of a twig."""
    parent, word = np.int64(a.links[formula, NODE]), np.int64(a.links[formula, TWIG_WORD])
    a.state[TWIGS] -= 1
    node = new_node(a, word, NONE)
    a.nodes[node, PARENT] = parent
    a.pool[find_child(a, parent, word)] = node
    attach(a, node, formula)
    return node


@kernel
def wither(a: Arrays, node: Number) -> None:
    """Makes a twig of a leaf that has one query and no Remainder."""
    parent, word = np.int64(a.nodes[node, PARENT]), np.int64(a.nodes[node, WORD])
    formula = np.int64(a.nodes[node, HEAD])
    a.pool[find_child(a, parent, word)] = ~formula
    put_twig(a, parent, word, formula)
    free_node(a, node)


# --- Remainders ------------------------------------------------------------------------------
# A Remainder is rewritten word by word; until `set_rest`, `block` and `size` are those of the old one for
# reading and of the new one for writing. Inline words are moved in an order in which
# none is overwritten unread.


@part
def rest_word(a: Arrays, node: Number, block: Number, size: Number, index: Number) -> Number:
    """A word of the node's Remainder."""
    return np.int64(a.nodes[node, REST + index] if size <= INLINE else a.pool[block + index])


@part
def put_rest(a: Arrays, node: Number, block: Number, size: Number, index: Number, word: Number) -> None:
    """Writes a word of the node's Remainder."""
    if size <= INLINE:
        a.nodes[node, REST + index] = word
    else:
        a.pool[block + index] = word


@kernel
def set_rest(a: Arrays, node: Number, old_block: Number, old: Number, block: Number, size: Number) -> None:
    """Ends the rewriting; without any word the cells are free for children."""
    if old > INLINE:
        give_block(a, old_block, old)
    a.nodes[node, REST_SIZE] = size
    if size > INLINE:
        a.nodes[node, REST] = block
    elif size == 0:
        a.nodes[node, REST : REST + INLINE] = 0


@kernel
def push_down(a: Arrays, node: Number, inner: Number, shared: Number) -> None:
    """Hangs a leaf under `inner`; what was not shared stays in its Remainder, and the first of it becomes its word."""
    old_block, old = np.int64(a.nodes[node, REST]), np.int64(a.nodes[node, REST_SIZE])
    size = max(0, old - shared - 1)
    block = take_block(a, size) if size > INLINE else ZERO
    count = NONE
    for index in range(old):
        word = rest_word(a, node, old_block, old, index)
        if a.marks[word] != IS_SHARED:
            if count < 0:
                a.nodes[node, WORD] = word
            else:
                put_rest(a, node, block, size, count, word)
            count += 1
    set_rest(a, node, old_block, old, block, size)
    a.nodes[node, PARENT] = inner
    word, formula = np.int64(a.nodes[node, WORD]), np.int64(a.nodes[node, HEAD])
    if old - shared == 1 and formula >= 0:
        add_child(a, inner, word, ~formula)
        put_twig(a, inner, word, formula)
        free_node(a, node)
    else:
        add_child(a, inner, word, node)


@kernel
def prepend_rest(a: Arrays, node: Number) -> None:
    """The node's word becomes the first of its Remainder."""
    old_block, old = np.int64(a.nodes[node, REST]), np.int64(a.nodes[node, REST_SIZE])
    size = old + 1
    block = take_block(a, size) if size > INLINE else ZERO
    for index in range(old - 1, -1, -1):
        put_rest(a, node, block, size, index + 1, rest_word(a, node, old_block, old, index))
    put_rest(a, node, block, size, ZERO, np.int64(a.nodes[node, WORD]))
    set_rest(a, node, old_block, old, block, size)


# --- where a new set of words goes -----------------------------------------------------------


@kernel
def common_prefix(a: Arrays, directory: Number, words: Ints) -> None:
    """PrefixTrie's node for a sequence, and how long the prefix is that its Remainder shares."""
    node = np.int64(directory)
    depth = 0
    while depth < len(words) and node >= 0:
        slot = find_child(a, node, np.int64(words[depth]))
        if slot == NONE:
            break
        node = np.int64(a.pool[slot])
        depth += 1
    shared = ZERO
    if node >= 0:
        block, size = np.int64(a.nodes[node, REST]), np.int64(a.nodes[node, REST_SIZE])
        while shared < size and depth + shared < len(words):
            if rest_word(a, node, block, size, shared) != words[depth + shared]:
                break
            shared += 1
    a.state[CHOSEN] = node
    a.state[SHARED] = shared


@part
def overlap(a: Arrays, node: Number) -> Number:
    """How many words of the node's Remainder are in the new set."""
    block, size = np.int64(a.nodes[node, REST]), np.int64(a.nodes[node, REST_SIZE])
    found = ZERO
    for index in range(size):
        found += a.marks[rest_word(a, node, block, size, index)] == IN_SET
    return found


@kernel
def best_fit(a: Arrays, directory: Number, words: Ints) -> None:
    """BestFitTrie's node for a set: depth-first through all candidate tries to the largest overlap."""
    best, best_overlap, best_depth, best_shared = np.int64(directory), ZERO, ZERO, ZERO
    a.stack[0] = directory
    a.turns[0] = 0
    depth, lookups = ZERO, ZERO
    while depth >= 0:
        turn = a.turns[depth]
        if turn == len(words):
            depth -= 1
            continue
        a.turns[depth] = turn + 1
        lookups += 1
        if lookups > LOOKUPS_MAX:
            best = go_down(a, best, words)
            best_shared = overlap(a, best) if best >= 0 else ZERO
            break
        slot = find_child(a, np.int64(a.stack[depth]), np.int64(words[turn]))
        if slot == NONE:
            continue
        child = np.int64(a.pool[slot])
        shared = overlap(a, child) if child >= 0 else ZERO
        size = np.int64(a.nodes[child, REST_SIZE]) if child >= 0 else ZERO
        reached = depth + 1 + shared
        if reached == len(words) and shared == size:
            best, best_shared = child, shared
            break
        if reached > best_overlap or (reached == best_overlap and depth + 1 > best_depth):
            best, best_overlap, best_depth, best_shared = child, reached, depth + 1, shared
        if child >= 0 and child_count(a, child) > 0:
            depth += 1
            a.stack[depth] = child
            a.turns[depth] = 0
    a.state[CHOSEN] = best
    a.state[SHARED] = best_shared


@kernel
def go_down(a: Arrays, node: Number, words: Ints) -> Number:
    """As deep as the words lead."""
    at = 0
    while at < len(words) and node >= 0:
        slot = find_child(a, node, np.int64(words[at]))
        at += 1
        if slot != NONE:
            node = np.int64(a.pool[slot])
            at = 0
    return node


@kernel
def mark_words(a: Arrays, words: Ints, node: Number, shared: Number, by_prefix: bool) -> None:
    """Marks which words are on the path to the node and which its Remainder shares."""
    above = node
    depth = 0
    while a.nodes[above, PARENT] != NONE:
        a.marks[a.nodes[above, WORD]] = ON_PATH
        above = a.nodes[above, PARENT]
        depth += 1
    if by_prefix:
        for index in range(depth, depth + shared):
            a.marks[words[index]] = IS_SHARED
    else:
        block, size = np.int64(a.nodes[node, REST]), np.int64(a.nodes[node, REST_SIZE])
        for index in range(size):
            word = rest_word(a, node, block, size, index)
            if a.marks[word] == IN_SET:
                a.marks[word] = IS_SHARED


@kernel
def split(a: Arrays, node: Number, words: Ints, shared: Number) -> Number:
    """Spells the shared words out above a leaf, which moves down; returns the node where the new set goes on."""
    parent = np.int64(a.nodes[node, PARENT])
    word = np.int64(a.nodes[node, WORD])
    kept = np.int64(a.nodes[node, REST_SIZE]) - shared
    steps = shared if kept > 0 else shared - 1
    inner = new_node(a, word, NONE)
    a.nodes[inner, PARENT] = parent
    a.pool[find_child(a, parent, word)] = inner
    for new in words:
        if a.marks[new] == IS_SHARED:
            if steps > 0:
                inner = new_node(a, np.int64(new), inner)
            elif kept == 0:
                a.nodes[node, WORD] = new
            steps -= 1
    push_down(a, node, inner, shared)
    return inner if kept > 0 else node


@kernel
def grow(a: Arrays, node: Number, words: Ints, fresh: Number, formula: Number) -> None:
    """A leaf or twig for the words of the new set that are not yet spelled out."""
    leaf = NONE
    size = fresh - 1
    block = take_block(a, size) if size > INLINE else ZERO
    count = ZERO
    for word in words:
        if a.marks[word] != IN_SET:
            continue
        if size == 0:
            add_child(a, node, np.int64(word), ~formula)
            put_twig(a, node, np.int64(word), formula)
            return
        if leaf == NONE:
            leaf = new_node(a, np.int64(word), node)
        else:
            put_rest(a, leaf, block, size, count, np.int64(word))
            count += 1
    set_rest(a, leaf, ZERO, ZERO, block, size)
    attach(a, leaf, formula)


@kernel
def insert_words(a: Arrays, directory: Number, words: Ints, formula: Number, by_prefix: bool) -> None:
    """Stores a set of distinct words in a trie of the word directory."""
    for word in words:
        a.marks[word] = IN_SET
    if by_prefix:
        common_prefix(a, directory, words)
    else:
        best_fit(a, directory, words)
    node, shared = a.state[CHOSEN], a.state[SHARED]
    if node < 0:
        node = sprout(a, ~node)
    mark_words(a, words, node, shared, by_prefix)
    fresh = ZERO
    for word in words:
        fresh += a.marks[word] == IN_SET
    size = np.int64(a.nodes[node, REST_SIZE])
    if size > 0 and (fresh > 0 or size > shared):
        node = split(a, node, words, shared)
    if fresh > 0:
        grow(a, node, words, fresh, formula)
    else:
        attach(a, node, formula)
    for word in words:
        a.marks[word] = 0


@kernel
def has_room(a: Arrays, size: Number) -> Number:
    """Can any set of this size be inserted without growing an array?"""
    wanted = a.state[POOL_USED] + 3 * max(a.state[LARGEST], 16) + 8 * (size + 4)
    return a.state[NODES_USED] + size + 4 <= len(a.nodes) and wanted <= len(a.pool) and size + 2 <= len(a.stack)


@kernel
def insert_many(
    a: Arrays, directory: Number, offsets: Longs, words: Ints, formulas: Ints, begin: Number, by_prefix: bool
) -> Number:
    """Stores sets from the `begin`-th on; returns the first that found no room, or their number."""
    for index in range(begin, len(formulas)):
        start, end = offsets[index], offsets[index + 1]
        if not has_room(a, end - start):
            return index
        insert_words(a, directory, words[start:end], np.int64(formulas[index]), by_prefix)
    return len(formulas)


# --- deletion --------------------------------------------------------------------------------


@kernel
def remove_words(a: Arrays, formula: Number) -> None:
    """Takes the formula's set away, and every node that only it needed."""
    if a.links[formula, PLACE] == TWIG:
        node = np.int64(a.links[formula, NODE])
        remove_child(a, node, np.int64(a.links[formula, TWIG_WORD]))
        a.state[TWIGS] -= 1
        a.links[formula, NODE] = NONE
    else:
        node = detach(a, formula)
    while a.nodes[node, PARENT] != NONE and a.nodes[node, HEAD] == NONE and child_count(a, node) == 0:
        parent = np.int64(a.nodes[node, PARENT])
        remove_child(a, parent, np.int64(a.nodes[node, WORD]))
        free_node(a, node)
        node = parent
    if a.nodes[node, PARENT] == NONE:
        return
    if a.nodes[node, HEAD] == NONE and child_count(a, node) == 1:
        pull_up(a, lone_leaf(a, node))
    elif a.nodes[node, HEAD] != NONE and child_count(a, node) == 0:
        pull_up(a, node)
        if a.nodes[node, HEAD] >= 0 and a.nodes[node, REST_SIZE] == 0:
            wither(a, node)


@kernel
def lone_leaf(a: Arrays, node: Number) -> Number:
    """The only child of a node without queries, if it is a leaf (else NONE); for a twig, the node itself becomes it."""
    start, capacity = np.int64(a.nodes[node, BLOCK]), np.int64(a.nodes[node, CAPACITY])
    at = 0
    while a.pool[start + at] == 0:
        at += 1
    child = np.int64(a.pool[start + capacity + at])
    if child >= 0:
        return child if child_count(a, child) == 0 else NONE
    word = a.pool[start + at]
    a.state[TWIGS] -= 1
    resize_children(a, node, ZERO)
    a.nodes[node, REST] = word
    a.nodes[node, REST_SIZE] = 1
    attach(a, node, ~child)
    return node


@kernel
def pull_up(a: Arrays, leaf: Number) -> None:
    """Undoes the spelling out of a leaf that has no relatives left."""
    if leaf == NONE:
        return
    above = np.int64(a.nodes[leaf, PARENT])
    while a.nodes[above, PARENT] != NONE and a.nodes[above, HEAD] == NONE and child_count(a, above) == 1:
        parent = np.int64(a.nodes[above, PARENT])
        prepend_rest(a, leaf)
        a.nodes[leaf, WORD] = a.nodes[above, WORD]
        a.nodes[leaf, PARENT] = parent
        a.pool[find_child(a, parent, np.int64(a.nodes[above, WORD]))] = leaf
        resize_children(a, above, ZERO)
        free_node(a, above)
        above = parent


# --- filtering -------------------------------------------------------------------------------


@part
def rest_present(a: Arrays, node: Number, size: Number, present: Bytes) -> bool:
    """Do all words of the node's Remainder occur?"""
    block = np.int64(a.nodes[node, REST])
    for index in range(size):  # noqa: SIM110 — compiled
        if present[rest_word(a, node, block, size, index)] == 0:
            return False
    return True


@part
def probe_children(
    a: Arrays, node: Number, words: Ints, queue: Ints, tail: Number, found: Ints, count: Number
) -> tuple[Number, Number]:
    """Looks the document's words up among very many children."""
    for word in words:
        slot = find_child(a, node, np.int64(word))
        if slot != NONE:
            child = a.pool[slot]
            if child >= 0:
                queue[tail] = child
                tail += 1
            else:
                found[count] = ~child
                count += 1
    return tail, count


@part
def scan_children(
    a: Arrays, node: Number, present: Bytes, queue: Ints, tail: Number, found: Ints, count: Number
) -> tuple[Number, Number]:
    """Queues the children whose words occur, and takes the twigs among them.

    Without a branch, since whether a word occurs cannot be foretold, and with unsigned numbers, which need no
    test for being negative.
    """
    capacity, start = np.uint64(a.nodes[node, CAPACITY]), np.uint64(a.nodes[node, BLOCK])
    end, taken = np.uint64(tail), np.uint64(count)
    for index in range(start, start + capacity):
        child = a.pool[index + capacity]
        occurs = np.uint64(present[np.uint64(a.pool[index])])
        twig = np.uint64(child < 0) & occurs
        queue[end] = child
        found[taken] = ~child
        end += occurs - twig
        taken += twig
    return np.int64(end), np.int64(taken)


@part
def fetch_ahead(a: Arrays, queue: Ints, begin: Number, end: Number, fetched: Ints) -> None:
    """Reads the next nodes and where their children are, in loops so short that the processor waits for all at once."""
    for index in range(begin, end):
        fetched[index - begin] = a.nodes[queue[index], REST_SIZE]
    for index in range(begin, end):
        if fetched[index - begin] == 0:
            fetched[index - begin] = a.pool[a.nodes[queue[index], BLOCK]]


@kernel
def filter_tries(a: Arrays, directory: Number, present: Bytes, words: Ints, queue: Ints, found: Ints) -> Number:
    """Writes the formulas whose words are all present to `found`; returns their number.

    Breadth-first through the words that occur (§4), testing the Remainder of every leaf. Both buffers have one
    place more than there are nodes and formulas.
    """
    fetched = np.empty(AHEAD, np.int32)
    count = ZERO
    head, ahead, tail = ZERO, ZERO, np.int64(1)
    queue[0] = directory
    while head < tail:
        if head == ahead:
            ahead = min(tail, head + AHEAD)
            fetch_ahead(a, queue, head, ahead, fetched)
        node = np.int64(queue[head])
        head += 1
        size = np.int64(a.nodes[node, REST_SIZE])
        if size > 0:
            if not rest_present(a, node, size, present):
                continue
        elif a.nodes[node, CAPACITY] > PROBE * len(words):
            tail, count = probe_children(a, node, words, queue, tail, found, count)
        else:
            tail, count = scan_children(a, node, present, queue, tail, found, count)
        query = np.int64(a.nodes[node, HEAD])
        if query >= 0:
            found[count] = query
            count += 1
        elif query != NONE:
            block = SEVERAL - query
            for index in range(block + 2, block + 2 + a.pool[block]):
                found[count] = a.pool[index]
                count += 1
    return count


# --- lists: SWIN and the scan ----------------------------------------------------------------
# A node (SWIN: of a word, scan: the word directory) has a list in place of children: records of the pool, one after
# the other, each a formula, the number of its words, and the words. A removed record keeps its place, with no formula.


@part
def read_list(a: Arrays, node: Number, present: Bytes, found: Ints, count: Number) -> Number:
    """Adds the formulas of the list whose words are all present."""
    at = np.int64(a.nodes[node, BLOCK])
    end = at + a.nodes[node, CHILDREN]
    while at < end:
        after = at + 2 + a.pool[at + 1]
        index = at + 2
        while index < after and present[a.pool[index]] != 0:
            index += 1
        if index == after and a.pool[at] != NONE:
            found[count] = a.pool[at]
            count += 1
        at = after
    return count


@kernel
def filter_lists(a: Arrays, directory: Number, present: Bytes, words: Ints, by_word: bool, found: Ints) -> Number:
    """SWIN looks at every set that waits at a word of the document, the scan at every set."""
    if not by_word:
        return read_list(a, directory, present, found, ZERO)
    count = ZERO
    for word in words:
        slot = find_child(a, directory, np.int64(word))
        if slot != NONE:
            count = read_list(a, np.int64(a.pool[slot]), present, found, count)
    return count


@kernel
def move_list(a: Arrays, node: Number, room: Number) -> None:
    """Moves the records that are left to a block with room for `room` more numbers."""
    old, size, capacity = np.int64(a.nodes[node, BLOCK]), a.nodes[node, CHILDREN], np.int64(a.nodes[node, CAPACITY])
    length = block_size(size - a.nodes[node, REMOVED] + room)
    block = take_block(a, length)
    at, to = old, block
    while at < old + size:
        record = 2 + np.int64(a.pool[at + 1])
        if a.pool[at] != NONE:
            a.pool[to : to + record] = a.pool[at : at + record]
            a.links[a.pool[at], PLACE] = to - block
            to += record
        at += record
    if capacity > 0:
        give_block(a, old, capacity)
    a.nodes[node, BLOCK] = block
    a.nodes[node, CHILDREN] = to - block
    a.nodes[node, CAPACITY] = length
    a.nodes[node, REMOVED] = 0


@kernel
def list_words(a: Arrays, directory: Number, words: Ints, formula: Number, by_word: bool) -> None:
    """Stores a set of words for SWIN (by its first word) or for the scan."""
    node = np.int64(directory)
    if by_word:
        slot = find_child(a, directory, np.int64(words[0]))
        node = new_node(a, np.int64(words[0]), directory) if slot == NONE else np.int64(a.pool[slot])
    record = 2 + len(words)
    if a.nodes[node, CHILDREN] + record > a.nodes[node, CAPACITY]:
        move_list(a, node, max(record, np.int64(a.nodes[node, CHILDREN]) // 2))
    place = np.int64(a.nodes[node, CHILDREN])
    at = a.nodes[node, BLOCK] + place
    a.pool[at] = formula
    a.pool[at + 1] = len(words)
    a.pool[at + 2 : at + record] = words
    a.nodes[node, CHILDREN] = place + record
    a.links[formula, NODE] = node
    a.links[formula, PLACE] = place


@kernel
def list_many(
    a: Arrays, directory: Number, offsets: Longs, words: Ints, formulas: Ints, begin: Number, by_word: bool
) -> Number:
    """Stores sets from the `begin`-th on; returns the first that found no room, or their number."""
    for index in range(begin, len(formulas)):
        start, end = offsets[index], offsets[index + 1]
        if not has_room(a, end - start):
            return index
        list_words(a, directory, words[start:end], np.int64(formulas[index]), by_word)
    return len(formulas)


@kernel
def unlist_words(a: Arrays, formula: Number) -> None:
    """Takes the formula's set away; a list of which half is gone is written anew."""
    node = np.int64(a.links[formula, NODE])
    at = a.nodes[node, BLOCK] + np.int64(a.links[formula, PLACE])
    a.pool[at] = NONE
    a.links[formula, NODE] = NONE
    a.nodes[node, REMOVED] += 2 + a.pool[at + 1]
    if a.nodes[node, REMOVED] == a.nodes[node, CHILDREN]:
        give_block(a, np.int64(a.nodes[node, BLOCK]), np.int64(a.nodes[node, CAPACITY]))
        a.nodes[node, BLOCK : REMOVED + 1] = 0
        parent = np.int64(a.nodes[node, PARENT])
        if parent != NONE:
            remove_child(a, parent, np.int64(a.nodes[node, WORD]))
            free_node(a, node)
    elif 2 * a.nodes[node, REMOVED] > a.nodes[node, CHILDREN]:
        move_list(a, node, ZERO)


# --- everything back out ---------------------------------------------------------------------


@kernel
def measure_sets(a: Arrays, formulas: Ints, sizes: Longs, directories: Ints) -> None:
    """How many words each formula's set has, and in which word directory it is."""
    for index in range(len(formulas)):
        node = np.int64(a.links[formulas[index], NODE])
        twig = a.links[formulas[index], PLACE] == TWIG
        sizes[index] = 1 if twig else a.nodes[node, REST_SIZE]
        while a.nodes[node, PARENT] != NONE:
            sizes[index] += 1
            node = np.int64(a.nodes[node, PARENT])
        directories[index] = node


@kernel
def read_sets(a: Arrays, formulas: Ints, offsets: Longs, words: Ints) -> None:
    """The words of each formula's set: path, then Remainder."""
    for index in range(len(formulas)):
        formula, end = formulas[index], offsets[index + 1]
        node = np.int64(a.links[formula, NODE])
        if a.links[formula, PLACE] == TWIG:
            end -= 1
            words[end] = a.links[formula, TWIG_WORD]
        else:
            block, size = np.int64(a.nodes[node, REST]), np.int64(a.nodes[node, REST_SIZE])
            end -= size
            for step in range(size):
                words[end + step] = rest_word(a, node, block, size, step)
        while a.nodes[node, PARENT] != NONE:
            end -= 1
            words[end] = a.nodes[node, WORD]
            node = np.int64(a.nodes[node, PARENT])


@kernel
def measure_listed(a: Arrays, formulas: Ints, sizes: Longs, directories: Ints) -> None:
    """The same for sets in lists."""
    for index in range(len(formulas)):
        node = np.int64(a.links[formulas[index], NODE])
        sizes[index] = a.pool[a.nodes[node, BLOCK] + a.links[formulas[index], PLACE] + 1]
        directories[index] = node if a.nodes[node, PARENT] == NONE else a.nodes[node, PARENT]


@kernel
def read_listed(a: Arrays, formulas: Ints, offsets: Longs, words: Ints) -> None:
    """The same for sets in lists."""
    for index in range(len(formulas)):
        node = np.int64(a.links[formulas[index], NODE])
        at = a.nodes[node, BLOCK] + np.int64(a.links[formulas[index], PLACE]) + 2
        size = offsets[index + 1] - offsets[index]
        words[offsets[index] : offsets[index + 1]] = a.pool[at : at + size]
