"""Options that annotate passes share: the node, the estimator's own, and systolic arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from hespas import configs
from hespas.dialects.attrs import TargetAttr
from hespas.passes.base import Pass, PassRun, option
from hespas.support.errors import UsageError

CUSTOM_NODE = "custom"  # the name of a node that options alone describe


def node_option() -> Any:
    """The option of a pass that takes constants from a node."""
    return option(
        "", f"node preset or .json file; else the module's own, else {configs.DEFAULT_NODE}"
    )


def choose_node(pass_name: str, requested: str, target: TargetAttr, run: PassRun) -> str:
    """The name of the node: the one given, the module's own, or the default, which is said.

    Raises UsageError where the module's own was described by options.
    """
    name = requested or target.node or ""
    if name == CUSTOM_NODE:
        raise UsageError(
            f"{pass_name}: the module was annotated for a node given by options",
            remedy="name a node, or give peak-flops and memory-bandwidth again",
        )
    if not name:
        name = configs.DEFAULT_NODE
        run.note(f"{pass_name}: node {name} (the default; node=NAME chooses another)")
    return name


def collect_own_settings(step: Pass, base: type[Pass]) -> dict[str, Any]:
    """The options that a pass adds to its base, where they are not at their defaults."""
    common = {f.name for f in fields(base)}
    own = [f for f in fields(step) if f.name not in common]
    return {f.name: value for f in own if (value := getattr(step, f.name)) != f.default}


@dataclass(frozen=True)
class ArrayOptions(Pass):
    """The systolic arrays and the vector unit of a device."""

    array: str = option("", "accelerator preset or .json file; else that of the node's name")
    rows: int | None = option(None, "rows of an array")
    columns: int | None = option(None, "columns of an array")
    arrays: int | None = option(None, "arrays of a core")
    cores: int | None = option(None, "cores of the device")
    cycles_per_row: float | None = option(None, "cycles to take in a row; 0.5: two rows a cycle")
    clock_hz: float | None = option(None, "cycles per second")
    lanes: int | None = option(None, "32-bit lanes of a core's vector unit")
    alus: int | None = option(None, "ALUs of a lane")
    sram_bytes: int | None = option(None, "memory beside a core's units")
    memory_bandwidth: float | None = option(None, "bytes/s of device memory")
