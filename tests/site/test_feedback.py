"""Relevance feedback: a thumb moves a subscription's text, visibly, reversibly, and only its own account's."""

from __future__ import annotations

import gzip
import json
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tocsin.query import Knowledge, holds, parse
from tocsin.query.vector import attached, from_text, weighed
from tocsin.site import feedback, intake, life, reading
from tocsin.site.feedback import Given
from tocsin.site.life import Made
from tocsin.site.problems import Conflict, Invalid, NotFound
from tocsin.store import documents, journal, subscriptions, thumbs
from tocsin.text import Analysis

QUERY = 'text ~ "jaguar" >= 0.15'
TEXTS = {
    "cat": "the jaguar is a large cat of the forest and hunts at night",
    "car": "the jaguar is a fast car with a large engine for the road",
    "paw": "a jaguar cat leaves marks of its paw in the forest",
    "engine": "the engine of the jaguar car drinks petrol on the road",
    "bird": "a bird sings in the forest",
    "tax": "taxes are due in spring",
}


@pytest.fixture
def zoo(site, ann, bob):
    """Two subscriptions to jaguars, one of which learns, and six documents."""
    for id, more in (("learns", {"feedback": True}), ("stays", {})):
        life.create(site, bob, {"id": id, "query": QUERY, **more})
    publish(site, ann, TEXTS)
    assert told(site, bob, "learns") == ["cat", "car", "paw", "engine"] == told(site, bob, "stays")
    return site


def publish(site, account, texts) -> None:
    given = [{"id": id, "text": text} for id, text in texts.items()]
    assert intake.publish(site, account, given).accepted == len(given)


def told(site, account, id) -> list[str]:
    site.pipeline.catch_up()
    found = reading.notifications(site, account, limit=1_000).items
    return [one.document for item in found for one in item.notifications if item.subscription == id]


def rate(site, account, document, thumb, *, id="learns", version=None):
    return feedback.rate(site, account, id, feedback.given({"document": document, "thumb": thumb, "version": version}))


def words(kept) -> dict[str, float]:
    return from_text(kept.asked.moved).get(("text", "jaguar"), {})


# --- what a thumb does -----------------------------------------------------------------------------------------------


def test_thumbs_move_the_text_for_the_documents_that_come_then(zoo, ann, bob):
    rate(zoo, bob, "cat", "up")
    kept = rate(zoo, bob, "car", "down")
    assert {"jaguar", "cat", "forest"} < words(kept).keys()
    assert "car" not in words(kept)  # below zero, and dropped
    publish(
        zoo, ann, {"lynx": "the lynx is a cat that hunts in the forest at night", "motor": "the road and the engine"}
    )
    assert told(zoo, bob, "learns") == ["cat", "car", "paw", "engine", "lynx"]  # what was told is not told again
    assert told(zoo, bob, "stays") == ["cat", "car", "paw", "engine"]


def test_what_is_told_after_thumbs_is_what_the_oracle_says(site, ann, bob):
    """Random thumbs over random documents; the vector and the statistics are those that are shown."""
    rng = random.Random(5)
    vocabulary = [f"w{number}" for number in range(30)]
    make = lambda start: {  # noqa: E731
        f"d{number}": " ".join(rng.choices(vocabulary, k=rng.randint(1, 20))) for number in range(start, start + 40)
    }
    query = '(text ~ "w1 w2 w3" >= 0.25 OR text ~ "w4" >= 0.3) AND NOT text ~ "w5 w6" >= 0.6'
    life.create(site, bob, {"id": "learns", "query": query, "feedback": True})
    publish(site, ann, make(0))
    seen = set(told(site, bob, "learns"))
    for turn in range(1, 5):
        for document in rng.sample(sorted(seen), min(5, len(seen))):
            rate(site, bob, document, rng.choice(["up", "down", None]))
        kept = life.get(site, bob, "learns")
        new = make(40 * turn)
        publish(site, ann, new)
        now = set(told(site, bob, "learns")) - seen
        tree = attached(parse(query), from_text(kept.asked.moved))
        knowledge = Knowledge(Analysis(), site.pipeline.statistics())
        stored = [one.document() for id in new if (one := documents.find(site.store, id)) is not None]
        assert len(stored) == len(new)
        assert now == {one.id for one in stored if holds(tree, one, knowledge)}
        seen |= now
    assert from_text(kept.asked.moved).keys() == {("text", "w1 w2 w3"), ("text", "w4")}
    assert len(seen) > 40


def test_the_order_of_thumbs_does_not_matter_and_taking_back_undoes(zoo, bob):
    given = [("cat", "up"), ("car", "down"), ("paw", "up"), ("engine", "down")]
    found = set()
    for seed in range(4):
        for document, thumb in random.Random(seed).sample(given, 4):
            kept = rate(zoo, bob, document, thumb)
        found.add(kept.asked.moved)
        rate(zoo, bob, "paw", "down")
        rate(zoo, bob, "paw", "up")
        assert life.get(zoo, bob, "learns").asked.moved == kept.asked.moved
        for document, _ in given:
            kept = rate(zoo, bob, document, None)
        assert kept.asked.moved is None
        assert thumbs.of(zoo.store, kept.number) == []
    assert len(found) == 1


def test_a_thumb_is_a_revision_and_the_same_one_again_is_none(zoo, bob):
    first = life.get(zoo, bob, "learns")
    second = rate(zoo, bob, "cat", "up")
    assert second.revision == first.revision + 1
    assert rate(zoo, bob, "cat", "up") == second
    assert rate(zoo, bob, "car", None) == second
    with zoo.store.read() as transaction:
        rows = transaction.execute(subscriptions.revisions.select()).all()
    moved = {row.revision: row.moved for row in rows if row.subscription == first.number}
    assert moved == {first.revision: None, second.revision: second.asked.moved}  # what each compared with is kept
    entry = next(entry for entry in journal.read(zoo.store, "bob") if entry.action == "thumb")
    statistics = zoo.pipeline.statistics().version
    assert entry.detail == {"document": "cat", "version": 1, "thumb": "up", "statistics": statistics}


def test_thumbs_at_the_same_time_all_count(zoo, bob):
    given = [("cat", "up"), ("car", "down"), ("paw", "up"), ("engine", "down")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: rate(zoo, bob, *one), given))
    together = life.get(zoo, bob, "learns")
    assert len(thumbs.of(zoo.store, together.number)) == 4
    rate(zoo, bob, "cat", None)
    assert rate(zoo, bob, "cat", "up").asked.moved == together.asked.moved


def test_a_document_that_was_deleted_moves_nothing_any_more(zoo, bob):
    only = rate(zoo, bob, "paw", "up").asked.moved
    rate(zoo, bob, "cat", "up")
    documents.delete(zoo.store, "cat")
    rate(zoo, bob, "car", "down")
    assert rate(zoo, bob, "car", None).asked.moved == only


def test_a_paused_subscription_is_moved_for_when_it_resumes(zoo, ann, bob):
    life.pause(zoo, bob, "learns")
    rate(zoo, bob, "cat", "up")
    life.resume(zoo, bob, "learns")
    publish(zoo, ann, {"lynx": "the lynx is a cat that hunts in the forest at night"})
    assert "lynx" in told(zoo, bob, "learns")


# --- with the subscription -------------------------------------------------------------------------------------------


def test_what_was_learnt_is_shown(zoo, bob):
    assert life.as_json(life.get(zoo, bob, "learns"))["feedback"] is True
    assert "feedback" not in life.as_json(life.get(zoo, bob, "stays"))
    assert feedback.as_json(zoo, life.get(zoo, bob, "stays")) is None
    kept = rate(zoo, bob, "cat", "up")
    shown = feedback.as_json(zoo, kept)
    assert shown is not None
    assert shown["thumbs"] == [{"document": "cat", "version": 1, "thumb": "up"}]
    (text,) = shown["texts"]
    assert (text["field"], text["text"]) == ("text", "jaguar")
    assert {row["word"]: row["factor"] for row in text["words"]} == words(kept)
    weights = [row["weight"] for row in text["words"]]
    assert weights == sorted(weights, reverse=True)
    assert sum(weight**2 for weight in weights) == pytest.approx(1, abs=1e-3)
    assert shown["statistics"] == zoo.pipeline.statistics().version
    vector = weighed(words(kept), zoo.pipeline.statistics())
    assert vector.length == pytest.approx(1)


def test_an_edited_query_is_moved_by_the_same_thumbs(zoo, bob):
    moved = rate(zoo, bob, "cat", "up").asked.moved
    threshold = life.edit(zoo, bob, "learns", {"query": 'text ~ "jaguar" >= 0.5'}).kept
    assert threshold.asked.moved == moved
    other = life.edit(zoo, bob, "learns", {"query": 'text ~ "animal" >= 0.1'}).kept
    assert from_text(other.asked.moved).keys() == {("text", "animal")}
    assert "forest" in from_text(other.asked.moved)["text", "animal"]
    assert life.edit(zoo, bob, "learns", {"query": QUERY}).kept.asked.moved == moved
    renamed = life.edit(zoo, bob, "learns", {"name": "Cats", "query": QUERY}).kept
    assert renamed.asked.moved == moved


def test_feedback_can_be_turned_off_and_on_again(zoo, bob):
    moved = rate(zoo, bob, "cat", "up").asked.moved
    off = life.edit(zoo, bob, "learns", {"feedback": False}).kept
    assert off.asked.moved is None
    with pytest.raises(Conflict, match="takes no thumbs"):
        rate(zoo, bob, "car", "down")
    assert life.edit(zoo, bob, "learns", {"feedback": True}).kept.asked.moved == moved


def test_what_was_learnt_is_exported_and_comes_back(zoo, ann, bob):
    rate(zoo, bob, "cat", "up")
    kept = rate(zoo, bob, "car", "down")
    bodies = json.loads(json.dumps(list(life.export(zoo, bob))))
    assert all(isinstance(one, Made) for one in life.restore(zoo, ann, bodies))
    again = life.get(zoo, ann, "learns")
    assert again.asked == kept.asked
    assert thumbs.of(zoo.store, again.number) == thumbs.of(zoo.store, kept.number)
    assert life.get(zoo, ann, "stays").asked.moved is None
    publish(zoo, ann, {"lynx": "the lynx is a cat that hunts in the forest at night"})
    assert told(zoo, ann, "learns") == ["lynx"]


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_thumb_is_for_what_the_own_subscription_has_told(zoo, ann, bob):
    with pytest.raises(NotFound):
        rate(zoo, ann, "cat", "up")  # another account's
    with pytest.raises(NotFound, match="not told"):
        rate(zoo, bob, "tax", "up")
    with pytest.raises(NotFound, match="not told"):
        rate(zoo, bob, "cat", "up", version=2)
    with pytest.raises(NotFound):
        rate(zoo, bob, "cat", "up", id="none")
    with pytest.raises(Conflict, match="takes no thumbs"):
        rate(zoo, bob, "cat", "up", id="stays")
    assert thumbs.of(zoo.store, life.get(zoo, bob, "learns").number) == []


def test_thumbs_are_not_without_number(zoo, bob):
    from dataclasses import replace

    zoo.settings = replace(zoo.settings, thumbs_max=1)
    rate(zoo, bob, "cat", "up")
    with pytest.raises(Conflict, match="at most 1"):
        rate(zoo, bob, "paw", "up")
    assert words(rate(zoo, bob, "cat", "down"))  # another opinion of the same is no more


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"thumb": "up"},
        {"document": "cat"},
        {"document": "", "thumb": "up"},
        {"document": 7, "thumb": "up"},
        {"document": "a\0", "thumb": "up"},
        {"document": "cat", "thumb": "sideways"},
        {"document": "cat", "thumb": "up", "version": 0},
        {"document": "cat", "thumb": "up", "version": True},
        {"document": "cat", "thumb": "up", "version": 2**63},
        {"document": "cat", "thumb": "up", "weight": 3},
    ],
)
def test_a_bad_thumb_is_named(body):
    with pytest.raises(Invalid):
        feedback.given(body)
    assert feedback.given({"document": "cat", "thumb": None}) == Given("cat", None, None)


@pytest.mark.parametrize(
    "value",
    [
        "yes",
        1,
        {"thumb": []},
        {"thumbs": "cat"},
        {"thumbs": [{"document": "cat", "version": 1, "thumb": "none"}]},
        {"thumbs": [{"document": "cat", "version": 0, "thumb": "up"}]},
        {"texts": [{"field": "text", "text": "jaguar", "words": [{"word": "cat", "factor": -1}]}]},
        {"texts": [{"field": "text", "text": "jaguar", "words": [{"word": "cat", "factor": True}]}]},
        {"texts": [{"field": "text", "text": "jaguar", "words": [{"word": "cat"}]}]},
        {"texts": [{"field": "text", "text": "jaguar", "words": [{"word": f"w{n}", "factor": 1} for n in range(101)]}]},
        {"texts": [7]},
    ],
)
def test_bad_feedback_is_named(site, bob, value):
    with pytest.raises(Invalid) as refused:
        life.create(site, bob, {"query": QUERY, "feedback": value})
    assert refused.value.field == "feedback"


@pytest.mark.parametrize("query", ["peer", 'NOT text ~ "jaguar" >= 0.2 AND peer', 'author:IN:(text ~ "jaguar" >= 0.2)'])
def test_feedback_needs_a_text_to_move(site, bob, query):
    with pytest.raises(Invalid, match="there is none") as refused:
        life.create(site, bob, {"query": query, "feedback": True})
    assert refused.value.field == "feedback"
    life.create(site, bob, {"id": "s", "query": query})
    with pytest.raises(Invalid, match="there is none"):
        life.edit(site, bob, "s", {"feedback": True})
    life.create(site, bob, {"id": "t", "query": QUERY, "feedback": True})
    with pytest.raises(Invalid, match="there is none"):
        life.edit(site, bob, "t", {"query": query})
    assert life.get(site, bob, "t").asked.query == QUERY


# --- does it help? ---------------------------------------------------------------------------------------------------


def test_feedback_finds_more_of_a_topic_and_less_else_on_real_papers(site, ann, bob, data_dir):
    """A vague text, thumbs by the papers' own subjects; then other papers, with and without what was learnt."""
    with gzip.open(data_dir / "scholarly" / "elife_papers.jsonl.gz", "rt") as lines:
        papers = [json.loads(next(lines)) for _ in range(900)]
    papers = [paper for paper in papers if paper.get("abstract")]
    topic = {paper["id"] for paper in papers if "Neuroscience" in paper["subjects"]}
    half = len(papers) // 2
    query = 'abstract ~ "how the activity of cells is controlled" >= 0.06'
    for id, more in (("learns", {"feedback": True}), ("stays", {})):
        life.create(site, bob, {"id": id, "query": query, **more})
    for first, last in ((0, half), (half, len(papers))):
        if first:
            for document in told(site, bob, "learns")[:60]:
                rate(site, bob, document, "up" if document in topic else "down")
        given = [{"id": paper["id"], "abstract": paper["abstract"]} for paper in papers[first:last]]
        assert intake.publish(site, ann, given).accepted == len(given)
        site.pipeline.catch_up()
    later = {paper["id"] for paper in papers[half:]}
    precision, found = {}, {}
    for id in ("learns", "stays"):
        found[id] = [document for document in told(site, bob, id) if document in later]
        precision[id] = sum(document in topic for document in found[id]) / len(found[id])
    assert len(found["learns"]) >= 20
    assert precision["learns"] > 1.3 * precision["stays"], (precision, {id: len(one) for id, one in found.items()})
