"""The devices of a mesh that spans slices or hosts, as ``dcn_fsdp=16;ici_fsdp=8`` states them.

JAX's hybrid mesh, which MaxText uses, numbers the devices of an axis by slice and then within the
slice. The programs of hespas number devices in the order of the axes. Both are equal unless slices
divide an axis inside of one that has several devices of a slice; such a row is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

AXIS_ORDER = ("dp", "fsdp", "cp", "ep", "tp")  # major axis first
_ALIASES = {"data": "dp", "context": "cp", "expert": "ep", "tensor": "tp"}


def find_slice_problem(text: str, sizes: Mapping[str, int]) -> str:
    """Find what keeps the devices of a row from being in the order of a program; "" if nothing.

    Args:
        text: The division, with sizes between slices (``dcn_``) and within one (``ici_``).
        sizes: The whole size of each axis.
    """
    stated = {
        (level, _ALIASES.get(axis, axis)): int(size)
        for level, axis, size in re.findall(r"\b(dcn|ici)_([a-z]+)=(\d+)", text)
    }
    divided = ""
    for axis in AXIS_ORDER:
        between, within = stated.get(("dcn", axis), 1), stated.get(("ici", axis), 1)
        both = {("dcn", axis), ("ici", axis)} <= stated.keys()
        if both and between * within != sizes.get(axis, 1):
            return f"{between} x {within} devices of an axis {axis}={sizes.get(axis, 1)}"
        if divided and between > 1:
            return (
                f"dcn_{axis}={between} inside of ici_{divided}, which is another order of devices"
            )
        divided = axis if within > 1 else divided
    return ""
