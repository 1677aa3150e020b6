"""The event engine: runs the devices, and joins them in collectives.

Source: ASTRA-sim's Workload.cc and Sys.cc.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from hespas.dialects.errors import HespasError
from hespas.simulators.inputs import Inputs, line_of
from hespas.simulators.result import CommRecord
from hespas.simulators.steps import Step

from .classes import Classes, Named, NotAlike, each
from .collectives import Collectives, Finish, unaware
from .curves import MODELLED, Measured, load
from .custom import Customs, Together
from .events import EventQueue, Rendezvous, Transport
from .faults import deadlock, mismatch
from .network import Network
from .options import Options
from .plan import Communicator, Plan, Planner
from .runner import Lane, Runner


@dataclass(slots=True)
class Instance:
    """A collective of a communicator, while its devices join: by device, its node and when."""

    step: Step
    communicator: Communicator
    name: str
    meeting: int | Named
    joined: dict[int, tuple[int, int]] = field(default_factory=dict)
    chunks: dict[int, Plan] = field(default_factory=dict)


class Engine:
    """Runs one device of each class; ``happened`` are the collectives and messages."""

    def __init__(
        self,
        inputs: Inputs,
        options: Options,
        *,
        runner: type[Runner] | None = None,
        classes: Classes | None = None,
        ties: bool = True,
    ) -> None:
        """``ties``: raise OrderMatters where the order within a nanosecond does."""
        self.ties = ties
        self.inputs, self.options = inputs, options
        self.queue = EventQueue()
        network = Network.of(inputs.system, options.by_dimension)
        self.planner = Planner(inputs.system, network, options)
        transport = Rendezvous if options.rendezvous else Transport
        self.transport = transport(self.queue, unaware(network, self.queue))
        self.collectives = Collectives(self.planner)
        self.measured = Measured(load(options.curves), inputs.system) if options.curves else None
        self.instances: dict[tuple, Instance] = {}
        self.happened: list[CommRecord] = []
        self._seen: dict[tuple, tuple[Communicator, int | Named]] = {}
        self._classes_in: dict[int, frozenset[int]] = {}
        self.customs = Customs(self, self._custom_over)
        self.classes = classes or each(len(inputs.devices))
        self._kind = runner or Runner
        self.runners: list[Runner] = []

    def runner(self, device: int) -> Runner:
        """The runner of a device's class."""
        return self.runners[self.classes.of[device]]

    def run(self) -> list[Lane]:
        """Run to the end; lanes are by class. Raises HespasError where devices wait for ever."""
        devices = self.inputs.devices
        self.runners = [self._kind(self, rank, devices[rank]) for rank in self.classes.first]
        for runner in self.runners:
            runner.scan()
            runner.check()
        self.queue.run()
        stuck = [runner for runner in self.runners if runner.left]
        if stuck:
            raise deadlock(self, stuck)
        return [runner.lane for runner in self.runners]

    def join(self, runner: Runner, position: int, step: Step, group: int) -> None:
        """A device starts a collective."""
        communicator, meeting = self.communicator(step, group, runner.rank)
        first = runner.streams.get(group, 0) if group else runner.issued
        try:
            plan = self.planner.plan(step.kind, step.size, communicator, runner.turn)
        except HespasError as error:
            where, remedy = runner.where(position), error.remedy
            raise HespasError(error.message, where=where, remedy=remedy) from None
        runner.issued += len(plan)
        runner.streams[group] = runner.streams.get(group, 0) + len(plan)
        key = (meeting, first)
        instance = self.instances.get(key)
        if instance is None:
            name = runner.device.program.nodes[position].name
            instance = self.instances[key] = Instance(step, communicator, name, meeting)
            if self.measured is not None and self.curves_of(instance) is None:
                self.measured.counts[MODELLED] += len(self.classes.alike(meeting))
        elif (instance.step.kind, instance.step.size) != (step.kind, step.size):
            raise mismatch(self, instance, runner, position, step)
        self.enter(key, instance, runner.rank, position, plan)

    def enter(self, key: tuple, instance: Instance, rank: int, position: int, chunks: Plan) -> None:
        """A device is in a collective, which runs as soon as all are."""
        instance.joined[rank] = (position, self.queue.now)
        instance.chunks[rank] = chunks
        if len(instance.joined) == len(self._inside(instance.communicator)):
            del self.instances[key]
            self._complete(instance)

    def _inside(self, communicator: Communicator) -> frozenset[int]:
        """The classes of a communicator's devices."""
        found = self._classes_in.get(id(communicator))
        if found is None:
            found = frozenset(self.classes.of[member] for member in communicator.members)
            self._classes_in[id(communicator)] = found
        return found

    def alone(self, runner: Runner, position: int) -> None:
        """A SEND or BROADCAST is over."""
        step, lane = runner.steps[position], runner.lane
        of = self.classes.of
        copies = self.classes.size[of[runner.rank]]
        ranks, group = (), -1
        if step.kind == "send":
            ranks = (runner.rank, runner.peer(position))
        else:
            group = runner.group(position)
            ranks = self.members(group, step.involved, runner.rank)
            if of[ranks[0]] != of[runner.rank]:
                return  # each device replays it for itself: the first one's is kept
            copies //= sum(of[rank] == of[runner.rank] for rank in ranks)
        name = runner.device.program.nodes[position].name
        start = lane.starts[position]
        self._note(name, step, (group, ranks), [start], self.queue.now, copies)

    def over(self, instance: Instance, finish_ns: int) -> None:
        """A collective is over on all its devices, and on those alike."""
        alike = self.classes.alike(instance.meeting)
        starts = [start for _, start in instance.joined.values()]
        # Whichever of those alike is simulated, the first stands for them.
        self._note(instance.name, instance.step, alike[0], starts, finish_ns, len(alike))

    def _custom_over(self, what: Together) -> None:
        named, end = (what.group, what.members), max(what.ends.values())
        self._note(what.name, what.step, named, what.starts.values(), end)

    def _note(
        self, name: str, step: Step, named: Named, starts: Collection[int], finish_ns: int,
        copies: int = 1,
    ) -> None:  # fmt: skip
        first, last = min(starts), max(starts)
        self.happened.append(
            CommRecord(name, step.kind, step.size, *named, first, last, finish_ns, copies)
        )

    def curves_of(self, instance: Instance) -> Measured | None:
        """The measured curves that give a collective's time; None for the network model."""
        kind, members = instance.step.kind, instance.communicator.members
        return self.measured if self.measured and self.measured.knows(kind, members) else None

    def communicator(self, step: Step, group: int, rank: int) -> tuple[Communicator, int | Named]:
        """The communicator of a collective as a device sees it, and what it is alike to."""
        key = (step.kind, group, step.involved, rank)
        found = self._seen.get(key)
        if found is None:
            members = self.members(group, step.involved, rank)
            meeting = self.classes.meeting(group, step.involved, members)
            same = (step.kind, group, step.involved, members)
            found = self._seen.get(same)
            if found is None:
                part = len(self.inputs.groups[group]) < len(self.inputs.devices)
                communicator = self.planner.communicator(
                    group, step.kind, members, part, step.involved
                )
                found = self._seen[same] = (communicator, meeting)
            self._seen[key] = found
        return found

    @property
    def one_ring(self) -> bool:
        """Whether some collective is a ring over devices of several dimensions."""
        return any(communicator.part for communicator, _ in self._seen.values())

    def members(self, group: int, involved: tuple[bool, ...], rank: int) -> tuple[int, ...]:
        """The devices that meet in a collective.

        In the order of their numbers where all do, and where those of a communicator are looked at
        by their places in the network; else in the communicator's.
        """
        members = self.inputs.groups[group]
        if len(members) < len(self.inputs.devices):
            return tuple(sorted(members)) if self.options.by_dimension else members
        if involved and not all(involved):
            return line_of(rank, involved, self.inputs.system.npus_count)
        return self.inputs.groups[0]

    def check_start(self, communicator: Communicator, start: int) -> None:
        """Raises HespasError for a collective that makes ASTRA-sim abort."""
        if self.options.by_dimension or communicator.part:
            return
        if self.planner.endpoint_ns == 0 and start == 0:
            raise HespasError(
                "the key 'endpoint-delay' is 0 and a collective starts at time 0: ASTRA-sim aborts",
                where=str(self.inputs.system.folder / "system.json"),
            )

    def _complete(self, instance: Instance) -> None:
        of, now = self.classes.of, self.queue.now
        starts = {of[rank]: start for rank, (_, start) in instance.joined.items()}
        self.check_start(instance.communicator, min(starts.values()))
        try:
            finishes = self._by_class(instance, starts)
        except HespasError as error:
            rank, (position, _) = next(iter(instance.joined.items()))
            where = self.runner(rank).where(position)
            raise HespasError(error.message, where=where, remedy=error.remedy) from None
        for rank, (position, _) in instance.joined.items():
            end, since = finishes[of[rank]]
            argument = (self.runner(rank), position, end)
            self.queue.at(max(now, since), self._register, argument)
        self.over(instance, max(finish.end_ns for finish in finishes.values()))

    def _by_class(self, instance: Instance, starts: dict[int, int]) -> dict[int, Finish]:
        """When the devices of each class finish; raises NotAlike where those of one differ."""
        communicator, of = instance.communicator, self.classes.of
        measured = self.curves_of(instance)
        if len(starts) == 1 and measured is None:
            (known, start), = starts.items()  # fmt: skip
            one = self.collectives.alike(communicator, next(iter(instance.chunks.values())))
            if one is not None:
                return {known: Finish(one.end_ns + start, one.since_ns + start)}
        members = communicator.members
        by_position = [starts[of[member]] for member in members]
        if measured is not None:
            step, copies = instance.step, len(self.classes.alike(instance.meeting))
            found = measured.finish(step.kind, step.size, by_position, copies)
        else:
            plans = {of[rank]: plan for rank, plan in instance.chunks.items()}
            found = self.collectives.finish(
                communicator, by_position, [plans[of[member]] for member in members]
            )
        finishes: dict[int, Finish] = {}
        for member, finish in zip(members, found, strict=True):
            if finishes.setdefault(of[member], finish) != finish:
                raise NotAlike
        return finishes

    def _register(self, argument: tuple[Runner, int, int]) -> None:
        runner, position, end = argument
        runner.endpoint.after(end - self.queue.now, runner.end, position)
