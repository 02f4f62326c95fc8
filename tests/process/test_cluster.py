"""A real cluster (conftest.py): what it finds is what this machine finds alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tocsin.cli import main
from tocsin.intake import document_to_json
from tocsin.query import show
from tocsin.sim.markup import NAMESPACES, Tangle
from tocsin.sim.workload import random_documents, random_query


@pytest.mark.slow
def test_two_workers_find_what_one_process_finds(cluster: str, tmp_path: Path, capsys) -> None:
    rng, tangle = np.random.default_rng(45), Tangle(45)
    documents, subscriptions = tmp_path / "d.jsonl", tmp_path / "s.jsonl"
    with documents.open("w", encoding="utf-8") as file:
        for number, document in enumerate(random_documents(rng, 3_000)):
            data = json.loads(document_to_json(document)) | {"padding": "filler " * 200}
            data |= {"xml": tangle.document()} if number % 2 else {}
            file.write(json.dumps(data) + "\n" + ("{broken\n" if number % 500 == 3 else ""))
    with subscriptions.open("w", encoding="utf-8") as file:
        for number in range(300):
            entry: dict[str, object] = {"id": f"s{number}", "query": show(random_query(rng, 2, nested=False))}
            entry |= {"xpath": tangle.query(), "namespaces": NAMESPACES} if number % 3 == 0 else {}
            file.write(json.dumps(entry) + "\n")
    given = ["match", "-s", str(subscriptions), "-d", str(documents)]
    assert main(given) == 1
    alone = capsys.readouterr()
    command = [sys.executable, "-m", "tocsin", *given, "--spark", cluster]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert (run.returncode, run.stderr) == (1, alone.err)
    assert run.stdout == alone.out
    assert alone.out.count("\n") > 10_000
    for worker in ("0", "1"):
        assert list((tmp_path / worker).glob("app-*/*")), f"worker {worker} had no part in it"
