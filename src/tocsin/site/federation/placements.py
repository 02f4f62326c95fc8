"""The placements of a site (`net.equipment`), and what it does with them.

A document is published to all of them at once, a part of a subscription lives in one.
"""

from __future__ import annotations

from tocsin.markup import read_markup
from tocsin.match.paths import PathIndex
from tocsin.model import Document
from tocsin.net.equipment import Equipment
from tocsin.overlay.node import Effect, Seconds
from tocsin.overlay.placement.publishers.record import Report
from tocsin.overlay.placement.publishers.settings import Approximate
from tocsin.query.xpath import parse_xpath
from tocsin.site.exactness import Exactness
from tocsin.site.federation.asking import Part, Where


def warm() -> None:
    """Loads the kernels that check the predicates of paths: a node that did so when the first document comes would be
    silent for so long that others might think it dead."""
    index = PathIndex()
    index.add(0, parse_xpath("/a[b = 1]//c"))
    index.match(read_markup("<a><b>1</b><c/></a>"))


class Placements(Equipment):
    """A node's subscriptions and documents, in all placements. To be called in the node's thread."""

    # --- subscriptions -----------------------------------------------------------------------------------------------

    def subscribe(self, name: str, part: Part, now: Seconds) -> list[Effect]:
        """Asks for something, or for something else under the same name."""
        exactness = part.exactness
        if part.where is Where.STATES:
            return self.states.subscriber.subscribe(name, part.text, now, dict(part.namespaces))
        if part.where is Where.PUBLISHERS and exactness.rho is not None:
            precision = Approximate(exactness.rho, exactness.alpha)
            return self.publishers.subscriber.subscribe(name, part.text, now, precision)
        return self.words.subscriber.subscribe(name, part.text, now)

    def unsubscribe(self, name: str, part: Part, now: Seconds) -> list[Effect]:
        """Takes every copy back (X2)."""
        if part.where is Where.STATES:
            return self.states.subscriber.unsubscribe(name, now)
        if part.where is Where.PUBLISHERS:
            return self.publishers.subscriber.unsubscribe(name, now)
        return self.words.subscriber.unsubscribe(name, now)

    def standing(self) -> dict[str, Part]:
        """What is asked for now, by name."""
        found = {name: Part(Where.WORDS, text) for name, text in self.words.subscriber.standing()}
        for name, report in self.reports().items():
            assert isinstance(report.precision, Approximate)
            exactness = Exactness(report.precision.rho, report.precision.alpha)
            found[name] = Part(Where.PUBLISHERS, report.text, exactness=exactness)
        for name, text in self.states.subscriber.standing():
            spaces = self.states.subscriber.namespaces(name)
            found[name] = Part(Where.STATES, text, tuple(sorted(spaces.items())))
        return found

    def reports(self) -> dict[str, Report]:
        """How the approximate subscriptions fare, by name."""
        every = self.publishers.subscriber.standing()
        return {one.id: one for one in every if isinstance(one.precision, Approximate)}

    # --- documents ---------------------------------------------------------------------------------------------------

    @property
    def under_way(self) -> int:
        """Publications that are not done."""
        return self.words.publisher.under_way + self.states.publisher.under_way

    def has(self, id: str) -> bool:
        """Whether a document of this id is published here."""
        return id in self.words.publisher.documents

    def publish(self, document: Document, with_xml: bool, now: Seconds) -> list[Effect]:
        """Publishes a document, or its next version; one that was published stays as it is."""
        known, _ = self.words.publisher.documents.get(document.id, (None, b""))
        if known is not None and known.version >= document.version:
            return []
        effects: list[Effect] = []
        if with_xml and self._is_new_path(document):
            effects += self.states.publisher.publish(document, now)
        return [*effects, *self.publishers.publisher.publish(document, now)]

    def _is_new_path(self, document: Document) -> bool:
        known = self.states.publisher.versions.get(document.id)
        return known is None or known < document.version

    def withdraw(self, id: str, now: Seconds) -> list[Effect]:
        """Takes a document back."""
        self.states.publisher.withdraw(id)
        if self.publishers.publisher.has(id):
            return self.publishers.publisher.withdraw(id, now)
        return self.words.publisher.withdraw(id, now) if self.has(id) else []
