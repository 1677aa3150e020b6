"""The plan of a collective before any message is sent: its chunks, and the phases of each.

Invariant: equal plans are one object, and communicators of equal ``shape`` take equal times for
equal plans, so both can be cached by identity. Sizes are operand bytes of one device.
Source: ASTRA-sim's Sys.cc (generate_collective, determine_chunk_size), CollectiveImplLookup.cc,
GeneralComplexTopology.cc, QueueLevelHandler.cc.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_options import SimulationOptions
from hespas.support.errors import HespasError

from .algorithm_limits import find_algorithm_problem
from .chunk_phases import ChunkPhase, CollectivePlan, QueueTurn
from .dimension_orders import (
    DimensionOrder,
    list_balanced_orders,
    list_rotated_orders,
    list_single_orders,
    split_into_pieces,
)
from .logical_dimensions import DimensionAlgorithm, LogicalDimension, encode_link_form
from .network import AnalyticalNetwork
from .ring_steps import AllToAllRoute
from .schedule_choice import PIECE_COUNTS, PlanCandidate, choose_fastest_plan

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
# The endpoint delay in a communicator of some devices, which ASTRA-sim does not read from a file.
_COMMUNICATOR_DELAY_NS = 10


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


@dataclass(frozen=True, slots=True)
class CollectivePlanner:
    """Plans the collectives of one system.

    Attributes:
        system: The system.
        network: Its network.
        options: The options of the simulation.
        is_by_message: Whether collectives are simulated message by message.
    """

    system: SystemSpec
    network: AnalyticalNetwork
    options: SimulationOptions
    is_by_message: bool = False
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
        is_split = self.system.collective_optimization == "localBWAware"
        problem = find_algorithm_problem(kind, used, part=one_ring, is_split=is_split)
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
            plan = self._choose_plan(kind, size, communicator, turn)
            plan = self._unique_plans.setdefault(plan, plan)
            is_turn_kept = turn.to_hashable_key() == key[3]
            self._plans[key] = (plan, None if is_turn_kept else turn.copy_turn_state())
            return plan
        if cached_plan[1] is not None:
            turn.restore_turn_state(cached_plan[1])
        return cached_plan[0]

    def _choose_plan(
        self, kind: str, size: int, communicator: PlannedCommunicator, turn: QueueTurn
    ) -> CollectivePlan:
        """Plan a collective by the fastest of its schedules, and advance ``turn``.

        On a torus whose dimensions run at once, the schedules are equal parts, a single order of
        the dimensions, which sends the fewest messages, and balanced parts in pieces, of which
        smaller ones fill the links of unequal dimensions sooner.
        """
        used, rings = self._find_rings(communicator)
        directions = self.system.fabric.directions_at_once
        equal = list_rotated_orders(used, rings, directions)
        is_at_once = self.system.fabric.dimensions_at_once and len(rings) > 1 and used == rings
        if not is_at_once or kind == "all_to_all":  # its loads are the same in all orders
            return self._plan_orders(kind, size, communicator, equal, turn)

        def plan_candidate(orders: Sequence[DimensionOrder]) -> PlanCandidate:
            end = turn.copy_turn_state()
            return PlanCandidate(self._plan_orders(kind, size, communicator, orders, end), end)

        counts, rates = [d.count for d in communicator.dims], self._find_ring_rates(communicator)
        balanced = list_balanced_orders(rings, counts, rates, directions)
        fastest = choose_fastest_plan(
            map(plan_candidate, (equal, *list_single_orders(rings, directions))),
            (plan_candidate(each) for each in self._list_pieces(balanced)),
            self.active_chunks,
            self.make_phase_estimate(communicator),
        )
        turn.restore_turn_state(fastest.turn)
        return fastest.plan

    def _list_pieces(self, orders: Sequence[DimensionOrder]) -> Iterator[list[DimensionOrder]]:
        """Yield parts in more and more pieces: fewer if every message of them is simulated."""
        is_unlike = self.network.slow_links or "Mesh" in self.network.topology
        is_simulated = is_unlike or self.options.rendezvous or self.is_by_message
        counts = PIECE_COUNTS[:3] if is_simulated and len(orders[0].dims) > 2 else PIECE_COUNTS
        yield from (split_into_pieces(orders, count) for count in counts)

    def _plan_orders(
        self, kind: str, size: int, communicator: PlannedCommunicator,
        orders: Sequence[DimensionOrder], turn: QueueTurn,
    ) -> CollectivePlan:  # fmt: skip
        """Plan a collective whose chunks are divided into a part for each order."""
        count, chunk = self.split_chunks(kind, size)
        # Like a chunk, a part of other kinds is divided over the devices.
        least = 1 if kind == "all_gather" else min(chunk, self.network.device_count)
        return tuple(
            self.plan_phases(
                kind, max(math.ceil(chunk * order.share), least), communicator.dims, order, turn
            )
            for _ in range(count)
            for order in orders
        )

    def _find_rings(self, communicator: PlannedCommunicator) -> tuple[list[int], list[int]]:
        """Return the dimensions of a collective, and those of them that parts take in turn."""
        dims, involved = communicator.dims, communicator.involved
        used = [d for d in range(len(dims)) if involved[d] and dims[d].count > 1]
        if not self.options.by_dimension or not communicator.grid:
            return used, []
        rings = [
            d
            for d in used
            if self.network.topology[d] in ("Ring", "Mesh")
            and dims[d].algorithm == DimensionAlgorithm("ring")
        ]
        return used, rings

    def _find_ring_rates(self, communicator: PlannedCommunicator) -> Sequence[float]:
        """Return the bytes per nanosecond of each dimension: those of its slowest ring."""
        rates, members = self.network.bytes_per_ns, communicator.members
        if not self.network.slow_links:
            return rates
        rings = (dim.list_ring_rates(self.network, members) for dim in communicator.dims)
        return [min(ring, default=rate) for ring, rate in zip(rings, rates, strict=True)]

    def make_phase_estimate(self, communicator: PlannedCommunicator) -> Callable[..., float]:
        """Make a function that estimates the time of a phase around a ring."""
        rates = self._find_ring_rates(communicator)
        return functools.partial(self._estimate_phase_ns, communicator, rates)

    def _estimate_phase_ns(
        self, communicator: PlannedCommunicator, rates: Sequence[float], phase: ChunkPhase
    ) -> float:
        """Estimate the time of a phase around a ring, to compare and order schedules."""
        count = communicator.dims[phase.dim].count
        steps = phase.count_steps(count)
        # On a Mesh, one message of n passes all n - 1 links; the others pass one.
        hops = 2 if self.network.topology[phase.dim] == "Mesh" else 1
        transfer_ns = steps.message_bytes / rates[phase.dim]
        step_ns = hops * self.network.latency_ns[phase.dim] + transfer_ns
        delay_ns = self.compute_delay_ns(communicator)
        reduction_ns = steps.reductions * self.compute_reduction_ns(steps.message_bytes)
        return delay_ns + steps.count * (step_ns + delay_ns) + reduction_ns

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
            if dims[dim].compute_smallest_message(phase_kind, size) < 1:
                raise HespasError(f"{phase_kind} of {chunk} bytes sends messages of 0 bytes")
            route = self._choose_route(phase_kind, order, dim)
            phases.append(ChunkPhase(phase_kind, dim, phase_size, queue, backwards, tree, route))
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

    def _choose_route(self, kind: str, order: DimensionOrder, dim: int) -> AllToAllRoute:
        """Return the way that the blocks of a phase take in a dimension."""
        if kind != "all_to_all" or dim not in order.rings:
            return "around"
        if self.network.topology[dim] == "Mesh":
            return "line"
        return "shorter" if order.is_one_direction(dim) else "around"

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
