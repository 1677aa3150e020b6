"""How many examples the property tests draw: ``HYPOTHESIS_PROFILE`` is quick, ci or nightly.

The profiles quick and ci draw the same examples in each run of the same test, so that only a change
makes a test fail. The profile nightly draws new ones.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

SCALES = {"quick": 0.1, "ci": 0.5, "nightly": 20.0}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")


def count_cases(unscaled_count: int) -> int:
    """Return the number of cases of the profile: its scale times ``unscaled_count``."""
    return max(1, round(SCALES[PROFILE] * unscaled_count))


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
