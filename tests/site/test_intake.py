"""Documents come in: the good ones are stored, the others named; nobody is faster than he may."""

from __future__ import annotations

import pytest

from tocsin.model import Document
from tocsin.site import accounts, intake
from tocsin.site.limits import Buckets
from tocsin.site.problems import Invalid, NotFound, TooFast
from tocsin.store import documents, journal


def test_the_good_ones_are_stored_and_the_others_named_by_their_line(site, ann):
    offered: list[intake.Offered] = [
        {"id": "1", "text": "a"},
        {"text": "no id"},
        b'{"id": "2", "text": "b"}',
        '{"id": "3", "id": "3"}',
        Document("4"),
        Invalid("no JSON"),
        {"id": "1", "text": "other"},
        {"id": "1", "text": "a"},
        {"id": "5", "xml": "<a>"},
        {"id": "a\x00b"},
    ]
    found = intake.publish(site, ann, offered)
    assert found.accepted == 4
    assert [line for line, _ in found.rejected] == [2, 4, 6, 7, 9, 10]
    assert found.as_json()["rejected"][0]["error"]["message"].startswith('there is no "id"')
    assert documents.count(site.store) == 3
    assert intake.publish(site, ann, []).accepted == 0


def test_many_are_stored_in_chunks_with_their_lines(site):
    root = accounts.create(site.store, "root", "admin")
    offered = [{"id": str(n)} if n % 700 else {} for n in range(2_500)]
    found = intake.publish(site, root, offered)
    assert (found.accepted, [line for line, _ in found.rejected]) == (2_496, [1, 701, 1_401, 2_101])


def test_a_deleted_document_is_gone_and_a_strange_one_not_found(site, ann):
    intake.publish(site, ann, [{"id": "1"}])
    intake.delete(site, ann, "1")
    with pytest.raises(NotFound):
        intake.delete(site, ann, "1")
    assert [entry.action for entry in journal.read(site.store)] == ["delete document"]


def test_who_publishes_too_fast_is_told_when_to_come_back(site):
    slow = accounts.create(site.store, "slow", "publisher", {"documents_per_second": 1})
    root = accounts.create(site.store, "root", "admin", {"documents_per_second": 1})
    assert intake.publish(site, slow, [{"id": str(n)} for n in range(10)]).accepted == 10
    with pytest.raises(TooFast) as caught:
        intake.publish(site, slow, [{"id": "more"}])
    assert 0 < caught.value.retry_after_seconds <= 1.1
    assert intake.publish(site, root, [{"id": f"r{n}"} for n in range(100)]).accepted == 100


def test_a_bucket_fills_at_its_rate_and_a_large_amount_is_paid_for_afterwards():
    now = 0.0
    buckets = Buckets(lambda: now)
    for _ in range(20):
        buckets.take("a", 2.0)
    with pytest.raises(TooFast) as caught:
        buckets.take("a", 2.0)
    assert caught.value.retry_after_seconds == pytest.approx(0.5)
    buckets.take("b", 2.0)
    now = 0.5
    buckets.take("a", 2.0)
    now = 100.0
    buckets.take("a", 2.0, 200)  # more than it ever holds: in debt by 180, and it must be full again for as much
    now = 189.0
    with pytest.raises(TooFast):
        buckets.take("a", 2.0, 1)
    now = 190.6
    buckets.take("a", 2.0, 1)
    with pytest.raises(TooFast):
        Buckets(lambda: 0.0).take("nothing", 0.0)
