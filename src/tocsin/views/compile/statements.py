"""Text to statements. A statement that cannot be read is refused by itself; the others go on."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import sqlglot
from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from tocsin.errors import ViewError
from tocsin.views.expression import Column, Kind, Type
from tocsin.views.plan import Relation

TYPES = {
    exp.DataType.Type.BIGINT: Type.INTEGER,
    exp.DataType.Type.INT: Type.INTEGER,
    exp.DataType.Type.SMALLINT: Type.INTEGER,
    exp.DataType.Type.TINYINT: Type.INTEGER,
    exp.DataType.Type.DOUBLE: Type.REAL,
    exp.DataType.Type.FLOAT: Type.REAL,
    exp.DataType.Type.TEXT: Type.TEXT,
    exp.DataType.Type.VARCHAR: Type.TEXT,
    exp.DataType.Type.CHAR: Type.TEXT,
    exp.DataType.Type.BOOLEAN: Type.BOOLEAN,
}

ALWAYS = (exp.PrimaryKeyColumnConstraint, exp.NotNullColumnConstraint, exp.UniqueColumnConstraint)  # of a tick

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # what it warns of is refused here, in our words


class TocsinViews(Dialect):
    """SQL as views have it: names in "double quotes" or `backquotes`, null after everything else unless told."""

    NULL_ORDERING = "nulls_are_last"

    class Tokenizer(tokens.Tokenizer):
        """Both kinds of quotes."""

        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]


Refuse = Callable[[ViewError], None]


@dataclass(frozen=True, slots=True)
class ViewText:
    """A view as it was read."""

    name: str
    query: exp.Expr


def statements(text: str, refuse: Refuse) -> Iterator[Relation | ViewText]:
    """The relations and views of a text, in its order."""
    try:
        tokens = sqlglot.tokenize(text, read=TocsinViews)
    except SqlglotError as error:
        raise ViewError(f"the text cannot be read as SQL: {_short(error)}") from error
    for part in _split(tokens):
        try:
            yield _statement(text, part)
        except ViewError as error:
            refuse(error)


def split(text: str) -> list[tuple[int, str]]:
    """The statements of a text, each with the line (from 1) that it begins on; ViewError if it is no SQL at all."""
    try:
        tokens = sqlglot.tokenize(text, read=TocsinViews)
    except SqlglotError as error:
        raise ViewError(f"the text cannot be read as SQL: {_short(error)}") from error
    return [(part[0].line, text[part[0].start : part[-1].end + 1]) for part in _split(tokens)]


def reads(view: ViewText) -> set[str]:
    """The names of what a view reads, in small letters; those that it defines itself by WITH among them."""
    return {table.name.lower() for table in view.query.find_all(exp.Table)}


def _split(tokens: list[Token]) -> Iterator[list[Token]]:
    held: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if held:
                yield held
            held = []
        else:
            held.append(token)
    if held:
        yield held


def _statement(text: str, tokens: list[Token]) -> Relation | ViewText:
    sql = text[tokens[0].start : tokens[-1].end + 1]
    where = f"line {tokens[0].line}"
    for token in tokens[1:4]:
        if token.text.upper() == "RELATION" and tokens[0].text.upper() == "CREATE":
            at = token.start - tokens[0].start
            sql = sql[:at] + "TABLE" + sql[at + len(token.text) :]
            break
    try:
        found = sqlglot.parse_one(sql, dialect=TocsinViews)
    except SqlglotError as error:
        raise ViewError(f"cannot be read as SQL: {_short(error)}", _name_in(tokens) or where) from error
    except RecursionError as error:
        raise ViewError("it is nested too deeply: split it into several views", _name_in(tokens) or where) from error
    if not isinstance(found, exp.Create) or found.args.get("kind") not in ("TABLE", "VIEW"):
        raise ViewError("only CREATE RELATION and CREATE VIEW … AS SELECT … can stand here", _name_in(tokens) or where)
    if found.args["kind"] == "TABLE":
        return _relation(found)
    query = found.expression
    if found.this.args.get("db"):
        raise ViewError(f"a view has a name without dots, not {found.this.sql()}", _name_in(tokens) or where)
    if isinstance(found.this, exp.Schema) or query is None:
        raise ViewError("write CREATE VIEW name AS SELECT …, with column names as aliases", _name_in(tokens) or where)
    return ViewText(found.this.name, query)


def _name_in(tokens: list[Token]) -> str:
    """What a broken statement would have created."""
    words = [token.text for token in tokens[:6]]
    for at, word in enumerate(words[:-1]):
        if word.upper() in ("RELATION", "TABLE", "VIEW"):
            return words[at + 1]
    return ""


def _short(error: SqlglotError) -> str:
    """sqlglot's first line, without its colours and inner names."""
    first = str(error).split("\n", maxsplit=1)[0]
    plain = re.sub(r"<class '[\w.]*?(\w+)'>", r"\1", re.sub(r"\x1b\[\d+m", "", first))
    return re.sub(r"<Token .*?text: (.*?), line: .*?>", r"\1", plain)


def _relation(created: exp.Create) -> Relation:
    schema = created.this
    if not isinstance(schema, exp.Schema) or created.expression is not None:
        raise ViewError("write CREATE RELATION name (tick BIGINT, column TYPE, …)", created.this.name)
    name = schema.this.name
    found: dict[str, Type] = {}
    for definition in schema.expressions:
        if not isinstance(definition, exp.ColumnDef):
            raise ViewError(f"constraints are not kept: drop {definition.sql()}; the key is always the tick", name)
        column = definition.name
        if column.lower() == "relation":
            raise ViewError("events say their relation under that name: give the column another one", name)
        if column.lower() in map(str.lower, found):
            raise ViewError(f"column {column} is there twice", name)
        found[column] = _type(definition, name)
        _check_constraints(definition, name)
    tick = next((column for column in found if column.lower() == "tick"), None)
    if tick is None:
        found = {"tick": Type.INTEGER, **found}
    elif found[tick] is not Type.INTEGER:
        raise ViewError("the tick counts a source's logical time: write tick BIGINT", name)
    elif tick != "tick":
        found = {("tick" if column == tick else column): kind for column, kind in found.items()}
    columns = tuple(Column(at, kind, Kind.FINAL, column) for at, (column, kind) in enumerate(found.items()))
    return Relation(name, columns)


def _check_constraints(definition: exp.ColumnDef, relation: str) -> None:
    """What is true of every tick may be said of it; nothing else would be checked."""
    for constraint in definition.args.get("constraints") or ():
        if definition.name.lower() != "tick" or not isinstance(constraint.args.get("kind"), ALWAYS):
            raise ViewError(
                f"column {definition.name}: {constraint.sql()} is not checked, so leave it out; what an event leaves "
                "out is null",
                relation,
            )


def _type(definition: exp.ColumnDef, relation: str) -> Type:
    declared = definition.args.get("kind")
    kind = TYPES.get(declared.this) if isinstance(declared, exp.DataType) else None
    if kind is None:
        given = declared.sql() if declared is not None else "no type"
        raise ViewError(
            f"column {definition.name} has {given}: write BIGINT, DOUBLE, TEXT or BOOLEAN (a time as BIGINT or TEXT)",
            relation,
        )
    return kind
