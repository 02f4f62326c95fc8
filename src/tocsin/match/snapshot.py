"""Arrays in files: written once, opened by memory-mapping, checked by checksums.

A file is a magic word, a header (JSON: what the arrays are and where) with its own checksum, and the
arrays, each at a multiple of 64 bytes. It is written beside its place, flushed to the disk and renamed,
so a crash at any moment leaves either the old file or the new one. Opening reads the header only;
`verify` reads everything.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.errors import SnapshotError

MAGIC = b"TOCSIN1\n"
ALIGNMENT = 64
_PREFIX = struct.Struct("<8sII")  # magic, length of the header, its checksum

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ArrayFile:
    """An opened file: its arrays are views of the mapped memory; `about` is what the writer noted."""

    path: Path
    arrays: dict[str, NDArray[Any]]
    about: dict[str, Any]
    checksums: dict[str, int]

    def verify(self) -> None:
        """Reads every array and compares its checksum; raises SnapshotError at the first difference."""
        for name, array in self.arrays.items():
            if _checksum(array) != self.checksums[name]:
                raise SnapshotError(f"{self.path}: the array {name!r} is damaged: restore the file or build it again")


def write_arrays(path: Path, arrays: Arrays, about: Mapping[str, Any]) -> None:
    """Writes the file whole or not at all."""
    contents = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = _header(contents, about)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with temporary.open("wb") as file:
            file.write(_PREFIX.pack(MAGIC, len(header), zlib.crc32(header)))
            file.write(header)
            for array in contents.values():
                file.write(b"\0" * (-file.tell() % ALIGNMENT))
                file.write(array.reshape(-1).view(np.uint8).data if array.size else b"")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _flush_folder(path.parent)


def open_arrays(path: Path) -> ArrayFile:
    """Maps the file; refuses one that is not ours, cut short, or damaged in its header."""
    try:
        with path.open("rb") as file:
            prefix = file.read(_PREFIX.size)
            if len(prefix) < _PREFIX.size or prefix[:8] != MAGIC:
                raise SnapshotError(f"{path}: this is no Tocsin snapshot, or one of another format")
            _, length, checksum = _PREFIX.unpack(prefix)
            raw = file.read(length)
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {error.strerror}") from error
    if len(raw) < length or zlib.crc32(raw) != checksum:
        raise SnapshotError(f"{path}: the header is damaged: restore the file or build it again")
    return _map(path, json.loads(raw))


def _map(path: Path, header: dict[str, Any]) -> ArrayFile:
    if path.stat().st_size < header["bytes"]:
        raise SnapshotError(f"{path}: the file is cut short: restore it or build it again")
    mapped = np.memmap(path, dtype=np.uint8, mode="r")
    arrays, checksums = {}, {}
    for name, (dtype, shape, offset, checksum) in header["arrays"].items():
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        arrays[name] = np.asarray(mapped[offset : offset + size]).view(kind).reshape(shape)
        checksums[name] = checksum
    return ArrayFile(path, arrays, header["about"], checksums)


def _header(arrays: Arrays, about: Mapping[str, Any]) -> bytes:
    """The header's own length moves the arrays, so it is padded to a length that does not depend on the offsets."""
    described = {name: [array.dtype.str, list(array.shape), 10**15, _checksum(array)] for name, array in arrays.items()}
    described_length = len(json.dumps({"about": about, "arrays": described, "bytes": 10**15}))
    at = _PREFIX.size + described_length
    for name, array in arrays.items():
        at += -at % ALIGNMENT
        described[name][2] = at
        at += array.nbytes
    text = json.dumps({"about": about, "arrays": described, "bytes": at})
    return text.ljust(described_length).encode()


def _checksum(array: NDArray[Any]) -> int:
    return zlib.crc32(array.reshape(-1).view(np.uint8).data) if array.size else 0


def _flush_folder(folder: Path) -> None:
    """A rename is durable once its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
