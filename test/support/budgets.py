"""How many examples and cases the tests have: ``HYPOTHESIS_PROFILE`` is quick, ci or nightly.

The profiles quick and ci draw the same examples in each run of the same test, so that only a change
makes a test fail. The profile nightly draws new ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings

SCALES = {"quick": 0.1, "ci": 0.5, "nightly": 20.0}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
Case = TypeVar("Case")


def count_cases(unscaled_count: int) -> int:
    """Return the number of cases of the profile: its scale times ``unscaled_count``."""
    return max(1, round(SCALES[PROFILE] * unscaled_count))


def thin_out(cases: Iterable[Case], keep_one_in: int) -> list[Case]:
    """Return every ``keep_one_in``-th case, beginning with the first; nightly, return all cases.

    Of a grid, which comes row by row, each value of both sides keeps a case if the length of a row
    and ``keep_one_in`` have no common divisor, and neither side is shorter than ``keep_one_in``.
    """
    return list(cases)[:: 1 if PROFILE == "nightly" else keep_one_in]


def draw_examples(unscaled_count: int = 100, **options: Any) -> settings:
    """Return the settings of a property test; the profile scales its number of examples.

    There are no limits of time: a busy machine fails no test.
    """
    suppressed = [HealthCheck.too_slow, *options.pop("suppress_health_check", ())]
    options.setdefault("derandomize", PROFILE != "nightly")
    return settings(
        max_examples=count_cases(unscaled_count),
        deadline=None,
        suppress_health_check=suppressed,
        **options,
    )


def load_default_budget() -> None:
    """Make ``draw_examples()`` the settings of all property tests that name no others."""
    settings.register_profile(PROFILE, draw_examples())
    settings.load_profile(PROFILE)
