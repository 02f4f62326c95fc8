"""What clients expect to publish: fields, or fields with their values (P2P-DIET §2, "Advertisements").

An advertisement gives a client's fields; for some of them it lists the values. It blocks a one-time query when no
document that satisfies it can match: an atom on a field that is not advertised (attribute advertisement: it does not
cover the query), or that no listed value satisfies (attribute/value: they are inconsistent). Where that cannot be
shown the query passes: pruning never loses an answer. NOT, similarity and nested queries are never a reason to block.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tocsin.model import Document, Value
from tocsin.query.ast import And, In, Not, Or, Query, Similar
from tocsin.query.normal import inward
from tocsin.query.semantics import Knowledge, holds
from tocsin.text import UNSEEN_BY_BARE

Values = frozenset[Value] | None


@dataclass(frozen=True, slots=True)
class Advertisement:
    """Fields of a client's documents; None: any values, else only these."""

    fields: Mapping[str, Values] = field(default_factory=dict)

    def is_satisfied(self, document: Document) -> bool:
        """Is the document one of those that were advertised?"""
        for name, values in document.fields.items():
            if name not in self.fields:
                return False
            listed = self.fields[name]
            if listed is not None and not listed.issuperset(values):
                return False
        return True

    def widened(self, document: Document, values_max: int) -> Advertisement:
        """The same with what a document has beyond it; 0 values: only fields are advertised."""
        fields: dict[str, Values] = dict(self.fields)
        for name, values in document.fields.items():
            before = fields.get(name, frozenset())
            if before is not None:
                now = before.union(values)
                fields[name] = now if len(now) <= values_max else None
        return Advertisement(fields)

    def allows(self, query: Query, knowledge: Knowledge) -> bool:
        """Could a document that satisfies this match the query?"""
        return self._allows(inward(query), knowledge)

    def _allows(self, query: Query, knowledge: Knowledge) -> bool:
        match query:
            case And(parts):
                return all(self._allows(part, knowledge) for part in parts)
            case Or(parts):
                return any(self._allows(part, knowledge) for part in parts)
            case Not():
                return True
            case Similar(name, _, threshold):
                return threshold == 0 or name in self.fields or name in UNSEEN_BY_BARE
            case In(name):
                return name in self.fields or name in UNSEEN_BY_BARE
        if query.field in UNSEEN_BY_BARE:
            return True  # every document may have these, advertised or not
        named = self.fields if query.field is None else {query.field} & self.fields.keys()
        # An atom holds of a field when it holds of one of its values, so each listed value can be asked alone.
        return any(
            listed is None or any(holds(query, Document("", {name: (value,)}), knowledge) for value in listed)
            for name in named
            for listed in (self.fields[name],)
        )

    def packed(self) -> bytes:
        """As bytes."""
        lists = {
            name: None if values is None else sorted(values, key=lambda value: (isinstance(value, str), value))
            for name, values in sorted(self.fields.items())
        }
        return json.dumps(lists, ensure_ascii=False, separators=(",", ":")).encode()


def advertisement(data: bytes) -> Advertisement:
    """From bytes; ValueError if they are none."""
    try:
        lists = json.loads(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise ValueError("an advertisement is JSON") from error
    if type(lists) is not dict:
        raise ValueError("an advertisement is an object of fields")
    for values in lists.values():
        if values is not None and not (type(values) is list and all(type(one) in (str, int, float) for one in values)):
            raise ValueError("a field has a list of values, or null")
    return Advertisement({name: None if values is None else frozenset(values) for name, values in lists.items()})
