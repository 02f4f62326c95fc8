"""Write docs/acl.md: ten of the 200 sample subscriptions, and what they found among the papers of the ACL Anthology.

Run by hand (`.venv/bin/python -m tools.acl_page`), since the papers lie outside the project: in the folder that
TOCSIN_DATA names, by default ../shared/data.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "acl.md"
SUBSCRIPTIONS = ROOT / "examples" / "acl_subscriptions.jsonl"
PAPERS = Path(os.environ.get("TOCSIN_DATA") or ROOT.parent / "shared" / "data") / "scholarly" / "acl_papers.jsonl.gz"

BEST = 3  # papers shown of each subscription
AUTHORS = 3  # authors shown of each paper

CHOSEN = {
    "hallucination-detection": "Two kinds of proximity: `NEAR/3` in either order, `NEAR[0,3]` only as written.",
    "llm-then-reasoning": "A chain: three words side by side, and a fourth at most six words later.",
    "speech-translation-direct": "A term of several words is a phrase, and `NOT` leaves out what contains the word.",
    "data-augmentation-summer": "A phrase in one field, a range of numbers in another.",
    "id-prefix-first-volumes": "Prefixes: of a word, and of an `id`, which is one word as a whole.",
    "full-width": "Words are folded on both sides: full width, ligatures and capitals make no difference.",
    "like-unlearning": "Likeness to a text: its cosine must reach the threshold.",
    "uzh-circle-on-speech": "A nested query: the authors of all papers of one author, then what they write on speech. "
    "It follows the circle as it grows: a new co-author brings older papers along.",
    "two-handshakes": "Nested twice: co-authors of co-authors.",
    "years-of-cuneiform": "Nested over numbers: the years in which the workshop had a paper on cuneiform.",
}

HEAD = """# 200 subscriptions over 36,836 papers

<!-- Made by `python -m tools.acl_page` from a real run: edit that, not this page. -->

[`examples/acl_subscriptions.jsonl`](../examples/acl_subscriptions.jsonl) holds 200 subscriptions, written by hand, that
use every form of the [query language](reference/query-language.md). Here they meet {papers:,} papers of the
[ACL Anthology](https://aclanthology.org), from {first} to {last}, in the order in which they were published:

```sh
tocsin match -s examples/acl_subscriptions.jsonl -d acl_papers.jsonl.gz -o matches.jsonl
```

They found {matches:,} matches: {finding} subscriptions found something, {silent} nothing (some wait for a field that
these papers do not have, one for penguins). It took {seconds:.0f} seconds of processor time on one core of a machine
with {cores} cores, unpacking and reading the papers twice included. `tests/test_acl.py` compares the matches with those
of the oracle, the short and slow definition of the language.

Ten of the 200 follow, each with its {best} best papers and, from `--explain`, where they matched. The number in front
is the score. It weighs the words that a query asks for; one that asks only for prefixes, ranges, likeness or nested
values has none, and scores 0.
"""

FOOT = """## The papers

Titles, authors and years are from the [ACL Anthology](https://aclanthology.org), materials of the Association for
Computational Linguistics, licensed under [CC BY 4.0](https://creativecommons.org/licenses/by/4.0/). The file was made
from [acl-org/acl-anthology](https://github.com/acl-org/acl-anthology) at 70ba9735: papers of 2019 and later in volumes
that the ACL published, with an abstract of 20 words or more; fields were selected, markup stripped, and the papers
sorted by year and month. It is not part of this project; tests that need it look in the folder that `TOCSIN_DATA`
names.
"""

Line = dict[str, Any]


def match(subscriptions: Sequence[Line], *options: str) -> list[Line]:
    """The output of `tocsin match` over the papers."""
    with TemporaryDirectory() as folder:
        given, output = Path(folder, "subscriptions.jsonl"), Path(folder, "matches.jsonl")
        given.write_text("".join(f"{json.dumps(one)}\n" for one in subscriptions), encoding="utf-8")
        files = ["-s", str(given), "-d", str(PAPERS), "-o", str(output)]
        subprocess.run([sys.executable, "-m", "tocsin", "match", *files, *options], check=True)
        return [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]


def processor_seconds() -> float:
    """Used so far by the commands that were run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def section(subscription: Line, found: Sequence[Line], papers: dict[str, Line]) -> Iterator[str]:
    """One subscription, what it shows, and its best papers."""
    yield f"## {subscription['name']}\n"
    yield f"```\n{subscription['query']}\n```\n"
    yield f"`{subscription['id']}` found {len(found):,}. {CHOSEN[subscription['id']]}\n"
    for line in sorted(found, key=_rank)[:BEST]:
        paper = papers[line["document"]]
        link = f"[{_plain(paper['title'])}](https://aclanthology.org/{paper['id']})"
        yield f"- **{line['score']:.2f}** {link}, {_people(paper['authors'])}, {paper['year']}"
        yield f"  - {'; '.join(map(_place, line['evidence']['atoms']))}"


def _rank(line: Line) -> tuple[float, float, str]:
    """Best score first; among equal scores the nearer text."""
    cosines = [atom["cosine"] for atom in line["evidence"]["atoms"] if "cosine" in atom]
    return -line["score"], -max(cosines, default=0.0), line["document"]


def _plain(text: str) -> str:
    """Text whose signs mean nothing in Markdown."""
    return re.sub(r"([\\`*_\[\]<>])", r"\\\1", text)


def _people(authors: Sequence[str]) -> str:
    return ", ".join(authors[:AUTHORS]) + (" et al." if len(authors) > AUTHORS else "")


def _place(atom: Line) -> str:
    """Where the atom was found, in words."""
    if "cosine" in atom:
        return f"{atom['field']}: cosine {atom['cosine']:.2f}"
    if "words" not in atom:
        return f"{atom['field']}: {atom['value']}"
    text = atom["words"][0]
    for (before, after), word in zip(pairwise(atom["positions"]), atom["words"][1:], strict=True):
        text += f" {word}" if after == before + 1 else f" … {word}"
    return f"{atom['field']}: *{text}*" + _between(atom)


def _between(atom: Line) -> str:
    gaps = [gap for gap in atom.get("between", ()) if gap]
    return f" ({', '.join(map(str, gaps))} between)" if gaps else ""


def page() -> str:
    """The whole page, from two runs: all subscriptions for the numbers, the ten for the reasons."""
    subscriptions = [json.loads(line) for line in SUBSCRIPTIONS.read_text(encoding="utf-8").splitlines()]
    with gzip.open(PAPERS, "rt", encoding="utf-8") as file:
        papers = {paper["id"]: paper for paper in map(json.loads, file)}
    counts = Counter(line["subscription"] for line in match(subscriptions))
    seconds = processor_seconds()
    years = [paper["year"] for paper in papers.values()]
    parts = [
        HEAD.format(
            papers=len(papers), first=min(years), last=max(years), matches=counts.total(), finding=len(counts),
            silent=len(subscriptions) - len(counts), seconds=seconds, cores=os.cpu_count(),
            best={2: "two", 3: "three"}[BEST],
        )
    ]  # fmt: skip
    by_id = {one["id"]: one for one in subscriptions}
    found = match([by_id[id] for id in CHOSEN], "--explain")
    for id in CHOSEN:
        parts += section(by_id[id], [line for line in found if line["subscription"] == id], papers)
        parts.append("")
    return "\n".join([*parts, FOOT])


def main() -> int:
    """Write the page."""
    if not PAPERS.is_file():
        print(f"There is no {PAPERS}: set TOCSIN_DATA to the folder that holds scholarly/.", file=sys.stderr)
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
