"""Values that replace those of a node, and the node that results.

``hespas.target`` holds the name of the node that a module was annotated for, and the overrides as
text, so that any later pass or tool can rebuild the effective node from the IR alone.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

from hespas import configs
from hespas.configs.node_spec import NodeSpec, find_rate_key_problem
from hespas.support.errors import UsageError
from hespas.support.settings import setting
from hespas.support.suggestions import suggest_nearest

if TYPE_CHECKING:
    from hespas.dialects.attrs import TargetAttr

CUSTOM_NODE = "custom"  # the name of a node that overrides alone describe
_RATES = "per_datatype_flops"
_NODE_FIELDS = {
    "peak_flops": "default_flops",
    "memory_bandwidth": "memory_bandwidth_bytes_per_s",
    "tdp": "tdp_w",
    "hbm_power_share": "hbm_power_share",
}


@dataclass(frozen=True)
class NodeOverrides:
    """Values that replace those of a node; None and "" keep the node's own.

    A configuration class of an estimator can derive from it to offer them as settings. The
    constructor raises UsageError for a value out of range.
    """

    peak_flops: float | None = setting(None, "operations/s of types without a rate on the node")
    memory_bandwidth: float | None = setting(None, "bytes/s of device memory")
    per_datatype_flops: str = setting(
        "", "operations/s by type, for one unit or for both: f32=1e12;matrix.bf16=1e14"
    )
    tdp: float | None = setting(None, "power limit in watts; needs hbm-power-share")
    hbm_power_share: float | None = setting(
        None, "share of the power limit that memory uses, 0 to 1; enables energy estimates"
    )

    def __post_init__(self) -> None:
        for name in _NODE_FIELDS:
            value = getattr(self, name)
            limit = 1 if name == "hbm_power_share" else sys.float_info.max
            if value is not None and not 0 < value <= limit:
                range_text = "and at most 1" if limit == 1 else "and finite"
                raise UsageError(
                    f"{name.replace('_', '-')} must be more than 0 {range_text}, not {value}"
                )

    @property
    def node_overrides(self) -> NodeOverrides:
        """The overrides without the other fields of a subclass."""
        return NodeOverrides(**{name: getattr(self, name) for name in OVERRIDE_NAMES})

    @property
    def describes_node(self) -> bool:
        """Whether the overrides describe a node without a preset or file."""
        return self.peak_flops is not None and self.memory_bandwidth is not None

    def merge(self, newer: NodeOverrides) -> NodeOverrides:
        """Combine two sets of overrides; values of ``newer`` take precedence."""
        values: dict[str, Any] = {}
        for f in fields(NodeOverrides):
            value = getattr(newer, f.name)
            values[f.name] = getattr(self, f.name) if value == f.default else value
        rates: dict[str, str] = {}
        for item in f"{self.per_datatype_flops};{newer.per_datatype_flops}".split(";"):
            key = item.partition("=")[0].strip()
            rates.pop(key, None)  # a later rate of both units replaces an earlier one of one unit
            rates[key] = item.strip()
        values[_RATES] = ";".join(filter(None, rates.values()))
        return NodeOverrides(**values)

    def apply_to_node(self, node: NodeSpec) -> NodeSpec:
        """Return the node with the values replaced. Raises UsageError for an incomplete set."""
        changed = dict.fromkeys(node.changed)
        for name, field_name in _NODE_FIELDS.items():
            value, spelled = getattr(self, name), name.replace("_", "-")
            if value is None:
                continue
            node = replace(node, **{field_name: value})
            changed[spelled] = None
        node = replace(node, changed=tuple(changed))
        if self.tdp is not None and node.hbm_power_share is None:
            raise UsageError(
                "tdp needs hbm-power-share",
                remedy="set the share of the power limit that memory uses: hbm-power-share=0.4",
            )
        if self.hbm_power_share is not None and node.tdp_w is None:
            raise UsageError(f"{node.name} has no known power limit", remedy="set tdp, in watts")
        if self.per_datatype_flops:
            rates = parse_rates(self.per_datatype_flops)
            node = node.replace_peak_rates(rates, label="per-datatype-flops")
            node = replace(node, changed=tuple(dict.fromkeys(node.changed)))
        return node

    def to_text(self) -> str:
        """Format the overrides as pass options: ``memory-bandwidth=1e+11 tdp=400.0``."""
        values = {name: getattr(self, name) for name in OVERRIDE_NAMES}
        values[_RATES] = "".join(self.per_datatype_flops.split())
        return " ".join(
            f"{name.replace('_', '-')}={value}" for name, value in values.items() if value
        )

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse what ``to_text`` formats. Raises UsageError."""
        values: dict[str, Any] = {}
        for item in text.split():
            spelled, _, value = item.partition("=")
            name = spelled.replace("-", "_")
            if name not in OVERRIDE_NAMES:
                known = [known.replace("_", "-") for known in OVERRIDE_NAMES]
                raise UsageError(
                    f"a node has no override '{spelled}'", remedy=suggest_nearest(spelled, known)
                )
            try:
                values[name] = value if name == _RATES else float(value)
            except ValueError:
                raise UsageError(f"node override '{item}' is not a number") from None
        return cls(**values)


OVERRIDE_NAMES = tuple(f.name for f in fields(NodeOverrides))


def load_overridden_node(name: str, overrides: NodeOverrides) -> NodeSpec:
    """Load a node preset or file, or describe the node by the overrides if it is CUSTOM_NODE.

    Raises HespasError.
    """
    if name != CUSTOM_NODE:
        return overrides.apply_to_node(configs.load_node(name))
    if overrides.memory_bandwidth is None:
        raise UsageError(
            f"the node '{CUSTOM_NODE}' has no memory-bandwidth",
            remedy="name a node, or set peak-flops and memory-bandwidth",
        )
    return overrides.apply_to_node(NodeSpec(CUSTOM_NODE, overrides.memory_bandwidth))


def load_target_node(target: TargetAttr) -> NodeSpec | None:
    """Rebuild the node that a module was annotated for; None if it names none.

    Raises HespasError, for example for a node file that has been moved.
    """
    if not target.node:
        return None
    return load_overridden_node(target.node, NodeOverrides.from_text(target.node_overrides or ""))


def parse_rates(text: str) -> dict[str, float]:
    """Parse ``f32=1e12;matrix.bf16=1e14`` to operations per second by type. Raises UsageError."""
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
