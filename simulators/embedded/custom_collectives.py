"""Custom collectives: traces named by system.json that replace ASTRA-sim's own algorithms.

Each rank runs the trace ``PREFIX.POSITION.et`` of its position in the communicator, from the moment
at which it reaches the collective. Invariant: every node whose dependencies have finished is under
way; there is neither an endpoint delay nor a limit of resources. The traces determine the sizes of
the messages, whatever the size of the workload's collective. The messages share their tags with
those of the workload.
Source: ASTRA-sim's CustomAlgorithm.cc, CollectiveImplLookup.cc, CommunicatorGroup.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hespas.chakra.dependency_graph import analyse_dependencies, collect_children
from hespas.chakra.node_rules import COMP, RECV, SEND, read_integer_attr
from hespas.chakra.schema import MAX_TAG
from hespas.chakra.trace_reader import TraceFileError, TraceNode, read_trace_nodes
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.collectives import per_node
from hespas.simulators.simulated_program import SimulatedProgram
from hespas.simulators.simulation_steps import SimulationStep
from hespas.support.data_files import check_link
from hespas.support.errors import HespasError

from .device_runner import DeviceRunner

if TYPE_CHECKING:
    from .simulation_engine import SimulationEngine


@dataclass(frozen=True, slots=True, eq=False)
class CustomAlgorithm:
    """The trace of one position of a communicator.

    Attributes:
        program: Its nodes; the peer of a step is a position in the communicator.
        chunk_bytes: Bytes of a chunk of the collective; 0 if the trace does not record chunks.
        parts: The number of chunks (attribute total_chunk_cnt); 0 if the trace does not record it.
    """

    program: SimulatedProgram
    chunk_bytes: int = 0
    parts: int = 0

    def has_matching_size(self, kind: str, size: int, count: int) -> bool:
        """Return whether the trace is for operands of ``size`` bytes on ``count`` devices."""
        whole_bytes = size * count if kind == "all_gather" else size
        return not self.parts or self.chunk_bytes == -(-whole_bytes // self.parts)


@dataclass(slots=True)
class CustomTraces:
    """The custom traces of a system; reads each file once."""

    system: SystemSpec
    nodes: dict[int, str] = field(default_factory=dict)
    _prefixes: dict[tuple[int, int, str], str] = field(default_factory=dict)
    _algorithms: dict[tuple[str, int, int], CustomAlgorithm] = field(default_factory=dict)

    @classmethod
    def from_system(cls, system: SystemSpec) -> CustomTraces:
        """Read the prefixes of a system; raises HespasError if its per-node file is wrong."""
        nodes = {}
        if system.per_node_custom:
            nodes = per_node.read_prefixes(system.per_node_path)
        return cls(system, nodes)

    @property
    def has_traces(self) -> bool:
        """Whether the system names any custom collective."""
        return bool(self.nodes or self.system.custom)

    def find_prefix(self, rank: int, group: int, kind: str, node: int) -> str:
        """Return the prefix of the traces of a collective; "" if it is not custom.

        The first collective of a kind on a communicator decides for all later ones.
        """
        prefix = self._prefixes.get((rank, group, kind)) if group else None
        if prefix is None:
            prefix = self.nodes.get(node) or self.system.custom.get(kind.replace("_", "-"), "")
            if group:
                self._prefixes[rank, group, kind] = prefix
        return prefix

    def load_algorithm(self, prefix: str, position: int, count: int) -> CustomAlgorithm:
        """Read the trace of a position in a communicator of ``count`` devices.

        Raises:
            HespasError: The file is missing or is not a valid custom trace.
        """
        key = (prefix, position, count)
        if key not in self._algorithms:
            resolved = self.system.resolve_trace_prefix(prefix)
            path = resolved.with_name(f"{resolved.name}.{position}.et")
            check_link(path)
            self._algorithms[key] = _read_algorithm(path, position, count)
        return self._algorithms[key]


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
        raise HespasError("has no nodes: give each rank at least one", where=str(path))
    graph = analyse_dependencies(nodes)
    for at, (_, _, text) in graph.findings:
        raise HespasError(text, where=f"{path} node {nodes[at].id}")
    program = SimulatedProgram(
        path,
        nodes,
        [_build_custom_step(path, node, position, count) for node in nodes],
        [len(deps) for deps in graph.deps],
        [tuple(child_positions) for child_positions in collect_children(graph.deps)],
    )
    chunk, parts = next((_read_chunk_counts(node) for node in nodes if node.type == SEND), (0, 0))
    return CustomAlgorithm(program, chunk, parts)


def _read_chunk_counts(node: TraceNode) -> tuple[int, int]:
    """Read the bytes of a chunk and the number of all chunks from a SEND; zeros if it has none."""
    size, count, parts = (
        read_integer_attr(node, name) for name in ("comm_size", "msg_chunk_cnt", "total_chunk_cnt")
    )
    if not size or not count or not parts or min(count, parts) < 1:
        return 0, 0
    return size // count, parts


def _build_custom_step(path: Path, node: TraceNode, position: int, count: int) -> SimulationStep:
    def build_error(text: str, remedy: str = "") -> HespasError:
        return HespasError(text, where=f"{path} node {node.id}", remedy=remedy)

    def read_integer(name: str, remedy: str = "") -> int:
        value = read_integer_attr(node, name)
        if value is None:
            raise build_error(f"the attribute '{name}' is missing or not an integer", remedy)
        return value

    if node.type == COMP:
        return SimulationStep("compute", node.duration_us * 1000 or 1)
    if node.type not in (SEND, RECV):
        raise build_error(
            f"has type {node.type}: only SEND, RECV and COMP nodes run in a custom collective"
        )
    name = "comm_dst" if node.type == SEND else "comm_src"
    peer = read_integer(name)
    if not 0 <= peer < count or peer == position:
        target = "itself" if peer == position else f"rank {peer}"
        raise build_error(f"{name} is {target}, in a communicator of {count}")
    size = read_integer("comm_size", "convert the algorithm with hespas trace collective convert")
    if size < 1:
        raise build_error(f"comm_size is {size}")
    resource, kind = ("comm", "send") if node.type == SEND else ("recv", "recv")
    tag = read_integer("comm_tag") % MAX_TAG
    return SimulationStep(resource, kind=kind, size=size, peer=peer, tag=tag)


class CustomExecution:
    """The part of one rank in a running custom collective; calls ``done()`` at its end."""

    __slots__ = ("algorithm", "done", "engine", "free", "members", "runner", "running", "waits")

    def __init__(
        self,
        algorithm: CustomAlgorithm,
        members: Sequence[int],
        runner: DeviceRunner,
        done: Callable[[], None],
    ) -> None:
        self.algorithm, self.members = algorithm, members
        self.runner, self.engine, self.done = runner, runner.engine, done
        self.waits = list(algorithm.program.waits)
        self.free = [i for i, count in enumerate(self.waits) if count == 0]
        self.running: dict[int, None] = {}

    def issue_free_ops(self) -> None:
        """Issue the nodes whose dependencies have finished."""
        rank, transport = self.runner.rank, self.engine.transport
        free, self.free = self.free, []
        for i in sorted(free):
            self.running[i] = None
            step = self.algorithm.program.steps[i]
            if not step.kind:
                self.runner.endpoint.schedule_event_after(step.duration_ns, self._finish_op, i)
                continue
            peer = self.members[step.peer]
            if step.kind == "send":
                if self.engine.is_instant_message(rank, peer, step.size):
                    raise HespasError(
                        "starts at time 0 and takes no time: ASTRA-sim aborts",
                        where=self._describe_node(i),
                    )
                transport.send_message((step.tag, rank, peer, step.size), self._finish_op, i)
            else:
                transport.await_message((step.tag, peer, rank, step.size), self._finish_op, i)

    def _finish_op(self, i: int) -> None:
        del self.running[i]
        for child in self.algorithm.program.children[i]:
            self.waits[child] -= 1
            if self.waits[child] == 0:
                self.free.append(child)
        self.issue_free_ops()
        if not self.running:
            self.done()

    def describe_wait(self) -> str:
        """Describe what this rank waits for, for messages."""
        program = self.algorithm.program
        for i in self.running:
            step = program.steps[i]
            if step.kind == "recv":
                return (
                    f"for a message of {step.size} bytes with tag {step.tag} from device "
                    f"{self.members[step.peer]} ({self._describe_node(i)})"
                )
        return f"in {program.path}"

    def _describe_node(self, i: int) -> str:
        program = self.algorithm.program
        return f"{program.path} node {program.nodes[i].id}"


@dataclass(slots=True)
class CustomRendezvous:
    """A custom collective across its devices: the starts so far, and how many have not finished."""

    name: str
    step: SimulationStep
    group: int
    members: tuple[int, ...]
    unfinished: int
    starts: list[int] = field(default_factory=list)


class CustomCollectives:
    """The custom collectives of a simulation."""

    def __init__(self, engine: SimulationEngine) -> None:
        self._engine = engine
        self.traces = CustomTraces.from_system(engine.inputs.system)
        self._play_counts: dict[tuple[str, str], list[bool]] = {}  # by kind and prefix: fitting
        self._executions: dict[int, CustomExecution] = {}  # by device: it runs one at a time
        self._started: dict[tuple[int, int], int] = {}  # by device and communicator
        self._rendezvous: dict[tuple[int, int], CustomRendezvous] = {}  # by communicator and number

    def start_collective(self, runner: DeviceRunner, position: int, group: int) -> bool:
        """Start a collective on a device if it is a custom one; return whether it is.

        ``runner.finish_node`` is called when the device has finished its part.
        """
        if not self.traces.has_traces:
            return False
        step, node, rank = (
            runner.steps[position],
            runner.device.program.nodes[position],
            runner.rank,
        )
        prefix = self.traces.find_prefix(rank, group, step.kind, node.id)
        if not prefix:
            return False
        members = self._engine.inputs.groups[group]
        self._check_collective(runner, position, group)
        algorithm = self.traces.load_algorithm(prefix, members.index(rank), len(members))
        if rank == members[0]:
            fits = algorithm.has_matching_size(step.kind, step.size, len(members))
            self._play_counts.setdefault((step.kind, prefix), []).append(fits)
        number = self._started.get((rank, group), 0)
        self._started[rank, group] = number + 1
        runner.count_chunks(group, 1)  # a custom collective counts as one chunk
        key = (group, number)
        rendezvous = self._rendezvous.setdefault(
            key, CustomRendezvous(node.name, step, group, members, len(members))
        )
        rendezvous.starts.append(runner.queue.now)

        def finish_rank() -> None:
            del self._executions[rank]
            rendezvous.unfinished -= 1
            if rendezvous.unfinished == 0:
                del self._rendezvous[key]
                self._engine.record_custom_collective(rendezvous)
            runner.finish_node(position)

        execution = CustomExecution(algorithm, members, runner, finish_rank)
        self._executions[rank] = execution
        execution.issue_free_ops()
        return True

    def _check_collective(self, runner: DeviceRunner, position: int, group: int) -> None:
        """Raise HespasError if ASTRA-sim cannot run a collective as a custom one."""
        step, members = runner.steps[position], self._engine.inputs.groups[group]
        problem = ""
        if step.involved and not all(step.involved):
            problem = "has an involved_dim, but a custom collective has no dimensions"
        elif list(members) != sorted(members):
            problem = f"is custom, but the devices of its communicator {group} are not ascending"
        if problem:
            raise HespasError(problem, where=runner.describe_position(position))
        if self._engine.count_chunks(step.kind, step.size) > 1:
            raise HespasError(
                "preferred-dataset-splits is more than 1: a custom collective never finishes, as "
                "ASTRA-sim waits for parts of it that it has not started",
                where=str(self._engine.inputs.system.folder / "system.json"),
                remedy="set it to 1",
            )

    def describe_wait(self, rank: int) -> str:
        """Describe what a device waits for in a custom collective; "" if it runs none."""
        return self._executions[rank].describe_wait() if rank in self._executions else ""

    def summarise_played(self) -> str:
        """Describe the traces that were played, and how often their sizes did not match."""
        words = []
        for (kind, prefix), fitting in self._play_counts.items():
            other = fitting.count(False)
            sizes = f"{other} of {len(fitting)} with another size in the workload"
            words.append(f"{kind} by {prefix}{f' ({sizes})' if other else ''}")
        return "; ".join(words)
