"""What a collective op says of its communication: its kind, its bytes, and the devices of pairs."""

from __future__ import annotations

import math
from typing import Any

from hespas.dialects.buffer_sizes import DynamicShape, to_buffer_size
from hespas.dialects.mlir import find_attribute, ir
from hespas.dialects.op_kinds import (
    COMM_KIND_BY_NAME,
    FETCH_CALL_TARGET,
    HOST_COPY_CALL_TARGETS,
    RAGGED_CALL_TARGETS,
    get_collective_name,
    is_collective,
)


def compute_comm_bytes(op: ir.Operation) -> tuple[int, int]:
    """Compute the bytes of the operands and of the results of a collective on one device.

    A copy between device and host counts what it moves. Of a ragged all-to-all the data and the
    output count, as far as they fit in each other: devices send, on average, what others receive.
    Of a receive only the result counts: the send accounts for the message.

    Raises:
        DynamicShape: A type has no static shape.
    """
    name = get_collective_name(op)
    if name in HOST_COPY_CALL_TARGETS:
        moved = op.results[0] if name == FETCH_CALL_TARGET else op.operands[len(op.operands) > 1]
        moved_bytes = to_buffer_size(moved.type).bytes
        return moved_bytes, moved_bytes
    if name in RAGGED_CALL_TARGETS:
        data, output = (to_buffer_size(value.type).bytes for value in op.operands[:2])
        return min(data, output), output
    operand_bytes = sum(to_buffer_size(value.type).bytes for value in op.operands)
    result_bytes = sum(to_buffer_size(value.type).bytes for value in op.results)
    return (0 if name == "recv" else operand_bytes), result_bytes


# XLA's kernel for a ragged all-to-all between GPUs of a host (ragged_all_to_all.cc in its runtime):
# a block of 128 threads for each update to each device, and at most 8 bytes a thread at a time.
_RAGGED_DEVICES = 8  # larger groups use sends and receives of NCCL
_RAGGED_THREADS = 128
_RAGGED_LOAD_BYTES = 8
_RAGGED_BLOCKS = 2048  # about as many blocks of 128 threads run at once


def count_copy_rounds(op: ir.Operation, devices: int) -> int:
    """Count the loads of a thread of XLA's kernel for a ragged all-to-all in a group of devices.

    Its blocks share the bytes evenly here; few updates make few blocks, which wait for memory. The
    result is 0 where the kernel does not run.
    """
    if devices > _RAGGED_DEVICES or len(op.operands) < 3:
        return 0
    data, offsets = to_buffer_size(op.operands[0].type), to_buffer_size(op.operands[2].type)
    if data.bits % 8 or not data.shape or not data.elements:
        return 0
    row_bytes = data.bytes // data.shape[0]
    load_bytes = min(math.gcd(row_bytes, _RAGGED_LOAD_BYTES), _RAGGED_LOAD_BYTES)
    blocks = min(max(offsets.shape[0], devices), _RAGGED_BLOCKS)
    moved_bytes = min(data.bytes, to_buffer_size(op.operands[1].type).bytes)
    return math.ceil(moved_bytes / (blocks * _RAGGED_THREADS * load_bytes))


def derive_comm_fields(op: ir.Operation) -> dict[str, Any]:
    """Return the fields of ``hespas.comm`` that follow from an op; none of one that is unknown."""
    if not is_collective(op):
        return {}
    fields: dict[str, Any] = {"kind": COMM_KIND_BY_NAME[get_collective_name(op)], "pairs": ()}
    try:
        fields["operand_bytes"], fields["result_bytes"] = compute_comm_bytes(op)
    except DynamicShape:
        return fields
    attr = find_attribute(op, "source_target_pairs")
    if isinstance(attr, ir.DenseIntElementsAttr) and op.name.endswith(".collective_permute"):
        ids = [attr[i] for i in range(len(attr))]
        fields["pairs"] = tuple(
            device
            for source, target in zip(ids[::2], ids[1::2], strict=False)
            if source != target and source >= 0
            for device in (source, target)
        )
    return fields
