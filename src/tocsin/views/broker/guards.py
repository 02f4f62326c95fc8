"""Negative curiosity about values between brokers (relational subscriptions §3.2): the sold-out flight.

Where a row of one side of a join is gone for good, and no other row of that side can have its place, the rows of the
other side that it would meet change nothing any more. The broker that joins says so upstream, and these rows are not
sent again. That a row is gone for good stays true whatever crashes, so nothing has to be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tocsin.views.broker.messages import Unneeded
from tocsin.views.expression import Column, Expression
from tocsin.views.plan import Join, Node
from tocsin.views.relation import Key, Row, key_function


class Guard:
    """What one join knows of values that will not come back on its deciding side."""

    def __init__(self, at: int, decides: int, guarded: int, on: Sequence[Expression]) -> None:
        self.at, self.decides, self.guarded = at, decides, guarded
        self._key_of = key_function(on)
        self.gone: set[Key] = set()

    def see(self, rows: Iterable[Row]) -> None:
        """Rows of the deciding side."""
        for row in rows:
            if row.present is False:
                value, is_final = self._key_of(row.cells)
                if is_final:
                    self.gone.add(value)

    def unneeded(self) -> Unneeded | None:
        """What to tell upstream."""
        return Unneeded(self.at, frozenset(self.gone)) if self.gone else None


def guards_of(
    nodes: Sequence[Node], inputs: Mapping[int, tuple[int, ...]], guardable: Iterable[int]
) -> dict[int, Guard]:
    """For each relation that is fed here and read by one join only: who may say that its rows are not needed."""
    found: dict[int, Guard] = {}
    for relation in guardable:
        readers = [at for at, its in inputs.items() if relation in its]
        if len(readers) != 1:
            continue
        join = nodes[readers[0]]
        if not isinstance(join, Join) or len(set(inputs[readers[0]])) != 2:
            continue
        left, right = inputs[readers[0]]
        decides, on = (left, join.left_on) if relation == right else (right, join.right_on)
        if _is_unique(nodes[decides], on):
            found[relation] = Guard(readers[0], decides, relation, on)
    return found


def _is_unique(node: Node, on: Sequence[Expression]) -> bool:
    """Whether what is joined on tells a row of the side apart from all others."""
    places = {expression.index for expression in on if isinstance(expression, Column)}
    return len(places) == len(on) and set(node.key) <= places


def unneeded_test(nodes: Sequence[Node], relation: int, unneeded: Unneeded) -> Callable[[Row], bool]:
    """Upstream: is a row of the relation one of those?"""
    join = nodes[unneeded.join]
    assert isinstance(join, Join)
    key_of = key_function(join.left_on if join.left == nodes[relation] else join.right_on)

    def test(row: Row) -> bool:
        value, is_final = key_of(row.cells)
        return is_final and value in unneeded.values

    return test
