"""The congestion-aware mode: ASTRA-sim's times on one dimension, and several dimensions."""

import shutil

import pytest
from support.traces import simulate_folder

from hespas.configs import load_system as load_system
from hespas.simulators import embedded
from hespas.simulators.astra_program import AWARE
from hespas.simulators.embedded.unaware_engine import MessageLevelEngine
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
from hespas.support.errors import HespasError
from support import traces as t

AWARE_OPTIONS = SimulationOptions(congestion=True)
ROWS = [row for row in t.experiments() if row["astra_aware_max"]]


def finishes(folder, system, options=AWARE_OPTIONS):
    result = simulate_folder(folder, system, SimulatorChoice("embedded", options))
    return [device.finish_ns for device in result.devices]


def alone(size, bandwidth, hops=1, latency=500):
    """Return the time of a message on free links, in ns."""
    return hops * int(latency + size / (bandwidth * 2**30 / 1e9))


@pytest.mark.slow
def test_every_experiment(tmp_path):
    """Repeat the 86 experiments that were run with the congestion-aware program."""
    assert len(ROWS) == 86
    for number, row in enumerate(ROWS):
        traces, system = t.experiment(tmp_path / str(number), row)
        assert max(finishes(traces, system)) == int(row["astra_aware_max"]), row


def incast(folder, senders, size):
    """Let all other devices send to device 0 at once."""
    receives = [t.recv(i, i, size=size) for i in range(1, senders + 1)]
    return t.save(folder, [receives] + [[t.send(i, 0, size=size)] for i in range(1, senders + 1)])


def test_messages_wait_for_each_other_on_a_link(tmp_path):
    """Messages cross the link from the switch to device 0 one after the other."""
    traces = incast(tmp_path / "t", 3, 1 << 20)
    system = t.system(tmp_path / "s", [4], topology="Switch", bandwidth=100)
    once, busy = alone(1 << 20, 100), int((1 << 20) / (100 * 2**30 / 1e9))
    assert finishes(traces, system) == [2 * once + k * busy for k in (2, 0, 1, 2)]
    assert finishes(traces, system, SimulationOptions()) == [2 * 500 + busy] * 4


def test_links_of_a_full_mesh_are_free(tmp_path):
    traces = incast(tmp_path / "t", 3, 1 << 20)
    system = t.system(tmp_path / "s", [4], topology="FullyConnected")
    assert finishes(traces, system) == finishes(traces, system, SimulationOptions())


def test_ring_goes_the_shorter_way(tmp_path):
    ranks = [[t.send(1, 4)], *[[t.comp(1, micros=0)]] * 3, [t.recv(1, 0)], [t.comp(1, micros=0)]]
    system = t.system(tmp_path / "s", [6], topology="Ring")
    assert finishes(t.save(tmp_path / "t", ranks), system)[4] == alone(4096, 100, hops=2)


def test_collectives_of_different_communicators_meet(tmp_path):
    """Two rings that share the links of one network take longer than each alone."""
    ranks = [[t.coll(1, group=1 + device % 2)] for device in range(4)]
    traces = t.save(tmp_path / "t", ranks, {1: (0, 2), 2: (1, 3)})
    system = t.system(tmp_path / "s", [4], topology="Ring")
    assert min(finishes(traces, system)) > max(finishes(traces, system, SimulationOptions()))


def test_dimensions_are_crossed_in_order(tmp_path):
    """A message crosses dimension 0, then 1, each as if it were the only one."""
    ranks = [[t.comp(1, micros=0)] for _ in range(8)]
    ranks[0], ranks[5] = [t.send(1, 5)], [t.recv(1, 0)]
    traces = t.save(tmp_path / "t", ranks)
    system = t.system(
        tmp_path / "s", [4, 2], topology=["FullyConnected", "Switch"], bandwidth=[100, 25],
        latency=[500, 2000],
    )  # fmt: skip
    expected = alone(4096, 100) + alone(4096, 25, hops=2, latency=2000)
    assert finishes(traces, system)[5] == expected


def test_collectives_of_one_dimension_are_those_of_a_network_of_one(tmp_path):
    """Four planes of two devices, each reducing within itself, share no links."""
    ranks = [[t.coll(1, group=1 + device // 4)] for device in range(8)]
    both = t.save(tmp_path / "t", ranks, {1: range(4), 2: range(4, 8)})
    system = t.system(tmp_path / "s", [4, 2], topology="Switch", algorithm="ring")
    ranks = [[t.coll(1, group=1)] for _ in range(5)]
    ranks[4] = [t.comp(1)]
    one = t.save(tmp_path / "t1", ranks, {1: range(4)})
    alone = t.system(tmp_path / "s1", [5], topology="Switch", algorithm="ring")
    assert finishes(both, system) == finishes(one, alone)[:4] * 2


def test_a_ring_of_two_has_no_model(tmp_path):
    traces = t.save(tmp_path / "t", [[t.comp(1)]] * 2)
    with pytest.raises(HespasError, match="a Ring of 2 devices"):
        finishes(traces, t.system(tmp_path / "s", [2], topology="Ring"))


def test_a_deadlock_is_an_error(tmp_path):
    traces = t.save(tmp_path / "t", [[t.coll(1)], [t.coll(1)], [t.comp(1)], [t.coll(1)]])
    with pytest.raises(HespasError, match="deadlock: 3 of 4 devices"):
        finishes(traces, t.system(tmp_path / "s", [4]))


def spans(result):
    """Return when each node of each device ran, in order of issue."""
    return [
        [(i.node, i.start_ns, i.finish_ns) for i in result.classes[known]]
        for known in result.class_of
    ]


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_engine_equals_plain_events(tmp_path, dims):
    """Without congestion, timing collectives one by one changes nothing."""
    for seed in range(12):
        traces, system = t.random_case(tmp_path / str(seed), seed, dims)
        inputs = load_inputs(traces, load_system(str(system)))
        embedded_spans = spans(embedded.run_event_simulation(inputs, SimulationOptions()))
        for device, lane in enumerate(
            MessageLevelEngine(inputs, SimulationOptions()).run_all_devices()
        ):
            ids = [node.id for node in inputs.devices[device].program.nodes]
            plain = [(ids[p], lane.starts[p], lane.ends[p]) for p in lane.order]
            assert plain == embedded_spans[device], (seed, device)


@pytest.mark.skipif(shutil.which(AWARE) is None, reason=f"{AWARE} is not on PATH")
@pytest.mark.parametrize(
    "options",
    [AWARE_OPTIONS, SimulationOptions(congestion=True, queues_per_dim=2, rendezvous=True)],
)
def test_random_traces_in_astra_sim(tmp_path, options):
    """Node times equal the log of the congestion-aware program."""
    for seed in range(25):
        traces, system = t.random_case(tmp_path / str(seed), seed)
        embedded_result = simulate_folder(traces, system, SimulatorChoice("embedded", options))
        astra_result = simulate_folder(traces, system, SimulatorChoice("astra-sim", options))
        assert list(embedded_result.devices) == list(astra_result.devices), seed
        assert spans(embedded_result) == spans(astra_result), seed
        assert list(embedded_result.comms) == list(astra_result.comms), seed
