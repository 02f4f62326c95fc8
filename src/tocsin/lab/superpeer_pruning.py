"""P2P-DIET §3: what advertisements and the poset of queries save. The paper says that they do, and shows no figure.

Super-peers form a random graph with as many links again as half of them beyond a tree; each has two clients. A client
has a topic: it publishes under two of eight fields, with authors of its own. Queries are conjunctions of one to three
words on a field, frequent words more often (Zipf), so many cover others. One-time queries name a field and a word, or
an author. The same steps run four times: with and without advertisements, with and without the poset.

How much the poset saves depends on how many queries meet at one access point, so that is swept too. Queries are
compared with those of the same access point (`placement.superpeers.poset` says why); the line "of all" shows what would
be forwarded if each were compared with all that there are, as the paper has it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.model import Document
from tocsin.overlay.placement.superpeers.poset import Poset
from tocsin.overlay.placement.superpeers.settings import SuperpeerSettings
from tocsin.query import parse
from tocsin.sim.superpeers import NO_KNOWLEDGE, CalmBackbone, random_graph

FIELDS = ("title", "abstract", "subject", "venue", "editor", "series", "note", "place")
WORDS = 40
VARIANTS = {
    "neither": {"prunes": False, "covers": False},
    "advertisements": {"prunes": True, "covers": False},
    "poset": {"prunes": False, "covers": True},
    "both": {"prunes": True, "covers": True},
}
QUIET = SuperpeerSettings(probe_seconds=500.0, again_seconds=1_000.0)
"""Nothing fails, so nothing is said twice: what is counted is what is needed."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the experiment is."""

    superpeers: tuple[int, ...]
    queries: int
    """Of each client."""
    documents: int
    searches: int
    per_access: tuple[int, ...]
    """Queries of one access point, swept on the smallest graph."""


SCALES = {
    "small": Scale((4, 8, 16), 4, 2, 2, (8, 32, 128)),
    "paper": Scale((8, 16, 32, 64), 10, 5, 5, (10, 30, 100, 300, 1_000)),
}


class Workload:
    """The same for every variant: all chance comes from the seed."""

    def __init__(self, scale: Scale, superpeers: int, seed: int) -> None:
        self.chance = Random(f"superpeer pruning {seed} {superpeers}")
        self.links = random_graph(self.chance, superpeers, superpeers // 2)
        self.clients = {f"c{number}": f"s{number // 2}" for number in range(2 * superpeers)}
        self._fields = {name: self.chance.sample(FIELDS, 2) for name in self.clients}
        rounds = {"queries": scale.queries, "documents": scale.documents, "searches": scale.searches}
        self.queries = [(name, self._query()) for _ in range(rounds["queries"]) for name in self.clients]
        self.documents = [
            (name, self._document(name, number)) for number in range(rounds["documents"]) for name in self.clients
        ]
        self.searches = [(name, self._search()) for _ in range(rounds["searches"]) for name in self.clients]

    def _word(self) -> str:
        return f"w{int(WORDS ** self.chance.random())}"  # falls off like 1/rank

    def _query(self) -> str:
        field = self.chance.choice(FIELDS[:4])
        words = {self._word() for _ in range(self.chance.choice([1, 2, 3]))}
        return " AND ".join(f"{field}:{word}" for word in sorted(words))

    def _document(self, name: str, number: int) -> Document:
        fields = {field: (" ".join(self._word() for _ in range(6)),) for field in self._fields[name]}
        return Document(f"{name}.{number}", {**fields, "author": (f"author {name}",)})

    def _search(self) -> str:
        if self.chance.random() < 0.5:
            return f'author = "author {self.chance.choice(list(self.clients))}"'
        return f"{self.chance.choice(FIELDS)}:{self._word()}"


def play(workload: Workload, changes: dict[str, Any]) -> dict[str, Any]:
    """One variant: what was sent, and what was heard and found."""
    settings = replace(QUIET, **changes)
    backbone = CalmBackbone(workload.links, workload.clients, settings=settings)
    spent: dict[str, Counter[str]] = {}
    for number, (name, text) in enumerate(workload.queries):
        backbone.subscribe(name, number, text)
    spent["queries"] = backbone.spent()
    for name, document in workload.documents:
        backbone.publish(name, document)
    spent["documents"] = backbone.spent()
    found = [sorted(one.id for one in backbone.search(name, text).documents) for name, text in workload.searches]
    spent["searches"] = backbone.spent()
    kept = sum(len(backbone.superpeer(one).filtering.poset.forwarded()) for one in workload.links)
    return {
        "forwarded": kept, "forwards": spent["queries"]["Forward"], "questions": spent["searches"]["Question"],
        "answers": spent["searches"]["Answers"],
        "messages": sum(sum(one.values()) for one in spent.values()),
        "heard": sorted((who, one.subscription, one.document) for who, one, _ in backbone.notices()), "found": found,
    }  # fmt: skip


def forwarded(number: int, scale: Scale, seed: int) -> Notes:
    """Which queries are forwarded, if so many are at an access point."""
    notes = Notes(seed)
    workload = Workload(replace(scale, queries=number // 2), scale.superpeers[0], seed)
    own = {place: Poset(NO_KNOWLEDGE.analysis) for place in workload.links}
    common = Poset(NO_KNOWLEDGE.analysis)
    for id, (name, text) in enumerate(workload.queries):
        query = parse(text)
        own[workload.clients[name]].add(str(id), query)
        common.add(str(id), query)
    total = len(workload.queries)
    sent = sum(len(one.forwarded()) for one in own.values())
    notes.add("poset", "of one access point", number, forwarded_share=sent / total)
    notes.add("poset", "of all", number, forwarded_share=len(common.forwarded()) / total)
    return notes


def prune(superpeers: int, scale: Scale, seed: int) -> tuple[Notes, bool]:
    """All variants on so many super-peers; and whether clients heard and found the same in all."""
    notes, workload = Notes(seed), Workload(scale, superpeers, seed)
    results = {variant: play(workload, changes) for variant, changes in VARIANTS.items()}
    for variant, result in results.items():
        notes.add(
            "pruning", variant, superpeers,
            forwarded_share=result["forwarded"] / len(workload.queries),
            forwards_per_query=result["forwards"] / len(workload.queries),
            questions_per_search=result["questions"] / len(workload.searches),
            answers_per_search=result["answers"] / len(workload.searches),
            messages=result["messages"], notices=len(result["heard"]), found=sum(map(len, result["found"])),
        )  # fmt: skip
    first, *rest = [(result["heard"], result["found"]) for result in results.values()]
    return notes, all(one == first for one in rest)


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Counts, and judges the claims."""
    size, notes = SCALES[scale], Notes(seed)
    notes.gather(sweep([partial(forwarded, number, size, seed) for number in size.per_access]))
    found = sweep([partial(prune, superpeers, size, seed) for superpeers in size.superpeers])
    notes.gather(measured for measured, _ in found)
    equal = all(is_same for _, is_same in found)
    panels = [
        Panel("pruning", "forwards_per_query", "continuous queries", "super-peers", "links crossed per query"),
        Panel("pruning", "questions_per_search", "one-time queries", "super-peers", "links crossed per query"),
        Panel("poset", "forwarded_share", "the poset", "queries of an access point", "share that is forwarded"),
    ]
    about = {"superpeers": list(SCALES[scale].superpeers), "clients_per_superpeer": 2, "fields": len(FIELDS)}
    return Result(claims(notes, equal), notes.rows, lambda path: draw(notes, panels, path), about)


def claims(notes: Notes, equal: bool) -> list[Claim]:
    """What the paper says of the two, and what follows."""
    forwards = {one: notes.of("pruning", one, "forwards_per_query") for one in VARIANTS}
    questions = {one: notes.of("pruning", one, "questions_per_search") for one in VARIANTS}
    shares = notes.of("poset", "of one access point", "forwarded_share")
    notices, found = notes.of("pruning", "both", "notices"), notes.of("pruning", "both", "found")
    return [
        Claim(
            "The poset keeps covered queries from being forwarded, the more the more queries meet",
            "it is used to minimize network traffic: no less general query is actually forwarded",
            ", ".join(f"{share:.0%} of {x:.0f} queries" for x, share in shares.items()) + " of an access point",
            all(forwards["poset"][x] < forwards["neither"][x] for x in forwards["neither"])
            and sorted(shares.values(), reverse=True) == list(shares.values()),
        ),
        Claim(
            "Advertisements prune the broadcast of one-time queries",
            "the advertisements present at each super-peer are used to prune broadcasting paths",
            ", ".join(
                f"{questions['advertisements'][x]:.1f} instead of {questions['neither'][x]:.1f} links "
                f"among {x:.0f} super-peers"
                for x in questions["neither"]
            ),
            all(questions["advertisements"][x] < questions["neither"][x] for x in questions["neither"]),
        ),
        Claim(
            "A broadcast crosses each link of the tree once, cycles or not",
            "reverse path forwarding",
            ", ".join(f"{value:.0f} of {x:.0f}" for x, value in questions["neither"].items()),
            all(value == x - 1 for x, value in questions["neither"].items()),
        ),
        Claim(
            "Neither changes what is delivered or found",
            "(implied)",
            f"{sum(notices.values()):,.0f} notices and {sum(found.values()):,.0f} answers, "
            + ("equal in all variants" if equal else "NOT equal"),
            equal and sum(notices.values()) > 0 and sum(found.values()) > 0,
        ),
    ]
