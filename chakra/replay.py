"""Detection of deadlocks: a replay of the communication of all ranks without time.

The replay uses ASTRA-sim's resources: a device runs one collective or SEND at a time, the ready one
with the lowest id. A RECV waits without occupying a resource, and a SEND ends without its RECV. If
dependencies fix the order of communication on each rank, the outcome does not depend on timing, and
the replay proves it.
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
    SEND,
    read_communicator_id,
    read_integer_attr,
)
from hespas.chakra.schema import MAX_TAG
from hespas.chakra.trace_reader import TraceNode

Message = tuple[int, int, int, int]  # source, target, tag, bytes
Signature = tuple[int | None, int | None]  # type and bytes of a collective


@dataclass(slots=True)
class ReplayOutcome:
    """The result of a replay.

    Attributes:
        stuck: The ranks that never finish, and the node in which each waits.
        mismatched: Rank and node of a collective, and rank and node of the different collective
            that it meets on the same communicator.
        unread: Messages that are never received.
    """

    stuck: list[tuple[int, TraceNode]] = field(default_factory=list)
    mismatched: list[tuple[int, TraceNode, int, TraceNode]] = field(default_factory=list)
    unread: list[Message] = field(default_factory=list)


@dataclass(slots=True)
class _ReplayNetwork:
    """The state that ranks share.

    Invariant: ``joined`` holds the ranks that have started the current collective of each
    communicator, and at least one member is missing. No message is both in ``sent`` and in
    ``waiting``.

    Attributes:
        sent: Messages that are sent and not received yet.
        waiting: For each message, the rank and the place of the RECVs that wait for it.
        known: The communicator and the signature of each node, by its id(): ranks share nodes.
    """

    groups: Mapping[int, Sequence[int]]
    outcome: ReplayOutcome
    joined: dict[int, dict[int, TraceNode]] = field(default_factory=dict)
    sent: Counter[Message] = field(default_factory=Counter)
    waiting: dict[Message, deque[tuple[int, int]]] = field(default_factory=dict)
    known: dict[int, tuple[int, Signature]] = field(default_factory=dict)

    def join_collective(self, rank: int, node: TraceNode) -> list[int]:
        """Start a collective on a rank; return all its ranks if this one is the last, or none."""
        group, signature = self._identify_collective(node)
        joined = self.joined.setdefault(group, {})
        if joined:
            other, first = next(iter(joined.items()))
            if first is not node and self._identify_collective(first)[1] != signature:
                self.outcome.mismatched.append((rank, node, other, first))
        joined[rank] = node
        members = self.groups[group]
        if len(joined) < len(members):
            return []
        del self.joined[group]
        return list(members)

    def _identify_collective(self, node: TraceNode) -> tuple[int, Signature]:
        known = self.known.get(id(node))
        if known is None:
            signature = read_integer_attr(node, "comm_type"), read_integer_attr(node, "comm_size")
            known = self.known[id(node)] = read_communicator_id(node) or 0, signature
        return known


def identify_message(rank: int, node: TraceNode) -> Message:
    """Return the message that a SEND or RECV transfers."""
    size = read_integer_attr(node, "comm_size") or 0
    tag = (read_integer_attr(node, "comm_tag") or 0) % MAX_TAG
    if node.type == SEND:
        return rank, read_integer_attr(node, "comm_dst") or 0, tag, size
    return read_integer_attr(node, "comm_src") or 0, rank, tag, size


def replay_communication(
    ranks: Sequence[Sequence[TraceNode]],
    graphs: Sequence[DependencyGraph],
    groups: Mapping[int, Sequence[int]],
) -> ReplayOutcome:
    """Replay all ranks until none can continue.

    The graphs must be sound, and ``groups`` must contain every communicator.
    """
    if all(graph.fixed for graph in graphs):
        return _replay_in_order(ranks, graphs, groups)
    return _replay_by_priority(ranks, graphs, groups)


def _replay_in_order(
    ranks: Sequence[Sequence[TraceNode]],
    graphs: Sequence[DependencyGraph],
    groups: Mapping[int, Sequence[int]],
) -> ReplayOutcome:
    """Replay ranks whose order of communication is fixed: each runs its nodes in the order of ids.

    Invariant: ``at[rank]`` counts the finished communication nodes of a rank, and every rank that
    can continue is in ``active``.
    """
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
    """The state of a rank in the replay by priority.

    Invariant: a node that is not done waits for ``waits[i]`` nodes, or is in ``fresh`` (not looked
    at yet), in ``ready`` (a collective or SEND that waits for the slot), is the ``holder`` of the
    slot, or is a RECV that waits for its message.
    """

    def __init__(self, nodes: Sequence[TraceNode], graph: DependencyGraph) -> None:
        self.nodes = nodes
        self.children = collect_children(graph.deps)
        self.waits = [len(parents) for parents in graph.deps]
        self.ready: list[tuple[int, int]] = []  # id and position
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
    """Replay one of several schedules: compute nodes take no time, and the lowest id goes first."""
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
                        member_state = states[member]
                        if member_state.holder is not None:  # the node of this collective
                            member_state.finish_node(member_state.holder)
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
    """Return the node in which a rank waits: the holder of its slot, or its first pending RECV."""
    if state.holder is not None:
        return state.nodes[state.holder]
    return next(n for i, n in enumerate(state.nodes) if not (state.done[i] or state.waits[i]))
