"""The views of a site: kept up to date with every event, and told to those who subscribed.

    site.views.create(account, "CREATE RELATION …; CREATE VIEW …")
    site.views.publish(account, [b'{"relation": "quotes", "tick": 17, …}', …])

One engine computes the common views, and one for each account its own (`site.relations`). A step is one transaction:
events, rows and notifications are stored together or not at all. If that fails, what is in memory is thrown away and
read again from the store; so is it after a restart.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tocsin.errors import EventError, ViewError
from tocsin.site import relations
from tocsin.site import view_memory as memory
from tocsin.site.accounts import Account, Right
from tocsin.site.bell import Bell
from tocsin.site.problems import Conflict, Forbidden, Invalid, NotFound, Problem, TooLarge
from tocsin.site.relations import MATCHES, RELATION, VIEW, Created, problem_of_view
from tocsin.site.settings import ViewSettings
from tocsin.site.view_memory import ViewSet, Wish
from tocsin.store import Store, journal
from tocsin.store import relations as kept
from tocsin.store.connect import Transaction, packed
from tocsin.store.relations import COMMON, OutOfStep, Silent, Statement, Told, Watcher
from tocsin.store.views import Source
from tocsin.views.compile import compile_condition
from tocsin.views.events import Decoder, Event, Item, Silence
from tocsin.views.plan import Node
from tocsin.views.told import Change
from tocsin.views.watch import Watch

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
MATCHES_AT_ONCE = 2_000
CHECKPOINT_EVENTS = 10_000
"""As many are read again at most by who starts again, where views remember little."""
BYTES_AN_EVENT = 200  # of a checkpoint: large ones are taken less often


@dataclass(frozen=True, slots=True)
class Described:
    """A relation or view as an account sees it."""

    name: str
    kind: str
    sql: str
    is_own: bool
    account: str
    created: float
    columns: tuple[tuple[str, str, str], ...]
    """Name, type, and how its values evolve."""
    size: int
    """Rows of a view, events of a relation."""
    closed: bool
    problem: str | None
    step: int = 0
    """The last that was taken: a view looks as before while it stays."""


class Views:
    """The views of a site. Safe to share between threads."""

    def __init__(self, store: Store, bell: Bell, settings: ViewSettings | None = None) -> None:
        self._store, self._bell = store, bell
        self.settings = settings or ViewSettings()
        self._lock = threading.RLock()
        self._statements: list[Statement] = []
        self._sets: dict[str, ViewSet] = {}
        self._decoder = Decoder({})
        self._step = 0
        self._is_stale = True
        self._since = 0  # events after the last checkpoint
        self._checkpoint_bytes = 0
        self._rings = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # --- running -------------------------------------------------------------------------------

    def start(self) -> None:
        """Looks after matches that are events, and after new subscriptions, in a thread."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._keep_looking, name="tocsin-views", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Lets the step that is under way end."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._lock:
            if self._since and not self._is_stale:
                self._checkpoint_at_the_end()

    def _checkpoint_at_the_end(self) -> None:
        try:
            self._checkpoint()
        except Exception:  # the log has it all: the next start only takes longer
            log.warning("no checkpoint of the views was taken", exc_info=True)

    def _keep_looking(self) -> None:
        while not self._stopping.is_set():
            try:
                self.settle()
            except OutOfStep:
                continue
            except Exception:  # the store is away for a moment: what was to be told waits in it
                log.exception("the views of the site")
                self._stopping.wait(1.0)
            self._stopping.wait(LOOK_SECONDS)

    def settle(self) -> None:
        """Counts matches that are events of somebody's views, and tells new subscriptions what there is."""
        with self._lock:
            self._fresh()
            for owner in [owner for owner, one in self._sets.items() if MATCHES in one.engine.plan.relations]:
                while kept.matches_wait(self._store, owner):
                    self._count_matches(owner)
            if kept.waiting(self._store):
                self._write({})

    # --- creating ------------------------------------------------------------------------------

    def create(self, account: Account, text: str) -> Created:
        """Creates relations and views; what cannot stand is named by its line, and the others are made."""
        with self._lock:
            self._fresh()
            mine = sum(1 for one in self._statements if one.account == account.name)
            most = None if account.is_unbound else max(0, self.settings.statements_per_account_max - mine)
            result = relations.create(account, text, self._seen_by(account), self.settings.limits, most)
            if result.made:
                with self._stepping() as (transaction, _):
                    kept.create_in(transaction, result.made)
                    names = ", ".join(one.name for one in result.made)[:500]
                    journal.note_in(transaction, account.name, "create views", names)
                    self._checkpoint_in(transaction)  # only what is new reads the log
                self._load()
            return result

    def drop(self, account: Account, name: str) -> None:
        """Forgets a relation with its events, or a view; refused while something that the account sees reads it."""
        with self._lock:
            found = self._statement(account, name)
            if found.owner == COMMON and found.account != account.name and not account.may(Right.ADMINISTER):
                raise Forbidden(f"{found.name}: whoever created it, or an administrator, may drop it")
            read_by = relations.readers(found.name, self._seen_by(account))
            if read_by:
                raise Conflict(f"{found.name}: {', '.join(read_by[:5])} reads it: drop that first")
            with self._stepping() as (transaction, _):
                kept.drop_in(transaction, found.owner, found.name)
                if found.kind == RELATION:
                    kept.forget_checkpoints_in(transaction)  # of the same name another may come
                else:
                    self._checkpoint_in(transaction)
                journal.note_in(transaction, account.name, "drop view", found.name)
            self._load()

    def _seen_by(self, account: Account) -> list[Statement]:
        return [one for one in self._statements if one.owner in (COMMON, account.name)]

    def _statement(self, account: Account, name: str) -> Statement:
        self._fresh()
        seen = [one for one in self._seen_by(account) if one.name.lower() == name.lower()]
        if not seen:
            raise NotFound(f"there is no relation or view {name[:60]!r}")
        return max(seen, key=lambda one: one.owner)  # the account's own before a common one

    # --- looking -------------------------------------------------------------------------------

    def listed(self, account: Account) -> list[Described]:
        """The relations and views that the account may read, in the order of their creation."""
        with self._lock:
            self._fresh()
            return [self._described(one) for one in self._seen_by(account)]

    def described(self, account: Account, name: str) -> Described:
        """One of them; NotFound."""
        with self._lock:
            return self._described(self._statement(account, name))

    def rows(self, account: Account, name: str, limit: int) -> tuple[Described, list[Change]]:
        """The rows of a view as they are now, by rank or key: at most so many."""
        with self._lock:
            statement = self._statement(account, name)
            about = self._described(statement)
            if statement.kind == RELATION:
                raise Invalid(f"{statement.name} is a relation: make a view of it to see its rows", field="name")
            if about.problem is not None:
                return about, []
            found: list[Change] = []
            for change in self._sets[statement.owner].engine.state_of(statement.name):
                if len(found) == limit:
                    break
                found.append(change)
            return about, found

    def _described(self, one: Statement) -> Described:
        owned = self._sets[one.owner]
        node: Node | None = owned.engine.plan.views.get(one.name) or owned.engine.plan.relations.get(one.name)
        columns = (
            () if node is None else tuple((c.name, c.type.value, c.kind.value) for c in node.columns[: node.visible])
        )
        history = owned.engine.histories.get(one.name) if one.kind == RELATION else None
        size = len(history) if history is not None else 0
        if one.kind == VIEW and node is not None:
            size = owned.engine.size_of(one.name)
        return Described(
            one.name, one.kind, one.sql, one.owner != COMMON, one.account, one.created, columns, size,
            history is not None and history.closed, owned.broken.get(one.name), self._step,
        )  # fmt: skip

    def wish(self, account: Account, body: object) -> Wish:
        """What a subscription asks for, checked: the name of a view, or an object with a condition."""
        hint = 'a view is its name, or {"name": "…", "where": "…"} or {"name": "…", "when": "…"}'
        if isinstance(body, str):
            body = {"name": body}
        if (
            not isinstance(body, Mapping)
            or body.keys() - {"name", "where", "when"}
            or not isinstance(body.get("name"), str)
        ):
            raise Invalid(hint, field="view")
        conditions = [body.get("where"), body.get("when")]
        if all(one is not None for one in conditions):
            raise Invalid(f'{hint}: "where" or "when", not both', field="view")
        for text in conditions:
            if text is not None and not (isinstance(text, str) and text.strip()):
                raise Invalid(f"{hint}: a condition is a text, such as high > 80", field="view")
            if text is not None and len(text) > self.settings.condition_characters_max:
                raise TooLarge(f"a condition has at most {self.settings.condition_characters_max:,} characters")
        with self._lock:
            found = self._statement(account, body["name"])
            owned = self._sets[found.owner]
            if found.kind == RELATION or found.name not in owned.engine.plan.views:
                raise Invalid(f"{found.name} is no view that runs: subscribe to a view", field="view")
            wish = Wish(found.name, body.get("where"), body.get("when"))
            try:
                self._conditions(owned, wish)
            except ViewError as error:
                raise problem_of_view(error) from None
        return wish

    # --- events --------------------------------------------------------------------------------

    def publish(self, lines: Sequence[bytes | str | Problem]) -> list[Problem | None]:
        """Takes lines of events, silences and ends in one step; for each why it was refused, or None."""
        try:
            return self._publish(lines)
        except OutOfStep:
            return self._publish(lines)  # memory is read again first

    def _publish(self, lines: Sequence[bytes | str | Problem]) -> list[Problem | None]:
        with self._lock:
            self._fresh()
            results: list[Problem | None] = [None] * len(lines)
            items: list[Item] = []
            places: list[int] = []
            for place, line in enumerate(lines):
                if isinstance(line, Problem):
                    results[place] = line
                    continue
                try:
                    items.append(_storable(self._decoder.line(line)))
                    places.append(place)
                except EventError as error:
                    results[place] = problem_of_event(error)
            self._take(items, places, results)
            return results

    def _take(self, items: list[Item], places: list[int], results: list[Problem | None]) -> None:
        common = self._sets[COMMON].engine
        room = self.settings.events_max - sum(map(len, common.histories.values()))
        if sum(isinstance(item, Event) for item in items) > room:
            raise TooLarge(f"the site keeps {self.settings.events_max:,} events, and there is no room: drop a relation")

        def refuse(at: int, error: EventError) -> None:
            results[places[at]] = problem_of_event(error)

        self._is_stale = True  # until what happens now is stored
        changes = {COMMON: common.step(items, refuse)}
        taken = [item for place, item in zip(places, items, strict=True) if results[place] is None]
        for owner, one in self._sets.items():
            if owner != COMMON:
                changes[owner] = one.engine.step([item for item in taken if item.relation in one.engine.histories])
        if taken:
            self._write(changes, taken)
        else:
            self._is_stale = False

    def _count_matches(self, owner: str) -> None:
        engine = self._sets[owner].engine
        with self._stepping() as (transaction, step):
            found = kept.count_matches_in(transaction, owner, MATCHES_AT_ONCE)
            items = [Event(MATCHES, one.tick, tuple(one)) for one in found]
            self._keep(transaction, step, {owner: engine.step(items)})
            self._since += len(items)
            if self._is_due():
                self._checkpoint_in(transaction)

    # --- one transaction -----------------------------------------------------------------------

    def _write(self, changes: Mapping[str, Sequence[Change]], taken: Sequence[Item] = ()) -> None:
        with self._stepping() as (transaction, step):
            self._say(transaction, step, taken)
            self._keep(transaction, step, changes)
            self._since += sum(isinstance(item, Event) for item in taken)
            if self._is_due():
                self._checkpoint_in(transaction)

    def _say(self, transaction: Transaction, step: int, taken: Sequence[Item]) -> None:
        histories = self._sets[COMMON].engine.histories
        happened = [(item.relation, item.tick, item.cells) for item in taken if isinstance(item, Event)]
        silent = [Silent(item.relation, item.first, item.last) for item in taken if isinstance(item, Silence)]
        touched = dict.fromkeys(item.relation for item in taken)
        marks = [
            Source(name, None if histories[name].closed else histories[name].known.last(), histories[name].closed)
            for name in touched
        ]
        kept.say_in(transaction, step, marks, happened, silent)

    def _keep(self, transaction: Transaction, step: int, changes: Mapping[str, Sequence[Change]]) -> None:
        for owner, found in changes.items():
            kept.change_in(transaction, step, owner, (_row(change) for change in found))
        told, fresh = self._told(transaction, changes)
        kept.know_in(transaction, fresh)
        if kept.tell_in(transaction, step, told):
            self._rings = True

    def _told(
        self, transaction: Transaction, changes: Mapping[str, Sequence[Change]], anew: bool = False
    ) -> tuple[list[Told], list[Watcher]]:
        """What each subscription is to be told. One that is new, or `anew`: how what there is differs from what it
        was told before."""
        watchers = kept.watchers(transaction)
        inside = {
            owner: {wish: watch.take(self._sets[owner].engine.fresh(wish.view)) for wish, watch in one.watches.items()}
            for owner, one in self._sets.items()
            if owner in changes
        }
        told: list[Told] = []
        used: set[tuple[str, Wish]] = set()
        for watcher in watchers:
            wish = Wish.of(watcher.view)
            owned = self._set_of(watcher.account, wish.view)
            if owned is None:
                continue
            used.add((owned.owner, wish))
            if watcher.is_new or anew:
                told += self._difference(transaction, watcher, owned, wish)
            elif wish.where is None and wish.when is None:
                found = changes.get(owned.owner, ())
                told += [_told(watcher, change) for change in found if change.view == wish.view]
            else:
                told += [_told(watcher, change) for change in inside.get(owned.owner, {}).get(wish, ())]
        for owner, one in self._sets.items():
            one.watches = {wish: watch for wish, watch in one.watches.items() if (owner, wish) in used}
        return told, [watcher for watcher in watchers if watcher.is_new]

    def _difference(self, transaction: Transaction, watcher: Watcher, owned: ViewSet, wish: Wish) -> list[Told]:
        known = kept.last_told(transaction, watcher.subscription)
        watch = self._watch(owned, wish)
        there = owned.engine.state_of(wish.view) if watch is None else watch.state()
        now = {one.row: one for one in (_told(watcher, change) for change in there)}
        told = [one for row, one in now.items() if known.get(row) != one.change]
        for row, text in known.items():
            if row not in now:
                before = json.loads(text)
                if before.get("row") is not None:
                    left = packed({**before, "row": None, "final": False})
                    told.append(Told(watcher.subscription, watcher.account, row, left))
        return told

    def _set_of(self, account: str, view: str) -> ViewSet | None:
        for owner in (account, COMMON):
            found = self._sets.get(owner)
            if found is not None and view in found.engine.plan.views:
                return found
        return None

    def _watch(self, owned: ViewSet, wish: Wish) -> Watch | None:
        if wish.where is None and wish.when is None:
            return None
        found = owned.watches.get(wish)
        if found is None:
            conditions = self._conditions(owned, wish)
            found = owned.watches[wish] = Watch(owned.engine, wish.view, conditions, edges=wish.when is not None)
        return found

    def _conditions(self, owned: ViewSet, wish: Wish) -> Any:
        text = wish.where if wish.where is not None else wish.when
        return () if text is None else compile_condition(wish.view, owned.engine.plan.views[wish.view], text)

    # --- memory and store ----------------------------------------------------------------------

    @contextmanager
    def _stepping(self) -> Iterator[tuple[Transaction, int]]:
        """The transaction of the next step. Memory is not to be trusted until it has ended well."""
        self._is_stale = True
        self._rings = False
        with self._store.write() as transaction:
            step = kept.take_step(transaction, self._step)
            yield transaction, step
        self._step = step
        self._is_stale = False
        if self._rings:
            self._bell.ring()

    def _fresh(self) -> None:
        """Memory is what the store says: read it again if a step failed, or nobody has read it yet."""
        if self._is_stale:
            self._load()

    def _load(self) -> None:
        self._is_stale = True
        self._statements = kept.created(self._store)
        found = memory.read(self._store, self._statements)
        self._sets, self._step = found.sets, found.step
        self._since, self._checkpoint_bytes = found.events, found.checkpoint_bytes
        self._decoder = Decoder(self._sets[COMMON].engine.plan.relations)
        self._is_stale = False
        self._repair()
        if self._is_due():
            self._checkpoint()

    def _is_due(self) -> bool:
        """Whether so much has happened that a checkpoint costs little beside it, and spares much to the next start."""
        return self._since >= max(CHECKPOINT_EVENTS, self._checkpoint_bytes // BYTES_AN_EVENT)

    def _checkpoint(self) -> None:
        with self._stepping() as (transaction, _):
            self._checkpoint_in(transaction)

    def _checkpoint_in(self, transaction: Transaction) -> None:
        """What the views remember now, in the transaction of the step; the log keeps the events that it reflects."""
        self._checkpoint_bytes = memory.write_in(transaction, self._sets)
        self._since = 0

    def _repair(self) -> None:
        """Writes the rows that views have and the store has not, or otherwise: those of a view that is new."""
        with self._store.read() as transaction:
            for watcher in kept.watchers(transaction):
                wish = Wish.of(watcher.view)
                owned = self._set_of(watcher.account, wish.view)
                if owned is not None:
                    self._watch(owned, wish)
            before = {
                owner: {(view, key): (row, final) for view, key, row, final in kept.rows_of(transaction, owner)}
                for owner in {*self._sets, *kept.owners_of_rows(transaction)}
            }
        changes: dict[str, list[tuple[str, str, str | None, bool]]] = {}
        for owner, known in before.items():
            state = () if owner not in self._sets else self._sets[owner].engine.state()
            now = {(view, key): (row, final) for view, key, row, final in map(_row, state)}
            differ = [(*place, *now[place]) for place in now if known.get(place) != now[place]]
            gone = [(*place, None, False) for place in known if place not in now]
            if differ or gone:
                changes[owner] = [*differ, *gone]
        if not changes:
            return
        with self._stepping() as (transaction, step):
            for owner, found in changes.items():
                kept.change_in(transaction, step, owner, found)
            told, fresh = self._told(transaction, {}, anew=True)
            kept.know_in(transaction, fresh)
            self._rings = bool(kept.tell_in(transaction, step, told))


def _storable(item: Item) -> Item:
    """The same, unless a text holds half of a character, which no store can keep."""
    for cell in item.cells if isinstance(item, Event) else ():
        if isinstance(cell, str):
            try:
                cell.encode()
            except UnicodeEncodeError:
                raise EventError(f"{item.relation}: a text holds half of a surrogate pair") from None
    return item


def problem_of_event(error: EventError) -> Problem:
    """A refused event; the sentence names its relation, tick or column."""
    return Invalid(str(error), code="event")


def _row(change: Change) -> tuple[str, str, str | None, bool]:
    row = None if change.row is None else packed(change.row)
    return change.view, packed(change.key), row, change.final


def _told(watcher: Watcher, change: Change) -> Told:
    name = f"{change.view} {packed(change.key)}"
    return Told(watcher.subscription, watcher.account, name, packed(change.json()))
