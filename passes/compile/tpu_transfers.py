"""Transfers of XLA:TPU that hosts take part in: collectives between slices, and offloaded values.

XLA:TPU compiles the program of one slice. A collective between slices is a send to the runtime of
the host and a receive from it, which name the collective and the devices. The rewriting makes a
collective of the send and a barrier of the end of the receive, and repeats the replica groups of
the slice for the other slices.

What a program keeps in the memory of the host is read and written by asynchronous slices of values
in memory space 5. Each becomes a custom call that starts the copy and a barrier that awaits it.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field

from hespas.dialects.attrs import SLICES
from hespas.dialects.op_kinds import FETCH_CALL_TARGET, NETWORK_MARK, OFFLOAD_CALL_TARGET
from hespas.passes.compile.hlo_instructions import (
    HloComputation,
    HloInstruction,
    HloProgram,
    split_tuple_type,
)
from hespas.passes.compile.tpu_async import build_barrier

_TRANSFER_TYPE = re.compile(r'_xla_megascale_transfer_type="(\w+)"')
_RENDEZVOUS = re.compile(r'_xla_host_transfer_rendezvous="([^"]*)"')
_TARGET = re.compile(r'_xla_megascale_target="\{([\d,]+)\}x\{0:(\d+)\}"')
_REDUCTION = re.compile(r'_xla_megascale_reduce_operation="(\w+)"')
_REDUCTIONS = {"SUM": "add", "PRODUCT": "multiply", "MIN": "minimum", "MAX": "maximum"}
_GROUPS = re.compile(r"(replica_groups|source_target_pairs)=\{((?:\{[\d,]*\},?)*)\}")
_METADATA = re.compile(r", metadata=\{[^{}]*\}")
_HOST_SPACE = re.compile(r"S\(5\)")
_HOST_STARTS = {
    "dynamic-update-slice-start": OFFLOAD_CALL_TARGET,
    "dynamic-slice-start": FETCH_CALL_TARGET,
}


class SliceCollectiveReplacer:
    """Replaces the transfers between slices of a module.

    Args:
        program: The module, which is changed.
        mark: The frontend attribute that gets the number of the pair on both its ends; "" if each
            collective shall be one op, where it starts.
    """

    def __init__(self, program: HloProgram, mark: str) -> None:
        self.program = program
        self.mark = mark
        self.slice_count, self.slice_devices = _find_slices(program)
        self.pair_count = 0
        self.next_channel = program.find_free_channel()
        if self.slice_count > 1:
            self._repeat_groups()

    def _repeat_groups(self) -> None:
        """Repeat the groups of the collectives within a slice for all slices."""
        starts = [i * self.slice_devices for i in range(self.slice_count)]

        def repeat_groups(match: re.Match[str]) -> str:
            groups = [group.split(",") for group in re.findall(r"\{([\d,]*)\}", match[2])]
            repeated = (
                "{" + ",".join(str(int(device) + start) for device in group) + "}"
                for start in starts
                for group in groups
            )
            return f"{match[1]}={{{','.join(repeated)}}}"

        for computation in self.program.computations.values():
            for one in computation.instructions:
                if "replica_groups=" in one.attributes or "source_target" in one.attributes:
                    one.attributes = _GROUPS.sub(repeat_groups, one.attributes)

    def replace_transfers(self, computation: HloComputation) -> None:
        """Replace the transfers that a computation runs; raises ValueError for an unknown kind."""
        if not any("_xla_megascale" in one.attributes for one in computation.instructions):
            return
        transfers = _SliceTransfers()
        output: list[HloInstruction] = []
        for one in computation.instructions:
            one.operands = [transfers.renamed.get(name, name) for name in one.operands]
            output += self._replace_instruction(one, transfers)
        computation.instructions = output

    def _replace_instruction(
        self, one: HloInstruction, transfers: _SliceTransfers
    ) -> list[HloInstruction]:
        """Return what replaces an instruction."""
        if one.opcode == "send" and "_xla_megascale" in one.attributes:
            collective = self._build_collective(one)
            transfers.collectives[_RENDEZVOUS.findall(one.attributes)[0]] = collective
            transfers.renamed[one.name] = one.operands[1]  # the token
            return [collective]
        if one.opcode == "recv" and "_xla_megascale" in one.attributes:
            transfers.receives[one.name] = _RENDEZVOUS.findall(one.attributes)[0]
            transfers.tokens[one.name] = one.operands[0]
            return []
        source = one.operands[0] if one.operands else ""
        if one.opcode == "send-done" and source in transfers.renamed.values():
            transfers.renamed[one.name] = source
            return []
        if one.opcode == "recv-done" and source in transfers.receives:
            return self._await_collective(one, source, transfers)
        if one.opcode == "get-tuple-element" and source in transfers.ends:
            value, token = transfers.ends[source]
            transfers.renamed[one.name] = value if one.read_attribute("index") == "0" else token
            return []
        return [one]

    def _build_collective(self, send: HloInstruction) -> HloInstruction:
        """Return the collective that a send starts."""
        kinds = _TRANSFER_TYPE.findall(send.attributes)
        reductions = _REDUCTION.findall(send.attributes)
        if kinds != ["ALL_REDUCE"] or not reductions or reductions[0] not in _REDUCTIONS:
            raise ValueError(
                f"{send.name} is a transfer between slices of the kind "
                f"{' '.join([*kinds, *reductions]) or 'unknown'}, not an all-reduce"
            )
        array_type = split_tuple_type(send.type)[0]
        groups = ",".join(
            "{"
            + ",".join(str(device + i * self.slice_devices) for i in range(self.slice_count))
            + "}"
            for device in range(self.slice_devices)
        )
        metadata = _METADATA.search(send.attributes)
        collective = HloInstruction(
            f"{send.name}.all-reduce", array_type, "all-reduce", send.operands[:1], "",
            f", channel_id={self.next_channel}, replica_groups={{{groups}}}, "
            "use_global_device_ids=true, "
            f"to_apply=%{self._add_reduction(array_type, _REDUCTIONS[reductions[0]])}"
            f"{metadata[0] if metadata else ''}",
        )  # fmt: skip
        self.next_channel += 1
        collective.add_frontend_attribute(NETWORK_MARK, SLICES)
        if self.mark:
            collective.add_frontend_attribute(self.mark, f"slices{self.pair_count}")
            self.pair_count += 1
        return collective

    def _add_reduction(self, array_type: str, opcode: str) -> str:
        """Return the name of the computation that reduces two numbers of an array's type."""
        element = array_type.partition("[")[0]
        name, scalar = f"{opcode}_{element}_between_slices", f"{element}[]"
        if name not in self.program.computations:
            operands = [f"{name}.{side}" for side in ("left", "right")]
            parameters = [
                HloInstruction(operand, scalar, "parameter", [], str(number))
                for number, operand in enumerate(operands)
            ]
            root = HloInstruction(f"{name}.result", scalar, opcode, operands, is_root=True)
            added = {name: HloComputation(name, False, [*parameters, root])}
            self.program.computations = {**added, **self.program.computations}  # before its callers
        return name

    def _await_collective(
        self, done: HloInstruction, receive: str, transfers: _SliceTransfers
    ) -> list[HloInstruction]:
        """Return the barrier at which the collective of a receive must have finished."""
        key = transfers.receives[receive]
        if key not in transfers.collectives:
            raise ValueError(f"{done.name} receives {key} from other slices, which nothing sends")
        collective = transfers.collectives[key]
        token = transfers.tokens[receive]
        if not self.mark:
            transfers.ends[done.name] = collective.name, token
            return []
        transfers.ends[done.name] = done.name, token
        return [build_barrier(done, collective, self.mark)]


@dataclass
class _SliceTransfers:
    """The transfers of one computation.

    Attributes:
        collectives: By the name of a rendezvous, the collective that replaces its send.
        receives: By the name of a receive, that of its rendezvous.
        tokens: By the name of a receive, that of the token that it depends on.
        ends: By the name of the end of a receive, the names of its value and of its token.
        renamed: By the name of a removed instruction, the one that stands for it.
    """

    collectives: dict[str, HloInstruction] = field(default_factory=dict)
    receives: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    ends: dict[str, tuple[str, str]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)


def _find_slices(program: HloProgram) -> tuple[int, int]:
    """Return the number of slices, and of the devices of each; (1, 0) without transfers.

    Raises:
        ValueError: The transfers are between different slices or devices.
    """
    targets = {
        (match[1].count(",") + 1, int(match[2]) + 1)
        for computation in program.computations.values()
        for one in computation.instructions
        if (match := _TARGET.search(one.attributes))
    }
    if len(targets) > 1:
        raise ValueError("the transfers between slices are between different sets of slices")
    return targets.pop() if targets else (1, 0)


def replace_host_copies(computation: HloComputation, mark: str, first_number: int) -> int:
    """Replace the copies between the memories of device and host that a computation runs.

    Must precede the removal of memory spaces from layouts.

    Args:
        computation: The computation, which is changed.
        mark: The frontend attribute for the numbers of asynchronous pairs; "" if each copy shall be
            one op, where it starts.
        first_number: The number of the first pair.

    Returns:
        The number of copies.
    """
    types = {one.name: one.type for one in computation.instructions}
    starts: dict[str, HloInstruction] = {}
    renamed: dict[str, str] = {}
    output: list[HloInstruction] = []
    for one in computation.instructions:
        one.operands = [renamed.get(name, name) for name in one.operands]
        source = one.operands[0] if one.operands else ""
        if one.opcode in _HOST_STARTS and _HOST_SPACE.search(types.get(source, "")):
            one = _build_host_copy(one, mark, first_number + len(starts))
            starts[one.name] = one
        elif source in starts and one.opcode.endswith("-done"):
            if not mark:
                renamed[one.name] = source
                continue
            one = build_barrier(one, starts[source], mark)
        output.append(one)
    computation.instructions = output
    return len(starts)


def _build_host_copy(start: HloInstruction, mark: str, number: int) -> HloInstruction:
    """Return the custom call that a start becomes; the bundle's second element is its result."""
    metadata = _METADATA.search(start.attributes)
    copy = dataclasses.replace(
        start,
        type=split_tuple_type(start.type)[1],
        opcode="custom-call",
        attributes=f', custom_call_target="{_HOST_STARTS[start.opcode]}"'
        f"{metadata[0] if metadata else ''}",
    )
    if mark:
        copy.add_frontend_attribute(mark, f"host{number}")
    return copy
