"""Relations and views as accounts create them: which stand, which are refused, and whose they are.

Relations are common, like documents, and publishers create them. A view of a publisher is common, too, unless it reads
`matches`, in which every account finds its own notifications and nobody else's: then it is the account's own. What
accounts create that do not publish is always their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tocsin.errors import ViewError
from tocsin.site.accounts import Account, Right
from tocsin.site.problems import Conflict, Forbidden, Invalid, OverQuota, Problem
from tocsin.store.relations import COMMON, Statement
from tocsin.views.compile import compile_views
from tocsin.views.compile.statements import ViewText, reads, split, statements
from tocsin.views.limits import LIMITS, ViewLimits
from tocsin.views.plan import Node, Plan, Relation

RELATION, VIEW = "relation", "view"
MATCHES = "matches"
MATCHES_SQL = (
    "CREATE RELATION matches (tick BIGINT, subscription TEXT, document TEXT, version BIGINT, score DOUBLE, day BIGINT)"
)
"""What was found for an account: the id of its subscription, the document, and the day, counted since 1970."""
UNLIMITED = ViewLimits(1 << 40, 1 << 31, 1 << 31, 1 << 31, 1 << 31)  # what was accepted before


@dataclass(slots=True)
class Created:
    """What came of a text."""

    made: list[Statement] = field(default_factory=list)
    known: int = 0
    """Statements that stood there before, word for word."""
    rejected: list[tuple[int, Problem]] = field(default_factory=list)
    """By the line that the statement begins on."""


@dataclass(frozen=True, slots=True)
class _Offered:
    line: int
    sql: str
    found: Relation | ViewText

    @property
    def name(self) -> str:
        return self.found.name


def create(
    account: Account, text: str, standing: Sequence[Statement], limits: ViewLimits = LIMITS, most: int | None = None
) -> Created:
    """Reads a text beside what stands already, common or the account's own. Problem if the whole is too much."""
    result = Created()
    try:
        limits.check_text(text)
        parts = split(text)
    except ViewError as error:
        result.rejected.append((1, problem_of_view(error)))
        return result
    if not parts:
        raise Invalid("there is no statement: write CREATE RELATION … or CREATE VIEW … AS SELECT …", field="sql")
    offered = [one for one in (_read(line, sql, account, result) for line, sql in parts) if one is not None]
    fresh = _without_known(offered, standing, result)
    fresh = _that_stand(fresh, standing, limits, result)
    own = _own(account, fresh, standing)
    now = time.time()
    for one in fresh:
        kind = RELATION if isinstance(one.found, Relation) else VIEW
        if most is not None and len(result.made) >= most:
            result.rejected.append(
                (one.line, OverQuota("the account has created as many relations and views as it may"))
            )
            continue
        owner = account.name if one.name.lower() in own else COMMON
        result.made.append(Statement(owner, one.name, kind, one.sql, account.name, now))
    result.rejected.sort(key=lambda pair: pair[0])
    return result


def _read(line: int, sql: str, account: Account, result: Created) -> _Offered | None:
    refused: list[ViewError] = []
    found = next(iter(statements(sql, refused.append)), None)
    if found is None:
        result.rejected.append((line, problem_of_view(refused[0])))
        return None
    problem: Problem | None = None
    if found.name.lower() == MATCHES:
        problem = Invalid(f"{found.name}: the name is taken: it stands for what was found for you", code="view")
    elif "\0" in sql:
        problem = Invalid(f"{found.name}: the statement holds the character NUL: leave it out", code="view")
    elif len(found.name) > 200 or not found.name.isprintable():
        problem = Invalid("a name has at most 200 printable characters", code="view")
    elif isinstance(found, Relation) and not account.may(Right.PUBLISH):
        problem = Forbidden(f"{found.name}: relations are common: a publisher creates them")
    if problem is not None:
        result.rejected.append((line, problem))
        return None
    return _Offered(line, sql, found)


def _without_known(offered: Iterable[_Offered], standing: Sequence[Statement], result: Created) -> list[_Offered]:
    """An identical repeat is taken and changes nothing; another statement of the same name is refused."""
    known = {one.name.lower(): one.sql for one in standing}
    fresh: list[_Offered] = []
    for one in offered:
        before = known.get(one.name.lower())
        if before is None:
            known[one.name.lower()] = one.sql
            fresh.append(one)
        elif before.split() == one.sql.split():
            result.known += 1
        else:
            result.rejected.append(
                (one.line, Conflict(f"{one.name}: the name is taken: choose another, or drop that one"))
            )
    return fresh


def _that_stand(
    offered: list[_Offered], standing: Sequence[Statement], limits: ViewLimits, result: Created
) -> list[_Offered]:
    """Those that compile beside all others; what reads a refused one is refused as well."""
    text = joined([MATCHES_SQL, *(one.sql for one in standing), *(one.sql for one in offered)])
    try:
        compiled = compile_views(text, ViewLimits(UNLIMITED.text_bytes_max, *_but_text(limits)))
    except ViewError as error:  # all of it together is too much
        result.rejected += [(one.line, problem_of_view(error)) for one in offered]
        return []
    refused = {error.name.lower(): error for error in compiled.refused}
    for one in offered:
        if one.name.lower() in refused:
            result.rejected.append((one.line, problem_of_view(refused[one.name.lower()])))
    return [one for one in offered if one.name.lower() not in refused]


def _but_text(limits: ViewLimits) -> tuple[int, int, int, int]:
    return limits.views_max, limits.nodes_max, limits.columns_max, limits.inputs_max


def _own(account: Account, offered: list[_Offered], standing: Sequence[Statement]) -> set[str]:
    """The names of what only the account may see: it reads what is its own, or the account does not publish."""
    views = [one.found for one in offered if isinstance(one.found, ViewText)]
    if not account.may(Right.PUBLISH):
        return {view.name.lower() for view in views}
    own = {MATCHES, *(one.name.lower() for one in standing if one.owner != COMMON)}
    while more := [view.name.lower() for view in views if view.name.lower() not in own and reads(view) & own]:
        own.update(more)
    return own - {MATCHES}


def problem_of_view(error: ViewError) -> Problem:
    """A refused relation or view; its name stands in the sentence."""
    return Invalid(str(error), code="view")


def joined(parts: Iterable[str]) -> str:
    """Statements as one text."""
    return ";\n".join(parts)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What one owner's views are computed by."""

    plan: Plan
    broken: dict[str, str]
    """Views that cannot run any more, and why."""


def compiled(owner: str, every: Sequence[Statement]) -> Compiled:
    """The owner's views, with the sources that they need; the common ones with every relation."""
    mine = [one for one in every if one.owner == owner]
    common = [] if owner == COMMON else [one for one in every if one.owner == COMMON]
    texts = [*(one.sql for one in mine), *(one.sql for one in common)]
    found = compile_views(joined(texts if owner == COMMON else [MATCHES_SQL, *texts]), UNLIMITED)
    names = {one.name for one in mine if one.kind == VIEW}
    views = {name: node for name, node in found.plan.views.items() if name in names}
    relations = found.plan.relations if owner == COMMON else _sources(views.values())
    broken = {error.name: error.reason for error in found.refused if error.name in names}
    return Compiled(Plan(relations, views), broken)


def _sources(nodes: Iterable[Node]) -> dict[str, Relation]:
    found: dict[str, Relation] = {}
    waiting, seen = list(nodes), set[Node]()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Relation):
            found[node.name] = node
        waiting.extend(node.inputs)
    return found


def readers(name: str, every: Iterable[Statement]) -> list[str]:
    """The views that read a relation or view."""
    found = []
    for one in every:
        if one.kind == VIEW and one.name.lower() != name.lower():
            read = next(iter(statements(one.sql, lambda error: None)), None)
            if isinstance(read, ViewText) and name.lower() in reads(read):
                found.append(one.name)
    return found
