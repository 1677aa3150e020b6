"""The sizes of the axes of a mesh, as the texts of rows state them.

Rows state whole sizes (``dp=2;fsdp=8``, ``TP8 DP2``), or those between slices and within one under
MaxText's names (``dcn_data_parallelism=2;ici_fsdp_parallelism=-1``), where -1 stands for the rest.
"""

from __future__ import annotations

import math
import re

_AXES = {
    "dp": "dp", "data": "dp", "ddp": "dp", "replica": "dp", "dp_replicate": "dp", "dp_rep": "dp",
    "fsdp": "fsdp", "dp_shard": "fsdp", "hsdp_shard": "fsdp",
    "tp": "tp", "tensor": "tp", "model": "tp", "mdl": "tp", "mp": "tp",
    "pp": "pp", "pipeline": "pp", "stage": "pp", "vp": "vp", "vpp": "vp",
    "cp": "cp", "context": "cp", "ep": "ep", "expert": "ep", "sp": "sp",
    "fsdp_transpose": "fsdp_transpose", "sequence": "sequence",
    "tensor_transpose": "tensor_transpose", "tensor_sequence": "tensor_sequence",
    "diloco": "diloco", "autoregressive": "autoregressive", "etp": "etp",
}  # fmt: skip
NO_DEVICES = ("sp", "vp")  # axes that have the devices of others
_SIZE = re.compile(
    r"(?<![\w.])(?:(ici|dcn)_)?([a-z_]+?)(?:_parallelism|_parallel|_size|_degree)*"
    r"\s?[=:]?\s?(-?\d+)(?![\w.]|\.\d)"
)


def read_axis_sizes(text: str, devices: int) -> dict[str, int]:
    """Read the size of each axis that a text states, whole or as a product of two levels."""
    if division := _read_host_division(text, devices):
        return division
    whole: dict[str, int] = {}
    levels: dict[str, list[int]] = {}
    for level, name, size in _SIZE.findall(text.lower()):
        axis = _AXES.get(name)
        if axis and level:
            levels.setdefault(axis, []).append(int(size))
        elif axis:
            whole.setdefault(axis, int(size))
    for axis, factors in levels.items():
        whole.setdefault(axis, math.prod(factors))
    open_axes = [axis for axis, size in whole.items() if size < 0]
    if len(open_axes) == 1:
        stated = math.prod(n for axis, n in whole.items() if n > 0 and axis not in NO_DEVICES)
        whole[open_axes[0]] = devices // stated
    return whole


def _read_host_division(text: str, devices: int) -> dict[str, int]:
    """Read ``fsdp+dp (FSDP 4 nodes x 8)``, or a range of nodes, of which the fewest count.

    NVIDIA's benchmarks of Paxml have 1 node for 5B and 16 for 175B (dgxc-benchmarking v24.11.1,
    paxml/configure.sh); rows of 175B state 16.
    """
    match = re.search(r"fsdp (\d+)(?:\.\.\d+)? (?:nodes|hosts) x (\d+)", text.lower())
    if not match:
        return {}
    per_host = int(match[2])
    fsdp = min(devices, int(match[1]) * per_host)
    return {"dp": devices // fsdp, "fsdp": fsdp}
