"""A site as a node of a ring: its subscriptions and its documents travel to the other sites, theirs come here.

    site.federation = Federation(site, HostSettings(folder / "node", listen, contacts=("example.org:8048",)), say)

What the site's subscriptions ask for is registered on the ring (`overlay.placement.words`), plainer where only the site
can judge (`cover`). A notice from the ring brings a document into the site's own log, once; from there the pipeline
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

from tocsin.errors import DocumentError, QueryError, TocsinError
from tocsin.intake import document_from_json
from tocsin.net.disk import Journal
from tocsin.net.embedded import Embedded
from tocsin.net.host import HostSettings, Say
from tocsin.net.limits import NetError
from tocsin.overlay.delivery import Notice, Notified
from tocsin.overlay.member import Member
from tocsin.overlay.message import Address
from tocsin.overlay.node import Deliver, Effect, Seconds
from tocsin.overlay.placement.cover import ALWAYS, cover
from tocsin.overlay.placement.drawer import Drawer
from tocsin.overlay.placement.subscriber import Fetched
from tocsin.overlay.placement.words import Words
from tocsin.query.ast import nested
from tocsin.query.semantics import Knowledge
from tocsin.query.show import show
from tocsin.query.standing import parse_subscription
from tocsin.settings import QueryLimits
from tocsin.store import documents, journal, outbox, subscriptions
from tocsin.store.documents import Stored
from tocsin.store.outbox import Letter
from tocsin.store.subscriptions import Asked

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
_ANY_SIZE = QueryLimits(1 << 31, 1 << 31, 1 << 31)  # the site has accepted the query

POSITION, TAKEN, JOURNAL, ARRIVED = b"position", b"taken", b"journal", b"arrived "
"""What the node's disk knows of the site: how far the log was shared, how many notices were taken, how far the journal
was read for deletions, and which documents came from the ring."""


class Kept(NamedTuple):
    """Delivered when something that was noted is on the disk."""

    number: int


class Federation:
    """A site's node, and what goes between the two."""

    def __init__(self, site: Site, settings: HostSettings, say: Say) -> None:
        self._site, self._say = site, say
        self.node = Embedded(settings, say, equip=self._equip, on_deliver=self._delivered)
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
        self._words = Words(member, Knowledge(analysis=self._site.analysis), disk=disk, life=life)
        self._words.publisher.archive = self._resource
        self._notes = Drawer(disk, b"site ")

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
            self.node.start()
        except TocsinError as error:
            if not self._stopping.is_set():
                self._say(f"this site is no node: {error}")
            return
        while not self._stopping.is_set():
            try:
                if self.node.is_ready:
                    self._share_subscriptions()
                    self._share_documents()
                    self._withdraw_deleted()
                self._take_notices()
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
        standing: dict[str, str] = self._ask(lambda: dict(self._words.subscriber.standing()))
        for id, text in wanted.items():
            if standing.get(id) != text:
                try:
                    self._keep(lambda now, id=id, text=text: self._words.subscriber.subscribe(id, text, now))  # type: ignore[misc]
                except QueryError as error:
                    log.warning("subscription %s stays on this site: %s", id, error)
        for id in standing.keys() - wanted.keys():
            self._keep(lambda now, id=id: self._words.subscriber.unsubscribe(id, now))  # type: ignore[misc]
        self._seen = changes, now

    def _wanted(self, address: Address) -> Iterator[tuple[str, str]]:
        """What should be on the ring: a name that no other site has, and a query."""
        name, last = address.partition("@")[0], 0
        while page := subscriptions.begun_after(self._site.store, last, documents.last_position(self._site.store)):
            for revision in page:
                if revision.until is None:
                    for part, text in enumerate(self._texts(revision.asked)):
                        yield f"{revision.subscription}.{part}@{name}", text
            last = page[-1].number

    def _texts(self, asked: Asked) -> list[str]:
        """The query, and those nested in it; a path alone could be in any document."""
        if asked.query is None:
            return [show(ALWAYS)] if asked.xpath is not None else []
        analysis = self._site.analysis
        try:
            query = parse_subscription(asked.query, analysis, _ANY_SIZE)
        except QueryError:
            return []  # the pipeline has noted why
        return [show(cover(one, analysis)) for one in (query, *(inner.query for inner in nested(query)))]

    # --- documents of this site --------------------------------------------------------------------------------------

    def _share_documents(self) -> None:
        store = self._site.store
        shared, upto = self._note(POSITION), documents.last_position(store)
        if shared is None:  # what was published before the site became a node stays here
            self._keep(lambda now: self._noted(POSITION, upto))
            return
        for page in documents.read(store, shared, upto, PAGE):
            for stored in page:
                while self._ask(lambda: self._words.publisher.under_way) >= UNDER_WAY_MAX:
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

        def act(now: Seconds) -> list[Effect]:
            self._noted(POSITION, stored.position)
            if self._notes.pop(_arrived(stored.id, stored.version), None) is not None:
                return []
            known, _ = self._words.publisher.documents.get(stored.id, (None, b""))
            if known is not None and known.version >= stored.version:
                return []
            return self._words.publisher.publish(document, now)

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

        def act(now: Seconds) -> list[Effect]:
            return self._words.publisher.withdraw(id, now) if id in self._words.publisher.documents else []

        self._keep(act)

    # --- documents of other sites ------------------------------------------------------------------------------------

    def _take_notices(self) -> None:
        taken = self._note(TAKEN) or 0
        page: list[tuple[int, Notice]] = self._ask(
            lambda: list(islice(self._words.delivery.outbox(taken), FETCHES_MAX))
        )
        if not page:
            return
        unanswered = self._fetch({(one.document, one.version): one for _, one in page if self._is_news(one)})
        upto = taken
        for number, notice in page:
            if (notice.document, notice.version) in unanswered:
                break  # its publisher is away: asked again
            upto = number
        if upto > taken:
            self._keep(lambda now: self._noted(TAKEN, upto))
        if upto == page[-1][0]:
            self._stirred.set()  # there may be more

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
        self._known[_named(notice)] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        try:
            document = document_from_json(data, self._site.settings.base.document)
            if (document.id, document.version) != (notice.document, notice.version):
                raise DocumentError(f"{notice.link} served another document than {notice.document!r}")
        except DocumentError as error:
            self._refuse(notice, str(error), data)
            return
        mark = _arrived(document.id, document.version)
        self._keep(lambda now: self._mark(mark))
        self._site.settle_due()
        accepted = documents.accept(self._site.store, [document], notice.link)
        if accepted.positions[0] is None:
            self._keep(lambda now: self._unmark(mark))
        if accepted.refused:
            self._refuse(notice, str(accepted.refused[0]), data)

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


def _named(notice: Notice) -> tuple[Address, str, int]:
    return notice.link, notice.document, notice.version


def _arrived(id: str, version: int) -> bytes:
    return ARRIVED + b"%d " % version + id.encode()
