"""What a document is, once it has been read: a tape of events, and from it a tree or arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tocsin import markup_kernels as kernels
from tocsin.markup_kernels import END

IntArray = npt.NDArray[np.int32]
Decode = Callable[[str, bool, bool], str]
"""A piece of a document as XML says: what stands there, whether it is an attribute's, whether it is CDATA."""


class Raw:
    """Where texts and values stand in the bytes of a document, so that a few can be had without decoding all."""

    def __init__(self, data: bytes, piece: IntArray, attribute: IntArray, decode: Decode) -> None:
        self.piece = piece
        """Of a piece of text: start, end, and whether it is CDATA."""
        self._attribute, self._bytes, self._decode = attribute, data, decode

    @cached_property
    def data(self) -> npt.NDArray[np.uint8]:
        """The bytes."""
        return np.frombuffer(self._bytes, np.uint8)

    @cached_property
    def value(self) -> IntArray:
        """Of a value of an attribute: start and end."""
        return self._attribute[:, 2:]

    def text(self, first: int, end: int) -> str:
        """The pieces first, …, end - 1 as one text."""
        rows = self.piece[first:end].tolist()
        return "".join([self._decode(self._bytes[start:stop].decode(), False, cdata) for start, stop, cdata in rows])

    def value_text(self, number: int) -> str:
        """The value of an attribute."""
        start, stop = self.value[number].tolist()
        return self._decode(self._bytes[start:stop].decode(), True, False)


class Markup:
    """A document as a tape of events; elements are numbered in the order in which they start.

    `tape[i]` is 1 + the number of the name of an element that starts, END, or COMMENT (a comment or processing
    instruction). `marks[i]` is how many pieces of text came before event i: a text node is what lies between two
    events. Attribute k is at the element of event `owners[k]`. Names are '{uri}local'. `texts()` gives the pieces and
    the values of the attributes, which are decoded only when somebody looks at them; `raw` says where they stand in a
    document that was scanned.
    """

    def __init__(  # noqa: PLR0917 — the columns of one table
        self,
        tape: IntArray,
        marks: IntArray,
        names: list[str],
        owners: IntArray,
        attribute: IntArray,
        attribute_names: list[str],
        texts: Callable[[], tuple[list[str], list[str]]],
        raw: Raw | None = None,
    ) -> None:
        self.tape = tape
        self.marks = marks
        self.names = names
        self.owners = owners
        self.attribute = attribute
        self.attribute_names = attribute_names
        self.raw = raw
        self._texts = texts

    @cached_property
    def _decoded(self) -> tuple[list[str], list[str]]:
        return self._texts()

    @property
    def pieces(self) -> list[str]:
        """The pieces of text, in order."""
        return self._decoded[0]

    @property
    def values(self) -> list[str]:
        """The values of the attributes."""
        return self._decoded[1]

    @cached_property
    def layout(self) -> Layout:
        """Where elements and texts stand, as arrays."""
        return _layout(self)

    @cached_property
    def tree(self) -> Tree:
        """The same document with random access."""
        return _tree(self)


@dataclass(frozen=True, slots=True)
class Tree:
    """Elements by number, in document order; element i and all below it are i, …, last[i] - 1."""

    names: list[str]
    parents: list[int]  # of the root element: -1
    last: list[int]
    children: list[list[int]]
    attributes: list[dict[str, str]]
    texts: list[list[str]]  # the text nodes right below each element
    text_marks: list[list[int]]  # and where each starts among the pieces, which is their order in the document
    spans: list[tuple[int, int]]  # the pieces of text inside each element
    pieces: list[str]

    def value(self, element: int) -> str:
        """The string-value of an element: all text inside it."""
        first, end = self.spans[element]
        return "".join(self.pieces[first:end])

    def path(self, element: int) -> str:
        """Where an element stands, as an XPath that selects it alone; names without their namespaces."""
        steps = []
        while element >= 0:
            parent = self.parents[element]
            name = self.names[element]
            same = [one for one in (self.children[parent] if parent >= 0 else [0]) if self.names[one] == name]
            steps.append(name.rpartition("}")[2] + (f"[{same.index(element) + 1}]" if len(same) > 1 else ""))
            element = parent
        return "/" + "/".join(reversed(steps))


class Layout:
    """Elements by number as in `Tree`, without their names and values: arrays, made by a kernel."""

    def __init__(self, tape: IntArray, element: IntArray, text: IntArray) -> None:
        self.parent, self.last, self.child, self.sibling, self.first, self.end = element.T.copy()
        self.parent[:1] = len(element)
        """The root's parent is the document, which stands behind the elements."""
        self.text = text
        """Of a text: the element that it is in, its first piece, and the piece after its last."""
        self._tape = tape

    def element_of(self, events: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """The elements that start at these events."""
        found: npt.NDArray[np.int64] = np.cumsum(self._tape > 0)[events] - 1
        return found


def _layout(markup: Markup) -> Layout:
    size = len(markup.tape)
    element, text = np.empty((size // 2 + 1, 6), np.int32), np.empty((size + 1, 3), np.int32)
    stack = np.zeros((size // 2 + 2, 2), np.int64)
    elements, texts = kernels.lay_out(markup.tape, markup.marks, element, text, stack)
    return Layout(markup.tape, element[:elements], text[:texts])


_NONE: dict[str, str] = {}


def _tree(markup: Markup) -> Tree:
    """Walks the tape once with the stack of open elements."""
    pieces = markup.pieces
    found = Tree([], [], [], [], [], [], [], [], pieces)
    stack: list[int] = []
    numbers: dict[int, int] = {}
    before = 0
    for at, (event, mark) in enumerate(zip(markup.tape.tolist(), markup.marks.tolist(), strict=True)):
        if mark > before and stack:
            found.texts[stack[-1]].append("".join(pieces[before:mark]))
            found.text_marks[stack[-1]].append(before)
        before = mark
        if event == END:
            done = stack.pop()
            found.last[done] = len(found.names)
            found.spans[done] = (found.spans[done][0], mark)
        elif event > 0:
            numbers[at] = len(found.names)
            _open(found, stack, markup.names[event - 1], mark)
    names = markup.attribute_names
    owners = zip(markup.owners.tolist(), markup.attribute.tolist(), markup.values, strict=True)
    for event, name, value in owners:
        if found.attributes[numbers[event]] is _NONE:
            found.attributes[numbers[event]] = {}
        found.attributes[numbers[event]][names[name]] = value
    return found


def _open(found: Tree, stack: list[int], name: str, mark: int) -> None:
    number = len(found.names)
    found.names.append(name)
    found.parents.append(stack[-1] if stack else -1)
    if stack:
        found.children[stack[-1]].append(number)
    found.last.append(0)
    found.children.append([])
    found.attributes.append(_NONE)
    found.texts.append([])
    found.text_marks.append([])
    found.spans.append((mark, mark))
    stack.append(number)
