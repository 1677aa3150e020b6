"""Modules that consist of one ``sdy.manual_computation``, whose body is the program of a device."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from hespas.dialects.mlir import ir, read_boundary_attrs, stablehlo
from hespas.dialects.op_bodies import splice_block_before
from hespas.dialects.op_kinds import MANUAL_COMPUTATION
from hespas.passes.prepare.census import ModuleCensus

CHANNEL, CONSTANT = "channel_handle", "stablehlo.constant"


def inline_manual_computation(census: ModuleCensus) -> bool:
    """Inline the manual computation if the entry contains nothing else; return whether it did.

    It must be manual in every axis of the mesh, its operands must be the entry's arguments, and its
    results the entry's results, without resharding between them. Constants that every device has as
    a whole, which JAX lifts out of kernels, may be operands too.
    """
    shardy_ops = census.select_ops_by_dialect("sdy")
    if [op.name for op in shardy_ops] != [MANUAL_COMPUTATION, "sdy.return"]:
        return False
    entry = census.entry
    block = entry.regions[0].blocks[0]
    ops = [op.operation for op in block.operations]
    if [op.name for op in ops] != [CONSTANT] * (len(ops) - 2) + [MANUAL_COMPUTATION, "func.return"]:
        return False
    manual, last = ops[-2:]
    channels = itertools.count(1)
    arguments, body = list(block.arguments), manual.regions[0].blocks[0]
    inputs, outputs = (
        _split_shardings(manual, "in_shardings"),
        _split_shardings(manual, "out_shardings"),
    )
    if len(inputs) != len(manual.operands):
        return False
    operands = [
        (value, text, isinstance(value, ir.BlockArgument))
        for value, text in zip(manual.operands, inputs, strict=True)
    ]
    passed = [value.arg_number for value, _, is_argument in operands if is_argument]  # type: ignore[attr-defined]
    if not (
        _is_fully_manual(manual, census)
        and len(set(passed)) == len(passed) == len(arguments)
        and all('{"' not in text for _, text, is_argument in operands if not is_argument)
        and list(last.operands) == list(manual.results)
        and _allows_shardings(
            entry, "arg_attrs", passed, [text for _, text, is_argument in operands if is_argument]
        )
        and _allows_shardings(entry, "res_attrs", range(len(outputs)), outputs)
    ):
        return False
    for (outer, _, is_argument), inner in zip(operands, body.arguments, strict=True):
        if is_argument:
            outer.set_type(inner.type)
    _, values = splice_block_before(manual, manual.operands, body)
    for number, value in enumerate(values):
        last.operands[number] = value
    manual.erase()
    kind = ir.FunctionType.get([a.type for a in arguments], [v.type for v in values], entry.context)
    entry.attributes["function_type"] = ir.TypeAttr.get(kind, entry.context)
    for contents in census.functions.values():
        _number_channels(contents.function, channels)
    return True


def _number_channels(function: ir.Operation, numbers: Iterator[int]) -> None:
    """Give each collective a different channel id, as XLA's partitioner does.

    JAX uses the same id for all of them, and XLA then assigns them the same layout.
    """

    def replace_channel(op: ir.Operation) -> ir.WalkResult:
        if CHANNEL in op.attributes:
            old: Any = stablehlo.ChannelHandle(op.attributes[CHANNEL])
            op.attributes[CHANNEL] = stablehlo.ChannelHandle.get(
                next(numbers), old.channel_type, op.context
            )
        return ir.WalkResult.ADVANCE

    function.walk(replace_channel, ir.WalkOrder.PRE_ORDER)


def _is_fully_manual(manual: ir.Operation, census: ModuleCensus) -> bool:
    """Return whether every axis of the mesh is manual or of size one."""
    axes = set(re.findall(r'"([^"]*)"', str(manual.attributes["manual_axes"])))
    names = set(re.findall(r"<@([\w.$-]+)", str(manual.attributes["in_shardings"])))
    names |= set(re.findall(r"<@([\w.$-]+)", str(manual.attributes["out_shardings"])))
    parent = census.entry.parent
    if len(names) != 1 or parent is None:
        return False
    for op in parent.regions[0].blocks[0].operations:
        if op.operation.name == "sdy.mesh" and op.operation.attributes["sym_name"].value in names:
            sizes = re.findall(r'"([^"]*)"=(\d+)', str(op.operation.attributes["mesh"]))
            return all(name in axes or size == "1" for name, size in sizes)
    return False


def _split_shardings(manual: ir.Operation, name: str) -> list[str]:
    """Split a list of shardings into the texts of ``#sdy.sharding`` attributes."""
    text = str(manual.attributes[name])
    return [f"#sdy.sharding{part}" for part in re.findall(r"<@[^<>]*>", text)]


def _allows_shardings(
    entry: ir.Operation, name: str, numbers: object, shardings: list[str]
) -> bool:
    """Return whether the entry's arguments or results have the wanted shardings or none."""
    attrs = read_boundary_attrs(entry, name)
    return not attrs or all(
        "sdy.sharding" not in attrs[number] or str(attrs[number]["sdy.sharding"]) == sharding
        for number, sharding in zip(numbers, shardings, strict=True)  # type: ignore[call-overload]
    )
