"""ZigZag's own count of the bytes that a product moves to and from device memory."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

from hespas.estimators.accelerators import zigzag_worker

ZIGZAG_ARRAY = 16  # rows and columns
SEARCH_LIMIT = 6  # more loops than the recorded products have


def search_least_traffic(sizes: tuple[int, int, int], sram_bytes: int) -> tuple[int, int, int, int]:
    """Return the bytes of the mapping of a product of i8 that moves the fewest.

    Only device memory has an energy, of 1 for each byte, so the mapping of the least energy is
    that of the least traffic. The SRAM holds each block twice unless it is the whole matrix.

    Args:
        sizes: (M, K, N).

    Returns:
        The inputs and weights that are read, the partial sums that are read, and all sums that are
        written.
    """
    from zigzag.hardware.architecture.memory_port import DataDirection

    machine = {
        **dict(zip("mkn", sizes, strict=True)),
        **dict.fromkeys(("rows", "columns"), ZIGZAG_ARRAY),
        **dict.fromkeys(("in_bits", "out_bits", "bits_per_cycle"), 8),
        "sum_bits": 32,
        "sram_bytes": sram_bytes,
    }
    accesses = {
        str(operand): levels[-1]
        for operand, levels in _find_best_mapping(machine).memory_word_access.items()
    }
    reads = (accesses[each].get(DataDirection.RD_OUT_TO_LOW) for each in "IWO")
    written = accesses["O"].get(DataDirection.WR_IN_BY_LOW)
    inputs, weights, sums = map(int, reads)
    return inputs, weights, sums, int(written)


def _find_best_mapping(machine: dict[str, Any]) -> Any:
    """Return ZigZag's evaluation of the mapping with the least energy."""
    from zigzag.stages.results.reduce_stages import MinimalEnergyStage

    description = zigzag_worker.build_array_description(machine)
    memories = description["memories"]
    memories["dram"]["r_cost"] = memories["dram"]["w_cost"] = 1.0
    memories["sram"]["force_double_buffering"] = True
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        accelerator, mapping = Path(folder) / "accelerator.yaml", Path(folder) / "mapping.yaml"
        accelerator.write_text(json.dumps(description))
        mapping.write_text(json.dumps(zigzag_worker.build_array_mapping(machine)))
        return zigzag_worker.evaluate_best_mapping(
            machine,
            str(accelerator),
            str(mapping),
            SEARCH_LIMIT,
            [],
            MinimalEnergyStage,
            mappings=1,
        )
