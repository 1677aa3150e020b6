"""The embedded simulator equals its slower forms and has the expected properties."""

from __future__ import annotations

import importlib
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import count_cases, draw_examples

from hespas import configs
from hespas.configs.system_spec import SystemSpec
from hespas.simulators import simulation_inputs
from hespas.simulators.embedded import SimulationOptions, run_event_simulation
from hespas.simulators.embedded.chunk_phases import QueueTurn
from hespas.simulators.embedded.collective_plan import (
    KINDS,
    CollectivePlanner,
    DimensionAlgorithm,
    LogicalDimension,
    encode_link_form,
)
from hespas.simulators.embedded.collective_timing import CollectiveTimer
from hespas.simulators.embedded.link_table import LinkTable
from hespas.simulators.embedded.network import AnalyticalNetwork
from hespas.simulators.simulation_result import BY_DEVICE_NUMBER, SimulationResult
from hespas.support.errors import HespasError
from support import sim_programs, traces

QUICK = draw_examples(60)
RING = DimensionAlgorithm("ring")


def load(folder: Path) -> simulation_inputs.SimulationInputs:
    return simulation_inputs.load_inputs(
        folder / "traces", configs.load_system(str(folder / "system"))
    )


def run_or_describe_error(folder: Path, options: SimulationOptions) -> SimulationResult | str:
    try:
        return run_event_simulation(load(folder), options)
    except HespasError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(count_cases(400)))
def test_recurrences_agree_with_messages(seed: int, tmp_path: Path) -> None:
    """Solve one collective with random starts at once and message by message."""
    rng = random.Random(seed)
    dims = rng.choice([1, 1, 2, 3])
    counts = [rng.choice([2, 3, 4, 5, 8] if dims == 1 else [2, 3, 4]) for _ in range(dims)]
    sim_programs.random_system(rng, tmp_path, counts)
    system = configs.load_system(str(tmp_path))
    options = SimulationOptions(queues_per_dim=rng.choice([1, 1, 1, 2]))
    planner = CollectivePlanner(system, AnalyticalNetwork.from_system(system), options)
    members = tuple(range(system.device_count))
    if system.device_count > 2 and rng.random() < 0.4:
        members = tuple(rng.sample(members, rng.randint(2, system.device_count - 1)))
    kind = rng.choice(KINDS)
    try:
        group = planner.plan_communicator(1, kind, members, len(members) < system.device_count, ())
        plan = planner.plan_collective(kind, rng.choice(sim_programs.SIZES), group, QueueTurn())
    except HespasError:
        return  # for example, halvingDoubling on three devices
    skew = rng.choice([0, 0, 5, 5000, 100000])
    starts = [rng.randint(0, skew) for _ in members]
    outcomes = []
    for by_message in (False, True):
        try:
            collectives = CollectiveTimer(planner, by_message)
            outcomes.append(collectives.compute_finishes(group, starts, [plan] * len(members)))
        except HespasError as error:  # chunks that block each other
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def intervals(result: SimulationResult) -> list[list]:
    return [list(result.classes[known]) for known in result.class_of]


def comms(result: SimulationResult) -> list[tuple]:
    return sorted(
        (comm.kind, comm.operand_bytes, comm.start_ns, comm.finish_ns)
        for comm in result.comms
        for _ in range(comm.copies)
    )


@pytest.mark.parametrize("make", [sim_programs.spmd, sim_programs.loose, sim_programs.involving])
@pytest.mark.parametrize("seed", range(count_cases(60)))
def test_symmetric_is_plain(make, seed: int, tmp_path: Path) -> None:
    make(random.Random(seed), tmp_path)
    symmetric, plain = (
        run_or_describe_error(tmp_path, SimulationOptions(symmetry=s)) for s in (True, False)
    )
    if isinstance(symmetric, str) or isinstance(plain, str):
        assert isinstance(symmetric, str) and isinstance(plain, str)
        return
    assert list(symmetric.devices) == list(plain.devices)
    assert intervals(symmetric) == intervals(plain)
    assert comms(symmetric) == comms(plain)


def test_devices_that_behave_alike_are_one_class(tmp_path: Path) -> None:
    """Rows, columns and a ring of messages on an 8 x 16 mesh leave one class."""
    groups = {k + 1: [8 * k + i for i in range(8)] for k in range(16)}
    groups |= {k + 17: [8 * i + k for i in range(16)] for k in range(8)}
    ranks = [
        [
            traces.comp(1),
            traces.coll(2, [1], traces.ALL_REDUCE, 1 << 20, 1 + rank // 8),
            traces.coll(3, [2], traces.ALL_GATHER, 1 << 16, 17 + rank % 8),
            traces.send(4, (rank + 1) % 128, [3]),
            traces.recv(5, (rank - 1) % 128, [3]),
        ]
        for rank in range(128)
    ]
    traces.save(tmp_path / "traces", ranks, groups)
    traces.system(tmp_path / "system", [128], topology="Switch")
    read = load(tmp_path)
    assert len({id(device.program) for device in read.devices}) <= 9  # by length of names
    result = run_event_simulation(read)
    assert len(result.classes) == 1 and len(result.devices) == 128
    assert sorted(comm.copies for comm in result.comms) == [8, 16, 128]
    assert list(result.devices) == list(
        run_event_simulation(read, SimulationOptions(symmetry=False)).devices
    )


@given(seed=st.integers(0, 10**6), grow=st.sampled_from(["size", "bandwidth", "latency"]))
@QUICK
def test_monotone(seed: int, grow: str) -> None:
    """More bytes or latency never shorten a collective; more bandwidth never lengthens it."""
    rng = random.Random(seed)
    counts = rng.choice([(4,), (8,), (2, 4), (3,), (2, 2, 2)])
    kind = rng.choice(KINDS)
    # In a direct all-reduce packets may overtake each other, and a longer message then saves time.
    direct = kind != "all_reduce" and rng.random() < 0.5
    algorithms = ("direct" if direct else "ring",) * len(counts)
    system = SystemSpec(
        "random",
        Path("random"),
        tuple(rng.choice(["Ring", "FullyConnected", "Switch"]) for _ in counts),
        counts,
        tuple(rng.choice([50.0, 100.0]) for _ in counts),
        tuple(rng.choice([100.0, 500.0]) for _ in counts),
        dict.fromkeys(("all-reduce", "all-gather", "reduce-scatter", "all-to-all"), algorithms),
        "FIFO",
        rng.choice(["baseline", "localBWAware"]),
        1,
        rng.choice([1, 2]),
        10,
        1600.0,
    )
    # Sizes are even, because a remainder of the splits would add a whole chunk.
    more, size = system, 2 * rng.randint(1000, 1 << 21)
    larger = size
    if grow == "size":
        larger += 2 * rng.randint(0, 1 << 19)
    elif grow == "bandwidth":
        more = replace(system, bandwidth_gib_s=tuple(2 * b for b in system.bandwidth_gib_s))
    else:
        more = replace(system, latency_ns=tuple(b + 100 for b in system.latency_ns))
    first, second = alone(system, kind, size), alone(more, kind, larger)
    assert second <= first if grow == "bandwidth" else second >= first


def alone(system: SystemSpec, kind: str, size: int) -> int:
    planner = CollectivePlanner(system, AnalyticalNetwork.from_system(system), SimulationOptions())
    members = tuple(range(system.device_count))
    group = planner.plan_communicator(0, kind, members, False, ())
    plan = planner.plan_collective(kind, size, group, QueueTurn())
    finishes = CollectiveTimer(planner).compute_finishes(
        group, [0] * len(members), [plan] * len(members)
    )
    return max(finish.end_ns for finish in finishes)


@pytest.mark.parametrize("seed", range(count_cases(25)))
def test_never_faster_than_the_critical_path(seed: int, tmp_path: Path) -> None:
    """No node starts before its dependencies end, and compute nodes run one by one."""
    sim_programs.spmd(random.Random(seed), tmp_path)
    read = load(tmp_path)
    result = run_event_simulation(read)
    for device, known in zip(read.devices, result.class_of, strict=True):
        span = {interval.node: interval for interval in result.classes[known]}
        program = device.program
        for node, step in zip(program.nodes, program.steps, strict=True):
            here = span[node.id]
            assert here.start_ns >= max((span[d].finish_ns for d in node.dependency_ids), default=0)
            if step.resource == "compute":
                assert here.finish_ns - here.start_ns == step.duration_ns
        for resource in ("compute", "comm"):
            intervals = sorted(
                (interval.start_ns, interval.finish_ns)
                for interval in span.values()
                if interval.resource == resource
            )
            assert all(a[1] <= b[0] for a, b in pairwise(intervals))


def test_nodes_without_time_release_at_the_next_event(tmp_path: Path) -> None:
    """An INVALID node ends at once, but its dependents start when another node ends."""
    traces.system(tmp_path / "system", [2])
    nodes = [traces.node(1, 0), traces.comp(2, micros=7), traces.comp(3, [1], micros=5)]
    traces.save(tmp_path / "traces", [nodes] * 2)
    result = run_event_simulation(load(tmp_path))
    assert result.step_time_ns == 12000


def test_roofline(tmp_path: Path) -> None:
    """The time is the longer of operations at peak-perf and bytes at local-mem-bw, truncated."""
    traces.system(tmp_path / "system", [2], roofline_enabled=1, peak_perf=2, local_mem_bw=100)
    attrs: dict[str, Any] = {"tensor_size": ("uint64", 10**6)}
    bound = traces.node(1, traces.COMP, num_ops=("int64", 1000), **attrs)  # 10 us of memory
    busy = traces.node(2, traces.COMP, [1], num_ops=("int64", 10**9 + 999), **attrs)  # 500 us
    traces.save(tmp_path / "traces", [[bound, busy]] * 2)
    assert run_event_simulation(load(tmp_path)).step_time_ns == 10_000 + 500_000


def test_cpu_nodes_run_beside_the_device(tmp_path: Path) -> None:
    traces.system(tmp_path / "system", [2])
    nodes = [
        traces.node(1, traces.COMP, micros=9, is_cpu_op=("bool", True)),
        traces.comp(2, micros=7),
    ]
    traces.save(tmp_path / "traces", [nodes] * 2)
    result = run_event_simulation(load(tmp_path))
    assert (result.devices[0].finish_ns, result.devices[0].exposed_ns) == (9000, 2000)


def test_an_order_that_is_not_kept_is_reported(tmp_path, monkeypatch):
    """The settings report it if there are too many messages to keep ASTRA-sim's order of ties."""
    module = importlib.import_module("hespas.simulators.embedded.event_simulation")
    run = module.UnawareEngine.run_all_devices

    def tied(engine):
        if engine.detects_ties:
            raise module.AmbiguousOrder
        return run(engine)

    folder, system = traces.random_case(tmp_path, 0)
    loaded = simulation_inputs.load_inputs(folder, configs.load_system(str(system)))
    exact = module.run_event_simulation(loaded)
    monkeypatch.setattr(module.UnawareEngine, "run_all_devices", tied)
    assert not module.run_event_simulation(loaded).settings.ordered_by_device
    monkeypatch.setattr(module, "MAX_MESSAGES", -1)
    result = module.run_event_simulation(loaded)
    assert result.settings.to_texts()["ties"] == BY_DEVICE_NUMBER
    assert result.devices == exact.devices


@pytest.mark.parametrize("symmetry", [True, False])
def test_a_receive_after_the_own_send(symmetry: bool, tmp_path: Path) -> None:
    """A message arrives while its sender, which also represents the receiver, awaits it."""
    ranks = [
        [traces.send(1, (rank + 1) % 4), traces.recv(2, (rank - 1) % 4, [1]), traces.comp(3, [2])]
        for rank in range(4)
    ]
    traces.save(tmp_path / "traces", ranks)
    traces.system(tmp_path / "system", [4])
    result = run_event_simulation(load(tmp_path), SimulationOptions(symmetry=symmetry))
    sent = int(500 + 4096 / (100 * 2**30 / 1e9))
    assert [device.finish_ns for device in result.devices] == [sent + 5000] * 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delay", [30, 300])
def test_a_reduction_as_long_as_the_endpoint_delay(kind: str, delay: int, tmp_path: Path) -> None:
    """Only reductions take the time 3 * trunc(bytes / memory bandwidth), here ``delay``."""
    size = delay // 3 * 100  # bytes of a message, at 100 GB/s
    system_folder = traces.system(
        tmp_path, [4], topology="FullyConnected", algorithm="direct", endpoint_delay=delay,
        local_mem_bw=100,
    )  # fmt: skip
    planner = CollectivePlanner(
        configs.load_system(str(system_folder)),
        AnalyticalNetwork.from_system(configs.load_system(str(system_folder))),
        SimulationOptions(),
    )
    assert planner.compute_reduction_ns(size) == delay
    group = planner.plan_communicator(0, kind, (0, 1, 2, 3), False, ())
    plan = planner.plan_collective(
        kind, size if kind == "all_gather" else 4 * size, group, QueueTurn()
    )
    once, by_message = (
        CollectiveTimer(planner, slow).compute_finishes(group, [0] * 4, [plan] * 4)
        for slow in (False, True)
    )
    assert once == by_message


@pytest.mark.parametrize("symmetry", [True, False])
@pytest.mark.parametrize("algorithms", [["oneRing", "oneRing"], ["oneDirect", "ring"]])
def test_an_algorithm_for_all_dimensions_spans_all_devices(
    algorithms: list[str], symmetry: bool, tmp_path: Path
) -> None:
    """Its place in the list decides whether it runs; no other dimension matters."""
    traces.system(tmp_path / "system", [2, 3], algorithm=algorithms)
    finishes = []
    for involved in ([True, False], [True, True]):
        ranks = [
            [
                traces.comp(0, micros=rank),
                traces.coll(1, [0], group=0, involved_dim=("bool_list", involved)),
            ]
            for rank in range(6)
        ]
        traces.save(tmp_path / "traces", ranks)
        result = run_event_simulation(load(tmp_path), SimulationOptions(symmetry=symmetry))
        finishes.append([device.finish_ns for device in result.devices])
        assert [comm.ranks for comm in result.comms] == [tuple(range(6))]
    assert finishes[0] == finishes[1]


def test_an_algorithm_that_is_not_involved_forbids_nothing(tmp_path: Path) -> None:
    """Here halvingDoubling has a dimension of 3 devices, in which the collective does not run."""
    traces.system(
        tmp_path / "system", [2, 3], all_reduce_implementation=["ring", "halvingDoubling"]
    )
    node = traces.coll(1, group=0, involved_dim=("bool_list", [True, False]))
    traces.save(tmp_path / "traces", [[node]] * 6)
    result = run_event_simulation(load(tmp_path))
    assert sorted((comm.ranks, comm.copies) for comm in result.comms) == [((0, 1), 3)]


@given(data=st.data())
@QUICK
def test_link_forms_are_equal_where_links_are(data: st.DataObject) -> None:
    counts = data.draw(st.sampled_from([(8,), (2, 4), (4, 3), (5, 2), (2, 3, 2), (6, 2)]))
    kinds = st.sampled_from(["Ring", "FullyConnected", "Switch"])
    topology = tuple(data.draw(kinds) for _ in counts)
    ones = (1.0,) * len(counts)
    network = AnalyticalNetwork(topology, counts, ones, ones)
    size = data.draw(st.integers(2, 5))
    devices = st.lists(
        st.integers(0, network.device_count - 1), min_size=size, max_size=size, unique=True
    )
    first, second = data.draw(devices), data.draw(devices)

    def list_routes(line: list[int]) -> list:
        return [network.find_route(a, b) if a != b else () for a in line for b in line]

    is_equal = encode_link_form(network, first) == encode_link_form(network, second)
    assert is_equal == (list_routes(first) == list_routes(second))
    for line in (first, second):
        table = LinkTable(network, LogicalDimension(RING, size, 1, tuple(line)))
        routes = [
            [network.find_route(line[i], line[(i + o) % size]) for o in range(1, size)]
            for i in range(size)
        ]
        assert not table.is_symmetric or all(row == routes[0] for row in routes)


def test_broadcasts_are_recorded_once(tmp_path: Path) -> None:
    """The order of the devices in the communicator's list does not matter."""
    nodes = [traces.node(1, traces.COLL, micros=9, comm_type=("int64", traces.BROADCAST))]
    some = traces.node(
        2,
        traces.COLL,
        [1],
        micros=5,
        comm_type=("int64", traces.BROADCAST),
        pg_name=("string", "1"),
    )
    traces.save(tmp_path / "traces", [nodes, nodes, [*nodes, some], [*nodes, some]], {1: [3, 2]})
    traces.system(tmp_path / "system", [4])
    for symmetry in (True, False):
        result = run_event_simulation(load(tmp_path), SimulationOptions(symmetry=symmetry))
        spans = [(comm.communicator, comm.start_ns, comm.finish_ns) for comm in result.comms]
        assert spans == [(0, 0, 9000), (1, 9000, 14000)]
