"""Programs to trace nodes: sends, receives and reductions of so many bytes, and who waits for whom.

A step becomes the nodes of what it does, in this order: RECV, COMP (the reduction), SEND. It waits
for the step before it in its threadblock and for those that it names; ``nop`` becomes nothing, and
neither does ``cpy`` unless copies are charged: what waits for it waits for what it waits for.
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
    compute_chunk_bytes,
    resolve_chunk_ref,
)
from hespas.support.errors import HespasError

Key = tuple[int, int]  # threadblock, step


@dataclass(frozen=True, slots=True)
class LocalWorkCosts:
    """What local work costs.

    A reduction takes ``3 * trunc(bytes / local_mem_bw)`` ns, two reads and a write, as in
    ASTRA-sim's PacketBundle.cc; a copy two thirds of that where ``copies``, else nothing. 0 GB/s
    (of 1e9 bytes) means that reductions take no time. Traces hold whole microseconds: ``rounding``
    "carry" passes what is left over on to the rank's next reduction, "down" drops it.
    """

    local_mem_bw_gb_s: float
    copies: bool = False
    rounding: str = "carry"

    def compute_time_ns(self, size_bytes: int, passes: int) -> int:
        """The time of so many passes over the local memory."""
        if not self.local_mem_bw_gb_s:
            return 0
        return passes * int(size_bytes / (self.local_mem_bw_gb_s * 1e9) * 1e9)


@dataclass(frozen=True, slots=True)
class CollectiveNode:
    """One node. ``count`` chunks from chunk ``index`` of the whole are its ``size_bytes``.

    ``duration_us`` of a COMP node; 0 is 1 ns to ASTRA-sim.
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
    """The nodes of each rank, where each rank's operand has ``size_bytes``."""
    if size_bytes < 1:
        raise HespasError(f"a collective of {size_bytes} bytes sends nothing")
    if size_bytes * len(program.ranks) >= 1 << 62:
        raise HespasError(f"a collective of {size_bytes} bytes is more than a trace can hold")
    chunk = compute_chunk_bytes(program, size_bytes)
    return [
        _RankLowering(program, number, rank, chunk, costs, first_tag).build_nodes()
        for number, rank in enumerate(program.ranks)
    ]


class _RankLowering:
    """One rank."""

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
        self.steps: dict[Key, CollectiveStep] = {
            (block.id, k): step for block in rank.blocks for k, step in enumerate(block.steps)
        }
        self.node_types: dict[Key, list[NodeType]] = {
            key: self._list_node_types(step) for key, step in self.steps.items()
        }
        self.ids: dict[Key, int] = {}  # the last node of each step that has any
        count = 0
        for key, parts in self.node_types.items():
            count += len(parts)
            if parts:
                self.ids[key] = count - 1
        self._ends: dict[Key, tuple[int, ...]] = {}

    def _list_node_types(self, step: CollectiveStep) -> list[NodeType]:
        receives, reduces, _, sends = KINDS[step.kind]
        local = reduces or (step.kind == "cpy" and self.costs.copies)
        kinds = (NodeType.COMM_RECV_NODE, NodeType.COMP_NODE, NodeType.COMM_SEND_NODE)
        return [kind for kind, there in zip(kinds, (receives, local, sends), strict=True) if there]

    def build_nodes(self) -> list[CollectiveNode]:
        nodes: list[CollectiveNode] = []
        micros = iter(self._compute_durations_us())
        for block in self.rank.blocks:
            for k, step in enumerate(block.steps):
                deps = self._collect_dependencies((block.id, k))
                for kind in self.node_types[block.id, k]:
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
        """The durations of the COMP nodes, in order."""
        times = [
            self.costs.compute_time_ns(self.chunk * step.count, 2 if step.kind == "cpy" else 3)
            for key, step in self.steps.items()
            if NodeType.COMP_NODE in self.node_types[key]
        ]
        if self.costs.rounding == "down":
            return [ns // 1000 for ns in times]
        steps = [
            trace_steps.TraceStep(k, (), trace_steps.ComputeContent("", ns * trace_steps.FS_PER_NS))
            for k, ns in enumerate(times)
        ]
        return [duration.micros for duration in trace_steps.round_durations(steps)]

    def _compute_chunk_index(self, step: CollectiveStep) -> int:
        """The first chunk of a message, counted in the whole of the data."""
        place, parts = step.source, self.program.parts
        if self.program.collective == "all_gather" and place.buffer == "i":
            offset = self.number * (parts // len(self.program.ranks)) + place.offset
        else:
            offset = resolve_chunk_ref(self.program, self.number, place)[1]
        return min(offset % parts, parts - step.count) if step.count <= parts else 0

    def _collect_dependencies(self, key: Key) -> tuple[int, ...]:
        """The nodes that a step waits for."""
        dependencies: set[int] = set()
        for other in self._list_awaited_steps(key):
            dependencies.update(self._find_end_nodes(other))
        return tuple(sorted(dependencies))

    def _list_awaited_steps(self, key: Key) -> list[Key]:
        block, k = key
        before = [(block, k - 1)] if k else []
        return [*before, *self.steps[key].depends]

    def _find_end_nodes(self, key: Key) -> tuple[int, ...]:
        """The nodes that end a step: its last, or those that it waits for where it has none."""
        stack, under_way = [key], set()
        while stack:
            at = stack[-1]
            if at in self.ids:
                self._ends[at] = (self.ids[at],)
            if at in self._ends:
                stack.pop()
                continue
            missing = [other for other in self._list_awaited_steps(at) if other not in self._ends]
            if missing and at in under_way:
                raise HespasError(
                    f"{self.program.name}: rank {self.number}: threadblock {at[0]}, step {at[1]} "
                    "waits for itself"
                )
            under_way.add(at)
            if missing:
                stack.extend(missing)
            else:
                self._ends[at] = tuple(
                    sorted({e for o in self._list_awaited_steps(at) for e in self._ends[o]})
                )
        return self._ends[key]
