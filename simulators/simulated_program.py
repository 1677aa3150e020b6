"""The program of a trace: what each node does, and which nodes it waits for.

Devices of one program have traces that are equal except for durations. Steps and dependencies are
therefore built once for all nodes and traces that agree in them, and shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

from hespas.chakra.dependency_graph import collect_children, sort_topologically
from hespas.chakra.node_rules import SEND, read_integer_attr
from hespas.chakra.trace_reader import NodeAttrs, TraceNode
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_steps import SimulationStep, build_step
from hespas.support.errors import HespasError
from hespas.support.text_tables import format_count


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedProgram:
    """One trace; a position is an index into ``nodes``.

    Attributes:
        path: The file.
        nodes: The nodes by rising id.
        steps: What each node does.
        waits: How many nodes each node depends on.
        children: The positions of the nodes that depend on each node.
        groups: The communicators that the nodes name, each with the position of the first such
            node.
        peers: The peers that the messages name, each with the position of its first message.
        own: The devices that the messages name as their own, each with the position of its first
            message.
    """

    path: Path
    nodes: Sequence[TraceNode]
    steps: Sequence[SimulationStep]
    waits: Sequence[int]
    children: Sequence[tuple[int, ...]]
    groups: Mapping[int, int] = field(default_factory=dict)
    peers: Mapping[int, int] = field(default_factory=dict)
    own: Mapping[int, int] = field(default_factory=dict)

    def to_canonical_form(self) -> tuple:
        """Return a form that is equal for programs that differ only in communicators and peers."""
        groups = {name: slot for slot, name in enumerate(self.groups)}
        peers = {name: slot for slot, name in enumerate(self.peers)}
        steps = [
            replace(step, group=groups.get(step.group, -1), peer=peers.get(step.peer, -1))
            if step.kind
            else step
            for step in self.steps
        ]
        ids = tuple([node.id for node in self.nodes])
        return ids, tuple(steps), tuple(self.waits), tuple(self.children)


@dataclass(frozen=True, slots=True)
class ProgramDependencies:
    """The ``waits`` and ``children`` of programs whose nodes have equal ids and dependencies."""

    waits: Sequence[int]
    children: Sequence[tuple[int, ...]]


class ProgramBuilder:
    """Builds programs on a system; what programs have in common is built once.

    Args:
        system: The system.
        dependencies: The dependencies that are known already; new ones are added to them.
    """

    def __init__(
        self, system: SystemSpec, dependencies: dict[tuple, ProgramDependencies] | None = None
    ) -> None:
        self._system = system
        # By type, duration and identity of the attributes, which are kept alive.
        self._steps: dict[tuple[int, int, int], tuple[NodeAttrs, SimulationStep]] = {}
        self._dependencies = {} if dependencies is None else dependencies

    def build_program(self, path: Path, nodes: Sequence[TraceNode]) -> SimulatedProgram:
        """Build the program of nodes by rising id.

        Raises:
            HespasError: A node is wrong; ``path`` is the file that the message names.
        """
        dependencies = self._find_dependencies(path, nodes)
        steps = self._build_steps(path, nodes)
        groups: dict[int, int] = {}
        peers: dict[int, int] = {}
        own: dict[int, int] = {}
        for i, step in enumerate(steps):
            if step.group >= 0:
                groups.setdefault(step.group, i)
            elif step.peer >= 0:
                peers.setdefault(step.peer, i)
                node = nodes[i]
                name = "comm_src" if node.type == SEND else "comm_dst"
                own_device = read_integer_attr(node, name)
                if own_device is not None:
                    own.setdefault(own_device, i)
        return SimulatedProgram(
            path, nodes, steps, dependencies.waits, dependencies.children, groups, peers, own
        )

    def _build_steps(self, path: Path, nodes: Sequence[TraceNode]) -> list[SimulationStep]:
        known, steps = self._steps, []
        for node in nodes:
            key = (node.type, node.duration_us, id(node.attrs))
            entry = known.get(key)
            if entry is None:
                entry = known[key] = (node.attrs, build_step(path, node, self._system))
            steps.append(entry[1])
        return steps

    def _find_dependencies(self, path: Path, nodes: Sequence[TraceNode]) -> ProgramDependencies:
        key = tuple(map(attrgetter("id", "data_deps", "ctrl_deps"), nodes))
        dependencies = self._dependencies.get(key)
        if dependencies is None:
            dependencies = self._dependencies[key] = _index_dependencies(path, nodes)
        return dependencies


def _index_dependencies(path: Path, nodes: Sequence[TraceNode]) -> ProgramDependencies:
    """Index the dependencies of nodes; raises HespasError if some node can never run."""
    place = {node.id: i for i, node in enumerate(nodes)}
    if len(place) < len(nodes):
        twice = next(a.id for a, b in pairwise(nodes) if a.id == b.id)
        raise HespasError(f"the id {twice} is used twice", where=f"{path} node {twice}")
    deps: list[set[int]] = []
    for node in nodes:
        missing = next((dep for dep in node.dependency_ids if dep not in place), None)
        if missing is not None:
            raise HespasError(
                f"depends on node {missing}, which does not exist", where=f"{path} node {node.id}"
            )
        deps.append({place[dep] for dep in node.dependency_ids})
    order = sort_topologically(deps)
    if len(order) < len(nodes):
        first = min(set(range(len(nodes))) - set(order))
        raise HespasError(
            f"{format_count(len(nodes) - len(order), 'node')} in or after a cycle of dependencies "
            "can never run",
            where=f"{path} node {nodes[first].id}",
        )
    waits = [len(positions) for positions in deps]
    return ProgramDependencies(waits, [tuple(p) for p in collect_children(deps)])
