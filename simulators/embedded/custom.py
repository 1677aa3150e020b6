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

from hespas.chakra.graph import analyse, children_of
from hespas.chakra.reader import Node, TraceError, read
from hespas.chakra.rules import COMP, MAX_TAG, RECV, SEND, number
from hespas.configs.system import System
from hespas.dialects.errors import HespasError
from hespas.simulators.collectives import per_node
from hespas.simulators.steps import Step

from .events import Endpoint, Transport

if TYPE_CHECKING:
    from .engine import Engine
    from .runner import Runner


@dataclass(frozen=True, slots=True)
class Op:
    """One node: ``peer`` is a position in the communicator; ``duration_ns`` of a COMP node."""

    type: int
    peer: int = -1
    tag: int = 0
    size: int = 0
    duration_ns: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Algorithm:
    """One rank's trace: nodes by rising id, how many each waits for, and who waits for it.

    ``chunk_bytes`` and ``parts``: the chunks that the collective is cut into, where the trace tells
    (msg_chunk_cnt, total_chunk_cnt), else 0.
    """

    path: Path
    nodes: Sequence[Node]
    ops: Sequence[Op]
    waits: Sequence[int]
    children: Sequence[tuple[int, ...]]
    chunk_bytes: int = 0
    parts: int = 0

    def fits(self, kind: str, size: int, count: int) -> bool:
        """Whether the trace is for operands of ``size`` bytes on ``count`` devices."""
        whole = size * count if kind == "all_gather" else size
        return not self.parts or self.chunk_bytes == -(-whole // self.parts)


@dataclass(slots=True)
class Custom:
    """Which collectives have traces of their own; reads each file once."""

    system: System
    nodes: dict[int, str] = field(default_factory=dict)
    _plans: dict[tuple[int, int, str], str] = field(default_factory=dict)
    _read: dict[tuple[str, int, int], Algorithm] = field(default_factory=dict)

    @classmethod
    def of(cls, system: System) -> Custom:
        """Those of a system; raises HespasError where its per-node file is wrong."""
        nodes = {}
        if system.per_node_custom:
            nodes = per_node.read(system.folder / system.per_node_custom)
        return cls(system, nodes)

    @property
    def any(self) -> bool:
        """Whether there are any at all."""
        return bool(self.nodes or self.system.custom)

    def prefix(self, rank: int, group: int, kind: str, node: int) -> str:
        """The prefix of a collective's traces, "" where it has none.

        In a communicator, the first collective of a kind decides for all that follow.
        """
        found = self._plans.get((rank, group, kind)) if group else None
        if found is None:
            found = self.nodes.get(node) or self.system.custom.get(kind.replace("_", "-"), "")
            if group:
                self._plans[rank, group, kind] = found
        return found

    def algorithm(self, prefix: str, position: int, count: int) -> Algorithm:
        """The trace of a position in a communicator of ``count`` devices; raises HespasError."""
        key = (prefix, position, count)
        if key not in self._read:
            path = Path(self.system.folder / f"{prefix}.{position}.et")
            self._read[key] = _algorithm(path, position, count)
        return self._read[key]


def _algorithm(path: Path, position: int, count: int) -> Algorithm:
    if not path.exists():
        raise HespasError(
            f"is missing: it is for position {position} of a communicator of {count}",
            where=str(path),
            remedy="custom traces are for one number of ranks",
        )
    try:
        nodes = sorted(read(path), key=lambda node: node.id)
    except TraceError as error:
        raise HespasError(error.message, where=str(path)) from None
    if not nodes:
        raise HespasError("has no nodes: give each rank one at least", where=str(path))
    graph = analyse(nodes)
    for at, (_, _, text) in graph.findings:
        raise HespasError(text, where=f"{path} node {nodes[at].id}")
    children = [tuple(mine) for mine in children_of(graph.deps)]
    ops = [_op(path, node, position, count) for node in nodes]
    waits = [len(deps) for deps in graph.deps]
    chunk, parts = next((_chunks(node) for node in nodes if node.type == SEND), (0, 0))
    return Algorithm(path, nodes, ops, waits, children, chunk, parts)


def _chunks(node: Node) -> tuple[int, int]:
    """The bytes of a chunk and how many there are in all, as a SEND tells; zeros where not."""
    size, count, parts = (
        number(node, name) for name in ("comm_size", "msg_chunk_cnt", "total_chunk_cnt")
    )
    if not size or not count or not parts or min(count, parts) < 1:
        return 0, 0
    return size // count, parts


def _op(path: Path, node: Node, position: int, count: int) -> Op:
    def fail(text: str, remedy: str = "") -> HespasError:
        return HespasError(text, where=f"{path} node {node.id}", remedy=remedy)

    def integer(name: str, remedy: str = "") -> int:
        value = number(node, name)
        if value is None:
            raise fail(f"the attribute '{name}' is missing, or no integer", remedy)
        return value

    if node.type == COMP:
        return Op(COMP, duration_ns=node.duration_us * 1000 or 1)
    if node.type not in (SEND, RECV):
        raise fail(f"has type {node.type}: in a custom collective only SEND, RECV and COMP run")
    name = "comm_dst" if node.type == SEND else "comm_src"
    peer = integer(name)
    if not 0 <= peer < count or peer == position:
        what = "itself" if peer == position else f"rank {peer}"
        raise fail(f"{name} is {what}, in a communicator of {count}")
    size = integer("comm_size", "convert the algorithm with hespas collective convert")
    if size < 1:
        raise fail(f"comm_size is {size}")
    return Op(int(node.type), peer, integer("comm_tag") % MAX_TAG, size)


class Run:
    """One rank's part in a collective under way; ``done()`` when it is over."""

    __slots__ = (
        "algorithm", "done", "endpoint", "free", "members", "no_time", "rank", "running",
        "transport", "waits",
    )  # fmt: skip

    def __init__(
        self,
        algorithm: Algorithm,
        members: Sequence[int],
        rank: int,
        transport: Transport,
        endpoint: Endpoint,
        no_time: Callable[[int, int], bool],
        done: Callable[[], None],
    ) -> None:
        """``no_time(peer, size)`` says whether a message sent now takes none, at time 0."""
        self.algorithm, self.members, self.rank = algorithm, members, rank
        self.transport, self.endpoint, self.no_time, self.done = transport, endpoint, no_time, done
        self.waits = list(algorithm.waits)
        self.free = [i for i, count in enumerate(self.waits) if count == 0]
        self.running: dict[int, None] = {}

    def start(self) -> None:
        """Issue what waits for nothing."""
        self._issue()

    def _issue(self) -> None:
        free, self.free = self.free, []
        for i in sorted(free):
            self.running[i] = None
            op = self.algorithm.ops[i]
            if op.type == COMP:
                self.endpoint.after(op.duration_ns, self._end, i)
                continue
            peer = self.members[op.peer]
            if op.type == SEND:
                if self.no_time(peer, op.size):
                    raise HespasError(
                        "starts at time 0 and takes no time: ASTRA-sim aborts",
                        where=f"{self.algorithm.path} node {self.algorithm.nodes[i].id}",
                    )
                self.transport.send((op.tag, self.rank, peer, op.size), self._end, i)
            else:
                self.transport.receive((op.tag, peer, self.rank, op.size), self._end, i)

    def _end(self, i: int) -> None:
        del self.running[i]
        for child in self.algorithm.children[i]:
            self.waits[child] -= 1
            if self.waits[child] == 0:
                self.free.append(child)
        self._issue()
        if not self.running:
            self.done()

    def waiting(self) -> str:
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
class Together:
    """A custom collective over all its devices: who has started and who has finished."""

    name: str
    step: Step
    group: int
    members: tuple[int, ...]
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


class Customs:
    """The custom collectives of an engine; ``over`` is told of each that all have finished."""

    def __init__(self, engine: Engine, over: Callable[[Together], None]) -> None:
        self.engine, self.over = engine, over
        self.custom = Custom.of(engine.inputs.system)
        self._sizes: dict[tuple[str, str], list[int]] = {}  # played, of them of another size
        self._runs: dict[int, Run] = {}  # by device, which is in one collective at a time
        self._counts: dict[tuple[int, int], int] = {}
        self._together: dict[tuple[int, int], Together] = {}

    def start(self, runner: Runner, position: int, step: Step, group: int) -> bool:
        """Start a collective on a device, if it is a custom one; ``runner.end`` runs at its end."""
        if not self.custom.any:
            return False
        node, rank = runner.device.program.nodes[position], runner.rank
        prefix = self.custom.prefix(rank, group, step.kind, node.id)
        if not prefix:
            return False
        members = self.engine.inputs.groups[group]
        problem = ""
        if step.involved and not all(step.involved):
            problem = "has an involved_dim, and a custom collective knows no dimensions"
        elif list(members) != sorted(members):
            problem = f"is custom, and the devices of its communicator {group} are not ascending"
        if problem:
            raise HespasError(problem, where=runner.where(position))
        if self.engine.planner.chunks(step.kind, step.size)[0] > 1:
            raise HespasError(
                "preferred-dataset-splits is more than 1: a custom collective never finishes, as "
                "ASTRA-sim waits for parts of it that it has not started",
                where=str(self.engine.inputs.system.folder / "system.json"),
                remedy="set it to 1",
            )
        algorithm = self.custom.algorithm(prefix, members.index(rank), len(members))
        sizes = self._sizes.setdefault((step.kind, prefix), [0, 0])
        if rank == members[0]:
            sizes[0] += 1
            sizes[1] += not algorithm.fits(step.kind, step.size, len(members))
        count = self._counts.get((rank, group), 0)
        self._counts[rank, group] = count + 1
        runner.issued += 1  # one stream, whatever the splits
        runner.streams[group] = runner.streams.get(group, 0) + 1
        key, now = (group, count), self.engine.queue.now
        together = self._together.setdefault(key, Together(node.name, step, group, members))
        together.starts[rank] = now

        def done() -> None:
            del self._runs[rank]
            together.ends[rank] = self.engine.queue.now
            if len(together.ends) == len(members):
                del self._together[key]
                self.over(together)
            runner.end(position)

        def no_time(peer: int, size: int) -> bool:
            network = self.engine.planner.network
            return self.engine.queue.now == 0 and network.transfer_ns(rank, peer, size) == 0

        run = Run(algorithm, members, rank, self.engine.transport, runner.endpoint, no_time, done)
        self._runs[rank] = run
        run.start()
        return True

    def waiting(self, rank: int) -> str:
        """What a device waits for in a custom collective, "" where it is in none."""
        return self._runs[rank].waiting() if rank in self._runs else ""

    def summary(self) -> str:
        """What was played, and how often its size was not the workload's; "" if nothing was."""
        words = []
        for (kind, prefix), (played, others) in self._sizes.items():
            note = f" ({others} of {played} with another size in the workload)" if others else ""
            words.append(f"{kind} by {prefix}{note}")
        return "; ".join(words)
