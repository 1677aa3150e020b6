"""Options beyond ASTRA-sim: measured collectives, and computing that slows down."""

import math

import pytest
import traces as t

from hespas.configs import system as load_system
from hespas.dialects.errors import UsageError
from hespas.simulators import choose, embedded
from hespas.simulators.embedded import curves
from hespas.simulators.embedded.options import Options
from hespas.simulators.inputs import load


def simulate(folder, system, **options):
    return embedded.simulate(load(folder, load_system(str(system))), Options(**options))


@pytest.mark.parametrize("device", curves.names())
def test_files(device):
    """Each file has its source, every collective, and times that make sense."""
    data = curves.load(device)
    assert "aiconfigurator" in data.source
    assert set(data.lines) == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}
    for kind, lines in data.lines.items():
        assert [line.devices for line in lines] == [2, 4, 8]
        times = [data.time_ns(kind, 1 << size, 4)[0] for size in range(9, 29)]
        assert times == sorted(times)
        for line in lines:
            assert 1000 < line.alpha_ns < 100_000 and 50 < line.bytes_per_ns < 1000


def test_a_time_is_alpha_and_bytes_over_beta():
    """A100: 16.2 us and 127 GB/s for all-reduces between 4; all-gathers count the whole buffer."""
    data = curves.load("A100_SXM")
    size = 64 << 20
    assert data.time_ns("all_reduce", size, 4) == (round(16_200 + size / 127), curves.MEASURED)
    assert data.time_ns("all_gather", size // 4, 4)[0] == round(13_800 + size / 206)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_between_measured_group_sizes(kind):
    """Alpha and bus bandwidth lie between those of the neighbours, and the time is tagged."""
    data = curves.load("H100_SXM")

    def alpha_and_bus(devices):
        sizes = [n // devices if kind == "all_gather" else n for n in (0, 840 << 20)]
        alpha, long = (data.time_ns(kind, size, devices)[0] for size in sizes)
        share = (devices - 1) / devices * (2 if kind == "all_reduce" else 1)
        return alpha, (840 << 20) / (long - alpha) * share

    for devices, low, high in ((3, 2, 4), (5, 4, 8), (7, 4, 8)):
        assert data.time_ns(kind, 1 << 20, devices)[1] == curves.BETWEEN
        for mine, *bounds in zip(*map(alpha_and_bus, (devices, low, high)), strict=True):
            assert min(bounds) <= mine <= max(bounds)


def test_beyond_measured_bytes_is_tagged():
    data = curves.load("H100_SXM")
    assert data.time_ns("all_reduce", 100, 4)[1] == curves.BEYOND
    assert data.time_ns("all_reduce", 1 << 30, 4)[1] == curves.BEYOND
    assert not data.knows("all_reduce", 16) and not data.knows("broadcast", 4)


def test_unknown_device_suggests():
    with pytest.raises(UsageError) as error:
        curves.load("H100")
    assert "H100_SXM" in str(error.value)


def test_collectives_of_a_simulation(tmp_path):
    """All finish together, their time after the last started; across nodes nothing is measured."""
    ranks = [
        [
            t.comp(1, micros=1 + device),
            t.coll(2, [1], size=1 << 20, group=2 + device // 4),
            t.coll(3, [2], size=1 << 20, group=1),
        ]
        for device in range(8)
    ]
    folder = t.save(tmp_path / "t", ranks, {1: range(8), 2: range(4), 3: range(4, 8)})
    system = t.system(tmp_path / "s", [4, 2])
    result = simulate(folder, system, curves="A100_SXM")
    time, _ = curves.load("A100_SXM").time_ns("all_reduce", 1 << 20, 4)
    first, second, across = sorted(result.comms, key=lambda comm: -comm.communicator)[:3]
    assert (first.start_ns, first.finish_ns) == (5000, 8000 + time)
    assert (second.start_ns, second.finish_ns) == (1000, 4000 + time)
    plain = simulate(folder, system)
    modelled = next(comm for comm in plain.comms if comm.communicator == 1)
    assert across.finish_ns - across.start_ns > 0 and modelled.communicator == across.communicator
    assert result.settings["curves"] == (
        "A100_SXM (2 measured, 1 by the network model: not measured for such devices)"
    )


def test_what_is_not_measured_is_a_warning(tmp_path):
    folder = t.save(tmp_path / "t", [[t.coll(1)]] * 16)
    system = t.system(tmp_path / "s", [16])
    notes = []
    options = Options(curves="H100_SXM")
    choose.simulate(folder, system, "embedded", options=options, note=notes.append)
    assert any("1 by the network model" in note for note in notes)


@pytest.fixture
def overlap(tmp_path):
    """A collective beside 100 us of computing."""
    folder = t.save(tmp_path / "t", [[t.comp(1, micros=100), t.coll(2, size=4 << 20)]] * 4)
    return folder, t.system(tmp_path / "s", [4])


def test_slowdown_lasts_as_long_as_communication(overlap):
    plain = simulate(*overlap)
    comm = plain.devices[0].comm_ns
    assert 0 < comm < 100_000
    for slowdown in (0.18, 0.5, 1.0):
        result = simulate(*overlap, slowdown=slowdown)
        done = comm / (1 + slowdown)  # of the work, by the end of the collective
        expected = math.ceil(comm + 100_000 - done - 1e-6)
        assert [device.finish_ns for device in result.devices] == [expected] * 4
        assert result.devices[0].compute_ns == expected
        assert result.devices[0].exposed_ns == 0
        assert result.devices[0].comm_ns == comm


def test_slowdown_is_over_before_the_node(tmp_path):
    """Communication that ends before a node starts does not slow it; a RECV that waits neither."""
    ranks = [
        [t.comp(1, micros=50), t.recv(2, 1), t.comp(3, [2], micros=10)],
        [t.comp(1, micros=80), t.send(2, 0, [1])],
    ]
    folder, system = t.save(tmp_path / "t", ranks), t.system(tmp_path / "s", [2])
    assert simulate(folder, system).devices == simulate(folder, system, slowdown=2.0).devices


def test_slowdown_with_pauses(tmp_path):
    """Two collectives with a pause, all beside one node: each slows its own part."""
    node = [t.comp(1, micros=200), t.coll(2, size=1 << 20), t.coll(3, [2], size=1 << 20)]
    folder, system = t.save(tmp_path / "t", [node] * 2), t.system(tmp_path / "s", [2])
    comm = simulate(folder, system).devices[0].comm_ns
    finish = simulate(folder, system, slowdown=0.25).devices[0].finish_ns
    assert abs(finish - (200_000 + comm * 0.25 / 1.25)) <= 2


@pytest.mark.parametrize("options", [{"slowdown": 1e-12}, {"congestion": True}])
def test_next_to_nothing_changes_nothing(overlap, options):
    """Links of a ring of four are free under a ring; a slowdown of nearly 0 is none."""
    assert simulate(*overlap, **options).devices == simulate(*overlap).devices


def test_all_options_together(overlap):
    result = simulate(*overlap, slowdown=0.18, curves="A100_SXM", congestion=True)
    time, _ = curves.load("A100_SXM").time_ns("all_reduce", 4 << 20, 4)
    assert result.comms[0].finish_ns == time
    assert result.devices[0].finish_ns == math.ceil(100_000 + time - time / 1.18 - 1e-6)
