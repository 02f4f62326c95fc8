"""What is kept: documents, subscriptions, the outbox and who may see it. SQLite by default, PostgreSQL by URL.

Everything that must be together is one transaction. Only this package knows SQL.
"""

from tocsin.store import channels, relations, sets, sources, views  # their tables are part of every store
from tocsin.store.connect import Store, url_of

__all__ = ["Store", "channels", "relations", "sets", "sources", "url_of", "views"]
