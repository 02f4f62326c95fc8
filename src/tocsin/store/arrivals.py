"""Documents that the pipeline brings in from elsewhere: each delivery of them once.

A source repeats what it is not sure to have delivered. Its deliveries are numbered, and the number is noted in the
same transaction as the documents and the records that were refused, so a repeat changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import insert, select

from tocsin.model import Document
from tocsin.store import schema
from tocsin.store.connect import Store
from tocsin.store.documents import Accepted, accept_in
from tocsin.store.outbox import Letter, refuse

batches = schema.batches


def arrive(
    store: Store, job: str, number: int, documents: Sequence[tuple[str, Document]], letters: Sequence[Letter]
) -> Accepted | None:
    """Accepts (place, document) pairs and keeps what was refused; None if this delivery came before."""
    with store.write() as transaction:
        which = (batches.c.job == job) & (batches.c.batch == number)
        if transaction.execute(select(batches.c.batch).where(which)).first() is not None:
            return None
        accepted = accept_in(transaction, [document for _, document in documents])
        conflicts = [Letter(documents[at][0], error.reason) for at, error in accepted.refused.items()]
        refuse(transaction, job, [*letters, *conflicts])
        known = [position for position in accepted.positions if position is not None]
        now = time.time()
        values = {
            "job": job,
            "batch": number,
            "first": min(known, default=1) - 1,
            "last": max(known, default=0),
            "snapshot": 0,
            "statistics": 0,
            "begun": now,
            "done": now,
            "documents": len(documents) + len(letters),
            "matches": 0,
        }
        transaction.execute(insert(batches).values(**values))
        return accepted
