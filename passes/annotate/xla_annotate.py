"""``--xla-annotate``: the time of every region, compiled by XLA and run on the device at hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.passes.annotate.measuring_pass import MeasuringPass
from hespas.passes.base import option


@dataclass(frozen=True)
class XlaAnnotatePass(MeasuringPass):
    """Write the time of every region, compiled by XLA and run on the device that is here."""

    name: ClassVar[str] = "xla-annotate"
    estimator_name: ClassVar[str] = "xla"

    device: str = option("auto", "cpu, cuda, rocm; auto: a GPU where there is one, else the CPU")
    flags: str = option("", "XLA's, as in 'xla_a=true xla_b=2'; beside those of XLA_FLAGS")
    repetitions: int = option(20, "runs that a median is taken of")
    inputs: str = option("auto", "zeros or normal; auto: zeros on a CPU, normal on a GPU")
