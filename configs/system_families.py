"""System presets that come in sizes: one entry of ``systems/families.json`` for each family.

An entry has ``dimensions`` as in ``layout.Dimension``, or the ``axes`` of a torus of TPU chips.
``{0}`` in them stands for the first number of a size, and so on.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.configs.system_layout import (
    UNITS,
    SystemDimension,
    build_system_spec,
    render_system_files,
)
from hespas.configs.system_spec import SystemSpec

_FOLDER = Path(__file__).parent
TORUS = (
    "each axis is a Ring. Where it wraps around, both directions carry a ring's data, and its "
    "bandwidth is twice a link's; where it does not, that of one link, with which a ring takes as "
    "long as a line does"
)


def list_family_presets() -> list[str]:
    """The names of the presets that families make."""
    return list(_list_family_members())


def list_presets_of_node(node: str) -> list[str]:
    """The names of those that are made of a node."""
    return [name for name, (family, _) in _list_family_members().items() if family["node"] == node]


def load_family_preset(name: str) -> SystemSpec:
    """The preset of that name."""
    family, size = _list_family_members()[name]
    local = configs.load_node(family["node"]).memory_bandwidth_bytes_per_s / 1e9
    return build_system_spec(_FOLDER / "systems" / name, _build_dimensions(family, size), local)


def render_family_files(name: str) -> dict[str, str]:
    """The files of the preset of that name, with their texts."""
    return render_system_files(load_family_preset(name), describe_family_provenance(name))


def describe_family_provenance(name: str) -> dict[str, Any]:
    """Where the numbers of a preset come from."""
    family, size = _list_family_members()[name]
    texts: dict[str, str] = _read_family_file()["sources"]
    parts = family.get("dimensions") or [family["axes"]]
    key_sources = {
        key: "; ".join(dict.fromkeys(texts[part["sources"][key]] for part in parts))
        for key in ("npus_count", "bandwidth", "latency")
    }
    return {
        "description": family["description"].format(*size),
        "sources": {
            "topology": key_sources["npus_count"],
            **key_sources,
            "implementations": "ring; direct where each device has a link to each other; for an "
            "all-to-all through a switch direct1, one peer after the other, as ring and direct "
            "are far too slow and too fast there",
            "local-mem-bw": f"node preset {family['node']}",
            "other keys of system.json": "those of the published presets, with ASTRA-sim's default "
            "endpoint-delay; all written out, because ASTRA-sim reads uninitialised values where "
            "they are missing",
        },
        "units": UNITS + (f". {TORUS}" if "axes" in family else ""),
    }


def _build_dimensions(family: dict[str, Any], size: Sequence[int]) -> list[SystemDimension]:
    if "axes" in family:
        return _build_torus_dimensions(family["axes"], size)
    return [
        SystemDimension(
            part["topology"],
            int(str(part["devices"]).format(*size)),
            part["bandwidth_gb_s"],
            part["latency_ns"],
        )
        for part in family["dimensions"]
    ]


def _build_torus_dimensions(axes: dict[str, Any], size: Sequence[int]) -> list[SystemDimension]:
    rule = axes["wraps"]
    is_multiple = [n % rule["multiple"] == 0 for n in size]
    wraps = [all(is_multiple)] * len(size) if rule["of"] == "all" else is_multiple
    return [
        SystemDimension("Ring", n, axes["link_gb_s"] * (2 if wrapped else 1), axes["latency_ns"])
        for n, wrapped in zip(size, wraps, strict=True)
        if n > 1
    ]


@functools.cache
def _read_family_file() -> dict[str, Any]:
    return json.loads((_FOLDER / "systems" / "families.json").read_text("utf-8"))


@functools.cache
def _list_family_members() -> dict[str, tuple[dict[str, Any], tuple[int, ...]]]:
    return {
        family["name"].format(*size): (family, tuple(size))
        for family in _read_family_file()["families"]
        for size in family.get("sizes", [[]])
    }
