"""How many cases and examples the profiles of the tests have."""

from __future__ import annotations

import itertools

import pytest

from support import budgets


def test_long_lists_are_thinned_out_but_nightly(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = list(itertools.product(range(3), range(4)))
    monkeypatch.setattr(budgets, "PROFILE", "ci")
    assert budgets.thin_out("abcde", 2) == ["a", "c", "e"]
    assert budgets.thin_out("a", 3) == ["a"]
    for values in zip(*budgets.thin_out(grid, 3), strict=True):
        assert set(values) in ({0, 1, 2}, {0, 1, 2, 3})
    monkeypatch.setattr(budgets, "PROFILE", "nightly")
    assert budgets.thin_out(grid, 3) == grid
