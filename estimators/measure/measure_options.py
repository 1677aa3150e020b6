"""The options for running measurements, which all measuring estimators share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hespas.support.errors import UsageError
from hespas.support.settings import setting


@dataclass(frozen=True)
class MeasureOptions:
    """How measurements are run. No option changes what is measured."""

    jobs: int = setting(1, "worker processes on this machine; only one runs a timed region")
    dask: str = setting("", "address of a Dask cluster whose workers measure, tcp://host:port")
    cache: str = setting(
        "", "file for results, or none; default: that of HESPAS_CACHE, else the user's cache"
    )
    timeout: float = setting(600.0, "seconds to compile and run one region")
    memory_limit: float = setting(0.0, "GB of memory for one worker; 0: no limit")
    retries: int = setting(1, "how often a region is repeated after its worker process died")

    def __post_init__(self) -> None:
        for name, least in (("jobs", 1), ("memory_limit", 0), ("retries", 0)):
            value = getattr(self, name)
            if value < least:
                raise UsageError(f"{name.replace('_', '-')} is less than {least}")
            if not math.isfinite(value):
                raise UsageError(f"{name.replace('_', '-')} is no finite number")
        if not 0 < self.timeout < float("inf"):
            raise UsageError("timeout is not a number of seconds above 0")
        if self.dask and self.jobs != 1:
            raise UsageError("jobs and dask exclude each other: the cluster has its own workers")
