"""The base of estimators whose simulator is a program that the user has built."""

from __future__ import annotations

from dataclasses import dataclass

from hespas.estimators.accelerators.simulating_estimator import (
    Payload,
    SimulatingConfig,
    SimulatingEstimator,
)
from hespas.support.errors import UsageError
from hespas.support.settings import setting


@dataclass(frozen=True)
class ExternalSimulatorConfig(SimulatingConfig):
    """The configuration of an estimator that runs an external program."""

    binary: str = setting(
        "", "the simulator's program; default: that of its environment variable, else of PATH"
    )
    home: str = setting(
        "", "folder with the simulator's files; default: that of its environment variable"
    )
    time_limit: float = setting(300.0, "seconds for one product")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.time_limit < float("inf"):
            raise UsageError("time-limit is not a number of seconds above 0")


class ExternalSimulatorEstimator(SimulatingEstimator):
    """Base of the estimators that run a program per product.

    A hash of the program is part of the key of cached results.
    """

    def __init__(self, config: ExternalSimulatorConfig) -> None:
        super().__init__(config)
        self.simulator_settings = {
            "binary": config.binary,
            "home": config.home,
            "time_limit": config.time_limit,
        }

    def collect_settings(self) -> Payload:
        return self.simulator_settings
