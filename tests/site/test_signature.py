"""Signatures after the Standard Webhooks specification."""

from __future__ import annotations

import random
import time

import pytest

from tocsin.site.delivery.signature import BadSignature, headers, sign, verify
from tocsin.site.wishes import new_secret

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = b'{"test": 2432232314}'


def test_the_specifications_own_example():
    found = sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", BODY)
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_genuine_call_is_taken_and_an_old_one_is_not():
    given = headers(SECRET, "msg_1", 1_000, BODY)
    assert verify(SECRET, given, BODY, 1_000) == "msg_1"
    assert verify(SECRET, {name.upper(): value for name, value in given.items()}, BODY, 1_299) == "msg_1"
    rotated = given | {"webhook-signature": f"v1,AAAA {given['webhook-signature']}"}
    assert verify(SECRET, rotated, BODY, 1_000) == "msg_1"
    for now in (1_301, 699):
        with pytest.raises(BadSignature, match="old"):
            verify(SECRET, given, BODY, now)
    for name in given:
        with pytest.raises(BadSignature):
            verify(SECRET, {key: value for key, value in given.items() if key != name}, BODY, 1_000)
    with pytest.raises(BadSignature):
        verify(new_secret(), given, BODY, 1_000)


def test_a_thousand_altered_calls_are_refused():
    """One character of the id, the time, the signature or the body, changed, added or left out."""
    chance = random.Random(5)
    now = int(time.time())
    refused = 0
    while refused < 1_000:
        given: dict[str, str] = headers(SECRET, f"msg_{refused}", now, BODY)
        whole = {**given, "body": BODY.decode()}
        name = chance.choice(sorted(whole))
        text = whole[name]
        at = chance.randrange(len(text))
        new = chance.choice(["", chr(chance.randrange(33, 127)), text[at] + chr(chance.randrange(33, 127))])
        whole[name] = text[:at] + new + text[at + 1 :]
        if whole[name] == text:
            continue
        body = whole.pop("body").encode()
        with pytest.raises(BadSignature):
            verify(SECRET, whole, body, now)
        refused += 1
