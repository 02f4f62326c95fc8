"""An inverted file for each field of the resources at a super-peer (P2P-DIET §3, "One-Time Queries").

Each file maps a word to the documents that hold it in that field; bare words have a file of their own. A query is
evaluated "in the standard way": a conjunction intersects, a disjunction unites, and what the files cannot decide
(phrases, distances, ranges, negations) is asked of the documents that remain.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from tocsin.match.rendezvous.registered import held_keys
from tocsin.match.requirement import PREFIX, PRESENT, exact_keys
from tocsin.model import Document
from tocsin.query.ast import And, Exists, Not, Or, Query
from tocsin.query.normal import Key, inward, keys_of
from tocsin.query.semantics import Knowledge, holds


class FieldFiles:
    """Documents by name, and where each word is."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._documents: dict[str, Document] = {}
        self._held: dict[str, frozenset[Key]] = {}
        self._files: dict[tuple[str, str], dict[str, set[str]]] = {}  # field and analysis -> word -> names
        self.checked = 0
        """Documents that had to be looked at."""

    def __len__(self) -> int:
        return len(self._documents)

    def __contains__(self, name: str) -> bool:
        return name in self._documents

    def add(self, name: str, document: Document) -> None:
        """Adds a document, or puts it in the place of another."""
        self.remove(name)
        held = held_keys(document, self._knowledge.analysis)
        self._documents[name], self._held[name] = document, held
        for key in held:
            self._files.setdefault((key.field, key.analysis), {}).setdefault(key.word, set()).add(name)

    def remove(self, name: str) -> None:
        """Forgets a document, if it is there."""
        if name not in self._documents:
            return
        del self._documents[name]
        for key in self._held.pop(name):
            words = self._files[key.field, key.analysis]
            words[key.word].discard(name)
            if not words[key.word]:
                del words[key.word]

    def search(self, query: Query) -> dict[str, Document]:
        """All documents that match."""
        names, is_exact = self._candidates(inward(query))
        found = self._documents.keys() if names is None else names
        if is_exact:
            return {name: self._documents[name] for name in found}
        self.checked += len(found)
        return {
            name: self._documents[name]
            for name in sorted(found)
            if holds(query, self._documents[name], self._knowledge)
        }

    def scan(self, query: Query) -> dict[str, Document]:
        """The same without files: what `search` must equal."""
        return {name: document for name, document in self._documents.items() if holds(query, document, self._knowledge)}

    def _candidates(self, query: Query) -> tuple[AbstractSet[str] | None, bool]:
        """Names among which all matches are (None: all), and whether all of them match."""
        match query:
            case And(parts):
                return self._conjunction([self._candidates(part) for part in parts])
            case Or(parts):
                every = [self._candidates(part) for part in parts]
                united: set[str] = set()
                for names, _ in every:
                    if names is None:
                        return None, False
                    united |= names
                return united, all(is_exact for _, is_exact in every)
            case Not():
                return None, False
            case Exists(field):
                return self._file(Key(field, PRESENT, "")), True
        analysis = self._knowledge.analysis
        exact = exact_keys(query, analysis)
        if exact is not None and not any(key.analysis == PREFIX for key in exact):
            return self._union(frozenset({key}) for key in exact), True
        options = keys_of(query, analysis)
        return (self._union(options), False) if all(options) else (None, False)

    @staticmethod
    def _conjunction(every: list[tuple[AbstractSet[str] | None, bool]]) -> tuple[AbstractSet[str] | None, bool]:
        known = sorted((names for names, _ in every if names is not None), key=len)
        if not known:
            return None, False
        found: AbstractSet[str] = known[0]
        for names in known[1:]:
            found = found & names
        return found, all(is_exact for _, is_exact in every)

    def _union(self, options: Iterable[frozenset[Key]]) -> AbstractSet[str]:
        """Documents that hold all keys of some option."""
        found: set[str] = set()
        for keys in options:
            files = sorted((self._file(key) for key in keys), key=len)
            found |= set.intersection(*(set(one) for one in files)) if len(files) > 1 else files[0]
        return found

    def _file(self, key: Key) -> AbstractSet[str]:
        return self._files.get((key.field, key.analysis), {}).get(key.word, frozenset())
