"""Convert measured times of collectives to curves: ``python -m hespas.simulators.measured``.

The input is a CSV file (or .csv.xz) with the columns op_name, nccl_dtype, num_gpus, message_size
(elements of the whole buffer) and latency_ms, counted as in nccl-tests and aiconfigurator.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hespas.support.csv_rows import read_csv_rows
from hespas.support.errors import HespasError

_COLUMNS = ("op_name", "nccl_dtype", "num_gpus", "message_size", "latency_ms")
_KINDS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
_ELEMENT_BYTES = {"int8": 1, "half": 2, "bfloat16": 2, "float": 4}
_ERROR_QUANTILE = 0.8
_MIN_SIZES = 3  # the error is computed at points between two others


def read_latency_table(path: str) -> dict[tuple[str, int], dict[int, float]]:
    """Read a table of measured times.

    Returns:
        The time in us by (kind, devices), then by bytes of the whole buffer: the geometric mean if
        several element types have the same number of bytes.

    Raises:
        HespasError: The file cannot be read, or a row is wrong.
    """
    log_times: dict[tuple[str, int], dict[int, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for line, row in read_csv_rows(path, _COLUMNS):
        try:
            size = int(row["message_size"]) * _ELEMENT_BYTES[row["nccl_dtype"]]
            key = _KINDS[row["op_name"]], int(row["num_gpus"])
            latency_ms = float(row["latency_ms"])
            if size < 1 or key[1] < 2 or not 0 < latency_ms < math.inf:
                raise ValueError("message_size, num_gpus or latency_ms is out of range")
            log_times[key][size].append(math.log(1000 * latency_ms))
        except (KeyError, ValueError, TypeError) as error:
            where = f"{path}:{line}"
            raise HespasError(f"is not a row of a collective: {error}", where=where) from None
    return {
        key: {size: math.exp(sum(logs) / len(logs)) for size, logs in sorted(by_size.items())}
        for key, by_size in log_times.items()
    }


def build_curve_entry(times_us: Mapping[int, float]) -> dict[str, Any]:
    """Return a curve as written to the file: times rounded to four digits, never falling."""
    sizes = sorted(times_us)
    times, highest = [], 0.0
    for size in sizes:
        highest = max(highest, times_us[size])
        times.append(float(f"{highest:.4g}"))
    return {
        "sizes_bytes": sizes,
        "times_us": times,
        "error": round(compute_held_out_error(sizes, times), 3),
    }


def compute_held_out_error(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Compute the 80 % quantile of the relative errors of interpolating each inner point."""
    from hespas.simulators.embedded.curves import interpolate_power

    errors = sorted(
        abs(interpolate_power(x, x0, y0, x1, y1) / y - 1)
        for x0, x, x1, y0, y, y1 in zip(
            sizes, sizes[1:], sizes[2:], times, times[1:], times[2:], strict=False
        )
    )
    return errors[min(len(errors) - 1, int(_ERROR_QUANTILE * len(errors)))]


def build_curve_file(
    path: str, description: str, source: str, device_gb_s: float, device_gb_s_source: str
) -> dict[str, Any]:
    """Build the contents of a file of ``configs/collectives``.

    Args:
        path: The table of measured times.
        description: What was measured.
        source: Where the measurements come from.
        device_gb_s: Bandwidth at which a device can send to the others of its host, in 1e9 B/s.
        device_gb_s_source: Where that number comes from.

    Raises:
        HespasError: The table is wrong or has too few sizes.
    """
    curves: dict[str, dict[str, Any]] = {}
    for (kind, devices), times_us in sorted(read_latency_table(path).items()):
        if len(times_us) < _MIN_SIZES:
            raise HespasError(
                f"there are {len(times_us)} sizes of {kind} between {devices} devices, but "
                f"computing the error needs {_MIN_SIZES}",
                where=path,
            )
        curves.setdefault(kind, {})[str(devices)] = build_curve_entry(times_us)
    return {
        "description": description,
        "source": source,
        "device_gb_s": device_gb_s,
        "device_gb_s_source": device_gb_s_source,
        "curves": curves,
    }


def main() -> None:
    parser = argparse.ArgumentParser("hespas.simulators.measured", description=__doc__)
    for name in ("table", "description", "source"):
        parser.add_argument(name)
    parser.add_argument("device_gb_s", type=float)
    parser.add_argument("device_gb_s_source")
    arguments = parser.parse_args()
    try:
        curve_file = build_curve_file(
            arguments.table, arguments.description, arguments.source, arguments.device_gb_s,
            arguments.device_gb_s_source,
        )  # fmt: skip
        json.dump(curve_file, sys.stdout, indent=1)
    except HespasError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
