"""The body of a subscription, checked: every key is known, every value has its form, the query can stand.

Most queries of a bulk call are plain words; those take a quick way around the parser, which they would pass.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tocsin import dates
from tocsin.errors import QueryError, QueryTooCostly
from tocsin.match.index import is_plain
from tocsin.query.ast import Query
from tocsin.query.normal import cost
from tocsin.query.standing import parse_subscription
from tocsin.query.xpath import Path, parse_xpath
from tocsin.query.xpath import cost as path_cost
from tocsin.settings import QueryLimits
from tocsin.site import feedback
from tocsin.site.accounts import Account
from tocsin.site.addresses import check_url
from tocsin.site.channels.address import APPRISE, MAIL, channel_of
from tocsin.site.exactness import Exactness, exactness_of
from tocsin.site.problems import Invalid, NotYet, problem_of
from tocsin.site.schedule import Mode, mode_of
from tocsin.site.settings import SiteSettings
from tocsin.site.views import Views
from tocsin.store.connect import packed
from tocsin.store.subscriptions import Asked, Webhook
from tocsin.store.thumbs import Thumb
from tocsin.text import Analysis

KEYS = (
    "query", "xpath", "namespaces", "view", "id", "name", "tags", "channel", "mode", "exactness", "expires", "feedback",
)  # fmt: skip
INBOX, WEBHOOK = "inbox", "webhook"
PLAIN_CHARACTERS_MAX = 1_000
SECRET_START = "whsec_"
SECRET_BYTES = 24


@dataclass(frozen=True, slots=True)
class Channel:
    """Where notifications go besides the inbox, which always has them."""

    kind: str = INBOX
    url: str | None = None
    """The webhook's address, or a mailbox or service as it is stored: that may hold a secret."""
    shown: Mapping[str, str] | None = None
    """What is answered instead of a secret address."""

    def as_json(self) -> dict[str, str]:
        """As it is written in a subscription."""
        if self.shown is not None:
            return dict(self.shown)
        return {"kind": self.kind} if self.url is None else {"kind": self.kind, "url": self.url}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A subscription that may be made."""

    asked: Asked
    id: str | None = None
    name: str | None = None
    tags: tuple[str, ...] = ()
    channel: Channel = Channel()
    secret: str | None = None
    mode: Mode = Mode()
    expires: float | None = None
    exactness: Exactness = Exactness()
    feedback: tuple[tuple[Thumb, ...], str | None] | None = None
    """Does it take thumbs? Then those it has already, and the words that they have moved its texts to."""

    def about(self) -> dict[str, Any]:
        """What the store keeps beside the query."""
        found: dict[str, Any] = {}
        if self.name is not None:
            found["name"] = self.name
        if self.tags:
            found["tags"] = list(self.tags)
        if self.channel.kind != INBOX:
            found["channel"] = self.channel.as_json()
        if self.mode.is_digest:
            found["mode"] = self.mode.as_json()
        if not self.exactness.is_exact:
            found["exactness"] = self.exactness.as_json()
        if self.feedback is not None:
            found[feedback.KEY] = {}
        return found

    def webhook(self) -> Webhook | None:
        """The webhook, with its secret: the one that was given, or a new one."""
        if self.channel.url is None:
            return None
        return Webhook(self.channel.url, self.secret or new_secret())


def new_secret() -> str:
    """A secret after the Standard Webhooks specification: `whsec_` and 24 bytes of chance in base64."""
    return SECRET_START + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


class Reader:
    """Reads the bodies of one account's subscriptions."""

    def __init__(
        self,
        settings: SiteSettings,
        account: Account,
        analysis: Analysis,
        views: Views | None = None,
        is_federated: bool = False,
    ) -> None:
        base = settings.base.query
        most = base.query_cost_max
        if not account.is_unbound:
            most = min(most, account.quotas.query_cost_max)
        self._settings, self._account, self._views = settings, account, views
        self._limits: QueryLimits = replace(base, query_cost_max=most)
        self._analysis, self._is_federated = analysis, is_federated
        self._plain_is_quick = analysis.names(None) == ("standard",)

    def wanted(self, body: object) -> Wanted:
        """The subscription in a decoded JSON object; a Problem names the key, and in a query the position."""
        if not isinstance(body, Mapping):
            raise Invalid('a subscription is an object, such as {"query": "…"}')
        for key in body:
            if key not in KEYS:
                raise Invalid(
                    f"unknown key {str(key)[:60]!r}: a subscription has {', '.join(KEYS)}", field=str(key)[:60]
                )
        if body.get("view") is not None:
            asked = self.viewed(body)
        else:
            asked = self.asked(body.get("query"), body.get("xpath"), body.get("namespaces"))
        if len(body) <= 2 and body.keys() <= {"query", "id"}:
            return Wanted(asked, self.id(body.get("id")))
        channel, secret = self.channel(body.get("channel"))
        return Wanted(
            asked,
            self.id(body.get("id")),
            self.name(body.get("name")),
            self.tags(body.get("tags")),
            channel,
            secret,
            mode_of(body.get("mode")),
            moment_of(body.get("expires"), "expires"),
            self.exactness(body.get("exactness"), asked),
            self.feedback(body.get("feedback"), asked),
        )

    def viewed(self, body: Mapping[str, Any]) -> Asked:
        """The rows of a view that are asked for."""
        for key in ("query", "xpath", "namespaces"):
            if body.get(key) is not None:
                raise Invalid(f'a subscription has a "view" or a "{key}", not both', field=key)
        if self._views is None:
            raise NotYet("this site has no views", field="view")
        return Asked(view=packed(self._views.wish(self._account, body["view"]).as_json()))

    def asked(self, query: object, xpath: object, namespaces: object) -> Asked:
        """What is asked for, after it was parsed and priced."""
        text, path = _text(query, "query"), _text(xpath, "xpath")
        if text is None and path is None:
            raise Invalid('there is no "query", "xpath" or "view": a subscription needs one', field="query")
        spaces = _namespaces(namespaces)
        if spaces and path is None:
            raise Invalid('"namespaces" belong to an "xpath"', field="namespaces")
        asked = Asked(text, path, spaces)
        if not self._is_quick(asked):
            self.parsed(asked)
        return asked

    def _is_quick(self, asked: Asked) -> bool:
        text = asked.query
        if asked.xpath is not None or text is None or len(text) > PLAIN_CHARACTERS_MAX or not self._plain_is_quick:
            return False
        return is_plain(text) and text.count(" ") < self._limits.query_cost_max

    def parsed(self, asked: Asked) -> tuple[Query | None, Path | None]:
        """The trees of what is asked for."""
        try:
            query = None if asked.query is None else parse_subscription(asked.query, self._analysis, self._limits)
        except QueryError as error:
            raise problem_of(error, "query") from None
        try:
            path = None if asked.xpath is None else parse_xpath(asked.xpath, asked.namespaces, self._limits)
            if path is not None and path_cost(path) > self._limits.query_cost_max:
                most = self._limits.query_cost_max
                raise QueryTooCostly(
                    f"the path could cost {path_cost(path):,} checks, at most {most:,}", asked.xpath or ""
                )
        except QueryError as error:
            raise problem_of(error, "xpath") from None
        return query if query is None else feedback.moved_query(asked, query), path

    def id(self, value: object) -> str | None:
        """An id that the account chose."""
        text = _text(value, "id")
        if text is None:
            return None
        most = self._settings.id_characters_max
        if not text or len(text) > most or not text.isprintable() or text != text.strip():
            raise Invalid(f"an id has 1 to {most} printable characters, no space at its ends", field="id")
        return text

    def feedback(self, value: object, asked: Asked) -> tuple[tuple[Thumb, ...], str | None] | None:
        """Whether it takes thumbs, and those it has already."""
        found = feedback.wanted(value)
        if found is not None:
            feedback.checked(asked, self._analysis)
            if len(found[0]) > self._settings.thumbs_max:
                raise Invalid(f"a subscription keeps at most {self._settings.thumbs_max:,} thumbs", field="feedback")
        return found

    def exactness(self, value: object, asked: Asked) -> Exactness:
        """How much of what other sites publish it should hear: less than all only where there are other sites."""
        found = exactness_of(value)
        if found.is_exact:
            return found
        if not self._is_federated:
            raise Invalid(
                '"exactness" cannot be "approximate" here: this site is in no ring, so each subscription sees all of '
                'its documents; leave it "exact", or start the site with --listen HOST:PORT or --join NODE',
                code="not_federated",
                field="exactness",
            )
        self.check_words(asked)
        return found

    def check_words(self, asked: Asked) -> None:
        """An approximate subscription needs words that publishers can be chosen by."""
        from tocsin.site.federation.asking import can_approximate  # heavy: only where a ring is

        if not can_approximate(None if asked.query is None else self.parsed(asked)[0], self._analysis):
            raise Invalid(
                '"exactness" cannot be "approximate" for it: publishers are chosen by the words of a query, and it '
                'asks for none; leave it "exact"',
                code="no_words",
                field="exactness",
            )

    def name(self, value: object) -> str | None:
        """A name for people."""
        text = _text(value, "name")
        if text is not None and len(text) > self._settings.name_characters_max:
            raise Invalid(f"a name has at most {self._settings.name_characters_max:,} characters", field="name")
        return text

    def tags(self, value: object) -> tuple[str, ...]:
        """Tags, each once, in order."""
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            raise Invalid("tags are a list of strings", field="tags")
        found = []
        for tag in value:
            text = _text(tag, "tags")
            if not text or len(text) > self._settings.name_characters_max:
                raise Invalid("tags are a list of strings that are not empty", field="tags")
            found.append(text)
        if len(found) > self._settings.tags_max:
            raise Invalid(f"a subscription has at most {self._settings.tags_max} tags", field="tags")
        return tuple(dict.fromkeys(found))

    def channel(self, value: object) -> tuple[Channel, str | None]:
        """Where notifications go: `"inbox"`, or `{"kind": "webhook", "url": …, "secret"?: …}`, or the url alone."""
        if value is None or value == INBOX:
            return Channel(), None
        if isinstance(value, str):
            if "://" not in value:
                raise Invalid('a channel is "inbox" or {"kind": "webhook", "url": "https://…"}', field="channel")
            return Channel(WEBHOOK, check_url(value, self._settings.delivery)), None
        if not isinstance(value, Mapping):
            raise Invalid('a channel is "inbox" or {"kind": "webhook", "url": "https://…"}', field="channel")
        if value.get("kind") in (MAIL, APPRISE):
            target = channel_of(value, self._settings.channels)
            return Channel(target.kind, target.stored, target.as_json()), None
        for key in value:
            if key not in ("kind", "url", "secret"):
                raise Invalid(f"a channel has no key {str(key)[:60]!r}: kind, url, secret", field="channel")
        kind = value.get("kind", WEBHOOK if "url" in value else None)
        if kind == INBOX and "url" not in value:
            return Channel(), None
        if kind != WEBHOOK:
            raise Invalid('a channel\'s kind is "inbox", "webhook", "mail" or "apprise"', field="channel")
        secret = value.get("secret")
        return Channel(WEBHOOK, check_url(value.get("url"), self._settings.delivery)), checked_secret(secret)


def checked_secret(value: object) -> str | None:
    """A secret that the account chose: `whsec_` and 24 to 64 bytes in base64."""
    if value is None:
        return None
    problem = Invalid("a secret is whsec_ and 24 to 64 bytes in base64", field="channel")
    if not isinstance(value, str) or not value.startswith(SECRET_START):
        raise problem
    try:
        raw = base64.b64decode(value.removeprefix(SECRET_START), validate=True)
    except ValueError:
        raise problem from None
    if not 24 <= len(raw) <= 64:
        raise problem
    return value


def moment_of(value: object, field: str) -> float | None:
    """A moment: RFC 3339, or seconds since 1970."""
    if value is None:
        return None
    if isinstance(value, str):
        found = dates.moment(value)
        if found is not None:
            return found / dates.SECOND
    elif isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11:
        return float(value)
    raise Invalid(f'"{field}" is a time such as 2030-05-31T18:30:00Z', field=field)


def _text(value: object, field: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise Invalid(f'"{field}" must be a string, in double quotes', field=field)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Invalid(f'"{field}" holds a lone surrogate, which is no character', field=field) from None
    if "\0" in value:
        raise Invalid(f'"{field}" holds the character NUL', field=field)
    return value


def _namespaces(value: object) -> Mapping[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Invalid('"namespaces" is an object of prefixes and their addresses', field="namespaces")
    found = {}
    for prefix, address in value.items():
        name, text = _text(prefix, "namespaces"), _text(address, "namespaces")
        if name is None or text is None:
            raise Invalid('"namespaces" is an object of prefixes and their addresses', field="namespaces")
        found[name] = text
    return found


def price(query: Query | None, path: Path | None) -> int:
    """Checks per document in the worst case."""
    return (0 if query is None else cost(query)) + (0 if path is None else path_cost(path))
