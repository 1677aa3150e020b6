"""``--calibrated-annotate``: the time of every kernel, with constants measured on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas import configs
from hespas.dialects.mlir import ir
from hespas.passes.annotate.annotate_options import choose_node, node_option
from hespas.passes.annotate.traverse import annotate_module, require_target
from hespas.passes.base import Pass, PassRun, option


@dataclass(frozen=True)
class CalibratedAnnotatePass(Pass):
    """Write the calibrated time of every op, region and call, and its band, for one device."""

    name: ClassVar[str] = "calibrated-annotate"
    prepares: ClassVar[bool] = True
    only_marks: ClassVar[bool] = True

    node: str = node_option()
    quantise: bool = option(
        False, "8-bit products quantise their left operand themselves, as in inference engines"
    )
    keep_going: bool = option(False, "tag and count ops without a cost rule instead of stopping")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        from hespas.estimators.calibrated.calibrated_estimator import (
            CalibratedConfig,
            CalibratedEstimator,
        )

        name = choose_node(self.name, self.node, require_target(module), run)
        node = configs.load_node(name)
        estimator = CalibratedEstimator(CalibratedConfig(node, self.quantise))
        annotate_module(module, estimator, run, node=name, keep_going=self.keep_going)
        for tag, count in sorted(estimator.tag_counts.items()):
            kernels = "kernel" if count == 1 else "kernels"
            run.note(f"{self.name}: {count} distinct {kernels} {tag}: {MEANING[tag]}")
        run.results["node"] = node


MEANING = {
    "assumed": "no measurements of such kernels, the band is wider",
    "extrapolated": "beyond the sizes that were measured, the band is wider",
    "transferred": "with constants of another device or type, the band is wider",
}
