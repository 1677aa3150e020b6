"""prepare: trip counts of loops, from the IR alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.paths import ROOT

import hespas
from hespas import frontends, passes
from hespas.dialects.attr_codec import read_trip_count
from hespas.dialects.attrs import TRIPS
from hespas.dialects.mlir import ir, make_context
from hespas.passes.base import PassRun
from hespas.passes.prepare.census import collect_census
from hespas.passes.prepare.prepare import PreparePass
from hespas.passes.prepare.scalars import ScalarEvaluator, read_splat_constant

Parse = Callable[[str], ir.Module]


def loops(module: ir.Module, **options: str) -> tuple[list[int | None], list[str]]:
    """Trip counts in program order, and the warnings."""
    run = PassRun(note=lambda _: None)
    PreparePass(**options).apply(module, run)  # type: ignore[arg-type]
    return [
        read_trip_count(op) for op in collect_census(module).select_ops_by_name("stablehlo.while")
    ], run.warnings


def loop(start: int, bound: str, step: str, direction: str, kind: str = "i32") -> str:
    t = f"tensor<{kind}>"
    sign = "UNSIGNED" if kind.startswith("u") else "SIGNED"
    return f"""func.func @main(%data: {t}) -> {t} {{
      %c = stablehlo.constant dense<{start}> : {t}
      %0 = stablehlo.while(%i = %c) : {t} cond {{
        %n = {bound} : {t}
        %p = stablehlo.compare {direction}, %i, %n, {sign} : ({t}, {t}) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }} do {{
        %s = stablehlo.constant dense<{step.split()[1]}> : {t}
        %j = stablehlo.{step.split()[0]} %i, %s : {t}
        stablehlo.return %j : {t}
      }}
      return %0 : {t} }}"""


@pytest.mark.parametrize(
    ("start", "bound", "step", "direction", "trips"),
    [
        (0, 10, "add 1", "LT", 10),
        (0, 10, "add 3", "LT", 4),
        (0, 10, "add 1", "LE", 11),
        (10, 0, "subtract 1", "GT", 10),
        (10, 0, "subtract 3", "GE", 4),
        (10, 0, "add -2", "GT", 5),
        (0, 12, "add 4", "NE", 3),
        (5, 5, "add 1", "EQ", 1),
        (7, 3, "add 1", "LT", 0),
        (1, 1000, "multiply 2", "LT", 10),
        (1024, 0, "divide 2", "GT", 11),
        (0, 2000000000, "add 1", "LT", 2000000000),
    ],
)
def test_counts(
    parse: Parse, start: int, bound: int, step: str, direction: str, trips: int
) -> None:
    """Against the loop run in the head; counters that do not step evenly are run by prepare too."""
    text = loop(start, f"stablehlo.constant dense<{bound}>", step, direction)
    assert loops(parse(text)) == ([trips], [])


def test_unsigned_counts_down_through_zero(parse: Parse) -> None:
    text = loop(3, "stablehlo.constant dense<0>", "subtract 1", "NE", "ui32")
    assert loops(parse(text))[0] == [3]


@pytest.mark.parametrize(
    ("name", "trips"),
    [
        ("scaling/llama2-7b-L32-scan-fsdp8.mlir", [32, 32]),
        ("scaling/llama2-7b-L32-scan-fsdp8-opt-h100.mlir", [32, 32]),
        ("zoo/lstm_scan/opt.mlir", [128]),
        ("zoo/lstm_scan/jax_sdy.mlir", [128]),
        ("zoo/transformer_scan_train/opt_cpu.mlir", [4, 4]),
        ("zoo/pipeline_ppermute/final.mlir", [39]),
        ("zoo/control_flow/spmd.mlir", [1, 1, 1024]),
    ],
)
def test_workloads(
    context: ir.Context, workload: Callable[[str], object], name: str, trips: list[int]
) -> None:
    module = frontends.read_module(str(workload(name)), context)
    trip_counts, warnings = loops(module)
    assert trip_counts == trips
    assumed = ["the trip count" in warning for warning in warnings]
    assert assumed.count(True) == (2 if "control_flow" in name else 0)
    assert TRIPS in str(module)


@pytest.mark.parametrize(
    ("op", "trips"), [("maximum {0}, {0}", 1), ("add {0}, %one", 5001), ("add {0}, {0}", 0)]
)
def test_long_and_shared_chains(parse: Parse, op: str, trips: int) -> None:
    """Deeper than Python's stack, and with more paths than can be walked; integers wrap."""
    names = ["%one", *(f"%v{i}" for i in range(5000))]
    chain = "\n".join(
        f"{new} = stablehlo.{op.format(old)} : tensor<i32>"
        for old, new in itertools.pairwise(names)
    )
    bound = f"stablehlo.add {names[-1]}, %c"
    text = loop(0, bound, "add 1", "LT").replace(
        "%0 =", f"%one = stablehlo.constant dense<1> : tensor<i32>\n{chain}\n%0 =", 1
    )
    assert loops(parse(text))[0] == [trips]


def _nest_three_loops(counters):
    def run_middle(i, counters):
        return jax.lax.fori_loop(0, i, lambda j, c: _count_inner_loop(0, j, c), counters)

    return jax.lax.fori_loop(0, 6, run_middle, counters)


def _read_the_outermost_counter(counters):
    def run_middle(i, counters):
        return jax.lax.fori_loop(0, 4, lambda _, c: _count_inner_loop(0, i, c), counters)

    return jax.lax.fori_loop(0, 7, run_middle, counters)


def _scan_bounds(bounds, start=0, **options):
    def run_scan(counters):
        def step(counters, bound):
            return _count_inner_loop(start, bound, counters), None

        return jax.lax.scan(step, counters, bounds(), **options)[0]

    return run_scan


def _nest_scans(counters):
    def step(counters, i):
        def inner_step(counters, j):
            return _count_inner_loop(0, i + 2 * j, counters), None

        return jax.lax.scan(inner_step, counters, jax.numpy.arange(3))[0], None

    return jax.lax.scan(step, counters, jax.numpy.arange(5))[0]


def _scan_twice(counters):
    first = _scan_bounds(lambda: jax.numpy.arange(9))(counters)
    return _scan_bounds(lambda: jax.numpy.arange(9))(first)


def _count_inner_loop(start, stop, counters):
    """Count the executions of a loop, and their iterations."""
    loops, rounds = counters
    return loops + 1, jax.lax.fori_loop(start, stop, lambda _, c: c + 1, rounds)


@pytest.mark.parametrize(
    "program",
    [
        _nest_three_loops,
        _read_the_outermost_counter,
        _scan_bounds(lambda: jax.numpy.arange(9)),
        _scan_bounds(lambda: 2 * jax.numpy.arange(10) + 1),
        _scan_bounds(lambda: np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)),
        _scan_bounds(lambda: jax.numpy.full(5, 3)),
        _scan_bounds(lambda: jax.numpy.arange(7), start=3, reverse=True),
        _nest_scans,
        _scan_twice,
    ],
)
def test_means_are_those_of_the_executed_program(parse: Parse, program) -> None:
    counters = np.float32(0), np.float32(0)
    module = parse(jax.jit(program).lower(counters).as_text())
    trips, warnings = loops(module)
    executions, rounds = map(int, jax.jit(program)(counters))
    mean = rounds / executions
    assert trips[-1] == math.ceil(mean)
    named = [text for text in warnings if f"is {mean:g} on average" in text]
    assert bool(named) == (mean % 1 > 0)


def test_a_call_that_no_loop_runs_leaves_the_mean_unknown(parse: Parse) -> None:
    """Its bound is data, so that the mean of the calls in the loop says nothing of all calls."""
    text = """
    func.func @main(%n: tensor<i32>) -> tensor<i32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %last = stablehlo.constant dense<9> : tensor<i32>
      %0 = stablehlo.while(%i = %zero) : tensor<i32> cond {
        %p = stablehlo.compare LT, %i, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %c = func.call @inner(%i) : (tensor<i32>) -> tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j : tensor<i32>
      }
      %1 = func.call @inner(%n) : (tensor<i32>) -> tensor<i32>
      return %1 : tensor<i32>
    }
    func.func private @inner(%n: tensor<i32>) -> tensor<i32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %0 = stablehlo.while(%i = %zero) : tensor<i32> cond {
        %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j : tensor<i32>
      }
      return %0 : tensor<i32>
    }"""
    trips, (warning,) = loops(parse(text))
    assert trips == [9, 1]
    assert "depends on data" in warning


@pytest.mark.parametrize(("depth", "trips"), [(2, 4), (20, 1)])
def test_paths_of_calls_to_a_loop_are_counted_before_they_are_followed(
    parse: Parse, depth: int, trips: int
) -> None:
    """Functions that each call the next one twice: 4 paths, and a million."""
    functions = [
        f"""func.func private @call{level}(%n: tensor<i32>) -> tensor<i32> {{
          %0 = func.call @call{level + 1}(%n) : (tensor<i32>) -> tensor<i32>
          %1 = func.call @call{level + 1}(%n) : (tensor<i32>) -> tensor<i32>
          return %1 : tensor<i32> }}"""
        for level in range(depth)
    ]
    last = loop(0, "stablehlo.add %data, %c", "add 1", "LT").replace("@main", f"@call{depth}")
    outer = loop(0, "stablehlo.constant dense<9>", "add 1", "LT").replace(
        "%s =", "%called = func.call @call0(%i) : (tensor<i32>) -> tensor<i32>\n%s ="
    )
    text = "\n".join([outer, *functions, last.replace("func.func", "func.func private")])
    counts, warnings = loops(parse(text))
    assert counts == [9, trips]
    assert len(warnings) == (depth > 2)


def test_elements_of_long_chains_of_arrays_are_unknown(parse: Parse) -> None:
    """Each array is visited once, and no more of them than Python's stack allows."""
    names = ["%zero", *(f"%v{i}" for i in range(3000))]
    chain = "\n".join(
        f"{new} = stablehlo.add {old}, {old} : tensor<4xi32>"
        for old, new in itertools.pairwise(names)
    )
    text = loop(0, "stablehlo.add %bound, %c", "add 1", "LT").replace(
        "%0 =",
        f"""%zero = stablehlo.iota dim = 0 : tensor<4xi32>
        %three = stablehlo.constant dense<3> : tensor<i32>
        {chain}
        %element = stablehlo.dynamic_slice %last, %three, sizes = [1]
          : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
        %bound = stablehlo.reshape %element : (tensor<1xi32>) -> tensor<i32>
        %0 =""",
        1,
    )
    for last, trips in (("%zero", 3), ("%v1", 12), (names[-1], 1)):
        assert loops(parse(text.replace("%last", last)))[0] == [trips]


def test_functions_that_call_each_other_twice_are_evaluated_once(parse: Parse) -> None:
    """A chain of 40 levels has a bound in the last; 20 levels took minutes."""
    chain = "".join(
        f"""func.func private @f{level}(%a: tensor<i32>) -> tensor<i32> {{
          %0 = call @f{level + 1}(%a) : (tensor<i32>) -> tensor<i32>
          %1 = call @f{level + 1}(%a) : (tensor<i32>) -> tensor<i32>
          %2 = stablehlo.maximum %0, %1 : tensor<i32>
          return %2 : tensor<i32> }}"""
        for level in range(40)
    )
    last = """func.func private @f40(%a: tensor<i32>) -> tensor<i32> {
      %six = stablehlo.constant dense<6> : tensor<i32>
      %0 = stablehlo.add %a, %six : tensor<i32>
      return %0 : tensor<i32> }"""
    call = "%c1 = stablehlo.constant dense<1> : tensor<i32>\n%n = func.call @f0(%c1)"
    text = loop(0, "stablehlo.constant dense<0>", "add 1", "LT")
    text = text.replace(
        "%n = stablehlo.constant dense<0> : tensor<i32>",
        f"{call} : (tensor<i32>) -> tensor<i32>",
    )
    assert loops(parse(f"{text}{chain}{last}")) == ([7], [])


@pytest.mark.parametrize(
    ("element", "text", "number"),
    [
        ("bf16", "1.5", 1.5), ("f8E4M3FN", "-0.5", -0.5), ("f16", "0x7C00", float("inf")),
        ("f32", "2.5", 2.5), ("f64", "1.0e300", 1.0e300), ("i32", "-3", -3), ("ui8", "200", 200),
        ("i1", "true", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", ["", "1x", "4x"])
def test_splat_constants_of_every_type_are_read(element, text, number, shape):
    """The bindings cannot index elements of bf16, on which a double-buffered loop ended."""
    kind = f"tensor<{shape}{element}>"
    module = ir.Module.parse(f"%0 = stablehlo.constant dense<{text}> : {kind}", make_context())
    assert read_splat_constant(module.body.operations[0].operation) == number


DECODING = """
func.func @main(%x: tensor<1024xf32>, %most: tensor<i32>) -> tensor<1024xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<1024xf32>
  cond {
    %less = stablehlo.compare LT, %i, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    %z = stablehlo.add %y, %y : tensor<1024xf32>
    stablehlo.return %next, %z : tensor<i32>, tensor<1024xf32>
  }
  return %0#1 : tensor<1024xf32>
}
"""


@pytest.mark.parametrize("form", ["as-is", "fuse"])
@pytest.mark.parametrize("annotated", [False, True])
def test_a_run_takes_the_trip_count_of_loops_of_data(
    form: str, annotated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop.mlir").write_text(DECODING)
    if annotated:
        module = hespas.read("loop.mlir")
        passes.run_pipeline(module, "prepare")
        Path("loop.mlir").write_text(str(module))
    flops: dict[int | None, float] = {}
    for count in (None, 10, 1000):
        chosen: dict[str, Any] = {} if count is None else {"trip_count": count}
        estimate = hespas.estimate("loop.mlir", node="H100_80GB", form=form, **chosen)
        flops[count] = estimate.summary.emitted.stats["totals"]["flops"]
        is_assumed = any('set it with trip_count="N"' in text for text in estimate.warnings)
        assert is_assumed == (count is None and not annotated)
    assert flops[1000] == 100 * flops[10] == 1000 * flops[None]
    rows = hespas.sweep(
        {"mlir": "loop.mlir", "node": "H100_80GB", "form": form, "trip_count": [10, 1000]},
        cache="none",
    ).rows
    assert [row["flops"] for row in rows] == [flops[10], flops[1000]]


def test_a_loop_that_does_not_end_is_not_run_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[ir.Value] = []
    evaluate = ScalarEvaluator.evaluate_with_bindings

    def count_and_evaluate(self, value, bound):
        evaluated.append(value)
        return evaluate(self, value, bound)

    monkeypatch.setattr(ScalarEvaluator, "evaluate_with_bindings", count_and_evaluate)
    path = ROOT / "test/lit/write-trip-counts/endless.mlir"
    counts, warnings = loops(frontends.read_module(path, make_context()))
    assert counts == [1, 1, 1, 1, 1, 128, 98, 91, 98, 99] and len(warnings) == 5
    assert len(evaluated) < 5000
