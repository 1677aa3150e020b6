"""How much each rate of node and network matters to a step, and where it stops to matter.

The step is evaluated with each rate 1.25 times as low and 1.25 times as high. The elasticity is the
relative change of the step over the relative change of the rate between the two, in logarithms: -1
if the step is as much shorter as the rate is higher, 0 if the rate does not matter. The interval is
wider than the 10 % within which measured collectives are taken to hold for another bandwidth.

A rate stops to matter at the value above which nothing more than 1 % of the step can be gained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast

from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.dialects.attrs import MemoryAttr
from hespas.dialects.mlir import ir
from hespas.estimators.base import DeviceRate
from hespas.support.errors import HespasError
from hespas.support.html_tables import PrintedTables
from hespas.support.text_tables import (
    TextTable,
    format_percent,
    format_scaled,
    format_seconds,
)
from hespas.workflows.network_settings import SimulatedNetwork
from hespas.workflows.plot_files import COLOURS, check_plot_file, save_figure
from hespas.workflows.program_replay import StepReplay
from hespas.workflows.run_flow import find_memory_plan

FACTOR = 1.25  # on each rate, in both directions
NO_LIMIT = 1e6  # a factor that makes a rate as good as infinite
LEAST_GAIN = 0.01  # of the step: gains below it do not matter
MAX_EVALUATIONS = 24  # of the search for a break-even, which mostly takes 3
TOLERANCE = 0.05  # of a break-even
CANNOT_RUN = "cannot run"  # a device with too little memory, or less power than it draws while idle
_BAR_WIDTH = 24  # characters of the largest change
RateKind = Literal[
    "products", "vector", "clock", "sram", "memory", "memory capacity", "power", "launch",
    "link bandwidth", "link latency",
]  # fmt: skip
_LOWER_CLOCKS = (1.0, 1.25, 2.0, 4.0, 16.0)  # that are tried below a higher one


@dataclass(frozen=True)
class RateSensitivity:
    """What one rate means for a step.

    Attributes:
        name: The rate, such as ``memory bandwidth``.
        kind: The kind of rate.
        value: Its value; None if it stands for several.
        unit: The unit of the value.
        elasticity: The relative change of the step over that of the rate.
        slower_s: The step time with the rate 1.25 times as low, in seconds; None if the device
            cannot run the step then.
        faster_s: The step time with the rate 1.25 times as high.
        limit_s: The step time if the rate were infinite.
        break_even: The factor on the rate above which it stops to matter; 1 if it does not matter
            now.
        one_more_link_s: Of a bandwidth between hosts, the step time with one more network card for
            each host, which has one for each of its devices now; None for other rates.
        least: The factor on the rate below which the device cannot run the step, because its memory
            is too small or it draws more power while it is idle; None if there is none.
    """

    name: str
    kind: RateKind
    value: float | None
    unit: str
    elasticity: float
    slower_s: float | None
    faster_s: float | None
    limit_s: float
    break_even: float
    one_more_link_s: float | None = None
    least: float | None = None

    @property
    def swing_s(self) -> float:
        """The difference between the step times with the lower and the higher rate.

        It is infinite if the device cannot run the step with the lower one.
        """
        if self.slower_s is None or self.faster_s is None:
            return math.inf
        return self.slower_s - self.faster_s

    def format_value(self, factor: float = 1.0) -> str:
        """Format the rate, times ``factor``."""
        if self.value is None:
            return "-" if factor == 1.0 else f"{factor:.3g} times as fast"
        if self.unit == "s":
            return format_seconds(self.value / factor)
        return format_scaled(self.value * factor, self.unit)


@dataclass(frozen=True, repr=False)
class StepSensitivity(PrintedTables):
    """The sensitivity of a step to every rate; ``print`` shows it as tables.

    Attributes:
        step_time_s: The step time in seconds; without a network, the compute time of one device.
        is_step: Whether it is a step time.
        rows: The rates, the one with the largest swing first.
    """

    step_time_s: float
    is_step: bool
    rows: tuple[RateSensitivity, ...]

    def __getitem__(self, name: str) -> RateSensitivity:
        """Return the row of a rate by its name; raises KeyError."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """Convert to the object that docs/how-to/sensitivity.md describes."""
        return {
            "step_time_s" if self.is_step else "compute_s": self.step_time_s,
            "factor": FACTOR,
            "rates": [asdict(row) for row in self.rows],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StepSensitivity:
        """Build a sensitivity from what ``to_json`` returns."""
        is_step = "step_time_s" in data
        rows = tuple(RateSensitivity(**row) for row in data["rates"])
        return cls(data["step_time_s" if is_step else "compute_s"], is_step, rows)

    def build_tables(self) -> list[TextTable]:
        """Build the table of the rates, and what follows from it in words."""
        findings = TextTable("Break-evens", [(line,) for line in self.list_findings()])
        return [self._build_rate_table(), findings] if self.rows else [self._build_rate_table()]

    def _build_rate_table(self) -> TextTable:
        """Build the table of the rates, with a tornado of their swings."""
        swings_s = [abs(row.swing_s) for row in self.rows if math.isfinite(row.swing_s)]
        largest = max(swings_s, default=0.0) or 1.0
        rows = [
            (
                row.name,
                row.format_value(),
                f"{row.elasticity:+.3f}",
                _format_change(row.slower_s, self.step_time_s),
                _draw_bar(row, self.step_time_s, largest),
                _format_change(row.faster_s, self.step_time_s),
                _format_change(row.limit_s, self.step_time_s),
            )
            for row in self.rows
        ]
        time = f"{self._name_time()} {format_seconds(self.step_time_s)}"
        title = f"{time} by rate: 20 % less, 25 % more, no limit"
        header = ("rate", "now", "elasticity", "less", "", "more", "no limit")
        return TextTable(title, rows, header, left=2)

    def list_findings(self) -> list[str]:
        """List in words where each rate stops to matter, and what one more link is worth."""
        return [line for row in self.rows for line in _describe_rate(row, self.step_time_s)]

    def plot(self, path: str) -> None:
        """Draw the tornado to a file (.svg, .png or .pdf); raises HespasError.

        It has a bar for each rate around the step time, the first on top.
        """
        check_plot_file(path)
        from matplotlib.figure import Figure

        rows = [
            (row.name, row.slower_s, row.faster_s)
            for row in reversed(self.rows)
            if row.slower_s is not None and row.faster_s is not None
        ]
        figure = Figure(figsize=(7, 0.8 + 0.35 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        step_ms = 1e3 * self.step_time_s
        for number, (_, *times_s) in enumerate(rows):
            for time_s, colour in zip(times_s, (COLOURS[1], COLOURS[0]), strict=True):
                axes.barh(number, 1e3 * time_s - step_ms, left=step_ms, color=colour, height=0.7)
        axes.axvline(step_ms, color="black", linewidth=0.8)
        axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
        axes.set_xlabel("ms")
        title = f"{self._name_time()} {format_seconds(self.step_time_s)}: "
        title += "rates 25 % higher (blue), 20 % lower (brown)"
        axes.set_title(title, fontsize=9)
        save_figure(figure, path)

    def _name_time(self) -> str:
        return "Step time" if self.is_step else "Compute time"


def analyse_step(
    module: ir.Module, network: SimulatedNetwork | None, *, is_current: bool = False
) -> StepSensitivity:
    """Evaluate a step at other rates of its node and its network.

    Args:
        module: A split and annotated module.
        network: The network; None for the compute time of one device.
        is_current: Whether the costs of the module are known to be those of its ops.

    Raises:
        HespasError: The estimator measures, or takes its rates from no node, or SimGrid simulates
            the network.
    """
    if network is not None:
        network.check_sensitivity()
    replay = StepReplay(module, network, is_current)
    step_s = replay.base_step_s
    rows = [_analyse_rate(rate, step_s) for rate in list_step_rates(replay)]
    rows.sort(key=lambda row: -abs(row.swing_s))
    return StepSensitivity(step_s, network is not None, tuple(rows))


def _analyse_rate(rate: StepRate, step_s: float) -> RateSensitivity:
    slower_s, faster_s = (
        None if rate.least is not None and factor < rate.least else rate.compute_step_s(factor)
        for factor in (1 / FACTOR, FACTOR)
    )
    limit_s = rate.compute_step_s(NO_LIMIT)
    elasticity = 0.0
    if slower_s and faster_s:
        elasticity = math.log(faster_s / slower_s) / (2 * math.log(FACTOR))
    one_more_s = rate.compute_step_s(1 + 1 / rate.links) if rate.links else None
    known = [(1.0, step_s), *([] if faster_s is None else [(FACTOR, faster_s)])]
    return RateSensitivity(
        rate.name, rate.kind, rate.value, rate.unit, elasticity, slower_s, faster_s, limit_s,
        find_break_even(rate, step_s, limit_s, known), one_more_s, rate.least,
    )  # fmt: skip


def find_break_even(
    rate: StepRate, step_s: float, limit_s: float, known: Sequence[tuple[float, float]]
) -> float:
    """Find the factor on a rate above which no more than 1 % of the step can be gained.

    The time that the rate limits is taken to be a power of the factor. Where steps of this model
    do not halve the range that holds the break-even, the range is halved instead.

    Args:
        rate: The rate.
        step_s: The step time now.
        limit_s: The step time without a limit on the rate.
        known: Factors with their step times, ascending; the first factor is 1.
    """
    threshold_s = LEAST_GAIN * step_s
    if step_s - limit_s <= threshold_s:
        return 1.0
    gains = [(factor, (time_s - limit_s) / threshold_s) for factor, time_s in known]
    (low, gain), (high, _) = gains[0], (0.0, 0.0)
    power = 1.0  # the gain is taken to be proportional to rate ** -power
    for factor, share in gains[1:]:
        if share <= 1:
            high = factor
            break
        power = max(math.log(gain / share) / math.log(factor / low), 0.5)
        low, gain = factor, share
    factor = min(low * gain ** (1 / power), NO_LIMIT)
    next_width = math.inf  # of the range, as the logarithm of the ratio of its ends
    for _ in range(MAX_EVALUATIONS):
        if high:
            width = math.log(high / low)
            if width < math.log(1 + TOLERANCE):
                break
            if width > next_width or not low < factor < high:
                factor = math.sqrt(low * high)
            next_width = width / 2
        share = (rate.compute_step_s(factor) - limit_s) / threshold_s
        if share > 1:
            low = factor
        else:
            high = factor
        if abs(share - 1) < TOLERANCE:
            return factor
        factor *= max(share, 1e-3) ** (1 / power)
    return high or factor


def _format_change(time_s: float | None, step_s: float) -> str:
    if time_s is None:
        return CANNOT_RUN
    return f"{100 * (time_s / step_s - 1):+.1f} %" if step_s else "-"


def _draw_bar(row: RateSensitivity, step_s: float, largest_s: float) -> str:
    """Draw the changes as a bar that reaches to both sides of a line."""
    half = _BAR_WIDTH // 2
    slower_s, faster_s = (step_s if s is None else s for s in (row.slower_s, row.faster_s))
    left = round(half * max(step_s - faster_s, 0.0) / largest_s)
    right = round(half * max(slower_s - step_s, 0.0) / largest_s)
    return f"{'#' * left:>{half}}|{'#' * right:<{half}}"


def _describe_rate(row: RateSensitivity, step_s: float) -> list[str]:
    gain = 1 - row.limit_s / step_s if step_s else 0.0
    side = "below" if row.unit == "s" else "above"
    lines = []
    if row.least is not None:
        lines.append(f"{row.name}: the device runs this step from {row.format_value(row.least)} on")
    if row.kind == "memory capacity":
        return lines
    if gain <= LEAST_GAIN:
        lines.append(f"{row.name}: no rate is worth more than {format_percent(max(gain, 0.0))}")
    else:
        lines.append(
            f"{row.name} stops to matter {side} {row.format_value(row.break_even)}, and is worth "
            f"at most {format_percent(gain)}"
        )
    if row.one_more_link_s is not None and step_s:
        worth = format_percent(1 - row.one_more_link_s / step_s)
        lines.append(f"{row.name}: one more network card for each host is worth {worth}")
    return lines


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
            return replay.compute_step_s(replay.estimate_kernels(node))

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
    is_torus = {"Ring", "Mesh"}.issuperset(system.topology[:2])
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
        hosts = host_devices if dim and not is_torus else 0  # a torus is one network
        value = bandwidth * 2.0**30
        yield StepRate(
            f"bandwidth, {where}", "link bandwidth", value, "B/s", scale_bandwidth, hosts
        )
        yield StepRate(f"latency, {where}", "link latency", latency_ns * 1e-9, "s", scale_latency)


def _scale_entry(values: tuple[float, ...], number: int, factor: float) -> tuple[float, ...]:
    return tuple(value * factor if i == number else value for i, value in enumerate(values))
