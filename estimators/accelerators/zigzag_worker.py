"""Simulating matrix products in ZigZag's cost model, in a worker process.

A separate process is used because ZigZag configures the logging of the whole process.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hespas.plugin import HespasError, UnsupportedError

PRODUCT_LOOPS = ("D", "K", "C")  # rows of the result, its columns, the size that is summed over
MISSING = "install it: pip install 'hespas[zigzag]'"
RETRY_FACTOR = 2.0  # a result above this multiple of the least possible cycles is searched again
SHIPPED_FOLDERS = {"accelerator": "hardware", "mapping": "mapping"}
PRODUCT_ENTRY_NAMES = ("product", "Gemm", "default")  # entries of a mapping that apply to products


def probe_simulator(settings: dict[str, Any]) -> dict[str, Any]:
    """Raise HespasError if ZigZag or ``six``, its undeclared dependency, is not installed."""
    for package in ("zigzag", "six"):
        if find_spec(package) is None:
            raise HespasError(
                f"ZigZag is not installed: package '{package}' is missing", remedy=MISSING
            )
    return {"device": "ZigZag's model"}


def simulate_product(payload: dict[str, Any]) -> dict[str, Any]:
    """Simulate a product; raises UnsupportedError, HespasError.

    The answer contains ``cycles`` with the loading and storing of data, ``compute_cycles`` without,
    ``ideal_cycles`` with every cell busy, ``energy_pj`` by level, and ``median_s``, the time at
    ``clock_hz``. If the best
    mapping is far slower than the least possible time, a second search uses a wider limit; without
    it, large products are several times too slow.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        accelerator, mapping = Path(folder) / "accelerator.yaml", Path(folder) / "mapping.yaml"
        accelerator.write_text(
            _read_source_text(payload, "accelerator")
            or json.dumps(build_array_description(payload))
        )
        mapping_text = _read_source_text(payload, "mapping")
        if payload.get("loops") == "any":
            # M and N, rows and columns of the result, are D and K here.
            loops = re.compile(r"\b[MN](?=\s*,)")
            mapping_text = loops.sub(lambda loop: {"M": "D", "N": "K"}[loop[0]], mapping_text)
        mapping.write_text(mapping_text or json.dumps(build_array_mapping(payload)))
        _check_mapping(mapping.read_text(), checks_loops=payload.get("loops") != "any")
        limit = payload["lpf_limit"]
        best_search = _search_mappings(payload, str(accelerator), str(mapping), limit)
        if best_search["cycles"] > RETRY_FACTOR * max(
            best_search["ideal_cycles"], compute_least_transfer_cycles(payload)
        ):
            wider_search = _search_mappings(payload, str(accelerator), str(mapping), limit + 1)
            best_search = min(best_search, wider_search, key=lambda each: each["cycles"])
    return {**best_search, "median_s": best_search["cycles"] / payload["clock_hz"]}


def evaluate_best_mapping(
    product: dict[str, Any],
    accelerator: str,
    mapping: str,
    limit: int,
    sums: Sequence[Any],
    choice: Any,
    mappings: int,
) -> Any:
    """Return ZigZag's evaluation of the best mapping of a product.

    Args:
        product: The product and the array.
        accelerator: The file of the accelerator.
        mapping: The file of the mapping of loops to the array.
        limit: The largest number of loops, of which all orders are tried.
        sums: The stages that add layers up.
        choice: The stage that chooses the best mapping.
        mappings: The number of mappings of loops to the array that are tried.
    """
    from zigzag.mapping.temporal_mapping import TemporalMappingType
    from zigzag.stages.evaluation.cost_model_evaluation import CostModelStage
    from zigzag.stages.main import MainStage
    from zigzag.stages.mapping.spatial_mapping_generation import SpatialMappingGeneratorStage
    from zigzag.stages.mapping.temporal_mapping_generator_stage import (
        TemporalMappingGeneratorStage,
    )
    from zigzag.stages.parser.accelerator_parser import AcceleratorParserStage
    from zigzag.stages.parser.workload_parser import WorkloadParserStage
    from zigzag.stages.workload_iterator import WorkloadStage

    main = MainStage(
        list_of_callables=[
            WorkloadParserStage, AcceleratorParserStage, *sums, WorkloadStage,
            SpatialMappingGeneratorStage, choice, TemporalMappingGeneratorStage, CostModelStage,
        ],
        accelerator=accelerator,
        workload=[describe_layer(product)],
        mapping=mapping,
        dump_folder="",
        loma_lpf_limit=limit,
        loma_show_progress_bar=False,
        nb_mappings_generated=mappings,
        enable_mix_spatial_mapping_generation=False,
        access_same_data_considered_as_no_access=True,
        temporal_mapping_type=TemporalMappingType("uneven"),
    )  # fmt: skip
    return main.run()[0][0]


def _search_mappings(
    product: dict[str, Any], accelerator: str, mapping: str, limit: int
) -> dict[str, Any]:
    """Return the cycles of the best mapping that ZigZag finds; raises UnsupportedError."""
    from zigzag.stages.results.reduce_stages import MinimalLatencyStage, SumStage

    try:
        evaluation = evaluate_best_mapping(
            product, accelerator, mapping, limit, [SumStage], MinimalLatencyStage, mappings=3
        )
    except (MemoryError, OSError):  # caused by the machine
        raise
    except Exception as error:  # caused by the product, so it would be raised again
        why = f"{type(error).__name__}: {str(error).strip() or 'no reason given'}".splitlines()[0]
        raise UnsupportedError(f"ZigZag fails: {why}") from None
    return {
        "cycles": float(evaluation.latency_total2),
        "compute_cycles": float(evaluation.latency_total1),
        "ideal_cycles": float(evaluation.ideal_cycle),
        "energy_pj": _read_energies(evaluation),
        "lpf_limit": limit,
    }


def _read_energies(evaluation: Any) -> dict[str, float]:
    """Return the energy by level: the last memory of each operand is that of the device."""
    levels = evaluation.mem_energy_breakdown.values()
    memory_pj = float(sum(each[-1] for each in levels))
    return {
        "compute": float(evaluation.mac_energy),
        "sram": float(evaluation.mem_energy) - memory_pj,
        "memory": memory_pj,
    }


def compute_least_transfer_cycles(product: dict[str, Any]) -> float:
    """Return the cycles to move each matrix once; 0 for a memory that the user describes."""
    if "bits_per_cycle" not in product:
        return 0.0
    m, k, n = product["m"], product["k"], product["n"]
    bits = product["in_bits"] * (m * k + k * n) + product["out_bits"] * m * n
    return bits / product["bits_per_cycle"]


def _read_source_text(payload: dict[str, Any], kind: str) -> str:
    """Return the text of the accelerator or mapping of the payload, "" if it has none."""
    source = payload.get(kind)
    if not source or "text" in source:
        return source["text"] if source else ""
    files = find_shipped_files(kind) or {}
    if source["name"] not in files:
        remedy = f"it has {', '.join(sorted(files))}; a file ends in .yaml"
        raise HespasError(f"ZigZag ships no {kind} '{source['name']}'", remedy=remedy)
    return files[source["name"]].read_text("utf-8")


def find_shipped_files(kind: str) -> dict[str, Path] | None:
    """Return the descriptions that ZigZag ships by name; None if it is not installed.

    Args:
        kind: ``accelerator`` or ``mapping``.
    """
    spec = find_spec("zigzag")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "inputs" / SHIPPED_FOLDERS[kind]
    return {path.stem: path for path in folder.glob("*.yaml")}


def _check_mapping(mapping: str, *, checks_loops: bool) -> None:
    """Raise HespasError for a mapping without an entry for products, or in another format.

    With ``checks_loops`` also for loops that a product lacks, which ZigZag ignores silently.
    """
    import yaml

    try:
        entries = yaml.safe_load(mapping)
        product_entries = [entry for entry in entries if entry["name"] in PRODUCT_ENTRY_NAMES]
        loops = {
            str(loop).partition(",")[0].strip()
            for entry in product_entries
            for along in (entry.get("spatial_mapping") or {}).values()
            for loop in along
        }
    except (yaml.YAMLError, TypeError, KeyError, AttributeError):
        raise HespasError("the mapping does not have the format of ZigZag") from None
    if not product_entries:
        raise HespasError(
            f"the mapping has no entry for products: {' or '.join(PRODUCT_ENTRY_NAMES)}"
        )
    wrong = sorted(loops - set(PRODUCT_LOOPS))
    if wrong and checks_loops:
        raise HespasError(
            f"the mapping names loops that a product does not have: {', '.join(wrong)}",
            remedy="use D (rows of the result), K (its columns) and C (the summed size)",
        )


def describe_layer(product: dict[str, Any]) -> dict[str, Any]:
    """Describe the product as a layer of ZigZag: O[d][k] += I[d][c] * W[c][k]."""
    return {
        "id": 0,
        "name": "product",
        "operator_type": "Gemm",
        "equation": "O[d][k]+=I[d][c]*W[c][k]",
        "dimension_relations": [],
        "loop_dims": list(PRODUCT_LOOPS),
        "loop_sizes": [product["m"], product["n"], product["k"]],
        "operand_precision": {
            "W": product["in_bits"],
            "I": product["in_bits"],
            "O": product["sum_bits"],
            "O_final": product["out_bits"],
        },
        "operand_source": {"I": 0, "W": 0},
    }


def build_array_mapping(machine: dict[str, Any]) -> list[dict[str, Any]]:
    """Build a weight-stationary mapping: the summed size is on the rows."""
    spatial = {"D1": [f"C, {machine['rows']}"], "D2": [f"K, {machine['columns']}"]}
    links = {"O": "O", "W": "I2", "I": "I1"}
    return [{"name": "default", "spatial_mapping": spatial, "memory_operand_links": links}]


def build_array_description(machine: dict[str, Any]) -> dict[str, Any]:
    """Describe one array with its registers, on-chip memory and device memory.

    A cell holds two weights, the current and the next, and a partial sum. Energies are 0, because
    they are not reported.
    """
    word, rows, columns = machine["in_bits"], machine["rows"], machine["columns"]
    part = machine["sum_bits"]
    inputs, weights, sums = rows * word, columns * word, columns * part
    device = machine["bits_per_cycle"]
    sram_bits = 8 * machine["sram_bytes"]
    directions = ("fh", "tl", "fl", "th")
    return {
        "name": "array",
        "memories": {
            "weights": _build_memory_entry(2 * word, ["I2"], [], [
                _build_port_entry("r_port_1", "read", word, ["I2, tl"]),
                _build_port_entry("w_port_1", "write", word, ["I2, fh"]),
            ]),
            "sums": _build_memory_entry(part, ["O"], [], [
                _build_port_entry("r_port_1", "read", part, ["O, tl"]),
                _build_port_entry("r_port_2", "read", part, ["O, th"]),
                _build_port_entry("w_port_1", "write", part, ["O, fh"]),
                _build_port_entry("w_port_2", "write", part, ["O, fl"]),
            ]),
            "sram": _build_memory_entry(sram_bits, ["I1", "I2", "O"], ["D1", "D2"], [
                _build_port_entry("r_port_1", "read", inputs, ["I1, tl"]),
                _build_port_entry("r_port_2", "read", weights, ["I2, tl"]),
                _build_port_entry("r_port_3", "read", sums, ["O, tl", "O, th"]),
                _build_port_entry("w_port_1", "write", inputs, ["I1, fh"]),
                _build_port_entry("w_port_2", "write", weights, ["I2, fh"]),
                _build_port_entry("w_port_3", "write", sums, ["O, fh", "O, fl"]),
            ]),
            "dram": _build_memory_entry(10**13, ["I1", "I2", "O"], ["D1", "D2"], [
                _build_port_entry("rw_port_1", "read_write", device, [
                    *(f"{operand}, {way}" for operand in ("I1", "I2") for way in ("fh", "tl")),
                    *(f"O, {way}" for way in directions),
                ]),
            ]),
        },
        "operational_array": {
            "unit_energy": 0.0,
            "unit_area": 0.0,
            "dimensions": ["D1", "D2"],
            "sizes": [rows, columns],
            "systolic_dimensions": ["D1", "D2"],
        },
    }  # fmt: skip


def _build_memory_entry(
    size: int, operands: list[str], served: list[str], ports: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "size": size, "r_cost": 0.0, "w_cost": 0.0, "area": 0.0, "latency": 1,
        "operands": operands, "ports": ports, "served_dimensions": served,
    }  # fmt: skip


def _build_port_entry(name: str, kind: str, bits: int, allocation: list[str]) -> dict[str, Any]:
    return {
        "name": name, "type": kind, "bandwidth_min": bits, "bandwidth_max": bits,
        "allocation": allocation,
    }  # fmt: skip
