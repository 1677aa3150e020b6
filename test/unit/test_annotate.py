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
from hespas.dialects.attrs import CommAttr, Cost, RegionAttr, TargetAttr
from hespas.dialects.mlir import collect_functions, ir
from hespas.estimators import registry
from hespas.estimators.aggregate import aggregate_costs
from hespas.estimators.base import CostItem, Estimator
from hespas.estimators.work import is_free_op
from hespas.passes.annotate.traverse import Annotation, Annotator
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError, UsageError


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


CALLED = f"""func.func private @f(%x: {X}, %y: {X}) -> {X} {{
    %0 = {ADD}
    return %0 : {X}
  }}"""


UNKNOWN = program(f"%0 = stablehlo.custom_call @mystery(%x) : ({X}) -> {X}\n%1 = {ADD}", "0")


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("node=H100_80GB memory-bandwidth=0", "memory-bandwidth must be more than 0"),
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
        ("estimator=per-op settings=op_nss=3", "has no setting 'op_nss'; did you mean 'op-ns'"),
        ("estimator=per-op settings=op-ns=fast", "setting 'op-ns': .*valid number"),
        ("estimator=per-op settings=op-ns", "'op-ns' is not key=value"),
        ("estimator=roofline settings=node=3", "has no setting 'node'"),
    ],
)
def test_wrong_estimator_settings(parse, plugins, options, message):
    with pytest.raises(UsageError, match=message):
        annotate(parse, TWO_REGIONS, f"annotate{{{options}}}")


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
