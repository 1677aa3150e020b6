"""One device's dependency graph: ids, dangling references, cycles, order of communication."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from hespas.chakra.reader import Node
from hespas.chakra.rules import COMMUNICATION, ERROR, RECV, SEND, Finding


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph by position in the list of nodes. ``findings``: position, and what is wrong there.

    ``comms`` are the positions of communication by rising id; ``fixed`` says that dependencies
    alone put them in this order, except that a SEND and the RECV after it may go together.
    """

    findings: list[tuple[int, Finding]] = field(default_factory=list)
    comms: tuple[int, ...] = ()
    fixed: bool = True
    deps: tuple[tuple[int, ...], ...] = ()
    sound: bool = True


def analyse(nodes: Sequence[Node]) -> Graph:
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
        mine = []
        for d in node.deps:
            if d in place:
                mine.append(place[d])
            else:
                findings.append((i, (ERROR, "deps", f"depends on {d}, which does not exist")))
        deps.append(tuple(dict.fromkeys(mine)))
    order = topological(deps)
    if len(order) < len(nodes):
        first = min(set(range(len(nodes))) - set(order))
        lost = len(nodes) - len(order)
        text = f"{lost} nodes lie in or behind a cycle of dependencies and would never run"
        findings.append((first, (ERROR, "cycle", text)))
    comms = [i for i in range(len(nodes)) if nodes[i].type in COMMUNICATION]
    comms.sort(key=lambda i: nodes[i].id)
    if findings:
        return Graph(findings, tuple(comms), False, tuple(deps), False)
    return Graph([], tuple(comms), _fixed(nodes, deps, order, comms), tuple(deps))


def children_of(deps: Sequence[Iterable[int]]) -> list[list[int]]:
    """Who depends on each position, ascending."""
    children: list[list[int]] = [[] for _ in deps]
    for i, mine in enumerate(deps):
        for d in mine:
            children[d].append(i)
    return children


def topological(deps: Sequence[Collection[int]]) -> list[int]:
    """Positions in an order that respects dependencies; those in or behind cycles are missing."""
    if all(not mine or max(mine) < i for i, mine in enumerate(deps)):
        return list(range(len(deps)))
    children = children_of(deps)
    waiting = [len(mine) for mine in deps]
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


def _fixed(
    nodes: Sequence[Node], deps: list[tuple[int, ...]], order: list[int], comms: list[int]
) -> bool:
    """Whether each communication depends, directly or not, on the one before it.

    A RECV may also go together with the SEND before it: then the next depends on both.
    """
    rank = {i: k for k, i in enumerate(comms)}
    latest = [-1] * len(nodes)  # the last communication that a node is, or depends on
    whole = [True] * len(nodes)  # whether, of a SEND and RECV that go together, that means both
    for i in order:
        mine = deps[i]
        best = max((latest[d] for d in mine), default=-1)
        both = best < 0 or any(
            latest[d] == best - 1 or (latest[d] == best and whole[d]) for d in mine
        )
        k = rank.get(i)
        if k is None:
            latest[i], whole[i] = best, both
            continue
        latest[i] = k
        if best == k - 1:
            if not both:
                return False
        elif best == k - 2 and _pair(nodes[comms[k - 1]], nodes[i]):
            whole[i] = False
            if not both:
                return False
        else:
            return False
    return True


def _pair(send: Node, recv: Node) -> bool:
    return send.type == SEND and recv.type == RECV
