"""Tree to text: `parse(show(query)) == query`."""

from __future__ import annotations

import re

from tocsin.query.ast import And, Bound, Equals, Exists, In, Near, Not, Or, Prefix, Query, Range, Similar, Words

OPERATORS = ("AND", "OR", "NOT", "NEAR")
_SPACE = re.compile(r"\s")  # in a term that was not parsed: text would split it
_SPECIAL = re.compile(r'[\s\\()":=<>~\[\]{}*?^+/!&|-]')


def show(query: Query) -> str:
    """The query as text that parses to the same tree."""
    match query:
        case Or(parts):
            return " OR ".join(_grouped(part, Or) for part in parts)
        case And(parts):
            return " AND ".join(_grouped(part, Or, And) for part in parts)
        case Not(part):
            return f"NOT {_grouped(part, Or, And)}"
        case Words(field, text, quoted):
            return _on(field, _quote(text) if quoted or _SPACE.search(text) else text)
        case Near(field, operands, gaps, ordered):
            chain = _quote_unless_plain(operands[0])
            for (low, high), word in zip(gaps, operands[1:], strict=True):
                chain += f" NEAR[{low},{high}] " if ordered else f" NEAR/{high} "
                chain += _quote_unless_plain(word)
            return f"{field}:({chain})" if field else chain
        case Equals(field, text, quoted):
            return f"{field} = {_quote(text) if quoted or _SPACE.search(text) else text}"
        case Prefix(field, text):
            return _on(field, _SPECIAL.sub(r"\\\g<0>", text) + "*")
        case Exists(field):
            return f"{field}:*"
        case Range(field, low, high):
            return f"{field}:{_range(low, high)}"
        case Similar(field, text, threshold):
            return f"{field} ~ {_quote(text)} >= {_decimal(threshold)}"
        case In(field, source, inner):
            return f"{field}:IN:{source}({show(inner)})"


def _on(field: str | None, text: str) -> str:
    return f"{field}:{text}" if field else text


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _quote_unless_plain(text: str) -> str:
    return _quote(text) if text in OPERATORS or _SPECIAL.search(text) else text


def _grouped(part: Query, *kinds: type) -> str:
    text = show(part)
    return f"({text})" if isinstance(part, kinds) else text


def _range(low: Bound | None, high: Bound | None) -> str:
    left = low.inclusive if low else high is None or high.inclusive
    right = high.inclusive if high else left
    return f"{'[' if left else '{'}{_bound(low)} TO {_bound(high)}{']' if right else '}'}"


def _bound(bound: Bound | None) -> str:
    if bound is None:
        return "*"
    return _quote(bound.text) if " " in bound.text else bound.text


def _decimal(number: float) -> str:
    return repr(int(number)) if number == int(number) else repr(number)
