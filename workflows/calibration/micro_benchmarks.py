"""Micro-benchmarks: small modules that any measuring estimator can time.

There are a few hundred kernels: products in each element type that the matrix unit of the node has
a rate for, additions, and row reductions. Their sizes span those of models, and no kernel uses more
than a share of the device's memory. On a GPU they take minutes.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from hespas.configs.node_spec import NodeSpec
from hespas.dialects.mlir import ir
from hespas.estimators.base import Estimator

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
    from hespas import passes
    from hespas.dialects.mlir import make_context
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
        sizes = "x".join(map(str, benchmark.sizes))
        writer.writerow(
            (
                benchmark.kernel,
                sizes,
                f"{benchmark.flops:g}",
                f"{benchmark.bytes:g}",
                f"{time_s:.6g}",
            )
        )
