"""The experiment on what advertisements and the poset save, at a size that a test can bear."""

from __future__ import annotations

from tocsin.lab import superpeer_pruning
from tocsin.lab.result import write
from tocsin.lab.superpeer_pruning import Scale


def test_both_save_traffic_and_change_nothing(tmp_path, monkeypatch):
    """P2P-DIET §3."""
    monkeypatch.setitem(superpeer_pruning.SCALES, "small", Scale((3, 6), 5, 2, 2, (8, 64)))
    result = superpeer_pruning.run("small", seed=3)
    assert [claim.holds for claim in result.claims] == [True, True, True, True], result.claims
    assert {row.variant for row in result.data if row.experiment == "pruning"} == set(superpeer_pruning.VARIANTS)
    assert all(path.stat().st_size > 0 for path in write(result, tmp_path))


def test_a_poset_that_covers_nothing_is_seen(monkeypatch):
    monkeypatch.setitem(superpeer_pruning.SCALES, "small", Scale((3,), 6, 1, 1, (8, 16)))
    monkeypatch.setitem(superpeer_pruning.VARIANTS, "poset", {"prunes": False, "covers": False})
    result = superpeer_pruning.run("small", seed=3)
    assert result.claims[0].holds is False
