"""The ``xla`` estimator: regions compiled by XLA and run on the device that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from hespas.estimators.base import CostItem
from hespas.estimators.lower.plain_stablehlo import render_compilable_module
from hespas.estimators.measure.base import MeasuringEstimator
from hespas.estimators.xla.flag_parser import parse_xla_flags
from hespas.support.errors import UsageError
from hespas.support.settings import setting


@dataclass(frozen=True)
class XlaConfig:
    """``device`` to run on, "auto": a GPU where there is one, else the processor.

    ``flags`` are XLA's (``xla_a=true xla_b=2``), beside those of the variable XLA_FLAGS. A batch
    has so many ``repetitions``. ``inputs`` are "zeros" or, in floats, random "normal"; "auto":
    normal on a GPU, whose power and clock depend on values.
    """

    device: Literal["auto", "cpu", "cuda", "rocm"] = setting(
        "auto", "cpu, cuda, rocm; auto: a GPU if one is available, else the CPU"
    )
    flags: str = setting("", "XLA flags besides those of XLA_FLAGS, as 'xla_a=true xla_b=2'")
    repetitions: int = setting(20, "number of runs; the time is their median")
    inputs: Literal["auto", "zeros", "normal"] = setting(
        "auto", "values of floats: zeros or normal; auto: zeros on a CPU, normal on a GPU"
    )

    def __post_init__(self) -> None:
        parse_xla_flags(self.flags)
        if self.repetitions < 1:
            raise UsageError(f"repetitions is {self.repetitions}, less than 1")


class XlaEstimator(MeasuringEstimator):
    """Compile each region with XLA and measure it on an available device."""

    name: ClassVar[str] = "xla"
    version: ClassVar[str] = "1"
    Config: ClassVar[type] = XlaConfig
    worker: ClassVar[str] = "hespas.estimators.xla.xla_worker:measure_region"
    probe: ClassVar[str] = "hespas.estimators.xla.xla_worker:probe_device"
    packages: ClassVar[tuple[str, ...]] = ("jaxlib",)
    turns: ClassVar[Literal["whole", "own"]] = "own"

    def build_module_text(self, item: CostItem) -> str:
        return render_compilable_module(item.op)
