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
from hespas.configs.layout import UNITS, Dimension, files, system
from hespas.configs.system import System

_FOLDER = Path(__file__).parent
TORUS = (
    "each axis is a Ring. Where it wraps around, both directions carry a ring's data, and its "
    "bandwidth is twice a link's; where it does not, that of one link, with which a ring takes as "
    "long as a line does"
)


def names() -> list[str]:
    """The names of the presets that families make."""
    return list(_members())


def of_node(node: str) -> list[str]:
    """The names of those that are made of a node."""
    return [name for name, (family, _) in _members().items() if family["node"] == node]


def member(name: str) -> System:
    """The preset of that name."""
    family, size = _members()[name]
    local = configs.node(family["node"]).memory_bandwidth_bytes_per_s / 1e9
    return system(_FOLDER / "systems" / name, _dimensions(family, size), local)


def member_files(name: str) -> dict[str, str]:
    """The files of the preset of that name, with their texts."""
    return files(member(name), provenance(name))


def provenance(name: str) -> dict[str, Any]:
    """Where the numbers of a preset come from."""
    family, size = _members()[name]
    texts: dict[str, str] = _read()["sources"]
    parts = family.get("dimensions") or [family["axes"]]
    said = {
        key: "; ".join(dict.fromkeys(texts[part["sources"][key]] for part in parts))
        for key in ("npus_count", "bandwidth", "latency")
    }
    return {
        "description": family["description"].format(*size),
        "sources": {
            "topology": said["npus_count"],
            **said,
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


def _dimensions(family: dict[str, Any], size: Sequence[int]) -> list[Dimension]:
    if "axes" in family:
        return _axes(family["axes"], size)
    return [
        Dimension(
            part["topology"],
            int(str(part["devices"]).format(*size)),
            part["bandwidth_gb_s"],
            part["latency_ns"],
        )
        for part in family["dimensions"]
    ]


def _axes(axes: dict[str, Any], size: Sequence[int]) -> list[Dimension]:
    rule = axes["wraps"]
    whole = [n % rule["multiple"] == 0 for n in size]
    wraps = [all(whole)] * len(size) if rule["of"] == "all" else whole
    return [
        Dimension("Ring", n, axes["link_gb_s"] * (2 if wrapped else 1), axes["latency_ns"])
        for n, wrapped in zip(size, wraps, strict=True)
        if n > 1
    ]


@functools.cache
def _read() -> dict[str, Any]:
    return json.loads((_FOLDER / "systems" / "families.json").read_text("utf-8"))


@functools.cache
def _members() -> dict[str, tuple[dict[str, Any], tuple[int, ...]]]:
    return {
        family["name"].format(*size): (family, tuple(size))
        for family in _read()["families"]
        for size in family.get("sizes", [[]])
    }
