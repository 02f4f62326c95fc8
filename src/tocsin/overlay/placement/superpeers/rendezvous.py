"""Resources of owners that are away (P2P-DIET §3: "requesting clients can set up a rendezvous").

A wish for a resource waits at the access point of its owner, like a notification. When the owner is back it answers
with the resource, sealed for who wished it, which waits at *its* access point in the same way: the two need never be
there at the same time, and no super-peer can read what it keeps.
"""

from __future__ import annotations

from tocsin.overlay.message import Address, OverlayError, decode
from tocsin.overlay.node import Effect, Handler, Seconds, Token
from tocsin.overlay.placement.superpeers.desk import Desk, Record
from tocsin.overlay.placement.superpeers.messages import Deposit, Meet, Parcel, Wish
from tocsin.overlay.placement.superpeers.one_time import OneTime
from tocsin.overlay.placement.superpeers.routes import client_of
from tocsin.overlay.placement.superpeers.streams import Streams, Then


class Rendezvous:
    """A super-peer's part in meetings of clients."""

    name = "rendezvous"

    def __init__(self, desk: Desk, streams: Streams, one_time: OneTime) -> None:
        self.desk, self.streams, self.one_time = desk, streams, one_time
        self.me, self.routes = desk.me, desk.routes
        self.routes.node.add(self)
        streams.take[Deposit] = self._on_deposit

    def handlers(self) -> dict[type, Handler]:
        """Types of messages, and who takes them."""
        return {Meet: self.desk.request(self._on_meet)}

    def start(self, now: Seconds) -> list[Effect]:
        """Nothing to begin with."""
        return []

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """Nothing is waited for here."""
        return []

    def _on_meet(self, record: Record, message: Meet, now: Seconds) -> list[Effect]:
        try:
            inside = decode(message.payload)
        except OverlayError as error:
            return self.desk.refuse(record, message.number, "malformed", str(error))
        said = inside.sender.address if isinstance(inside, Wish) else getattr(inside, "owner", "")
        if not isinstance(inside, Wish | Parcel) or client_of(said) != record.client:
            why = f"{record.client} may deposit its own wishes and parcels, not those of another"
            return self.desk.refuse(record, message.number, "impostor", why)
        where = self.one_time.location(message.client)
        if where is None:
            return self.desk.refuse(record, message.number, "unknown", f"no super-peer knows {message.client}")

        def settled(now: Seconds) -> list[Effect]:
            return [self.desk.done(record, message.number)]

        return self.streams.send(where, Deposit(message.client, message.payload), now, settled)

    def _on_deposit(self, message: Deposit, origin: Address, hops: int, then: Then, now: Seconds) -> list[Effect]:
        record = self.desk.records.get(message.client)
        if record is not None:
            return [*self.desk.put_payload(record, message.payload, now), *then(now)]
        where = self.one_time.location(message.client)
        if where is None or where == self.me.address:
            return [*self.routes.refuse("unknown", origin, f"{message.client} is no client here"), *then(now)]
        return self.streams.send(where, message, now, then)  # it has moved
