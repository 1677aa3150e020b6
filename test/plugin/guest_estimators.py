"""Estimators as other people write them: one whose result a setting chooses, and a wrong one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hespas.plugin import Cost, CostItem, Estimator, setting

RESULTS: dict[str, Any] = {
    "right": Cost("guest-flat", 1, 2, 3, 4.0),
    "endless": Cost("guest-flat", 1, 2, 3, float("inf")),
    "negative": Cost("guest-flat", -1, 2, 3, 4.0),
    "text": Cost("guest-flat", "many", 2, 3, 4.0),  # type: ignore[arg-type]
    "nothing": None,
}


@dataclass(frozen=True)
class FlatConfig:
    result: str = setting("right", "what is returned; an unknown word raises KeyError")


class FlatEstimator(Estimator):
    """Give all ops one cost."""

    name, version, Config = "guest-flat", "1", FlatConfig

    def __init__(self, config: FlatConfig) -> None:
        self.result = config.result

    def estimate(self, item: CostItem) -> Cost:
        return RESULTS[self.result]


class GrainyEstimator(FlatEstimator):
    """Declare a granularity that does not exist."""

    name, granularity = "guest-grainy", "grain"  # type: ignore[assignment]
