"""Timing the embedded simulator on generated traces, which it also reads, in separate processes."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import ProcessUsage, build_python_command, run_process
from hespas.chakra import record_encoding
from hespas.chakra.schema import NodeType

CASES = (
    # label, nodes, devices, devices of a communicator, nodes per collective, skewed, limit
    ("12,000 nodes x 4 devices, an all-reduce in 4", 12_000, 4, 4, 4, False, "1 s"),
    (
        "... each device with durations of its own (ASTRA-sim: 0.6 s)",
        12_000, 4, 4, 4, True, "that of ASTRA-sim, with the imports",
    ),
    (
        "5,000 nodes x 64 devices, chained (ASTRA-sim: 22.4 s)",
        5_000, 64, 64, 4, False, "1.1 s: 20 times",
    ),
    ("2,000 collectives x 1,024 devices", 2_000, 1_024, 1_024, 1, False, "seconds"),
    ("2,000 nodes x 8 devices, groups of 8", 2_000, 8, 8, 4, False, ""),
    ("... x 4,096 devices, groups of 8", 2_000, 4_096, 8, 4, False, "about that of 8 devices"),
)  # fmt: skip
_SIMULATE = (
    "import sys; from hespas.simulators import simulation_inputs; "
    "from hespas.simulators.embedded import run_event_simulation; "
    "inputs = simulation_inputs.load_inputs(sys.argv[1], sys.argv[2]); "
    "r = run_event_simulation(inputs); assert r.step_time_ns; "
    "status = open('/proc/self/status').read(); "
    "open(sys.argv[3], 'w').write(status.partition('VmHWM:')[2].split()[0])"
)  # it reports its own peak, since that of wait4 is at least the peak of the parent process
_IMPORT_ONLY = "import hespas.simulators.simulation_inputs, hespas.simulators.embedded"


def measure_simulations(folder: Path) -> list[tuple[str, str, str]]:
    """Return rows of label, time (without that of the imports) with peak memory, and limit."""
    import_s = min(run_process(build_python_command(_IMPORT_ONLY)).wall_s for _ in range(3))
    rows = []
    for label, nodes, devices, group, collective_interval, skewed, limit in CASES:
        case_folder = folder / f"{nodes}-{devices}"
        write_traces(
            case_folder / "traces", nodes, devices, group, collective_interval, skewed=skewed
        )
        write_system(case_folder / "system", devices)
        peak = case_folder / "peak_kib"
        inputs = [str(case_folder / "traces"), str(case_folder / "system")]
        command = build_python_command(_SIMULATE, *inputs, str(peak))
        best: ProcessUsage = min((run_process(command) for _ in range(3)), key=lambda s: s.wall_s)
        peak_bytes = 1024 * int(peak.read_text())
        shutil.rmtree(case_folder)
        time = f"{best.wall_s - import_s:.2f} s ({peak_bytes / 1e6:.0f} MB)"
        rows.append((f"simulate {label}", time, limit))
    return rows


def write_traces(
    folder: Path,
    nodes: int,
    devices: int,
    group: int,
    collective_interval: int,
    *,
    skewed: bool = False,
) -> None:
    """Write traces with a chain of compute nodes and a chain of all-reduces that depend on them.

    An all-reduce has 1 MiB. A compute node takes 20 us, or 10 to 40 us at random if ``skewed``.
    """
    folder.mkdir(parents=True)
    groups = {k + 1: list(range(k * group, (k + 1) * group)) for k in range(devices // group)}
    (folder / "comm_group.json").write_text(json.dumps(groups))
    for number, members in groups.items():
        data = _encode_trace(number, [20] * nodes, collective_interval)
        for rank in members:
            if skewed:
                rng = random.Random(rank)
                durations_us = [rng.randint(10, 40) for _ in range(nodes)]
                data = _encode_trace(number, durations_us, collective_interval)
            (folder / f"dev.{rank}.et").write_bytes(data)


def _encode_trace(group: int, durations_us: Sequence[int], collective_interval: int) -> bytes:
    plain = record_encoding.encode_int_attr("is_cpu_op", 0, "bool")
    comm = (
        plain
        + record_encoding.encode_int_attr("comm_type", 0, "int64")
        + record_encoding.encode_int_attr("comm_size", 1 << 20, "int64")
        + record_encoding.encode_text_attr("pg_name", str(group))
    )
    records = [record_encoding.encode_metadata_record()]
    compute, reduce = 0, 0
    for i, duration_us in enumerate(durations_us, start=1):
        is_comm = i % collective_interval == 0
        deps = [d for d in ((compute, reduce) if is_comm else (compute,)) if d]
        kind = NodeType.COMM_COLL_NODE if is_comm else NodeType.COMP_NODE
        name = record_encoding.encode_node_name(f"n{i}")
        records.append(
            record_encoding.encode_record(
                record_encoding.encode_node(
                    i, name, kind, deps, 0 if is_comm else duration_us, comm if is_comm else plain
                )
            )
        )
        if is_comm:
            reduce = i
        else:
            compute = i
    return b"".join(records)


def write_system(folder: Path, devices: int) -> None:
    """Write a system with a switch of 100 GB/s and 500 ns, and with ring algorithms."""
    folder.mkdir(parents=True)
    (folder / "network.yml").write_text(
        f"topology: [ Switch ]\nnpus_count: [ {devices} ]\nbandwidth: [ 100 ]\nlatency: [ 500 ]\n"
    )
    keys = {
        "scheduling-policy": "FIFO",
        "collective-optimization": "localBWAware",
        "preferred-dataset-splits": 1,
        "active-chunks-per-dimension": 1,
        "endpoint-delay": 10,
        "local-mem-bw": 1600,
    }
    kinds = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    keys |= {f"{kind}-implementation": ["ring"] for kind in kinds}
    (folder / "system.json").write_text(json.dumps(keys))
