"""What a network can do beyond ASTRA-sim's model: ``fabric.json`` beside ``network.yml``.

Switches may reduce, links may be slow or down, and devices slow or down. What limits collectives to
one dimension or direction at a time is stated too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hespas.configs.nccl_constants import find_nccl_generation, read_nccl_constants
from hespas.configs.validation import StrictModel, validate_config
from hespas.support.errors import HespasError

_DimensionNumber = Annotated[int, Field(ge=0)]
_DeviceNumber = Annotated[int, Field(ge=0)]
_SwitchCollective = Literal["all-reduce", "reduce-scatter", "all-gather"]
SWITCH_COLLECTIVES: list[_SwitchCollective] = ["all-reduce", "reduce-scatter", "all-gather"]


class SwitchReductionEntry(StrictModel):
    """A dimension whose switch reduces and multicasts.

    ``nvls_of`` takes the share of NVLS from NCCL's constants for a device, such as ``H100_SXM``.
    """

    # Such as NVLS and SHARP: every device sends its operand to the switch once and receives the
    # result once. The share is that of the dimension's bandwidth which such collectives reach.
    dimension: _DimensionNumber
    bandwidth_share: Annotated[float, Field(gt=0, le=1)] | None = None
    nvls_of: str = ""
    collectives: list[_SwitchCollective] | None = None
    source: str = ""

    @model_validator(mode="after")
    def _check_one_share(self) -> SwitchReductionEntry:
        if (self.bandwidth_share is None) == (not self.nvls_of):
            raise ValueError("give either bandwidth_share with its source, or nvls_of")
        if self.bandwidth_share is not None and not self.source:
            raise ValueError("bandwidth_share has no source")
        return self

    def supports(self, kind: str) -> bool:
        """Return whether the switch supports a kind of collective."""
        return kind.replace("_", "-") in (self.collectives or SWITCH_COLLECTIVES)

    def list_link_shares(self, kind: str, devices: int) -> tuple[float, float]:
        """Return the bytes from a device to the switch and back, over those of its operand."""
        return {
            "all_reduce": (1.0, 1.0),
            "reduce_scatter": (1 - 1 / devices, 1 / devices),
            "all_gather": (1.0, devices - 1.0),
        }[kind]


class SlowLinkEntry(StrictModel):
    """A link between two devices, or between one device and its switch."""

    # What is left of its bandwidth, in both directions; 0 if it is down. A Ring sends the other
    # way around then.
    dimension: _DimensionNumber
    devices: Annotated[list[_DeviceNumber], Field(min_length=1, max_length=2)]
    bandwidth_share: Annotated[float, Field(ge=0, lt=1)]


class SlowDeviceEntry(StrictModel):
    """Devices whose compute takes longer: by the factor 1 / ``speed``."""

    devices: Annotated[list[_DeviceNumber], Field(min_length=1)]
    speed: Annotated[float, Field(gt=0, le=100)]


class NetworkFabric(StrictModel):
    """``fabric.json``: the network model of a system, and what its network can or cannot do."""

    network_model: Literal["flows", "astra"] = "flows"
    # Whether parts of a collective run in different dimensions of the network at the same time.
    dimensions_at_once: bool = True
    # Whether they go around a Ring in both directions at the same time; the bandwidth in
    # network.yml is that of one direction. A Ring of two devices has links for both.
    directions_at_once: bool = True
    switch_reductions: list[SwitchReductionEntry] = Field(default_factory=list)
    slow_links: list[SlowLinkEntry] = Field(default_factory=list)
    slow_devices: list[SlowDeviceEntry] = Field(default_factory=list)
    # The places whose device is down, with all its links. The devices of the system are those of
    # the other places, in order.
    down_devices: list[_DeviceNumber] = Field(default_factory=list)

    @property
    def changes_links(self) -> bool:
        """Whether links do more or less than in ASTRA-sim's model."""
        return bool(self.switch_reductions or self.slow_links or self.down_devices)

    @property
    def place_speeds(self) -> dict[int, float]:
        """By place, the speed of compute relative to the traces; 1 for all others."""
        return {place: entry.speed for entry in self.slow_devices for place in entry.devices}

    @property
    def device_speeds(self) -> dict[int, float]:
        """``place_speeds`` by device: the places that are not down, in order."""
        down = self.down_devices
        return {
            place - sum(each < place for each in down): speed
            for place, speed in self.place_speeds.items()
        }

    def find_reduction(self, dim: int, kind: str) -> SwitchReductionEntry | None:
        """Return the reduction of a kind of collective in the switch of a dimension, if any."""
        entries = [entry for entry in self.switch_reductions if entry.dimension == dim]
        return entries[-1] if entries and entries[-1].supports(kind) else None

    def to_values(self) -> dict[str, Any]:
        """Return all settings by dimension and device; collectives are named as in traces."""
        return {
            **self.model_dump(include={"dimensions_at_once", "directions_at_once"}),
            "switch_reductions": {
                entry.dimension: {
                    "bandwidth_share": entry.bandwidth_share,
                    "collectives": [kind.replace("-", "_") for kind in entry.collectives or ()],
                    "source": entry.source,
                }
                for entry in self.switch_reductions
            },
            "slow_links": [
                {
                    "dim": link.dimension,
                    "devices": [link.devices[0], link.devices[-1]],
                    "bandwidth_share": link.bandwidth_share,
                }
                for link in self.slow_links
            ],
            "device_speeds": self.place_speeds,
            "down_devices": self.down_devices,
        }

    def to_json(self, network_model: str) -> dict[str, Any]:
        """Return the contents of fabric.json; empty for a folder of ASTRA-sim's files."""
        filled = self.model_dump(exclude_defaults=True, exclude={"network_model"})
        is_plain = network_model == "astra" and not filled
        return {} if is_plain else {"network_model": network_model, **filled}


def parse_fabric_file(
    data: dict[str, Any], place: str, topology: Sequence[str], counts: Sequence[int]
) -> NetworkFabric:
    """Check the contents of fabric.json, and fill in what they refer to.

    Args:
        data: The contents.
        place: The path of the file, for error messages.
        topology: The kind of each dimension.
        counts: The number of devices in each dimension.

    Raises:
        HespasError: A key or value is wrong, or does not fit the dimensions.
    """
    fabric = validate_config(NetworkFabric, data, place)
    devices = math.prod(counts)
    down = sorted(set(fabric.down_devices))
    numbers = [*down, *fabric.place_speeds]
    if numbers and max(numbers) >= devices:
        raise HespasError(f"there is no device {max(numbers)} of {devices}", where=place)
    both = fabric.place_speeds.keys() & down
    if both:
        raise HespasError(f"device {min(both)} is both slow and down", where=place)
    for entry in fabric.switch_reductions:
        if entry.dimension >= len(topology) or topology[entry.dimension] != "Switch":
            text = f"dimension {entry.dimension} is no Switch that could reduce"
            raise HespasError(text, where=place)
    for link in fabric.slow_links:
        problem = _find_link_problem(link, topology, counts)
        if problem:
            ends = [link.devices[0], link.devices[-1]]
            text = f"the link of dimension {link.dimension} at {ends} {problem}"
            raise HespasError(text, where=place)
    reductions = [_resolve_share(entry, place) for entry in fabric.switch_reductions]
    return fabric.model_copy(update={"down_devices": down, "switch_reductions": reductions})


def _resolve_share(entry: SwitchReductionEntry, place: str) -> SwitchReductionEntry:
    """Return an entry with its collectives, and with the share that NCCL has for NVLS."""
    found: dict[str, Any] = {"collectives": entry.collectives or SWITCH_COLLECTIVES}
    if entry.bandwidth_share is None:
        constants = read_nccl_constants()
        generation = find_nccl_generation(entry.nvls_of)
        share = constants["generations"][generation]["nvls_efficiency"] if generation else 0.0
        if not share:
            known = [
                name
                for limits in constants["generations"].values()
                if limits["nvls_efficiency"]
                for name in limits["devices"]
            ]
            text = f"NCCL has no share of NVLS for '{entry.nvls_of}'"
            raise HespasError(text, where=place, remedy=", ".join(known))
        source = constants["sources"]["generations"]
        found |= {"bandwidth_share": share, "source": source, "nvls_of": ""}
    return entry.model_copy(update=found)


def _find_link_problem(entry: SlowLinkEntry, topology: Sequence[str], counts: Sequence[int]) -> str:
    """Describe why a link does not exist; "" if it does."""
    dim, ends = entry.dimension, (entry.devices[0], entry.devices[-1])
    if dim >= len(topology) or max(ends) >= math.prod(counts):
        return "does not exist"
    kind, count, stride = topology[dim], counts[dim], math.prod(counts[:dim])
    is_switch_link = ends[0] == ends[1]
    if is_switch_link != (kind in ("Switch", "FatTree")):
        wanted = "two devices" if is_switch_link else "one device"
        return f"does not exist: a {kind} has links of {wanted}"
    here, there = (end // stride % count for end in ends)
    # In a Dragonfly, a device stands for the switch or group that it is below.
    tier = max(d for d in range(dim + 1) if topology[d] not in ("FatTree", "Dragonfly") or not d)
    below = math.prod(counts[:tier])
    if len({(end % below, end // (stride * count)) for end in ends}) > 1:
        return "does not exist: the devices differ in another dimension"
    if kind == "Dragonfly" and here == there:
        return "does not exist: the devices are below one switch or in one group"
    distance = abs(here - there)
    neighbours = (1, count - 1) if kind == "Ring" else (1,)
    if kind in ("Ring", "Mesh") and distance not in neighbours:
        return "does not exist: the devices are no neighbours"
    return ""
