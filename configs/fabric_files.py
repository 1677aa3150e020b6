"""The model of ``fabric.json``, and its conversion to ``NetworkFabric``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hespas.configs.nccl_constants import find_nccl_generation, read_nccl_constants
from hespas.configs.network_fabric import (
    SWITCH_COLLECTIVES,
    NetworkFabric,
    SlowLink,
    SwitchReduction,
)
from hespas.configs.validation import StrictModel, validate_config
from hespas.support.errors import HespasError

_DimensionNumber = Annotated[int, Field(ge=0)]
_DeviceNumber = Annotated[int, Field(ge=0)]


class SwitchReductionEntry(StrictModel):
    """A dimension whose switch reduces and multicasts.

    ``nvls_of`` takes the share of NVLS from NCCL's constants for a device, such as ``H100_SXM``.
    """

    dimension: _DimensionNumber
    bandwidth_share: Annotated[float, Field(gt=0, le=1)] | None = None
    nvls_of: str = ""
    collectives: list[Literal["all-reduce", "reduce-scatter", "all-gather"]] | None = None
    source: str = ""

    @model_validator(mode="after")
    def _check_one_share(self) -> SwitchReductionEntry:
        if (self.bandwidth_share is None) == (not self.nvls_of):
            raise ValueError("give either bandwidth_share with its source, or nvls_of")
        if self.bandwidth_share is not None and not self.source:
            raise ValueError("bandwidth_share has no source")
        return self


class SlowLinkEntry(StrictModel):
    """A link between two devices, or between one device and its switch."""

    dimension: _DimensionNumber
    devices: Annotated[list[_DeviceNumber], Field(min_length=1, max_length=2)]
    bandwidth_share: Annotated[float, Field(ge=0, lt=1)]


class SlowDeviceEntry(StrictModel):
    """Devices whose compute takes longer: by the factor 1 / ``speed``."""

    devices: Annotated[list[_DeviceNumber], Field(min_length=1)]
    speed: Annotated[float, Field(gt=0, le=100)]


class FabricFile(StrictModel):
    """``fabric.json``: the network model of a system, and what its network can or cannot do."""

    network_model: Literal["flows", "astra"] = "flows"
    dimensions_at_once: bool = True
    directions_at_once: bool = True
    switch_reductions: list[SwitchReductionEntry] = Field(default_factory=list)
    slow_links: list[SlowLinkEntry] = Field(default_factory=list)
    slow_devices: list[SlowDeviceEntry] = Field(default_factory=list)
    down_devices: list[_DeviceNumber] = Field(default_factory=list)


def parse_fabric_file(
    data: dict[str, Any], place: str, topology: Sequence[str], counts: Sequence[int]
) -> NetworkFabric:
    """Convert the contents of fabric.json.

    Args:
        data: The contents.
        place: The path of the file, for error messages.
        topology: The kind of each dimension.
        counts: The number of devices in each dimension.

    Raises:
        HespasError: A key or value is wrong, or does not fit the dimensions.
    """
    file = validate_config(FabricFile, data, place)
    devices = math.prod(counts)
    numbers = [*file.down_devices, *(number for one in file.slow_devices for number in one.devices)]
    if numbers and max(numbers) >= devices:
        raise HespasError(f"there is no device {max(numbers)} of {devices}", where=place)
    return NetworkFabric(
        dimensions_at_once=file.dimensions_at_once,
        directions_at_once=file.directions_at_once,
        switch_reductions=dict(
            _convert_switch_reduction(entry, topology, place) for entry in file.switch_reductions
        ),
        slow_links=tuple(
            _convert_slow_link(entry, topology, counts, place) for entry in file.slow_links
        ),
        device_speeds={
            device: entry.speed for entry in file.slow_devices for device in entry.devices
        },
        down_devices=tuple(sorted(set(file.down_devices))),
    )


def describe_fabric(fabric: NetworkFabric, network_model: str) -> dict[str, Any]:
    """Return the contents of fabric.json for a system; empty for a folder of ASTRA-sim's files."""
    data: dict[str, Any] = {
        name: getattr(fabric, name)
        for name in ("dimensions_at_once", "directions_at_once")
        if not getattr(fabric, name)
    }
    data["switch_reductions"] = [
        {
            "dimension": dim,
            "bandwidth_share": reduction.bandwidth_share,
            "collectives": [kind.replace("_", "-") for kind in reduction.collectives],
            "source": reduction.source,
        }
        for dim, reduction in fabric.switch_reductions.items()
    ]
    data["slow_links"] = [
        {
            "dimension": link.dim,
            "devices": list(dict.fromkeys(link.devices)),
            "bandwidth_share": link.bandwidth_share,
        }
        for link in fabric.slow_links
    ]
    data["slow_devices"] = [
        {"devices": [device], "speed": speed} for device, speed in fabric.device_speeds.items()
    ]
    data["down_devices"] = list(fabric.down_devices)
    filled = {name: value for name, value in data.items() if value or value is False}
    is_plain = network_model == "astra" and not filled
    return {} if is_plain else {"network_model": network_model, **filled}


def _convert_switch_reduction(
    entry: SwitchReductionEntry, topology: Sequence[str], place: str
) -> tuple[int, SwitchReduction]:
    if entry.dimension >= len(topology) or topology[entry.dimension] != "Switch":
        raise HespasError(
            f"dimension {entry.dimension} is no Switch that could reduce", where=place
        )
    share, source = entry.bandwidth_share, entry.source
    if share is None:
        share, source = _find_nvls_share(entry.nvls_of, place)
    kinds = tuple(name.replace("-", "_") for name in entry.collectives or ()) or SWITCH_COLLECTIVES
    return entry.dimension, SwitchReduction(share, kinds, source)


def _find_nvls_share(device: str, place: str) -> tuple[float, str]:
    constants = read_nccl_constants()
    generation = find_nccl_generation(device)
    share = constants["generations"][generation]["nvls_efficiency"] if generation else 0.0
    if not share:
        known = [
            name
            for limits in constants["generations"].values()
            if limits["nvls_efficiency"]
            for name in limits["devices"]
        ]
        raise HespasError(
            f"NCCL has no share of NVLS for '{device}'", where=place, remedy=", ".join(known)
        )
    return share, constants["sources"]["generations"]


def _convert_slow_link(
    entry: SlowLinkEntry, topology: Sequence[str], counts: Sequence[int], place: str
) -> SlowLink:
    ends = (entry.devices[0], entry.devices[-1])
    problem = _find_link_problem(entry, ends, topology, counts)
    if problem:
        raise HespasError(
            f"the link of dimension {entry.dimension} at {list(ends)} {problem}", where=place
        )
    return SlowLink(entry.dimension, ends, entry.bandwidth_share)


def _find_link_problem(
    entry: SlowLinkEntry, ends: tuple[int, int], topology: Sequence[str], counts: Sequence[int]
) -> str:
    """Describe why a link does not exist; "" if it does."""
    dim = entry.dimension
    if dim >= len(topology) or max(ends) >= math.prod(counts):
        return "does not exist"
    kind, count, stride = topology[dim], counts[dim], math.prod(counts[:dim])
    is_switch_link = ends[0] == ends[1]
    if is_switch_link != (kind in ("Switch", "FatTree")):
        wanted = "two devices" if is_switch_link else "one device"
        return f"does not exist: a {kind} has links of {wanted}"
    here, there = (end // stride % count for end in ends)
    if kind != "Dragonfly" and ends[0] - here * stride != ends[1] - there * stride:
        return "does not exist: the devices differ in another dimension"
    if kind == "Dragonfly" and here == there:
        return "does not exist: the devices are below one switch or in one group"
    distance = abs(here - there)
    neighbours = (1, count - 1) if kind == "Ring" else (1,)
    if kind in ("Ring", "Mesh") and distance not in neighbours:
        return "does not exist: the devices are no neighbours"
    return ""
