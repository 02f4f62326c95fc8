"""Any sequence of publishing, replacing, deleting, subscribing, editing, pausing, muting and ending: what is told is
what an oracle tells that replays the same sequence with `query.semantics.holds`."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from tocsin.model import Document
from tocsin.query import Knowledge, holds, parse
from tocsin.site import accounts, audit, intake, life, reading
from tocsin.site.local import LocalPipeline
from tocsin.site.problems import Problem
from tocsin.site.site import Site
from tocsin.store import Store

FAR, FARTHER = 4e9, 8e9
WORDS = "a b c d ebb".split()
QUERIES = [
    "a",
    "a b",
    "a OR d",
    "b AND NOT c",
    '"a b"',
    "NOT a",
    "n:[2 TO 3]",
    "text:(a NEAR/2 c)",
    'text = "a"',
    "eb*",
]


@dataclass
class Modelled:
    """What the oracle knows of a subscription: its expected notifications wait, are held, or are told."""

    query: str
    state: str = "active"
    mute: str | None = None
    waiting: list[tuple[str, int]] = field(default_factory=list)
    held: list[tuple[str, int]] = field(default_factory=list)
    told: list[tuple[str, int]] = field(default_factory=list)

    @property
    def in_force(self) -> bool:
        return self.state == "active" or (self.state == "muted" and self.mute == "hold")

    @property
    def is_held(self) -> bool:
        return self.mute == "hold"

    def turn(self, state: str, mute: str | None = None) -> None:
        self.state = state
        if state == "deleted":
            return  # what was held stays so
        if self.is_held and mute != "hold":
            self.told += self.held
            self.held = []
        self.mute = mute

    def matched(self) -> None:
        (self.held if self.is_held else self.told).extend(self.waiting)
        self.waiting = []


class Machine(RuleBasedStateMachine):
    """A site, and the oracle beside it."""

    ids = Bundle("ids")

    @initialize(target=ids)
    def begin(self) -> MultipleResults[str]:
        self.folder = tempfile.mkdtemp(prefix="tocsin-states-")
        self.store = Store(self.folder)
        self.site = Site(self.store)
        self.pipeline = LocalPipeline(self.store, batch_documents_max=3)
        self.account = accounts.create(self.store, "ann", "publisher")
        self.modelled: dict[str, Modelled] = {}
        self.gone: list[tuple[str, Modelled]] = []
        self.versions: dict[str, int] = {}
        self.deleted: set[str] = set()
        self.read: list[tuple[str, str, int]] = []
        self.cursor: str | None = None
        self.number = 0
        return multiple(*(self.subscribe(query) for query in ("a", "a OR d")))

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        self.match_everything()
        for id, one in self.modelled.items():
            if one.state == "muted":
                life.resume(self.site, self.account, id)
                one.turn("active")
        self.look()
        everything = self.read
        assert len(set(everything)) == len(everything), "told twice"
        for number, (id, one) in enumerate([*self.modelled.items(), *self.gone]):
            told = [(document, version) for sub, document, version in everything if sub == id]
            assert told == one.told, (number, id, one)
        assert len(everything) == sum(len(one.told) for _, one in [*self.modelled.items(), *self.gone])
        report = audit.audit(self.store, self.site.analysis)
        assert report.complete, report
        self.store.close()
        shutil.rmtree(self.folder)

    # --- documents -----------------------------------------------------------------------------

    def publish(self, id: str, version: int, words: list[str], number: int) -> None:
        body = {"id": id, "version": version, "text": " ".join(words), "n": number}
        assert intake.publish(self.site, self.account, [body]).accepted == 1
        document = Document(id, {"text": (" ".join(words),), "n": (number,)}, version=version)
        self.versions[id] = version
        for one in self.modelled.values():
            if one.in_force and holds(parse(one.query), document, Knowledge()):
                one.waiting.append((id, version))

    @rule(
        id=st.sampled_from("xyz"),
        step=st.integers(1, 3),
        words=st.lists(st.sampled_from(WORDS), max_size=4),
        n=st.integers(1, 4),
    )
    def new_version(self, id: str, step: int, words: list[str], n: int) -> None:
        self.deleted.discard(id)
        self.publish(id, self.versions.get(id, 0) + step, words, n)

    @rule(count=st.integers(1, 3), is_matched=st.booleans())
    def some_documents(self, count: int, is_matched: bool) -> None:
        for id in "xyz"[:count]:
            self.new_version(id, 1, ["a", "b"], 2)
        if is_matched:
            self.match_everything()

    @rule(id=st.sampled_from("xyz"), words=st.lists(st.sampled_from(WORDS), max_size=4))
    def old_version(self, id: str, words: list[str]) -> None:
        version = self.versions.get(id)
        if version is not None and version > 1:
            body = {"id": id, "version": version - 1, "text": " ".join(words)}
            assert intake.publish(self.site, self.account, [body]).accepted == 0

    @rule(id=st.sampled_from("xyz"))
    def delete_document(self, id: str) -> None:
        if id in self.versions and id not in self.deleted:
            intake.delete(self.site, self.account, id)
            self.deleted.add(id)
        else:
            with pytest.raises(Problem):
                intake.delete(self.site, self.account, id)

    # --- subscriptions -------------------------------------------------------------------------

    @rule(target=ids, query=st.sampled_from(QUERIES))
    def another(self, query: str) -> str:
        return self.subscribe(query)

    def subscribe(self, query: str) -> str:
        self.number += 1
        id = f"s{self.number}"
        life.create(self.site, self.account, {"query": query, "id": id}, with_contract=False)
        self.modelled[id] = Modelled(query)
        return id

    @rule(id=ids, query=st.sampled_from(QUERIES))
    def edit(self, id: str, query: str) -> None:
        life.edit(self.site, self.account, id, {"query": query})
        self.modelled[id].query = query

    @rule(id=ids)
    def pause(self, id: str) -> None:
        life.pause(self.site, self.account, id)
        self.modelled[id].turn("paused")

    @rule(id=ids)
    def resume(self, id: str) -> None:
        if self.modelled[id].state != "expired":
            life.resume(self.site, self.account, id)
            self.modelled[id].turn("active")

    @rule(id=ids, how=st.sampled_from(["drop", "hold"]))
    def mute(self, id: str, how: str) -> None:
        if self.modelled[id].state in ("active", "muted"):
            life.mute(self.site, self.account, id, FARTHER, how)
            self.modelled[id].turn("muted", how)

    @rule(id=ids)
    def expire(self, id: str) -> None:
        life.expire(self.site, self.account, id, FAR)
        life.settle(self.site, FAR + 1)
        if self.modelled[id].state != "expired":
            self.modelled[id].turn("expired")
        life.edit(self.site, self.account, id, {"expires": None})

    @rule(id=consumes(ids))
    def unsubscribe(self, id: str) -> None:
        life.delete(self.site, self.account, id)
        one = self.modelled.pop(id)
        one.turn("deleted")
        self.gone.append((id, one))

    # --- time goes by --------------------------------------------------------------------------

    @rule()
    def match_everything(self) -> None:
        self.pipeline.catch_up()
        for _, one in [*self.modelled.items(), *self.gone]:
            one.matched()

    @rule()
    def look(self) -> None:
        while True:
            page = reading.notifications(self.site, self.account, self.cursor, limit=2)
            self.cursor = page.next
            self.read += [
                (item.subscription, one.document, one.version) for item in page.items for one in item.notifications
            ]
            if not page.items:
                return

    @invariant()
    def nothing_is_told_twice(self) -> None:
        if hasattr(self, "read"):
            assert len(set(self.read)) == len(self.read)


def drive(seed: int, steps: int) -> None:
    """One long sequence: Hypothesis draws short ones, which shrink well but seldom mute what then gets a document."""
    chance = random.Random(seed)
    machine = Machine()
    machine.begin()
    for _ in range(steps):
        living = sorted(machine.modelled)
        id = chance.choice(living) if living else machine.another(query="a")
        words = [chance.choice(WORDS) for _ in range(chance.randrange(5))]
        actions: list[tuple[int, Callable[[], object]]] = [
            (6, lambda words=words: machine.new_version(id=chance.choice("xyz"), step=1, words=words, n=2)),  # type: ignore[misc]
            (6, lambda: machine.some_documents(count=chance.randint(1, 3), is_matched=chance.random() < 0.5)),
            (1, lambda: machine.delete_document(id=chance.choice("xyz"))),
            (2, lambda: machine.another(query=chance.choice(QUERIES))),
            (2, lambda id=id: machine.edit(id=id, query=chance.choice(QUERIES))),  # type: ignore[misc]
            (1, lambda id=id: machine.pause(id=id)),  # type: ignore[misc]
            (3, lambda id=id: machine.resume(id=id)),  # type: ignore[misc]
            (4, lambda id=id: machine.mute(id=id, how=chance.choice(["drop", "hold"]))),  # type: ignore[misc]
            (1, lambda id=id: machine.expire(id=id)),  # type: ignore[misc]
            (1, lambda id=id: machine.unsubscribe(id=id)),  # type: ignore[misc]
            (3, machine.match_everything),
            (4, machine.look),
        ]
        chance.choices([action for _, action in actions], [weight for weight, _ in actions])[0]()
        machine.nothing_is_told_twice()
    machine.teardown()


@pytest.mark.parametrize("seed", range(8))
def test_a_long_sequence_of_changes_tells_what_the_oracle_tells(seed):
    drive(seed, 80)


def test_any_sequence_of_changes_tells_what_the_oracle_tells():
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Machine, settings=settings(max_examples=12, stateful_step_count=30, deadline=None))


@pytest.mark.slow
def test_many_sequences_of_changes_tell_what_the_oracle_tells():
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Machine, settings=settings(max_examples=500, stateful_step_count=50, deadline=None))
    for seed in range(100, 300):
        drive(seed, 120)
