"""Writing a query: checked while it is typed, tried on the past before it is saved, and told what to expect of it.

With scripts the check and the preview come as pieces into the page; without them the same buttons load it again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from tocsin.errors import PipelineError
from tocsin.site import feedback, life
from tocsin.site.channels import saved
from tocsin.site.contract import Contract, contract_of
from tocsin.site.lookback import look_back
from tocsin.site.problems import Invalid, Problem
from tocsin.site.schedule import DAILY, HOURLY, Mode, mode_of
from tocsin.site.site import Site
from tocsin.store import documents, subscriptions
from tocsin.store.channels import Saved
from tocsin.store.subscriptions import Asked, Kept
from tocsin.web import federated
from tocsin.web.answers import json_answer
from tocsin.web.pages.charts import Chart, bars_of_days
from tocsin.web.pages.shown import Shown, shown
from tocsin.web.pages.view import View
from tocsin.web.preview import past_of

FIELDS = (
    "id", "key", "query", "xpath", "name", "tags", "mode", "at", "zone", "where", "webhook",
    "exactness", "rho", "alpha", "feedback",
)  # fmt: skip
EXAMPLES = (
    ('"information filtering" AND (peer OR network*)', "a phrase, a choice, and a word's beginning"),
    ("title:(churn NEAR/3 peers)", "two words close together, in the title"),
    ("sleep AND NOT mice AND year:[2020 TO 2026]", "without a word, within a range"),
    ('author = "Ada Lovelace"', "exactly this value"),
    ('abstract ~ "outbreak detection in wastewater" >= 0.3', "reads like this text"),
)
MODES = {"immediate": "At once", "hourly": "Every hour, together", "daily": "Every day, together"}
INBOX, WEBHOOK, KEEP, SAVED = "inbox", "webhook", "keep", "channel-"
MORNING = "08:00"


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with a text: the message, and the line with a caret under the place."""

    field: str
    message: str
    position: int | None
    line: str
    caret: str


@dataclass(frozen=True, slots=True)
class Trial:
    """What a query would have found, and what saving it amounts to."""

    total: int
    chart: Chart | None
    sample: tuple[Shown, ...]
    contract: Contract
    names: Mapping[str, str]
    """Of the subscriptions that the contract tells of."""
    is_partial: bool
    looked_at: int | None


def blank(view: View) -> Response:
    """The form: empty, or with what a subscription is now."""
    id = view.asked("id")
    if id:
        return _form(view, _filled(life.get(view.site, view.owner, id)))
    start = {"query": view.asked("query"), "key": secrets.token_urlsafe(18), "where": INBOX, "at": MORNING}
    start |= federated.filled(None)
    return _form(view, {**dict.fromkeys(FIELDS, ""), **start})


def _filled(kept: Kept) -> dict[str, str]:
    about = kept.about
    mode = mode_of(about.get("mode"))
    channel = about.get("channel", {})
    is_hook = channel.get("kind") == WEBHOOK
    return {
        "id": kept.id,
        "key": "",
        "query": kept.asked.query or "",
        "xpath": kept.asked.xpath or "",
        "name": about.get("name") or "",
        "tags": ", ".join(about.get("tags", ())),
        "mode": KEEP if mode.every == HOURLY and mode.at != Mode().at else mode.every,
        "at": mode.at if mode.every == DAILY else MORNING,
        "zone": mode.zone if mode.is_digest else "",
        "where": WEBHOOK if is_hook else KEEP if channel else INBOX,
        "webhook": channel.get("url", "") if is_hook else "",
        **federated.filled(kept),
        "feedback": "yes" if feedback.takes_thumbs(kept) else "",
    }


def _form(view: View, values: dict[str, str], status: int = 200, **more: Any) -> Response:
    shown: dict[str, Any] = {"mistake": None, "trial": None, "is_piece": False, "values": values}
    shown |= {"examples": EXAMPLES, "modes": MODES}
    shown["places"] = {f"{SAVED}{one.number}": _place(one) for one in saved.listed(view.site, view.owner)}
    shown["is_unzoned"] = not values["zone"]
    shown["exactnesses"] = federated.CHOICES if view.site.federation is not None else {}
    return view.page("editor.html", status, **(shown | more))


def _place(one: Saved) -> str:
    """A channel as it is chosen: its name, where it leads if that says more, and whether it must confirm."""
    shown = saved.target_in(one).shown
    name = one.name if shown in one.name else f"{one.name} ({shown})"
    return name if one.confirmed is not None else f"{name}, once it is confirmed"


def act(view: View) -> Response:
    """A button was pressed: preview or save."""
    values = {name: view.form.get(name, "") for name in FIELDS}
    try:
        if view.given("do") == "preview":
            return _form(view, values, trial=_trial(view, values))
        return _save(view, values)
    except Problem as problem:
        return _form(view, values, 422, mistake=mistake_of(problem, values))


def check(view: View) -> Response:
    """While it is typed: how the query is read, or where its mistake is."""
    values = {name: view.form.get(name, "") for name in FIELDS}
    if not values["query"].strip() and not values["xpath"].strip():
        return json_answer({"state": "empty"})
    try:
        asked, query, path = _asked(view, values)
        made = contract_of(asked, query, path, view.site.analysis)
    except Problem as problem:
        found = mistake_of(problem, values)
        where = {"field": found.field, "position": found.position, "line": found.line, "caret": found.caret}
        return json_answer({"state": "mistake", "message": found.message, **where})
    read = made.parsed if made.parsed is not None else made.xpath
    return json_answer(
        {"state": "good", "read": read, "cost": made.cost, "notes": [_sentence(note) for note in made.notes]}
    )


def preview(view: View) -> Response:
    """The preview alone, to be put into the page."""
    values = {name: view.form.get(name, "") for name in FIELDS}
    try:
        return view.page("_trial.html", trial=_trial(view, values), is_piece=True)
    except Problem as problem:
        return view.page("_mistake.html", 422, mistake=mistake_of(problem, values))


def _asked(view: View, values: dict[str, str]) -> tuple[Asked, Any, Any]:
    reader = view.site.reader(view.owner)
    namespaces = None
    if values["id"] and values["xpath"].strip():
        namespaces = life.get(view.site, view.owner, values["id"]).asked.namespaces
    text = values["query"] if values["query"].strip() else None
    asked = reader.asked(text, values["xpath"].strip() or None, namespaces)
    return (asked, *reader.parsed(asked))


def _trial(view: View, values: dict[str, str]) -> Trial:
    site = view.site
    asked, query, path = _asked(view, values)
    known = subscriptions.newest(site.store, view.owner.name, site.settings.compared_subscriptions_max)
    others = [other for other in known if other.id != values["id"]]
    contract = contract_of(asked, query, path, site.analysis, history=site.history, others=others)
    past, is_partial, looked_at = _past(site, asked, query, path)
    sample = []
    for one in past.sample:
        stored = documents.find(site.store, one.document, one.version)
        document = None if stored is None else stored.document()
        about = (one.document, one.version, one.score, one.moment)
        sample.append(shown(site.analysis, document, one.evidence, about))
    chart = bars_of_days(past.per_day)
    return Trial(past.total, chart, tuple(sample), contract, _names(contract, others), is_partial, looked_at)


def _names(contract: Contract | None, known: Iterable[Kept]) -> dict[str, str]:
    """What the subscriptions that a contract tells of are called."""
    if contract is None:
        return {}
    told = {contract.duplicate_of, *contract.covered_by, *contract.covers}
    return {one.id: one.about.get("name") or one.id for one in known if one.id in told}


def _past(site: Site, asked: Asked, query: Any, path: Any) -> tuple[Any, bool, int | None]:
    """By the index or the pipeline, which see everything; while they are away, by this process."""
    try:
        found = past_of(site, asked, query)
        if found is not None:
            return found, False, None
    except PipelineError:
        pass  # it starts: the newest documents are better than an empty page, which says so if they are not all
    found = look_back(site.store, site.analysis, query, path)
    return found, found.is_partial, found.looked_at


def _save(view: View, values: dict[str, str]) -> Response:
    body: dict[str, Any] = {
        "query": values["query"] if values["query"].strip() else None,
        "xpath": values["xpath"].strip() or None,
        "name": values["name"].strip() or None,
        "tags": [tag.strip() for tag in values["tags"].split(",") if tag.strip()],
        "feedback": values["feedback"] == "yes",
    }
    if values["where"] != KEEP:
        body["channel"] = _channel(view, values)
    if values["mode"] != KEEP:
        body["mode"] = _mode(values)
    if view.site.federation is not None:
        body["exactness"] = federated.chosen(values)
    was: str | None = None
    if values["id"]:
        was = life.get(view.site, view.owner, values["id"]).about.get("channel", {}).get("url")
        made = life.edit(view.site, view.owner, values["id"], body)
    else:
        made = life.create(view.site, view.owner, body, key=f"page {values['key'][:100]}" if values["key"] else None)
    told = body.get("channel")
    secret = made.secret if isinstance(told, str) and told != was else None  # that of an old webhook was told before
    known = subscriptions.newest(view.site.store, view.owner.name, view.site.settings.compared_subscriptions_max)
    names = _names(made.contract, known)
    return view.page(
        "saved.html", kept=made.kept, contract=made.contract, names=names, secret=secret, is_new=not values["id"]
    )


def _channel(view: View, values: dict[str, str]) -> Any:
    """Where it is told: a channel that the account keeps, a webhook, or here only."""
    where, webhook = values["where"], values["webhook"].strip()
    if where.startswith(SAVED):
        text = where.removeprefix(SAVED)
        return saved.wanted(saved.get(view.site, view.owner, int(text) if text.isdecimal() and len(text) < 19 else 0))
    if where == WEBHOOK and not webhook:
        raise Invalid("the webhook's address is missing", field="webhook")
    return webhook or INBOX


def _mode(values: dict[str, str]) -> Any:
    mode, at = values["mode"] or "immediate", values["at"].strip()
    if mode != DAILY or not at:
        return mode
    return {"every": "day", "at": at[:5], "zone": values["zone"].strip() or "UTC"}


def mistake_of(problem: Problem, values: dict[str, str]) -> Mistake:
    """A problem as it is shown under the text that it is about."""
    field = problem.field or ""
    message = problem.message.partition("\n")[0]
    message = message[:1].upper() + message[1:]  # a sentence of its own here
    if problem.position is None:
        return Mistake(field, message, None, "", "")
    message = message.removesuffix(f" (position {problem.position})")
    text = values.get(field, "") or ""
    position = min(problem.position, len(text))
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end]
    return Mistake(field, message, position, line, " " * (position - start) + "^")


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."
