"""The steps of a simulation: what each node of a trace does on a system.

Nodes that ASTRA-sim cannot run raise an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hespas.chakra.node_rules import (
    COLL,
    COMP,
    MEMORY,
    RECV,
    SEND,
    read_communicator_id,
    read_integer_attr,
)
from hespas.chakra.schema import (
    COPY_ROUNDS_KEY,
    MAX_TAG,
    NETWORK_KEY,
    SECOND_STREAM,
    CollectiveCommType,
    NodeType,
)
from hespas.chakra.trace_reader import TraceNode
from hespas.configs.collective_algorithms import split_algorithm_name
from hespas.configs.system_spec import SystemSpec
from hespas.dialects.attrs import SLICES
from hespas.support.errors import HespasError

KINDS: dict[int, str] = {
    CollectiveCommType.ALL_REDUCE: "all_reduce",
    CollectiveCommType.ALL_GATHER: "all_gather",
    CollectiveCommType.REDUCE_SCATTER: "reduce_scatter",
    CollectiveCommType.ALL_TO_ALL: "all_to_all",
    CollectiveCommType.BROADCAST: "broadcast",
    CollectiveCommType.REDUCE: "reduce",
    CollectiveCommType.GATHER: "gather",
    CollectiveCommType.SCATTER: "scatter",
    CollectiveCommType.REDUCE_SCATTER_BLOCK: "reduce_scatter",
    CollectiveCommType.BARRIER: "barrier",
}
ASTRA_TYPES = (
    CollectiveCommType.ALL_REDUCE, CollectiveCommType.ALL_GATHER, CollectiveCommType.ALL_TO_ALL,
    CollectiveCommType.REDUCE_SCATTER, CollectiveCommType.BROADCAST,
)  # fmt: skip
"""The collectives that ASTRA-sim runs; the others have a time in the flow-level model only."""
MEMORY_KIND = "memory"  # an access to remote memory, which occupies the device as a message does
_NO_GROUP = -1
_MAX_DURATION_US = 1 << 43  # 102 days: sums of times in nanoseconds fit into 64 bits

_IntegerReader = Callable[[str], int]  # returns the value of an attribute of the node
_ErrorBuilder = Callable[..., HespasError]  # builds an error from a text and a remedy


@dataclass(frozen=True, slots=True)
class SimulationStep:
    """What a node does.

    Attributes:
        resource: compute, comm, recv, cpu, or skip for a node that takes no time; ``slices`` for a
            collective on the network between slices of TPUs, or in a second stream.
        duration_ns: Nanoseconds of a compute node or a broadcast.
        kind: The kind of collective, "send", "recv" or MEMORY_KIND; "" for compute.
        size: Bytes of a message, of an access to remote memory, or of a collective's operand on one
            device. A broadcast of no bytes takes the duration of its node.
        group: The communicator; 0 for all devices, -1 if there is none.
        peer: The device at the other end of a message.
        tag: The tag of a message.
        involved: Whether a collective runs in each dimension; () for all.
        comm_type: The kind of a collective in the trace; -1 if it is one that ASTRA-sim runs.
        copy_rounds: Loads in sequence of a kernel that copies between the devices of a host.
    """

    resource: str
    duration_ns: int = 0
    kind: str = ""
    size: int = 0
    group: int = _NO_GROUP
    peer: int = -1
    tag: int = 0
    involved: tuple[bool, ...] = ()
    comm_type: int = -1
    copy_rounds: int = 0


def build_step(path: Path, node: TraceNode, system: SystemSpec) -> SimulationStep:
    """Return what a node of a trace does; raises HespasError with file and node."""

    def build_error(text: str, remedy: str = "") -> HespasError:
        return HespasError(text, where=f"{path} node {node.id}", remedy=remedy)

    def read_integer(name: str) -> int:
        value = read_integer_attr(node, name)
        if value is None:
            attr = node.attrs.get(name)
            problem = (
                f"has the type {attr[0] or 'nothing'}, not an integer type"
                if attr
                else "is missing"
            )
            raise build_error(f"the attribute '{name}' {problem}")
        return value

    cpu = bool(node.get_attr_value("is_cpu_op", False))
    if node.type == COMP:
        if node.duration_us > _MAX_DURATION_US:
            raise build_error(f"duration_micros is {node.duration_us}, more than 2**43 us")
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
        if system.remote_memory is None:
            raise build_error("is a memory node, but the system has no remote memory")
        return SimulationStep("comm", kind=MEMORY_KIND, size=read_integer("tensor_size"))
    if node.type not in (COLL, SEND, RECV):
        raise build_error(
            f"has type {node.type}: only COMP, COLL, SEND and RECV nodes are simulated"
        )
    if cpu:
        raise build_error("communicates, but its is_cpu_op is true")
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
            "the key 'peak-perf' is missing, but roofline-enabled is on",
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
    comm_type = read_integer("comm_type")
    kind = KINDS.get(comm_type)
    if kind is None:
        raise build_error(f"comm_type {comm_type} is not simulated")
    foreign_type = -1 if comm_type in ASTRA_TYPES else comm_type
    group = read_communicator_id(node)
    if group is None:
        raise build_error(
            f"pg_name {node.get_attr_value('pg_name')!r} is not the number of a communicator"
        )
    if kind in ("broadcast", "barrier"):
        moved = read_integer_attr(node, "comm_size") or int(kind == "barrier")
        duration_ns = node.duration_us * 1000 or 1
        return SimulationStep(
            "comm", duration_ns, kind, max(0, moved), group, comm_type=foreign_type
        )
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
            raise build_error(f"involved_dim has the type {type_name or 'nothing'}, not bool_list")
        dims = len(system.npus_count)
        involved = tuple(value[:dims])
        if len(involved) < dims:
            raise build_error(
                f"involved_dim has {len(involved)} entries, but the network {dims} dimensions"
            )
        if not any(involved):
            raise build_error("involved_dim has no true entry: the collective never finishes")
        spanned = find_spanned_dimensions(system, kind, involved)
        if spanned and not any(spanned):
            raise build_error(
                f"involved_dim is true in no dimension of {kind.replace('_', '-')}-implementation: "
                "the collective never finishes"
            )
        if spanned and system.fabric.down_devices:
            raise build_error(
                "involved_dim names some dimensions, whose lines lack the devices that are down",
                "list its devices as a communicator",
            )
    is_beside = node.get_attr_value(NETWORK_KEY, "") in (SLICES, SECOND_STREAM)
    resource = "slices" if is_beside else "comm"
    rounds = read_integer_attr(node, COPY_ROUNDS_KEY) or 0
    return SimulationStep(
        resource,
        0,
        kind,
        size,
        group,
        involved=involved,
        comm_type=foreign_type,
        copy_rounds=rounds,
    )


def find_spanned_dimensions(
    system: SystemSpec, kind: str, involved: Sequence[bool]
) -> tuple[bool, ...]:
    """Return the dimensions of the network that a collective of the default communicator spans.

    An algorithm for all dimensions, such as ``oneRing``, ends the list of algorithms: ASTRA-sim
    ignores the rest. It spans all devices if the dimension of its place in the list is involved.

    Args:
        system: The system.
        kind: The kind of collective.
        involved: Whether the collective runs in each dimension; () for all.

    Returns:
        Whether each dimension is spanned; () if the collective spans all devices.
    """
    algorithms = system.list_algorithms(kind)
    if all(involved):
        return ()
    if not algorithms:  # a custom collective, or an error of the system
        return tuple(involved)
    spanned = [False] * len(involved)
    for dim, name in enumerate(algorithms):
        if split_algorithm_name(name)[1]:
            if involved[dim]:
                return ()
            break
        spanned[dim] = involved[dim]
    return tuple(spanned)
