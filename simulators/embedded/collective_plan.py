"""The plan of a collective before any message is sent: its chunks, and the phases of each.

Invariant: equal plans are one object, and communicators of equal ``shape`` take equal times for
equal plans, so both can be cached by identity. Sizes are operand bytes of one device.
Source: ASTRA-sim's Sys.cc (generate_collective, determine_chunk_size), CollectiveImplLookup.cc,
GeneralComplexTopology.cc, QueueLevelHandler.cc.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from hespas.configs.collective_algorithms import split_algorithm_name
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_options import SimulationOptions
from hespas.support.errors import HespasError

from .algorithms import ALGORITHMS, CollectiveAlgorithm
from .chunk_phases import ChunkPhase, CollectivePlan, QueueTurn
from .network import AnalyticalNetwork

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
    """

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
        dims = self.find_dimensions(kind, members, part)
        involved = involved[: len(dims)] or (True,) * len(dims)
        used = [dim for dim, runs in zip(dims, involved, strict=True) if runs and dim.count > 1]
        problem = self._find_algorithm_problem(kind, used, part)
        if problem:
            raise HespasError(f"{kind.replace('_', '-')}-implementation: {problem}", where=where)
        form = encode_link_form(self.network, members) if part else ()
        algorithms = tuple((d.algorithm, d.count) for d in dims)
        key = (algorithms, involved, part, form)
        shape = self._shapes.setdefault(key, len(self._shapes))
        grid = len(members) == self.network.device_count
        return PlannedCommunicator(id_, members, part, grid, dims, involved, shape)

    def _find_algorithm_problem(
        self, kind: str, dims: Sequence[LogicalDimension], part: bool
    ) -> str:
        """Describe why the algorithms of dimensions cannot run a collective; "" if they can."""
        is_split = kind == "all_reduce" and self.system.collective_optimization == "localBWAware"
        for dim in dims:
            choice = dim.algorithm
            problem = choice.runs.find_astra_problem(
                kind, dim.count, part=part, window=choice.window
            )
            if is_split and dim is not dims[-1] and not problem:
                problem = choice.runs.find_problem("reduce_scatter", dim.count)
                problem += problem and (
                    ", and with localBWAware all dimensions but the last do reduce-scatters and "
                    "all-gathers"
                )
            if problem:
                return problem
        return ""

    def plan_collective(
        self, kind: str, size: int, communicator: PlannedCommunicator, turn: QueueTurn
    ) -> CollectivePlan:
        """Plan the phases of each chunk of a collective, and advance ``turn``."""
        key = (kind, size, communicator.shape, turn.to_hashable_key())
        cached_plan = self._plans.get(key)
        if cached_plan is None:
            dims, involved = communicator.dims, communicator.involved
            used = [d for d in range(len(dims)) if involved[d] and dims[d].count > 1]
            count, chunk = self.split_chunks(kind, size)
            plan = tuple(self._plan_phases(kind, chunk, dims, used, turn) for _ in range(count))
            plan = self._unique_plans.setdefault(plan, plan)
            is_turn_kept = turn.to_hashable_key() == key[3]
            self._plans[key] = (plan, None if is_turn_kept else turn.copy_turn_state())
            return plan
        if cached_plan[1] is not None:
            turn.restore_turn_state(cached_plan[1])
        return cached_plan[0]

    def list_algorithms(self, kind: str) -> list[DimensionAlgorithm]:
        """Return the algorithms of a kind of collective, by dimension."""
        return [
            DimensionAlgorithm(*split_algorithm_name(spelled))
            for spelled in self.system.list_algorithms(kind)
        ]

    def find_dimensions(
        self, kind: str, members: tuple[int, ...], part: bool
    ) -> tuple[LogicalDimension, ...]:
        """Return the logical dimensions of a collective."""
        algorithms = self.list_algorithms(kind)
        if part:
            ring_algorithm = algorithms[0] if len(algorithms) == 1 else DimensionAlgorithm("ring")
            return (LogicalDimension(ring_algorithm, len(members), members=members),)
        dims, stride = [], 1
        for algorithm, count in zip(algorithms, self.network.counts, strict=False):
            if algorithm.one:
                dims.append(LogicalDimension(algorithm, self.network.device_count))
                break
            dims.append(LogicalDimension(algorithm, count, stride))
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

    def _plan_phases(
        self, kind: str, chunk: int, dims: tuple[LogicalDimension, ...], used: Sequence[int],
        turn: QueueTurn,
    ) -> tuple[ChunkPhase, ...]:  # fmt: skip
        """Plan the phases of the next chunk, of ``chunk`` bytes, and advance ``turn``."""
        phases: list[ChunkPhase] = []
        size = chunk

        def append_phase(phase_kind: str, dim: int, part: str) -> None:
            nonlocal size
            queue, backwards = self._advance_queue(turn, dim, part)
            algorithm, tree = dims[dim].algorithm, 0
            if algorithm.runs.has_two_trees:
                tree = turn.trees.get((kind, dim), 0)
                turn.trees[kind, dim] = 1 - tree
            if dims[dim].compute_smallest_message(phase_kind, size) < 1:
                raise HespasError(f"{phase_kind} of {chunk} bytes sends messages of 0 bytes")
            phases.append(
                ChunkPhase(phase_kind, dim, size, queue, backwards, tree, algorithm.window)
            )
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


@dataclass(frozen=True, slots=True)
class DimensionAlgorithm:
    """The algorithm of a collective in one dimension.

    Attributes:
        name: The name of the algorithm, a key of ``ALGORITHMS``.
        one: Whether the dimension spans all devices of the network.
        window: For direct, the number of peers that a device sends to at once; -1 for all peers.
    """

    name: str
    one: bool = False
    window: int = -1

    @property
    def runs(self) -> CollectiveAlgorithm:
        """The algorithm by its object."""
        return ALGORITHMS[self.name]


@dataclass(frozen=True, slots=True)
class LogicalDimension:
    """A dimension of ``count`` devices that are ``stride`` apart, or of listed devices.

    Attributes:
        members: The devices by position; () if the dimension is one of the network.
    """

    algorithm: DimensionAlgorithm
    count: int
    stride: int = 1
    members: tuple[int, ...] = ()

    def find_ring_members(self, device: int) -> tuple[int, ...]:
        """Return the devices on the line that contains ``device``, by position."""
        if self.members:
            return self.members
        base = device - device // self.stride % self.count * self.stride
        return tuple(range(base, base + self.count * self.stride, self.stride))

    def compute_smallest_message(self, kind: str, size: int) -> int:
        """Compute the bytes of the smallest message of a phase of ``size`` bytes."""
        return self.algorithm.runs.compute_smallest_message(kind, size, self.count)


def encode_link_form(network: AnalyticalNetwork, devices: Sequence[int]) -> tuple[bytes, ...]:
    """Return a value that is equal for sequences of devices with equal links, pair by pair.

    The devices are numbered in each dimension so that equal numbers mean equal coordinates. Only
    the devices that agree in all former dimensions are compared. In a Ring the distances count:
    coordinates are relative to the first device, and mirrored if that makes the first one that
    differs smaller. So they do in a Mesh.
    """
    former: list[int] = [0] * len(devices)
    forms, stride = [], 1
    for kind, count in zip(network.topology, network.counts, strict=True):
        coordinates = [device // stride % count for device in devices]
        known: dict[tuple[int, int], int] = {}
        numbers = [
            known.setdefault(pair, len(known)) for pair in zip(former, coordinates, strict=True)
        ]
        # In a smaller Ring, all distances are equal. A Mesh is a part of a Ring twice as long.
        ring_count = {"Ring": count if count > 3 else 0, "Mesh": 2 * count}.get(kind, 0)
        form = _find_ring_distances(former, coordinates, ring_count) if ring_count else numbers
        forms.append(array("q", form).tobytes())
        former = numbers
        stride *= count
    return tuple(forms)


def _find_ring_distances(former: list[int], coordinates: list[int], count: int) -> list[int]:
    """Return the coordinates in a Ring relative to the first device with the same ``former``."""
    first: dict[int, int] = {}
    mirrored: dict[int, bool] = {}
    distances = []
    for number, coordinate in zip(former, coordinates, strict=True):
        distance = (coordinate - first.setdefault(number, coordinate)) % count
        is_mirrored = False
        if 2 * distance % count:  # neither the first device nor the one opposite to it
            is_mirrored = mirrored.setdefault(number, 2 * distance > count)
        distance = count - distance if is_mirrored else distance
        distances.append(distance)
    return distances


def is_regular_line(network: AnalyticalNetwork, devices: Sequence[int]) -> bool:
    """Return whether the links between devices can be seen to be the same from all of them.

    That is so if they differ in one dimension that is no Ring, or evenly spaced around a Ring. In a
    Mesh, only two devices look alike.
    """
    stride = 1
    for kind, count in zip(network.topology, network.counts, strict=True):
        coordinates = [device // stride % count for device in devices]
        distinct = len(set(coordinates))
        if distinct > 1:
            if distinct < len(devices):
                return False
            following = coordinates[1:] + coordinates[:1]
            steps = {(b - a) % count for a, b in zip(coordinates, following, strict=True)}
            if kind == "Mesh":
                return len(devices) == 2
            return kind != "Ring" or len(steps) == 1
        stride *= count
    return False
