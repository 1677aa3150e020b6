"""The ``iree`` estimator: regions are compiled with IREE and run on an available device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from hespas.estimators.base import CostItem
from hespas.estimators.lower.plain_stablehlo import render_compilable_module
from hespas.estimators.measure.base import MeasuringEstimator
from hespas.support.errors import UsageError
from hespas.support.settings import setting


@dataclass(frozen=True)
class IreeConfig:
    """The configuration of ``IreeEstimator``; ``flags`` are separated by spaces."""

    target: Literal["llvm-cpu", "vmvx", "cuda", "rocm", "vulkan"] = setting(
        "llvm-cpu", "compiler backend: llvm-cpu, vmvx, cuda, rocm, vulkan"
    )
    driver: str = setting(
        "", "runtime device, as local-task or cuda://0; default: that of the target"
    )
    flags: str = setting("", "flags of iree-compile, as '--iree-opt-data-tiling=false'")
    repetitions: int = setting(20, "number of runs; the time is their median")

    def __post_init__(self) -> None:
        for word in self.flags.split():
            if not word.startswith("--"):
                raise UsageError(f"flags: '{word}' is not a flag of iree-compile")
        if self.repetitions < 1:
            raise UsageError(f"repetitions is {self.repetitions}, less than 1")


class IreeEstimator(MeasuringEstimator):
    """Compile each region with IREE and measure it on an available device."""

    name: ClassVar[str] = "iree"
    version: ClassVar[str] = "1"
    Config: ClassVar[type] = IreeConfig
    worker: ClassVar[str] = "hespas.estimators.iree.iree_worker:measure_region"
    probe: ClassVar[str] = "hespas.estimators.iree.iree_worker:probe_device"
    packages: ClassVar[tuple[str, ...]] = ("iree-base-compiler", "iree-base-runtime")
    turns: ClassVar[Literal["whole", "own"]] = "own"

    def build_module_text(self, item: CostItem) -> str:
        return render_compilable_module(item.op)
