"""Accounts, roles and tokens."""

from __future__ import annotations

import logging
import sqlite3
import time

import pytest

from tocsin.errors import SettingError
from tocsin.site import accounts, life
from tocsin.site.accounts import Right, Role
from tocsin.site.problems import Conflict, Invalid, NotFound
from tocsin.site.settings import Quotas, SiteSettings
from tocsin.site.site import Site
from tocsin.store import Store, journal


def test_the_administrators_token_is_shown_at_the_first_start_only(site):
    token = accounts.first_start(site.store)
    assert token is not None
    account = accounts.authenticate(site.store, token)
    assert account is not None
    assert (account.name, account.role, account.is_unbound) == ("admin", Role.ADMIN, True)
    assert accounts.first_start(site.store) is None
    assert accounts.first_start(site.store, "another token of mine") is None
    assert accounts.authenticate(site.store, "another token of mine") is None


def test_the_administrators_token_can_be_preset(site):
    with pytest.raises(SettingError, match="is empty"):
        accounts.first_start(site.store, " ")
    assert accounts.first_start(site.store, "a token of my own choice") is None
    assert accounts.authenticate(site.store, "a token of my own choice") is not None


def test_a_token_opens_its_account_until_it_ends(site, ann, bob):
    first, second = (accounts.token(site.store, account, "laptop") for account in (ann, bob))
    assert first.startswith("toc_")
    assert accounts.authenticate(site.store, first) == ann
    assert accounts.authenticate(site.store, second) == bob
    for wrong in ("", "toc_", first[:-1], first + "x", first.upper(), "\ud800"):
        assert accounts.authenticate(site.store, wrong) is None
    assert accounts.revoke(site.store, "bob", "laptop") == 1
    assert accounts.authenticate(site.store, second) is None
    assert accounts.authenticate(site.store, first) == ann
    ended = accounts.token(site.store, ann, "old", expires=time.time() - 1)
    assert accounts.authenticate(site.store, ended) is None
    accounts.disable(site.store, "ann")
    assert accounts.authenticate(site.store, first) is None
    accounts.disable(site.store, "ann", False)
    assert accounts.authenticate(site.store, first) == ann


def test_a_token_is_revoked_by_the_start_of_its_hash_and_by_no_others(site, ann, bob):
    token = accounts.token(site.store, ann, "a")
    mark = accounts.tokens_of(site.store, "ann")[0].mark
    assert accounts.revoke(site.store, "bob", mark) == 0
    assert accounts.revoke(site.store, "ann", "") == 0
    assert accounts.authenticate(site.store, token) == ann
    assert accounts.revoke(site.store, "ann", mark) == 1


def test_names_roles_and_quotas_are_checked(site, ann):
    for name in ("", " ", "a b", "ä", "-a", "a" * 101, "a/b", "a\n"):
        with pytest.raises(Invalid):
            accounts.create(site.store, name, "subscriber")
    with pytest.raises(Conflict):
        accounts.create(site.store, "ann", "subscriber")
    with pytest.raises(Invalid, match="role"):
        accounts.create(site.store, "eve", "root")
    for quotas in ({"subscription_max": 1}, {"subscriptions_max": "many"}, {"subscriptions_max": -1}):
        with pytest.raises(Invalid):
            accounts.create(site.store, "eve", "subscriber", quotas)
    with pytest.raises(NotFound):
        accounts.token(site.store, "nobody")
    accounts.create(site.store, "eve", "subscriber", {"subscriptions_max": 3})
    assert accounts.find(site.store, "eve").quotas.subscriptions_max == 3
    assert accounts.change(site.store, "eve", role="publisher").role is Role.PUBLISHER
    assert accounts.change(site.store, "eve", quotas={"documents_per_second": 2}).quotas.subscriptions_max == 3


def test_quotas_of_the_site_are_those_of_accounts_without_their_own(tmp_path):
    store = Store(tmp_path)
    settings = SiteSettings(quotas=Quotas(subscriptions_max=5, calls_per_second=0.5))
    for name, own in (("ann", None), ("bob", {"calls_per_second": 9.0})):
        made = accounts.create(store, name, "subscriber", own, settings.quotas)
        site = Site(store, settings)
        assert site.authenticate(accounts.token(store, name)) == made == accounts.find(store, name, settings.quotas)
    assert made.quotas.subscriptions_max == 5
    assert made.quotas.calls_per_second == 9.0
    later = accounts.find(store, "bob", Quotas(subscriptions_max=7, calls_per_second=1.0)).quotas
    assert (later.subscriptions_max, later.calls_per_second) == (7, 9.0)  # only what is its own stays as it was
    store.close()


def test_roles_may_what_the_contract_says():
    rights = {role: {right for right in Right if accounts.Account("a", role).may(right)} for role in Role}
    assert rights[Role.SUBSCRIBER] == {Right.SUBSCRIBE}
    assert rights[Role.PUBLISHER] == {Right.SUBSCRIBE, Right.PUBLISH}
    assert rights[Role.ADMIN] == set(Right)


def test_tokens_and_secrets_are_in_no_log_no_repr_and_not_in_the_store(tmp_path, caplog, capfd):
    from tocsin.site.site import Site

    caplog.set_level(logging.DEBUG)
    store = Store(tmp_path / "store")
    site = Site(store)
    admin = accounts.first_start(store)
    assert admin is not None
    ann = accounts.create(store, "ann", "publisher")
    token = accounts.token(store, ann, "laptop")
    made = life.create(site, ann, {"query": "peer", "channel": {"kind": "webhook", "url": "https://example.org/h"}})
    assert made.secret is not None
    shown = [repr(made), repr(ann), repr(site.__dict__), repr(accounts.tokens_of(store, "ann")), caplog.text]
    shown += list(capfd.readouterr())
    shown += [repr(entry) for entry in journal.read(store)]
    for secret in (admin, token, made.secret):
        assert not [text for text in shown if secret in text or secret[6:] in text]
    store.close()
    with sqlite3.connect(tmp_path / "store" / "tocsin.sqlite") as raw:
        dump = "\n".join(raw.iterdump())
    raw.close()
    for secret in (admin, token):
        assert secret not in dump
        assert secret.removeprefix("toc_") not in dump
