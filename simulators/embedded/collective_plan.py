"""The plan of a collective before any message is sent: its chunks, and the phases of each.

Invariant: equal plans are one object, and communicators of equal ``shape`` take equal times for
equal plans, so both can be cached by identity. Sizes are operand bytes of one device.
Source: ASTRA-sim's Sys.cc (generate_collective, determine_chunk_size), CollectiveImplLookup.cc,
GeneralComplexTopology.cc, QueueLevelHandler.cc.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_options import SimulationOptions
from hespas.support.errors import HespasError

from .dimension_orders import DimensionOrder, list_rotated_orders
from .logical_dimensions import DimensionAlgorithm, LogicalDimension, encode_link_form
from .network import AnalyticalNetwork

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
# The endpoint delay in a communicator of some devices, which ASTRA-sim does not read from a file.
_COMMUNICATOR_DELAY_NS = 10


@dataclass(frozen=True, slots=True)
class ChunkPhase:
    """A collective of one chunk in one dimension.

    Attributes:
        kind: The kind of collective.
        dim: The index of the logical dimension.
        size: Operand bytes of one device.
        queue: The queue in which the chunk waits for this phase.
        backwards: Whether the ring runs anticlockwise.
        tree: Which of the two trees a double binary tree uses, 0 or 1.
    """

    kind: str
    dim: int
    size: int
    queue: int
    backwards: bool = False
    tree: int = 0


CollectivePlan = tuple[tuple[ChunkPhase, ...], ...]
"""The phases of each chunk of a collective."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedCommunicator:
    """A communicator as a kind of collective sees it.

    Attributes:
        id: The id of the communicator; 0 for all devices.
        members: Its devices, by position.
        part: Whether the collective is one ring over some of the devices.
        grid: Whether the positions form a grid with the counts of ``dims``.
        dims: The logical dimensions.
        involved: Whether the collective runs in each dimension.
        shape: A number that is equal for communicators whose collectives take equal times, position
            by position.
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
    """The round-robin position of a device in its queues and trees, kept between collectives.

    Attributes:
        queues: The next queue by dimension and part of a collective: "all", or the "first" and
            "last" phases of an all-reduce, which use separate halves of the queues.
        trees: The next tree by kind of collective and dimension.
    """

    queues: dict[tuple[int, str], int] = field(default_factory=dict)
    trees: dict[tuple[str, int], int] = field(default_factory=dict)

    def to_hashable_key(self) -> tuple:
        """Return a hashable form of the position."""
        return tuple(self.queues.items()), tuple(self.trees.items())

    def copy_turn_state(self) -> QueueTurn:
        """Return an independent copy."""
        return QueueTurn(self.queues.copy(), self.trees.copy())

    def restore_turn_state(self, state: QueueTurn) -> None:
        """Set the position to that of ``state``."""
        self.queues, self.trees = state.queues.copy(), state.trees.copy()


@dataclass(frozen=True, slots=True)
class CollectivePlanner:
    """Plans the collectives of one system."""

    system: SystemSpec
    network: AnalyticalNetwork
    options: SimulationOptions
    _shapes: dict[tuple, int] = field(default_factory=dict)
    _plans: dict[tuple, tuple[CollectivePlan, QueueTurn | None]] = field(default_factory=dict)
    _unique_plans: dict[CollectivePlan, CollectivePlan] = field(default_factory=dict)

    @property
    def endpoint_delay_ns(self) -> int:
        """The endpoint delay of the system in nanoseconds, scaled by the options.

        ASTRA-sim does not scale its default.
        """
        if "endpoint-delay" not in self.system.settings:
            return self.system.endpoint_delay_ns
        return int(self.system.endpoint_delay_ns * self.options.injection_scale)

    def compute_delay_ns(self, communicator: PlannedCommunicator) -> int:
        """Compute the endpoint delay in a collective, in nanoseconds."""
        return _COMMUNICATOR_DELAY_NS if communicator.part else self.endpoint_delay_ns

    def compute_reduction_ns(self, size: int) -> int:
        """Compute the ns to reduce ``size`` bytes: two reads and a write of local memory."""
        return 3 * int(size / (self.system.local_mem_bw_gb_s * 1_000_000_000) * 1e9)

    def compute_switch_ns(self, kind: str, dim: int, size: int, devices: int) -> int:
        """Compute the ns of a collective that the switch of a dimension reduces or multicasts.

        The data crosses the link of each device once in a direction. Both hops are pipelined.
        """
        reduction = self.system.fabric.switch_reductions[dim]
        rate = self.network.bytes_per_ns[dim] * reduction.bandwidth_share
        moved = reduction.count_link_bytes(kind, size, devices)
        return int(2 * self.network.latency_ns[dim] + moved / rate)

    @property
    def active_chunks(self) -> int:
        """The number of chunks of a queue that run at once."""
        return -(-self.system.active_chunks_per_dimension // self.options.queues_per_dim)

    def plan_communicator(
        self, id_: int, kind: str, members: tuple[int, ...], part: bool,
        involved: tuple[bool, ...],
    ) -> PlannedCommunicator:  # fmt: skip
        """Describe a communicator as a kind of collective sees it.

        Args:
            id_: The id of the communicator.
            kind: The kind of collective.
            members: The devices that take part.
            part: Whether the communicator has only some of the devices of the system.
            involved: Whether the collective runs in each dimension; () for all.

        Raises:
            HespasError: The algorithms of the system cannot run the collective.
        """
        where = str(self.system.folder / "system.json")
        if not self.list_algorithms(kind):
            key = f"{kind.replace('_', '-')}-implementation"
            text = f"the key '{key}' is missing, but the traces have such a collective"
            raise HespasError(text, where=where)
        counts = self.find_grid_counts(kind, members) if part else ()
        dims = self.find_dimensions(kind, members, part, counts)
        involved = involved[: len(dims)] or (True,) * len(dims)
        used = [dim for dim, runs in zip(dims, involved, strict=True) if runs and dim.count > 1]
        one_ring = part and not counts
        problem = self.find_algorithm_problem(kind, used, one_ring)
        if problem:
            raise HespasError(f"{kind.replace('_', '-')}-implementation: {problem}", where=where)
        lines = [dim.find_ring_members(dim.members[0]) for dim in used] if part else []
        if self.network.slow_links:
            lines = [members]
        form = tuple(encode_link_form(self.network, line) for line in lines)
        algorithms = tuple((d.algorithm, d.count, d.switch_kinds) for d in dims)
        key = (algorithms, involved, one_ring, form)
        shape = self._shapes.setdefault(key, len(self._shapes))
        grid = bool(counts) or len(members) == self.network.device_count
        return PlannedCommunicator(id_, members, one_ring, grid, dims, involved, shape)

    def plan_collective(
        self, kind: str, size: int, communicator: PlannedCommunicator, turn: QueueTurn
    ) -> CollectivePlan:
        """Plan the phases of each chunk of a collective, and advance ``turn``."""
        key = (kind, size, communicator.shape, turn.to_hashable_key())
        cached_plan = self._plans.get(key)
        if cached_plan is None:
            count, chunk = self.split_chunks(kind, size)
            orders = self._list_orders(communicator)
            part_bytes = -(-chunk // len(orders))
            if kind != "all_gather":  # like a chunk, it is divided over the devices
                part_bytes = max(part_bytes, min(chunk, self.network.device_count))
            plan = tuple(
                self.plan_phases(kind, part_bytes, communicator.dims, order, turn)
                for _ in range(count)
                for order in orders
            )
            plan = self._unique_plans.setdefault(plan, plan)
            is_turn_kept = turn.to_hashable_key() == key[3]
            self._plans[key] = (plan, None if is_turn_kept else turn.copy_turn_state())
            return plan
        if cached_plan[1] is not None:
            turn.restore_turn_state(cached_plan[1])
        return cached_plan[0]

    def _list_orders(self, communicator: PlannedCommunicator) -> list[DimensionOrder]:
        """Return the orders in which the parts of a chunk take the dimensions; usually one."""
        dims, involved = communicator.dims, communicator.involved
        used = [d for d in range(len(dims)) if involved[d] and dims[d].count > 1]
        rings = [
            d
            for d in used
            if self.network.topology[d] in ("Ring", "Mesh")
            and dims[d].algorithm == DimensionAlgorithm("ring")
        ]
        if not self.options.by_dimension or not communicator.grid or not rings:
            return [DimensionOrder(tuple(used))]
        return list_rotated_orders(used, rings, self.system.fabric.directions_at_once)

    def list_algorithms(self, kind: str) -> list[DimensionAlgorithm]:
        """Return the algorithms of a kind of collective, by dimension."""
        return [
            DimensionAlgorithm.from_system_name(text)
            for text in self.system.implementations.get(kind.replace("_", "-"), ())
        ]

    def find_grid_counts(self, kind: str, members: tuple[int, ...]) -> tuple[int, ...]:
        """Return the devices of a communicator in a line of each dimension of the network.

        The result is () if the collective does not run dimension by dimension: because the options
        or the algorithm exclude it, or because the devices do not form a grid, that is all
        combinations of some coordinates in each dimension.
        """
        if not self.options.by_dimension or any(
            algorithm.one for algorithm in self.list_algorithms(kind)
        ):
            return ()
        counts, stride = [], 1
        for count in self.network.counts:
            counts.append(len({member // stride % count for member in members}))
            stride *= count
        is_grid = math.prod(counts) == len(members) and all(
            a < b for a, b in itertools.pairwise(members)
        )
        return tuple(counts) if is_grid else ()

    def find_dimensions(
        self, kind: str, members: tuple[int, ...], part: bool, grid: tuple[int, ...]
    ) -> tuple[LogicalDimension, ...]:
        """Return the logical dimensions of a collective; ``grid`` is from ``find_grid_counts``."""
        algorithms = self.list_algorithms(kind)
        if part and not grid:
            ring_algorithm = algorithms[0] if len(algorithms) == 1 else DimensionAlgorithm("ring")
            return (LogicalDimension(ring_algorithm, len(members), members=members),)
        dims, stride = [], 1
        reductions = self.system.fabric.switch_reductions
        for dim, (algorithm, count) in enumerate(
            zip(algorithms, grid or self.network.counts, strict=False)
        ):
            if algorithm.one:
                # The positions of one ring differ if messages are charged for all dimensions.
                count = self.network.device_count
                all_devices = tuple(range(count)) if self.network.charges_all_dimensions else ()
                dims.append(LogicalDimension(algorithm, count, members=all_devices))
                break
            in_switch = reductions[dim].collectives if dim in reductions else ()
            dims.append(
                LogicalDimension(algorithm, count, stride, members if part else (), in_switch)
            )
            stride *= count
        return tuple(dims)

    def find_algorithm_problem(
        self, kind: str, dims: Sequence[LogicalDimension], part: bool
    ) -> str:
        """Describe why the algorithms of the system cannot run a collective; "" if they can."""
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
        """Return whether a tree's dimension would run a reduce-scatter and an all-gather."""
        trees = [dim.algorithm.name == "doubleBinaryTree" for dim in dims]
        return self.system.collective_optimization == "localBWAware" and any(trees[:-1])

    def split_chunks(self, kind: str, size: int) -> tuple[int, int]:
        """Return the number of chunks of a collective, and the bytes of each."""
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
        self, kind: str, chunk: int, dims: tuple[LogicalDimension, ...], order: DimensionOrder,
        turn: QueueTurn,
    ) -> tuple[ChunkPhase, ...]:  # fmt: skip
        """Plan the phases of the next chunk, of ``chunk`` bytes, and advance ``turn``.

        In a dimension that parts share, each has a queue of its own, and takes as long as all of
        them together, unless the simulation shares links between messages.
        """
        used = order.dims
        phases: list[ChunkPhase] = []
        size = chunk

        def append_phase(phase_kind: str, dim: int, part: str) -> None:
            nonlocal size
            queue, backwards = self._advance_queue(turn, dim, part)
            backwards = order.choose_direction(dim, backwards)
            phase_size = size
            queue_count = len(dims) * self.options.queues_per_dim
            if order.backwards and dim in order.rings:
                queue += queue_count
            if order.is_shared(dim):
                queue += order.part * queue_count
                if not self.options.congestion:  # with it, the parts share the links themselves
                    phase_size = size * order.parts
            tree = 0
            if dims[dim].choose_algorithm(phase_kind).name == "doubleBinaryTree":
                tree = turn.trees.get((kind, dim), 0)
                turn.trees[kind, dim] = 1 - tree
            if _compute_smallest_message(phase_kind, dims[dim], size) < 1:
                raise HespasError(f"{phase_kind} of {chunk} bytes sends messages of 0 bytes")
            phases.append(ChunkPhase(phase_kind, dim, phase_size, queue, backwards, tree))
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
        """Return the next queue of a dimension, and whether rings run anticlockwise in it."""
        count = self.options.queues_per_dim
        half = count // 2
        if count == 1:
            return dim, part == "last"
        start, stop = {"all": (0, count), "first": (0, half), "last": (half, count)}[part]
        at = turn.queues.get((dim, part), start)
        turn.queues[dim, part] = start if at + 1 >= stop else at + 1
        return dim * count + at, part == "last" or (part == "all" and at >= half)


def _compute_smallest_message(kind: str, dim: LogicalDimension, size: int) -> int:
    """Compute the bytes of the smallest message of a phase."""
    algorithm = dim.choose_algorithm(kind)
    if kind == "all_gather" or algorithm.name in ("doubleBinaryTree", "inSwitch"):
        return size
    if algorithm.name == "halvingDoubling" and kind == "all_reduce":
        return size // (2 * dim.count)
    return size // dim.count
