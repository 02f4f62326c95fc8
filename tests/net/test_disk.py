"""The journal: what was saved is there again, what was torn is cut off, a full disk is said."""

from __future__ import annotations

import resource
import signal
from pathlib import Path
from random import Random

import pytest

from tocsin.net import disk
from tocsin.net.disk import DiskError, Journal
from tocsin.overlay.items import Store
from tocsin.overlay.message import Item

PLENTY = 1 << 30


def reopened(path: Path, bytes_max: int = PLENTY) -> dict[bytes, bytes]:
    journal = Journal(path, bytes_max)
    found = dict(journal)
    journal.close()
    return found


def test_what_was_saved_is_there_again_and_what_was_not_is_not(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path, PLENTY)
    journal[b"a"], journal[b"b"], journal[b"c"] = b"1", b"2", b"3"
    del journal[b"b"]
    journal[b"a"] = b"4"
    assert journal.is_dirty
    journal.save()
    assert not journal.is_dirty
    journal[b"d"] = b"5"
    assert reopened(path) == {b"a": b"4", b"c": b"3"}
    journal.save()
    journal.close()
    assert reopened(path) == {b"a": b"4", b"c": b"3", b"d": b"5"}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_journal_is_like_a_dict_whatever_is_done_and_however_often_it_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "COMPACT_BYTES_MIN", 2_000)
    chance, path, model, compacted = Random(1), tmp_path / "journal", dict[bytes, bytes](), 0
    journal = Journal(path, PLENTY)
    for step in range(3_000):
        name = b"%d" % chance.randrange(20)
        if chance.random() < 0.3 and name in model:
            del journal[name], model[name]
        else:
            journal[name] = model[name] = chance.randbytes(chance.randrange(30))
        if step % 7 == 0:
            journal.save()
            compacted += journal.compact()
        if step % 501 == 0:
            journal.save()
            journal.close()
            journal = Journal(path, PLENTY)
            assert dict(journal) == model
    journal.close()
    assert compacted > 5


def test_a_torn_end_is_cut_off_at_every_byte(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path, PLENTY)
    states, sizes = [dict(journal)], [journal.size]
    for number in range(4):
        journal[b"n%d" % number] = b"v" * (number + 1)  # no zeros: they come from the crash
        journal.save()
        states.append(dict(journal))
        sizes.append(journal.size)
    journal.close()
    data = path.read_bytes()
    for cut in range(len(data)):
        path.write_bytes(data[:cut] + b"\0" * (cut % 3))
        whole = max((number for number, size in enumerate(sizes) if size <= cut), default=0)
        assert reopened(path) == states[whole]
        assert reopened(path) == states[whole]  # it was mended, not only skipped


def test_what_is_no_journal_is_left_alone(tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(b"something of great value")
    with pytest.raises(DiskError, match="is no journal"):
        Journal(path, PLENTY)
    assert path.read_bytes() == b"something of great value"


def test_a_quota_is_a_full_disk(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path, 100)
    journal[b"a"] = b"1"
    journal.save()
    journal[b"b"] = b"x" * 100
    with pytest.raises(DiskError, match="the disk is full"):
        journal.save()
    journal.close()
    assert reopened(path, 100) == {b"a": b"1"}


def test_a_write_that_fails_in_the_middle_leaves_the_file_as_it_was(tmp_path):
    """By the operating system's own limit: the first part of the write succeeds, the rest does not."""
    path = tmp_path / "journal"
    journal = Journal(path, PLENTY)
    journal[b"a"] = b"1"
    journal.save()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, before[1]))
        journal[b"b"] = b"x" * 10_000
        with pytest.raises(DiskError, match="cannot be written: File too large"):
            journal.save()
        assert path.stat().st_size == journal.size
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    journal.save()  # there is room again
    journal.close()
    assert reopened(path) == {b"a": b"1", b"b": b"x" * 10_000}


def test_items_survive_in_it(tmp_path):
    journal = Journal(tmp_path / "journal", PLENTY)
    store = Store(journal)
    items = [Item(key, 7, b"n%d" % key, 1, b"v") for key in range(5)] + [Item(3, 7, b"n3", 2, None)]
    for item in items:
        store.merge(item)
    store.drop(2)
    journal.save()
    journal.close()
    again = Journal(tmp_path / "journal", PLENTY)
    found = Store(again)
    again.close()
    assert [found.at(key) for key in range(5)] == [(items[0],), (items[1],), (), (items[5],), (items[4],)]
