"""``--annotate``: costs by any estimator, those of other packages included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from hespas.dialects.mlir import ir
from hespas.passes.annotate.annotate_options import node_option
from hespas.passes.annotate.measuring_pass import MeasuringPass
from hespas.passes.base import PassRun, option
from hespas.support.errors import UsageError


@dataclass(frozen=True)
class AnnotatePass(MeasuringPass):
    """Write the cost of every op, region and call by the estimator of that name.

    How regions are run is for estimators that measure, and an error for others.
    """

    name: ClassVar[str] = "annotate"

    node: str = node_option()
    estimator: str = option("roofline", "built in, or by the entry point hespas.estimators")
    settings: str = option("", "the estimator's own: key=value;key=value")

    def collect_settings(self) -> Mapping[str, Any]:
        return _parse_settings(self.settings)

    def apply(self, module: ir.Module, run: PassRun) -> None:
        self.annotate_with_estimator(module, run, self.estimator)


def _parse_settings(text: str) -> dict[str, str]:
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
