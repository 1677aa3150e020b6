"""Remote memory: ``remote_memory.json``, which ASTRA-sim reads too.

Source of the model: astra-sim/astra-memory-analytical, AnalyticalRemoteMemory.cc.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field

from hespas.configs.system_spec import RemoteMemory
from hespas.configs.validation import StrictModel, validate_config
from hespas.support.errors import HespasError

MemoryKind = Literal[
    "NO_MEMORY_EXPANSION", "PER_NPU_MEMORY_EXPANSION", "PER_NODE_MEMORY_EXPANSION", "MEMORY_POOL"
]
_MAX_LATENCY_NS = 10**12


class RemoteMemoryFile(StrictModel):
    """``remote_memory.json``: which devices share a memory, its latency and its bandwidth."""

    memory_type: Annotated[MemoryKind, Field(alias="memory-type")]
    latency_ns: Annotated[int, Field(ge=0, le=_MAX_LATENCY_NS, alias="remote-mem-latency")] = 0
    bandwidth_gb_s: Annotated[int | None, Field(gt=0, le=10**9, alias="remote-mem-bw")] = None
    num_nodes: Annotated[int | None, Field(gt=0, alias="num-nodes")] = None
    num_npus_per_node: Annotated[int | None, Field(gt=0, alias="num-npus-per-node")] = None


def parse_remote_memory(data: dict[str, Any], place: str, devices: int) -> RemoteMemory | None:
    """Convert the contents of remote_memory.json; None if there is no remote memory.

    Args:
        data: The contents.
        place: The path of the file, for error messages.
        devices: The number of devices of the system.

    Raises:
        HespasError: A key or value is wrong or missing.
    """
    file = validate_config(RemoteMemoryFile, data, place)
    if file.memory_type == "NO_MEMORY_EXPANSION":
        return None
    if file.bandwidth_gb_s is None:
        raise HespasError("the key 'remote-mem-bw' is missing", where=place)
    shared = {"PER_NPU_MEMORY_EXPANSION": 1, "MEMORY_POOL": devices}.get(file.memory_type)
    if shared is None:
        if file.num_npus_per_node is None or file.num_nodes is None:
            raise HespasError("num-nodes and num-npus-per-node are needed", where=place)
        shared = file.num_npus_per_node
        if file.num_nodes < math.ceil(devices / shared):
            raise HespasError(
                f"{file.num_nodes} nodes of {shared} devices are fewer than {devices} devices",
                where=place,
            )
    return RemoteMemory(file.latency_ns, file.bandwidth_gb_s, shared)
