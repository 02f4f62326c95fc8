"""Relations and views in a store, on either database: steps, rows, what is told, and matches as events."""

from __future__ import annotations

import pytest

from tests.store.scenes import doc, matched
from tests.store.test_upgrade import old_store
from tocsin.site import accounts, life, reading
from tocsin.site.site import Site
from tocsin.store import Store, documents, relations
from tocsin.store.backup import back_up, restore
from tocsin.store.relations import OutOfStep

SQL = """CREATE RELATION q (tick BIGINT, k TEXT, x BIGINT);
CREATE VIEW top AS SELECT k, max(x) AS x FROM q GROUP BY k;
CREATE VIEW n AS SELECT subscription, count(*) AS n FROM matches GROUP BY subscription"""


def test_a_site_works_on_either_database(place, tmp_path):
    store = Store(place("one"))
    site = Site(store)
    ann = accounts.create(store, "ann", "publisher")
    assert len(site.views.create(ann, SQL).made) == 3
    life.create(site, ann, {"view": "top", "id": "t"})
    life.create(site, ann, {"view": {"name": "n", "when": "n > 1"}, "id": "w"})
    life.create(site, ann, {"query": "peer", "id": "p"})
    lines = [b'{"relation": "q", "tick": %d, "k": "k%d", "x": %d}' % (at, at % 3, at) for at in range(1, 8)]
    assert site.views.publish([*lines, b'{"relation": "q", "silent": [9, 12]}', lines[0]]) == [None] * 9
    documents.accept(store, [doc("a"), doc("b")], "ann")
    with store.read() as transaction:
        revision = max(transaction.exec_driver_sql("SELECT number FROM revisions WHERE query = 'peer'").scalars())
    matched(store, (1, revision, "a"), (2, revision, "b"))
    site.views.settle()
    told = [reading.as_json(item) for item in reading.notifications(site, ann).items]
    assert sorted(one["subscription"] for one in told) == ["p", "p", "t", "t", "t", "w"]
    back_up(store, tmp_path / "copy")
    other = Store(place("two"))
    restore(other, tmp_path / "copy")
    again = Site(other).views
    for name in ("top", "n"):
        assert again.rows(ann, name, 10)[1] == site.views.rows(ann, name, 10)[1]
    assert again.publish([b'{"relation": "q", "tick": 10, "k": "x", "x": 1}'])[0] is not None, "it is silent"
    again.drop(ann, "top")
    again.drop(ann, "q")
    with other.read() as transaction:
        assert relations.count_events(transaction) == 0
    store.close()
    other.close()


def test_only_one_takes_the_next_step(place):
    store = Store(place("one"))
    with store.write() as transaction:
        assert relations.take_step(transaction, 0) == 1
    with pytest.raises(OutOfStep), store.write() as transaction:
        relations.take_step(transaction, 0)
    store.close()


def test_a_store_of_an_earlier_format_gets_views(place):
    old_store(place("old"))
    store = Store(place("old"))
    site = Site(store)
    ann = accounts.create(store, "eve", "publisher")
    assert len(site.views.create(ann, SQL).made) == 3
    life.create(site, ann, {"view": "top"})
    assert site.views.publish([b'{"relation": "q", "tick": 1, "k": "a", "x": 1}']) == [None]
    store.close()
