"""What /openapi.json says of a subscription's body is what the site reads: form by form, the good and the bad."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.site.accounts import Account, Role
from tocsin.site.channels.settings import ChannelSettings
from tocsin.site.exactness import exactness_of
from tocsin.site.feedback import wanted
from tocsin.site.life import CHANGEABLE
from tocsin.site.problems import Problem
from tocsin.site.schedule import mode_of
from tocsin.site.settings import SiteSettings
from tocsin.site.wishes import KEYS, Reader, moment_of
from tocsin.text import Analysis
from tocsin.web import asked

SECRET = "whsec_" + "A" * 32
MAIL = ChannelSettings(mail_url="mailto://example.org")
READER = Reader(replace(SiteSettings(), channels=MAIL), Account("ann", Role.SUBSCRIBER), Analysis())

READ = {
    "channel": READER.channel,
    "mode": mode_of,
    "exactness": exactness_of,
    "expires": lambda value: moment_of(value, "expires"),
    "feedback": wanted,
}
GOOD = [
    ("channel", None),
    ("channel", "inbox"),
    ("channel", {"kind": "inbox"}),
    ("channel", "https://example.org/hook"),
    ("channel", {"url": "https://example.org/hook"}),
    ("channel", {"kind": "webhook", "url": "https://example.org/hook"}),
    ("channel", {"kind": "webhook", "url": "https://example.org/hook", "secret": None}),
    ("channel", {"kind": "webhook", "url": "https://example.org/hook", "secret": SECRET}),
    ("channel", {"kind": "mail", "to": "ann@example.org"}),
    ("channel", {"kind": "apprise", "url": "json://example.org/path"}),
    ("mode", None),
    ("mode", "immediate"),
    ("mode", "hourly"),
    ("mode", {"every": "day"}),
    ("mode", {"every": "hourly", "at": "00:30", "zone": "Europe/Athens"}),
    ("exactness", None),
    ("exactness", "approximate"),
    ("exactness", {"kind": "exact"}),
    ("exactness", {"rho": 1, "alpha": 0}),
    ("expires", None),
    ("expires", 0),
    ("expires", "2030-05-31T18:30:00Z"),
    ("feedback", None),
    ("feedback", False),
    ("feedback", {"thumbs": [{"document": "d", "version": 1, "thumb": "up"}]}),
    ("feedback", {"texts": [{"field": "title", "text": "a", "words": []}]}),
]
BAD = [
    ("channel", 7),
    ("channel", "outbox"),
    ("channel", []),
    ("channel", {}),
    ("channel", {"kind": "webhook"}),
    ("channel", {"kind": "inbox", "url": "https://example.org/hook"}),
    ("channel", {"kind": "pigeon", "url": "https://example.org/hook"}),
    ("channel", {"url": "ftp://example.org/hook"}),
    ("channel", {"url": "https://example.org/hook", "secret": "whsec_short"}),
    ("channel", {"url": "https://example.org/hook", "to": "ann@example.org"}),
    ("channel", {"kind": "mail"}),
    ("channel", {"kind": "mail", "to": "ann@example.org", "url": "https://example.org/hook"}),
    ("channel", {"kind": "apprise", "url": "no address"}),
    ("channel", {"kind": "apprise", "url": "json://example.org", "secret": SECRET}),
    ("mode", "weekly"),
    ("mode", 5),
    ("mode", {"at": "08:00"}),
    ("mode", {"every": "day", "at": "24:00"}),
    ("mode", {"every": "day", "on": "Monday"}),
    ("exactness", "nearly"),
    ("exactness", {"rho": 0}),
    ("exactness", {"kind": "exact", "rho": 0.5}),
    ("exactness", {"alpha": 1.5}),
    ("expires", -1),
    ("expires", 1e12),
    ("expires", True),
    ("feedback", "yes"),
    ("feedback", {"thumbs": [{"document": "", "version": 1, "thumb": "up"}]}),
    ("feedback", {"thumbs": [{"document": "d", "version": 1, "thumb": "sideways"}]}),
    ("feedback", {"texts": [{"field": "title"}]}),
]


def is_described(key, value):
    validator = pytest.importorskip("jsonschema_rs").Draft202012Validator(asked.ASKED[key])
    return validator.is_valid(value)


@pytest.mark.parametrize(("key", "value"), GOOD)
def test_what_is_read_is_described(key, value):
    READ[key](value)
    assert is_described(key, value)


@pytest.mark.parametrize(("key", "value"), BAD)
def test_what_is_refused_is_not_described(key, value):
    with pytest.raises(Problem):
        READ[key](value)
    assert not is_described(key, value)


def test_the_keys_of_a_body_and_of_a_change_are_all_described():
    assert asked.SCHEMAS["NewSubscription"]["properties"].keys() == set(KEYS)
    assert asked.SCHEMAS["SubscriptionChange"]["properties"].keys() == set(CHANGEABLE)
