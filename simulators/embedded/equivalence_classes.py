"""Equivalence classes of devices: one device of a class is simulated for all of them.

Partition refinement. Invariant: devices that have been separated behave differently; the classes
only ever split. Devices start in classes by the program that they run. A class is split as long as
its devices differ in one of these: for each communicator, the classes of its members in order and
the links between them; for each peer, its class and the link to it. What remains together exchanges
equal messages at equal times.

Refinement cannot see one thing: an algorithm that treats the positions of a communicator unequally.
The engine compares the results of each collective and raises AsymmetricFinish if they differ within
a class. The classes are then refined with ``by_position``, which separates positions too.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_inputs import SimulatedDevice, SimulationInputs
from hespas.simulators.simulation_steps import find_spanned_dimensions


class AsymmetricFinish(Exception):
    """Devices of one class finish a collective at different times."""


class AmbiguousOrder(Exception):
    """The order of events within one nanosecond may differ between the devices of a class."""


class LinkForms(Protocol):
    """Describes links so that equal descriptions mean equal links."""

    def describe_groups(
        self, groups: Sequence[tuple[int, tuple[int, ...], tuple[bool, ...]]]
    ) -> Sequence[tuple[Hashable, Hashable]]:
        """Describe the links between the devices of communicators, and how they are planned.

        Each communicator is given by its id, its devices, and the dimensions that are spanned.
        Those with equal second descriptions are planned together if they run at once.
        """
        ...

    def describe_messages(self, pairs: Sequence[tuple[int, int]]) -> Sequence[Hashable]:
        """Describe the links from a source to a target each."""
        ...


MembersFunction = Callable[[int, tuple[bool, ...], int], tuple[int, ...]]
"""Returns the devices of a collective by communicator, spanned dimensions, and one of them."""

CommunicatorKey = tuple[int, tuple[int, ...]]
"""The id of a communicator, and those of its devices that meet."""

CommunicatorClass = int | CommunicatorKey
"""The number of a class of communicators; the communicator itself if it has no equivalent."""


@dataclass
class EquivalenceClasses:
    """The classes of devices and communicators.

    Attributes:
        class_of: The class of each device.
        first: The first device of each class, which represents it.
        size: The number of devices of each class.
        peers: The peers of each device, in the order in which its program names them.
        communicator_classes: The class of each communicator: id, spanned dimensions, devices.
        communicators: The communicators of each class of communicators.
        siblings: The communicators that programs name in the same place, by number.
        sibling_sets: The number of the siblings of a communicator.

    All but the first three are empty if every device is its own class and was not compared.
    """

    class_of: Sequence[int]
    first: Sequence[int]
    size: Sequence[int]
    peers: Sequence[Sequence[int]] = ()
    communicator_classes: dict[tuple[int, tuple[bool, ...], tuple[int, ...]], int] = field(
        default_factory=dict
    )
    communicators: dict[int, list[CommunicatorKey]] = field(default_factory=dict)
    siblings: dict[int, list[CommunicatorKey]] = field(default_factory=dict)
    sibling_sets: dict[CommunicatorKey, int] = field(default_factory=dict)

    def list_symmetric_communicators(
        self, communicator_class: CommunicatorClass
    ) -> list[CommunicatorKey]:
        """Return the communicators of a class, in the same order for every device."""
        if isinstance(communicator_class, int):
            return self.communicators[communicator_class]
        return [communicator_class]

    def find_representative_message(self, source: int, target: int) -> tuple[int, int]:
        """Return the source and target of the simulated message that represents this one."""
        first = self.first[self.class_of[source]]
        if first == source or target not in self.peers[source]:
            return source, target
        return first, self.peers[first][self.peers[source].index(target)]

    def list_represented_messages(self, source: int, target: int) -> list[tuple[int, int]]:
        """List the messages that a simulated message stands for, itself included."""
        device_class = self.class_of[source]
        if self.size[device_class] == 1 or target not in self.peers[source]:
            return [(source, target)]
        slot = self.peers[source].index(target)
        return [
            (device, self.peers[device][slot]) for device in self.members_of_class[device_class]
        ]

    @functools.cached_property
    def members_of_class(self) -> list[list[int]]:
        """The devices of each class."""
        members: list[list[int]] = [[] for _ in self.first]
        for device, device_class in enumerate(self.class_of):
            members[device_class].append(device)
        return members


def build_singleton_classes(devices: int) -> EquivalenceClasses:
    """Make each device its own class."""
    return EquivalenceClasses(range(devices), range(devices), [1] * devices)


@dataclass(slots=True)
class _UsedCommunicator:
    """A communicator in use, or the devices of a line if only some dimensions are spanned.

    Attributes:
        key: The id, the spanned dimensions, and the members.
        slots: By device, the rank of this communicator in the order in which its program names
            communicators.
        links_form: A number that is equal for communicators with equal links between members.
        plan_form: A number that is equal for communicators that may be planned together.
    """

    key: tuple[int, tuple[bool, ...], tuple[int, ...]]
    slots: dict[int, int] = field(default_factory=dict)
    links_form: int = -1
    plan_form: int = -1

    @property
    def members(self) -> tuple[int, ...]:
        return self.key[2]


@dataclass(slots=True)
class _RefinedDevice:
    """A device: its class so far, its (communicator, position) pairs, and its peers.

    The form of the links to each peer is in ``routes``.
    """

    device_class: int
    memberships: list[tuple[int, int]]
    peers: list[int]
    routes: list[int]


class _ClassRefiner:
    """Splits classes until they are stable."""

    def __init__(
        self,
        inputs: SimulationInputs,
        links: LinkForms,
        find_members: MembersFunction,
        by_position: bool,
        has_broadcasts: bool,
    ) -> None:
        self.find_members, self.by_position = find_members, by_position
        self.communicators: list[_UsedCommunicator] = []
        self._indices: dict[tuple, int] = {}  # of communicators: by id, dimensions, first device
        program_classes = _classify_programs(inputs)
        partners: dict[int, tuple[list[tuple[int, tuple[bool, ...]]], list[int]]] = {}
        used_by_device: list[list[int]] = []
        self.devices: list[_RefinedDevice] = []
        for rank, device in enumerate(inputs.devices):
            program = device.program
            if id(program) not in partners:
                partners[id(program)] = _collect_partners(device, inputs.system, has_broadcasts)
            groups, program_peers = partners[id(program)]
            used = []
            for slot, (group, spanned) in enumerate(groups):
                at = self._index_communicator(device.groups.get(group, group), spanned, rank)
                self.communicators[at].slots[rank] = slot
                used.append(at)
            used_by_device.append(used)
            peers = [device.peers.get(peer, peer) for peer in program_peers]
            self.devices.append(_RefinedDevice(program_classes[rank], [], peers, []))
        positions = [
            {m: i for i, m in enumerate(communicator.members)}
            for communicator in self.communicators
        ]
        for rank, used in enumerate(used_by_device):
            self.devices[rank].memberships = [(at, positions[at][rank]) for at in used]
        self._describe_links(links)

    def _index_communicator(self, group: int, spanned: tuple[bool, ...], rank: int) -> int:
        members = self.find_members(group, spanned, rank)
        key = (group, spanned, members[0])  # not all members, of which a hash takes long
        at = self._indices.get(key)
        if at is None:
            at = self._indices[key] = len(self.communicators)
            self.communicators.append(_UsedCommunicator((group, spanned, members)))
        return at

    def _describe_links(self, links: LinkForms) -> None:
        groups = [(group, members, spanned) for group, spanned, members in (
            communicator.key for communicator in self.communicators
        )]  # fmt: skip
        descriptions = links.describe_groups(groups)
        forms = _number_distinct([form for form, _ in descriptions])
        plans = _number_distinct([plan for _, plan in descriptions])
        for communicator, form, plan in zip(self.communicators, forms, plans, strict=True):
            communicator.links_form, communicator.plan_form = form, plan
        pairs = [(rank, peer) for rank, device in enumerate(self.devices) for peer in device.peers]
        routes = iter(_number_distinct(links.describe_messages(pairs)))
        for device in self.devices:
            device.routes = [next(routes) for _ in device.peers]

    def classify_communicators(self) -> tuple[list[int], list[bool]]:
        """Assign each communicator an equivalence class.

        Returns:
            The class of each communicator, and whether all its members are equivalent.
        """
        known: dict[tuple, int] = {}
        communicator_classes, symmetric = [], []
        class_of = [device.device_class for device in self.devices]
        for communicator in self.communicators:
            slots = communicator.slots
            members = tuple([(class_of[m], slots.get(m, -1)) for m in communicator.members])
            is_symmetric = members.count(members[0]) == len(members)
            symmetric.append(is_symmetric)
            # Members that are all alike have no order that matters. Of others it does, because
            # algorithms treat them by their positions.
            key = ((members[0], len(members)) if is_symmetric else members, communicator.links_form)
            communicator_classes.append(known.setdefault(key, len(known)))
        return communicator_classes, symmetric

    def refine_classes(self) -> bool:
        """Split the classes once by what their devices meet; return whether any was split."""
        communicator_classes, symmetric = self.classify_communicators()
        class_of = [device.device_class for device in self.devices]
        signatures = []
        for rank, device in enumerate(self.devices):
            meets = tuple([
                (communicator_classes[at], place if self.by_position or not symmetric[at] else -1)
                for at, place in device.memberships
            ])  # fmt: skip
            # A message stands for those of its class by the slot of its target among the peers of
            # its source, so that devices of one class must have the same slot there.
            sends = tuple([
                (class_of[peer], route, self._find_reverse_peer(peer, rank))
                for peer, route in zip(device.peers, device.routes, strict=True)
            ])  # fmt: skip
            # With the class so far in it, classes only split, so that the refinement ends.
            signatures.append((device.device_class, meets, sends))
        refined = _number_distinct(signatures)
        for device, device_class in zip(self.devices, refined, strict=True):
            device.device_class = device_class
        return max(refined) > max(class_of)

    def _find_reverse_peer(self, peer: int, rank: int) -> int:
        """Return the index of ``rank`` among the peers of ``peer``; -1 if it is not one of them."""
        peers = self.devices[peer].peers
        return peers.index(rank) if rank in peers else -1


def find_equivalence_classes(
    inputs: SimulationInputs,
    links: LinkForms,
    find_members: MembersFunction,
    by_position: bool = False,
    *,
    merges: bool = True,
    has_broadcasts: bool = False,
) -> EquivalenceClasses:
    """Find the equivalence classes of the devices.

    Args:
        inputs: The traces and communicators.
        links: Describes the links between devices.
        find_members: Returns the devices of a collective that a device takes part in.
        by_position: Whether to separate devices at different positions of a communicator.
        merges: Whether one device may represent others; if not, only siblings are found.
        has_broadcasts: Whether broadcasts run on the network.
    """
    refiner = _ClassRefiner(inputs, links, find_members, by_position, has_broadcasts)
    siblings, sibling_sets = _collect_siblings(refiner)
    while merges and refiner.refine_classes():
        pass
    class_of = [device.device_class for device in refiner.devices]
    first: dict[int, int] = {}
    for rank, device_class in enumerate(class_of):
        first.setdefault(device_class, rank)
    count = len(first)
    if count == len(inputs.devices) or not merges:
        classes = build_singleton_classes(len(inputs.devices))
        classes.siblings, classes.sibling_sets = siblings, sibling_sets
        return classes
    size = [0] * count
    for device_class in class_of:
        size[device_class] += 1
    numbers, _ = refiner.classify_communicators()
    communicator_classes = {
        communicator.key: number
        for communicator, number in zip(refiner.communicators, numbers, strict=True)
    }
    communicators: dict[int, list[CommunicatorKey]] = {}
    for (group, _, members), number in sorted(communicator_classes.items()):
        communicators.setdefault(number, []).append((group, members))
    return EquivalenceClasses(
        class_of,
        [first[device_class] for device_class in range(count)],
        size,
        [device.peers for device in refiner.devices],
        communicator_classes,
        communicators,
        siblings,
        sibling_sets,
    )


def _collect_siblings(
    refiner: _ClassRefiner,
) -> tuple[dict[int, list[CommunicatorKey]], dict[CommunicatorKey, int]]:
    """Return the communicators that programs name in the same place and that are planned alike.

    Their programs may differ, as those of stages of a pipeline.
    """
    siblings: dict[int, list[CommunicatorKey]] = {}
    known: dict[tuple, int] = {}
    for communicator in refiner.communicators:
        slots = {communicator.slots.get(member, -1) for member in communicator.members}
        kind = (len(communicator.members), tuple(sorted(slots)), communicator.plan_form)
        group, _, members = communicator.key
        siblings.setdefault(known.setdefault(kind, len(known)), []).append((group, members))
    return siblings, {key: number for number, keys in siblings.items() for key in keys}


def _classify_programs(inputs: SimulationInputs) -> list[int]:
    """Number the program and speed of each device.

    Programs that differ in names only are equal.
    """
    forms: dict[tuple, int] = {}
    distinct = {id(device.program): device.program for device in inputs.devices}
    totals = {
        key: (len(program.steps), sum([step.duration_ns for step in program.steps]))
        for key, program in distinct.items()
    }
    counts = Counter(totals.values())
    numbers = {}
    for key, program in distinct.items():
        is_alone = counts[totals[key]] == 1  # then its long form is not needed
        form = totals[key] if is_alone else program.to_canonical_form()
        numbers[key] = forms.setdefault(form, len(forms))
    speeds = inputs.system.fabric.device_speeds
    return _number_distinct(
        [
            (numbers[id(device.program)], speeds.get(rank, 1.0))
            for rank, device in enumerate(inputs.devices)
        ]
    )


def _collect_partners(
    device: SimulatedDevice, system: SystemSpec, has_broadcasts: bool
) -> tuple[list[tuple[int, tuple[bool, ...]]], list[int]]:
    """Return the communicators and the peers that a program names, in order of first use.

    Each communicator comes with the dimensions that its collectives span.
    """
    groups: dict[tuple[int, tuple[bool, ...]], None] = {}
    peers: dict[int, None] = {}
    for step in device.program.steps:
        if step.group >= 0 and (has_broadcasts or step.kind != "broadcast"):
            spanned = find_spanned_dimensions(system, step.kind, step.involved)
            groups[step.group, spanned] = None
        elif step.peer >= 0:
            peers[step.peer] = None
    return list(groups), list(peers)


def _number_distinct(values: Sequence[Hashable]) -> list[int]:
    """Replace each value by the number of distinct values that came before its first occurrence."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(value, len(known)) for value in values]
