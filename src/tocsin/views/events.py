"""Lines to events: what a source says about its ticks.

{"relation": "quotes", "tick": 17, "issue": "IBM", "price": 80.5}     an event; columns left out are null
{"relation": "quotes", "silent": [18, 25]}                            nothing happened at these ticks
{"relation": "quotes", "closed": true}                                nothing will happen any more
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

from tocsin.errors import EventError
from tocsin.views.expression import Type
from tocsin.views.plan import Relation
from tocsin.views.tables import Table, read_table
from tocsin.views.ticks import FIRST_TICK, LAST_TICK

SHOWN = 60  # characters of a wrong value in a message


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened at a tick."""

    relation: str
    tick: int
    cells: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing happened at the ticks first..last."""

    relation: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing will happen any more."""

    relation: str


Item: TypeAlias = Event | Silence | Closed


class Decoder:
    """Checks lines against the relations that were created."""

    def __init__(self, relations: Mapping[str, Relation]) -> None:
        self._relations = relations
        self._readers = {name: _Reader(relation) for name, relation in relations.items()}
        self._folded = {name.lower(): name for name in relations}

    def line(self, text: str | bytes) -> Item:
        """One line; EventError says what is wrong with it."""
        try:
            data = STRICT.decode(text if isinstance(text, str) else text.decode())
        except RecursionError:
            raise EventError("it is nested too deeply") from None
        except ValueError as error:
            raise EventError(f"it is no valid JSON: {error}") from None
        return self.item(data)

    def table(self, lines: Sequence[bytes]) -> Table | None:
        """Many lines at once, by column; None if one of them needs a closer look, and nothing is taken."""
        return read_table(lines, self._relations)

    def item(self, data: Any) -> Item:
        """The same from decoded JSON."""
        if not isinstance(data, dict):
            raise EventError('an event is an object, such as {"relation": "quotes", "tick": 17}')
        name = data.get("relation")
        if not isinstance(name, str):
            raise EventError('it names no "relation"')
        reader = self._readers.get(name) or self._readers.get(self._folded.get(name.lower(), ""))
        if reader is None:
            known = ", ".join(self._readers) or "none"
            raise EventError(f"there is no relation {name!r}; there are: {known}")
        if "tick" in data:
            return reader.event(data)
        return _other(reader.name, data)


def _other(relation: str, data: dict[str, Any]) -> Item:
    if "silent" in data and len(data) == 2:
        return _silence(relation, data["silent"])
    if "closed" in data and len(data) == 2:
        if data["closed"] is not True:
            raise EventError(f'{relation}: write "closed": true')
        return Closed(relation)
    raise EventError(f'{relation}: it has no "tick" (an event), "silent": [first, last] or "closed": true')


def _silence(relation: str, given: Any) -> Silence:
    if not isinstance(given, list) or len(given) != 2 or not all(map(_is_tick, given)):
        raise EventError(f'{relation}: "silent" needs a first and a last tick, not {_shown(given)}')
    if given[0] > given[1]:
        raise EventError(f"{relation}: the silence ends before it begins: {given}")
    return Silence(relation, given[0], given[1])


def _is_tick(value: Any) -> bool:
    return type(value) is int and FIRST_TICK < value < LAST_TICK


class _Reader:
    """The cells of one relation's events."""

    def __init__(self, relation: Relation) -> None:
        self.name = relation.name
        self._columns = [(column.name, CHECKS[column.type], column.type) for column in relation.columns]
        self._names = {column.name for column in relation.columns} | {"relation"}
        self._folded = {column.name.lower(): column.name for column in relation.columns}

    def event(self, data: dict[str, Any]) -> Event:
        """An event with all its cells checked."""
        tick = data["tick"]
        if not _is_tick(tick):
            raise EventError(f"{self.name}: tick needs an integer of 64 bits, not {_shown(tick)}")
        if not data.keys() <= self._names:
            data = self._renamed(data)
        cells = []
        for name, check, kind in self._columns:
            value = data.get(name)
            if value is not None:
                value = check(value)
                if value is None:
                    given = _shown(data[name])
                    raise EventError(f"{self.name}: column {name} is {kind.value}, and {given} does not fit")
            cells.append(value)
        return Event(self.name, tick, tuple(cells))

    def _renamed(self, data: dict[str, Any]) -> dict[str, Any]:
        """Columns whose names differ in upper and lower case only, as SQL has it."""
        found: dict[str, Any] = {}
        for name, value in data.items():
            own = name if name in self._names else self._folded.get(name.lower())
            if own is None or own in found:
                why = "is there twice" if own in found else "is not a column of it"
                raise EventError(f"{self.name}: {name!r} {why}; there are: {', '.join(self._folded.values())}")
            found[own] = value
        return found


def _integer(value: Any) -> int | None:
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and FIRST_TICK <= value <= LAST_TICK else None


def _real(value: Any) -> float | None:
    if type(value) is float:
        return value + 0.0 if isfinite(value) else None
    try:
        return float(value) if type(value) is int else None
    except OverflowError:
        return None


def _text(value: Any) -> str | None:
    return value if type(value) is str else None


def _boolean(value: Any) -> bool | None:
    return value if type(value) is bool else None


CHECKS: dict[Type, Callable[[Any], Any]] = {
    Type.INTEGER: _integer,
    Type.REAL: _real,
    Type.TEXT: _text,
    Type.BOOLEAN: _boolean,
}


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return made


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


STRICT = json.JSONDecoder(object_pairs_hook=_no_repeats, parse_constant=_no_constant)
