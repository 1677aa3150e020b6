"""Refit the constants of the shipped nodes to their public tables, and rewrite their files.

``python -m benchmarks.calibration.shipped_nodes FOLDER [NODE ...]`` reads the tables in
FOLDER (docs/how-to/calibrate.md). What a fit does not contain, such as the source, a power limit or
the factor of backward attention, stays as it is. Tables that are not in FOLDER are left out, with a
note: their classes keep their constants, and their corrections are only made monotone.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import DATA, ROOT
from hespas import configs
from hespas.configs.calibration import AXES
from hespas.configs.node_spec import NodeSpec
from hespas.estimators.calibrated.attention_shape import AttentionShape
from hespas.estimators.calibrated.device_constants import DeviceConstants
from hespas.estimators.calibrated.kernel_times import estimate_attention_time
from hespas.workflows.calibration.kernel_fit import (
    evaluate_at_sizes,
    project_monotone,
    sum_least_growth,
)
from hespas.workflows.calibration.measurement_tables import MeasurementTable, read_measurements
from hespas.workflows.calibration.node_calibration import (
    calibrate_node,
    format_json_lines,
    look_up_peak_flops,
)

_NODES = ROOT / "configs" / "nodes"
_VLLM, _SUSTAINED_VLLM = "vllm 0.24.0", "vllm 0.22.0"
_XLA_TABLE = "gemm_xla_perf_table_0.12.0.1"
_NEUSIGHT = ("vector_f32", "linear_f32", "bmm_f32")
# The tables of each node, with the device or engine whose rows are used.
SHIPPED_TABLES: Mapping[str, tuple[tuple[str | None, tuple[str, ...]], ...]] = {
    "A100_SXM_80GB": ((None, ("gemm-random-a100-sxm", "attention_a100_sxm", "bmm_bf16_a100_sxm")),),
    "A100_PCIe_40GB": (("NVIDIA A100-PCIE-40GB", _NEUSIGHT),),
    "A100_PCIe_80GB": (("NVIDIA A100 80GB PCIe", _NEUSIGHT),),
    "V100_PCIe_32GB": (("Tesla V100-PCIE-32GB", _NEUSIGHT),),
    "L4_24GB": (("NVIDIA L4", _NEUSIGHT),),
    "H200_141GB": (
        (None, ("gemm_h200_sxm", "attention_h200_sxm", "bmm_bf16_h200_sxm")),
        (_VLLM, ("stream_h200_sxm",)),
        (_SUSTAINED_VLLM, ("gemm_sustained_h200_sxm",)),
    ),
    "H100_80GB": (
        (None, ("gemm_h100_sxm", "attention_h100_sxm", "bmm_bf16_h100_sxm")),
        ("NVIDIA H100 80GB HBM3", ("linear_f32", "bmm_f32")),
        (_VLLM, ("stream_h100_sxm",)),
        ("sm_90", (_XLA_TABLE,)),
    ),
    "B200_180GB": (
        (None, ("gemm_b200_sxm", "attention_b200_sxm", "bmm_bf16_b200_sxm")),
        (_VLLM, ("stream_b200_sxm",)),
        (_SUSTAINED_VLLM, ("gemm_sustained_b200_sxm",)),
        ("sm_100_B200", (_XLA_TABLE,)),
    ),
    "MI300X": (("gfx942", (_XLA_TABLE,)),),
    "MI355X": (("MI350X_or_MI355X", ("gemm_amd_aiter",)), ("gfx950", (_XLA_TABLE,))),
    "GB200_186GB": (
        (_VLLM, ("gemm_gb200", "attention_gb200", "stream_gb200", "bmm_bf16_gb200")),
        (_SUSTAINED_VLLM, ("gemm_sustained_gb200",)),
    ),
    "B300_288GB": (
        (_VLLM, ("gemm_b300_sxm", "attention_b300_sxm", "stream_b300_sxm", "bmm_bf16_b300_sxm")),
    ),
    "GB300_288GB": ((_VLLM, ("gemm_gb300", "attention_gb300", "stream_gb300", "bmm_bf16_gb300")),),
    "L40S_48GB": ((_VLLM, ("gemm_l40s", "attention_l40s", "stream_l40s", "bmm_bf16_l40s")),),
    "RTX_PRO_6000_96GB": (
        (
            _VLLM,
            tuple(
                f"{table}_rtx_pro_6000_server"
                for table in ("gemm", "attention", "stream", "bmm_bf16")
            ),
        ),
    ),
}
_HEADS, _WIDE_HEADS, _WIDE_HEAD_SIZE = 128, 32, 256  # of the measured backward calls
# Tables of another board with the same chip at the same limit, whose whole fit a node takes.
_TAKEN_FITS = {"H100_80GB": {"product.bf16_sustained": "H200_141GB"}}


def read_tables(folder: Path, node: str) -> Iterator[MeasurementTable]:
    """Yield the tables of a node that FOLDER or the documentation holds."""
    for device, names in SHIPPED_TABLES.get(node, ()):
        for name in names:
            path = next(
                (p for p in (folder / f"{name}.csv.xz", DATA / f"{name}.csv.xz") if p.exists()),
                None,
            )
            if path is None:
                print(f"{node}: {name} is not in {folder}", file=sys.stderr)
                continue
            yield read_measurements(str(path), _select_engine(device, name))


def _select_engine(device: str | None, name: str) -> str | None:
    """Return the engine of a table; those of batched products have one, which is not vLLM."""
    return None if name.startswith("bmm_bf16") else device


def make_class_monotone(
    kind: str, fit: Mapping[str, Any], peaks: tuple[float, float]
) -> dict[str, Any]:
    """Return the correction table of a class without measurements, made monotone.

    Its knots are so far apart that each line of knots also has to stand for those halfway to the
    knots below, where the time grows less.

    Args:
        kind: The class.
        fit: The object of the class in ``calibration.fits``.
        peaks: The peak rate in FLOP/s and the memory bandwidth in bytes/s.
    """
    residual = fit["residual"]
    axes = [residual[name] for name in AXES[kind.partition(".")[0]]]
    x = [fit["fixed_s"], fit.get("efficiency", 1.0), fit["bandwidth"], fit.get("power", 1.0),
         fit.get("s_per_k", 0.0)]  # fmt: skip

    def compute_log_base(sizes: Any) -> Any:
        return np.log(evaluate_at_sizes(kind, x, sizes, peaks))

    def list_rows(axis: Sequence[float]) -> list[Sequence[float]]:
        halfway = [math.sqrt(low * high) for low, high in itertools.pairwise(axis)]
        return [axis, [axis[0], *halfway]]

    growth = [sum_least_growth(axes, at, compute_log_base, list_rows) for at in range(len(axes))]
    values = np.array(residual["permille"]) / 1000
    monotone = project_monotone(values, growth, np.ones(len(values)))
    return dict(residual) | {"permille": np.round(1000 * monotone).astype(int).tolist()}


def refit_node(node: NodeSpec, tables: list[MeasurementTable]) -> dict[str, Any]:
    """Return the calibration of a node with new fits, and monotone corrections of other classes."""
    calibration: dict[str, Any] = dict(node.calibration or {})
    old: dict[str, Any] = calibration.get("fits", {})
    refitted = calibrate_node(node, tables, calibration["date"])
    fits = {}
    for kind, fit in old.items():
        if kind in refitted.fitted:
            new = refitted.data["fits"][kind]
            report = {**new["fit"], "source": fit["fit"]["source"]}
            fits[kind] = {**fit, **new, "fit": report}
        elif "residual" in fit:
            peaks = (look_up_peak_flops(node, kind), node.memory_bandwidth_bytes_per_s)
            fits[kind] = fit | {"residual": make_class_monotone(kind, fit, peaks)}
        else:
            fits[kind] = fit
    added = {kind: fit for kind, fit in refitted.data["fits"].items() if kind not in old}
    fits = dict(sorted((fits | added).items()))
    refitted_calibration = calibration | {"fits": fits}
    attention = fits.get("attention", {})
    if "backward" in attention:
        fits["attention"] = attention | {
            "backward": keep_backward_times(node, calibration, refitted_calibration)
        }
    return refitted_calibration


def keep_backward_times(
    node: NodeSpec, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the backward factors with which backward calls take their time of before the refit.

    They were measured as factors over the forward call of the fit, with the numbers of heads of
    docs/reference/calibrated.md.
    """
    backward = after["fits"]["attention"]["backward"]
    old, new = (
        DeviceConstants.from_node(replace(node, calibration=calibration))
        for calibration in (before, after)
    )
    factors = []
    knots = itertools.product(backward["queries"], backward["head_size"])
    for (queries, head_size), permille in zip(knots, backward["permille"], strict=True):
        heads = _WIDE_HEADS if head_size == _WIDE_HEAD_SIZE else _HEADS
        flops = 5 * heads * head_size * queries * (queries + 1)
        moved = 4 * 2 * heads * queries * head_size * 2
        shape = AttentionShape(heads, queries, head_size, "bf16", flops, backward=False)
        old_s, new_s = (estimate_attention_time(c, shape, moved).time_s for c in (old, new))
        old_launch_s, new_launch_s = (c.fits["attention"].fixed_s for c in (old, new))
        backward_s = old_launch_s + (old_s - old_launch_s) * math.exp(permille / 1000)
        factor = (backward_s - new_launch_s) / (new_s - new_launch_s)
        factors.append(round(1000 * math.log(factor)))
    return dict(backward) | {"permille": factors}


def rewrite_fits(text: str, calibration: Mapping[str, Any]) -> str:
    """Return the text of a node file with the fits of a calibration, and all else as it is."""
    fits = format_json_lines("fits", calibration["fits"], 2)
    start = text.index('    "fits": {')
    end = re.compile(r"^    \}", re.MULTILINE).search(text, start)
    assert end is not None
    return text[:start] + fits + text[end.end() :]


def main(arguments: list[str]) -> None:
    """Refit the nodes named in the arguments, or all."""
    folder, *names = arguments
    for name in names or SHIPPED_TABLES:
        calibration = refit_node(configs.load_node(name), list(read_tables(Path(folder), name)))
        fits = calibration["fits"]
        for kind, donor in _TAKEN_FITS.get(name, {}).items():
            taken = (configs.load_node(donor).calibration or {})["fits"][kind]
            report = {**taken["fit"], "source": fits[kind]["fit"]["source"]}
            fits[kind] = {**fits[kind], **taken, "fit": report}
        path = _NODES / f"{name}.json"
        path.write_text(rewrite_fits(path.read_text(), calibration))
        medians = {kind: fit["fit"]["median"] for kind, fit in fits.items() if "fit" in fit}
        print(name, json.dumps(medians))


if __name__ == "__main__":
    main(sys.argv[1:])
