"""TPUs that XLA can compile for: the chip, and the slices that a number of devices fill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from hespas.configs.torus_slices import HOST_CHIPS, find_slice_shape
from hespas.configs.validation import Positive, StrictModel
from hespas.support.errors import HespasError


class TpuTarget(StrictModel):
    """The chip of a target.

    Attributes:
        topology: The name of the generation in libtpu's names of topologies.
        torus_dimensions: The dimensions of the network between the chips of a slice.
        devices_per_chip: The devices of XLA on a chip.
        device_kind: The name of a device, as JAX's ``device_kind``.
        cores: The tensor cores of a device.
        max_slice_chips: The most chips of a slice; slices are connected by hosts' networks.
        clock_ghz: The clock that XLA's ``estimated_cycles`` count.
        chip_config: The name of libtpu's configuration of the chip; "" for its default.
    """

    topology: str
    torus_dimensions: Literal[2, 3]
    devices_per_chip: Literal[1, 2]
    device_kind: str
    cores: Literal[1, 2]
    max_slice_chips: Annotated[int, Field(gt=0, strict=True)]
    clock_ghz: Positive
    chip_config: str = ""


@dataclass(frozen=True)
class TpuTopology:
    """Slices of a TPU in the terms of libtpu.

    Attributes:
        name: The generation and the chips of a slice in each dimension, such as ``v5e:16x16``.
        slices: The number of slices.
        host_chips: The chips of a host in each dimension; () for libtpu's default.
        chip_config: The name of libtpu's configuration of the chip; "" for its default.
    """

    name: str
    slices: int = 1
    host_chips: tuple[int, ...] = ()
    chip_config: str = ""


def choose_tpu_topology(target: TpuTarget, devices: int, slices: int = 0) -> TpuTopology:
    """Choose the slices that ``devices`` devices fill: as few as possible, and nearly cubes.

    Args:
        slices: The number of slices; 0 for the fewest.

    Raises:
        HespasError: No slices have that number of devices.
    """
    chips, rest = divmod(devices, target.devices_per_chip) if devices > 1 else (1, 0)
    count = slices or -(-chips // target.max_slice_chips)
    if rest or not chips or chips % count or chips // count > target.max_slice_chips:
        raise HespasError(
            f"{devices} devices do not fill {count} slices of a TPU {target.topology} with "
            f"{target.devices_per_chip} devices a chip and at most {target.max_slice_chips} chips"
        )
    shape = find_slice_shape(chips // count, target.torus_dimensions)
    if shape is None:
        raise HespasError(
            f"no slice of a TPU {target.topology} has {chips // count} chips",
            remedy="use a multiple of 4 chips",
        )
    host_chips = (*shape, 1)[:3] if chips // count < HOST_CHIPS else ()
    name = f"{target.topology}:{'x'.join(map(str, shape))}"
    return TpuTopology(name, count, host_chips, target.chip_config)
