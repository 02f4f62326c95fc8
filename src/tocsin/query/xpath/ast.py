"""What an XPath subscription says, as a tree (XML filtering paper §2; the contract's subset of XPath 1.0).

A path is a sequence of steps; a step is an axis, a test and predicates. `//` is a mark on the step that
follows it. `a//b` and `a/descendant::b` select the same nodes, but `[1]` counts differently under them,
so the tree keeps what was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Axis(StrEnum):
    """Where a step looks from a node."""

    CHILD = "child"
    DESCENDANT = "descendant"
    DESCENDANT_OR_SELF = "descendant-or-self"
    ATTRIBUTE = "attribute"
    SELF = "self"  # only as '.'


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a namespace ("" is none), `*` (both None), or `p:*` (only `local` None)."""

    local: str | None
    uri: str | None = ""
    prefix: str = ""

    def accepts(self, clark: str) -> bool:
        """Is this a test that a node of that name ('{uri}local', or 'local') passes?"""
        if self.local is not None:
            return self.clark == clark
        return self.uri is None or clark.startswith(f"{{{self.uri}}}")

    @property
    def clark(self) -> str:
        """The name as '{uri}local'; a wildcard has '*' in its place."""
        if not self.uri:
            return self.local or "*"
        return f"{{{self.uri}}}{self.local or '*'}"


@dataclass(frozen=True, slots=True)
class Text:
    """text()."""


@dataclass(frozen=True, slots=True)
class Node:
    """Any node: only as '.'."""


Test = Name | Text | Node
ANY = Name(None, None)
ORDER = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
"""The comparisons, each with the one that says the same when its sides change places."""


@dataclass(frozen=True, slots=True)
class Step:
    """One location step; `deep` says that '//' stands before it."""

    axis: Axis
    test: Test
    predicates: tuple[Predicate, ...] = ()
    deep: bool = False


@dataclass(frozen=True, slots=True)
class Path:
    """Steps from the document (absolute) or from a node; at the top of a query that node is the root element."""

    steps: tuple[Step, ...]
    absolute: bool = True


@dataclass(frozen=True, slots=True)
class Position:
    """[position() op number]; [n] is [position() = n]."""

    op: str
    number: float


@dataclass(frozen=True, slots=True)
class Exists:
    """[path]: it selects some node."""

    path: Path


@dataclass(frozen=True, slots=True)
class Compare:
    """[path op literal]: the string-value of some selected node compares so."""

    path: Path
    op: str
    literal: str | float


@dataclass(frozen=True, slots=True)
class Every:
    """and."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """or."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Never:
    """not()."""

    part: Predicate


Predicate = Position | Exists | Compare | Every | Some | Never


def is_positional(predicate: Predicate) -> bool:
    """Does it depend on where the node stands among those selected with it?"""
    match predicate:
        case Position():
            return True
        case Every(parts) | Some(parts):
            return any(is_positional(part) for part in parts)
        case Never(part):
            return is_positional(part)
    return False


def paths_in(predicate: Predicate) -> Iterator[Path]:
    """The paths that a predicate follows, without those inside their own predicates."""
    match predicate:
        case Exists(path) | Compare(path):
            yield path
        case Every(parts) | Some(parts):
            for part in parts:
                yield from paths_in(part)
        case Never(part):
            yield from paths_in(part)


def namespaces_in(path: Path) -> dict[str, str]:
    """The prefixes that a path uses, with their namespaces."""
    found: dict[str, str] = {}
    for step in path.steps:
        if isinstance(step.test, Name) and step.test.prefix and step.test.uri is not None:
            found[step.test.prefix] = step.test.uri
        for predicate in step.predicates:
            for inner in paths_in(predicate):
                found |= namespaces_in(inner)
    return found


def cost(path: Path) -> int:
    """Checks per document in the worst case: a step is one, `//` and wildcards cost more, predicates most.

    A position on a spelled descendant axis counts nodes below every context: such a query is checked whole.
    """
    return sum(_step_cost(step) for step in path.steps)


def _step_cost(step: Step) -> int:
    spelled = step.axis in (Axis.DESCENDANT, Axis.DESCENDANT_OR_SELF)
    price = 1 + step.deep + spelled + (isinstance(step.test, Name) and step.test.local is None)
    for predicate in step.predicates:
        price += 50 if spelled and is_positional(predicate) else 2
        price += sum(2 * cost(path) for path in paths_in(predicate))
    return price
