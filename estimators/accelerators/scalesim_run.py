"""Simulate one matrix product in SCALE-Sim v3: JSON on stdin, JSON on stdout.

The script runs in an interpreter with the package scalesim (which needs numpy < 2.4), so it imports
nothing of hespas.
"""

import contextlib
import json
import sys
import tempfile
from pathlib import Path

BANKS = 8  # memory banks; the bandwidth of a bank must be a multiple of their number

CONFIGURATION = """\
[general]
run_name = product
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {columns}
IfmapSramSzkB = {sram_kb}
FilterSramSzkB = {sram_kb}
OfmapSramSzkB = {sram_kb}
IfmapOffset = 0
FilterOffset = 1000000000
OfmapOffset = 2000000000
Dataflow = {dataflow}
Bandwidth = {words_per_cycle}
ReadRequestBuffer = 512
WriteRequestBuffer = 512
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = {words_per_cycle}
IfmapSRAMBankNum = {banks}
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = {words_per_cycle}
FilterSRAMBankNum = {banks}
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = False
SparseRep = ellpack_block
OptimizedMapping = False
BlockSize = 4
RandomNumberGeneratorSeed = 40
[run_presets]
InterfaceBandwidth = {mode}
UseRamulatorTrace = False
"""


def simulate_product(product: dict) -> dict:
    """Simulate an M x K by K x N product.

    Args:
        product: ``m``, ``k``, ``n``, ``rows``, ``columns``, ``dataflow`` (ws, os, is), ``sram_kb``
            of each of three buffers of one-byte words, and ``words_per_cycle`` to memory: a
            multiple of ``banks`` (default: 8), or 0 for a memory that never stalls.

    Returns:
        ``cycles`` (prefetch, compute, stalls, drain), ``compute_cycles`` (without the prefetch),
        ``stall_cycles``, the ``utilisation`` of the array, and the elements that are read from
        device memory and written to it (``inputs``, ``weights``, ``results``).
    """
    from scalesim.scale_sim import scalesim

    with tempfile.TemporaryDirectory() as folder:
        folder_path = Path(folder)
        bounded = product["words_per_cycle"] > 0
        text = CONFIGURATION.format(
            **{"banks": BANKS, **product, "words_per_cycle": product["words_per_cycle"] or BANKS},
            mode="USER" if bounded else "CALC",
        )
        (folder_path / "core.cfg").write_text(text)
        size = f"{product['m']},{product['n']},{product['k']}"
        (folder_path / "gemm.csv").write_text(f"Layer,M,N,K,\nproduct,{size},\n")
        (folder_path / "layout.csv").write_text("Layer\n")  # SCALE-Sim always reads it
        simulator = scalesim(
            save_disk_space=True,
            verbose=False,
            config=str(folder_path / "core.cfg"),
            topology=str(folder_path / "gemm.csv"),
            layout=str(folder_path / "layout.csv"),
            input_type_gemm=True,
        )
        simulator.run_scale(top_path=str(folder_path))
        layer = simulator.runner.single_layer_sim_object_list[0]
        total, compute, stalls, *_, utilisation = layer.get_compute_report_items()
        *_, inputs, _, _, weights, _, _, results = layer.get_detail_report_items()
    return {
        "cycles": int(total),
        "compute_cycles": int(compute),
        "stall_cycles": int(stalls),
        "utilisation": float(utilisation) / 100,
        "inputs": int(inputs),
        "weights": int(weights),
        "results": int(results),
    }


def main() -> None:
    product = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        answer = simulate_product(product)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
