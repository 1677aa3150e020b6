"""The winner of a plan against the best of all layouts, in spaces that are drawn with a seed."""

from __future__ import annotations

import pytest
from support.budgets import PROFILE
from support.plan_spaces import is_search_exact, survey_spaces

pytestmark = pytest.mark.slow
pytest.importorskip("jax")

SPACES = 50  # each takes about 17 s of processor time


@pytest.mark.skipif(PROFILE != "nightly", reason="test/laws searches a space for each option")
def test_the_search_finds_the_best_of_all_layouts() -> None:
    outcomes = list(survey_spaces(SPACES))
    assert is_search_exact(outcomes), [outcome.format_row() for outcome in outcomes]
    assert sum(o.estimated for o in outcomes) < sum(o.layouts for o in outcomes)
