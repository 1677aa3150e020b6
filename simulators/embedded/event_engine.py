"""The event engine: runs the devices, and joins them in collectives.

Source: ASTRA-sim's Workload.cc and Sys.cc.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from hespas.simulators.simulation_inputs import SimulationInputs, find_line_members
from hespas.simulators.simulation_result import CommRecord
from hespas.simulators.simulation_steps import SimulationStep
from hespas.support.errors import HespasError

from .collective_plan import CollectivePlan, CollectivePlanner, PlannedCommunicator
from .collective_timing import CollectiveFinish, CollectiveTimer, make_unaware_transfer
from .curves import MODELLED, MeasuredCollectives, load_curves
from .custom_collectives import CustomCollectives, CustomRendezvous
from .device_runner import DeviceLane, DeviceRunner
from .equivalence_classes import (
    AsymmetricFinish,
    CommunicatorKey,
    EquivalenceClasses,
    build_singleton_classes,
)
from .events import EventQueue, MessageTransport, RendezvousTransport
from .faults import diagnose_deadlock, diagnose_mismatch
from .network import AnalyticalNetwork
from .simulation_options import SimulationOptions


@dataclass(slots=True)
class CollectiveInstance:
    """A collective of a communicator, while its devices join: by device, its node and when."""

    step: SimulationStep
    communicator: PlannedCommunicator
    name: str
    meeting: int | CommunicatorKey
    joined: dict[int, tuple[int, int]] = field(default_factory=dict)
    chunks: dict[int, CollectivePlan] = field(default_factory=dict)


class EventEngine:
    """Runs one device of each class; ``happened`` are the collectives and messages."""

    def __init__(
        self,
        inputs: SimulationInputs,
        options: SimulationOptions,
        *,
        runner: type[DeviceRunner] | None = None,
        classes: EquivalenceClasses | None = None,
        ties: bool = True,
    ) -> None:
        """``ties``: raise OrderMatters where the order within a nanosecond does."""
        self.ties = ties
        self.inputs, self.options = inputs, options
        self.queue = EventQueue()
        network = AnalyticalNetwork.from_system(inputs.system, options.by_dimension)
        self.planner = CollectivePlanner(inputs.system, network, options)
        transport = RendezvousTransport if options.rendezvous else MessageTransport
        self.transport = transport(self.queue, make_unaware_transfer(network, self.queue))
        self.collectives = CollectiveTimer(self.planner)
        self.measured = (
            MeasuredCollectives(load_curves(options.curves), inputs.system)
            if options.curves
            else None
        )
        self.instances: dict[tuple, CollectiveInstance] = {}
        self.records: list[CommRecord] = []
        self._seen: dict[tuple, tuple[PlannedCommunicator, int | CommunicatorKey]] = {}
        self._classes_in: dict[int, frozenset[int]] = {}
        self.customs = CustomCollectives(self, self._record_custom_collective)
        self.classes = classes or build_singleton_classes(len(inputs.devices))
        self._kind = runner or DeviceRunner
        self.runners: list[DeviceRunner] = []

    def get_runner(self, device: int) -> DeviceRunner:
        """The runner of a device's class."""
        return self.runners[self.classes.class_of[device]]

    def run_all_devices(self) -> list[DeviceLane]:
        """Run to the end; lanes are by class. Raises HespasError where devices wait for ever."""
        devices = self.inputs.devices
        self.runners = [self._kind(self, rank, devices[rank]) for rank in self.classes.first]
        for runner in self.runners:
            runner.issue_ready_nodes()
            runner.record_finish_time()
        self.queue.run_events()
        stuck = [runner for runner in self.runners if runner.left]
        if stuck:
            raise diagnose_deadlock(self, stuck)
        return [runner.lane for runner in self.runners]

    def join_collective(
        self, runner: DeviceRunner, position: int, step: SimulationStep, group: int
    ) -> None:
        """A device starts a collective."""
        communicator, meeting = self.find_communicator(step, group, runner.rank)
        first = runner.streams.get(group, 0) if group else runner.issued
        try:
            plan = self.planner.plan_collective(step.kind, step.size, communicator, runner.turn)
        except HespasError as error:
            where, remedy = runner.describe_position(position), error.remedy
            raise HespasError(error.message, where=where, remedy=remedy) from None
        runner.issued += len(plan)
        runner.streams[group] = runner.streams.get(group, 0) + len(plan)
        key = (meeting, first)
        instance = self.instances.get(key)
        if instance is None:
            name = runner.device.program.nodes[position].name
            instance = self.instances[key] = CollectiveInstance(step, communicator, name, meeting)
            if self.measured is not None and self.find_curves(instance) is None:
                self.measured.counts[MODELLED] += len(
                    self.classes.list_symmetric_communicators(meeting)
                )
        elif (instance.step.kind, instance.step.size) != (step.kind, step.size):
            raise diagnose_mismatch(self, instance, runner, position, step)
        self.enter_instance(key, instance, runner.rank, position, plan)

    def enter_instance(
        self,
        key: tuple,
        instance: CollectiveInstance,
        rank: int,
        position: int,
        chunks: CollectivePlan,
    ) -> None:
        """A device is in a collective, which runs as soon as all are."""
        instance.joined[rank] = (position, self.queue.now)
        instance.chunks[rank] = chunks
        if len(instance.joined) == len(self._collect_member_classes(instance.communicator)):
            del self.instances[key]
            self._complete_instance(instance)

    def _collect_member_classes(self, communicator: PlannedCommunicator) -> frozenset[int]:
        """The classes of a communicator's devices."""
        member_classes = self._classes_in.get(id(communicator))
        if member_classes is None:
            member_classes = frozenset(
                self.classes.class_of[member] for member in communicator.members
            )
            self._classes_in[id(communicator)] = member_classes
        return member_classes

    def record_send_or_broadcast(self, runner: DeviceRunner, position: int) -> None:
        """A SEND or BROADCAST is over."""
        step, lane = runner.steps[position], runner.lane
        class_of = self.classes.class_of
        copies = self.classes.size[class_of[runner.rank]]
        ranks, group = (), -1
        if step.kind == "send":
            ranks = (runner.rank, runner.resolve_peer(position))
        else:
            group = runner.resolve_communicator(position)
            ranks = self.find_members(group, step.involved, runner.rank)
            if class_of[ranks[0]] != class_of[runner.rank]:
                return  # each device replays it for itself: the first one's is kept
            copies //= sum(class_of[rank] == class_of[runner.rank] for rank in ranks)
        name = runner.device.program.nodes[position].name
        start = lane.starts[position]
        self._append_record(name, step, (group, ranks), [start], self.queue.now, copies)

    def record_collective(self, instance: CollectiveInstance, finish_ns: int) -> None:
        """A collective is over on all its devices, and on those alike."""
        alike = self.classes.list_symmetric_communicators(instance.meeting)
        starts = [start for _, start in instance.joined.values()]
        # Whichever of those alike is simulated, the first stands for them.
        self._append_record(instance.name, instance.step, alike[0], starts, finish_ns, len(alike))

    def _record_custom_collective(self, rendezvous: CustomRendezvous) -> None:
        named, end = (rendezvous.group, rendezvous.members), max(rendezvous.ends.values())
        self._append_record(
            rendezvous.name, rendezvous.step, named, rendezvous.starts.values(), end
        )

    def _append_record(
        self, name: str, step: SimulationStep, communicator_key: CommunicatorKey, starts: Collection[int], finish_ns: int,
        copies: int = 1,
    ) -> None:  # fmt: skip
        first, last = min(starts), max(starts)
        self.records.append(
            CommRecord(
                name, step.kind, step.size, *communicator_key, first, last, finish_ns, copies
            )
        )

    def find_curves(self, instance: CollectiveInstance) -> MeasuredCollectives | None:
        """The measured curves that give a collective's time; None for the network model."""
        kind, members = instance.step.kind, instance.communicator.members
        return (
            self.measured
            if self.measured and self.measured.has_measured_group(kind, members)
            else None
        )

    def find_communicator(
        self, step: SimulationStep, group: int, rank: int
    ) -> tuple[PlannedCommunicator, int | CommunicatorKey]:
        """The communicator of a collective as a device sees it, and what it is alike to."""
        key = (step.kind, group, step.involved, rank)
        entry = self._seen.get(key)
        if entry is None:
            members = self.find_members(group, step.involved, rank)
            meeting = self.classes.find_label(group, step.involved, members)
            same = (step.kind, group, step.involved, members)
            entry = self._seen.get(same)
            if entry is None:
                part = len(self.inputs.groups[group]) < len(self.inputs.devices)
                communicator = self.planner.plan_communicator(
                    group, step.kind, members, part, step.involved
                )
                entry = self._seen[same] = (communicator, meeting)
            self._seen[key] = entry
        return entry

    @property
    def has_single_ring(self) -> bool:
        """Whether some collective is a ring over devices of several dimensions."""
        return any(communicator.part for communicator, _ in self._seen.values())

    def find_members(self, group: int, involved: tuple[bool, ...], rank: int) -> tuple[int, ...]:
        """The devices that meet in a collective.

        In the order of their numbers where all do, and where those of a communicator are looked at
        by their places in the network; else in the communicator's.
        """
        members = self.inputs.groups[group]
        if len(members) < len(self.inputs.devices):
            return tuple(sorted(members)) if self.options.by_dimension else members
        if involved and not all(involved):
            return find_line_members(rank, involved, self.inputs.system.npus_count)
        return self.inputs.groups[0]

    def check_start_time(self, communicator: PlannedCommunicator, start: int) -> None:
        """Raises HespasError for a collective that makes ASTRA-sim abort."""
        if self.options.by_dimension or communicator.part:
            return
        if self.planner.endpoint_delay_ns == 0 and start == 0:
            raise HespasError(
                "the key 'endpoint-delay' is 0 and a collective starts at time 0: ASTRA-sim aborts",
                where=str(self.inputs.system.folder / "system.json"),
            )

    def _complete_instance(self, instance: CollectiveInstance) -> None:
        class_of, now = self.classes.class_of, self.queue.now
        starts = {class_of[rank]: start for rank, (_, start) in instance.joined.items()}
        self.check_start_time(instance.communicator, min(starts.values()))
        try:
            finishes = self._compute_class_finishes(instance, starts)
        except HespasError as error:
            rank, (position, _) = next(iter(instance.joined.items()))
            where = self.get_runner(rank).describe_position(position)
            raise HespasError(error.message, where=where, remedy=error.remedy) from None
        for rank, (position, _) in instance.joined.items():
            end, since = finishes[class_of[rank]]
            argument = (self.get_runner(rank), position, end)
            self.queue.schedule_event_at(max(now, since), self._register_finish, argument)
        self.record_collective(instance, max(finish.end_ns for finish in finishes.values()))

    def _compute_class_finishes(
        self, instance: CollectiveInstance, starts: dict[int, int]
    ) -> dict[int, CollectiveFinish]:
        """When the devices of each class finish; raises NotAlike where those of one differ."""
        communicator, class_of = instance.communicator, self.classes.class_of
        measured = self.find_curves(instance)
        if len(starts) == 1 and measured is None:
            (known, start), = starts.items()  # fmt: skip
            one = self.collectives.time_symmetric_start(
                communicator, next(iter(instance.chunks.values()))
            )
            if one is not None:
                return {known: CollectiveFinish(one.end_ns + start, one.since_ns + start)}
        members = communicator.members
        by_position = [starts[class_of[member]] for member in members]
        if measured is not None:
            step, copies = (
                instance.step,
                len(self.classes.list_symmetric_communicators(instance.meeting)),
            )
            member_finishes = measured.compute_finishes(step.kind, step.size, by_position, copies)
        else:
            plans = {class_of[rank]: plan for rank, plan in instance.chunks.items()}
            member_finishes = self.collectives.compute_finishes(
                communicator, by_position, [plans[class_of[member]] for member in members]
            )
        finishes: dict[int, CollectiveFinish] = {}
        for member, finish in zip(members, member_finishes, strict=True):
            if finishes.setdefault(class_of[member], finish) != finish:
                raise AsymmetricFinish
        return finishes

    def _register_finish(self, argument: tuple[DeviceRunner, int, int]) -> None:
        runner, position, end = argument
        runner.endpoint.schedule_event_after(end - self.queue.now, runner.finish_node, position)
