"""The event engine: runs the devices and joins them in collectives.

Invariants: one runner per equivalence class executes the trace of the first device of the class on
behalf of all its devices. ``instances`` holds exactly the collectives that some but not all classes
of their communicator have reached. Its keys are the communicator (or its class) and the number of
the first chunk that a device counts on it, so the n-th collectives of all members meet. A
collective is timed as a whole at the moment when the last class reaches it.
Source: ASTRA-sim's Workload.cc and Sys.cc.
"""

from __future__ import annotations

from collections.abc import Collection

from hespas.simulators.simulation_inputs import SimulationInputs, find_line_members
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import CommRecord, CurveTag
from hespas.simulators.simulation_steps import SimulationStep, find_spanned_dimensions
from hespas.support.errors import HespasError

from .chunk_phases import CollectivePlan
from .collective_plan import CollectivePlanner, PlannedCommunicator
from .collective_timing import CollectiveFinish, CollectiveTimer, make_unaware_transfer
from .curves import MeasuredCollectives, load_curves
from .custom_collectives import CustomCollectives, CustomRendezvous
from .device_runner import CollectiveInstance, DeviceLane, DeviceRunner, JoinedDevice
from .equivalence_classes import (
    AsymmetricFinish,
    CommunicatorClass,
    CommunicatorKey,
    EquivalenceClasses,
    build_singleton_classes,
)
from .events import EventQueue, MessageTransport, RendezvousTransport, TransferFunction
from .faults import diagnose_deadlock, diagnose_mismatch
from .nccl_collectives import NcclCollectives
from .nccl_tuning import load_nccl_tuning
from .network import AnalyticalNetwork
from .remote_memories import RemoteMemories


class EventEngine:
    """Runs one device of each class; ``records`` are the finished collectives and messages."""

    def __init__(
        self,
        inputs: SimulationInputs,
        options: SimulationOptions,
        *,
        runner_class: type[DeviceRunner] = DeviceRunner,
        classes: EquivalenceClasses | None = None,
        detects_ties: bool = True,
    ) -> None:
        """Prepare a simulation.

        Args:
            inputs: The traces and the system.
            options: The options of the simulation.
            runner_class: The class that runs a device.
            classes: The equivalence classes of the devices; None if each device is its own class.
            detects_ties: Whether to raise AmbiguousOrder if the order of events within a nanosecond
                could change the result.
        """
        self.detects_ties = detects_ties
        self.inputs, self.options = inputs, options
        self.queue = EventQueue()
        network = AnalyticalNetwork.from_system(inputs.system, options.by_dimension)
        self.planner = CollectivePlanner(inputs.system, network, options, options.congestion)
        transport_class = RendezvousTransport if options.rendezvous else MessageTransport
        self.transport: MessageTransport = transport_class(self.queue, self.make_transfer())
        self.timer = CollectiveTimer(self.planner)
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
        self._communicators: dict[tuple, tuple[PlannedCommunicator, CommunicatorClass]] = {}
        self._member_classes: dict[int, frozenset[int]] = {}  # by id() of the communicator
        self._sorted_members: dict[int, tuple[int, ...]] = {}
        self.customs = CustomCollectives(
            inputs, self.planner, self.queue, self.transport, self._record_custom_collective
        )
        self.classes = classes or build_singleton_classes(len(inputs.devices))
        self._runner_class = runner_class
        self.runners: list[DeviceRunner] = []

    def make_transfer(self) -> TransferFunction:
        """Return the function that carries the messages."""
        return make_unaware_transfer(self.planner.network, self.queue)

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
            AsymmetricFinish: Devices of one class finish a collective at different times.
        """
        for runner in self.create_runners():
            runner.issue_ready_nodes()
            runner.record_finish_time()
        self.queue.run_events()
        stuck = [runner for runner in self.runners if runner.unfinished]
        if stuck:
            raise diagnose_deadlock(self, stuck)
        return [runner.lane for runner in self.runners]

    def create_runners(self) -> list[DeviceRunner]:
        """Create the runner of each class."""
        devices = self.inputs.devices
        self.runners = [
            self._runner_class(self, rank, devices[rank]) for rank in self.classes.first
        ]
        return self.runners

    def start_collective(self, runner: DeviceRunner, position: int) -> None:
        """Start a collective on a device; its ``finish_node`` is called when it has finished."""
        group = runner.resolve_communicator(position)
        if not self.customs.start_collective(runner, position, group):
            self._join_collective(runner, position, group)

    def _join_collective(self, runner: DeviceRunner, position: int, group: int) -> None:
        step = runner.steps[position]
        new_instance, plan = self.plan_instance(runner, position, group)
        key = (new_instance.communicator_class, runner.count_chunks(group, len(plan)))
        instance = self.instances.setdefault(key, new_instance)
        if instance is new_instance:
            self.count_untimed_instance(instance)
        elif (instance.step.kind, instance.step.size) != (step.kind, step.size):
            raise diagnose_mismatch(self, instance, runner, position, step)
        instance.joined[runner.rank] = JoinedDevice(position, self.queue.now, plan)
        self.enter_instance(key, instance, runner.rank)

    def plan_instance(
        self, runner: DeviceRunner, position: int, group: int
    ) -> tuple[CollectiveInstance, CollectivePlan]:
        """Plan a collective on a device, whose turn advances; no device has joined it yet."""
        step, name = runner.steps[position], runner.device.program.nodes[position].name
        communicator, communicator_class = self.find_communicator(step, group, runner.rank)
        try:
            plan = self.planner.plan_collective(step.kind, step.size, communicator, runner.turn)
        except HespasError as error:
            where, remedy = runner.describe_position(position), error.remedy
            raise HespasError(error.message, where=where, remedy=remedy) from None
        return CollectiveInstance(step, communicator, name, communicator_class), plan

    def count_untimed_instance(self, instance: CollectiveInstance) -> None:
        """Count a collective that measured curves do not time."""
        if self.measured is not None and self.find_time_model(instance) is None:
            self.measured.counts[CurveTag.MODELLED] += len(
                self.classes.list_symmetric_communicators(instance.communicator_class)
            )

    def enter_instance(self, key: tuple, instance: CollectiveInstance, rank: int) -> None:
        """Let a device that has joined an instance start; here, all start once all have joined."""
        if len(instance.joined) == len(self._collect_member_classes(instance.communicator)):
            del self.instances[key]
            self._complete_instance(instance)

    def _collect_member_classes(self, communicator: PlannedCommunicator) -> frozenset[int]:
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
        ranks, group = (), -1
        if step.kind == "send":
            ranks = (runner.rank, runner.resolve_peer(position))
        else:
            group = runner.resolve_communicator(position)
            ranks = self.find_members(group, (), runner.rank)
            if class_of[ranks[0]] != class_of[runner.rank]:
                return  # each device replays a broadcast alone: only the first one's is recorded
            copies //= sum(class_of[rank] == class_of[runner.rank] for rank in ranks)
        name = runner.device.program.nodes[position].name
        start = lane.starts[position]
        self._append_record(name, step, (group, ranks), [start], self.queue.now, copies)

    def describe_custom_wait(self, device: int) -> str:
        """Describe what a device waits for in a custom collective; "" if it runs none."""
        return self.customs.describe_wait(device)

    def record_collective(self, instance: CollectiveInstance, finish_ns: int) -> None:
        """Record a finished collective together with those on symmetric communicators."""
        symmetric = self.classes.list_symmetric_communicators(instance.communicator_class)
        starts = [joined.start_ns for joined in instance.joined.values()]
        # The first communicator represents the class, whichever of them was simulated.
        key, copies = symmetric[0], len(symmetric)
        self._append_record(instance.name, instance.step, key, starts, finish_ns, copies)

    def _record_custom_collective(self, rendezvous: CustomRendezvous) -> None:
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
        kind, members = instance.step.kind, instance.communicator.members
        for model in (self.measured, self.between_hosts):
            if model is not None and model.covers_group(kind, members):
                return model
        return None

    def find_communicator(
        self, step: SimulationStep, group: int, rank: int
    ) -> tuple[PlannedCommunicator, CommunicatorClass]:
        """Return the communicator of a collective as a device sees it, and its class."""
        key = (step.kind, group, step.involved, rank)
        entry = self._communicators.get(key)
        if entry is None:
            spanned = find_spanned_dimensions(self.inputs.system, step.kind, step.involved)
            members = self.find_members(group, spanned, rank)
            communicator_class = self.classes.classify_communicator(group, spanned, members)
            shared_key = (step.kind, group, step.involved, members)
            entry = self._communicators.get(shared_key)
            if entry is None:
                part = len(self.inputs.groups[group]) < len(self.inputs.devices)
                communicator = self.planner.plan_communicator(
                    group, step.kind, members, part, step.involved
                )
                entry = self._communicators[shared_key] = (communicator, communicator_class)
            self._communicators[key] = entry
        return entry

    @property
    def has_single_ring(self) -> bool:
        """Whether a collective runs as one ring over some of the devices."""
        return any(communicator.part for communicator, _ in self._communicators.values())

    def find_members(self, group: int, spanned: tuple[bool, ...], rank: int) -> tuple[int, ...]:
        """Return the devices of a collective that ``rank`` takes part in.

        A collective of the default communicator spans the dimensions ``spanned``; () for all.

        They are ascending if they are all devices or those of some dimensions. Members of a
        communicator of some devices are ascending with ``by_dimension``, where their positions in
        the network matter, and in the order of the communicator otherwise.
        """
        members = self.inputs.groups[group]
        if len(members) < len(self.inputs.devices):
            return self._sort_members(group) if self.options.by_dimension else members
        if spanned:
            return find_line_members(rank, spanned, self.inputs.system.npus_count)
        return self.inputs.groups[0]

    def _sort_members(self, group: int) -> tuple[int, ...]:
        members = self._sorted_members.get(group)
        if members is None:
            members = self._sorted_members[group] = tuple(sorted(self.inputs.groups[group]))
        return members

    def check_start_time(self, communicator: PlannedCommunicator, start: int) -> None:
        """Raise HespasError if ASTRA-sim aborts at a collective that starts at this time."""
        if self.options.by_dimension or communicator.part:
            return
        if self.planner.endpoint_delay_ns == 0 and start == 0:
            raise HespasError(
                "the key 'endpoint-delay' is 0 and a collective starts at time 0: ASTRA-sim aborts",
                where=str(self.inputs.system.folder / "system.json"),
            )

    def _complete_instance(self, instance: CollectiveInstance) -> None:
        """Time a collective that all devices have joined, and schedule their finishes."""
        class_of, now = self.classes.class_of, self.queue.now
        finishes = self.time_instance(instance)
        for rank, joined in instance.joined.items():
            end, since = finishes[class_of[rank]]
            argument = (self.get_runner(rank), joined.position, end)
            self.queue.schedule_event_at(max(now, since), self._register_finish, argument)
        self.record_collective(instance, max(finish.end_ns for finish in finishes.values()))

    def time_instance(self, instance: CollectiveInstance) -> dict[int, CollectiveFinish]:
        """Compute when the devices of each class finish a collective that all have joined.

        Raises:
            AsymmetricFinish: Devices of one class finish at different times.
        """
        class_of = self.classes.class_of
        joined_classes = {class_of[rank]: joined for rank, joined in instance.joined.items()}
        first_start = min([joined.start_ns for joined in instance.joined.values()])
        self.check_start_time(instance.communicator, first_start)
        try:
            return self._compute_class_finishes(instance, joined_classes)
        except HespasError as error:
            rank, joined = next(iter(instance.joined.items()))
            where = self.get_runner(rank).describe_position(joined.position)
            raise HespasError(error.message, where=where, remedy=error.remedy) from None

    def _compute_class_finishes(
        self, instance: CollectiveInstance, joined_classes: dict[int, JoinedDevice]
    ) -> dict[int, CollectiveFinish]:
        """Compute when the devices of each class finish.

        Raises:
            AsymmetricFinish: Devices of one class finish at different times.
        """
        communicator, class_of = instance.communicator, self.classes.class_of
        model = self.find_time_model(instance)
        if len(joined_classes) == 1 and model is None:
            (device_class, joined), = joined_classes.items()  # fmt: skip
            finish = self.timer.time_symmetric_start(communicator, joined.plan)
            if finish is not None:
                return {device_class: finish.shift_by(joined.start_ns)}
        members = communicator.members
        joined_members = [joined_classes[class_of[member]] for member in members]
        starts = [joined.start_ns for joined in joined_members]
        if model is not None:
            copies = len(self.classes.list_symmetric_communicators(instance.communicator_class))
            step = instance.step
            member_finishes = model.compute_finishes(step.kind, step.size, members, starts, copies)
        else:
            plans = [joined.plan for joined in joined_members]
            member_finishes = self.timer.compute_finishes(communicator, starts, plans)
        finishes: dict[int, CollectiveFinish] = {}
        for member, finish in zip(members, member_finishes, strict=True):
            if finishes.setdefault(class_of[member], finish) != finish:
                raise AsymmetricFinish
        return finishes

    def _register_finish(self, argument: tuple[DeviceRunner, int, int]) -> None:
        runner, position, end = argument
        runner.endpoint.schedule_event_after(end - self.queue.now, runner.finish_node, position)
