"""A part of a disk: several parts of a node share one without reading each other's."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping


class Drawer(MutableMapping[bytes, bytes]):
    """Everything on a disk whose key begins with a prefix."""

    def __init__(self, disk: MutableMapping[bytes, bytes], prefix: bytes) -> None:
        self._disk, self._prefix = disk, prefix

    def __getitem__(self, key: bytes) -> bytes:
        return self._disk[self._prefix + key]

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._disk[self._prefix + key] = value

    def __delitem__(self, key: bytes) -> None:
        del self._disk[self._prefix + key]

    def __iter__(self) -> Iterator[bytes]:
        size = len(self._prefix)
        return iter([key[size:] for key in self._disk if key.startswith(self._prefix)])

    def __len__(self) -> int:
        return sum(key.startswith(self._prefix) for key in self._disk)
