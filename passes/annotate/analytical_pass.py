"""What the annotate passes of estimators that compute, and run nothing, share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas import configs
from hespas.dialects.mlir import ir
from hespas.estimators import registry
from hespas.passes.annotate.annotate_options import choose_node, collect_own_settings, node_option
from hespas.passes.annotate.traverse import annotate_module, require_target
from hespas.passes.base import Pass, PassRun, option


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

    def apply(self, module: ir.Module, run: PassRun) -> None:
        node, node_name = None, ""
        if self.node or "node" in registry.list_config_fields(
            registry.load_estimator_class(self.estimator_name)
        ):
            node_name = choose_node(self.name, self.node, require_target(module), run)
            node = configs.load_node(node_name)
        settings = collect_own_settings(self, AnalyticalPass)
        estimator = registry.build_estimator(self.estimator_name, node, settings)
        annotate_module(module, estimator, run, node=node_name, keep_going=self.keep_going)
        run.results["node"] = node
