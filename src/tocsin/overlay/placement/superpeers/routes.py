"""Who is alive, who is linked with whom, and how a message gets to a super-peer that is no neighbour (P2P-DIET §3).

Neighbours ask each other "are you alive?". One that is silent for too many probes is no longer a link; a link state
says so to everybody, by flooding, and paths go around it. Probes carry a mark of all link states: where two marks
differ, link states are exchanged, so that nothing depends on any single message.

A message for another super-peer is sealed for it and relayed along the shortest path; whoever is in between sees where
it goes, and nothing else.

All super-peers there ever were must know a query before it stands. One that will never come back would be waited for
for ever: an operator retires it, anywhere, and all others go on without it. Then what it had stored, and what was on
its way to clients that have not found another access point, is lost. A retired super-peer that comes back all the same
is linked with nobody and takes no clients; its operator begins with a new folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, MutableMapping
from hashlib import blake2b
from math import inf
from typing import Any, NamedTuple, TypeAlias

import msgpack

from tocsin.overlay.message import Address, Message, OverlayError, decode, encode
from tocsin.overlay.node import Deliver, Effect, Handler, Node, Seconds, Send, Token, Wake
from tocsin.overlay.placement.superpeers.graph import Graph
from tocsin.overlay.placement.superpeers.messages import AreYouAlive, LinkState, LinkStates, Relay
from tocsin.overlay.placement.superpeers.sealing import Sealing
from tocsin.overlay.placement.superpeers.settings import SuperpeerSettings

Inner: TypeAlias = Callable[[Any, Address, int, Seconds], list[Effect]]
"""Takes a relayed message, who sent it, over how many links."""
HOPS_MAX = 64
NUMBER_MAX = 1 << 62
"""Of a life or a link state: nobody gets there by counting, and nothing would come after it."""
RETIRED = b"!"
"""What the names of retired super-peers on the disk begin with."""


class Refusal(NamedTuple):
    """Told to the operator: something was refused, why, and who sent it."""

    kind: str
    who: str
    why: str


class Retired(NamedTuple):
    """Told to the operator: a super-peer was retired; perhaps this one."""

    superpeer: Address


class Routed(NamedTuple):
    """Told to the operator: the links that this super-peer finds alive have changed."""

    links: tuple[Address, ...]


def client_of(address: Address) -> str:
    """Who is at an address, wherever that is: the name before the @."""
    return address.partition("@")[0]


class Routes:
    """A super-peer's place in the graph."""

    name = "routes"

    def __init__(
        self,
        node: Node,
        neighbours: Iterable[Address],
        *,
        settings: SuperpeerSettings,
        sealing: Sealing,
        disk: MutableMapping[bytes, bytes],
        life: int,
    ) -> None:
        self.node, self.me, self.life = node, node.me, life
        self.settings, self.sealing = settings, sealing
        self.configured = tuple(sorted(set(neighbours) - {self.me.address}))
        self.refused: Counter[str] = Counter()
        self.inner: dict[type, Inner] = {}
        self.on_change: list[Callable[[Seconds], list[Effect]]] = []
        self.on_client_alive: Callable[[Address, Seconds], None] = lambda address, now: None
        self._disk = disk
        self._retiring = {name[len(RETIRED) :].decode() for name in disk if name.startswith(RETIRED)}
        self.retired: frozenset[Address] = frozenset()
        """Super-peers that are gone for good, whoever said so."""
        self.members = {name.decode() for name in disk if not name.startswith(RETIRED)} | {self.me.address}
        """Every super-peer there ever was a way to: all must know a query before it stands."""
        self._heard: dict[Address, Seconds] = {}
        self._tick_at: Seconds = inf
        self._alive: tuple[Address, ...] = ()
        self._number = 0
        self._states: dict[Address, LinkState] = {}
        self._state_here()
        node.add(self)

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {AreYouAlive: self._on_probe, LinkStates: self._on_states, Relay: self._on_relay}

    def link(self, neighbours: Iterable[Address]) -> None:
        """Other neighbours from now on; both ends of a link must have it."""
        self.configured = tuple(sorted(set(neighbours) - {self.me.address}))

    def retire(self, superpeer: Address, now: Seconds) -> list[Effect]:
        """An operator says that a super-peer will never come back."""
        self._retiring.add(superpeer)
        self._disk[RETIRED + superpeer.encode()] = b""
        before = self.retired
        state = self._state_here()
        return [*self._flood((state,), None), *self._changed(now), *self._tell_retired(before)]

    def _tell_retired(self, before: frozenset[Address]) -> list[Effect]:
        return [Deliver(Retired(one)) for one in sorted(self.retired - before)]

    def refuse(self, kind: str, who: str, why: str) -> list[Effect]:
        """Counts what is refused, and tells the operator."""
        self.refused[kind] += 1
        return [Deliver(Refusal(kind, who, why))]

    # --- probing -----------------------------------------------------------------------------------------------------

    def start(self, now: Seconds) -> list[Effect]:
        """Begins to ask neighbours."""
        return self.tick(now)

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """The next probe."""
        return self.tick(now)

    def tick(self, now: Seconds) -> list[Effect]:
        """Asks every neighbour, and gives up those that were silent for too long."""
        effects: list[Effect] = [Wake(now + self.settings.probe_seconds, (self.name,))]
        late = max(0.0, now - self._tick_at)  # while this super-peer slept it could hear nobody: that is no one's fault
        self._heard = {one: heard + late for one, heard in self._heard.items()}
        self._tick_at = now + self.settings.probe_seconds
        probe = AreYouAlive(self.me, self.mark, False)
        effects += [Send(one, probe) for one in self.configured]
        return [*effects, *self._look(now)]

    def _look(self, now: Seconds) -> list[Effect]:
        patience = self.settings.probe_seconds * (self.settings.probes_missed_max + 0.5)
        alive = tuple(one for one in self.configured if now - self._heard.get(one, now - patience) < patience)
        if alive == self._alive:
            return []
        self._alive = alive
        state = self._state_here()
        return [Deliver(Routed(alive)), *self._flood((state,), None), *self._changed(now)]

    def _on_probe(self, message: AreYouAlive, now: Seconds) -> list[Effect]:
        sender = message.sender.address
        if sender not in self.configured:
            if message.is_answer:  # of a client, which may have been let go since it was asked
                self.on_client_alive(sender, now)
                return []
            return self.refuse("stranger", sender, "it is no neighbour of this super-peer")
        self._heard[sender] = now
        effects = self._look(now)
        if not message.is_answer:
            effects.append(Send(sender, AreYouAlive(self.me, self.mark, True)))
        if message.mark != self.mark:
            effects.append(Send(sender, LinkStates(self.me, tuple(self._states.values()), True)))
        return effects

    # --- link states -------------------------------------------------------------------------------------------------

    def _state_here(self) -> LinkState:
        self._number += 1
        retired = tuple(sorted(self._retiring))
        said = self.me.address, self.life, self._number, self._alive, retired, self.sealing.card
        state = LinkState(*said, self.sealing.sign(signed_part(LinkState(*said, b""))))
        self._states[self.me.address] = state
        self._redraw()
        return state

    def _redraw(self) -> None:
        digest = blake2b(digest_size=8)
        for one in sorted(self._states):
            digest.update(signed_part(self._states[one]))
        self.mark = int.from_bytes(digest.digest(), "big")
        """A number that is another for every other set of link states."""
        self.retired = frozenset(one for state in self._states.values() for one in state.retired)
        there = self._states.keys() - self.retired
        self.graph = Graph({origin: self._states[origin].links for origin in there})
        self.members -= self.retired
        for one in self.graph.reachable(self.me.address) - self.members:
            self.members.add(one)
            self._disk[one.encode()] = b""

    def _flood(self, states: tuple[LinkState, ...], source: Address | None) -> list[Effect]:
        message = LinkStates(self.me, states, False)
        return [Send(one, message) for one in self._alive if one != source]

    def _changed(self, now: Seconds) -> list[Effect]:
        return [effect for call in self.on_change for effect in call(now)]

    def _on_states(self, message: LinkStates, now: Seconds) -> list[Effect]:
        sender = message.sender.address
        if sender not in self.configured:
            return self.refuse("stranger", sender, "link states come from neighbours")
        effects: list[Effect] = []
        new, before = [], self.retired
        for state in message.states:
            if max(state.life, state.number) >= NUMBER_MAX:
                effects += self.refuse("malformed", sender, f"a link state of {state.origin} with an absurd number")
                continue
            known = self._states.get(state.origin)
            if known is not None and (known.life, known.number) >= (state.life, state.number):
                continue
            if not self.sealing.is_signed(state.origin, state.card, state.signature, signed_part(state)):
                effects += self.refuse("forged", sender, f"a link state of {state.origin} that it did not sign")
            elif state.origin == self.me.address:
                # Said in a former life whose number was lost with a disk: this life goes on from there.
                self.life, self._number = max(self.life, state.life), max(self._number, state.number)
                new.append(self._state_here())
            else:
                self._states[state.origin] = state
                new.append(state)
        if message.is_all:
            theirs = {state.origin: (state.life, state.number) for state in message.states}
            more = [one for one in self._states.values() if (one.life, one.number) > theirs.get(one.origin, (-1, 0))]
            if more:
                effects.append(Send(sender, LinkStates(self.me, tuple(more), False)))
        if new:
            self._redraw()
            effects += [*self._flood(tuple(new), sender), *self._changed(now), *self._tell_retired(before)]
        return effects

    def card(self, member: Address) -> bytes | None:
        """What a super-peer showed of itself; None: it is not known yet."""
        state = self._states.get(member)
        return None if state is None else state.card

    def life_of(self, member: Address) -> int | None:
        """In which life another super-peer is."""
        state = self._states.get(member)
        return None if state is None else state.life

    # --- relaying ----------------------------------------------------------------------------------------------------

    def relay(self, to: Address, message: Message, now: Seconds) -> list[Effect]:
        """Sends to any super-peer; it may be lost."""
        if to == self.me.address:
            return self.inner[type(message)](message, to, 0, now)
        card, hop = self.card(to), self.graph.next_hop(self.me.address, to)
        if card is None or hop is None:
            return []
        body = self.sealing.seal(self.me.address, to, card, encode(message))
        return [Send(hop, Relay(self.me.address, to, 1, body))]

    def _on_relay(self, message: Relay, now: Seconds) -> list[Effect]:
        if message.target != self.me.address:
            hop = self.graph.next_hop(self.me.address, message.target)
            if hop is None or message.hops >= HOPS_MAX:
                return []
            return [Send(hop, Relay(message.origin, message.target, message.hops + 1, message.body))]
        card = self.card(message.origin)
        if card is None:
            return []
        data = self.sealing.unseal(message.origin, self.me.address, card, message.body)
        if data is None:
            return self.refuse("unsealed", message.origin, "a message that it did not seal for this super-peer")
        try:
            found = decode(data)
        except OverlayError as error:
            return self.refuse("malformed", message.origin, str(error))
        handler = self.inner.get(type(found))
        if handler is None:
            return self.refuse("malformed", message.origin, f"{type(found).__name__} is nothing to relay")
        return handler(found, message.origin, message.hops, now)


def signed_part(state: LinkState) -> bytes:
    """What a link state's signature is for."""
    said = "link state", state.origin, state.life, state.number, state.links, state.retired, state.card
    data: bytes = msgpack.packb(said)
    return data
