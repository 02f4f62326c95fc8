"""One-time queries over everything that is stored: an index for candidates, the language itself for the answer."""

from tocsin.store.search.library import Answer, Hit, Library

__all__ = ["Answer", "Hit", "Library"]
