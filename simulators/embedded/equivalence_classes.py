"""Which devices behave alike, so that one of them stands for all.

Partition refinement: devices start in a class by the program that they run, and are told apart
while those in a class differ in what they meet: on each communicator the classes of its devices in
order, and their links; for each peer its class and the link. What is left cannot be told apart by
any message, so all in a class do everything at the same time. The one thing that this does not see
is an algorithm that treats positions of a communicator unequally; the engine looks at each
collective's result and says ``NotAlike``, and positions are then told apart too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from hespas.simulators.simulation_inputs import SimulatedDevice, SimulationInputs

from .collective_plan import DimensionAlgorithm, LogicalDimension
from .link_tables import build_link_table
from .network import AnalyticalNetwork


class AsymmetricFinish(Exception):
    """Devices of one class finish a collective at different times."""


class AmbiguousOrder(Exception):
    """Devices of one class may differ by the order of what ends in one nanosecond."""


CommunicatorKey = tuple[
    int, tuple[int, ...]
]  # a communicator's id, and the devices that meet in it


@dataclass(slots=True)
class EquivalenceClasses:
    """``of`` is the class of each device, ``first`` its first device, ``size`` how many it has.

    ``labels`` are equal for communicators that are alike, by id, dimensions and devices; ``named``
    are those of a label, and ``peers`` the peers of each device. All are empty where no two devices
    are alike.
    """

    class_of: Sequence[int]
    first: Sequence[int]
    size: Sequence[int]
    peers: Sequence[Sequence[int]] = ()
    labels: dict[tuple[int, tuple[bool, ...], tuple[int, ...]], int] = field(default_factory=dict)
    named: dict[int, list[CommunicatorKey]] = field(default_factory=dict)

    def find_label(
        self, group: int, involved: tuple[bool, ...], members: tuple[int, ...]
    ) -> int | CommunicatorKey:
        """What is equal for communicators that are alike; the communicator itself if none are."""
        return self.labels.get((group, involved, members), (group, members))

    def list_symmetric_communicators(self, meeting: int | CommunicatorKey) -> list[CommunicatorKey]:
        """The communicators that are alike, whatever device asks."""
        return self.named[meeting] if isinstance(meeting, int) else [meeting]

    def find_representative_message(self, source: int, target: int) -> tuple[int, int]:
        """The source and target that stand for a message."""
        first = self.first[self.class_of[source]]
        if first == source or target not in self.peers[source]:
            return source, target
        return first, self.peers[first][self.peers[source].index(target)]


def build_singleton_classes(devices: int) -> EquivalenceClasses:
    """Every device is a class of its own."""
    return EquivalenceClasses(range(devices), range(devices), [1] * devices)


@dataclass(frozen=True, slots=True)
class _UsedCommunicator:
    """A communicator, or a part of all devices by dimension, that is in use."""

    key: tuple[int, tuple[bool, ...], tuple[int, ...]]
    form: int  # equal where the links between the members are


class _ClassRefiner:
    """Splits classes until they are stable."""

    def __init__(
        self,
        inputs: SimulationInputs,
        network: AnalyticalNetwork,
        members_of: Callable[[int, tuple[bool, ...], int], tuple[int, ...]],
        positions: bool,
    ) -> None:
        self.network, self.members_of, self.positions = network, members_of, positions
        self.everybody = len(inputs.devices)
        self.meetings: list[_UsedCommunicator] = []
        self.index: dict[tuple, int] = {}
        self.forms: dict[tuple, int] = {}
        self.place: dict[tuple[int, int], int] = {}  # (meeting, device): which of the device's
        self.memberships: list[list[tuple[int, int]]] = []  # by device: meeting, position in it
        self.peers: list[list[int]] = []
        used: dict[int, tuple[list[tuple[int, tuple[bool, ...]]], list[int]]] = {}
        for rank, device in enumerate(inputs.devices):
            program = device.program
            if id(program) not in used:
                used[id(program)] = _collect_partners(device)
            groups, peers = used[id(program)]
            self.peers.append([device.peers.get(peer, peer) for peer in peers])
            memberships: list[tuple[int, int]] = []
            for slot, (group, involved) in enumerate(groups):
                at = self._index_communicator(device.groups.get(group, group), involved, rank)
                self.place[at, rank] = slot
                memberships.append((at, 0))
            self.memberships.append(memberships)
        where = [{m: i for i, m in enumerate(meeting.key[2])} for meeting in self.meetings]
        self.memberships = [
            [(at, where[at][rank]) for at, _ in memberships]
            for rank, memberships in enumerate(self.memberships)
        ]
        forms: dict[tuple, int] = {}
        programs = {
            id(device.program): forms.setdefault(device.program.to_canonical_form(), len(forms))
            for device in {id(d.program): d for d in inputs.devices}.values()
        }
        self.colours = _number_distinct([programs[id(device.program)] for device in inputs.devices])

    def _index_communicator(self, group: int, involved: tuple[bool, ...], rank: int) -> int:
        members = self.members_of(group, involved, rank)
        key = (group, involved, members)
        at = self.index.get(key)
        if at is None:
            at = self.index[key] = len(self.meetings)
            self.meetings.append(_UsedCommunicator(key, self._classify_links(members, involved)))
        return at

    def _classify_links(self, members: tuple[int, ...], involved: tuple[bool, ...]) -> int:
        form: tuple = (len(members), involved)
        if len(members) < self.everybody and not involved:
            links = build_link_table(
                self.network, LogicalDimension(DimensionAlgorithm("ring"), len(members), 1, members)
            )
            node = self.network.counts[0]
            one = len({member // node for member in members}) == 1
            form = (links.codes.tobytes(), links.links, len(members), one)
        return self.forms.setdefault(form, len(self.forms))

    def label_communicators(self) -> tuple[list[int], list[bool]]:
        """A number for each meeting, equal where they are alike; and whether its members are."""
        known: dict[tuple, int] = {}
        labels, even = [], []
        for at, meeting in enumerate(self.meetings):
            members = meeting.key[2]
            label = tuple([(self.colours[m], self.place.get((at, m), -1)) for m in members])
            even.append(label.count(label[0]) == len(label))
            short = (label[0], len(label)) if even[-1] else label
            labels.append(known.setdefault((short, meeting.form), len(known)))
        return labels, even

    def refine_classes(self) -> bool:
        """Tell devices apart once; whether there was anything to tell."""
        labels, even = self.label_communicators()
        before = max(self.colours)
        seen = []
        for rank, (memberships, peers) in enumerate(zip(self.memberships, self.peers, strict=True)):
            meets = tuple([
                (labels[at], place if self.positions or not even[at] else -1) for at, place in memberships
            ])  # fmt: skip
            sends = tuple([
                (self.colours[peer], self.network.find_route(rank, peer), self._find_reverse_peer(peer, rank))
                for peer in peers
            ])  # fmt: skip
            seen.append((self.colours[rank], meets, sends))
        self.colours = _number_distinct(seen)
        return max(self.colours) > before

    def _find_reverse_peer(self, peer: int, rank: int) -> int:
        theirs = self.peers[peer]
        return theirs.index(rank) if rank in theirs else -1


def find_equivalence_classes(
    inputs: SimulationInputs,
    network: AnalyticalNetwork,
    members_of: Callable[[int, tuple[bool, ...], int], tuple[int, ...]],
    positions: bool = False,
) -> EquivalenceClasses:
    """The classes of devices that behave alike; ``positions`` as the module says.

    ``members_of(group, involved, rank)`` are the devices that meet in a collective.
    """
    refiner = _ClassRefiner(inputs, network, members_of, positions)
    while refiner.refine_classes():
        pass
    first: dict[int, int] = {}
    size: dict[int, int] = {}
    for rank, colour in enumerate(refiner.colours):
        first.setdefault(colour, rank)
        size[colour] = size.get(colour, 0) + 1
    count = len(first)
    if count == len(inputs.devices):
        return build_singleton_classes(count)
    communicator_labels, _ = refiner.label_communicators()
    labels = {
        meeting.key: label
        for meeting, label in zip(refiner.meetings, communicator_labels, strict=True)
    }
    named: dict[int, list[CommunicatorKey]] = {}
    for (group, _, members), label in sorted(labels.items()):
        named.setdefault(label, []).append((group, members))
    return EquivalenceClasses(
        refiner.colours,
        [first[c] for c in range(count)],
        [size[c] for c in range(count)],
        refiner.peers,
        labels,
        named,
    )


def _collect_partners(
    device: SimulatedDevice,
) -> tuple[list[tuple[int, tuple[bool, ...]]], list[int]]:
    """The communicators and the peers that a program names, in order of first use."""
    groups: dict[tuple[int, tuple[bool, ...]], None] = {}
    peers: dict[int, None] = {}
    for step in device.program.steps:
        if step.group >= 0 and step.kind != "broadcast":
            groups[step.group, step.involved] = None
        elif step.peer >= 0:
            peers[step.peer] = None
    return list(groups), list(peers)


def _number_distinct(values: Sequence[Hashable]) -> list[int]:
    known: dict[Hashable, int] = {}
    return [known.setdefault(value, len(known)) for value in values]
