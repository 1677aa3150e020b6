"""The CPU time of every pass grows linearly with the program, whatever its shape."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.budgets import PROFILE
from support.paths import ROOT

from benchmarks.__main__ import MAIN_JOB
from benchmarks.measure import BARE_PARSE, build_python_command, build_tool_command
from benchmarks.modules import write_random_module
from hespas import frontends
from hespas.dialects.mlir import make_context
from hespas.passes.base import PassRun
from hespas.passes.pipeline import parse_pipeline, run_pipeline

STEPS = 120  # of the smallest program; the others have 2, 4 and 8 times as many
SIZES = (1, 2, 4, 8)
MAX_EXPONENT = 1.3  # of linear passes it is 1.1 at most; a quadratic one had 1.5, a cubic one 2.7
T, W = "tensor<64x256xf32>", "tensor<256x256xf32>"


def dot(result: str, left: str, right: str) -> str:
    dims = "contracting_dims = [1] x [0]"
    return f"%{result} = stablehlo.dot_general %{left}, %{right}, {dims} : ({T}, {W}) -> {T}"


def unary(result: str, kind: str, operand: str) -> str:
    return f"%{result} = stablehlo.{kind} %{operand} : {T}"


def binary(result: str, kind: str, left: str, right: str) -> str:
    return f"%{result} = stablehlo.{kind} %{left}, %{right} : {T}"


def reduce(result: str, operand: str, group: int) -> str:
    groups = ("[[0, 1], [2, 3]]", "[[0, 2], [1, 3]]")[group]
    return f"""%{result} = "stablehlo.all_reduce"(%{operand}) <{{replica_groups = dense<{groups}> :
      tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      use_global_device_ids}}> ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : ({T}) -> {T}"""


def build_recurrence(n: int) -> list[str]:
    """Products that depend on each other share a weight, as in an unrolled recurrence."""
    lines = [unary("h0", "tanh", "x")]
    for k in range(n):
        lines += [dot(f"d{k}", f"h{k}", "w"), unary(f"h{k + 1}", "tanh", f"d{k}")]
    return [*lines, unary("end", "negate", f"h{n}")]


def build_two_recurrences(n: int) -> list[str]:
    """As a bidirectional recurrence: the products of one step can be merged."""
    lines = [unary("a0", "tanh", "x"), unary("b0", "sine", "x")]
    for k in range(n // 2):
        for name in "ab":
            lines += [
                dot(f"{name}d{k}", f"{name}{k}", "w"),
                unary(f"{name}{k + 1}", "tanh", f"{name}d{k}"),
            ]
    return [*lines, binary("end", "add", f"a{n // 2}", f"b{n // 2}")]


def build_projections(n: int) -> list[str]:
    """Independent products of one weight, whose results a recurrence reads one by one."""
    lines = [unary("h0", "tanh", "x"), unary("x0", "sine", "x")]
    for k in range(n):
        lines += [
            unary(f"x{k + 1}", "cosine", f"x{k}"),
            dot(f"p{k}", f"x{k + 1}", "w"),
            binary(f"h{k + 1}", "add", f"h{k}", f"p{k}"),
        ]
    return [*lines, unary("end", "negate", f"h{n}")]


def build_layers(n: int) -> list[str]:
    """A product, an elementwise op and a collective in turn."""
    lines = [unary("h0", "tanh", "x")]
    for k in range(n // 2):
        lines += [
            dot(f"d{k}", f"h{k}", f"w{k % 2}"),
            binary(f"e{k}", "add", f"d{k}", f"h{k}"),
            reduce(f"h{k + 1}", f"e{k}", k % 2),
        ]
    return [*lines, unary("end", "negate", f"h{n // 2}")]


def build_masked(n: int) -> list[str]:
    """As the mask of attention: a value that a kernel of each layer reads."""
    lines = [unary("mask", "sine", "x"), unary("h0", "tanh", "x")]
    for k in range(n):
        lines += [
            dot(f"d{k}", f"h{k}", f"w{k % 2}"),
            binary(f"m{k}", "multiply", f"d{k}", "mask"),
            unary(f"h{k + 1}", "tanh", f"m{k}"),
        ]
    return [*lines, binary("end", "add", f"h{n}", "mask")]


def build_chain(n: int) -> list[str]:
    """Elementwise ops, each of which reads the one before."""
    lines = [unary("h0", "tanh", "x")]
    lines += [binary(f"h{k + 1}", "add", f"h{k}", "x") for k in range(2 * n)]
    return [*lines, unary("end", "negate", f"h{2 * n}")]


def build_fan(n: int) -> list[str]:
    """Many ops read one value, and all their results meet."""
    lines = [unary("h", "tanh", "x")]
    lines += [binary(f"f{k}", "multiply", "h", "x") for k in range(n)]
    lines += [reduce(f"r{k}", f"f{k}", k % 2) for k in range(0, n, 4)]
    joined = ", ".join(f"%{'f' if k % 4 else 'r'}{k}" for k in range(n))
    types = ", ".join([T] * n)
    wide = f"tensor<{64 * n}x256xf32>"
    return [
        *lines,
        f"%all = stablehlo.concatenate {joined}, dim = 0 : ({types}) -> {wide}",
        f"%end = stablehlo.slice %all [0:64, 0:256] : ({wide}) -> {T}",
    ]


def build_functions(n: int) -> list[str]:
    """Loops whose bodies communicate, and calls of one function."""
    lines = [unary("h0", "tanh", "x")]
    for k in range(n // 8):
        lines += [
            f"""%c{k} = stablehlo.constant dense<0> : tensor<i32>
    %l{k}:2 = stablehlo.while(%i = %c{k}, %y = %h{k}) : tensor<i32>, {T} cond {{
      %b = stablehlo.constant dense<2> : tensor<i32>
      %t = stablehlo.compare LT, %i, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    }} do {{
      {reduce("r", "y", k % 2)}
      %o = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %o : tensor<i32>
      stablehlo.return %j, %r : tensor<i32>, {T}
    }}
    %h{k + 1} = func.call @f(%l{k}#1) : ({T}) -> {T}"""
        ]
    return [*lines, unary("end", "negate", f"h{n // 8}")]


def build_carried(n: int) -> list[str]:
    """A loop that carries many values."""
    values = [f"h{k}" for k in range(n)]
    lines = [unary(value, "tanh", "x") for value in values]
    carried = ", ".join(f"%c{k} = %{value}" for k, value in enumerate(values))
    types = ", ".join([T] * n)
    body = "\n".join(unary(f"n{k}", "sine", f"c{k}") for k in range(n))
    results = ", ".join(f"%n{k}" for k in range(n))
    lines.append(f"""%zero = stablehlo.constant dense<0> : tensor<i32>
    %l:{n + 1} = stablehlo.while(%i = %zero, {carried}) : tensor<i32>, {types} cond {{
      %b = stablehlo.constant dense<3> : tensor<i32>
      %t = stablehlo.compare LT, %i, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    }} do {{
      {body}
      {reduce("r", "n0", 0)}
      %o = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %o : tensor<i32>
      stablehlo.return %j, {results} : tensor<i32>, {types}
    }}""")
    lines += [binary("s0", "add", "l#1", "l#2")]
    lines += [binary(f"s{k}", "add", f"s{k - 1}", f"l#{k + 1}") for k in range(1, n)]
    return [*lines, unary("end", "negate", f"s{n - 1}")]


def build_sampler(n: int) -> list[str]:
    """Decoding steps, each of which chooses the rows that the next one reads."""
    lines = [unary("h0", "tanh", "x")]
    for k in range(n // 2):
        lines += [
            dot(f"d{k}", f"h{k}", "w"),
            f"%i{k} = stablehlo.iota dim = 1 : tensor<64x1xi32>",
            f'%g{k} = "stablehlo.gather"(%d{k}, %i{k}) <{{dimension_numbers = #stablehlo.gather<'
            "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
            "index_vector_dim = 1>, slice_sizes = array<i64: 1, 256>}> : "
            f"({T}, tensor<64x1xi32>) -> {T}",
            f'%s{k} = "stablehlo.sort"(%g{k}) <{{dimension = 1 : i64}}> ({{\n'
            "^bb0(%p: tensor<f32>, %q: tensor<f32>):\n"
            "%t = stablehlo.compare GT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
            f"stablehlo.return %t : tensor<i1>}}) : ({T}) -> {T}",
            binary(f"h{k + 1}", "add", f"s{k}", f"h{k}"),
        ]
    return [*lines, unary("end", "negate", f"h{n // 2}")]


def build_optimiser(n: int) -> list[str]:
    """Updates of many parameters, all of which read the same scalars, and a norm over all."""
    scalar = "tensor<f32>"
    lines = [
        f"%zero = stablehlo.constant dense<0.0> : {scalar}",
        f"%corner = stablehlo.slice %x [0:1, 0:1] : ({T}) -> tensor<1x1xf32>",
        f"%rate = stablehlo.reshape %corner : (tensor<1x1xf32>) -> {scalar}",
        f"%decay = stablehlo.exponential %rate : {scalar}",
    ]
    for k in range(n // 4):
        lines += [
            dot(f"g{k}", "x", f"w{k % 2}"),
            binary(f"q{k}", "multiply", f"g{k}", f"g{k}"),
            f"%n{k} = stablehlo.reduce(%q{k} init: %zero) applies stablehlo.add across "
            f"dimensions = [0, 1] : ({T}, {scalar}) -> {scalar}",
        ]
    norm = "zero"
    for k in range(n // 4):
        lines.append(f"%m{k} = stablehlo.add %{norm}, %n{k} : {scalar}")
        norm = f"m{k}"
    lines.append(f"%scale = stablehlo.rsqrt %{norm} : {scalar}")
    for k in range(n // 4):
        lines += [
            f"%b{k} = stablehlo.broadcast_in_dim %scale, dims = [] : ({scalar}) -> {T}",
            f"%c{k} = stablehlo.broadcast_in_dim %decay, dims = [] : ({scalar}) -> {T}",
            binary(f"u{k}", "multiply", f"g{k}", f"b{k}"),
            binary(f"v{k}", "add", f"u{k}", f"c{k}"),
            reduce(f"h{k}", f"v{k}", k % 2),
        ]
    joined = ", ".join(f"%h{k}" for k in range(n // 4))
    wide = f"tensor<{64 * (n // 4)}x256xf32>"
    return [
        *lines,
        f"%all = stablehlo.concatenate {joined}, dim = 0 : ({', '.join([T] * (n // 4))}) -> {wide}",
        f"%end = stablehlo.slice %all [0:64, 0:256] : ({wide}) -> {T}",
    ]


BUILDERS: list[Callable[[int], list[str]]] = [
    build_recurrence, build_two_recurrences, build_projections, build_layers, build_masked,
    build_chain, build_fan, build_functions, build_carried, build_sampler, build_optimiser,
]  # fmt: skip
PIPELINES = [
    "fuse,split-individual{merge},roofline-annotate{node=A100_SXM_40GB},emit-chakra{output=OUT}",
    "memory-annotate,split-linear{block-limit=4},calibrated-annotate{node=A100_SXM_40GB},"
    "refresh-costs,emit-chakra{output=OUT}",
    "split-individual,roofline-annotate{node=A100_SXM_40GB},op-stats{output=OUT/ops},strip-costs",
]


def build_program(build: Callable[[int], list[str]], steps: int) -> str:
    body = "\n    ".join(build(steps))
    return f"""module attributes {{mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%x: {T}, %w: {W}, %w0: {W}, %w1: {W}) -> {T} {{
    {body}
    return %end : {T}
  }}
  func.func private @f(%x: {T}) -> {T} {{ %0 = stablehlo.sine %x : {T} return %0 : {T} }}
}}"""


def measure_passes(
    build: Callable[[int], list[str]], steps: int, pipeline: str
) -> dict[str, float]:
    """Return the CPU time of each pass of a pipeline, by its name."""
    module = frontends.parse_module(build_program(build, steps).encode(), "in.mlir", make_context())
    times_s: dict[str, float] = {}
    run = PassRun(note=lambda text: None)
    for step in [*parse_pipeline("prepare"), *parse_pipeline(pipeline)]:
        gc.collect()
        start_s = time.process_time()
        run_pipeline(module, [step], run, is_continued=True)
        times_s[step.name] = time.process_time() - start_s
    return times_s


@pytest.mark.slow
@pytest.mark.skipif(PROFILE != "nightly", reason="CPU times of minutes, which other jobs disturb")
@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_every_pass_is_linear(build: Callable[[int], list[str]], tmp_path: Path) -> None:
    exponents: dict[str, float] = {}
    for pipeline in PIPELINES:
        (tmp_path / "out").mkdir(exist_ok=True)
        pipeline = pipeline.replace("OUT", str(tmp_path / "out"))
        measure_passes(build, STEPS, pipeline)  # imports
        by_size = [measure_passes(build, STEPS * size, pipeline) for size in SIZES]
        for name in by_size[0]:
            small_s, large_s = by_size[1][name], by_size[-1][name]
            if large_s > 0.02:  # what takes less time is not measured well
                exponent = math.log(large_s / small_s, SIZES[-1] / SIZES[1])
                exponents[name] = max(exponent, exponents.get(name, 0))
    assert {k: round(v, 2) for k, v in exponents.items() if v > MAX_EXPONENT} == {}


def measure_peak_bytes(command: list[str]) -> int:
    """Return the peak memory of a command, measured by a process that has no other children."""
    code = f"from benchmarks.measure import run_process; print(run_process({command}).peak_bytes)"
    measured = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert not measured.returncode, measured.stderr
    return int(measured.stdout)


@pytest.mark.long
def test_memory_of_the_main_job_is_small_beside_that_of_the_parse(tmp_path: Path) -> None:
    """0.27 kB for each op. Allocators take blocks of megabytes: small programs show those only."""
    ops = 100_000
    path = write_random_module(tmp_path, ops, seed=0)
    flags = [*MAIN_JOB, f"--emit-chakra=output={tmp_path / 'out'}", "-o", "/dev/null"]
    job = build_tool_command("hespas-opt", str(path), *flags)
    parse = build_python_command(BARE_PARSE, str(path))
    added_bytes = measure_peak_bytes(job) - measure_peak_bytes(parse)
    assert added_bytes / ops < 350
