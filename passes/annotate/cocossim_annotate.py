"""``--cocossim-annotate``: matrix products in COCOSSim, the rest on a vector unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.passes.annotate.simulator_pass import ExternalSimulatorPass


@dataclass(frozen=True)
class CocossimAnnotatePass(ExternalSimulatorPass):
    """Write the cost of every op: matrix products in COCOSSim, the rest on a vector unit."""

    name: ClassVar[str] = "cocossim-annotate"
    estimator_name: ClassVar[str] = "cocossim"
