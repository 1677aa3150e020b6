"""What the annotate passes of measuring estimators share: how regions are run, and the flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.mlir import ir
from hespas.estimators import registry
from hespas.passes.annotate.annotate_options import CUSTOM_NODE, choose_node, collect_own_settings
from hespas.passes.annotate.traverse import annotate_module, require_target
from hespas.passes.base import Pass, PassRun, option
from hespas.support.errors import UsageError

if TYPE_CHECKING:
    from hespas.estimators.measure.measurement_run import MeasureOptions

RUN_OPTIONS = ("jobs", "dask", "cache", "timeout", "memory_limit", "retries")


@dataclass(frozen=True)
class MeasuringPass(Pass):
    """Base of the annotate passes of estimators that measure.

    A subclass names its ``estimator_name``; its own options are the estimator's settings of the
    same names, and those left at their defaults are not passed on.
    """

    prepares: ClassVar[bool] = True
    only_marks: ClassVar[bool] = True
    estimator_name: ClassVar[str] = ""

    node: str = option("", "node preset or file to give shares of its peaks; else the module's own")
    jobs: int = option(1, "worker processes; what is timed still runs alone")
    dask: str = option("", "run on the workers of this Dask cluster, tcp://host:port")
    cache: str = option("", "file for results, none for no file; else HESPAS_CACHE or the user's")
    timeout: float = option(600.0, "seconds for one region, to compile and to run")
    memory_limit: float = option(0.0, "GB of memory for one worker; 0: no limit")
    retries: int = option(1, "how often a region is tried again that lost its worker")
    keep_going: bool = option(False, "tag and count what cannot be measured instead of stopping")

    def collect_settings(self) -> Mapping[str, Any]:
        """The settings of the estimator that were given; raises UsageError."""
        return collect_own_settings(self, MeasuringPass)

    def apply(self, module: ir.Module, run: PassRun) -> None:
        self.annotate_with_estimator(module, run, self.estimator_name)

    def annotate_with_estimator(self, module: ir.Module, run: PassRun, name: str) -> None:
        """Annotate with the estimator of that name; raises HespasError."""
        cls = registry.load_estimator_class(name)
        options = self._build_measure_options(cls.measures, name)
        node_name, node = self._resolve_node(
            module, run, cls.measures and "node" not in registry.list_config_fields(cls)
        )
        estimator = registry.build_estimator(name, node, self.collect_settings())
        annotate_module(
            module, estimator, run, node=node_name, keep_going=self.keep_going, options=options
        )
        run.results["node"] = node

    def _resolve_node(
        self, module: ir.Module, run: PassRun, optional: bool
    ) -> tuple[str, NodeSpec | None]:
        """The node and its name; one that no constant is taken from need not be given."""
        target = require_target(module)
        if optional and not self.node and target.node in (None, CUSTOM_NODE):
            return "", None
        name = choose_node(self.name, self.node, target, run)
        return name, configs.load_node(name)

    def _build_measure_options(self, measures: bool, name: str) -> MeasureOptions | None:
        changed = {
            f.name: value
            for f in fields(MeasuringPass)
            if f.name in RUN_OPTIONS and (value := getattr(self, f.name)) != f.default
        }
        if not measures:
            refuse_measure_options(name, changed)
            return None
        from hespas.estimators.measure.measurement_run import MeasureOptions

        units = {"timeout": "timeout_s", "memory_limit": "memory_limit_gb"}
        return MeasureOptions(**{units.get(key, key): value for key, value in changed.items()})


def refuse_measure_options(estimator: str, measure_options: Mapping[str, Any]) -> None:
    """Refuse options of measuring for an estimator that runs nothing; raises UsageError."""
    if measure_options and not registry.load_estimator_class(estimator).measures:
        option_name = next(iter(measure_options)).replace("_", "-")
        raise UsageError(
            f"{option_name} is for estimators that measure, and {estimator} does not",
            remedy=f"leave {option_name} out",
        )
