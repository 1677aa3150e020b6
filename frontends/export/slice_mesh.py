"""A mesh on slices: each axis has a part between slices (DCN) and a part within one (ICI).

The devices of a slice, or of a host, are connected by fast links and have consecutive ids. A mesh
in row-major order has its first axes between slices. Here any axis may have a part there, as in
``jax.experimental.mesh_utils.create_hybrid_device_mesh``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest


def order_devices(mesh: Mapping[str, int], dcn: Mapping[str, int]) -> list[int]:
    """Return the device id at each position of a mesh, in row-major order.

    Args:
        mesh: The size of each axis, major axis first.
        dcn: The part of axes that lies between slices; 1 for axes left out.

    Raises:
        UsageError: An axis does not exist, or its part does not divide it.
    """
    for axis, size in dcn.items():
        if axis not in mesh:
            raise UsageError(
                f"the mesh has no axis '{axis}'", remedy=suggest_nearest(axis, list(mesh))
            )
        if size < 1 or mesh[axis] % size:
            raise UsageError(f"axis {axis} of {mesh[axis]} has no part of {size} between slices")
    between = [dcn.get(axis, 1) for axis in mesh]
    within = [size // part for size, part in zip(mesh.values(), between, strict=True)]
    extents = (*between, *within)
    ids = []
    for position in itertools.product(*map(range, mesh.values())):
        pairs = [divmod(index, size) for index, size in zip(position, within, strict=True)]
        device = 0
        for index, extent in zip(
            (*(q for q, _ in pairs), *(r for _, r in pairs)), extents, strict=True
        ):
            device = device * extent + index
        ids.append(device)
    return ids


def is_in_device_order(mesh: Mapping[str, int], dcn: Mapping[str, int]) -> bool:
    """Return whether the device ids are the positions in the mesh."""
    if not dcn:
        return True
    ids = order_devices(mesh, dcn)
    return ids == sorted(ids)


def list_slice_divisions(
    mesh: Mapping[str, int], slices: int, sizes: Mapping[str, Sequence[int]]
) -> list[dict[str, int]]:
    """List the ways to divide the axes of a mesh over slices.

    Args:
        mesh: The size of each axis.
        slices: The number of slices, which the parts between them multiply to.
        sizes: The parts to try of axes; every divisor for axes left out.
    """
    tried = [
        [n for n in range(1, size + 1) if size % n == 0 and n in sizes.get(axis, (n,))]
        for axis, size in mesh.items()
    ]
    ways = (dict(zip(mesh, parts, strict=True)) for parts in itertools.product(*tried))
    return [way for way in ways if math.prod(way.values()) == slices]


def list_axis_lines(
    axes: Sequence[str], mesh: Mapping[str, int], dcn: Mapping[str, int]
) -> list[tuple[int, int]]:
    """List the distance and the number of neighbours along axes: parts between slices, then within.

    Parts of one device are left out, and the farthest neighbours come first.
    """
    parts = [(axis, dcn.get(axis, 1)) for axis in mesh]
    parts += [(axis, size // dcn.get(axis, 1)) for axis, size in mesh.items()]
    lines, stride = [], 1
    for axis, extent in reversed(parts):
        if axis in axes and extent > 1:
            lines.append((stride, extent))
        stride *= extent
    return lines[::-1]
