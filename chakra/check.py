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

from hespas.chakra.files import GROUPS_FILE, find, group_findings, is_ranks
from hespas.chakra.graph import Graph, analyse
from hespas.chakra.reader import Node, TraceError, has_metadata, parse_node, records
from hespas.chakra.replay import replay
from hespas.chakra.rules import (
    COLL,
    ERROR,
    RECV,
    SEND,
    WARNING,
    Finding,
    group_of,
    node_findings,
    number,
)
from hespas.configs import read_json
from hespas.dialects.errors import HespasError

SHOWN_MISSING = 10  # ranks without a trace that are named


@dataclass(frozen=True, slots=True)
class Problem:
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
class Report:
    """What a check saw: problems, errors first, and how much was checked."""

    problems: list[Problem]
    devices: int
    nodes: int
    fixed_order: bool

    @property
    def errors(self) -> int:
        """How many errors there are, repetitions counted."""
        return sum(p.count for p in self.problems if p.severity == ERROR)


def check(folder: Path | str, prefix: str | None = None) -> list[Problem]:
    """The problems of a folder's traces ``PREFIX.N.et``; raises HespasError if there are none."""
    return report(folder, prefix).problems


def report(folder: Path | str, prefix: str | None = None) -> Report:
    """``check``, with what was counted."""
    folder = Path(folder)
    files = find(folder, prefix)
    checker = _Checker(folder)
    return checker.run(files)


class _Checker:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first: dict[tuple[str, str, str], str] = {}
        self.counts: Counter[tuple[str, str, str]] = Counter()

    def say(self, severity: str, rule: str, text: str, where: str, count: int = 1) -> None:
        key = (severity, rule, text)
        self.first.setdefault(key, where)
        self.counts[key] += count

    def run(self, files: dict[int, Path]) -> Report:
        missing = list(islice((r for r in range(max(files) + 1) if r not in files), SHOWN_MISSING))
        for rank in missing:
            self.say(ERROR, "files", f"rank {rank} has no trace", str(self.folder))
        reader = _Reader(self)
        ranks = {rank: reader.rank(path) for rank, path in files.items()}
        graphs = {rank: reader.graph(nodes, files[rank]) for rank, nodes in ranks.items()}
        groups = self.groups(len(files))
        self.ranks(ranks, files, groups)
        sound = all(graph.sound for graph in graphs.values()) and not missing
        fixed = all(graph.fixed for graph in graphs.values())
        if sound and not any(severity == ERROR for severity, _, _ in self.counts):
            self.together(list(ranks.values()), list(graphs.values()), files, groups)
        problems = [Problem(*key, self.first[key], count) for key, count in self.counts.items()]
        problems.sort(key=lambda p: p.severity)  # errors first, stable
        return Report(problems, len(files), sum(map(len, ranks.values())), fixed)

    def groups(self, devices: int) -> dict[int, list[int]]:
        """The communicators, the default one included."""
        path = self.folder / GROUPS_FILE
        groups: dict[int, list[int]] = {0: list(range(devices))}
        if not path.exists():
            return groups
        try:
            data = read_json(path)
        except HespasError as error:
            self.say(ERROR, "groups", error.message, error.where)
            return groups
        if "empty" in str(path.resolve()):
            self.say(WARNING, "groups", "a path with 'empty' in it means no groups", str(path))
        for key, members in data.items():
            for severity, text in group_findings(key, members, devices):
                self.say(severity, "groups", text, str(path))
            if key.isdecimal() and is_ranks(members):
                groups[int(key)] = members
        return groups

    def ranks(
        self, ranks: Mapping[int, Sequence[Node]], files: Mapping[int, Path], groups: Mapping
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
                    group = group_of(node)
                    if group is None:
                        continue
                    if group not in members:
                        self.say(ERROR, "group", f"communicator {group} is not defined", where)
                    elif rank not in members[group]:
                        self.say(ERROR, "group", "the rank is not in its communicator", where)
                    if group == 0:
                        default_at = default_at or where
                    elif group not in everybody:
                        part_at = part_at or where
                elif node.type in (SEND, RECV):
                    self.peer(rank, node, where, devices)
        if default_at and part_at:
            text = (
                "the default communicator is used beside communicators of some ranks: tags then "
                "differ between ranks; give all ranks together an id of their own"
            )
            self.say(ERROR, "group", text, default_at)
        if default_at and devices == 1:
            self.say(ERROR, "group", "a collective over one device never finishes", default_at)

    def peer(self, rank: int, node: Node, where: str, devices: int) -> None:
        mine, theirs = ("comm_src", "comm_dst") if node.type == SEND else ("comm_dst", "comm_src")
        own, peer = number(node, mine), number(node, theirs)
        if own is not None and own != rank:
            self.say(ERROR, "transfer", f"{mine} is not the rank itself", where)
        if peer == rank:
            self.say(ERROR, "transfer", "the rank is its own peer", where)
        elif peer is not None and not 0 <= peer < devices:
            self.say(ERROR, "transfer", f"{theirs} {peer} is no rank", where)

    def together(
        self,
        ranks: Sequence[Sequence[Node]],
        graphs: Sequence[Graph],
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
            self.say(WARNING, "order", text, loose[0], len(loose))
        outcome = replay(ranks, graphs, groups)
        for rank, node, other, theirs in outcome.mismatched:
            text = f"differs in type or size from {names[other]} node {theirs.id}, its counterpart"
            self.say(ERROR, "match", text, f"{names[rank]} node {node.id}")
        if outcome.stuck:
            rank, node = outcome.stuck[0]
            what = f"waits for ever in node {node.id} ({node.name or 'no name'})"
            text = (
                f"deadlock: {len(outcome.stuck)} of {len(ranks)} ranks do not finish; this {what}"
            )
            self.say(ERROR, "deadlock", text, names[rank])
        if outcome.unread:
            source, target, tag, size = outcome.unread[0]
            text = f"a message to rank {target} (tag {tag}, {size} bytes) is never received"
            self.say(WARNING, "match", text, names[source], len(outcome.unread))


class _Reader:
    """Reads ranks. Records and graphs recur between ranks: each distinct one is looked at once."""

    def __init__(self, checker: _Checker) -> None:
        self.say = checker.say
        self.nodes: dict[bytes, Node | None] = {}
        self.findings: dict[int, list[Finding]] = {}
        self.shapes: dict[tuple, int] = {}
        self.shape_of: dict[int, int] = {}  # by id() of the interned node
        self.graphs: dict[bytes, Graph] = {}

    def rank(self, path: Path) -> list[Node]:
        where = path.name
        if not os.access(path, os.W_OK):
            self.say(WARNING, "files", "is read-only: ASTRA-sim opens it for appending", where)
        found: list[Node] = []
        known, findings = self.nodes, self.findings
        count = 0
        try:
            for count, record in enumerate(records(path.read_bytes(), path)):
                node = known.get(record)
                if node is None:
                    if count == 0 and has_metadata(record):
                        continue
                    try:
                        node = known[record] = parse_node(record)
                    except ValueError:
                        self.say(ERROR, "files", f"record {count} is not a Chakra node", where)
                        continue
                    shape = (node.id, node.deps, node.type)
                    self.shape_of[id(node)] = self.shapes.setdefault(shape, len(self.shapes))
                    wrong = list(node_findings(node))
                    if wrong:
                        findings[id(node)] = wrong
                if count == 0:
                    text = "has no metadata record: its first node is taken for it and lost"
                    self.say(ERROR, "metadata", text, where)
                found.append(node)
                if id(node) in findings:
                    for severity, rule, text in findings[id(node)]:
                        self.say(severity, rule, text, f"{where} node {node.id}")
        except TraceError as error:
            self.say(ERROR, "files", error.message, where)
        except OSError as error:
            self.say(ERROR, "files", f"cannot be read: {error.strerror}", where)
        if not found:
            self.say(ERROR, "files", "has no nodes: ASTRA-sim aborts", where)
        return found

    def graph(self, nodes: Sequence[Node], path: Path) -> Graph:
        shape_of = self.shape_of
        key = array("q", [shape_of[id(node)] for node in nodes]).tobytes()
        graph = self.graphs.get(key)
        if graph is None:
            graph = self.graphs[key] = analyse(nodes)
        for i, (severity, rule, text) in graph.findings:
            self.say(severity, rule, text, f"{path.name} node {nodes[i].id}")
        return graph
