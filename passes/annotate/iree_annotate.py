"""``--iree-annotate``: the time of every region, compiled by IREE and run on the device at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.passes.annotate.measuring_pass import MeasuringPass
from hespas.passes.base import option


@dataclass(frozen=True)
class IreeAnnotatePass(MeasuringPass):
    """Write the time of every region, compiled by IREE and run on the device that is here."""

    name: ClassVar[str] = "iree-annotate"
    estimator_name: ClassVar[str] = "iree"

    target: str = option("llvm-cpu", "compiler backend: llvm-cpu, vmvx, cuda, rocm, vulkan")
    driver: str = option("", "runtime device, local-task, cuda://0; empty: that of the target")
    flags: str = option("", "iree-compile's, as in '--iree-opt-data-tiling=false'")
    repetitions: int = option(20, "runs that a median is taken of")
