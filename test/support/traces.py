"""Traces for the simulators' tests, written node by node."""

from __future__ import annotations

import csv
import json
import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hespas.chakra import record_encoding, schema
from hespas.chakra.trace_folder import find_trace_files
from hespas.chakra.trace_reader import TraceNode, read_trace_nodes
from hespas.configs import load_system
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.simulators.simulation_result import SimulationResult
from hespas.simulators.simulator_choice import simulate_inputs
from support.paths import DATA

COMP, SEND, RECV, COLL = 4, 5, 6, 7
ALL_REDUCE, ALL_GATHER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER = 0, 2, 5, 6, 7


def node(number: int, kind: int, deps: Sequence[int] = (), micros: int = 0, **attrs: Any) -> bytes:
    """A node's record; attribute values are (kind, value)."""
    message = schema.get_message_class("Node")(
        id=number, name=f"n{number}", type=kind, data_deps=deps, duration_micros=micros
    )
    for name, (kind_of, value) in ({"is_cpu_op": ("bool", False)} | attrs).items():
        attr = message.attr.add(name=name)
        if kind_of.endswith("_list"):
            getattr(attr, kind_of).values.extend(value)
        else:
            setattr(attr, f"{kind_of}_val", value)
    return record_encoding.encode_record(message.SerializeToString())


def comp(number: int, deps: Sequence[int] = (), micros: int = 5, ns: int | None = None) -> bytes:
    """A compute node of so many microseconds; with ``ns``, of exactly so many in roofline mode."""
    exact = {}
    if ns is not None:
        exact = {"num_ops": ("int64", 1000 * ns + 500), "tensor_size": ("uint64", 1)}
    return node(number, COMP, deps, micros, **exact)


def coll(
    number: int,
    deps: Sequence[int] = (),
    kind: int = ALL_REDUCE,
    size: int = 1 << 20,
    group: int = 1,
    **more: Any,
) -> bytes:
    """A collective of ``size`` bytes on communicator ``group``; 0 is the default one."""
    attrs = {"comm_type": ("int64", kind), "comm_size": ("int64", size)}
    if group:
        attrs["pg_name"] = ("string", str(group))
    return node(number, COLL, deps, **attrs, **more)


def send(number: int, to: int, deps: Sequence[int] = (), size: int = 4096, tag: int = 1) -> bytes:
    attrs = {"comm_dst": ("int32", to), "comm_size": ("int64", size), "comm_tag": ("int32", tag)}
    return node(number, SEND, deps, **attrs)


def recv(number: int, of: int, deps: Sequence[int] = (), size: int = 4096, tag: int = 1) -> bytes:
    attrs = {"comm_src": ("int32", of), "comm_size": ("int64", size), "comm_tag": ("int32", tag)}
    return node(number, RECV, deps, **attrs)


def save(
    folder: Path,
    ranks: Sequence[Sequence[bytes]],
    groups: Mapping[int, Sequence[int]] | None = None,
) -> Path:
    """Write ``dev.N.et`` and ``comm_group.json``; group 1 is all ranks where none are given."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, nodes in enumerate(ranks):
        (folder / f"dev.{rank}.et").write_bytes(
            record_encoding.encode_metadata_record() + b"".join(nodes)
        )
    if groups is None:
        groups = {1: range(len(ranks))}
    text = json.dumps({str(number): list(members) for number, members in groups.items()})
    (folder / "comm_group.json").write_text(text)
    return folder


def read_nodes(folder: Path, device: int) -> dict[int, TraceNode]:
    """Read the nodes of a device by id, whether a simulation can run them or not."""
    return {node.id: node for node in read_trace_nodes(find_trace_files(folder)[device])}


def read_groups(folder: Path) -> dict[int, Sequence[int]]:
    """Read the devices of each communicator but that of all devices."""
    groups = json.loads((folder / "comm_group.json").read_text())
    return {int(number): members for number, members in groups.items()}


def system(
    folder: Path,
    counts: Sequence[int],
    *,
    topology: str | Sequence[str] = "Ring",
    bandwidth: float | Sequence[float] = 100,
    latency: float | Sequence[float] = 500,
    algorithm: str | Sequence[str] = "ring",
    **settings: Any,
) -> Path:
    """Write a system's files; ``settings`` are further keys of system.json, with underscores."""
    folder.mkdir(parents=True, exist_ok=True)
    dims = len(counts)
    algorithms = _each(algorithm, dims)
    network = {
        "topology": _each(topology, dims),
        "npus_count": list(counts),
        "bandwidth": _each(bandwidth, dims),
        "latency": _each(latency, dims),
    }
    lines = [f"{key}: [ {', '.join(map(str, values))} ]\n" for key, values in network.items()]
    (folder / "network.yml").write_text("".join(lines))
    keys: dict[str, Any] = {
        "scheduling-policy": "FIFO",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 1,
        "preferred-dataset-splits": 1,
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1600,
        "trace-enabled": 0,
    }
    for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all"):
        keys[f"{name}-implementation"] = algorithms
    keys |= {key.replace("_", "-"): value for key, value in settings.items()}
    (folder / "system.json").write_text(json.dumps(keys, indent=1))
    (folder / "remote_memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    return folder


def _each(value: Any, dims: int) -> list[Any]:
    return [value] * dims if isinstance(value, (str, int, float)) else list(value)


def experiments() -> list[dict[str, str]]:
    """The rows of ``test/data/astra-sim.csv``: what ASTRA-sim says of one collective."""
    with (DATA / "astra-sim.csv").open(encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def experiment(folder: Path, row: Mapping[str, str]) -> tuple[Path, Path]:
    """Write a row's traces and system; their folders."""
    counts = [int(count) for count in row["npus"].split("x")]
    kind = {
        "ALL_REDUCE": ALL_REDUCE,
        "ALL_GATHER": ALL_GATHER,
        "REDUCE_SCATTER": REDUCE_SCATTER,
        "ALL_TO_ALL": ALL_TO_ALL,
    }[row["collective"]]
    nodes = [coll(1, kind=kind, size=int(row["size_bytes"]), group=0)]
    system_folder = system(
        folder / "system",
        counts,
        topology=row["topology"].split("x"),
        bandwidth=[float(value) for value in row["bandwidth_GBps"].split("x")],
        latency=[float(value) for value in row["latency_ns"].split("x")],
        algorithm=row["algorithm"].split("+"),
        preferred_dataset_splits=int(row["splits"]),
        active_chunks_per_dimension=int(row["active_chunks"]),
        endpoint_delay=int(row["endpoint_delay"]),
        local_mem_bw=float(row["local_mem_bw"]),
        collective_optimization=row["optimization"],
    )
    return save(folder / "traces", [nodes] * math.prod(counts), {}), system_folder


def random_case(folder: Path, seed: int, dims: int = 1) -> tuple[Path, Path]:
    """Random traces and a random system of ``dims`` dimensions; their folders.

    Devices start at different times, and run collectives on all of them and on parts, messages to
    neighbours, and compute nodes beside these; nothing waits for ever.
    """
    pick = random.Random(seed)
    shapes = {1: [[3], [4], [5], [8]], 2: [[4, 2], [2, 4], [3, 2]], 3: [[2, 2, 2]]}
    counts = pick.choice(shapes[dims])
    devices = math.prod(counts)
    kinds = [pick.choice(["Ring", "FullyConnected", "Switch"]) for _ in counts]
    kinds = ["Switch" if n == 2 and k == "Ring" else k for n, k in zip(counts, kinds, strict=True)]
    halving = devices & (devices - 1) == 0 and pick.random() < 0.25
    algorithm = "halvingDoubling" if halving else pick.choice(["ring", "direct"])
    shuffled = pick.sample(range(devices), devices)
    half = devices // 2
    groups: dict[int, Sequence[int]] = {1: range(devices)}
    parts = [(1,)]
    if devices > 3 and not (halving and half & (half - 1)):
        groups |= {2: sorted(shuffled[:half]), 3: sorted(shuffled[half:])}
        parts.append((2, 3))
    ranks: list[list[bytes]] = [[] for _ in range(devices)]
    computed, communicated = [0] * devices, [0] * devices
    number = 1

    def deps(device: int) -> list[int]:
        some = [computed[device]] if computed[device] and pick.random() < 0.7 else []
        return some + ([communicated[device]] if communicated[device] else [])

    for _ in range(pick.randint(3, 9)):
        choice = pick.choice(["compute", "compute", "collective", "collective", "message"])
        if choice == "compute":
            for device in range(devices):
                if pick.random() < 0.85:
                    micros = pick.choice([0, 1, 2, 5, 20])
                    ranks[device].append(comp(number, deps(device), micros))
                    computed[device] = number
        elif choice == "collective":
            options = [ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER] + [ALL_TO_ALL] * (not halving)
            kind, size = pick.choice(options), pick.choice([1024, 4096, 100_000, 1 << 20])
            for group in pick.choice(parts):
                for device in groups[group]:
                    ranks[device].append(coll(number, deps(device), kind, size, group))
                    communicated[device] = number
        else:
            shift, size = pick.randrange(1, devices), pick.choice([1000, 65536, 1 << 20])
            for device in range(devices):
                before = deps(device)
                to, of = (device + shift) % devices, (device - shift) % devices
                ranks[device].append(send(number, to, before, size, tag=number))
                ranks[device].append(recv(number + 1, of, before, size, tag=number))
                communicated[device] = number
            number += 1
        number += 1
    for nodes in ranks:
        if not nodes:
            nodes.append(comp(number))
    splits = pick.choice([1, 1, 2, 4])
    system_folder = system(
        folder / "system",
        counts,
        topology=kinds,
        bandwidth=pick.choice([25, 100, 300]),
        latency=pick.choice([30, 500, 936.25]),
        algorithm=algorithm,
        preferred_dataset_splits=splits,
        active_chunks_per_dimension=splits if dims > 2 else pick.choice([1, 2, 4]),
        endpoint_delay=pick.choice([1, 10]),
        collective_optimization=pick.choice(["baseline", "localBWAware"]),
    )
    return save(folder / "traces", ranks, groups), system_folder


def simulate_folder(
    folder: Path | str,
    system: SystemSpec | Path | str,
    choice: SimulatorChoice = SimulatorChoice(),  # noqa: B008  immutable
    *,
    note: Callable[[str], None] = lambda text: None,
) -> SimulationResult:
    """Simulate the traces of a folder on a system, a preset, or the folder of a system."""
    if not isinstance(system, SystemSpec):
        system = load_system(os.fspath(system))
    return simulate_inputs(load_inputs(folder, system), choice, note=note)
