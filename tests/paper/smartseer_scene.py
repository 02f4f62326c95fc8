"""The experiments of SmartSeer §V in small: the lab's scenes, with what the tests ask besides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tocsin import Knowledge
from tocsin.lab import smartseer_scene as lab
from tocsin.lab.smartseer_scene import TRAINING, Pair
from tocsin.match.rendezvous.conversation import QuerySide, converse
from tocsin.match.rendezvous.cost import DocumentFacts, QueryFacts
from tocsin.match.rendezvous.notification import Ring
from tocsin.match.rendezvous.payload import Join
from tocsin.query.normal import Key

__all__ = ["TRAINING", "Pair", "Scene", "measure"]


@dataclass(frozen=True)
class Scene(lab.Scene):
    """A workload: the first 500 documents teach the frequencies of words, the others are measured."""

    seed: int = 1
    measured: int = 20
    filter_bits: int = 1_000

    def df(self, key: Key) -> int:
        return int(self.frequency[self.ranks[key.word]])

    def share(self, key: Key) -> float:
        return self.df(key) / TRAINING

    def by_node(self, nodes: int) -> Iterator[Pair]:
        """Pairs as clustered notification makes them."""
        ring = Ring(nodes)
        for side in self.sides:
            owned: dict[int, list[Key]] = defaultdict(list)
            for key in self.words(side):
                owned[ring.owner(key)].append(key)
            for keys in owned.values():
                if any(key.word in self.lists for key in keys):
                    yield Pair(side, tuple(keys), self.listed(keys))

    def facts(self, pair: Pair) -> tuple[DocumentFacts, QueryFacts]:
        return DocumentFacts.of(pair.side), QueryFacts.of(pair.queries, pair.words, self.share)


def measure(pair: Pair, joins: Sequence[Join]) -> dict[Join, int]:
    """The bytes that each join really takes; the answers must agree."""
    outcomes = {join: converse(pair.side, QuerySide(pair.queries, Knowledge()), join, pair.words) for join in joins}
    assert len({outcome.matches for outcome in outcomes.values()}) == 1
    return {join: outcome.total_bytes() for join, outcome in outcomes.items()}
