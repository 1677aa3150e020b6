"""Energy and area of a chip: processes, levels, the power limit, and what a run shows."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hespas import configs
from hespas.configs.accelerator import load_accelerator
from hespas.configs.silicon import ArraySizes, Silicon, SiliconFile, read_processes
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import collect_functions, ir, make_context
from hespas.estimators import registry
from hespas.estimators.accelerators import dataflow as flow
from hespas.estimators.accelerators.accelerator_machine import (
    AcceleratorMachine,
    AcceleratorMachineConfig,
)
from hespas.estimators.base import CostItem
from hespas.estimators.power_limit import KernelEnergy, compute_power_slowdown
from hespas.support.errors import HespasError
from hespas.workflows.step_facts import BY_LEVEL, estimate_step_energy

CONTEXT = make_context()
PROGRAM = """
func.func @main(%x: tensor<256x512xbf16>, %w: tensor<512x1024xbf16>) -> tensor<256x1024xbf16> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<256x512xbf16>, tensor<512x1024xbf16>) -> tensor<256x1024xbf16>
  return %0 : tensor<256x1024xbf16>
}
"""
CHIP = {
    "name": "chip",
    "memory_bandwidth_bytes_per_s": 1e12,
    "accelerator": {
        "rows": 128, "columns": 128, "clock_hz": 1e9, "lanes": 1024, "sram_bytes": 16_000_000,
    },
    "silicon": {
        "pj_per_op": {"bf16": 0.5, "vector.f32": 2},
        "pj_per_byte": {"sram": 2, "memory": 40, "link": 30},
        "leakage_w": 10,
    },
}  # fmt: skip


def estimate(tmp_path, silicon: dict | None = None, **values) -> Cost:
    """The cost of the product on the chip, with other figures."""
    values = {**CHIP, "silicon": {**CHIP["silicon"], **(silicon or {})}, **values}
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(values))
    estimator = registry.build_estimator("systolic", configs.load_node(str(path)), {})
    module = ir.Module.parse(PROGRAM, CONTEXT)
    block = collect_functions(module)["main"].regions[0].blocks[0]
    return estimator.estimate(CostItem(block.operations[0].operation))


def require(value: float | None) -> float:
    """The value, which must be known."""
    assert value is not None
    return value


def test_every_figure_of_a_process_has_a_source():
    data = configs.read_json(configs.__path__[0] + "/processes.json")
    for process in data.values():
        assert set(process["sources"]) == set(process) - {"sources", "like"}


def test_a_multiply_add_is_two_operations():
    silicon = Silicon(SiliconFile(process="7nm"))
    assert silicon.compute_pj_per_op("matrix", "bf16") == pytest.approx((0.21 + 0.38) / 2)
    assert silicon.compute_pj_per_op("matrix", "i8") == pytest.approx((0.07 + 0.03) / 2)
    assert silicon.compute_pj_per_op("matrix", "f8") == silicon.compute_pj_per_op("matrix", "bf16")
    own = Silicon(SiliconFile(process="7nm", pj_per_op={"matrix.bf16": 1.0}))
    assert own.compute_pj_per_op("matrix", "bf16") == 1
    assert own.compute_pj_per_op("vector", "bf16") == pytest.approx(0.295)


def test_smaller_processes_take_less():
    names = ["45nm", "7nm", "5nm", "3nm"]
    assert list(read_processes()) == names
    chips = [Silicon(SiliconFile(process=name)) for name in names]
    energies = [chip.compute_pj_per_op("matrix", "f16") for chip in chips]
    assert energies == sorted(energies, reverse=True)
    sizes = ArraySizes(1, 128**2, "f16", 10**6)
    areas = [require(chip.compute_area_mm2(sizes)) for chip in chips]
    assert areas == sorted(areas, reverse=True)


def test_area_is_known_only_if_that_of_every_part_is():
    sizes = ArraySizes(4, 128 * 128, "bf16", 2_000_000)
    own = SiliconFile(mm2_per_array=5, mm2_per_sram_mb=0.5, mm2_other=7)
    assert Silicon(own).compute_area_mm2(sizes) == 4 * 5 + 2 * 0.5 + 7
    assert Silicon(own.model_copy(update={"links": 2})).compute_area_mm2(sizes) is None
    assert Silicon(SiliconFile(mm2_per_array=5)).compute_area_mm2(sizes) is None


def test_energy_by_level_of_a_product_by_hand(tmp_path):
    cost = estimate(tmp_path)
    m, k, n = 256, 512, 1024
    moved = 2 * (m * k + k * n + m * n)
    # 8 folds along N read the inputs again; 4 folds along K write sums, of which 3 are partial
    array = 2 * (k * n + m * k * 8) + m * n * (2 * 3 * 4 + 2)
    assert cost.compute_nj == pytest.approx(2 * m * k * n * 0.5e-3)
    assert cost.memory_nj == pytest.approx(moved * 40e-3)
    assert cost.sram_nj == pytest.approx((array + moved) * 2e-3)
    assert cost.leakage_nj == pytest.approx(10 * cost.latency_ns)
    levels = (cost.compute_nj, cost.sram_nj, cost.memory_nj, cost.leakage_nj)
    assert cost.energy_nj == pytest.approx(sum(map(require, levels)))


@pytest.mark.parametrize("dataflow", flow.DATAFLOWS)
def test_one_fold_reads_each_operand_once(dataflow):
    accesses = flow.count_array_accesses(dataflow, (64, 64, 64), 128, 128, 16, 16)
    assert accesses == (2 * 64 * 64 * 16, 64 * 64 * 16)


def test_a_power_limit_lowers_the_clock(tmp_path):
    free = estimate(tmp_path)
    power_w = require(free.energy_nj) / free.latency_ns
    limited = estimate(tmp_path, tdp_w=power_w / 2)
    assert require(limited.energy_nj) / limited.latency_ns == pytest.approx(power_w / 2)
    assert limited.compute_nj == free.compute_nj
    scaled = estimate(tmp_path, tdp_w=power_w / 2, silicon={"clock_exponent": 2})
    assert free.latency_ns < scaled.latency_ns < limited.latency_ns
    assert require(scaled.compute_nj) < require(free.compute_nj)
    assert estimate(tmp_path, tdp_w=power_w * 1.01).latency_ns == free.latency_ns


def test_slowdown_meets_the_limit():
    energy = KernelEnergy(6.0, 2.0)
    slowdown = compute_power_slowdown(energy, 1.0, 1.0, 5.0, 1.0)
    assert 1 + (6 / slowdown + 2) / slowdown == pytest.approx(5)
    assert compute_power_slowdown(energy, 1.0, 1.0, 9.0, 1.0) == 1


def test_a_type_without_energy_is_named(tmp_path):
    with pytest.raises(HespasError, match="operation of type bf16 is not known") as error:
        estimate(tmp_path, silicon={"pj_per_op": {"i8": 1}})
    assert "silicon.pj_per_op.bf16" in error.value.remedy


def test_levels_of_a_step_and_what_is_missing():
    stats = {
        "program": {"devices": 4, "leakage_w": 10.0, "link_pj_per_byte": 30.0},
        "totals": {"compute_nj": 1e9, "sram_nj": 2e9, "memory_nj": None, "time_ns": 1e9},
        "communicators": {
            "1": {"ranks": [0, 1, 2, 3], "collectives": {"all_reduce": {"operand_bytes": 10**9}}}
        },
        "transfers": {"message_bytes": 10**9},
    }
    energy = estimate_step_energy(stats, 2.0, configs.load_node("TPUv4"))
    sent_bytes = 4 * 1.5e9 + 1e9
    assert energy.energy_network_j == pytest.approx(sent_bytes * 30e-12)
    assert (energy.energy_compute_j, energy.energy_sram_j, energy.energy_leakage_j) == (4, 8, 80)
    assert energy.energy_memory_j is None
    assert energy.energy_j == pytest.approx(4 + 8 + 80 + sent_bytes * 30e-12)
    assert energy.energy_model == f"{BY_LEVEL}; without memory"


def test_the_accelerator_of_a_node_makes_its_peaks(tmp_path):
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(CHIP))
    node = configs.load_node(str(path))
    assert node.peaks_flops["matrix"]["bf16"] == 2 * 128**2 * 1e9
    assert node.find_peak_rate("matrix", "tf32").via == "matrix.bf16"
    machine = AcceleratorMachine(AcceleratorMachineConfig(node))
    assert machine.list_warnings() == [] and machine.unit.rows == 128
    assert AcceleratorMachine(AcceleratorMachineConfig(node, rows=64)).unit.rows == 64


def test_the_silicon_of_arrays_replaces_that_of_the_node(tmp_path):
    unit = load_accelerator("TPUv4").model_copy(
        update={"silicon": SiliconFile(leakage_w=5, pj_per_byte={"sram": 1})}
    )
    path = tmp_path / "arrays.json"
    path.write_text(unit.model_dump_json(exclude_unset=True))
    silicon = {"leakage_w": 10, "pj_per_byte": {"sram": 2, "memory": 40}}
    node = replace(configs.load_node("TPUv4"), silicon=silicon)
    machine = AcceleratorMachine(AcceleratorMachineConfig(node, array=str(path)))
    assert machine.silicon and machine.leakage_w == 5
    levels = [machine.silicon.find_pj_per_byte(level) for level in ("sram", "memory", "link")]
    assert levels == [1, 40, None]


@pytest.mark.parametrize(
    ("silicon", "message"),
    [
        ({"process": "6nm"}, "no process is named '6nm'; it is one of 45nm, 7nm, 5nm, 3nm"),
        ({"pj_per_op": {"bf61": 1}}, "pj_per_op: no element type is named 'bf61'"),
        ({"pj_per_byte": {"cache": 1}}, "pj_per_byte.cache"),
        ({"leakage": 1}, "unknown key 'silicon.leakage'"),
    ],
)
def test_wrong_figures(tmp_path, silicon, message):
    path = tmp_path / "chip.json"
    path.write_text(json.dumps({**CHIP, "silicon": silicon}))
    with pytest.raises(HespasError, match=message):
        configs.load_node(str(path))
