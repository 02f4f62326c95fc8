"""How a subscription is written and answered, as OpenAPI tells it: each form that `site.wishes` reads, and no other."""

from __future__ import annotations

from tocsin.site.channels.address import ADDRESS_CHARACTERS_MAX, APPRISE, MAIL
from tocsin.web import feedback
from tocsin.web.schemas import TEXT, TIME, Schema, ref

INBOX, WEBHOOK = "inbox", "webhook"
NULL: Schema = {"type": "null"}


def _form(title: str, required: list[str], **properties: Schema) -> Schema:
    return {
        "title": title,
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }


def _kind(name: str) -> Schema:
    return {"const": name}


_URL: Schema = {
    "type": "string",
    "format": "uri",
    "pattern": "^https?://",
    "description": "https, of the open network.",
}
_SECRET: Schema = {
    "type": ["string", "null"],
    "pattern": "^whsec_[A-Za-z0-9+/]+={0,2}$",
    "minLength": 38,
    "maxLength": 94,
    "description": "Signs its calls: whsec_ and 24 to 64 bytes in base64. Without one, the site draws it; the same "
    "address keeps the one it has.",
}
_SERVICE: Schema = {
    "type": "string",
    "maxLength": ADDRESS_CHARACTERS_MAX,
    "pattern": "^[A-Za-z][A-Za-z0-9+.-]*://",
    "description": "A service's address as Apprise writes it, such as slack://…. It is secret: only its beginning is "
    "ever answered.",
}
_MAILBOX: Schema = {"type": "string", "format": "email", "maxLength": 254, "description": "It is asked to confirm."}

CHANNEL: Schema = {
    "description": "Where it tells what it finds; notifications are in the inbox in any case. Null: the inbox only.",
    "anyOf": [
        {"const": INBOX, "title": "Inbox", "description": "The default: GET notifications, the stream, the pages."},
        _form("Inbox", ["kind"], kind=_kind(INBOX)),
        _form("Webhook", ["url"], kind=_kind(WEBHOOK), url=_URL, secret=_SECRET),
        _URL | {"title": "Webhook, its address alone"},
        _form("Mailbox", ["kind", "to"], kind=_kind(MAIL), to=_MAILBOX),
        _form("Service", ["kind", "url"], kind=_kind(APPRISE), url=_SERVICE),
        NULL,
    ],
}
_ANSWERED_CHANNEL: Schema = {
    "anyOf": [
        _form("Inbox", ["kind"], kind=_kind(INBOX)),
        _form("Webhook", ["kind", "url"], kind=_kind(WEBHOOK), url=TEXT),
        _form("Mailbox", ["kind", "to"], kind=_kind(MAIL), to=TEXT),
        _form("Service", ["kind", "url"], kind=_kind(APPRISE), url={"type": "string", "description": "Not all of it."}),
    ]
}

_AT: Schema = {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$", "default": "00:00"}
_ZONE: Schema = {"type": "string", "default": "UTC", "description": "A time zone's name, such as Europe/Athens."}
_DIGEST = _form("Digest", ["every"], every={"enum": ["hour", "day", "hourly", "daily"]}, at=_AT, zone=_ZONE)
MODE: Schema = {
    "description": "When it tells: at once, or in a digest at a time of day, of each hour or of each day. "
    "Null: at once.",
    "anyOf": [{"enum": ["immediate", "hourly", "daily"]}, _DIGEST, NULL],
}

_RHO: Schema = {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "description": "Share of publishers."}
_ALPHA: Schema = {"type": "number", "minimum": 0, "maximum": 1, "description": "How they are chosen."}
EXACTNESS: Schema = {
    "description": "Where the site is in a ring: exact (the default) hears everybody; approximate listens to a share "
    "rho of the publishers of other sites; alpha says how they are chosen, from 0, who is expected to publish most of "
    "it, to 1, who knows most of it.",
    "anyOf": [
        {"enum": ["exact", "approximate"]},
        _form("Exact", ["kind"], kind=_kind("exact")),
        _form("Approximate", [], kind=_kind("approximate"), rho=_RHO, alpha=_ALPHA),
        NULL,
    ],
}

_MOMENT: Schema = {
    "anyOf": [
        TIME | {"description": "RFC 3339."},
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1e11, "description": "Seconds since 1970."},
    ]
}
EXPIRES: Schema = {"description": "When it ends by itself. Null: it does not.", "anyOf": [*_MOMENT["anyOf"], NULL]}
_ARRIVING: Schema = {"enum": ["drop", "hold"], "description": "Of what arrives meanwhile; held: told afterwards."}
MUTE: Schema = {
    "description": "Nothing is told until then. Null ends it.",
    "anyOf": [_form("Mute", ["until", "arriving"], until=_MOMENT, arriving=_ARRIVING), NULL],
}

_CONDITION: Schema = {"type": ["string", "null"], "description": "Such as high > 80."}
VIEW: Schema = {
    "description": "Rows of a view, instead of documents: its name; with `where`, every change of those rows; with "
    "`when`, when it begins to hold for a row and when it ends. See POST views.",
    "anyOf": [
        TEXT,
        _form("Rows that", ["name"], name=TEXT, where=_CONDITION),
        _form("As soon as", ["name"], name=TEXT, when=_CONDITION),
        NULL,
    ],
}

_TAGS: Schema = {"type": "array", "items": {"type": "string", "minLength": 1}}
ASKED: dict[str, Schema] = {
    "query": {"type": ["string", "null"], "description": "What to look for, in the query language."},
    "xpath": {"type": ["string", "null"], "description": "A path that must select something in the document's XML."},
    "namespaces": {
        "type": ["object", "null"],
        "additionalProperties": {"type": "string"},
        "description": "Of the prefixes in `xpath`.",
    },
    "name": {"type": ["string", "null"], "description": "For people."},
    "tags": _TAGS | {"type": ["array", "null"]},
    "channel": CHANNEL,
    "mode": MODE,
    "exactness": EXACTNESS,
    "expires": EXPIRES,
    "feedback": feedback.WANTED,
}

_SHARE: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_RING: Schema = {
    "type": "object",
    "description": "How an approximate one fares: it listens to so many publishers of other sites, of so "
    "many; recall is the share of their matching documents that it was told of, with an interval, measured "
    "by asking a sample of the others; null: not measured yet.",
    "properties": {
        "listens_to": _COUNT,
        "publishers": _COUNT,
        "recall": {
            "type": ["object", "null"],
            "properties": {
                "value": _SHARE,
                "low": _SHARE,
                "high": _SHARE,
                "heard": {"type": "integer", "description": "Documents that it was told of meanwhile."},
                "asked": {"type": "integer", "description": "Answers that the figure rests on."},
            },
        },
    },
}

SCHEMAS: dict[str, Schema] = {
    "NewSubscription": {
        "type": "object",
        "properties": {
            **ASKED,
            "id": {"type": ["string", "null"], "description": "Drawn by the site if it is not given."},
            "view": VIEW,
        },
        "anyOf": [{"required": ["query"]}, {"required": ["xpath"]}, {"required": ["view"]}],
        "additionalProperties": False,
    },
    "SubscriptionChange": {
        "type": "object",
        "description": "What is named is changed; null takes it away.",
        "properties": {**ASKED, "state": {"enum": ["active", "paused"]}, "mute": MUTE},
        "additionalProperties": False,
    },
    "Subscription": {
        "type": "object",
        "required": ["id", "state", "revision", "created", "changed", "channel", "mode", "tags"],
        "properties": {
            "id": TEXT,
            "query": TEXT,
            "xpath": TEXT,
            "namespaces": {"type": "object", "additionalProperties": {"type": "string"}},
            "view": {"type": "object", "required": ["name"], "properties": {"name": TEXT}},
            "name": TEXT,
            "tags": _TAGS,
            "channel": _ANSWERED_CHANNEL,
            "mode": {"anyOf": [{"const": "immediate"}, _DIGEST]},
            "exactness": _form("Approximate", ["kind", "rho", "alpha"], kind=TEXT, rho=_RHO, alpha=_ALPHA),
            "feedback": feedback.SHOWN,
            "state": {"enum": ["active", "paused", "muted", "expired"]},
            "mute": _form("Mute", ["until", "arriving"], until=TIME, arriving=_ARRIVING),
            "expires": TIME,
            "created": TIME,
            "changed": TIME,
            "revision": {"type": "integer", "minimum": 1},
            "contract": {"type": "object", "description": "What to expect of it, told when it is saved."},
            "secret": {"type": "string", "description": "Signs its webhook; told when it is new."},
            "ring": _RING,
        },
        "additionalProperties": True,
    },
    "Subscriptions": {
        "type": "object",
        "required": ["items", "next"],
        "properties": {
            "items": {"type": "array", "items": ref("Subscription")},
            "next": {"type": ["string", "null"], "description": "For `after`; null: there are no more."},
        },
        "additionalProperties": False,
    },
}
