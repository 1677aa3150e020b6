"""The ``xla`` estimator: regions are compiled with XLA and run on an available device."""

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
    """The configuration of ``XlaEstimator``.

    By default, inputs on a GPU are random, because its power and clock depend on the values.
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
