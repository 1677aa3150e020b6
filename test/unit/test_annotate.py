"""The annotate walk: every op that runs is charged once per execution, split or not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.annotated_programs import ADD, BYTES, FLAT, REDUCE, X, loop, program
from support.budgets import draw_examples

from hespas import configs, frontends, passes
from hespas.configs.node_overrides import NodeOverrides, load_target_node
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attrs import CommAttr, Cost, KernelAttr, RegionAttr, TargetAttr
from hespas.dialects.mlir import collect_functions, ir
from hespas.estimators import registry
from hespas.estimators.aggregate import aggregate_costs
from hespas.estimators.base import CostItem, Estimator
from hespas.estimators.work import is_free_op
from hespas.passes.annotate.traverse import Annotation, Annotator
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError, UsageError

LOOP_BYTES = (4 + 4 + 1) + (4 + 4 + 4)  # the compare and the counter's add


def annotate(parse, text: str, pipeline: str = FLAT, **options) -> tuple[ir.Module, PassRun]:
    module = parse(text)
    run = PassRun(note=lambda text: None, **options)
    passes.run_pipeline(module, pipeline, run)
    return module, run


def body(module: ir.Module, name: str = "main") -> list[ir.Operation]:
    return [
        view.operation for view in collect_functions(module)[name].regions[0].blocks[0].operations
    ]


def by_name(module: ir.Module, name: str) -> ir.Operation:
    return next(op for op in body(module) if op.name == name)


def cost(op: ir.Operation) -> Cost:
    cost_attr = Cost.read_from_op(op)
    assert cost_attr is not None, op.name
    return cost_attr


def test_ops_and_target(parse):
    module, run = annotate(parse, program(f"%0 = {ADD}\n%1 = stablehlo.tanh %0 : {X}", "1"))
    add, tanh, ret = body(module)
    assert cost(add).latency_ns == 3 * BYTES
    assert cost(tanh).latency_ns == 2 * BYTES
    assert Cost.NAME not in ret.attributes
    assert cost(add) == Cost("roofline", 64 * 64, 2 * BYTES, BYTES, 3.0 * BYTES, "memory", "f32")
    target = TargetAttr.read_from_op(module.operation)
    assert target is not None
    assert (target.node, target.estimator, target.devices) == ("custom", "roofline 1", 2)
    assert run.get_artefact(Annotation).total.time_ns == 5 * BYTES


def test_collectives_cost_nothing_here(parse):
    module, run = annotate(parse, program(REDUCE.format("0", "x"), "0"))
    reduce = by_name(module, "stablehlo.all_reduce")
    assert Cost.NAME not in reduce.attributes
    assert CommAttr.NAME in reduce.attributes
    assert all(
        Cost.NAME not in view.operation.attributes
        for view in reduce.regions[0].blocks[0].operations
    )
    assert run.get_artefact(Annotation).total.time_ns == 0


def test_loop_multiplies_by_trips(parse):
    text = program(loop("w", 5, f"%t = stablehlo.add %acc, %y : {X}", "t", "x"), "w#1")
    module, run = annotate(parse, text)
    op_cost = cost(by_name(module, "stablehlo.while"))
    assert op_cost.trips == 5
    assert op_cost.latency_ns == 5 * (3 * BYTES + LOOP_BYTES)
    assert op_cost.flops == 5 * (64 * 64 + 2)
    assert run.get_artefact(Annotation).total.time_ns == op_cost.latency_ns


def test_nested_loops_multiply(parse):
    inner = loop("v", 3, f"%t = stablehlo.tanh %acc : {X}", "t", "a")
    # The inner loop shadows nothing: its values are renamed.
    for name in ("i", "acc", "n", "lt", "one", "next"):
        inner = inner.replace(f"%{name} ", f"%{name}2 ").replace(f"%{name},", f"%{name}2,")
    inner = inner.replace("%acc2 = %a)", "%acc2 = %acc)").replace("%lt :", "%lt2 :")
    module, _ = annotate(parse, program(loop("w", 5, inner, "v#1", "x"), "w#1"))
    op_cost = cost(by_name(module, "stablehlo.while"))
    assert op_cost.latency_ns == 5 * (3 * (2 * BYTES + LOOP_BYTES) + LOOP_BYTES)


def test_dearest_branch(parse):
    text = program(
        f"""%0 = "stablehlo.if"(%which) ({{
      %1 = stablehlo.tanh %x : {X}
      stablehlo.return %1 : {X}
    }}, {{
      %1 = {ADD}
      %2 = stablehlo.tanh %1 : {X}
      stablehlo.return %2 : {X}
    }}) : (tensor<i1>) -> {X}""",
        "0",
    )
    module, run = annotate(parse, text)
    assert cost(by_name(module, "stablehlo.if")).latency_ns == 5 * BYTES
    assert run.get_artefact(Annotation).total.time_ns == 5 * BYTES


def test_a_branch_costs_what_its_trace_runs(parse):
    text = program(
        f"""%0 = "stablehlo.if"(%which) ({{
      %1 = {ADD}
      %2 = stablehlo.tanh %1 : {X}
      stablehlo.return %2 : {X}
    }}, {{
      {REDUCE.format("3", "x")}
      %4 = stablehlo.tanh %3 : {X}
      stablehlo.return %4 : {X}
    }}) : (tensor<i1>) -> {X}""",
        "0",
    )
    module, run = annotate(parse, text)
    assert cost(by_name(module, "stablehlo.if")).latency_ns == 2 * BYTES
    assert run.get_artefact(Annotation).total.time_ns == 2 * BYTES


CALLED = f"""func.func private @f(%x: {X}, %y: {X}) -> {X} {{
    %0 = {ADD}
    return %0 : {X}
  }}"""


def test_calls_are_charged_each_time(parse):
    text = program(
        f"%0 = call @f(%x, %y) : ({X}, {X}) -> {X}\n%1 = call @f(%0, %y) : ({X}, {X}) -> {X}",
        "1",
        CALLED,
    )
    module, run = annotate(parse, text)
    calls = [op for op in body(module) if op.name == "func.call"]
    assert [cost(op).latency_ns for op in calls] == [3 * BYTES] * 2
    assert cost(body(module, "f")[0]).latency_ns == 3 * BYTES
    assert run.get_artefact(Annotation).total.time_ns == 6 * BYTES


def test_fusion_is_one_kernel(parse):
    text = program(
        f"""%0 = "mhlo.fusion"(%x, %y) <{{fusion_kind = #mhlo<fusion_kind kLoop>}}> ({{
    ^bb0(%a: {X}, %b: {X}):
      %1 = stablehlo.add %a, %b : {X}
      %2 = stablehlo.tanh %1 : {X}
      "mhlo.return"(%2) : ({X}) -> ()
    }}) : ({X}, {X}) -> {X}""",
        "0",
    )
    module, _ = annotate(parse, text)
    fusion = by_name(module, "mhlo.fusion")
    assert cost(fusion).latency_ns == 3 * BYTES
    kernel = KernelAttr.read_from_op(fusion)
    assert kernel is not None and kernel.kind == "loop"
    inner = [view.operation for view in fusion.regions[0].blocks[0].operations]
    assert all(Cost.NAME not in op.attributes for op in inner)


def test_annotating_again_overwrites(parse):
    text = program(f"%0 = {ADD}", "0")
    module, _ = annotate(parse, text)
    before = str(module)
    passes.run_pipeline(module, FLAT, PassRun(note=lambda text: None))
    assert str(module) == before
    passes.run_pipeline(
        module, "roofline-annotate{node=H100_80GB}", PassRun(note=lambda text: None)
    )
    assert cost(body(module)[0]).latency_ns == pytest.approx(3 * BYTES / 3.35e12 * 1e9)


UNKNOWN = program(f"%0 = stablehlo.custom_call @mystery(%x) : ({X}) -> {X}\n%1 = {ADD}", "0")


def test_unknown_is_an_error(parse):
    with pytest.raises(HespasError, match=r"custom_call.*mystery.*--keep-going"):
        annotate(parse, UNKNOWN)


def test_keep_going_tags_and_counts(parse):
    for pipeline, options in ((FLAT, {"keep_going": True}), (FLAT[:-1] + " keep-going}", {})):
        module, run = annotate(parse, UNKNOWN, pipeline, **options)
        op_cost = cost(by_name(module, "stablehlo.custom_call"))
        assert (op_cost.bound, op_cost.latency_ns) == ("unknown", 0.0)
        assert op_cost.gap is not None and "mystery" in op_cost.gap
        assert run.get_artefact(Annotation).total.gap == op_cost.gap
        assert run.get_artefact(Annotation).total.time_ns == 3 * BYTES
        assert sum("1 op without a full cost" in text for text in run.warnings) == 1


def test_a_host_callback_costs_what_the_device_does(parse):
    """It does not stop the flow; the host's time is tagged, counted and said."""
    call = f"%0 = stablehlo.custom_call @xla_ffi_python_gpu_callback(%x) : ({X}) -> {X}"
    module, run = annotate(parse, program(call, "0"), input_name="step.mlir")
    op_cost = cost(by_name(module, "stablehlo.custom_call"))
    assert (op_cost.read_bytes, op_cost.write_bytes, op_cost.latency_ns) == (
        BYTES,
        BYTES,
        2 * BYTES,
    )
    assert op_cost.gap == "@xla_ffi_python_gpu_callback runs on the host, whose time is not known"
    assert run.get_artefact(Annotation).total.gap == op_cost.gap
    assert run.warnings == [f"1 op without a full cost, first step.mlir:3:10: {op_cost.gap}"]


def test_missing_rate_is_an_error_with_a_remedy(parse):
    module = program(f"%0 = {ADD}", "0").replace("f32", "f64")
    with pytest.raises(HespasError, match=r"'stablehlo.add': .*no peak rate for f64 .*peak-flops"):
        annotate(parse, module, "roofline-annotate{node=TPUv4}")


def test_recursion_is_refused(parse):
    repeated_text = f"""func.func private @f(%x: {X}, %y: {X}) -> {X} {{
    %0 = call @f(%x, %y) : ({X}, {X}) -> {X}
    return %0 : {X}
  }}"""
    with pytest.raises(HespasError, match=r"f calls itself|recurs"):
        annotate(parse, program(f"%0 = call @f(%x, %y) : ({X}, {X}) -> {X}", "0", repeated_text))


def test_default_node_is_said(parse):
    notes: list[str] = []
    module = parse(program(f"%0 = {ADD}", "0"))
    passes.run_pipeline(module, "roofline-annotate", PassRun(note=notes.append))
    assert notes == ["roofline-annotate: node H100_80GB (the default; node=NAME chooses another)"]
    notes.clear()
    passes.run_pipeline(module, "roofline-annotate", PassRun(note=notes.append))
    assert notes == []  # the module's own node


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("node=H100", "did you mean 'H100_80GB'"),
        ("nod=H100_80GB", "no option 'nod'; did you mean 'node'"),
        ("peak-flops=1e12", "peak-flops alone does not describe a node"),
        ("node=H100_80GB memory-bandwidth=0", "memory-bandwidth must be more than 0"),
        ("node=H100_80GB hbm-power-share=2", "hbm-power-share must be more than 0 and at most 1"),
        ("node=H100_80GB tdp=300", "tdp needs hbm-power-share"),
        ("node=TPUv5e hbm-power-share=0.3", "TPUv5e has no known power limit"),
        ("node=H100_80GB per-datatype-flops=bf61=1", "no element type is named 'bf61'"),
        ("node=H100_80GB per-datatype-flops=tensor.f32=1", "no unit is named 'tensor'"),
        ("node=H100_80GB per-datatype-flops=f32=fast", "'f32=fast' is not type=operations/s"),
    ],
)
def test_wrong_options(parse, options, message):
    with pytest.raises((HespasError, UsageError), match=message):
        annotate(parse, program(f"%0 = {ADD}", "0"), f"roofline-annotate{{{options}}}")


def test_options_change_the_node(parse):
    options = "node=A100_SXM_40GB hbm-power-share=0.5 per-datatype-flops=vector.f32=1e9;f8=2e9"
    module, _ = annotate(parse, program(f"%0 = {ADD}", "0"), f"roofline-annotate{{{options}}}")
    op_cost = cost(body(module)[0])
    assert (op_cost.bound, op_cost.latency_ns) == ("compute", 4096.0)
    memory_share = 3 * BYTES / 1555e9 / 4096e-9
    watts = 400 * 0.5 * (1 + memory_share)
    assert op_cost.energy_nj == pytest.approx(watts * 4096.0)
    target = TargetAttr.read_from_op(module.operation)
    assert load_target_node(target).find_peak_rate("matrix", "f8").flops_per_s == 2e9
    assert target is not None and target.constants == (
        "A100_SXM_40GB with hbm-power-share, per-datatype-flops given"
    )


def test_the_target_holds_the_effective_node(parse):
    """Options replace values of the module's own node, which an annotation before may have set."""
    custom, module = "peak-flops=1e12 memory-bandwidth=1e9", parse(program(f"%0 = {ADD}", "0"))
    for options, name, overrides in (
        ("node=A100_SXM_40GB memory-bandwidth=1e11", "A100_SXM_40GB", "memory-bandwidth=1e11"),
        ("tdp=300 hbm-power-share=1", "A100_SXM_40GB", "memory-bandwidth=1e11 tdp=300 {share}"),
        ("memory-bandwidth=2e11", "A100_SXM_40GB", "memory-bandwidth=2e11 tdp=300 {share}"),
        (custom, "custom", custom),
        ("per-datatype-flops=f32=1e9;f16=2e9", "custom", f"{custom} {{rates}}2e9"),
        ("per-datatype-flops=f16=3e9", "custom", f"{custom} {{rates}}3e9"),
        ("node=H100_80GB", "H100_80GB", ""),
    ):
        overrides = overrides.format(
            share="hbm-power-share=1", rates="per-datatype-flops=f32=1e9;f16="
        )
        run = passes.run_pipeline(module, f"roofline-annotate{{{options}}}")
        target = TargetAttr.read_from_op(module.operation)
        assert target is not None and target.node == name
        written = NodeOverrides.from_text(target.node_overrides or "")
        assert written == NodeOverrides.from_text(overrides), target.node_overrides
        seconds = 3 * BYTES / load_target_node(target).memory_bandwidth_bytes_per_s
        total = run.get_artefact(Annotation).total
        assert total.time_ns == pytest.approx(1e9 * seconds)


@dataclass(frozen=True)
class PerOpConfig:
    node: NodeSpec
    op_ns: float = 1.0


class PerOp(Estimator):
    """A user's estimator: so many nanoseconds for each op, or for each region."""

    name: ClassVar[str] = "per-op"
    version: ClassVar[str] = "7"
    Config: ClassVar[type] = PerOpConfig

    def __init__(self, config: PerOpConfig) -> None:
        self.config = config
        self.seen: list[str] = []

    def estimate(self, item: CostItem) -> Cost:
        self.seen.append(item.digest)
        return Cost(self.name, 0, 0, 0, self.config.op_ns, "latency", "none")


class PerRegion(PerOp):
    granularity: ClassVar[Literal["op", "kernel", "region"]] = "region"


@pytest.fixture
def plugins(monkeypatch):
    place = f"{__name__}:"
    monkeypatch.setitem(registry.ESTIMATORS, "per-op", place + "PerOp")
    monkeypatch.setitem(registry.ESTIMATORS, "per-region", place + "PerRegion")


TWO_REGIONS = program(
    f"%0 = {ADD}\n%1 = stablehlo.tanh %0 : {X}\n{REDUCE.format('2', '1')}\n"
    f"%3 = stablehlo.add %2, %y : {X}\n%4 = stablehlo.tanh %3 : {X}",
    "4",
)


@pytest.mark.parametrize(
    ("pipeline", "total_ns", "settings"),
    [
        ("annotate{estimator=per-op}", 4.0, "op-ns=1"),
        ("split-linear,annotate{estimator=per-op settings=op-ns=2.5}", 10.0, "op-ns=2.5"),
        ("split-linear,per-op-annotate{op-ns=2.5}", 10.0, "op-ns=2.5"),
        ("split-linear,annotate{estimator=per-region}", 2.0, "op-ns=1"),
        ("annotate{estimator=per-region}", 4.0, "op-ns=1"),
    ],
)
def test_any_estimator(parse, plugins, pipeline, total_ns, settings):
    module, run = annotate(parse, TWO_REGIONS, pipeline)
    assert run.get_artefact(Annotation).total.time_ns == total_ns
    target = TargetAttr.read_from_op(module.operation)
    assert target is not None
    assert (target.estimator, target.constants) == ("per-op 7", f"H100_80GB, {settings}")


def test_a_region_is_estimated_once(parse, plugins):
    module, _ = annotate(parse, TWO_REGIONS, "split-linear")
    estimator = PerRegion(PerOpConfig(configs.load_node("H100_80GB")))
    Annotator(module, PassRun(), estimator.name, estimator=estimator).annotate_program()
    calls = [op for op in body(module) if op.name == "func.call"]
    regions = [RegionAttr.read_from_op(op) for op in calls]
    assert len(calls) == 2 and regions[0] is not None
    assert estimator.seen == [regions[0].digest]
    assert cost(calls[0]) == cost(calls[1]) == cost(collect_functions(module)["region_0"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("estimator=rofline", "did you mean 'roofline'"),
        ("estimator=per-op settings=op_nss=3", "has no setting 'op_nss'; did you mean 'op-ns'"),
        ("estimator=per-op settings=op-ns=fast", "setting 'op-ns': .*valid number"),
        ("estimator=per-op settings=op-ns", "'op-ns' is not key=value"),
        ("estimator=roofline settings=node=3", "has no setting 'node'"),
    ],
)
def test_wrong_estimator_settings(parse, plugins, options, message):
    with pytest.raises(UsageError, match=message):
        annotate(parse, TWO_REGIONS, f"annotate{{{options}}}")


def test_annotate_equals_roofline_annotate(parse):
    one, _ = annotate(parse, TWO_REGIONS, "annotate{node=H200_141GB}")
    two, _ = annotate(parse, TWO_REGIONS, "roofline-annotate{node=H200_141GB}")
    assert str(one) == str(two)


@st.composite
def programs(draw) -> str:
    """Adds, products, loops, calls and collectives; loops hold collectives at times."""
    lines, values = [], ["x", "y"]
    for k in range(draw(st.integers(1, 10))):
        kind = draw(st.sampled_from(["add", "tanh", "dot", "reduce", "call", "loop", "loop_comm"]))
        a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        name = f"v{k}"
        if kind == "add":
            lines.append(f"%{name} = stablehlo.add %{a}, %{b} : {X}")
        elif kind == "tanh":
            lines.append(f"%{name} = stablehlo.tanh %{a} : {X}")
        elif kind == "dot":
            lines.append(f"%{name} = stablehlo.dot %{a}, %{b} : ({X}, {X}) -> {X}")
        elif kind == "reduce":
            lines.append(REDUCE.format(name, a))
        elif kind == "call":
            lines.append(f"%{name} = call @f(%{a}, %{b}) : ({X}, {X}) -> {X}")
        else:
            inner = f"%t0 = stablehlo.add %acc, %acc : {X}\n%t1 = stablehlo.tanh %t0 : {X}\n"
            if kind == "loop_comm":
                inner += REDUCE.format("t2", "t1") + f"\n%t3 = stablehlo.tanh %t2 : {X}\n"
                inner += f"%t4 = stablehlo.dot %t3, %t3 : ({X}, {X}) -> {X}"
            trips = draw(st.integers(1, 7))
            lines.append(loop(name, trips, inner, "t4" if kind == "loop_comm" else "t1", a))
            name += "#1"
        values.append(name)
    return program("\n    ".join(lines), values[-1], CALLED)


def regions_and_loops(module: ir.Module) -> tuple[dict[str, Cost], list[Cost]]:
    """The cost of each distinct region by digest, and of each loop in order."""
    regions: dict[str, Cost | None] = {}
    loops: list[Cost] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        region = RegionAttr.read_from_op(op)
        if region is not None:
            sums = Cost.read_from_op(op)
            if sums is not None and replace(sums, estimator="") == aggregate_costs([]):
                sums = None  # a region of free ops has no cost, or that of nothing
            assert regions.setdefault(region.digest, sums) == sums
        if op.name == "stablehlo.while":
            loops.append(cost(op))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return regions, loops


def check_commutes(make, node: str = "A100_SXM_40GB") -> None:
    quiet = {"note": lambda text: None, "keep_going": True}
    roofline = f"roofline-annotate{{node={node}}}"
    plain = make()
    whole = passes.run_pipeline(plain, roofline, PassRun(**quiet)).get_artefact(Annotation).total
    for split in ("split-linear", "split-individual", "split-individual{merge}"):
        after, before = make(), make()
        total = (
            passes.run_pipeline(after, f"{split},{roofline}", PassRun(**quiet))
            .get_artefact(Annotation)
            .total
        )
        passes.run_pipeline(before, f"{roofline},{split}", PassRun(**quiet))
        assert total == whole
        assert regions_and_loops(after) == regions_and_loops(before)


@draw_examples(25)
@given(programs())
def test_annotating_and_splitting_commute(context, text):
    check_commutes(lambda: ir.Module.parse(text, context))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "zoo/control_flow/spmd.mlir",
        "zoo/transformer_scan_train/spmd.mlir",
        "zoo/moe_all_to_all/opt.mlir",
        "llama3/llama3-100m-opt-a100.mlir",
    ],
)
def test_workloads_commute(name, workload, context):
    path = str(workload(name))
    check_commutes(lambda: frontends.read_module(path, context))


def test_each_op_is_charged_once(workload, context):
    """The program's time is the sum over the entry's ops, which hold no loops or calls here."""
    module = frontends.read_module(str(workload("llama3/llama3-100m-opt-a100.mlir")), context)
    run = passes.run_pipeline(module, "roofline-annotate", PassRun(note=lambda text: None))
    entry = [
        view.operation for view in collect_functions(module)["main"].regions[0].blocks[0].operations
    ]
    bare = [op for op in entry if Cost.NAME not in op.attributes]
    assert all(CommAttr.NAME in op.attributes or is_free_op(op) for op in bare[:-1])
    times = [cost(op).latency_ns for op in entry if Cost.NAME in op.attributes]
    assert run.get_artefact(Annotation).total.time_ns == math.fsum(times)
