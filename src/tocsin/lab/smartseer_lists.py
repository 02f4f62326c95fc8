"""SmartSeer §V, Figure 5: how long the lists of queries under a word are, by which word is registered on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from tocsin.lab.notes import Notes, Panel, draw
from tocsin.lab.result import Claim, Result
from tocsin.lab.smartseer_scene import Scene, news
from tocsin.sim.workload import user_query_ranks

SCALES = {"small": 20_000, "paper": 96_000}
"""Queries; the deployment had 96,000."""
RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
RAREST, ANY, COMMONEST = "most selective word", "any word", "commonest word"
USERS = "users' queries"


def run(scale: str, seed: int) -> Result:
    """Registers queries in three ways, and users' queries in the first."""
    queries = SCALES[scale]
    scene = news(seed, 1, queries=queries)
    notes = Notes(seed)
    chance = Random(f"lists {seed}")
    choices: dict[str, Callable[[list[str]], str]] = {
        RAREST: lambda words: min(words, key=lambda word: (scene.frequency[scene.ranks[word]], word)),
        ANY: chance.choice,
        COMMONEST: lambda words: max(words, key=lambda word: (scene.frequency[scene.ranks[word]], word)),
    }
    for name, choose in choices.items():
        _note(notes, name, Counter(choose(text.split()) for text in scene.texts))
    _note(notes, USERS, _of_users(scene, seed, choices[RAREST]))
    panels = [Panel("lists", "length", "Figure 5: lists of queries", "rank of the list", "queries", is_log=True)]
    about: dict[str, object] = {"queries": queries, "frequencies_from_documents": 500}
    return Result(claims(notes, scale == "paper"), notes.rows, lambda path: draw(notes, panels, path), about)


def _of_users(scene: Scene, seed: int, choose: Callable[[list[str]], str]) -> Counter[str]:
    return Counter(choose(text.split()) for text in user_query_ranks(scene.settings, seed).texts())


def _note(notes: Notes, name: str, lists: Counter[str]) -> None:
    lengths = sorted(lists.values(), reverse=True)
    for rank in (rank for rank in RANKS if rank <= len(lengths)):
        notes.add("lists", name, rank, length=lengths[rank - 1])
    notes.add("summary", name, 0, longest=lengths[0], mean=sum(lengths) / len(lengths), lists=len(lengths))


def claims(notes: Notes, is_paper: bool) -> list[Claim]:
    """Heavy-tailed; and why the most selective word is chosen."""
    longest = {name: notes.of("summary", name, "longest")[0] for name in notes.variants("summary", "longest")}
    mean = notes.of("summary", RAREST, "mean")[0]
    shown = ", ".join(f"{name} {length:,.0f}" for name, length in longest.items())
    return [
        Claim(
            "On the most selective word the longest list is shorter than on any word or on the commonest",
            "queries are registered on the most selective word, which balances lists",
            shown,
            longest[RAREST] < longest[ANY] < longest[COMMONEST],
        ),
        Claim(
            "Lists are heavy-tailed",
            "most lists are short, a few have up to a few thousand queries",
            f"mean {mean:.1f}, longest {longest[RAREST]:,.0f}",
            longest[RAREST] > 20 * mean,
        ),
        Claim(
            "The longest list has a few thousand queries",
            "up to a few thousand, for 96,000 queries",
            f"{longest[RAREST]:,.0f}; of users' queries {longest[USERS]:,.0f}. 92,000 of the paper's are links of a "
            "search engine (author, year, title), which share words, and frequencies are those of 100 documents; ours "
            "are drawn after the words of documents, and frequencies are those of 500",
            1_000 <= longest[RAREST] <= 9_999 if is_paper else None,
        ),
    ]
