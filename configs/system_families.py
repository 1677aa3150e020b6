"""System presets of several sizes: each family is an entry of ``systems/families.json``.

An entry has ``dimensions`` as in ``SystemDimension``, in which ``{0}`` is replaced by the first
number of a size, and so on, or the ``torus`` of its slices of TPU chips.
"""

from __future__ import annotations

import functools
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
from hespas.configs.torus_slices import (
    TORUS,
    build_slice_dimensions,
    list_slice_parts,
    read_family_file,
)

_FOLDER = Path(__file__).parent


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
    texts: dict[str, str] = read_family_file()["sources"]
    parts = family.get("dimensions") or list_slice_parts(family["torus"], size)
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
        "units": UNITS + (f". {TORUS}" if "torus" in family else ""),
    }


def _build_dimensions(family: dict[str, Any], size: Sequence[int]) -> list[SystemDimension]:
    if "torus" in family:
        return build_slice_dimensions(family["torus"], size)
    return [
        SystemDimension(
            part["topology"],
            int(str(part["devices"]).format(*size)),
            part["bandwidth_gb_s"],
            part["latency_ns"],
        )
        for part in family["dimensions"]
    ]


@functools.cache
def _list_family_members() -> dict[str, tuple[dict[str, Any], tuple[int, ...]]]:
    return {
        family["name"].format(*size): (family, tuple(size))
        for family in read_family_file()["families"]
        for size in family.get("sizes", [[]])
    }
