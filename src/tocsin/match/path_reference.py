"""What the path kernels compute, said plainly; and YFilter's two ways with predicates side by side.

The first part is the definition that `match.path_kernels` is tested against, the second that of
`match.path_mask_kernels`. The third one is a whole filter in ordinary Python: `TreeFilter` walks a document with sets
of active states (XML filtering paper §5, its run-time stack is Python's own). Under *Inline* a state is entered only if
its predicates hold at the element; under *Selection Postponed* the states know no predicates, and a clause is checked
after its path has been accepted. Both use the same checks, so what differs is only when they are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tocsin.markup import Markup, Tree
from tocsin.match import path_conditions as conditions
from tocsin.match.path_guards import Guards, Selection
from tocsin.match.path_readings import Prefix, Reading, Shared
from tocsin.match.path_set_kernels import compares as number_compares
from tocsin.query.xpath.ast import Path
from tocsin.query.xpath.routes import EPSILON, TEXT, WILDCARD, Clause, Hop, Linear, clauses_of
from tocsin.query.xpath.semantics import COMPARISONS, compares, holds_xpath, is_true, take_step

_SIGNS = {
    conditions.EQUAL: "=",
    conditions.UNEQUAL: "!=",
    conditions.LESS: "<",
    conditions.AT_MOST: "<=",
    conditions.MORE: ">",
    conditions.AT_LEAST: ">=",
}

# --- definitions -----------------------------------------------------------------------------------------------------


def mark_members(members: Iterable[tuple[int, float, int]], values: Sequence[tuple[int, float]]) -> set[int]:
    """The slots of those (comparison, literal, slot) that some value, a string's number and a number, meets."""
    found = set()
    for how, literal, slot in members:
        for text, number in values:
            if how == conditions.SAME:
                holds = text == literal
            elif how == conditions.DIFFERENT:
                holds = text != literal
            else:
                holds = COMPARISONS[_SIGNS[how]](number, literal)
            if holds:
                found.add(slot)
    return found


def prefixes(paths: Iterable[Linear]) -> set[Linear]:
    """The states of the automaton: every distinct prefix, the empty one included (paper §3: a state's key)."""
    return {()} | {path[:length] for path in paths for length in range(len(path) + 1)}


def chains(document: Markup) -> Iterator[Linear]:
    """For each node the labels from the root element down to it."""
    tree = document.tree
    for element in range(len(tree.names)):
        chain: list[str] = []
        at = element
        while at >= 0:
            chain.append(tree.names[at])
            at = tree.parents[at]
        names = tuple(reversed(chain))
        yield names
        yield from ((*names, "@" + name) for name in tree.attributes[element])
        if tree.texts[element]:
            yield (*names, TEXT)


def accepts(path: Linear, chain: Linear) -> bool:
    """Does a linear path lead exactly to the end of a chain?"""
    if not path:
        return not chain
    if path[0] == EPSILON:
        return any(accepts(path[1:], chain[skipped:]) for skipped in range(len(chain)) if _inner(chain[:skipped]))
    return bool(chain) and fits(path[0], chain[0]) and accepts(path[1:], chain[1:])


def _inner(chain: Linear) -> bool:
    return all(label != TEXT and not label.startswith("@") for label in chain)


def fits(label: str, name: str) -> bool:
    """Does the label of a transition accept the label of a node?"""
    if label.startswith("@") != name.startswith("@") or (name == TEXT and label != TEXT):
        return False
    bare, _, local = label.rpartition("*")
    return label == name or (not local and label.endswith("*") and (bare in ("", "@") or name.startswith(bare)))


def run_stack(paths: Sequence[Linear], document: Markup) -> list[int]:
    """The linear paths that occur in a document: what both kernels compute."""
    found = list(dict.fromkeys(chains(document)))
    return [number for number, path in enumerate(paths) if any(accepts(path, chain) for chain in found)]


# --- conditions -----------------------------------------------------------------------------------------------------


def evaluate(guards: Guards, document: Markup, number: int) -> set[int]:
    """The elements at which a condition holds; the document itself has the number after the last element's."""
    tree = document.tree
    size = len(tree.names)
    node, literal = guards.graph
    what, left, right = node[number].tolist()
    label = guards.labels.names[left] if what < conditions.ASKED else ""

    def inner(one: int) -> set[int]:
        return evaluate(guards, document, one)

    def parent(element: int) -> int:
        return size if tree.parents[element] < 0 else tree.parents[element]

    match what:
        case conditions.START:
            return {size}
        case conditions.NAMED:
            return {one for one, name in enumerate(tree.names) if fits(label, name)}
        case conditions.ATTRIBUTE | conditions.CONTENT | conditions.CHILD | conditions.TEXT:
            owner, how = guards.labels.names[right >> 4], right & 15
            compared = float(literal[number])
            if how in (conditions.SAME, conditions.DIFFERENT):
                compared_with: str | float | None = guards.strings.keys[int(compared)]
            else:
                compared_with = compared
            found = {
                parent(one) if what == conditions.CHILD else one
                for one, name, value in _valued(tree, what)
                if (what == conditions.TEXT or fits(label, name))
                and (how == conditions.EXISTS or _compares(value, how, compared_with))
            }
            return {one for one in found if owner == WILDCARD or (one < size and fits(owner, tree.names[one]))}
        case conditions.ASKED:
            question = guards.questions.keys[left]
            assert question is not None
            asked, of = question[0], guards.labels.names[question[1]]
            if isinstance(asked, Path):
                return {0} if holds_xpath(asked, document) else set()
            chosen = (one for one, name in enumerate(tree.names) if fits(of, name))
            return {one for one in chosen if is_true(asked, tree, ("element", one, 0), 0)}
        case conditions.BOTH:
            return inner(left) & inner(right)
        case conditions.EITHER:
            return inner(left) | inner(right)
        case conditions.WITHOUT:
            return set(range(size)) - inner(left)
        case conditions.PARENTS:
            return {parent(one) for one in inner(left) if one < size}
        case conditions.ABOVE:
            below = inner(left)
            return {one for one in range(size + 1) if any(_is_below(tree, other, one) for other in below)}
        case conditions.CHILDREN:
            above = inner(left)
            return {one for one in range(size) if parent(one) in above}
        case conditions.BELOW:
            above = inner(left)
            return {one for one in range(size) if any(_is_below(tree, one, other) for other in above)}
        case conditions.PLACED:
            among = inner(left)
            return {
                one
                for one in among
                if number_compares(
                    sum(parent(other) == parent(one) for other in among if other <= one), right, literal[number]
                )
            }
        case conditions.EVERYWHERE:
            return set(range(size)) if size in inner(left) else set()
    return set()


def _valued(tree: Tree, what: int) -> Iterator[tuple[int, str, str]]:
    """Elements with the name and value of each attribute, of themselves, or of each text."""
    for one, name in enumerate(tree.names):
        match what:
            case conditions.ATTRIBUTE:
                yield from ((one, "@" + key, value) for key, value in tree.attributes[one].items())
            case conditions.TEXT:
                yield from ((one, TEXT, value) for value in tree.texts[one])
            case _:
                yield one, name, tree.value(one)


def _compares(value: str, how: int, literal: str | float | None) -> bool:
    assert literal is not None
    return compares(value, (_SIGNS | {conditions.SAME: "=", conditions.DIFFERENT: "!="})[how], literal)


def _is_below(tree: Tree, one: int, other: int) -> bool:
    """Is an element (not the document) a descendant of another one, or of the document?"""
    size = len(tree.names)
    return one < size and (other == size or other < one < tree.last[other])


# --- a filter in plain Python ----------------------------------------------------------------------------------------


@dataclass(eq=False)
class _State:
    """A state: the hops that lead on from it by (deep, label), and the clauses that it accepts."""

    prefix: Prefix | None
    onward: dict[tuple[bool, str], list[_State]] = field(default_factory=dict)
    clauses: dict[int, Clause] = field(default_factory=dict)


@dataclass(slots=True)
class Work:
    """What one document cost: states entered, predicates looked at."""

    states: int = 0
    checks: int = 0


class TreeFilter:
    """XPath queries by number, matched without kernels."""

    def __init__(self, selection: Selection = Selection.INLINE) -> None:
        self.selection = selection
        self.work = Work()
        self._shared = Shared()
        self._start = _State(None)
        self._queries: dict[int, Path] = {}
        self._clauses: dict[int, tuple[int, _State, Prefix]] = {}
        self._next = 0

    def add(self, number: int, query: Path) -> None:
        """Registers a query under a number that is not in use."""
        self._queries[number] = query
        for clause in clauses_of(query):
            state = self._start
            postponed = self.selection is Selection.POSTPONED or not clause.exact
            hops = tuple(replace(hop, predicates=()) for hop in clause.hops) if postponed else clause.hops
            for length in range(1, len(hops) + 1):
                state = self._onward(state, hops[:length])
            state.clauses[self._next] = clause
            self._clauses[self._next] = (number, state, self._shared.prefix(clause.hops))
            self._next += 1

    def remove(self, number: int) -> None:
        """Forgets a query; its states stay."""
        del self._queries[number]
        for clause, (owner, state, _) in list(self._clauses.items()):
            if owner == number:
                del self._clauses[clause], state.clauses[clause]

    def _onward(self, state: _State, hops: tuple[Hop, ...]) -> _State:
        prefix = self._shared.prefix(hops)
        options = state.onward.setdefault((hops[-1].deep, hops[-1].label), [])
        for option in options:
            if option.prefix is prefix:
                return option
        options.append(_State(prefix))
        return options[-1]

    def match(self, document: Markup) -> list[int]:
        """The numbers of the queries that hold, ascending."""
        self.work = Work()
        reading = Reading(document)
        accepted: dict[int, None] = {}
        self._walk(reading, accepted)
        found = set()
        for clause in accepted:
            number, state, prefix = self._clauses[clause]
            if number not in found and self._holds(reading, number, state.clauses[clause], prefix):
                found.add(number)
        self.work.checks = reading.checks
        return sorted(found)

    def _holds(self, reading: Reading, number: int, clause: Clause, prefix: Prefix) -> bool:
        if not clause.exact:
            return holds_xpath(self._queries[number], reading.document)
        return self.selection is Selection.INLINE or not clause.guarded or reading.reaches(prefix)

    def _walk(self, reading: Reading, accepted: dict[int, None]) -> None:
        """Elements in document order; each finds the states of its parent, as the run-time stack would give them."""
        tree = reading.tree
        at: list[list[_State]] = []
        above: list[list[_State]] = []
        for element, name in enumerate(tree.names):
            parent = tree.parents[element]
            near, far = (at[parent], above[parent]) if parent >= 0 else ([self._start], [self._start])
            here = [
                state
                for state in dict.fromkeys(_options(near, far, _labels(name)))
                if state.prefix is not None and reading.passes(state.prefix, element)
            ]
            at.append(here)
            above.append([*far, *(state for state in here if state.onward)])
            for state in here:
                accepted.update(dict.fromkeys(state.clauses))
            self.work.states += len(here)
            self._leaves(reading, element, here, above[-1], accepted)

    def _leaves(
        self, reading: Reading, element: int, near: list[_State], far: list[_State], accepted: dict[int, None]
    ) -> None:
        """Attributes and texts of an element."""
        labels = [label for name in reading.tree.attributes[element] for label in _labels("@" + name)]
        if reading.tree.texts[element]:
            labels.append(TEXT)
        for state in dict.fromkeys(_options(near, far, labels)):
            if state.prefix is not None and take_step(state.prefix.step, reading.tree, ("element", element, 0)):
                accepted.update(dict.fromkeys(state.clauses))


def _labels(name: str) -> tuple[str, ...]:
    """The labels that a name falls under."""
    sign = "@" if name.startswith("@") else ""
    group = (name.rpartition("}")[0] + "}*",) if "}" in name else ()
    return (name, f"{sign}*", *group)


def _options(near: list[_State], far: list[_State], labels: Sequence[str]) -> Iterator[_State]:
    for states, deep in ((near, False), (far, True)):
        for state in states:
            if state.onward:
                for label in labels:
                    yield from state.onward.get((deep, label), ())
