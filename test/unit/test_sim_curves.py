"""Options beyond ASTRA-sim: measured collectives and slowdown of compute."""

import math
from dataclasses import replace
from typing import Any

import pytest
from support.flow_cases import FlowProgram, load_network
from support.traces import simulate_folder

import hespas
from hespas import configs
from hespas.configs import load_system as load_system
from hespas.configs.network_fabric import SlowLinkEntry
from hespas.simulators import embedded, measured
from hespas.simulators.embedded import curves
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
from hespas.simulators.simulation_result import CurveTag
from hespas.support.errors import HespasError, UsageError
from support import traces as t


def simulate(folder, system, **options):
    return embedded.run_event_simulation(
        load_inputs(folder, load_system(str(system))), SimulationOptions(**options)
    )


@pytest.mark.parametrize("device", curves.list_devices())
def test_files(device):
    """Each file has a source, every kind of collective, and plausible times."""
    data = curves.load_curves(device)
    assert "aiconfigurator" in data.source or "XLA embeds" in data.source
    assert set(data.curves) == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}
    for kind, curves_by_size in data.curves.items():
        assert [curve.devices for curve in curves_by_size] in ([2, 4], [2, 4, 8])
        times = [data.interpolate_collective(kind, 1 << size, 4)[0] for size in range(9, 29)]
        assert times == sorted(times)
        for curve in curves_by_size:
            assert 1000 < curve.times_ns[0] < 180_000  # RCCL on MI355X: an all-to-all of 8
            share = curve.sizes_bytes[-1] / curve.times_ns[-1] / data.device_gb_s
            assert 0.14 < share < 1.4  # pairs have one link of seven between MI300X
            assert 0 < curve.error < 0.25


def test_measured_points_are_met():
    """An A100 gathers 512 MiB between 4 devices in 2.1 ms; the size is that of the whole buffer."""
    data = curves.load_curves("A100_SXM")
    for curve in data.curves["all_gather"]:
        for size, time_ns in zip(curve.sizes_bytes, curve.times_ns, strict=True):
            estimate = data.interpolate_collective(
                "all_gather", size // curve.devices, curve.devices
            )
            assert estimate == (round(time_ns), CurveTag.MEASURED)


def test_between_sizes_is_a_power_of_the_size():
    curve = curves.CollectiveCurve(4, (100, 400), (10.0, 30.0), 0.1)
    assert curve.interpolate_ns(200) == pytest.approx(math.sqrt(10 * 30))
    assert curve.interpolate_ns(50) == 10.0
    assert curve.interpolate_ns(800) == pytest.approx(30 + 400 * 20 / 300)
    for flat in (((400,), (30.0,)), ((100, 400), (30.0, 30.0))):
        assert curves.CollectiveCurve(4, *flat, 0.1).interpolate_ns(800) == 60.0


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize(("devices", "low", "high"), [(3, 2, 4), (5, 4, 8), (7, 4, 8)])
def test_between_measured_group_sizes(kind, devices, low, high):
    """The time lies between those of the neighbouring group sizes, with a tag."""
    data = curves.load_curves("H100_SXM")
    whole = 840 << 18
    times = []
    for n in (devices, low, high):
        size = whole // n if kind == "all_gather" else whole
        times.append(data.interpolate_collective(kind, size, n))
    assert times[0][1] == CurveTag.BETWEEN
    assert min(times[1:])[0] <= times[0][0] <= max(times[1:])[0]


def test_a_table_becomes_curves(tmp_path):
    """Element types of equal size are averaged, sizes are in bytes, and times never fall."""
    table = tmp_path / "t.csv"
    table.write_text(
        "op_name,nccl_dtype,num_gpus,message_size,latency_ms\n"
        "alltoall,half,4,512,0.010\nalltoall,int8,4,1024,0.0121\n"
        "alltoall,half,4,1024,0.009\nalltoall,half,4,4096,0.1\n"
    )
    curve = measured.build_curve_file(str(table), "d", "s", 450.0, "l")["curves"]["all_to_all"]["4"]
    assert curve["sizes_bytes"] == [1024, 2048, 8192]
    assert curve["times_us"] == [11.0, 11.0, 100.0]
    table.write_text(table.read_text() + "alltoall,half,4,many,0.1\n")
    with pytest.raises(HespasError, match=r"t\.csv:6"):
        measured.read_latency_table(str(table))


def test_beyond_measured_bytes_is_tagged():
    data = curves.load_curves("H100_SXM")
    assert data.interpolate_collective("all_reduce", 100, 4)[1] == CurveTag.BEYOND
    assert data.interpolate_collective("all_reduce", 1 << 30, 4)[1] == CurveTag.BEYOND
    assert not data.has_measured_group("all_reduce", 16) and not data.has_measured_group(
        "broadcast", 4
    )


def test_a_large_all_reduce_runs_at_the_rate_of_floats():
    """1 GiB between 8 H100 runs at 470 GB/s, which users measure with nccl-tests; 351 of bytes.

    What lies beyond the table is sent at the rate of its end, without its latency.
    """
    (time_ns, tag), (double_ns, _) = (
        curves.load_curves("H100_SXM").interpolate_collective("all_reduce", size, 8)
        for size in (1 << 30, 1 << 31)
    )
    assert 2 * 7 / 8 * (1 << 30) / time_ns == pytest.approx(470, rel=0.05)
    assert tag == CurveTag.BEYOND and double_ns < 2 * time_ns


@pytest.mark.parametrize("device", curves.list_devices())
def test_collectives_take_no_less_time_with_more_bytes(device):
    for group in curves.load_curves(device).curves.values():
        for curve in group:
            assert list(curve.times_ns) == sorted(curve.times_ns)


def test_unknown_device_suggests():
    with pytest.raises(UsageError) as error:
        curves.load_curves("H100")
    assert "H100_SXM" in str(error.value)


def test_collectives_of_a_simulation(tmp_path):
    """All devices finish together after the last start; no curve holds across hosts."""
    ranks = [
        [
            t.comp(1, micros=1 + device),
            t.coll(2, [1], size=1 << 20, group=2 + device // 4),
            t.coll(3, [2], size=1 << 20, group=1),
        ]
        for device in range(8)
    ]
    folder = t.save(tmp_path / "t", ranks, {1: range(8), 2: range(4), 3: range(4, 8)})
    system = t.system(tmp_path / "s", [4, 2], topology="Switch", bandwidth=[300, 150])
    result = simulate(folder, system, curves="A100_SXM")
    time, _ = curves.load_curves("A100_SXM").interpolate_collective("all_reduce", 1 << 20, 4)
    first, second, across = sorted(result.comms, key=lambda comm: -comm.communicator)[:3]
    assert (first.start_ns, first.finish_ns) == (5000, 8000 + time)
    assert (second.start_ns, second.finish_ns) == (1000, 4000 + time)
    plain = simulate(folder, system)
    modelled = next(comm for comm in plain.comms if comm.communicator == 1)
    assert across.finish_ns - across.start_ns > 0 and modelled.communicator == across.communicator
    assert result.settings.to_texts()["curves"] == (
        "A100_SXM (2 measured, 1 by the network model: not measured for such devices)"
    )


def time_with_slow_links(
    name: str, slow_links: list[dict], groups: list[range], **options: Any
) -> tuple[list[int], str]:
    """Return when the devices finish an all-reduce, and what timed it."""
    system = load_network(name)
    fabric = system.fabric.model_copy(
        update={"slow_links": [SlowLinkEntry.model_validate(link) for link in slow_links]}
    )
    program = FlowProgram(system.device_count)
    for members in groups:
        program.add_collective("all_reduce", 1 << 26, members)
    result = program.simulate(replace(system, fabric=fabric), **options)
    texts = result.settings.to_texts()
    return [d.finish_ns for d in result.devices], texts.get("curves", "")


@pytest.mark.parametrize(
    ("name", "devices", "share"),
    [
        ("switch:8x2,links=18", [3], 0.5),
        ("fully-connected:8,links=14", [1, 6], 0),
    ],
)
def test_no_curve_holds_where_a_link_is_slow(name, devices, share):
    blocks = [range(i, i + 8) for i in range(0, load_network(name).device_count, 8)]
    links = [{"dimension": 0, "devices": devices, "bandwidth_share": share}]
    results = [
        time_with_slow_links(name, links, blocks, curves="H100_SXM", symmetry=symmetry)
        for symmetry in (True, False)
    ]
    assert results[0] == results[1]
    times, text = results[0]
    modelled, _ = time_with_slow_links(name, links, blocks)
    measured, _ = time_with_slow_links(name, [], blocks, curves="H100_SXM")
    assert times[:8] == modelled[:8] != measured[:8]
    assert times[8:] == measured[8:]
    assert "1 by the network model: not measured for such devices" in text


@pytest.mark.parametrize("name", ["ring:8,links=18", "torus:4x2,links=4", "mesh:8,links=18"])
def test_no_curve_holds_in_a_ring(name):
    """The devices that were measured reach each other directly, within a host and between two."""
    options = {"curves": "H100_SXM", "between_hosts": "nccl"}
    times, text = time_with_slow_links(name, [], [range(8)], **options)
    assert times == time_with_slow_links(name, [], [range(8)])[0]
    assert text == "H100_SXM (1 by the network model: not measured for such devices)"


def test_a_group_beside_a_slow_link_is_as_measured():
    name, blocks = "switch:8,links=18", [range(4), range(4, 8)]
    slow = [{"dimension": 0, "devices": [6], "bandwidth_share": 0.5}]
    times, text = time_with_slow_links(name, slow, blocks, curves="H100_SXM")
    assert times[:4] == time_with_slow_links(name, [], blocks, curves="H100_SXM")[0][:4]
    assert times[4:] == time_with_slow_links(name, slow, blocks)[0][4:]
    assert text.startswith("H100_SXM (1 ")


def test_no_model_of_nccl_holds_where_a_link_between_hosts_is_slow():
    name, everyone = "switch:8x2,links=18", [range(16)]
    slow = [{"dimension": 1, "devices": [3], "bandwidth_share": 0.25}]
    options = {"curves": "H100_SXM", "between_hosts": "nccl"}
    modelled = time_with_slow_links(name, slow, everyone)[0]
    assert time_with_slow_links(name, slow, everyone, **options)[0] == modelled
    assert time_with_slow_links(name, [], everyone, **options)[0] != modelled


def test_what_is_not_measured_is_a_warning(tmp_path):
    folder = t.save(tmp_path / "t", [[t.coll(1)]] * 16)
    system = t.system(tmp_path / "s", [16])
    notes = []
    options = SimulationOptions(curves="H100_SXM")
    simulate_folder(folder, system, SimulatorChoice("embedded", options), note=notes.append)
    assert any("H100_SXM (by the network model" in note for note in notes)


@pytest.fixture
def overlap(tmp_path):
    """Return traces of a collective alongside 100 us of compute, and their system."""
    folder = t.save(tmp_path / "t", [[t.comp(1, micros=100), t.coll(2, size=4 << 20)]] * 4)
    return folder, t.system(tmp_path / "s", [4], topology="FullyConnected", bandwidth=100)


def test_slowdown_lasts_as_long_as_communication(overlap):
    plain = simulate(*overlap)
    comm = plain.devices[0].comm_ns
    assert 0 < comm < 100_000
    for slowdown in (0.18, 0.5, 1.0):
        result = simulate(*overlap, slowdown=slowdown)
        done = comm / (1 + slowdown)  # work done by the end of the collective
        expected = math.ceil(comm + 100_000 - done - 1e-6)
        assert [device.finish_ns for device in result.devices] == [expected] * 4
        assert result.devices[0].compute_ns == expected
        assert result.devices[0].exposed_ns == 0
        assert result.devices[0].comm_ns == comm


def test_slowdown_is_over_before_the_node(tmp_path):
    """Neither communication that ended before a node nor a waiting RECV slows it down."""
    ranks = [
        [t.comp(1, micros=50), t.recv(2, 1), t.comp(3, [2], micros=10)],
        [t.comp(1, micros=80), t.send(2, 0, [1])],
    ]
    folder, system = t.save(tmp_path / "t", ranks), t.system(tmp_path / "s", [2])
    assert simulate(folder, system).devices == simulate(folder, system, slowdown=2.0).devices


def test_slowdown_with_pauses(tmp_path):
    """Two collectives with a pause between them each slow down a part of one node."""
    node = [t.comp(1, micros=200), t.coll(2, size=1 << 20), t.coll(3, [2], size=1 << 20)]
    folder, system = t.save(tmp_path / "t", [node] * 2), t.system(tmp_path / "s", [2])
    comm = simulate(folder, system).devices[0].comm_ns
    finish = simulate(folder, system, slowdown=0.25).devices[0].finish_ns
    assert abs(finish - (200_000 + comm * 0.25 / 1.25)) <= 2


@pytest.mark.parametrize("options", [{"slowdown": 1e-12}, {"congestion": True}])
def test_next_to_nothing_changes_nothing(overlap, options):
    """A ring of messages causes no congestion, and a slowdown near 0 has no effect."""
    assert simulate(*overlap, **options).devices == simulate(*overlap).devices


def test_all_options_together(overlap):
    result = simulate(*overlap, slowdown=0.18, curves="A100_SXM", congestion=True)
    time, _ = curves.load_curves("A100_SXM").interpolate_collective("all_reduce", 4 << 20, 4)
    assert result.comms[0].finish_ns == time
    assert result.devices[0].finish_ns == math.ceil(100_000 + time - time / 1.18 - 1e-6)


@pytest.mark.parametrize("options", [{}, {"symmetry": False}, {"congestion": True}])
def test_every_collective_is_counted(tmp_path, options):
    """Symmetric collectives count each, and with congestion modelled ones count too."""
    nodes = [[t.coll(1, group=1), t.coll(2, [1], group=2 + rank // 4)] for rank in range(16)]
    groups = {1: range(16)} | {2 + k: range(4 * k, 4 * k + 4) for k in range(4)}
    folder = t.save(tmp_path / "t", nodes, groups)
    system = t.system(tmp_path / "s", [4, 4], topology="Switch", bandwidth=300)
    text = simulate(folder, system, curves="A100_SXM", **options).settings.to_texts()["curves"]
    assert text == "A100_SXM (4 measured, 1 by the network model: not measured for such devices)"


def test_beyond_the_bytes_of_either_neighbour_is_tagged():
    """Both neighbouring curves must include the size."""
    two = curves.CollectiveCurve(2, (100, 200), (10.0, 20.0), 0.1)
    four = curves.CollectiveCurve(4, (100, 400), (10.0, 30.0), 0.1)
    data = curves.DeviceCurves("X", "made", 450.0, {"all_reduce": (two, four)})
    assert data.interpolate_collective("all_reduce", 150, 3)[1] == CurveTag.BETWEEN
    assert data.interpolate_collective("all_reduce", 300, 3)[1] == CurveTag.BEYOND
    assert data.interpolate_collective("all_reduce", 300, 4)[1] == CurveTag.MEASURED


def test_a_table_of_two_sizes_has_no_error_to_tell(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text(
        "op_name,nccl_dtype,num_gpus,message_size,latency_ms\n"
        "alltoall,int8,4,1024,0.01\nalltoall,int8,4,2048,0.02\n"
    )
    with pytest.raises(HespasError, match="2 sizes of all_to_all between 4 devices"):
        measured.build_curve_file(str(table), "d", "s", 450.0, "l")


def test_a_nodes_own_systems_are_those_measured():
    """The systems of a node count as measured, in GiB or GB, with 4 or 8 devices."""
    for node in ("A100_SXM_40GB", "A100_SXM_80GB", "H100_80GB", "H200_141GB", "B200_180GB"):
        measured = curves.load_curves(configs.load_node(node).collectives)
        assert {
            measured.compute_bandwidth_ratio(configs.load_system(name))
            for name in configs.list_systems_of_node(node)
        } == {1.0}


def test_other_bandwidths_scale_what_was_measured():
    a100 = curves.load_curves("A100_SXM")
    ratio = a100.compute_bandwidth_ratio(configs.load_system("H100_80GB_4GPU"))
    assert ratio == pytest.approx(3 * 150 * 1.073741824 / 300)
    for kind in ("all_reduce", "all_gather"):
        large, tag = a100.interpolate_collective(kind, 64 << 20, 4, 2.0)
        assert (large, tag) == (a100.interpolate_collective(kind, 32 << 20, 4)[0], CurveTag.SCALED)
        small = a100.interpolate_collective(kind, 4096, 4, 2.0)[0]
        assert 0.8 < small / a100.interpolate_collective(kind, 4096, 4)[0] <= 1


def write_ragged_exchange(updates: int, devices: int = 8) -> str:
    """Write a ragged all-to-all of 58.7 MB a device with ``updates`` for each device."""
    ranks, count = list(range(devices)), devices * updates
    config = (
        "api_version = 4 : i32, backend_config = {channel_id = 1 : i64, "
        f"replica_groups = dense<[{ranks}]> : tensor<1x{devices}xi64>}}"
    )
    rows, counts = "tensor<4096x7168xbf16>", f"tensor<{count}xi64>"
    types = ", ".join((rows, rows, counts, counts, counts, counts))
    return f"""
module @ragged attributes {{mhlo.num_partitions = {devices} : i32}} {{
  func.func @main(%x: {rows}, %o: {rows}, %n: {counts}) -> {rows} {{
    %0 = stablehlo.custom_call @ragged_all_to_all(%x, %o, %n, %n, %n, %n) {{{config}}}
      : ({types}) -> {rows}
    return %0 : {rows}
  }}
}}
"""


def test_ragged_exchange_waits_for_the_loads_of_its_few_blocks():
    """Within a host, one block of 128 threads for an update copies what it sends to a device.

    On 8 B200, 58.7 MB a device were sent at 16.42 GiB/s, 3.33 ms, where the links take 0.13
    (openxla/xla#33386). 32 updates for each device make the kernel 17.8 times faster
    (marin-community/marin#8077, 16 GPUs): then the links limit it.
    """
    times_ms = []
    for updates in (1, 2, 32):
        program = write_ragged_exchange(updates)
        result = hespas.estimate(
            program, target="B200_180GB", system="B200_180GB_8GPU", form="as-is"
        )
        times_ms.append(1e3 * (result.step_time_s - result.compute_s))
    assert times_ms[0] == pytest.approx(58.72e6 / (16.42 * 2**30) * 1e3, rel=0.02)
    assert times_ms[1] == pytest.approx(times_ms[0] / 2, rel=0.01)
    assert times_ms[2] == pytest.approx(0.126, rel=0.02)
