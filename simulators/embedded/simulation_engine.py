"""The engine of a simulation: runs the devices and joins them in collectives.

Invariants: one runner per equivalence class executes the trace of the first device of the class on
behalf of all its devices. ``instances`` holds exactly the collectives that some but not all classes
of their communicator have reached. Its keys are the communicator (or its class) and a number that
a device counts on it, so the n-th collectives of all members meet.
Source: ASTRA-sim's Workload.cc and Sys.cc.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from hespas.simulators.simulation_inputs import SimulationInputs, find_line_members
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import CommRecord, CurveTag, LinkUse
from hespas.simulators.simulation_steps import SimulationStep, find_spanned_dimensions

from .chunk_phases import CollectiveFinish
from .curves import MeasuredCollectives, load_curves
from .custom_collectives import CustomCollectives, CustomRendezvous
from .device_runner import (
    CollectiveInstance,
    Communicator,
    DeviceLane,
    DeviceRunner,
    JoinedDevice,
)
from .equivalence_classes import (
    CommunicatorClass,
    CommunicatorKey,
    EquivalenceClasses,
    build_singleton_classes,
)
from .events import (
    EventQueue,
    MessageTransport,
    RendezvousTransport,
    TransferFunction,
)
from .faults import diagnose_deadlock, diagnose_mismatch
from .nccl_tuning import NcclCollectives, load_nccl_tuning
from .remote_memories import RemoteMemories


class SimulationEngine(ABC):
    """Runs one device of each class; ``records`` are the finished collectives and messages.

    Attributes:
        sorts_members: Whether the members of a communicator of some devices are sorted, because
            their places in the network matter, and not their order in the communicator.
        has_slice_network: Whether collectives between slices run beside those within a slice.
        detects_ties: Whether to raise AmbiguousOrder if the order of events within a nanosecond
            could change the result.
        replayed_broadcasts: The number of broadcasts that took the duration of their node.
    """

    sorts_members: ClassVar[bool] = False
    has_slice_network: ClassVar[bool] = False
    detects_ties: bool = False
    replayed_broadcasts: int = 0

    def __init__(
        self,
        inputs: SimulationInputs,
        options: SimulationOptions,
        *,
        runner_class: type[DeviceRunner] = DeviceRunner,
        classes: EquivalenceClasses | None = None,
    ) -> None:
        """Prepare a simulation.

        Args:
            inputs: The traces and the system.
            options: The options of the simulation.
            runner_class: The class that runs a device.
            classes: The equivalence classes of the devices; None if each device is its own class.
        """
        self.inputs, self.options = inputs, options
        self.queue = EventQueue()
        transport_class = RendezvousTransport if options.rendezvous else MessageTransport
        self.transport: MessageTransport = transport_class(self.queue, self.make_transfer())
        self.measured = (
            MeasuredCollectives(load_curves(options.curves), inputs.system)
            if options.curves
            else None
        )
        self.between_hosts = (
            NcclCollectives(load_nccl_tuning(options.curves), inputs.system)
            if options.between_hosts == "nccl"
            else None
        )
        self.memories = RemoteMemories(inputs.system.remote_memory)
        self.instances: dict[tuple, CollectiveInstance] = {}
        self.records: list[CommRecord] = []
        self._communicators: dict[tuple, tuple[Communicator, CommunicatorClass]] = {}
        self._member_classes: dict[int, frozenset[int]] = {}  # by id() of the communicator
        self._sorted_members: dict[int, tuple[int, ...]] = {}
        self.customs = CustomCollectives(self)
        self.classes = classes or build_singleton_classes(len(inputs.devices))
        self._runner_class = runner_class
        self.runners: list[DeviceRunner] = []

    @abstractmethod
    def make_transfer(self) -> TransferFunction:
        """Return the function that carries the messages."""

    @abstractmethod
    def make_communicator(
        self, step: SimulationStep, group: int, members: tuple[int, ...]
    ) -> Communicator:
        """Return the communicator of a collective; raises HespasError if it cannot run there."""

    @abstractmethod
    def plan_instance(
        self, runner: DeviceRunner, position: int, group: int
    ) -> tuple[CollectiveInstance, Any, int]:
        """Plan a collective on a device, whose turn in its queues advances; none has joined it yet.

        Returns:
            The collective, the plan of the device, and the number that the device counts for it.
        """

    @abstractmethod
    def enter_instance(self, key: tuple, instance: CollectiveInstance, rank: int) -> None:
        """Let a device that has joined a collective start."""

    @abstractmethod
    def settle_runner(self, runner: DeviceRunner) -> None:
        """Let a device of which a node has ended issue the nodes that can run now."""

    @abstractmethod
    def check_compute(self, runner: DeviceRunner, position: int) -> None:
        """Raise HespasError if a compute node cannot start now."""

    @abstractmethod
    def is_instant_message(self, source: int, target: int, size: int) -> bool:
        """Return whether a message sent now arrives at time 0, at which ASTRA-sim aborts."""

    @abstractmethod
    def count_chunks(self, kind: str, size: int) -> int:
        """Count the chunks into which a collective is split."""

    def has_broadcasts(self, runner: DeviceRunner, position: int) -> bool:
        """Return whether a broadcast runs on the network, and not for the duration of its node."""
        return False

    @property
    def orders_by_device(self) -> bool:
        """Whether events within a nanosecond were ordered by device, and not as in ASTRA-sim."""
        return False

    def collect_link_use(self, records: Sequence[CommRecord]) -> LinkUse | None:
        """Return the use of the links by the collectives and messages; None without an option."""
        return None

    def get_runner(self, device: int) -> DeviceRunner:
        """Return the runner of the class of a device."""
        return self.runners[self.classes.class_of[device]]

    def run_all_devices(self) -> list[DeviceLane]:
        """Run the simulation to its end.

        Returns:
            The lane of each class.

        Raises:
            HespasError: Devices deadlock, collectives do not match, or ASTRA-sim would abort.
            AmbiguousOrder: The order within a nanosecond matters, with ``detects_ties``.
            AsymmetricFinish: Devices of one class behave differently.
        """
        devices = self.inputs.devices
        self.runners = [
            self._runner_class(self, rank, devices[rank]) for rank in self.classes.first
        ]
        for runner in self.runners:
            runner.issue_ready_nodes()
            runner.record_finish_time()
        self.queue.run_events()
        stuck = [runner for runner in self.runners if runner.unfinished]
        if stuck:
            raise diagnose_deadlock(self, stuck)
        return [runner.lane for runner in self.runners]

    def start_collective(self, runner: DeviceRunner, position: int) -> None:
        """Start a collective on a device; its ``finish_node`` is called when it has finished."""
        group = runner.resolve_communicator(position)
        if not self.customs.start_collective(runner, position, group):
            self._join_collective(runner, position, group)

    def _join_collective(self, runner: DeviceRunner, position: int, group: int) -> None:
        step = runner.steps[position]
        new_instance, plan, number = self.plan_instance(runner, position, group)
        key = (new_instance.communicator_class, number)
        instance = self.instances.setdefault(key, new_instance)
        if instance is new_instance:
            self.count_untimed_instance(instance)
        elif (instance.step.kind, instance.step.size) != (step.kind, step.size):
            raise diagnose_mismatch(self, instance, runner, position, step)
        instance.joined[runner.rank] = JoinedDevice(position, self.queue.now, plan)
        self.enter_instance(key, instance, runner.rank)

    def make_instance(self, runner: DeviceRunner, position: int, group: int) -> CollectiveInstance:
        """Return a collective that no device has joined yet."""
        step, name = runner.steps[position], runner.device.program.nodes[position].name
        communicator, communicator_class = self.find_communicator(step, group, runner.rank)
        return CollectiveInstance(step, communicator, name, communicator_class)

    def count_untimed_instance(self, instance: CollectiveInstance) -> None:
        """Count a collective that measured curves do not time."""
        if self.measured is not None and self.find_time_model(instance) is None:
            self.measured.counts[CurveTag.MODELLED] += len(
                self.classes.list_symmetric_communicators(instance.communicator_class)
            )

    def has_all_joined(self, instance: CollectiveInstance) -> bool:
        """Return whether all classes of the devices of a collective have joined it."""
        return len(instance.joined) == len(self._collect_member_classes(instance.communicator))

    def _collect_member_classes(self, communicator: Communicator) -> frozenset[int]:
        """Return the classes of the devices of a communicator."""
        member_classes = self._member_classes.get(id(communicator))
        if member_classes is None:
            member_classes = frozenset(
                self.classes.class_of[member] for member in communicator.members
            )
            self._member_classes[id(communicator)] = member_classes
        return member_classes

    def record_send_or_broadcast(self, runner: DeviceRunner, position: int) -> None:
        """Record a SEND or BROADCAST that has finished."""
        step, lane = runner.steps[position], runner.lane
        class_of = self.classes.class_of
        copies = self.classes.size[class_of[runner.rank]]
        if step.kind == "send":
            ranks, group = (runner.rank, runner.resolve_peer(position)), -1
        else:
            group = runner.resolve_communicator(position)
            ranks = self.find_members(group, (), runner.rank)
            if class_of[ranks[0]] != class_of[runner.rank]:
                return  # each device replays a broadcast alone: only the first one's is recorded
            copies //= sum(class_of[rank] == class_of[runner.rank] for rank in ranks)
            self.replayed_broadcasts += copies
        name = runner.device.program.nodes[position].name
        start = lane.starts[position]
        self._append_record(name, step, (group, ranks), [start], self.queue.now, copies)

    def record_collective(self, instance: CollectiveInstance, finish_ns: int) -> None:
        """Record a finished collective together with those on symmetric communicators."""
        symmetric = self.classes.list_symmetric_communicators(instance.communicator_class)
        starts = [joined.start_ns for joined in instance.joined.values()]
        # The first communicator represents the class, whichever of them was simulated.
        key, copies = symmetric[0], len(symmetric)
        self._append_record(instance.name, instance.step, key, starts, finish_ns, copies)

    def record_custom_collective(self, rendezvous: CustomRendezvous) -> None:
        """Record a custom collective that all ranks have finished."""
        key = (rendezvous.group, rendezvous.members)
        self._append_record(
            rendezvous.name, rendezvous.step, key, rendezvous.starts, self.queue.now
        )

    def _append_record(
        self,
        name: str,
        step: SimulationStep,
        key: CommunicatorKey,
        starts: Collection[int],
        finish_ns: int,
        copies: int = 1,
    ) -> None:
        first, last = min(starts), max(starts)
        self.records.append(
            CommRecord(name, step.kind, step.size, *key, first, last, finish_ns, copies)
        )

    def find_time_model(
        self, instance: CollectiveInstance
    ) -> MeasuredCollectives | NcclCollectives | None:
        """Return what times a collective as a whole; None if the network model does.

        That is the measured curves, or NCCL's model between hosts.
        """
        kind, places = instance.step.kind, self.find_places(instance.communicator.members)
        for model in (self.measured, self.between_hosts):
            if model is not None and model.covers_group(kind, places):
                return model
        return None

    def find_communicator(
        self, step: SimulationStep, group: int, rank: int
    ) -> tuple[Communicator, CommunicatorClass]:
        """Return the communicator of a collective as a device sees it, and its class."""
        key = (step.kind, group, step.involved, rank)
        entry = self._communicators.get(key)
        if entry is None:
            spanned = find_spanned_dimensions(self.inputs.system, step.kind, step.involved)
            members = self.find_members(group, spanned, rank)
            communicator_class = self.classes.communicator_classes.get(
                (group, spanned, members), (group, members)
            )
            shared_key = (step.kind, group, step.involved, members)
            entry = self._communicators.get(shared_key)
            if entry is None:
                communicator = self.make_communicator(step, group, members)
                entry = self._communicators[shared_key] = (communicator, communicator_class)
            self._communicators[key] = entry
        return entry

    def is_part(self, group: int) -> bool:
        """Return whether a communicator has only some of the devices of the system."""
        return len(self.inputs.groups[group]) < len(self.inputs.devices)

    def find_members(self, group: int, spanned: tuple[bool, ...], rank: int) -> tuple[int, ...]:
        """Return the devices of a collective that ``rank`` takes part in.

        A collective of the default communicator spans the dimensions ``spanned``; () for all.

        They are ascending if they are all devices or those of some dimensions, or with
        ``sorts_members``, and in the order of the communicator otherwise.
        """
        if self.is_part(group):
            return self._sort_members(group) if self.sorts_members else self.inputs.groups[group]
        if spanned:
            return find_line_members(rank, spanned, self.inputs.system.npus_count)
        return self.inputs.groups[0]

    def _sort_members(self, group: int) -> tuple[int, ...]:
        members = self._sorted_members.get(group)
        if members is None:
            members = self._sorted_members[group] = tuple(sorted(self.inputs.groups[group]))
        return members

    def find_places(self, members: tuple[int, ...]) -> tuple[int, ...]:
        """Return the places of devices in the network."""
        return members

    def time_by_model(
        self, instance: CollectiveInstance, model: MeasuredCollectives | NcclCollectives
    ) -> CollectiveFinish:
        """Return when all devices finish by a model that times a collective as a whole."""
        last_ns = max(joined.start_ns for joined in instance.joined.values())
        copies = len(self.classes.list_symmetric_communicators(instance.communicator_class))
        places = self.find_places(instance.communicator.members)
        time_ns = model.compute_time_ns(instance.step, places, copies)
        return CollectiveFinish(last_ns + time_ns, last_ns)

    def schedule_finishes(
        self, instance: CollectiveInstance, finishes: Mapping[int, CollectiveFinish]
    ) -> None:
        """Schedule the finishes of a collective, which are by class, and record it."""
        class_of, now = self.classes.class_of, self.queue.now
        for rank, joined in instance.joined.items():
            end, since = finishes[class_of[rank]]
            argument = (self.get_runner(rank), joined.position, end)
            self.queue.schedule_event_at(max(now, since), self._register_finish, argument)
        self.record_collective(instance, max(finish.end_ns for finish in finishes.values()))

    def _register_finish(self, argument: tuple[DeviceRunner, int, int]) -> None:
        runner, position, end = argument
        runner.endpoint.schedule_event_after(end - self.queue.now, runner.finish_node, position)
