"""What a node lets others do to it, and what it refuses; each limit with its unit in its name."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.errors import TocsinError
from tocsin.overlay.message import MESSAGE_BYTES_MAX

ENVELOPE_BYTES_MAX = 1_024
"""What an envelope adds to its message: two addresses, a key, a number, a signature."""


class NetError(TocsinError):
    """A node cannot run, or another one is not who it should be."""


@dataclass(frozen=True, slots=True)
class NetLimits:
    """Limits of one node; the defaults suit a server with a few hundred peers."""

    frame_bytes_max: int = MESSAGE_BYTES_MAX + ENVELOPE_BYTES_MAX
    """One message in its envelope."""
    stranger_bytes_max: int = 2_048
    """What may come from somebody who has not yet shown an identity."""
    stranger_seconds_max: float = 10.0
    """Time to show one."""
    strangers_max: int = 64
    """Connections without an identity, at a time."""
    connections_max: int = 1_024
    """Connections from others, at a time."""
    peer_connections_max: int = 3
    """Connections from one other node; a new one ends the oldest."""
    peer_bytes_per_second_max: int = 16_777_216
    """What is read from one other node; more waits in its own queue."""
    peer_refusals_max: int = 100
    """Refused messages on one connection, after which it is closed."""
    senders_max: int = 10_000
    """Nodes whose numbers are remembered against replays."""
    sender_numbers_max: int = 10_000
    """Numbers remembered of each; what is older than all of them is refused."""
    links_max: int = 1_024
    """Nodes that this one has connections to."""
    link_messages_max: int = 10_000
    """Messages that wait for one other node; more are dropped."""
    link_bytes_max: int = 67_108_864
    """Bytes of them."""
    message_seconds_max: float = 5.0
    """How long a message waits for a connection; then it is dropped, as a network may lose it."""
    connect_seconds_max: float = 5.0
    """Time for a connection to be made."""
    idle_seconds_max: float = 120.0
    """A connection on which nothing is sent for so long is closed, and made again when needed."""
    backoff_seconds_min: float = 0.1
    """Pause after a connection failed for the first time; doubles each time."""
    backoff_seconds_max: float = 5.0
    """The longest pause."""
    clock_seconds_max: float = 10.0
    """How far the clocks of two nodes may differ; also how long a number is remembered."""
    disk_bytes_max: int = 68_719_476_736
    """What the journal of items may take; a node that needs more leaves, as with a full disk."""
    leave_seconds_max: float = 10.0
    """Time to hand everything over before a node stops."""


DEFAULT_LIMITS = NetLimits()
