"""Operations with their types checked."""

from __future__ import annotations

from tocsin.errors import ViewError
from tocsin.views.expression import Call, Expression, Type, kind_of

NUMERIC = frozenset({"+", "-", "*", "/", "div", "%", "neg", "abs", "floor", "ceil", "round", "greatest", "least"})
INSTEAD = {
    "a number": ": write CAST(… AS DOUBLE) or another column",
    "text": ": write CAST(… AS TEXT)",
    "a condition": ": write a comparison",
}
LIKE = frozenset({"like", "ilike"})
TEXTUAL = LIKE | {"lower", "upper", "length", "trim"}


def call(operation: str, *arguments: Expression) -> Call:
    """An operation with its type checked."""
    if operation == "/" and all(argument.type is Type.INTEGER for argument in arguments):
        operation = "div"
    made = _result_type(operation, arguments)
    return Call(operation, arguments, made, kind_of(operation, arguments))


def _result_type(operation: str, arguments: tuple[Expression, ...]) -> Type:
    if operation in NUMERIC:
        return _number(operation, arguments)
    if operation in ("<", "<=", ">", ">=", "=", "<>"):
        _comparable(operation, arguments)
        return Type.BOOLEAN
    if operation in ("and", "or", "not"):
        _all_of(operation, arguments, (Type.BOOLEAN,), "a condition")
        return Type.BOOLEAN
    if operation in TEXTUAL:
        _all_of(operation.upper() if operation in LIKE else operation, arguments, (Type.TEXT,), "text")
        return Type.BOOLEAN if operation in LIKE else Type.INTEGER if operation == "length" else Type.TEXT
    if operation == "substr":
        _all_of(operation, arguments[:1], (Type.TEXT,), "text")
        _all_of(operation, arguments[1:], (Type.INTEGER,), "a place and a length")
        return Type.TEXT
    if operation == "case":
        _all_of("CASE WHEN", arguments[:-1:2], (Type.BOOLEAN,), "a condition")
        return _common("CASE", (*arguments[1::2], arguments[-1]))
    if operation == "coalesce":
        return _common("COALESCE", arguments)
    return {"isnull": Type.BOOLEAN, "integer": Type.INTEGER, "real": Type.REAL}.get(operation, Type.TEXT)


def _number(operation: str, arguments: tuple[Expression, ...]) -> Type:
    _all_of(operation, arguments, (Type.INTEGER, Type.REAL), "a number")
    if operation == "round":
        return arguments[0].type
    reals = any(argument.type is Type.REAL for argument in arguments)
    return Type.REAL if reals else Type.INTEGER


def _all_of(what: str, arguments: tuple[Expression, ...], types: tuple[Type, ...], wanted: str) -> None:
    for argument in arguments:
        if argument.type not in types and argument.type is not Type.NULL:
            instead = INSTEAD.get(wanted, "")
            raise ViewError(f"{what} needs {wanted}, and {argument} is {argument.type.value}{instead}")


def _comparable(operation: str, arguments: tuple[Expression, ...]) -> None:
    left, right = arguments
    if Type.RELATION in (left.type, right.type):
        raise ViewError(f"{left} {operation} {right}: a column that holds a relation can only be shown")
    same = left.type is right.type or (left.type.is_number and right.type.is_number)
    if not same and Type.NULL not in (left.type, right.type):
        raise ViewError(
            f"{left} {operation} {right} compares {left.type.value} with {right.type.value}: write CAST(… AS …)"
        )


def _common(what: str, arguments: tuple[Expression, ...]) -> Type:
    types = {argument.type for argument in arguments} - {Type.NULL}
    if len(types) <= 1:
        return next(iter(types), Type.NULL)
    if types <= {Type.INTEGER, Type.REAL}:
        return Type.REAL
    shown = " and ".join(sorted(found.value for found in types))
    raise ViewError(f"{what} gives {shown}: write CAST(… AS …) so that all results have one type")
