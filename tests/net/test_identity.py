"""Identities: names follow from keys, keys are kept for their owner only."""

from __future__ import annotations

import pytest

from tocsin.errors import SettingError
from tocsin.net.identity import Endpoint, contact, endpoint, is_signed, name_and_endpoint, name_of, open_identity
from tocsin.overlay.message import peer


def test_an_identity_is_kept_in_files_that_only_its_owner_may_read(tmp_path):
    first = open_identity(tmp_path / "a")
    again = open_identity(tmp_path / "a")
    other = open_identity(tmp_path / "b")
    assert (again.name, again.public) == (first.name, first.public)
    assert other.name != first.name
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a").iterdir()} == {0o600}
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_the_name_follows_from_the_public_key_and_the_place_from_the_address(tmp_path):
    one = open_identity(tmp_path)
    assert one.name == name_of(one.public)
    address = one.address(Endpoint("127.0.0.1", 8048))
    assert name_and_endpoint(address) == (one.name, ("127.0.0.1", 8048))
    assert name_and_endpoint(address + "#3") == (one.name, ("127.0.0.1", 8048))  # a virtual node of the same host
    assert peer(address).key != peer(one.address(Endpoint("127.0.0.1", 8049))).key


def test_a_signature_is_of_one_key_and_one_text(tmp_path):
    one, other = open_identity(tmp_path / "a"), open_identity(tmp_path / "b")
    signature = one.sign(b"text")
    assert is_signed(one.public, signature, b"text")
    assert not is_signed(one.public, signature, b"texts")
    assert not is_signed(other.public, signature, b"text")
    assert not is_signed(b"short", signature, b"text")
    assert not is_signed(one.public, b"", b"text")


def test_the_private_key_is_not_shown(tmp_path):
    one = open_identity(tmp_path)
    secret = (tmp_path / "identity.pem").read_text().splitlines()[1]
    assert secret not in repr(one)
    assert repr(one) == f"Identity({one.name})"


def test_a_key_that_others_may_read_is_refused(tmp_path):
    open_identity(tmp_path)
    (tmp_path / "identity.pem").chmod(0o640)
    with pytest.raises(SettingError, match="chmod 600"):
        open_identity(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"nonsense", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_a_damaged_key_is_refused(tmp_path, content):
    path = tmp_path / "identity.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(SettingError, match="become another node"):
        open_identity(tmp_path)


NAME = "a" * 32


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("127.0.0.1:80", (None, Endpoint("127.0.0.1", 80))),
        ("[::1]:80", (None, Endpoint("::1", 80))),
        (f"{NAME}@node.example.org:8048", (NAME, Endpoint("node.example.org", 8048))),
    ],
)
def test_contacts(text, parsed):
    assert contact(f" {text}\n") == parsed
    assert text.endswith(str(parsed[1]))


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", ":80", "host:99999", f"{NAME[1:]}@host:80", "a b:80", "host:80/x", "é:80", "h" * 400 + ":1"],
)
def test_what_is_no_contact_is_refused(text):
    with pytest.raises(SettingError, match="is no node"):
        contact(text)
    with pytest.raises(SettingError, match="is no HOST:PORT"):
        endpoint(text)
    assert name_and_endpoint(text) is None
