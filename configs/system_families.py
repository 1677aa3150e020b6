"""System presets of several sizes: each family is an entry of ``systems/families.json``.

An entry has ``dimensions`` as in ``SystemDimension``, or the ``axes`` of a torus of TPU chips. In
them, ``{0}`` is replaced by the first number of a size, and so on.
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
    "each axis is a Ring. If it wraps around, both directions carry the data of a ring, and its "
    "bandwidth is that of two links; if not, it is that of one link, with which a ring needs as "
    "much time as a line"
)


def list_family_presets() -> list[str]:
    """Return the names of the presets of all families."""
    return list(_list_family_members())


def list_presets_of_node(node: str) -> list[str]:
    """Return the names of the presets that consist of a node preset."""
    return [name for name, (family, _) in _list_family_members().items() if family["node"] == node]


def load_family_preset(name: str) -> SystemSpec:
    """Load a preset of a family."""
    family, size = _list_family_members()[name]
    local = configs.load_node(family["node"]).memory_bandwidth_bytes_per_s / 1e9
    return build_system_spec(_FOLDER / "systems" / name, _build_dimensions(family, size), local)


def render_family_files(name: str) -> dict[str, str]:
    """Return the texts of the files of a preset by name."""
    return render_system_files(load_family_preset(name), describe_family_provenance(name))


def describe_family_provenance(name: str) -> dict[str, Any]:
    """Return the sources of a preset's numbers."""
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
            "implementations": "ring; direct if each device has a link to every other device; for "
            "an all-to-all through a switch direct1, one peer after the other, because ring is far "
            "too slow and direct far too fast there",
            "local-mem-bw": f"node preset {family['node']}",
            "other keys of system.json": "those of the published presets, with ASTRA-sim's default "
            "endpoint-delay; all are written, because ASTRA-sim reads uninitialised values for "
            "missing keys",
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
