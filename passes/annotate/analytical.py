"""What the annotate passes of estimators that compute, and run nothing, share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas import configs
from hespas.dialects.mlir import ir
from hespas.estimators import registry
from hespas.passes.annotate.options import choose_node, node_option, settings_of
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

    node: str = node_option()
    keep_going: bool = option(False, "tag and count what cannot be costed instead of stopping")

    def apply(self, module: ir.Module, run: Run) -> None:
        node, chosen = None, ""
        if self.node or "node" in registry.keys(registry.get(self.estimator_name)):
            chosen = choose_node(self.name, self.node, target_of(module), run)
            node = configs.node(chosen)
        settings = settings_of(self, AnalyticalPass)
        estimator = registry.build(self.estimator_name, node, settings)
        annotate(module, estimator, run, node=chosen, keep_going=self.keep_going)
        run.results["node"] = node
