"""What the annotate passes of measuring estimators share: how regions are run, and the flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from hespas import configs
from hespas.configs.node import Node
from hespas.dialects.errors import UsageError
from hespas.dialects.mlir import ir
from hespas.estimators import registry
from hespas.passes.annotate.options import CUSTOM, choose_node, settings_of
from hespas.passes.annotate.traverse import annotate, target_of
from hespas.passes.base import Pass, Run, option

if TYPE_CHECKING:
    from hespas.estimators.measure.run import Options

RUNNING = ("jobs", "dask", "cache", "timeout", "memory_limit", "retries")


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

    def settings_given(self) -> Mapping[str, Any]:
        """The settings of the estimator that were given; raises UsageError."""
        return settings_of(self, MeasuringPass)

    def apply(self, module: ir.Module, run: Run) -> None:
        self.annotate(module, run, self.estimator_name)

    def annotate(self, module: ir.Module, run: Run, name: str) -> None:
        """Annotate with the estimator of that name; raises HespasError."""
        cls = registry.get(name)
        options = self._options(cls.measures, name)
        chosen, node = self._node(module, run, cls.measures and "node" not in registry.keys(cls))
        estimator = registry.build(name, node, self.settings_given())
        annotate(module, estimator, run, node=chosen, keep_going=self.keep_going, options=options)
        run.results["node"] = node

    def _node(self, module: ir.Module, run: Run, optional: bool) -> tuple[str, Node | None]:
        """The node and its name; one that no constant is taken from need not be given."""
        target = target_of(module)
        if optional and not self.node and target.node in (None, CUSTOM):
            return "", None
        name = choose_node(self.name, self.node, target, run)
        return name, configs.node(name)

    def _options(self, measures: bool, name: str) -> Options | None:
        given = {
            f.name: value
            for f in fields(MeasuringPass)
            if f.name in RUNNING and (value := getattr(self, f.name)) != f.default
        }
        if not measures:
            check_measures(name, given)
            return None
        from hespas.estimators.measure.run import Options

        units = {"timeout": "timeout_s", "memory_limit": "memory_limit_gb"}
        return Options(**{units.get(key, key): value for key, value in given.items()})


def check_measures(estimator: str, given: Mapping[str, Any]) -> None:
    """Refuse options of measuring for an estimator that runs nothing; raises UsageError."""
    if given and not registry.get(estimator).measures:
        option_name = next(iter(given)).replace("_", "-")
        raise UsageError(
            f"{option_name} is for estimators that measure, and {estimator} does not",
            remedy=f"leave {option_name} out",
        )
