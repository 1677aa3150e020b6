"""``--onnxim-annotate``: matrix products in ONNXim, the rest on a vector unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.passes.annotate.simulator_pass import ExternalSimulatorPass
from hespas.passes.base import option


@dataclass(frozen=True)
class OnnximAnnotatePass(ExternalSimulatorPass):
    """Write the cost of every op: matrix products in ONNXim, the rest on a vector unit."""

    name: ClassVar[str] = "onnxim-annotate"
    estimator_name: ClassVar[str] = "onnxim"

    config: str = option("", "ONNXim's .json file; else that of its home for TPU v4")
