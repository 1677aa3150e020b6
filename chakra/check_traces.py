"""Checking a folder of traces before a simulator sees it, as ASTRA-sim fails in silence.

Files, metadata, ids, dependencies, cycles, attribute types and sizes, communicators, matching
between ranks, and that no rank waits for ever; docs/reference/traces.md lists the rules. Any trace
can be checked, not only ours.
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
from hespas.chakra.trace_folder import (
    GROUPS_FILE,
    find_group_problems,
    find_trace_files,
    is_rank_list,
)
from hespas.chakra.trace_reader import (
    TraceFileError,
    TraceNode,
    is_metadata_record,
    parse_trace_node,
    split_records,
)
from hespas.configs import read_json
from hespas.support.errors import HespasError

SHOWN_MISSING = 10  # ranks without a trace that are named


@dataclass(frozen=True, slots=True)
class TraceProblem:
    """One finding: ``where`` it is first, and ``count``, how often. Severity: error or warning."""

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
    """What a check saw: problems, errors first, and how much was checked."""

    problems: list[TraceProblem]
    devices: int
    nodes: int
    fixed_order: bool

    @property
    def error_count(self) -> int:
        """How many errors there are, repetitions counted."""
        return sum(p.count for p in self.problems if p.severity == ERROR)


def find_trace_problems(folder: Path | str, prefix: str | None = None) -> list[TraceProblem]:
    """The problems of a folder's traces ``PREFIX.N.et``; raises HespasError if there are none."""
    return check_trace_folder(folder, prefix).problems


def check_trace_folder(folder: Path | str, prefix: str | None = None) -> TraceCheckReport:
    """``check``, with what was counted."""
    folder = Path(folder)
    files = find_trace_files(folder, prefix)
    checker = _TraceChecker(folder)
    return checker.check_files(files)


class _TraceChecker:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first: dict[tuple[str, str, str], str] = {}
        self.counts: Counter[tuple[str, str, str]] = Counter()

    def add_problem(self, severity: str, rule: str, text: str, where: str, count: int = 1) -> None:
        key = (severity, rule, text)
        self.first.setdefault(key, where)
        self.counts[key] += count

    def check_files(self, files: dict[int, Path]) -> TraceCheckReport:
        missing = list(islice((r for r in range(max(files) + 1) if r not in files), SHOWN_MISSING))
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
        fixed = all(graph.fixed for graph in graphs.values())
        if sound and not any(severity == ERROR for severity, _, _ in self.counts):
            self.check_communication(list(ranks.values()), list(graphs.values()), files, groups)
        problems = [
            TraceProblem(*key, self.first[key], count) for key, count in self.counts.items()
        ]
        problems.sort(key=lambda p: p.severity)  # errors first, stable
        return TraceCheckReport(problems, len(files), sum(map(len, ranks.values())), fixed)

    def read_communicators(self, devices: int) -> dict[int, list[int]]:
        """The communicators, the default one included."""
        path = self.folder / GROUPS_FILE
        groups: dict[int, list[int]] = {0: list(range(devices))}
        if not path.exists():
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
        """What needs the rank of a node: membership, peers; and which groups are used together."""
        devices = len(ranks)
        members = {group: set(there) for group, there in groups.items()}
        everybody = {group for group, there in members.items() if len(there) == devices}
        default_at, part_at = "", ""
        for rank, nodes in ranks.items():
            for node in nodes:
                where = f"{files[rank].name} node {node.id}"
                if node.type == COLL:
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
                    if group == 0:
                        default_at = default_at or where
                    elif group not in everybody:
                        part_at = part_at or where
                elif node.type in (SEND, RECV):
                    self.check_transfer_peer(rank, node, where, devices)
        if default_at and part_at:
            text = (
                "the default communicator is used beside communicators of some ranks: tags then "
                "differ between ranks; give all ranks together an id of their own"
            )
            self.add_problem(ERROR, "group", text, default_at)
        if default_at and devices == 1:
            self.add_problem(
                ERROR, "group", "a collective over one device never finishes", default_at
            )

    def check_transfer_peer(self, rank: int, node: TraceNode, where: str, devices: int) -> None:
        own_key, peer_key = (
            ("comm_src", "comm_dst") if node.type == SEND else ("comm_dst", "comm_src")
        )
        own, peer = read_integer_attr(node, own_key), read_integer_attr(node, peer_key)
        if own is not None and own != rank:
            self.add_problem(ERROR, "transfer", f"{own_key} is not the rank itself", where)
        if peer == rank:
            self.add_problem(ERROR, "transfer", "the rank is its own peer", where)
        elif peer is not None and not 0 <= peer < devices:
            self.add_problem(ERROR, "transfer", f"{peer_key} {peer} is no rank", where)

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
                "depends on timing, and one schedule only was checked; chain communication nodes"
            )
            self.add_problem(WARNING, "order", text, loose[0], len(loose))
        outcome = replay_communication(ranks, graphs, groups)
        for rank, node, other, theirs in outcome.mismatched:
            text = f"differs in type or size from {names[other]} node {theirs.id}, its counterpart"
            self.add_problem(ERROR, "match", text, f"{names[rank]} node {node.id}")
        if outcome.stuck:
            rank, node = outcome.stuck[0]
            description = f"waits for ever in node {node.id} ({node.name or 'no name'})"
            text = f"deadlock: {len(outcome.stuck)} of {len(ranks)} ranks do not finish; this {description}"
            self.add_problem(ERROR, "deadlock", text, names[rank])
        if outcome.unread:
            source, target, tag, size = outcome.unread[0]
            text = f"a message to rank {target} (tag {tag}, {size} bytes) is never received"
            self.add_problem(WARNING, "match", text, names[source], len(outcome.unread))


class _RankReader:
    """Reads ranks. Records and graphs recur between ranks: each distinct one is looked at once."""

    def __init__(self, checker: _TraceChecker) -> None:
        self.add_problem = checker.add_problem
        self.nodes: dict[bytes, TraceNode | None] = {}
        self.findings: dict[int, list[Finding]] = {}
        self.shapes: dict[tuple, int] = {}
        self.shape_of: dict[int, int] = {}  # by id() of the interned node
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
            for count, record in enumerate(split_records(path.read_bytes(), path)):
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
                    self.shape_of[id(node)] = self.shapes.setdefault(shape, len(self.shapes))
                    node_problems = list(find_node_problems(node))
                    if node_problems:
                        findings[id(node)] = node_problems
                if count == 0:
                    text = "has no metadata record: its first node is taken for it and lost"
                    self.add_problem(ERROR, "metadata", text, where)
                rank_nodes.append(node)
                if id(node) in findings:
                    for severity, rule, text in findings[id(node)]:
                        self.add_problem(severity, rule, text, f"{where} node {node.id}")
        except TraceFileError as error:
            self.add_problem(ERROR, "files", error.message, where)
        except OSError as error:
            self.add_problem(ERROR, "files", f"cannot be read: {error.strerror}", where)
        if not rank_nodes:
            self.add_problem(ERROR, "files", "has no nodes: ASTRA-sim aborts", where)
        return rank_nodes

    def analyse_rank_graph(self, nodes: Sequence[TraceNode], path: Path) -> DependencyGraph:
        shape_of = self.shape_of
        key = array("q", [shape_of[id(node)] for node in nodes]).tobytes()
        graph = self.graphs.get(key)
        if graph is None:
            graph = self.graphs[key] = analyse_dependencies(nodes)
        for i, (severity, rule, text) in graph.findings:
            self.add_problem(severity, rule, text, f"{path.name} node {nodes[i].id}")
        return graph
