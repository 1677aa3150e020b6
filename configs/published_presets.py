"""The presets in the files of the published Hespas (arXiv 2604.12090), at its paths.

Each number is written once, in ``nodes/NAME.json`` and ``systems/published.json``. From these,
``make generate`` writes what the published tools and ASTRA-sim read:

    nodes/NAME/roofline/config.json     a configuration without a program, see ``tools.published``
    systems/NAME/astra-sim/*            network.yml, system.json, remote_memory.json

``nodes/profiling`` has no numbers and is written by hand.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.configs.accelerator import load_accelerator
from hespas.configs.node_spec import CORES, DTYPES, UNITS, NodeSpec
from hespas.configs.system_files import ASTRA_FOLDER, parse_system_files
from hespas.configs.system_layout import make_system_settings, render_system_files
from hespas.configs.system_spec import COLLECTIVES, SystemSpec
from hespas.support.errors import HespasError

PROVENANCE_FILE = "provenance.json"
_FOLDER = Path(__file__).parent
_COCOSSIM_NODE = "TPUv3"  # the only node with a published configuration of a simulator
_LARGE_NUMBER = re.compile(r"\b\d{10,}\.0\b")
_NETWORK_KEYS = ("topology", "npus_count", "bandwidth", "latency")


def render_published_files() -> dict[str, str]:
    """Return the texts of all generated files, by path in ``configs``."""
    nodes = {
        f"nodes/{name}/{method}/config.json": _render_node_config(section)
        for name in configs.list_node_presets()
        for method, section in _build_estimator_sections(name).items()
    }
    systems = {
        f"systems/{name}/{ASTRA_FOLDER}/{file}": text
        for name in list_published_systems()
        for file, text in _render_system_folder(name).items()
    }
    return nodes | systems


def _build_estimator_sections(name: str) -> dict[str, dict[str, Any]]:
    """Return the section ``perf_estimator`` of each configuration of a node, by method."""
    core = CORES.get(name, name)
    hardware = build_published_hardware(configs.load_node(core))
    sections = {"roofline": hardware}
    if name == _COCOSSIM_NODE:
        clock_ghz = load_accelerator(core).clock_hz / 1e9
        sections["cocossim"] = {"roofline": hardware, "chips": 1, "frequency": clock_ghz}
    return {method: {"method": method, "hardware": section} for method, section in sections.items()}


def _render_node_config(section: dict[str, Any]) -> str:
    text = json.dumps({"perf_estimator": section}, indent=2)
    return _LARGE_NUMBER.sub(lambda number: _format_large_number(float(number[0])), text) + "\n"


def _format_large_number(value: float) -> str:
    """Format a number with an exponent, such as 9.7e12 or 450e9."""
    exponent = 12 if value >= 1e12 else 9
    text = f"{value / 10**exponent:.12g}e{exponent}"
    return text if float(text) == value else repr(value)


def build_published_hardware(node: NodeSpec) -> dict[str, Any]:
    """Return the rates of a node as the published roofline has them.

    It has one rate for each element type: that of the matrix unit, or of the vector unit if that is
    higher. A type without a rate of its own has the rate of the type that it is converted to.
    ``peak_flops``, for all other types, is the scalar rate: that of f64 or else f32 vectors.
    """
    rates = {dtype: max(each) for dtype in DTYPES if (each := [*_find_rates(node, dtype)])}
    vector = node.peaks_flops.get("vector", {})
    scalar = vector.get("f64") or vector.get("f32") or node.default_flops or min(rates.values())
    return {
        "peak_flops": scalar,
        "per_datatype_flops": rates,
        "memory_bandwidth": node.memory_bandwidth_bytes_per_s,
    }


def _find_rates(node: NodeSpec, dtype: str) -> Iterator[float]:
    for unit in UNITS:
        with contextlib.suppress(HespasError):
            yield node.find_peak_rate(unit, dtype).flops_per_s


def list_published_systems() -> list[str]:
    """Return the names of the published systems, in the order of ``systems/published.json``."""
    return list(_read_system_rows()["systems"])


def list_published_systems_of_node(node: str) -> list[str]:
    """Return the names of the published systems that consist of a node preset."""
    return [name for name, row in _read_system_rows()["systems"].items() if row.get("node") == node]


def describe_published_provenance(name: str) -> dict[str, Any]:
    """Return the sources of a published system's numbers, with corrections and caveats."""
    data = _read_system_rows()
    row, source = data["systems"][name], data["source"]
    local_source = source if "local_mem_bw" in row else f"node preset {row['node']}"
    provenance = {
        "description": row["description"],
        "sources": {
            **dict.fromkeys((*_NETWORK_KEYS, "implementations"), source),
            "local-mem-bw": local_source,
            "other keys of system.json": "common to the published presets; all written out, "
            "because ASTRA-sim reads uninitialised values where they are missing",
        },
    }
    variants = {file: variant["description"] for file, variant in row.get("variants", {}).items()}
    notes = {key: row[key] for key in ("corrections", "caveats") if key in row}
    return provenance | notes | ({"variants": variants} if variants else {})


def _render_system_folder(name: str) -> dict[str, str]:
    """Return the texts of the files that ASTRA-sim reads, by name."""
    system = _build_system(name, {})
    texts = render_system_files(system, {})
    del texts[PROVENANCE_FILE]
    for file, variant in _read_system_rows()["systems"][name].get("variants", {}).items():
        texts[file] = render_system_files(_build_system(name, variant), {})["system.json"]
    return texts


def _build_system(name: str, variant: dict[str, Any]) -> SystemSpec:
    """Build a published system, or a variant of it, from its row."""
    row = _read_system_rows()["systems"][name]
    *network, algorithms = zip(*row["dimensions"], strict=True)
    if "algorithm" in variant:
        algorithms = (variant["algorithm"],) * len(algorithms)
    local_mem_bw = row.get("local_mem_bw")
    if local_mem_bw is None:
        local_mem_bw = configs.load_node(row["node"]).memory_bandwidth_bytes_per_s / 1e9
    settings = {
        **make_system_settings((), local_mem_bw),
        "endpoint-delay": 1,
        **{f"{collective}-implementation": [*algorithms] for collective in COLLECTIVES},
        **variant.get("settings", {}),
    }
    folder = _FOLDER / "systems" / name / ASTRA_FOLDER
    return parse_system_files(
        folder / "system.json",
        dict(zip(_NETWORK_KEYS, map(list, network), strict=True)),
        settings,
        str(folder / "network.yml"),
    )


@functools.cache
def _read_system_rows() -> dict[str, Any]:
    return json.loads((_FOLDER / "systems" / "published.json").read_text("utf-8"))
