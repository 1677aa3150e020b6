"""What each node of a trace does on a system. What ASTRA-sim could not run is an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hespas.chakra.node_rules import (
    COLL,
    COMP,
    MAX_TAG,
    MEMORY,
    RECV,
    SEND,
    read_communicator_id,
    read_integer_attr,
    to_enum_name,
)
from hespas.chakra.schema import CollectiveCommType, NodeType
from hespas.chakra.trace_reader import TraceNode
from hespas.configs.system_spec import SystemSpec
from hespas.support.errors import HespasError

KINDS: dict[int, str] = {
    CollectiveCommType.ALL_REDUCE: "all_reduce",
    CollectiveCommType.ALL_GATHER: "all_gather",
    CollectiveCommType.REDUCE_SCATTER: "reduce_scatter",
    CollectiveCommType.ALL_TO_ALL: "all_to_all",
    CollectiveCommType.BROADCAST: "broadcast",
}
_NO_GROUP = -1

_IntegerReader = Callable[[str], int]  # the value of a node's attribute
_ErrorBuilder = Callable[..., HespasError]  # of a text and a remedy


@dataclass(frozen=True, slots=True)
class SimulationStep:
    """What a node does. ``resource``: compute, comm, recv, cpu, or skip (no time).

    ``duration_ns`` of a compute node or a broadcast; ``kind`` a collective's, or "send", "recv";
    ``size`` in bytes, a collective's operand on one device or a message; ``group`` its
    communicator, 0 for all devices; ``involved`` by dimension, () for all; ``peer`` and ``tag``
    those of a message.
    """

    resource: str
    duration_ns: int = 0
    kind: str = ""
    size: int = 0
    group: int = _NO_GROUP
    peer: int = -1
    tag: int = 0
    involved: tuple[bool, ...] = ()


def build_step(path: Path, node: TraceNode, system: SystemSpec) -> SimulationStep:
    """What a node of a trace does; raises HespasError with file and node."""

    def build_error(text: str, remedy: str = "") -> HespasError:
        return HespasError(text, where=f"{path} node {node.id}", remedy=remedy)

    def read_integer(name: str) -> int:
        value = read_integer_attr(node, name)
        if value is None:
            there = node.attrs.get(name)
            problem = (
                f"is typed {there[0] or 'nothing'}, not as an integer" if there else "is missing"
            )
            raise build_error(f"the attribute '{name}' {problem}")
        return value

    cpu = bool(node.get_attr_value("is_cpu_op", False))
    if node.type == COMP:
        if cpu:
            return SimulationStep("cpu", node.duration_us * 1000 or 1)
        if not system.roofline_enabled:
            return SimulationStep("compute", node.duration_us * 1000 or 1)
        return _build_roofline_step(
            read_integer("num_ops"), read_integer("tensor_size"), system, build_error
        )
    if node.type == NodeType.INVALID_NODE:
        return SimulationStep("skip")
    if node.type in MEMORY:
        raise build_error("is a memory node, and the system has no remote memory")
    if node.type not in (COLL, SEND, RECV):
        raise build_error(
            f"has type {node.type}: only COMP, COLL, SEND and RECV nodes are simulated"
        )
    if cpu:
        raise build_error("communicates, and its is_cpu_op is true")
    if node.type == COLL:
        return _build_collective_step(node, read_integer, system, build_error)
    size = read_integer("comm_size")
    if size < 1:
        raise build_error(f"comm_size is {size}")
    peer = read_integer("comm_dst" if node.type == SEND else "comm_src")
    tag = read_integer("comm_tag") % MAX_TAG
    if node.type == SEND:
        return SimulationStep("comm", kind="send", size=size, peer=peer, tag=tag)
    return SimulationStep("recv", kind="recv", size=size, peer=peer, tag=tag)


def _build_roofline_step(
    ops: int, size: int, system: SystemSpec, build_error: _ErrorBuilder
) -> SimulationStep:
    if size == 0:
        return SimulationStep("skip")
    if ops <= 0:
        raise build_error("num_ops is 0: roofline mode gives it no finite time")
    if system.peak_perf_tflops is None:
        raise HespasError(
            "the key 'peak-perf' is missing, and roofline-enabled is on",
            where=str(system.folder / "system.json"),
        )
    intensity = float(ops) / float(size)
    rate = min(
        system.local_mem_bw_gb_s * 1_000_000_000 * intensity,
        system.peak_perf_tflops * 1_000_000_000_000,
    )
    return SimulationStep("compute", int(float(ops) / rate * 1e9))


def _build_collective_step(
    node: TraceNode, read_integer: _IntegerReader, system: SystemSpec, build_error: _ErrorBuilder
) -> SimulationStep:
    kind = KINDS.get(read_integer("comm_type"))
    if kind is None:
        raise build_error(
            f"comm_type {to_enum_name(CollectiveCommType, read_integer('comm_type'))} is not simulated"
        )
    group = read_communicator_id(node)
    if group is None:
        raise build_error(
            f"pg_name {node.get_attr_value('pg_name')!r} is not the number of a communicator"
        )
    if kind == "broadcast":
        return SimulationStep("comm", node.duration_us * 1000 or 1, kind, 0, group)
    size = read_integer("comm_size")
    if size < 0 or (size == 0 and kind == "all_gather"):
        raise build_error(f"comm_size is {size}: the collective never finishes")
    splits = system.preferred_dataset_splits
    if kind == "all_gather" and size < splits:
        raise build_error(
            f"an all-gather of {size} bytes cannot be split in {splits}: it never finishes",
            "lower preferred-dataset-splits",
        )
    involved: tuple[bool, ...] = ()
    if group == 0 and "involved_dim" in node.attrs:
        type_name, value = node.attrs["involved_dim"]
        if type_name != "bool_list":
            raise build_error(f"involved_dim is typed {type_name or 'nothing'}, not bool_list")
        dims = len(system.npus_count)
        involved = tuple(value[:dims])
        if len(involved) < dims:
            raise build_error(
                f"involved_dim has {len(involved)} entries, and the network {dims} dimensions"
            )
        if not any(involved):
            raise build_error("involved_dim holds no true: the collective never finishes")
    return SimulationStep("comm", 0, kind, size, group, involved=involved)
