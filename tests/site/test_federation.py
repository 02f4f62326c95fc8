"""Two sites in one process, each a node: what one publishes, the other's subscribers are told, as the oracle says."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.site.federated import sites, until
from tocsin.model import Document
from tocsin.overlay.placement.cover import cover
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge, holds
from tocsin.site import intake, life
from tocsin.site.federation import JOB
from tocsin.store import documents, outbox
from tocsin.text import Analysis

QUERIES = {
    "words": "title:kestrel AND NOT abstract:seed",
    "either": "title:ring OR abstract:ring",
    "similar": 'title ~ "kestrel over water" >= 0.3',
    "range": "year >= 2020",
    "nested": "author:IN:(title:networks AND author:Bob)",
}


def paper(number: int) -> dict[str, object]:
    words = ["kestrel", "ring", "water", "networks", "seed"]
    chosen = [word for place, word in enumerate(words) if number >> place & 1]
    author = ["Bob", "Carol"] if number % 5 == 0 else ["Carol" if number % 2 else "Dan"]
    return {
        "id": f"d{number}", "title": " ".join(chosen) or "none", "abstract": " ".join(chosen[::-2]),
        "year": 2000 + number, "author": author,
    }  # fmt: skip


def test_what_one_site_publishes_the_subscribers_of_the_other_are_told_once(tmp_path):
    with sites(tmp_path, 2) as (home, away):
        here, ann, there, bob = home.site, home.account, away.site, away.account
        for name, query in QUERIES.items():
            life.create(here, ann, {"id": name, "query": query})
        life.create(here, ann, {"id": "path", "xpath": "//title"})
        until(lambda: home.standing() == len(QUERIES) + 2)  # with the inner query of the nested one
        papers = [paper(number) for number in range(24)]
        intake.publish(there, bob, papers[:16])
        intake.publish(here, ann, papers[16:])
        published = [Document(str(one["id"]), {k: _values(v) for k, v in one.items() if k != "id"}) for one in papers]
        knowledge = Knowledge(documents=published)
        exact = ("words", "either", "range")
        expected = {
            (name, one.id, 1) for name in exact for one in published if holds(parse(QUERIES[name]), one, knowledge)
        }  # fmt: skip
        needed = {one.id for one in published[:16] if holds(parse(QUERIES["nested"]), one, knowledge)}
        needed |= {one.id for one in published[:16] if holds(parse("title:networks AND author:Bob"), one, knowledge)}
        until(lambda: expected <= set(home.told()))
        until(lambda: all(documents.find(here.store, id) is not None for id in needed))
        time.sleep(0.5)
        found = home.told()
        assert len(found) == len(set(found))
        assert {one for one in found if one[0] in exact} == expected
        titles = {str(one["id"]): str(one["title"]).split() for one in papers}
        assert all({"kestrel", "over", "water"} & set(titles[id]) for name, id, _ in found if name == "similar")
        assert any(name == "similar" for name, _, _ in found)
        assert any(name == "path" for name, _, _ in found) is False  # none of these has XML
        assert away.told() == []
        assert documents.count(there.store) == 16  # what came from here stayed here: nobody asked for it there


def _values(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


def test_pausing_changing_and_deleting_reach_the_ring(tmp_path):
    """X2, across sites: no copy stays, and what was told before stays told."""
    with sites(tmp_path, 2) as (home, away):
        here, ring, ann, there, bob = home.site, home.federation, home.account, away.site, away.account
        life.create(here, ann, {"id": "s", "query": "title:kestrel"})
        until(lambda: home.standing() == 1)
        intake.publish(there, bob, [{"id": "one", "title": "kestrel"}])
        until(lambda: home.told() == [("s", "one", 1)])
        life.edit(here, ann, "s", {"state": "paused"})
        until(lambda: not ring._ask(lambda: ring._words.subscriber._records))
        intake.publish(there, bob, [{"id": "two", "title": "kestrel"}])
        life.edit(here, ann, "s", {"state": "active", "query": "title:osprey"})
        until(lambda: home.standing() == 1)
        intake.publish(there, bob, [{"id": "three", "title": "osprey"}, {"id": "four", "title": "kestrel"}])
        intake.publish(there, bob, [{"id": "three", "title": "osprey again", "version": 2}])
        until(lambda: home.told() == [("s", "one", 1), ("s", "three", 1), ("s", "three", 2)])
        life.edit(here, ann, "s", {"expires": time.time() + 1.0})
        until(lambda: not ring._ask(lambda: ring._words.subscriber._records))  # it has expired
        life.edit(here, ann, "s", {"expires": None, "state": "active"})
        until(lambda: home.standing() == 1)
        life.delete(here, ann, "s")
        until(lambda: not ring._ask(lambda: ring._words.subscriber._records))
        intake.delete(there, bob, "three")
        until(lambda: "three" not in there.federation._ask(lambda: there.federation._words.publisher.documents))  # type: ignore[union-attr]


def test_another_document_of_the_same_name_is_refused_and_kept_among_the_letters(tmp_path):
    with sites(tmp_path, 2) as (home, away):
        here, ann, there, bob = home.site, home.account, away.site, away.account
        intake.publish(here, ann, [{"id": "same", "title": "mine"}])
        life.create(here, ann, {"id": "s", "query": "title:theirs"})
        until(lambda: home.standing() == 1)
        intake.publish(there, bob, [{"id": "same", "title": "theirs"}])
        until(lambda: bool(outbox.letters(here.store, JOB)))
        (letter,) = outbox.letters(here.store, JOB)
        assert "other content" in letter.reason
        assert home.told() == []


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("title:a AND b", "title:a AND b"),
        ('title ~ "some words" >= 0.5', 'title:"some" OR title:"words"'),
        ('title ~ "some-words here" >= 0.5', "title:*"),
        ('title ~ "x" >= 0', "id:*"),
        ('a AND NOT title ~ "x" >= 0.5', "a AND id:*"),
        ('NOT (a OR title ~ "x" >= 0.5)', "NOT a AND id:*"),
        ("a OR author:IN:(b)", "a OR author:*"),
    ],
)
def test_a_cover_is_plain(text, covered):
    assert cover(parse(text), Analysis()) == parse(covered)
