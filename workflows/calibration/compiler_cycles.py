"""Constants of TPUs from the cycles that XLA:TPU estimates for products; no TPU is needed.

XLA:TPU leaves ``estimated_cycles`` on what it compiles. Those of a product that its matrix units
bound agree with published measurements. Others do not: the copies of operands to VMEM are ops of
their own without cycles, so a product with few operations seems to exceed the bandwidth of the
memory, and a stream in bf16 seems to take twice what was measured. Only products of the first kind
are therefore compiled, and only their share of the peak rate is fitted.

``hespas measure cycles TARGET`` prints the table of a target as CSV. It needs
``hespas[tpu-compiler]``, and 5 to 20 minutes.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import TextIO

from hespas import configs, passes
from hespas.configs.compile_targets import load_compile_target
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attrs import CompilerEstimateAttr
from hespas.dialects.mlir import ir, make_context
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.calibration.micro_benchmarks import KernelBenchmark, list_benchmarks

CYCLE_COLUMNS = ("device", "kernel", "sizes", "flops", "bytes", "cycles", "time_s")
_LEAST_RATIO = 1.5  # of the time of operations over that of bytes, both at peak rates
_LEAST_S = 20e-6  # of the operations at the peak rate: shorter products are mostly pipeline fill
_MOST_FLOPS = {"f32": 3e10}  # of a benchmark; XLA takes minutes to compile larger ones


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
        and benchmark.flops <= _MOST_FLOPS.get(benchmark.kernel.partition(".")[2], 5e12)
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


def generate_cycle_rows(
    benchmarks: Sequence[KernelBenchmark], target: str
) -> Iterator[tuple[object, ...]]:
    """Yield the row of ``CYCLE_COLUMNS`` of each benchmark; raises HespasError."""
    for benchmark in benchmarks:
        cycles, time_ns = estimate_cycles(benchmark, target)
        sizes = "x".join(map(str, benchmark.sizes))
        work = (f"{benchmark.flops:g}", f"{benchmark.bytes:g}")
        yield (target, benchmark.kernel, sizes, *work, cycles, f"{1e-9 * time_ns:.6g}")


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
    benchmarks = list_cycle_benchmarks(configs.load_node(target))
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CYCLE_COLUMNS)
    for row in generate_cycle_rows(benchmarks, target):
        writer.writerow(row)
        file.flush()
