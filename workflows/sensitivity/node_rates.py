"""The rates of a node and of a network that a step depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.dialects.attrs import MemoryAttr
from hespas.estimators.base import DeviceRate
from hespas.support.errors import HespasError
from hespas.workflows.run_flow import find_memory_plan
from hespas.workflows.sensitivity.step_replay import StepReplay

RateKind = Literal[
    "products", "vector", "clock", "sram", "memory", "memory capacity", "power", "launch",
    "link bandwidth", "link latency",
]  # fmt: skip
_LOWER_CLOCKS = (1.0, 1.25, 2.0, 4.0, 16.0)  # that are tried below a higher one


@dataclass(frozen=True)
class StepRate:
    """A rate that a step depends on.

    The inverses of times count as rates (``launch``, ``link latency``), so that a factor above 1
    on any rate makes the device or the network better.

    Attributes:
        name: What it is a rate of, such as ``bf16 products``.
        kind: The kind of rate.
        value: Its value; for a time, the seconds; None if there are several values.
        unit: The unit of the value.
        compute_step_s: Computes the step time at a factor on the rate, in seconds.
        least: The factor below which the device cannot run the step; None if there is none.
        links: The number of devices of a host, for a bandwidth between hosts; else 0.
    """

    name: str
    kind: RateKind
    value: float | None
    unit: str
    compute_step_s: Callable[[float], float]
    links: int = 0
    least: float | None = None


def list_step_rates(replay: StepReplay) -> list[StepRate]:
    """List the rates of the node and of the network of a step that its kernels and links have."""
    device_rates = list(_list_device_rates(replay))
    kinds = {rate.kind for rate in device_rates}
    node_rates = [*_list_product_rates(replay), *_list_other_node_rates(replay)]
    rates = [*(rate for rate in node_rates if rate.kind not in kinds), *device_rates]
    rates += _list_capacity_rate(replay)
    if replay.network is not None:
        rates += _list_link_rates(replay, replay.network.system)
    return rates


def _list_device_rates(replay: StepReplay) -> Iterator[StepRate]:
    """Yield the numbers of the device that its estimator knows besides the rates of its node.

    At a higher clock a device runs each kernel at the clock up to it at which it is fastest: where
    power is the limit, the highest one takes more energy than it saves time.
    """
    for rate in replay.base_estimator.list_device_rates():

        def compute_step_s(factor: float, rate: DeviceRate = rate) -> float:
            factors = [factor]
            if rate.kind == "clock":
                factors += [each for each in _LOWER_CLOCKS if each < factor]
            times_ns = [replay.estimate_all(rate.scale(each)) for each in factors]
            return replay.compute_step_s(
                [min(kernel_ns) for kernel_ns in zip(*times_ns, strict=True)]
            )

        kind = cast(RateKind, rate.kind)
        yield StepRate(rate.name, kind, rate.value, rate.unit, compute_step_s, least=rate.least)


def _list_capacity_rate(replay: StepReplay) -> list[StepRate]:
    """List the memory capacity, on which depends only whether the program runs."""
    memory, capacity = MemoryAttr.read_from_op(replay.module.operation), replay.node.memory_bytes
    if memory is None or not capacity:
        return []
    plan = find_memory_plan(replay.module, replay.node)
    needed_bytes = plan.get("peak", memory.peak_bytes)
    name, least = "memory capacity", needed_bytes / capacity
    return [StepRate(name, name, capacity, "B", lambda _: replay.base_step_s, least=least)]


def _list_product_rates(replay: StepReplay) -> Iterator[StepRate]:
    """Yield a rate for each entry of the node's peak rates that products of the step use."""
    names: dict[str, dict[str, None]] = {}
    for item in replay.items:
        for part in item.list_known_parts():
            if part.unit == "matrix" and part.flops:
                via = _find_rate_entry(replay.node, part.dtype)
                if via.startswith("matrix."):
                    names.setdefault(via, {})[part.dtype] = None
    for entry, dtypes in names.items():
        unit, _, key = entry.partition(".")
        value = replay.node.peaks_flops[unit][key]

        def compute_step_s(factor: float, entry: str = entry, value: float = value) -> float:
            node = replay.node.replace_peak_rates({entry: factor * value}, label=entry)
            return replay.compute_step_s(replay.estimate_products(node))

        title = f"{', '.join(sorted(dtypes))} products"
        yield StepRate(title, "products", value, "FLOP/s", compute_step_s)


def _find_rate_entry(node: NodeSpec, dtype: str) -> str:
    """Return the entry of the peak rates that products of a type use; "" if there is none."""
    try:
        return node.find_peak_rate("matrix", dtype).via or f"matrix.{dtype}"
    except HespasError:
        return ""


def _list_other_node_rates(replay: StepReplay) -> Iterator[StepRate]:
    node = replay.node
    vector = node.peaks_flops.get("vector", {})

    def scale_vector(factor: float) -> float:
        rates = {f"vector.{key}": factor * rate for key, rate in vector.items()}
        changed = node.replace_peak_rates(rates, label="vector")
        return replay.compute_step_s(replay.estimate_kernels(changed))

    def scale_memory(factor: float) -> float:
        bandwidth = factor * node.memory_bandwidth_bytes_per_s
        changed = replace(node, memory_bandwidth_bytes_per_s=bandwidth)
        return replay.compute_step_s(replay.estimate_kernels(changed))

    def scale_launches(factor: float) -> float:
        return replay.compute_step_s(replay.estimate_kernels(node, 1 / factor))

    if vector:
        yield StepRate("vector operations", "vector", vector.get("f32"), "FLOP/s", scale_vector)
    bandwidth = node.memory_bandwidth_bytes_per_s
    yield StepRate("memory bandwidth", "memory", bandwidth, "B/s", scale_memory)
    if replay.has_launches:
        yield StepRate("kernel launches", "launch", None, "", scale_launches)


def _list_link_rates(replay: StepReplay, system: SystemSpec) -> Iterator[StepRate]:
    sizes, host_devices = system.npus_count, system.npus_count[0]
    for dim, (bandwidth, latency_ns) in enumerate(
        zip(system.bandwidth_gib_s, system.latency_ns, strict=True)
    ):
        if sizes[dim] < 2:
            continue

        def scale_bandwidth(factor: float, dim: int = dim) -> float:
            values = _scale_entry(system.bandwidth_gib_s, dim, factor)
            return replay.compute_step_s(system=replace(system, bandwidth_gib_s=values))

        def scale_latency(factor: float, dim: int = dim) -> float:
            values = _scale_entry(system.latency_ns, dim, 1 / factor)
            return replay.compute_step_s(system=replace(system, latency_ns=values))

        where = f"dimension {dim + 1}" if len(sizes) > 1 else "links"
        hosts = host_devices if dim else 0
        value = bandwidth * 2.0**30
        yield StepRate(
            f"bandwidth, {where}", "link bandwidth", value, "B/s", scale_bandwidth, hosts
        )
        yield StepRate(f"latency, {where}", "link latency", latency_ns * 1e-9, "s", scale_latency)


def _scale_entry(values: tuple[float, ...], number: int, factor: float) -> tuple[float, ...]:
    return tuple(value * factor if i == number else value for i, value in enumerate(values))
