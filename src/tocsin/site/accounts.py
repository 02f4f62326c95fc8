"""Who may do what. A token is shown once and kept as a hash; it names its account.

A subscriber has subscriptions and reads what comes of them; a publisher brings documents too; an administrator
does everything, without quotas.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from tocsin.errors import SettingError
from tocsin.site.problems import Conflict, Invalid, NotFound
from tocsin.site.settings import Quotas
from tocsin.store import Store, journal
from tocsin.store import accounts as kept
from tocsin.store.accounts import KeptAccount, KeptToken

ADMIN = "admin"
TOKEN_START = "toc_"
TOKEN_BYTES = 32
DEFAULT_QUOTAS = Quotas()
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")


class Role(StrEnum):
    """What an account is for."""

    ADMIN = "admin"
    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"


class Right(StrEnum):
    """Something that a role may do or not."""

    SUBSCRIBE = "subscribe"
    """Own subscriptions and notifications, search and preview."""
    PUBLISH = "publish"
    """Documents and events."""
    ADMINISTER = "administer"
    """Accounts, audit, back-up, the journal."""


RIGHTS: Mapping[Role, frozenset[Right]] = {
    Role.SUBSCRIBER: frozenset({Right.SUBSCRIBE}),
    Role.PUBLISHER: frozenset({Right.SUBSCRIBE, Right.PUBLISH}),
    Role.ADMIN: frozenset(Right),
}


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who uses the site."""

    name: str
    role: Role
    quotas: Quotas = Quotas()

    def may(self, right: Right) -> bool:
        """May it do this?"""
        return right in RIGHTS[self.role]

    @property
    def is_unbound(self) -> bool:
        """Is it free of quotas?"""
        return self.role is Role.ADMIN


def create(
    store: Store,
    name: str,
    role: Role | str,
    quotas: Quotas | Mapping[str, Any] | None = None,
    base: Quotas = DEFAULT_QUOTAS,
) -> Account:
    """Makes an account; Invalid or Conflict if that cannot be. Quotas that it is not given are the base's."""
    if not _NAME.fullmatch(name):
        raise Invalid('a name has 1 to 100 letters, digits, ".", "_", "-" and "@"', field="name")
    account = Account(name, role_of(role), quotas_of(quotas, base))
    if not kept.add(store, name, account.role.value, _own(quotas)):
        raise Conflict(f"there is an account {name!r} already", field="name")
    return account


def role_of(name: Role | str) -> Role:
    """The role of this name."""
    try:
        return Role(name)
    except ValueError:
        raise Invalid(f"a role is one of {', '.join(Role)}", field="role") from None


def quotas_of(given: Quotas | Mapping[str, Any] | None, base: Quotas = DEFAULT_QUOTAS) -> Quotas:
    """Quotas from a mapping of some of them; the others are those of the base."""
    if given is None:
        return base
    if isinstance(given, Quotas):
        return given
    known = {field.name for field in fields(Quotas)}
    for name, value in given.items():
        if name not in known:
            raise Invalid(f"there is no quota {name!r}: one of {', '.join(sorted(known))}", field="quotas")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
            raise Invalid(f"the quota {name} must be a number, not below 0", field="quotas")
    return Quotas(**{**asdict(base), **given})


def _own(quotas: Quotas | Mapping[str, Any] | None) -> Mapping[str, Any]:
    return asdict(quotas) if isinstance(quotas, Quotas) else quotas or {}


def find(store: Store, name: str, base: Quotas = DEFAULT_QUOTAS) -> Account:
    """The account of this name; NotFound."""
    return _account(_kept(store, name), base)


def _kept(store: Store, name: str) -> KeptAccount:
    found = kept.find(store, name)
    if found is None:
        raise NotFound(f"there is no account {name!r}")
    return found


def listed(store: Store, after: str = "", limit: int = 1_000) -> list[KeptAccount]:
    """Accounts by name, with when they were made and whether they are disabled."""
    return kept.listed(store, after, limit)


def change(
    store: Store, name: str, *, role: Role | str | None = None, quotas: Quotas | Mapping[str, Any] | None = None
) -> Account:
    """Gives an account another role or other quotas."""
    old = _kept(store, name)
    new_role = None if role is None else role_of(role)
    quotas_of(quotas)  # refuses what is none
    new_quotas = None if quotas is None else {**old.quotas, **_own(quotas)}
    kept.change(store, name, role=new_role, quotas=new_quotas)
    return find(store, name)


def disable(store: Store, name: str, disabled: bool = True) -> None:
    """Shuts an account out, or lets it in again; its subscriptions stay as they are."""
    if not kept.change(store, name, disabled=disabled):
        raise NotFound(f"there is no account {name!r}")


def _account(found: KeptAccount, base: Quotas) -> Account:
    return Account(found.name, Role(found.role), quotas_of(found.quotas, base))


# --- tokens ----------------------------------------------------------------------------------------------------------


def token(store: Store, account: Account | str, label: str = "", expires: float | None = None) -> str:
    """A new token of the account. It is not kept, only its hash: this is the one time that it is seen."""
    name = account if isinstance(account, str) else account.name
    find(store, name)
    drawn = TOKEN_START + secrets.token_urlsafe(TOKEN_BYTES)
    kept.add_token(store, name, hash_of(drawn), label, expires)
    return drawn


def hash_of(token: str) -> bytes:
    """What is kept of a token. It is drawn from 256 bits of chance, so a quick hash is as good as a slow one."""
    return blake2b(token.encode("utf-8", "surrogatepass"), digest_size=32, person=b"tocsin-token").digest()


def authenticate(store: Store, token: str, base: Quotas = DEFAULT_QUOTAS) -> Account | None:
    """Whose token this is; None if it is nobody's, has expired, or its account is disabled."""
    found = kept.owner(store, hash_of(token), time.time())
    return None if found is None else _account(found, base)


def tokens_of(store: Store, account: str) -> list[KeptToken]:
    """An account's tokens: labels and the first characters of their hashes."""
    return kept.tokens_of(store, account)


def revoke(store: Store, account: str, mark: str) -> int:
    """Forgets the account's tokens of this label, or with these first characters of the hash; returns how many."""
    return kept.revoke(store, account, mark)


def first_start(store: Store, preset: str | None = None) -> str | None:
    """Makes the administrator when there is none. Returns the token to be printed once; None if it was preset,
    or if this is not the first start."""
    if kept.find(store, ADMIN) is not None and kept.tokens_of(store, ADMIN):
        return None
    if preset is not None and not preset.strip():
        raise SettingError("TOCSIN_ADMIN_TOKEN is empty: give it a long secret, or leave it out to have one drawn")
    kept.add(store, ADMIN, Role.ADMIN, {})
    drawn = preset if preset is not None else TOKEN_START + secrets.token_urlsafe(TOKEN_BYTES)
    kept.add_token(store, ADMIN, hash_of(drawn), "first start", None)
    journal.note(store, None, "first start", ADMIN)
    return None if preset is not None else drawn
