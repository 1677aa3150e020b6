"""Micro-benchmarks: small modules that any measuring estimator can time.

There are a few hundred kernels: products in each element type that the matrix unit of the node has
a rate for, additions, and row reductions. Their sizes span those of models, and no kernel uses more
than a share of the device's memory. On a GPU they take minutes.

Constants of TPUs come from the cycles that XLA:TPU estimates for products; no TPU is needed.
XLA:TPU leaves ``estimated_cycles`` on what it compiles. Those of a product that its matrix units
bound agree with published measurements. Others do not: the copies of operands to VMEM are ops of
their own without cycles, so a product with few operations seems to exceed the bandwidth of the
memory, and a stream in bf16 seems to take twice what was measured. Only products of the first kind
are therefore compiled, and only their share of the peak rate is fitted. ``hespas measure cycles
TARGET`` prints the table of a target as CSV. It needs ``hespas[tpu-compiler]``, and 5 to 20
minutes.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from hespas import configs, passes
from hespas.configs.compile_targets import load_compile_target
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attrs import CompilerEstimateAttr
from hespas.dialects.mlir import ir, make_context
from hespas.estimators.base import Estimator
from hespas.support.errors import HespasError, UsageError

_COLUMNS = ("kernel", "sizes", "flops", "bytes", "time_s")

_ROWS = (1, 16, 64, 256, 1024, 2048, 4096, 8192, 16384)
_INNER = (128, 512, 1024, 2048, 4096, 8192, 16384)
_PRODUCT_STRIDE = 5  # every fifth product is measured, which takes a minute for each type
_LEAST_BYTES, _MOST_BYTES = 1 << 16, 1 << 32
_MOST_FLOPS = 4e13
_MEMORY_SHARE = 0.25
_TYPES = {"bf16": "bf16", "f16": "f16", "tf32": "f32", "f32": "f32", "f8": "f8E4M3FN", "i8": "i8"}
_SIZES = {"bf16": 2, "f16": 2, "tf32": 4, "f32": 4, "f8": 1, "i8": 1}
_RESULTS = {"f8": "bf16", "i8": "i32"}
_RESULT_SIZES = {"f8": 2, "i8": 4}
CYCLE_COLUMNS = ("device", "kernel", "sizes", "flops", "bytes", "cycles", "time_s")
_LEAST_RATIO = 1.5  # of the time of operations over that of bytes, both at peak rates
_LEAST_S = 20e-6  # of the operations at the peak rate: shorter products are mostly pipeline fill
_MOST_CYCLE_FLOPS = {"f32": 3e10}  # of a benchmark; XLA takes minutes to compile larger ones


@dataclass(frozen=True, slots=True)
class KernelBenchmark:
    """One kernel: its class, sizes, operations and bytes, and the text of a module that runs it."""

    kernel: str
    sizes: tuple[int, ...]
    flops: float
    bytes: float
    text: str


def list_benchmarks(node: NodeSpec) -> list[KernelBenchmark]:
    """List the micro-benchmarks for a node by class, small ones first."""
    limit = _MOST_BYTES
    if node.memory_bytes:
        limit = min(limit, int(_MEMORY_SHARE * node.memory_bytes))
    keys = [key for key in _TYPES if key in node.peaks_flops.get("matrix", {})] or ["f32"]
    candidates = [candidate for key in keys for candidate in _generate_products(key)]
    candidates += _generate_streams()
    fitting = [
        candidate
        for candidate in candidates
        if candidate.bytes <= limit and candidate.flops <= _MOST_FLOPS
    ]
    return sorted(
        fitting, key=lambda candidate: (candidate.kernel, candidate.bytes, candidate.sizes)
    )


def _generate_products(key: str) -> Iterator[KernelBenchmark]:
    combined = itertools.product(_ROWS, _INNER, _INNER)
    for number, (m, n, k) in enumerate(combined):
        # The factor is coprime to the lengths of the lists, so that all values of each are visited.
        if number * 11 % _PRODUCT_STRIDE:
            continue
        yield _build_product_benchmark(key, m, n, k)


def _build_product_benchmark(key: str, m: int, n: int, k: int) -> KernelBenchmark:
    """Build a linear layer: an m x k matrix times the transpose of an n x k matrix."""
    size, type_ = _SIZES[key], _TYPES[key]
    result = _RESULTS.get(key, type_)
    lhs, rhs, out = (
        f"tensor<{a}x{b}x{t}>" for a, b, t in ((m, k, type_), (n, k, type_), (m, n, result))
    )
    precision = "HIGHEST" if key == "f32" else "DEFAULT"
    text = f"""\
func.func @main(%x: {lhs}, %w: {rhs}) -> {out} {{
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1],
    precision = [{precision}, {precision}] : ({lhs}, {rhs}) -> {out}
  return %0 : {out}
}}
"""
    moved = size * (m * k + n * k) + _RESULT_SIZES.get(key, size) * m * n
    return KernelBenchmark(f"product.{key}", (1, m, n, k), 2.0 * m * n * k, moved, text)


def _generate_streams() -> Iterator[KernelBenchmark]:
    for log2 in range(14, 29):
        for part in (4, 5, 6, 7):
            elements = (part << log2) // 4
            yield _build_addition_benchmark(elements // 1024, 1024)
    for rows, columns in itertools.product(
        (1024, 4096, 16384, 65536), (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
    ):
        yield _build_row_sum_benchmark(rows, columns)


def _build_addition_benchmark(rows: int, columns: int) -> KernelBenchmark:
    type_ = f"tensor<{rows}x{columns}xf32>"
    text = f"""\
func.func @main(%x: {type_}, %y: {type_}) -> {type_} {{
  %0 = stablehlo.add %x, %y : {type_}
  return %0 : {type_}
}}
"""
    return KernelBenchmark("stream.loop", (columns, rows), 0.0, 12.0 * rows * columns, text)


def _build_row_sum_benchmark(rows: int, columns: int) -> KernelBenchmark:
    type_, sums = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>"
    text = f"""\
func.func @main(%x: {type_}) -> {sums} {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : ({type_}, tensor<f32>) -> {sums}
  return %0 : {sums}
}}
"""
    return KernelBenchmark("stream.reduce", (columns, rows), 0.0, 4.0 * rows * (columns + 1), text)


def measure_benchmarks(
    selected: Sequence[KernelBenchmark],
    estimator: Estimator,
    report_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Iterator[tuple[KernelBenchmark, float]]:
    """Yield each benchmark with its time in seconds.

    Args:
        selected: The benchmarks.
        estimator: An estimator that measures.
        report_progress: Receives the number of finished and of all benchmarks.

    Raises:
        HespasError: A kernel cannot be measured.
    """
    from hespas.passes.annotate.traverse import annotate_module
    from hespas.passes.base import PassRun

    for number, benchmark in enumerate(selected, 1):
        module = ir.Module.parse(benchmark.text, make_context())
        passes.run_pipeline(module, "split-linear")
        cost = annotate_module(module, estimator, PassRun()).total
        report_progress(number, len(selected))
        yield benchmark, 1e-9 * cost.time_ns


def write_measurements(file: TextIO, measured: Iterable[tuple[KernelBenchmark, float]]) -> None:
    """Write measurements as CSV, in the form of hespas."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for benchmark, time_s in measured:
        writer.writerow((*_format_work(benchmark), f"{time_s:.6g}"))


def _format_work(benchmark: KernelBenchmark) -> tuple[str, ...]:
    """Format the class, the sizes, the operations and the bytes of a benchmark for a table."""
    sizes = "x".join(map(str, benchmark.sizes))
    return benchmark.kernel, sizes, f"{benchmark.flops:g}", f"{benchmark.bytes:g}"


def is_bound_by_matrix_units(node: NodeSpec, kernel: str, flops: float, moved: float) -> bool:
    """Return whether operations take much longer than bytes, and long enough, at peak rates."""
    compute_s, memory_s = compute_peak_times_s(node, kernel, flops, moved)
    return compute_s > _LEAST_RATIO * memory_s and compute_s > _LEAST_S


def compute_peak_times_s(
    node: NodeSpec, kernel: str, flops: float, moved: float
) -> tuple[float, float]:
    """Return the seconds of the operations of a product and of its bytes, at peak rates."""
    rate = node.find_peak_rate("matrix", kernel.partition(".")[2]).flops_per_s
    return flops / rate, moved / node.memory_bandwidth_bytes_per_s


def list_cycle_benchmarks(node: NodeSpec) -> list[KernelBenchmark]:
    """List the products of the micro-benchmarks that the matrix units of a node bound."""
    return [
        benchmark
        for benchmark in list_benchmarks(node)
        if benchmark.kernel.startswith("product")
        and benchmark.flops <= _MOST_CYCLE_FLOPS.get(benchmark.kernel.partition(".")[2], 5e12)
        and is_bound_by_matrix_units(node, benchmark.kernel, benchmark.flops, benchmark.bytes)
    ]


def estimate_cycles(benchmark: KernelBenchmark, target: str) -> tuple[int, float]:
    """Compile a benchmark for a target; returns the cycles of its ops and their nanoseconds.

    Raises:
        HespasError: XLA:TPU is not installed, or cannot compile it.
    """
    module = ir.Module.parse(benchmark.text, make_context())
    passes.run_pipeline(module, f"xla-optimize{{target={target}}}")
    estimates: list[CompilerEstimateAttr] = []

    def collect_estimate(op: ir.Operation) -> ir.WalkResult:
        estimate = CompilerEstimateAttr.read_from_op(op)
        if estimate is not None:
            estimates.append(estimate)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect_estimate)
    if not estimates:
        raise HespasError(f"{benchmark.kernel} {benchmark.sizes} has no cycles for {target}")
    return sum(one.cycles for one in estimates), sum(one.latency_ns or 0 for one in estimates)


def write_cycle_table(target: str, file: TextIO) -> None:
    """Write the table of a target as CSV.

    Raises:
        HespasError: The target is no TPU, or XLA:TPU is not installed, or cannot compile a product.
    """
    if load_compile_target(target).tpu is None:
        raise UsageError(
            f"{target} is no TPU, and XLA estimates cycles of TPUs only",
            remedy="name another target, such as TPUv5e",
        )
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CYCLE_COLUMNS)
    for benchmark in list_cycle_benchmarks(configs.load_node(target)):
        cycles, time_ns = estimate_cycles(benchmark, target)
        time_s = f"{1e-9 * time_ns:.6g}"
        writer.writerow((target, *_format_work(benchmark), cycles, time_s))
        file.flush()
