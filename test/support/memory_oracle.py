"""The memory of a program beside what XLA:CPU plans for it (``memory_analysis``).

``PYTHONPATH=test python -m support.memory_oracle`` writes the table of the workloads into
docs/reference/memory.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxlib import xla_client

from hespas import frontends, passes
from hespas.dialects.mlir import ir, make_context
from hespas.passes.base import PassRun
from hespas.passes.compile.hlo_to_stablehlo import convert_hlo_to_stablehlo
from hespas.passes.memory.fusion_model import find_kernel_results_over
from hespas.passes.memory.liveness_program import LivenessOp
from hespas.passes.memory.memory_annotate import compute_memory_use
from support.execution import DEVICES, as_replicas, client
from support.paths import ROOT, find_workloads

PAGE = ROOT / "docs" / "reference" / "memory.md"
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end -->)", re.DOTALL)
FAST = (
    "adamw_update",
    "allgather_matmul",
    "control_flow",
    "decode_step",
    "lstm_scan",
    "mlp_dp_train",
    "pipeline_ppermute",
    "transformer_block_fwd",
)
# XLA:CPU has none of these in place; NCCL, and with it XLA:GPU, has.
COPIED_ON_CPU = ("stablehlo.all_reduce", "stablehlo.collective_broadcast")


@dataclass(frozen=True)
class Plan:
    """Bytes on one device: ``peak`` is ours of the program that XLA has compiled."""

    arguments: int
    results: int
    aliased: int
    temporaries: int
    peak: int

    @property
    def total(self) -> int:
        return self.arguments + self.results - self.aliased + self.temporaries


def plan(text: str, devices: int = DEVICES) -> Plan:
    """What XLA:CPU plans for a partitioned program, and what we find in what it made."""
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = devices, 1
    assignment = np.arange(devices).reshape(devices, 1)
    options.device_assignment = xla_client.DeviceAssignment.create(assignment)
    where = xla_client.DeviceList(tuple(client().local_devices()[:devices]))
    executable = client().compile_and_load(as_replicas(text), where, options)
    stats = executable.get_compiled_memory_stats()
    proto = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    module = prepared(
        ir.Module.parse(convert_hlo_to_stablehlo(proto, scheduled=True), make_context())
    )
    return Plan(
        stats.argument_size_in_bytes,
        stats.output_size_in_bytes,
        stats.alias_size_in_bytes,
        stats.temp_size_in_bytes,
        compute_memory_use(module, False, on_cpu).peak_bytes,
    )


def on_cpu(item: LivenessOp, value: int) -> Collection[int]:
    """``kernel_results_over`` on XLA:CPU."""
    return () if item.op.name in COPIED_ON_CPU else find_kernel_results_over(item, value)


def prepared(module: ir.Module) -> ir.Module:
    passes.run_pipeline(module, "prepare{partition=false}", PassRun(note=lambda text: None))
    return module


def peak(path: Path) -> int:
    """Peak bytes of a workload of local shapes."""
    return compute_memory_use(prepared(frontends.read_module(str(path), make_context()))).peak_bytes


def row(folder: Path) -> str:
    """A row of the table: a program of the zoo."""
    partitioned = file(folder, "spmd")
    memory_plan = plan(str(frontends.read_module(str(partitioned), make_context())))
    optimised = file(folder, "opt")
    model = f"{peak(partitioned) / peak(optimised):.2f}" if optimised.exists() else ""
    cells = (
        f"`{folder.name}`",
        f"{memory_plan.total / 1e6:.2f}",
        f"{memory_plan.peak / 1e6:.2f}",
        f"{memory_plan.peak / memory_plan.total:.3f}",
        model,
    )
    return f"| {' | '.join(cells)} |\n"


def file(folder: Path, name: str) -> Path:
    plain = folder / f"{name}.mlir"
    return plain if plain.exists() else plain.with_suffix(".mlir.xz")


def main() -> None:
    folder = find_workloads()
    if folder is None:
        sys.exit("the shared workloads are not here: set HESPAS_WORKLOADS")
    zoo = sorted(path for path in (folder / "zoo").iterdir() if file(path, "spmd").exists())
    head = (
        "| program | XLA:CPU, MB | hespas, MB | ratio | not optimised, over XLA:GPU's |\n"
        "|---|---|---|---|---|\n"
    )
    table = head + "".join(map(row, zoo))
    PAGE.write_text(TABLE.sub(lambda _: table, PAGE.read_text()))


if __name__ == "__main__":
    main()
