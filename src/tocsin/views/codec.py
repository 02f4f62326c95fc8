"""What operators remember, as JSON: every value comes back as it was.

A scalar stands for itself; anything else is a list that begins with what it is: a dictionary with its keys and values
in turn, or one of the few classes that views are made of, with its fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from tocsin.views.aggregate import CollectTally, CountTally, ExtremeTally, LatestTally, Member, SumTally
from tocsin.views.best import _Falling
from tocsin.views.relation import Row
from tocsin.views.ticks import Ticks
from tocsin.views.value import PLAIN, Growing, Latest, Rows, SoFar, Special

TUPLE, LIST, SET, DICT = "t", "l", "s", "d"
PLAIN_FIELDS = (SoFar, Latest, Growing, Rows, Member, CountTally, ExtremeTally, SumTally, LatestTally, CollectTally)
FIELDS: dict[type, tuple[str, ...]] = {one: tuple(field.name for field in fields(one)) for one in PLAIN_FIELDS}
MAKERS: dict[str, Callable[..., Any]] = {
    **{one.__name__: one for one in PLAIN_FIELDS},
    TUPLE: lambda *parts: parts, LIST: lambda *parts: list(parts), SET: lambda *parts: set(parts),
    DICT: lambda *parts: dict(zip(parts[::2], parts[1::2], strict=True)),
    "Row": Row, "Falling": _Falling, "Special": Special, "Ticks": lambda *ranges: Ticks(ranges),
}  # fmt: skip


def dumped(value: Any) -> str:
    """A value as text."""
    return json.dumps(_encoded(value), separators=(",", ":"))


def loaded(text: str) -> Any:
    """The value that was written; ValueError or TypeError if it was none."""
    return _decoded(json.loads(text))


def _encoded(value: Any) -> Any:
    kind = value.__class__
    if kind in PLAIN:
        return value
    if kind is tuple:
        return [TUPLE, *map(_encoded, value)]
    if kind is dict:
        return [DICT, *[_encoded(part) for pair in value.items() for part in pair]]
    if kind is list:
        return [LIST, *map(_encoded, value)]
    if kind is set:
        return [SET, *map(_encoded, value)]
    if kind is Row:
        return ["Row", *map(_encoded, value)]
    names = FIELDS.get(kind)
    if names is not None:
        return [kind.__name__, *[_encoded(getattr(value, name)) for name in names]]
    if kind is Special:
        return ["Special", value.value]
    if kind is _Falling:
        return ["Falling", _encoded(value.part)]
    if kind is Ticks:
        return ["Ticks", *map(_encoded, value.ranges())]
    raise TypeError(f"{kind.__name__} is nothing that a view remembers")


def _decoded(data: Any) -> Any:
    if data.__class__ is not list:
        return data
    return MAKERS[data[0]](*map(_decoded, data[1:]))
