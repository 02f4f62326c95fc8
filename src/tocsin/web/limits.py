"""What one caller may ask of the server. Whatever a stranger can send is bounded by one of these."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebLimits:
    """Limits of the HTTP server; the limits of documents and queries are in tocsin.settings."""

    body_bytes_max: int = 16_777_216
    """Size of a body that holds one object."""
    bulk_bytes_max: int = 4_294_967_296
    """Size of a body that holds one object a line."""
    bulk_lines_max: int = 1_000_000
    """Lines of one call."""
    rejections_max: int = 10_000
    """Rejected lines that one answer names; the others are counted."""
    chunk_documents_max: int = 1_000
    """Documents that are stored in one transaction."""
    chunk_subscriptions_max: int = 2_000
    """Subscriptions that are stored in one transaction."""
    chunk_bytes_max: int = 8_388_608
    """Bytes of lines that are held before they are stored."""
    header_bytes_max: int = 65_536
    """Size of a call's first line and headers."""
    header_seconds_max: float = 20.0
    """How long a caller may take to send them."""
    body_silence_seconds_max: float = 30.0
    """How long a caller may send nothing in the middle of a body."""
    body_bytes_per_second_min: int = 256
    """How fast a body must arrive, on average, once it has taken longer than that."""
    connections_max: int = 2_000
    """Connections at a time; further ones are answered 503."""
    streams_per_account_max: int = 20
    """Streams of notifications that one account may hold open."""
    heartbeat_seconds: float = 15.0
    """A stream in which nothing happens says so this often."""
    keep_alive_seconds: int = 30
    """How long a connection without a call is kept."""
    server_stop_seconds_max: int = 10
    """How long open calls may take to end when the site stops."""
    key_characters_max: int = 200
    """Length of an Idempotency-Key."""
    keyed_bytes_max: int = 268_435_456
    """Size of a body with an Idempotency-Key: it is read whole before anything is done."""
    keyed_per_account_max: int = 4
    """Calls with an Idempotency-Key that one account may have under way."""


LIMITS = WebLimits()
