"""Networks that do more than ASTRA-sim models: closed forms, and the messages one by one."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from support.sim_finishes import compute_finishes

from hespas import configs
from hespas.configs.nccl_constants import read_nccl_constants
from hespas.configs.network_fabric import NetworkFabric, SlowLink, SwitchReduction
from hespas.configs.system_spec import SystemSpec
from hespas.simulators import simulator_choice
from hespas.simulators.embedded import run_event_simulation
from hespas.simulators.embedded.network import AnalyticalNetwork
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
from hespas.support.errors import HespasError, UsageError
from support import traces as t

BY_DIMENSION = SimulationOptions(by_dimension=True)
LINK_NS, LINK_GB_S, MEMORY_GB_S, DELAY_NS = 500, 50.0, 3350.0, 10
SIZE = 1 << 26
KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")


def load_network(name: str, **fabric) -> SystemSpec:
    """Return the network of an inline name without its rates, with a changed fabric."""
    rates = f"link_gb_s={LINK_GB_S},latency_ns={LINK_NS},local_mem_gb_s={MEMORY_GB_S}"
    system = configs.load_system(f"{name},{rates}")
    return replace(system, fabric=replace(system.fabric, **fabric))


def finish_ns(system: SystemSpec, kind: str = "all_reduce", size: int = SIZE) -> int:
    """Return when the last device of a collective between all devices finishes."""
    devices = range(system.device_count)
    ends = compute_finishes(system, kind, size, devices, BY_DIMENSION)
    return max(end.end_ns for end in ends)


def message_ns(system: SystemSpec, size: int, hops: int = 1, share: float = 1.0) -> int:
    """Return the time of a message in the first dimension."""
    rate = system.bandwidth_gib_s[0] * 2**30 / 1e9 * share
    return int(hops * LINK_NS + size / rate)


def reduction_ns(size: int) -> int:
    return 3 * int(size / (MEMORY_GB_S * 1e9) * 1e9)


def test_both_directions_of_a_ring_carry_half_of_the_data() -> None:
    system, n = load_network("ring:8,links=2"), 8
    part = SIZE // 2 // n
    steps_ns = 2 * (n - 1) * (message_ns(system, part) + DELAY_NS)
    assert finish_ns(system) == DELAY_NS + steps_ns + (n - 1) * reduction_ns(part)
    one_way = replace(system, fabric=NetworkFabric())
    assert finish_ns(one_way) / finish_ns(system) == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize(("name", "links"), [("torus:4x4", 4), ("torus:4x4x4", 6)])
def test_as_many_times_the_links_of_a_ring_are_as_many_times_as_fast(name: str, links: int) -> None:
    torus = load_network(f"{name},links={links}")
    ring = load_network(f"ring:{torus.device_count},links=2")
    ratio = finish_ns(ring, size=1 << 30) / finish_ns(torus, size=1 << 30)
    assert ratio == pytest.approx(links / 2, rel=0.02)


def test_a_mesh_has_half_of_the_bandwidth_of_a_torus() -> None:
    """The corners of a mesh have half of the links."""
    mesh, torus = (load_network(f"{kind}:4x4,links=4") for kind in ("mesh", "torus"))
    assert finish_ns(mesh, size=1 << 30) / finish_ns(torus, size=1 << 30) == pytest.approx(
        2, rel=0.01
    )


def test_a_gather_on_a_line_waits_for_the_message_back_to_its_start() -> None:
    system, n = load_network("mesh:6,links=2"), 6
    inner = message_ns(system, SIZE) + DELAY_NS
    back = message_ns(system, SIZE, hops=n - 1) + DELAY_NS
    assert finish_ns(system, "all_gather") == DELAY_NS + (n - 2) * inner + back


def test_a_ring_with_a_link_down_is_a_line() -> None:
    line = load_network("mesh:6,links=2")
    ring = replace(
        line, topology=("Ring",), fabric=NetworkFabric(slow_links=(SlowLink(0, (0, 5), 0),))
    )
    for kind in ("all_reduce", "reduce_scatter", "all_gather"):
        assert finish_ns(ring, kind) == finish_ns(line, kind)
    # On a line, each block of an all-to-all goes straight to its target.
    assert finish_ns(ring, "all_to_all") > finish_ns(line, "all_to_all")


def test_a_detour_has_the_bandwidth_of_its_slowest_link() -> None:
    ring = load_network("ring:6,links=2", directions_at_once=False)
    links = (SlowLink(0, (0, 5), 0), SlowLink(0, (2, 3), 0.5))
    detour = AnalyticalNetwork.from_system(replace(ring, fabric=NetworkFabric(slow_links=links)))
    assert detour.compute_transfer_ns(5, 0, SIZE) == message_ns(ring, SIZE, hops=5, share=0.5)
    cut = NetworkFabric(slow_links=(SlowLink(0, (0, 5), 0), SlowLink(0, (2, 3), 0)))
    with pytest.raises(HespasError, match="no way from device 5 to device 0"):
        AnalyticalNetwork.from_system(replace(ring, fabric=cut)).find_route(5, 0)


def test_a_slow_link_slows_the_whole_ring() -> None:
    ring = load_network("ring:8,links=2", directions_at_once=False)
    slow = replace(ring, fabric=NetworkFabric(slow_links=(SlowLink(0, (3, 4), 0.25),)))
    assert finish_ns(slow) / finish_ns(ring) == pytest.approx(4, rel=0.05)
    beside = compute_finishes(slow, "all_reduce", SIZE, [0, 1, 2], BY_DIMENSION)
    assert beside == compute_finishes(ring, "all_reduce", SIZE, [0, 1, 2], BY_DIMENSION)


@pytest.mark.parametrize("kind", KINDS[:3])
def test_data_crosses_a_reducing_switch_once(kind: str) -> None:
    share, n = 0.8, 8
    system = load_network(f"switch:{n},links=18,reduction={share}")
    moved = {"all_reduce": SIZE, "reduce_scatter": SIZE - SIZE // n, "all_gather": (n - 1) * SIZE}
    expected = 2 * DELAY_NS + message_ns(system, moved[kind], hops=2, share=share)
    assert finish_ns(system, kind) == expected


def test_the_switches_of_two_dimensions_reduce_one_after_another() -> None:
    system = load_network("switch:8x4,links=4,reduction=1")
    inside = [2 * DELAY_NS + message_ns(system, SIZE // 8 * 7, hops=2)] * 2
    between = 2 * DELAY_NS + message_ns(system, SIZE // 8, hops=2)
    assert finish_ns(system) == sum(inside) + between


def test_a_switch_does_only_what_it_supports() -> None:
    ring = load_network("switch:8,links=18")
    system = replace(
        ring, fabric=NetworkFabric(switch_reductions={0: SwitchReduction(1.0, ("all_reduce",))})
    )
    assert finish_ns(system) < finish_ns(ring)
    for kind in KINDS[1:]:
        assert finish_ns(system, kind) == finish_ns(ring, kind)


SKEWED = {
    "ring": load_network("ring:5,links=2"),
    "torus": load_network("torus:3x4,links=4"),
    "mesh": load_network("mesh:2x3,links=4"),
    "line": load_network("mesh:6,links=2"),
    "switches": load_network("switch:4x2,links=4,reduction=0.5"),
    "slow ring": load_network("ring:6,links=2", slow_links=(SlowLink(0, (5, 0), 0.5),)),
    "slow switch": load_network("switch:6,links=2", slow_links=(SlowLink(0, (2, 2), 0.5),)),
    "slow torus": load_network("torus:3x2,links=4", slow_links=(SlowLink(0, (4, 5), 0),)),
}


@pytest.mark.parametrize("name", SKEWED)
@pytest.mark.parametrize("kind", KINDS)
def test_collectives_equal_the_simulation_message_by_message(name: str, kind: str) -> None:
    system, rng = SKEWED[name], random.Random(1)
    devices = range(system.device_count)
    for starts in ([0] * len(devices), [rng.randrange(90_000) for _ in devices]):
        whole, messages = (
            compute_finishes(
                system, kind, 1 << 20, devices, BY_DIMENSION, starts=starts, by_message=by_message
            )
            for by_message in (False, True)
        )
        assert [end.end_ns for end in whole] == [end.end_ns for end in messages]


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


def test_astra_sim_has_no_such_networks(tmp_path: Path) -> None:
    t.save(tmp_path / "traces", [[t.coll(1)]] * 4)
    program = tmp_path / "AstraSim_Analytical_Congestion_Unaware"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    system = load_network("mesh:4,links=2")
    with pytest.raises(HespasError, match="no model of the network"):
        simulator_choice.simulate_folder(
            tmp_path / "traces", system, SimulatorChoice("astra-sim", astra_sim=program)
        )
    notes: list[str] = []
    simulator_choice.simulate_folder(
        tmp_path / "traces", system, SimulatorChoice(astra_sim=program), note=notes.append
    )
    assert any("simulator: embedded" in text for text in notes)


FABRIC_ERRORS = {
    "mesh": ("mesh:4,links=2", {"directions_at_once": True}, "already uses both"),
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
}
LINK_ERRORS = {
    "far": ("ring:4,links=2", [0, 2], 0, "no neighbours"),
    "cut": ("switch:4,links=2", [1], 0, "cannot be down"),
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
        ("torus:4x4,links=4,reduction=1", "only a switch"),
        ("torus:4x4,width=4", "'width' is unknown"),
        ("torus:4x4", "'links' is missing"),
    ],
)
def test_errors_of_inline_names(name: str, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        load_network(name)
