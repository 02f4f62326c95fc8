"""Settings that an operator writes into a TOML file: one table for each group, each setting by its name.

    [channels]
    public_url = "https://tocsin.example.org"

What the file does not say keeps its default. What it says is checked before anything starts: an unknown name, a value
of another type, a number below zero each get a sentence that names the setting and what would be right.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from tocsin.errors import SettingError

FILE_BYTES_MAX = 1_048_576
T = TypeVar("T")


def read_settings(path: Path, defaults: T) -> T:
    """The defaults, changed by what the file says; SettingError names the file and the setting."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise SettingError(f"{path} has {len(raw):,} bytes: a file of settings has at most {FILE_BYTES_MAX:,}")
    try:
        table = tomllib.loads(raw.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} is no TOML: {error}") from None
    try:
        return changed(defaults, table)
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from None


def changed(defaults: T, table: Mapping[str, Any], where: str = "") -> T:
    """A copy of a dataclass with the values of the table; a dataclass inside it is a table inside the table."""
    assert is_dataclass(defaults)
    assert not isinstance(defaults, type)
    kinds = get_type_hints(type(defaults))
    known = {field.name: getattr(defaults, field.name) for field in fields(defaults)}
    news: dict[str, Any] = {}
    for name, value in table.items():
        here = f"{where}{name}"
        if name not in known:
            raise SettingError(f"unknown setting {here}{_suggestion(name, where, known)}")
        if is_dataclass(known[name]):
            if not isinstance(value, dict):
                raise SettingError(f"{here} is a group of settings: write [{here}], and its settings below it")
            news[name] = changed(known[name], value, f"{here}.")
        else:
            news[name] = _value(here, value, kinds[name])
    return replace(defaults, **news)


def _suggestion(name: str, where: str, known: Mapping[str, Any]) -> str:
    similar = get_close_matches(name, known, 1)
    if similar:
        return f": did you mean {where}{similar[0]}?"
    groups = [group for group, value in known.items() if is_dataclass(value) and hasattr(value, name)]
    return f": it belongs under [{where}{groups[0]}]" if groups else ": docs/reference/settings.md lists them all"


def _value(here: str, value: Any, kind: Any) -> Any:
    """The value as the setting's type, or SettingError."""
    if type(None) in (choices := get_args(kind)) and get_origin(kind) is not tuple:
        kind = next(choice for choice in choices if choice is not type(None))
    if kind is float and type(value) is int:
        value = float(value)
    if get_origin(kind) is tuple and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    if get_origin(kind) is Mapping and isinstance(value, dict) and all(isinstance(v, str) for v in value.values()):
        return value
    if type(value) is not kind:
        raise SettingError(f"{here} is {_written(value)}: it must be {_named(kind)}")
    if isinstance(value, int | float) and not 0 <= value < float("inf"):  # also refuses NaN
        raise SettingError(f"{here} is {value}: it must not be negative or infinite")
    return value


def _written(value: Any) -> str:
    """What the file said; of a text only that it is one, since it may be a password in the wrong place."""
    names: dict[type, str] = {str: "a text", list: "a list", dict: "a table"}
    return names.get(type(value)) or repr(value)


def _named(kind: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text in quotes"}
    return names.get(kind, "a list of texts" if get_origin(kind) is tuple else "a table of texts")
