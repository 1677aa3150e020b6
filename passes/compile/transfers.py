"""Sends and receives of HLO that are together one collective, and their replacement by it.

XLA writes a collective as a send and a receive where something else than the collective may run
between its start and its end, such as the next iteration of a loop. The collective starts where the
send is, and a barrier awaits it at the end of the receive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field

from hespas.dialects.op_kinds import TRANSFER_PAIRS, parse_transfer_pairs
from hespas.passes.compile.async_pairs import PairMarker
from hespas.passes.compile.hlo_program import (
    HloComputation,
    HloInstruction,
    HloProgram,
    list_result_shapes,
    read_frontend_value,
    replace_operand_ids,
)

_REMEDY = "compile without --xla_gpu_enable_pipelined_p2p"


class TransferReplacer(ABC):
    """Replaces the transfers of one kind in a module."""

    def __init__(self, program: HloProgram, marker: PairMarker) -> None:
        self.program = program
        self.marker = marker

    @abstractmethod
    def find_transfers(self, computation: HloComputation) -> bool:
        """Return whether a computation runs transfers to replace."""

    @abstractmethod
    def find_key(self, transfer: HloInstruction) -> str:
        """Return what a send and its receive have in common; "" for another transfer."""

    @abstractmethod
    def build_collective(self, send: HloInstruction, computation: HloComputation) -> HloInstruction:
        """Build the collective that a send starts; raises ValueError for an unknown kind."""

    def replace_transfers(self, computation: HloComputation) -> None:
        """Replace the transfers that a computation runs; raises ValueError for an unknown kind."""
        if not self.find_transfers(computation):
            return
        transfers = _Transfers()
        output: list[HloInstruction] = []
        for one in computation.instructions:
            replace_operand_ids(one, transfers.replaced)
            output += self._replace_instruction(one, transfers, computation)
        computation.instructions = output

    def _replace_instruction(
        self, one: HloInstruction, transfers: _Transfers, computation: HloComputation
    ) -> list[HloInstruction]:
        """Return what replaces an instruction."""
        key = self.find_key(one)
        if one.opcode == "send" and key:
            collective = self.build_collective(one, computation)
            self.marker.mark_start(collective)
            transfers.collectives[key] = collective
            transfers.replaced[one.id] = one.operand_ids[1]  # the token
            return [collective]
        if one.opcode == "recv" and key:
            transfers.receives[one.id] = key
            transfers.tokens[one.id] = one.operand_ids[0]
            return []
        source = next(iter(one.operand_ids), 0)
        if one.opcode == "send-done" and source in transfers.replaced.values():
            transfers.replaced[one.id] = source
            return []
        if one.opcode == "recv-done" and source in transfers.receives:
            return self._await_collective(one, source, transfers)
        if one.opcode == "get-tuple-element" and source in transfers.ends:
            value, token = transfers.ends[source]
            transfers.replaced[one.id] = value if one.tuple_index == 0 else token
            return []
        return [one]

    def _await_collective(
        self, done: HloInstruction, receive: int, transfers: _Transfers
    ) -> list[HloInstruction]:
        """Return the barrier at which the collective of a receive must have finished."""
        key = transfers.receives[receive]
        if key not in transfers.collectives:
            raise ValueError(f"{done.name} receives {key} which nothing sends")
        collective = transfers.collectives[key]
        token = transfers.tokens[receive]
        barrier = self.marker.build_end(done, collective)
        transfers.ends[done.id] = (collective.id if barrier is None else done.id), token
        return [] if barrier is None else [barrier]


@dataclass
class _Transfers:
    """The transfers of one computation; values are named by their ids.

    Attributes:
        collectives: By a key, the collective that replaces its send.
        receives: By a receive, its key.
        tokens: By a receive, the token that it depends on.
        ends: By the end of a receive, its value and its token.
        replaced: By a removed instruction, the one that stands for it.
    """

    collectives: dict[str, HloInstruction] = field(default_factory=dict)
    receives: dict[int, str] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    replaced: dict[int, int] = field(default_factory=dict)


class PermuteReplacer(TransferReplacer):
    """Replaces what XLA:GPU makes of a permute: a send and a receive on a channel of their own.

    A pair whose receive ends before its send starts stays as it is.
    """

    _keys: dict[int, str]  # by the sends and receives to replace in the computation at hand

    def find_transfers(self, computation: HloComputation) -> bool:
        transfers = {
            one.id: one
            for one in computation.instructions
            if one.opcode in ("send", "recv") and read_frontend_value(one, TRANSFER_PAIRS)
        }
        sends = Counter(one.channel_id for one in transfers.values() if one.opcode == "send")
        begun, ended, replaced = set[int](), set[int](), set[int]()
        for one in computation.instructions if transfers else ():
            transfer = transfers.get(next(iter(one.operand_ids), 0))
            if one.opcode == "send" and one.id in transfers:
                begun.add(one.channel_id)
            elif one.opcode == "recv-done" and transfer is not None:
                ended.add(transfer.id)
                if transfer.channel_id in begun and sends[transfer.channel_id] == 1:
                    replaced.add(transfer.channel_id)
        for number, one in transfers.items():
            if one.opcode == "recv" and number not in ended:
                raise ValueError(f"{one.name} ends in another iteration or computation; {_REMEDY}")
        self._keys = {
            number: str(one.channel_id)
            for number, one in transfers.items()
            if one.channel_id in replaced
        }
        return bool(self._keys)

    def find_key(self, transfer: HloInstruction) -> str:
        return self._keys.get(transfer.id, "")

    def build_collective(self, send: HloInstruction, computation: HloComputation) -> HloInstruction:
        shape = list_result_shapes(send.shape)[0]
        permute = computation.create_instruction(
            send.name, "collective-permute", shape, send.operand_ids[:1]
        )
        permute.channel_id = send.channel_id
        for source, target in parse_transfer_pairs(read_frontend_value(send, TRANSFER_PAIRS)):
            permute.source_target_pairs.add(source=source, target=target)
        if send.HasField("metadata"):
            permute.metadata.CopyFrom(send.metadata)
        return permute
