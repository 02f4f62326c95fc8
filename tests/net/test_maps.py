"""MAPS in real processes: queries live at the best publishers, and what these publish is heard, whoever is killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from time import sleep, time

import pytest

from tests.net.placement_driver import KNOWLEDGE, QUICK, Nodes, Step, in_drivers, in_processes, in_the_world, script
from tests.net.rings import true_owner
from tocsin.model import Document
from tocsin.overlay.placement.publishers.directory import term_key
from tocsin.query import holds, parse_subscription

QUERY = "chord"
INTERVAL = QUICK.interval_seconds
OTHERS = ["jazz trumpet", "garden roses", "tax law"]


class Stage:
    """Five processes. `owner` keeps the directory's statistics of the word, and publishes most documents with it;
    `second` publishes it often too, `rare` once, `never` never; `reader` subscribes."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.owner = nodes.addresses.index(true_owner(nodes.addresses, term_key(QUERY)))
        self.reader, self.second, self.rare, self.never = [node for node in nodes.living if node != self.owner]
        self.documents: dict[str, tuple[int, str]] = {}

    def publish(self, node: int, text: str) -> int:
        """Messages that were sent at once."""
        id = f"d{len(self.documents)}"
        self.documents[id] = node, text
        return self.nodes.act("publish", node, id, text)

    def due(self, *publishers: int) -> set[str]:
        """What of these matches, by the oracle."""
        query = parse_subscription(QUERY, KNOWLEDGE.analysis)
        return {
            id
            for id, (node, text) in self.documents.items()
            if node in publishers and holds(query, Document(id, {"text": (text,)}), KNOWLEDGE)
        }

    def heard(self, subscription: str) -> set[str]:
        """Each once, or it fails."""
        counts = {notice: often for notice, often in self.nodes.notices().items() if notice[1] == subscription}
        assert set(counts.values()) <= {1}, counts
        assert {node for node, *_ in counts} <= {self.reader}
        return {document for _, _, document, _ in counts}

    def monitored(self, subscription: str) -> set[int]:
        report = self.nodes.status(self.reader)["reports"].get(subscription, {"publishers": ()})
        return {self.nodes.addresses.index(publisher) for publisher in report["publishers"]}

    def recall(self, subscription: str) -> list[float]:
        """As it was measured, its interval, and how many were asked; empty as long as nothing was."""
        return self.nodes.status(self.reader)["reports"][subscription]["recall"] or []

    def until_posted(self) -> None:
        """Statistics of all that was published before are in the directory: the end of an interval, and a little."""
        start = self.nodes.status(self.reader)["now"]
        self.nodes.wait(
            lambda: all(one["now"] > start + 2 * INTERVAL and one["unposted"] == 0 for one in self.nodes.statuses())
        )

    def until_ranked(self) -> None:
        """A ranking of the first subscription was just made, and what it asked others is answered: the next is nearly
        a period away, and will ask what was missed since."""
        before = self._rankings()
        self.nodes.wait(lambda: self._rankings() > before)
        sleep(0.2 * QUICK.reposition_seconds)

    def _rankings(self) -> int:
        return Counter(id for id, _ in self.nodes.told(self.reader, "Repositioned"))["some"]


def test_five_processes_find_the_best_publishers_and_hear_them_when_a_publisher_is_killed(tmp_path: Path) -> None:
    with Nodes(tmp_path, *["maps"] * 5) as nodes:
        stage = Stage(nodes)
        owner, second, rare, never = stage.owner, stage.second, stage.rare, stage.never
        # The clock that intervals are counted by is that of the wall, on whichever machine a node is.
        assert all(abs(one["now"] - time()) < 60 for one in nodes.statuses())

        # Collections of one size, with 6, 4, 1 and 0 documents of the topic: selection and prediction say the same.
        for number in range(6):
            for node, matching in ((owner, 6), (second, 4), (rare, 1), (never, 0)):
                stage.publish(node, f"{'chord' if number < matching else 'piano'} {OTHERS[number % 3]}")
        stage.publish(stage.reader, "tax law")
        stage.until_posted()
        early = set(stage.documents)
        nodes.act("subscribe", stage.reader, "some", QUERY, 0.4, 0.25)  # two of five
        nodes.wait(lambda: stage.monitored("some") == {owner, second})
        assert nodes.told(stage.reader, "Standing") == [["some", "1"]]
        assert [node for node in nodes.living if nodes.status(node)["kept"]] == sorted([owner, second])

        # What does not match sends nothing; what matches sends its notice; what others publish is missed, and measured.
        stage.until_ranked()
        assert stage.publish(owner, "garden roses") == 0
        assert stage.publish(never, "jazz trumpet") == 0
        assert [stage.publish(node, "chord again") for node in (owner, owner, second, second, second, second)] == [
            1
        ] * 6
        assert [stage.publish(rare, "chord again") for _ in range(2)] == [0, 0]
        nodes.wait(lambda: stage.heard("some") == stage.due(owner, second) - early)
        truth = len(stage.heard("some")) / len(stage.due(*nodes.living) - early)
        assert truth == 6 / 8
        nodes.wait(lambda: stage.recall("some")[:1] == [pytest.approx(truth)])
        value, low, high, asked = stage.recall("some")
        assert asked > 0
        assert low <= value <= high < 1
        print(f"recall of two publishers of five: measured {value:.0%}, true {truth:.0%}")

        # The best publisher is killed, who is also the directory's node for the word.
        nodes.kill(owner)
        stage.publish(second, "chord while one is dead")
        nodes.wait(lambda: stage.heard("some") == stage.due(owner, second) - early)
        nodes.act("subscribe", stage.reader, "late", QUERY, 1.0)
        nodes.wait(lambda: {second, rare} <= stage.monitored("late"))
        before = set(stage.documents)
        assert stage.publish(second, "chord for two") >= 1
        assert stage.publish(rare, "chord for the late one") >= 1
        nodes.wait(lambda: stage.heard("late") == stage.due(second, rare) - before)

        # It comes back, and is heard again.
        nodes.start(owner)
        nodes.until_right()
        nodes.wait(lambda: owner in stage.monitored("late"))
        stage.publish(owner, "chord from the dead")
        nodes.wait(lambda: stage.heard("late") == stage.due(*nodes.living) - before)

        # X2: unsubscribing leaves nothing anywhere.
        for id in ("some", "late"):
            nodes.act("unsubscribe", stage.reader, id)
        nodes.wait(lambda: len(nodes.told(stage.reader, "Ended")) == 2)
        assert [one["kept"] for one in nodes.statuses()] == [[]] * 5
        assert nodes.status(stage.reader)["reports"] == {}
        assert {stage.publish(node, "chord for nobody") for node in nodes.living} == {0}
        assert stage.heard("some") <= stage.due(*nodes.living) - early
        assert not [one["counts"] for one in nodes.statuses() if "failed" in one["counts"]]


# --- X4 ---------------------------------------------------------------------------------------------------------------


WORDS = [f"word{number}" for number in range(6)]
SAID = {"Carried", "Posted", "Route", "Statistics", "Totals", "Keep", "Kept", "Notify", "Heard"}
"""What the nodes of MAPS say, at least; questions are inside of routes."""


def trace(seed: int, nodes: int, acts: int) -> list[Step]:
    """Publishers with favourite words; subscriptions, exact ones too, that come, change and go."""
    chance = Random(f"maps {seed}")
    steps: list[Step] = []
    standing: dict[str, tuple[int, float | None]] = {}
    for number in range(acts):
        who, kind = chance.randrange(nodes), chance.random()
        if number >= acts // 3 and kind < 0.3:
            id, rho = f"s{number}", chance.choice([0.3, 0.6, 1.0, None])
            standing[id] = who, rho
            steps.append(["subscribe", who, id, " ".join(chance.sample(WORDS, chance.choice([1, 2]))), rho])
        elif standing and kind < 0.45:
            id = chance.choice(sorted(standing))
            if chance.random() < 0.5:
                steps.append(["unsubscribe", standing.pop(id)[0], id])
            else:
                steps.append(["subscribe", standing[id][0], id, chance.choice(WORDS), standing[id][1]])
        else:
            steps.append(["publish", who, f"d{number}", " ".join([WORDS[who], *chance.sample(WORDS, 2)])])
    steps += [["unsubscribe", who, id] for id, (who, _) in list(standing.items())[:2]]
    return script(nodes, steps)


@pytest.mark.row("X4")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 20))
def test_messages_and_bytes_of_the_world_are_those_of_real_connections(tmp_path: Path, seed: int) -> None:
    steps = trace(seed, 5, 40)
    addresses, counted = asyncio.run(in_drivers("maps in steps", steps, 5, tmp_path))
    assert counted == in_the_world("maps in steps", steps, addresses)
    assert counted != in_the_world("maps in steps", steps[:-5], addresses)  # one round less is seen
    assert counted[0].keys() >= SAID
    assert {text.split()[1] for text in counted[2]} >= {"Standing", "Ended", "Notified", "Repositioned", "Told"}


@pytest.mark.row("X4")
def test_messages_and_bytes_of_the_world_are_those_of_processes(tmp_path: Path) -> None:
    steps = trace(3, 4, 24)
    addresses, counted = in_processes("maps in steps", steps, 4, tmp_path)
    assert counted == in_the_world("maps in steps", steps, addresses)
    assert counted[0].keys() >= SAID
