"""Custom collectives: the traces that system.json names, played where ASTRA-sim plays them.

Each rank runs ``PREFIX.POSITION.et``, its position in the communicator, as soon as it starts the
collective: whatever is ready runs at once, without endpoint delay or limit to resources. Sizes are
those of the traces. Its messages share tags with those of the workload.
Source: ASTRA-sim's CustomAlgorithm.cc, CollectiveImplLookup.cc, CommunicatorGroup.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hespas.chakra.dependency_graph import analyse_dependencies, collect_children
from hespas.chakra.node_rules import COMP, MAX_TAG, RECV, SEND, read_integer_attr
from hespas.chakra.trace_reader import TraceFileError, TraceNode, read_trace_nodes
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.collectives import per_node
from hespas.simulators.simulation_steps import SimulationStep
from hespas.support.errors import HespasError

from .events import DeviceEndpoint, MessageTransport

if TYPE_CHECKING:
    from .device_runner import DeviceRunner
    from .event_engine import EventEngine


@dataclass(frozen=True, slots=True)
class CustomTraceOp:
    """One node: ``peer`` is a position in the communicator; ``duration_ns`` of a COMP node."""

    type: int
    peer: int = -1
    tag: int = 0
    size: int = 0
    duration_ns: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class CustomAlgorithm:
    """One rank's trace: nodes by rising id, how many each waits for, and who waits for it.

    ``chunk_bytes`` and ``parts``: the chunks that the collective is cut into, where the trace tells
    (msg_chunk_cnt, total_chunk_cnt), else 0.
    """

    path: Path
    nodes: Sequence[TraceNode]
    ops: Sequence[CustomTraceOp]
    waits: Sequence[int]
    children: Sequence[tuple[int, ...]]
    chunk_bytes: int = 0
    parts: int = 0

    def has_matching_size(self, kind: str, size: int, count: int) -> bool:
        """Whether the trace is for operands of ``size`` bytes on ``count`` devices."""
        whole_bytes = size * count if kind == "all_gather" else size
        return not self.parts or self.chunk_bytes == -(-whole_bytes // self.parts)


@dataclass(slots=True)
class CustomTraces:
    """Which collectives have traces of their own; reads each file once."""

    system: SystemSpec
    nodes: dict[int, str] = field(default_factory=dict)
    _plans: dict[tuple[int, int, str], str] = field(default_factory=dict)
    _read: dict[tuple[str, int, int], CustomAlgorithm] = field(default_factory=dict)

    @classmethod
    def from_system(cls, system: SystemSpec) -> CustomTraces:
        """Those of a system; raises HespasError where its per-node file is wrong."""
        nodes = {}
        if system.per_node_custom:
            nodes = per_node.read_prefixes(system.folder / system.per_node_custom)
        return cls(system, nodes)

    @property
    def has_traces(self) -> bool:
        """Whether there are any at all."""
        return bool(self.nodes or self.system.custom)

    def find_prefix(self, rank: int, group: int, kind: str, node: int) -> str:
        """The prefix of a collective's traces, "" where it has none.

        In a communicator, the first collective of a kind decides for all that follow.
        """
        prefix = self._plans.get((rank, group, kind)) if group else None
        if prefix is None:
            prefix = self.nodes.get(node) or self.system.custom.get(kind.replace("_", "-"), "")
            if group:
                self._plans[rank, group, kind] = prefix
        return prefix

    def load_algorithm(self, prefix: str, position: int, count: int) -> CustomAlgorithm:
        """The trace of a position in a communicator of ``count`` devices; raises HespasError."""
        key = (prefix, position, count)
        if key not in self._read:
            path = Path(self.system.folder / f"{prefix}.{position}.et")
            self._read[key] = _read_algorithm(path, position, count)
        return self._read[key]


def _read_algorithm(path: Path, position: int, count: int) -> CustomAlgorithm:
    if not path.exists():
        raise HespasError(
            f"is missing: it is for position {position} of a communicator of {count}",
            where=str(path),
            remedy="custom traces are for one number of ranks",
        )
    try:
        nodes = sorted(read_trace_nodes(path), key=lambda node: node.id)
    except TraceFileError as error:
        raise HespasError(error.message, where=str(path)) from None
    if not nodes:
        raise HespasError("has no nodes: give each rank one at least", where=str(path))
    graph = analyse_dependencies(nodes)
    for at, (_, _, text) in graph.findings:
        raise HespasError(text, where=f"{path} node {nodes[at].id}")
    children = [tuple(child_positions) for child_positions in collect_children(graph.deps)]
    ops = [_convert_node(path, node, position, count) for node in nodes]
    waits = [len(deps) for deps in graph.deps]
    chunk, parts = next((_read_chunk_counts(node) for node in nodes if node.type == SEND), (0, 0))
    return CustomAlgorithm(path, nodes, ops, waits, children, chunk, parts)


def _read_chunk_counts(node: TraceNode) -> tuple[int, int]:
    """The bytes of a chunk and how many there are in all, as a SEND tells; zeros where not."""
    size, count, parts = (
        read_integer_attr(node, name) for name in ("comm_size", "msg_chunk_cnt", "total_chunk_cnt")
    )
    if not size or not count or not parts or min(count, parts) < 1:
        return 0, 0
    return size // count, parts


def _convert_node(path: Path, node: TraceNode, position: int, count: int) -> CustomTraceOp:
    def build_error(text: str, remedy: str = "") -> HespasError:
        return HespasError(text, where=f"{path} node {node.id}", remedy=remedy)

    def read_integer(name: str, remedy: str = "") -> int:
        value = read_integer_attr(node, name)
        if value is None:
            raise build_error(f"the attribute '{name}' is missing, or no integer", remedy)
        return value

    if node.type == COMP:
        return CustomTraceOp(COMP, duration_ns=node.duration_us * 1000 or 1)
    if node.type not in (SEND, RECV):
        raise build_error(
            f"has type {node.type}: in a custom collective only SEND, RECV and COMP run"
        )
    name = "comm_dst" if node.type == SEND else "comm_src"
    peer = read_integer(name)
    if not 0 <= peer < count or peer == position:
        target = "itself" if peer == position else f"rank {peer}"
        raise build_error(f"{name} is {target}, in a communicator of {count}")
    size = read_integer("comm_size", "convert the algorithm with hespas trace collective convert")
    if size < 1:
        raise build_error(f"comm_size is {size}")
    return CustomTraceOp(int(node.type), peer, read_integer("comm_tag") % MAX_TAG, size)


class CustomExecution:
    """One rank's part in a collective under way; ``done()`` when it is over."""

    __slots__ = (
        "algorithm", "done", "endpoint", "free", "members", "no_time", "rank", "running",
        "transport", "waits",
    )  # fmt: skip

    def __init__(
        self,
        algorithm: CustomAlgorithm,
        members: Sequence[int],
        rank: int,
        transport: MessageTransport,
        endpoint: DeviceEndpoint,
        no_time: Callable[[int, int], bool],
        done: Callable[[], None],
    ) -> None:
        """``no_time(peer, size)`` says whether a message sent now takes none, at time 0."""
        self.algorithm, self.members, self.rank = algorithm, members, rank
        self.transport, self.endpoint, self.no_time, self.done = transport, endpoint, no_time, done
        self.waits = list(algorithm.waits)
        self.free = [i for i, count in enumerate(self.waits) if count == 0]
        self.running: dict[int, None] = {}

    def issue_first_ops(self) -> None:
        """Issue what waits for nothing."""
        self._issue_free_ops()

    def _issue_free_ops(self) -> None:
        free, self.free = self.free, []
        for i in sorted(free):
            self.running[i] = None
            op = self.algorithm.ops[i]
            if op.type == COMP:
                self.endpoint.schedule_event_after(op.duration_ns, self._finish_op, i)
                continue
            peer = self.members[op.peer]
            if op.type == SEND:
                if self.no_time(peer, op.size):
                    raise HespasError(
                        "starts at time 0 and takes no time: ASTRA-sim aborts",
                        where=f"{self.algorithm.path} node {self.algorithm.nodes[i].id}",
                    )
                self.transport.send_message((op.tag, self.rank, peer, op.size), self._finish_op, i)
            else:
                self.transport.await_message((op.tag, peer, self.rank, op.size), self._finish_op, i)

    def _finish_op(self, i: int) -> None:
        del self.running[i]
        for child in self.algorithm.children[i]:
            self.waits[child] -= 1
            if self.waits[child] == 0:
                self.free.append(child)
        self._issue_free_ops()
        if not self.running:
            self.done()

    def describe_wait(self) -> str:
        """What this rank waits for, for messages."""
        for i in self.running:
            op = self.algorithm.ops[i]
            if op.type == RECV:
                return (
                    f"for a message of {op.size} bytes with tag {op.tag} from device "
                    f"{self.members[op.peer]} ({self.algorithm.path} node "
                    f"{self.algorithm.nodes[i].id})"
                )
        return f"in {self.algorithm.path}"


@dataclass(slots=True)
class CustomRendezvous:
    """A custom collective over all its devices: who has started and who has finished."""

    name: str
    step: SimulationStep
    group: int
    members: tuple[int, ...]
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


class CustomCollectives:
    """The custom collectives of an engine; ``over`` is told of each that all have finished."""

    def __init__(self, engine: EventEngine, over: Callable[[CustomRendezvous], None]) -> None:
        self.engine, self.over = engine, over
        self.custom = CustomTraces.from_system(engine.inputs.system)
        self._sizes: dict[tuple[str, str], list[int]] = {}  # played, of them of another size
        self._runs: dict[
            int, CustomExecution
        ] = {}  # by device, which is in one collective at a time
        self._counts: dict[tuple[int, int], int] = {}
        self._together: dict[tuple[int, int], CustomRendezvous] = {}

    def start_collective(
        self, runner: DeviceRunner, position: int, step: SimulationStep, group: int
    ) -> bool:
        """Start a collective on a device, if it is a custom one; ``runner.end`` runs at its end."""
        if not self.custom.has_traces:
            return False
        node, rank = runner.device.program.nodes[position], runner.rank
        prefix = self.custom.find_prefix(rank, group, step.kind, node.id)
        if not prefix:
            return False
        members = self.engine.inputs.groups[group]
        problem = ""
        if step.involved and not all(step.involved):
            problem = "has an involved_dim, and a custom collective knows no dimensions"
        elif list(members) != sorted(members):
            problem = f"is custom, and the devices of its communicator {group} are not ascending"
        if problem:
            raise HespasError(problem, where=runner.describe_position(position))
        if self.engine.planner.split_chunks(step.kind, step.size)[0] > 1:
            raise HespasError(
                "preferred-dataset-splits is more than 1: a custom collective never finishes, as "
                "ASTRA-sim waits for parts of it that it has not started",
                where=str(self.engine.inputs.system.folder / "system.json"),
                remedy="set it to 1",
            )
        algorithm = self.custom.load_algorithm(prefix, members.index(rank), len(members))
        sizes = self._sizes.setdefault((step.kind, prefix), [0, 0])
        if rank == members[0]:
            sizes[0] += 1
            sizes[1] += not algorithm.has_matching_size(step.kind, step.size, len(members))
        count = self._counts.get((rank, group), 0)
        self._counts[rank, group] = count + 1
        runner.issued += 1  # one stream, whatever the splits
        runner.streams[group] = runner.streams.get(group, 0) + 1
        key, now = (group, count), self.engine.queue.now
        rendezvous = self._together.setdefault(
            key, CustomRendezvous(node.name, step, group, members)
        )
        rendezvous.starts[rank] = now

        def finish_rank() -> None:
            del self._runs[rank]
            rendezvous.ends[rank] = self.engine.queue.now
            if len(rendezvous.ends) == len(members):
                del self._together[key]
                self.over(rendezvous)
            runner.finish_node(position)

        def is_instant_message(peer: int, size: int) -> bool:
            network = self.engine.planner.network
            return self.engine.queue.now == 0 and network.compute_transfer_ns(rank, peer, size) == 0

        run = CustomExecution(
            algorithm,
            members,
            rank,
            self.engine.transport,
            runner.endpoint,
            is_instant_message,
            finish_rank,
        )
        self._runs[rank] = run
        run.issue_first_ops()
        return True

    def describe_wait(self, rank: int) -> str:
        """What a device waits for in a custom collective, "" where it is in none."""
        return self._runs[rank].describe_wait() if rank in self._runs else ""

    def summarise_played(self) -> str:
        """What was played, and how often its size was not the workload's; "" if nothing was."""
        words = []
        for (kind, prefix), (played, others) in self._sizes.items():
            note = f" ({others} of {played} with another size in the workload)" if others else ""
            words.append(f"{kind} by {prefix}{note}")
        return "; ".join(words)
