"""Times the embedded simulator on made traces, reading included; each in a process of its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from benchmarks.measure import Sample, python, sample
from hespas.chakra import record_encoding
from hespas.chakra.schema import NodeType

CASES = (
    # what, nodes, devices, devices of a communicator, collectives: one node in so many, limit
    ("12,000 nodes x 4 devices, an all-reduce in 4", 12_000, 4, 4, 4, "1 s"),
    ("5,000 nodes x 64 devices, chained (ASTRA-sim: 22.4 s)", 5_000, 64, 64, 4, "1.1 s: 20 times"),
    ("2,000 collectives x 1,024 devices", 2_000, 1_024, 1_024, 1, "seconds"),
    ("2,000 nodes x 8 devices, groups of 8", 2_000, 8, 8, 4, ""),
    ("... x 4,096 devices, groups of 8", 2_000, 4_096, 8, 4, "about that of 8 devices"),
)
_RUN = (
    "import sys; from hespas.simulators import simulation_inputs; "
    "from hespas.simulators.embedded import run_event_simulation; "
    "inputs = simulation_inputs.load_inputs(sys.argv[1], sys.argv[2]); "
    "r = run_event_simulation(inputs); assert r.step_time_ns; "
    "status = open('/proc/self/status').read(); "
    "open(sys.argv[3], 'w').write(status.partition('VmHWM:')[2].split()[0])"
)  # the peak that wait4 tells is at least that of the process that started it
_BARE = "import hespas.simulators.simulation_inputs, hespas.simulators.embedded"


def simulations(folder: Path) -> list[tuple[str, str, str]]:
    """Rows: what, the time less that of the imports and the peak memory, the limit."""
    bare = min(sample(python(_BARE)).wall_s for _ in range(3))
    rows = []
    for what, nodes, devices, group, every, limit in CASES:
        made = folder / f"{nodes}-{devices}"
        traces(made / "traces", nodes, devices, group, every)
        system(made / "system", devices)
        peak = made / "peak_kib"
        command = python(_RUN, str(made / "traces"), str(made / "system"), str(peak))
        best: Sample = min((sample(command) for _ in range(3)), key=lambda s: s.wall_s)
        peak_bytes = 1024 * int(peak.read_text())
        shutil.rmtree(made)
        time = f"{best.wall_s - bare:.2f} s ({peak_bytes / 1e6:.0f} MB)"
        rows.append((f"simulate {what}", time, limit))
    return rows


def traces(folder: Path, nodes: int, devices: int, group: int, every: int) -> None:
    """Compute nodes of 20 us in a chain, and a chain of all-reduces of 1 MiB that wait for them."""
    folder.mkdir(parents=True)
    groups = {k + 1: list(range(k * group, (k + 1) * group)) for k in range(devices // group)}
    (folder / "comm_group.json").write_text(json.dumps(groups))
    for number, members in groups.items():
        data = _trace(nodes, number, every)
        for rank in members:
            (folder / f"dev.{rank}.et").write_bytes(data)


def _trace(nodes: int, group: int, every: int) -> bytes:
    plain = record_encoding.encode_int_attr("is_cpu_op", 0, "bool")
    comm = (
        plain
        + record_encoding.encode_int_attr("comm_type", 0, "int64")
        + record_encoding.encode_int_attr("comm_size", 1 << 20, "int64")
        + record_encoding.encode_text_attr("pg_name", str(group))
    )
    records = [record_encoding.encode_metadata_record()]
    compute, reduce = 0, 0
    for i in range(1, nodes + 1):
        is_comm = i % every == 0
        deps = [d for d in ((compute, reduce) if is_comm else (compute,)) if d]
        kind = NodeType.COMM_COLL_NODE if is_comm else NodeType.COMP_NODE
        name = record_encoding.encode_node_name(f"n{i}")
        records.append(
            record_encoding.encode_record(
                record_encoding.encode_node(
                    i, name, kind, deps, 0 if is_comm else 20, comm if is_comm else plain
                )
            )
        )
        if is_comm:
            reduce = i
        else:
            compute = i
    return b"".join(records)


def system(folder: Path, devices: int) -> None:
    """A switch of 100 GB/s and 500 ns, ring algorithms."""
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
