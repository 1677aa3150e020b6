"""Predict published measurements of collectives that no curve and no model was fitted to."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import DATA
from benchmarks.calibration.source_comparisons import build_comparison
from hespas import configs
from hespas.chakra.trace_steps import CollectiveContent, ProgramTrace, TraceStep
from hespas.configs.source_errors import ErrorCause
from hespas.configs.system_spec import SystemSpec
from hespas.passes.emit.trace_tasks import COMM_TYPES
from hespas.simulators.embedded import run_event_simulation
from hespas.simulators.embedded.curves import (
    DeviceCurves,
    is_equal_bandwidth,
    list_devices,
    load_curves,
)
from hespas.simulators.embedded.nccl_tuning import NcclCollectives, load_nccl_tuning
from hespas.simulators.in_memory_programs import InMemoryPrograms
from hespas.simulators.simulation_options import SimulationOptions

LEAST_BYTES = 1 << 20  # whole buffers of training steps; smaller ones cost latency only
_LARGE_BYTES = 1 << 26  # between hosts, where software decides the time of smaller ones
_HOPPER_CLOUDS = ("A3_High_2", "A3_Mega_2", "A3_Ultra_2", "EC2_P5_2")
_RDMA_CLOUDS = ("A3_Ultra_2", "EC2_P5_2")  # whose adapters write to the memory of other hosts
_REFERENCE_DESIGN = "DGX_H100_SuperPOD_2"
_FITTED = "NVIDIA/nccl-tests issue 309"  # which corrects NVLSTree in the model


def compare_networks() -> Iterator[dict[str, Any]]:
    """Compare curves of hosts with equal links, scaled curves, and the models of networks."""
    yield from _compare_other_laboratory()
    yield from _compare_scaled_curves()
    yield from _compare_between_hosts()
    yield from _compare_unstated_networks()
    yield from _compare_tori()


def _read_rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _compare_other_laboratory() -> Iterator[dict[str, Any]]:
    groups: dict[str, list[float]] = {}
    for row in _read_rows("nccl-tests-in-a-host.csv"):
        curves = load_curves(row["device"])
        time_ns = _interpolate_ns(curves, row["collective"], int(row["bytes"]), int(row["devices"]))
        ratio = math.log(1e3 * float(row["time_us"]) / time_ns)
        groups.setdefault(f"{row['device']}, {row['source']}", []).append(ratio)
    for source, ratios in groups.items():
        yield build_comparison("collective", "curve", source, "its curves", ratios)


def _interpolate_ns(
    curves: DeviceCurves, kind: str, whole_bytes: int, devices: int, ratio: float = 1.0
) -> float:
    operand_bytes = whole_bytes // devices if kind == "all_gather" else whole_bytes
    return curves.interpolate_collective(kind, operand_bytes, devices, ratio)[0]


def _compare_scaled_curves() -> Iterator[dict[str, Any]]:
    """Predict the curves of each device by those of each other one, scaled if links differ.

    Curves of RCCL stand for no other device, and are measured otherwise than those of NCCL.
    """
    measured = [curves for curves in map(load_curves, list_devices()) if "NCCL" in curves.source]
    for held_out in measured:
        for donor in measured:
            if donor.device == held_out.device:
                continue
            ratio = held_out.device_gb_s / donor.device_gb_s
            cause: ErrorCause = "scaled"
            if is_equal_bandwidth(ratio):  # another host with as fast links
                ratio, cause = 1.0, "curve"
            log_ratios = list(_generate_scaled_ratios(held_out, donor, ratio))
            if log_ratios:
                yield build_comparison(
                    "collective", cause, held_out.device, donor.device, log_ratios
                )


def _generate_scaled_ratios(
    held_out: DeviceCurves, donor: DeviceCurves, ratio: float
) -> Iterator[float]:
    for kind, curves in held_out.curves.items():
        for curve in curves:
            if not donor.has_measured_group(kind, curve.devices):
                continue
            for size, time_ns in zip(curve.sizes_bytes, curve.times_ns, strict=True):
                if size >= LEAST_BYTES:
                    estimate = _interpolate_ns(donor, kind, size, curve.devices, ratio)
                    yield math.log(time_ns / estimate)


def _compare_between_hosts() -> Iterator[dict[str, Any]]:
    groups: dict[str, list[float]] = {}
    for row in _list_large_messages():
        ratio = _compute_log_ratio(row, row["system"])
        groups.setdefault(f"{row['system']} {row['collective']}, {row['source']}", []).append(ratio)
    yield from _build_rows("modelled", groups, "NCCL's model")


def _compare_unstated_networks() -> Iterator[dict[str, Any]]:
    """Predict the clouds with Hopper by NVIDIA's reference design, as if theirs were not known."""
    groups: dict[str, list[float]] = {}
    for row in _list_large_messages():
        if row["system"] in _HOPPER_CLOUDS:
            ratio = _compute_log_ratio(row, _REFERENCE_DESIGN)
            groups.setdefault(row["system"], []).append(ratio)
    yield from _build_rows("unstated", groups, _REFERENCE_DESIGN)
    rdma = {system: ratios for system, ratios in groups.items() if system in _RDMA_CLOUDS}
    yield from _build_rows("unrated", rdma, _REFERENCE_DESIGN)


def _list_large_messages() -> list[dict[str, str]]:
    return [
        row
        for row in _read_rows("nccl-tests-between-hosts.csv")
        if int(row["bytes"]) >= _LARGE_BYTES and row["source"] != _FITTED
    ]


def _compute_log_ratio(row: Mapping[str, str], system_name: str) -> float:
    """Return the logarithm of the measured time over that of NCCL's model on a system."""
    system = configs.load_system(system_name)
    source = configs.read_system_provenance(system)["sources"]["local-mem-bw"]
    node = configs.load_node(source.removeprefix("node preset "))
    assert node.collectives is not None
    model = NcclCollectives(load_nccl_tuning(node.collectives), system)
    members = range(system.device_count)
    estimates = model.list_estimates(row["collective"], int(row["bytes"]), members)
    allowed = [e for e in estimates if row["methods"] in ("", e.method)]
    return math.log(float(row["time_us"]) / min(allowed).time_us)


def _compare_tori() -> Iterator[dict[str, Any]]:
    groups: dict[str, list[float]] = {}
    for row in _read_rows("tpu-collectives.csv"):
        system = configs.load_system(row["system"])
        time_ns = _time_on_torus_ns(system, row["collective"], int(row["operand_bytes"]))
        ratio = math.log(1e3 * float(row["time_us"]) / time_ns)
        groups.setdefault(f"{row['system']} {row['collective']}", []).append(ratio)
    yield from _build_rows("modelled", groups, "the network model")


def _build_rows(
    cause: ErrorCause, groups: Mapping[str, list[float]], origin: str
) -> Iterator[dict[str, Any]]:
    for held_out, ratios in groups.items():
        yield build_comparison("collective", cause, held_out, origin, ratios)


def _time_on_torus_ns(system: SystemSpec, kind: str, operand_bytes: int) -> int:
    """Return when a collective of all devices of a torus finishes."""
    content = CollectiveContent(kind, int(COMM_TYPES[kind]), operand_bytes, (1,))
    groups = {1: tuple(range(system.device_count))}
    trace = ProgramTrace(system.device_count, groups, [TraceStep(1, (), content)])
    inputs = InMemoryPrograms(trace).place_on_system(system)
    return run_event_simulation(inputs, SimulationOptions(intervals=False)).step_time_ns
