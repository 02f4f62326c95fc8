"""`POST preview`: the route, over the index of documents and over a pipeline whose preview is the oracle's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.web.serving import NDJSON, Serving, error_of, lines, serving
from tocsin import Analysis, Knowledge, Statistics, holds, parse
from tocsin.pipeline.preview import Preview, Sighting
from tocsin.site.local import LocalPipeline
from tocsin.store import documents


class Remembering(LocalPipeline):
    """Looks back as the Spark pipeline does, by the oracle alone."""

    def preview(self, asked, period):
        since, until = period
        last = documents.last_position(self._store)
        past = documents.read(self._store, 0, last, since=since, until=until)
        query = parse(asked.query)
        found = [one for chunk in past for one in chunk if holds(query, one.document(), Knowledge(Analysis()))]
        days = Counter(datetime.fromtimestamp(one.moment, UTC).date().isoformat() for one in found)
        sample = [Sighting(one.id, one.version, one.moment, 0.5, {}) for one in reversed(found[-10:])]
        return Preview(len(found), sorted(days.items()), sample, [(one.id, one.version) for one in found])


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("site"), pipeline=Remembering) as found:
        body = lines(*({"id": f"d{n}", "t": "peer" if n % 2 else "grid", "time": f"2026-11-{n:02}T12:00:00Z"}
                       for n in range(1, 21)))  # fmt: skip
        assert found.client().post("documents", content=body, headers=NDJSON).json()["accepted"] == 20
        yield found


@pytest.mark.parametrize(
    ("bounds", "days"),
    [
        ({}, range(1, 21, 2)),
        ({"since": "2026-11-05"}, range(5, 21, 2)),
        ({"until": "2026-11-05"}, range(1, 6, 2)),
        ({"since": "2026-11-05T12:00:00Z", "until": "2026-11-09T12:00:00Z"}, range(5, 10, 2)),
        ({"since": "2026-11-05T12:00:01Z", "until": "2026-11-09T11:59:59Z"}, range(7, 9, 2)),
        ({"since": None, "until": None}, range(1, 21, 2)),
        ({"since": "2030-01-01"}, range(0)),
    ],
)
def test_a_preview_counts_by_day(served, bounds, days):
    found = served.client("subscriber-1").post("preview", json={"query": "peer"} | bounds)
    assert found.status_code == 200
    assert found.json()["total"] == len(days)
    assert found.json()["per_day"] == [{"day": f"2026-11-{n:02}", "count": 1} for n in days]
    newest = [f"d{n}" for n in reversed(days)][:10]
    assert [one["document"] for one in found.json()["sample"]] == newest


@pytest.mark.parametrize(
    "query", ["peer", "grid OR peer", "NOT peer", "id:d1*", 't ~ "peer" >= 0.5', "t:peer year:[1 TO 2]"]
)
def test_a_preview_is_what_the_oracle_finds_whether_the_index_has_caught_up_or_not(served, query):
    store, analysis = served.site.store, Analysis()
    current = [one for chunk in documents.read(store, 0, documents.last_position(store)) for one in chunk]
    knowledge = Knowledge(analysis, Statistics.of([one.document() for one in current], analysis))
    expected = [one.id for one in current if holds(parse(query), one.document(), knowledge)]
    found = served.client("subscriber-1").post("preview", json={"query": query}).json()
    assert found["total"] == len(expected) == sum(day["count"] for day in found["per_day"])
    assert [one["document"] for one in found["sample"]] == expected[::-1][:10]
    assert served.client("subscriber-1").post("preview", json={"query": query, "xpath": "/x"}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": "("},
        {"query": "x", "since": "yesterday"},
        {"query": "x", "until": 7},
        {"query": "x", "k": 1},
        {"query": "x", "since": "2026-11-06", "until": "2026-11-05"},
    ],
)
def test_a_bad_preview_is_refused(served, body):
    error_of(served.client().post("preview", json=body), 422)
