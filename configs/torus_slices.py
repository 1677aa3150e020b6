"""Slices of TPU chips: a torus of ICI links, and the data center network (DCN) between slices.

The numbers of each node are under ``tori`` of ``systems/families.json``. A torus has a Ring or
a Mesh for each of its axes, see ``TORUS``.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hespas.configs.system_layout import SystemDimension
from hespas.support.errors import HespasError

_FAMILIES = Path(__file__).parent / "systems" / "families.json"
CUBE_SIDE = 4  # larger slices of a 3-D torus consist of cubes with this side
HOST_CHIPS = 4  # chips of a host, which is 2x2 of a slice
TORUS = (
    "each axis that wraps around is a Ring, and each other one a Mesh, with the bandwidth of a "
    "link in one direction"
)


@functools.cache
def read_family_file() -> dict[str, Any]:
    """Return the contents of ``systems/families.json``."""
    return json.loads(_FAMILIES.read_text("utf-8"))


def list_torus_nodes() -> list[str]:
    """Return the names of the nodes whose slices are known."""
    return list(read_family_file()["tori"])


def build_slice_dimensions(torus: str, size: Sequence[int]) -> list[SystemDimension]:
    """Return the dimensions of a slice, or of several slices.

    Args:
        torus: The name of the torus, which is that of its node.
        size: The chips along each axis, and then the number of slices if there are several.
    """
    entry = _read_torus(torus)
    axes, between, cores = entry["axes"], entry["slices"], entry.get("cores")
    shape, slices = size[: axes["count"]], size[axes["count"] :]
    rule = axes["wraps"]
    is_multiple = [n % rule["multiple"] == 0 for n in shape]
    wraps = [all(is_multiple)] * len(shape) if rule["of"] == "all" else is_multiple
    dimensions = (
        [
            SystemDimension(
                "FullyConnected", cores["count"], cores["bandwidth_gb_s"], cores["latency_ns"]
            )
        ]
        if cores
        else []
    )
    dimensions += [
        SystemDimension("Ring" if wrapped else "Mesh", n, axes["link_gb_s"], axes["latency_ns"])
        for n, wrapped in zip(shape, wraps, strict=True)
        if n > 1
    ]
    dimensions += [
        SystemDimension("Switch", n, between["bandwidth_gb_s"], between["latency_ns"])
        for n in slices
        if n > 1
    ]
    return dimensions


def list_slice_parts(torus: str, size: Sequence[int]) -> list[dict[str, Any]]:
    """Return the entries of the file that describe a size, for their sources."""
    entry = _read_torus(torus)
    cores = [entry["cores"]] if "cores" in entry else []
    return [
        *cores,
        entry["axes"],
        *([entry["slices"]] if len(size) > entry["axes"]["count"] else []),
    ]


def choose_slice_shape(torus: str, chips: int) -> tuple[int, ...]:
    """Choose the shape of a slice: that with the shortest sides, longest first.

    Raises:
        HespasError: No slice has that number of chips.
    """
    shape = find_slice_shape(chips, _read_torus(torus)["axes"]["count"])
    if shape is None:
        raise HespasError(f"no slice of {torus} has {chips} chips")
    return tuple(sorted(shape, reverse=True))


def find_slice_shape(chips: int, dimensions: int) -> tuple[int, ...] | None:
    """Find the shape of a slice with the least sum of its sides; None if hosts do not fill one."""
    if chips in (1, 2):
        return (1, chips, 1)[:dimensions]
    if dimensions == 2:
        shapes = [(a, chips // a) for a in range(2, chips + 1, 2) if chips % a == 0]
        return min((s for s in shapes if s[1] % 2 == 0 and s[0] <= s[1]), key=sum, default=None)
    if chips == HOST_CHIPS:
        return (2, 2, 1)
    step = CUBE_SIDE if chips % CUBE_SIDE**3 == 0 else 2  # larger slices consist of cubes
    sides = [a for a in range(step, chips + 1, step) if chips % a == 0]
    shapes = [
        (a, b, chips // (a * b))
        for a in sides
        for b in sides
        if a <= b and chips % (a * b) == 0 and chips // (a * b) in sides and b <= chips // (a * b)
    ]
    return min(shapes, key=sum, default=None)


def get_cores_per_chip(torus: str) -> int:
    """Return the devices of a chip: 1, or the number of its cores if each is a device."""
    return _read_torus(torus).get("cores", {"count": 1})["count"]


def get_largest_slice(torus: str) -> int | None:
    """Return the most chips of a slice; None if slices of any size can be made."""
    axes = _read_torus(torus)["axes"]
    return axes["wraps"]["multiple"] ** 2 if axes["count"] == 2 else None


def _read_torus(torus: str) -> dict[str, Any]:
    return read_family_file()["tori"][torus]
