"""Near-identical text: MinHash over runs of three words (Broder 1997), the same on every machine and in every run.

The share of two sketches that agrees estimates the Jaccard coefficient of the two sets of runs: with 128 numbers to
within ±0.05 (two standard deviations at 0.9). Sixteen bands of eight numbers: texts that are alike to 0.9 share one
with a probability of 0.9999, to 0.5 with 0.06.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np

from tocsin.model import Document
from tocsin.store.harvested import Sketch, agreement
from tocsin.text import words

NUMBERS, BANDS = 128, 16
RUN = 3  # words
WORDS_MAX = 4_000  # of a text that count

_STATE = np.random.Generator(np.random.PCG64(20_261_115))
_FACTOR = _STATE.integers(1, 1 << 63, NUMBERS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_OFFSET = _STATE.integers(0, 1 << 63, NUMBERS, dtype=np.uint64)


def text_of(document: Document, fields: Iterable[str] = ("title", "summary", "text")) -> str:
    """The text that is compared: of these fields, one after the other."""
    return "\n".join(str(value) for name in fields for value in document.fields.get(name, ()))


def mark_of(text: str) -> bytes:
    """16 bytes that are the same exactly when the words are."""
    return blake2b(" ".join(words(text)).encode(), digest_size=16).digest()


def sketch_of(text: str, words_min: int = 0) -> Sketch | None:
    """The sketch of a text; None if it has too few words."""
    found = words(text)[:WORDS_MAX]
    if len(found) < max(words_min, 1):
        return None
    runs = {" ".join(found[at : at + RUN]) for at in range(max(1, len(found) - RUN + 1))}
    hashed = b"".join(blake2b(run.encode(), digest_size=8).digest() for run in sorted(runs))
    numbers = np.frombuffer(hashed, "<u8").astype(np.uint64)
    # The upper halves of odd multiples: a permutation of the hashes that is good enough to take the least of.
    least = np.full(NUMBERS, np.iinfo(np.uint32).max, np.uint32)
    for first in range(0, len(numbers), 512):
        drawn = ((numbers[first : first + 512, None] * _FACTOR + _OFFSET) >> np.uint64(32)).astype(np.uint32)
        np.minimum(least, drawn.min(axis=0), out=least)
    rows = least.astype("<u4").reshape(BANDS, -1)
    bands = tuple(
        int.from_bytes(blake2b(bytes([at]) + row.tobytes(), digest_size=8).digest(), "big", signed=True)
        for at, row in enumerate(rows)
    )
    return Sketch(rows.tobytes(), bands)


def grouped(texts: Sequence[str], share: float, words_min: int) -> list[list[int]]:
    """The places of the texts, those that are nearly the same together; in order of the first of each group."""
    groups: list[tuple[Sketch | None, list[int]]] = []
    by_band: dict[int, list[int]] = {}
    for place, text in enumerate(texts):
        sketch = sketch_of(text, words_min)
        near = sorted({group for band in sketch.bands for group in by_band.get(band, ())}) if sketch else []
        for group in near:
            first = groups[group][0]
            if sketch is not None and first is not None and agreement(first.values, sketch.values) >= share:
                groups[group][1].append(place)
                break
        else:
            for band in sketch.bands if sketch else ():
                by_band.setdefault(band, []).append(len(groups))
            groups.append((sketch, [place]))
    return [places for _, places in groups]
