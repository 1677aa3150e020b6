"""Costs follow the ops: whatever another pass does, they are what annotating again would give."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy
import pytest
from support.annotated_programs import REDUCE, X, loop
from support.budgets import thin_out
from support.measuring import Fake, FakeConfig
from support.paths import ROOT
from xdsl.dialects.builtin import UnregisteredOp
from xdsl.rewriter import Rewriter

import hespas
from hespas import frontends
from hespas.dialects.attrs import Cost, RegionAttr
from hespas.dialects.mlir import PassManager, collect_functions, ir, make_context, walk_operations
from hespas.dialects.xdsl_bridge import to_native_module, to_xdsl_module
from hespas.estimators import registry as estimators
from hespas.estimators.base import CostItem, Estimator
from hespas.passes.annotate.stale_costs import refresh_costs
from hespas.passes.annotate.traverse import Annotation, annotate_module
from hespas.passes.base import FACTS, Pass, PassRun
from hespas.passes.emit.emit_chakra import EmitChakraPass, EmittedTraces
from hespas.passes.pipeline import parse_pipeline, run_pipeline
from hespas.support.errors import HespasError
from hespas.workflows.program_explanation import explain_program

ANNOTATE = "roofline-annotate{node=H100_80GB}"
PLACES = "@region_0 (in.mlir:3:10), @region_1 (in.mlir:19:12)"
ADDED_UP = "the sums of costs are added up again"
# Two equal ops, a dead one and a transposition that canonicalize removes, a function that is called
# twice, a collective, and two equal ops in a loop.
BODY = f"""%0 = stablehlo.tanh %x : {X}
    %1 = stablehlo.tanh %x : {X}
    %2 = stablehlo.add %0, %1 : {X}
    %dead = stablehlo.sine %2 : {X}
    %3 = stablehlo.transpose %2, dims = [0, 1] : ({X}) -> {X}
    %4 = func.call @f(%3) : ({X}) -> {X}
    %5 = func.call @f(%4) : ({X}) -> {X}
    {REDUCE.format(6, 5)}
    {
    loop(
        "w",
        3,
        f"%a = stablehlo.tanh %acc : {X} %b = stablehlo.tanh %acc : {X}"
        f" %c = stablehlo.add %a, %b : {X}",
        "c",
        "6",
    )
}
    %7 = stablehlo.negate %w#1 : {X}"""
PROGRAM = f"""module attributes {{mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%x: {X}) -> {X} {{
    {BODY}
    return %7 : {X}
  }}
  func.func private @f(%x: {X}) -> {X} {{
    %0 = stablehlo.exponential %x : {X}
    return %0 : {X}
  }}
}}"""  # fmt: skip
Change = Callable[[ir.Module], ir.Module]


def keep(module: ir.Module) -> ir.Module:
    return module


def through_text(module: ir.Module) -> ir.Module:
    text = str(module.operation.get_asm(enable_debug_info=True))
    return frontends.parse_module(text.encode(), "in.mlir", make_context())


def through_bytecode(module: ir.Module) -> ir.Module:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return frontends.parse_module(buffer.getvalue(), "in.mlir", make_context())


def native(pipeline: str) -> Change:
    def change(module: ir.Module) -> ir.Module:
        PassManager.parse(f"builtin.module({pipeline})", module.context).run(module.operation)
        return module

    return change


def rewrite_in_xdsl(module: ir.Module) -> ir.Module:
    """Replace one of two equal ops by the other, and an op by one of another kind."""
    copy = to_xdsl_module(module)
    by_name: dict[str, list[UnregisteredOp]] = {}
    for op in copy.walk():
        if isinstance(op, UnregisteredOp):
            by_name.setdefault(op.op_name.data, []).append(op)
    first, second = by_name["stablehlo.tanh"][:2]
    second.results[0].replace_all_uses_with(first.results[0])
    Rewriter.erase_op(second)
    for op in by_name["stablehlo.negate"]:
        new = type(by_name["stablehlo.exponential"][0]).create(
            operands=list(op.operands), result_types=list(op.result_types), location=op.location
        )
        Rewriter.replace_op(op, new)
    return to_native_module(copy)


CHANGES: dict[str, Change] = {
    "inline_cse": native("inline,cse"),
    "cse": native("cse"),
    "canonicalize": native("canonicalize"),
    "inline": native("inline"),
    "all": native("inline,cse,canonicalize,symbol-dce"),
    "xdsl": rewrite_in_xdsl,
}


def read(text: str = PROGRAM) -> ir.Module:
    return frontends.parse_module(text.encode(), "in.mlir", make_context())


def make_run(notes: list[str] | None = None, **options: Any) -> PassRun:
    note = (lambda text: None) if notes is None else notes.append
    return PassRun(input_name="in.mlir", note=note, **options)


def annotate_again(module: ir.Module) -> str:
    again = through_bytecode(module)
    run_pipeline(again, f"strip-costs,{ANNOTATE}", make_run())
    return str(again)


SPLITS = ("split-linear", "split-individual{merge}", "split-individual")
STORES = (keep, through_text, through_bytecode)


@pytest.mark.parametrize(
    ("change", "store", "split"), thin_out(itertools.product(CHANGES, STORES, SPLITS), 2)
)
def test_costs_are_those_of_annotating_again(
    change: str, store: Change, split: str, tmp_path: Path
) -> None:
    module, run = read(), make_run()
    run_pipeline(module, f"{split},{ANNOTATE}", run)
    module = store(CHANGES[change](store(module)))
    before = str(module)
    run_pipeline(module, f"emit-chakra{{output={tmp_path / 'late'}}}", run)
    assert str(module) == annotate_again(module)
    if split != "split-individual" and change != "inline":  # the costs of inlined ops are true
        assert str(module) != before, "the change should make a cost stale"
    statistics = run.get_artefact(EmittedTraces).stats["totals"]
    again = run_pipeline(through_bytecode(module), f"strip-costs,{ANNOTATE}", make_run())
    total = again.get_artefact(Annotation).total
    assert statistics["time_ns"] == pytest.approx(total.time_ns)
    assert statistics["flops"] == total.flops


@pytest.mark.parametrize("pipeline", ["cse", "canonicalize", "inline", "inline,cse,symbol-dce"])
def test_one_pipeline_does_what_its_parts_do(pipeline: str, tmp_path: Path) -> None:
    steps = f"split-linear,{ANNOTATE},{pipeline},emit-chakra{{output={tmp_path / '%s'}}}"
    together = read()
    run_pipeline(together, steps % "together", make_run())
    apart = read()
    for step in (steps % "apart").split(","):
        apart = through_bytecode(apart)
        run_pipeline(apart, step, make_run())
    assert str(apart) == str(together)
    for path in (tmp_path / "together").glob("[!.]*"):
        assert path.read_bytes() == (tmp_path / "apart" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ("cse,refresh-costs", [f"{PLACES} changed after the annotation: {ADDED_UP}"]),
        ("refresh-costs,cse", []),  # nothing reads the costs
        (f"cse,{ANNOTATE},refresh-costs", []),
        ("cse,strip-costs", []),
    ],
)
def test_changed_regions_are_named_with_their_places(pipeline: str, expected: list[str]) -> None:
    notes: list[str] = []
    run_pipeline(read(), f"split-linear,{ANNOTATE},{pipeline}", make_run(notes))
    assert notes == expected


def test_a_change_between_two_pipelines_of_a_run_is_found() -> None:
    module, run = read(), make_run()
    run_pipeline(module, f"split-linear,{ANNOTATE}", run)
    native("cse")(module)
    run_pipeline(module, "refresh-costs", run)
    assert str(module) == annotate_again(module)


def test_a_pass_that_is_applied_without_a_pipeline_finds_a_change(tmp_path: Path) -> None:
    module = read()
    run_pipeline(module, f"split-linear,{ANNOTATE}")
    native("cse")(module)
    EmitChakraPass(output=str(tmp_path / "out")).apply(module, make_run())
    assert str(module) == annotate_again(module)


@pytest.mark.parametrize("pipeline", ["split-linear", "split-individual{merge}"])
def test_costs_before_the_split_are_refreshed_after_it(pipeline: str) -> None:
    module = read()
    run_pipeline(module, f"{ANNOTATE},inline,cse,{pipeline},refresh-costs", make_run())
    assert str(module) == annotate_again(module)


def test_show_reads_costs_that_are_true(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, path = read(), tmp_path / "annotated.mlir"
    run_pipeline(module, f"split-linear,{ANNOTATE},cse", make_run())
    path.write_text(str(module))
    run = run_pipeline(module, f"strip-costs,{ANNOTATE}", make_run())
    total = run.get_artefact(Annotation).total
    assert explain_program(str(path)).total_ns == pytest.approx(total.time_ns)
    assert ADDED_UP in capsys.readouterr().err


def test_regions_that_were_measured_are_refused_when_they_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(estimators.ESTIMATORS, "fake", "support.measuring:Fake")
    module, run = read(), make_run()
    run_pipeline(module, "split-linear", run)
    annotate_module(module, Fake(FakeConfig()), run)
    module = through_bytecode(module)
    run_pipeline(module, "refresh-costs", make_run())
    native("cse")(module)
    with pytest.raises(
        HespasError, match=r"'func.func': hespas.cost is stale.*fake-annotate again"
    ):
        run_pipeline(module, "refresh-costs", make_run())


def test_annotating_again_replaces_every_cost() -> None:
    module = read()
    run_pipeline(module, f"split-linear,{ANNOTATE},cse", make_run())
    run_pipeline(module, ANNOTATE, make_run())
    assert str(module) == annotate_again(module)


def test_regions_are_renumbered_where_calls_were_copied_or_made() -> None:
    module = read()
    run_pipeline(module, f"split-linear,{ANNOTATE}")
    entry = collect_functions(module)["main"]
    call = next(v.operation for v in entry.regions[0].blocks[0] if v.operation.name == "func.call")
    call.clone(ir.InsertionPoint(call))
    bare = call.clone(ir.InsertionPoint(call)).operation
    del bare.attributes[RegionAttr.NAME]
    del bare.attributes[Cost.NAME]
    module = through_bytecode(module)
    run_pipeline(module, "refresh-costs", make_run())
    regions = [
        region
        for view in collect_functions(module)["main"].regions[0].blocks[0]
        if (region := RegionAttr.read_from_op(view.operation)) is not None
    ]
    numbers = [region.id for region in regions]
    assert len(set(numbers)) == len(numbers) == 4
    assert str(module) == annotate_again(module)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    "pipeline",
    [
        f"split-linear,{ANNOTATE}",
        f"{ANNOTATE},split-individual{{merge}}",
        f"fuse,split-individual,{ANNOTATE}",
    ],
)
def test_the_digests_of_real_programs_survive_a_round_trip(pipeline: str) -> None:
    path = ROOT / "docs" / "examples" / "llama3-100m.mlir.xz"
    module = frontends.read_module(str(path), make_context())
    run_pipeline(module, pipeline, make_run())
    for store in (through_text, through_bytecode):
        notes: list[str] = []
        copy = store(module)
        run_pipeline(copy, "refresh-costs", make_run(notes))
        assert notes == [] and str(copy) == str(module)


def test_the_numbers_of_an_estimator_may_be_of_another_type_than_those_of_an_attribute() -> None:
    class Flat(Estimator):
        name, version, Config = "flat", "1", FakeConfig

        def __init__(self, config: FakeConfig) -> None:
            self.config = config

        def estimate(self, item: CostItem) -> Cost:
            return Cost("flat", numpy.int64(8), 32, 32, 5, energy_nj=Fraction(1, 3))

    module = ir.Module.parse(
        f"func.func @main(%x: {X}) -> {X} {{ %0 = stablehlo.tanh %x : {X} return %0 : {X} }}",
        make_context(),
    )
    notes: list[str] = []
    run_pipeline(module, "split-linear")
    annotate_module(module, Flat(FakeConfig()), PassRun())
    refresh_costs(ir.Module.parse(str(module), make_context()), PassRun(note=notes.append))
    assert notes == []


@dataclass(frozen=True)
class DoubleTimesPass(Pass):
    """Write other costs of plain ops than an annotate pass, as a pass that keeps them may."""

    name: ClassVar[str] = "acme-double-times"
    keeps: ClassVar[frozenset[str]] = FACTS
    only_marks: ClassVar[bool] = True

    def apply(self, module: ir.Module, run: PassRun) -> None:
        def visit_op(op: ir.Operation) -> ir.WalkResult:
            cost = Cost.read_from_op(op)
            if cost is not None and op.name == "stablehlo.tanh":
                doubled = replace(cost, latency_ns=2 * cost.latency_ns, digest=None)
                doubled.write_to_op(op)
            return ir.WalkResult.ADVANCE

        walk_operations(module.operation, visit_op)


def test_a_pass_that_keeps_costs_may_write_them(tmp_path: Path) -> None:
    """The trace has the costs on the IR, not those that the annotate pass has written."""
    text = """
    func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
      %0 = stablehlo.tanh %x : tensor<1024x1024xf32>
      return %0 : tensor<1024x1024xf32>
    }
    """
    times = []
    for extra in ([], [DoubleTimesPass()]):
        before = parse_pipeline(f"split-individual,{ANNOTATE}")
        after = parse_pipeline(f"emit-chakra{{output={tmp_path}}}")
        run = run_pipeline(hespas.read(text), [*before, *extra, *after])
        (step,) = run.get_artefact(EmittedTraces).trace.steps
        times.append(step.content.latency_fs)
    assert times[1] == pytest.approx(2 * times[0])
