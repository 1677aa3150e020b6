"""Warnings of a run about inputs that are valid, but make its result wrong or doubtful."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from hespas import configs
from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.dialects.attrs import FACTS, GROUPED_PRODUCTS, UNFUSED_ATTENTION, TargetAttr
from hespas.dialects.mlir import find_ops, get_call_target, get_defining_op, ir
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import BLOCK_SCALED_CALL, CUSTOM_CALLS, FUSION, name_in_both
from hespas.dialects.program_facts import Fact, list_stale_figures, read_program_facts
from hespas.estimators import registry as estimators
from hespas.frontends.function_lowering import select_lowering_platform
from hespas.frontends.lowered_platform import LOWERED_FOR, PLATFORM_OPS
from hespas.passes.base import PassRun
from hespas.passes.compile import hlo_origin
from hespas.passes.compile.hlo_origin import SCHEDULED_BY
from hespas.passes.fuse import KernelFusion
from hespas.passes.fuse.kernel_cost_model import BLACKWELL, FusionDevice
from hespas.passes.optimize.xla_optimize import OPTIMISED_FOR
from hespas.support.errors import UsageError
from hespas.support.text_tables import format_percent
from hespas.workflows.fusible_ops import is_fusible
from hespas.workflows.step_facts import STEP_FACTS

_PLATFORM_COMPILERS = {
    "cpu": hlo_origin.CPU,
    "cuda": hlo_origin.GPU,
    "rocm": hlo_origin.GPU,
    "tpu": hlo_origin.TPU,
}
PairFinder = Callable[[ir.Module, frozenset[str]], bool]
_DOTS = name_in_both("dot dot_general")
_BROADCASTS = name_in_both("broadcast broadcast_in_dim")
_LONGEST_TRACE = 64  # ops between a product and its 8-bit operand
RAGGED_DOTS = ("chlo.ragged_dot", "mhlo.ragged_dot")
LEAST_SHARE = 0.1  # of the compute time, from which unfused ops are worth a warning


def warn_of_doubtful_program(
    module: ir.Module,
    target: TargetAttr,
    node: NodeSpec | None,
    stats: dict[str, Any],
    run: PassRun,
    find_pair: PairFinder,
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
    facts = read_program_facts(module)
    optimised_for = facts.get(OPTIMISED_FOR)
    if facts.get(UNFUSED_ATTENTION) and (node is None or node.vendor != "Google"):
        run.warn(
            f"{facts[UNFUSED_ATTENTION]} calls of attention, for which PyTorch has fused kernels, "
            "are products and a softmax in this program, so that the estimate can be too slow and "
            "its memory too large; export it for a GPU (--target), with "
            "scaled_dot_product_attention of operands in 16 bits, without dropout and DTensor"
        )
    if optimised_for is None and SCHEDULED_BY not in facts:
        _warn_of_unfused_ops(module, estimator, node, stats, run, find_pair)
    ragged_count = sum(stats["kinds"].get(name, {"count": 0})["count"] for name in RAGGED_DOTS)
    if node is not None and node.vendor == "NVIDIA":
        grouped_count = facts.get(GROUPED_PRODUCTS, 0)
        if grouped_count and not ragged_count:
            run.warn(
                f"XLA makes dense products of {grouped_count} grouped products, for which PyTorch "
                "has kernels, so that the estimate can be many times too slow: "
                f"{run.spell_option('form', 'fuse')} has such kernels"
            )
        elif ragged_count and not grouped_count:
            run.warn(
                f"{ragged_count} x ragged_dot is estimated as a product of its groups; XLA makes "
                "one dense product of it on GPUs, which takes many times as long: "
                f"{run.spell_option('form', 'xla')} compiles it"
            )
        _warn_of_scaled_blocks(module, node, stats, run)
        _warn_of_widened_products(module, node, run)
    if node is not None:
        _warn_of_foreign_compiler(facts, node, run)
        _warn_of_foreign_platform(facts, node, run)
    if estimator == "calibrated" and node is not None:
        _warn_of_foreign_constants(node, run)


def _warn_of_scaled_blocks(
    module: ir.Module, node: NodeSpec, stats: dict[str, Any], run: PassRun
) -> None:
    """Warn of products of scaled blocks (`jax.nn.scaled_matmul`) on a GPU that has none."""
    from hespas.configs.compile_targets import find_node_target  # it adds to every start-up

    if CUSTOM_CALLS.isdisjoint(stats["kinds"]):
        return
    calls = find_ops(module.operation, CUSTOM_CALLS)
    count = sum(bool(re.fullmatch(BLOCK_SCALED_CALL, get_call_target(op))) for op in calls)
    target = find_node_target(node)
    if not count or not target or FusionDevice.from_target(target).capability >= BLACKWELL:
        return
    run.warn(
        f"{count} x a product of scaled blocks is estimated at the rate of its narrow type, which "
        f"{node.name} has for whole tensors only; XLA converts the operands to a wider type, "
        f"which takes many times as long: {run.spell_option('form', 'xla')} compiles it"
    )


def _warn_of_widened_products(module: ir.Module, node: NodeSpec, run: PassRun) -> None:
    """Warn of products that are not at the rate of 8-bit floats, and may be in a call of cuBLAS.

    XLA's compiler chooses kernels of Triton, which convert the operands. On the device it also
    tries cuBLAS, which multiplies 8-bit operands whose scales are single numbers.
    """
    if "f8" not in node.peaks_flops.get("matrix", {}):
        return
    dots = find_ops(module.operation, _DOTS)
    count = sum(all(map(_widens_8_bit_float, dot.operands)) for dot in dots)
    if count:
        run.warn(
            f"{count} x a product of 8-bit floats, converted before it, is at the rate of the "
            "wider type; if cuBLAS runs it on the device, it takes about half as long: "
            f"{run.spell_option('form', 'xla')} and "
            f"{run.spell_option('xla_optimize', 'triton-gemm=false')} estimate this"
        )


def _widens_8_bit_float(value: ir.Value) -> bool:
    """Return whether a value is a wider form of 8-bit floats, perhaps scaled, in another order."""
    if _is_8_bit_float(value):
        return False
    for _ in range(_LONGEST_TRACE):
        source = _find_source(value)
        if source is None:
            return False
        if _is_8_bit_float(source):
            return True
        value = source
    return False


def _is_8_bit_float(value: ir.Value) -> bool:
    return str(ir.ShapedType(value.type).element_type).startswith("f8")


def _find_source(value: ir.Value) -> ir.Value | None:
    """Return the operand that a value has the elements of, in and out of fusions."""
    op = get_defining_op(value)
    if op is None:
        argument = ir.BlockArgument(value)
        holder = argument.owner.owner
        return holder.operands[argument.arg_number] if holder.name == FUSION else None
    if op.name == FUSION:
        results = get_terminator(op.regions[0].blocks[0]).operands
        return results[ir.OpResult(value).result_number]
    name = op.name.partition(".")[2]
    if name in ("multiply", "divide"):
        makers = [get_defining_op(operand) for operand in op.operands]
        scales = [maker is not None and maker.name in _BROADCASTS for maker in makers]
        return op.operands[scales[0]] if any(scales) else None
    return op.operands[0] if name in ("bitcast", "convert", "reshape", "transpose") else None


def warn_of_stale_figures(module: ir.Module, run: PassRun, stated: Mapping[str, Any]) -> None:
    """Warn of figures of a step that are of another program; ``stated`` ones replace them."""
    replaced = {
        name
        for option, names in STEP_FACTS.items()
        if stated.get(option) is not None
        for name in names
    }
    stale = [name for name in list_stale_figures(module) if name not in replaced]
    if stale:
        run.warn(
            f"{FACTS}: {', '.join(stale)} count for nothing, because another tool has changed the "
            "shapes of arguments or results, or the devices, of the program that they are of"
        )


def _warn_of_foreign_compiler(facts: Mapping[str, Fact], node: NodeSpec, run: PassRun) -> None:
    """Warn of a program that XLA has optimised for another device than the node."""
    from hespas.configs.compile_targets import find_node_target  # it adds to every start-up

    target, compiler = facts.get(OPTIMISED_FOR), facts.get(SCHEDULED_BY)
    if target is not None and target != node.name and not node.is_anonymous:
        if target == find_node_target(node):
            run.warn(
                f"XLA has no target for {node.name}, and compiled the program for the nearest one, "
                f"{target}: some kernels may differ"
            )
            return
        device = str(target)
    elif target is None and compiler in _PLATFORM_COMPILERS.values():
        own = _PLATFORM_COMPILERS.get(select_lowering_platform(node.vendor))
        if compiler == own:
            return
        device = str(compiler).partition(":")[2] + "s"
    else:
        return
    run.warn(
        f"XLA has optimised the program for {device}, and the node is {node.name}: its "
        "kernels are not those of this node; start from the program before optimisation"
        f"{_format_remedy(node, run, ', and ')}"
    )


def _warn_of_foreign_platform(facts: Mapping[str, Fact], node: NodeSpec, run: PassRun) -> None:
    """Warn of a program that JAX lowered for another platform, if it would be another program."""
    platform, ops = facts.get(LOWERED_FOR), facts.get(PLATFORM_OPS)
    own = select_lowering_platform(node.vendor)
    if ops is not None and platform != own:
        run.warn(
            f"the program was lowered for {platform}, and the node is {node.name}: JAX lowers "
            f"{ops} otherwise for {own}; lower it for the node, with hespas export --platform "
            f"{own}, or pass the function itself to hespas.estimate"
        )


def _warn_of_unfused_ops(
    module: ir.Module, estimator: str, node: NodeSpec | None, stats: dict[str, Any], run: PassRun,
    find_pair: PairFinder,
) -> None:  # fmt: skip
    kinds, time_ns = stats["kinds"], stats["totals"]["time_ns"]
    if FUSION in kinds or not time_ns or not _estimates_single_ops(estimator):
        return
    if run.find_artefact(KernelFusion):
        return  # what is left is what a compiler leaves, too
    fusible = frozenset(filter(is_fusible, kinds))
    share = sum(kinds[name]["time_ns"] for name in fusible) / time_ns
    if share >= LEAST_SHARE and find_pair(module, fusible):
        run.warn(
            f"XLA has not optimised the program: {format_percent(share)} of its compute time is "
            "in ops that XLA would fuse, so that the estimate can be several times too slow"
            f"{_format_remedy(node, run, '; ')}"
        )


def _estimates_single_ops(estimator: str) -> bool:
    """Return whether an estimator leaves the fusing of a region to other passes."""
    try:
        return estimators.load_estimator_class(estimator).granularity != "region"
    except UsageError:  # annotated by a tool of the user
        return False


def _format_remedy(node: NodeSpec | None, run: PassRun, separator: str) -> str:
    """Name the ways to the kernels that XLA would make of a program on a node, after a separator.

    A form that the run has is no remedy; "" if no other is left.
    """
    from hespas.configs import compile_targets

    forms = []
    if node is not None and compile_targets.find_node_target(node):
        forms.append(f"{run.spell_option('form', 'xla')}, which compiles it for the node")
    if not run.find_artefact(KernelFusion):
        forms.append(run.spell_option("form", "fuse"))
    return f"{separator}add {', or '.join(forms)}" if forms else ""


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
    """Warn if the devices of a system are those of another vendor than the node.

    Otherwise warns of what its provenance says against its numbers.
    """
    if node is None or system is None or not node.vendor:
        return
    vendor = find_system_vendor(system)
    if vendor and vendor != node.vendor:
        run.warn(
            f"the node {node.name} is of {node.vendor}, and system {system.name} connects devices "
            f"of {vendor}: use a system of {node.vendor}; hespas presets systems lists the presets"
        )
        return
    caveats = configs.read_system_provenance(system).get("caveats")
    for caveat in caveats if isinstance(caveats, list) else ():
        run.warn(f"system {system.name}: {caveat}")


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
