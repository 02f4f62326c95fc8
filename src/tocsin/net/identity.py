"""Who a node is: an Ed25519 key pair, and a name that follows from it.

An address is `NAME@HOST:PORT`. The name is a hash of the public key, so an address says how to reach a node and how to
know that it is the right one; nobody has to vouch for it. The node's place on the ring is a hash of its address
(`overlay.message.peer`): it cannot be chosen, only searched for by making many keys.

The private key lies in a file that only its owner may read. The certificate for TLS is self-signed with the same key
and has no end: what counts is the key, not who signed it, nor a clock.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from base64 import b32encode
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID

from tocsin.errors import SettingError
from tocsin.net.limits import NetError
from tocsin.overlay.key import host_of
from tocsin.overlay.message import Address

KEY_FILE, CERTIFICATE_FILE = "identity.pem", "certificate.pem"
NAME_CHARACTERS = 32
ADDRESS_CHARACTERS_MAX = 320
_ADDRESS = re.compile(r"(?:([a-z2-7]{32})@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]{1,253}):([0-9]{1,5})")


class Endpoint(NamedTuple):
    """Where a node can be reached."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def endpoint(text: str) -> Endpoint:
    """HOST:PORT, with brackets around an IPv6 address."""
    name, found = _split(text)
    if found is None or name:
        raise SettingError(f"{text!r} is no HOST:PORT, such as 127.0.0.1:8048 or [::1]:8048")
    return found


def _split(text: str) -> tuple[str | None, Endpoint | None]:
    found = _ADDRESS.fullmatch(text) if len(text) <= ADDRESS_CHARACTERS_MAX else None
    if found is None or int(found[3]) > 65_535:
        return None, None
    return found[1], Endpoint(found[2].strip("[]"), int(found[3]))


@lru_cache(maxsize=4_096)
def name_and_endpoint(address: Address) -> tuple[str, Endpoint] | None:
    """The two parts of an address, of a virtual node too; None if it is none."""
    name, found = _split(host_of(address))
    return None if name is None or found is None else (name, found)


def contact(text: str) -> tuple[str | None, Endpoint]:
    """An entry of a bootstrap list: an address, or HOST:PORT where the name is believed when it is first seen."""
    name, found = _split(text.strip())
    if found is None:
        raise SettingError(
            f"{text.strip()!r} is no node: write HOST:PORT, or NAME@HOST:PORT as `tocsin node status` shows it"
        )
    return name, found


@lru_cache(maxsize=4_096)
def name_of(public: bytes) -> str:
    """The name that follows from a public key."""
    digest = blake2b(public, digest_size=20, person=b"tocsin node").digest()
    return b32encode(digest).decode().lower()


@lru_cache(maxsize=4_096)
def _public_key(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)


def is_signed(public: bytes, signature: bytes, data: bytes) -> bool:
    """Whether whoever has the private key signed this."""
    try:
        _public_key(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Identity:
    """A key pair; the private half is never shown."""

    name: str
    public: bytes
    folder: Path
    _private: Ed25519PrivateKey

    def __repr__(self) -> str:
        return f"Identity({self.name})"

    def sign(self, data: bytes) -> bytes:
        """64 bytes that only this node can make."""
        return self._private.sign(data)

    def address(self, where: Endpoint) -> Address:
        """What others should call this node."""
        return f"{self.name}@{where}"

    def server_context(self) -> ssl.SSLContext:
        """TLS for those who connect to this node."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # each connection shows the key anew
        context.load_cert_chain(self.folder / CERTIFICATE_FILE, self.folder / KEY_FILE)
        return context


def client_context() -> ssl.SSLContext:
    """TLS towards others. No authority is asked: `peer_name` is compared with the address instead."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def peer_name(channel: ssl.SSLObject) -> str:
    """The name of the node at the other end, which has shown that it has the key of its certificate."""
    data = channel.getpeercert(binary_form=True)
    try:
        key = x509.load_der_x509_certificate(data or b"").public_key()
    except ValueError as error:
        raise NetError("the other end has no certificate that can be read") from error
    if not isinstance(key, Ed25519PublicKey):
        raise NetError("the other end has no Ed25519 key: it is no node")
    return name_of(key.public_bytes_raw())


def open_identity(folder: Path) -> Identity:
    """The identity in a folder; made when there is none."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / KEY_FILE
    if not path.exists():
        key = Ed25519PrivateKey.generate()
        write_private(path, key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ))  # fmt: skip
    if path.stat().st_mode & 0o077:
        raise SettingError(f"{path} can be read by others: chmod 600 {path}, or remove it to become another node")
    try:
        private = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise SettingError(f"{path} is no private key; remove it to become another node") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise SettingError(f"{path} is no Ed25519 key; remove it to become another node")
    public = private.public_key().public_bytes_raw()
    write_private(folder / CERTIFICATE_FILE, _certificate(private, name_of(public)))
    return Identity(name_of(public), public, folder, private)


def _certificate(key: Ed25519PrivateKey, name: str) -> bytes:
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.public_key())
        .serial_number(1).not_valid_before(datetime(2000, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(9999, 12, 31, tzinfo=UTC)).sign(key, None)
    )  # fmt: skip
    return made.public_bytes(serialization.Encoding.PEM)


def write_private(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all, for its owner's eyes only."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # of mode 0600 from the beginning
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes names of files safe, as fsync does with what is in them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
