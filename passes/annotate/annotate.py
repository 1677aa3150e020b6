"""``--annotate``: costs by any estimator, those of other packages included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas import configs
from hespas.dialects.errors import UsageError
from hespas.dialects.mlir import ir
from hespas.estimators import registry
from hespas.passes.annotate.roofline_annotate import choose_node
from hespas.passes.annotate.traverse import annotate, target_of
from hespas.passes.base import Pass, Run, option


@dataclass(frozen=True)
class AnnotatePass(Pass):
    """Write the cost of every op, region and call by the estimator of that name."""

    name: ClassVar[str] = "annotate"
    prepares: ClassVar[bool] = True
    only_marks: ClassVar[bool] = True

    estimator: str = option("roofline", "built in, or by the entry point hespas.estimators")
    node: str = option(
        "", f"node preset or .json file; else the module's own, else {configs.DEFAULT_NODE}"
    )
    settings: str = option("", "the estimator's own: key=value;key=value")
    keep_going: bool = option(False, "tag and count ops without a cost rule instead of stopping")

    def apply(self, module: ir.Module, run: Run) -> None:
        registry.get(self.estimator)  # a wrong name before anything is said of the node
        node = choose_node(self.name, self.node, target_of(module), run)
        found = configs.node(node)
        estimator = registry.build(self.estimator, found, parse_settings(self.settings))
        annotate(module, estimator, run, node=node, keep_going=self.keep_going)
        run.results["node"] = found


def parse_settings(text: str) -> dict[str, str]:
    """``key=value;key=value`` to a dictionary; raises UsageError."""
    settings: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key:
            raise UsageError(f"settings: '{item}' is not key=value")
        if key in settings:
            raise UsageError(f"settings: '{key}' is given twice")
        settings[key] = value
    return settings
