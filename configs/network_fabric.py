"""What a network can do beyond ASTRA-sim's model: ``fabric.json`` beside ``network.yml``.

ASTRA-sim runs the dimensions of a network one after another, sends around a Ring in one direction,
and reduces on devices only. A fabric states where hardware does more.
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

    def count_link_bytes(self, kind: str, size: int, devices: int) -> int:
        """Count the bytes that cross the busier direction of a device's link.

        Args:
            kind: The kind of collective.
            size: Operand bytes of one device.
            devices: The number of devices.
        """
        if kind == "all_reduce":
            return size
        return size * (devices - 1) if kind == "all_gather" else size - size // devices


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
        dimensions_at_once: Whether parts of a collective run in different Rings and Meshes of the
            network at the same time.
        directions_at_once: Whether parts of a collective go around a Ring in both directions at the
            same time; the bandwidth in network.yml is that of one direction.
        switch_reductions: By dimension, the reduction in its switch.
        slow_links: The links with less bandwidth than network.yml states.
        device_speeds: By device, its speed of compute relative to the traces; 1 for all others.
    """

    dimensions_at_once: bool = False
    directions_at_once: bool = False
    switch_reductions: dict[int, SwitchReduction] = field(default_factory=dict)
    slow_links: tuple[SlowLink, ...] = ()
    device_speeds: dict[int, float] = field(default_factory=dict)

    @property
    def has_extensions(self) -> bool:
        """Whether the network can do anything that ASTRA-sim does not model."""
        return self != NetworkFabric()

    @property
    def changes_collectives(self) -> bool:
        """Whether collectives run otherwise than in ASTRA-sim."""
        return self.dimensions_at_once or self.directions_at_once or bool(self.switch_reductions)
