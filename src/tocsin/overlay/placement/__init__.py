"""Where queries live, and which nodes a document visits: the question that four of the five papers answer.

A placement has two sides that must agree: whatever a query's homes are, a document that matches it must visit one of
them. `words` is the placement of SmartSeer and DHTrie: words have owners on the ring, and both sides meet there.

    messages     what the nodes of a placement say to each other
    entry        a query as its homes keep it; where it lives, and which of its homes speaks for a document
    asking       questions that are asked again until they are answered
    home         the nodes where queries live: matching, conversations
    lists        which documents hold a word: at the owners of words
    publisher    the nodes where documents come from
    subscriber   the nodes that want to be told
    library      one-time queries, answered from the lists of documents
    nested       nested subscriptions: subqueries and deltas, registered as any query
    cover        a plainer query that holds wherever another does
    words        all of these as one component of a node, in any mix of roles
    broadcast    a document to every node
    publishers   MAPS: queries at the most promising publishers, for less traffic and not quite every match
    client       a node that is not in the ring itself
    states       the XML filtering paper's placement: an automaton of XPath queries, each state with an owner
    superpeers   P2P-DIET's placement: no ring, a graph of access points (a package of its own)
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from tocsin.model import Document
from tocsin.overlay.key import Key
from tocsin.overlay.node import Effect, Seconds
from tocsin.query.ast import Query


class Placement(Protocol):
    """Chooses homes for queries, and brings documents there."""

    def homes(self, query: Query) -> AbstractSet[Key]:
        """The keys under which a query is kept."""

    def visit(self, document: Document) -> AbstractSet[Key]:
        """The keys whose owners a document visits: at least one home of every query that it matches."""

    def handle(self, message: Any, now: Seconds) -> list[Effect]:
        """A message of another node of the placement."""
