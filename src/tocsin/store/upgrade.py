"""Stores of earlier formats are brought up to this one when they are opened, in one transaction.

A step adds what its format added: columns, indexes and tables. Nothing that is stored is lost; a crash
in between leaves the store as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlalchemy import Column, Connection, Table, inspect, select, update
from sqlalchemy.schema import CreateColumn

from tocsin.store import schema


def bring_up(transaction: Connection) -> None:
    """Takes one step after the other, from the format that is found to this one."""
    found = int(transaction.execute(_format(with_lock=True)).scalar_one())
    for number in range(found + 1, schema.FORMAT + 1):
        STEPS[number](transaction)
    done = update(schema.site).where(schema.site.c.key == "format").values(value=str(schema.FORMAT))
    transaction.execute(done)


def _format(with_lock: bool):  # type: ignore[no-untyped-def]  # SQLAlchemy's own inference is what is wanted here
    asked = select(schema.site.c.value).where(schema.site.c.key == "format")
    return asked.with_for_update() if with_lock else asked


def _to_2(transaction: Connection) -> None:
    """Mutes, digests, webhooks, idempotency keys and the journal."""
    _add_columns(transaction, schema.subscriptions, ("mute", "held_after", "digest_due"))
    _add_columns(transaction, schema.notifications, ("digest",))
    added = [schema.digests, schema.webhooks, schema.undelivered, schema.replies, schema.journal, schema.costs]
    schema.tables.create_all(transaction, tables=added)


def _add_columns(transaction: Connection, table: Table, names: Iterable[str]) -> None:
    """Adds columns that may be null, and the indexes over them."""
    known = {column["name"] for column in inspect(transaction).get_columns(table.name)}
    for name in names:
        if name not in known:
            column: Column[object] = table.c[name]
            form = CreateColumn(column).compile(dialect=transaction.dialect)
            transaction.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {form}")
    for index in table.indexes:
        index.create(transaction, checkfirst=True)


def _to_3(transaction: Connection) -> None:
    """Sets of nested subscriptions, sources, and feeds of subscriptions."""
    from tocsin.store import channels, sets, sources, views  # they know the store, which knows this

    sets.create(transaction)
    added = [*sources.TABLES, *channels.TABLES, views.progress, views.groups, views.events]
    schema.tables.create_all(transaction, tables=added)


def _to_4(transaction: Connection) -> None:
    """Channels that accounts save, mailboxes that confirm, messages about several subscriptions; views of a site."""
    from tocsin.store import channels, relations

    schema.tables.create_all(transaction, tables=[*channels.SAVED_TABLES, *relations.TABLES])
    _add_columns(transaction, schema.revisions, ("view",))


def _to_5(transaction: Connection) -> None:
    """Feedback: thumbs, and the words of texts that they have moved. Checkpoints of views, parts of their groups."""
    from tocsin.store import relations, views

    schema.tables.create_all(transaction, tables=[schema.thumbs, relations.checkpoints, views.parts])
    _add_columns(transaction, schema.revisions, ("moved",))


STEPS: dict[int, Callable[[Connection], None]] = {2: _to_2, 3: _to_3, 4: _to_4, 5: _to_5}
"""By the format that a step leads to."""
