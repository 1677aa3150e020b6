"""A region as a module of its own: it does what the region does, whatever it is given."""

from __future__ import annotations

import numpy as np
import pytest
from support.paths import ROOT

from hespas import frontends, passes
from hespas.dialects.attrs import Cost, RegionAttr
from hespas.dialects.mlir import collect_functions, ir, make_context
from hespas.dialects.op_kinds import CALLEE
from hespas.estimators.measure.standalone_region import (
    build_standalone_module,
    compute_region_work,
    has_only_free_ops,
)
from hespas.estimators.rules.base import UnknownCost
from hespas.passes.base import PassRun
from support import execution

X = "tensor<4x8xf32>"
LOOP = f"""
func.func public @main(%x: {X}) -> ({X}, tensor<i32>) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<5> : tensor<i32>
  %r:2 = stablehlo.while(%y = %x, %i = %zero) : {X}, tensor<i32> cond {{
    %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %lt : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %z = func.call @step(%y) : ({X}) -> {X}
    stablehlo.return %z, %next : {X}, tensor<i32>
  }}
  return %r#0, %r#1 : {X}, tensor<i32>
}}
func.func private @step(%x: {X}) -> {X} {{
  %0 = stablehlo.add %x, %x : {X}
  %1 = stablehlo.tanh %0 : {X}
  return %1 : {X}
}}"""


def op(module: ir.Module, name: str, function: str = "main") -> ir.Operation:
    block = collect_functions(module)[function].regions[0].blocks[0]
    return next(view.operation for view in block.operations if view.operation.name == name)


def same(a: ir.Module, b: ir.Module, results: int | None = None) -> None:
    """Check that two programs compute the same; only the first ``results`` if that is given."""
    a.operation.verify()
    pairs = zip(execution.execute(a, 1), execution.execute(b, 1), strict=True)
    for actual, reference in list(pairs)[:results]:
        np.testing.assert_array_equal(actual[0], reference[0])


def test_a_loop_does_what_it_did(parse):
    """Its counter starts from an argument, and its limit is one, as nothing else of the module."""
    module = parse(LOOP)
    passes.run_pipeline(module, "prepare")
    alone = build_standalone_module(op(module, "stablehlo.while"))
    same(alone, module, results=1)
    assert "hespas" not in str(alone)


def test_a_loop_runs_its_trips_whatever_its_inputs(parse):
    """The limit is an argument here, and 0 or 1 by the inputs; what was found out is 5."""
    text = LOOP.replace(f"@main(%x: {X}", f"@main(%x: {X}, %n: tensor<i32>").replace(
        "  %n = stablehlo.constant dense<5> : tensor<i32>\n", ""
    )
    stated = "i32> attributes {hespas.trips = 5 : i64} cond"
    module = parse(text.replace("i32> cond", stated))
    same(build_standalone_module(op(module, "stablehlo.while")), parse(LOOP), results=1)


def test_an_op_reads_constants_as_any_other_values(parse):
    """Equal ops are measured once, also if one of them reads a constant, or a value twice."""
    module = parse(f"""func.func public @main(%x: {X}, %y: {X}) -> ({X}, {X}, {X}) {{
      %two = stablehlo.constant dense<2.0> : {X}
      %0 = stablehlo.multiply %x, %two : {X}
      %1 = stablehlo.multiply %0, %y : {X}
      %2 = stablehlo.multiply %1, %1 : {X}
      return %0, %1, %2 : {X}, {X}, {X}
    }}""")
    ops = module.body.operations[0].regions[0].blocks[0].operations
    (text,) = {str(build_standalone_module(ops[k].operation)) for k in (1, 2, 3)}
    assert f"@main(%arg0: {X}, %arg1: {X}) -> {X}" in text


def test_a_loop_of_unknown_trips_is_refused(parse):
    module = parse(LOOP)
    with pytest.raises(UnknownCost, match="trip count is not known"):
        build_standalone_module(op(module, "stablehlo.while"))


def test_a_branch_takes_the_alternative_that_moves_most(parse):
    module = parse(f"""
    func.func public @main(%p: tensor<i1>, %i: tensor<i32>, %x: {X}) -> ({X}, {X}) {{
      %0 = "stablehlo.if"(%p) ({{
        %a = stablehlo.add %x, %x : {X}
        stablehlo.return %a : {X}
      }}, {{
        stablehlo.return %x : {X}
      }}) : (tensor<i1>) -> {X}
      %1 = "stablehlo.case"(%i) ({{
        stablehlo.return %x : {X}
      }}, {{
        %b = stablehlo.add %x, %x : {X}
        %c = stablehlo.tanh %b : {X}
        stablehlo.return %c : {X}
      }}, {{
        stablehlo.return %x : {X}
      }}) : (tensor<i32>) -> {X}
      return %0, %1 : {X}, {X}
    }}""")
    passes.run_pipeline(module, "prepare")
    expected = parse(f"""
    func.func public @main(%p: tensor<i1>, %i: tensor<i32>, %x: {X}) -> ({X}, {X}) {{
      %a = stablehlo.add %x, %x : {X}
      %c = stablehlo.tanh %a : {X}
      return %a, %c : {X}, {X}
    }}""")
    same(build_standalone_module(collect_functions(module)["main"]), expected)
    size = 4 * 8 * 4
    assert compute_region_work(op(module, "stablehlo.case")).read_bytes == 3 * size


def test_what_has_no_known_time_is_a_gap_of_the_region(parse):
    module = parse(f"""
    func.func public @main(%x: {X}) -> {X} {{
      %0 = stablehlo.custom_call @xla_python_cpu_callback(%x) : ({X}) -> {X}
      return %0 : {X}
    }}""")
    work = compute_region_work(collect_functions(module)["main"])
    assert work.gap == "@xla_python_cpu_callback runs on the host, whose time is not known"


def test_the_work_of_an_asynchronous_op_is_that_of_its_function(parse):
    module = parse(f"""
    func.func public @main(%x: {X}) -> {X} {{
      %0 = "mhlo.async_start"(%x) <{{called_computation = @step, execution_thread = "main"}}>
        : ({X}) -> !mhlo.async_bundle<{X}, {X}>
      %1 = "mhlo.async_done"(%0) : (!mhlo.async_bundle<{X}, {X}>) -> {X}
      return %1 : {X}
    }}
    func.func private @step(%x: {X}) -> {X} attributes {{execution_thread = "main"}} {{
      %0 = stablehlo.add %x, %x : {X}
      return %0 : {X}
    }}""")
    assert compute_region_work(op(module, "mhlo.async_start")).flops == 4 * 8


def test_equal_regions_are_equal_text(parse):
    def text(name: str, value: float) -> str:
        values = ", ".join(str(value + i) for i in range(100))
        module = parse(f"""
          func.func private @{name}(%x: tensor<100xf32>) -> tensor<100xf32> {{
            %big = stablehlo.constant dense<[{values}]> : tensor<100xf32>
            %small = stablehlo.constant dense<2.0> : tensor<100xf32>
            %0 = func.call @{name}_called(%x) : (tensor<100xf32>) -> tensor<100xf32>
            %1 = stablehlo.multiply %0, %big {{hespas.note = "x"}} : tensor<100xf32>
            %2 = stablehlo.multiply %1, %small : tensor<100xf32>
            return %2 : tensor<100xf32>
          }}
          func.func @{name}_called(%x: tensor<100xf32>) -> tensor<100xf32> {{
            %0 = stablehlo.tanh %x : tensor<100xf32>
            return %0 : tensor<100xf32>
          }}""")
        return str(build_standalone_module(collect_functions(module)[name]))

    assert text("one", 1.0) == text("two", 7.0)
    assert "@main(%arg0: tensor<100xf32>, %arg1: tensor<100xf32>)" in text("one", 1.0)


def test_tokens_stay_inside(parse):
    module = parse("""
      func.func @f(%t: !stablehlo.token, %x: tensor<4xf32>) -> (!stablehlo.token, tensor<4xf32>) {
        %0 = stablehlo.after_all %t, %t : !stablehlo.token
        %1 = stablehlo.tanh %x : tensor<4xf32>
        return %0, %1 : !stablehlo.token, tensor<4xf32>
      }""")
    alone = build_standalone_module(collect_functions(module)["f"])
    alone.operation.verify()
    assert "@main(%arg0: tensor<4xf32>) -> tensor<4xf32>" in str(alone)


def test_an_op_takes_what_it_captures(parse):
    module = parse(f"""func.func public @main(%p: tensor<i1>, %x: {X}, %y: {X}) -> {X} {{
      %0 = stablehlo.multiply %y, %y : {X}
      %1 = "stablehlo.if"(%p) ({{
        %a = stablehlo.add %x, %0 : {X}
        stablehlo.return %a : {X}
      }}, {{
        stablehlo.return %x : {X}
      }}) : (tensor<i1>) -> {X}
      return %1 : {X}
    }}""")
    passes.run_pipeline(module, "prepare")
    alone = build_standalone_module(op(module, "stablehlo.if"))
    alone.operation.verify()
    assert f"@main(%arg0: tensor<i1>, %arg1: {X}, %arg2: {X}) -> {X}" in str(alone)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("split", ["split-linear", "split-individual{merge}"])
@pytest.mark.parametrize("name", ["llama3-100m.mlir.xz", "llama3-100m-opt-a100.mlir.xz"])
def test_the_work_of_a_region_is_that_of_its_ops(name, split):
    module = frontends.read_module(str(ROOT / "docs" / "examples" / name), make_context())
    run = PassRun(note=lambda text: None)
    passes.run_pipeline(module, f"{split},roofline-annotate{{node=A100_SXM_40GB}}", run)
    regions = [f for f in collect_functions(module).values() if RegionAttr.NAME in f.attributes]
    assert len(regions) > 10
    for region in regions:
        work, cost = compute_region_work(region), Cost.read_from_op(region)
        assert cost is not None
        assert (work.flops, work.read_bytes, work.write_bytes) == (
            cost.flops, cost.read_bytes, cost.write_bytes,
        )  # fmt: skip
        assert has_only_free_ops(region) == (cost.latency_ns == 0)
        alone = build_standalone_module(region)
        alone.operation.verify()
        inside = [view.operation for view in region.regions[0].blocks[0].operations]
        assert not any(o.name in CALLEE for o in inside)
        text = str(alone)
        assert "hespas" not in text and str(ir.Module.parse(text, make_context())) == text
