"""What an XPath subscription means: short, slow and obvious; every faster way must agree with it and with lxml.

Node sets are computed step by step as XPath 1.0 says (§2.1 location steps, §2.4 predicates, §3.4 comparisons), with
libxml2's reading of numbers. A position counts the nodes of one context along the axis, after the predicates before it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from math import nan
from typing import Any

from tocsin.markup import Markup, Tree
from tocsin.query.xpath.ast import (
    ANY,
    Axis,
    Compare,
    Every,
    Exists,
    Name,
    Never,
    Path,
    Position,
    Predicate,
    Some,
    Step,
    Text,
)

DOCUMENT = ("document", -1, 0)
NodeId = tuple[str, int, Any]
"""("element", number, 0), ("attribute", its element, name), ("text", its parent, index), or DOCUMENT."""

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:\d+(?:\.\d*)?|\.\d+))(?:[eE]([+-]?\d+)|[eE][+-]?)?[ \t\r\n]*", re.ASCII)


def holds_xpath(query: Path, document: Markup) -> bool:
    """Does the query select at least one node?"""
    return bool(select_xpath(query, document))


def select_xpath(query: Path, document: Markup) -> list[NodeId]:
    """The nodes that a query selects; a relative one starts at the root element, as lxml's root.xpath() does."""
    return select(query, document.tree, ("element", 0, 0))


def evidence_xpath(query: Path, document: Markup, characters: int = 200) -> tuple[str, str] | None:
    """The first node that a query selects: its path, and the start of its text; None if there is none."""
    found = select_xpath(query, document)
    if not found:
        return None
    kind, element, key = node = found[0]
    path = document.tree.path(max(element, 0))
    if kind == "attribute":
        path += "/@" + key.rpartition("}")[2]
    elif kind == "text":
        path += f"/text()[{key + 1}]" if len(document.tree.texts[element]) > 1 else "/text()"
    return path, " ".join(value_of(document.tree, node).split())[:characters]


def number_of(text: str) -> float:
    """XPath's number(): NaN where the text is none. libxml2 also reads exponents, even without digits."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return nan
    return float(found[1]) * float("1e" + found[2]) if found[2] else float(found[1])


def value_of(tree: Tree, node: NodeId) -> str:
    """The string-value of a node."""
    kind, element, key = node
    match kind:
        case "element":
            return tree.value(element)
        case "attribute":
            return tree.attributes[element][key]
        case "text":
            return tree.texts[element][key]
    return tree.value(0)


def compares(value: str, op: str, literal: str | float) -> bool:
    """Two strings are compared as such by = and !=; all else is compared as numbers."""
    if isinstance(literal, str) and op in ("=", "!="):
        return COMPARISONS[op](value, literal)
    number = number_of(literal) if isinstance(literal, str) else literal
    return COMPARISONS[op](number_of(value), number)


def select(path: Path, tree: Tree, context: NodeId) -> list[NodeId]:
    """The nodes that a path selects from a context node."""
    nodes = [DOCUMENT if path.absolute else context]
    for step in path.steps:
        if step.deep:
            nodes = _distinct(below for node in nodes for below in _around(tree, node, step))
        nodes = _distinct(found for node in nodes for found in take_step(step, tree, node))
    return nodes


def _distinct(nodes: Iterator[NodeId]) -> list[NodeId]:
    return list(dict.fromkeys(nodes))


def take_step(step: Step, tree: Tree, context: NodeId) -> list[NodeId]:
    """The nodes that one step selects from one context node, in document order."""
    nodes = [node for node in _axis(step, tree, context) if _passes(step, tree, node)]
    for predicate in step.predicates:
        nodes = [node for position, node in enumerate(nodes, 1) if is_true(predicate, tree, node, position)]
    return nodes


def _around(tree: Tree, context: NodeId, step: Step) -> Iterator[NodeId]:
    """descendant-or-self::node(). Texts matter only where the next step can stay on them."""
    yield context
    if context[0] in ("element", "document"):
        for element in _descendants(tree, context):
            yield ("element", element, 0)
        if step.axis in (Axis.SELF, Axis.DESCENDANT_OR_SELF):
            yield from _texts_below(step, tree, context)


def _descendants(tree: Tree, context: NodeId) -> range:
    return range(context[1] + 1, tree.last[max(context[1], 0)] if context[0] in ("element", "document") else 0)


def _axis(step: Step, tree: Tree, context: NodeId) -> Iterator[NodeId]:
    kind, element, _ = context
    match step.axis:
        case Axis.SELF:
            yield context
        case Axis.ATTRIBUTE:
            if kind == "element":
                yield from (("attribute", element, name) for name in tree.attributes[element])
        case Axis.CHILD:
            yield from _children(step, tree, context)
        case Axis.DESCENDANT | Axis.DESCENDANT_OR_SELF:
            if isinstance(step.test, Text):
                yield from _texts_below(step, tree, context)
                return
            if step.axis is Axis.DESCENDANT_OR_SELF:
                yield context
            yield from (("element", number, 0) for number in _descendants(tree, context))


def _children(step: Step, tree: Tree, context: NodeId) -> Iterator[NodeId]:
    kind, element, _ = context
    if isinstance(step.test, Text):
        if kind == "element":
            yield from (("text", element, index) for index in range(len(tree.texts[element])))
    elif kind == "document":
        yield ("element", 0, 0)
    elif kind == "element":
        yield from (("element", number, 0) for number in tree.children[element])


def _texts_below(step: Step, tree: Tree, context: NodeId) -> Iterator[NodeId]:
    kind, element, _ = context
    if kind == "text" and step.axis is Axis.DESCENDANT_OR_SELF:
        yield context
    if kind not in ("element", "document"):
        return
    found = []
    for number in range(max(element, 0), tree.last[max(element, 0)]):
        found += [(tree.text_marks[number][index], ("text", number, index)) for index in range(len(tree.texts[number]))]
    yield from (node for _, node in sorted(found))


def _passes(step: Step, tree: Tree, node: NodeId) -> bool:
    kind, element, key = node
    if not isinstance(step.test, Name):
        return True
    if kind == "attribute":
        return step.axis is Axis.ATTRIBUTE and step.test.accepts(key)
    return kind == "element" and (step.test is ANY or step.test.accepts(tree.names[element]))


def is_true(predicate: Predicate, tree: Tree, node: NodeId, position: int) -> bool:
    """Does a predicate hold at a node that stands at this position?"""
    match predicate:
        case Position(op, number):
            return COMPARISONS[op](position, number)
        case Exists(path):
            return bool(select(path, tree, node))
        case Compare(path, op, literal):
            return any(compares(value_of(tree, found), op, literal) for found in select(path, tree, node))
        case Every(parts):
            return all(is_true(part, tree, node, position) for part in parts)
        case Some(parts):
            return any(is_true(part, tree, node, position) for part in parts)
        case Never(part):
            return not is_true(part, tree, node, position)
