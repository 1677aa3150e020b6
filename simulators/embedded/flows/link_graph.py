"""The links of a network, and the ways of messages through them.

A link is one direction between two places: devices or switches. Every dimension has the same number
of ports on each device, and the link of a port has the number ``base + port * devices + device``,
so that many messages are routed at once by arithmetic on arrays. A message crosses dimension 0
first, then 1 and so on. In a Ring it takes the shorter way; of two equal ways, devices with an even
coordinate go up and those with an odd one down, unless the message says otherwise. A message whose
way crosses a link that is down takes a shortest way around it.

==============  ====================================================================
kind            ports of a device
==============  ====================================================================
Ring, Mesh      up, down; a Mesh has no link between its ends
Switch          to the switch, from the switch
FullyConnected  one to each other device
FatTree         from the switch of the lower dimensions to the one above, and back
Dragonfly       from the switch, or the group of switches, of the lower dimensions to
                each other one
==============  ====================================================================

The links of a FatTree and a Dragonfly belong to the first device below their switch. A trunk of
several cables is one link: it is assumed that messages spread evenly over its cables.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from hespas.configs.system_spec import SystemSpec
from hespas.support.errors import HespasError

from ..link_arrays import Array

UP, DOWN, EITHER = 1, -1, 0
"""The direction that a message takes in a Ring if both ways are equally long."""


class Messages(NamedTuple):
    """Messages by source and target, each with its direction if both ways around are equal."""

    sources: Array
    targets: Array
    ties: Array | int = EITHER

    def select(self, chosen: Array) -> Messages:
        """Return some of the messages."""
        ties = self.ties if isinstance(self.ties, int) else self.ties[chosen]
        return Messages(self.sources[chosen], self.targets[chosen], ties)


class _SingleHops(NamedTuple):
    """Links that messages cross, one link for each entry."""

    messages: Array
    links: Array


class _RingRuns(NamedTuple):
    """Runs of neighbouring links of a dimension that messages cross, all in one direction.

    Attributes:
        messages: The messages.
        dim: The dimension.
        port: 0 upwards, 1 downwards.
        lines: The line of the dimension that each message is on.
        starts: The lowest coordinate of the devices at which the links begin.
        lengths: The number of links.
    """

    messages: Array
    dim: int
    port: int
    lines: Array
    starts: Array
    lengths: Array


@dataclass(frozen=True)
class LinkGraph:
    """The links of a network.

    Attributes:
        topology: The kind of each dimension.
        counts: The devices of each dimension; the first one varies fastest in a device's number.
        capacities: The bytes per nanosecond of each link; 0 if it does not exist or is down.
        latencies_ns: The latency of a hop in each dimension.
        down: Whether each link is down.
        slow: Whether each link has less than its bandwidth, or is down.
        group_links: The links between two groups of a Dragonfly.
        has_double_pairs: Whether a Ring of two devices has two links in each direction.
    """

    topology: tuple[str, ...]
    counts: tuple[int, ...]
    capacities: Array
    latencies_ns: tuple[float, ...]
    down: Array
    slow: Array
    group_links: int = 1
    has_double_pairs: bool = True
    _routes: dict[tuple[int, int, int], tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def from_system(cls, system: SystemSpec) -> LinkGraph:
        """Build the links of a system."""
        counts, fabric = system.npus_count, system.fabric
        empty, no_links = np.zeros(0), np.zeros(0, bool)
        layout = cls(
            system.topology, counts, empty, system.latency_ns, no_links, no_links,
            _count_group_links(system), fabric.directions_at_once,
        )  # fmt: skip
        blocks = []
        for dim, bandwidth in enumerate(system.bandwidth_gib_s):
            rate = bandwidth * (1 << 30) / 1_000_000_000
            blocks.append(rate * layout._list_widths(dim))
        capacities = np.concatenate(blocks)
        shares = np.ones(len(capacities))
        for link in fabric.slow_links:
            shares[layout.find_links_between(link.dimension, link.devices)] = link.bandwidth_share
        for device in fabric.down_devices:
            shares[layout._find_links_of_device(device)] = 0
        is_slow = (capacities > 0) & (shares < 1)
        is_down = is_slow & (shares == 0)
        return replace(layout, capacities=capacities * shares, down=is_down, slow=is_slow)

    @functools.cached_property
    def place_count(self) -> int:
        """The number of places for devices, including devices that are down."""
        return math.prod(self.counts)

    @functools.cached_property
    def strides(self) -> tuple[int, ...]:
        """The difference of the numbers of neighbours in each dimension."""
        return tuple(itertools.accumulate(self.counts[:-1], int.__mul__, initial=1))

    @functools.cached_property
    def bases(self) -> tuple[int, ...]:
        """The number of the first link of each dimension, and of all links."""
        ports = (self._count_ports(dim) * self.place_count for dim in range(len(self.counts)))
        return tuple(itertools.accumulate(ports, initial=0))

    @functools.cached_property
    def tiers(self) -> tuple[range, ...]:
        """The dimensions that a message crosses together: a Switch with those above its switch."""
        starts = [
            dim for dim, kind in enumerate(self.topology) if kind not in ("FatTree", "Dragonfly")
        ]
        return tuple(map(range, starts, [*starts[1:], len(self.counts)]))

    def find_tier(self, dim: int) -> int:
        """Return the number of the tier of a dimension."""
        return next(at for at, tier in enumerate(self.tiers) if dim in tier)

    def _count_ports(self, dim: int) -> int:
        pairwise = self.topology[dim] in ("FullyConnected", "Dragonfly")
        return self.counts[dim] - 1 if pairwise else 2

    def _list_widths(self, dim: int) -> Array:
        """Return the capacity of each link of a dimension over that of one device; 0 if absent."""
        devices = np.arange(self.place_count)
        here, kind, count = (
            self._get_coordinates(devices, dim),
            self.topology[dim],
            self.counts[dim],
        )
        widths = np.ones((self._count_ports(dim), self.place_count))
        if self._is_line(dim):
            widths[0, here == count - 1] = 0
            widths[1, here == 0] = 0
        if kind in ("FatTree", "Dragonfly"):
            widths[:, devices != self._find_first_below(devices, dim)] = 0
        if kind == "FatTree":
            widths *= self._count_devices_below(dim)
        if self._joins_groups(dim):
            switches = self._get_coordinates(devices, dim - 1)
            for offset in range(1, count):
                is_gate = self._find_gates(dim, offset, switches)[0] == switches
                widths[offset - 1] *= is_gate / self.group_links
        return widths.reshape(-1)

    def _is_line(self, dim: int) -> bool:
        """Return whether a dimension has no link between its ends."""
        is_pair = self.topology[dim] == "Ring" and self.counts[dim] == 2
        return self.topology[dim] == "Mesh" or (is_pair and not self.has_double_pairs)

    def _joins_groups(self, dim: int) -> bool:
        """Return whether a dimension is that of the groups of a Dragonfly."""
        return dim > 0 and self.topology[dim - 1 : dim + 1] == ("Dragonfly", "Dragonfly")

    def _get_coordinates(self, devices: Array, dim: int) -> Array:
        return devices // self.strides[dim] % self.counts[dim]

    def _count_devices_below(self, dim: int) -> int:
        """Count the devices below a switch that a link of a FatTree or Dragonfly starts at."""
        first = self.tiers[self.find_tier(dim)][0]
        return math.prod(self.counts[first : first + 1 if self._joins_groups(dim) else dim])

    def _find_first_below(self, devices: Array, dim: int) -> Array:
        """Return the first device below the same switch, of those below dimension ``dim``."""
        stride = self.strides[self.tiers[self.find_tier(dim)][0]]
        return devices - devices // stride % self._count_devices_below(dim) * stride

    def find_only_dimension(self, lines: Array) -> int | None:
        """Return the dimension in which the devices of each line differ; None for several."""
        differing = [
            dim
            for dim in range(len(self.counts))
            if (self._get_coordinates(lines, dim) != self._get_coordinates(lines[:, :1], dim)).any()
        ]
        return differing[0] if len(differing) == 1 else None

    # Ways of messages

    def _walk(self, messages: Messages) -> Iterator[_SingleHops | _RingRuns]:
        """Yield the links that messages cross, dimension by dimension, if no link is down."""
        at, targets = messages.sources, messages.targets
        for tier in self.tiers:
            dim, stride = tier[0], self.strides[tier[0]]
            count = math.prod(self.counts[d] for d in tier)
            here, there = at // stride % count, targets // stride % count
            moving = np.flatnonzero(here != there)
            ends = at[moving], (at + (there - here) * stride)[moving]
            if not len(moving):
                continue
            if self.topology[dim] in ("Ring", "Mesh"):
                ties = messages.ties
                ties = ties if isinstance(ties, int) else ties[moving]
                yield from self._walk_ring(dim, moving, ends[0], here[moving], there[moving], ties)
            elif self.topology[dim] == "FullyConnected":
                offsets = (there[moving] - here[moving]) % count
                yield _SingleHops(moving, self._number_links(dim, offsets - 1, ends[0]))
            else:
                yield _SingleHops(moving, self._number_links(dim, 0, ends[0]))
                yield _SingleHops(moving, self._number_links(dim, 1, ends[1]))
                if self.topology[tier[-1]] == "Dragonfly":
                    yield from self._walk_dragonfly(tier, moving, *ends)
                else:
                    for upper in tier[1:]:
                        yield from self._walk_trunks(upper, moving, *ends)
            at = at + (there - here) * stride

    def _number_links(self, dim: int, ports: Array | int, devices: Array) -> Array:
        return self.bases[dim] + ports * self.place_count + devices

    def _walk_ring(
        self, dim: int, moving: Array, at: Array, here: Array, there: Array, ties: Array | int
    ) -> Iterator[_RingRuns]:
        count = self.counts[dim]
        if self._is_line(dim):
            upwards, hops = there > here, np.abs(there - here)
        else:
            up = (there - here) % count
            ties = np.where(np.equal(ties, EITHER), np.where(here % 2, DOWN, UP), ties)
            upwards = np.where(2 * up == count, ties == UP, 2 * up < count)
            hops = np.where(upwards, up, count - up)
        lines = self._number_lines(dim, at)
        for port, chosen in enumerate((upwards, ~upwards)):
            some = np.flatnonzero(chosen)
            if len(some):
                lengths = hops[some]
                starts = here[some] if port == 0 else (here[some] - lengths + 1) % count
                yield _RingRuns(moving[some], dim, port, lines[some], starts, lengths)

    def _number_lines(self, dim: int, devices: Array) -> Array:
        """Number the lines of a dimension: the lower dimensions vary fastest."""
        stride = self.strides[dim]
        return devices // (stride * self.counts[dim]) * stride + devices % stride

    def _walk_trunks(self, dim: int, moving: Array, at: Array, to: Array) -> Iterator[_SingleHops]:
        below = self._find_first_below(at, dim), self._find_first_below(to, dim)
        rising = np.flatnonzero(below[0] != below[1])
        for port, ends in enumerate(below):
            yield _SingleHops(moving[rising], self._number_links(dim, port, ends[rising]))

    def _walk_dragonfly(
        self, tier: range, moving: Array, at: Array, to: Array
    ) -> Iterator[_SingleHops]:
        """Yield the links of messages between switches, and between groups of switches.

        The links of a group to the others are spread over its switches in order. A message to
        another group first crosses to the switch that has the link.
        """
        dim, switches = tier[1], self.counts[tier[1]]
        here, there = self._get_coordinates(at, dim), self._get_coordinates(to, dim)
        leaves, arrives, is_away = there, there, np.zeros(len(at), dtype=bool)
        if len(tier) > 2:
            upper, groups = tier[2], self.counts[tier[2]]
            offsets = (self._get_coordinates(to, upper) - self._get_coordinates(at, upper)) % groups
            is_away = offsets > 0
            gates = self._find_gates(upper, np.maximum(offsets, 1), here)
            leaves, arrives = (np.where(is_away, gate, there) for gate in gates)
            gate_devices = at + (leaves - here) * self.strides[dim]
            yield self._link_pairwise(upper, moving, gate_devices, offsets)
        yield self._link_pairwise(dim, moving, at, (leaves - here) % switches)
        entered = to + (arrives - there) * self.strides[dim]
        yield self._link_pairwise(dim, moving, entered, is_away * (there - arrives) % switches)

    def _find_gates(self, dim: int, offsets: Array | int, switches: Array) -> tuple[Array, Array]:
        """Return the switches at the ends of a link between groups.

        Two groups have one link, or several that are spread over their switches. A message takes
        the one at its own switch, or at the last one before it.

        Args:
            dim: The dimension of the groups.
            offsets: The number of groups to the other group.
            switches: The switches that messages come from.
        """
        count, others = self.counts[dim - 1], self.counts[dim] - 1
        step = count // self.group_links
        first, entry = (
            (offset - 1) * count // others for offset in (offsets, others + 1 - offsets)
        )
        chosen = np.minimum((switches - first) % count // step, self.group_links - 1) * step
        return (first + chosen) % count, (entry + chosen) % count

    def _link_pairwise(
        self, dim: int, moving: Array, devices: Array, offsets: Array
    ) -> _SingleHops:
        """Return the links to the switch or group that is ``offsets`` further; none for 0."""
        some = np.flatnonzero(offsets)
        begin = self._find_first_below(devices[some], dim)
        return _SingleHops(moving[some], self._number_links(dim, offsets[some] - 1, begin))

    # Sums over messages

    def count_messages(self, messages: Messages) -> Array:
        """Count the messages that cross each link."""
        if self.has_down_links:
            messages, detours = self._split_detours(messages)
            links = [np.array(route, dtype=np.int64) for route in detours.values()]
        else:
            links = []
        counts = np.zeros(self.bases[-1])
        for hops in self._walk(messages):
            if isinstance(hops, _SingleHops):
                links.append(hops.links)
            else:
                self._get_port(counts, hops.dim, hops.port)[:] += self._count_runs(hops)
        if links:
            counts += np.bincount(np.concatenate(links), minlength=len(counts))
        return counts

    def _get_port(self, values: Array, dim: int, port: int) -> Array:
        """Return a view of the values of a port, by upper dimensions, coordinate and lower ones."""
        base = self.bases[dim] + port * self.place_count
        shape = (-1, self.counts[dim], self.strides[dim])
        return values[base : base + self.place_count].reshape(shape)

    def _count_runs(self, runs: _RingRuns) -> Array:
        """Count the runs that cover each link of a dimension, in the form of ``_get_port``."""
        count, stride = self.counts[runs.dim], self.strides[runs.dim]
        width, lines = 2 * count + 1, self.place_count // count
        first = runs.lines * width + runs.starts
        changes = np.bincount(first, minlength=lines * width)
        changes = changes - np.bincount(first + runs.lengths, minlength=lines * width)
        covered = changes.reshape(lines, width).cumsum(axis=1)
        folded = covered[:, :count] + covered[:, count : 2 * count]
        return folded.reshape(-1, stride, count).transpose(0, 2, 1)

    def find_crossing(self, messages: Messages, marked: Array) -> Array:
        """Return whether each message crosses any of the links that are marked."""
        result = self._find_usual_crossing(messages, marked)
        if self.has_down_links:
            for message, route in self._split_detours(messages)[1].items():
                result[message] = marked[list(route)].any()
        return result

    def find_slow_groups(self, groups: Array) -> Array:
        """Return whether any usual way between the devices of each group has a slow link."""
        result = np.zeros(len(groups), dtype=bool)
        if self.slow.any():
            for distance in range(1, groups.shape[1]):
                targets = np.roll(groups, distance, axis=1)
                crossing = self._find_usual_crossing(
                    Messages(groups.ravel(), targets.ravel()), self.slow
                )
                result |= crossing.reshape(groups.shape).any(axis=1)
                if result.all():
                    break
        return result

    def _find_usual_crossing(self, messages: Messages, marked: Array) -> Array:
        result = np.zeros(len(messages.sources), dtype=bool)
        for hops in self._walk(messages):
            if isinstance(hops, _SingleHops):
                result[hops.messages[marked[hops.links]]] = True
                continue
            lines = self._get_port(marked, hops.dim, hops.port).transpose(0, 2, 1)
            lines = lines.reshape(-1, self.counts[hops.dim])
            passed = np.concatenate((lines, lines), axis=1).cumsum(axis=1)
            passed = np.concatenate((np.zeros((len(lines), 1), dtype=int), passed), axis=1)
            ends = passed[hops.lines, hops.starts + hops.lengths]
            result[hops.messages[ends > passed[hops.lines, hops.starts]]] = True
        return result

    def measure_latencies_ns(self, messages: Messages) -> Array:
        """Return the latency of each message."""
        latencies = np.zeros(len(messages.sources))
        by_link = self._link_latencies_ns
        for hops in self._walk(messages):
            if isinstance(hops, _SingleHops):
                np.add.at(latencies, hops.messages, by_link[hops.links])
            else:
                latencies[hops.messages] += hops.lengths * self.latencies_ns[hops.dim]
        if self.has_down_links:
            for message, route in self._split_detours(messages)[1].items():
                latencies[message] = by_link[list(route)].sum()
        return latencies

    @functools.cached_property
    def _link_latencies_ns(self) -> Array:
        return np.repeat(self.latencies_ns, np.diff(self.bases))

    def sum_latency_ns(self, links: Sequence[int]) -> float:
        """Return the latency of a way."""
        return float(self._link_latencies_ns[list(links)].sum())

    # Single messages, and links that are down

    def list_route(self, source: int, target: int, tie: int = EITHER) -> tuple[int, ...]:
        """Return the links that a message crosses, in no particular order.

        Raises:
            HespasError: The message has no way to go.
        """
        key = (source, target, tie)
        route = self._routes.get(key)
        if route is None:
            message = Messages(np.array([source]), np.array([target]), tie)
            route = tuple(np.flatnonzero(self.count_messages(message)).tolist())
            self._routes[key] = route
        return route

    @functools.cached_property
    def has_down_links(self) -> bool:
        """Whether any link is down."""
        return bool(self.down.any())

    def _split_detours(self, messages: Messages) -> tuple[Messages, dict[int, tuple[int, ...]]]:
        """Return the messages whose usual way is free, and the ways of the others by number."""
        blocked = self._find_usual_crossing(messages, self.down)
        detours = {
            number: self._find_detour(int(messages.sources[number]), int(messages.targets[number]))
            for number in np.flatnonzero(blocked).tolist()
        }
        return messages.select(np.flatnonzero(~blocked)), detours

    def _find_detour(self, source: int, target: int) -> tuple[int, ...]:
        """Return a way with the fewest links, by breadth-first search; raises HespasError."""
        key = (source, target, 2)
        if key in self._routes:
            return self._routes[key]
        came: dict[int, tuple[int, int]] = {}
        queue = deque([source])
        while queue and target not in came:
            place = queue.popleft()
            for link, end in self._links_by_start.get(place, ()):
                if end != source and end not in came:
                    came[end] = (link, place)
                    queue.append(end)
        if target not in came:
            raise HespasError(f"there is no way from device {source} to device {target}")
        route, place = [], target
        while place != source:
            link, place = came[place]
            route.append(link)
        self._routes[key] = tuple(route)
        return self._routes[key]

    @functools.cached_property
    def _links_by_start(self) -> dict[int, list[tuple[int, int]]]:
        starts, ends = self.link_ends
        links: dict[int, list[tuple[int, int]]] = {}
        for link in np.flatnonzero(self.capacities).tolist():
            links.setdefault(int(starts[link]), []).append((link, int(ends[link])))
        return links

    # Names of links

    @functools.cached_property
    def link_ends(self) -> tuple[Array, Array]:
        """The places at which links start and end.

        A place below ``place_count`` is a device. The switch of dimension d that device i is the
        first one below has the number ``(d + 1) * place_count + i``.
        """
        starts, ends = [], []
        devices = np.arange(self.place_count)
        for dim, kind in enumerate(self.topology):
            here, stride, count = (
                self._get_coordinates(devices, dim),
                self.strides[dim],
                self.counts[dim],
            )
            for port in range(self._count_ports(dim)):
                if kind in ("Switch", "FatTree"):
                    ways = (
                        self._find_switches(dim - 1, devices) if kind == "FatTree" else devices,
                        self._find_switches(dim, devices - here * stride),
                    )
                    begin, end = ways if port == 0 else ways[::-1]
                else:
                    step = (1, -1)[port] if kind in ("Ring", "Mesh") else port + 1
                    begin, end = devices, devices + ((here + step) % count - here) * stride
                if kind == "Dragonfly":
                    begin, end = self._find_dragonfly_ends(dim, port + 1, begin, end)
                starts.append(begin)
                ends.append(end)
        return np.concatenate(starts), np.concatenate(ends)

    def _find_switches(self, dim: int, devices: Array) -> Array:
        """Return the switches of a dimension by their first devices."""
        return (dim + 1) * self.place_count + devices

    def _find_dragonfly_ends(
        self, dim: int, offset: int, begin: Array, end: Array
    ) -> tuple[Array, Array]:
        """Return the switches at the ends of the links between switches or groups of them."""
        first = self.tiers[self.find_tier(dim)][0]
        if self._joins_groups(dim):
            switches = self._get_coordinates(begin, dim - 1)
            entries = self._find_gates(dim, offset, switches)[1]
            end = end + (entries - switches) * self.strides[dim - 1]
        return self._find_switches(first, begin), self._find_switches(first, end)

    def describe_link(self, link: int) -> tuple[int, str, str]:
        """Return the dimension of a link, and the names of the places at its ends."""
        dim = next(dim for dim, base in enumerate(self.bases[1:]) if link < base)
        starts, ends = self.link_ends
        return dim, self._name_place(int(starts[link])), self._name_place(int(ends[link]))

    def _name_place(self, place: int) -> str:
        number, device = divmod(place, self.place_count)
        if number == 0:
            return str(device)
        level = number - 1 - self.tiers[self.find_tier(number - 1)][0]
        return f"switch of {device}" + (f", level {level + 1}" if level else "")

    def find_links_between(self, dim: int, devices: Sequence[int]) -> Array:
        """Return the links of a dimension between two devices, or between a device and its switch.

        In a FatTree or Dragonfly, a device stands for the switch or group of switches below it.
        """
        links = slice(*self.bases[dim : dim + 2])
        starts, ends = (places[links] for places in self.link_ends)
        if self.topology[dim] in ("Switch", "FatTree"):
            starts = ends = np.minimum(starts, ends)  # the place below the switch
        name_place = self._get_coordinates if self._joins_groups(dim) else self._find_first_below
        starts, ends, low, high = (
            name_place(np.asarray(places) % self.place_count, dim)
            for places in (starts, ends, devices[0], devices[-1])
        )
        is_between = (starts == low) & (ends == high) | (starts == high) & (ends == low)
        exists = self._list_widths(dim) > 0
        return self.bases[dim] + np.flatnonzero(is_between & exists)

    def _find_links_of_device(self, device: int) -> list[int]:
        """Return all links that start or end at a device itself."""
        starts, ends = self.link_ends
        return np.flatnonzero((starts == device) | (ends == device)).tolist()


def _count_group_links(system: SystemSpec) -> int:
    """Count the links between two groups of a Dragonfly: as many as have the rate of the others."""
    for dim in range(2, len(system.topology)):
        if system.topology[dim - 1 : dim + 1] == ("Dragonfly", "Dragonfly"):
            links = int(system.bandwidth_gib_s[dim] / system.bandwidth_gib_s[dim - 1] + 1e-3)
            return max(1, min(links, system.npus_count[dim - 1]))
    return 1
