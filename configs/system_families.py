"""System presets of several sizes: each family is an entry of ``systems/families.json``.

An entry has ``dimensions`` as in ``SystemDimension``, in which ``{0}`` is replaced by the first
number of a size, and so on, or the ``torus`` of its slices of TPU chips. The listed ``sizes`` are
examples for a family with ``dimensions``: any number up to the largest one makes a system, such as
``DGX_H100_SuperPOD_3``.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.configs.system_layout import (
    UNITS,
    SystemDimension,
    build_system_spec,
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


def is_family_preset(name: str) -> bool:
    """Return whether a name is that of a system of a family, of a listed size or another."""
    return _find_family_member(name) is not None


def list_presets_of_size(devices: int, node: str | None = None) -> list[str]:
    """List the systems with a number of devices, of a node preset or of all.

    Those of listed sizes are among them.
    """
    names = []
    for family in read_family_file()["families"]:
        if node not in (None, family["node"]):
            continue
        sizes = family.get("sizes", [[]])
        if _has_free_size(family):
            fixed = math.prod(d["devices"] for d in family["dimensions"] if d["devices"] != "{0}")
            sizes = [[devices // fixed]] if devices % fixed == 0 else []
        for size in sizes:
            name = family["name"].format(*size)
            if is_family_preset(name) and configs.load_system(name).device_count == devices:
                names.append(name)
    return names


def get_family_rank(name: str) -> int:
    """Return the position of a system's family in the file; the number of families for others."""
    families = read_family_file()["families"]
    member = _find_family_member(name)
    return len(families) if member is None else families.index(member[0])


def _has_free_size(family: dict[str, Any]) -> bool:
    """Return whether the sizes of a family are examples: it has one number, and is no torus."""
    return "dimensions" in family and "{0}" in family["name"] and "{1}" not in family["name"]


@functools.cache
def _find_family_member(name: str) -> tuple[dict[str, Any], tuple[int, ...]] | None:
    """Return the family and the size of a system; None if the name is that of no family."""
    member = _list_family_members().get(name)
    if member is not None:
        return member
    for family in filter(_has_free_size, read_family_file()["families"]):
        before, after = family["name"].split("{0}")
        number = re.fullmatch(rf"{re.escape(before)}([1-9]\d*){re.escape(after)}", name)
        if number and 2 <= int(number[1]) <= max(family["sizes"])[0]:
            return family, (int(number[1]),)
    return None


def _get_family_member(name: str) -> tuple[dict[str, Any], tuple[int, ...]]:
    member = _find_family_member(name)
    if member is None:
        raise KeyError(name)
    return member


def load_family_preset(name: str) -> SystemSpec:
    """Load a preset of a family."""
    family, size = _get_family_member(name)
    local = configs.load_node(family["node"]).memory_bandwidth_bytes_per_s / 1e9
    return build_system_spec(_FOLDER / "systems" / name, _build_dimensions(family, size), local)


def describe_family_provenance(name: str) -> dict[str, Any]:
    """Return the sources of a preset's numbers."""
    family, size = _get_family_member(name)
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
