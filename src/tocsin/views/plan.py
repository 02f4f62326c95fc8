"""The subscription graph: relations, and operations that derive relations from others (relational subscriptions §2.3).

Nodes are immutable and equal if they say the same, so equal parts of several views are one node. Each node knows its
columns with their types and kinds, its key, whether its rows are final from the start (`history`) or may leave
(`leaves`), and the ticks that its rows depend on (`origins`). A row is one tuple: the SELECT list, then key columns
that were not selected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TypeAlias

from tocsin.views import window
from tocsin.views.expression import Column, Expression, Kind, Type, shifted
from tocsin.views.window import Origin


def _hash_once(self: object) -> int:
    """Nodes hold nodes: without this, the hash of a deep graph would be computed over and over."""
    held = self.__dict__.get("_hash")
    if held is None:
        held = self.__dict__["_hash"] = hash((type(self), *(self.__dict__[f.name] for f in fields(self))))  # type: ignore[arg-type]
    return int(held)


@dataclass(frozen=True)
class Relation:
    """A source: an event history, keyed by tick."""

    name: str
    columns: tuple[Column, ...]

    __hash__ = _hash_once

    history = True
    leaves = False
    key_names = ("tick",)
    inputs: tuple[Node, ...] = ()

    @cached_property
    def visible(self) -> int:
        """How many columns a SELECT * shows."""
        return len(self.columns)

    @cached_property
    def key(self) -> tuple[int, ...]:
        """Where the tick stands."""
        return (next(at for at, column in enumerate(self.columns) if column.name == "tick"),)

    @cached_property
    def origins(self) -> tuple[Origin, ...]:
        """Each row depends on its own tick."""
        tick = self.columns[self.key[0]]
        (origin,) = window.of_source(self.name)
        return (Origin(self.name, tuple(window.Limit(x.function, "=", tick) for x in origin.limits)),)

    def __str__(self) -> str:
        return f"relation {self.name}"


class _Unary:
    """What most operations on one input keep of it."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """What it reads."""
        return (self.input,)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of its rows."""
        return self.input.columns

    @property
    def visible(self) -> int:
        """How many of them were selected."""
        return self.input.visible

    @property
    def key(self) -> tuple[int, ...]:
        """Where the key columns stand."""
        return self.input.key

    @property
    def key_names(self) -> tuple[str, ...]:
        """What the key columns are called in results."""
        return self.input.key_names

    @property
    def history(self) -> bool:
        """Whether rows are final from the start."""
        return self.input.history

    @property
    def leaves(self) -> bool:
        """Whether rows may leave."""
        return self.input.leaves

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The ticks that its rows depend on."""
        return self.input.origins


@dataclass(frozen=True)
class Select(_Unary):
    """The rows for which a condition holds."""

    input: Node
    condition: Expression

    __hash__ = _hash_once

    @property
    def leaves(self) -> bool:
        return self.input.leaves or self.condition.kind is not Kind.FINAL

    @cached_property
    def origins(self) -> tuple[Origin, ...]:
        return window.refine(self.input.origins, self.condition)

    def __str__(self) -> str:
        return f"select {self.condition}"


@dataclass(frozen=True)
class Project(_Unary):
    """Other columns, computed row by row: project and extend."""

    input: Node
    outputs: tuple[tuple[str, Expression], ...]
    shown: int
    places: tuple[int, ...]

    __hash__ = _hash_once

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(at, e.type, e.kind, name) for at, (name, e) in enumerate(self.outputs))

    @property
    def visible(self) -> int:
        return self.shown

    @property
    def key(self) -> tuple[int, ...]:
        return self.places

    @cached_property
    def origins(self) -> tuple[Origin, ...]:
        return window.regroup(self.input.origins, [expression for _, expression in self.outputs])

    def __str__(self) -> str:
        shown = self.outputs[: self.shown]
        return "project " + ", ".join(str(e) if str(e) == name else f"{e} AS {name}" for name, e in shown)


@dataclass(frozen=True)
class Join:
    """Pairs of rows whose expressions are equal."""

    left: Node
    right: Node
    left_on: tuple[Expression, ...]
    right_on: tuple[Expression, ...]
    key_names: tuple[str, ...]

    __hash__ = _hash_once

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Both sides."""
        return (self.left, self.right)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Those of the left, then those of the right."""
        by = len(self.left.columns)
        moved = (Column(c.index + by, c.type, c.kind, c.name) for c in self.right.columns)
        return (*self.left.columns, *moved)

    @cached_property
    def visible(self) -> int:
        """All: the SELECT above chooses."""
        return len(self.columns)

    @cached_property
    def key(self) -> tuple[int, ...]:
        """The keys of both sides."""
        return (*self.left.key, *(at + len(self.left.columns) for at in self.right.key))

    @property
    def history(self) -> bool:
        """Pairs of final rows are final."""
        return self.left.history and self.right.history

    @property
    def evolving_keys(self) -> bool:
        """Whether rows may find other partners later."""
        return any(expression.kind is not Kind.FINAL for expression in (*self.left_on, *self.right_on))

    @property
    def leaves(self) -> bool:
        """If a side may lose rows."""
        return self.left.leaves or self.right.leaves or self.evolving_keys

    @cached_property
    def origins(self) -> tuple[Origin, ...]:
        """Those of both sides; what is tied to one of two equal columns is tied to the other."""
        by = len(self.left.columns)
        origins = (*self.left.origins, *window.move(self.right.origins, by))
        for left, right in zip(self.left_on, self.right_on, strict=True):
            origins = window.refine(origins, window.equality(left, shifted(right, by)))
        return origins

    def __str__(self) -> str:
        pairs = zip(self.left_on, self.right_on, strict=True)
        return "join on " + " and ".join(f"{left} = {right}" for left, right in pairs)


@dataclass(frozen=True)
class Merge:
    """The rows of several relations, each labelled with its source (the paper's merge)."""

    inputs: tuple[Node, ...]
    labels: tuple[str, ...]
    columns: tuple[Column, ...]  # the shared SELECT list, then source, then every key column of an input
    key_names: tuple[str, ...]

    __hash__ = _hash_once

    @property
    def visible(self) -> int:
        """The shared SELECT list."""
        return len(self.columns) - len(self.key_names)

    @property
    def key(self) -> tuple[int, ...]:
        """The source and the keys."""
        return tuple(range(self.visible, len(self.columns)))

    @property
    def history(self) -> bool:
        """If all are."""
        return all(node.history for node in self.inputs)

    @property
    def leaves(self) -> bool:
        """If one does."""
        return any(node.leaves for node in self.inputs)

    def moved(self, node: Node, label: str) -> tuple[int | None, ...]:
        """For each key column after the source: where an input holds it, if it does."""
        own = dict(zip(renamed_source(node.key_names, label), node.key, strict=True))
        return tuple(own.get(name) for name in self.key_names[1:])

    @cached_property
    def origins(self) -> tuple[Origin, ...]:
        """Those of all inputs."""
        found: list[Origin] = []
        for node, label in zip(self.inputs, self.labels, strict=True):
            cells: list[Expression] = list(node.columns[: self.visible])
            cells.append(window.NOTHING)
            cells += [window.NOTHING if at is None else node.columns[at] for at in self.moved(node, label)]
            found += window.regroup(node.origins, cells)
        return tuple(found)

    def __str__(self) -> str:
        return "merge " + ", ".join(self.labels)


def renamed_source(names: tuple[str, ...], label: str) -> tuple[str, ...]:
    """Key names of an input of a merge, where `source` is taken."""
    return tuple(f"{label}.source" if name == "source" else name for name in names)


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a group; order is what `latest` goes by."""

    function: str
    arguments: tuple[Expression, ...]
    order: Expression | None
    names: tuple[str, ...]
    type: Type
    kind: Kind

    def __str__(self) -> str:
        by = f" by {self.order}" if self.order is not None else ""
        return f"{self.function}({', '.join(map(str, self.arguments))}{by}): {self.kind.value}"


@dataclass(frozen=True)
class Group(_Unary):
    """One row for each value of the keys. Without keys there is one row from the start."""

    input: Node
    keys: tuple[tuple[str, Expression], ...]
    aggregates: tuple[Aggregate, ...]
    whole: bool = False  # an aggregate without GROUP BY

    __hash__ = _hash_once

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        keys = [Column(at, e.type, Kind.FINAL, name) for at, (name, e) in enumerate(self.keys)]
        made = [
            Column(at, a.type, a.kind, f"{a.function}#{at}") for at, a in enumerate(self.aggregates, start=len(keys))
        ]
        return (*keys, *made)

    @cached_property
    def visible(self) -> int:
        return len(self.columns)

    @cached_property
    def key(self) -> tuple[int, ...]:
        return tuple(range(len(self.keys)))

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.keys)

    @property
    def history(self) -> bool:
        return False

    @property
    def evolving_keys(self) -> bool:
        """Whether rows may move to another group later."""
        return any(expression.kind is not Kind.FINAL for _, expression in self.keys)

    @property
    def leaves(self) -> bool:
        return not self.whole and (self.input.leaves or self.evolving_keys)

    @property
    def loose(self) -> bool:
        """Whether members may leave, so that no bound is certain."""
        return self.input.leaves or self.evolving_keys

    @cached_property
    def origins(self) -> tuple[Origin, ...]:
        return window.regroup(self.input.origins, [expression for _, expression in self.keys])

    def __str__(self) -> str:
        by = ", ".join(str(e) if str(e) == name else f"{e} AS {name}" for name, e in self.keys)
        return f"group by {by or 'nothing'}: " + ", ".join(map(str, self.aggregates))


@dataclass(frozen=True)
class Without(_Unary):
    """The rows of the input that have no equal row in another relation: deletion (§1.2.3).

    The input and the deletions are two growing sets; a row is there as long as it is in the first and not in the
    second, and is gone for good once a final row deletes it.
    """

    input: Node
    deletions: Node
    on: tuple[Expression, ...]
    deletions_on: tuple[Expression, ...]
    nulls_are_equal: bool

    __hash__ = _hash_once

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input, self.deletions)

    @property
    def history(self) -> bool:
        return False

    @property
    def leaves(self) -> bool:
        return True

    @cached_property
    def waits(self) -> tuple[Origin, ...]:
        """The ticks of the deletions, in terms of the compared expressions."""
        return window.regroup(self.deletions.origins, self.deletions_on)

    @cached_property
    def closes(self) -> tuple[Origin, ...]:
        """The ticks of both inputs: when they are known, nothing more can come of what is compared."""
        return (*window.regroup(self.input.origins, self.on), *self.waits)

    def __str__(self) -> str:
        pairs = zip(self.on, self.deletions_on, strict=True)
        return "without on " + " and ".join(f"{left} = {right}" for left, right in pairs)


@dataclass(frozen=True)
class Order:
    """One part of an ORDER BY."""

    by: Expression
    descending: bool
    nulls_first: bool

    def __str__(self) -> str:
        return f"{self.by}{' DESC' if self.descending else ''}"


@dataclass(frozen=True)
class Best(_Unary):
    """The k rows that come first in an order (the paper's best-k)."""

    input: Node
    order: tuple[Order, ...]
    number: int

    __hash__ = _hash_once

    @property
    def history(self) -> bool:
        return False

    @property
    def leaves(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"best {self.number} by " + ", ".join(map(str, self.order))


Node: TypeAlias = Relation | Select | Project | Join | Merge | Group | Without | Best


@dataclass(frozen=True)
class Plan:
    """All relations and views of a text; views read relations and each other, never in a circle."""

    relations: Mapping[str, Relation]
    views: Mapping[str, Node]

    def nodes(self) -> list[Node]:
        """Every node once, each after those that it reads."""
        found: dict[Node, None] = {}
        for node in (*self.relations.values(), *self.views.values()):
            _visit(node, found)
        return list(found)

    def show(self) -> str:
        """The graph as text: numbered nodes with what they read, their key and how their columns evolve."""
        numbers = {node: at for at, node in enumerate(self.nodes(), start=1)}
        names: dict[Node, list[str]] = {}
        for name, view in self.views.items():
            names.setdefault(view, []).append(name)
        return "\n".join(_shown(node, numbers, names.get(node, [])) for node in numbers)


def _shown(node: Node, numbers: Mapping[Node, int], views: list[str]) -> str:
    reads = " ".join(f"[{numbers[part]}]" for part in node.inputs)
    columns = ", ".join(f"{c.name} {c.type.value} {c.kind.value}" for c in node.columns[: node.visible])
    head = f"[{numbers[node]}] {node}" + (f" from {reads}" if reads else "")
    tail = f"    key ({', '.join(node.key_names)}), columns ({columns})"
    return "\n".join([head + "".join(f" -> view {name}" for name in views), tail])


def _visit(node: Node, found: dict[Node, None]) -> None:
    if node not in found:
        for part in node.inputs:
            _visit(part, found)
        found[node] = None


def tick_keys(node: Node) -> dict[tuple[str, ...], str] | None:
    """Where a key is a label (if any) and a tick: for each label the source whose tick it is."""
    if isinstance(node, Relation):
        return {(): node.name}
    if isinstance(node, Select | Project):
        return tick_keys(node.input)
    if not isinstance(node, Merge) or len(node.key_names) != 2:
        return None
    inner = [tick_keys(part) for part in node.inputs]
    if any(found is None or () not in found for found in inner):
        return None
    return {(label,): found[()] for label, found in zip(node.labels, inner, strict=True) if found is not None}


def adds_one_row_per_tick(node: Node) -> bool:
    """Whether an unknown tick can bring at most one new row: then unknown ticks bound a count."""
    return (
        not isinstance(node, Join)
        and all(adds_one_row_per_tick(part) for part in node.inputs[:1])
        and (not isinstance(node, Merge) or all(adds_one_row_per_tick(part) for part in node.inputs))
    )
