"""The life of a subscription: made, changed, paused, muted, expired, deleted; always by its own account.

Everything here is about one account's own: somebody else's id is simply not found. What a change means for
documents is decided by the log (`store.subscriptions`): it holds for those that are accepted after it.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from tocsin.errors import SubscriptionError
from tocsin.site import feedback
from tocsin.site.accounts import Account
from tocsin.site.contract import Contract, contract_of
from tocsin.site.moments import stamp
from tocsin.site.problems import Conflict, Invalid, NotFound, OverQuota, Problem, problem_of
from tocsin.site.schedule import mode_of
from tocsin.site.wishes import KEYS, Reader, Wanted, moment_of, new_secret
from tocsin.store import journal, subscriptions, webhooks
from tocsin.store.subscriptions import (
    ACTIVE,
    DELETED,
    DROP,
    EXPIRED,
    HOLD,
    KEEP,
    MUTED,
    PAUSED,
    Asked,
    Kept,
    NoRoom,
    Webhook,
    Wish,
)

if TYPE_CHECKING:
    from tocsin.site.site import Site

CHANGEABLE = (
    "query", "xpath", "namespaces", "name", "tags", "channel", "mode", "exactness", "expires", "state", "mute",
    "feedback",
)  # fmt: skip
TRIES = 5  # at a change that others were quicker with


@dataclass(frozen=True, slots=True)
class Created:
    """A subscription as it was saved. The webhook's secret is told when it is new."""

    kept: Kept
    contract: Contract | None
    secret: str | None = field(default=None, repr=False)

    def as_json(self) -> dict[str, Any]:
        """As the API answers it."""
        found = as_json(self.kept)
        if self.contract is not None:
            found["contract"] = self.contract.as_json()
        if self.secret is not None:
            found["secret"] = self.secret
        return found


@dataclass(frozen=True, slots=True)
class Made:
    """One line of a bulk call that went well."""

    id: str
    secret: str | None = field(default=None, repr=False)

    def as_json(self) -> dict[str, Any]:
        """As the API answers it."""
        return {"id": self.id} if self.secret is None else {"id": self.id, "secret": self.secret}


# --- making ----------------------------------------------------------------------------------------------------------


def create(
    site: Site, account: Account, body: object, *, key: str | None = None, with_contract: bool = True
) -> Created:
    """Makes a subscription. The same idempotency key again finds the one that was made."""
    reader = site.reader(account)
    wanted = reader.wanted(body)
    wish = _wish(account, wanted, _mark(account, key, 0))
    contract = _contract(site, account, reader, wanted.asked) if with_contract else None
    with site.store.write() as transaction:
        refused = subscriptions.add_in(transaction, account.name, [wish], _most(account))
        if not refused:
            journal.note_in(transaction, account.name, "subscribe", wish.id)
    site.changed()
    if refused:
        earlier = _made_before(subscriptions.find(site.store, account.name, wish.id), wish)
        if earlier is None:
            raise _problem(refused[0])
        return Created(earlier, contract, webhooks.secret(site.store, earlier.number))
    return Created(get(site, account, wish.id), contract, None if wish.webhook is None else wish.webhook.secret)


def create_many(
    site: Site, account: Account, bodies: Iterable[object], *, key: str | None = None
) -> list[Made | Problem]:
    """Makes many; one result or problem for each, in order. The good ones are kept whatever becomes of the others.

    A body that is a Problem already (a line that was no JSON) stays one.
    """
    reader = site.reader(account)
    results: list[Made | Problem] = []
    waiting: list[tuple[int, Wish]] = []
    made = 0
    for place, body in enumerate(bodies):
        try:
            if isinstance(body, Problem):
                raise body
            wish = _wish(account, reader.wanted(body), _mark(account, key, place))
        except Problem as problem:
            results.append(problem)
            continue
        results.append(Made(wish.id, None if wish.webhook is None else wish.webhook.secret))
        waiting.append((place, wish))
        if len(waiting) >= site.settings.bulk_chunk_subscriptions:
            made += _store(site, account, waiting, results)
            waiting = []
    made += _store(site, account, waiting, results)
    journal.note(site.store, account.name, "subscribe", None, lines=len(results), made=made)
    site.changed()
    return results


def _store(site: Site, account: Account, waiting: list[tuple[int, Wish]], results: list[Made | Problem]) -> int:
    if not waiting:
        return 0
    refused = subscriptions.add(site.store, account.name, [wish for _, wish in waiting], _most(account))
    marked = [waiting[at][1] for at in refused if waiting[at][1].about.get("mark") is not None]
    known = subscriptions.find_all(site.store, account.name, [wish.id for wish in marked])
    for at, error in refused.items():
        place, wish = waiting[at]
        earlier = _made_before(known.get(wish.id), wish)
        if earlier is None:
            results[place] = _problem(error)
        else:
            results[place] = Made(earlier.id, webhooks.secret(site.store, earlier.number))
    return len(waiting) - len(refused)


def _wish(account: Account, wanted: Wanted, mark: str | None) -> Wish:
    about = wanted.about()
    id = wanted.id
    if mark is not None:
        about["mark"] = mark
        id = id or f"s_{mark}"
    if wanted.expires is not None and wanted.expires <= time.time():
        raise Invalid('"expires" is in the past', field="expires")
    due = wanted.mode.next_after(time.time())
    thumbs, moved = wanted.feedback or ((), None)
    asked = replace(wanted.asked, moved=moved) if moved is not None else wanted.asked
    return Wish(id or f"s_{secrets.token_hex(10)}", asked, about, wanted.expires, due, wanted.webhook(), thumbs)


def _mark(account: Account, key: str | None, place: int) -> str | None:
    """From the idempotency key and the line: what a repeated call finds again."""
    if key is None:
        return None
    text = "\0".join((account.name, key, str(place)))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def _made_before(known: Kept | None, wish: Wish) -> Kept | None:
    """The subscription of this id, if an earlier call with the same key made it on this line."""
    mark = wish.about.get("mark")
    return known if known is not None and mark is not None and known.about.get("mark") == mark else None


def _most(account: Account) -> int | None:
    return None if account.is_unbound else int(account.quotas.subscriptions_max)


def _problem(error: SubscriptionError) -> Problem:
    return OverQuota(str(error)) if isinstance(error, NoRoom) else problem_of(error, "id")


def _contract(site: Site, account: Account, reader: Reader, asked: Asked, but: str | None = None) -> Contract | None:
    if asked.view is not None:
        return None  # it is about documents
    query, path = reader.parsed(asked)
    most = site.settings.compared_subscriptions_max
    newest = subscriptions.newest(site.store, account.name, most)
    others = (other for other in newest if other.id != but and other.asked.view is None)
    return contract_of(asked, query, path, site.analysis, history=site.history, others=others)


# --- looking ---------------------------------------------------------------------------------------------------------


def get(site: Site, account: Account, id: str) -> Kept:
    """One of the account's own; NotFound."""
    found = subscriptions.find(site.store, account.name, id)
    if found is None:
        raise NotFound(f"there is no subscription {id[:60]!r}")
    return found


def listed(site: Site, account: Account, after: str = "", limit: int = 100, tag: str | None = None) -> list[Kept]:
    """The account's own by id, those after the one that is named; with a tag, only those that have it."""
    most = min(max(limit, 1), site.settings.page_items_max)
    if tag is None:
        return subscriptions.listed(site.store, account.name, after, most)
    found: list[Kept] = []
    while len(found) < most:
        page = subscriptions.listed(site.store, account.name, after, site.settings.page_items_max)
        if not page:
            break
        found += [kept for kept in page if tag in kept.about.get("tags", ())]
        after = page[-1].id
    return found[:most]


def as_json(kept: Kept) -> dict[str, Any]:
    """A subscription as the API answers it."""
    found: dict[str, Any] = {"id": kept.id, "query": kept.asked.query, "xpath": kept.asked.xpath}
    if kept.asked.namespaces:
        found["namespaces"] = dict(kept.asked.namespaces)
    if kept.asked.view is not None:
        found["view"] = json.loads(kept.asked.view)
    found["name"] = kept.about.get("name")
    found["tags"] = kept.about.get("tags", [])
    found["channel"] = kept.about.get("channel", {"kind": "inbox"})
    found["mode"] = kept.about.get("mode", "immediate")
    found["exactness"] = kept.about.get("exactness")
    found["feedback"] = feedback.takes_thumbs(kept) or None
    found["state"] = kept.state
    if kept.state == MUTED:
        found["mute"] = {"until": stamp(kept.muted_until), "arriving": kept.mute}
    found |= {"expires": stamp(kept.expires), "created": stamp(kept.created), "changed": stamp(kept.changed)}
    found["revision"] = kept.revision
    return {key: value for key, value in found.items() if value is not None}


# --- changing --------------------------------------------------------------------------------------------------------


def edit(site: Site, account: Account, id: str, changes: object, *, revision: int | None = None) -> Created:
    """Changes what is named: any of CHANGEABLE; null takes a value away. With a revision, only if it is still that.

    A new query, path or namespaces make a new version, in force for the documents that are accepted from now on.
    """
    if not isinstance(changes, Mapping):
        raise Invalid('a change is an object, such as {"query": "…"}')
    for key in changes:
        if key not in CHANGEABLE:
            raise Invalid(f"{str(key)[:60]!r} cannot be changed: only {', '.join(CHANGEABLE)}", field=str(key)[:60])
    for left in reversed(range(TRIES)):
        kept = get(site, account, id)
        if revision is not None and kept.revision != revision:
            raise Conflict(f"it has revision {kept.revision} now, not {revision}: read it again")
        try:
            return _change(site, account, kept, changes)
        except SubscriptionError as error:
            if isinstance(error, Problem) or not left:
                raise problem_of(error) from None
    raise AssertionError("the last try returns or raises")  # pragma: no cover


def _change(site: Site, account: Account, kept: Kept, changes: Mapping[str, Any]) -> Created:
    reader = site.reader(account)
    asked = _asked(reader, kept, changes)
    values: dict[str, Any] = {"about": _about(reader, kept, changes, asked or kept.asked)}
    if feedback.KEY in changes or feedback.takes_thumbs(kept):
        asked = feedback.after_change(site, kept, asked, values["about"])
    if asked is not None:
        values["asked"] = asked
    if "mode" in changes:
        values["digest_due"] = mode_of(changes["mode"]).next_after(time.time())
    expires = kept.expires
    if "expires" in changes:
        expires = values["expires"] = moment_of(changes["expires"], "expires")
        if expires is not None and expires <= time.time():
            raise Invalid('"expires" is in the past', field="expires")
    values |= _state(kept, changes, expires)
    moved = "channel" in changes
    webhook = _webhook(site, reader, kept, changes["channel"]) if moved else None
    contract = None if asked is None else _contract(site, account, reader, asked, but=kept.id)
    with site.store.write() as transaction:
        now = subscriptions.change_in(transaction, kept, **values)
        if moved:
            subscriptions.point_in(transaction, kept.number, webhook)
        journal.note_in(transaction, account.name, "change", kept.id, keys=sorted(changes), state=now.state)
    site.changed()
    return Created(now, contract, None if webhook is None else webhook.secret)


def _about(reader: Reader, kept: Kept, changes: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    about = dict(kept.about)
    new: dict[str, object] = {}
    if "name" in changes:
        new["name"] = reader.name(changes["name"])
    if "tags" in changes:
        new["tags"] = list(reader.tags(changes["tags"]))
    if "channel" in changes:
        channel, _ = reader.channel(changes["channel"])
        new["channel"] = None if channel.url is None else channel.as_json()
    if "mode" in changes:
        mode = mode_of(changes["mode"])
        new["mode"] = mode.as_json() if mode.is_digest else None
    if "exactness" in changes:
        exactness = reader.exactness(changes["exactness"], asked)
        new["exactness"] = None if exactness.is_exact else exactness.as_json()
    elif "exactness" in kept.about and asked != kept.asked:
        reader.check_words(asked)
    if feedback.KEY in changes:
        was = about.pop(feedback.KEY, {})
        if feedback.wanted(changes[feedback.KEY]) is not None:
            about[feedback.KEY] = was
    for key, value in new.items():
        about.pop(key, None)
        if value:
            about[key] = value
    return about


def _asked(reader: Reader, kept: Kept, changes: Mapping[str, Any]) -> Asked | None:
    if not changes.keys() & {"query", "xpath", "namespaces"}:
        return None
    old = kept.asked
    if old.view is not None:
        raise Invalid("it is about a view: make another subscription for documents", field="query")
    xpath = changes.get("xpath", old.xpath)
    spaces = changes.get("namespaces", old.namespaces if xpath is not None else None)
    new = replace(reader.asked(changes.get("query", old.query), xpath, spaces), moved=old.moved)
    return None if new == old else new


def _state(kept: Kept, changes: Mapping[str, Any], expires: float | None) -> dict[str, Any]:
    if "state" in changes and changes.get("mute") is not None:
        raise Invalid("a change has a state or a mute, not both", field="mute")
    if "mute" in changes:
        if changes["mute"] is None:
            return {"state": ACTIVE} if kept.state == MUTED else {}
        return _mute(kept, changes["mute"])
    if "state" not in changes:
        return {}
    state = changes["state"]
    if state not in (ACTIVE, PAUSED):
        raise Invalid('a state can be changed to "active" or "paused"', field="state")
    if kept.state == EXPIRED and (expires is not None and expires <= time.time()):
        raise Conflict('it has expired: give it a later "expires", or null, to make it active again', field="state")
    return {"state": state}


def _mute(kept: Kept, value: object) -> dict[str, Any]:
    hint = 'a mute is {"until": "2030-05-31T18:30:00Z", "arriving": "drop" or "hold"}'
    if not isinstance(value, Mapping) or value.keys() - {"until", "arriving"}:
        raise Invalid(hint, field="mute")
    if value.get("arriving") not in (DROP, HOLD):
        raise Invalid(f"{hint}: say whether what arrives meanwhile is dropped or held", field="mute")
    until = moment_of(value.get("until"), "until")
    if until is None or until <= time.time():
        raise Invalid(f"{hint}: until must be a time to come", field="mute")
    if kept.state not in (ACTIVE, MUTED):
        raise Conflict(f"it is {kept.state}: only an active subscription can be muted", field="mute")
    return {"state": MUTED, "mute": value["arriving"], "muted_until": until}


def _webhook(site: Site, reader: Reader, kept: Kept, value: object) -> Webhook | None:
    """A new address gets a new secret, unless one is given; the same address keeps its own."""
    channel, secret = reader.channel(value)
    if channel.url is None:
        return None
    if secret is None and kept.about.get("channel", {}).get("url") == channel.url:
        secret = webhooks.secret(site.store, kept.number)
    return Webhook(channel.url, secret or new_secret())


def pause(site: Site, account: Account, id: str) -> Kept:
    """Documents that are accepted from now on are not matched, until it resumes."""
    return edit(site, account, id, {"state": PAUSED}).kept


def resume(site: Site, account: Account, id: str) -> Kept:
    """Ends a pause or a mute."""
    return edit(site, account, id, {"state": ACTIVE}).kept


def mute(site: Site, account: Account, id: str, until: float | str, arriving: str) -> Kept:
    """Nothing is told until then; what arrives meanwhile is dropped ("drop") or told afterwards ("hold")."""
    return edit(site, account, id, {"mute": {"until": until, "arriving": arriving}}).kept


def expire(site: Site, account: Account, id: str, expires: float | str | None) -> Kept:
    """It ends by itself at that time; None: it does not."""
    return edit(site, account, id, {"expires": expires}).kept


def tags(site: Site, account: Account, id: str, names: list[str]) -> Kept:
    """Gives it these tags."""
    return edit(site, account, id, {"tags": names}).kept


def delete(site: Site, account: Account, id: str) -> None:
    """Ends it for good. What it has told stays readable; what was held, or waits for its webhook, is not told."""
    for left in reversed(range(TRIES)):
        kept = get(site, account, id)
        try:
            with site.store.write() as transaction:
                subscriptions.change_in(transaction, kept, state=DELETED)
                subscriptions.point_in(transaction, kept.number, None)
                journal.note_in(transaction, account.name, "unsubscribe", id)
            break
        except SubscriptionError as error:
            if not left:
                raise problem_of(error) from None
    site.changed()


def settle(site: Site, now: float | None = None) -> int:
    """Ends the mutes and lives that are over by now; returns how many."""
    moment = time.time() if now is None else now
    settled = 0
    while over := subscriptions.due(site.store, moment):
        for kept in over:
            is_expired = kept.expires is not None and kept.expires <= moment
            try:
                subscriptions.change(site.store, kept, state=EXPIRED if is_expired else ACTIVE, mute=KEEP)
                settled += 1
            except SubscriptionError:
                continue  # its owner was quicker: the next look finds what is left to do
    return settled


# --- out and in ------------------------------------------------------------------------------------------------------


def export(site: Site, account: Account) -> Iterator[dict[str, Any]]:
    """All of the account's own, each as a body that `restore` takes; secrets of webhooks are not among them."""
    after = ""
    while page := subscriptions.listed(site.store, account.name, after, site.settings.page_items_max):
        for kept in page:
            shown = as_json(kept)
            body = {key: shown[key] for key in KEYS if key in shown}
            if feedback.takes_thumbs(kept):
                body[feedback.KEY] = feedback.as_json(site, kept)
            if kept.state == PAUSED:
                body["state"] = PAUSED
            yield body
        after = page[-1].id


def restore(site: Site, account: Account, bodies: Iterable[object]) -> list[Made | Problem]:
    """Makes what was exported; one that was paused is paused again."""
    taken: list[object] = []
    paused: set[int] = set()
    for place, body in enumerate(bodies):
        if isinstance(body, Mapping) and "state" in body:
            if body["state"] == PAUSED:
                paused.add(place)
            elif body["state"] != ACTIVE:
                taken.append(Invalid('a state is "active" or "paused" here', field="state"))
                continue
            taken.append({key: value for key, value in body.items() if key != "state"})
        else:
            taken.append(body)
    results = create_many(site, account, taken)
    for place in sorted(paused):
        made = results[place]
        if isinstance(made, Made):
            pause(site, account, made.id)
    return results
