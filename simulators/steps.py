"""What each node of a trace does on a system. What ASTRA-sim could not run is an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hespas.chakra.reader import Node
from hespas.chakra.rules import COLL, COMP, MAX_TAG, MEMORY, RECV, SEND, group_of, name_of, number
from hespas.chakra.schema import CollectiveCommType, NodeType
from hespas.configs.system import System
from hespas.dialects.errors import HespasError

KINDS: dict[int, str] = {
    CollectiveCommType.ALL_REDUCE: "all_reduce",
    CollectiveCommType.ALL_GATHER: "all_gather",
    CollectiveCommType.REDUCE_SCATTER: "reduce_scatter",
    CollectiveCommType.ALL_TO_ALL: "all_to_all",
    CollectiveCommType.BROADCAST: "broadcast",
}
NO_GROUP = -1

Integer = Callable[[str], int]  # the value of a node's attribute
Fail = Callable[..., HespasError]  # of a text and a remedy


@dataclass(frozen=True, slots=True)
class Step:
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
    group: int = NO_GROUP
    peer: int = -1
    tag: int = 0
    involved: tuple[bool, ...] = ()


def step_of(path: Path, node: Node, system: System) -> Step:
    """What a node of a trace does; raises HespasError with file and node."""

    def fail(text: str, remedy: str = "") -> HespasError:
        return HespasError(text, where=f"{path} node {node.id}", remedy=remedy)

    def integer(name: str) -> int:
        value = number(node, name)
        if value is None:
            there = node.attrs.get(name)
            what = f"is typed {there[0] or 'nothing'}, not as an integer" if there else "is missing"
            raise fail(f"the attribute '{name}' {what}")
        return value

    cpu = bool(node.value("is_cpu_op", False))
    if node.type == COMP:
        if cpu:
            return Step("cpu", node.duration_us * 1000 or 1)
        if not system.roofline_enabled:
            return Step("compute", node.duration_us * 1000 or 1)
        return _roofline(integer("num_ops"), integer("tensor_size"), system, fail)
    if node.type == NodeType.INVALID_NODE:
        return Step("skip")
    if node.type in MEMORY:
        raise fail("is a memory node, and the system has no remote memory")
    if node.type not in (COLL, SEND, RECV):
        raise fail(f"has type {node.type}: only COMP, COLL, SEND and RECV nodes are simulated")
    if cpu:
        raise fail("communicates, and its is_cpu_op is true")
    if node.type == COLL:
        return _collective(node, integer, system, fail)
    size = integer("comm_size")
    if size < 1:
        raise fail(f"comm_size is {size}")
    peer = integer("comm_dst" if node.type == SEND else "comm_src")
    tag = integer("comm_tag") % MAX_TAG
    if node.type == SEND:
        return Step("comm", kind="send", size=size, peer=peer, tag=tag)
    return Step("recv", kind="recv", size=size, peer=peer, tag=tag)


def _roofline(ops: int, size: int, system: System, fail: Fail) -> Step:
    if size == 0:
        return Step("skip")
    if ops <= 0:
        raise fail("num_ops is 0: roofline mode gives it no finite time")
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
    return Step("compute", int(float(ops) / rate * 1e9))


def _collective(node: Node, integer: Integer, system: System, fail: Fail) -> Step:
    kind = KINDS.get(integer("comm_type"))
    if kind is None:
        raise fail(
            f"comm_type {name_of(CollectiveCommType, integer('comm_type'))} is not simulated"
        )
    group = group_of(node)
    if group is None:
        raise fail(f"pg_name {node.value('pg_name')!r} is not the number of a communicator")
    if kind == "broadcast":
        return Step("comm", node.duration_us * 1000 or 1, kind, 0, group)
    size = integer("comm_size")
    if size < 0 or (size == 0 and kind == "all_gather"):
        raise fail(f"comm_size is {size}: the collective never finishes")
    splits = system.preferred_dataset_splits
    if kind == "all_gather" and size < splits:
        raise fail(
            f"an all-gather of {size} bytes cannot be split in {splits}: it never finishes",
            "lower preferred-dataset-splits",
        )
    involved: tuple[bool, ...] = ()
    if group == 0 and "involved_dim" in node.attrs:
        type_name, value = node.attrs["involved_dim"]
        if type_name != "bool_list":
            raise fail(f"involved_dim is typed {type_name or 'nothing'}, not bool_list")
        dims = len(system.npus_count)
        involved = tuple(value[:dims])
        if len(involved) < dims:
            raise fail(
                f"involved_dim has {len(involved)} entries, and the network {dims} dimensions"
            )
        if not any(involved):
            raise fail("involved_dim holds no true: the collective never finishes")
    return Step("comm", 0, kind, size, group, involved=involved)
