"""What a split hands on of the entry function gives the traces that reading its ops gives."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from hespas import frontends
from hespas.chakra.trace_reader import TraceNode, read_trace_nodes
from hespas.dialects import mlir
from hespas.dialects.attrs import RegionAttr
from hespas.dialects.mlir import collect_functions, count_op_names, ir, make_context
from hespas.passes.base import FACTS, Pass, PassRun
from hespas.passes.pipeline import PipelineStep, parse_pipeline, run_pipeline

X = "tensor<64x64xf32>"
REDUCE = """"stablehlo.all_reduce"(%{operand}) <{{replica_groups = dense<[[0, 1]]> :
      tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      use_global_device_ids}}> ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : (tensor<64x64xf32>) -> tensor<64x64xf32>"""
PROGRAM = f"""module attributes {{mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%x: {X}, %y: {X}) -> ({X}, {X}) {{
    %unread = stablehlo.constant dense<1.0> : {X}
    %two = stablehlo.constant dense<2.0> : {X}
    %0 = stablehlo.dot %x, %y : ({X}, {X}) -> {X}
    %1 = stablehlo.sine %y : {X}
    %2 = stablehlo.multiply %0, %two : {X}
    %3 = {REDUCE.format(operand="2")}
    %4 = stablehlo.tanh %1 : {X}
    %5 = stablehlo.dot %4, %two : ({X}, {X}) -> {X}
    %6 = stablehlo.add %3, %0 : {X}
    %7 = {REDUCE.format(operand="5")}
    %8 = stablehlo.subtract %6, %7 : {X}
    return %8, %1 : {X}, {X}
  }}
}}"""
SPLITS = (
    "split-individual", "split-individual{merge=true}",
    "split-individual{merge=true block-limit=1}", "split-linear", "split-linear{block-limit=2}",
)  # fmt: skip
ANNOTATE = parse_pipeline("roofline-annotate{node=A100_SXM_40GB}")


@dataclass(frozen=True)
class SwapPass(Pass):
    """Swap an op after a collective and one that depends on none, which keeps all facts true."""

    name: ClassVar[str] = "guest-swap"
    keeps: ClassVar[frozenset[str]] = FACTS

    def apply(self, module: ir.Module, run: PassRun) -> None:
        ops = collect_functions(module)["main"].regions[0].blocks[0].operations
        names = [view.operation.name for view in ops]
        add, dot = names.index("stablehlo.add"), names.index("stablehlo.dot", 5)
        assert add == dot + 1
        ops[add].operation.move_before(ops[dot].operation)


@dataclass(frozen=True)
class MarkingSwapPass(SwapPass):
    """Do the same, and say that only attributes change."""

    name: ClassVar[str] = "guest-marking-swap"
    only_marks: ClassVar[bool] = True


def run_and_read(module: ir.Module, steps: list[PipelineStep], folder: Path) -> list[TraceNode]:
    run_pipeline(module, [*steps, *parse_pipeline(f"emit-chakra{{output={folder}}}")], PassRun())
    return [
        node._replace(attrs={k: v for k, v in node.attrs.items() if k != "location"})
        for node in read_trace_nodes(folder / "dev.1.et")
    ]


def read(text: str) -> ir.Module:
    return frontends.parse_module(text.encode(), "in.mlir", make_context())


def read_separately(steps: list[PipelineStep], folder: Path) -> list[TraceNode]:
    """Read the module again before its trace is written, so that nothing is handed on."""
    module = read(PROGRAM)
    for step in steps:
        run_pipeline(module, [step], PassRun())
        module = read(str(module))
    return run_and_read(module, [], folder)


@pytest.mark.parametrize("split", SPLITS)
def test_traces_are_those_of_a_module_that_is_read_again(split: str, tmp_path: Path):
    steps = [*parse_pipeline(split), *ANNOTATE]
    together = run_and_read(read(PROGRAM), steps, tmp_path / "together")
    assert together == read_separately(steps, tmp_path / "separately")


@pytest.mark.parametrize("swap", [SwapPass(), MarkingSwapPass()], ids=lambda step: step.name)
@pytest.mark.parametrize("is_first", [True, False], ids=["before costs", "after costs"])
def test_other_passes_end_what_is_known(swap: Pass, is_first: bool, tmp_path: Path):
    split = parse_pipeline("split-individual")
    steps = [*split, swap, *ANNOTATE] if is_first else [*split, *ANNOTATE, swap]
    together = run_and_read(read(PROGRAM), steps, tmp_path / "together")
    assert together == read_separately(steps, tmp_path / "separately")


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_hands_on_one_entry_for_each_op(split: str):
    module, run = read(PROGRAM), PassRun()
    run_pipeline(module, parse_pipeline(split), run)
    ops = [view.operation for view in collect_functions(module)["main"].regions[0].blocks[0]]
    known = run.entry_ops
    assert known is not None
    assert ops == known.ops
    assert len(ops) == len(known.contents) == len(known.reads) == len(known.makes)
    assert [len(op.results) for op in ops] == [len(made) for made in known.makes]
    assert [len(op.operands) for op in ops] == [len(read) for read in known.reads]

    regions = [RegionAttr.read_from_op(op) for op in ops]
    assert regions == list(known.regions)


def test_prepare_hands_on_the_bytecode_of_the_entry_to_the_next_pass():
    module, run = read(PROGRAM), PassRun()
    run_pipeline(module, "prepare", run)
    assert run.entry_code
    run_pipeline(module, "split-linear", run, is_continued=True)
    assert not run.entry_code
    run_pipeline(module, "unsplit,prepare", run, is_continued=True)
    run_pipeline(module, "canonicalize", run, is_continued=True)
    assert not run.entry_code


LOOP = """
    %loop{number} = stablehlo.while(%i = %start{number}) : tensor<i32> cond {{
      %c = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }} do {{
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next : tensor<i32>
    }}"""
# The loops are equal in all that their bytecode says of them, and run 8 and 3 times.
LOOPS = f"""module attributes {{mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main() -> (tensor<i32>, tensor<i32>) {{
    %start0 = stablehlo.constant dense<2> : tensor<i32>
    %start1 = stablehlo.constant dense<7> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %ten = stablehlo.constant dense<10> : tensor<i32>{LOOP.format(number=0)}{LOOP.format(number=1)}
    return %loop0, %loop1 : tensor<i32>, tensor<i32>
  }}
}}"""


@pytest.mark.parametrize("text", [PROGRAM, LOOPS], ids=["collectives", "loops"])
@pytest.mark.parametrize("split", SPLITS)
def test_a_split_after_prepare_is_that_of_a_module_that_is_read_again(split: str, text: str):
    together, module = read(text), read(text)
    run_pipeline(together, f"prepare,{split}", PassRun())
    run_pipeline(module, "prepare", PassRun())
    module = read(str(module))
    run_pipeline(module, split, PassRun())
    assert str(together) == str(module)


@pytest.mark.parametrize("swap", [SwapPass(), MarkingSwapPass()], ids=lambda step: step.name)
def test_other_passes_end_what_prepare_knows(swap: Pass):
    prepare, split = parse_pipeline("prepare,split-individual")
    together, module = read(PROGRAM), read(PROGRAM)
    run_pipeline(together, [prepare, swap, split], PassRun())
    run_pipeline(module, [prepare, swap], PassRun())
    module = read(str(module))
    run_pipeline(module, [split], PassRun())
    assert str(together) == str(module)


def test_ops_are_counted_natively():
    counts = count_op_names(read(PROGRAM))
    assert counts is not None
    assert counts["stablehlo.add"] == 3, "two are in the bodies of all-reduces"
    assert "stablehlo.while" not in counts


def test_a_count_that_cannot_be_read_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mlir, "capture_native_stderr", lambda: contextlib.nullcontext([]))
    assert count_op_names(read(PROGRAM)) is None
