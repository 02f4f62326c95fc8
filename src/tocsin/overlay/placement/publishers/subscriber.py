"""The nodes that want to be told: they choose whom to listen to, and choose again (MAPS, "Subscription service").

A subscription asks the directory for statistics of its words, ranks the publishers, and leaves its query at the best.
Publishers change their habits, so this is repeated; who is not among the best any more drops the query. Each order to
a publisher, keep or drop, has a stamp, is repeated until it is acknowledged, and the highest stamp counts: whatever the
network does, the last word stands. A subscription that ends is forgotten when the last publisher has dropped it.

What was given up for less traffic is measured (`audit`), and told with the subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import NamedTuple, TypeAlias

from tocsin.errors import SettingError
from tocsin.overlay.delivery import Notice
from tocsin.overlay.key import hashed
from tocsin.overlay.message import Address
from tocsin.overlay.node import Deliver, Effect, Handler, Seconds, Token, Wake
from tocsin.overlay.placement.entry import wanted_words
from tocsin.overlay.placement.publishers.audit import Recall, Round, recall_of
from tocsin.overlay.placement.publishers.correlation import cover
from tocsin.overlay.placement.publishers.directory import EVERYBODY, counts, term_key
from tocsin.overlay.placement.publishers.messages import (
    AskStatistics,
    AskTotals,
    Audit,
    Audited,
    Figures,
    Keep,
    Kept,
    Statistics,
    Totals,
)
from tocsin.overlay.placement.publishers.questions import Questions
from tocsin.overlay.placement.publishers.record import Period, Place, Ranking, Record, Report
from tocsin.overlay.placement.publishers.selection import best, gather, monitored, rank
from tocsin.overlay.placement.publishers.settings import EXACT, Approximate, Exact, Precision, PublishersSettings
from tocsin.overlay.placement.subscriber import Ended, Standing
from tocsin.overlay.placement.words import Words
from tocsin.query.standing import parse_subscription

Disk: TypeAlias = MutableMapping[bytes, bytes]
AGAIN_SECONDS = 10.0
ORDER_ATTEMPTS = 5
STRAYS_SECONDS = 30.0


class Repositioned(NamedTuple):
    """Delivered when a subscription has chosen its publishers."""

    id: str
    publishers: tuple[Address, ...]


class Measured(NamedTuple):
    """Delivered when recall was measured."""

    id: str
    recall: Recall


class Subscriber:
    """A node's subscriptions, exact and approximate."""

    name = "maps subscriber"

    def __init__(
        self,
        words: Words,
        questions: Questions,
        settings: PublishersSettings,
        disk: Disk | None = None,
        life: int = 0,
    ) -> None:
        self.words, self.questions, self.settings = words, questions, settings
        self.me, self.knowledge = words.node.me, words.knowledge
        self.is_heard_here: Callable[[], bool] | None = None
        """Where the layer above knows what this node publishes: says whether it publishes. Then only other publishers
        are chosen, counted, and asked what was missed."""
        self._disk: Disk = {} if disk is None else disk
        self._records = {key.decode(): Record.unpacked(data) for key, data in sorted(self._disk.items())}
        stamps = [one.stamp for record in self._records.values() for one in record.places.values()]
        self._stamp = max([life << 32, *stamps])
        self._strays: set[tuple[Address, str]] = set()
        self._serves_exactly = settings.exact
        self._accept_exact: Callable[[Notice], bool] = words.delivery.accept if settings.exact else lambda notice: False
        words.delivery.accept = self._accept
        words.node.add(self)

    def handlers(self) -> dict[type, Handler]:
        """It takes answers only."""
        return {}

    def start(self, now: Seconds) -> list[Effect]:
        """Gives all orders again, which changes nothing where they stand, and chooses anew."""
        effects: list[Effect] = [Wake(now + STRAYS_SECONDS, (self.name, "strays"))]
        for id, record in list(self._records.items()):
            for to in list(record.places):
                effects += self._again(id, to, now)
            effects += self._rank(id, now) if record.text else self._settle(id)
        return effects

    def _accept(self, notice: Notice) -> bool:
        record = self._records.get(notice.subscription)
        if record is not None:
            record.heard.add((notice.document, notice.version))
            return record.text != ""
        if self._accept_exact(notice):
            return True
        self._strays.add((notice.link, notice.subscription))
        return False

    # --- for the layer above -----------------------------------------------------------------------------------------

    def subscribe(
        self, id: str, text: str, now: Seconds, precision: Precision = Approximate(0.1)  # noqa: B008 — frozen
    ) -> list[Effect]:  # fmt: skip
        """Places a query, or another under the same id; `Standing` is delivered when it stands."""
        if isinstance(precision, Exact):
            return self._subscribe_exactly(id, text, now)
        if " " in id or not id:
            raise SettingError(f"{id!r} is no name of a subscription: it is empty, or has a space")
        if self._serves_exactly and id in dict(self.words.subscriber.standing()):
            raise SettingError(f"{id!r} is an exact subscription: end it first, or choose another name")
        query = parse_subscription(text, self.knowledge.analysis)
        words = tuple(sorted({key.word for key in wanted_words(query, self.knowledge.analysis) if counts(key)}))
        if not words:
            raise SettingError(f"{text!r} asks for no word that publishers could be chosen by: subscribe exactly")
        before = self._records.get(id)
        record = self._records[id] = Record(text, precision, 1 if before is None else before.version + 1, words)
        record.since = now
        if before is not None:
            record.round, record.places = before.round, before.places
            for one in record.places.values():
                one.is_old = True
        self._write(id)
        return self._rank(id, now)

    def _subscribe_exactly(self, id: str, text: str, now: Seconds) -> list[Effect]:
        if not self.settings.exact:
            raise SettingError("this network serves approximate subscriptions only: choose rho, or a setting of exact")
        if id in self._records:
            raise SettingError(f"{id!r} is an approximate subscription: end it first, or choose another name")
        return self.words.subscriber.subscribe(id, text, now)

    def unsubscribe(self, id: str, now: Seconds) -> list[Effect]:
        """Removes every copy; `Ended` is delivered when the last is gone."""
        record = self._records.get(id)
        if record is None:
            return self.words.subscriber.unsubscribe(id, now)
        record.text, record.version = "", record.version + 1
        effects: list[Effect] = []
        for to in list(record.places):
            effects += self._order(id, to, False, now)
        self._write(id)
        return [*effects, *self._settle(id)]

    def standing(self) -> Iterator[Report]:
        """Subscriptions of this node, and how they fare."""
        for id, record in self._records.items():
            if record.text:
                found = recall_of(record.rounds)
                who = tuple(record.monitored())
                yield Report(id, record.text, record.precision, who, record.population, found)
        if self._serves_exactly:
            for id, text in self.words.subscriber.standing():
                yield Report(id, text, EXACT)

    def report(self, id: str) -> Report:
        """How a subscription fares."""
        return next(one for one in self.standing() if one.id == id)

    # --- choosing ----------------------------------------------------------------------------------------------------

    def _later(self, id: str, now: Seconds) -> list[Effect]:
        """The next ranking: between the ends of two periods, when posts have arrived, not all nodes at once."""
        period = self.settings.reposition_seconds
        if not period:
            return []
        place = 0.25 + 0.5 * (self.me.key % 1_000) / 1_000
        at = (now // period + 1 + place) * period
        return [Wake(at, (self.name, "rank", id, self._records[id].round))]

    def _rank(self, id: str, now: Seconds) -> list[Effect]:
        record = self._records[id]
        record.round += 1
        effects = self._later(id, now)
        ranking = Ranking(record.round, set(record.words) | {EVERYBODY})
        since, record.since = record.since, now
        heard, record.heard = len(record.heard), set()
        audit = Period(heard, record.monitored_since(since), since, now) if record.is_placed else None

        def counted(answer: Totals | None, now: Seconds) -> list[Effect]:
            ranking.totals = answer
            is_current = (current := self._records.get(id)) is not None and current.round == ranking.round
            effects = self._audit(id, audit, answer, now) if audit is not None and answer and is_current else []
            return [*effects, *self._answered(id, ranking, EVERYBODY, answer is not None, now)]

        draw = hashed("draw", f"{self.me.address} {id} {record.round}")
        sample = self.settings.audit_publishers if audit is not None else 0
        effects += self.questions.ask(
            term_key(EVERYBODY), lambda request: AskTotals(request, self.me, draw, sample), now, counted
        )
        return [*effects, *self._ask(id, ranking, record.words, now)]

    def _ask(self, id: str, ranking: Ranking, terms: tuple[str, ...], now: Seconds) -> list[Effect]:
        query = self._records[id].words

        def asked(term: str) -> Callable[[Statistics | None, Seconds], list[Effect]]:
            def take(answer: Statistics | None, now: Seconds) -> list[Effect]:
                if answer is not None:
                    ranking.figures[term] = answer.figures
                    ranking.sets.update(answer.sets)
                return self._answered(id, ranking, term, answer is not None, now)

            return take

        effects: list[Effect] = []
        for term in terms:
            effects += self.questions.ask(
                term_key(term),
                lambda request, term=term: AskStatistics(request, self.me, term, id, query),  # type: ignore[misc]
                now,
                asked(term),
            )
        return effects

    def _answered(self, id: str, ranking: Ranking, term: str, is_known: bool, now: Seconds) -> list[Effect]:
        record = self._records.get(id)
        ranking.waiting.discard(term)
        ranking.is_complete &= is_known
        if record is None or not record.text or record.round != ranking.round or ranking.waiting:
            return []
        if not ranking.is_complete:  # a directory node cannot be reached: where the query is, it stays for now
            return [] if record.is_placed else [Wake(now + AGAIN_SECONDS, (self.name, "rank", id, record.round))]
        sets = cover(record.words, ranking.sets)
        missing = tuple(name for name in sets if name not in ranking.figures)
        if missing:
            ranking.waiting.update(missing)
            return self._ask(id, ranking, missing, now)
        return self._choose(id, [ranking.figures[term] for term in (*record.words, *sets)], ranking.totals, now)

    def _choose(self, id: str, figures: list[tuple[Figures, ...]], totals: Totals | None, now: Seconds) -> list[Effect]:
        """`figures` are those of the words, then those of the sets."""
        record, settings = self._records[id], self.settings
        assert totals is not None
        record.population = self._others(totals)
        finished = max(0, settings.interval_of(now) - 1)
        names, evidence = gather(figures, finished, totals.publishers, totals.words, settings.window)
        count = len(record.words)
        sets = evidence.of(slice(count, None)) if len(figures) > count else None
        scores = rank(evidence.of(slice(count)), sets, record.precision.alpha, settings)
        ranked = [names[one] for one in best(scores, len(names)) if self._is_other(names[one])]
        chosen = set(ranked[: monitored(record.precision.rho, record.population)])
        lives = {one.publisher: one.life for some in figures for one in sorted(some, key=lambda one: one.last)}
        effects: list[Effect] = []
        for to in sorted(chosen | record.places.keys()):
            place = record.places.get(to)
            if (
                place is None
                or place.is_wanted != (to in chosen)
                or self._is_overtaken(record, place, lives.get(to, 0))
            ):
                effects += self._order(id, to, to in chosen, now)
        record.is_placed = True
        self._write(id)
        return [*effects, Deliver(Repositioned(id, tuple(sorted(chosen)))), *self._settle(id)]

    def _is_other(self, publisher: Address) -> bool:
        return self.is_heard_here is None or publisher != self.me.address

    def _others(self, totals: Totals) -> int:
        """How many publishers there are to choose from."""
        is_one = self.is_heard_here is not None and self.is_heard_here()
        return max(0, totals.publishers - is_one)

    @staticmethod
    def _is_overtaken(record: Record, place: Place, life: int) -> bool:
        """Whether the query has changed since an order, or the publisher may have forgotten it with its disk."""
        return place.version != record.version or (place.is_done and place.life < life)

    # --- orders to publishers ----------------------------------------------------------------------------------------

    def _order(self, id: str, to: Address, is_wanted: bool, now: Seconds) -> list[Effect]:
        places = self._records[id].places
        self._stamp += 1
        version = self._records[id].version
        places[to] = Place(self._stamp, is_wanted, version, to in places and places[to].is_old)
        self._write(id)
        return self._send(id, to, now)

    def _send(self, id: str, to: Address, now: Seconds) -> list[Effect]:
        record = self._records[id]
        place, stamp = record.places[to], record.places[to].stamp
        text = record.text if place.is_wanted else ""

        def answered(answer: Kept | None, now: Seconds) -> list[Effect]:
            current = self._records.get(id)
            if current is None or to not in current.places or current.places[to].stamp != stamp:
                return []
            place = current.places[to]
            if answer is None:
                place.attempts += 1
                return [Wake(now + AGAIN_SECONDS, (self.name, "order", id, to, stamp)), *self._settle(id)]
            if place.version != current.version:  # it has changed since; the next ranking gives another order
                return []
            place.is_done, place.is_old, place.life, place.since = True, False, answer.life, now
            if not place.is_wanted:
                del current.places[to]
            self._write(id)
            return self._settle(id)

        return self.questions.ask(
            to, lambda request: Keep(request, self.me, id, stamp, text), now, answered, ORDER_ATTEMPTS
        )

    def _settle(self, id: str) -> list[Effect]:
        """Says that a subscription stands or has ended, once."""
        record = self._records[id]
        if not record.text:
            if record.places:
                return []
            del self._records[id], self._disk[id.encode()]
            return [Deliver(Ended(id))]
        if record.is_standing or not record.is_settled():
            return []
        record.is_standing = True
        return [Deliver(Standing(id, record.version))]

    def _write(self, id: str) -> None:
        self._disk[id.encode()] = self._records[id].packed()

    def wake(self, token: Token, now: Seconds) -> list[Effect]:
        """It is time to choose again; or a publisher did not answer; or to send away what nobody here asked for."""
        if token[1] == "strays":
            return [Wake(now + STRAYS_SECONDS, token), *self._drop_strays(now)]
        record = self._records.get(token[2])
        if token[1] == "rank":
            return self._rank(token[2], now) if record is not None and record.round == token[3] and record.text else []
        place = record.places.get(token[3]) if record is not None else None
        return self._again(token[2], token[3], now) if place is not None and place.stamp == token[4] else []

    def _again(self, id: str, to: Address, now: Seconds) -> list[Effect]:
        """Gives an order once more, unless the query has changed: the next ranking gives another, of a newer stamp."""
        record = self._records[id]
        return self._send(id, to, now) if record.places[to].version == record.version else []

    def _drop_strays(self, now: Seconds) -> list[Effect]:
        """A publisher keeps a query of a subscription that was forgotten with a disk: it should not."""
        effects: list[Effect] = []
        for to, id in sorted(self._strays):
            if id not in self._records:
                self._stamp += 1
                drop = self._stamp
                effects += self.questions.ask(
                    to,
                    lambda request, id=id, drop=drop: Keep(request, self.me, id, drop, ""),  # type: ignore[misc]
                    now,
                    lambda answer, now: [],
                    ORDER_ATTEMPTS,
                )
        self._strays.clear()
        return effects

    # --- the audit ---------------------------------------------------------------------------------------------------

    def _audit(self, id: str, audit: Period, totals: Totals, now: Seconds) -> list[Effect]:
        """Asks those of the drawn publishers that have not kept the query all the time what was missed.

        Who keeps it now, or did for a while, has told what it published meanwhile, and counts the rest. What is
        published from the end of the period on, while this goes on, belongs to the next.
        """
        others = self._others(totals) - len(audit.monitored)
        asked = [to for to in totals.sample if to not in audit.monitored and self._is_other(to)]
        record = self._records.get(id)
        if record is None or not record.text or (not asked and others > 0):
            return []
        text, version, found = record.text, record.version, list[int | None]()

        def ask(to: Address, now: Seconds, attempt: int = 1) -> list[Effect]:
            # Not by each other's clocks: how long ago it was, when it is asked, and when it is asked again.
            since, until = (max(0, round((now - time) * 1_000)) for time in (audit.start, audit.end))

            def answered(answer: Audited | None, now: Seconds) -> list[Effect]:
                if answer is None and attempt < ORDER_ATTEMPTS:
                    return ask(to, now, attempt + 1)
                found.append(None if answer is None else answer.matches)
                return conclude() if len(found) == len(asked) else []

            return self.questions.ask(
                to, lambda request: Audit(request, self.me, id, text, since, until), now, answered, attempts_max=1
            )

        def conclude() -> list[Effect]:
            current = self._records.get(id)
            if current is None or current.version != version:
                return []
            missed = tuple(count for count in found if count is not None)
            current.rounds.append(Round(audit.heard, len(audit.monitored), max(others, len(missed)), missed))
            del current.rounds[: -self.settings.audit_rounds]
            recall = recall_of(current.rounds)
            return [] if recall is None else [Deliver(Measured(id, recall))]

        return [effect for to in asked for effect in ask(to, now)] if asked else conclude()
