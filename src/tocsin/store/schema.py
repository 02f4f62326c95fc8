"""The tables of a store, the same on SQLite and PostgreSQL.

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

FORMAT = 5
"""Of the tables; an older store is brought up to it when it is opened (`store.upgrade`), a newer one is refused."""

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
    Column("mute", Text),  # drop, hold; null: not muted
    Column("held_after", BigInteger),  # its notifications after this cursor are not shown yet; null: all are
    Column("digest_due", Double),  # when the next digest is made; null: it is told at once
    UniqueConstraint("account", "id", "gone"),
    Index("subscriptions_by_unmuting", "muted_until"),
    Index("subscriptions_by_expiry", "expires"),
    Index("subscriptions_by_digest", "digest_due"),
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
    Column("view", Text),  # JSON: what it asks for of a view, and nothing of documents
    Column("moved", Text),  # JSON: the words of texts that feedback has moved
    Index("revisions_by_end", "until"),
    Index("revisions_by_view", "view"),
)

thumbs = Table(  # what somebody thinks of what a subscription has told
    "thumbs",
    tables,
    Column("subscription", BigInteger, ForeignKey("subscriptions.number"), primary_key=True, autoincrement=False),
    Column("document", Text, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("is_up", Boolean, nullable=False),
    Column("at", Double, nullable=False),
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
    Column("digest", BigInteger),  # the number of the digest that tells it; null: it is told by itself
    UniqueConstraint("subscription", "document", "version"),
    Index("notifications_by_digest", "digest"),
    Index("notifications_by_account", "account", "cursor"),
    Index("notifications_by_subscription", "subscription", "cursor"),
)

digests = Table(  # notifications of a subscription that are told together
    "digests",
    tables,
    Column("number", _Number, primary_key=True),
    Column("account", Text, nullable=False),
    Column("subscription", BigInteger, ForeignKey("subscriptions.number"), nullable=False),
    Column("cursor", BigInteger, nullable=False, unique=True),  # one order with the notifications
    Column("count", BigInteger, nullable=False),
    Column("made", Double, nullable=False),
    Index("digests_by_account", "account", "cursor"),
    Index("digests_by_subscription", "subscription", "cursor"),
)

webhooks = Table(  # where a subscription is told, and how far that has come
    "webhooks",
    tables,
    Column("subscription", BigInteger, ForeignKey("subscriptions.number"), primary_key=True, autoincrement=False),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("cursor", BigInteger, nullable=False),  # all up to this one is delivered, or among the undelivered
    Column("attempts", Integer, nullable=False),  # at the next one, that failed
    Column("next_try", Double),
    Column("problem", Text),  # of the last attempt
)

undelivered = Table(  # what a webhook did not take in all its attempts; it can be sent again
    "undelivered",
    tables,
    Column("number", _Number, primary_key=True),
    Column("account", Text, nullable=False),
    Column("subscription", BigInteger, ForeignKey("subscriptions.number"), nullable=False),
    Column("cursor", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("problem", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("wanted", Boolean, nullable=False),  # is to be sent again
    UniqueConstraint("subscription", "cursor"),
    Index("undelivered_by_account", "account", "number"),
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

replies = Table(  # what a call with an idempotency key was answered
    "replies",
    tables,
    Column("account", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", LargeBinary, nullable=False),  # of the request
    Column("status", Integer),  # null: the call has not ended
    Column("body", Text),
    Column("at", Double, nullable=False),
    Index("replies_by_age", "at"),
)

journal = Table(  # who did what
    "journal",
    tables,
    Column("number", _Number, primary_key=True),
    Column("at", Double, nullable=False),
    Column("account", Text),
    Column("action", Text, nullable=False),
    Column("target", Text),
    Column("detail", Text),  # JSON
    Index("journal_by_account", "account", "number"),
)

costs = Table(  # what matching a subscription has cost so far
    "costs",
    tables,
    Column("subscription", BigInteger, ForeignKey("subscriptions.number"), primary_key=True, autoincrement=False),
    Column("tried", BigInteger, nullable=False),  # documents on which it was looked at by itself
    Column("matched", BigInteger, nullable=False),
    Column("noted", Double, nullable=False),
)
