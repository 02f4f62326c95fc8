"""What the algorithms of P2P-DIET §4 do with sets of words, in plain Python: the twin of `flat`.

A forest keeps, for each word directory, tries whose nodes have the paper's four parts: Word, Query,
Remainder and Children. A set of words is stored at one node: the words on the path to it are its
identifying subset, the words not yet needed to tell it from others stay in the Remainder ("delayed
creation of nodes"). PrefixTrie and BestFitTrie differ only in the node that they choose for a new set.

The paper's insertion is mended in four places:
- A new set that is a proper subset of a stored one must not share its node, or it would inherit words
  that it does not have: it is kept on an inner node. Only an equal set shares a node.
- l2 has the new word v, so v (and not u) leaves its Remainder.
- If the stored set is a proper subset of the new one there is no u: its queries stay on the inner node.
- Among nodes of equal overlap one that holds exactly the new set comes first, or it would be stored twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

LOOKUPS_MAX = 20_000  # of children while searching the best node; the paper's search is exponential in the set

Word = str | int


class Node:
    """A node of a trie; a word directory is one too, without a word: its children are the roots of the tries."""

    __slots__ = ("children", "parent", "queries", "remainder", "word")

    def __init__(self, word: Word | None = None, parent: Node | None = None, remainder: Sequence[Word] = ()) -> None:
        self.word = word
        self.parent = parent
        self.remainder = tuple(remainder)
        self.queries: list[int] = []
        self.children: dict[Word, Node] = {}

    def path(self) -> tuple[Word, ...]:
        """The words from the root to this node."""
        found: list[Word] = []
        node: Node | None = self
        while node is not None and node.word is not None:
            found.append(node.word)
            node = node.parent
        return tuple(reversed(found))

    def child(self, word: Word, remainder: Sequence[Word] = ()) -> Node:
        """A new child."""
        self.children[word] = Node(word, self, remainder)
        return self.children[word]


Choice = tuple[Node, Sequence[Word]]
"""The node for a new set of words, and those words of its Remainder that the path is extended with (the paper's τ)."""
Choose = Callable[[Node, Sequence[Word]], Choice]


def common_prefix(directory: Node, words: Sequence[Word]) -> Choice:
    """PrefixTrie: words are a sequence; follow it as far as it is stored (the algorithm Tree of SIFT)."""
    node = directory
    depth = 0
    while depth < len(words) and words[depth] in node.children:
        node = node.children[words[depth]]
        depth += 1
    shared = 0
    for known, new in zip(node.remainder, words[depth:], strict=False):
        if known != new:
            break
        shared += 1
    return node, words[depth : depth + shared]


def best_fit(directory: Node, words: Sequence[Word]) -> Choice:
    """BestFitTrie: depth-first through all candidate tries to the node with the largest overlap.

    Of equal overlaps the deeper node is taken, since it needs fewer new ones.
    """
    wanted = frozenset(words)
    best, rank = directory, (0, 0)
    lookups = 0
    steps = [(directory, iter(words))]
    while steps:
        node, left = steps[-1]
        word = next(left, None)
        if word is None:
            steps.pop()
            continue
        lookups += 1
        if lookups > LOOKUPS_MAX:
            best = _down(best, words)
            break
        if word in node.children:
            child = node.children[word]
            depth, shared = len(steps), len(wanted.intersection(child.remainder))
            if depth + shared == len(words) and shared == len(child.remainder):
                best = child
                break
            if (depth + shared, depth) > rank:
                best, rank = child, (depth + shared, depth)
            if child.children:
                steps.append((child, iter(words)))
    return best, [word for word in words if word in best.remainder]


def _down(node: Node, words: Sequence[Word]) -> Node:
    """As deep as the words lead: a node never gets a second child of the same word."""
    while (word := next((word for word in words if word in node.children), None)) is not None:
        node = node.children[word]
    return node


class Forest:
    """Word directories, each with the tries of one field."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._directories: dict[int, Node] = {}
        self._at: dict[int, Node] = {}

    def open(self) -> int:
        """A new word directory."""
        number = max(self._directories, default=-1) + 1
        self._directories[number] = Node()
        return number

    def close(self, directory: int) -> None:
        """Frees an empty word directory."""
        del self._directories[directory]

    # --- insertion ---------------------------------------------------------------------------

    def insert(self, directory: int, words: Sequence[Word], formula: int) -> None:
        """Stores a set of distinct words under the formula that has it."""
        node, shared = self._choose(self._directories[directory], words)
        known = {*node.path(), *shared}
        fresh = [word for word in words if word not in known]
        kept = [word for word in node.remainder if word not in known]
        if fresh or kept:
            if node.remainder:
                node = self._split(node, shared, kept)
            if fresh:
                node = node.child(fresh[0], fresh[1:])
        node.queries.append(formula)
        self._at[formula] = node

    def _split(self, node: Node, shared: Sequence[Word], kept: Sequence[Word]) -> Node:
        """Spells the shared words out above a leaf, which moves down; returns the node where the new set goes on."""
        assert node.parent is not None
        assert node.word is not None
        steps = [node.word, *shared]
        inner = node.parent
        for word in steps if kept else steps[:-1]:
            inner = inner.child(word)
        node.word, node.remainder = (kept[0], tuple(kept[1:])) if kept else (steps[-1], ())
        node.parent = inner
        inner.children[node.word] = node
        return inner if kept else node

    # --- deletion ----------------------------------------------------------------------------

    def remove(self, formula: int) -> None:
        """Takes the formula's set away, and every node that only it needed."""
        node = self._at.pop(formula)
        node.queries.remove(formula)
        if node.queries:
            return
        while not node.children and not node.queries and node.parent is not None:
            assert node.word is not None
            del node.parent.children[node.word]
            node = node.parent
        if node.queries and not node.children:
            self._pull_up(node)
        elif not node.queries and len(node.children) == 1:
            self._pull_up(*node.children.values())

    def _pull_up(self, leaf: Node) -> None:
        """Undoes the spelling out of a leaf that has no relatives left."""
        above = leaf.parent
        while not leaf.children and above and above.parent and not above.queries and len(above.children) == 1:
            assert above.word is not None
            assert leaf.word is not None
            leaf.remainder = (leaf.word, *leaf.remainder)
            leaf.word, leaf.parent = above.word, above.parent
            above.parent.children[leaf.word] = leaf
            above = leaf.parent

    # --- filtering ---------------------------------------------------------------------------

    def qualifying(self, directory: int, words: AbstractSet[Word]) -> list[int]:
        """The formulas whose words all occur: breadth-first from the roots, through words that occur only."""
        found: list[int] = []
        waiting = deque([self._directories[directory]])
        while waiting:
            node = waiting.popleft()
            if words >= set(node.remainder):
                found += node.queries
            occurring = words & node.children.keys() if len(words) < len(node.children) else node.children.keys()
            waiting += (node.children[word] for word in occurring if word in words)
        return sorted(found)

    # --- what it looks like ------------------------------------------------------------------

    def stored(self, directory: int) -> Iterator[Stored]:
        """Every node, parents first."""
        waiting = deque(self._directories[directory].children.values())
        while waiting:
            node = waiting.popleft()
            yield Stored(node.path(), node.remainder, frozenset(node.queries), frozenset(node.children))
            waiting += node.children.values()

    @property
    def nodes(self) -> int:
        """How many nodes there are, word directories not counted."""
        return sum(1 for directory in self._directories for _ in self.stored(directory))


# --- invariants ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stored:
    """One node as it is seen from outside."""

    path: tuple[Word, ...]
    remainder: tuple[Word, ...]
    queries: frozenset[int]
    children: frozenset[Word]


def check(nodes: Collection[Stored], sets: dict[int, frozenset[Word]]) -> None:
    """The invariants of §4 after any insertions and deletions; `sets` are the formulas' words."""
    by_path = {node.path: node for node in nodes}
    assert len(by_path) == len(nodes), "two nodes have the same path"
    found: dict[frozenset[Word], Stored] = {}
    for node in nodes:
        words = [*node.path, *node.remainder]
        assert len(set(words)) == len(words), f"a word stands twice at {node}"
        assert not (node.children and node.remainder), f"an inner node has a Remainder: {node}"
        assert node.children or node.queries, f"a leaf without queries: {node}"
        below = [by_path[(*node.path, word)] for word in node.children]
        assert node.queries or len(below) > 1 or below[0].children, f"a node was created too early: {node}"
        if node.queries:
            assert frozenset(words) not in found, f"one set at two nodes: {node}"
            found[frozenset(words)] = node
        assert len(node.path) == 1 or node.path[-1] in by_path[node.path[:-1]].children, f"unreachable: {node}"
    assert {formula for node in nodes for formula in node.queries} == set(sets)
    for formula, expected in sets.items():
        assert formula in found[expected].queries, f"path ∪ Remainder is not the set of formula {formula}"


def is_identifying(part: frozenset[Word], whole: frozenset[Word], sets: AbstractSet[frozenset[Word]]) -> bool:
    """Definition 1: `part` is `whole`, or it is in no *other* set.

    The paper forgets "other": every set contains its own subsets, so that no proper subset would ever identify it.
    """
    return part == whole or (part <= whole and not any(part <= other for other in sets if other != whole))


# --- the two without tries -------------------------------------------------------------------


class Postings:
    """SWIN: each set of words waits at its first word, and is looked at where that word occurs."""

    def __init__(self) -> None:
        self._posting: dict[int, dict[Word, dict[int, frozenset[Word]]]] = {}
        self._at: dict[int, tuple[int, Word]] = {}

    def open(self) -> int:
        """A new word directory."""
        number = max(self._posting, default=-1) + 1
        self._posting[number] = {}
        return number

    def close(self, directory: int) -> None:
        """Frees an empty word directory."""
        del self._posting[directory]

    def insert(self, directory: int, words: Sequence[Word], formula: int) -> None:
        """Stores a set of words under the formula that has it."""
        self._posting[directory].setdefault(words[0], {})[formula] = frozenset(words)
        self._at[formula] = directory, words[0]

    def remove(self, formula: int) -> None:
        """Takes the formula's set away."""
        directory, word = self._at.pop(formula)
        del self._posting[directory][word][formula]
        if not self._posting[directory][word]:
            del self._posting[directory][word]

    def qualifying(self, directory: int, words: AbstractSet[Word]) -> list[int]:
        """The formulas whose words all occur."""
        postings = [self._posting[directory][word] for word in words if word in self._posting[directory]]
        return sorted(formula for posting in postings for formula, wanted in posting.items() if wanted <= words)


class Scan:
    """BF: no index, every set of words is looked at."""

    def __init__(self) -> None:
        self._sets: dict[int, dict[int, frozenset[Word]]] = {}
        self._at: dict[int, int] = {}

    def open(self) -> int:
        """A new word directory."""
        number = max(self._sets, default=-1) + 1
        self._sets[number] = {}
        return number

    def close(self, directory: int) -> None:
        """Frees an empty word directory."""
        del self._sets[directory]

    def insert(self, directory: int, words: Sequence[Word], formula: int) -> None:
        """Stores a set of words under the formula that has it."""
        self._sets[directory][formula] = frozenset(words)
        self._at[formula] = directory

    def remove(self, formula: int) -> None:
        """Takes the formula's set away."""
        del self._sets[self._at.pop(formula)][formula]

    def qualifying(self, directory: int, words: AbstractSet[Word]) -> list[int]:
        """The formulas whose words all occur."""
        return sorted(formula for formula, wanted in self._sets[directory].items() if wanted <= words)
