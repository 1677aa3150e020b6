"""The figures of a step: every number that users see is declared here, once.

run.json, the tables of a run, the page, comparisons, sweeps, plans, studies and the reference page
are loops over ``FIGURES``. A figure that is added to the list appears in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hespas.support.text_tables import (
    format_percent,
    format_scaled,
    format_seconds,
    format_time_range,
)
from hespas.workflows.step_facts import SECONDS_PER_HOUR, StepFacts, divide, multiply

Place = Literal[
    "summary", "page", "compare", "changes", "sweep", "rows", "plan", "plan terminal", "study"
]
EVERYWHERE: tuple[Place, ...] = ("summary", "page", "compare", "changes", "sweep", "rows", "plan")
Rule = Literal["sum", "ratio", "largest", "same", "none"]
RULES: Mapping[Rule, str] = {
    "sum": "of programs that run one after the other, the sum",
    "ratio": "a quotient of sums",
    "largest": "at least the largest one",
    "same": "the same for all programs",
    "none": "none: a band, or a count of distinct things",
}
MEMORY, PROGRAM, COMPUTE, STEP, RESULT = (
    "Memory, one device", "Program", "Compute, one device", "Step, all devices", "Result",
)  # fmt: skip


@dataclass(frozen=True)
class Unit:
    """The unit of figures.

    Attributes:
        format: Formats a value with its unit.
        column: Formats a value in a column whose title says the unit; None for ``format``.
    """

    format: Callable[[Any], str]
    column: Callable[[Any], str] | None = None


def _scaled(symbol: str) -> Unit:
    return Unit(lambda value: format_scaled(value, symbol).strip())


def format_band(ends: Sequence[float]) -> str:
    """Format both ends of a band of times."""
    return " to ".join(map(format_seconds, ends))


def format_rate(value: float) -> str:
    """Format a rate as ``12,345``, or with four significant digits if it is below 100."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


UNITS: Mapping[str, Unit] = {
    "s": Unit(format_seconds),
    "s, s": Unit(format_band, lambda ends: format_time_range(*ends)),
    "share": Unit(format_percent),
    "count": Unit(lambda value: f"{value:,}"),
    "USD": Unit(lambda value: f"{value:.4g} USD"),
    "mm2": Unit(lambda value: f"{value:.4g} mm2"),
    "USD/M": Unit(lambda value: f"{value:.3f} USD", lambda value: f"{value:.3f}"),
    "/s": Unit(lambda value: f"{format_rate(value)}/s", format_rate),
    "yes or no": Unit(lambda value: "yes" if value else "no"),
    **{symbol: _scaled(symbol) for symbol in ("B", "FLOP", "FLOP/s", "J", "W", "Js")},
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A number of a step.

    Attributes:
        name: Its path in run.json, and its column in the table of a sweep.
        title: What it is called.
        unit: A key of ``UNITS``.
        rule: How it adds up, a key of ``RULES``.
        help: What it means, for the reference page.
        compute: Computes it; None if it is not known.
        header: Its title as a column; "" for ``title``.
        row_name: Its name in rows of plans and studies; "" for the last key of ``name``.
        table: The table of a run's summary that shows it.
        label: Its label in that table; "" for ``title``.
        explain: What a summary adds to its value, and a page shows below it, from run.json.
        places: The places that show it, beside run.json and tables of sweeps, which have all:
            ``rows`` are those of plans and studies, ``plan`` the page of a plan, ``plan terminal``
            its tables, whose lines are limited, and ``study`` the tables of studies.
    """

    name: str
    title: str
    unit: str
    rule: Rule
    help: str
    compute: Callable[[StepFacts], Any]
    header: str = ""
    row_name: str = ""
    table: str = STEP
    label: str = ""
    explain: Callable[[Mapping[str, Any]], str] = field(default=lambda figures: "")
    places: tuple[Place, ...] = ()

    @property
    def column_title(self) -> str:
        return self.header or self.title

    @property
    def row_names(self) -> tuple[str, ...]:
        """Its names in rows of plans and studies: of a band, those of both ends."""
        return tuple((self.row_name or self.name.rpartition(".")[2]).split())

    def format(self, value: Any) -> str:
        """Format a value with its unit."""
        return UNITS[self.unit].format(value)

    def format_cell(self, value: Any) -> str:
        """Format a value in a column of the figure; "-" if it is not known."""
        unit = UNITS[self.unit]
        return "-" if value is None else (unit.column or unit.format)(value)


def get_figure(figures: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """Return a figure of run.json by its path, such as ``derived.mfu``."""
    value: Any = figures
    for key in name.split("."):
        value = value.get(key, default) if isinstance(value, Mapping) else default
    return value


def _sum(name: str) -> Callable[[StepFacts], Any]:
    """Return a sum over the ops of one device."""
    return lambda facts: facts.totals[name]


def _simulated(name: str) -> Callable[[StepFacts], Any]:
    return lambda facts: facts.simulated.get(name)


def _reuse(name: str) -> Callable[[StepFacts], Any]:
    return lambda facts: facts.stats["reuse"][name]


def _memory(name: str) -> Callable[[StepFacts], Any]:
    return lambda facts: getattr(facts.memory, name)


def _rematerialisation(name: str) -> Callable[[StepFacts], Any]:
    return lambda facts: getattr(facts.rematerialisation, name, None)


def _energy(name: str) -> Callable[[StepFacts], Any]:
    return lambda facts: getattr(facts.energy, name)


def _compute_band_s(facts: StepFacts) -> list[float] | None:
    low_ns, high_ns = facts.totals["low_ns"], facts.totals["high_ns"]
    return None if low_ns is None else [1e-9 * low_ns, 1e-9 * high_ns]


def _explain_share(name: str) -> Callable[[Mapping[str, Any]], str]:
    """Return an explanation of a time: its share of the step."""

    def explain(figures: Mapping[str, Any]) -> str:
        step_s = figures["step_time_s"]
        return f", {format_percent(figures[name] / step_s)} of the step" if step_s else ""

    return explain


def _explain_utilisation(flops_name: str, kind: str) -> Callable[[Mapping[str, Any]], str]:
    """Return an explanation of a utilisation: the peak, and the operations."""

    def explain(figures: Mapping[str, Any]) -> str:
        derived = figures["derived"]
        peak, flops = derived.get("peak_flops_per_s"), derived.get(flops_name)
        if peak is None or flops is None:
            return ""
        text = f" of the dense {derived['peak_dtype']} peak, {format_scaled(peak, 'FLOP/s')}: "
        text += f"{format_scaled(flops, 'FLOP')} {kind}"
        source = derived.get("model_flops_source") if flops_name == "model_flops" else None
        return f"{text}, {source}" if source else text

    return explain


def _explain_energy_share(name: str) -> Callable[[Mapping[str, Any]], str]:
    """Return an explanation of a level of the energy: its share."""

    def explain(figures: Mapping[str, Any]) -> str:
        derived = figures["derived"]
        return f", {format_percent(derived[name] / (derived['energy_j'] or 1))}"

    return explain


def _explain_peak_share(figures: Mapping[str, Any]) -> str:
    share = figures["flops_utilisation"]
    return "" if share is None else f", {format_percent(share)} of the peak"


def _explain_price(figures: Mapping[str, Any]) -> str:
    return f", {figures['derived']['price_per_hour']:g} USD an hour and device"


def _explain_capacity(figures: Mapping[str, Any]) -> str:
    node_bytes = figures["memory"]["node_bytes"]
    return f" of {format_scaled(node_bytes, 'B')}" if node_bytes else ", on one device"


FIGURES: tuple[Figure, ...] = (
    Figure(
        "step_time_s", "step time", "s", "sum",
        "step time, until the last device has finished. Without a simulation: the time of kernels "
        "and of copies to the host if devices exchange nothing, or else null",
        lambda facts: facts.step_time_s, header="step", table=RESULT,
        explain=lambda figures: (
            f", 80 % band {format_band(figures['step_time_band_s'])}"
            if figures["step_time_band_s"] else ""
        ),
        places=("page", "changes", "rows", "plan", "plan terminal", "study"),
    ),
    Figure(
        "compute_s", "compute", "s", "sum", "sum of all compute times",
        lambda facts: facts.compute_s, table=COMPUTE, explain=_explain_share("compute_s"),
        places=("page", "changes", "rows", "plan", "study"),
    ),
    Figure(
        "comm_s", "communication", "s", "sum",
        "time in which the device that finishes last communicates; null without a simulation",
        _simulated("comm_s"), table=RESULT, places=("changes", "rows"),
    ),
    Figure(
        "exposed_comm_s", "exposed communication", "s", "sum",
        "step time minus compute time of that device: communication that does not overlap compute; "
        "null without a simulation",
        _simulated("exposed_comm_s"), header="exposed", table=RESULT,
        explain=_explain_share("exposed_comm_s"),
        places=("page", "compare", "changes", "rows", "plan", "plan terminal", "study"),
    ),
    Figure(
        "overlap_s", "overlap", "s", "sum",
        "time in which that device both computes and communicates",
        _simulated("overlap_s"), table=RESULT, places=("changes",),
    ),
    Figure(
        "serial_step_s", "serial step", "s", "sum",
        "step time if nothing ran alongside: `step_time_s` and `overlap_s`, less the time that "
        "compute loses to it",
        lambda facts: facts.serial_step_s,
        table=RESULT, places=("page", "changes"),
        explain=lambda figures: (
            f": {format_seconds(figures['serial_step_s'] - figures['step_time_s'])} of "
            "communication are hidden"
        ),
    ),
    Figure(
        "exposed_share", "exposed share", "share", "ratio", "`exposed_comm_s` over `step_time_s`",
        _simulated("exposed_share"), header="share", table=RESULT, places=("compare", "sweep"),
    ),
    Figure(
        "step_time_band_s", "80 % band", "s, s", "none",
        "low and high end of the 80 % band of `step_time_s`: the errors of compute and of "
        "[exposed communication](calibrated.md#shared-errors), and at the high end the hidden "
        "communication, which a device may not hide",
        lambda facts: facts.step_band_s and list(facts.step_band_s),
        row_name="step_time_low_s step_time_high_s", table=RESULT,
        places=("rows", "plan", "plan terminal"),
    ),
    Figure(
        "compute_band_s", "80 % band", "s, s", "none",
        "low and high end of the 80 % band of `compute_s`; null: the estimator has no errors",
        _compute_band_s, table=COMPUTE, places=("summary",),
    ),
    Figure(
        "devices", "devices", "count", "same", "replicas x partitions",
        lambda facts: facts.devices, table=PROGRAM, places=("changes",),
    ),
    Figure(
        "flops", "operations", "FLOP", "sum", "operations", _sum("flops"),
        row_name="flops_per_device", table=COMPUTE,
        explain=_explain_peak_share,
        places=("summary", "changes", "rows"),
    ),
    Figure(
        "read_bytes", "read", "B", "sum", "bytes read from device memory", _sum("read_bytes"),
        table=COMPUTE, places=("changes",),
    ),
    Figure(
        "write_bytes", "written", "B", "sum", "bytes written to device memory", _sum("write_bytes"),
        table=COMPUTE, places=("changes",),
    ),
    Figure(
        "energy_j", "energy", "J", "sum", "energy of compute; null: the node has no power model",
        lambda facts: multiply(facts.totals["energy_nj"], 1e-9), table=COMPUTE, places=("summary",),
    ),
    Figure(
        "rematerialised_s", "computed again by XLA", "s", "sum",
        "the part of `compute_s` in which XLA computes values a second time, to keep within "
        "`compile_memory_limit_bytes`; null: the program is not compiled",
        _rematerialisation("time_s"), table=COMPUTE,
    ),
    Figure(
        "rematerialised_flops", "operations computed again by XLA", "FLOP", "sum",
        "the operations of these kernels", _rematerialisation("flops"), table=COMPUTE,
    ),
    Figure(
        "compile_memory_limit_bytes", "memory that XLA schedules for", "B", "same",
        "the memory of a device that XLA's scheduler and its rematerialisation keep within, the "
        "option `memory-fraction` of `xla-optimize` times that of the GPU; null: not known",
        _rematerialisation("limit_bytes"), table=COMPUTE,
    ),
    Figure(
        "flops_utilisation", "share of the peak", "share", "ratio",
        "operations over those that the device could perform in `compute_s`, at the peak rate of "
        "the faster unit for each op's type; at most 1",
        lambda facts: facts.get_utilisation("flops"), header="of peak", table=COMPUTE,
        places=("page", "compare", "sweep"),
    ),
    Figure(
        "bandwidth_utilisation", "share of the bandwidth", "share", "ratio",
        "bytes over those that the memory could move in `compute_s`; at most 1",
        lambda facts: facts.get_utilisation("bandwidth"), header="of bandwidth", table=COMPUTE,
        places=("page", "sweep"),
    ),
    Figure(
        "comm_ops", "collectives", "count", "sum",
        "executed collectives and point-to-point operations of the program; those in loops count "
        "once per trip",
        _sum("comm_ops"), places=("changes",),
    ),
    Figure(
        "comm_bytes", "operands of collectives", "B", "sum", "their operand bytes",
        _sum("comm_operand_bytes"), places=("changes",),
    ),
    Figure(
        "nodes_per_device", "trace nodes", "count", "none", "number of nodes in the longest trace",
        lambda facts: facts.nodes_per_device,
    ),
    *(
        Figure(name, title, unit, "none", text, _reuse(key))
        for name, title, unit, text, key in (
            ("regions", "regions", "count", "number of compute regions", "regions"),
            ("distinct_regions", "distinct regions", "count", "number of distinct regions",
             "distinct_regions"),
            ("region_ops", "ops in regions", "count", "number of ops in regions", "ops"),
            ("distinct_region_ops", "ops in distinct regions", "count",
             "number of ops in distinct regions", "distinct_ops"),
            ("basic_block_reuse_rate", "block reuse", "share",
             "share of the regions that equal an earlier region", "basic_block_reuse_rate"),
            ("operator_reuse_factor", "operator reuse", "share", "share of the ops in these",
             "operator_reuse_factor"),
        )
    ),
    Figure(
        "memory.fits", "fits", "yes or no", "same",
        "whether the node has `peak_bytes` of memory; null if its memory is not known",
        lambda facts: facts.fits_memory, table=MEMORY, places=("rows", "study"),
    ),
    Figure(
        "memory.node_bytes", "memory of the node", "B", "same", "memory of the node, or null",
        lambda facts: facts.node.memory_bytes if facts.node else None, table=MEMORY,
    ),
    Figure(
        "memory.peak_bytes", "peak memory", "B", "largest",
        "peak memory of the program, with the effect of allocation", _memory("peak_bytes"),
        header="memory", table=MEMORY, label="peak", explain=_explain_capacity,
        places=("page", "compare", "changes", "sweep", "rows", "plan", "plan terminal", "study"),
    ),
    Figure(
        "memory.live_bytes", "most live", "B", "largest",
        "most bytes that are live at one point of the program; the next four are its parts",
        _memory("live_bytes"), table=MEMORY,
    ),
    *(
        Figure(f"memory.{name}", title, unit, "none", text, _memory(name), table=MEMORY)
        for name, title, unit, text in (
            ("argument_bytes", "arguments", "B",
             "arguments, and the results that replace them"),
            ("result_bytes", "results", "B", "other results"),
            ("constant_bytes", "constants", "B", "constants"),
            ("temporary_bytes", "temporaries", "B", "everything else"),
            ("points", "points", "count",
             "number of points of the program: kernels, collectives, ends of blocks"),
            ("parameter_bytes", "parameters", "B",
             "part of `argument_bytes`, found by names; null without names"),
            ("optimizer_bytes", "optimizer state", "B",
             "part of `argument_bytes`, found by names; null without names"),
            ("activation_bytes", "activations", "B",
             "part of `temporary_bytes`, found by names; null without names"),
        )
    ),
    Figure(
        "derived.model_flops", "operations of the model", "FLOP", "sum",
        "operations that the model needs in a step, forward and backward, each counted once: "
        "`--model-flops`, or the figure that `hespas export` wrote on the module",
        lambda facts: facts.work.model_flops, places=("rows",),
    ),
    Figure(
        "derived.executed_flops", "executed operations", "FLOP", "sum",
        "floating-point operations that all devices execute, including recomputation",
        lambda facts: facts.executed_flops,
    ),
    Figure(
        "derived.peak_flops_per_s", "peak rate", "FLOP/s", "none",
        "dense peak rate of one device's matrix unit for the most frequent type of "
        "`executed_flops`; operations of faster types count at their own rates, which makes the "
        "peak higher",
        lambda facts: facts.peak_flops_per_s,
    ),
    Figure(
        "derived.mfu", "MFU", "share", "ratio",
        "`model_flops` over the product of peak rate, devices and step time; above `hfu` if the "
        "model's operations include masked scores that a fused attention does not compute",
        lambda facts: facts.compute_utilisation(facts.work.model_flops),
        explain=_explain_utilisation("model_flops", "of the model"),
        places=(*EVERYWHERE, "plan terminal", "study"),
    ),
    Figure(
        "derived.hfu", "HFU", "share", "ratio", "`executed_flops` over the same product",
        lambda facts: facts.compute_utilisation(facts.executed_flops),
        explain=_explain_utilisation("executed_flops", "executed"), places=EVERYWHERE,
    ),
    Figure(
        "derived.flops_per_s_per_device", "rate of a device", "FLOP/s", "ratio",
        "`model_flops` over devices and step time",
        lambda facts: divide(facts.work.model_flops, multiply(facts.seconds, facts.devices)),
        header="of a device", places=("rows", "study"),
    ),
    Figure(
        "derived.tokens_per_s", "tokens", "/s", "ratio",
        "`--tokens-per-step`, or the figure that `hespas export` wrote, over the step time",
        lambda facts: divide(facts.work.tokens_per_step, facts.seconds), header="tokens/s",
        places=(*EVERYWHERE, "plan terminal", "study"),
    ),
    Figure(
        "derived.samples_per_s", "samples", "/s", "ratio",
        "`--samples-per-step`, or the figure that `hespas export` wrote, over the step time",
        lambda facts: divide(facts.work.samples_per_step, facts.seconds), header="samples/s",
        places=(*EVERYWHERE, "plan terminal"),
    ),
    Figure(
        "derived.energy_j", "energy", "J", "sum", "energy of all devices", _energy("energy_j"),
        explain=lambda figures: f" ({figures['derived']['energy_model']})",
        places=(*EVERYWHERE, "study"),
    ),
    *(
        Figure(
            f"derived.energy_{name}_j", title, "J", "sum", f"part of `energy_j`: {text}",
            _energy(f"energy_{name}_j"), label=f"  {title}",
            explain=_explain_energy_share(f"energy_{name}_j"), places=("summary",),
        )
        for name, title, text in (
            ("compute", "operations", "operations"),
            ("sram", "on-chip memory", "on-chip memory"),
            ("memory", "device memory", "device memory"),
            ("network", "network", "bytes sent"),
            ("leakage", "leakage", "what the chips draw while nothing switches"),
        )
    ),
    Figure(
        "derived.average_power_w", "average power", "W", "ratio",
        "power of one device, on average over the step",
        lambda facts: divide(facts.energy.energy_j, multiply(facts.devices, facts.seconds)),
        header="power", explain=lambda figures: " a device", places=("summary", "page", "sweep"),
    ),
    Figure(
        "derived.energy_delay_js", "energy x delay", "Js", "none", "`energy_j` times the step time",
        lambda facts: multiply(facts.energy.energy_j, facts.seconds), places=("summary", "sweep"),
    ),
    Figure(
        "derived.area_mm2", "area of a chip", "mm2", "same", "area of the chip of one device",
        lambda facts: facts.stats["program"].get("area_mm2"), header="area",
        places=("summary", "page", "sweep"),
    ),
    Figure(
        "derived.price_per_hour", "price of an hour", "USD", "same",
        "US dollars for an hour of one device: `--price-per-hour`, or the price of the node",
        lambda facts: facts.work.price_per_hour,
    ),
    Figure(
        "derived.cost_usd", "cost", "USD", "sum", "price of the step, in US dollars",
        lambda facts: multiply(
            facts.work.price_per_hour, facts.devices, facts.seconds, 1 / SECONDS_PER_HOUR
        ),
        explain=_explain_price,
        places=("summary", "page", "compare", "changes", "sweep", "rows"),
    ),
    Figure(
        "derived.usd_per_million_tokens", "price of a million tokens", "USD/M", "ratio",
        "US dollars for a million tokens at the cost of the step",
        lambda facts: multiply(
            1e6 / SECONDS_PER_HOUR, facts.work.price_per_hour, facts.devices,
            divide(facts.seconds, facts.work.tokens_per_step),
        ),
        header="$/Mtoken", places=("summary", "rows", "plan", "plan terminal", "study"),
    ),
    Figure(
        "gaps", "ops without an estimate", "count", "sum",
        "ops without a cost (`--keep-going`), whose time is missing, and loops whose trip count is "
        "assumed", _sum("gaps"),
        header="gaps", table=COMPUTE, places=("compare", "changes", "sweep"),
    ),
)  # fmt: skip
BY_NAME: Mapping[str, Figure] = {figure.name: figure for figure in FIGURES}
UTILISATIONS = ("derived.mfu", "derived.hfu")
PEAK_DTYPE = "derived.peak_dtype"  # the type whose peak utilisations are a share of
ROW_FIGURES: tuple[Figure, ...] = tuple(figure for figure in FIGURES if "rows" in figure.places)
ROW_COLUMNS: Mapping[str, str] = {
    name: f"{figure.name}.{end}" if len(figure.row_names) > 1 else figure.name
    for figure in ROW_FIGURES
    for end, name in enumerate(figure.row_names)
}
"""The column of a sweep's table that has a figure, by its name in rows of plans and studies."""


def list_figures(place: Place, table: str = "") -> list[Figure]:
    """List the figures that a place shows, or those of one table of a summary."""
    return [f for f in FIGURES if place in f.places and table in ("", f.table)]


def name_peak(name: str, dtype: str | None, dtypes: Collection[str | None]) -> str:
    """Name the type whose peak a utilisation is a share of, such as ``of f8``.

    Args:
        name: The name of a figure; "" is returned if it is no utilisation.
        dtype: The type of the row.
        dtypes: Those of all rows; "" is returned if they have one, because shares then compare.
    """
    has_several = len({one for one in dtypes if one}) > 1
    return f"of {dtype}" if dtype and has_several and name in UTILISATIONS else ""


def compute_figures(facts: StepFacts, prefix: str = "") -> dict[str, Any]:
    """Compute the figures whose names begin with ``prefix``, as the object of run.json nests them.

    Those of the memory are left out if it was not computed.
    """
    figures: dict[str, Any] = {}
    for figure in FIGURES:
        *path, key = figure.name.split(".")
        if figure.name.startswith(prefix) and (path != ["memory"] or facts.memory is not None):
            place = figures
            for name in path:
                place = place.setdefault(name, {})
            place[key] = figure.compute(facts)
    return figures


def list_row_values(figures: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the figures of run.json that rows of plans and studies have, by their names there.

    Args:
        figures: The object of run.json.
        prefix: The beginning of the names in run.json.
    """
    row: dict[str, Any] = {}
    for figure in ROW_FIGURES:
        if not figure.name.startswith(prefix):
            continue
        value = get_figure(figures, figure.name)
        values = value or (None, None) if len(figure.row_names) > 1 else (value,)
        row |= zip(figure.row_names, values, strict=True)
    return row
