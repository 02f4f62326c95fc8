"""Limits and choices, each with its unit in its name.

Whatever a stranger can send is bounded by one of these.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one query may ask for."""

    query_characters_max: int = 20_000
    """Length of a query."""
    query_nesting_max: int = 64
    """Parentheses, NOTs and nested queries inside each other."""
    query_atoms_max: int = 4_096
    """Words, phrases, ranges and other predicates; each operand of NEAR counts."""
    query_clauses_max: int = 64
    """Clauses of the disjunctive normal form; beyond it a query is registered whole."""
    query_cost_max: int = 100_000
    """Checks per document in the worst case."""


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """What one document may hold."""

    document_bytes_max: int = 10_485_760
    """Size of a document as it arrives: a line, an element of an array, a row."""
    document_fields_max: int = 1_000
    """Fields of one document."""
    document_values_max: int = 100_000
    """Values over all fields of one document."""


@dataclass(frozen=True, slots=True)
class MarkupLimits:
    """What one XML document may hold."""

    markup_bytes_max: int = 10_485_760
    """Size of the document as it arrives."""
    markup_depth_max: int = 512
    """Elements inside each other."""
    markup_attribute_characters_max: int = 262_144
    """Length of one attribute's value."""
    markup_element_attributes_max: int = 1_024
    """Attributes of one element."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of an installation."""

    query: QueryLimits = QueryLimits()
    document: DocumentLimits = DocumentLimits()
    markup: MarkupLimits = MarkupLimits()


DEFAULTS = Settings()
