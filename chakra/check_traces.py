"""Checks of a trace set, from hespas or another tool, before a simulator reads it.

ASTRA-sim reports few errors. The checks cover files, metadata, ids, dependencies, cycles, types and
sizes of attributes, communicators, matching between ranks, and deadlocks.
docs/reference/traces.md lists the rules.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from hespas.chakra.dependency_graph import DependencyGraph, analyse_dependencies
from hespas.chakra.node_rules import (
    COLL,
    ERROR,
    RECV,
    SEND,
    WARNING,
    Finding,
    find_node_problems,
    read_communicator_id,
    read_integer_attr,
)
from hespas.chakra.replay import replay_communication
from hespas.chakra.schema import CollectiveCommType
from hespas.chakra.trace_folder import (
    find_group_problems,
    find_groups_file,
    find_trace_files,
    is_rank_list,
)
from hespas.chakra.trace_reader import (
    TraceNode,
    is_metadata_record,
    parse_trace_node,
    split_records,
)
from hespas.configs import read_json
from hespas.support.data_files import read_file_bytes
from hespas.support.errors import HespasError

MAX_MISSING_SHOWN = 10


@dataclass(frozen=True, slots=True)
class TraceProblem:
    """A problem that occurs one or more times.

    Attributes:
        severity: ``error`` or ``warning``.
        rule: The name of the rule in docs/reference/traces.md.
        where: The first place where it occurs.
        count: How often it occurs.
    """

    severity: str
    rule: str
    text: str
    where: str
    count: int = 1

    def __str__(self) -> str:
        more = f" (and {self.count - 1} more)" if self.count > 1 else ""
        return f"{self.where}: {self.severity}: {self.text} [{self.rule}]{more}"


@dataclass(slots=True)
class TraceCheckReport:
    """The result of a check.

    Attributes:
        problems: The problems, errors first.
        devices: The number of traces.
        nodes: The number of nodes in all traces.
    """

    problems: list[TraceProblem]
    devices: int
    nodes: int

    @property
    def error_count(self) -> int:
        """The number of errors, with repetitions."""
        return sum(p.count for p in self.problems if p.severity == ERROR)


def check_trace_folder(
    folder: Path | str, prefix: str | None = None, groups_file: str | os.PathLike[str] | None = None
) -> TraceCheckReport:
    """Check the traces ``PREFIX.N.et`` in a folder.

    Args:
        folder: The folder.
        prefix: The common prefix of the traces; None if the folder holds only one set.
        groups_file: The file of the communicators; None for ``comm_group.json`` in the folder.

    Raises:
        HespasError: The folder has no traces, or several prefixes and ``prefix`` is None.
    """
    folder = Path(folder)
    return _TraceChecker(folder, groups_file).check_files(find_trace_files(folder, prefix))


class _TraceChecker:
    """Checks the traces of a folder; equal problems (severity, rule, text) are counted together."""

    def __init__(self, folder: Path, groups_file: str | os.PathLike[str] | None) -> None:
        self.folder = folder
        self.groups_file = find_groups_file(folder, groups_file)
        self.first_places: dict[tuple[str, str, str], str] = {}
        self.counts: Counter[tuple[str, str, str]] = Counter()

    def add_problem(self, severity: str, rule: str, text: str, where: str, count: int = 1) -> None:
        key = (severity, rule, text)
        self.first_places.setdefault(key, where)
        self.counts[key] += count

    def check_files(self, files: dict[int, Path]) -> TraceCheckReport:
        absent = (rank for rank in range(max(files) + 1) if rank not in files)
        missing = list(islice(absent, MAX_MISSING_SHOWN))
        for rank in missing:
            self.add_problem(ERROR, "files", f"rank {rank} has no trace", str(self.folder))
        reader = _RankReader(self)
        ranks = {rank: reader.read_rank_nodes(path) for rank, path in files.items()}
        graphs = {
            rank: reader.analyse_rank_graph(nodes, files[rank]) for rank, nodes in ranks.items()
        }
        groups = self.read_communicators(len(files))
        self.check_ranks(ranks, files, groups)
        sound = all(graph.sound for graph in graphs.values()) and not missing
        if sound and not any(severity == ERROR for severity, _, _ in self.counts):
            self.check_communication(list(ranks.values()), list(graphs.values()), files, groups)
        problems = [
            TraceProblem(*key, self.first_places[key], count) for key, count in self.counts.items()
        ]
        problems.sort(key=lambda p: p.severity)  # errors first, stable
        return TraceCheckReport(problems, len(files), sum(map(len, ranks.values())))

    def read_communicators(self, devices: int) -> dict[int, list[int]]:
        """Return the ranks of each communicator, the default one (0) included."""
        path = self.groups_file
        groups: dict[int, list[int]] = {0: list(range(devices))}
        if path is None:
            return groups
        try:
            data = read_json(path)
        except HespasError as error:
            self.add_problem(ERROR, "groups", error.message, error.where)
            return groups
        if "empty" in str(path.resolve()):
            self.add_problem(
                WARNING, "groups", "a path with 'empty' in it means no groups", str(path)
            )
        for key, members in data.items():
            for severity, text in find_group_problems(key, members, devices):
                self.add_problem(severity, "groups", text, str(path))
            if key.isdecimal() and is_rank_list(members):
                groups[int(key)] = members
        return groups

    def check_ranks(
        self, ranks: Mapping[int, Sequence[TraceNode]], files: Mapping[int, Path], groups: Mapping
    ) -> None:
        """Check membership and peers of nodes, and which communicators are used together."""
        devices = len(ranks)
        members = {group: set(group_ranks) for group, group_ranks in groups.items()}
        complete_groups = {group for group in members if len(members[group]) == devices}
        default_place, partial_place = "", ""  # of the first collective of each sort
        for rank, nodes in ranks.items():
            name = files[rank].name
            for node in nodes:
                if node.type == COLL:
                    where = f"{name} node {node.id}"
                    group = read_communicator_id(node)
                    if group is None:
                        continue
                    if group not in members:
                        self.add_problem(
                            ERROR, "group", f"communicator {group} is not defined", where
                        )
                    elif rank not in members[group]:
                        self.add_problem(
                            ERROR, "group", "the rank is not in its communicator", where
                        )
                    elif group and len(members[group]) < 2 and not _is_broadcast(node):
                        text = f"communicator {group} has one rank: the collective never finishes"
                        self.add_problem(ERROR, "group", text, where)
                    if group == 0:
                        default_place = default_place or where
                    elif group not in complete_groups:
                        partial_place = partial_place or where
                elif node.type in (SEND, RECV):
                    self.check_transfer_peer(rank, node, f"{name} node {node.id}", devices)
        if default_place and partial_place:
            text = (
                "the default communicator is used together with communicators of some ranks: tags "
                "then differ between ranks; define a communicator of all ranks"
            )
            self.add_problem(ERROR, "group", text, default_place)
        if default_place and devices == 1:
            text = "a collective over one device never finishes"
            self.add_problem(ERROR, "group", text, default_place)

    def check_transfer_peer(self, rank: int, node: TraceNode, where: str, devices: int) -> None:
        own_key, peer_key = (
            ("comm_src", "comm_dst") if node.type == SEND else ("comm_dst", "comm_src")
        )
        own, peer = read_integer_attr(node, own_key), read_integer_attr(node, peer_key)
        if own is not None and own != rank:
            self.add_problem(ERROR, "transfer", f"{own_key} is not the rank of the trace", where)
        if peer == rank:
            self.add_problem(ERROR, "transfer", "the rank is its own peer", where)
        elif peer is not None and not 0 <= peer < devices:
            self.add_problem(ERROR, "transfer", f"{peer_key} {peer} is not a rank", where)

    def check_communication(
        self,
        ranks: Sequence[Sequence[TraceNode]],
        graphs: Sequence[DependencyGraph],
        files: Mapping[int, Path],
        groups: Mapping[int, Sequence[int]],
    ) -> None:
        names = [path.name for path in files.values()]
        loose = [names[i] for i, graph in enumerate(graphs) if not graph.fixed]
        if loose:
            text = (
                "dependencies do not fix the order of communication: whether ranks agree on it "
                "depends on timing, and only one schedule was checked; chain communication nodes"
            )
            self.add_problem(WARNING, "order", text, loose[0], len(loose))
        outcome = replay_communication(ranks, graphs, groups)
        for rank, node, other, theirs in outcome.mismatched:
            text = f"differs in type or size from {names[other]} node {theirs.id}, its counterpart"
            self.add_problem(ERROR, "match", text, f"{names[rank]} node {node.id}")
        if outcome.stuck:
            rank, node = outcome.stuck[0]
            text = (
                f"deadlock: {len(outcome.stuck)} of {len(ranks)} ranks do not finish; this one "
                f"waits in node {node.id} ({node.name or 'no name'})"
            )
            self.add_problem(ERROR, "deadlock", text, names[rank])
        if outcome.unread:
            source, target, tag, size = outcome.unread[0]
            text = f"a message to rank {target} (tag {tag}, {size} bytes) is never received"
            self.add_problem(WARNING, "match", text, names[source], len(outcome.unread))


def _is_broadcast(node: TraceNode) -> bool:
    return read_integer_attr(node, "comm_type") == CollectiveCommType.BROADCAST


class _RankReader:
    """Reads the traces of ranks. Equal records and equal graphs of all ranks are analysed once.

    A record is identified by its bytes, and a graph by the sequence of its nodes' shapes (id,
    dependencies and type), which are numbered in the order of their first occurrence.
    """

    def __init__(self, checker: _TraceChecker) -> None:
        self.add_problem = checker.add_problem
        self.nodes: dict[bytes, TraceNode | None] = {}
        self.findings: dict[int, list[Finding]] = {}  # by id() of the interned node
        self.shapes: dict[tuple, int] = {}
        self.shape_by_node: dict[int, int] = {}  # by id() of the interned node
        self.graphs: dict[bytes, DependencyGraph] = {}

    def read_rank_nodes(self, path: Path) -> list[TraceNode]:
        where = path.name
        if not os.access(path, os.W_OK):
            self.add_problem(
                WARNING, "files", "is read-only: ASTRA-sim opens it for appending", where
            )
        rank_nodes: list[TraceNode] = []
        known, findings = self.nodes, self.findings
        count = 0
        try:
            for count, record in enumerate(
                split_records(read_file_bytes(path, unpacks=False), path)
            ):
                node = known.get(record)
                if node is None:
                    if count == 0 and is_metadata_record(record):
                        continue
                    try:
                        node = known[record] = parse_trace_node(record)
                    except ValueError:
                        self.add_problem(
                            ERROR, "files", f"record {count} is not a Chakra node", where
                        )
                        continue
                    shape = (node.id, node.dependency_ids, node.type)
                    self.shape_by_node[id(node)] = self.shapes.setdefault(shape, len(self.shapes))
                    node_problems = list(find_node_problems(node))
                    if node_problems:
                        findings[id(node)] = node_problems
                if count == 0:
                    text = "has no metadata record: a simulator skips its first node instead"
                    self.add_problem(ERROR, "metadata", text, where)
                rank_nodes.append(node)
                if id(node) in findings:
                    for severity, rule, text in findings[id(node)]:
                        self.add_problem(severity, rule, text, f"{where} node {node.id}")
        except HespasError as error:
            self.add_problem(ERROR, "files", error.message, where)
        if not rank_nodes:
            self.add_problem(ERROR, "files", "has no nodes: ASTRA-sim aborts", where)
        return rank_nodes

    def analyse_rank_graph(self, nodes: Sequence[TraceNode], path: Path) -> DependencyGraph:
        shapes = self.shape_by_node
        key = array("q", [shapes[id(node)] for node in nodes]).tobytes()
        graph = self.graphs.get(key)
        if graph is None:
            graph = self.graphs[key] = analyse_dependencies(nodes)
        for i, (severity, rule, text) in graph.findings:
            self.add_problem(severity, rule, text, f"{path.name} node {nodes[i].id}")
        return graph
