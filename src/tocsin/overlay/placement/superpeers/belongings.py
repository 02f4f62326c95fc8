"""What a client keeps on its disk: its wishes and resources, what it heard, and where it was connected."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgpack

from tocsin.overlay.delivery import Notice
from tocsin.overlay.message import Address
from tocsin.overlay.placement.superpeers.advertisements import Advertisement, advertisement

Disk: TypeAlias = MutableMapping[bytes, bytes]


@dataclass(slots=True)
class Wanted:
    """A continuous query; without text it has ended."""

    version: int
    text: str
    is_standing: bool = False
    """The access point has done what this version asks for."""


@dataclass(slots=True)
class Owned:
    """A resource and its metadata."""

    version: int
    data: bytes
    resource: bytes
    is_withdrawn: bool = False
    is_listed: bool = False
    """The access point has it."""


@dataclass(frozen=True, slots=True)
class Desired:
    """A resource of another client that is being fetched."""

    owner: Address
    id: str
    version: int


class Belongings:
    """Read at the beginning, written with each change."""

    def __init__(self, disk: Disk | None) -> None:
        self._disk: Disk = {} if disk is None else disk
        self.epoch = self.last_epoch = 0
        """Of the last connection that was tried, and of the last that was welcomed."""
        self.last_access: Address | None = None
        self.formers: tuple[Address, ...] = ()
        """Super-peers that may have something of this client: all that it tried to connect to, until they let it go."""
        self.advertisement = Advertisement()
        self.wanted: dict[str, Wanted] = {}
        self.owned: dict[str, Owned] = {}
        self.desired: dict[int, Desired] = {}
        self.unfinished: dict[tuple[str, int], bytes] = {}
        """Publications whose subscribers may not all have heard."""
        self.withdrawing: set[str] = set()
        self._outbox: list[Notice] = []
        self._had: set[tuple[str, str, int]] = set()
        for key in sorted(self._disk):
            self._load(*msgpack.unpackb(key), parts=msgpack.unpackb(self._disk[key]))

    def _load(self, kind: str, *name: Any, parts: Any) -> None:
        if kind == "self":
            self.epoch, self.last_epoch, self.last_access, formers, packed = parts
            self.formers, self.advertisement = tuple(formers), advertisement(packed)
        elif kind == "wanted":
            self.wanted[name[0]] = Wanted(*parts)
        elif kind == "owned":
            self.owned[name[0]] = Owned(*parts)
        elif kind == "desired":
            self.desired[name[0]] = Desired(*parts)
        elif kind == "open":
            self.unfinished[name[0], name[1]] = parts[0]
        elif kind == "withdrawing":
            self.withdrawing.add(name[0])
        else:
            self._keep_notice(Notice(*parts))

    def _write(self, *name: Any, value: Any) -> None:
        self._disk[msgpack.packb(name)] = msgpack.packb(value)

    def _erase(self, *name: Any) -> None:
        self._disk.pop(msgpack.packb(name), None)

    def keep_self(self) -> None:
        """Where it is connected, and what it advertised."""
        value = self.epoch, self.last_epoch, self.last_access, self.formers, self.advertisement.packed()
        self._write("self", value=value)

    def want(self, id: str, wanted: Wanted) -> None:
        """A query."""
        self.wanted[id] = wanted
        self._write("wanted", id, value=(wanted.version, wanted.text, wanted.is_standing))

    def own(self, id: str, owned: Owned) -> None:
        """A resource."""
        self.owned[id] = owned
        value = owned.version, owned.data, owned.resource, owned.is_withdrawn, owned.is_listed
        self._write("owned", id, value=value)

    def begin(self, id: str, version: int, data: bytes) -> None:
        """A publication."""
        self.unfinished[id, version] = data
        self._write("open", id, version, value=(data,))

    def finish(self, id: str, version: int) -> None:
        """A publication is done, or refused."""
        self.unfinished.pop((id, version), None)
        self._erase("open", id, version)

    def withdraw(self, id: str, is_asked: bool) -> None:
        """Whether the access point must still be told that a resource is gone."""
        if is_asked:
            self.withdrawing.add(id)
            self._write("withdrawing", id, value=())
        else:
            self.withdrawing.discard(id)
            self._erase("withdrawing", id)

    def desire(self, number: int, desired: Desired | None) -> None:
        """A fetch begins, or (None) has ended."""
        if desired is None:
            del self.desired[number]
            self._erase("desired", number)
        else:
            self.desired[number] = desired
            self._write("desired", number, value=(desired.owner, desired.id, desired.version))

    def forget_access(self) -> None:
        """Another access point knows nothing: everything has to be told it again."""
        for id, wanted in self.wanted.items():
            wanted.is_standing = wanted.is_standing and not wanted.text
            self.want(id, wanted)
        for id, owned in self.owned.items():
            owned.is_listed = False
            self.own(id, owned)
        # A publication that is still open is told again, and must not bring back what was withdrawn.
        gone = {id for id, _ in self.unfinished if self.owned[id].is_withdrawn}
        for id in self.withdrawing | gone:
            self.withdraw(id, id in gone)

    # --- notices -----------------------------------------------------------------------------------------------------

    def _keep_notice(self, notice: Notice) -> bool:
        if notice.name in self._had:
            return False
        self._had.add(notice.name)
        self._outbox.append(notice)
        return True

    def hear(self, notice: Notice) -> int | None:
        """A notice's number in the outbox; None if it is there already."""
        if not self._keep_notice(notice):
            return None
        number = len(self._outbox)
        self._write("notice", number, value=(notice.subscription, notice.document, notice.version, notice.link))
        return number

    def outbox(self, after: int = 0) -> Iterator[tuple[int, Notice]]:
        """Every notice after a number, in order."""
        yield from enumerate(self._outbox[after:], after + 1)
