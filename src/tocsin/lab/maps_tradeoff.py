"""MAPS, "Experimental Evaluation" and Table 1: how many messages are saved for how much recall, against DHTrie.

Publishers publish 1 to 100 documents in an interval; both systems serve the same subscriptions, one for each publisher.
DHTrie is given its best variant for traffic, recursive with an FCache of 10,000 entries, warm; acknowledgements count
in both. MAPS is counted without the posts that ride on other messages, as the ring's own messages are not counted.

What the paper does not say and matters: how many words documents have (here 200), how long an interval is against the
rate of publication (it is swept), how many subscriptions there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.sweep import Sweep, in_turn
from tocsin.overlay.multicast import Method
from tocsin.overlay.placement.publishers.settings import Approximate, PublishersSettings
from tocsin.sim.maps import Batch, History, ShiftSettings, Workload, hear
from tocsin.sim.maps_traffic import Meter
from tocsin.sim.maps_world import run_world

ALPHA = 0.25
RHOS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)
LOSSES = (0.1, 0.2)
"""What counts as "roughly 10 to 20 percent of recall"."""
FEWER = 8.0
CACHE_ENTRIES = 10_000
CAST_PUBLISHERS = 10
WARM_SHARE = 0.5
MAPS = PublishersSettings()


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the experiment is."""

    publishers: int
    rates: tuple[int, ...]
    """Documents of a publisher in an interval."""
    document_words: int
    vocabulary: int
    casts: int
    """Documents of DHTrie that are counted; half of them warm the caches."""
    posting: int
    """Publishers of MAPS whose posts are counted."""
    queries: int = 30
    """Subscriptions that are counted, of one for each publisher."""


SCALES = {
    "small": Scale(200, (1, 10, 100), 100, 5_000, 200, 20),
    "paper": Scale(1_000, (1, 3, 10, 30, 100), 200, 20_000, 1_000, 50),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Messages in one interval, with one subscription for each publisher."""

    posts: float
    notices: float
    """If every match is told."""
    dhtrie: float
    dhtrie_plain: float
    """Without FCache."""


def run(scale: str, seed: int, sweep: Sweep = in_turn) -> Result:
    """Counts both systems at every rate, and judges the claims."""
    size = SCALES[scale]
    notes = Notes(seed)
    notes.gather(sweep([partial(measure, size, rate, seed) for rate in size.rates]))
    savings = _save(notes, seed)
    panels = [
        Panel("rate", "messages", f"messages of an interval, α = {ALPHA}", "documents of a publisher in an interval",
              "messages", is_log=True),
        Panel("trade", "fewer", "messages saved, DHTrie / MAPS", "recall given up", "times fewer"),
        Panel("trade", "recall", "recall", "recall given up", "recall"),
    ]  # fmt: skip
    about: dict[str, object] = {
        "publishers": size.publishers, "subscriptions": size.publishers, "rates": list(size.rates),
        "document_words": size.document_words, "vocabulary_words": size.vocabulary, "alpha": ALPHA,
        "cache_entries": CACHE_ENTRIES, "batching": savings,
    }  # fmt: skip
    return Result(claims(notes), notes.rows, lambda path: draw(notes, panels[:2], path), about)


def _background(size: Scale, rate: int, seed: int) -> tuple[Workload, Batch]:
    """One interval of whole documents, of as many publishers as are counted."""
    count = max(size.posting, CAST_PUBLISHERS)
    shape = ShiftSettings(
        publishers=size.publishers, documents=count * rate * 20, background_words=size.document_words,
        background_vocabulary=size.vocabulary,
    )  # fmt: skip
    workload = Workload(shape, seed)
    workload.rates = np.where(np.arange(size.publishers) < count, rate, 0).astype(np.float64)
    return workload, workload.batch(shape.intervals - 1)


def _cost(size: Scale, rate: int, seed: int, history: History) -> Cost:
    workload, batch = _background(size, rate, seed)
    meter = Meter(workload)
    active = np.unique(batch.publishers)[: size.posting].tolist()
    posts, _ = meter.posts([batch], active)
    casting = _casts(size, seed)
    meter_casts = Meter(casting[0])
    documents = meter_casts.documents(0, casting[1])
    warm = int(len(documents) * WARM_SHARE)
    means = [
        meter_casts.casts(documents, Method.RECURSIVE, cache)[warm:].mean() * size.publishers * rate
        for cache in (CACHE_ENTRIES, 0)
    ]
    shape = history.workload.settings
    matches = history.matches[shape.first :].sum() / (shape.intervals - shape.first) / shape.queries
    return Cost(posts / len(active) * size.publishers, 2 * matches * size.publishers, *means)


def _casts(size: Scale, seed: int) -> tuple[Workload, Batch]:
    """Documents of a few publishers in turn, so that their caches get warm."""
    shape = ShiftSettings(
        publishers=size.publishers, documents=size.casts * 20, background_words=size.document_words,
        background_vocabulary=size.vocabulary,
    )  # fmt: skip
    workload = Workload(shape, seed)
    rates = np.where(np.arange(size.publishers) < CAST_PUBLISHERS, size.casts / CAST_PUBLISHERS, 0)
    workload.rates = rates.astype(np.float64)
    batch = workload.batch(0)
    order = np.random.default_rng([seed, 3]).permutation(len(batch.publishers))
    return workload, Batch(batch.publishers[order], batch.holds[order], batch.background[order])


def measure(size: Scale, rate: int, seed: int) -> Notes:
    """Both systems, with so many documents of a publisher in an interval."""
    shape = ShiftSettings(publishers=size.publishers, documents=size.publishers * 20 * rate, queries=size.queries)
    notes, history = Notes(seed), History(Workload(shape, seed))
    cost = _cost(size, rate, seed, history)
    meter = Meter(history.workload)
    times = shape.intervals - shape.first
    every = shape.queries * times / size.publishers  # what was counted of what there is in one interval
    audits = 2 * MAPS.audit_publishers * size.publishers
    dhtrie = cost.dhtrie + cost.notices
    notes.add("rate", "DHTrie", rate, messages=dhtrie)
    notes.add("rate", "DHTrie without FCache", rate, messages=cost.dhtrie_plain + cost.notices)
    for rho, outcome in hear(history, RHOS, ALPHA, MAPS).items():
        questions, orders, notices = meter.rankings(history, outcome)
        maps = cost.posts + (questions + orders + notices) / every + audits
        loss = 1 - outcome.recall
        notes.add("trade", f"{rate} documents", loss, fewer=dhtrie / maps, recall=outcome.recall, rho=rho)
        notes.add(
            "bill", f"{rate} documents", rho,
            posts=cost.posts, questions=questions / every, orders=orders / every, notices=notices / every,
            audits=audits, dhtrie=dhtrie, fewer=dhtrie / maps, loss=loss,
        )  # fmt: skip
        if rho in (0.1, 0.2):
            notes.add("rate", f"MAPS, ρ = {rho:g}", rate, messages=maps)
            notes.add("rate", f"MAPS, ρ = {rho:g}", rate, messages_without_notices=maps - notices / every)
    return notes


def _save(notes: Notes, seed: int) -> dict[str, float]:
    """What batches save, on real nodes: 40 of them, each word alone or all of an owner together."""
    shape = ShiftSettings(
        publishers=40, categories=4, documents=1_200, intervals=6, first=2, queries=8, background_words=30,
        background_vocabulary=600,
    )  # fmt: skip
    ring, _ = run_world(Workload(shape, seed), Approximate(0.1, ALPHA), PublishersSettings(exact=False))
    some = [site.maps.posting.savings for site in ring.sites()]
    names = ("posts", "batches", "carried", "bytes", "bytes_alone")
    found = {name: float(sum(getattr(one, name) for one in some)) for name in names}
    notes.add("batching", "40 nodes", 40, **found)
    return found


def _nearest(notes: Notes, variant: str) -> tuple[float, float, float]:
    """Where no ρ loses 10 to 20 percent: the one that loses most nearly as much."""
    fewer, rho = notes.of("trade", variant, "fewer"), notes.of("trade", variant, "rho")
    loss = min(fewer, key=lambda loss: abs(loss - sum(LOSSES) / 2))
    return fewer[loss], loss, rho[loss]


def claims(notes: Notes) -> list[Claim]:
    """The paper's sentences on messages."""
    variants = notes.variants("trade", "fewer")
    within: dict[str, tuple[float, float, float]] = {}
    for variant in variants:
        fewer, rho = notes.of("trade", variant, "fewer"), notes.of("trade", variant, "rho")
        inside = [(fewer[loss], loss, rho[loss]) for loss in fewer if LOSSES[0] <= loss <= LOSSES[1]]
        if inside:
            within[variant] = max(inside)
    best = max((value for value, _, _ in within.values()), default=0.0)
    shown = "; ".join(
        f"{variant} of a publisher in an interval: "
        + "{0:.1f}× fewer at ρ = {2:.0%}, loss {1:.0%}".format(*within.get(variant, _nearest(notes, variant)))
        for variant in variants
    )
    alone = {name: notes.of("rate", name, "messages") for name in notes.variants("rate", "messages")}
    slow, fast = min(alone["DHTrie"]), max(alone["DHTrie"])
    grown = {name: points[fast] / points[slow] for name, points in alone.items()}
    quiet = notes.of("rate", "MAPS, ρ = 0.1", "messages_without_notices")
    rates = sorted(quiet)
    saved = {name: notes.of("batching", "40 nodes", name)[40] for name in ("posts", "batches", "bytes", "bytes_alone")}
    return [
        Claim(
            "MAPS sends up to eight times fewer messages than DHTrie, for 10 to 20 percent of recall",
            "a reduction of as much as eight times by giving up roughly 10 to 20 percent of recall",
            shown,
            best >= FEWER,
        ),
        Claim(
            "What DHTrie sends grows with the rate of publication",
            "dependent on publication rate",
            f"DHTrie ×{grown['DHTrie']:.0f} from {slow:.0f} to {fast:.0f} documents",
            grown["DHTrie"] > 0.8 * fast / slow,
        ),
        Claim(
            "What MAPS sends, notices aside, does not: once every owner gets a post, more documents add none",
            "independent of publication rate",
            f"from {slow:.0f} to {fast:.0f} documents ×{quiet[fast] / quiet[slow]:.1f}, "
            f"of which from {rates[-2]:.0f} to {fast:.0f} ×{quiet[fast] / quiet[rates[-2]]:.2f}; "
            f"with notices ×{grown['MAPS, ρ = 0.1']:.1f}",
            quiet[fast] / quiet[rates[-2]] < 1.5 and quiet[fast] / quiet[slow] < 0.2 * fast / slow,
        ),
        Claim(
            "Batches save bytes",
            "peers use message batching",
            f"{saved['posts']:,.0f} posts in {saved['batches']:,.0f} messages; {saved['bytes']:,.0f} bytes instead of "
            f"{saved['bytes_alone']:,.0f} one by one: {1 - saved['bytes'] / saved['bytes_alone']:.0%} saved",
            saved["bytes"] < saved["bytes_alone"],
        ),
    ]
