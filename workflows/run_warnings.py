"""Warnings of a run about inputs that are valid, but make its result wrong or doubtful."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.dialects.attr_codec import read_program_facts
from hespas.dialects.attrs import TargetAttr
from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import FUSION
from hespas.estimators import registry as estimators
from hespas.passes.base import PassRun
from hespas.passes.optimize.xla_optimize import OPTIMISED_FOR
from hespas.support.errors import UsageError
from hespas.support.text_tables import format_percent
from hespas.workflows.fusible_ops import KERNELS, has_fusible_pair

PairFinder = Callable[[ir.Module, frozenset[str]], bool]
LEAST_SHARE = 0.1  # of the compute time, from which unfused ops are worth a warning


def warn_of_doubtful_program(
    module: ir.Module,
    target: TargetAttr,
    node: NodeSpec | None,
    stats: dict[str, Any],
    run: PassRun,
    find_pair: PairFinder = has_fusible_pair,
) -> None:
    """Warn if a program does not fit what it is estimated for.

    It is either not optimised by XLA, or optimised for another device, or its node has no constants
    of its own.

    Args:
        module: The annotated program.
        target: What it was annotated for.
        node: The node; None if there is none.
        stats: The statistics of the program.
        run: Receives the warnings.
        find_pair: Returns what ``has_fusible_pair`` does.
    """
    estimator = (target.estimator or "").partition(" ")[0]
    optimised_for = read_program_facts(module).get(OPTIMISED_FOR)
    if optimised_for is None:
        _warn_of_unfused_ops(module, estimator, node, stats, run, find_pair)
    elif node is not None and not node.is_anonymous and optimised_for != node.name:
        run.warn(
            f"XLA has optimised the program for {optimised_for}, and the node is {node.name}: its "
            "kernels are not those of this node; start from the program before optimisation, and "
            f"{_format_remedy(node, run)}"
        )
    if estimator == "calibrated" and node is not None:
        _warn_of_foreign_constants(node, run)


def _warn_of_unfused_ops(
    module: ir.Module, estimator: str, node: NodeSpec | None, stats: dict[str, Any], run: PassRun,
    find_pair: PairFinder,
) -> None:  # fmt: skip
    kinds, time_ns = stats["kinds"], stats["totals"]["time_ns"]
    if FUSION in kinds or not time_ns or not _estimates_single_ops(estimator):
        return
    fusible = frozenset(kinds) - KERNELS
    share = sum(kinds[name]["time_ns"] for name in fusible) / time_ns
    if share >= LEAST_SHARE and find_pair(module, fusible):
        run.warn(
            f"XLA has not optimised the program: {format_percent(share)} of its compute time is "
            "in ops that XLA would fuse, so that the estimate can be several times too slow; "
            f"{_format_remedy(node, run)}"
        )


def _estimates_single_ops(estimator: str) -> bool:
    """Return whether an estimator leaves the fusing of a region to other passes."""
    try:
        return estimators.load_estimator_class(estimator).granularity != "region"
    except UsageError:  # annotated by a tool of the user
        return False


def _format_remedy(node: NodeSpec | None, run: PassRun) -> str:
    """Name the ways to the kernels that XLA would make of a program on a node."""
    from hespas.configs import compile_targets

    xla, fuse = (run.spell_option("form", form) for form in ("xla", "fuse"))
    if node is None or node.name not in compile_targets.list_target_presets():
        return f"add {fuse}"
    return f"add {xla}, which compiles it for the node, or {fuse}"


def _warn_of_foreign_constants(node: NodeSpec, run: PassRun) -> None:
    """Warn if no kernel of a node has been measured, nor one of a node with the same chip."""
    calibration = node.calibration or {}
    if calibration.get("fits") or calibration.get("same_silicon"):
        return
    like = calibration.get("like")
    consequence = (
        f"all efficiencies of its kernels are those of {like}"
        if like
        else "their times are those of the roofline, a lower bound from the rates of the data sheet"
    )
    run.warn(f"no kernel of {node.name} has been measured: {consequence}")


def warn_of_foreign_system(node: NodeSpec | None, system: SystemSpec | None, run: PassRun) -> None:
    """Warn if the devices of a system are those of another vendor than the node."""
    if node is None or system is None or not node.vendor:
        return
    vendor = find_system_vendor(system)
    if vendor and vendor != node.vendor:
        run.warn(
            f"the node {node.name} is of {node.vendor}, and system {system.name} connects devices "
            f"of {vendor}: use a system of {node.vendor}; hespas presets systems lists the presets"
        )


def find_system_vendor(system: SystemSpec) -> str:
    """Return the vendor of the devices that the name or description of a system names, or ""."""
    description = str(configs.read_system_provenance(system).get("description", ""))
    nodes_by_chip, pattern = _find_chip_names()
    for text in (system.name, description):
        chips = pattern.findall(text)
        vendors = {configs.load_node(nodes_by_chip[chip]).vendor for chip in chips}
        if len(vendors) == 1:
            return vendors.pop()
    return ""


@functools.cache
def _find_chip_names() -> tuple[dict[str, str], re.Pattern[str]]:
    """Return a node preset for each chip, such as ``H100``, and a pattern for these chips."""
    nodes_by_chip = {name.partition("_")[0]: name for name in configs.list_node_presets()}
    longest_first = sorted(nodes_by_chip, key=len, reverse=True)
    names = "|".join(re.escape(chip) for chip in longest_first)
    return nodes_by_chip, re.compile(rf"(?<![A-Za-z0-9])(?:{names})(?![0-9])")
