"""The collectives that an algorithm cannot run."""

from __future__ import annotations

from collections.abc import Sequence

from .logical_dimensions import LogicalDimension


def find_algorithm_problem(
    kind: str, dims: Sequence[LogicalDimension], *, part: bool, is_split: bool
) -> str:
    """Describe why the algorithms of a system cannot run a collective; "" if they can.

    Args:
        kind: The kind of collective.
        dims: The dimensions in which it runs.
        part: Whether it is one ring over some of the devices.
        is_split: Whether all dimensions but the last run an all-reduce as a reduce-scatter and an
            all-gather.
    """
    for dim in dims:
        name, count = dim.algorithm.name, dim.count
        if name == "halvingDoubling" and count & (count - 1):
            return f"halvingDoubling needs a power of two of devices, and there are {count}"
        if name == "halvingDoubling" and kind == "all_to_all":
            return "halvingDoubling does no all-to-all"
        if name == "doubleBinaryTree":
            if kind != "all_reduce":
                return f"doubleBinaryTree does all-reduces only, not {kind}"
            if is_split and any(d.algorithm.name == "doubleBinaryTree" for d in dims[:-1]):
                return (
                    "doubleBinaryTree does all-reduces only, and with localBWAware all "
                    "dimensions but the last do reduce-scatters and all-gathers"
                )
            if part:
                return "doubleBinaryTree does not work on a communicator of some devices"
            if count & (count - 1):
                return f"doubleBinaryTree needs a power of two of devices, not {count}"
        if dim.algorithm.window == 0:
            return "direct0 sends nothing"
    return ""
