"""Timing the flow-level model: CPU time of whole processes, without that of the imports."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from benchmarks.measure import build_python_command, build_tool_command, run_process

CASES = (
    # label, devices, network, layers, limit in seconds
    ("64 devices, 192 collectives on a torus", 64, "torus:4x4x4,links=6", 32, 0.3),
    ("256 devices, 500 collectives on a torus", 256, "torus:16x16,links=4", 84, 10),
    ("16,384 devices, TP 8 x FSDP on a torus", 16_384, "torus:16x32x32,links=6", 32, 10),
    ("... on rails", 16_384, "rails:8x2048,links=18,nic_gb_s=50", 32, 10),
)
RATES = "link_gb_s=50,latency_ns=500,local_mem_gb_s=3350"
_IMPORTS = "import benchmarks.flows, hespas.simulators.embedded.flows.flow_engine"
ALIKE_DEVICES, ALIKE_LAYERS, ALIKE_LIMIT_S = 131_072, 4, 7


def measure_flow_simulations(folder: Path) -> list[tuple[str, str, str]]:
    """Return rows of label, CPU time and limit."""
    import_s = min(run_process(build_python_command(_IMPORTS)).cpu_s for _ in range(3))
    rows = []
    for label, devices, network, layers, limit_s in CASES:
        code = f"{_IMPORTS}; benchmarks.flows.simulate_layers({devices}, {network!r}, {layers})"
        cpu_s = min(run_process(build_python_command(code)).cpu_s for _ in range(3)) - import_s
        rows.append((f"flows of {label}, CPU time", f"{cpu_s:.2f} s", f"{limit_s} s"))
    program = folder / "alike.mlir"
    program.write_text(render_alike_program(ALIKE_DEVICES, ALIKE_LAYERS))
    system = f"rails:8x{ALIKE_DEVICES // 8},links=18,nic_gb_s=50,{RATES}"
    command = build_tool_command(
        "hespas", "run", "--mlir", str(program), "--node", "H100_80GB",
        "--estimator", "roofline", "--system", system,
    )  # fmt: skip
    with contextlib.chdir(folder):
        cpu_s = run_process(command).cpu_s
    label = f"`hespas run` of {ALIKE_LAYERS} layers on {ALIKE_DEVICES:,} alike devices, CPU time"
    return [*rows, (label, f"{cpu_s:.1f} s", f"{ALIKE_LIMIT_S} s")]


def simulate_layers(devices: int, network: str, layers: int) -> None:
    """Simulate layers with tensor parallelism of 8 and FSDP over the other devices."""
    from hespas import configs
    from hespas.chakra.trace_steps import (
        CollectiveContent,
        ComputeContent,
        ProgramTrace,
        StepContent,
        TraceStep,
    )
    from hespas.passes.emit.trace_tasks import COMM_TYPES
    from hespas.simulators.embedded import run_event_simulation
    from hespas.simulators.in_memory_programs import InMemoryPrograms
    from hespas.simulators.simulation_options import SimulationOptions

    tensor = [tuple(range(first, first + 8)) for first in range(0, devices, 8)]
    shards = [tuple(range(first, devices, 8)) for first in range(8)]
    groups = dict(enumerate([*tensor, *shards], 1))
    trace = ProgramTrace(devices, groups)

    def append_step(content: StepContent) -> None:
        last = len(trace.steps)
        trace.steps.append(TraceStep(last + 1, (last,) if last else (), content))

    def append_collective(kind: str, size: int, ids: range) -> None:
        append_step(CollectiveContent(kind, int(COMM_TYPES[kind]), size, tuple(ids)))

    tensor_ids = range(1, len(tensor) + 1)
    shard_ids = range(len(tensor) + 1, len(groups) + 1)
    for layer in range(layers):
        append_collective("all_gather", (1 << 28) // devices * 8, shard_ids)
        for part in range(4):
            append_step(ComputeContent("layer", 10**12 + layer + part))
            append_collective("all_reduce", 1 << 25, tensor_ids)
        append_collective("reduce_scatter", 1 << 28, shard_ids)
    inputs = InMemoryPrograms(trace).place_on_system(configs.load_system(f"{network},{RATES}"))
    result = run_event_simulation(inputs, SimulationOptions(intervals=False))
    assert result.step_time_ns, sys.argv


def render_alike_program(devices: int, layers: int) -> str:
    """Render a program of products and all-reduces between groups of 8."""
    groups = ", ".join(f"[{', '.join(map(str, range(i, i + 8)))}]" for i in range(0, devices, 8))
    kind = "tensor<1024x1024xf32>"
    lines = [
        f"module @step attributes {{mhlo.num_partitions = {devices} : i32, "
        "mhlo.num_replicas = 1 : i32} {",
        f"  func.func @main(%x0: {kind}) -> {kind} {{",
    ]
    lines += [
        f"    %y{layer} = stablehlo.dot_general %x{layer}, %x{layer}, "
        "contracting_dims = [1] x [0] : "
        f"({kind}, {kind}) -> {kind}\n"
        f'    %x{layer + 1} = "stablehlo.all_reduce"(%y{layer}) <{{channel_handle = '
        f"#stablehlo.channel_handle<handle = {layer + 1}, type = 1>, replica_groups = "
        f"dense<[{groups}]> : tensor<{devices // 8}x8xi64>, use_global_device_ids}}> ({{\n"
        "    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "      %s = stablehlo.add %a, %b : tensor<f32>\n"
        "      stablehlo.return %s : tensor<f32>\n"
        f"    }}) : ({kind}) -> {kind}"
        for layer in range(layers)
    ]
    return "\n".join([*lines, f"    return %x{layers} : {kind}", "  }", "}", ""])
