"""Nested subscriptions: sets of values that grow with the collection (SmartSeer §VI-B)."""

from tocsin.match.nested.subscriptions import NestedSubscriptions, Reason, Told
from tocsin.match.nested.tables import InMemory, Tables

__all__ = ["InMemory", "NestedSubscriptions", "Reason", "Tables", "Told"]
