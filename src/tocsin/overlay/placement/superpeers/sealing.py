"""What a node needs to speak so that only the receiver understands, and nobody else can have said it (P2P-DIET §3).

Keys and chance belong to the driver, so sealing is given to a node: `net.sealing` has the real one. A card is what
others must know of a node to seal for it and to believe it; it goes with link states and with connecting clients.
"""

from __future__ import annotations

from typing import Protocol

from tocsin.overlay.message import Address


class Sealing(Protocol):
    """One node's keys."""

    @property
    def card(self) -> bytes:
        """What others need; it may be shown to everybody."""

    def seal(self, sender: Address, to: Address, card: bytes, data: bytes) -> bytes:
        """For the eyes of whoever has this card."""

    def unseal(self, sender: Address, to: Address, card: bytes, data: bytes) -> bytes | None:
        """What the sender sealed for this node; None if it is not from there, not for here, or not as it was."""

    def is_card(self, address: Address, card: bytes) -> bool:
        """Whether this is the card of the node at an address."""

    def sign(self, data: bytes) -> bytes:
        """A signature of this node."""

    def is_signed(self, signer: Address, card: bytes, signature: bytes, data: bytes) -> bool:
        """Whether the node at an address signed this, and the card is its own."""


class Clear:
    """No seals: where everybody is trusted, as in a simulation of something else."""

    card = b""

    def seal(self, sender: Address, to: Address, card: bytes, data: bytes) -> bytes:
        """As it is."""
        return data

    def unseal(self, sender: Address, to: Address, card: bytes, data: bytes) -> bytes | None:
        """As it is."""
        return data

    def is_card(self, address: Address, card: bytes) -> bool:
        """Everybody is believed."""
        return True

    def sign(self, data: bytes) -> bytes:
        """Nothing."""
        return b""

    def is_signed(self, signer: Address, card: bytes, signature: bytes, data: bytes) -> bool:
        """Everybody is believed."""
        return True


CLEAR = Clear()
