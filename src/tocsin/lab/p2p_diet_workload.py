"""Documents and queries for P2P-DIET §4.1.

The paper filters research papers of 6,869 words on average (its NN corpus, which is not public) with queries made of
words and technical terms that were extracted from the same papers; 1 % of the queries match a paper. Here the papers
are articles of eLife in full, if they are at hand, or made up: a stream of words and of terms of two or three words,
each after Zipf. Terms are extracted as sequences of words that several papers have and that hold no common word, in
place of the C-value method of the paper's reference [6]. A query asks for one to four words and terms, a term as a
phrase; one query in ten also looks into the abstract. How popular its words and terms are decides how many queries
match, so that is set to what the experiment asks for.
"""

from __future__ import annotations

import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tocsin.match.tries import BestFitTrie
from tocsin.model import Document
from tocsin.query.ast import Query, Words, conjunction
from tocsin.query.semantics import Knowledge
from tocsin.sim.workload import vocabulary
from tocsin.text import words

DATA = Path("xml", "elife_jats_xml_350.tar.gz")
WORDS_MIN = 3_000  # shorter articles are summaries
COMMON_SHARE = 0.5  # a word that more of the papers have is too common for a query
SEEN_MIN = 3  # papers that must have a word or a term
PARTS, TERM_SHARE, ABSTRACT_SHARE = (0.1, 0.3, 0.35, 0.25), 0.6, 0.1  # queries of one, two, three and four parts
SAMPLE_QUERIES, SAMPLE_PAPERS, STEPS = 1_500, 12, 10
BLOCK = 10_000

MADE_UP_PAPERS, MADE_UP_WORDS, MADE_UP_VOCABULARY, MADE_UP_TERMS = 150, 6_869, 40_000, 6_000


@dataclass(frozen=True)
class Papers:
    """A collection of papers, and what its queries can be made of."""

    name: str
    documents: tuple[Document, ...]

    @cached_property
    def bodies(self) -> list[tuple[str, ...]]:
        """The words of each paper."""
        return [words(str(document.fields["text"][0])) for document in self.documents]

    @cached_property
    def parts(self) -> tuple[list[str], npt.NDArray[np.float64], int]:
        """Words, then technical terms, with the number of papers that have each; how many are words."""
        frequency = Counter(word for body in self.bodies for word in set(body))
        common = {word for word, count in frequency.items() if count > COMMON_SHARE * len(self.bodies)}
        fit = {word for word in frequency.keys() - common if len(word) > 2 and not word.isdigit()}
        terms: Counter[str] = Counter()
        for body in self.bodies:
            terms.update(set(_sequences(body, fit)))
        singles = sorted(word for word in fit if frequency[word] >= SEEN_MIN)
        several = sorted(term for term, count in terms.items() if count >= SEEN_MIN)
        counts = [frequency[word] for word in singles] + [terms[term] for term in several]
        return singles + several, np.array(counts, np.float64), len(singles)

    def queries(self, count: int, seed: int, popularity: float) -> Iterator[Query]:
        """Queries over words and terms drawn with a chance that goes with the power `popularity` of their frequency.

        Query number i does not depend on the count.
        """
        texts, frequency, singles = self.parts
        chances = [frequency[:singles] ** popularity, frequency[singles:] ** popularity]
        cumulative = [np.cumsum(each) / each.sum() for each in chances]
        for block in range(0, count, BLOCK):
            rng = np.random.default_rng([seed, block])
            sizes = rng.choice(len(PARTS), BLOCK, p=PARTS) + 1
            is_term = rng.random((BLOCK, len(PARTS))) < TERM_SHARE
            drawn = rng.random((BLOCK, len(PARTS)))
            chosen = np.where(
                is_term, singles + np.searchsorted(cumulative[1], drawn), np.searchsorted(cumulative[0], drawn)
            )
            in_abstract = rng.random(BLOCK) < ABSTRACT_SHARE
            for row in range(min(BLOCK, count - block)):
                asked = dict.fromkeys(texts[part] for part in chosen[row, : sizes[row]].tolist())
                fields = ["abstract" if in_abstract[row] else "text"] + ["text"] * (len(asked) - 1)
                parts = [Words(field, text, True) for field, text in zip(fields, asked, strict=True)]
                yield conjunction(list(parts))

    def popularity(self, share: float, seed: int) -> float:
        """The power at which this share of the queries matches a paper, found by halving."""
        sample = self.documents[:: max(1, len(self.documents) // SAMPLE_PAPERS)]
        low, high = -3.0, 4.0
        for _ in range(STEPS):
            middle = (low + high) / 2
            engine = BestFitTrie()
            for number, query in enumerate(self.queries(SAMPLE_QUERIES, seed, middle)):
                engine.add(number, query)
            found = sum(map(len, engine.match(sample, Knowledge())))
            low, high = (middle, high) if found < share * len(sample) * SAMPLE_QUERIES else (low, middle)
        return (low + high) / 2


def _sequences(body: tuple[str, ...], fit: set[str]) -> Iterator[str]:
    """Every two or three fitting words in a row."""
    good = [word in fit for word in body]
    for at in range(len(body) - 1):
        if good[at] and good[at + 1]:
            yield f"{body[at]} {body[at + 1]}"
            if at + 2 < len(body) and good[at + 2]:
                yield f"{body[at]} {body[at + 1]} {body[at + 2]}"


# --- where papers come from ------------------------------------------------------------------------------------------


def papers(seed: int) -> Papers:
    """eLife's articles from the folder that TOCSIN_DATA names (default: ../shared/data), else made-up ones."""
    archive = Path(os.environ.get("TOCSIN_DATA") or "../shared/data") / DATA
    return elife(archive) if archive.is_file() else made_up(seed)


def elife(archive: Path) -> Papers:
    """The articles of the archive that are papers in full."""
    from lxml import etree

    found = []
    with tarfile.open(archive) as files:
        for member in files:
            if member.name.endswith(".xml") and (file := files.extractfile(member)) is not None:
                tree = etree.fromstring(file.read(), etree.XMLParser(resolve_entities=False, no_network=True))
                texts = {name: _text(tree, path) for name, path in FIELDS.items()}
                if len(words(texts["text"])) >= WORDS_MIN:
                    found.append(Document(member.name, {name: (text,) for name, text in texts.items()}))
    return Papers("eLife, articles in full", tuple(found))


FIELDS = {"title": ".//article-title", "abstract": ".//abstract", "text": ".//body"}


def _text(tree: object, path: str) -> str:
    found = tree.find(path)  # type: ignore[attr-defined]  # lxml has no types
    return "" if found is None else " ".join(" ".join(found.itertext()).split())


def made_up(seed: int, count: int = MADE_UP_PAPERS) -> Papers:
    """Papers of words and terms after Zipf."""
    spelled = vocabulary(MADE_UP_VOCABULARY)
    rng = np.random.default_rng([seed, 7])
    terms = [
        [spelled[rank] for rank in rng.integers(200, MADE_UP_VOCABULARY, size)]
        for size in rng.integers(2, 4, MADE_UP_TERMS)
    ]
    units = [[word] for word in spelled[1:]]
    cumulative = [np.cumsum(1 / np.arange(1, len(each) + 1)) for each in (units, terms)]
    found = []
    for number in range(count):
        size = int(rng.normal(MADE_UP_WORDS, MADE_UP_WORDS / 5))
        is_term = rng.random(size) < 0.08
        drawn = rng.random(size)
        which = [np.searchsorted(each, drawn * each[-1]) for each in cumulative]
        text: list[str] = []
        for at in range(size):
            text += terms[which[1][at]] if is_term[at] else units[which[0][at]]
        text = text[:size]
        fields = {"title": text[:12], "abstract": text[12:200], "text": text}
        found.append(Document(f"p{number}", {name: (" ".join(each),) for name, each in fields.items()}))
    return Papers("made up: words and terms after Zipf", tuple(found))
