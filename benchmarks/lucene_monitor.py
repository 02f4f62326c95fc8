"""The peer's side of the matching benchmarks: Lucene Monitor at its best, on one core.

Lucene Monitor is the strongest software that matches documents against standing queries. Here it gets what its users
can give it: conjunctions registered in bulk under their rarest word by document frequencies, an index merged into one
segment, no scores, no stored fields, a warm compiler, single documents or batches, and the presearcher that suits it
best. Maven fetches its jars into benchmarks/.cache on first use; where Java or Maven cannot be had, that is the answer.

A cell is a presearcher with a batch size. A survey runs several cells in one JVM and only chooses finalists; a finalist
runs alone in its JVM, at least three times, and its rate is the median. Rates are documents per core-second (processor
time of the whole JVM, collector and compiler included), so that other work on the machine does not count against the
peer; wall-clock rates stand beside them. The matches of the first documents are compared with a plain evaluation by
Python sets, pair by pair through a hash; a cell that differs is never the best one.

Batches stop at 800 documents. Far larger ones are another use of Lucene: nearly every query is then a candidate, and is
run once over an index of thousands of waiting documents. That rate grows with the batch, and its delay with it: with
10,000 documents it passes single documents at 100,000 queries, not at 1,000,000. `--batches 1 10000` measures it.

    python benchmarks/lucene_monitor.py --quick                  # 100,000 queries, under 2 minutes if idle
    python benchmarks/lucene_monitor.py --queries 1000000        # 1,000,000 queries, half an hour
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: the folder above holds the package `benchmarks`
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import workload_text

FOLDER = Path(__file__).resolve().parent
CACHE = FOLDER / ".cache"
SOURCE = FOLDER / "lucene" / "MonitorSpeed.java"
PROJECT = FOLDER / "lucene" / "pom.xml"

# (oldest Java that runs it, version), the best first
LUCENE_VERSIONS = ((21, "10.5.1"), (21, "10.3.0"), (17, "9.11.1"))
JAVA_WITH_VECTORS = 21
BATCHES = (1, 64, 200, 800)
PRESEARCHERS = ("multipass2", "multipass4", "termfiltered")
FAVOURITE = ("multipass2", 1)
JVMS_MIN = 3
# FACTS: gaps under 1.6 between single JVMs are unresolved, so such cells are measured again
UNRESOLVED_GAP = 1.6
FINALISTS_MAX = 2
SAMPLE_PAIRS_MAX = 10_000_000
SAMPLE_DOCUMENTS_MAX = 200
MASK = (1 << 64) - 1


class PeerUnavailableError(Exception):
    """Lucene Monitor cannot run here; the message says what is missing and what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation with a compiler."""

    home: Path
    version: int

    @property
    def java(self) -> str:
        return str(self.home / "bin" / "java")

    @property
    def javac(self) -> str:
        return str(self.home / "bin" / "javac")


@dataclass(frozen=True, slots=True)
class Peer:
    """Lucene Monitor, ready to be started: compiled program and jars."""

    java: Java
    lucene: str
    classpath: str


@dataclass(frozen=True, slots=True)
class Sample:
    """What a plain evaluation by sets finds in the first documents."""

    documents: int
    matches: int
    hash: str


@dataclass(slots=True)
class Cell:
    """A configuration and what each JVM that ran it alone (or in a survey) said."""

    presearcher: str
    batch: int
    alone: list[dict[str, Any]] = field(default_factory=list)
    surveyed: list[dict[str, Any]] = field(default_factory=list)

    @property
    def runs(self) -> list[dict[str, Any]]:
        return self.alone or self.surveyed

    def median(self, measure: str) -> float:
        return float(statistics.median(run[measure] for run in self.runs))

    @property
    def rate(self) -> float:
        return self.median("documents_per_core_second")

    def equal(self, sample: Sample) -> bool:
        return all(
            (run["sample_matches"], run["sample_hash"], run["sample_errors"]) == (sample.matches, sample.hash, 0)
            for run in self.alone + self.surveyed
        )

    def report(self, sample: Sample) -> dict[str, Any]:
        measures = ("matches_per_document", "candidates_per_batch", "documents_timed")
        return {
            "presearcher": self.presearcher,
            "batch": self.batch,
            "documents_per_core_second": round(self.rate, 1),
            "documents_per_second": round(self.median("documents_per_second"), 1),
            "jvms": len(self.runs),
            "alone_in_its_jvm": bool(self.alone),
            "per_jvm": [run["documents_per_core_second"] for run in self.runs],
            "warm": all(run["warm"] for run in self.runs),
            "one_core": all(run["one_core"] for run in self.runs),
            "equal_to_plain_evaluation": self.equal(sample),
            **{measure: round(self.median(measure), 4) for measure in measures},
        }


def find_java() -> Java:
    """The newest Java with a compiler: JAVA_HOME, on the PATH, or installed beside these."""
    homes: list[Path] = []
    if os.environ.get("JAVA_HOME"):
        homes.append(Path(os.environ["JAVA_HOME"]).resolve())
    if on_path := shutil.which("java"):
        homes.append(Path(on_path).resolve().parent.parent)
    if not homes:
        raise PeerUnavailableError("no Java found: install a JDK (21 or newer) or set JAVA_HOME")
    beside = [path.resolve() for home in homes for path in home.parent.iterdir() if path.is_dir()]
    found = {
        Java(home, version)
        for home in [*homes, *beside]
        if (home / "bin" / "javac").exists() and (version := _java_version(home))
    }
    if not found:
        raise PeerUnavailableError("Java has no compiler here (javac): install a JDK, 21 or newer")
    return max(found, key=lambda java: java.version)


def _java_version(home: Path) -> int:
    release = home / "release"
    if not release.is_file():
        return 0
    named = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(errors="replace"), re.MULTILINE)
    return int(named.group(1)) if named else 0


def set_up(*, refresh: bool = False) -> Peer:
    """Jars by Maven and the program by javac, both kept in the cache."""
    java = find_java()
    usable = [version for oldest, version in LUCENE_VERSIONS if java.version >= oldest]
    if not usable:
        raise PeerUnavailableError(f"Lucene Monitor needs Java 17 or newer: found {java.version}")
    held = [version for version in usable if (_jars(version) / "complete").exists()]
    if held and not refresh:
        return Peer(java, held[0], _compile(java, held[0]))
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerUnavailableError("no Maven found (mvn): it fetches the jars of Lucene Monitor")
    reasons = []
    for version in usable:
        reason = _fetch(maven, version)
        if reason is None:
            return Peer(java, version, _compile(java, version))
        reasons.append(f"{version}: {reason}")
    raise PeerUnavailableError("Maven could not fetch Lucene Monitor; " + "; ".join(reasons))


def _jars(version: str) -> Path:
    return CACHE / "lucene" / version / "jars"


def _fetch(maven: str, version: str) -> str | None:
    """None when the jars are there, otherwise Maven's reason."""
    folder = _jars(version)
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [
            maven,
            "--batch-mode",
            "--quiet",
            f"--file={PROJECT}",
            f"-Dlucene.version={version}",
            f"-DoutputDirectory={folder}",
            "dependency:copy-dependencies",
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode == 0 and any(folder.glob("lucene-monitor-*.jar")):
        (folder / "complete").touch()
        return None
    said = re.findall(r"^\[ERROR\] (.+)$", done.stdout + done.stderr, re.MULTILINE)
    reason = said[0] if said else f"Maven ended with status {done.returncode}"
    return re.sub(r" in \S+ \(\S+\)| \(?https?://\S+| -> \[Help \d+\]", "", reason)


def _compile(java: Java, version: str) -> str:
    jars = str(_jars(version) / "*")
    key = hashlib.sha256(SOURCE.read_bytes() + str(java).encode()).hexdigest()[:16]
    classes = CACHE / "lucene" / version / f"classes-{key}"
    if not (classes / "MonitorSpeed.class").exists():
        classes.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [java.javac, "-encoding", "UTF-8", "-d", str(classes), "-cp", jars, str(SOURCE)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise PeerUnavailableError(f"javac refused {SOURCE.name}: {done.stderr.strip()}")
    return os.pathsep.join([str(classes), jars])


def run_jvm(
    peer: Peer,
    queries_file: Path,
    documents_file: Path,
    presearcher: str,
    batches: tuple[int, ...],
    *,
    heap_megabytes: int,
    options: dict[str, object],
) -> dict[str, Any]:
    """One JVM: registers all queries, then measures every batch size."""
    command = [
        peer.java.java,
        # compile in the foreground: warm after so many documents, however busy the machine is
        "-Xbatch",
        "-XX:+UseSerialGC",
        f"-Xms{heap_megabytes}m",
        f"-Xmx{heap_megabytes}m",
    ]
    if peer.java.version >= JAVA_WITH_VECTORS:
        command += ["--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED"]
    chosen: dict[str, object] = {
        "queries": queries_file,
        "documents": documents_file,
        "presearcher": presearcher,
        "batches": ",".join(map(str, batches)),
        **_cores(),
        **options,
    }
    command += ["-cp", peer.classpath, "MonitorSpeed"]
    command += [f"--{name}={value}" for name, value in chosen.items()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the JVM ended with status {done.returncode}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _cores() -> dict[str, object]:
    if not hasattr(os, "sched_getaffinity") or shutil.which("taskset") is None:
        return {}
    cores = sorted(os.sched_getaffinity(0))
    return {"all-cores": ",".join(map(str, cores)), "core": cores[-1]}


def evaluate_plainly(queries_file: Path, documents_file: Path) -> Sample:
    """Every query against each of the first documents, by sets: the definition of a match."""
    queries = [line.split() for line in queries_file.read_text(encoding="utf-8").splitlines()]
    wanted = max(1, min(SAMPLE_DOCUMENTS_MAX, SAMPLE_PAIRS_MAX // max(1, len(queries))))
    documents = matches = total = 0
    with documents_file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number == wanted:
                break
            documents += 1
            words = set(re.findall(r"[^\W_]+", line.lower()))
            for query, needed in enumerate(queries):
                if words.issuperset(needed):
                    matches += 1
                    total += _mix((query << 32) + number)
    return Sample(documents, matches, f"{total & MASK:016x}")


def _mix(pair: int) -> int:
    """The finaliser of SplitMix64, as in MonitorSpeed.java."""
    z = (pair + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@dataclass(slots=True)
class Search:
    """The search for the best cell within a budget of wall-clock seconds."""

    peer: Peer
    queries_file: Path
    documents_file: Path
    deadline: float
    sample: Sample
    queries: int
    quick: bool
    batches: tuple[int, ...] = BATCHES
    cells: dict[tuple[str, int], Cell] = field(default_factory=dict)
    jvms: list[dict[str, Any]] = field(default_factory=list)
    setup_seconds: float = 0.0  # registering and merging, the slowest JVM so far
    cell_seconds: float = 0.0  # warming up and measuring one cell alone, the slowest so far

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()

    def run(self, presearcher: str, batches: tuple[int, ...]) -> None:
        """One JVM; its cells count as alone when it has only one."""
        started = time.monotonic()
        options: dict[str, object] = {"sample": self.sample.documents}
        if self.quick:
            options |= {"rounds": 3, "round-core-milliseconds": 700, "warm-core-seconds-max": 20}
        if len(batches) > 1:
            options |= {"rounds": 3, "warm-core-seconds-max": 20}
        result = run_jvm(
            self.peer,
            self.queries_file,
            self.documents_file,
            presearcher,
            batches,
            heap_megabytes=2_000 + self.queries * 2_500 // 1_000_000,
            options=options,
        )
        took = time.monotonic() - started
        setup = result["queries"] / result["registered_per_second"] + result["merge_seconds"]
        self.setup_seconds = max(self.setup_seconds, setup)
        if len(batches) == 1:
            self.cell_seconds = max(self.cell_seconds, took - setup)
        for measured in result.pop("cells"):
            key = (presearcher, measured["batch"])
            cell = self.cells.setdefault(key, Cell(*key))
            (cell.alone if len(batches) == 1 else cell.surveyed).append(measured)
            _tell(
                f"lucene {presearcher} batch {measured['batch']}: "
                f"{measured['documents_per_core_second']} documents per core-second"
            )
        self.jvms.append({"presearcher": presearcher, "seconds": round(took, 1), **result})

    def alone_seconds(self) -> float:
        return self.setup_seconds + self.cell_seconds

    def survey(self) -> None:
        """Look at the other cells, as far as the finals leave time for it."""
        for presearcher in PRESEARCHERS:
            batches = tuple(size for size in self.batches if (presearcher, size) not in self.cells)
            while batches:
                needed = self.setup_seconds + len(batches) * self.cell_seconds
                spare = self.left - FINALISTS_MAX * JVMS_MIN * self.alone_seconds()
                if needed <= spare:
                    self.run(presearcher, batches)
                    break
                batches = batches[:-1]

    def finals(self) -> None:
        """Every finalist alone in at least three JVMs; the first one whatever the budget says."""
        ranked = sorted(self.valid(), key=lambda cell: cell.rate, reverse=True)
        finalists = [cell for cell in ranked if cell.rate * UNRESOLVED_GAP >= ranked[0].rate]
        for place, cell in enumerate(finalists[:FINALISTS_MAX]):
            while len(cell.alone) < JVMS_MIN:
                if place > 0 and self.left < (JVMS_MIN - len(cell.alone)) * self.alone_seconds():
                    break
                self.run(cell.presearcher, (cell.batch,))

    def valid(self) -> list[Cell]:
        return [cell for cell in self.cells.values() if cell.equal(self.sample)]

    def best(self) -> Cell | None:
        measured = [cell for cell in self.valid() if len(cell.alone) >= JVMS_MIN]
        return max(measured, key=lambda cell: cell.rate, default=None)


def best_lucene(
    queries_file: Path,
    documents_file: Path,
    budget_seconds: float,
    *,
    quick: bool = False,
    batches: tuple[int, ...] = BATCHES,
) -> dict[str, Any]:
    """Lucene Monitor's best rate on these files, or why it cannot be had: {"available": False, "reason": …}.

    queries_file: one conjunction per line, its words space separated; documents_file: one document per line. The budget
    is wall-clock time: it decides how many cells are surveyed beside the usual winner, which is measured in three JVMs
    in any case and always warm (a busy machine takes longer than its budget). quick measures each of them more briefly.
    """
    started = time.monotonic()
    try:
        peer = set_up()
    except PeerUnavailableError as missing:
        return {"available": False, "reason": str(missing)}
    queries_file, documents_file = Path(queries_file).resolve(), Path(documents_file).resolve()
    sample = evaluate_plainly(queries_file, documents_file)
    with queries_file.open("rb") as lines:
        queries = sum(1 for _ in lines)
    search = Search(peer, queries_file, documents_file, started + budget_seconds, sample, queries, quick, batches)
    search.run(FAVOURITE[0], (FAVOURITE[1],))
    search.survey()
    search.finals()
    best = search.best()
    cells = sorted(search.cells.values(), key=lambda cell: cell.rate, reverse=True)
    alone = [jvm for jvm in search.jvms if best and jvm["presearcher"] == best.presearcher]
    return {
        "available": True,
        "lucene": peer.lucene,
        "java": search.jvms[0]["java"],
        "queries": queries,
        "queries_file": queries_file.name,
        "documents_file": documents_file.name,
        "batches": list(batches),
        "sample": {
            "documents": sample.documents,
            "matches": sample.matches,
            "hash": sample.hash,
            "all_cells_equal": len(search.valid()) == len(cells),
        },
        "best": best.report(sample) if best else None,
        "registered_per_second": _median(alone, "registered_per_second"),
        "registered_per_core_second": _median(alone, "registered_per_core_second"),
        "heap_bytes_per_query": _median(alone, "heap_bytes_per_query"),
        "cells": [cell.report(sample) for cell in cells],
        "jvms": search.jvms,
        "seconds": round(time.monotonic() - started, 1),
    }


def _median(jvms: list[dict[str, Any]], measure: str) -> float | None:
    return statistics.median(jvm[measure] for jvm in jvms) if jvms else None


def workload_files(
    queries: int, documents: int, distinct_words: int, total_words: int, seed: int, *, dense: bool
) -> tuple[Path, Path]:
    """The files of a workload, made once and kept in the cache."""
    folder = CACHE / "workload"
    folder.mkdir(parents=True, exist_ok=True)
    kind = "dense" if dense else "user"
    queries_file = folder / f"queries-{kind}-{queries}-seed{seed}.txt"
    length = f"{distinct_words}-{total_words}" if total_words else f"{distinct_words}"
    documents_file = folder / f"documents-{length}-{documents}-seed{seed}.txt"
    if not queries_file.exists():
        workload_text.write_queries(queries_file, queries, seed, dense=dense)
    if not documents_file.exists():
        workload_text.write_documents(documents_file, documents, distinct_words, seed, total_words=total_words)
    return queries_file, documents_file


def _tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Lucene Monitor's documents per second, as JSON.")
    parser.add_argument("--queries", type=int, nargs="+", default=[100_000], metavar="N", help="sizes to measure")
    parser.add_argument("--documents", type=int, default=10_000, help="documents made, not timed")
    parser.add_argument("--distinct-words", type=int, default=workload_text.SHORT_DISTINCT_WORDS)
    parser.add_argument("--total-words", type=int, default=0, help="lengthen by repetitions")
    parser.add_argument("--dense", action="store_true", help="match-dense queries")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget-seconds", type=float, help="per size; 700 s or more by default")
    parser.add_argument(
        "--batches", type=int, nargs="+", default=list(BATCHES), metavar="N", help="batch sizes to survey"
    )
    parser.add_argument("--quick", action="store_true", help="the usual winner only, briefly")
    parser.add_argument("--refresh", action="store_true", help="ask Maven for newer jars")
    chosen = parser.parse_args(arguments)
    try:
        set_up(refresh=chosen.refresh)
    except PeerUnavailableError as missing:
        print(json.dumps({"available": False, "reason": str(missing)}))
        return 1
    results = []
    for queries in chosen.queries:
        files = workload_files(
            queries,
            chosen.documents,
            chosen.distinct_words,
            chosen.total_words,
            chosen.seed,
            dense=chosen.dense,
        )
        usual = 90.0 if chosen.quick else 700.0 + queries * 0.0015
        budget = chosen.budget_seconds or usual
        results.append(best_lucene(*files, budget, quick=chosen.quick, batches=tuple(chosen.batches)))
    print(json.dumps({"available": True, "benchmark": "lucene_monitor", "results": results}))
    exact = all(result["sample"]["all_cells_equal"] and result["best"] for result in results)
    return 0 if exact else 1


if __name__ == "__main__":
    raise SystemExit(main())
