"""What was refused is told to the operator, and nobody can fill a log with it."""

from __future__ import annotations

import pytest

from tocsin.net.complaints import REASONS, SAID_MAX, Complaints
from tocsin.net.envelope import Refusal


@pytest.mark.parametrize("refusal", Refusal)
def test_every_refusal_has_a_reason(refusal):
    said: list[str] = []
    Complaints(said.append).refused(refusal, "10.0.0.1:7")
    assert said == [f"refused ({refusal}) from 10.0.0.1:7: {REASONS[refusal]}"]


def test_the_first_of_each_kind_are_told_and_then_ever_fewer():
    said: list[str] = []
    complaints = Complaints(said.append)
    for number in range(1_000):
        complaints.tell("forged", f"n{number}", "it is not signed")
    complaints.tell("query", "ann", "no query")
    assert len(said) == SAID_MAX + 3
    assert said[SAID_MAX:] == [
        "refused (forged) from n99: it is not signed; the 100th of this kind",
        "refused (forged) from n999: it is not signed; the 1,000th of this kind",
        "refused (query) from ann: no query",
    ]
