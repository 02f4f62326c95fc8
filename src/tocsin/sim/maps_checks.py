"""MAPS under faults: it may miss what it does not monitor; everything else is as strict as for exact placements.

    missed       a publisher kept a query when it published a document that matches, and the subscriber never heard
    wrong        a notice of a document that does not match, or of a subscription that had ended before
    twice        a notice entered an outbox a second time
    open         a publication that is not over, though its publisher lives
    copies       a publisher keeps the query of a subscription that ended

Exact and approximate subscriptions live side by side on the same nodes; the exact ones are held to the full contract
of `sim.placements`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, cast

from tocsin.errors import SettingError
from tocsin.overlay.message import Address
from tocsin.overlay.node import Deliver, Effect, Seconds
from tocsin.overlay.placement.drawer import Drawer
from tocsin.overlay.placement.entry import Mode
from tocsin.overlay.placement.publishers.publisher import Told
from tocsin.overlay.placement.publishers.settings import EXACT, Approximate, Precision, PublishersSettings
from tocsin.overlay.placement.settings import PlacementSettings
from tocsin.overlay.placement.words import Words
from tocsin.query.semantics import holds
from tocsin.sim.maps_world import MapsSite, equip
from tocsin.sim.placements import PlacementOutcome, PlacementRun, PlacementScenario, _Sheet, _Wish
from tocsin.sim.world import World

BRISK = PublishersSettings(interval_seconds=8.0, carry_seconds=1.0, reposition_seconds=8.0, set_support=2)


@dataclass(frozen=True, slots=True)
class MapsScenario:
    """What is done while the ring is troubled."""

    placement: PlacementScenario = PlacementScenario(settings=PlacementSettings(mode=Mode.DHTRIE), query_depth=1)
    maps: PublishersSettings = BRISK


def _subscribe(id: str, text: str, precision: Precision, node: MapsSite, now: Seconds) -> list[Effect]:
    return node.maps.subscriber.subscribe(id, text, now, precision)


class MapsRun(PlacementRun):
    """One run of a scenario under the faults of a seed."""

    def __init__(self, seed: int, scenario: MapsScenario) -> None:
        super().__init__(seed, scenario.placement)
        self.maps = scenario.maps
        self.precisions: dict[str, Precision] = {}
        self.expected: dict[tuple[str, int], set[tuple[Address, str]]] = {}
        self.repositioned = 0

    def _site(self, address: Address, disk: dict[bytes, bytes], life: int) -> Any:
        contacts = () if address == self.routers[0] and not life and not disk else self.routers[:3]
        scenario = self.scenario
        items = Drawer(disk, b"items ")
        site = MapsSite(
            address, contacts, chord=scenario.chord, multicast=scenario.multicast, disk=items, incarnation=life
        )  # fmt: skip
        equip(site, scenario.knowledge, self.maps, scenario.settings, disk=disk, life=life)
        site.words = cast(Words, site.maps)  # what is done to words is done to MAPS
        return site

    def sites(self) -> list[Any]:
        """Routers that are up and have not left."""
        found = (place.process for place in self.world.places.values() if place.is_up)
        return [process for process in found if isinstance(process, MapsSite) and not process.chord.is_gone]

    # --- what is done ------------------------------------------------------------------------------------------------

    def _wish(self, world: World, id: str, owner: Address, version: int) -> None:
        precision = self.precisions.get(id)
        if precision is None:
            is_exact = self.maps.exact and self.chance.random() < 0.3
            approximate = Approximate(self.chance.choice([0.15, 0.4, 1.0]), self.chance.choice([0.0, 0.25, 1.0]))
            precision = self.precisions[id] = EXACT if is_exact else approximate
        while True:
            text = self._query()
            wish = _Wish(id, owner, text, world.now, version)
            self.wishes.setdefault(id, []).append(wish)
            try:
                world.invoke(owner, partial(_subscribe, id, text, precision))
            except SettingError:  # it asks for no word
                self.wishes[id].pop()
                continue
            return

    def _publish(self, world: World) -> None:
        before = set(self.sheets)
        kept = {site.me.address: dict(site.maps.publisher.queries) for site in self.sites()}
        super()._publish(world)
        for name in self.sheets.keys() - before:
            sheet = self.sheets[name]
            some = kept.get(sheet.owner, {})
            self.expected[name] = {
                one for one, query in some.items() if holds(query.query, sheet.document, self.scenario.knowledge)
            }  # fmt: skip

    def _observe(self, now: Seconds, address: Address, effect: Deliver) -> None:
        if isinstance(effect.what, Told):
            sheet = self.sheets[effect.what.id, effect.what.version]
            if not self.maps.exact:
                sheet.done = sheet.done or now
            return
        super()._observe(now, address, effect)

    # --- the checks --------------------------------------------------------------------------------------------------

    def _check_notices(self) -> None:
        every = self.wishes
        self.wishes = {id: some for id, some in every.items() if self.precisions[id] == EXACT}
        super()._check_notices()
        self.wishes = every
        for name, expected in self.expected.items():
            sheet = self.sheets[name]
            for subscriber, id in sorted(expected):
                if not sheet.is_forgotten and self._stayed(id, subscriber, sheet):
                    self.outcome.due += 1
                    if (id, *name) not in self.told:
                        self._wrong("missed", f"{id} of {subscriber} by {sheet}")

    def _stayed(self, id: str, subscriber: Address, sheet: _Sheet) -> bool:
        """Whether a subscription was wanted all the time, by a node that remembers it."""
        wishes = [wish for wish in self.wishes.get(id, ()) if wish.owner == subscriber and wish.asked <= sheet.at]
        return bool(wishes) and wishes[-1].ending is None and not any(wish.is_forgotten for wish in wishes)

    def _check_copies(self) -> None:
        super()._check_copies()
        ended = {wishes[-1].id for wishes in self.wishes.values() if wishes[-1].ended is not None}
        for site in self.sites():
            for _, id in site.maps.publisher.kept():
                if id in ended:
                    self._wrong("copies", f"{id} at publisher {site.me.address}")
        for wishes in self.wishes.values():
            last = wishes[-1]
            if last.ending is not None and last.ended is None and not last.is_forgotten:
                self._wrong("copies", f"{last.id} has not ended")

    def _check_lists(self) -> None:
        if self.maps.exact:
            super()._check_lists()


def draw_maps(seed: int, **changes: Any) -> MapsScenario:
    """Another MAPS for each seed: with exact subscriptions or without."""
    chance = Random(f"maps of {seed}")
    return MapsScenario(replace(MapsScenario().placement, **changes), replace(BRISK, exact=chance.random() < 0.5))


def run_maps(seed: int, scenario: MapsScenario | None = None) -> PlacementOutcome:
    """Runs a scenario under the faults of a seed; `violations` says what went wrong."""
    return MapsRun(seed, scenario or draw_maps(seed)).run()
