"""What nodes send each other: frozen dataclasses, and the one codec that turns them into bytes.

On the wire a message is a msgpack array: version, tag, then its fields in order. A tag is a small number that says
which class it is; `message(tag)` gives it. Fields are unsigned integers of 64 bits, finite floats, booleans, strings,
bytes, None, tuples of these, records (`record`) and other messages: no maps, no extensions, nothing that is looked up
by name. Decoding is strict: what is not exactly of a known shape is refused with one error, `OverlayError`.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, fields, make_dataclass
from math import isfinite
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import msgpack

from tocsin.errors import TocsinError
from tocsin.overlay.key import Key, hashed

VERSION = 2
"""One more whenever a message gets another shape: whoever speaks another version is refused, not misunderstood."""
MESSAGE_BYTES_MAX = 16_777_216
NESTING_MAX = 4
"""Messages inside messages."""

Address: TypeAlias = str
Decoder: TypeAlias = Callable[[Any, int], Any]


class OverlayError(TocsinError):
    """A message of another node is malformed, too large or of an unknown version or kind, and is dropped."""


class UnknownVersion(OverlayError):
    """Another node speaks a newer or an older version: one of the two is to be updated."""


class Message:
    """Anything that is sent; its size is found once, and so are bytes that it shares with others."""

    __slots__ = ("_inside", "_kept", "_size")


# messages are frozen: these are for the codec alone
_set_size = vars(Message)["_size"].__set__
_set_inside = vars(Message)["_inside"].__set__  # its bytes as a field of another
_set_kept = vars(Message)["_kept"].__set__  # the bytes of its kept fields, each for itself


@dataclass(frozen=True, slots=True)
class _Shape:
    head: tuple[int, ...]  # what comes before the fields: nothing, or a tag
    opening: tuple[int, ...]  # what comes before the fields of a message that is in no other
    start: bytes  # the same, packed, with the header of the array
    values: Callable[[Any], tuple[Any, ...]]
    kept: Callable[[Any], tuple[Any, ...]] | None  # the values that stay as they are on the way
    rest: Callable[[Any], tuple[Any, ...]]  # the others
    decoders: tuple[Decoder, ...]
    build: Callable[..., Any]


_M = TypeVar("_M", bound=type)
_T = TypeVar("_T", bound=Message)
_shapes: dict[type, _Shape] = {}
_own_decoders: dict[type, Decoder] = {}
_tags: dict[int, type] = {}


def message(tag: int, kept: int = 0) -> Callable[[_M], _M]:
    """Gives a class of messages its number on the wire, for ever.

    `kept`: how many of its fields, the first ones, are kept when it goes from node to node (`passed_on`).
    """

    def register(cls: _M) -> _M:
        if not issubclass(cls, Message) or tag in _tags:
            raise TypeError(f"{cls.__name__}: no message, or its tag {tag} is taken by {_tags.get(tag)}")
        _tags[tag] = cls
        _shapes[cls] = _shape(cls, (tag,), kept)
        return cls

    return register


def record(cls: _M) -> _M:
    """Lets a dataclass be a field of messages."""
    _shapes[cls] = _shape(cls, ())
    return cls


def message_types() -> dict[int, type]:
    """Every class of messages by its tag."""
    return dict(_tags)


# --- encoding --------------------------------------------------------------------------------------------------------


def _shape(cls: type, head: tuple[int, ...], kept: int = 0) -> _Shape:
    names = [field.name for field in fields(cls)]
    hints = get_type_hints(cls)
    opening = (VERSION, *head)
    start = _packer.pack_array_header(len(opening) + len(names)) + _bodies(opening)
    decoders = tuple(_decoder(hints[name]) for name in names)
    first = _getter(names[:kept]) if kept else None
    return _Shape(head, opening, start, _getter(names), first, _getter(names[kept:]), decoders, cls)


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple([getattr(value, name) for name in names])


def _plain(value: Any) -> tuple[Any, ...]:
    """What msgpack does not know itself: a record or a message inside a message."""
    if type(value) is Peer:  # in most messages
        return value.key, value.address
    shape = _shapes[type(value)]
    return shape.head + shape.values(value)


_packer = msgpack.Packer(default=_plain, use_bin_type=True)
_pack = _packer.pack


def _bodies(parts: tuple[Any, ...]) -> bytes:
    """Parts one after the other: an array without its header, which is one byte for fewer than 16."""
    data: bytes = _pack(parts)
    return data[1:] if len(parts) < 16 else b"".join(map(_pack, parts))


def _inside(value: Any) -> bytes:
    """A field's bytes; those of a message inside are made once, however many it is sent in."""
    if not isinstance(value, Message):
        return _pack(value)  # type: ignore[no-any-return]
    data: bytes | None = getattr(value, "_inside", None)
    if data is None:
        data = _pack(value)
        _set_inside(value, data)
    return data


def encode(message: Message, limit: int = MESSAGE_BYTES_MAX) -> bytes:
    """A message as bytes."""
    try:
        shape = _shapes[type(message)]
        data: bytes
        if shape.kept is None:
            data = _pack(shape.opening + shape.values(message))
        else:
            kept = getattr(message, "_kept", None)
            if kept is None:
                kept = shape.start, *[_inside(value) for value in shape.kept(message)]
                _set_kept(message, kept)
            data = b"".join((*kept, _bodies(shape.rest(message))))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise OverlayError(f"{type(message).__name__} cannot be encoded: {error}") from error
    if len(data) > limit:
        raise OverlayError(f"{type(message).__name__} has {len(data)} bytes, more than {limit}")
    _set_size(message, len(data))
    return data


def passed_on(old: _T, new: _T, cut: int = 0) -> _T:
    """A message on its way: `new` has the kept fields of `old`, but its lists without their first `cut`.

    The bytes of these fields are not made again: a list of a thousand keys goes over dozens of nodes until the last
    of them is had.
    """
    kept = getattr(old, "_kept", None)
    if kept is not None:
        _set_kept(new, _shortened(old, kept, cut) if cut else kept)
    return new


def _shortened(message: Any, kept: tuple[bytes, ...], cut: int) -> tuple[bytes, ...]:
    shape, pieces = _shapes[type(message)], list(kept)
    assert shape.kept is not None
    for at, value in enumerate(shape.kept(message), 1):
        if type(value) is tuple and value:
            gone = len(_packer.pack_array_header(len(value))) + sum([len(_pack(one)) for one in value[:cut]])
            pieces[at] = _packer.pack_array_header(len(value) - cut) + pieces[at][gone:]
    return tuple(pieces)


def quick(cls: type[_T]) -> type[_T]:
    """The same class, made four times as quickly, for messages that are made by the million.

    A frozen dataclass sets each field through `object.__setattr__`. This one is frozen when its fields are set.
    """

    if hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__}: its __post_init__ would not be called")

    def freeze(self: Any) -> None:
        self.__class__ = cls

    names = [(field.name, field.type) for field in fields(cls)]  # type: ignore[arg-type]
    return make_dataclass(cls.__name__, names, bases=(Message,), namespace={"__post_init__": freeze}, slots=True)


def size_of(message: Message) -> int:
    """Bytes of a message on the wire, computed once."""
    try:
        return message._size  # type: ignore[attr-defined, no-any-return]
    except AttributeError:
        return len(encode(message))


# --- decoding --------------------------------------------------------------------------------------------------------


def decode(data: bytes, limit: int = MESSAGE_BYTES_MAX) -> Message:
    """Bytes of a stranger as a message; OverlayError if they are not exactly that."""
    if len(data) > limit:
        raise OverlayError(f"{len(data)} bytes, more than {limit}")
    try:
        parts = msgpack.unpackb(data, raw=False, use_list=False, max_map_len=0, max_ext_len=0)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.exceptions.UnpackException) as error:
        raise OverlayError(f"not msgpack: {type(error).__name__}") from error
    if type(parts) is not tuple or len(parts) < 2:
        raise OverlayError("not an array of a version, a tag and fields")
    if type(parts[0]) is not int or parts[0] != VERSION:
        raise UnknownVersion(f"version {parts[0]!r:.20} is unknown; this node speaks {VERSION}")
    found: Message = _message(parts[1:], 0)
    _set_size(found, len(data))
    return found


def _message(parts: Any, depth: int) -> Any:
    if type(parts) is not tuple or not parts or depth > NESTING_MAX:
        raise OverlayError("a message inside a message is no array, or inside too many others")
    cls = _tags.get(parts[0]) if type(parts[0]) is int else None
    if cls is None:
        raise OverlayError(f"tag {parts[0]!r:.20} is unknown")
    return _fields(_shapes[cls], parts[1:], depth)


def _fields(shape: _Shape, parts: tuple[Any, ...], depth: int) -> Any:
    if len(parts) != len(shape.decoders):
        raise OverlayError(f"{len(parts)} fields where there should be {len(shape.decoders)}")
    return shape.build(*[decoder(part, depth) for decoder, part in zip(shape.decoders, parts, strict=True)])


def _exactly(kind: type) -> Decoder:
    def check(value: Any, depth: int) -> Any:
        if type(value) is not kind:  # a boolean is no number here
            raise OverlayError(f"{type(value).__name__} where there should be {kind.__name__}")
        return value

    return check


def _unsigned(value: Any, depth: int) -> int:
    if type(value) is not int or value < 0:
        raise OverlayError("no unsigned number where there should be one")
    return value


def _finite(value: Any, depth: int) -> float:
    if type(value) is not float or not isfinite(value):
        raise OverlayError("no finite number where there should be one")
    return value


def _decoder(hint: Any) -> Decoder:
    """How a field of this type is read."""
    if hint is int:
        return _unsigned
    if hint is float:
        return _finite
    if hint in (str, bytes, bool):
        return _exactly(hint)
    if hint in _own_decoders:
        return _own_decoders[hint]
    if hint is Message:
        return lambda value, depth: _message(value, depth + 1)
    if get_origin(hint) in (Union, types.UnionType):
        (inner,) = (_decoder(one) for one in get_args(hint) if one is not type(None))
        return lambda value, depth: None if value is None else inner(value, depth)
    if get_origin(hint) is tuple:
        return _tuple_decoder(get_args(hint))
    if hint in _shapes and not _shapes[hint].head:
        shape = _shapes[hint]
        return lambda value, depth: _fields(shape, _array(value), depth)
    raise TypeError(f"{hint!r} cannot be a field of a message")


def _tuple_decoder(inner: tuple[Any, ...]) -> Decoder:
    if len(inner) == 2 and inner[1] is Ellipsis:
        one = _decoder(inner[0])

        def read_all(value: Any, depth: int) -> tuple[Any, ...]:
            return tuple([one(part, depth) for part in _array(value)])

        return _quick(inner[0], read_all) if inner[0] in (int, str) else read_all
    each = tuple(_decoder(part) for part in inner)

    def read(value: Any, depth: int) -> tuple[Any, ...]:
        if len(_array(value)) != len(each):
            raise OverlayError(f"{len(value)} parts where there should be {len(each)}")
        return tuple([decoder(part, depth) for decoder, part in zip(each, value, strict=True)])

    return read


def _array(value: Any) -> tuple[Any, ...]:
    if type(value) is not tuple:
        raise OverlayError("no array where there should be one")
    return value


def _quick(kind: type, slow: Decoder) -> Decoder:
    """Long lists of keys and addresses are checked at once, and used as they are."""

    def read(value: Any, depth: int) -> Any:
        if type(value) is tuple and set(map(type, value)) == {kind} and (kind is str or min(value) >= 0):
            return value
        return slow(value, depth)  # empty, or it says what is wrong

    return read


# --- what all messages speak of --------------------------------------------------------------------------------------


@record
@dataclass(frozen=True, slots=True)
class Peer:
    """A node as others know it: where it is on the ring, and how to reach it."""

    key: Key
    address: Address


_PEERS_KEPT = 10_000
_peers: dict[tuple[int, str], Peer] = {}


def _peer(value: Any, depth: int) -> Peer:
    """The same few peers are in every message: each is made once."""
    if type(value) is not tuple or len(value) != 2 or type(value[0]) is not int or type(value[1]) is not str:
        return _fields(_shapes[Peer], _array(value), depth)  # type: ignore[no-any-return]  # says what is wrong
    found = _peers.get(value)
    if found is None:
        found = _fields(_shapes[Peer], value, depth)
        if len(_peers) >= _PEERS_KEPT:
            _peers.clear()
        _peers[value] = found
    return found


_own_decoders[Peer] = _peer


def peer(address: Address) -> Peer:
    """A node's key is its address, hashed: nobody assigns it."""
    return Peer(hashed("node", address), address)


@record
@dataclass(frozen=True, slots=True)
class Item:
    """A value under a key; `kind` says whose it is, `name` which of the key's, the highest version counts."""

    key: Key
    kind: int
    name: bytes
    version: int
    value: bytes | None  # None: removed, and remembered so that no old copy comes back
