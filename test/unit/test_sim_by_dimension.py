"""Collectives between some devices, dimension by dimension, and messages over several."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.budgets import count_cases
from support.sim_finishes import compute_finishes

from hespas import configs
from hespas.configs.system_spec import SystemSpec
from hespas.simulators import simulation_inputs
from hespas.simulators.astra import describe_missing_features
from hespas.simulators.embedded import SimulationOptions, run_event_simulation
from hespas.simulators.embedded.collective_plan import KINDS
from hespas.simulators.embedded.collective_timing import CollectiveFinish
from hespas.simulators.embedded.network import AnalyticalNetwork
from hespas.support.errors import HespasError
from support import sim_programs, traces

BY_DIMENSION = SimulationOptions(by_dimension=True)


def finishes(
    system: SystemSpec, kind: str, size: int, members: Sequence[int], starts: Sequence[int],
    options: SimulationOptions, by_message: bool = False,
) -> list[CollectiveFinish] | str:  # fmt: skip
    """Return when the devices of one collective finish, or the error."""
    try:
        return compute_finishes(
            system, kind, size, members, options, starts=starts, by_message=by_message
        )
    except HespasError as error:
        return error.message


@pytest.mark.parametrize("seed", range(count_cases(200)))
def test_a_grid_of_devices_is_a_smaller_system(seed: int, tmp_path: Path) -> None:
    """Some rows and columns of a grid behave as a machine with only those, by ASTRA-sim's rules."""
    rng = random.Random(seed)
    counts = [rng.choice([2, 3, 4, 8]) for _ in range(rng.choice([1, 2, 2, 3]))]
    sim_programs.random_system(rng, tmp_path, counts)
    system = configs.load_system(str(tmp_path))
    kinds = tuple(rng.choice(["Switch", "FullyConnected"]) for _ in counts)
    system = replace(system, topology=kinds)
    coordinates = [sorted(rng.sample(range(n), rng.randint(1, n))) for n in counts]
    members, stride = [0], 1
    for places, count in zip(coordinates, counts, strict=True):
        members = [base + stride * place for place in places for base in members]
        stride *= count
    if not 1 < len(members) < system.device_count or any(
        spelled.startswith(("one", "doubleBinary"))
        for of_kind in system.implementations.values()
        for spelled in of_kind
    ):
        return
    small = replace(system, npus_count=tuple(map(len, coordinates)))
    kind, size = rng.choice(KINDS), rng.choice([1 << 20, 65536, 1 << 22])
    skew = rng.choice([0, 0, 5, 5000, 100000])
    starts = [rng.randint(0, skew) for _ in members]
    alone = finishes(small, kind, size, range(small.device_count), starts, SimulationOptions())
    for by_message in (False, True):
        assert finishes(system, kind, size, members, starts, BY_DIMENSION, by_message) == alone


@pytest.mark.parametrize("seed", range(count_cases(200)))
def test_recurrences_agree_with_messages(seed: int, tmp_path: Path) -> None:
    """Recurrences equal messages for any devices of any network in any order."""
    rng = random.Random(seed)
    counts = [rng.choice([2, 3, 4]) for _ in range(rng.choice([1, 2, 3]))]
    sim_programs.random_system(rng, tmp_path, counts)
    system = configs.load_system(str(tmp_path))
    members = rng.sample(range(system.device_count), rng.randint(2, system.device_count))
    if rng.random() < 0.5 or len(members) == system.device_count:
        members.sort()
    kind, size = rng.choice(KINDS), rng.choice(sim_programs.SIZES)
    starts = [rng.randint(0, rng.choice([0, 5, 5000])) for _ in members]
    solved, simulated = (
        finishes(system, kind, size, members, starts, BY_DIMENSION, by_message)
        for by_message in (False, True)
    )
    assert solved == simulated


@pytest.mark.parametrize("make", [sim_programs.spmd, sim_programs.loose])
@pytest.mark.parametrize("seed", range(count_cases(40)))
def test_symmetric_is_plain(make, seed: int, tmp_path: Path) -> None:
    make(random.Random(seed), tmp_path)
    outcomes = []
    for symmetry in (True, False):
        try:
            read = simulation_inputs.load_inputs(
                tmp_path / "traces", configs.load_system(str(tmp_path / "system"))
            )
            result = run_event_simulation(read, replace(BY_DIMENSION, symmetry=symmetry))
            outcomes.append(list(result.devices))
        except HespasError:
            outcomes.append([])
    assert outcomes[0] == outcomes[1]


def test_the_order_of_a_communicator_decides_nothing(tmp_path: Path) -> None:
    """One of two equal communicators lists its devices in reverse; its first device is late."""
    traces.system(tmp_path / "system", [4, 2], topology="Switch", endpoint_delay=1000)
    read = configs.load_system(str(tmp_path / "system"))
    finished = []
    for second in ([4, 5, 6, 7], [7, 6, 5, 4], [6, 4, 7, 5]):
        groups = {1: [0, 1, 2, 3], 2: second}
        nodes = [
            [
                traces.comp(1, micros=5 + 4 * (rank % 4 == 0)),
                traces.coll(2, [1], traces.ALL_REDUCE, group=1 + rank // 4),
            ]
            for rank in range(8)
        ]
        traces.save(tmp_path / "traces", nodes, groups)
        inputs = simulation_inputs.load_inputs(tmp_path / "traces", read)
        for symmetry in (True, False):
            result = run_event_simulation(inputs, replace(BY_DIMENSION, symmetry=symmetry))
            assert result.settings.to_texts()["communicators"] == "by dimension"
            finished.append(list(result.devices))
    assert all(devices == finished[0] for devices in finished)


def test_an_algorithm_that_has_nothing_to_do_forbids_nothing(tmp_path: Path) -> None:
    """A collective within a line ignores the algorithms of the other dimension."""
    traces.system(
        tmp_path, [4, 4], topology="Switch",
        all_to_all_implementation=["direct", "halvingDoubling"],
        all_reduce_implementation=["doubleBinaryTree", "ring"],
    )  # fmt: skip
    system = configs.load_system(str(tmp_path))
    for kind in ("all_to_all", "all_reduce"):
        finish_times = finishes(system, kind, 1 << 20, range(4), [0] * 4, BY_DIMENSION)
        one = {**system.implementations, "all-to-all": ("direct",)}
        one["all-reduce"] = ("doubleBinaryTree",)
        line = replace(
            system, topology=("Switch",), npus_count=(4,), implementations=one,
            bandwidth_gib_s=system.bandwidth_gib_s[:1], latency_ns=system.latency_ns[:1],
        )  # fmt: skip
        assert finish_times == finishes(line, kind, 1 << 20, range(4), [0] * 4, SimulationOptions())
    across = finishes(system, "all_to_all", 1 << 20, (0, 4), [0, 0], BY_DIMENSION)
    assert across == "all-to-all-implementation: halvingDoubling does no all-to-all"


@pytest.mark.parametrize("seed", range(count_cases(100)))
def test_one_peer_after_another(seed: int, tmp_path: Path) -> None:
    """``direct1``, the presets' all-to-all, has equal times by recurrence and by messages."""
    rng = random.Random(seed)
    counts = [rng.randint(2, 6) for _ in range(rng.choice([1, 2]))]
    sim_programs.random_system(rng, tmp_path, counts)
    kind, spelled = rng.choice(["all_to_all", "all_gather"]), rng.choice(["direct1", "direct2"])
    system = configs.load_system(str(tmp_path))
    implementations = {**system.implementations, kind.replace("_", "-"): (spelled,) * len(counts)}
    system = replace(system, implementations=implementations)
    members = sorted(rng.sample(range(system.device_count), rng.randint(2, system.device_count)))
    size, skew = rng.choice(sim_programs.SIZES), rng.choice([0, 5, 5000])
    starts = [rng.randint(0, skew) for _ in members]
    for options in (SimulationOptions(), BY_DIMENSION, replace(BY_DIMENSION, queues_per_dim=2)):
        solved, simulated = (
            finishes(system, kind, size, members, starts, options, by_message)
            for by_message in (False, True)
        )
        assert solved == simulated


@pytest.mark.parametrize("kind", KINDS)
def test_a_shard_group_beside_tensor_parallel_pays_for_the_nics(kind: str) -> None:
    """With every second device of four hosts, each share of the bytes crosses a separate NIC."""
    system = configs.load_system("DGX_H100_SuperPOD_4")
    size = 64 << 20
    grid = finishes(system, kind, size, range(0, 32, 2), [0] * 16, BY_DIMENSION)
    ring = finishes(system, kind, size, range(0, 32, 2), [0] * 16, SimulationOptions())
    assert isinstance(grid, list) and isinstance(ring, list)
    whole = size * 16 if kind == "all_gather" else size
    times = 2 if kind == "all_reduce" else 1
    nic_ns = times * whole / 4 * 3 / 4 / (system.bandwidth_gib_s[1] * 2**30) * 1e9
    assert grid[0].end_ns > nic_ns > 0
    # ASTRA-sim's one ring steps from (6, 0) to (0, 1) and charges it as a step within the host.
    if kind != "all_to_all":
        assert ring[0].end_ns < nic_ns


def test_a_message_pays_for_all_dimensions(tmp_path: Path) -> None:
    traces.system(tmp_path / "system", [2, 2], bandwidth=[100, 10], latency=[500, 2000],
                  topology=["FullyConnected", "Switch"])  # fmt: skip
    size = 1 << 20
    idle = [traces.comp(1)]
    nodes = [[traces.send(1, 3, size=size)], idle, idle, [traces.recv(1, 0, size=size)]]
    traces.save(tmp_path / "traces", nodes)
    read = simulation_inputs.load_inputs(
        tmp_path / "traces", configs.load_system(str(tmp_path / "system"))
    )
    network = AnalyticalNetwork.from_system(read.system, True)
    assert network.compute_transfer_ns(0, 3, size) == int(
        500 + 2 * 2000 + size / (10 * 1.073741824)
    )
    assert network.compute_transfer_ns(0, 1, size) == int(500 + size / (100 * 1.073741824))
    far = run_event_simulation(read, BY_DIMENSION).devices[3].finish_ns
    assert far - run_event_simulation(read).devices[3].finish_ns == pytest.approx(
        network.compute_transfer_ns(0, 3, size) - network.compute_transfer_ns(0, 1, size), abs=1
    )


def test_what_goes_how_is_said(tmp_path: Path) -> None:
    traces.system(tmp_path / "system", [2, 2])
    groups = {1: [0, 3], 2: [0, 2], 3: [1, 3]}
    for used, message in (((2, 3), "by dimension"), ((1,), "by dimension, one ring where")):
        nodes = [
            [
                traces.comp(1),
                *(
                    traces.coll(n + 1, [1], traces.ALL_REDUCE, 4096, n)
                    for n in used
                    if rank in groups[n]
                ),
            ]
            for rank in range(4)
        ]
        traces.save(tmp_path / "traces", nodes, groups)
        read = simulation_inputs.load_inputs(
            tmp_path / "traces", configs.load_system(str(tmp_path / "system"))
        )
        settings = run_event_simulation(read, BY_DIMENSION).settings.to_texts()
        assert settings["communicators"].startswith(message)
        assert ("ring" in settings["communicators"]) == ("ring" in message)
        assert "communicators" not in run_event_simulation(read).settings.to_texts()
    assert describe_missing_features(BY_DIMENSION) == "--by-dimension"
