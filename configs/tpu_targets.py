"""TPUs that XLA can compile for: the chip, and the slices that a number of devices fill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from hespas.configs.validation import Positive, StrictModel
from hespas.support.errors import HespasError

HOST_CHIPS = 4  # chips of a host, which is 2x2 of a slice


class TpuTarget(StrictModel):
    """The chip of a target.

    Attributes:
        topology: The name of the generation in libtpu's names of topologies.
        torus_dimensions: The dimensions of the network between the chips of a slice.
        devices_per_chip: The devices of XLA on a chip.
        max_slice_chips: The most chips of a slice; slices are connected by hosts' networks.
        clock_ghz: The clock that XLA's ``estimated_cycles`` count.
        chip_config: The name of libtpu's configuration of the chip; "" for its default.
    """

    topology: str
    torus_dimensions: Literal[2, 3]
    devices_per_chip: Literal[1, 2]
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
    shape = _choose_slice_shape(chips // count, target.torus_dimensions)
    if shape is None:
        raise HespasError(
            f"no slice of a TPU {target.topology} has {chips // count} chips",
            remedy="use a multiple of 4 chips",
        )
    host_chips = (*shape, 1)[:3] if chips // count < HOST_CHIPS else ()
    name = f"{target.topology}:{'x'.join(map(str, shape))}"
    return TpuTopology(name, count, host_chips, target.chip_config)


def _choose_slice_shape(chips: int, dimensions: int) -> tuple[int, ...] | None:
    """Return the shape with the least sum of its sides, or None if hosts do not fill one."""
    if chips in (1, 2):
        return (1, chips, 1)[:dimensions]
    if dimensions == 2:
        shapes = [(a, chips // a) for a in range(2, chips + 1, 2) if chips % a == 0]
        return min((s for s in shapes if s[1] % 2 == 0 and s[0] <= s[1]), key=sum, default=None)
    if chips == HOST_CHIPS:
        return (2, 2, 1)
    step = 4 if chips % 64 == 0 else 2  # larger slices consist of cubes of 4x4x4
    sides = [a for a in range(step, chips + 1, step) if chips % a == 0]
    shapes = [
        (a, b, chips // (a * b))
        for a in sides
        for b in sides
        if a <= b and chips % (a * b) == 0 and chips // (a * b) in sides and b <= chips // (a * b)
    ]
    return min(shapes, key=sum, default=None)
