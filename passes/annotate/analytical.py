"""What the annotate passes of estimators that compute, and run nothing, share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from hespas import configs
from hespas.dialects.mlir import ir
from hespas.estimators import registry
from hespas.passes.annotate.roofline_annotate import choose_node
from hespas.passes.annotate.traverse import annotate, target_of
from hespas.passes.base import Pass, Run, option


@dataclass(frozen=True)
class AnalyticalPass(Pass):
    """Base: a subclass names its ``estimator_name``; its own options are that one's settings.

    Those left at their defaults are not passed on.
    """

    prepares: ClassVar[bool] = True
    only_marks: ClassVar[bool] = True
    estimator_name: ClassVar[str]

    node: str = option(
        "", f"node preset or .json file; else the module's own, else {configs.DEFAULT_NODE}"
    )
    keep_going: bool = option(False, "tag and count what cannot be costed instead of stopping")

    def apply(self, module: ir.Module, run: Run) -> None:
        common = {f.name for f in fields(AnalyticalPass)}
        own = [f for f in fields(self) if f.name not in common]
        given = {f.name: value for f in own if (value := getattr(self, f.name)) != f.default}
        node, chosen = None, ""
        if self.node or "node" in registry.keys(registry.get(self.estimator_name)):
            chosen = choose_node(self.name, self.node, target_of(module), run)
            node = configs.node(chosen)
        estimator = registry.build(self.estimator_name, node, given)
        annotate(module, estimator, run, node=chosen, keep_going=self.keep_going)
        run.results["node"] = node
