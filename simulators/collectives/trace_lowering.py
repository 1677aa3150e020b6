"""Lowers programs to trace nodes: sends, receives and reductions with their dependencies.

A step becomes the nodes of its actions, in this order: RECV, COMP (the reduction), SEND. It depends
on the previous step of its threadblock and on the steps that it names. A ``nop`` has no nodes, nor
has a ``cpy`` unless copies are charged; steps that depend on it inherit its dependencies.
"""

from __future__ import annotations

from dataclasses import dataclass

from hespas.chakra import trace_steps
from hespas.chakra.schema import NodeType
from hespas.simulators.collectives.collective_program import (
    KINDS,
    CollectiveProgram,
    CollectiveStep,
    RankProgram,
    resolve_chunk_ref,
)
from hespas.support.errors import HespasError

Key = tuple[int, int]  # threadblock, step


@dataclass(frozen=True, slots=True)
class LocalWorkCosts:
    """The costs of local work.

    A reduction takes ``3 * trunc(bytes / local_mem_bw)`` ns, two reads and a write, as in
    ASTRA-sim's PacketBundle.cc.

    Attributes:
        local_mem_bw_gb_s: Bandwidth of local memory in 1e9 B/s; 0 if reductions take no time.
        copies: Whether a copy takes two thirds of the time of a reduction; else it takes none.
        rounding: How times are rounded to the whole microseconds of a trace: "carry" adds the
            remainder to the next reduction of the rank, "down" drops it.
    """

    local_mem_bw_gb_s: float
    copies: bool = False
    rounding: str = "carry"

    def compute_time_ns(self, size_bytes: int, passes: int) -> int:
        """Compute the nanoseconds of a number of passes over ``size_bytes`` of local memory."""
        if not self.local_mem_bw_gb_s:
            return 0
        return passes * int(size_bytes / (self.local_mem_bw_gb_s * 1e9) * 1e9)


@dataclass(frozen=True, slots=True)
class CollectiveNode:
    """One trace node.

    A message of ``size_bytes`` carries ``count`` chunks from chunk ``index`` of the whole data. The
    ``duration_us`` is that of a COMP node; ASTRA-sim treats 0 as 1 ns.
    """

    id: int
    name: str
    type: NodeType
    deps: tuple[int, ...]
    peer: int = -1
    tag: int = 0
    size_bytes: int = 0
    count: int = 0
    index: int = 0
    duration_us: int = 0


def lower_to_nodes(
    program: CollectiveProgram, size_bytes: int, costs: LocalWorkCosts, first_tag: int = 0
) -> list[list[CollectiveNode]]:
    """Return the nodes of each rank for operands of ``size_bytes``; raises HespasError."""
    if size_bytes < 1:
        raise HespasError(f"a collective of {size_bytes} bytes sends nothing")
    if size_bytes * len(program.ranks) >= 1 << 62:
        raise HespasError(f"a collective of {size_bytes} bytes is more than a trace can hold")
    chunk = -(-program.count_buffer_bytes(size_bytes) // program.parts)  # rounded up
    return [
        _RankLowering(program, number, rank, chunk, costs, first_tag).build_nodes()
        for number, rank in enumerate(program.ranks)
    ]


@dataclass(slots=True)
class _LoweredStep:
    """A step, the types of its nodes, and the nodes that end it.

    The end nodes are the last node of the step. For a step without nodes they are the end nodes of
    the steps that it waits for, and None until they are computed.
    """

    step: CollectiveStep
    node_types: list[NodeType]
    end_nodes: tuple[int, ...] | None


class _RankLowering:
    """Lowers one rank; node ids are the positions in the result."""

    def __init__(
        self,
        program: CollectiveProgram,
        number: int,
        rank: RankProgram,
        chunk: int,
        costs: LocalWorkCosts,
        first_tag: int,
    ) -> None:
        self.program, self.number, self.rank = program, number, rank
        self.chunk, self.costs, self.first_tag = chunk, costs, first_tag
        self.steps: dict[Key, _LoweredStep] = {}
        count = 0
        for block in rank.blocks:
            for k, step in enumerate(block.steps):
                types = self._list_node_types(step)
                count += len(types)
                end_nodes = (count - 1,) if types else None
                self.steps[block.id, k] = _LoweredStep(step, types, end_nodes)

    def _list_node_types(self, step: CollectiveStep) -> list[NodeType]:
        receives, reduces, _, sends = KINDS[step.kind]
        local = reduces or (step.kind == "cpy" and self.costs.copies)
        kinds = (NodeType.COMM_RECV_NODE, NodeType.COMP_NODE, NodeType.COMM_SEND_NODE)
        return [
            kind
            for kind, is_needed in zip(kinds, (receives, local, sends), strict=True)
            if is_needed
        ]

    def build_nodes(self) -> list[CollectiveNode]:
        nodes: list[CollectiveNode] = []
        micros = iter(self._compute_durations_us())
        for block in self.rank.blocks:
            for k, step in enumerate(block.steps):
                deps = self._collect_dependencies((block.id, k))
                for kind in self.steps[block.id, k].node_types:
                    name = f"tb{block.id}.{k} {step.kind}"
                    if kind == NodeType.COMP_NODE:
                        node = CollectiveNode(
                            len(nodes), name, kind, deps, duration_us=next(micros)
                        )
                    else:
                        sends = kind == NodeType.COMM_SEND_NODE
                        node = CollectiveNode(
                            len(nodes), name, kind, deps,
                            peer=block.send if sends else block.recv,
                            tag=self.first_tag + block.channel,
                            size_bytes=self.chunk * step.count,
                            count=step.count, index=self._compute_chunk_index(step),
                        )  # fmt: skip
                    nodes.append(node)
                    deps = (node.id,)
        return nodes or [CollectiveNode(0, "idle", NodeType.COMP_NODE, ())]

    def _compute_durations_us(self) -> list[int]:
        """Return the durations of the COMP nodes, in order."""
        times = [
            self.costs.compute_time_ns(
                self.chunk * lowered.step.count, 2 if lowered.step.kind == "cpy" else 3
            )
            for lowered in self.steps.values()
            if NodeType.COMP_NODE in lowered.node_types
        ]
        if self.costs.rounding == "down":
            return [ns // 1000 for ns in times]
        latencies_fs = [ns * trace_steps.FS_PER_NS for ns in times]
        return [duration.micros for duration in trace_steps.round_durations(latencies_fs)]

    def _compute_chunk_index(self, step: CollectiveStep) -> int:
        """Return the index of the first chunk of a message in the whole data."""
        place, parts = step.source, self.program.parts
        if self.program.collective == "all_gather" and place.buffer == "i":
            offset = self.number * (parts // len(self.program.ranks)) + place.offset
        else:
            offset = resolve_chunk_ref(self.program, self.number, place)[1]
        return min(offset % parts, parts - step.count) if step.count <= parts else 0

    def _collect_dependencies(self, key: Key) -> tuple[int, ...]:
        """Return the nodes that a step waits for."""
        dependencies: set[int] = set()
        for other in self._list_awaited_steps(key):
            dependencies.update(self._find_end_nodes(other))
        return tuple(sorted(dependencies))

    def _list_awaited_steps(self, key: Key) -> list[Key]:
        block, k = key
        before = [(block, k - 1)] if k else []
        return [*before, *self.steps[key].step.depends]

    def _find_end_nodes(self, key: Key) -> tuple[int, ...]:
        """Return the end nodes of a step, computing those of the steps that it waits for."""
        stack, under_way = [key], set()
        while stack:
            at = stack[-1]
            lowered = self.steps[at]
            if lowered.end_nodes is not None:
                stack.pop()
                continue
            awaited = self._list_awaited_steps(at)
            missing = [other for other in awaited if self.steps[other].end_nodes is None]
            if missing and at in under_way:
                raise HespasError(
                    f"{self.program.name}: rank {self.number}: threadblock {at[0]}, step {at[1]} "
                    "waits for itself"
                )
            under_way.add(at)
            if missing:
                stack.extend(missing)
            else:
                lowered.end_nodes = tuple(
                    sorted({end for other in awaited for end in self.steps[other].end_nodes or ()})
                )
        return self.steps[key].end_nodes or ()
