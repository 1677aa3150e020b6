"""Checks of single trace nodes: types, attributes, sizes.

The rules are those of ASTRA-sim: what its feeders and its workload layer read, and how they fail,
usually without a message.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from hespas.chakra.schema import (
    COPY_ROUNDS_KEY,
    MAX_TAG,
    NETWORK_KEY,
    CollectiveCommType,
    NodeType,
)
from hespas.chakra.trace_reader import TraceNode

ERROR, WARNING = "error", "warning"
Finding = tuple[str, str, str]  # severity, rule, text

COMP, SEND, RECV, COLL = (
    NodeType.COMP_NODE,
    NodeType.COMM_SEND_NODE,
    NodeType.COMM_RECV_NODE,
    NodeType.COMM_COLL_NODE,
)
COMMUNICATION = frozenset((SEND, RECV, COLL))
MEMORY = frozenset((NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE))
NETWORKED = frozenset(
    (
        CollectiveCommType.ALL_REDUCE,
        CollectiveCommType.ALL_GATHER,
        CollectiveCommType.ALL_TO_ALL,
        CollectiveCommType.REDUCE_SCATTER,
    )
)
# For each attribute, the only kind that all versions of the feeder read correctly.
KINDS = {
    "is_cpu_op": "bool",
    "num_ops": "int64",
    "tensor_size": "uint64",
    "comm_type": "int64",
    "comm_size": "int64",
    "comm_src": "int32",
    "comm_dst": "int32",
    "comm_tag": "int32",
    "comm_priority": "int32",
    "pg_name": "string",
    NETWORK_KEY: "string",
    COPY_ROUNDS_KEY: "int64",
    "involved_dim": "bool_list",
}
NUMBERS = frozenset(
    ("bool", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
     "sfixed32", "sfixed64")
)  # fmt: skip


def find_node_problems(node: TraceNode) -> Iterator[Finding]:
    """Iterate over the problems of a node."""
    if node.type in MEMORY:
        yield WARNING, "type", "is a memory node: the system must define a remote memory"
    elif node.type not in (COMP, *COMMUNICATION):
        name = to_enum_name(NodeType, node.type)
        yield ERROR, "type", f"has type {name}: ASTRA-sim runs COMP, SEND, RECV and COLL nodes"
    if not set(node.ctrl_deps) <= set(node.data_deps):
        yield WARNING, "deps", "has ctrl_deps that are not data_deps: older feeders ignore them"
    if node.id in node.dependency_ids:
        yield ERROR, "cycle", "depends on itself"
    yield from _check_attr_kinds(node)
    if "is_cpu_op" not in node.attrs:
        yield WARNING, "attributes", "has no is_cpu_op: older versions treat it as a CPU op"
    elif node.get_attr_value("is_cpu_op"):
        if node.type in COMMUNICATION:
            yield ERROR, "attributes", "is a communication node with is_cpu_op true"
        else:
            yield WARNING, "attributes", "is_cpu_op is true: it runs alongside the device's nodes"
    if node.type == COMP:
        yield from _check_compute_node(node)
    elif node.type == COLL:
        yield from _check_collective_node(node)
    elif node.type in (SEND, RECV):
        yield from _check_transfer_node(node)


def _check_attr_kinds(node: TraceNode) -> Iterator[Finding]:
    for name, expected in KINDS.items():
        if name not in node.attrs:
            continue
        kind = node.attrs[name][0]
        if kind == expected:
            continue
        text = f"{name} is typed {kind or 'nothing'}, not {expected}"
        if kind in NUMBERS and expected in NUMBERS:
            yield WARNING, "attributes", f"{text}: older feeders read it as 0"
        else:
            yield ERROR, "attributes", text


def _check_compute_node(node: TraceNode) -> Iterator[Finding]:
    ops, size = read_integer_attr(node, "num_ops"), read_integer_attr(node, "tensor_size")
    if ops is None and node.duration_us == 0:
        yield WARNING, "duration", "has neither duration_micros nor num_ops: its duration is 1 ns"
    if ops is not None and size is None:
        yield WARNING, "duration", "has num_ops without tensor_size: roofline mode aborts"
    if size == 0:
        yield WARNING, "duration", "tensor_size is 0: roofline mode skips it"
    if ops == 0 and size:
        yield WARNING, "duration", "num_ops is 0: its time in roofline mode is not finite"


def _check_collective_node(node: TraceNode) -> Iterator[Finding]:
    kind = read_integer_attr(node, "comm_type")
    if kind is None:
        yield ERROR, "collective", "has no comm_type"
    elif kind == CollectiveCommType.BROADCAST:
        yield WARNING, "collective", "is a BROADCAST: its duration is replayed, without a network"
    elif kind not in NETWORKED:
        name = to_enum_name(CollectiveCommType, kind)
        yield ERROR, "collective", f"comm_type {name} is not simulated"
    size = read_integer_attr(node, "comm_size")
    if size is None:
        yield ERROR, "size", "has no comm_size"
    elif size < 0 or (size == 0 and kind == CollectiveCommType.ALL_GATHER):
        yield ERROR, "size", f"comm_size is {size}: it never finishes"
    elif size == 0 and kind != CollectiveCommType.BROADCAST:
        yield WARNING, "size", "comm_size is 0"
    group = read_communicator_id(node)
    if group is None:
        yield ERROR, "group", f"pg_name '{node.get_attr_value('pg_name')}' is not a number"
    dims = node.get_attr_value("involved_dim")
    if group == 0 and isinstance(dims, list) and not any(dims):
        yield ERROR, "collective", "involved_dim holds no true: it never finishes"


def _check_transfer_node(node: TraceNode) -> Iterator[Finding]:
    peer = "comm_dst" if node.type == SEND else "comm_src"
    for name in (peer, "comm_size", "comm_tag"):
        if read_integer_attr(node, name) is None:
            yield ERROR, "transfer", f"has no {name}"
    size, tag = read_integer_attr(node, "comm_size"), read_integer_attr(node, "comm_tag")
    if size is not None and size < 1:
        yield ERROR, "size", f"comm_size is {size}"
    if tag is not None and not 0 <= tag < MAX_TAG:
        yield WARNING, "transfer", f"comm_tag {tag} is reduced modulo {MAX_TAG}"


def to_enum_name(kinds: type[enum.IntEnum], value: int) -> str:
    """Return the name of a value, or the number if it has no name."""
    try:
        return kinds(value).name
    except ValueError:
        return str(value)


def read_integer_attr(node: TraceNode, name: str) -> int | None:
    """Return the integer value of an attribute, or None if it is absent or not an integer."""
    kind, value = node.attrs.get(name, ("", None))
    return int(value) if kind in NUMBERS else None


def read_communicator_id(node: TraceNode) -> int | None:
    """Return the communicator id of a collective, or None if ``pg_name`` is not an id.

    0 is the default communicator of all ranks.
    """
    value = node.get_attr_value("pg_name", "")
    if value == "" or value is None:
        return 0
    return int(value) if isinstance(value, str) and value.isdecimal() else None
