"""What a collective does before any message is sent: chunks, and the phases each goes through.

Source: ASTRA-sim's Sys.cc (generate_collective, determine_chunk_size), CollectiveImplLookup.cc,
GeneralComplexTopology.cc, QueueLevelHandler.cc. Sizes are operand bytes of one device.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hespas.configs.system_spec import SystemSpec
from hespas.support.errors import HespasError

from .link_tables import build_link_table
from .network import AnalyticalNetwork
from .simulation_options import SimulationOptions

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_COMMUNICATOR_DELAY_NS = (
    10  # the endpoint delay inside a communicator of some devices, whatever the system says
)


@dataclass(frozen=True, slots=True)
class DimensionAlgorithm:
    """``name``: ring, direct, halvingDoubling or doubleBinaryTree; ``one``: over all devices.

    ``window``: peers that a device sends to at once, -1 for all.
    """

    name: str
    one: bool = False
    window: int = -1

    @classmethod
    def from_system_name(cls, spelled: str) -> DimensionAlgorithm:
        """An algorithm as system.json spells it."""
        match = re.fullmatch(r"(one)?([a-zA-Z]+?)(\d*)", spelled)
        assert match
        name = match[2][0].lower() + match[2][1:]
        return cls(name, bool(match[1]), int(match[3]) if match[3] else -1)


@dataclass(frozen=True, slots=True)
class LogicalDimension:
    """A logical dimension: ``count`` devices ``stride`` apart, or members of a communicator.

    Of ``members`` that are more than ``count`` it is every ``stride``-th; they are ascending then.
    """

    algorithm: DimensionAlgorithm
    count: int
    stride: int = 1
    members: tuple[int, ...] = ()

    def find_ring_members(self, device: int) -> tuple[int, ...]:
        """The devices in this dimension of a device, by position."""
        if len(self.members) == self.count:
            return self.members
        place = bisect_left(self.members, device) if self.members else device
        base = place - place // self.stride % self.count * self.stride
        line = range(base, base + self.count * self.stride, self.stride)
        return tuple(self.members[i] for i in line) if self.members else tuple(line)


@dataclass(frozen=True, slots=True)
class ChunkPhase:
    """One collective of one chunk in one dimension. ``size``: operand bytes.

    ``queue`` is where it waits for its turn; ``backwards``: the ring turns anticlockwise; ``tree``:
    which of the two trees.
    """

    kind: str
    dim: int
    size: int
    queue: int
    backwards: bool = False
    tree: int = 0


CollectivePlan = tuple[tuple[ChunkPhase, ...], ...]  # the phases of each chunk


@dataclass(frozen=True, slots=True, eq=False)
class PlannedCommunicator:
    """Who takes part and how: ``id`` 0 is the default one; ``part``: one ring of some devices.

    ``grid``: the positions of ``members`` are a grid of the counts of ``dims``. Collectives on
    communicators of equal ``shape`` take equal times, position by position.
    """

    id: int
    members: tuple[int, ...]
    part: bool
    grid: bool
    dims: tuple[LogicalDimension, ...]
    involved: tuple[bool, ...]
    shape: int = 0


@dataclass(slots=True)
class QueueTurn:
    """Where a device is in the round of its queues and trees; it goes on between collectives."""

    all: dict[int, int] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    trees: dict[tuple[str, int], int] = field(default_factory=dict)

    def to_hashable_key(self) -> tuple:
        """A hashable form."""
        return tuple([tuple(table.items()) for table in self._list_turn_tables() if table])

    def copy_turn_state(self) -> tuple:
        """What ``set`` takes."""
        return tuple(table.copy() for table in self._list_turn_tables())

    def restore_turn_state(self, state: tuple) -> None:
        """Go to a state that was another's."""
        self.all, self.first, self.last, self.trees = (table.copy() for table in state)

    def _list_turn_tables(self) -> tuple[dict, ...]:
        return self.all, self.first, self.last, self.trees


@dataclass(frozen=True, slots=True)
class CollectivePlanner:
    """Makes the plans of one system."""

    system: SystemSpec
    network: AnalyticalNetwork
    options: SimulationOptions
    _shapes: dict[tuple, int] = field(default_factory=dict)
    _plans: dict[tuple, tuple[CollectivePlan, tuple]] = field(default_factory=dict)
    _equal: dict[CollectivePlan, CollectivePlan] = field(default_factory=dict)

    @property
    def endpoint_delay_ns(self) -> int:
        """The endpoint delay."""
        return int(self.system.endpoint_delay_ns * self.options.injection_scale)

    def compute_delay_ns(self, communicator: PlannedCommunicator) -> int:
        """The endpoint delay in a collective."""
        return _COMMUNICATOR_DELAY_NS if communicator.part else self.endpoint_delay_ns

    def compute_reduction_ns(self, size: int) -> int:
        """The time to reduce a message of ``size`` bytes: two reads and a write of local memory."""
        return 3 * int(size / (self.system.local_mem_bw_gb_s * 1_000_000_000) * 1e9)

    @property
    def active_chunks(self) -> int:
        """How many chunks of a queue run at once."""
        return -(-self.system.active_chunks_per_dimension // self.options.queues_per_dim)

    def plan_communicator(
        self, id_: int, kind: str, members: tuple[int, ...], part: bool,
        involved: tuple[bool, ...],
    ) -> PlannedCommunicator:  # fmt: skip
        """A communicator as a kind of collective sees it; raises HespasError where it cannot run.

        ``involved`` is by dimension, () for all.
        """
        counts = self.find_grid_counts(kind, members) if part else ()
        dims = self.find_dimensions(kind, members, part, counts)
        used = [dim for dim in dims if dim.count > 1]
        one_ring = part and not counts
        problem = self.find_algorithm_problem(kind, used, one_ring)
        if problem:
            where = str(self.system.folder / "system.json")
            raise HespasError(f"{kind.replace('_', '-')}-implementation: {problem}", where=where)
        involved = involved or (True,) * len(dims)
        tables = [build_link_table(self.network, dim) for dim in used] if part else []
        form = tuple((links.codes.tobytes(), links.links) for links in tables)
        key = (tuple((d.algorithm, d.count) for d in dims), involved, one_ring, form)
        shape = self._shapes.setdefault(key, len(self._shapes))
        grid = bool(counts) or len(members) == self.network.device_count
        return PlannedCommunicator(id_, members, one_ring, grid, dims, involved, shape)

    def plan_collective(
        self, kind: str, size: int, communicator: PlannedCommunicator, turn: QueueTurn
    ) -> CollectivePlan:
        """The phases of each chunk of a collective; advances the turn. Equal plans are one."""
        key = (kind, size, communicator.shape, turn.to_hashable_key())
        cached_plan = self._plans.get(key)
        if cached_plan is None:
            count, chunk = self.split_chunks(kind, size)
            dims, involved = communicator.dims, communicator.involved
            plan = tuple(self.plan_phases(kind, chunk, dims, involved, turn) for _ in range(count))
            plan = self._equal.setdefault(plan, plan)
            self._plans[key] = (plan, turn.copy_turn_state())
            return plan
        turn.restore_turn_state(cached_plan[1])
        return cached_plan[0]

    def list_algorithms(self, kind: str) -> list[DimensionAlgorithm]:
        """The algorithms of a kind of collective, by dimension."""
        return [
            DimensionAlgorithm.from_system_name(text)
            for text in self.system.implementations[kind.replace("_", "-")]
        ]

    def find_grid_counts(self, kind: str, members: tuple[int, ...]) -> tuple[int, ...]:
        """How many devices of a communicator are in a line of each dimension of the network.

        () where it does not go dimension by dimension: by the options, or as its devices are not
        all that have some coordinates in each dimension, or by the algorithm.
        """
        if not self.options.by_dimension or any(one.one for one in self.list_algorithms(kind)):
            return ()
        counts, stride = [], 1
        for count in self.network.counts:
            counts.append(len({member // stride % count for member in members}))
            stride *= count
        is_grid = math.prod(counts) == len(members) and all(a < b for a, b in pairwise(members))
        return tuple(counts) if is_grid else ()

    def find_dimensions(
        self, kind: str, members: tuple[int, ...], part: bool, grid: tuple[int, ...]
    ) -> tuple[LogicalDimension, ...]:
        """The logical dimensions of a collective; ``grid`` as that function gives it."""
        algorithms = self.list_algorithms(kind)
        if part and not grid:
            ring_algorithm = algorithms[0] if len(algorithms) == 1 else DimensionAlgorithm("ring")
            return (LogicalDimension(ring_algorithm, len(members), members=members),)
        dims, stride = [], 1
        for algorithm, count in zip(algorithms, grid or self.network.counts, strict=False):
            if algorithm.one:
                # Where messages pay for all dimensions, positions in one ring are not alike.
                count = self.network.device_count
                everybody = tuple(range(count)) if self.network.charges_all_dimensions else ()
                dims.append(LogicalDimension(algorithm, count, members=everybody))
                break
            dims.append(LogicalDimension(algorithm, count, stride, members if part else ()))
            stride *= count
        return tuple(dims)

    def find_algorithm_problem(
        self, kind: str, dims: Sequence[LogicalDimension], part: bool
    ) -> str:
        """What makes a collective impossible with the algorithms chosen; "" where nothing does."""
        for dim in dims:
            name, count = dim.algorithm.name, dim.count
            if name == "halvingDoubling" and count & (count - 1):
                return f"halvingDoubling needs a power of two of devices, and there are {count}"
            if name == "halvingDoubling" and kind == "all_to_all":
                return "halvingDoubling does no all-to-all"
            if name == "doubleBinaryTree":
                if kind != "all_reduce":
                    return f"doubleBinaryTree does all-reduces only, not {kind}"
                if self._has_split_tree(dims):
                    return (
                        "doubleBinaryTree does all-reduces only, and with localBWAware all "
                        "dimensions but the last do reduce-scatters and all-gathers"
                    )
                if part:
                    return "doubleBinaryTree does not work on a communicator of some devices"
                if count & (count - 1):
                    return f"doubleBinaryTree needs a power of two of devices, not {count}"
            if dim.algorithm.window == 0:
                return "direct0 sends nothing"
        return ""

    def _has_split_tree(self, dims: Sequence[LogicalDimension]) -> bool:
        """Whether an all-reduce runs as reduce-scatter and all-gather in a tree's dimension."""
        trees = [dim.algorithm.name == "doubleBinaryTree" for dim in dims]
        return self.system.collective_optimization == "localBWAware" and any(trees[:-1])

    def split_chunks(self, kind: str, size: int) -> tuple[int, int]:
        """How many chunks a collective has, and the bytes of each: all have the same."""
        splits = self.system.preferred_dataset_splits
        chunk = size // splits
        if kind != "all_gather" and self.network.device_count > chunk:
            chunk = self.network.device_count
            size = splits * chunk
        if chunk < 1:
            raise HespasError(
                f"an all-gather of {size} bytes cannot be split in {splits} (it would never end)",
                remedy="lower preferred-dataset-splits",
            )
        return -(-size // chunk), chunk

    def plan_phases(
        self, kind: str, chunk: int, dims: tuple[LogicalDimension, ...], involved: tuple[bool, ...],
        turn: QueueTurn,
    ) -> tuple[ChunkPhase, ...]:  # fmt: skip
        """The phases of the next chunk; advances the turn."""
        used = [d for d in range(len(dims)) if involved[d] and dims[d].count > 1]
        phases: list[ChunkPhase] = []
        size = chunk

        def append_phase(phase_kind: str, dim: int, part: str) -> None:
            nonlocal size
            queue, backwards = self._advance_queue(turn, dim, part)
            tree = 0
            if dims[dim].algorithm.name == "doubleBinaryTree":
                tree = turn.trees.get((kind, dim), 0)
                turn.trees[kind, dim] = 1 - tree
            if _compute_smallest_message(phase_kind, dims[dim], size) < 1:
                raise HespasError(f"{phase_kind} of {chunk} bytes sends messages of 0 bytes")
            phases.append(ChunkPhase(phase_kind, dim, size, queue, backwards, tree))
            if phase_kind == "reduce_scatter":
                size //= dims[dim].count
            elif phase_kind == "all_gather":
                size *= dims[dim].count

        if kind != "all_reduce" or self.system.collective_optimization == "baseline":
            for dim in reversed(used) if kind == "all_gather" else used:
                append_phase(kind, dim, "all")
        elif used:
            for dim in used[:-1]:
                append_phase("reduce_scatter", dim, "first")
            append_phase("all_reduce", used[-1], "first")
            for dim in reversed(used[:-1]):
                append_phase("all_gather", dim, "last")
        return tuple(phases)

    def _advance_queue(self, turn: QueueTurn, dim: int, part: str) -> tuple[int, bool]:
        """The next queue of a dimension, and whether rings turn anticlockwise in it."""
        count = self.options.queues_per_dim
        half = count // 2
        if count == 1:
            return dim, part == "last"
        if part == "all":
            at = turn.all.get(dim, 0)
            turn.all[dim] = (at + 1) % count
            return dim * count + at, at >= half
        if part == "first":
            at = turn.first.get(dim, 0)
            turn.first[dim] = 0 if at + 1 >= half else at + 1
            return dim * count + at, False
        at = turn.last.get(dim, half)
        turn.last[dim] = half if at + 1 >= count else at + 1
        return dim * count + at, True


def _compute_smallest_message(kind: str, dim: LogicalDimension, size: int) -> int:
    """The bytes of the smallest message of a phase."""
    if kind == "all_gather" or dim.algorithm.name == "doubleBinaryTree":
        return size
    if dim.algorithm.name == "halvingDoubling" and kind == "all_reduce":
        return size // (2 * dim.count)
    return size // dim.count
