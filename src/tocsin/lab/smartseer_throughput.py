"""SmartSeer §V, the deployment: documents a day with 96,000 queries, by join; and how long it takes to insert a query.

The paper ran on 20 nodes of PlanetLab, where the network counts too. Here both sides of every conversation run on one
core, through the codec; times are processor time, so this is what the machine does, not what a network would add.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.smartseer_scene import METADATA, NAMES, Scene, news
from tocsin.match.rendezvous.conversation import DocumentSide, QuerySide, converse
from tocsin.match.rendezvous.notification import Notification, Ring, plan
from tocsin.match.rendezvous.payload import Join
from tocsin.match.rendezvous.registered import Registered, register
from tocsin.query.parse import parse
from tocsin.query.semantics import Knowledge
from tocsin.text import Analysis

NODES = 20
DAY_SECONDS = 86_400
PAPERS = {Join.SEND_DOCUMENT: 66_886, Join.DIALOGUE: 78_728, Join.BLOOM_DIALOGUE: 81_430}
INSERT_SECONDS_MAX = 0.010


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the experiment is."""

    queries: int
    documents: int


SCALES = {"small": Scale(10_000, 10), "paper": Scale(96_000, 100)}


def run(scale: str, seed: int) -> Result:
    """Inserts all queries, then lets documents meet them in each way."""
    size = SCALES[scale]
    notes = Notes(seed)
    scene = news(seed, size.documents, queries=size.queries)
    kept, inserts = _insert(scene)
    inserts.sort()
    p99 = inserts[int(0.99 * len(inserts))]
    notes.add("insert", "register", size.queries, p99_ms=1_000 * p99, mean_ms=1_000 * sum(inserts) / len(inserts))
    for join in PAPERS:
        seconds = _meet(scene, kept, join) / size.documents
        notes.add("throughput", NAMES[join], size.queries, documents_per_day=DAY_SECONDS / seconds)
    panels = [Panel("throughput", "documents_per_day", "documents a day, one core", "queries", "documents")]
    about = {"queries": size.queries, "documents": size.documents, "nodes": NODES, "notification": "clustered"}
    return Result(claims(notes, p99, scale), notes.rows, lambda path: draw(notes, panels, path), about)


def _insert(scene: Scene) -> tuple[dict[str, list[Registered]], list[float]]:
    kept: dict[str, list[Registered]] = defaultdict(list)
    times = []
    for number, text in enumerate(scene.texts):
        start = time.thread_time()
        registered = register(f"q{number}", parse(text), Analysis(), METADATA)
        anchor = min(text.split(), key=lambda word: (scene.frequency[scene.ranks[word]], word))
        kept[anchor].append(registered)
        times.append(time.thread_time() - start)
    return kept, times


def _meet(scene: Scene, kept: dict[str, list[Registered]], join: Join) -> float:
    ring = Ring(NODES)
    documents = [side.document for side in scene.sides]
    start = time.thread_time()
    for document in documents:
        side = DocumentSide(document, Knowledge(), scene.filter_bits)
        words = scene.words(side)
        for visit in plan(Notification.CLUSTERED, join, words, ring.owner, ring.nodes).visits:
            queries = [each for key in visit.words for each in kept.get(key.word, ())]
            converse(side, QuerySide(queries, Knowledge()), join, visit.words)
    return time.thread_time() - start


def claims(notes: Notes, p99: float, scale: str) -> list[Claim]:
    """The deployment's numbers."""
    found = {join: next(iter(notes.of("throughput", NAMES[join], "documents_per_day").values())) for join in PAPERS}
    is_paper = scale == "paper"
    best = max(found.values())
    return [
        Claim(
            "More documents a day than the deployment's best, on one core",
            ", ".join(f"{NAMES[join]} {count:,}" for join, count in PAPERS.items()) + " a day, on 20 nodes",
            ", ".join(f"{NAMES[join]} {count:,.0f}" for join, count in found.items()),
            best > max(PAPERS.values()) if is_paper else None,
        ),
        Claim(
            "Bloom Filter > Term Dialogue > Send Document",
            "81,430 > 78,728 > 66,886",
            " > ".join(NAMES[join] for join in sorted(found, key=lambda join: -found[join]))
            + "; only processor time is measured here: what a join saves between machines is not seen, only what it "
            "computes",
            (found[Join.BLOOM_DIALOGUE] > found[Join.DIALOGUE] > found[Join.SEND_DOCUMENT]) if is_paper else None,
        ),
        Claim(
            "A query is inserted in milliseconds",
            "query insertion takes milliseconds",
            f"99 % within {1_000 * p99:.2f} ms, without the network",
            p99 < INSERT_SECONDS_MAX,
        ),
    ]
