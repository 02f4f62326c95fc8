"""Accounts and their tokens. Of a token only its hash is kept: whoever reads the store cannot use it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from tocsin.store import schema
from tocsin.store.connect import Store, packed

table, tokens = schema.accounts, schema.tokens


@dataclass(frozen=True, slots=True)
class KeptAccount:
    """An account as the store holds it."""

    name: str
    role: str
    quotas: Mapping[str, Any] = field(default_factory=dict)
    created: float = 0.0
    disabled: bool = False


class KeptToken(NamedTuple):
    """A token by its label and the first characters of its hash."""

    account: str
    label: str
    mark: str
    created: float
    expires: float | None


def add(store: Store, name: str, role: str, quotas: Mapping[str, Any]) -> bool:
    """Makes an account; False if the name is in use."""
    values = {"name": name, "role": role, "quotas": packed(dict(quotas)), "created": time.time(), "disabled": False}
    try:
        with store.write() as transaction:
            transaction.execute(insert(table).values(**values))
    except IntegrityError:
        return False
    return True


def find(store: Store, name: str) -> KeptAccount | None:
    """An account by its name."""
    with store.read() as transaction:
        row = transaction.execute(select(table).where(table.c.name == name)).first()
    return None if row is None else _kept(row)


def listed(store: Store, after: str = "", limit: int = 1_000) -> list[KeptAccount]:
    """Accounts by name."""
    asked = select(table).where(table.c.name > after).order_by(table.c.name).limit(limit)
    with store.read() as transaction:
        return [_kept(row) for row in transaction.execute(asked)]


def change(
    store: Store,
    name: str,
    *,
    role: str | None = None,
    quotas: Mapping[str, Any] | None = None,
    disabled: bool | None = None,
) -> bool:
    """Changes what is given; False if there is no such account."""
    values: dict[str, Any] = {"role": role, "disabled": disabled, "quotas": None if quotas is None else packed(quotas)}
    values = {key: value for key, value in values.items() if value is not None}
    with store.write() as transaction:
        if not values:
            return transaction.execute(select(table.c.name).where(table.c.name == name)).first() is not None
        return bool(transaction.execute(update(table).where(table.c.name == name).values(**values)).rowcount)


def _kept(row: Any) -> KeptAccount:
    return KeptAccount(row.name, row.role, json.loads(row.quotas), row.created, bool(row.disabled))


# --- tokens ----------------------------------------------------------------------------------------------------------


def add_token(store: Store, account: str, hashed: bytes, label: str, expires: float | None) -> None:
    """Keeps a token's hash."""
    values = {"hash": hashed, "account": account, "label": label, "created": time.time(), "expires": expires}
    with store.write() as transaction:
        transaction.execute(insert(tokens).values(**values))


def owner(store: Store, hashed: bytes, now: float) -> KeptAccount | None:
    """Whose token this is, if it is in force and the account is not disabled."""
    asked = select(table).join(tokens, tokens.c.account == table.c.name).where(tokens.c.hash == hashed)
    alive = (tokens.c.expires.is_(None) | (tokens.c.expires > now)) & table.c.disabled.is_(False)
    with store.read() as transaction:
        row = transaction.execute(asked.where(alive)).first()
    return None if row is None else _kept(row)


def tokens_of(store: Store, account: str) -> list[KeptToken]:
    """An account's tokens, oldest first."""
    asked = select(tokens).where(tokens.c.account == account).order_by(tokens.c.created, tokens.c.label)
    with store.read() as transaction:
        found = transaction.execute(asked).all()
    return [KeptToken(row.account, row.label, bytes(row.hash).hex()[:12], row.created, row.expires) for row in found]


def revoke(store: Store, account: str, mark: str) -> int:
    """Forgets the tokens of this label, or with this start of their hash; returns how many."""
    with store.write() as transaction:
        asked = select(tokens.c.hash, tokens.c.label).where(tokens.c.account == account)
        gone = [
            row.hash
            for row in transaction.execute(asked)
            if row.label == mark or (len(mark) == 12 and bytes(row.hash).hex().startswith(mark))
        ]
        for hashed in gone:
            transaction.execute(delete(tokens).where(tokens.c.hash == hashed))
        return len(gone)
