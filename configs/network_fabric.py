"""What a network can do beyond ASTRA-sim's model: ``fabric.json`` beside ``network.yml``.

Switches may reduce, links may be slow or down, and devices slow or down. What limits collectives to
one dimension or direction at a time is stated too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SWITCH_COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather")


@dataclass(frozen=True, slots=True)
class SwitchReduction:
    """Reduction and multicast in the switch of a dimension, such as NVLS and SHARP.

    Every device sends its operand to the switch once and receives the result once.

    Attributes:
        bandwidth_share: The share of the dimension's bandwidth that such collectives reach.
        collectives: The kinds of collectives that the switch supports, of SWITCH_COLLECTIVES.
        source: The source of both.
    """

    bandwidth_share: float
    collectives: tuple[str, ...] = SWITCH_COLLECTIVES
    source: str = ""

    def list_link_shares(self, kind: str, devices: int) -> tuple[float, float]:
        """Return the bytes from a device to the switch and back, over those of its operand."""
        return {
            "all_reduce": (1.0, 1.0),
            "reduce_scatter": (1 - 1 / devices, 1 / devices),
            "all_gather": (1.0, devices - 1.0),
        }[kind]


@dataclass(frozen=True, slots=True)
class SlowLink:
    """A link with less bandwidth than the others of its dimension, in both directions.

    Attributes:
        dim: The dimension.
        devices: The two devices that it connects, or a device and its switch: that device twice.
        bandwidth_share: What is left of its bandwidth; 0 if it is down. A Ring sends the other way
            around then.
    """

    dim: int
    devices: tuple[int, int]
    bandwidth_share: float


@dataclass(frozen=True, slots=True)
class NetworkFabric:
    """The abilities of a network that ASTRA-sim does not model.

    Attributes:
        dimensions_at_once: Whether parts of a collective run in different dimensions of the network
            at the same time.
        directions_at_once: Whether parts of a collective go around a Ring in both directions at the
            same time; the bandwidth in network.yml is that of one direction. A Ring of two devices
            has links for both.
        switch_reductions: By dimension, the reduction in its switch.
        slow_links: The links with less bandwidth than network.yml states.
        device_speeds: By device, its speed of compute relative to the traces; 1 for all others.
        down_devices: The places whose device is down, with all its links. The devices of the system
            are those of the other places, in order.
    """

    dimensions_at_once: bool = True
    directions_at_once: bool = True
    switch_reductions: dict[int, SwitchReduction] = field(default_factory=dict)
    slow_links: tuple[SlowLink, ...] = ()
    device_speeds: dict[int, float] = field(default_factory=dict)
    down_devices: tuple[int, ...] = ()

    @property
    def changes_links(self) -> bool:
        """Whether links do more or less than in ASTRA-sim's model."""
        return bool(self.switch_reductions or self.slow_links or self.down_devices)

    @property
    def has_extensions(self) -> bool:
        """Whether the network has anything that ASTRA-sim does not model."""
        return self.changes_links or bool(self.device_speeds)
