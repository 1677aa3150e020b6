"""The bytes of each link: closed forms of the algorithms, and conservation."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.flow_cases import FlowProgram, list_strides, load_network
from support.tool_commands import parse_pipe, run_command

from hespas.configs.network_fabric import NetworkFabric, SlowLinkEntry
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_result import LinkTraffic, LinkUse
from hespas.workflows.simulation_report import build_link_table, find_overloaded_link
from support import traces as t

SIZE = 1 << 20


def collect(
    system: SystemSpec, kind: str, groups: Sequence[Sequence[int]], size: int = SIZE, **options
) -> LinkUse:
    """Return the use of the links by collectives between groups, or by messages for "send"."""
    program = FlowProgram(system.device_count)
    for tag, members in enumerate(groups):
        if kind == "send":
            program.add_message(members[0], members[1], size, tag)
        else:
            program.add_collective(kind, size, members)
    use = program.simulate(system, links=True, **options).link_use
    assert use is not None
    return use


def sum_sent_bytes(links: Sequence[LinkTraffic]) -> Counter[str]:
    sent: Counter[str] = Counter()
    for link in links:
        sent[link.source] += link.carried_bytes
    return sent


@pytest.mark.parametrize("name", ["ring:8,links=2", "torus:4x4,links=4", "torus:2x4,links=4"])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_every_device_of_a_torus_sends_what_a_collective_needs(name: str, kind: str) -> None:
    system = load_network(name)
    n = system.device_count
    size = SIZE // n if kind == "all_gather" else SIZE
    sent = sum_sent_bytes(collect(system, kind, [range(n)], size).links)
    factor = 2 if kind == "all_reduce" else 1
    assert len(sent) == n
    assert sent == pytest.approx(dict.fromkeys(sent, factor * (n - 1) / n * SIZE), rel=1e-3)


@pytest.mark.parametrize("symmetry", [True, False])
def test_the_links_of_a_torus_carry_equal_bytes(symmetry: bool) -> None:
    use = collect(
        load_network("torus:4x4,links=4"), "all_reduce", [range(16)], 1 << 28, symmetry=symmetry
    )
    assert len(use.links) == sum(use.counts) == 64
    carried = [link.carried_bytes for link in use.links]
    assert max(carried) <= 1.01 * min(carried)
    assert 0.9 < max(link.utilisation for link in use.links) <= 1


def test_a_line_returns_through_its_idle_direction() -> None:
    use = collect(load_network("mesh:4,links=2"), "all_gather", [range(4)], 1 << 26)
    carried = {(link.source, link.target): link.carried_bytes for link in use.links}
    assert carried == dict.fromkeys(
        [("0", "1"), ("1", "2"), ("2", "3"), ("3", "2"), ("2", "1"), ("1", "0")], 3 << 26
    )


def test_a_reducing_switch_halves_the_bytes_of_a_ring() -> None:
    ring, switch = (
        collect(load_network(f"switch:8,links=4{reduction}"), "all_reduce", [range(8)]).links
        for reduction in ("", ",reduction=1")
    )
    assert {link.carried_bytes for link in ring} == {SIZE * 2 * 7 // 8}
    assert {link.carried_bytes for link in switch} == {SIZE}
    assert len(ring) == len(switch) == 16


def test_direct_sends_to_every_peer() -> None:
    use = collect(load_network("fully-connected:4,links=3"), "all_to_all", [range(4)])
    assert len(use.links) == use.counts[0] == 12
    assert {link.carried_bytes for link in use.links} == {SIZE // 4}


def test_a_message_crosses_both_dimensions() -> None:
    use = collect(load_network("torus:3x3,links=4"), "send", [(0, 4)])
    assert [(link.dim, link.source, link.target) for link in use.links] == [
        (0, "0", "1"),
        (1, "1", "4"),
    ]


def test_the_links_of_trees_have_the_names_of_their_switches() -> None:
    use = collect(load_network("fat-tree:2x2,links=1"), "send", [(1, 2)])
    assert [(link.dim, link.source, link.target) for link in use.links] == [
        (0, "1", "switch of 0"),
        (0, "switch of 2", "2"),
        (1, "switch of 0", "switch of 0, level 2"),
        (1, "switch of 0, level 2", "switch of 2"),
    ]


def test_utilisation_is_that_of_the_bandwidth_that_is_left() -> None:
    ring = load_network("ring:4,links=2")
    link = SlowLinkEntry(dimension=0, devices=[1, 2], bandwidth_share=0.5)
    system = replace(ring, fabric=NetworkFabric(slow_links=[link]))
    use = collect(system, "send", [(1, 2)], 1 << 26)
    assert use.links[0].utilisation == pytest.approx(1, rel=1e-3)
    table = build_link_table(system, use)
    assert table.rows[0][:3] == ("Ring 4", "1 of 8", "67.109 MB")


def test_loads_are_the_bytes_of_a_dimension_over_time() -> None:
    (load,) = collect(load_network("ring:4,links=2"), "all_reduce", [range(4)], 1 << 28).loads
    assert load.shares[0] == (0, pytest.approx(100, rel=0.01)) and load.shares[-1][1] == 0


def test_shared_links_are_full_and_those_of_astra_sim_more_than_full() -> None:
    """Four groups of 16 share a ring, of which ASTRA-sim's rules give all to each."""
    system = load_network("ring:64,links=12")
    groups = list_strides(64, 16)
    shared = collect(system, "all_reduce", groups, 1 << 30)
    assert 0.99 < max(link.utilisation for link in shared.links) <= 1
    assert find_overloaded_link(shared) is None
    astra = collect(system, "all_reduce", groups, 1 << 30, network_model="astra")
    overloaded = find_overloaded_link(astra)
    assert overloaded is not None and overloaded.utilisation > 3


def test_the_command_writes_every_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    t.save(Path("traces"), [[t.coll(1)]] * 4)
    t.system(Path("system"), (4,))
    for file in ("links.csv", "links.svg"):
        commands = parse_pipe(
            f"hespas simulate traces --system system --links {file} --timeline step.pftrace"
        )
        assert commands is not None
        done = run_command(commands[0])
        assert done.code == 0 and "Links, each direction" in done.out, done.err
    assert b"links of dimension 0, Ring" in Path("step.pftrace").read_bytes()
    with open("links.csv", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["bytes"] for row in rows] == [str(6 * (1 << 20) // 4)] * 4
    assert Path("links.svg").exists()


def test_a_link_that_would_be_more_than_full_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ASTRA-sim's rules share no links, and eight H100 send less than a ring of messages."""
    monkeypatch.chdir(tmp_path)
    groups = {1: [0, 2], 2: [1, 3]}
    nodes = [[t.coll(1, size=1 << 26, group=1 + rank % 2)] for rank in range(4)]
    t.save(Path("ring"), nodes, groups)
    t.system(Path("ring/system"), (4,))
    t.save(Path("host"), [[t.coll(1, size=1 << 29, group=0)]] * 8)
    t.system(Path("host/system"), (8,), topology="Switch", bandwidth=380)
    by_flows, by_model = "--network-model flows", "--curves none --between-hosts network"
    for folder, flags, remedy in (
        ("ring", "", by_flows),
        ("ring", by_flows, ""),
        ("host", f"{by_flows} --curves H100_SXM", by_model),
        ("host", f"{by_flows} {by_model}", ""),
    ):
        commands = parse_pipe(
            f"hespas simulate {folder} --system {folder}/system --links links.csv {flags}"
        )
        assert commands is not None
        done = run_command(commands[0])
        assert done.code == 0 and ("% of the link from" in done.err) == bool(remedy)
        assert f"share no links; {remedy} does" in done.err or not remedy
