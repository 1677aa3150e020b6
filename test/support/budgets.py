"""How many examples the property tests draw: ``HYPOTHESIS_PROFILE`` is quick, ci or nightly."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

SCALES = {"quick": 0.2, "ci": 1.0, "nightly": 20.0}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")


def count_cases(ci_count: int) -> int:
    """Return the number of cases of the profile, where CI has ``ci_count``."""
    return max(1, round(SCALES[PROFILE] * ci_count))


def draw_examples(ci_count: int = 100, **options: Any) -> settings:
    """Return the settings of a property test that draws ``ci_count`` examples in CI.

    There are no limits of time: a busy machine fails no test.
    """
    suppressed = [HealthCheck.too_slow, *options.pop("suppress_health_check", ())]
    return settings(
        max_examples=count_cases(ci_count),
        deadline=None,
        suppress_health_check=suppressed,
        **options,
    )


def load_default_budget() -> None:
    """Make ``draw_examples()`` the settings of all property tests that name no others."""
    settings.register_profile(PROFILE, draw_examples())
    settings.load_profile(PROFILE)
