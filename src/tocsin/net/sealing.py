"""Messages that only their receiver can read, and only their sender can have written (P2P-DIET §3: public keys).

A node has two key pairs: Ed25519, which its name follows from (`identity`), and X25519 for secrets, signed with the
first. Both public halves and that signature are its card. To seal, a fresh X25519 pair meets the receiver's key; what
comes of it (HKDF-SHA256) encrypts once with ChaCha20-Poly1305, bound to both addresses, and the whole is signed. So
whoever passes a message on can neither read nor change it, nor say that it is his own; that it comes only once is the
business of envelopes between neighbours, and of numbers inside (`overlay.placement.superpeers.streams`).
"""

from __future__ import annotations

from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tocsin.errors import SettingError
from tocsin.net.identity import Identity, is_signed, name_and_endpoint, name_of, write_private
from tocsin.net.limits import NetError
from tocsin.overlay.message import Address

KEY_FILE = "sealing.pem"
KEY_BYTES, SIGNATURE_BYTES, TAG_BYTES = 32, 64, 16
CARD_BYTES = 2 * KEY_BYTES + SIGNATURE_BYTES
CARD, SEAL, SIGN = b"tocsin card 1\n", b"tocsin seal 1\n", b"tocsin statement 1\n"
"""What is signed begins with its purpose: a signature for one is none for another."""
_NONCE = bytes(12)  # each key encrypts one message, so the nonce may always be the same


class Seals:
    """The keys of one node, in the folder of its identity."""

    def __init__(self, identity: Identity, secret: X25519PrivateKey) -> None:
        self._identity, self._secret = identity, secret
        public = secret.public_key().public_bytes_raw()
        self._card = identity.public + public + identity.sign(CARD + public)

    @property
    def card(self) -> bytes:
        """What others need; it may be shown to everybody."""
        return self._card

    def is_card(self, address: Address, card: bytes) -> bool:
        """Whether this is the card of the node at an address."""
        found = name_and_endpoint(address)
        return found is not None and _name_on(card) == found[0]

    def seal(self, sender: Address, to: Address, card: bytes, data: bytes) -> bytes:
        """For the eyes of whoever has this card; NetError if it is not the receiver's."""
        if not self.is_card(to, card):
            raise NetError(f"the card is not that of {to}: nothing can be sealed for it")
        fresh = X25519PrivateKey.generate()
        public = fresh.public_key().public_bytes_raw()
        theirs = card[KEY_BYTES : 2 * KEY_BYTES]
        both = _both(sender, to)
        body = public + _cipher(fresh, theirs, public + theirs).encrypt(_NONCE, data, both)
        return self._identity.sign(SEAL + both + body) + body

    def unseal(self, sender: Address, to: Address, card: bytes, data: bytes) -> bytes | None:
        """What the sender sealed for this node; None if it is not from there, not for here, or not as it was."""
        signature, body = data[:SIGNATURE_BYTES], data[SIGNATURE_BYTES:]
        both = _both(sender, to)
        if len(body) < KEY_BYTES + TAG_BYTES or not self.is_card(sender, card):
            return None
        if not is_signed(card[:KEY_BYTES], signature, SEAL + both + body):
            return None
        public, mine = body[:KEY_BYTES], self._secret.public_key().public_bytes_raw()
        try:
            return _cipher(self._secret, public, public + mine).decrypt(_NONCE, body[KEY_BYTES:], both)
        except (InvalidTag, ValueError):
            return None

    def sign(self, data: bytes) -> bytes:
        """A signature of this node."""
        return self._identity.sign(SIGN + data)

    def is_signed(self, signer: Address, card: bytes, signature: bytes, data: bytes) -> bool:
        """Whether the node at an address signed this, and the card is its own."""
        return self.is_card(signer, card) and is_signed(card[:KEY_BYTES], signature, SIGN + data)


@lru_cache(maxsize=4_096)
def _name_on(card: bytes) -> str | None:
    """Whose card it is; None if its two keys do not belong together."""
    if len(card) != CARD_BYTES:
        return None
    public, secret, signature = card[:KEY_BYTES], card[KEY_BYTES : 2 * KEY_BYTES], card[2 * KEY_BYTES :]
    return name_of(public) if is_signed(public, signature, CARD + secret) else None


def _both(sender: Address, to: Address) -> bytes:
    """Two addresses as bytes that no other two have."""
    return b"%d %b%b" % (len(sender.encode()), sender.encode(), to.encode())


def _cipher(mine: X25519PrivateKey, theirs: bytes, about: bytes) -> ChaCha20Poly1305:
    shared = mine.exchange(X25519PublicKey.from_public_bytes(theirs))
    return ChaCha20Poly1305(HKDF(hashes.SHA256(), KEY_BYTES, None, SEAL + about).derive(shared))


def open_seals(identity: Identity) -> Seals:
    """The keys in the folder of an identity; made when there are none."""
    path = identity.folder / KEY_FILE
    if not path.exists():
        write_private(path, X25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ))  # fmt: skip
    if path.stat().st_mode & 0o077:
        raise SettingError(f"{path} can be read by others: chmod 600 {path}, or remove it to get another key")
    try:
        secret = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise SettingError(f"{path} is no private key; remove it to get another one") from error
    if not isinstance(secret, X25519PrivateKey):
        raise SettingError(f"{path} is no X25519 key; remove it to get another one")
    return Seals(identity, secret)
