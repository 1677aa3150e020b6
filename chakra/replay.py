"""Whether all ranks can finish: their communication replayed without time.

ASTRA-sim's resources: a device runs one collective or SEND at a time, of those ready the one with
the lowest id; a RECV waits without holding anything; a SEND ends without its RECV. Where the
dependencies fix the order of communication on each rank, the outcome does not depend on timing, and
the replay is a proof.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hespas.chakra.dependency_graph import DependencyGraph, collect_children
from hespas.chakra.node_rules import (
    COLL,
    COMMUNICATION,
    MAX_TAG,
    SEND,
    read_communicator_id,
    read_integer_attr,
)
from hespas.chakra.trace_reader import TraceNode

Message = tuple[int, int, int, int]  # source, target, tag, bytes


@dataclass(slots=True)
class ReplayOutcome:
    """``stuck``: ranks that wait for ever, and in which node. ``mismatched``: a collective, and one
    of another rank on the same communicator that differs. ``unread``: messages nobody receives."""

    stuck: list[tuple[int, TraceNode]] = field(default_factory=list)
    mismatched: list[tuple[int, TraceNode, int, TraceNode]] = field(default_factory=list)
    unread: list[Message] = field(default_factory=list)


@dataclass(slots=True)
class _ReplayNetwork:
    """What ranks have in common: collectives that fill up, messages under way."""

    groups: Mapping[int, Sequence[int]]
    outcome: ReplayOutcome
    joined: dict[int, dict[int, TraceNode]] = field(default_factory=dict)
    sent: Counter[Message] = field(default_factory=Counter)
    waiting: dict[Message, deque[tuple[int, int]]] = field(default_factory=dict)

    def join_collective(self, rank: int, node: TraceNode) -> list[int]:
        """A rank starts a collective; the ranks that finish it, once all are there."""
        group = read_communicator_id(node) or 0
        there = self.joined.setdefault(group, {})
        if there:
            other, first = next(iter(there.items()))
            if _read_collective_signature(first) != _read_collective_signature(node):
                self.outcome.mismatched.append((rank, node, other, first))
        there[rank] = node
        members = self.groups[group]
        if len(there) < len(members):
            return []
        del self.joined[group]
        return list(members)


def _read_collective_signature(node: TraceNode) -> tuple[int | None, int | None]:
    return read_integer_attr(node, "comm_type"), read_integer_attr(node, "comm_size")


def identify_message(rank: int, node: TraceNode) -> Message:
    """The message that a SEND or RECV on a rank is about."""
    size, tag = (
        read_integer_attr(node, "comm_size") or 0,
        (read_integer_attr(node, "comm_tag") or 0) % MAX_TAG,
    )
    if node.type == SEND:
        return rank, read_integer_attr(node, "comm_dst") or 0, tag, size
    return read_integer_attr(node, "comm_src") or 0, rank, tag, size


def replay_communication(
    ranks: Sequence[Sequence[TraceNode]],
    graphs: Sequence[DependencyGraph],
    groups: Mapping[int, Sequence[int]],
) -> ReplayOutcome:
    """Run all ranks as far as they get; the traces must be sound and all groups known."""
    if all(graph.fixed for graph in graphs):
        return _replay_in_order(ranks, graphs, groups)
    return _replay_by_priority(ranks, graphs, groups)


def _replay_in_order(
    ranks: Sequence[Sequence[TraceNode]],
    graphs: Sequence[DependencyGraph],
    groups: Mapping[int, Sequence[int]],
) -> ReplayOutcome:
    """Each rank goes through its communication by id."""
    outcome = ReplayOutcome()
    network = _ReplayNetwork(groups, outcome)
    sequences = [graph.comms for graph in graphs]
    at = [0] * len(ranks)
    active = deque(range(len(ranks)))
    while active:
        rank = active.popleft()
        nodes, sequence = ranks[rank], sequences[rank]
        while at[rank] < len(sequence):
            node = nodes[sequence[at[rank]]]
            if node.type == COLL:
                done = network.join_collective(rank, node)
                for member in done:
                    at[member] += 1
                    if member != rank:
                        active.append(member)
                if not done:
                    break
                continue
            key = identify_message(rank, node)
            if node.type == SEND:
                if network.waiting.get(key):
                    other, _ = network.waiting[key].popleft()
                    at[other] += 1
                    active.append(other)
                else:
                    network.sent[key] += 1
            elif network.sent[key]:
                network.sent[key] -= 1
            else:
                network.waiting.setdefault(key, deque()).append((rank, node.id))
                break
            at[rank] += 1
    for rank, sequence in enumerate(sequences):
        if at[rank] < len(sequence):
            outcome.stuck.append((rank, ranks[rank][sequence[at[rank]]]))
    outcome.unread = sorted(network.sent.elements())
    return outcome


class _ReplayRank:
    """A rank in the replay by priority."""

    def __init__(self, nodes: Sequence[TraceNode], graph: DependencyGraph) -> None:
        self.nodes = nodes
        self.children = collect_children(graph.deps)
        self.waits = [len(parents) for parents in graph.deps]
        self.ready: list[tuple[int, int]] = []  # communication that waits for the slot
        self.fresh = [i for i, count in enumerate(self.waits) if count == 0]
        self.holder: int | None = None
        self.done = bytearray(len(nodes))

    def finish_node(self, i: int) -> None:
        self.done[i] = 1
        if self.holder == i:
            self.holder = None
        for child in self.children[i]:
            self.waits[child] -= 1
            if self.waits[child] == 0:
                self.fresh.append(child)


def _replay_by_priority(
    ranks: Sequence[Sequence[TraceNode]],
    graphs: Sequence[DependencyGraph],
    groups: Mapping[int, Sequence[int]],
) -> ReplayOutcome:
    """The general case, with compute nodes that take no time: one schedule of several."""
    outcome = ReplayOutcome()
    network = _ReplayNetwork(groups, outcome)
    states = [_ReplayRank(nodes, graph) for nodes, graph in zip(ranks, graphs, strict=True)]
    active = deque(range(len(ranks)))

    while active:
        rank = active.popleft()
        state = states[rank]
        while state.fresh or (state.holder is None and state.ready):
            while state.fresh:
                i = state.fresh.pop()
                node = state.nodes[i]
                if node.type not in COMMUNICATION:
                    state.finish_node(i)
                elif node.type in (COLL, SEND):
                    heapq.heappush(state.ready, (node.id, i))
                else:
                    key = identify_message(rank, node)
                    if network.sent[key]:
                        network.sent[key] -= 1
                        state.finish_node(i)
                    else:
                        network.waiting.setdefault(key, deque()).append((rank, i))
            if state.holder is None and state.ready:
                _, i = heapq.heappop(state.ready)
                node = state.nodes[i]
                state.holder = i
                if node.type == COLL:
                    for member in network.join_collective(rank, node):
                        there = states[member]
                        if there.holder is not None:  # it holds this collective
                            there.finish_node(there.holder)
                            active.append(member)
                    continue
                key = identify_message(rank, node)
                if network.waiting.get(key):
                    other, j = network.waiting[key].popleft()
                    states[other].finish_node(j)
                    active.append(other)
                else:
                    network.sent[key] += 1
                state.finish_node(i)
    for rank, state in enumerate(states):
        if not all(state.done):
            outcome.stuck.append((rank, _find_stuck_node(state)))
    outcome.unread = sorted(network.sent.elements())
    return outcome


def _find_stuck_node(state: _ReplayRank) -> TraceNode:
    """The node that a rank waits in: what holds its slot, else its first RECV that did not end."""
    if state.holder is not None:
        return state.nodes[state.holder]
    return next(n for i, n in enumerate(state.nodes) if not (state.done[i] or state.waits[i]))
