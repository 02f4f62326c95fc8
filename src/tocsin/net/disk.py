"""Items in a journal: safe before anybody is told that they are.

A node writes while it handles a message, and the effects of that message (acknowledgements among them) are done after
`write` and `sync`. The journal is a file of records, each with its length and checksum; when most of it is out of date
it is written anew beside the old one, which it then replaces. After a crash the last records may be torn: they were
never synced, so nobody was told of them, and they are cut off.

A disk that is full, or fails, raises `DiskError` once the file is as it was before; memory may be ahead of the file
then, and the node must not acknowledge anything any more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from struct import Struct
from zlib import crc32

import msgpack

from tocsin.net.identity import sync_folder
from tocsin.net.limits import NetError

MAGIC = b"tocsin journal 1\n"
RECORD_BYTES_MAX = 67_108_864
COMPACT_BYTES_MIN = 1_048_576
_HEAD = Struct(">II")


class DiskError(NetError):
    """The disk is full, or fails: what was to be kept is not safe."""


class Journal(MutableMapping[bytes, bytes]):
    """A mapping that a file holds: the overlay's Disk in the real world."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self._path, self._bytes_max = path, bytes_max
        self._values: dict[bytes, bytes] = {}
        self._buffer: list[bytes] = []
        self._is_synced = True
        self.changes = 0
        self.cut_bytes = 0  # torn by a crash, and cut off
        self._live = 0  # bytes that a new file would have
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._size = self._load()
        except BaseException:
            os.close(self._file)
            raise

    # --- the mapping -------------------------------------------------------------------------------------------------

    def __getitem__(self, name: bytes) -> bytes:
        return self._values[name]

    def __setitem__(self, name: bytes, value: bytes) -> None:
        if self._values.get(name) != value:
            self._set(name, value)
            self._change(name, value)

    def __delitem__(self, name: bytes) -> None:
        del self._values[name]
        self._live -= self._cost.pop(name)
        self._change(name, None)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def _change(self, name: bytes, value: bytes | None) -> None:
        self._buffer.append(_record(name, value))
        self.changes += 1

    def _set(self, name: bytes, value: bytes) -> None:
        cost = len(name) + len(value) + 16
        self._live += cost - self._cost.get(name, 0)
        self._cost[name] = cost
        self._values[name] = value

    # --- the file ----------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    @property
    def is_dirty(self) -> bool:
        """Whether something is not safe yet."""
        return bool(self._buffer) or not self._is_synced

    def write(self) -> None:
        """Hands what was changed to the operating system."""
        if not self._buffer:
            return
        data = b"".join(self._buffer)
        if self._size + len(data) > self._bytes_max:
            raise DiskError(f"{self._path} would have more than {self._bytes_max} bytes: the disk is full")
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(self._file, data[done:], self._size + done)
        except OSError as error:
            os.ftruncate(self._file, self._size)  # needs no room
            raise DiskError(f"{self._path} cannot be written: {error.strerror}") from error
        self._buffer.clear()
        self._size += len(data)
        self._is_synced = False

    def sync(self) -> None:
        """Comes back when it is on the disk; may be called in another thread, between writes."""
        try:
            os.fdatasync(self._file)
        except OSError as error:
            raise DiskError(f"{self._path} cannot be made safe: {error.strerror}") from error
        self._is_synced = True

    def save(self) -> None:
        """Write and sync."""
        self.write()
        self.sync()

    def compact(self) -> bool:
        """Writes the file anew if most of it is out of date; whether it did."""
        if self._buffer or self._size < max(COMPACT_BYTES_MIN, 3 * self._live):
            return False
        beside = self._path.with_suffix(".new")
        data = MAGIC + b"".join(_record(name, value) for name, value in self._values.items())
        file = -1
        try:
            file = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            done = 0
            while done < len(data):
                done += os.write(file, data[done:])
            os.fsync(file)
            os.replace(beside, self._path)
            sync_folder(self._path.parent)
        except OSError as error:
            if file >= 0:
                os.close(file)
            beside.unlink(missing_ok=True)
            raise DiskError(f"{beside} cannot be written: {error.strerror}") from error
        os.close(self._file)
        self._file, self._size = file, len(data)
        return True

    def close(self) -> None:
        """Gives the file back; what was not saved is lost."""
        os.close(self._file)

    def _load(self) -> int:
        """Reads all records that are whole; what follows was torn by a crash."""
        self._cost: dict[bytes, int] = {}
        with os.fdopen(os.dup(self._file), "rb") as file:
            data = file.read()
        if not data.startswith(MAGIC):
            if not MAGIC.startswith(data.rstrip(b"\0")):  # its very beginning may be torn too
                raise DiskError(f"{self._path} is no journal; move it away to start with what the replicas have")
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, MAGIC, 0)
            os.fsync(self._file)
            sync_folder(self._path.parent)
            return len(MAGIC)
        end = len(MAGIC)
        while (found := _read(data, end)) is not None:
            name, value, end = found
            if value is not None:
                self._set(name, value)
            elif name in self._values:
                del self._values[name]
                self._live -= self._cost.pop(name)
        self.cut_bytes = len(data) - end
        if self.cut_bytes:
            os.ftruncate(self._file, end)
            os.fsync(self._file)
        return end


def _record(name: bytes, value: bytes | None) -> bytes:
    data: bytes = msgpack.packb((name, value))
    return _HEAD.pack(len(data), crc32(data)) + data


def _read(data: bytes, start: int) -> tuple[bytes, bytes | None, int] | None:
    """The record at a place and where the next begins; None if there is no whole one."""
    if start + _HEAD.size > len(data):
        return None
    length, checksum = _HEAD.unpack_from(data, start)
    end = start + _HEAD.size + length
    record = data[start + _HEAD.size : end]
    if length > RECORD_BYTES_MAX or end > len(data) or crc32(record) != checksum:
        return None
    try:
        name, value = msgpack.unpackb(record)
    except ValueError:
        return None
    return (name, value, end) if isinstance(name, bytes) and isinstance(value, bytes | None) else None
