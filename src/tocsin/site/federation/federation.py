"""The site's node, and what goes between the two.

What the site's subscriptions ask for is registered on the ring, by the placement that each needs (`asking`). A notice
from the ring brings a document into the site's own log, once, whichever placements tell of it; from there the pipeline
matches it as any other, so that what a subscriber is told, when, and on which channel is decided in one place. The
site's own documents go the other way; those that came from the ring stay here.

Nothing is lost or told twice when a site dies at any moment: publications, subscriptions and notices are in the node's
journal before they are acknowledged; how far the log was shared is written with the publication; a document is accepted
before its notice is ticked off; and the log takes the same version once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from tocsin.errors import DocumentError, TocsinError
from tocsin.intake import document_from_json
from tocsin.markup import read_markup
from tocsin.net.disk import Journal
from tocsin.net.embedded import Embedded
from tocsin.net.host import HostSettings, Say
from tocsin.net.limits import NetError
from tocsin.overlay.delivery import Notice, Notified
from tocsin.overlay.member import Member
from tocsin.overlay.message import Address
from tocsin.overlay.node import Deliver, Effect, Seconds
from tocsin.overlay.placement.drawer import Drawer
from tocsin.overlay.placement.publishers.audit import Recall
from tocsin.overlay.placement.publishers.posting import Carrier
from tocsin.overlay.placement.publishers.record import Report
from tocsin.overlay.placement.publishers.settings import PublishersSettings
from tocsin.overlay.placement.subscriber import Fetched
from tocsin.site.exactness import exactness_of
from tocsin.site.federation.asking import Part, Where, parts_of
from tocsin.site.federation.owed import Owed
from tocsin.site.federation.placements import Placements, warm
from tocsin.site.intake import check
from tocsin.site.settings import RingSettings
from tocsin.store import documents, journal, outbox, subscriptions
from tocsin.store.documents import Stored
from tocsin.store.outbox import Letter

if TYPE_CHECKING:
    from tocsin.site.site import Site

log = logging.getLogger(__name__)

JOB = "federation"
LOOK_SECONDS = 0.2
RESCAN_SECONDS = 30.0
"""Subscriptions are compared with those on the ring when one was changed here, and this often in any case."""
PAGE = 500
UNDER_WAY_MAX = 64
"""Documents on their way at a time: the next follow when some are done."""
FETCHES_MAX = 64
FETCH_SECONDS_MAX = 60.0
KNOWN_MAX = 10_000

POSITION, TAKEN, JOURNAL, ARRIVED = b"position", b"taken", b"journal", b"arrived "
"""What the node's disk knows of the site: how far the log was shared, how many notices were taken, how far the journal
was read for deletions, and which documents came from the ring."""


class Fare(NamedTuple):
    """How an approximate subscription fares on the ring."""

    heard: int
    """Publishers of other sites that keep the query, and said so."""
    publishers: int
    """All that there are, without this site."""
    recall: Recall | None
    """The share of what matched elsewhere that it was told of, by a sample; None: not measured yet."""

    def as_json(self) -> dict[str, Any]:
        """As the API answers it."""
        recall = None
        if self.recall is not None:
            value, low, high = (round(one, 4) for one in (self.recall.value, self.recall.low, self.recall.high))
            recall = {"value": value, "low": low, "high": high, "heard": self.recall.heard, "asked": self.recall.asked}
        return {"listens_to": self.heard, "publishers": self.publishers, "recall": recall}


class Kept(NamedTuple):
    """Delivered when something that was noted is on the disk."""

    number: int


class Federation:
    """A site's node, and what goes between the two."""

    def __init__(self, site: Site, settings: HostSettings, say: Say) -> None:
        self._site, self._say = site, say
        self._maps = _maps_settings(site.settings.ring)
        self.node = Embedded(settings, say, equip=self._equip, on_deliver=self._delivered, kind=Carrier)
        self._stopping, self._stirred = threading.Event(), threading.Event()
        self._fetched: SimpleQueue[Fetched] = SimpleQueue()
        self._kept: SimpleQueue[int] = SimpleQueue()
        self._calls = 0
        self._known: dict[tuple[Address, str, int], None] = {}  # documents that were fetched, the oldest first
        self._seen: tuple[int, float] = (-1, 0.0)  # the site's changes when subscriptions were last compared, and when
        self._due: float | None = None
        self._thread = threading.Thread(target=self._run, name="tocsin-federation", daemon=True)

    def start(self) -> None:
        """Begins; does not wait until a ring is found."""
        self._thread.start()

    def stop(self) -> None:
        """Leaves the ring in order: other nodes take over what this one keeps for them."""
        self._stopping.set()
        self._stirred.set()
        if self._thread.is_alive():
            try:
                self.node.stop()
            except TocsinError as error:
                self._say(f"the node ended: {error}")
            self._thread.join()

    # --- in the node's thread ----------------------------------------------------------------------------------------

    def _equip(self, member: Member, disk: Journal, life: int) -> None:
        self._placements = Placements(member, self._site.analysis, self._maps, disk, life)
        self._words = self._placements.words
        self._words.publisher.archive = self._resource
        self._notes = Drawer(disk, b"site ")
        self._owed = Owed(Drawer(disk, b"owed by "))

    def _resource(self, id: str, version: int) -> bytes | None:
        """What another site is given that follows a link: the document as it was published here."""
        stored = documents.find(self._site.store, id, version)
        return None if stored is None else stored.body.encode()

    def _delivered(self, effect: Deliver) -> None:
        match effect.what:
            case Fetched() as fetched:
                self._fetched.put(fetched)
            case Kept(number):
                self._kept.put(number)
            case Notified():
                self._stirred.set()

    # --- in its own thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            warm()
            self.node.start()
        except Exception as error:
            if not self._stopping.is_set():
                self._say(f"this site is no node: {error}")
                if not isinstance(error, TocsinError):
                    log.exception("the site's node could not be started")
            return
        while not self._stopping.is_set():
            try:
                if self.node.is_ready:
                    self._share_subscriptions()
                    self._share_documents()
                    self._withdraw_deleted()
                self._take_notices()
                self._ask_again()
            except NetError as error:
                if not self._stopping.is_set():
                    self._say(f"this site is a node no more: {error}")
                return
            except Exception:  # a store that is away for a moment must not end it
                log.exception("the federation")
            self._stirred.wait(LOOK_SECONDS)
            self._stirred.clear()

    def _keep(self, act: Callable[[Seconds], Iterable[Effect]]) -> None:
        """Lets the node act; comes back when what it wrote is on the disk."""
        self._calls += 1
        number = self._calls
        self.node.call(lambda member, now: [*act(now), Deliver(Kept(number))])
        while not self._stopping.is_set():
            try:
                if self._kept.get(timeout=LOOK_SECONDS) == number:
                    return
            except Empty:
                if self.node.ended.done():
                    raise NetError("the node has left the ring") from None
        raise NetError("the site stops")

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Looks something up in the node's state, in its thread."""
        answers: list[Any] = []

        def look(member: Member, now: Seconds) -> list[Effect]:
            answers.append(question())
            return []

        self.node.call(look)
        return answers[0]

    def _note(self, name: bytes) -> int | None:
        return self._ask(lambda: int(self._notes[name]) if name in self._notes else None)  # type: ignore[no-any-return]

    # --- subscriptions -----------------------------------------------------------------------------------------------

    def _share_subscriptions(self) -> None:
        changes, now = self._site.changes, time.monotonic()
        is_due = self._due is not None and self._due <= time.time()  # one expires, or a mute ends
        if changes == self._seen[0] and now - self._seen[1] < RESCAN_SECONDS and not is_due:
            return
        self._site.settle_due()
        self._due = subscriptions.next_due(self._site.store)
        wanted = dict(self._wanted(self.node.address))
        standing: dict[str, Part] = self._ask(self._placements.standing)
        for name, part in wanted.items():
            if standing.get(name) != part:
                try:
                    self._keep(lambda now, name=name, part=part: self._placements.subscribe(name, part, now))  # type: ignore[misc]
                except NetError:
                    raise
                except TocsinError as error:
                    log.warning("subscription %s stays on this site: %s", name, error)
        for name in standing.keys() - wanted.keys():
            part = standing[name]
            self._keep(lambda now, name=name, part=part: self._placements.unsubscribe(name, part, now))  # type: ignore[misc]
        self._seen = changes, now

    def _wanted(self, address: Address) -> Iterator[tuple[str, Part]]:
        """What should be on the ring: a name that no other site has, and a query or path."""
        last, store = 0, self._site.store
        chosen = subscriptions.abouts(store, "exactness")
        while page := subscriptions.begun_after(store, last, documents.last_position(store)):
            for revision in page:
                if revision.until is None:
                    exactness = exactness_of(chosen.get(revision.subscription))
                    for number, part in enumerate(parts_of(revision.asked, exactness, self._site.analysis)):
                        yield _ring_name(revision.subscription, number, part.where, address), part
            last = page[-1].number

    def fares(self, numbers: Iterable[int]) -> dict[int, Fare]:
        """How subscriptions fare, by their numbers; those that are not approximate, or not on the ring yet, are not
        among them. May be called in any thread."""
        if not self.node.is_ready:
            return {}
        try:
            reports: dict[str, Report] = self._ask(self._placements.reports)
        except NetError:
            return {}
        names = {_ring_name(number, 0, Where.PUBLISHERS, self.node.address): number for number in numbers}
        return {
            names[name]: Fare(len(one.publishers), one.population, one.recall)
            for name, one in reports.items()
            if name in names
        }

    # --- documents of this site --------------------------------------------------------------------------------------

    def _share_documents(self) -> None:
        store = self._site.store
        shared, upto = self._note(POSITION), documents.last_position(store)
        if shared is None:  # what was published before the site became a node stays here
            self._keep(lambda now: self._noted(POSITION, upto))
            return
        for page in documents.read(store, shared, upto, PAGE):
            for stored in page:
                while self._ask(lambda: self._placements.under_way) >= UNDER_WAY_MAX:
                    if self._stopping.wait(LOOK_SECONDS):
                        return
                    self._take_notices()
                self._share(stored)
        if upto > shared:
            self._keep(lambda now: self._noted(POSITION, upto))

    def _noted(self, name: bytes, value: int) -> list[Effect]:
        self._notes[name] = b"%d" % value
        return []

    def _share(self, stored: Stored) -> None:
        document = stored.document()
        with_xml = document.xml is not None
        if document.xml is not None:
            try:
                read_markup(document.xml)
            except TocsinError as error:  # accepted by an earlier Tocsin
                log.warning("the XML of %s is seen by this site only: %s", stored.id, error)
                with_xml = False

        def act(now: Seconds) -> list[Effect]:
            self._noted(POSITION, stored.position)
            if self._notes.pop(_arrived(stored.id, stored.version), None) is not None:
                return []
            return self._placements.publish(document, with_xml, now)

        self._keep(act)

    def _withdraw_deleted(self) -> None:
        """The journal says which documents were deleted."""
        seen = self._note(JOURNAL)
        entries = journal.read(self._site.store, limit=PAGE)
        newest = entries[0].number if entries else 0
        if seen is not None and newest <= seen:
            return
        while entries and seen is not None:
            for entry in entries:
                if entry.number > seen and entry.action == "delete document" and entry.target is not None:
                    self._withdraw(entry.target)
            oldest = entries[-1].number
            entries = journal.read(self._site.store, None, oldest, PAGE) if oldest > seen else []
        self._keep(lambda now: self._noted(JOURNAL, newest))

    def _withdraw(self, id: str) -> None:
        if documents.find(self._site.store, id) is not None:
            return  # it was published again since
        self._keep(lambda now: self._placements.withdraw(id, now))

    # --- documents of other sites ------------------------------------------------------------------------------------

    def _take_notices(self) -> None:
        taken = self._note(TAKEN) or 0
        page: list[tuple[int, Notice]] = self._ask(
            lambda: list(islice(self._words.delivery.outbox(taken), FETCHES_MAX))
        )
        if not page:
            return
        unanswered = self._fetch({(one.document, one.version): one for _, one in page if self._is_news(one)})
        owed = [(number, one) for number, one in page if (one.document, one.version) in unanswered]
        self._keep(lambda now: self._taken(page[-1][0], owed))
        self._stirred.set()  # there may be more

    def _taken(self, upto: int, owed: list[tuple[int, Notice]]) -> list[Effect]:
        """What was told up to a number is in the log, refused, or owed by a publisher that is away."""
        self._owed.put(owed, time.time())
        self._words.delivery.forget(upto)
        return self._noted(TAKEN, upto)

    def _ask_again(self) -> None:
        """For what publishers owe that did not answer before."""
        now = time.time()
        given_up: list[tuple[int, Notice]] = self._ask(lambda: self._owed.overdue(now))
        for _, notice in given_up:
            self._refuse(notice, "its publisher has not answered for a week", b"")
        due: list[tuple[int, Notice]] = self._ask(lambda: self._owed.due(now, FETCHES_MAX))
        if not due and not given_up:
            return
        unanswered = self._fetch({(one.document, one.version): one for _, one in due if self._is_news(one)})
        away = {one.link for _, one in due if (one.document, one.version) in unanswered}
        done = [number for number, one in due if (one.document, one.version) not in unanswered]

        def settle(_now: Seconds) -> list[Effect]:
            self._owed.drop({*done, *(number for number, _ in given_up)})
            for link in away:
                self._owed.unanswered(link, time.time())
            return []

        self._keep(settle)

    def _is_news(self, notice: Notice) -> bool:
        """Several subscriptions are told of one document; it is fetched once."""
        return notice.link != self.node.address and _named(notice) not in self._known

    def _fetch(self, wanted: dict[tuple[str, int], Notice]) -> set[tuple[str, int]]:
        """Follows links, and takes in what is there; returns those whose publisher did not answer."""
        for notice in wanted.values():
            self.node.call(lambda member, now, notice=notice: self._words.subscriber.fetch(notice, now))  # type: ignore[misc]
        open, deadline = set(wanted), time.monotonic() + FETCH_SECONDS_MAX
        unanswered: set[tuple[str, int]] = set()
        served: list[tuple[str, int, bytes]] = []
        while open and time.monotonic() < deadline and not self._stopping.is_set():
            try:
                fetched = self._fetched.get(timeout=LOOK_SECONDS)
            except Empty:
                continue
            name = fetched.document, fetched.version
            if name not in open:
                continue
            open.discard(name)
            if not fetched.is_answered:
                unanswered.add(name)
            elif fetched.data is not None:
                served.append((*name, fetched.data))
        for id, version, data in sorted(served):  # a version after those before it: the log takes none that is older
            self._take_in(wanted[id, version], data)
        return unanswered | open

    def _take_in(self, notice: Notice, data: bytes) -> None:
        """Into the log; first it is noted where it came from, so that it is not sent round again."""
        try:
            document = document_from_json(data, self._site.settings.base.document)
            if (document.id, document.version) != (notice.document, notice.version):
                raise DocumentError(f"{notice.link} served another document than {notice.document!r}")
            check(document, self._site.settings.base.markup)
        except DocumentError as error:
            self._refuse(notice, str(error), data)
            self._know(notice)
            return
        mark = _arrived(document.id, document.version)
        was_marked = self._ask(lambda: mark in self._notes)  # it is in the log already, and waits to be passed over
        self._keep(lambda now: self._mark(mark))
        self._site.settle_due()
        accepted = documents.accept(self._site.store, [document], notice.link)
        if accepted.positions[0] is None and not was_marked:
            self._keep(lambda now: self._unmark(mark))
        if accepted.refused:
            self._refuse(notice, str(accepted.refused[0]), data)
        self._know(notice)

    def _know(self, notice: Notice) -> None:
        """It is in the log, or among the letters: not before, or a store that fails meanwhile would lose it."""
        self._known[_named(notice)] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    def _mark(self, mark: bytes) -> list[Effect]:
        self._notes[mark] = b""
        return []

    def _unmark(self, mark: bytes) -> list[Effect]:
        self._notes.pop(mark, None)
        return []

    def _refuse(self, notice: Notice, reason: str, data: bytes) -> None:
        place = f"{notice.link} {notice.document} {notice.version}"
        with self._site.store.write() as transaction:
            outbox.refuse(transaction, JOB, [Letter(place, reason, data[:200].decode(errors="replace"))])


def _maps_settings(ring: RingSettings) -> PublishersSettings:
    interval, usual = ring.interval_seconds, PublishersSettings()
    return PublishersSettings(
        interval_seconds=interval, reposition_seconds=ring.reposition_seconds,
        audit_publishers=ring.audit_publishers, carry_seconds=min(usual.carry_seconds, interval / 4),
    )  # fmt: skip


def _ring_name(subscription: int, part: int, where: Where, address: Address) -> str:
    return f"{subscription}.{part}{where}@{address.partition('@')[0]}"


def _named(notice: Notice) -> tuple[Address, str, int]:
    return notice.link, notice.document, notice.version


def _arrived(id: str, version: int) -> bytes:
    return ARRIVED + b"%d " % version + id.encode()
