"""Values of a view as people read them: what can still change says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

LONG = 200  # characters of a text, or of a relation in a column


class Spoken(NamedTuple):
    """A value in words."""

    before: str
    """What is certain of it: "at least"; empty if it is final."""
    text: str
    after: str
    """"so far", or the tick that it is from."""
    final: bool

    def __str__(self) -> str:
        return " ".join(part for part in (self.before, self.text, self.after) if part)


def spoken(value: Any) -> Spoken:
    """A value as the contract prints it, in words."""
    if isinstance(value, Mapping):
        match value:
            case {"at_least": low}:
                return Spoken("at least", _plain(low), "", False)
            case {"at_most": high}:
                return Spoken("at most", _plain(high), "", False)
            case {"between": [low, high]}:
                return Spoken("between", f"{_plain(low)} and {_plain(high)}", "", False)
            case {"latest": now, "tick": tick}:
                return Spoken("", _plain(now), f"at tick {tick}", False)
            case {"so_far": now}:
                return Spoken("", _plain(now), "so far", False)
            case {"unknown": True}:
                return Spoken("", "unknown", "yet", False)
    return Spoken("", _plain(value), "", True)


def sentence(change: Mapping[str, Any]) -> tuple[str, str]:
    """A changed row as a title and a text: which row it is, and what is known of it now."""
    key = ", ".join(f"{name} {spoken(value)}" for name, value in change["key"].items())
    title = f"{change['view']}: {key}" if key else str(change["view"])
    row = change["row"]
    if row is None:
        return title, "It has left the view."
    told = "; ".join(f"{name} {spoken(value)}" for name, value in row.items() if name not in change["key"])
    return title, told + (". Final." if change["final"] else ".") if told else ""


def _plain(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONG else text[:LONG] + "…"
