"""Subscriptions that people might make on the papers of the ACL Anthology."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tocsin.text import words

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "acl_subscriptions.jsonl"


def acl_subscriptions(papers: list[str], count: int, rng: np.random.Generator) -> list[dict]:
    """The 200 samples, and others with words of the papers themselves: words, phrases, proximity, years, negation."""
    found = [json.loads(line) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
    while len(found) < count:
        paper = json.loads(papers[rng.integers(len(papers))])
        title = [word for word in words(paper["title"]) if word.isalpha() and word.isascii()]
        if len(title) < 4:
            continue
        at = int(rng.integers(len(title) - 2))
        one, other, third = title[at : at + 3]
        query = (
            f"{one} {other}",
            f"title:{one} {third}",
            f'"{one} {other}"',
            f"title:({one} NEAR[0,3] {third})",
            f"{one} {third} -{rng.choice(title)}",
            f"({one} OR {third}) AND year >= {rng.integers(1990, 2024)}",
            f"{one[:4]}* {other} year:[2000 TO {rng.integers(2001, 2024)}]" if len(one) > 3 else f"{one} {third}",
        )[rng.integers(7)]
        found.append({"id": f"s{len(found):05}", "query": query})
    return found[:count]
