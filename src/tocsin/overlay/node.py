"""A node without I/O: it is given messages and the time, and answers with what should happen.

    handle(message, now)    a message came                  -> effects
    wake(token, now)        the time of a Wake has come     -> effects
    start(now)              the node begins, or begins again -> effects

    Send(to, message)       put it on the network; it may be lost, repeated, late
    Deliver(what, keys, hops)   tell the layer above
    Wake(at, token)         call wake(token) at that time of the node's clock

A driver does these and knows nothing else; it is about twenty lines (`sim.world` is one, `net` the other). The node
has no clock, socket, thread or chance of its own: equal inputs give equal effects.

A node is made of components, each for some types of messages. They call each other directly and hand effects up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any, NamedTuple, Protocol, TypeAlias

from tocsin.overlay.key import Key
from tocsin.overlay.message import Address, Message, Peer

Seconds: TypeAlias = float
Token: TypeAlias = tuple[Any, ...]  # first the component's name; then what it needs to remember
Handler: TypeAlias = Callable[[Any, Seconds], "list[Effect]"]


class Send(NamedTuple):  # effects are made by the million: a tuple is four times cheaper than a frozen dataclass
    """Put a message on the network."""

    to: Address
    message: Message


class Deliver(NamedTuple):
    """Tell the layer above: `what` arrived, as the owner of `keys`, over so many hops."""

    what: Any
    keys: tuple[Key, ...] = ()
    hops: int = 0


class Wake(NamedTuple):
    """Call back at a time."""

    at: Seconds
    token: Token


Effect: TypeAlias = Send | Deliver | Wake


class Component(Protocol):
    """A part of a node: which messages it takes, and what it does when it is woken."""

    name: str

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""

    def start(self, now: Seconds) -> list[Effect]:
        """The node begins."""

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """The time of a Wake has come."""


Receiver: TypeAlias = Callable[[Any, tuple[Key, ...], int, Seconds], list[Effect]]


_Methods: TypeAlias = dict[type, tuple[int, Callable[[Any, Any, Seconds], "list[Effect]"]]]
_tables: dict[tuple[Any, ...], _Methods] = {}


def _shared(methods: _Methods) -> _Methods:
    """Nodes of the same components share one table of methods, and each has its own components beside it.

    If each of 100,000 nodes had a table of its own, most of it would have to come from far memory at each message.
    """
    return _tables.setdefault(tuple(methods.items()), methods)


class Node:
    """Components that share an address."""

    __slots__ = ("_components", "_methods", "_others", "_parts", "_receivers", "dropped", "me")

    def __init__(self, me: Peer) -> None:
        self.me = me
        self.dropped = 0
        self._methods: _Methods = {}  # a component's place among the parts, and its method
        self._others: dict[type, Handler] | None = None  # handlers that are no methods of the component itself
        self._parts: tuple[Component, ...] = ()
        self._receivers: dict[type, Receiver] | None = None
        self._components: dict[str, Component] = {}

    def add(self, component: Component) -> None:
        """Plugs in a component for its types of messages."""
        handlers = component.handlers()
        if taken := handlers.keys() & {*self._methods, *(self._others or ())}:
            raise ValueError(f"{component.name}: {sorted(cls.__name__ for cls in taken)} are taken")
        methods = dict(self._methods)
        for cls, handler in handlers.items():
            if isinstance(handler, MethodType) and handler.__self__ is component:
                methods[cls] = len(self._parts), handler.__func__
            else:
                self._others = (self._others or {}) | {cls: handler}
        self._methods = _shared(methods)
        self._parts += (component,)
        self._components[component.name] = component

    def receive(self, cls: type, receiver: Receiver) -> None:
        """What reaches this node as the owner of a key, and is of this type, goes to a component, not to the driver."""
        self._receivers = (self._receivers or {}) | {cls: receiver}

    def handle(self, message: Message, now: Seconds) -> list[Effect]:
        """A message came."""
        found = self._methods.get(type(message))
        if found is not None:
            place, method = found
            return method(self._parts[place], message, now)
        if self._others is not None and (other := self._others.get(type(message))) is not None:
            return other(message, now)
        self.dropped += 1
        return []

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """The time of a Wake has come."""
        return self._components[token[0]].wake(token, now)

    def start(self, now: Seconds) -> list[Effect]:
        """The node begins."""
        return [effect for component in self._components.values() for effect in component.start(now)]

    def deliver(self, what: Message, keys: tuple[Key, ...], hops: int, now: Seconds) -> list[Effect]:
        """Something reached the owner of its keys: a component takes it, or the layer above."""
        receiver = self._receivers.get(type(what)) if self._receivers is not None else None
        return [Deliver(what, keys, hops)] if receiver is None else receiver(what, keys, hops, now)

    def handle_all(self, messages: Iterable[Message], now: Seconds) -> list[Effect]:
        """Messages that were held back."""
        return [effect for message in messages for effect in self.handle(message, now)]
