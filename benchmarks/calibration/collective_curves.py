"""Rebuild the curves of collectives between the devices of a host from measured tables.

``python -m benchmarks.calibration.collective_curves FOLDER`` rewrites the all-reduces and
reduce-scatters of ``configs/collectives`` from the tables of NCCL, and the curves of AMD's GPUs
from the table of RCCL that XLA embeds. The tables of NCCL measure 8-bit integers and 16-bit floats.
A time is the mean of both (of the logarithms) at sizes where latency prevails. Of larger messages
only floats count, which programs reduce: switches of H100 add them, and not integers, so that 512
MiB of integers run at 351 GB/s where as many floats run at 445.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from hespas.simulators.embedded.curves import interpolate_power
from hespas.support.data_files import read_file_text

_FOLDER = ROOT / "configs" / "collectives"
_TABLES = {
    "A100_SXM": "a100_sxm", "H100_SXM": "h100_sxm", "H200_SXM": "h200_sxm", "B200_SXM": "b200_sxm",
    "B300_SXM": "b300_sxm", "GB200": "gb200", "GB300": "gb300",
    "RTX_PRO_6000": "rtx_pro_6000_server",
}  # fmt: skip
# The GPUs of XLA's table (``xla.CollectivePerfTable``), which has the whole buffer over the
# time of all groups of a host, which run alongside.
_XLA_TABLE = "collective_xla_perf_table_0.12.0.1.csv.xz"
_XLA_DEVICES = {"MI300X": "gfx942", "MI355X": "gfx950"}
_XLA_ELEMENT_BYTES = {"11": 4, "16": 2}  # f32 and bf16
_REDUCTIONS = ("all_reduce", "reduce_scatter")
_ELEMENT_BYTES = {"half": 2, "int8": 1}
_LARGE_BYTES = 1 << 25
_ERROR_SHARE = 0.8

_Times = Mapping[int, Mapping[str, float]]  # microseconds by bytes and element type


def read_times(text: str) -> dict[tuple[str, int], dict[int, dict[str, float]]]:
    """Return the times of a table by collective and number of devices."""
    times: dict[tuple[str, int], dict[int, dict[str, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for row in csv.DictReader(io.StringIO(text)):
        dtype = row["nccl_dtype"]
        if dtype in _ELEMENT_BYTES:
            size = int(row["message_size"]) * _ELEMENT_BYTES[dtype]
            times[row["op_name"], int(row["num_gpus"])][size][dtype] = 1e3 * float(
                row["latency_ms"]
            )
    return times


def build_reduction_curve(times: _Times) -> dict[str, Any]:
    """Return the object of a curve, whose times do not fall with the size."""
    mean_us: dict[int, float] = {}
    for size, by_type in sorted(times.items()):
        numbers = [by_type[key] for key in by_type if size < _LARGE_BYTES or key == "half"]
        if numbers:
            mean_us[size] = _compute_log_mean(numbers)
    return _build_curve(mean_us)


def _compute_log_mean(numbers: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, numbers)))


def read_xla_times(text: str, device: str) -> dict[tuple[str, int], dict[int, float]]:
    """Return the mean times of XLA's table in us by collective and devices, and by bytes."""
    times: dict[tuple[str, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in csv.DictReader(io.StringIO(text)):
        if row["device"] != device or not row["groups_x_devices"]:
            continue
        kind, devices = row["op"].replace("-", "_"), int(row["groups_x_devices"].partition("x")[2])
        (shape,) = re.findall(r"\((\d+), \[([\d, ]*)\]\)", row["result_shape"])
        size = _XLA_ELEMENT_BYTES[shape[0]] * math.prod(map(int, shape[1].split(",")))
        size *= devices if kind == "reduce_scatter" else 1
        gb_s = float(row["network_throughput_bytes_per_s"]) / 1e9
        times[kind, devices][size].append(size / gb_s / 1e3)
    return {
        key: {size: _compute_log_mean(numbers) for size, numbers in sorted(by_size.items())}
        for key, by_size in times.items()
    }


def _build_curve(mean_us: Mapping[int, float]) -> dict[str, Any]:
    from scipy.optimize import isotonic_regression

    sizes = list(mean_us)
    logs = isotonic_regression([math.log(time) for time in mean_us.values()]).x
    rounded = [float(f"{math.exp(log):.4g}") for log in logs]
    return {"sizes_bytes": sizes, "times_us": rounded, "error": _measure_error(sizes, rounded)}


def _measure_error(sizes: Sequence[int], times_us: Sequence[float]) -> float:
    """Return the error that 80 % of the points do not exceed as their neighbours give them."""
    points = list(zip(sizes, times_us, strict=True))
    triples = zip(points, points[1:], points[2:], strict=False)
    errors = sorted(
        abs(interpolate_power(x, x0, y0, x1, y1) / y - 1) for (x0, y0), (x, y), (x1, y1) in triples
    )
    return round(errors[math.ceil(_ERROR_SHARE * len(errors)) - 1], 3)


def main(arguments: Sequence[str]) -> None:
    """Rewrite the curves of all devices with tables in the folder."""
    folder = Path(arguments[0])
    for device, ending in _TABLES.items():
        times = read_times(read_file_text(folder / f"nccl_{ending}.csv.xz"))
        path = _FOLDER / f"{device}.json"
        data = json.loads(path.read_text())
        for (kind, devices), by_size in times.items():
            if kind in _REDUCTIONS and str(devices) in data["curves"].get(kind, {}):
                data["curves"][kind][str(devices)] = build_reduction_curve(by_size)
        path.write_text(_format_file(data))
    text = read_file_text(folder / _XLA_TABLE)
    for device, name in _XLA_DEVICES.items():
        curves: dict[str, dict[str, Any]] = defaultdict(dict)
        for (kind, devices), mean_us in sorted(read_xla_times(text, name).items()):
            curves[kind][str(devices)] = _build_curve(mean_us)
        path = _FOLDER / f"{device}.json"
        path.write_text(_format_file(json.loads(path.read_text()) | {"curves": curves}))


def _format_file(data: Mapping[str, Any]) -> str:
    """Render a file with each list of numbers on one line."""
    text = json.dumps(data, indent=1)
    return re.sub(r"\[\s+([^\[\]]*?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text) + "\n"


if __name__ == "__main__":
    main(sys.argv[1:])
