"""The energy of an op on an accelerator, by level, and the clock that its power limit permits.

    compute   operations x energy of an operation of their unit and type
    sram      bytes that arrays read and write, and those of operands and results, which come from
              device memory or have stayed in the SRAM, x energy of a byte of SRAM
    memory    bytes moved to and from device memory x energy of a byte of it
    leakage   power of the idle chip x time

A level whose figures the files of node and accelerator do not give is missing, and the sum with it
is that of the other levels. Without any figure, energy is not estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hespas.configs.silicon import Silicon
from hespas.estimators.accelerators import dataflow as flow
from hespas.estimators.accelerators.accelerator_machine import AcceleratorMachine
from hespas.estimators.matrix_products import MatrixProduct
from hespas.estimators.power_limit import KernelEnergy, compute_power_slowdown
from hespas.estimators.work import OpWork

if TYPE_CHECKING:
    from hespas.configs.accelerator import Accelerator


@dataclass(frozen=True, slots=True)
class ChipTraffic:
    """The bytes that an op moves besides those of its work, each once.

    Attributes:
        array_bytes: Bytes that arrays read from and write to the SRAM.
        read_again_bytes: Bytes that are read from device memory again.
        written_again_bytes: Bytes of partial results that are written to it.
        kept_operand_bytes: Bytes of operands that are in the SRAM already.
        kept_result_bytes: Bytes of results that stay there and are not written.
    """

    array_bytes: float = 0.0
    read_again_bytes: float = 0.0
    written_again_bytes: float = 0.0
    kept_operand_bytes: int = 0
    kept_result_bytes: int = 0

    def count_read_bytes(self, work: OpWork) -> float:
        """Count the bytes that an op reads from device memory."""
        return work.read_bytes - self.kept_operand_bytes + self.read_again_bytes

    def count_written_bytes(self, work: OpWork) -> float:
        """Count the bytes that an op writes to device memory."""
        return work.write_bytes - self.kept_result_bytes + self.written_again_bytes

    def count_device_bytes(self, work: OpWork) -> float:
        """Count the bytes that an op reads from device memory and writes to it."""
        return self.count_read_bytes(work) + self.count_written_bytes(work)

    def count_sram_bytes(self, work: OpWork) -> float:
        """Count the bytes that an op reads from the SRAM and writes to it, wherever they go."""
        kept_bytes = self.kept_operand_bytes + self.kept_result_bytes
        return self.array_bytes + self.count_device_bytes(work) + kept_bytes


@dataclass(frozen=True)
class EnergyByLevel:
    """The energy of one execution in joules; None for a level that is not known."""

    compute_j: float
    sram_j: float | None
    memory_j: float | None
    leakage_j: float | None

    def to_cost_fields(self) -> dict[str, float | None]:
        """Return the fields of ``Cost``, in nanojoules."""
        levels = {
            "compute_nj": self.compute_j,
            "sram_nj": self.sram_j,
            "memory_nj": self.memory_j,
            "leakage_nj": self.leakage_j,
        }
        fields = {name: None if level is None else 1e9 * level for name, level in levels.items()}
        return {"energy_nj": 1e9 * sum(level or 0.0 for level in levels.values()), **fields}


def count_array_bytes(
    matrix_products: Sequence[MatrixProduct], unit: Accelerator, dataflow: flow.Dataflow
) -> tuple[float, float]:
    """Return the bytes that the arrays read from the SRAM for these products, and write to it."""
    read_bits = write_bits = 0
    for each in matrix_products:
        sizes, bits = (each.m, each.k, each.n), (each.in_bits, each.out_bits)
        read, written = flow.count_array_accesses(dataflow, sizes, unit.rows, unit.columns, *bits)
        read_bits += each.count * read
        write_bits += each.count * written
    return read_bits / 8, write_bits / 8


def estimate_limited_energy(
    work: OpWork, machine: AcceleratorMachine, traffic: ChipTraffic, time_s: float
) -> tuple[float, EnergyByLevel | None]:
    """Return the slowdown by the power limit of the node, at least 1, and the energy by level.

    Without figures of energy the slowdown is 1 and the energy None.

    Raises:
        HespasError: The energy of an operation is not known.
    """
    silicon = machine.silicon
    if silicon is None:
        return 1.0, None
    compute_j = machine.energy_factor * _sum_compute_energy(work, silicon)
    moved_bytes = traffic.count_device_bytes(work)
    sram_bytes = machine.energy_factor * traffic.count_sram_bytes(work)
    sram_j = _multiply(silicon.find_pj_per_byte("sram"), sram_bytes)
    memory_j = _multiply(silicon.find_pj_per_byte("memory"), moved_bytes)
    limit_w, exponent = machine.node.tdp_w, silicon.file.clock_exponent
    slowdown = 1.0
    if limit_w is not None:
        energy = KernelEnergy(compute_j + (sram_j or 0.0), memory_j or 0.0)
        idle_w = machine.leakage_w or 0.0
        slowdown = compute_power_slowdown(energy, time_s, idle_w, limit_w, exponent)
    share = slowdown**-exponent
    leakage_j = None if machine.leakage_w is None else machine.leakage_w * time_s * slowdown
    sram_j = None if sram_j is None else share * sram_j
    return slowdown, EnergyByLevel(share * compute_j, sram_j, memory_j, leakage_j)


def _sum_compute_energy(work: OpWork, silicon: Silicon) -> float:
    """Return the joules of all operations; a transcendental function is one of f32."""
    energies_pj = [
        part.flops * silicon.compute_pj_per_op(part.unit, part.dtype)
        for part in work.parts
        if part.flops
    ]
    if work.transcendentals:
        energies_pj.append(work.transcendentals * silicon.compute_pj_per_op("vector", "f32"))
    return 1e-12 * sum(energies_pj)


def _multiply(pj_per_byte: float | None, count_bytes: float) -> float | None:
    return None if pj_per_byte is None else 1e-12 * pj_per_byte * count_bytes
