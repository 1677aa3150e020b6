"""The dependency graph of one trace: ids, missing nodes, cycles, order of communication."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from hespas.chakra.node_rules import COMMUNICATION, ERROR, RECV, SEND, Finding
from hespas.chakra.trace_reader import TraceNode
from hespas.support.text_tables import format_count


@dataclass(frozen=True, slots=True)
class DependencyGraph:
    """A dependency graph, whose nodes are identified by their positions in the trace.

    Attributes:
        findings: Problems with the position of their node.
        comms: Positions of the communication nodes, ordered by id.
        fixed: Whether dependencies enforce the order of ``comms``. Only a SEND and the RECV that
            follows it may run alongside.
        deps: For each node, the positions of the nodes that it depends on.
        sound: Whether there are no findings.
    """

    findings: list[tuple[int, Finding]] = field(default_factory=list)
    comms: tuple[int, ...] = ()
    fixed: bool = True
    deps: tuple[tuple[int, ...], ...] = ()
    sound: bool = True


def analyse_dependencies(nodes: Sequence[TraceNode]) -> DependencyGraph:
    """Build the dependency graph of a trace."""
    findings: list[tuple[int, Finding]] = []
    position_by_id: dict[int, int] = {}
    for i, node in enumerate(nodes):
        if node.id in position_by_id:
            text = f"id {node.id} is used before: the earlier node is lost"
            findings.append((i, (ERROR, "ids", text)))
        position_by_id[node.id] = i
    deps = []
    for i, node in enumerate(nodes):
        positions = []
        for d in node.dependency_ids:
            if d in position_by_id:
                positions.append(position_by_id[d])
            else:
                findings.append((i, (ERROR, "deps", f"depends on {d}, which does not exist")))
        deps.append(tuple(dict.fromkeys(positions)))
    order = sort_topologically(deps)
    if len(order) < len(nodes):
        first = min(set(range(len(nodes))) - set(order))
        lost = len(nodes) - len(order)
        text = f"{format_count(lost, 'node')} in or after a cycle of dependencies can never run"
        findings.append((first, (ERROR, "cycle", text)))
    comms = [i for i in range(len(nodes)) if nodes[i].type in COMMUNICATION]
    comms.sort(key=lambda i: nodes[i].id)
    if findings:
        return DependencyGraph(findings, tuple(comms), False, tuple(deps), False)
    return DependencyGraph(
        [], tuple(comms), _is_order_fixed(nodes, deps, order, comms), tuple(deps)
    )


def collect_children(deps: Sequence[Iterable[int]]) -> list[list[int]]:
    """Return, for each position, the positions that depend on it, ascending."""
    children: list[list[int]] = [[] for _ in deps]
    for i, parents in enumerate(deps):
        for d in parents:
            children[d].append(i)
    return children


def sort_topologically(deps: Sequence[Collection[int]]) -> list[int]:
    """Return the positions in topological order, without those that are in or depend on a cycle."""
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
    """Return whether each communication node depends, directly or not, on the one before it.

    A RECV may run alongside the SEND before it if the next communication depends on both.

    Invariant, in topological order: ``latest[i]`` is the index in ``comms`` of the last
    communication that node ``i`` is or depends on. If that is the RECV of such a pair,
    ``covers_both[i]`` says whether node ``i`` depends on the SEND too.
    """
    index_by_position = {position: index for index, position in enumerate(comms)}
    latest = [-1] * len(nodes)
    covers_both = [True] * len(nodes)
    for i in order:
        parents = deps[i]
        best = max((latest[d] for d in parents), default=-1)
        covers_pair = best < 0 or any(
            latest[d] == best - 1 or (latest[d] == best and covers_both[d]) for d in parents
        )
        k = index_by_position.get(i)
        if k is None:
            latest[i], covers_both[i] = best, covers_pair
            continue
        latest[i] = k
        if best == k - 1:
            if not covers_pair:
                return False
        elif best == k - 2 and nodes[comms[k - 1]].type == SEND and nodes[i].type == RECV:
            covers_both[i] = False
            if not covers_pair:
                return False
        else:
            return False
    return True
