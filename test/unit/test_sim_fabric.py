"""Networks that do more or less than ASTRA-sim models: reductions, slow links, and what is down."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.flow_cases import FlowProgram, list_blocks, time_collectives
from support.flow_cases import load_network as load_fast_network
from support.traces import simulate_folder

from hespas import configs
from hespas.configs.nccl_constants import read_nccl_constants
from hespas.configs.network_fabric import NetworkFabric, SlowLinkEntry
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.embedded import run_event_simulation
from hespas.simulators.embedded.flows.link_graph import LinkGraph, Messages
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
from hespas.support.errors import HespasError, UsageError
from support import traces as t

LINK_NS, LINK_GB_S, MEMORY_GB_S, DELAY_NS = 500, 50.0, 3350.0, 10
SIZE = 1 << 26
KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")


def load_network(name: str, **fabric) -> SystemSpec:
    """Return the network of an inline name without its rates, with a changed fabric."""
    rates = f"link_gb_s={LINK_GB_S},latency_ns={LINK_NS},local_mem_gb_s={MEMORY_GB_S}"
    system = configs.load_system(f"{name},{rates}")
    return replace(system, fabric=system.fabric.model_copy(update=fabric))


def finish_ns(system: SystemSpec, kind: str = "all_reduce", size: int = SIZE) -> int:
    """Return when the last device of a collective between all devices finishes."""
    return time_collectives(system, kind, size, [range(system.device_count)])


# Limits that a fabric states


def test_one_direction_of_a_ring_carries_half() -> None:
    ring = load_network("ring:8,links=2")
    one_way = load_network("ring:8,links=2", directions_at_once=False)
    assert finish_ns(one_way) / finish_ns(ring) == pytest.approx(2, rel=0.03)


def test_one_dimension_at_a_time_takes_as_long_as_the_dimensions_together() -> None:
    torus = load_fast_network("torus:8x8,links=4")
    fabric = torus.fabric.model_copy(update={"dimensions_at_once": False})
    ratio = finish_ns(replace(torus, fabric=fabric), size=1 << 30) / finish_ns(torus, size=1 << 30)
    # Dimension 0 moves 7/8 and dimension 1 7/64 of what the two move together, at half the rate.
    assert ratio == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize(("name", "links"), [("torus:4x4", 4), ("torus:4x4x4", 6)])
def test_as_many_times_the_links_of_a_ring_are_as_many_times_as_fast(name: str, links: int) -> None:
    torus = load_network(f"{name},links={links}")
    ring = load_network(f"ring:{torus.device_count},links=2")
    ratio = finish_ns(ring, size=1 << 30) / finish_ns(torus, size=1 << 30)
    assert ratio == pytest.approx(links / 2, rel=0.1)  # latencies and reductions take a share


def test_a_mesh_has_half_of_the_bandwidth_of_a_torus() -> None:
    """The corners of a mesh have half of the links."""
    mesh, torus = (load_fast_network(f"{kind}:4x4,links=4") for kind in ("mesh", "torus"))
    assert finish_ns(mesh, size=1 << 30) / finish_ns(torus, size=1 << 30) == pytest.approx(
        2, rel=0.02
    )


# Reductions in switches


@pytest.mark.parametrize("kind", KINDS[:3])
def test_data_crosses_a_reducing_switch_once(kind: str) -> None:
    share, n = 0.8, 8
    system = load_network(f"switch:{n},links=18,reduction={share}")
    moved = {"all_reduce": SIZE, "reduce_scatter": SIZE * (1 - 1 / n), "all_gather": (n - 1) * SIZE}
    expected = 2 * DELAY_NS + 2 * LINK_NS + moved[kind] / (18 * LINK_GB_S * share)
    without = finish_ns(load_network(f"switch:{n},links=18"), kind)
    assert finish_ns(system, kind) == pytest.approx(min(expected, without), abs=2)


def test_a_switch_does_only_what_it_supports() -> None:
    ring = load_network("switch:8,links=18")
    entry = {"dimension": 0, "bandwidth_share": 1, "collectives": ["all-reduce"], "source": "test"}
    fabric = NetworkFabric.model_validate({"switch_reductions": [entry]})
    system = replace(ring, fabric=fabric)
    assert finish_ns(system) < finish_ns(ring)
    for kind in KINDS[1:]:
        assert finish_ns(system, kind) == finish_ns(ring, kind)


# Slow links, links that are down, and devices


def test_a_slow_link_slows_the_whole_ring() -> None:
    ring = load_fast_network("ring:8,links=2")
    link = SlowLinkEntry(dimension=0, devices=[3, 4], bandwidth_share=0.25)
    slow = replace(ring, fabric=NetworkFabric(slow_links=[link]))
    assert finish_ns(slow) / finish_ns(ring) == pytest.approx(4, rel=0.02)
    beside = [time_collectives(one, "all_reduce", SIZE, [[0, 1, 2]]) for one in (slow, ring)]
    assert beside[0] == beside[1]


def test_a_ring_with_a_link_down_is_a_line() -> None:
    line, ring = load_network("mesh:6,links=2"), load_network("ring:6,links=2,down=0-5")
    for kind in KINDS:
        assert finish_ns(ring, kind) == finish_ns(line, kind)


def test_a_message_goes_around_what_is_down() -> None:
    torus = load_fast_network("torus:4x4,links=4,down=0-1")
    program = FlowProgram(16)
    program.add_message(0, 1, SIZE, 1)
    record = program.simulate(torus).comms[0]
    assert record.finish_ns == pytest.approx(3 * LINK_NS + SIZE / LINK_GB_S, abs=2)


def test_a_link_of_two_groups_of_a_dragonfly_is_down() -> None:
    """Three groups of two switches of two devices: the way leads through the third group."""
    names = [f"dragonfly:2x2x3,links=1{down}" for down in ("", ",down=0-4")]
    usual, detour = (LinkGraph.from_system(load_fast_network(name)) for name in names)
    assert set(usual.list_route(0, 4)) & set(np.flatnonzero(detour.down).tolist())
    assert not set(detour.list_route(0, 4)) & set(np.flatnonzero(detour.down).tolist())


def test_without_a_way_a_message_is_an_error() -> None:
    system = load_network("switch:4,links=2,down=1@0")
    with pytest.raises(HespasError, match="no way from device"):
        finish_ns(system)


@pytest.mark.parametrize(
    "name",
    ["torus:3x3,links=4", "mesh:3x3,links=4", "switch:3x3,links=2", "fat-tree:3x3,links=1",
     "dragonfly:2x2x3,links=1", "fully-connected:9,links=8", "rails:3x3,links=1,nic_gb_s=50"],
)  # fmt: skip
def test_devices_that_are_down_take_no_part(name: str) -> None:
    """The program has a device less, and none of its messages crosses the links of that place."""
    whole, system = load_fast_network(name), load_fast_network(f"{name},down=4")
    assert system.device_count == whole.device_count - 1
    graph = LinkGraph.from_system(system)
    places = np.delete(np.arange(whole.device_count), 4)
    pairs = [(a, b) for a in places for b in places if a != b]
    messages = Messages(np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))
    starts, ends = graph.link_ends
    used = np.flatnonzero(graph.count_messages(messages))
    assert 4 not in starts[used] and 4 not in ends[used]
    assert (graph.capacities[used] > 0).all()
    for kind in KINDS:
        assert finish_ns(system, kind) > 0


# Trees, rails and dragonflies: bounds by their bisections


@pytest.mark.parametrize(
    ("name", "half", "bytes_per_ns"),
    [
        # Two leaves of four devices, with uplinks for half, a third or all of them.
        ("fat-tree:4x2,links=1,oversubscription=2", [0, 1, 2, 3], 4 * 50 / 2),
        ("fat-tree:4x2,links=1,oversubscription=3", [0, 1, 2, 3], 4 * 50 / 3),
        ("fat-tree:4x2,links=1", [0, 1, 2, 3], 4 * 50),
        # Two pods of two leaves: 2:1 at the leaves, 2:1 again above them.
        ("fat-tree:2x2x2,links=1,oversubscription=2x2", [0, 1, 2, 3], 4 * 50 / 4),
        # Two hosts of four: four rails of 25 GB/s.
        ("rails:4x2,links=4,nic_gb_s=25", [0, 1, 2, 3], 4 * 25),
        # Two groups of two switches of two devices: each switch has two links to the other group.
        ("dragonfly:2x2x2,links=1,global_links=2", [0, 1, 2, 3], 4 * 50),
        # Three groups, the first of which has a link of each switch to the others.
        ("dragonfly:2x4x3,links=1,global_links=1", list(range(8)), 2 * 2 * 50),
    ],
)
def test_an_exchange_between_two_halves_takes_its_bisection(
    name: str, half: list[int], bytes_per_ns: float
) -> None:
    system = load_fast_network(name)
    n = system.device_count
    others = [device for device in range(n) if device not in half]
    size = 10**8
    time_ns = time_collectives(system, "all_to_all", size, [range(n)])
    crossing_ns = size / n * len(half) * len(others) / bytes_per_ns
    assert crossing_ns <= time_ns <= max(1.5 * crossing_ns, 1.1 * size / system.device_gb_s)


def test_a_fat_tree_without_oversubscription_is_a_switch() -> None:
    tree, switch = (
        load_fast_network(name) for name in ("fat-tree:4x4,links=1", "switch:16,links=1")
    )
    for kind in KINDS:
        assert finish_ns(tree, kind, 1 << 30) / finish_ns(switch, kind, 1 << 30) == pytest.approx(
            1, rel=0.001
        )


def test_groups_below_a_leaf_share_no_uplinks() -> None:
    tree = load_fast_network("fat-tree:4x4,links=1,oversubscription=4")
    inside = time_collectives(tree, "all_to_all", SIZE, list_blocks(16, 4))
    across = time_collectives(
        tree, "all_to_all", SIZE, [[i, i + 4, i + 8, i + 12] for i in range(4)]
    )
    assert across / inside == pytest.approx(4, rel=0.001)


def test_a_ring_of_rails_reduces_within_hosts_first() -> None:
    """4 x 4 at 400 and 50 GB/s: 2 S (3/16) over a NIC, as a hierarchical algorithm has it."""
    rails = load_fast_network("rails:4x4,links=8,nic_gb_s=50")
    size = 1 << 28
    assert finish_ns(rails, "all_reduce", size) == pytest.approx(2 * size * 3 / 16 / 50, rel=0.08)


# Files


def write_system(folder: Path, name: str, fabric: dict) -> Path:
    """Write the files of an inline system with another fabric.json."""
    rates = f"link_gb_s={LINK_GB_S},latency_ns={LINK_NS},local_mem_gb_s={MEMORY_GB_S}"
    folder.mkdir()
    for file, text in configs.read_system_files(f"{name},{rates}").items():
        (folder / file).write_text(text)
    (folder / "fabric.json").write_text(json.dumps(fabric))
    return folder


def test_the_share_of_nvls_is_that_of_nccl(tmp_path: Path) -> None:
    entry = {"dimension": 0, "nvls_of": "H100_SXM"}
    folder = write_system(tmp_path / "nvls", "switch:8,links=18", {"switch_reductions": [entry]})
    share = read_nccl_constants()["generations"]["hopper"]["nvls_efficiency"]
    assert configs.load_system(str(folder)).fabric.switch_reductions[0].bandwidth_share == share


def test_written_files_give_the_system_of_the_name(tmp_path: Path) -> None:
    name = "torus:4x2,links=6,link_gb_s=50,latency_ns=500,local_mem_gb_s=3350"
    (tmp_path / "torus").mkdir()
    for file, text in configs.read_system_files(name).items():
        (tmp_path / "torus" / file).write_text(text)
    inline, written = configs.load_system(name), configs.load_system(str(tmp_path / "torus"))
    assert replace(written, name=name, folder=inline.folder) == inline
    assert [round(rate * 2**30 / 1e9) for rate in inline.bandwidth_gib_s] == [100, 50]


def test_a_collective_over_a_dimension_is_an_error_where_devices_are_down(tmp_path: Path) -> None:
    node = t.coll(1, group=0, involved_dim=("bool_list", [True, False]))
    t.save(tmp_path, [[node]] * 15)
    with pytest.raises(HespasError, match="lack the devices that are down") as caught:
        load_inputs(tmp_path, load_network("torus:4x4,links=4", down_devices=[5]))
    assert "dev.0.et node 1" in caught.value.where


def test_a_slow_device_makes_all_wait(tmp_path: Path) -> None:
    ranks = [[t.comp(1, micros=90), t.coll(2, [1])]] * 4
    t.save(tmp_path / "traces", ranks)
    slow = {"slow_devices": [{"devices": [2, 3], "speed": 0.75}]}
    finishes = []
    for name, fabric in (("even", {}), ("slow", slow)):
        folder = write_system(tmp_path / name, "switch:4,links=1", fabric)
        inputs = load_inputs(tmp_path / "traces", configs.load_system(str(folder)))
        finishes.append(run_event_simulation(inputs).step_time_ns)
        everyone = run_event_simulation(inputs, SimulationOptions(symmetry=False))
        assert everyone.step_time_ns == finishes[-1]
    assert finishes[1] - finishes[0] == 30_000


@pytest.mark.parametrize(("place", "device"), [(5, 3), (1, 1)])
def test_slow_devices_are_places_as_slow_links_are(place: int, device: int, tmp_path: Path) -> None:
    fabric = {"down_devices": [2, 4], "slow_devices": [{"devices": [place], "speed": 0.5}]}
    system = configs.load_system(str(write_system(tmp_path / "s", "switch:6,links=1", fabric)))
    t.save(tmp_path / "traces", [[t.comp(1, micros=90)]] * 4)
    result = run_event_simulation(load_inputs(tmp_path / "traces", system))
    assert [each.compute_ns for each in result.devices] == [
        180_000 if rank == device else 90_000 for rank in range(4)
    ]


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather", "all_to_all"])
def test_a_pair_with_one_link_sends_each_way_through_it(kind: str) -> None:
    """Each device sends half of its operand, twice in an all-reduce; a whole one to gather."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        time_ns = finish_ns(load_network("ring:2,links=2", directions_at_once=False), kind)
    sent_ns = SIZE / LINK_GB_S * (1.0 if kind in ("all_reduce", "all_gather") else 0.5)
    reduced_ns = 3 * SIZE / 2 / MEMORY_GB_S if "reduce" in kind else 0
    assert sent_ns + reduced_ns <= time_ns <= sent_ns + reduced_ns + 3 * LINK_NS


def test_a_switch_does_not_reduce_for_a_device_whose_link_to_it_is_down() -> None:
    link = SlowLinkEntry(dimension=0, devices=[3], bandwidth_share=0)
    plain = load_network("switch:4x2,links=2", slow_links=[link])
    reducing = load_network("switch:4x2,links=2,reduction=0.9", slow_links=[link])
    for members, differ in ((range(4), False), (range(4, 8), True)):
        times = [time_collectives(one, "all_reduce", SIZE, [members]) for one in (reducing, plain)]
        assert (times[0] < times[1]) == differ and times[0] <= times[1]


def test_astra_sim_has_no_such_networks(tmp_path: Path) -> None:
    t.save(tmp_path / "traces", [[t.coll(1)]] * 4)
    program = tmp_path / "AstraSim_Analytical_Congestion_Unaware"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    system = load_network("mesh:4,links=2")
    with pytest.raises(HespasError, match="no model of the network"):
        simulate_folder(
            tmp_path / "traces", system, SimulatorChoice("astra-sim", astra_sim=program)
        )
    notes: list[str] = []
    simulate_folder(
        tmp_path / "traces", system, SimulatorChoice(astra_sim=program), note=notes.append
    )
    assert any("simulator: embedded" in text for text in notes)


FABRIC_ERRORS = {
    "no switch": (
        "ring:4,links=2",
        {"switch_reductions": [{"dimension": 0, "nvls_of": "H100_SXM"}]},
        "is no Switch",
    ),
    "no NVLS": (
        "switch:4,links=2",
        {"switch_reductions": [{"dimension": 0, "nvls_of": "A100_SXM"}]},
        "no share of NVLS",
    ),
    "no source": (
        "switch:4,links=2",
        {"switch_reductions": [{"dimension": 0, "bandwidth_share": 1}]},
        "no source",
    ),
    "no device": (
        "switch:4,links=2",
        {"slow_devices": [{"devices": [4], "speed": 1}]},
        "no device 4 of 4",
    ),
    "slow and down": (
        "switch:4,links=2",
        {"down_devices": [1], "slow_devices": [{"devices": [1, 2], "speed": 0.5}]},
        "device 1 is both slow and down",
    ),
}
LINK_ERRORS = {
    "far": ("ring:4,links=2", [0, 2], 0, "no neighbours"),
    "pair": ("switch:4,links=2", [1, 2], 0.5, "links of one device"),
    "diagonal": ("torus:3x3,links=4", [0, 4], 0.5, "another dimension"),
    "absent": ("ring:4,links=2", [3, 4], 0.5, "does not exist"),
}
FABRIC_ERRORS |= {
    case: (
        name,
        {"slow_links": [{"dimension": 0, "devices": devices, "bandwidth_share": share}]},
        match,
    )
    for case, (name, devices, share, match) in LINK_ERRORS.items()
}
FABRIC_ERRORS["groups"] = (
    "dragonfly:2x2x3,links=1",
    {"slow_links": [{"dimension": 1, "devices": [0, 6], "bandwidth_share": 0.5}]},
    "another dimension",
)


@pytest.mark.parametrize(("name", "fabric", "match"), FABRIC_ERRORS.values(), ids=FABRIC_ERRORS)
def test_errors_of_a_fabric(name: str, fabric: dict, match: str, tmp_path: Path) -> None:
    folder = write_system(tmp_path / "system", name, fabric)
    with pytest.raises(HespasError, match=match):
        configs.load_system(str(folder))


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("torus:4x4,links=2", "cannot be shared out over 2 dimensions"),
        ("ring:4x4,links=4", "a ring has one dimension"),
        ("fully-connected:4,links=4", "no multiple of 3 peers"),
        ("torus:4by4,links=4", "is no shape"),
        ("hyperx:4x4,links=4", "no kind of network; expanders and HyperX are missing"),
        ("torus:4x4,links=4,reduction=1", "only switch and rails has a reduction"),
        ("torus:4x4,width=4", "'width' is unknown"),
        ("torus:4x4", "'links' is missing"),
        ("fat-tree:8,links=1", "a fat-tree has 2 to 3 dimensions"),
        ("fat-tree:8x4,links=1,oversubscription=2x2x2", "3 numbers for 1 levels"),
        ("rails:8x4,links=1", "'nic_gb_s' is missing"),
        ("dragonfly:1x2x9,links=1", "2 or more devices"),
        ("dragonfly:2x2x9,links=1", "4 links to 8 other groups"),
        ("ring:8,links=2,down=x", "'x' is no device"),
        ("ring:8,links=2,down=0-3", "no neighbours"),
        ("ring:8,links=2,down=9", "no device 9 of 8"),
    ],
)
def test_errors_of_inline_names(name: str, match: str) -> None:
    with pytest.raises((UsageError, HespasError), match=match):
        load_network(name)
