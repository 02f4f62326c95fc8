"""What is sealed is for one reader, from one writer, as it was written; everything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.errors import SettingError
from tocsin.net.identity import Endpoint, open_identity
from tocsin.net.limits import NetError
from tocsin.net.sealing import CARD_BYTES, KEY_FILE, Seals, open_seals

TEXT = b"a secret of two"


class Person:
    """Somebody with keys and an address."""

    def __init__(self, folder: Path, name: str) -> None:
        self.identity = open_identity(folder / name)
        self.seals: Seals = open_seals(self.identity)
        self.address = self.identity.address(Endpoint("127.0.0.1", 7))


@pytest.fixture
def people(tmp_path):
    return [Person(tmp_path, name) for name in ("ann", "bob", "eve")]


def test_what_is_sealed_is_read_by_its_receiver_and_by_nobody_else(people):
    ann, bob, eve = people
    sealed = ann.seals.seal(ann.address, bob.address, bob.seals.card, TEXT)
    assert TEXT not in sealed
    assert bob.seals.unseal(ann.address, bob.address, ann.seals.card, sealed) == TEXT
    assert eve.seals.unseal(ann.address, bob.address, ann.seals.card, sealed) is None
    assert ann.seals.unseal(ann.address, bob.address, ann.seals.card, sealed) is None
    assert ann.seals.seal(ann.address, bob.address, bob.seals.card, TEXT) != sealed  # a fresh key each time
    empty = ann.seals.seal(ann.address, bob.address, bob.seals.card, b"")
    assert bob.seals.unseal(ann.address, bob.address, ann.seals.card, empty) == b""


def test_nothing_of_it_can_be_changed(people):
    ann, bob, _ = people
    sealed = ann.seals.seal(ann.address, bob.address, bob.seals.card, TEXT)
    for place in range(len(sealed)):
        changed = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        assert bob.seals.unseal(ann.address, bob.address, ann.seals.card, changed) is None
    for cut in (0, 1, 64, 96, len(sealed) - 1):
        assert bob.seals.unseal(ann.address, bob.address, ann.seals.card, sealed[:cut]) is None
    assert bob.seals.unseal(ann.address, bob.address, ann.seals.card, sealed + b"x") is None


def test_nobody_can_say_that_anothers_seal_is_his_own(people):
    ann, bob, eve = people
    sealed = ann.seals.seal(ann.address, bob.address, bob.seals.card, TEXT)
    assert bob.seals.unseal(eve.address, bob.address, eve.seals.card, sealed) is None
    assert bob.seals.unseal(ann.address, bob.address, eve.seals.card, sealed) is None  # the wrong key
    forged = eve.seals.seal(ann.address, bob.address, bob.seals.card, TEXT)
    assert bob.seals.unseal(ann.address, bob.address, ann.seals.card, forged) is None
    moved = ann.address.replace(":7", ":8")
    assert bob.seals.unseal(moved, bob.address, ann.seals.card, sealed) is None  # it is bound to both addresses
    assert bob.seals.unseal(ann.address, bob.address.replace(":7", ":8"), ann.seals.card, sealed) is None


def test_a_card_belongs_to_one_name(people):
    ann, bob, eve = people
    assert len(ann.seals.card) == CARD_BYTES
    assert ann.seals.is_card(bob.address, bob.seals.card)
    assert not ann.seals.is_card(bob.address, eve.seals.card)
    assert not ann.seals.is_card("bob", bob.seals.card)
    mixed = bob.seals.card[:32] + eve.seals.card[32:]  # bob's name with eve's secret
    assert not ann.seals.is_card(bob.address, mixed)
    for card in (eve.seals.card, mixed, b""):
        with pytest.raises(NetError, match="not that of"):
            ann.seals.seal(ann.address, bob.address, card, TEXT)


def test_statements_are_signed(people):
    ann, bob, eve = people
    signature = ann.seals.sign(TEXT)
    assert bob.seals.is_signed(ann.address, ann.seals.card, signature, TEXT)
    assert not bob.seals.is_signed(ann.address, ann.seals.card, signature, TEXT + b"!")
    assert not bob.seals.is_signed(eve.address, eve.seals.card, signature, TEXT)
    assert not bob.seals.is_signed(ann.address, ann.seals.card, ann.identity.sign(TEXT), TEXT)  # for another purpose


def test_keys_are_kept_and_only_for_their_owner(tmp_path, people):
    ann = people[0]
    assert open_seals(ann.identity).card[:64] == ann.seals.card[:64]
    path = tmp_path / "ann" / KEY_FILE
    assert path.stat().st_mode & 0o077 == 0
    path.chmod(0o644)
    with pytest.raises(SettingError, match="can be read by others"):
        open_seals(ann.identity)
    path.write_bytes(b"nonsense")
    path.chmod(0o600)
    with pytest.raises(SettingError, match="no private key"):
        open_seals(ann.identity)
    path.write_bytes((tmp_path / "ann" / "identity.pem").read_bytes())
    with pytest.raises(SettingError, match="no X25519 key"):
        open_seals(ann.identity)
