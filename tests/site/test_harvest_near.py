"""Near-identical text: sketches estimate how alike two texts are, and are the same everywhere."""

from __future__ import annotations

import random
from hashlib import sha256

from tocsin.site.harvest.near import RUN, grouped, mark_of, sketch_of
from tocsin.store.harvested import agreement

SKETCH = "1e08b10e179a836d22b4ae30177422e1f8c0ae113168dcbb6386514ee62a88c5"
WORDS = [f"word{number}" for number in range(2_000)]


def alike(one: list[str], other: list[str]) -> float:
    """The Jaccard coefficient of the runs of words, by its definition."""
    first, second = ({tuple(text[at : at + RUN]) for at in range(len(text) - RUN + 1)} for text in (one, other))
    return len(first & second) / len(first | second)


def test_agreement_estimates_the_share_of_common_runs():
    chance = random.Random(5)
    off, count = 0.0, 300
    for _ in range(count):
        text = chance.choices(WORDS, k=chance.randint(20, 400))
        changed = [word if chance.random() > 0.1 * chance.random() else chance.choice(WORDS) for word in text]
        one, other = sketch_of(" ".join(text)), sketch_of(" ".join(changed))
        assert one is not None
        assert other is not None
        error = agreement(one.values, other.values) - alike(text, changed)
        assert abs(error) < 0.2  # five standard deviations
        off += error
        if alike(text, changed) > 0.95:
            assert set(one.bands) & set(other.bands)
    assert abs(off / count) < 0.01


def test_texts_that_share_nothing_share_no_band():
    sketches = [sketch_of(" ".join(f"{word}x{number}" for word in WORDS[:100])) for number in range(200)]
    bands = [band for one in sketches if one for band in one.bands]
    assert len(set(bands)) == len(bands) == 200 * 16


def test_a_sketch_is_the_same_on_every_machine():
    found = sketch_of("Peers that publish documents reach their subscribers through super peers")
    assert found is not None
    assert sha256(found.values + repr(found.bands).encode()).hexdigest() == SKETCH


def test_case_and_punctuation_do_not_count_and_short_texts_are_not_compared():
    assert mark_of("Peers, publish!") == mark_of("peers publish")
    assert sketch_of("PEERS that publish — documents.") == sketch_of("peers that publish documents")
    assert sketch_of("too short", words_min=3) is None
    assert sketch_of("", words_min=0) is None


def test_groups_hold_those_that_are_nearly_the_same():
    text = " ".join(WORDS[:60])
    texts = [text, "short", f"{text} more", " ".join(WORDS[100:160]), "short"]
    assert grouped(texts, 0.8, 5) == [[0, 2], [1], [3], [4]]
