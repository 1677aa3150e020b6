"""Random programs and systems, for comparing simulators."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from support import traces
from support.traces import comp

SIZES = (100, 4096, 65536, 1 << 20, 12345)
KINDS = (traces.ALL_REDUCE, traces.ALL_GATHER, traces.REDUCE_SCATTER, traces.ALL_TO_ALL)
NAMES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def _power_of_two(n: int) -> bool:
    return n & (n - 1) == 0


def random_system(
    rng: random.Random,
    folder: Path,
    counts: list[int],
    *,
    halving: bool = True,
    one_share: float = 0.1,
) -> dict[str, Any]:
    """Write a system of these dimensions; its settings.

    ``one_share`` is the probability of an algorithm for all dimensions, from a random place on.
    """
    algorithms: dict[str, list[str]] = {}
    for name in NAMES:
        algorithm_names = []
        for count in counts:
            more = ["halvingDoubling"] if halving and _power_of_two(count) else []
            algorithm_names.append(rng.choice(["ring", "direct", "ring", "direct", *more]))
            if name == "all_to_all" and algorithm_names[-1] == "halvingDoubling":
                algorithm_names[-1] = "ring"
        if rng.random() < one_share:
            first = rng.choice([0, 0, *range(len(counts))])
            one = rng.choice(["oneRing", "oneDirect"])
            algorithm_names = algorithm_names[:first] + [one] * (len(counts) - first)
        algorithms[f"{name}_implementation"] = algorithm_names
    if len(counts) == 1 and _power_of_two(counts[0]) and rng.random() < 0.15:
        algorithms["all_reduce_implementation"] = ["doubleBinaryTree"]
    settings: dict[str, Any] = {
        "preferred_dataset_splits": rng.choice([1, 1, 2, 3]),
        "active_chunks_per_dimension": rng.choice([1, 1, 2, 4]),
        "collective_optimization": rng.choice(["baseline", "localBWAware"]),
        "endpoint_delay": rng.choice([1, 10, 100]),
        "local_mem_bw": rng.choice([50, 1600]),
        "roofline_enabled": rng.choice([0, 1]),
        "peak_perf": 1,
        **algorithms,
    }
    traces.system(
        folder,
        counts,
        topology=[rng.choice(["Ring", "FullyConnected", "Switch"]) for _ in counts],
        bandwidth=rng.choice([25, 100, 300.5]),
        latency=rng.choice([500, 1000.5]),
        **settings,
    )
    return settings


class _Program:
    """Nodes of each device, with random dependencies among the last few."""

    def __init__(self, rng: random.Random, devices: int, exact: bool, chain: bool) -> None:
        self.rng, self.exact, self.chain = rng, exact, chain
        self.ranks: list[list[bytes]] = [[] for _ in range(devices)]
        self.done: list[list[int]] = [[] for _ in range(devices)]
        self.comms: list[list[int]] = [[] for _ in range(devices)]
        self.picks: list[float] = []

    def choose(self) -> None:
        """Choose the dependencies of the next step, equal on all devices that have the same."""
        self.picks = [self.rng.random() for _ in range(self.rng.choice([0, 1, 1, 2]))]

    def deps(self, rank: int, comm: bool = False) -> list[int]:
        done = self.done[rank]
        dependencies = {done[-1 - int(p * min(6, len(done)))] for p in self.picks if done}
        return sorted(dependencies | set(self.comms[rank] if comm and self.chain else ()))

    def compute(self, rank: int, number: int, time: int) -> None:
        if self.exact:
            node = comp(number, self.deps(rank), ns=37 * time)
        else:
            node = comp(number, self.deps(rank), micros=time)
        self.ranks[rank].append(node)
        self.done[rank].append(number)

    def collective(
        self, rank: int, number: int, kind: int, size: int, group: int, **more: Any
    ) -> None:
        deps = self.deps(rank, comm=True)
        self.ranks[rank].append(traces.coll(number, deps, kind, size, group, **more))
        self.done[rank].append(number)
        self.comms[rank] = [number]

    def transfer(self, rank: int, number: int, to: int | None, of: int | None, size: int) -> None:
        """A SEND, a RECV, or both."""
        deps, node_ids = self.deps(rank, comm=True), []
        if to is not None:
            self.ranks[rank].append(traces.send(number, to, deps, size, tag=number % 5))
            node_ids.append(number)
        if of is not None:
            self.ranks[rank].append(traces.recv(number + 1, of, deps, size, tag=number % 5))
            node_ids.append(number + 1)
        if node_ids:
            self.done[rank] += node_ids
            self.comms[rank] = node_ids


def loose(rng: random.Random, folder: Path) -> int:
    """Devices that do different things at different times, in part deadlocks; how many."""
    dims = rng.choice([1, 1, 2, 3])
    sizes = {1: [2, 3, 4, 5, 8], 2: [2, 3, 4], 3: [2, 2, 4]}[dims]
    counts = [rng.choice(sizes) for _ in range(dims)]
    devices = 1
    for count in counts:
        devices *= count
    settings = random_system(rng, folder / "system", counts, halving=dims > 1)
    groups = {9: list(range(devices))}
    if settings["all_reduce_implementation"] != ["doubleBinaryTree"] and devices > 2:
        for group in range(1, rng.randint(1, 4)):
            groups[group] = sorted(rng.sample(range(devices), rng.randint(2, devices - 1)))
    program = _Program(rng, devices, bool(settings["roofline_enabled"]), rng.random() < 0.7)
    for rank in range(devices):
        program.compute(rank, 0, rng.randint(1, 30))
    for number in range(1, 2 * rng.randint(2, 12), 2):
        program.choose()
        choice = rng.random()
        if choice < 0.4:
            for rank in range(devices):
                if rng.random() < 0.8:
                    program.compute(rank, number, rng.randint(1, 60))
        elif choice < 0.8:
            group, kind, size = rng.choice(list(groups)), rng.choice(KINDS), rng.choice(SIZES)
            for rank in groups[group]:
                program.collective(rank, number, kind, size, group)
        else:
            source, target = rng.sample(range(devices), 2)
            size = rng.choice([1, 4096, 100000])
            program.transfer(source, number, target, None, size)
            program.transfer(target, number, None, source, size)
    traces.save(folder / "traces", program.ranks, groups)
    return devices


def involving(rng: random.Random, folder: Path) -> int:
    """Collectives of the default communicator in some dimensions of the network; how many devices.

    In part they never finish, because their algorithm runs in none of these dimensions.
    """
    counts = [rng.choice([2, 3, 4]) for _ in range(rng.choice([2, 2, 3]))]
    devices = 1
    for count in counts:
        devices *= count
    settings = random_system(rng, folder / "system", counts, one_share=0.5)
    program = _Program(rng, devices, bool(settings["roofline_enabled"]), True)
    skewed = rng.random() < 0.5
    for number in range(rng.randint(2, 8)):
        program.choose()
        if number == 0 or rng.random() < 0.3:
            time = rng.randint(1, 60)
            for rank in range(devices):
                program.compute(rank, number, rng.randint(1, 60) if skewed else time)
            continue
        involved = [rng.random() < 0.6 for _ in counts]
        involved[rng.randrange(len(counts))] = True
        kind, size = rng.choice(KINDS), rng.choice(SIZES)
        for rank in range(devices):
            program.collective(rank, number, kind, size, 0, involved_dim=("bool_list", involved))
    traces.save(folder / "traces", program.ranks, {})
    return devices


def spmd(rng: random.Random, folder: Path) -> int:
    """Devices of a mesh that run one program, or two halves of a pipeline; how many."""
    mesh = rng.choice([[4], [8], [2, 4], [4, 2], [2, 2, 2], [3, 2], [2, 2, 4], [16], [4, 4]])
    devices = 1
    for count in mesh:
        devices *= count
    settings = random_system(
        rng, folder / "system", rng.choice([[devices], mesh]), halving=devices in (4, 8, 16)
    )
    groups = {1: list(range(devices))}
    axes = [[1] * devices]
    stride = 1
    for count in mesh:
        if len(mesh) > 1 and settings["all_reduce_implementation"] != ["doubleBinaryTree"]:
            group_of_device = [0] * devices
            for base in range(devices):
                if base // stride % count == 0:
                    number = len(groups) + 1
                    groups[number] = [base + k * stride for k in range(count)]
                    for member in groups[number]:
                        group_of_device[member] = number
            axes.append(group_of_device)
        stride *= count
    stages = rng.choice([1, 1, 1, 2])
    program = _Program(rng, devices, bool(settings["roofline_enabled"]), True)
    for number in range(2, 2 * rng.randint(4, 15), 2):
        program.choose()
        choice = rng.random()
        if choice < 0.5 or number == 2:
            times = [rng.randint(1, 60) for _ in range(stages)]
            for rank in range(devices):
                program.compute(rank, number, times[rank * stages // devices])
        elif choice < 0.85:
            axis, kind, size = rng.choice(axes), rng.choice(KINDS), rng.choice(SIZES)
            for rank in range(devices):
                program.collective(rank, number, kind, size, axis[rank])
        else:
            shift, size = rng.randint(1, devices - 1), rng.choice([4096, 100000])
            wrap = rng.random() < 0.6
            for rank in range(devices):
                to, of = rank + shift, rank - shift
                program.transfer(
                    rank,
                    number,
                    to % devices if wrap or to < devices else None,
                    of % devices if wrap or of >= 0 else None,
                    size,
                )
    traces.save(folder / "traces", program.ranks, groups)
    return devices
