"""The bytes of each link: closed forms of the algorithms, and conservation."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.tool_commands import parse_pipe, run_command

from hespas import configs
from hespas.configs.network_fabric import NetworkFabric, SlowLink
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.embedded.link_traffic import (
    LinkTraffic,
    collect_dimension_loads,
    collect_link_traffic,
    count_links,
)
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import CommRecord
from hespas.support.errors import HespasError
from hespas.workflows.link_report import build_link_table
from support import traces as t

SIZE = 1 << 20
STEP_NS = 1_000_000


def load_network(name: str, **changes) -> SystemSpec:
    system = configs.load_system(f"{name},link_gb_s=50,latency_ns=500,local_mem_gb_s=3350")
    return replace(system, **changes)


def make_record(kind: str, ranks, size: int = SIZE, copies: int = 1) -> CommRecord:
    return CommRecord("c", kind, size, 1, tuple(ranks), 0, 0, 100, copies)


def collect(system: SystemSpec, *records: CommRecord) -> list[LinkTraffic]:
    return collect_link_traffic(system, SimulationOptions(), records, STEP_NS)


def sum_sent_bytes(links: list[LinkTraffic]) -> Counter[str]:
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
    sent = sum_sent_bytes(collect(system, make_record(kind, range(n), size)))
    factor = 2 if kind == "all_reduce" else 1
    assert len(sent) == n
    assert sent == pytest.approx(dict.fromkeys(sent, factor * (n - 1) / n * SIZE), rel=1e-3)


def test_the_links_of_a_torus_carry_equal_bytes() -> None:
    system = load_network("torus:4x4,links=4")
    links = collect(system, make_record("all_reduce", range(16)))
    assert len(links) == count_links(system, 0) + count_links(system, 1) == 64
    assert len({link.carried_bytes for link in links}) == 1


def test_a_line_returns_through_its_idle_direction() -> None:
    links = collect(load_network("mesh:4,links=2"), make_record("all_gather", range(4)))
    carried = {(link.source, link.target): link.carried_bytes for link in links}
    assert carried == dict.fromkeys(
        [("0", "1"), ("1", "2"), ("2", "3"), ("3", "2"), ("2", "1"), ("1", "0")], 3 * SIZE
    )


def test_a_reducing_switch_halves_the_bytes_of_a_ring() -> None:
    ring, switch = (
        collect(load_network(f"switch:8,links=4{reduction}"), make_record("all_reduce", range(8)))
        for reduction in ("", ",reduction=1")
    )
    assert {link.carried_bytes for link in ring} == {SIZE * 2 * 7 // 8}
    assert {link.carried_bytes for link in switch} == {SIZE}
    assert len(ring) == len(switch) == 16


def test_direct_sends_to_every_peer() -> None:
    system = load_network("fully-connected:4,links=3")
    links = collect(system, make_record("all_to_all", range(4)))
    assert len(links) == count_links(system, 0) == 12
    assert {link.carried_bytes for link in links} == {SIZE // 4}


def test_a_message_crosses_both_dimensions() -> None:
    system = load_network("torus:3x3,links=4")
    links = collect(system, make_record("send", (0, 4)))
    assert [(link.dim, link.source, link.target) for link in links] == [
        (0, "0", "1"),
        (1, "1", "4"),
    ]


def test_utilisation_is_that_of_the_bandwidth_that_is_left() -> None:
    system = load_network(
        "ring:4,links=2", fabric=NetworkFabric(slow_links=(SlowLink(0, (1, 2), 0.5),))
    )
    (link,) = collect(system, make_record("send", (1, 2)))
    assert link.utilisation == pytest.approx(SIZE / (25 * STEP_NS), rel=1e-6)
    table = build_link_table(system, [link])
    assert table.rows[0][:3] == ("Ring 4", "1 of 8", "1.049 MB")


def test_loads_are_the_bytes_of_a_dimension_over_time() -> None:
    system = load_network("ring:4,links=2")
    record = replace(make_record("all_reduce", range(4)), ready_ns=50, finish_ns=150_050)
    (load,) = collect_dimension_loads(system, SimulationOptions(), [record])
    share = 100 * 6 * SIZE / (8 * 50 * 150_000)
    assert load.shares == [(50, pytest.approx(share, rel=1e-6)), (150_050, 0)]
    (twice,) = collect_dimension_loads(system, SimulationOptions(), [record, record])
    assert twice.shares[0][1] == pytest.approx(2 * share, rel=1e-6)


def test_what_has_no_model_is_an_error() -> None:
    down = NetworkFabric(slow_links=(SlowLink(0, (1, 2), 0),))
    with pytest.raises(HespasError, match="link that is down"):
        collect(load_network("ring:4,links=2", fabric=down))
    with pytest.raises(HespasError, match="no record of some devices"):
        collect(load_network("ring:4,links=2"), make_record("send", (1, 2), copies=2))


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
