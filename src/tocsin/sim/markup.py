"""XML documents and XPath queries made from a document type, for tests and experiments (XML filtering paper §6).

The paper's knobs: how deep and how broad documents are; for queries their depth, P(*) and P(//) at each step, the skew
θ with which elements are chosen among those a DTD allows (their shares fall as 1/rank^θ), predicates per query, and
whether a set holds only distinct queries. Its Table 1 with the values is lost to us; ours are the defaults below.

A document type comes from a DTD or, where there is none, from documents. Beside these stand *tangled* documents and
queries: every form of the XPath subset over a tiny vocabulary, so that matches are frequent, to compare engines with
the oracle and with lxml. The same seed gives the same output.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from lxml import etree
from numpy.random import Generator

from tocsin.errors import SettingError
from tocsin.markup import Markup

NEWS_DTD = Path(__file__).with_name("news.dtd")
VALUES = 40
"""Distinct values of an attribute or text that a DTD leaves free."""
_DOCUMENTS, _QUERIES, _TANGLES = 11, 12, 13
_DRAWS = 4_096
_MANY = 1_000  # repeated draws that bring nothing new before a set of distinct queries counts as exhausted


# --- document types --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Content:
    """A content model: an element's name, text (""), or a sequence or choice of parts; and how often it may occur."""

    kind: str  # "name", "text", "all", "one"
    name: str = ""
    parts: tuple[Content, ...] = ()
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class ElementType:
    """What an element may hold; attributes with the values they may have (none: any)."""

    content: Content | None
    children: tuple[str, ...]
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    required: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DocumentType:
    """Elements by name, and which one is the root."""

    root: str
    elements: Mapping[str, ElementType]
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """What the prefixes in the names mean."""
    other_roots: tuple[str, ...] = ()
    """Where documents have different root elements, as records of a collection do."""

    @property
    def is_recursive(self) -> bool:
        """May some element occur inside itself?"""
        return any(name in self.below(name) for name in self.elements)

    def below(self, name: str) -> set[str]:
        """The elements that may occur inside one, at any depth."""
        found: set[str] = set()
        waiting = list(self.elements[name].children)
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += self.elements[one].children
        return found


def read_dtd(source: Path | bytes, root: str | None = None) -> DocumentType:
    """A document type from a DTD; the root is the element that no other holds, unless it is named."""
    data = source.read_bytes() if isinstance(source, Path) else source
    dtd = etree.DTD(BytesIO(data))
    elements = {}
    for element in dtd.iterelements():
        content = _content(element.content)
        attributes = {
            (f"{one.prefix}:{one.name}" if one.prefix else one.name): tuple(one.values())
            for one in element.iterattributes()
        }
        required = frozenset(one.name for one in element.iterattributes() if one.default == "required")
        children = tuple(dict.fromkeys(_names(content))) if content else ()
        elements[element.name] = ElementType(content, children, attributes, required)
    declared = {name: _declared(one, elements) for name, one in elements.items()}
    held = {child for one in declared.values() for child in one.children}
    return DocumentType(root or next((name for name in declared if name not in held), next(iter(declared))), declared)


def _declared(one: ElementType, elements: Mapping[str, ElementType]) -> ElementType:
    """Without children that the DTD forgot to declare."""
    children = tuple(child for child in one.children if child in elements)
    return ElementType(one.content, children, one.attributes, one.required)


def _content(model: etree._DTDElementContentDecl | None) -> Content | None:
    if model is None:
        return None
    optional, repeated = model.occur in ("opt", "mult"), model.occur in ("mult", "plus")
    if model.type == "pcdata":
        return Content("text", "", (), True, repeated)
    if model.type == "element":
        return Content("name", model.name, (), optional, repeated)
    kind = "all" if model.type == "seq" else "one"
    parts: list[Content] = []
    for side in (model.left, model.right):
        part = _content(side)
        if part is None:
            continue
        flat = part.kind == kind and not part.optional and not part.repeated
        parts += part.parts if flat else (part,)
    return Content(kind, "", tuple(parts), optional, repeated)


def _names(content: Content) -> Iterator[str]:
    if content.kind == "name":
        yield content.name
    for part in content.parts:
        yield from _names(part)


def infer_type(documents: Iterable[Markup], values_max: int = VALUES) -> DocumentType:
    """What occurs in what, seen in documents; namespaces get prefixes n0, n1, … in the order in which they are met."""
    prefixes: dict[str, str] = {}
    children: dict[str, dict[str, None]] = {}
    values: dict[str, dict[str, dict[str, None]]] = {}
    roots: dict[str, None] = {}
    for document in documents:
        tree = document.tree
        names = [_prefixed(name, prefixes) for name in tree.names]
        roots[names[0]] = None
        for number, name in enumerate(names):
            children.setdefault(name, {}).update((names[one], None) for one in tree.children[number])
            for attribute, value in tree.attributes[number].items():
                seen = values.setdefault(name, {}).setdefault(_prefixed(attribute, prefixes), {})
                if len(seen) < values_max and len(value) < 40 and "'" not in value:
                    seen[value] = None
    elements = {
        name: ElementType(None, tuple(found), {one: tuple(seen) for one, seen in values.get(name, {}).items() if seen})
        for name, found in children.items()
    }
    root, *others = roots
    return DocumentType(root, elements, {prefix: uri for uri, prefix in prefixes.items()}, tuple(others))


def _prefixed(clark: str, prefixes: dict[str, str]) -> str:
    if not clark.startswith("{"):
        return clark
    uri, _, local = clark[1:].rpartition("}")
    return f"{prefixes.setdefault(uri, f'n{len(prefixes)}')}:{local}"


# --- chance ----------------------------------------------------------------------------------------------------------


class Chance:
    """Uniform numbers drawn in blocks, and choices by rank with skew θ."""

    def __init__(self, generator: Generator, skew: float) -> None:
        self._generator = generator
        self._skew = skew
        self._draws: list[float] = []
        self._shares: dict[int, list[float]] = {}

    def __call__(self) -> float:
        """A number in [0, 1)."""
        if not self._draws:
            self._draws = self._generator.random(_DRAWS).tolist()
        return self._draws.pop()

    def rank(self, count: int) -> int:
        """One of 0, …, count - 1; the share of rank r is proportional to 1 / (r + 1)^θ."""
        shares = self._shares.get(count)
        if shares is None:
            weights = 1.0 / np.arange(1, count + 1) ** self._skew
            shares = self._shares[count] = np.cumsum(weights / weights.sum()).tolist()
        drawn = self()
        low, high = 0, count - 1
        while low < high:
            middle = (low + high) // 2
            if shares[middle] <= drawn:
                low = middle + 1
            else:
                high = middle
        return low


def _value(chance: Chance, allowed: tuple[str, ...]) -> str:
    return allowed[chance.rank(len(allowed))] if allowed else str(chance.rank(VALUES))


# --- documents -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocumentShape:
    """Knobs for documents."""

    depth_max: int = 10
    """Elements inside each other; below it only what the DTD requires."""
    fanout_max: int = 4
    """Repetitions of a part that may repeat."""
    optional_share: float = 0.5
    """How often an optional part or attribute is there."""
    elements_max: int = 400
    """Elements of a document, about: beyond it only what the DTD requires."""
    skew: float = 0.0
    """θ of choices between alternatives."""


def documents(kind: DocumentType, count: int, seed: int, shape: DocumentShape | None = None) -> Iterator[str]:
    """Documents valid against a DTD, as XML."""
    shape = shape or DocumentShape()
    heights = _heights(kind)
    chance = Chance(np.random.default_rng([seed, _DOCUMENTS]), shape.skew)
    for _ in range(count):
        yield _Writer(kind, shape, heights, chance).document()


def _heights(kind: DocumentType) -> dict[str, float]:
    """The least depth that an element needs; infinite if it can never end."""
    heights = dict.fromkeys(kind.elements, float("inf"))
    for _ in kind.elements:
        new = {name: 1 + _height(one.content, heights) for name, one in kind.elements.items()}
        if new == heights:
            break
        heights = new
    return heights


def _height(content: Content | None, heights: Mapping[str, float]) -> float:
    if content is None or content.optional or content.kind == "text":
        return 0
    if content.kind == "name":
        return heights.get(content.name, 0)
    parts = [_height(part, heights) for part in content.parts]
    return max(parts, default=0) if content.kind == "all" else min(parts, default=0)


class _Writer:
    """One document in the making."""

    def __init__(self, kind: DocumentType, shape: DocumentShape, heights: dict[str, float], chance: Chance) -> None:
        self._kind, self._shape, self._heights, self._chance = kind, shape, heights, chance
        self._left = shape.elements_max
        self._out: list[str] = []

    def document(self) -> str:
        self._element(self._kind.root, 1)
        return "".join(self._out)

    def _element(self, name: str, depth: int) -> None:
        self._left -= 1
        one = self._kind.elements[name]
        self._out.append(f"<{name}{self._attributes(one)}>")
        if one.content is not None:
            self._part(one.content, depth + 1)
        self._out.append(f"</{name}>")

    def _attributes(self, one: ElementType) -> str:
        text = ""
        for name, allowed in one.attributes.items():
            if name in one.required or self._chance() < self._shape.optional_share:
                if name.startswith("xml"):
                    continue
                text += f" {name}={quoteattr(_value(self._chance, allowed))}"
        return text

    def _part(self, content: Content, depth: int) -> None:
        bare = depth > self._shape.depth_max or self._left <= 0
        if content.optional and (bare or self._chance() >= self._shape.optional_share) and content.kind != "text":
            return
        times = 1
        if content.repeated and not bare:
            times += int(self._chance() * self._shape.fanout_max)
        for _ in range(times):
            self._once(content, depth, bare)

    def _once(self, content: Content, depth: int, bare: bool) -> None:
        match content.kind:
            case "text":
                self._out.append(escape(_value(self._chance, ())))
            case "name":
                if content.name in self._kind.elements:
                    self._element(content.name, depth)
            case "all":
                for part in content.parts:
                    self._part(part, depth)
            case _:
                parts = content.parts
                if bare:
                    least = min(_height(part, self._heights) for part in parts)
                    parts = tuple(part for part in parts if _height(part, self._heights) == least)
                self._part(parts[self._chance.rank(len(parts))], depth)


# --- queries ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryShape:
    """Knobs for queries."""

    depth_max: int = 6
    """Steps of a query at most; the number is even between 1 and this, unless the document type ends before."""
    wildcard: float = 0.2
    """P(*): a step has '*' instead of a name."""
    descendant: float = 0.2
    """P(//): a step comes after '//' instead of '/'."""
    skew: float = 0.0
    """θ of the choice among the children of an element."""
    predicates: float = 0.0
    """Value predicates per query, on average."""
    branches: float = 0.0
    """Nested paths per query, on average."""
    distinct: bool = True
    """Each query once; otherwise queries repeat as chance will have it."""


def queries(kind: DocumentType, count: int, seed: int, shape: QueryShape | None = None) -> Iterator[str]:
    """XPath queries along the paths that a document type allows."""
    shape = shape or QueryShape()
    chance = Chance(np.random.default_rng([seed, _QUERIES]), shape.skew)
    seen: set[str] = set()
    made = vain = 0
    while made < count:
        query = _query(kind, shape, chance)
        if shape.distinct:
            if query in seen:
                vain += 1
                if vain > _MANY + 20 * made:
                    reason = f"there are hardly more than {made:,} distinct queries of this shape: raise depth_max"
                    raise SettingError(reason)
                continue
            seen.add(query)
        made += 1
        yield query


def _query(kind: DocumentType, shape: QueryShape, chance: Chance) -> str:
    steps, name = [], kind.root
    if kind.other_roots:
        name = (kind.root, *kind.other_roots)[chance.rank(1 + len(kind.other_roots))]
    for at in range(1 + int(chance() * shape.depth_max)):
        if at:
            children = kind.elements[name].children
            if not children:
                break
            name = children[chance.rank(len(children))]
        slashes = "//" if chance() < shape.descendant else "/"
        steps.append((name, slashes + ("*" if chance() < shape.wildcard else name)))
    if not shape.predicates and not shape.branches:
        return "".join(text for _, text in steps)
    guards = [""] * len(steps)
    for amount, make in ((shape.predicates, _predicate), (shape.branches, _branch)):
        for _ in range(int(amount) + (chance() < amount % 1)):
            at = int(chance() * len(steps))
            guards[at] += make(kind, steps[at][0], chance)
    return "".join(text + guard for (_, text), guard in zip(steps, guards, strict=True))


_OPERATORS = ("=", "=", "=", "!=", "<", "<=", ">", ">=")


def _predicate(kind: DocumentType, name: str, chance: Chance) -> str:
    """[@a op v], [child op v] or [position() op n]."""
    one = kind.elements[name]
    op = _OPERATORS[int(chance() * len(_OPERATORS))]
    drawn = chance()
    attributes = [attribute for attribute in one.attributes if not attribute.startswith("xml")]
    if attributes and drawn < 0.6:
        attribute = attributes[chance.rank(len(attributes))]
        value = _value(chance, one.attributes[attribute])
        return f"[@{attribute} {op} {_literal(value, chance)}]"
    if one.children and drawn < 0.85:
        return f"[{one.children[chance.rank(len(one.children))]} {op} {_literal(_value(chance, ()), chance)}]"
    return f"[position() {op} {1 + chance.rank(4)}]"


def _literal(value: str, chance: Chance) -> str:
    if value.isdecimal() and value.isascii() and chance() < 0.5:
        return value
    return f"'{value}'"


def _branch(kind: DocumentType, name: str, chance: Chance) -> str:
    """[path]: one or two steps below the element."""
    path = ""
    for _ in range(1 + (chance() < 0.5)):
        children = kind.elements[name].children
        if not children:
            break
        name = children[chance.rank(len(children))]
        path += ("/" if path else "") + name
    return f"[{path}]" if path else "[not(*)]"


# --- every form, to compare engines ----------------------------------------------------------------------------------

NAMESPACES = {"p": "u", "q": "v"}
"""The prefixes of tangled queries."""
_TEXTS = ("", "", "1", "x", "2", "1.0", "-1", " ", "&amp;", "&#50;", "<!--c-->", "<?pi x?>", "<![CDATA[x]]>")
_STRINGS = ("1", "2", "x", "", " 3 ", "1e1", "&lt;")
_LITERALS = ("'1'", "'x'", "1", "2", "3", "''", "0", "-1", "10", '"2"', "1.0")
_COMPARED = ("=", "!=", "<", "<=", ">", ">=", "=", "<>")


class Tangle:
    """Small documents and queries over the names a, b, c in up to three namespaces."""

    def __init__(self, seed: int) -> None:
        self._chance = Chance(np.random.default_rng([seed, _TANGLES]), 0.0)

    def _one(self, *options: str) -> str:
        return options[self._chance.rank(len(options))]

    def _below(self, limit: float) -> bool:
        return self._chance() < limit

    def document(self, depth: int = 0) -> str:
        """An XML document with mixed content, comments, CDATA, prefixes and default namespaces."""
        name = self._one("", "", "", "p:", "q:") + self._one("a", "b", "c")
        scope = ' xmlns:p="u" xmlns:q="v"' if not depth else self._one("", "", "", "", ' xmlns="v"', ' xmlns=""')
        keys = [key for key in ("x", "y", "p:x", "z") if self._below(0.25)]
        attributes = "".join(f' {key}="{self._one(*_STRINGS)}"' for key in keys)
        inside = ""
        for _ in range(self._chance.rank(4) if depth < 5 else 0):
            inside += self._one(*_TEXTS) + self.document(depth + 1)
        return f"<{name}{scope}{attributes}>{inside}{self._one(*_TEXTS)}</{name}>"

    def query(self) -> str:
        """An XPath query of any form of the subset; a few are refused, since they select the document itself."""
        return self._path(0, inside=False)

    def _path(self, depth: int, inside: bool) -> str:
        path = self._one("/", "//", "//", "") if not inside else self._one(*[""] * 12, "/", "//")
        steps = 1 + self._chance.rank(3 if inside else 4)
        for at in range(steps):
            path += (self._one("/", "/", "//") if at else "") + self._step(at == steps - 1, depth)
        return path

    def _step(self, last: bool, depth: int) -> str:
        drawn = self._chance()
        if drawn < 0.08:
            return "."
        if last and drawn < 0.2:
            return self._one("@x", "@*", "@y", "@p:x", "attribute::z", "@p:*") + self._leaf_predicate()
        if last and drawn < 0.3:
            axis = self._one("", "", "child::", "descendant::", "descendant-or-self::")
            return f"{axis}text(){self._leaf_predicate()}"
        axis = self._one("", "", "", "", "", "child::", "descendant::", "descendant-or-self::")
        test = self._one("a", "b", "c", "*", "*", "p:a", "q:b", "p:*", "b", "c")
        return axis + test + self._predicates(depth + 1)

    def _leaf_predicate(self) -> str:
        if not self._below(0.2):
            return ""
        return self._one("[1]", "[2]", f"[. {self._one(*_COMPARED)} {self._one(*_LITERALS)}]")

    def _predicates(self, depth: int) -> str:
        text, share = "", 0.4 / depth
        while self._below(share) and depth < 4:
            text += f"[{self._one('1', '2', '(2)') if self._below(0.25) else self._condition(depth)}]"
            share /= 2
        return text

    def _condition(self, depth: int) -> str:
        drawn, op = self._chance.rank(9 if depth < 3 else 5), self._one(*_COMPARED)
        match drawn:
            case 0:
                return f"position() {op} {self._one('1', '2', '3')}"
            case 1:
                return f"{self._one('1', '2')} {op} position()"
            case 2 | 3:
                return self._path(depth, inside=True)
            case 4:
                return f"{self._path(depth, inside=True)} {op} {self._one(*_LITERALS)}"
            case 5:
                return f"{self._one(*_LITERALS)} {op} {self._path(depth, inside=True)}"
            case 6:
                return f"not({self._condition(depth + 1)})"
            case 7:
                return f"({self._condition(depth + 1)})"
        return f"{self._condition(depth + 1)} {self._one('and', 'or')} {self._condition(depth + 1)}"
