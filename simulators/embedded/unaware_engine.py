"""The engines of ASTRA-sim's models.

The congestion-unaware model times collectives one by one, as wholes, at the moment when the last
class of its devices reaches each. The other runs the same collectives message by message, which
congestion needs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from hespas.chakra.node_rules import to_enum_name
from hespas.chakra.schema import CollectiveCommType
from hespas.simulators.simulation_inputs import SimulationInputs
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import CommRecord, LinkUse
from hespas.simulators.simulation_steps import SimulationStep
from hespas.support.errors import HespasError

from .chunk_phases import CollectiveFinish
from .collective_execution import ChunkQueues, CollectiveExecution
from .collective_plan import CollectivePlanner, PlannedCommunicator
from .collective_timing import CollectiveTimer, make_unaware_transfer
from .congestion_aware import CongestedNetwork
from .device_runner import CollectiveInstance, DeviceRunner, JoinedDevice
from .equivalence_classes import AsymmetricFinish
from .events import TransferFunction
from .link_traffic import collect_link_use
from .network import AnalyticalNetwork
from .simulation_engine import SimulationEngine


class UnawareEngine(SimulationEngine):
    """An engine whose messages do not delay each other.

    Attributes:
        runs_messages: Whether collectives are simulated message by message.
    """

    runs_messages: ClassVar[bool] = False

    def __init__(
        self,
        inputs: SimulationInputs,
        options: SimulationOptions,
        *,
        detects_ties: bool = True,
        **engine_options: Any,
    ) -> None:
        self.detects_ties = detects_ties
        network = AnalyticalNetwork.from_system(inputs.system)
        self.planner = CollectivePlanner(inputs.system, network, options)
        super().__init__(inputs, options, **engine_options)
        self.timer = CollectiveTimer(self.planner)

    def make_transfer(self) -> TransferFunction:
        return make_unaware_transfer(self.planner.network, self.queue)

    def make_communicator(
        self, step: SimulationStep, group: int, members: tuple[int, ...]
    ) -> PlannedCommunicator:
        if step.comm_type >= 0:
            name = to_enum_name(CollectiveCommType, step.comm_type)
            raise HespasError(
                f"comm_type {name} is not simulated by ASTRA-sim",
                remedy="use the flow-level model: --network-model flows",
            )
        part = self.is_part(group)
        return self.planner.plan_communicator(group, step.kind, members, part, step.involved)

    def plan_instance(
        self, runner: DeviceRunner, position: int, group: int
    ) -> tuple[CollectiveInstance, Any, int]:
        step = runner.steps[position]
        try:
            instance = self.make_instance(runner, position, group)
            plan = self.planner.plan_collective(
                step.kind, step.size, instance.communicator, runner.turn
            )
        except HespasError as error:
            error.where = runner.describe_position(position)
            raise
        return instance, plan, runner.count_chunks(group, len(plan))

    def enter_instance(self, key: tuple, instance: CollectiveInstance, rank: int) -> None:
        if self.has_all_joined(instance):
            del self.instances[key]
            self.schedule_finishes(instance, self.time_instance(instance))

    def settle_runner(self, runner: DeviceRunner) -> None:
        runner.issue_ready_nodes()

    def check_compute(self, runner: DeviceRunner, position: int) -> None:
        if not (self.queue.now or runner.steps[position].duration_ns):
            raise runner.build_zero_time_error(position)

    def is_instant_message(self, source: int, target: int, size: int) -> bool:
        if self.queue.now > 0 or self.options.rendezvous:
            return False
        return self.planner.network.compute_transfer_ns(source, target, size) == 0

    def count_chunks(self, kind: str, size: int) -> int:
        return self.planner.split_chunks(kind, size)[0]

    @property
    def orders_by_device(self) -> bool:
        return not self.detects_ties and not self.runs_messages

    def collect_link_use(self, records: Sequence[CommRecord]) -> LinkUse | None:
        if not self.options.links:
            return None
        step_time_ns = max(runner.lane.finish_ns for runner in self.runners)
        return collect_link_use(self.planner, records, step_time_ns)

    def check_start_time(self, communicator: PlannedCommunicator, start: int) -> None:
        """Raise HespasError if ASTRA-sim aborts at a collective that starts at this time."""
        if communicator.part:
            return
        if self.planner.endpoint_delay_ns == 0 and start == 0:
            raise HespasError(
                "the key 'endpoint-delay' is 0 and a collective starts at time 0: ASTRA-sim aborts",
                where=str(self.inputs.system.folder / "system.json"),
            )

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
            error.where = self.get_runner(rank).describe_position(joined.position)
            raise

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
        if model is not None:
            return dict.fromkeys(joined_classes, self.time_by_model(instance, model))
        joined_members = [joined_classes[class_of[member]] for member in communicator.members]
        starts = [joined.start_ns for joined in joined_members]
        plans = [joined.plan for joined in joined_members]
        member_finishes = self.timer.compute_finishes(communicator, starts, plans)
        finishes: dict[int, CollectiveFinish] = {}
        for member, finish in zip(communicator.members, member_finishes, strict=True):
            if finishes.setdefault(class_of[member], finish) != finish:
                raise AsymmetricFinish
        return finishes


class MessageLevelEngine(UnawareEngine):
    """An engine whose collectives share its event queue and its network.

    Every message of every collective is an event of one queue. ``UnawareEngine`` times collectives
    one by one, which is exact as long as messages do not delay each other. Here all collectives run
    at once, so that with ``options.congestion`` their messages can wait for each other on links.
    Without it, this is the reference that the other engine is tested against. Each device is its
    own class here, so device ids index runners.
    """

    runs_messages: ClassVar[bool] = True

    def __init__(
        self, inputs: SimulationInputs, options: SimulationOptions, **engine_options: Any
    ) -> None:
        super().__init__(inputs, options, **engine_options)
        self._chunk_queues = [ChunkQueues() for _ in inputs.devices]
        self._running: dict[tuple, CollectiveExecution] = {}  # by key of its instance

    def make_transfer(self) -> TransferFunction:
        """Return the function that carries the messages."""
        if self.options.congestion:
            return CongestedNetwork(self.queue, self.planner.network).transfer_message
        return super().make_transfer()

    def enter_instance(self, key: tuple, instance: CollectiveInstance, rank: int) -> None:
        """Start a device's part of a collective at once, without waiting for the other devices."""
        communicator = instance.communicator
        if self.find_time_model(instance) is not None:
            super().enter_instance(key, instance, rank)
            return
        self.check_start_time(communicator, self.queue.now)
        execution = self._running.get(key)
        if execution is None:
            endpoints = {member: self.runners[member].endpoint for member in communicator.members}
            execution = self._running[key] = CollectiveExecution(
                self.planner,
                communicator,
                self.queue,
                self.transport,
                endpoints,
                functools.partial(self._finish_device, key),
                key,
            )
        execution.start_device(rank, instance.joined[rank].plan, self._chunk_queues[rank])

    def _finish_device(self, key: tuple, device: int) -> None:
        instance = self.instances[key]
        if self._running[key].unfinished == 0:
            self.record_collective(instance, self.queue.now)
            del self.instances[key], self._running[key]
        self.runners[device].finish_node(instance.joined[device].position)
