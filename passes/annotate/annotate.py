"""The annotate passes: ``--annotate`` for any estimator, and one ``--NAME-annotate`` for each.

The passes of single estimators are generated: their options are the fields of the estimator's
``Config`` class, those of ``MeasureOptions`` if it measures, and the fields of ``EstimatorPass``.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from hespas import configs
from hespas.configs.node_overrides import CUSTOM_NODE, NodeOverrides, load_overridden_node
from hespas.configs.node_spec import describe_node_name
from hespas.estimators import registry
from hespas.estimators.measure.measure_options import MeasureOptions
from hespas.passes.base import FACTS, Pass, PassRun, option
from hespas.support.entry_points import report_raised_errors
from hespas.support.errors import UsageError
from hespas.support.records import record
from hespas.support.settings import list_settings

if TYPE_CHECKING:
    from hespas.configs.kernel_costs import DeclaredCosts
    from hespas.dialects.attrs import TargetAttr
    from hespas.dialects.mlir import ir
    from hespas.estimators.base import Estimator
    from hespas.passes.annotate.traverse import Annotation

DEFAULT_NODE_HELP = (
    f"node preset or .json file; default: the module's own, else {configs.DEFAULT_NODE}"
)
KERNEL_COST_HELP = (
    "work of one custom call, or of an op that hespas has no rule for, by the name of the kernel, "
    "the target or the op: NAME=FLOPS:BYTES;NAME=FLOPS:BYTES, or a JSON file, or a Python file "
    "with cost rules"
)
REPORTED_NODE_HELP = (
    "node preset or .json file to report shares of peak rates of; default: the module's own"
)


@record(frozen=True)
class EstimatorChoice:
    """The estimator of an annotate pass, and what ``hespas.target`` says of it.

    Attributes:
        estimator: The estimator.
        node: The preset or file that its constants come from; "" for none.
        overrides: The values that replaced those of the node.
        pipeline: The pass with the options that determine the costs.
    """

    estimator: Estimator
    node: str
    overrides: NodeOverrides
    pipeline: str


@record(frozen=True)
class EstimatorPass(Pass):
    """Base of the annotate passes."""

    prepares: ClassVar[bool] = True
    keeps: ClassVar[frozenset[str]] = FACTS
    only_marks: ClassVar[bool] = True
    estimator_name: ClassVar[str] = ""

    node: str = option("", DEFAULT_NODE_HELP)
    keep_going: bool = option(False, "tag and count what cannot be estimated instead of stopping")
    kernel_cost: str = option("", KERNEL_COST_HELP)

    @property
    def is_builtin(self) -> bool:
        return self.select_estimator()[0] in registry.ESTIMATORS

    def apply(self, module: ir.Module, run: PassRun) -> Annotation:
        """Annotate the module; raises HespasError."""
        return self.annotate(module, run)

    def annotate(
        self, module: ir.Module, run: PassRun, *, keeps_stated: bool = False
    ) -> Annotation:
        """Annotate the module; see ``annotate_module``."""
        from hespas.estimators.rules.registry import forget_file_rules
        from hespas.passes.annotate.traverse import annotate_module, require_target

        options = self._collect_measure_options()
        forget_file_rules()
        if self.kernel_cost:
            from hespas.passes.annotate.kernel_costs import declare_costs

            declare_costs(module, self._parse_kernel_costs(), run)
        choice = self.choose_estimator(require_target(module), run)
        annotation = annotate_module(
            module,
            choice.estimator,
            run,
            node=choice.node,
            overrides=choice.overrides,
            keep_going=self.keep_going,
            options=options,
            pipeline=choice.pipeline,
            keeps_stated=keeps_stated,
        )
        self.report_estimates(choice.estimator, run)
        return annotation

    def choose_estimator(self, target: TargetAttr, run: PassRun) -> EstimatorChoice:
        """Build the estimator with its node for a program. Raises HespasError."""
        name, settings = self.select_estimator()
        cls = registry.load_estimator_class(name)
        values = registry.convert_settings(name, settings)
        node_name, inherited = self._choose_node(cls, values, target, run)
        node = load_overridden_node(node_name, inherited) if node_name else None
        if node is not None and (text := describe_node_name(node)):
            run.note(f"{self.name}: {text}")
        with report_raised_errors(f"estimator '{name}'", cls, where=run.input_name):
            config = registry.build_config(name, node, values, target.devices)
            estimator = cls(config)
        overrides = inherited.merge(getattr(config, "node_overrides", NodeOverrides()))
        pipeline = self._format_repeatable_pass(name, values)
        return EstimatorChoice(estimator, node_name, overrides, pipeline)

    def select_estimator(self) -> tuple[str, Mapping[str, Any]]:
        """Return the name of the estimator, and its settings."""
        return self.estimator_name, self.collect_settings()

    def report_estimates(self, estimator: Estimator, run: PassRun) -> None:
        """Print the warnings and the notes of an estimator."""
        with report_raised_errors(f"estimator '{estimator.name}'", type(estimator)):
            warnings, notes = list(estimator.list_warnings()), list(estimator.list_notes())
        for warning in warnings:
            run.warn(warning)
        for note in notes:
            run.note(f"{self.name}: {note}")

    def _parse_kernel_costs(self) -> DeclaredCosts:
        from hespas.configs.kernel_costs import parse_kernel_costs  # few programs need them

        return parse_kernel_costs(self.kernel_cost)

    def collect_settings(self) -> dict[str, Any]:
        """Collect the settings of the estimator that differ from their defaults."""
        common = {f.name for cls in (EstimatorPass, MeasureOptions) for f in fields(cls)}
        return {
            f.name: value
            for f in fields(self)
            if f.name not in common and (value := getattr(self, f.name)) != f.default
        }

    def _format_repeatable_pass(self, name: str, settings: Mapping[str, Any]) -> str:
        """Format the pass with the options that determine the costs of the estimator ``name``."""
        kernel_cost = self._parse_kernel_costs().to_text() if self.kernel_cost else ""
        try:
            cls = load_annotate_pass(name)
        except UsageError:  # a setting is named like an option, so that only `annotate` accepts it
            defaults = {f.name: f.default for f in fields(MeasureOptions)}
            step = dataclasses.replace(self, kernel_cost=kernel_cost, **defaults)
        else:
            common: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(EstimatorPass)}
            common["kernel_cost"] = kernel_cost
            step = cls(**common, **settings)
        return step.to_pipeline_text()

    def _choose_node(
        self,
        cls: type[Estimator],
        settings: Mapping[str, Any],
        target: TargetAttr,
        run: PassRun,
    ) -> tuple[str, NodeOverrides]:
        """Choose the node, and the overrides that apply to it before those of the settings.

        The node is the option, the node that the settings describe, that of the module, or the
        default, in this order. The name is empty if an estimator needs no node and none is known.
        """
        if self.node:
            return self.node, NodeOverrides()
        if issubclass(cls.Config, NodeOverrides):
            names = [f.name for f in fields(NodeOverrides) if f.name in settings]
            overrides = NodeOverrides(**{name: settings[name] for name in names})
            if overrides.describes_node:
                return CUSTOM_NODE, NodeOverrides(overrides.peak_flops, overrides.memory_bandwidth)
            if overrides.peak_flops is not None and not target.node:
                raise UsageError(
                    f"{self.name}: peak-flops alone does not describe a node",
                    remedy="set memory-bandwidth too, or name a node",
                )
        if target.node:
            return target.node, NodeOverrides.from_text(target.node_overrides or "")
        if all(setting.name != "node" for setting in list_settings(cls.Config)):
            return "", NodeOverrides()
        node = configs.DEFAULT_NODE
        other = run.spell_option("node", "NAME")
        run.note(f"{self.name}: node {node} (the default; {other} chooses another)")
        return node, NodeOverrides()

    def _collect_measure_options(self) -> MeasureOptions | None:
        if not isinstance(self, MeasureOptions):
            return None
        cls = registry.load_estimator_class(self.select_estimator()[0])
        values = {f.name: getattr(self, f.name) for f in fields(MeasureOptions)}
        if not cls.measures:
            defaults = {f.name: f.default for f in fields(MeasureOptions)}
            refuse_measure_options(
                cls.name, [name for name, value in values.items() if value != defaults[name]]
            )
            return None
        return MeasureOptions(**values)


@record(frozen=True)
class AnnotatePass(MeasureOptions, EstimatorPass):
    """Write the costs of any estimator on every op, region and call.

    The options of measuring are for estimators that measure, and an error for other estimators.
    """

    name: ClassVar[str] = "annotate"

    estimator: str = option("roofline", "built in, or by the entry point hespas.estimators")
    settings: str = option("", "settings of the estimator: key=value;key=value")

    def select_estimator(self) -> tuple[str, Mapping[str, Any]]:
        return self.estimator, parse_settings(self.settings)


def parse_settings(text: str) -> dict[str, str]:
    """Parse ``key=value;key=value``. Raises UsageError."""
    settings: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(";"))):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key:
            raise UsageError(f"settings: '{item}' is not key=value")
        if key in settings:
            raise UsageError(f"settings: '{key}' is set twice")
        settings[key] = value
    return settings


def refuse_measure_options(estimator: str, names: list[str]) -> None:
    """Raise UsageError if options of measuring are set for an estimator that does not measure."""
    if names and not registry.load_estimator_class(estimator).measures:
        spelled = names[0].replace("_", "-")
        raise UsageError(
            f"{spelled} is for estimators that measure, and {estimator} does not",
            remedy=f"leave {spelled} out",
        )


def load_annotate_pass(estimator: str) -> type[EstimatorPass]:
    """Generate the pass class of an estimator. Raises UsageError for an unknown name."""
    return _generate_annotate_pass(estimator, registry.load_estimator_class(estimator))


@functools.cache
def _generate_annotate_pass(name: str, cls: type[Estimator]) -> type[EstimatorPass]:
    bases = (MeasureOptions, EstimatorPass) if cls.measures else (EstimatorPass,)
    reserved = {f.name for base in bases for f in fields(base)}
    settings = list_settings(cls.Config)
    options: list[tuple[str, Any, Any]] = []
    if all(setting.name != "node" for setting in settings):
        options.append(("node", str, option("", REPORTED_NODE_HELP)))
    for setting in settings:
        if setting.name == "node":
            continue
        if setting.name in reserved:
            raise UsageError(
                f"estimator {name}: its setting '{setting.spelled}' is also an option of its pass",
                remedy="rename the setting",
            )
        plain = type(setting.default) in (bool, int, float, str)
        help = setting.help or f"a setting of {name}"
        options.append(
            (
                setting.name,
                _get_option_type(setting.type) | None,
                option(setting.default if plain else None, help),
            )
        )
    return dataclasses.make_dataclass(
        re.sub(r"\W", "", name.title()) + "AnnotatePass",
        options,
        bases=bases,
        frozen=True,
        namespace={
            "__module__": __name__,
            "__doc__": inspect.cleandoc(cls.__doc__ or f"Write the costs of the estimator {name}."),
            "name": f"{name}-annotate",
            "estimator_name": name,
        },
    )


def _get_option_type(hint: Any) -> type:
    """Return the type of a pass option: text, unless the field holds only one kind of number."""
    kinds = {hint, *get_args(hint)} & {bool, int, float, str}
    return kinds.pop() if len(kinds) == 1 else str
