"""Reading measured kernels from CSV files, optionally compressed with xz.

The columns of a file identify its form, see ``_FORMS``: that of the micro-benchmarks of hespas, or
one of several public tables.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hespas.configs.calibration import CLASSES
from hespas.estimators.calibrated.device_constants import (
    BATCHED,
    COMPILED,
    SUSTAINED,
    strip_variant,
)
from hespas.estimators.calibrated.kernel_times import QUANTISE_BYTES, SCALED_F4_BYTES
from hespas.support.data_files import read_file_text
from hespas.support.errors import HespasError

# Positions of shapes, by their hash: below TRAIN they are fitted, up to BANDS they calibrate the
# bands, above they test the bands.
TRAIN, BANDS = 0.6, 0.8
# Streams of fewer bytes run from the last-level cache on every GPU of the tables. Where the cache
# is at least as large and memory is GDDR, which is slower, so do those below a multiple of it.
CACHED_BYTES, _CACHE_MULTIPLE = 96e6, 2
_GDDR_BYTES_PER_S = 2e12  # no GPU with GDDR memory has this bandwidth
LEAST_S = 1e-6  # a shorter time is an error of the table: no clock resolves it

_MAX_SIZE = 1 << 53
_SIZE_COUNTS = {
    "product": 4,
    "attention": 3,
    "decode_attention": 3,
    "stream": 2,
}  # by family of classes

_TYPES = {
    "bfloat16": "bf16", "float16": "f16", "half": "f16", "fp8": "f8_quantised", "int8": "i8",
    "nvfp4": "f4_quantised",
    "float32": "f32", "bf16": "bf16", "f16": "f16", "f32": "f32", "f8": "f8", "i8": "i8",
    "tf32": "tf32", "f64": "f64",
}  # fmt: skip
_ELEMENT_BYTES = {  # of operands; others have two
    "f8_quantised": 1, "f4_quantised": SCALED_F4_BYTES, "f8": 1, "i8": 1, "f4": 0.5, "f32": 4,
    "tf32": 4, "f64": 8,
}  # fmt: skip
_TUNED_TYPES = {"bf16": "bf16", "float8_e4m3fn": "f8", "int8": "i8", "fp4": "f4"}
# Operands and result of XLA's table of products, which multiplies f32 as tf32.
_COMPILED_TYPES = {
    "bf16xbf16->bf16": "bf16", "f32xf32->f32": "tf32", "f8e4m3fnxf8e4m3fn->bf16": "f8",
}  # fmt: skip
# Eager kernels by how many operands of the size of the result they read.
_BINARY = frozenset(("add", "sub", "mul", "div", "pow"))
_UNARY = frozenset(("addu", "subu", "mulu", "divu", "powu", "relu", "gelu", "tanh"))
_ROWS = {"softmax": "softmax", "ln": "layer_norm"}
_PREFILL, _DECODING = "context_attention", "generation_attention"
_LATENT_SIZES = {"mla_gen_pre": (512, 128), "mla_gen_post": (128, 512)}  # n, k of each head


@dataclass(frozen=True, slots=True)
class KernelMeasurement:
    """One measured kernel.

    Attributes:
        kind: The class of ``configs.calibration``.
        sizes: (batch, m, n, k) of a product, (heads, queries, head size) of attention, (streams,
            keys, head size) of attention of one query, or (columns, rows) of a stream.
        flops: The operations.
        bytes: The bytes read and written.
        time_s: The measured time in seconds.
        eager: Whether the time includes a launch by an eager framework.
    """

    kind: str
    sizes: tuple[int, ...]
    flops: float
    bytes: float
    time_s: float
    eager: bool

    @property
    def split_position(self) -> float:
        """A position in [0, 1) by the hash of the shape, the same on every device."""
        text = ",".join(map(str, (self.kind.partition(".")[0], *self.sizes)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) / 2**32


@dataclass(frozen=True, slots=True)
class MeasurementTable:
    """The measurements of one file, their provenance, and the rows left out, counted by reason."""

    source: str
    measurements: list[KernelMeasurement]
    left_out: Counter[str]


def is_cached_stream(
    measurement: KernelMeasurement, l2_bytes: int | None, bandwidth_bytes_per_s: float
) -> bool:
    """Return whether a stream is too small for the rate of device memory to show."""
    if not measurement.kind.startswith("stream") or bandwidth_bytes_per_s >= _GDDR_BYTES_PER_S:
        return False
    return (l2_bytes or 0) >= CACHED_BYTES and measurement.bytes < _CACHE_MULTIPLE * (l2_bytes or 0)


_CsvRow = Mapping[str, str]


def read_measurements(path: str, device: str | None = None, source: str = "") -> MeasurementTable:
    """Read a file of measurements.

    Args:
        path: The file.
        device: The device, or the engine, whose rows are used; required if the file holds several.
        source: The provenance, to which the file's name is added.

    Raises:
        HespasError: The file cannot be read, or its form is unknown.
    """
    return parse_measurements(read_file_text(path), path, device, source)


def parse_measurements(
    text: str, path: str, device: str | None = None, source: str = ""
) -> MeasurementTable:
    """Parse the text of a file as :func:`read_measurements` does."""
    try:
        rows: list[_CsvRow] = list(csv.DictReader(io.StringIO(text)))
    except csv.Error as error:
        raise HespasError(f"is not a CSV file: {error}", where=path) from None
    if not rows:
        raise HespasError("the table has no rows", where=path)
    form = next((f for columns, f in _FORMS if columns <= rows[0].keys()), None)
    if form is None:
        known = ", or ".join(",".join(sorted(columns)) for columns, _ in _FORMS)
        raise HespasError(
            f"the columns {','.join(filter(None, rows[0]))} are of no known form",
            where=path,
            remedy=f"known are tables with {known}",
        )
    left_out: Counter[str] = Counter()
    measurements: list[KernelMeasurement] = []
    for number, row in _select_device_rows(rows, device, path, left_out):
        try:
            measurement = form(row)
            if not isinstance(measurement, str):
                _check_measurement(measurement)
        except KeyError as error:
            text = f"row {number} has no column {error}"
            raise HespasError(text, where=path) from None
        except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
            # None is in the place of a text, or a rate is 0.
            raise HespasError(f"row {number} cannot be read: {error}", where=path) from None
        if isinstance(measurement, str):
            left_out[measurement] += 1
        else:
            measurements.append(measurement)
    name = Path(path).name
    return MeasurementTable(f"{source} ({name})" if source else name, measurements, left_out)


def _check_measurement(measurement: KernelMeasurement) -> None:
    """Raise ValueError if a class is unknown, or a number negative or not finite."""
    family = measurement.kind.partition(".")[0]
    if not re.fullmatch(CLASSES, measurement.kind):
        raise ValueError(f"there is no class {measurement.kind!r}")
    if len(measurement.sizes) != _SIZE_COUNTS[family]:
        raise ValueError(f"the sizes of {family} are not {len(measurement.sizes)}")
    amounts = (measurement.flops, measurement.bytes)
    if not 0 <= measurement.time_s < math.inf:
        raise ValueError(f"the time is {measurement.time_s}")
    if not all(0 <= amount < math.inf for amount in amounts):
        raise ValueError(f"the operations or bytes are {amounts}")
    if not all(0 < size < _MAX_SIZE for size in measurement.sizes):
        raise ValueError(f"the sizes are {measurement.sizes}")


def _select_device_rows(
    rows: list[_CsvRow], device: str | None, path: str, left_out: Counter[str]
) -> list[tuple[int, _CsvRow]]:
    """Select the rows of a device, each with its number in the file; raises HespasError."""
    numbered = list(enumerate(rows, 2))
    column = next((name for name in ("Device", "device", "engine") if name in rows[0]), None)
    if column is None:
        return numbered
    names = sorted({row[column] or "" for row in rows})
    if device is None and len(names) > 1:
        remedy = f"choose one with --device: {', '.join(names)}"
        raise HespasError(f"the table has {len(names)} devices", where=path, remedy=remedy)
    selected_device = device if device in names else names[0] if len(names) == 1 else None
    if selected_device is None:
        remedy = f"it has {', '.join(names)}"
        raise HespasError(f"the table has no device '{device}'", where=path, remedy=remedy)
    left_out["other devices"] += sum(row[column] != selected_device for row in rows)
    return [(number, row) for number, row in numbered if row[column] == selected_device]


def describe_kernel(kind: str, point: Sequence[float]) -> KernelMeasurement:
    """Return the work of a kernel of a class at sizes of its correction table, without a time."""
    family, _, name = kind.partition(".")
    if family == "product":
        m, n, k = point
        key = strip_variant(name)
        return replace(_build_product_measurement(key, 1, m, n, k, 0.0, eager=False), kind=kind)
    if family in ("attention", "decode_attention"):
        heads, length, size = point
        queries = length if family == "attention" else 1
        pairs = queries * (queries + 1) / 2 if family == "attention" else length
        moved = 2.0 * 2 * heads * size * (length + queries)
        flops = 4.0 * heads * pairs * size
    else:
        flops, moved = 0.0, 4.0 * 2 * point[0] * point[1]
    return KernelMeasurement(kind, tuple(map(round, point)), flops, moved, 0.0, False)


def _build_product_measurement(
    key: str, batch: int, m: float, n: float, k: float, time_s: float, *, eager: bool
) -> KernelMeasurement:
    size = _ELEMENT_BYTES.get(key, 2)
    result = max(size, 2)
    moved = batch * (size * (m * k + k * n) + result * m * n)
    return KernelMeasurement(
        f"product.{key}",
        (batch, round(m), round(n), round(k)),
        2.0 * batch * m * n * k,
        moved,
        time_s,
        eager,
    )


def _parse_gemm_row(row: _CsvRow) -> KernelMeasurement | str:
    """Parse a linear layer in a CUDA graph."""
    key = _TYPES.get(row["gemm_dtype"])
    if key is None:
        return f"products of {row['gemm_dtype']}: no model"
    m, n, k = (int(row[name]) for name in "mnk")
    return _build_product_measurement(key, 1, m, n, k, 1e-3 * float(row["latency_ms"]), eager=False)


def _parse_sustained_gemm_row(row: _CsvRow) -> KernelMeasurement | str:
    """Parse a linear layer that was repeated until the board reached its power limit."""
    measurement = _parse_gemm_row(row)
    if isinstance(measurement, str) or measurement.kind.endswith(tuple(QUANTISE_BYTES)):
        return "sustained products of 8 bits and less: no model"
    return replace(measurement, kind=measurement.kind + SUSTAINED)


def _parse_latent_attention_row(row: _CsvRow) -> KernelMeasurement | str:
    """Parse the products of latent attention, one for each head, in a CUDA graph."""
    key = _TYPES.get(row["bmm_dtype"])
    if key != "bf16":
        return f"batched products of {row['bmm_dtype']}: no model"
    if row["op_name"] not in _LATENT_SIZES:
        return f"batched products of {row['op_name']}: no model"
    n, k = _LATENT_SIZES[row["op_name"]]
    measurement = _build_product_measurement(
        key,
        int(row["num_heads"]),
        int(row["num_tokens"]),
        n,
        k,
        1e-3 * float(row["latency_ms"]),
        eager=False,
    )
    return replace(measurement, kind=measurement.kind + BATCHED)


def _parse_compiled_product_row(row: _CsvRow) -> KernelMeasurement | str:
    """Parse a product of the table in XLA (its GemmPerfTable), launched by itself.

    Its products of 8 bits take as long with each pair of types, so that one pair is read.
    """
    key = _COMPILED_TYPES.get(row["types"])
    if key is None:
        return f"XLA's products of {row['types']}: no model"
    batch, m, n, k = (int(row[name]) for name in "bmnk")
    time_s = 2 * batch * m * n * k / float(row["flops_per_s"])
    measurement = _build_product_measurement(key, batch, m, n, k, time_s, eager=True)
    return replace(measurement, kind=measurement.kind + COMPILED)


def _parse_tuned_product_row(row: _CsvRow) -> KernelMeasurement | str:
    """Parse a product in the fastest kernel of a search over libraries, timed in a loop."""
    key = _TUNED_TYPES.get(row["dtype"])
    if key is None:
        return f"tuned products of {row['dtype']}: no model"
    if row["batch"] != "1":
        return "batched tuned products: no model"
    m, n, k = (int(row[name]) for name in "mnk")
    time_s = 1e-6 * float(row["latency_us"])
    return _build_product_measurement(key, 1, m, n, k, time_s, eager=False)


def _parse_eager_product_row(row: _CsvRow) -> KernelMeasurement | str:
    """Parse a product in f32, launched eagerly."""
    batch, m, n, k = (int(row[name]) for name in "BMNK")
    return _build_product_measurement(
        "f32", batch, m, n, k, 1e-3 * float(row["latency_ms"]), eager=True
    )


def _parse_stream_row(row: _CsvRow) -> KernelMeasurement | str:
    """Parse an elementwise, softmax or layer normalisation kernel in f32, launched eagerly."""
    op, rows, columns = row["op"], int(row["rows"]), int(row["cols"])
    if op in _BINARY:
        kind, arrays = "loop", 3
    elif op in _UNARY:
        kind, arrays = "loop", 2
    elif op in _ROWS:
        kind, arrays = _ROWS[op], 2
    else:
        return f"kernels of {op}: no model"
    moved = 4.0 * arrays * rows * columns
    time_s = 1e-3 * float(row["latency_ms"])
    return KernelMeasurement(f"stream.{kind}", (columns, rows), 0.0, moved, time_s, True)


def _parse_scale_row(row: _CsvRow) -> KernelMeasurement | str:
    """Parse the scaling of a matrix: 16 bits read and 8 bits written for each element."""
    if row["quant_dtype"] != "fp8":
        return f"scaling to {row['quant_dtype']}: no model"
    rows, columns = int(row["m"]), int(row["k"])
    moved = 3.0 * rows * columns
    if moved < CACHED_BYTES:
        return f"streams of less than {CACHED_BYTES / 1e6:.0f} MB, which stay in the cache"
    time_s = 1e-3 * float(row["latency_ms"])
    return KernelMeasurement("stream.loop", (columns, rows), 0.0, moved, time_s, False)


def _parse_attention_row(row: _CsvRow) -> KernelMeasurement | str:
    """Parse causal flash attention over whole prompts, or of one token to a cache."""
    is_decoding = row.get("op_name", _PREFILL) == _DECODING
    if not is_decoding and (row.get("op_name", _PREFILL) != _PREFILL or int(row["step"])):
        return "attention after a cached prefix"
    if int(row.get("window_size", "0") or 0):
        return "attention in a window"
    if row["kv_cache_dtype"] != "bfloat16" or row["attn_dtype"] != "bfloat16":
        return "attention with quantised keys"
    batch, queries, size = int(row["batch_size"]), int(row["isl"]), int(row["head_dim"])
    heads, shared = int(row["num_heads"]), int(row["num_key_value_heads"])
    if is_decoding:
        keys = queries + int(row["step"])
        moved = 2.0 * 2 * batch * size * (keys * shared + heads)
        return KernelMeasurement(
            "decode_attention", (batch * shared, keys, size), 4.0 * batch * heads * keys * size,
            moved, 1e-3 * float(row["latency_ms"]), False,
        )  # fmt: skip
    if queries < 2:
        return "attention of single tokens"
    pairs = queries * (queries + 1) / 2
    flops = 4.0 * batch * heads * pairs * size
    moved = 2.0 * 2 * batch * queries * size * (heads + shared)
    sizes = (batch * heads, queries, size)
    return KernelMeasurement(
        "attention", sizes, flops, moved, 1e-3 * float(row["latency_ms"]), False
    )


def _parse_own_row(row: _CsvRow) -> KernelMeasurement | str:
    """Parse a micro-benchmark of hespas."""
    kind = row["kernel"]
    sizes = tuple(int(n) for n in row["sizes"].split("x"))
    flops, moved = float(row["flops"]), float(row["bytes"])
    return KernelMeasurement(kind, sizes, flops, moved, float(row["time_s"]), False)


_FORMS: tuple[tuple[frozenset[str], Callable[[_CsvRow], KernelMeasurement | str]], ...] = (
    (frozenset(("kernel", "sizes", "flops", "bytes", "time_s")), _parse_own_row),
    (frozenset(("gemm_dtype", "m", "n", "k", "latency_ms", "power_w")), _parse_sustained_gemm_row),
    (frozenset(("gemm_dtype", "m", "n", "k", "latency_ms")), _parse_gemm_row),
    (frozenset(("types", "b", "m", "n", "k", "flops_per_s")), _parse_compiled_product_row),
    (frozenset(("batch", "m", "n", "k", "library", "latency_us")), _parse_tuned_product_row),
    (frozenset(("B", "M", "N", "K", "latency_ms")), _parse_eager_product_row),
    (
        frozenset(("op_name", "bmm_dtype", "num_tokens", "num_heads", "latency_ms")),
        _parse_latent_attention_row,
    ),
    (frozenset(("op", "rows", "cols", "latency_ms")), _parse_stream_row),
    (frozenset(("m", "k", "quant_dtype", "latency_ms")), _parse_scale_row),
    (frozenset(("isl", "num_heads", "head_dim", "latency_ms")), _parse_attention_row),
)
