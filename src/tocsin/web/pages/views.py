"""Views on pages: which there are, and one with its rows, live. What can still change looks as if it could."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import Response

from tocsin.site import life
from tocsin.site.accounts import Right
from tocsin.site.problems import Invalid
from tocsin.store import subscriptions
from tocsin.views.spoken import Spoken, spoken
from tocsin.views.told import Change
from tocsin.web.answers import json_answer
from tocsin.web.pages.view import View

ROWS = 200
LISTED = 1_000
EXAMPLE = """CREATE RELATION quotes (tick BIGINT, issue TEXT, price DOUBLE);
CREATE VIEW hourly AS
  SELECT issue, tick / 3600 AS hour, max(price) AS high, min(price) AS low, latest(price) AS now
  FROM quotes GROUP BY issue, tick / 3600;"""


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a view in words."""

    cells: tuple[Spoken, ...]
    final: bool


def listed(view: View) -> Response:
    """All relations and views that the account may read."""
    return _list(view)


def _list(view: View, sql: str = "", problems: Sequence[tuple[int, str]] = (), made: int = 0) -> Response:
    found = view.site.views.listed(view.owner)
    return view.page(
        "views.html",
        422 if problems else 200,
        views=[one for one in found if one.kind == "view"],
        relations=[one for one in found if one.kind == "relation"],
        may_publish=view.owner.may(Right.PUBLISH),
        sql=sql,
        problems=problems,
        made=made,
        example=EXAMPLE,
    )


def create(view: View) -> Response:
    """Statements from the form; what was refused stands there with its reason."""
    sql = view.given("sql")
    result = view.site.views.create(view.owner, sql)
    if result.rejected:
        return _list(view, sql, [(line, problem.message) for line, problem in result.rejected], len(result.made))
    names = ", ".join(one.name for one in result.made)
    return view.go("/views", note=f"{names} created." if names else "All of it was there before.")


def one(view: View) -> Response:
    """A view with its rows as they are now."""
    return _one(view, view.asked("name"))


def _one(view: View, name: str, problem: str = "", form: dict[str, str] | None = None) -> Response:
    about, rows = view.site.views.rows(view.owner, name, ROWS)
    mine = [kept for kept in subscriptions.newest(view.site.store, view.owner.name, LISTED) if kept.asked.view]
    own = [(kept, life.as_json(kept)["view"]) for kept in mine]
    return view.page(
        "view.html",
        422 if problem else 200,
        path="/views",
        about=about,
        lines=[_line(about.columns, change) for change in rows],
        more=max(0, about.size - len(rows)),
        followed=[(kept, wish) for kept, wish in own if wish["name"] == about.name],
        problem=problem,
        form=form or {},
    )


def _line(columns: Sequence[tuple[str, str, str]], change: Change) -> Line:
    row = change.row or {}
    return Line(tuple(spoken(row.get(name)) for name, _, _ in columns), change.final)


def pulse(view: View) -> Response:
    """What an open page asks now and then: does the view look different?"""
    return json_answer({"last": view.site.views.described(view.owner, view.asked("name")).step})


def change(view: View) -> Response:
    """A button of the page was pressed: subscribe, or drop."""
    name, what = view.given("name"), view.given("do")
    about = view.site.views.described(view.owner, name)
    if what == "drop":
        view.site.views.drop(view.owner, about.name)
        return view.go("/views", note=f"{about.name} is dropped.")
    if what != "subscribe":
        raise Invalid("this button is not known")
    how, condition = view.given("how"), view.given("condition")
    wish: dict[str, str] = {"name": about.name}
    if condition:
        wish["when" if how == "when" else "where"] = condition
    elif how == "when":
        return _one(view, name, "Say what you wait for, such as high > 80.", view.form)
    body = {"view": wish, "name": view.given("called") or f"{about.name}{': ' + condition if condition else ''}"}
    try:
        life.create(view.site, view.owner, body)
    except Invalid as problem:
        return _one(view, name, problem.message, view.form)
    return view.go("/view", name=about.name, note="Subscribed: what changes appears among your alerts.")
