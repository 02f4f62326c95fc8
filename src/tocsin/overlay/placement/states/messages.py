"""What the owners of states say to each other (XML filtering paper, Procedures 1 to 4)."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.overlay.message import Item, Message, Peer, message


@message(80)
@dataclass(frozen=True, slots=True)
class IndexQuery(Message):
    """Routed to the owner of a state: keep this of a query, or remove it. One message for each state of the query."""

    request: int
    sender: Peer
    items: tuple[Item, ...]


@message(81)
@dataclass(frozen=True, slots=True)
class Indexed(Message):
    """It is safe here. The state has these copies, which must know it too."""

    request: int
    copies: tuple[int, ...]


@message(82)
@dataclass(frozen=True, slots=True)
class ExpandState(Message):
    """Routed, iterative: where do these names lead from the state? Without names: what does it accept?"""

    request: int
    sender: Peer
    state: tuple[str, ...]
    names: tuple[str, ...]
    documents: int  # that the publisher has published: for shedding


@message(83)
@dataclass(frozen=True, slots=True)
class Expanded(Message):
    """Labels that lead on (ε and its label together; ε alone: the loop), and what the state itself accepts."""

    request: int
    onward: tuple[tuple[str, ...], ...]
    accepted: tuple[bytes, ...]
    copies: tuple[int, ...]  # that may be asked as well


@message(84)
@dataclass(frozen=True, slots=True)
class RecExpandState(Message):
    """Routed, recursive: the state has been reached at the first of the events (the start: above them). Go on."""

    request: int
    sender: Peer
    publisher: Peer
    number: int  # of the publication
    id: str
    version: int
    state: tuple[str, ...]
    part: int  # of the document
    names: tuple[str, ...]
    events: tuple[tuple[int, ...], ...]
    ghosts: int
    documents: int  # that have come to the start state: for shedding


@message(85)
@dataclass(frozen=True, slots=True)
class RecExpanded(Message):
    """Everybody whom this concerns from here on has heard."""

    request: int
    copies: tuple[int, ...]


@message(86)
@dataclass(frozen=True, slots=True)
class Candidates(Message):
    """To the publisher: the structure of these is met; their predicates are yours to check (Selection Postponed)."""

    request: int
    sender: Peer
    number: int
    entries: tuple[bytes, ...]


@message(87)
@dataclass(frozen=True, slots=True)
class Taken(Message):
    """I will see to them."""

    request: int
