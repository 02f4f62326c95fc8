"""What the views of a site hold in memory, and how it is read again: the checkpoint first, then the rest of the log.

Events are in the store, and stay there; memory holds what views remember of them, and a checkpoint is just that, as of
one step and written in its transaction (relational subscriptions §5: checkpoints are read before logs). What a
checkpoint does not know, because a view is new, reads the log from its beginning, and nothing else does.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tocsin.site import relations
from tocsin.site.relations import MATCHES
from tocsin.store import Store
from tocsin.store import relations as kept
from tocsin.store.connect import Transaction
from tocsin.store.relations import COMMON, EventLog, Said, Statement
from tocsin.views import checkpoint
from tocsin.views.engine import Engine
from tocsin.views.events import Closed, Event, Item, Silence
from tocsin.views.plan import Plan
from tocsin.views.watch import Watch

log = logging.getLogger(__name__)


class Wish(NamedTuple):
    """What a subscription asks for of a view."""

    view: str
    where: str | None = None
    """Tells every change of the rows for which this holds; none: of all rows."""
    when: str | None = None
    """Tells when this begins to hold for a row, and when it ends."""

    @classmethod
    def of(cls, text: str) -> Wish:
        """As it was kept."""
        found = json.loads(text)
        return cls(found["name"], found.get("where"), found.get("when"))

    def as_json(self) -> Any:
        """As it is written in a subscription."""
        found = {"name": self.view, "where": self.where, "when": self.when}
        return {key: value for key, value in found.items() if value is not None}


@dataclass(slots=True)
class ViewSet:
    """One owner's views."""

    owner: str
    engine: Engine
    broken: dict[str, str]
    watches: dict[Wish, Watch] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Memory:
    """What was read."""

    sets: dict[str, ViewSet]
    step: int
    events: int
    """How many of the log: those after the checkpoint."""
    checkpoint_bytes: int


def read(store: Store, statements: Sequence[Statement]) -> Memory:
    """The views that were created, as of the last step."""
    owners = [COMMON, *dict.fromkeys(one.owner for one in statements if one.owner != COMMON)]
    sets: dict[str, ViewSet] = {}
    events = size = 0
    with kept.said(store) as said:
        for owner in owners:
            compiled = relations.compiled(owner, statements)
            parts = _parts(said, owner)
            size += sum(map(len, parts.values()))
            engine, after = _restored(compiled.plan, owner, parts, said)
            for name, history in engine.histories.items():
                history.log = EventLog(store, name) if name != MATCHES else None
            for items in _tail(said, owner, engine, after):
                engine.step(items)
                events += sum(isinstance(item, Event) for item in items)
            sets[owner] = ViewSet(owner, engine, compiled.broken)
        return Memory(sets, said.step, events, size)


def write_in(transaction: Transaction, sets: Mapping[str, ViewSet]) -> int:
    """A checkpoint of all of them; its size in bytes. From here on the log has the events."""
    size = 0
    for owner, one in sets.items():
        size += kept.checkpoint_in(transaction, owner, checkpoint.taken(one.engine))
        for history in one.engine.histories.values():
            history.forget()
    kept.forget_checkpoints_in(transaction, sets.keys())
    return size


def _parts(said: Said, owner: str) -> dict[str, str]:
    try:
        return said.checkpoint(owner)
    except (zlib.error, UnicodeDecodeError):
        log.warning("the checkpoint of views cannot be read: the log is")
        return {}


def _restored(plan: Plan, owner: str, parts: Mapping[str, str], said: Said) -> tuple[Engine, dict[str, int | None]]:
    """An engine, and the tick up to which it knows the events of each source."""

    def replay(upto: Mapping[str, int | None]) -> Iterator[list[Item]]:
        for name, last in upto.items():
            yield from _events(said, owner, name, None, last)

    engine = Engine(plan)
    if not parts:
        return engine, {}
    try:
        marks = checkpoint.restore(engine, parts, replay)
    except (ValueError, TypeError, KeyError):
        log.warning("the checkpoint of views cannot be understood: the log is read", exc_info=True)
        return Engine(plan), {}
    return engine, {name: mark.last for name, mark in marks.items()}


def _events(said: Said, owner: str, name: str, after: int | None, upto: int | None) -> Iterator[list[Item]]:
    if name == MATCHES and owner != COMMON:
        yield [Event(MATCHES, one.tick, tuple(one)) for one in said.matches(owner, after, upto)]
        return
    for part in said.events(name, after, upto):
        yield [Event(name, tick, cells) for tick, cells in part]


def _tail(said: Said, owner: str, engine: Engine, after: Mapping[str, int | None]) -> Iterable[list[Item]]:
    """What sources said since: events, then silences that are open, then who has ended."""
    for name in engine.histories:
        yield from _events(said, owner, name, after.get(name), None)
    names = engine.histories.keys()
    yield [Silence(*one) for one in said.silences if one.source in names]
    yield [Closed(one.name) for one in said.sources if one.closed and one.name in names]
