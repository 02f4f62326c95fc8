"""The papers of the ACL Anthology through Spark: 2,000 subscriptions find what brute force finds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tests.pipeline.subscriptions import acl_subscriptions
from tocsin.cli import main

EVERY = 300  # one paper in so many: 123 of all years


@pytest.fixture(scope="module")
def papers(data_dir: Path) -> list[str]:
    found = data_dir / "scholarly" / "acl_papers.jsonl.gz"
    if not found.is_file():
        pytest.skip(f"the ACL papers are absent: there is no {found}")
    with gzip.open(found, "rt", encoding="utf-8") as file:
        return list(file)


def matched(tmp_path: Path, documents: list[str], subscriptions: list[dict], *more: str) -> list[str]:
    (tmp_path / "d.jsonl").write_text("".join(documents), encoding="utf-8")
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(one) + "\n" for one in subscriptions), encoding="utf-8")
    output = tmp_path / "out.jsonl"
    given = ["-s", str(tmp_path / "s.jsonl"), "-d", str(tmp_path / "d.jsonl"), "-o", str(output)]
    assert main(["match", *given, *more]) == 0
    return output.read_text(encoding="utf-8").splitlines()


def test_2000_subscriptions_find_what_brute_force_finds(spark, papers, tmp_path) -> None:
    subscriptions = acl_subscriptions(papers, 2_000, np.random.default_rng(4))
    sample = papers[::EVERY]
    expected = matched(tmp_path, sample, subscriptions, "--engine", "brute")
    assert matched(tmp_path, sample, subscriptions, "--spark", "local[2]") == expected
    assert len({json.loads(line)["subscription"] for line in expected}) > 200


@pytest.mark.slow
def test_2000_subscriptions_over_all_papers(spark, papers, tmp_path) -> None:
    subscriptions = acl_subscriptions(papers, 2_000, np.random.default_rng(5))
    expected = matched(tmp_path, papers, subscriptions)
    assert matched(tmp_path, papers, subscriptions, "--spark", "local[2]") == expected
    assert len({json.loads(line)["subscription"] for line in expected}) > 1_500
