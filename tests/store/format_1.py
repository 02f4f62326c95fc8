"""The tables of format 1, frozen: a store that was made with them must still open.

One log orders everything: an accepted document gets the next *position*, and a subscription's revision is
in force for the positions after `since` up to `until`. So which subscriptions a document meets is decided
when it is accepted, not when the pipeline gets to it: a replay, however late, finds the same matches.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

FORMAT = 1
"""Of the tables; a store of another format is upgraded or refused (`store.connect`)."""

tables = MetaData()

# A number that the database gives: SQLite does so only for INTEGER, which is 64 bits there.
_Number = BigInteger().with_variant(Integer(), "sqlite")

site = Table(
    "site",
    tables,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

clock = Table(  # one row; whoever changes it holds the log until the transaction ends, so positions appear in order
    "clock",
    tables,
    Column("one", Integer, primary_key=True),
    Column("position", BigInteger, nullable=False),  # of the last accepted document
    Column("cursor", BigInteger, nullable=False),  # of the last notification
)

documents = Table(
    "documents",
    tables,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("source", Text),
    Column("moment", Double, nullable=False),  # its time, or when it was accepted; seconds since 1970
    Column("accepted", Double, nullable=False),
    Column("account", Text),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("body", Text),  # JSON; null once the document is deleted
    Column("state", Integer, nullable=False),  # CURRENT, REPLACED, DELETED
    UniqueConstraint("id", "version"),
    Index("documents_by_moment", "moment"),
)
CURRENT, REPLACED, DELETED = 0, 1, 2

subscriptions = Table(
    "subscriptions",
    tables,
    Column("number", _Number, primary_key=True),
    Column("account", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("gone", BigInteger, nullable=False, default=0),  # its number once deleted, so that the id is free again
    Column("state", Text, nullable=False),  # active, paused, muted, expired, deleted
    Column("about", Text, nullable=False),  # JSON: name, tags, channel, mode, and what else the site keeps
    Column("revision", Integer, nullable=False),
    Column("created", Double, nullable=False),
    Column("changed", Double, nullable=False),
    Column("muted_until", Double),
    Column("expires", Double),
    UniqueConstraint("account", "id", "gone"),
)

revisions = Table(  # what a subscription asked for, and for which documents
    "revisions",
    tables,
    Column("number", _Number, primary_key=True),
    Column("subscription", BigInteger, ForeignKey("subscriptions.number"), nullable=False, index=True),
    Column("revision", Integer, nullable=False),
    Column("query", Text),
    Column("xpath", Text),
    Column("namespaces", Text),  # JSON
    Column("since", BigInteger, nullable=False),  # in force for the positions after this
    Column("until", BigInteger),  # up to this one; null: still in force
    Column("error", Text),  # why it could not be registered or evaluated
    Index("revisions_by_end", "until"),
)

batches = Table(  # written before a batch runs, and again when its matches are in the outbox
    "batches",
    tables,
    Column("job", Text, primary_key=True),
    Column("batch", BigInteger, primary_key=True, autoincrement=False),
    Column("first", BigInteger, nullable=False),  # its documents are those after this position
    Column("last", BigInteger, nullable=False),  # up to this one
    Column("snapshot", BigInteger, nullable=False),
    Column("statistics", BigInteger, nullable=False),
    Column("begun", Double, nullable=False),
    Column("done", Double),
    Column("documents", BigInteger),
    Column("matches", BigInteger),
)

receipts = Table(  # an index part saw a range of documents
    "receipts",
    tables,
    Column("job", Text, primary_key=True),
    Column("batch", BigInteger, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("documents", BigInteger, nullable=False),
    Column("revisions", BigInteger, nullable=False),  # how many the part held
)

notifications = Table(  # the outbox: one row a match, for ever
    "notifications",
    tables,
    Column("cursor", BigInteger, primary_key=True, autoincrement=False),
    Column("account", Text, nullable=False),
    Column("subscription", BigInteger, ForeignKey("subscriptions.number"), nullable=False),
    Column("document", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("score", Double, nullable=False),
    Column("statistics", BigInteger, nullable=False),
    Column("evidence", Text),  # JSON
    Column("made", Double, nullable=False),
    UniqueConstraint("subscription", "document", "version"),
    Index("notifications_by_account", "account", "cursor"),
    Index("notifications_by_subscription", "subscription", "cursor"),
)

dead_letters = Table(  # what arrived and was refused, with the reason
    "dead_letters",
    tables,
    Column("number", _Number, primary_key=True),
    Column("job", Text, nullable=False),
    Column("place", Text, nullable=False),  # file and line, topic and offset
    Column("reason", Text, nullable=False),
    Column("excerpt", Text),
    Column("at", Double, nullable=False),
    UniqueConstraint("job", "place"),
)

accounts = Table(
    "accounts",
    tables,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),  # admin, publisher, subscriber
    Column("quotas", Text, nullable=False),  # JSON
    Column("created", Double, nullable=False),
    Column("disabled", Boolean, nullable=False, default=False),
)

tokens = Table(
    "tokens",
    tables,
    Column("hash", LargeBinary, primary_key=True),
    Column("account", Text, ForeignKey("accounts.name"), nullable=False, index=True),
    Column("label", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("expires", Double),
)
