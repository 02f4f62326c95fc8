"""Accounts, for the administrator: make, look at, limit, shut out; tokens are made and revoked.

A token is in the answer of the call that makes it and nowhere else, so these calls take no Idempotency-Key.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from tocsin.dates import SECOND, moment
from tocsin.site import accounts
from tocsin.site.accounts import ADMIN, Account, Role
from tocsin.site.moments import stamp
from tocsin.site.site import Site
from tocsin.store import accounts as kept_accounts
from tocsin.store import journal
from tocsin.store.accounts import KeptAccount
from tocsin.web.answers import Refusal, json_answer, not_found
from tocsin.web.bodies import json_object
from tocsin.web.caller import Admitted, Limit, TheLimits, TheSite
from tocsin.web.repeats import refuse_key
from tocsin.web.routes import BASE
from tocsin.web.schemas import (
    BODY,
    CONFLICT,
    ERROR,
    FOUND,
    MAYBE_TIME,
    TEXT,
    TIME,
    Schema,
    answer,
    answers,
    json_body,
    ref,
)

router = APIRouter(prefix=BASE, tags=["accounts"], responses=ERROR)
LABEL_CHARACTERS_MAX = 200

Name = Annotated[str, Path(description="The account's name.")]

SCHEMAS: dict[str, Schema] = {
    "Quotas": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
    "Account": {
        "type": "object",
        "required": ["name", "role", "quotas"],
        "properties": {
            "name": TEXT,
            "role": {"enum": [str(role) for role in Role]},
            "quotas": ref("Quotas"),
            "created": TIME,
            "disabled": {"type": "boolean"},
            "token": {"type": "string", "description": "Shown once, when it is made."},
            "tokens": {"type": "array", "items": ref("Token")},
        },
        "additionalProperties": False,
    },
    "Token": {
        "type": "object",
        "required": ["label"],
        "properties": {
            "label": TEXT,
            "mark": {"type": "string", "description": "The first characters of its hash: names it for revoking."},
            "created": TIME,
            "expires": MAYBE_TIME,
            "token": {"type": "string", "description": "Shown once, when it is made."},
        },
        "additionalProperties": False,
    },
    "NewAccount": {
        "type": "object",
        "required": ["name", "role"],
        "properties": {
            "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$"},
            "role": {"enum": [str(role) for role in Role]},
            "quotas": ref("Quotas"),
            "label": {"type": "string", "maxLength": LABEL_CHARACTERS_MAX},
        },
        "additionalProperties": False,
    },
    "AccountChange": {
        "type": "object",
        "properties": {
            "role": {"enum": [str(role) for role in Role]},
            "quotas": ref("Quotas"),
            "disabled": {"type": "boolean"},
        },
        "additionalProperties": False,
    },
    "NewToken": {
        "type": "object",
        "properties": {
            "label": {"type": "string", "maxLength": LABEL_CHARACTERS_MAX},
            "expires": {"type": ["string", "null"], "format": "date-time"},
        },
        "additionalProperties": False,
    },
}


def shown_account(account: Account) -> dict[str, Any]:
    """An account as it is answered."""
    return {"name": account.name, "role": str(account.role), "quotas": asdict(account.quotas)}


def _listed(site: Site, kept: KeptAccount) -> dict[str, Any]:
    quotas = asdict(accounts.quotas_of(kept.quotas, site.settings.quotas))
    return {
        "name": kept.name,
        "role": kept.role,
        "quotas": quotas,
        "created": stamp(kept.created),
        "disabled": kept.disabled,
    }


def _only(given: dict[str, Any], *allowed: str) -> None:
    for key in given:
        if key not in allowed:
            raise Refusal(422, "bad_value", f"{key[:60]!r} is not known here: one of {', '.join(allowed)}")


def _text(given: dict[str, Any], key: str, default: str | None = None) -> str:
    value = given.get(key, default)
    if not isinstance(value, str):
        raise Refusal(422, "bad_value", f"{key}: a string is needed")
    return value


def _label(given: dict[str, Any]) -> str:
    label = _text(given, "label", "")
    if len(label) > LABEL_CHARACTERS_MAX:
        raise Refusal(422, "bad_value", f"label: at most {LABEL_CHARACTERS_MAX} characters")
    return label


def _expires(given: dict[str, Any]) -> float | None:
    value = given.get("expires")
    if value is None:
        return None
    found = moment(value) if isinstance(value, str) else None
    if found is None:
        raise Refusal(422, "bad_value", "expires: a time such as 2027-01-01T00:00:00Z is needed")
    if found / SECOND <= time.time():
        raise Refusal(422, "bad_value", "expires: this time has passed")
    return found / SECOND


# --- the account that calls ------------------------------------------------------------------------------------------


@router.get("/account", summary="Who am I?", responses={200: answer(ref("Account"), "The account of the token.")})
async def who_am_i(caller: Admitted) -> Response:
    """The account of the token, with its role and quotas."""
    return json_answer(shown_account(caller.account))


# --- for the administrator -------------------------------------------------------------------------------------------

_PAGE: Schema = {
    "type": "object",
    "required": ["items", "next"],
    "properties": {"items": {"type": "array", "items": ref("Account")}, "next": {"type": ["string", "null"]}},
    "additionalProperties": False,
}


@router.get("/accounts", summary="All accounts", responses={200: answer(_PAGE, "Accounts by name.")})
async def list_accounts(
    caller: Admitted,
    site: TheSite,
    after: Annotated[str, Query(max_length=200, description="Only those after this name.")] = "",
    limit: Limit = 100,
) -> Response:
    """Accounts by name."""
    found = await run_in_threadpool(accounts.listed, site.store, after, limit)
    following = found[-1].name if len(found) == limit else None
    return json_answer({"items": [_listed(site, kept) for kept in found], "next": following})


@router.post(
    "/accounts",
    status_code=201,
    summary="Make an account, with its first token",
    responses=answers({201: answer(ref("Account"), "With its token, which is shown this once.")}, BODY, CONFLICT),
    openapi_extra=json_body(ref("NewAccount")),
)
async def make_account(request: Request, caller: Admitted, site: TheSite, limits: TheLimits) -> Response:
    """Makes an account and its first token."""
    refuse_key(request)
    given = await json_object(request, limits)
    _only(given, "name", "role", "quotas", "label")
    name, role, label = _text(given, "name"), _text(given, "role"), _label(given)
    quotas = given.get("quotas")
    if quotas is not None and not isinstance(quotas, dict):
        raise Refusal(422, "bad_value", "quotas: an object is needed")

    def make() -> tuple[Account, str]:
        account = accounts.create(site.store, name, role, quotas, site.settings.quotas)
        journal.note(site.store, caller.account.name, "account created", account.name, role=str(account.role))
        return account, accounts.token(site.store, account, label)

    account, token = await run_in_threadpool(make)
    return json_answer(shown_account(account) | {"token": token}, 201)


@router.get(
    "/accounts/{name}",
    summary="One account",
    responses=answers({200: answer(ref("Account"), "With its tokens' labels.")}, FOUND),
)
async def get_account(name: Name, caller: Admitted, site: TheSite) -> Response:
    """An account, with the labels of its tokens."""
    return json_answer(await run_in_threadpool(_one, site, name))


def _one(site: Site, name: str) -> dict[str, Any]:
    kept = kept_accounts.find(site.store, name)
    if kept is None:
        raise not_found("account", name)
    tokens = [
        {"label": one.label, "mark": one.mark, "created": stamp(one.created), "expires": stamp(one.expires)}
        for one in accounts.tokens_of(site.store, name)
    ]
    return {**_listed(site, kept), "tokens": tokens}


@router.patch(
    "/accounts/{name}",
    summary="Change an account: role, quotas, disabled",
    responses=answers({200: answer(ref("Account"), "As it is now.")}, BODY, FOUND, CONFLICT),
    openapi_extra=json_body(ref("AccountChange")),
)
async def change_account(request: Request, name: Name, caller: Admitted, site: TheSite, limits: TheLimits) -> Response:
    """Changes what is given. A disabled account's tokens are refused; its subscriptions stay."""
    given = await json_object(request, limits)
    _only(given, "role", "quotas", "disabled")
    role = _text(given, "role") if "role" in given else None
    quotas, disabled = given.get("quotas"), given.get("disabled")
    if quotas is not None and not isinstance(quotas, dict):
        raise Refusal(422, "bad_value", "quotas: an object is needed")
    if disabled is not None and not isinstance(disabled, bool):
        raise Refusal(422, "bad_value", "disabled: true or false")
    if name in (ADMIN, caller.account.name) and (disabled or (role is not None and role != Role.ADMIN)):
        raise Refusal(409, "conflict", "this would shut the administrator out")

    def change() -> dict[str, Any]:
        accounts.change(site.store, name, role=role, quotas=quotas)
        if disabled is not None:
            accounts.disable(site.store, name, disabled)
        journal.note(site.store, caller.account.name, "account changed", name, **given)
        return _one(site, name)

    return json_answer(await run_in_threadpool(change))


@router.post(
    "/accounts/{name}/tokens",
    status_code=201,
    summary="Make a token",
    responses=answers({201: answer(ref("Token"), "The token, which is shown this once.")}, BODY, FOUND),
    openapi_extra=json_body(ref("NewToken")),
)
async def make_token(request: Request, name: Name, caller: Admitted, site: TheSite, limits: TheLimits) -> Response:
    """A further token of the account."""
    refuse_key(request)
    given = await json_object(request, limits)
    _only(given, "label", "expires")
    label, expires = _label(given), _expires(given)

    def make() -> str:
        token = accounts.token(site.store, name, label, expires)
        journal.note(site.store, caller.account.name, "token made", name, label=label)
        return token

    token = await run_in_threadpool(make)
    return json_answer({"label": label, "expires": stamp(expires), "token": token}, 201)


_REVOKED: Schema = {
    "type": "object",
    "required": ["revoked"],
    "properties": {"revoked": {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}


@router.delete(
    "/accounts/{name}/tokens",
    summary="Revoke tokens",
    responses=answers({200: answer(_REVOKED, "How many were revoked.")}, FOUND),
)
async def revoke_tokens(
    name: Name,
    caller: Admitted,
    site: TheSite,
    label: Annotated[str, Query(max_length=200, description="A token's label, or its mark.")],
) -> Response:
    """Revokes the tokens of this label, or the one of this mark; they are refused from now on."""

    def revoke() -> int:
        accounts.find(site.store, name)
        count = accounts.revoke(site.store, name, label)
        if count:
            journal.note(site.store, caller.account.name, "tokens revoked", name, label=label, count=count)
        return count

    count = await run_in_threadpool(revoke)
    if not count:
        raise Refusal(404, "not_found", "the account has no token of this label or mark")
    return json_answer({"revoked": count})
