"""Back-up and restore: one file with everything that a store keeps, as it is at one moment.

The file is gzip over lines of JSON, the same from SQLite and from PostgreSQL, so a site can move from one to the
other: a first line with the format, then for each table its name and columns and one line a row, at the end the
number of rows. It is written beside its name and moved there when it is whole; it holds hashes of tokens and the
secrets of webhooks, so only its owner may read it.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import time
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from sqlalchemy import Connection, LargeBinary, Table, func, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError

from tocsin.errors import StoreError
from tocsin.store import schema, upgrade
from tocsin.store.connect import Store

KIND = "tocsin back-up"
ROWS = 1_000  # that go into the database at once


def _tables() -> dict[str, Table]:
    """Every table that a module of this package defines, each after those that it refers to."""
    for module in iter_modules([str(Path(__file__).parent)]):
        if not module.ispkg:
            import_module(f"tocsin.store.{module.name}")
    return {table.name: table for table in schema.tables.sorted_tables}


TABLES = _tables()


def back_up(store: Store, file: str | Path) -> int:
    """Writes the store to a file, which is replaced; returns how many rows it holds. The site may run meanwhile."""
    path = Path(file)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as raw:
            with gzip.GzipFile("", "wb", 6, raw) as packed:
                rows = 0
                for line in _lines(store):
                    packed.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
                    rows += isinstance(line, list)
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise StoreError(f"{path}: the back-up cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    return rows


def _lines(store: Store) -> Iterator[object]:
    """All of it, read in one transaction, so that it is of one moment."""
    with store.engine.connect() as connection:
        if not store.is_sqlite:
            connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            found = connection.execute(select(schema.site.c.value).where(schema.site.c.key == "format")).scalar_one()
            yield {"kind": KIND, "format": int(found), "at": time.time()}
            rows = 0
            there = set(inspect(connection).get_table_names())
            for table in (table for name, table in TABLES.items() if name in there):
                columns = list(table.c)
                yield {"table": table.name, "columns": [column.name for column in columns]}
                asked = select(table).order_by(*table.primary_key.columns)
                for row in connection.execution_options(stream_results=True).execute(asked).yield_per(ROWS):
                    rows += 1
                    yield [_out(value) for value in row]
            yield {"end": rows}


def _out(value: object) -> object:
    return {"bytes": base64.b64encode(bytes(value)).decode()} if isinstance(value, bytes | memoryview) else value


def restore(store: Store, file: str | Path) -> int:
    """Fills an empty store from a back-up, in one transaction; returns how many rows there were."""
    path = Path(file)
    try:
        with gzip.open(path, "rb") as packed:
            lines = (json.loads(line) for line in packed)
            with store.write() as transaction:
                return _restore(transaction, path, lines, store)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise StoreError(f"{path}: this is no whole back-up: {error}") from None
    except IntegrityError as error:
        raise StoreError(f"{path}: the back-up is damaged: {error.orig}") from None


def _restore(transaction: Connection, path: Path, lines: Iterator[Any], store: Store) -> int:
    head = next(lines, None)
    if not isinstance(head, dict) or head.get("kind") != KIND:
        raise StoreError(f"{path}: this is no back-up of Tocsin")
    if head["format"] > schema.FORMAT:
        raise StoreError(f"{path}: the back-up has format {head['format']}: install a newer Tocsin")
    for name in ("documents", "subscriptions", "notifications", "accounts"):
        if transaction.execute(select(func.count()).select_from(TABLES[name])).scalar_one():
            raise StoreError(f"{store.shown}: the store is not empty: restore into a new one")
    schema.tables.create_all(transaction, tables=list(TABLES.values()), checkfirst=True)
    for table in reversed(TABLES.values()):
        transaction.execute(table.delete())
    rows = _fill(transaction, path, lines)
    if head["format"] < schema.FORMAT:
        upgrade.bring_up(transaction)
    _set_sequences(transaction)
    return rows


def _fill(transaction: Connection, path: Path, lines: Iterator[Any]) -> int:
    table: Table | None = None
    columns: list[str] = []
    waiting: list[dict[str, object]] = []
    rows = 0
    for line in lines:
        if isinstance(line, list) and table is not None:
            rows += 1
            waiting.append({name: _in(value) for name, value in zip(columns, line, strict=True)})
            if len(waiting) >= ROWS:
                transaction.execute(insert(table), waiting)
                waiting = []
            continue
        if waiting and table is not None:
            transaction.execute(insert(table), waiting)
            waiting = []
        if "end" in line:
            if line["end"] != rows:
                raise StoreError(f"{path}: the back-up is damaged: {rows:,} rows instead of {line['end']:,}")
            if next(lines, None) is not None:  # gzip's checksum is compared when the file ends
                raise StoreError(f"{path}: the back-up goes on after its end")
            return rows
        if line.get("table") not in TABLES:
            raise StoreError(f"{path}: the back-up holds a table {line.get('table')!r} that this Tocsin does not know")
        table, columns = TABLES[line["table"]], line["columns"]
    raise StoreError(f"{path}: the back-up ends in the middle")


def _in(value: object) -> object:
    return base64.b64decode(value["bytes"]) if isinstance(value, dict) else value


def _set_sequences(transaction: Connection) -> None:
    """PostgreSQL counts the numbers it gives by itself: it goes on after the highest."""
    if transaction.dialect.name != "postgresql":
        return
    for table in TABLES.values():
        column = table.autoincrement_column
        if column is None or isinstance(column.type, LargeBinary):
            continue
        asked = select(func.pg_get_serial_sequence(table.name, column.name))
        sequence = transaction.execute(asked).scalar()
        highest = transaction.execute(select(func.max(column))).scalar()
        if sequence is not None and highest is not None:
            transaction.execute(text("SELECT setval(:sequence, :highest)"), {"sequence": sequence, "highest": highest})
