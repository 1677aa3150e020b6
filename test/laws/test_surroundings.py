"""What is estimated of an op, a region or a kernel does not depend on what stands around it.

Equal items share one estimate, one function and one kernel, so an estimate may read nothing that
the content of its item does not tell: no other op, no order, no place. The programs are those of
the lit tests.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT

from hespas import configs, passes
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import collect_functions, func, ir, make_context, walk_operations
from hespas.dialects.op_bodies import list_captured_operands
from hespas.dialects.op_kinds import (
    CALLEE,
    CONTROL,
    TERMINATORS,
    find_entry_function,
    is_marked_collective,
)
from hespas.estimators import op_content
from hespas.estimators.accelerators.systolic import SystolicConfig, SystolicEstimator
from hespas.estimators.base import CostItem, Estimator
from hespas.estimators.calibrated.calibrated_estimator import CalibratedConfig, CalibratedEstimator
from hespas.estimators.op_content import render_op_text
from hespas.estimators.roofline import RooflineConfig, RooflineEstimator
from hespas.estimators.work import NotALeaf
from hespas.support.errors import HespasError

pytestmark = pytest.mark.slow

LIT = ROOT / "test" / "lit"
NO_LEAVES = CALLEE.keys() | TERMINATORS


def list_programs(*folders: str) -> Iterator[tuple[str, str]]:
    """List title and text of the programs of lit tests."""
    for folder in folders:
        for file in sorted(LIT.glob(f"{folder}/*.mlir")):
            for number, program in enumerate(file.read_text().split("// -----")):
                yield f"{file.parent.name}/{file.name}[{number}]", program


def parse_program(text: str) -> ir.Module | None:
    """Parse a program; None if the lit test shows what is no program, or one with jumps."""
    context = make_context(allow_unregistered=True)
    try:
        module = ir.Module.parse(text, context)
    except ir.MLIRError:
        return None
    return None if "cf." in str(module) else module


def create_estimators() -> list[Estimator]:
    """Create the estimators that neither measure nor run another program."""
    gpu, tpu = configs.load_node("A100_SXM_80GB"), configs.load_node("TPUv5e")
    return [
        RooflineEstimator(RooflineConfig(gpu)),
        CalibratedEstimator(CalibratedConfig(node=gpu)),
        CalibratedEstimator(CalibratedConfig(node=tpu)),
        SystolicEstimator(SystolicConfig(node=tpu)),
    ]


def estimate(estimators: Sequence[Estimator], op: ir.Operation) -> list[Cost | str]:
    """Estimate an op; an error stands for a cost."""
    costs: list[Cost | str] = []
    for estimator in estimators:
        try:
            costs.append(estimator.estimate(CostItem(op)))
        except HespasError as error:
            costs.append(error.message)
        except NotALeaf as error:
            costs.append(str(error))
    return costs


def list_leaves(holder: ir.Operation) -> Iterator[ir.Operation]:
    """List the ops that are estimated, without those that are parts of others."""
    for region in holder.regions:
        for block in region.blocks:
            for view in block.operations:
                op = view.operation
                if op.name in CONTROL or op.name == "func.func":
                    yield from list_leaves(op)
                elif op.name not in NO_LEAVES and not is_marked_collective(op):
                    yield op


def isolate_op(
    op: ir.Operation, functions: Mapping[str, ir.Operation], is_read: bool
) -> tuple[ir.Module, ir.Operation]:
    """Return a module with nothing but an op, whose results are all read or all not, and the op."""
    module = ir.Module.create(ir.Location.unknown(op.context))
    with op.context, ir.Location.unknown():
        for function in functions.values():
            function.clone(ir.InsertionPoint(module.body))
        captured = [value for _, _, value in list_captured_operands(op)]
        types = [value.type for value in (*op.operands, *captured)]
        results = [result.type for result in op.results] if is_read else []
        with ir.InsertionPoint(module.body):
            block = func.FuncOp("alone", ir.FunctionType.get(types, results)).add_entry_block()
        clone = op.clone(ir.InsertionPoint(block)).operation
        count = len(op.operands)
        for number in range(count):
            clone.operands[number] = block.arguments[number]
        places = list_captured_operands(clone)
        for (inner, number, _), argument in zip(places, list(block.arguments)[count:], strict=True):
            inner.operands[number] = argument
        with ir.InsertionPoint(block):
            func.ReturnOp(list(clone.results) if is_read else [])
    return module, clone


def find_costs_by_surroundings(folder: str) -> list[str]:
    """List the ops of a folder that cost something else than an op with an equal content."""
    here, elsewhere = create_estimators(), create_estimators()
    known: dict[str, list[Cost | str]] = {}
    different: list[str] = []
    for title, text in reversed(list(list_programs(folder))):
        module = parse_program(text)
        if module is None:
            continue
        functions = collect_functions(module)
        for op in list_leaves(module.operation):
            calls = "@" in (content := render_op_text(op))
            costs = {content: estimate(here, op)}
            for is_read in (True, False):
                _alone, clone = isolate_op(op, functions, is_read)
                content = render_op_text(clone)
                if estimate(elsewhere, clone) != costs.setdefault(content, estimate(here, clone)):
                    different.append(f"{title}: {op.name}")
            for content, found in costs.items():
                if not calls and known.setdefault(content, found) != found:
                    different.append(f"{title}: {op.name}")
    return different


FOLDERS = sorted(folder.name for folder in LIT.iterdir() if folder.is_dir())
READERS = "calibrated-annotate"  # has sorts whose positions are read, and others


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_cost_depends_on_the_content_alone(folder: str) -> None:
    assert not find_costs_by_surroundings(folder)


def test_contents_without_readers_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_content, "list_unread_positions", lambda _: ())
    assert any("stablehlo.sort" in place for place in find_costs_by_surroundings(READERS))


X, BIT = "tensor<16777216xf32>", "tensor<i1>"
STABLE = """({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>):
    %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %more = stablehlo.compare LT, %b, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %equal = stablehlo.compare EQ, %less, %more : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %first = stablehlo.compare LT, %i, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = stablehlo.select %equal, %first, %less : tensor<i1>, tensor<i1>
    stablehlo.return %r : tensor<i1>
  })"""
SORT = f"""%s:2 = "stablehlo.sort"(%x, %p) <{{dimension = 0 : i64}}> {STABLE}
    : ({X}, tensor<16777216xi32>) -> ({X}, tensor<16777216xi32>)"""
LOOP = f"""%s:2 = stablehlo.while(%v = %x, %q = %bit) : {X}, {BIT} attributes {{ATTRIBUTES}}
    cond {{ stablehlo.return %q : {BIT} }}
    do {{ %n = stablehlo.negate %v : {X} stablehlo.return %n, %q : {X}, {BIT} }}"""
CHOICE = f"""%s = "stablehlo.if"(%bit) ({{ stablehlo.return %x : {X} }},
    {{ %n = stablehlo.cosine %x : {X} stablehlo.return %n : {X} }})
    {{ATTRIBUTES}} : ({BIT}) -> {X}"""
CALL = f"%s = stablehlo.custom_call @kernel(%x) {{ATTRIBUTES}} : ({X}) -> {X}"
STATED = """{hespas.cost = {estimator = "other", flops = 1 : i64, latency_ns = NS : f64,
    read_bytes = 2 : i64, write_bytes = 3 : i64}}"""
CALIBRATED, KNOWN = "calibrated-annotate{node=A100_SXM_80GB}", "strip-debuginfo"


def render_unit(statement: str, attributes: str = "{}", read: str = "", result: str = "%s") -> str:
    """Render a region: a statement between ops that are equal in all regions."""
    head = f"%x = stablehlo.tanh %in {STATED.replace('NS', '4.0')} : {X}"
    tail = f"%out = stablehlo.sine {result} {STATED.replace('NS', '5.0')} : {X}"
    return "\n".join([head, statement.replace("{ATTRIBUTES}", attributes), read, tail])


# Regions that differ in nothing but what the cost of an op is told by, with the pipeline for it.
TWINS = {
    "positions": (
        render_unit(SORT, result="%s#0"),
        render_unit(SORT, read="%d = stablehlo.abs %s#1 : tensor<16777216xi32>", result="%s#0"),
        CALIBRATED,
    ),
    "assumed trips": (
        render_unit(LOOP, "{hespas.trips = 1 : i64}", result="%s#0"),
        render_unit(LOOP, result="%s#0"),
        CALIBRATED,
    ),
    "trips": (
        render_unit(LOOP, "{hespas.trips = 3 : i64}", result="%s#0"),
        render_unit(LOOP, "{hespas.trips = 2 : i64}", result="%s#0"),
        CALIBRATED,
    ),
    "branches": (
        render_unit(CHOICE, "{hespas.branch = 0 : i64}"),
        render_unit(CHOICE, "{hespas.branch = 1 : i64}"),
        CALIBRATED,
    ),
    "declared costs": (
        render_unit(CALL, "{hespas.kernel_cost = {flops = 900 : i64, bytes = 700000 : i64}}"),
        render_unit(CALL, "{hespas.kernel_cost = {flops = 100 : i64, bytes = 800000 : i64}}"),
        CALIBRATED,
    ),
    "stated costs": (
        render_unit(CALL, STATED.replace("NS", "60.0")),
        render_unit(CALL, STATED.replace("NS", "70.0")),
        KNOWN,
    ),
}  # fmt: skip
SPLITS = ("split-linear", "split-individual", "split-individual{merge}")
GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
COLLECTIVE = f"""%g = "stablehlo.all_reduce"(%in) <{{{GROUPS}}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %r = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }}) : ({X}) -> {X}"""


def render_regions(units: Sequence[str]) -> str:
    """Render a program of regions, each of which reads what a collective after the last yields."""
    lines = []
    names = re.compile(r"%(in|x|s|d|out)\b")
    for number, unit in enumerate(units):
        before = "%start" if not number else f"%g{number - 1}"
        text = names.sub(rf"%\g<1>{number}", unit).replace(f"%in{number}", before)
        cut = COLLECTIVE.replace("%g", f"%g{number}").replace("%in", f"%out{number}")
        lines += [text, cut]
    return f"""module attributes {{mhlo.num_replicas = 2 : i32}} {{
  func.func @main(%start: {X}, %p: tensor<16777216xi32>, %bit: {BIT}) -> {X} {{
    {chr(10).join(lines)}
    return %g{len(units) - 1} : {X}
  }}
}}"""


def sum_costs(units: Sequence[str], pipeline: str, folder: Path) -> Counter[str]:
    """Return the amounts of a program of regions, and its tags and gaps."""
    module = ir.Module.parse(render_regions(units), make_context())
    passes.run_pipeline(module, f"{pipeline},emit-chakra{{output={folder}}}")
    totals: dict[str, Any] = json.loads((folder / "module_stats.json").read_text())["totals"]
    names = ("count", "time_ns", "flops", "read_bytes", "write_bytes", "gaps")
    return Counter({name: totals[name] for name in names} | totals["tags"])


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", TWINS)
def test_regions_cost_what_each_costs_alone(name: str, split: str, tmp_path: Path) -> None:
    first, second, annotate = TWINS[name]
    pipeline = f"prepare,{split},{annotate}"
    alone = {unit: sum_costs([unit], pipeline, tmp_path) for unit in (first, second)}
    assert alone[first] != alone[second]
    for units in ([first, second], [second, first], [first, second, first]):
        expected = sum((alone[unit] for unit in units), Counter())
        assert +sum_costs(units, pipeline, tmp_path) == pytest.approx(expected)


def interleave_with_itself(function: ir.Operation, module: ir.Module, seed: int) -> None:
    """Replace a function by one that runs its ops twice, for other arguments, in a mixed order."""
    (block,) = function.regions[0].blocks
    *ops, end = (view.operation for view in block.operations)
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    name = ir.StringAttr(function.attributes["sym_name"]).value
    function.attributes["sym_name"] = ir.StringAttr.get(f"{name}_once", module.context)
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.body):
        twice = func.FuncOp(name, ir.FunctionType.get([*kind.inputs] * 2, [*kind.results] * 2))
        new = twice.add_entry_block()
    count = len(block.arguments)
    values: list[dict[ir.Value, ir.Value]] = [
        dict(zip(block.arguments, [*new.arguments][k * count : (k + 1) * count], strict=True))
        for k in (0, 1)
    ]
    waiting = [iter(ops), iter(ops)]
    turns = [0, 1] * len(ops)
    random.Random(seed).shuffle(turns)
    for turn in turns:
        op, known = next(waiting[turn]), values[turn]
        clone = op.clone(ir.InsertionPoint(new)).operation
        walk_operations(clone, partial(replace_operands, known))
        known.update(zip(op.results, clone.results, strict=True))
    with module.context, ir.Location.unknown(), ir.InsertionPoint(new):
        func.ReturnOp([known[value] for known in values for value in end.operands])
    function.erase()


def replace_operands(known: Mapping[ir.Value, ir.Value], op: ir.Operation) -> None:
    for number, value in enumerate(op.operands):
        op.operands[number] = known.get(value, value)


def count_kernels(module: ir.Module) -> Counter[str]:
    """Form the kernels of the entry function, and count them by their contents."""
    passes.run_pipeline(module, "prepare,form-kernels")
    (block,) = find_entry_function(module).regions[0].blocks
    return Counter(render_op_text(view.operation) for view in block.operations if len(view.results))


def test_kernels_do_not_depend_on_independent_ops() -> None:
    compared = 0
    for number, (title, text) in enumerate(list_programs("form-kernels", "fuse")):
        once, twice = parse_program(text), parse_program(text)
        if once is None or twice is None or "replica_groups" in text:
            continue  # collectives of both would be in another order on some devices
        interleave_with_itself(find_entry_function(twice), twice, number)
        kernels = count_kernels(once)
        assert count_kernels(twice) == kernels + kernels, title
        compared += 1
    assert compared > 100
