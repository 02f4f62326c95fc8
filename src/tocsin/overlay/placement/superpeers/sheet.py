"""What every super-peer must know of every other: its sheet of forwarded queries and advertisements.

A change of a sheet has a number and goes down the tree of shortest paths to its origin (reverse path forwarding: a
super-peer passes it on to those whose way to the origin leads through it). Everybody tells the origin how far it has
the sheet; whoever is behind is sent what it misses, by the origin itself, until it has it. What changed after one
number and up to another is applied as a whole, so a sheet is never seen in a state that it was not in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import TypeAlias

import msgpack

from tocsin.overlay.message import Address
from tocsin.overlay.node import Effect, Handler, Seconds, Send, Token, Wake
from tocsin.overlay.placement.superpeers.messages import Forward, Known, Line
from tocsin.overlay.placement.superpeers.routes import Routes

Disk: TypeAlias = MutableMapping[bytes, bytes]
Learn: TypeAlias = Callable[[Address, Iterable[Line], Seconds], list[Effect]]


class Sheets:
    """This super-peer's sheet, and what it knows of the others'."""

    name = "sheets"

    def __init__(self, routes: Routes, disk: Disk) -> None:
        self.routes, self.me = routes, routes.me
        self._disk = disk
        self.on_learn: Learn = lambda origin, lines, now: []
        self.on_progress: Callable[[Seconds], list[Effect]] = lambda now: []
        self._lines: dict[str, Line] = {}
        self._number = 0
        self._far: dict[Address, dict[str, Line]] = {}
        self._upto: dict[Address, int] = {}
        self._acked: dict[Address, tuple[int, int]] = {}  # by super-peer: in which of its lives, up to where
        self._is_waking = False
        self._said_at: dict[Address, Seconds] = {}  # when others were last sent something
        for key in sorted(disk):
            kind, *rest = msgpack.unpackb(key)
            if kind == "upto":
                self._upto[rest[0]] = msgpack.unpackb(disk[key])
            elif kind == "number":
                self._number = msgpack.unpackb(disk[key])
            else:
                line = Line(rest[1], *msgpack.unpackb(disk[key]))
                if rest[0] == self.me.address:
                    self._lines[line.name] = line
                else:
                    self._far.setdefault(rest[0], {})[line.name] = line
        routes.node.add(self)
        routes.inner |= {Forward: self._on_far, Known: self._on_known}
        routes.on_change.append(self._on_graph)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {Forward: self._on_forward}

    def start(self, now: Seconds) -> list[Effect]:
        """Finds out how far the others are."""
        return self._waking(now)

    # --- this super-peer's sheet -------------------------------------------------------------------------------------

    def change(self, values: dict[str, bytes | None], now: Seconds) -> list[Effect]:
        """Writes lines, in order; those without a value are removed."""
        after = self._number
        new = [(name, value) for name, value in values.items() if self._value(name) != value]
        for name, value in new:
            self._number += 1
            self._lines[name] = line = Line(name, self._number, value)
            self._keep(self.me.address, line)
        if not new:
            return []
        self._disk[_key("number")] = msgpack.packb(self._number)
        forward = self._changes(after)
        self._said_at |= dict.fromkeys(self.routes.members, now)
        sends: list[Effect] = [Send(one, forward) for one in self._children(self.me.address)]
        return [*sends, *self._waking(now), *self.on_progress(now)]

    def _value(self, name: str) -> bytes | None:
        line = self._lines.get(name)
        return None if line is None else line.value

    def number(self, name: str) -> int:
        """The number of a line's last change."""
        return self._lines[name].number

    def is_known(self, number: int) -> bool:
        """Whether all super-peers have this sheet up to a number."""
        return all(self._has(one) >= number for one in self.routes.members if one != self.me.address)

    def _has(self, member: Address) -> int:
        life, upto = self._acked.get(member, (-1, -1))
        return upto if life == self.routes.life_of(member) else -1

    def behind(self) -> list[Address]:
        """Super-peers that do not have all of this sheet, as far as is known."""
        return [one for one in sorted(self.routes.members - {self.me.address}) if self._has(one) < self._number]

    def _changes(self, after: int) -> Forward:
        lines = sorted((line for line in self._lines.values() if line.number > after), key=lambda line: line.number)
        forward = Forward(self.me.address, after, self._number, tuple(lines), b"")
        return Forward(
            forward.origin, after, forward.upto, forward.lines, self.routes.sealing.sign(_signed_part(forward))
        )

    def _children(self, origin: Address) -> tuple[Address, ...]:
        return self.routes.graph.children(self.me.address, origin)

    def _waking(self, now: Seconds) -> list[Effect]:
        if self._is_waking:
            return []
        self._is_waking = True
        return [Wake(now + self.routes.settings.again_seconds / 2, (self.name,))]

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Sends what was not acknowledged."""
        self._is_waking = False
        late = self.behind()
        before = now - self.routes.settings.again_seconds
        overdue = [one for one in late if self._said_at.get(one, before) <= before]
        return [*self._repair(overdue, now), *(self._waking(now) if late else [])]

    def _repair(self, late: Iterable[Address], now: Seconds) -> list[Effect]:
        """To one whose state is not known: only the question how far it is."""
        effects: list[Effect] = []
        for one in late:
            upto = self._has(one)
            self._said_at[one] = now
            effects += self.routes.relay(one, self._changes(self._number if upto < 0 else upto), now)
        return effects

    def _on_graph(self, now: Seconds) -> list[Effect]:
        """Somebody is there who was not, or is gone for good and need not be waited for."""
        return [*(self._waking(now) if self.behind() else []), *self.on_progress(now)]

    def _on_known(self, message: Known, origin: Address, hops: int, now: Seconds) -> list[Effect]:
        before = self._has(origin)
        if message.life != self.routes.life_of(origin) or message.upto <= before:
            return []
        self._acked[origin] = message.life, message.upto
        if before < 0 and message.upto < self._number:
            return self._repair([origin], now)
        return self.on_progress(now)

    # --- the others' sheets ------------------------------------------------------------------------------------------

    def far(self, origin: Address) -> dict[str, Line]:
        """What is known of another super-peer's sheet."""
        return self._far.get(origin, {})

    def sheets(self) -> dict[Address, dict[str, Line]]:
        """All sheets, this super-peer's own too; without removed lines, and without those who are gone for good."""
        own = {name: line for name, line in self._lines.items() if line.value is not None}
        retired = self.routes.retired
        return {self.me.address: own} | {one: lines for one, lines in self._far.items() if one not in retired}

    def _on_forward(self, message: Forward, now: Seconds) -> list[Effect]:
        """From a neighbour, down the tree."""
        is_new = message.upto > self._upto.get(message.origin, 0)
        effects = self._on_far(message, message.origin, 0, now)
        if is_new and self._upto.get(message.origin, 0) == message.upto:
            effects += [Send(one, message) for one in self._children(message.origin)]
        return effects

    def _on_far(self, message: Forward, origin: Address, hops: int, now: Seconds) -> list[Effect]:
        if message.origin != origin or origin == self.me.address:
            return self.routes.refuse("forged", origin, f"a sheet of {message.origin}")
        card = self.routes.card(origin)
        if card is None or not self.routes.sealing.is_signed(origin, card, message.signature, _signed_part(message)):
            return [] if card is None else self.routes.refuse("forged", origin, "a sheet that it did not sign")
        upto = self._upto.get(origin, 0)
        effects: list[Effect] = []
        if message.after <= upto < message.upto:
            self._upto[origin] = message.upto
            self._disk[_key("upto", origin)] = msgpack.packb(message.upto)
            lines = [line for line in message.lines if line.number > upto]
            far = self._far.setdefault(origin, {})
            for line in lines:
                self._keep(origin, line)
                if line.value is None:
                    far.pop(line.name, None)
                else:
                    far[line.name] = line
            effects += self.on_learn(origin, lines, now)
        return [*effects, *self.routes.relay(origin, Known(self.routes.life, self._upto.get(origin, 0)), now)]

    def _keep(self, origin: Address, line: Line) -> None:
        key = _key("line", origin, line.name)
        if line.value is not None or origin == self.me.address:  # the origin remembers what it removed
            self._disk[key] = msgpack.packb((line.number, line.value))
        else:
            self._disk.pop(key, None)


def _key(*parts: str) -> bytes:
    data: bytes = msgpack.packb(parts)
    return data


def _signed_part(message: Forward) -> bytes:
    lines = [(line.name, line.number, line.value) for line in message.lines]
    data: bytes = msgpack.packb(("sheet", message.origin, message.after, message.upto, lines))
    return data
