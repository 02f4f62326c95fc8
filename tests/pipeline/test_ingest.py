"""Sources of documents: what a folder or a generator brings is in the store once, and what is bad is kept apart."""

from __future__ import annotations

import gzip
import json

import pytest

from tocsin.errors import InputError
from tocsin.pipeline.ingest import Folder, Generated, Ingest
from tocsin.sim.scholarly import papers
from tocsin.store import Store, documents, outbox


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store")
    yield store
    store.close()


def ids(store) -> list[str]:
    return [row.id for rows in documents.read(store, 0, documents.last_position(store)) for row in rows]


def lines(*found: object) -> str:
    return "".join(json.dumps(one) + "\n" for one in found)


def test_files_that_appear_are_read_once_whatever_their_kind(store, tmp_path, spark):
    watched = tmp_path / "in"
    watched.mkdir()
    (watched / "a b%20.jsonl").write_text(lines({"id": "a1", "text": "peer"}, {"id": "a2"}) + "no json\n")
    (watched / "c.csv").write_text("id,year\nc1,2004\nc2,\n")
    ingest = Ingest(store, tmp_path / "p", spark, Folder("papers", watched))
    ingest.start()
    ingest.catch_up()
    with gzip.open(watched / "d.jsonl.gz", "wt") as file:
        file.write(lines({"id": "d1", "text": "grid"}, {"id": "a1", "text": "other"}))
    (watched / "e.xml").write_text("<papers><paper id=")
    ingest.catch_up()
    assert sorted(ids(store)) == ["a1", "a2", "c1", "c2", "d1"]
    assert ingest.accepted == 5
    letters = {letter.place.rpartition("/")[2]: letter.reason for letter in outbox.letters(store)}
    assert sorted(letters) == ["a b%20.jsonl:3", "d.jsonl.gz:2", *(place for place in letters if "e.xml" in place)]
    assert len(letters) == 3
    assert "invalid JSON" in letters["a b%20.jsonl:3"]
    assert "other content" in letters["d.jsonl.gz:2"]
    ingest.stop()
    again = Ingest(store, tmp_path / "p", spark, Folder("papers", watched))
    again.start()
    again.catch_up()
    again.stop()
    assert (again.accepted, again.refused) == (0, 0)
    assert documents.last_position(store) == 5


def test_a_folder_that_is_not_there_is_named(store, tmp_path, spark):
    ingest = Ingest(store, tmp_path / "p", spark, Folder("papers", tmp_path / "nothing"))
    with pytest.raises(InputError, match="nothing"):
        ingest.start()


def test_generated_papers_keep_coming_and_are_those_of_the_seed(store, tmp_path, spark):
    ingest = Ingest(store, tmp_path / "p", spark, Generated("demo", documents_per_second=20, seed=3))
    ingest.start()
    while ingest.accepted < 30:
        assert ingest.is_running, ingest.failure()
    ingest.stop()
    found = ids(store)
    assert found == [paper.id for paper in papers(3, len(found))]


def test_a_large_file_arrives_in_chunks_of_which_each_is_written_once(store, tmp_path, spark):
    watched = tmp_path / "in"
    watched.mkdir()
    (watched / "many.jsonl").write_text(lines(*({"id": f"d{n}"} for n in range(1_000))))
    ingest = Ingest(store, tmp_path / "p", spark, Folder("many", watched), chunk_documents_max=64)
    ingest.start()
    ingest.catch_up()
    ingest.stop()
    assert ids(store) == [f"d{n}" for n in range(1_000)]
    frame = spark.createDataFrame([(str(watched / "many.jsonl"), 0)], ["path", "modificationTime"])
    ingest._run(frame, 0)  # the same batch again, as after a crash
    assert (ingest.accepted, ingest.refused) == (1_000, 0)
