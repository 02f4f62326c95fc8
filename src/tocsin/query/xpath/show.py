"""Tree to text: `parse_xpath(show_xpath(path)) == path` under the same namespaces."""

from __future__ import annotations

from decimal import Decimal

from tocsin.query.xpath.ast import Axis, Compare, Every, Exists, Name, Never, Path, Position, Predicate, Some, Step

_AXES = {Axis.CHILD: "", Axis.ATTRIBUTE: "@"}


def show_xpath(path: Path) -> str:
    """The path as text that parses to the same tree."""
    text = "".join(("//" if step.deep else "/") + _step(step) for step in path.steps)
    if path.absolute:
        return text
    return text[1:]  # a relative path never starts with '//': that is './/', whose first step is '.'


def _step(step: Step) -> str:
    if step.axis is Axis.SELF:
        return "."
    axis = _AXES.get(step.axis, f"{step.axis}::")
    return axis + _test(step) + "".join(f"[{_predicate(one)}]" for one in step.predicates)


def _test(step: Step) -> str:
    if not isinstance(step.test, Name):
        return "text()"
    local = step.test.local or "*"
    return f"{step.test.prefix}:{local}" if step.test.prefix else local


def _predicate(predicate: Predicate) -> str:
    match predicate:
        case Position(op, number):
            return f"position() {op} {_number(number)}"
        case Exists(path):
            return show_xpath(path)
        case Compare(path, op, literal):
            return f"{show_xpath(path)} {op} {_literal(literal)}"
        case Every(parts):
            return " and ".join(_grouped(part, Some, Every) for part in parts)
        case Some(parts):
            return " or ".join(_grouped(part, Some) for part in parts)
        case Never(part):
            return f"not({_predicate(part)})"


def _grouped(part: Predicate, *kinds: type) -> str:
    text = _predicate(part)
    return f"({text})" if isinstance(part, kinds) else text


def _literal(literal: str | float) -> str:
    if isinstance(literal, str):
        return f'"{literal}"' if '"' not in literal else f"'{literal}'"
    return _number(literal)


def _number(number: float) -> str:
    """XPath writes numbers without exponents."""
    return format(Decimal(repr(int(number)) if number == int(number) else repr(number)), "f")
