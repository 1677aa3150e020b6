"""The leaf ops that an annotation counts are those that the statistics would read again."""

from __future__ import annotations

import pytest

from hespas.dialects.mlir import ir, make_context
from hespas.passes import run_pipeline
from hespas.passes.emit.module_stats import LeafCounter

T = "tensor<64x64xf32>"
PROGRAM = f"""
func.func public @main(%x: {T}) -> {T} {{
  %c = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %a = stablehlo.tanh %x : {T}
  %b = stablehlo.tanh %a : {T}
  %r = stablehlo.reshape %b : ({T}) -> tensor<4096xf32>
  %s = stablehlo.reshape %r : (tensor<4096xf32>) -> {T}
  %w:2 = stablehlo.while(%i = %c, %v = %s) : tensor<i32>, {T}
    cond {{
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %j = stablehlo.add %i, %one : tensor<i32>
      %u = stablehlo.exponential %v : {T}
      stablehlo.return %j, %u : tensor<i32>, {T}
    }}
  return %w#1 : {T}
}}
"""


@pytest.mark.parametrize("split", ["split-linear", "split-linear{block-limit=3}"])
def test_counted_leaves_equal_those_on_the_ir(split: str) -> None:
    module = ir.Module.parse(PROGRAM, make_context())
    run = run_pipeline(module, f"{split},roofline-annotate{{node=H100_80GB}}")
    counter = LeafCounter(module)
    read = {name: counter._count_callee(name) for name in run.leaves}
    assert run.leaves == read
    if "block-limit" in split:
        assert run.leaves  # the region without the loop
    else:
        assert not run.leaves  # the only region contains a loop


def test_leaves_are_forgotten_with_the_costs() -> None:
    module = ir.Module.parse(PROGRAM, make_context())
    run = run_pipeline(module, "split-linear{block-limit=3},roofline-annotate{node=H100_80GB}")
    assert run.leaves
    run_pipeline(module, "canonicalize", run, is_continued=True)
    assert not run.leaves
