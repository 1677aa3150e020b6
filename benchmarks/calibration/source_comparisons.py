"""Predict sources of measurements without them: the comparisons of ``configs/source_errors.json``.

``python -m benchmarks.calibration.source_comparisons FOLDER`` prints that file. FOLDER holds
the public tables of kernels that the shipped constants were fitted to (docs/how-to/calibrate.md).
Each comparison takes one source (a table, an engine, a board) and estimates its kernels with
constants from which it is missing. Steps of whole programs are not read.
"""

from __future__ import annotations

import csv
import json
import math
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any, Self

from benchmarks import DATA
from hespas import configs
from hespas.configs.kernel_families import Family
from hespas.configs.source_errors import ErrorCause
from hespas.estimators.calibrated.device_constants import (
    SUSTAINED,
    TRANSFERRED,
    DeviceConstants,
    KernelFit,
    complete_classes,
)
from hespas.estimators.calibrated.kernel_times import estimate_product_time
from hespas.estimators.product_shapes import MatrixProduct
from hespas.support.data_files import read_file_text
from hespas.support.errors import HespasError
from hespas.workflows.calibration.measurement_tables import (
    KernelMeasurement,
    read_measurements,
)
from hespas.workflows.calibration.node_calibration import estimate_measured_kernel

SOURCES = {
    "tables": "ai-dynamo/aiconfigurator 095f58a51 (Apache-2.0): products, attention, streams, NCCL",
    "f32": "sitar-lab/NeuSight (MIT): products, elementwise kernels, softmax in f32",
    "second": "docs/data/second-sources.csv, docs/data/nccl-tests-in-a-host.csv: see its sources",
    "hosts": "docs/data/nccl-tests-between-hosts.csv: see its sources",
    "tpu": "docs/data/tpu-cycles.csv.xz; AI-Hypercomputer/tpu-recipes (Apache-2.0)",
}
# Errors without a second source: those of another family.
_BORROWED: list[dict[str, str]] = [
    {"family": family, "cause": cause, "from_family": other, "from_cause": cause}
    for family, other, cause in (
        ("attention", "product", "compiler"),
        ("attention", "product", "burst"),
        ("attention", "product", "power limit"),
        ("stream", "product", "extrapolated"),
    )
]
# Boards with tables of their own, with the chip and the ending of their files' names.
_BOARDS = {
    "A100_SXM_80GB": ("A100", "a100_sxm"), "H100_80GB": ("H100", "h100_sxm"),
    "H200_141GB": ("H100", "h200_sxm"), "B200_180GB": ("B200", "b200_sxm"),
    "GB200_186GB": ("B200", "gb200"), "B300_288GB": ("B300", "b300_sxm"),
    "GB300_288GB": ("B300", "gb300"), "L40S_48GB": ("L40S", "l40s"),
    "RTX_PRO_6000_96GB": ("RTX PRO 6000", "rtx_pro_6000_server"),
}  # fmt: skip
_F32_BOARDS = {  # with the chip and the device in NeuSight's tables
    "A100_PCIe_80GB": ("A100", "NVIDIA A100 80GB PCIe"),
    "A100_PCIe_40GB": ("A100", "NVIDIA A100-PCIE-40GB"),
    "V100_PCIe_32GB": ("V100", "Tesla V100-PCIE-32GB"),
    "L4_24GB": ("L4", "NVIDIA L4"),
}
_FAMILIES: dict[str, Family] = {
    "product": "product", "attention": "attention", "stream": "stream",
}  # fmt: skip
_LEAST_S, _MOST_S = 3e-5, 2e-2  # kernels that make up training steps
_MOST_KERNELS = 300  # of a source, at equal distances in its table
_SUSTAINED_PRODUCT = f"product.bf16{SUSTAINED}"
_POWER_DONORS = {  # boards with tables at the power limit, and another board with known energies
    "H200_141GB": "B200_180GB", "B200_180GB": "H200_141GB", "GB200_186GB": "B200_180GB",
}  # fmt: skip
_FITTED_ENGINE = "vllm"  # whose tables the constants were fitted to
# Small sizes, which larger ones are extrapolated from, by class, with the stem of its tables.
_SMALL_SIZES = {
    "product.bf16": ("gemm", (1, 4096, 4096, 4096)),
    "attention": ("attention", (64, 4096, 128)),
}
# The classes of docs/data/second-sources.csv, with the library of rows that name none. Products at
# an unknown power limit, product.bf16_sustained, are not among them: `power_limits` infers the
# limit from these very products, so that nothing is left to compare.
_SECOND_CLASSES = {"product.bf16": "XLA's table", "attention": "cuDNN", "stream.layer_norm": ""}
_MOST_FITTED = 4000  # kernels
# Square products in bf16 (AI-Hypercomputer/tpu-recipes, microbenchmarks): sizes and TFLOP/s; on v6e
# by the host and by the device.
_TPU_SQUARES_TFLOP_S = {
    "TPUv6e": ((8192, 754.22), (8192, 827.47)),
    "TPU7x_core": ((16384, 950.13), (32768, 956.38)),
}
_TPU7X_CYCLES_SHARE = 0.85  # of the peak rate: the median of docs/data/tpu-cycles.csv.xz
SECOND_SOURCES = DATA / "second-sources.csv"
"""Kernels that other laboratories measured on boards whose constants are known."""


@dataclass(frozen=True)
class HeldOutSource:
    """The kernels of one source."""

    name: str
    family: Family
    kernels: Sequence[KernelMeasurement]

    @classmethod
    def from_kernels(cls, name: str, kind: str, kernels: Sequence[KernelMeasurement]) -> Self:
        """Take at most some ``_MOST_KERNELS`` kernels of a class, at equal distances."""
        step = max(1, len(kernels) // _MOST_KERNELS)
        return cls(name, _FAMILIES[kind.partition(".")[0]], kernels[::step])

    def compare(self, cause: ErrorCause, constants: DeviceConstants, origin: str) -> dict[str, Any]:
        """Return the comparison with constants that know nothing of the source."""
        log_ratios = []
        for kernel in self.kernels:
            estimate = estimate_measured_kernel(constants, kernel)
            eager_s = estimate.fit.eager_s if kernel.eager else 0.0
            log_ratios.append(math.log(kernel.time_s / (estimate.time_s + eager_s)))
        return build_comparison(self.family, cause, self.name, origin, log_ratios)


def build_comparison(
    family: Family, cause: ErrorCause, held_out: str, origin: str, log_ratios: Sequence[float]
) -> dict[str, Any]:
    """Build a row of ``source_errors.json`` from logarithms of measured over predicted time."""
    return {
        "family": family, "cause": cause, "held_out": held_out, "predicted_from": origin,
        "kernels": len(log_ratios), "log_ratio": round(statistics.median(log_ratios), 3),
    }  # fmt: skip


def read_source(
    path: Path, kind: str, name: str, device: str | None = None
) -> HeldOutSource | None:
    """Read the kernels of a class from a table; None if it has none of the wanted durations."""
    kernels = [
        kernel
        for kernel in read_measurements(str(path), device).measurements
        if kernel.kind == kind and _LEAST_S <= kernel.time_s <= _MOST_S
    ]
    if not kernels:
        return None
    return HeldOutSource.from_kernels(name, kind, kernels)


def list_engines(path: Path) -> list[str]:
    """List the engines of a table, which its rows name."""
    text = read_file_text(path)
    return sorted({row["engine"] for row in csv.DictReader(text.splitlines())})


def load_constants(
    name: str, calibration: Mapping[str, Any] | None = None, without: Iterable[str] = ()
) -> DeviceConstants:
    """Return the constants of a board, with another calibration, or without some classes."""
    node = configs.load_node(name)
    node = node if calibration is None else replace(node, calibration=calibration)
    constants = DeviceConstants.from_node(node)
    left_out = set(without)
    if not left_out:
        return constants
    fits = {key: fit for key, fit in constants.fits.items() if key not in left_out}
    return replace(constants, fits=complete_classes(fits))


def drop_correction(name: str, kind: str) -> DeviceConstants:
    """Return the constants of a board without the correction of a class, as for convolutions."""
    constants = load_constants(name)
    fit = replace(constants.fits[kind], residual=None)
    return replace(constants, fits={**constants.fits, kind: fit})


def load_burst_constants(name: str) -> DeviceConstants:
    """Return the constants of a board's bursts, without its model of power."""
    constants = load_constants(name)
    fits = {key: fit for key, fit in constants.fits.items() if not key.endswith(SUSTAINED)}
    return replace(constants, fits=fits, power=None)


def compare_boards(
    sources: Mapping[str, HeldOutSource], chips: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Predict each board from each other one: of the same chip, or of another."""
    for board, source in sources.items():
        for donor in sources:
            if donor == board:
                continue
            cause: ErrorCause = "same chip" if chips[donor] == chips[board] else "transferred"
            constants = load_constants(board, {"like": donor})
            yield source.compare(cause, constants, donor)


def compare_products_and_attention(folder: Path) -> Iterator[dict[str, Any]]:
    """Compare the boards of aiconfigurator, and their classes with related ones."""
    chips = {board: chip for board, (chip, _) in _BOARDS.items()}
    for kind, stem in (("product.bf16", "gemm"), ("attention", "attention")):
        sources = {
            board: source
            for board, (_, ending) in _BOARDS.items()
            if (source := read_source(folder / f"{stem}_{ending}.csv.xz", kind, board))
        }
        yield from compare_boards(sources, chips)
        for board, source in sources.items():
            if kind == "attention":
                constants, origin = load_constants(board, without=["attention"]), "products"
            else:
                constants, origin = drop_correction(board, kind), "no correction over sizes"
            yield source.compare("assumed", constants, f"{board}, {origin}")


def compare_streams(folder: Path) -> Iterator[dict[str, Any]]:
    """Compare the streams of aiconfigurator by board, and those of its engines on each board."""
    fitted: dict[str, HeldOutSource] = {}
    for board, (_, ending) in _BOARDS.items():
        path = folder / f"stream_{ending}.csv.xz"
        for engine in list_engines(path) if path.exists() else ():
            source = read_source(path, "stream.loop", board, engine)
            if source is not None and engine.startswith(_FITTED_ENGINE):
                fitted[board] = source
            elif source is not None:
                named = replace(source, name=f"{board}, {engine}")
                yield named.compare("source", load_constants(board), board)
    yield from compare_boards(fitted, {board: chip for board, (chip, _) in _BOARDS.items()})


def read_sustained_sources(
    folder: Path, stem: str, kind: str, boards: Iterable[str]
) -> Iterator[tuple[str, str, HeldOutSource]]:
    """Yield board, engine and kernels of each table at the power limit."""
    for board in boards:
        path = folder / f"{stem}_sustained_{_BOARDS[board][1]}.csv.xz"
        for engine in list_engines(path):
            source = read_source(path, kind, f"{board}, {engine}", engine)
            if source is not None:
                yield board, engine, source


def compare_clocks(folder: Path) -> Iterator[dict[str, Any]]:
    """Compare kernels at the power limit with bursts of products, and with another engine."""
    sources = read_sustained_sources(folder, "gemm", _SUSTAINED_PRODUCT, _POWER_DONORS)
    for board, engine, source in sources:
        if engine.startswith(_FITTED_ENGINE):
            kernels = [replace(kernel, kind="product.bf16") for kernel in source.kernels]
            bursts = replace(source, kernels=kernels)
            yield bursts.compare("burst", load_burst_constants(board), "its bursts")
        else:
            yield source.compare("source", load_constants(board), f"{board}, vllm")
    # Attention takes as long at the power limit as in bursts, so engines are all that differs.
    boards = ("B200_180GB", "GB200_186GB")
    for board, _, source in read_sustained_sources(folder, "attention", "attention", boards):
        yield source.compare("source", load_constants(board), f"{board}, vllm")


def compare_power_models(folder: Path) -> Iterator[dict[str, Any]]:
    """Predict products at the power limit from bursts and the energies of another board."""
    sources = read_sustained_sources(folder, "gemm", _SUSTAINED_PRODUCT, _POWER_DONORS)
    for board, _, source in sources:
        donor = _POWER_DONORS[board]
        constants, power = load_burst_constants(board), load_constants(donor).power
        assert power is not None
        limited = replace(power, limit_w=constants.node.tdp_w or power.limit_w)
        constants = replace(constants, power=limited)
        yield source.compare("power limit", constants, f"its bursts, energies of {donor}")


def compare_f32_boards(folder: Path) -> Iterator[dict[str, Any]]:
    """Compare the boards of NeuSight: elementwise kernels, softmax, layer normalisation."""
    chips = {board: chip for board, (chip, _) in _F32_BOARDS.items()}
    for kind in ("stream.loop", "stream.softmax", "stream.layer_norm"):
        path = folder / "vector_f32.csv.xz"
        sources = {
            board: replace(source, name=f"{board} {kind}")
            for board, (_, device) in _F32_BOARDS.items()
            if (source := read_source(path, kind, board, device))
        }
        yield from compare_boards(sources, chips)
        if kind != "stream.loop":
            for board, source in sources.items():
                constants = load_constants(board, without=[kind, "stream.softmax"])
                yield source.compare("assumed", constants, f"{board}, other streams")


def compare_sizes(folder: Path) -> Iterator[dict[str, Any]]:
    """Predict kernels with a size beyond all that a fit has seen, on three boards."""
    for board in ("A100_SXM_80GB", "L40S_48GB", "B200_180GB"):
        for kind, (stem, limits) in _SMALL_SIZES.items():
            path = folder / f"{stem}_{_BOARDS[board][1]}.csv.xz"
            kernels = [k for k in read_measurements(str(path)).measurements if k.kind == kind]
            yield _compare_larger_sizes(board, kind, kernels, limits)


def _compare_larger_sizes(
    board: str, kind: str, kernels: Sequence[KernelMeasurement], limits: Sequence[int]
) -> dict[str, Any]:
    """Fit the kernels within limits, and predict the others."""
    from hespas.workflows.calibration.kernel_fit import fit_kernel_class

    constants = load_constants(board)
    node = constants.node
    small = [k for k in kernels if is_within(k.sizes, limits)]
    large = [
        k for k in kernels if not is_within(k.sizes, limits) and _LEAST_S <= k.time_s <= _MOST_S
    ]
    fit = fit_kernel_class(
        small[:: max(1, len(small) // _MOST_FITTED)],
        node.find_peak_rate("matrix", "bf16").flops_per_s,
        node.memory_bandwidth_bytes_per_s,
        "",
    )
    fits = {**constants.fits, kind: KernelFit.from_preset(kind, fit, frozenset())}
    source = HeldOutSource.from_kernels(board, kind, large)
    return source.compare("extrapolated", replace(constants, fits=fits), "smaller sizes")


def is_within(sizes: Sequence[int], limits: Sequence[int]) -> bool:
    """Return whether no size exceeds its limit."""
    return all(size <= limit for size, limit in zip(sizes, limits, strict=True))


def compare_compiler_estimates() -> Iterator[dict[str, Any]]:
    """Compare products of TPUs with constants from the cycles that XLA:TPU expects."""
    for board, squares in _TPU_SQUARES_TFLOP_S.items():
        constants = load_constants(board)
        fit = load_constants("TPUv6e").fits["product.bf16"]  # from cycles
        if board == "TPU7x_core":
            fit = replace(fit, efficiency=_TPU7X_CYCLES_SHARE)
        constants = replace(constants, fits={**constants.fits, "product.bf16": fit})
        log_ratios = []
        for size, rate in squares:
            shape = MatrixProduct(size, size, size, 1, "bf16", 2 * size**3)
            estimate = estimate_product_time(constants, shape, 6.0 * size**2)
            log_ratios.append(math.log(shape.flops / (rate * 1e12) / estimate.time_s))
        yield build_comparison("product", "compiler", board, "XLA:TPU's cycles", log_ratios)


def compare_second_sources() -> Iterator[dict[str, Any]]:
    """Compare measurements of other laboratories on boards whose constants are known.

    A class that the board has from another chip is a comparison of both chips.
    """
    with SECOND_SOURCES.open(encoding="utf-8") as file:
        devices = sorted({row["device"] for row in csv.DictReader(file)})
    for device in devices:
        board, _, library = device.partition(" ")
        constants = load_constants(board)
        for kind, name in _SECOND_CLASSES.items():
            source = read_source(SECOND_SOURCES, kind, f"{board}, {library or name}", device)
            if source is not None:
                fit = constants.fits[kind]
                cause: ErrorCause = "transferred" if TRANSFERRED in fit.tags else "source"
                yield source.compare(cause, constants, fit.name.partition(" ")[0])


def main(argv: Sequence[str]) -> None:
    """Print ``source_errors.json`` from the tables in a folder."""
    (folder,) = map(Path, argv)
    from benchmarks.calibration import network_comparisons

    generators = (
        compare_products_and_attention(folder), compare_streams(folder),
        compare_clocks(folder), compare_power_models(folder),
        compare_f32_boards(folder), compare_sizes(folder), compare_second_sources(),
        compare_compiler_estimates(),
        network_comparisons.compare_networks(),
    )  # fmt: skip
    rows = [row for generator in generators for row in generator]
    text = json.dumps({"date": date.today().isoformat(), "sources": SOURCES}, indent=1)[:-2]
    for key, items in (("borrowed", _BORROWED), ("comparisons", rows)):
        text += f',\n "{key}": [\n  ' + ",\n  ".join(map(json.dumps, items)) + "\n ]"
    print(text + "\n}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except HespasError as error:
        sys.exit(str(error))
