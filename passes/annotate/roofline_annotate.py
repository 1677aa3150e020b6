"""``--roofline-annotate``: the roofline cost of every op on one accelerator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from hespas import configs
from hespas.configs.node_spec import NodeSpec, find_rate_key_problem
from hespas.dialects.attrs import TargetAttr
from hespas.dialects.mlir import ir
from hespas.estimators.roofline import RooflineConfig, RooflineEstimator
from hespas.passes.annotate.annotate_options import CUSTOM_NODE, choose_node, node_option
from hespas.passes.annotate.traverse import annotate_module, require_target
from hespas.passes.base import Pass, PassRun, option
from hespas.support.errors import UsageError


@dataclass(frozen=True)
class RooflineAnnotatePass(Pass):
    """Write the roofline cost of every op, region and call for one accelerator."""

    name: ClassVar[str] = "roofline-annotate"
    prepares: ClassVar[bool] = True
    only_marks: ClassVar[bool] = True

    node: str = node_option()
    peak_flops: float | None = option(None, "operations/s of types that the node has no rate for")
    memory_bandwidth: float | None = option(None, "bytes/s of device memory")
    per_datatype_flops: str = option(
        "", "operations/s by type, for one unit or both: f32=1e12;matrix.bf16=1e14"
    )
    tdp: float | None = option(None, "power limit in watts; needs hbm-power-share")
    hbm_power_share: float | None = option(
        None, "memory's part of the power limit, 0 to 1; with it, energy is estimated"
    )
    keep_going: bool = option(False, "tag and count ops without a cost rule instead of stopping")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        node_name, node = self.resolve_node(require_target(module), run)
        estimator = RooflineEstimator(RooflineConfig(node))
        annotate_module(module, estimator, run, node=node_name, keep_going=self.keep_going)
        for fallback in sorted(estimator.fallbacks):
            if fallback.endswith(" at default") and node.warn_default:
                run.warn(f"{node.name} has no own rate for this type: {fallback} rate")
        run.results["node"] = node

    def resolve_node(self, target: TargetAttr, run: PassRun) -> tuple[str, NodeSpec]:
        """The node and the name to keep for it: the option, the module's, or the default."""
        if self.peak_flops is not None and not self.node:
            if self.memory_bandwidth is not None:
                return CUSTOM_NODE, self._override_node(
                    NodeSpec(CUSTOM_NODE, self.memory_bandwidth)
                )
            if target.node in (None, CUSTOM_NODE):
                raise UsageError(
                    f"{self.name}: peak-flops alone does not describe a node",
                    remedy="give memory-bandwidth too, or name a node",
                )
        name = choose_node(self.name, self.node, target, run)
        return name, self._override_node(configs.load_node(name))

    def _override_node(self, node: NodeSpec) -> NodeSpec:
        changed = list(node.changed)
        for option_name, field_name, value in (
            ("peak-flops", "default_flops", self.peak_flops),
            ("memory-bandwidth", "memory_bandwidth_bytes_per_s", self.memory_bandwidth),
            ("tdp", "tdp_w", self.tdp),
            ("hbm-power-share", "hbm_power_share", self.hbm_power_share),
        ):
            if value is None:
                continue
            high = 1 if option_name == "hbm-power-share" else float("inf")
            if not (0 < value < float("inf")) or value > high:
                limit = " and at most 1" if high == 1 else ""
                raise UsageError(f"{self.name}: {option_name} must be more than 0{limit}")
            node = replace(node, **{field_name: value})
            changed.append(option_name)
        node = replace(node, changed=tuple(changed))
        if self.tdp is not None and node.hbm_power_share is None:
            raise UsageError(
                f"{self.name}: tdp needs hbm-power-share",
                remedy="give memory's part of the power limit, e.g. hbm-power-share=0.4",
            )
        if self.hbm_power_share is not None and node.tdp_w is None:
            raise UsageError(
                f"{self.name}: {node.name} has no known power limit", remedy="give tdp in watts"
            )
        if self.per_datatype_flops:
            rates = _parse_rates(self.per_datatype_flops)
            node = node.replace_peak_rates(rates, label="per-datatype-flops")
        return node


def _parse_rates(text: str) -> dict[str, float]:
    """``f32=1e12;matrix.bf16=1e14`` to operations per second; raises UsageError."""
    rates = {}
    for item in text.split(";"):
        key, equals, number = (part.strip() for part in item.partition("="))
        if not item.strip():
            continue
        problem = find_rate_key_problem(key)
        if problem:
            raise UsageError(f"per-datatype-flops: {problem}")
        try:
            rate = float(number)
        except ValueError:
            rate = 0.0
        if not equals or not 0 < rate < float("inf"):
            raise UsageError(f"per-datatype-flops: '{item.strip()}' is not type=operations/s")
        rates[key] = rate
    return rates
