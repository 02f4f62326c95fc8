"""One store, opened: its database, its format, and its transactions.

SQLite (write-ahead log, every commit on the disk) needs nothing but a file; PostgreSQL is named by a URL.
A transaction that changes something starts by saying so: on SQLite it waits for the one writer there may be,
on PostgreSQL the clock's row orders those who move it.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, delete, event, insert, inspect, make_url, select, update
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnection
from sqlalchemy.pool import QueuePool

from tocsin.errors import StoreError
from tocsin.store import schema, upgrade

BUSY_SECONDS = 120  # how long a writer waits for another
PAGE_CACHE_KIB, CONNECTIONS_KEPT = 32_768, 8


def url_of(place: str | Path) -> str:
    """The database's URL: of a folder's SQLite file, or of the server that is named."""
    text = str(place)
    if "://" not in text:
        return f"sqlite:///{Path(text).absolute() / 'tocsin.sqlite'}"
    if text.startswith(("postgresql://", "postgres://")):
        return "postgresql+psycopg://" + text.split("://", 1)[1]
    return text


class Store:
    """What is kept. Safe to share between threads; a process opens its own."""

    def __init__(self, place: str | Path, *, create: bool = True) -> None:
        self.url = url_of(place)
        self.engine = _engine(self.url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        # Whoever waits for SQLite's one writer sleeps longer and longer: the threads of a process take turns instead.
        self._turn: AbstractContextManager[Any] = threading.Lock() if self.is_sqlite else nullcontext()
        try:
            self._open(create)
        except (SQLAlchemyError, OSError) as error:
            self.engine.dispose()
            raise StoreError(f"{self.shown}: the store cannot be opened: {_first_line(error)}") from None
        except StoreError:
            self.engine.dispose()
            raise

    @property
    def shown(self) -> str:
        """Its URL as a log may hold it, without a password."""
        return make_url(self.url).render_as_string(hide_password=True)

    def _open(self, create: bool) -> None:
        if self.is_sqlite:
            file = Path(make_url(self.url).database or "")
            if create:
                file.parent.mkdir(parents=True, exist_ok=True)
            elif not file.exists():
                raise StoreError(f"{file}: there is no store here")
        if not inspect(self.engine).has_table("site"):
            if not create:
                raise StoreError(f"{self.shown}: there is no store here")
            self._create()
        found = int(self.get("format"))
        if found > schema.FORMAT:
            raise StoreError(
                f"{self.shown}: the store has format {found}, this Tocsin reads {schema.FORMAT}: install a newer Tocsin"
            )
        if found < schema.FORMAT:
            with self.write() as transaction:
                upgrade.bring_up(transaction)

    def _create(self) -> None:
        with self.write() as transaction:
            schema.tables.create_all(transaction)
            if transaction.execute(select(schema.clock.c.one)).first() is None:
                transaction.execute(insert(schema.clock).values(one=1, position=0, cursor=0))
                about = {"format": str(schema.FORMAT), "id": secrets.token_hex(8), "created": str(time.time())}
                transaction.execute(insert(schema.site), [{"key": k, "value": v} for k, v in about.items()])

    def close(self) -> None:
        """Lets go of the database."""
        self.engine.dispose()

    # --- transactions --------------------------------------------------------------------------

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that changes something: all of it happens, or nothing. One in another would wait for itself."""
        with (
            self._answering(),
            self._turn,
            self.engine.connect().execution_options(tocsin_writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only looks."""
        with self._answering(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """A server that is away, a lock that stays or a full disk are one error to those above, who try again."""
        try:
            yield
        except (OperationalError, InterfaceError, NoConnection) as error:
            raise StoreError(f"{self.shown}: the store does not answer: {_first_line(error)}") from error

    # --- what the site says of itself ----------------------------------------------------------

    def get(self, key: str, default: str | None = None) -> str:
        """What was put under the key."""
        with self.read() as transaction:
            found = transaction.execute(select(schema.site.c.value).where(schema.site.c.key == key)).scalar()
        if found is None and default is None:
            raise StoreError(f"{self.shown}: the store does not say its {key}")
        return str(found if found is not None else default)

    def put(self, key: str, value: str) -> None:
        """Keeps a value under the key."""
        with self.write() as transaction:
            changed = transaction.execute(update(schema.site).where(schema.site.c.key == key).values(value=value))
            if not changed.rowcount:
                transaction.execute(insert(schema.site).values(key=key, value=value))

    def drop(self, key: str) -> None:
        """Forgets what is under the key."""
        with self.write() as transaction:
            transaction.execute(delete(schema.site).where(schema.site.c.key == key))

    @property
    def id(self) -> str:
        """The site's own name, drawn when the store was made."""
        return self.get("id")


def _engine(url: str) -> Engine:
    if make_url(url).get_backend_name() != "sqlite":
        return create_engine(url, poolclass=QueuePool, pool_size=5, max_overflow=20, pool_pre_ping=True)
    # Connections are kept: a new one reads the schema again (0.8 ms), and a busy site asks hundreds of times a second.
    # Each transaction ends before its connection is given back, so a kept one holds no old state of the log.
    engine = create_engine(
        url, poolclass=QueuePool, pool_size=CONNECTIONS_KEPT, max_overflow=-1, pool_use_lifo=True,
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
    )  # fmt: skip

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        cursor = connection.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"cache_size=-{PAGE_CACHE_KIB}"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("tocsin_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


Transaction = Connection
"""What a caller hands on, without knowing SQL."""


def head(transaction: Connection) -> int:
    """The position of the last accepted document; the log stands still until this transaction ends."""
    statement = select(schema.clock.c.position).with_for_update()
    return int(transaction.execute(statement).scalar_one())


def advance(transaction: Connection, positions: int = 0, cursors: int = 0) -> tuple[int, int]:
    """Takes that many positions and cursors; returns the ones before the first of each."""
    clock = schema.clock
    moved = update(clock).values(position=clock.c.position + positions, cursor=clock.c.cursor + cursors)
    position, cursor = transaction.execute(moved.returning(clock.c.position, clock.c.cursor)).one()
    return int(position) - positions, int(cursor) - cursors


def last_cursor(transaction: Connection) -> int:
    """Of the last notification or digest."""
    return int(transaction.execute(select(schema.clock.c.cursor)).scalar_one())


def packed(value: object) -> str:
    """A value as a column of text holds it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().splitlines()[0]
