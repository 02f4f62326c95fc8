"""The structure of a document as it travels: elements with positions (L:R, D), in pieces of bounded size.

L and R count the tags before an element's start tag and its end tag, D is its depth (XML filtering paper §5). One
element lies in another if its L and R lie between the other's; it is a child if D is one more. Values stay with the
publisher: only names of elements and attributes, and whether there is text, travel.

A document that is too large for one message is cut into pieces. Every piece begins with the elements that are still
open at the cut, its *ghosts*: so each path from the root lies wholly in one piece, and the pieces together have the
document's paths, no more and no fewer. What is found at a ghost has been found in the piece before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tocsin.errors import TocsinError
from tocsin.markup import Markup
from tocsin.query.xpath.routes import TEXT, WILDCARD

Event = tuple[int, ...]
"""Number of the name, L, R, D, then the numbers of attributes' names and of text() if there is any."""
NAME, LEFT, RIGHT, DEPTH, LEAVES = 0, 1, 2, 3, 4
EVENT_BYTES = 18
"""What positions take on the wire, at most, in a document of up to a billion tags."""
DOCUMENT = -1
"""The index of what is above the root."""


class BadOutline(TocsinError):
    """An outline of another node contradicts itself."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some elements of a document in its order; the first `ghosts` were in the piece before, too."""

    names: tuple[str, ...]
    events: tuple[Event, ...]
    ghosts: int = 0


def labels_of(name: str) -> tuple[str, ...]:
    """The labels of transitions that a name falls under: itself, its namespace's wildcard, `*` or `@*`."""
    if name == TEXT:
        return (TEXT,)
    sign = "@" if name.startswith("@") else ""
    group = (name.rpartition("}")[0] + "}*",) if "}" in name else ()
    return (name, sign + WILDCARD, *group)


def leaves_of(document: Markup, element: int) -> list[str]:
    """What is right below an element, and has nothing below itself."""
    tree = document.tree
    return ["@" + name for name in tree.attributes[element]] + [TEXT] * bool(tree.texts[element])


def pieces_of(document: Markup, bytes_max: int) -> Iterator[Piece]:
    """A document in pieces of about so many bytes at most (an element and the open ones around it are never cut)."""
    tree = document.tree
    writing = _Writing()
    open_elements: list[tuple[int, Event, str]] = []
    for number, name in enumerate(tree.names):
        while open_elements and tree.last[open_elements[-1][0]] <= number:
            open_elements.pop()
        around = len(open_elements)
        leaves = leaves_of(document, number)
        if writing.events and writing.size + writing.cost(name, leaves) > bytes_max:
            yield writing.piece()
            writing = _Writing()
            for _, event, ghost in open_elements:
                writing.add(ghost, event[LEFT:], [])
            writing.ghosts = around
        event = writing.add(name, (2 * number - around, 2 * tree.last[number] - around - 1, around + 1), leaves)
        open_elements.append((number, event[:LEAVES], name))
    yield writing.piece()


@dataclass(slots=True)
class _Writing:
    names: dict[str, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    ghosts: int = 0
    size: int = 0

    def cost(self, name: str, leaves: list[str]) -> int:
        new = {name, *leaves} - self.names.keys()
        return EVENT_BYTES + 3 * len(leaves) + sum(4 * len(one) + 5 for one in new)

    def add(self, name: str, position: tuple[int, ...], leaves: list[str]) -> Event:
        self.size += self.cost(name, leaves)
        numbers = [self.names.setdefault(one, len(self.names)) for one in (name, *leaves)]
        event = (numbers[0], *position, *numbers[1:])
        self.events.append(event)
        return event

    def piece(self) -> Piece:
        return Piece(tuple(self.names), tuple(self.events), self.ghosts)


class Outline:
    """A piece with its children found: the roots are below `DOCUMENT`, or only the first event is."""

    def __init__(self, piece: Piece) -> None:
        """Refuses what is no part of a document: it may be a stranger's."""
        self.piece = piece
        self.children: dict[int, list[int]] = {DOCUMENT: []}
        self.end: list[int] = [len(piece.events)] * len(piece.events)
        above: list[int] = []
        names, before = len(piece.names), -1
        for index, event in enumerate(piece.events):
            if len(event) < LEAVES or max(event[NAME], *event[LEAVES:], 0) >= names or event[LEFT] <= before:
                raise BadOutline("an element without position or name, or not in order")
            before = event[LEFT]
            while above and piece.events[above[-1]][RIGHT] < event[LEFT]:
                self.end[above.pop()] = index
            parent = above[-1] if above else DOCUMENT
            if above and event[DEPTH] != piece.events[parent][DEPTH] + 1:
                raise BadOutline("an element is deeper than its parent by more than one")
            self.children.setdefault(parent, []).append(index)
            above.append(index)

    def name(self, index: int) -> str:
        """The name of an element."""
        return self.piece.names[self.piece.events[index][NAME]]

    def below(self, index: int) -> list[int]:
        """The children of an element."""
        return self.children.get(index, [])

    def leaves(self, index: int) -> list[str]:
        """Attributes and text of an element; none of a ghost, and none of the document."""
        return [] if index == DOCUMENT else [self.piece.names[leaf] for leaf in self.piece.events[index][LEAVES:]]

    def is_ghost(self, index: int) -> bool:
        """Whether what is found here was found before."""
        return index < self.piece.ghosts

    def under(self, index: int) -> Piece:
        """An element with everything below it."""
        piece = self.piece
        return Piece(piece.names, piece.events[index : self.end[index]], max(0, piece.ghosts - index))

    def leaf(self, index: int, name: str) -> Piece:
        """An attribute or the text of an element, as the only event of a piece."""
        event = self.piece.events[index]
        return Piece((name,), ((0, event[LEFT], event[LEFT], event[DEPTH] + 1),))
