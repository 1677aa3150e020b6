"""The text of ``docs/reference/presets.md``."""

from __future__ import annotations

from docs.generators.markdown import format_table
from hespas import configs
from hespas.configs.accelerator import list_accelerator_presets, load_accelerator
from hespas.configs.node_spec import DTYPES, RULES, UNITS, NodeSpec
from hespas.configs.silicon import read_processes

HEAD = f"""# Node and system presets

This page is generated from `configs/nodes` and `configs/systems` by `make generate`.

Rates are dense peaks in 1e12 operations per second, bandwidth in 1e9 bytes per second, memory in
1e9 bytes, prices in US dollars for an hour of one device. The default node is
`{configs.DEFAULT_NODE}`. The source of each number is in the preset's own file under `sources`.
† marks numbers whose source, for the number or a part of it, is "(remembered, not sourced)": check
them first.
"""

RATES = """
A type without an entry uses, in this order: the preset's fallback (last column); for tf32, the rate
of f32; the rate for all types from the option `peak-flops`; the general rule below. `constants` of
`hespas.target` counts the uses. A type without any of these rates is an error, or a gap with
`--keep-going`.
"""

ARRAYS = """
### Systolic arrays

The units that `--systolic-annotate` and the simulators of accelerators model, from
`configs/accelerators`: the cores of a device and the arrays of each core; the rows x columns of an
array, and the cycles in which it reads a row; the vector unit of each core, in lanes x ALUs; the
SRAM of each core.

"""

PROCESSES = """
## Processes

The figures of [`silicon`](../how-to/own-accelerator.md#energy-and-area) by manufacturing process,
from `configs/processes.json`: the energy of an operation (half a multiply-add with a sum of 32
bits), that of a byte, the power of an idle chip, and areas. The file names their sources; all of
45nm except `sram` are published, those of the other processes are remembered, derived or assumed.

"""

SYSTEMS = """
## Systems

Columns list one entry for each network dimension; the first dimension varies fastest in the device
id. Bandwidth is in GB/s of 2**30 bytes, as in ASTRA-sim, and latency in ns per hop.
`hespas presets systems NAME` prints a preset with its sources, corrections and caveats, and with
`--output DIR` writes its files.

The published presets (arXiv 2604.12090) keep their numbers. The numbers of the other HGX, DGX,
GB200, MI300X_Platform and TPU systems are converted from those of vendors, which are in 1e9 bytes
per second and one direction: 450 GB/s of NVLink 4 become 419.095.
"""


def render_page() -> str:
    """Return the text of ``docs/reference/presets.md``."""
    nodes = [configs.load_node(name) for name in configs.list_node_presets()]
    parts = [HEAD, "\n## Nodes\n\n", _render_memory_table(nodes)]
    for unit in UNITS:
        parts += [f"\n### Rates of the {unit} unit\n\n", _render_rate_table(nodes, unit)]
    parts += [
        RATES,
        "\n",
        format_table(("type", "uses the rate of"), RULES.items()),
        ARRAYS,
        _render_array_table(),
        PROCESSES,
        _render_process_table(),
        SYSTEMS,
        "\n",
        _render_system_table(),
    ]
    return "".join(parts)


def _render_memory_table(nodes: list[NodeSpec]) -> str:
    rows = [
        (
            node.name,
            node.description,
            _format_field_value(node, "memory_bandwidth_bytes_per_s", 1e9),
            _format_field_value(node, "memory_bytes", 1e9),
            _format_field_value(node, "tdp_w", 1),
            _format_field_value(node, "price_per_hour", 1),
        )
        for node in nodes
    ]
    return format_table(("node", "device", "bandwidth", "memory", "power W", "price"), rows)


def _render_rate_table(nodes: list[NodeSpec], unit: str) -> str:
    used = [d for d in DTYPES if any(d in node.peaks_flops.get(unit, {}) for node in nodes)]
    rows = []
    for node in nodes:
        table = node.peaks_flops.get(unit, {})
        cells = [
            _format_sourced_value(node, f"peaks_flops.{unit}.{d}", table[d] / 1e12)
            if d in table
            else "-"
            for d in used
        ]
        own = [
            f"{key.partition('.')[2]} as {other}"
            for key, other in node.fallbacks.items()
            if key.startswith(unit)
        ]
        rows.append((node.name, *cells, ", ".join(own) or "-"))
    return format_table(("node", *used, "fallbacks"), rows)


def _format_field_value(node: NodeSpec, field: str, unit: float) -> str:
    value = getattr(node, field)
    return "-" if value is None else _format_sourced_value(node, field, value / unit)


def _format_sourced_value(node: NodeSpec, source: str, value: float) -> str:
    return _mark_remembered_value(node.sources[source], value)


def _mark_remembered_value(source: str, value: float) -> str:
    return f"{value:.5g}{'†' if '(remembered' in source else ''}"


def _render_process_table() -> str:
    processes = list(read_processes().values())
    rows = {
        **{
            f"{dtype}, pJ": [process.find_pj_per_op(dtype) for process in processes]
            for dtype in ("i8", "i32", "bf16", "f16", "f32")
        },
        **{
            f"{level}, pJ a byte": [process.pj_per_byte.get(level) for process in processes]
            for level in ("sram", "memory", "link")
        },
        "idle, W a mm2": [process.leakage_w_per_mm2 for process in processes],
        **{
            f"cell of {dtype}, um2": [process.cell_um2.get(dtype) for process in processes]
            for dtype in ("i8", "bf16", "f16", "f32")
        },
        "SRAM, Mib a mm2": [process.sram_mib_per_mm2 for process in processes],
        "link, mm2": [process.mm2_per_link for process in processes],
        "memory stack, mm2": [process.mm2_per_memory_stack for process in processes],
    }
    lines = [
        (name, *("-" if value is None else f"{value:.4g}" for value in values))
        for name, values in rows.items()
    ]
    return format_table(("figure", *(f"`{process.name}`" for process in processes)), lines)


def _render_array_table() -> str:
    rows = []
    for name in list_accelerator_presets():
        unit = load_accelerator(name)
        rows.append((
            name, unit.description,
            f"{unit.cores} x {unit.arrays}", f"{unit.rows} x {unit.columns}",
            _mark_remembered_value(unit.sources["clock_hz"], unit.clock_hz / 1e9),
            _mark_remembered_value(unit.sources["cycles_per_row"], unit.cycles_per_row),
            f"{unit.lanes} x {_mark_remembered_value(unit.sources['alus'], unit.alus)}",
            f"{unit.sram_bytes / 1e6:.1f}",
        ))  # fmt: skip
    header = ("node", "device", "cores x arrays", "array", "clock GHz", "cycles a row",
              "lanes x ALUs", "SRAM MB")  # fmt: skip
    return format_table(header, rows)


def _render_system_table() -> str:
    rows = []
    for name in configs.list_system_presets():
        s = configs.load_system(name)
        topology = " + ".join(
            f"{kind} {n}" for kind, n in zip(s.topology, s.npus_count, strict=True)
        )
        bandwidth = ", ".join(f"{v:g}" for v in s.bandwidth_gib_s)
        latency = ", ".join(f"{v:g}" for v in s.latency_ns)
        algorithms = ", ".join(s.implementations.get("all-reduce", ()))
        memory = f"{s.local_mem_bw_gb_s:g}"
        rows.append((name, s.device_count, topology, bandwidth, latency, algorithms, memory))
    header = ("system", "devices", "topology", "bandwidth", "latency", "all-reduce",
              "memory bandwidth")  # fmt: skip
    return format_table(header, rows)
