"""One device's dependency graph: ids, dangling references, cycles, order of communication."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from hespas.chakra.node_rules import COMMUNICATION, ERROR, RECV, SEND, Finding
from hespas.chakra.trace_reader import TraceNode


@dataclass(frozen=True, slots=True)
class DependencyGraph:
    """A graph by position in the list of nodes. ``findings``: position, and what is wrong there.

    ``comms`` are the positions of communication by rising id; ``fixed`` says that dependencies
    alone put them in this order, except that a SEND and the RECV after it may go together.
    """

    findings: list[tuple[int, Finding]] = field(default_factory=list)
    comms: tuple[int, ...] = ()
    fixed: bool = True
    deps: tuple[tuple[int, ...], ...] = ()
    sound: bool = True


def analyse_dependencies(nodes: Sequence[TraceNode]) -> DependencyGraph:
    """The graph of a device's nodes."""
    findings: list[tuple[int, Finding]] = []
    place: dict[int, int] = {}
    for i, node in enumerate(nodes):
        if node.id in place:
            text = f"id {node.id} is used before: the earlier node is lost"
            findings.append((i, (ERROR, "ids", text)))
        place[node.id] = i
    deps = []
    for i, node in enumerate(nodes):
        positions = []
        for d in node.dependency_ids:
            if d in place:
                positions.append(place[d])
            else:
                findings.append((i, (ERROR, "deps", f"depends on {d}, which does not exist")))
        deps.append(tuple(dict.fromkeys(positions)))
    order = sort_topologically(deps)
    if len(order) < len(nodes):
        first = min(set(range(len(nodes))) - set(order))
        lost = len(nodes) - len(order)
        text = f"{lost} nodes lie in or behind a cycle of dependencies and would never run"
        findings.append((first, (ERROR, "cycle", text)))
    comms = [i for i in range(len(nodes)) if nodes[i].type in COMMUNICATION]
    comms.sort(key=lambda i: nodes[i].id)
    if findings:
        return DependencyGraph(findings, tuple(comms), False, tuple(deps), False)
    return DependencyGraph(
        [], tuple(comms), _is_order_fixed(nodes, deps, order, comms), tuple(deps)
    )


def collect_children(deps: Sequence[Iterable[int]]) -> list[list[int]]:
    """Who depends on each position, ascending."""
    children: list[list[int]] = [[] for _ in deps]
    for i, parents in enumerate(deps):
        for d in parents:
            children[d].append(i)
    return children


def sort_topologically(deps: Sequence[Collection[int]]) -> list[int]:
    """Positions in an order that respects dependencies; those in or behind cycles are missing."""
    if all(not parents or max(parents) < i for i, parents in enumerate(deps)):
        return list(range(len(deps)))
    children = collect_children(deps)
    waiting = [len(parents) for parents in deps]
    ready = deque(i for i, count in enumerate(waiting) if count == 0)
    order = []
    while ready:
        i = ready.popleft()
        order.append(i)
        for child in children[i]:
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    return order


def _is_order_fixed(
    nodes: Sequence[TraceNode], deps: list[tuple[int, ...]], order: list[int], comms: list[int]
) -> bool:
    """Whether each communication depends, directly or not, on the one before it.

    A RECV may also go together with the SEND before it: then the next depends on both.
    """
    rank = {i: k for k, i in enumerate(comms)}
    latest = [-1] * len(nodes)  # the last communication that a node is, or depends on
    covers_both = [True] * len(
        nodes
    )  # whether, of a SEND and RECV that go together, that means both
    for i in order:
        parents = deps[i]
        best = max((latest[d] for d in parents), default=-1)
        both = best < 0 or any(
            latest[d] == best - 1 or (latest[d] == best and covers_both[d]) for d in parents
        )
        k = rank.get(i)
        if k is None:
            latest[i], covers_both[i] = best, both
            continue
        latest[i] = k
        if best == k - 1:
            if not both:
                return False
        elif best == k - 2 and _is_send_recv_pair(nodes[comms[k - 1]], nodes[i]):
            covers_both[i] = False
            if not both:
                return False
        else:
            return False
    return True


def _is_send_recv_pair(send: TraceNode, recv: TraceNode) -> bool:
    return send.type == SEND and recv.type == RECV
