"""Kernels that XLA makes of small JAX programs, measured on a GPU and estimated without one.

``python -m benchmarks.calibration.xla_kernels measure FILE.csv`` runs them on the GPU of this
machine, and ``... compare FILE.csv NODE`` prints measured and estimated times by kind.
``docs/data/xla-kernels-h200.csv`` was measured with jax 0.11.2 and driver 580.159 on an H200 of
700 W on 2026-11-28. Each time is the sum of the kernels of one run, by CUPTI, the median of five
runs: ``hot_ns`` with operands that the run before has left in the cache, ``cold_ns`` after another
kernel has written 256 MB. ``fit_streams`` selects the rows that the constants of streams are
fitted to (``hespas measure calibrate``).

``docs/data/xla-programs-h200.json.xz`` holds, by the name of a JAX program, the HLO text that the
same XLA compiled on that H200 (``hlo``, without metadata), and the nanoseconds of its kernels by
the name of their instruction (``kernels_ns``), measured on the same day: the mean of three runs.
"""

from __future__ import annotations

import csv
import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks import DATA
from hespas.support.data_files import read_file_text

MEASURED = DATA / "xla-kernels-h200.csv"
MEASURED_PROGRAMS = DATA / "xla-programs-h200.json.xz"
RUNS = 5
ELEMENTS = 2**24
_FLUSHED_ELEMENTS = 2**26
_TYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": jnp.exp, "tanh": jnp.tanh, "erf": lax.erf, "sin": jnp.sin, "log": jnp.log,
    "rsqrt": lax.rsqrt, "sigmoid": jax.nn.sigmoid, "gelu": jax.nn.gelu, "divide": lambda x: 3 / x,
    "power": lambda x: jnp.abs(x) ** 1.7, "sqrt": jnp.sqrt, "tan": jnp.tan, "log1p": jnp.log1p,
    "expm1": jnp.expm1, "silu": jax.nn.silu,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelProgram:
    """A program of one kernel or a few.

    Attributes:
        kind: The kind that errors are summed by.
        largest_index: Integer operands are random numbers below this one.
        streamed: (class, columns, rows, bytes) where the kernel belongs to a class of streams.
    """

    kind: str
    name: str
    function: Callable[..., Any]
    shapes: tuple[jax.ShapeDtypeStruct, ...]
    largest_index: int = 8
    streamed: tuple[str, int, int, int] | None = None


def list_programs() -> list[KernelProgram]:
    """List the programs in the order of their names."""
    programs = [
        program
        for key, dtype in _TYPES.items()
        for make in (_make_loops, _make_reductions, _make_moves, _make_lookups, _make_sorts)
        for program in make(key, dtype)
    ]
    return sorted(programs, key=lambda program: program.name)


def _shape(dtype: Any, *extents: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(extents, dtype)


def _make_loops(key: str, dtype: Any) -> Iterator[KernelProgram]:
    size = dtype.dtype.itemsize
    for log2 in range(10, 29, 2):
        array = _shape(dtype, 2**log2)
        # Products of one bf16 array are bound by the blocks of threads, not by memory.
        is_stream = log2 >= 16
        yield KernelProgram(
            "loop", f"scale {key} 2^{log2}", lambda x: x * 2, (array,),
            streamed=("stream.loop", 2**log2, 1, 2 * size * 2**log2)
            if is_stream and key == "f32" else None,
        )  # fmt: skip
        yield KernelProgram(
            "loop", f"add {key} 2^{log2}", lambda x, y: x + y, (array, array),
            streamed=("stream.loop", 2**log2, 1, 3 * size * 2**log2) if is_stream else None,
        )  # fmt: skip
    array = _shape(dtype, ELEMENTS)
    for name, function in _FUNCTIONS.items():
        yield KernelProgram("function", f"{name} {key}", function, (array,))
    for count in (3, 4, 6):
        yield KernelProgram(
            "loop", f"sum of {count} {key}", lambda *x: sum(x), (array,) * count,
            streamed=("stream.loop", ELEMENTS, 1, (count + 1) * size * ELEMENTS),
        )  # fmt: skip
    yield KernelProgram("fill", f"fill {key}", lambda: jnp.zeros(2**26, dtype), ())


def _make_reductions(key: str, dtype: Any) -> Iterator[KernelProgram]:
    size = dtype.dtype.itemsize
    for total in (20, 24, 27):
        for log2 in (7, 10, 12, 14):
            shape = (2 ** (total - log2), 2**log2)
            for axis, kind in ((1, "rows"), (0, "columns")):
                moved = size * 2**total + 4 * shape[1 - axis]
                yield KernelProgram(
                    "reduce", f"sum of {kind} {key} {shape[0]}x{shape[1]}",
                    lambda x, axis=axis: x.astype(jnp.float32).sum(axis), (_shape(dtype, *shape),),
                    streamed=("stream.reduce", shape[axis], shape[1 - axis], moved),
                )  # fmt: skip
    for log2 in (7, 9, 10, 11, 12, 13, 14):
        shape = (2 ** (24 - log2), 2**log2)
        for name, function in (("softmax", jax.nn.softmax), ("rms norm", _normalise)):
            yield KernelProgram(
                "softmax", f"{name} {key} {shape[0]}x{shape[1]}", function,
                (_shape(dtype, *shape),),
                streamed=("stream.softmax", shape[1], shape[0], 2 * size * ELEMENTS),
            )  # fmt: skip
    for batch, keys in ((16, 512), (16, 1024), (64, 1024), (16, 2048), (4, 4096)):
        yield KernelProgram(
            "masked softmax", f"masked softmax {key} {batch}x{keys}x{keys}", _mask_softmax,
            (_shape(dtype, batch, keys, keys),),
        )  # fmt: skip


def _normalise(x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype)


def _mask_softmax(x: jax.Array) -> jax.Array:
    mask = jnp.arange(x.shape[1])[:, None] >= jnp.arange(x.shape[2])
    scores = jnp.where(mask, x.astype(jnp.float32), -1e30)
    return jax.nn.softmax(scores, -1).astype(x.dtype)


def _make_moves(key: str, dtype: Any) -> Iterator[KernelProgram]:
    def make(name: str, function: Callable[..., Any], *shapes: tuple[int, ...]) -> KernelProgram:
        arrays = tuple(_shape(dtype, *shape) for shape in shapes)
        return KernelProgram("move", f"{name} {key}", function, arrays)

    yield make("transpose 4096x4096", lambda x: x.T + 1, (4096, 4096))
    yield make("transpose 8192x8192", lambda x: x.T + 1, (8192, 8192))
    yield make("transpose heads", lambda x: x.transpose(0, 2, 1, 3) + 1, (4, 2048, 16, 128))
    yield make("concatenate", lambda x, y: jnp.concatenate([x, y], -1), (8192, 1024), (8192, 1024))
    yield make("slice every other", lambda x: x[:, ::2] + 1, (4096, 8192))
    yield make("slice half", lambda x: x[:, :4096] + 1, (4096, 8192))
    yield make("reverse", lambda x: x[:, ::-1] + 1, (4096, 4096))
    yield make("roll", lambda x: jnp.roll(x, 7, 1), (4096, 4096))
    yield make(
        "max pool",
        lambda x: lax.reduce_window(
            x, -jnp.array(jnp.inf, x.dtype), lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
        ),
        (32, 112, 112, 64),
    )


def _make_lookups(key: str, dtype: Any) -> Iterator[KernelProgram]:
    for rows, width, count in (
        (32000, 4096, 8192), (32000, 128, 65536), (2**20, 64, 2**18), (2**20, 16, 2**18),
        (2**24, 1, 2**20), (2**16, 1, 2**22),
    ):  # fmt: skip
        table = (rows, width) if width > 1 else (rows,)
        name = f"{key} {count} of {'x'.join(map(str, table))}"
        indices = _shape(jnp.int32, count)
        yield KernelProgram(
            "gather", f"gather {name}", lambda t, i: jnp.take(t, i, axis=0, mode="clip"),
            (_shape(dtype, *table), indices), rows,
        )  # fmt: skip
        yield KernelProgram(
            "scatter", f"scatter {name}",
            lambda u, i, table=table: jnp.zeros(table, u.dtype).at[i].add(u, mode="drop"),
            (_shape(dtype, count, *table[1:]), indices), rows,
        )  # fmt: skip
    yield KernelProgram(
        "scatter", f"segment sum {key}", lambda u, i: jax.ops.segment_sum(u, i, 1024),
        (_shape(dtype, 65536, 256), _shape(jnp.int32, 65536)), 1024,
    )  # fmt: skip


def _make_sorts(key: str, dtype: Any) -> Iterator[KernelProgram]:
    for log2 in (12, 16, 20, 24):
        yield KernelProgram("sort", f"sort {key} 2^{log2}", jnp.sort, (_shape(dtype, 2**log2),))
    yield KernelProgram("sort", f"sort {key} 1024x1024", jnp.sort, (_shape(dtype, 1024, 1024),))
    yield KernelProgram("sort", f"argsort {key} 2^20", jnp.argsort, (_shape(dtype, 2**20),))
    for rows, length, k in ((64, 32000, 8), (64, 32000, 64), (8192, 64, 2)):
        yield KernelProgram(
            "sort", f"top {k} {key} {rows}x{length}", lambda x, k=k: lax.top_k(x, k),
            (_shape(dtype, rows, length),),
        )  # fmt: skip


def measure_programs(path: Path) -> None:
    """Measure all programs on the GPU and write them as a table."""
    flushed = jnp.zeros(_FLUSHED_ELEMENTS, jnp.float32)
    flush = jax.jit(lambda x: x + 1)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("program", "kernels", "hot_ns", "cold_ns"))
        for program in list_programs():
            compiled = jax.jit(program.function).lower(*program.shapes).compile()
            arguments = [_make_argument(shape, program) for shape in program.shapes]
            hot = _profile(lambda: compiled(*arguments), lambda: None)  # noqa: B023
            cold = _profile(lambda: compiled(*arguments), lambda: flush(flushed))  # noqa: B023
            writer.writerow((program.name, len(hot) // RUNS, *map(_sum_run_ns, (hot, cold))))


def _make_argument(shape: jax.ShapeDtypeStruct, program: KernelProgram) -> jax.Array:
    seed = jax.random.key(0)
    if jnp.issubdtype(shape.dtype, jnp.integer):
        return jax.random.randint(seed, shape.shape, 0, program.largest_index, shape.dtype)
    return jax.random.normal(seed, shape.shape, jnp.float32).astype(shape.dtype)


def _profile(run: Callable[[], Any], prepare: Callable[[], Any]) -> list[float]:
    """Return the nanoseconds of each kernel of the runs, without those that prepare them."""
    from jaxlib import _profiler

    from hespas.dialects.pjrt import extract_kernel_times_ns

    durations: list[float] = []
    jax.block_until_ready(run())
    for _ in range(RUNS):
        jax.block_until_ready(prepare())
        options = _profiler.ProfileOptions()
        options.python_tracer_level = options.host_tracer_level = 0
        session = _profiler.ProfilerSession(options)
        jax.block_until_ready(run())
        durations += [end - start for start, end in extract_kernel_times_ns(session.stop())]
    return durations


def _sum_run_ns(durations: list[float]) -> int:
    count = len(durations) // RUNS
    sums = [sum(durations[i * count : (i + 1) * count]) for i in range(RUNS)]
    return round(statistics.median(sums))


@dataclass(frozen=True, slots=True)
class MeasuredProgram:
    """The nanoseconds of a program: the sum of its kernels, see the module."""

    kernels: int
    hot_ns: int
    cold_ns: int


def read_measured_programs(path: Path = MEASURED) -> dict[str, MeasuredProgram]:
    """Read a table that ``measure_programs`` wrote, by the names of the programs."""
    with path.open(encoding="utf-8") as file:
        return {
            row["program"]: MeasuredProgram(
                int(row["kernels"]), int(row["hot_ns"]), int(row["cold_ns"])
            )
            for row in csv.DictReader(file)
        }


def read_compiled_programs(path: Path = MEASURED_PROGRAMS) -> dict[str, tuple[str, float]]:
    """Read the HLO text of each compiled program, and the nanoseconds of all its kernels."""
    programs = json.loads(read_file_text(path))
    return {
        name: (program["hlo"], sum(program["kernels_ns"].values()))
        for name, program in programs.items()
    }


def estimate_program_ns(program: KernelProgram, node: str) -> float:
    """Return the nanoseconds of a program that hespas fuses as XLA does."""
    import hespas

    estimate = hespas.estimate(program.function, *program.shapes, target=node, form="fuse")
    return 1e9 * estimate.compute_s


def compare_programs(path: Path, node: str) -> dict[str, list[tuple[str, float]]]:
    """Return the estimated over the measured time of each program, by kind.

    Programs below 5 us are left out: the least time between two launches counts for them, which is
    not part of the times of kernels.
    """
    measured = read_measured_programs(path)
    ratios: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for program in list_programs():
        row = measured.get(program.name)
        if row is not None and row.cold_ns >= 5000:
            ratio = estimate_program_ns(program, node) / row.cold_ns
            ratios[program.kind].append((program.name, ratio))
    return dict(ratios)


def fit_streams(path: Path = MEASURED) -> list[tuple[str, str, int, int, float]]:
    """List class, sizes, operations, bytes and seconds of the streams of one kernel each."""
    measured = read_measured_programs(path)
    return [
        (kind, f"{columns}x{rows}", 0, moved, 1e-9 * measured[program.name].cold_ns)
        for program in list_programs()
        if program.streamed is not None and measured[program.name].kernels == 1
        for kind, columns, rows, moved in [program.streamed]
    ]


def main(arguments: list[str]) -> None:
    command, path = arguments[0], Path(arguments[1])
    if command == "measure":
        measure_programs(path)
        return
    for kind, ratios in sorted(compare_programs(path, arguments[2]).items()):
        logs = [math.log(ratio) for _, ratio in ratios]
        error = math.expm1(statistics.median(map(abs, logs)))
        print(f"{kind:16} {len(ratios):4} programs, median error {100 * error:.0f} %")
        for name, ratio in ratios:
            print(f"  {ratio:6.2f}  {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
