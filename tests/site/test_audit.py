"""The audit proves that every subscription saw every document, or names the gap and fills it."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, select, update

from tocsin.site import audit, intake, life, reading
from tocsin.store import outbox, schema
from tocsin.store.outbox import Batch, Found


@pytest.fixture
def filled(site, ann):
    """Three batches: documents 1 to 9, half of them match."""
    life.create(site, ann, {"query": "peer", "id": "s"})
    life.create(site, ann, {"query": 'text ~ "peer grid" >= 0.1', "id": "similar"})
    for first in (1, 4, 7):
        bodies = [{"id": str(n), "text": "peer" if n % 2 else "grid"} for n in range(first, first + 3)]
        intake.publish(site, ann, bodies)
        site.pipeline.catch_up()
    return site


def told(site, ann, id: str = "s") -> list[str]:
    items = reading.notifications(site, ann, limit=1_000).items
    return [item.notifications[0].document for item in items if item.subscription == id]


def test_a_whole_log_is_proved(filled, ann):
    report = audit.run(filled)
    assert report["complete"]
    assert (report["matched"], report["batches"], report["looked_at"], report["missing"]) == (9, 3, 9, 0)
    assert report["unprovable"] == 1
    assert told(filled, ann) == ["1", "3", "5", "7", "9"]


def test_documents_that_wait_are_no_gap(filled, ann):
    intake.publish(filled, ann, [{"id": "10", "text": "peer"}])
    report = audit.run(filled)
    assert report["complete"]
    assert (report["matched"], report["accepted"]) == (9, 10)


def lose(site, *, batch: int | None = None, receipt: int | None = None, rows: tuple[str, ...] = ()) -> None:
    with site.store.write() as transaction:
        if batch is not None:
            transaction.execute(delete(schema.batches).where(schema.batches.c.batch == batch))
        if receipt is not None:
            transaction.execute(delete(schema.receipts).where(schema.receipts.c.batch == receipt))
        for document in rows:
            transaction.execute(delete(schema.notifications).where(schema.notifications.c.document == document))


def test_a_batch_that_is_missing_is_named_and_its_matches_are_made(filled, ann):
    lose(filled, batch=6, receipt=6, rows=("4", "5", "6"))
    report = audit.run(filled)
    assert not report["complete"]
    assert report["gaps"] == [{"first": 3, "last": 6, "reason": "no batch has these documents"}]
    assert report["missing"] == 1
    assert audit.run(filled, fill=True)["complete"]
    assert sorted(told(filled, ann)) == ["1", "3", "5", "7", "9"]
    assert audit.run(filled)["complete"]


def test_a_receipt_that_is_missing_or_too_small_is_named(filled):
    lose(filled, receipt=6)
    assert audit.run(filled)["gaps"] == [{"first": 3, "last": 6, "reason": "the batch left no receipt"}]
    with filled.store.write() as transaction:
        small = update(schema.receipts).where(schema.receipts.c.batch == 9).values(documents=2)
        transaction.execute(small)
    reasons = [gap["reason"] for gap in audit.run(filled)["gaps"]]
    assert reasons == ["the batch left no receipt", "part 0 saw 2 of 3 documents"]
    report = audit.run(filled, fill=True)
    assert (report["complete"], report["filled"]) == (True, 0), "nothing was lost, and now it is proved"


def test_a_row_that_is_missing_is_found_by_matching_again(filled, ann):
    lose(filled, rows=("5",))
    assert audit.run(filled, deep=False)["complete"], "the receipts do not know"
    report = audit.run(filled)
    assert (report["complete"], report["missing"]) == (False, 1)
    assert report["named"][0]["document"] == "5"
    report = audit.run(filled, fill=True)
    assert (report["complete"], report["mended"]) == (True, 1)
    assert told(filled, ann) == ["1", "3", "7", "9", "5"]


def test_a_row_that_should_not_be_there_is_found(filled):
    batch, _ = outbox.begin(filled.store, Batch("other", 1, 0, 9, 0, 0))
    outbox.finish(filled.store, batch, [Found(2, 1, "2", 1, 0.5, None)])
    report = audit.run(filled, fill=True)
    assert (report["complete"], report["false"]) == (False, 1)
    difference = {"account": "ann", "subscription": "s", "document": "2", "version": 1, "what": "false"}
    assert report["named"] == [difference]


def test_what_a_nested_subscription_was_told_is_not_called_false(site, ann):
    """Its sets were other ones then, and an older document may be told because of a later one."""
    intake.publish(site, ann, [{"id": "old", "author": "Ada"}])
    life.create(site, ann, {"query": "author:IN:(title:zork)", "id": "nested"})
    intake.publish(site, ann, [{"id": "new", "title": "zork", "author": "Ada"}])
    site.pipeline.catch_up()
    with site.store.read() as transaction:
        number = transaction.execute(select(schema.revisions.c.number)).scalar_one()
    batch, _ = outbox.begin(site.store, Batch("other", 1, 0, 2, 0, 0))
    outbox.finish(site.store, batch, [Found(1, number, "old", 1, 0.0, None)])  # as the stream tells it
    report = audit.run(site)
    assert (report["complete"], report["false"], report["missing"], report["unprovable"]) == (True, 0, 0, 1)


def test_deleted_documents_are_proved_by_their_receipts(filled, ann):
    intake.delete(filled, ann, "5")
    report = audit.run(filled)
    assert (report["complete"], report["erased"], report["looked_at"]) == (True, 1, 8)
