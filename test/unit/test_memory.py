"""Memory: against XLA's plan, against a direct count, equal before and after splitting."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples, thin_out

from hespas import frontends, passes
from hespas.dialects import verify_attrs
from hespas.dialects.attrs import MemoryAttr, OnChipAttr
from hespas.dialects.mlir import ir, make_context
from hespas.passes.annotate.traverse import Annotation
from hespas.passes.base import PassRun
from hespas.passes.memory.buffer_sharing import find_results_over
from hespas.passes.memory.memory_annotate import MAX_TIMELINE_POINTS
from hespas.tools import hespas
from support import memory_oracle

BYTES = 32 * 32 * 4
KIND = "tensor<32x32xf32>"
SPLITS = ("split-linear", "split-individual")


def annotated(module: ir.Module, *steps: str, model: str = "auto") -> MemoryAttr:
    option = "" if model == "auto" else f"{{model-fusion={model}}}"
    pipeline = ",".join([*steps, f"memory-annotate{option}"])
    run = passes.run_pipeline(module, pipeline, PassRun(note=lambda text: None))
    verify_attrs.verify_attributes(module)
    memory = MemoryAttr.read_from_op(module.operation)
    assert memory is not None and memory == run.get_artefact(MemoryAttr)
    return memory


@pytest.mark.slow
@pytest.mark.parametrize("program", thin_out(memory_oracle.FAST, 2))
def test_peak_is_that_of_xla(program, workload, context):
    path = workload(f"zoo/{program}/spmd.mlir")
    plan = memory_oracle.plan(str(frontends.read_module(str(path), context)))
    assert plan.peak == pytest.approx(plan.total, rel=0.01)
    assert f"| `{program}` | {plan.total / 1e6:.2f} |" in memory_oracle.PAGE.read_text()


def test_documented_ratios_are_within_a_tenth():
    rows = re.findall(
        r"\| `\w+` \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|", memory_oracle.PAGE.read_text()
    )
    assert len(rows) > 20
    assert all(abs(float(ratio) - 1) < 0.1 for ratio in rows)


DONATED = f"""
module {{
  func.func public @main(%w: {KIND} {{tf.aliasing_output = 1 : i32}},
      %cache: tensor<64x32xf32> {{tf.aliasing_output = 0 : i32}}, %x: {KIND}, %at: tensor<i32>)
      -> (tensor<64x32xf32>, {KIND}, {KIND}) {{
    %0 = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : ({KIND}, {KIND}) -> {KIND}
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %cache, %0, %at, %zero
      : (tensor<64x32xf32>, {KIND}, tensor<i32>, tensor<i32>) -> tensor<64x32xf32>
    %2 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [1] : ({KIND}, {KIND}) -> {KIND}
    %3 = stablehlo.subtract %w, %2 : {KIND}
    %4 = stablehlo.dot_general %2, %2, contracting_dims = [1] x [1] : ({KIND}, {KIND}) -> {KIND}
    return %1, %3, %4 : tensor<64x32xf32>, {KIND}, {KIND}
  }}
}}
"""


def test_donated_arguments_are_planned_as_xla_does():
    plan = memory_oracle.plan(DONATED, devices=1)
    assert plan.aliased == 3 * BYTES
    assert plan.peak == pytest.approx(plan.total, abs=256)  # tuples of pointers


@st.composite
def programs(draw):
    """A straight program: (name, operands) of its ops, and which values it returns."""
    ops = []
    for k in range(draw(st.integers(1, 20))):
        pick = st.integers(-2, k - 1)  # -2, -1: the arguments
        name = draw(st.sampled_from(["dot_general", "tanh", "add", "reshape", "all_reduce"]))
        count = {"dot_general": 2, "add": 2}.get(name, 1)
        ops.append((name, [draw(pick) for _ in range(count)]))
    last = st.integers(0, len(ops) - 1)
    return ops, draw(st.lists(last, min_size=1, max_size=3, unique=True))


def text_of(ops, returned) -> str:
    def value(k: int) -> str:
        return f"%v{k}" if k >= 0 else ("%y", "%x")[k]

    lines = []
    for k, (name, operands) in enumerate(ops):
        read = ", ".join(value(o) for o in operands)
        if name == "dot_general":
            line = f"stablehlo.dot_general {read}, contracting_dims = [1] x [0]"
            lines.append(f"%v{k} = {line} : ({KIND}, {KIND}) -> {KIND}")
        elif name == "all_reduce":
            lines.append(
                f'%v{k} = "stablehlo.all_reduce"({read}) '
                "<{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({\n"
                "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
                "  %s = stablehlo.add %a, %b : tensor<f32>\n"
                f"  stablehlo.return %s : tensor<f32>\n}}) : ({KIND}) -> {KIND}"
            )
        elif name == "reshape":
            lines.append(f"%v{k} = stablehlo.reshape {read} : ({KIND}) -> {KIND}")
        else:
            lines.append(f"%v{k} = stablehlo.{name} {read} : {KIND}")
    kinds = ", ".join([KIND] * len(returned))
    return (
        "module attributes {mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 1 : i32} {\n"
        f"func.func public @main(%x: {KIND}, %y: {KIND}) -> ({kinds}) {{\n"
        + "\n".join(lines)
        + f"\nreturn {', '.join(map(value, returned))} : {kinds}\n}} }}"
    )


def direct_count(ops, returned) -> tuple[int, int]:
    """(most bytes live, most of one product alone), counted from the definition."""
    root: dict[int, int] = {-2: -2, -1: -1}
    for k, (name, operands) in enumerate(ops):
        root[k] = root[operands[0]] if name == "reshape" else k
    last = {k: k for k in root.values() if k >= 0}
    for k, (name, operands) in enumerate(ops):
        for operand in operands:
            if name != "reshape" and root[operand] >= 0:
                last[root[operand]] = max(last[root[operand]], k)
    last |= {root[k]: len(ops) for k in returned if root[k] >= 0}
    most = product = 0
    for k, (name, operands) in enumerate(ops):
        if name == "reshape":
            continue
        live = {v for v in last if v <= k <= last[v]}
        ends = [v for v in {root[o] for o in operands} if v >= 0 and last[v] == k]
        in_place = name != "dot_general" and ends
        most = max(most, 2 + len(live) - bool(in_place))
        if name == "dot_general":
            product = max(product, len({root[o] for o in operands}) + 1)
    # Each result is a buffer of its own: views and arguments are copied.
    return max(most, 2 + len(returned)) * BYTES, product * BYTES


@draw_examples(60)
@given(programs())
def test_live_bytes_are_a_direct_count(program):
    memory = annotated(ir.Module.parse(text_of(*program), make_context()), model="false")
    live, product = direct_count(*program)
    assert memory.live_bytes == live
    assert memory.peak_bytes >= live >= product
    assert max(memory.timeline_bytes) == memory.live_bytes


@draw_examples(40)
@given(programs(), st.sampled_from(["true", "false"]))
def test_splitting_changes_nothing(program, model):
    text, context = text_of(*program), make_context()
    whole = annotated(ir.Module.parse(text, context), model=model)
    for split in SPLITS:
        module = ir.Module.parse(text, context)
        assert without_place(annotated(module, split, model=model)) == without_place(whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "zoo/control_flow/spmd.mlir",
        "zoo/lstm_scan/opt.mlir",
        "zoo/transformer_unrolled_train/spmd.mlir",
        "llama3/llama3-100m-opt-a100.mlir",
        "scaling/llama2-7b-L32-scan-fsdp8.mlir",
    ],
)
def test_splitting_real_programs_changes_nothing(name, workload, context):
    path = str(workload(name))
    whole = annotated(frontends.read_module(path, context))
    assert len(whole.timeline_points) <= MAX_TIMELINE_POINTS < 2 * len(whole.timeline_points) or (
        whole.points < MAX_TIMELINE_POINTS
    )
    for split in SPLITS:
        assert without_place(
            annotated(frontends.read_module(path, context), split)
        ) == without_place(whole)


def without_place(memory: MemoryAttr) -> dict:
    """Regions that are equal are one function, so their ops have the place of the first."""
    return {key: value for key, value in asdict(memory).items() if key != "location"}


def test_run_finds_the_memory_of_what_fuse_makes(tmp_path, capsys):
    """Merged products read a buffer that holds the weights of both."""
    text = f"""
    func.func @main(%x: {KIND}, %v: {KIND}, %w: {KIND}) -> ({KIND}, {KIND}) {{
      %0 = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : ({KIND}, {KIND}) -> {KIND}
      %1 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({KIND}, {KIND}) -> {KIND}
      return %0, %1 : {KIND}, {KIND}
    }}
    """
    path = tmp_path / "step.mlir"
    path.write_text(text)
    shown = ("--output", str(tmp_path / "out"), "--no-simulate", "--json")
    assert (
        hespas.main(["run", "--mlir", str(path), "--node", "A100_SXM_40GB", "--fuse", *shown]) == 0
    )
    plain, fused = (annotated(ir.Module.parse(text, make_context()), *s) for s in ((), ("fuse",)))
    assert json.loads(capsys.readouterr().out)["memory"]["peak_bytes"] == fused.peak_bytes
    assert fused.peak_bytes > plain.peak_bytes


IN_MHLO = """
module {
  func.func @main(%x: tensor<64x64xf32>, %c: tensor<8xcomplex<f32>>, %i: tensor<64x1xi32>,
      %u: tensor<64x64xf32>, %at: tensor<i32>)
      -> (tensor<64x64xf32>, tensor<8xcomplex<f32>>, tensor<64x64xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %ones = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<64x64xf32>
    %0 = stablehlo.add %x, %ones : tensor<64x64xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %2 = stablehlo.convert %1 : tensor<64x64xf32>
    %3 = stablehlo.slice %2 [0:64, 0:64] : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %4 = stablehlo.dot_general %3, %0, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %row = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
    %line = stablehlo.reshape %row : (tensor<64xf32>) -> tensor<1x64xf32>
    %5 = stablehlo.dynamic_update_slice %4, %line, %at, %at
      : (tensor<64x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<64x64xf32>
    %6 = stablehlo.exponential %c : tensor<8xcomplex<f32>>
    %7 = "stablehlo.scatter"(%5, %i, %u) <{
        scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
          inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<64x64xf32>, tensor<64x1xi32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    return %7, %6, %2 : tensor<64x64xf32>, tensor<8xcomplex<f32>>, tensor<64x64xf32>
  }
}"""


@pytest.mark.parametrize("steps", ["memory-annotate", "memory-annotate{model-fusion=false}"])
def test_a_program_in_mhlo_has_the_memory_and_costs_of_that_in_stablehlo(steps, context):
    """A tool may convert a module to MHLO, before hespas or between two of its passes."""
    figures = []
    for conversion in ("prepare", "stablehlo-legalize-to-hlo", "prepare,stablehlo-legalize-to-hlo"):
        module = ir.Module.parse(IN_MHLO, context)
        run = passes.run_pipeline(
            module, f"{conversion},{steps},on-chip-annotate,roofline-annotate"
        )
        memory, total = run.get_artefact(MemoryAttr), run.get_artefact(Annotation).total
        on_chip = str(module).count(OnChipAttr.NAME)
        figures.append((memory.peak_bytes, memory.live_bytes, memory.points, on_chip, total))
    assert figures[1] == figures[2] == figures[0]


def test_only_the_array_of_a_scatter_is_overwritten(context):
    module = ir.Module.parse(IN_MHLO, context)
    scatter = module.body.operations[0].regions[0].blocks[0].operations[12].operation
    assert scatter.name == "stablehlo.scatter"
    assert [list(find_results_over(scatter, operand)) for operand in range(3)] == [[0], [], []]
