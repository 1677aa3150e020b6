"""Estimators as other people write them: one whose result a setting chooses, and wrong ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from hespas.plugin import Cost, CostItem, Estimator, setting

RESULTS: dict[str, Any] = {
    "right": Cost("guest-flat", 1, 2, 3, 4.0),
    "endless": Cost("guest-flat", 1, 2, 3, float("inf")),
    "negative": Cost("guest-flat", -1, 2, 3, 4.0),
    "text": Cost("guest-flat", "many", 2, 3, 4.0),  # type: ignore[arg-type]
    "nothing": None,
    "huge": Cost("guest-flat", 1, 2, 3, 10**400),
    "provenance": Cost("guest-flat", 1, 2, 3, 4.0),
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

    def describe_provenance(self) -> str:
        return cast("str", 3) if self.result == "provenance" else ""


class GrainyEstimator(FlatEstimator):
    """Declare a granularity that does not exist."""

    name, granularity = "guest-grainy", "grain"  # type: ignore[assignment]


@dataclass(frozen=True)
class PatientConfig(FlatConfig):
    keep_going: bool = setting(False, "named like an option of all annotate passes")


class PatientEstimator(FlatEstimator):
    """Give all ops one cost, with a setting that has the name of an option, without measuring."""

    name, Config, measures = "guest-patient", PatientConfig, True


class PlainConfig:
    """A class that is no dataclass."""


class PlainEstimator(FlatEstimator):
    """Have a configuration whose settings are not known."""

    name, Config = "guest-plain", PlainConfig  # type: ignore[assignment]


@dataclass(frozen=True)
class UnknownConfig:
    size: "Size" = setting(1, "a size")  # type: ignore[name-defined]  # noqa: F821, RUF009, UP037


class UnknownEstimator(FlatEstimator):
    """Have a setting of a type that only a type checker knows."""

    name, Config = "guest-unknown", UnknownConfig  # type: ignore[assignment]
