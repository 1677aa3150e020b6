"""The flow-level model: messages and collectives that share links."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from support.budgets import count_cases, draw_examples
from support.flow_cases import (
    LATENCY_NS,
    FlowProgram,
    list_blocks,
    list_strides,
    load_network,
    time_collectives,
)

from hespas import configs
from hespas.configs.collective_algorithms import ALGORITHM_LIMITS
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.embedded.algorithms import ALGORITHMS, CollectiveAlgorithm
from hespas.simulators.embedded.algorithms.message_rounds import MessageRound
from hespas.simulators.embedded.algorithms.ring import RingAlgorithm
from hespas.simulators.embedded.flows.group_sets import GroupSet
from hespas.simulators.embedded.flows.link_graph import LinkGraph
from hespas.simulators.simulator_choice import list_warnings
from hespas.support.errors import HespasError

GIB = 1 << 30
LINK = 50.0  # bytes per nanosecond


# One collective at a time: bounds that can be checked by hand


@pytest.mark.parametrize(
    ("name", "groups", "expected_ms"),
    [
        # 2 S (n - 1) / n over the links of a group: a part of a ring passes its links back too.
        ("ring:64", list_blocks(64, 4), 5.369),
        ("ring:64", list_strides(64, 16), 13.422),
        ("torus:4x16", list_blocks(64, 4), 5.369),
        ("torus:4x16", list_strides(64, 16), 6.711),
        ("torus:8x8", list_blocks(64, 4), 10.737),
        ("torus:4x4x4", list_blocks(64, 4), 8.053),
        ("torus:4x4x4", list_strides(64, 16), 5.033),
        ("switch:64", list_blocks(64, 4), 2.684),
        ("switch:64", list_strides(64, 16), 3.355),
        ("switch:8x8", [range(64)], 3.523),
        ("torus:8x8", [range(64)], 3.523),
        ("torus:4x4x4", [range(64)], 3.523),
    ],
)
def test_groups_that_share_links_pay_for_it(name: str, groups: list, expected_ms: float) -> None:
    time_ns = time_collectives(f"{name},links=12", "all_reduce", GIB, groups)
    assert time_ns / 1e6 == pytest.approx(expected_ms, rel=0.006)


def test_orders_of_dimensions_follow_the_loads_of_links() -> None:
    """Four groups of 2 x 8 share the rings of dimension 0, which is best taken last."""
    time_ns = time_collectives("torus:8x8,links=12", "all_reduce", GIB, list_strides(64, 16))
    assert time_ns / 1e6 < 6.711  # a ring of 16 along dimension 1


@pytest.mark.parametrize(
    ("name", "whole_ms", "share"),
    [
        # A device less leaves seven of eight rails: 2 S (n - 1) / n / 7 over a NIC.
        ("rails:8x4,links=12,nic_gb_s=50", 4.289, 1.4),
        ("torus:8x8,links=12", 3.523, 1.3),
        ("torus:4x4x4,links=12", 3.523, 1.8),
        ("switch:8x4,links=12", 3.469, 1.5),
    ],
)
@pytest.mark.parametrize("missing", [0, 13, 31])
def test_a_device_less_leaves_the_links_of_the_others(
    name: str, whole_ms: float, share: float, missing: int
) -> None:
    """A group that is no grid is divided into rings, each of which takes other links."""
    devices = range(load_network(name).device_count)
    groups = [[device for device in devices if device != missing]]
    assert time_collectives(name, "all_reduce", GIB, [devices]) / 1e6 == pytest.approx(
        whole_ms, rel=0.02
    )
    assert time_collectives(name, "all_reduce", GIB, groups) / 1e6 < share * whole_ms


@given(st.integers(0, 2**32), st.sampled_from([(8,), (4, 3), (3, 2, 4)]))
def test_each_channel_is_a_ring_through_the_group(seed: int, counts: tuple[int, ...]) -> None:
    rng = random.Random(seed)
    size = rng.randint(2, math.prod(counts))
    members = [rng.sample(range(math.prod(counts)), size) for _ in range(2)]
    groups = GroupSet.from_members(members, counts)
    for channels in groups.list_channels():
        rings = groups.list_lines(channels).reshape(2, len(channels.dims), size)
        assert (np.sort(rings, axis=2) == groups.places[:, None]).all()


@pytest.mark.parametrize(
    ("name", "expected_ms"),
    [
        # S A / 8 over the links of one direction, for the longest side A of a ring or torus;
        # S A / 4 for that of a mesh; S (n - 1) / n over a port.
        ("ring:64", 28.633), ("torus:8x8", 7.158), ("torus:4x4x4", 5.369), ("mesh:8x8", 14.317),
        ("switch:64", 1.762),
    ],
)  # fmt: skip
def test_an_all_to_all_is_bound_by_the_bisection(name: str, expected_ms: float) -> None:
    time_ns = time_collectives(f"{name},links=12", "all_to_all", GIB, [range(64)])
    assert time_ns / 1e6 == pytest.approx(expected_ms, rel=0.001)


def test_a_ring_in_both_directions_has_a_closed_form() -> None:
    n, size = 8, 1 << 26
    step_ns = LATENCY_NS + size / (2 * n) / LINK + 10
    reduced_ns = 3 * size * (n - 1) / n / 1e6  # two reads and a write at 1e6 GB/s
    expected_ns = 10 + 2 * (n - 1) * step_ns + reduced_ns
    time_ns = time_collectives("ring:8,links=2", "all_reduce", size, [range(n)])
    assert time_ns == pytest.approx(expected_ns, abs=3)


@pytest.mark.parametrize("size", [1 << 10, 1 << 20, 1 << 30])
@pytest.mark.parametrize("n", [64, 60])
def test_the_best_of_ring_tree_and_halving_doubling_is_taken(n: int, size: int) -> None:
    hop_ns = 2 * LATENCY_NS + 10
    ring_ns = 2 * (n - 1) * (hop_ns + size / n / LINK)
    halving_ns = 2 * math.log2(64) * hop_ns + 2 * size * 63 / 64 / LINK
    tree_ns = min(
        12 * hop_ns + 10 * (pieces - 1) + 2 * size / LINK * (1 + 11 / pieces)
        for pieces in (1, 2, 4, 8, 16)
    )
    best_ns = min(ring_ns, halving_ns if n == 64 else math.inf, tree_ns)
    time_ns = time_collectives(f"switch:{n},links=1", "all_reduce", size, [range(n)])
    assert time_ns == pytest.approx(best_ns, rel=0.01)


def test_many_devices_behind_a_switch_need_no_ring() -> None:
    """A ring of 65,536 needs 131,070 hops through the switch; halving and doubling needs 32."""
    devices = range(65_536)
    switch = time_collectives("switch:65536,links=12", "all_reduce", 1 << 24, [devices])
    assert switch < 2 * (1 << 24) / 600 + 33 * (2 * LATENCY_NS + 10)


@pytest.mark.parametrize(
    ("kind", "name", "ports"),
    [
        # What the root sends or receives, over the operand of a device.
        ("broadcast", "switch:8", 1), ("reduce", "switch:8", 1), ("gather", "switch:8", 7),
        ("scatter", "switch:8", 7 / 8), ("broadcast", "ring:8", 0.5), ("reduce", "ring:8", 0.5),
    ],
)  # fmt: skip
def test_every_kind_of_a_trace_takes_its_time(kind: str, name: str, ports: float) -> None:
    """A chain in 16 pieces takes up to 22 / 16 of the time of its first link, or two of them."""
    size, rate = 1 << 28, 2 * LINK if name.startswith("switch") else LINK
    time_ns = time_collectives(f"{name},links=2", kind, size, [range(8)])
    assert 0.999 <= time_ns / (ports * size / rate) <= 23 / 16


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter"])
def test_a_collective_without_bytes_takes_latencies(kind: str) -> None:
    for name in ("torus:4x4,links=4", "mesh:2x3x2,links=6", "switch:4x4,links=2"):
        everyone = [range(load_network(name).device_count)]
        nothing, byte = (time_collectives(name, kind, size, everyone) for size in (0, 1))
        assert 0 < nothing <= byte <= nothing + 2


def test_a_barrier_takes_latencies() -> None:
    time_ns = time_collectives("switch:8,links=1", "barrier", 0, [range(8)])
    assert 2 * LATENCY_NS < time_ns <= 7 * (2 * LATENCY_NS + 10)


def test_broadcasts_without_a_size_are_counted() -> None:
    system = load_network("switch:4,links=1")
    for size, model, count in ((0, "flows", 1), (1 << 20, "flows", 0), (1 << 20, "astra", 1)):
        program = FlowProgram(4)
        program.add_collective("broadcast", size, range(4))
        result = program.simulate(system, network_model=model)
        assert result.settings.replayed_broadcasts == count
        assert any("BROADCASTs take" in text for text in list_warnings(result)) == bool(count)
        assert ("broadcasts" in result.settings.to_texts()) == bool(count)
        if not count:
            assert result.step_time_ns > size / LINK


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_sends_and_reduces_what_its_collectives_need(name: str) -> None:
    """Each block reaches each device that lacks it: no algorithm of the fastest is too fast.

    An operand is the block of a device in an all-gather and a gather, else the whole input. Those
    of long messages send no byte twice. All contributions but one are added.
    """
    algorithm, checked = ALGORITHMS[name], 0
    sends_least = name in ("ring", "direct", "halvingDoubling", "doubleBinaryTree")
    for kind, count in itertools.product(ALGORITHM_LIMITS[name].kinds, (2, 3, 4, 5, 8)):
        is_ring_exchange = (name, kind) == ("ring", "all_to_all")  # of ASTRA-sim's rules only
        if kind == "barrier" or is_ring_exchange or algorithm.find_problem(kind, count):
            continue
        copies = count - 1
        needed = {
            "all_reduce": 2 * copies, "all_gather": count * copies, "scatter": copies / count,
        }  # fmt: skip
        added = {"all_reduce": copies / count, "reduce_scatter": copies / count, "reduce": 1}
        for both_ways in (False, True):
            rounds = algorithm.list_rounds(kind, count, both_ways)
            reduced = sum(one.reduced_share for one in rounds)
            assert bool(reduced) == (kind in added), (kind, count)
            assert reduced >= added.get(kind, 0) - 1e-9, (kind, count)
            sent = sum(
                (count * copies if one.sources is None else len(one.sources))
                * one.share
                * one.repeats
                for one in rounds
            )
            least = pytest.approx(needed.get(kind, copies))
            assert sent == least or (sent > least.expected and not sends_least), (kind, count)
            for reached in spread_contributions(rounds, count):
                part = {"broadcast": reached[:, 0], "scatter": reached[:, 0]}
                part |= {"reduce": reached[0], "gather": reached[0]}
                assert part.get(kind, reached).all(), (kind, count)
            checked += 1
    assert checked


def spread_contributions(rounds: Sequence[MessageRound], count: int) -> Iterator[np.ndarray]:
    """Yield whose contributions each position has in the end, for each stream and each tree."""
    for stream, tree in itertools.product(range(2), range(2)):
        reached = np.eye(count, dtype=bool)
        for one in rounds:
            if one.sources is None or one.targets is None:  # each sends to all others
                reached[:] = True
                continue
            streams, trees, levels = (
                np.asarray(each) if len(each) else np.zeros_like(one.sources)
                for each in (one.streams, one.trees, one.levels)
            )
            chosen = (streams == min(stream, streams.max())) & (trees == min(tree, trees.max()))
            for level in [*np.unique(levels)] * one.repeats:
                sent = np.flatnonzero(chosen & (levels == level))
                before = reached.copy()
                np.logical_or.at(reached, one.targets[sent], before[one.sources[sent]])
        yield reached


def test_an_algorithm_that_astra_sim_lacks_is_an_error_with_its_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only its rounds are written: the rest of ASTRA-sim's form is there, or none of it."""

    class InRounds(CollectiveAlgorithm):
        name: ClassVar[str] = "inRounds"

        def list_rounds(self, kind: str, count: int, both_ways: bool) -> Sequence[MessageRound]:
            return ALGORITHMS["ring"].list_rounds(kind, count, both_ways)

    monkeypatch.setitem(ALGORITHM_LIMITS, "inRounds", ALGORITHM_LIMITS["ring"])
    monkeypatch.setitem(ALGORITHMS, "inRounds", InRounds())
    ring = replace(load_network("ring:9,links=2"), implementations={"all-reduce": ("inRounds",)})
    assert time_collectives(ring, "all_reduce", GIB, [range(9)]) > 0
    with pytest.raises(HespasError, match="implementation: ASTRA-sim has no inRounds, which needs"):
        time_collectives(ring, "all_reduce", GIB, [range(9)], network_model="astra")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_form_of_astra_sim_is_whole_or_absent(name: str) -> None:
    form = (CollectiveAlgorithm.start_phase, CollectiveAlgorithm.list_messages)
    own = {getattr(type(ALGORITHMS[name]), one.__name__) is not one for one in form}
    assert len(own) == 1


def test_an_algorithm_is_known_where_it_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its limits and its object are all that the models and the choice by size need."""

    class Bidirectional(RingAlgorithm):
        name: ClassVar[str] = "bidirectional"

        def list_rounds(self, kind: str, count: int, both_ways: bool) -> Sequence[MessageRound]:
            rounds = super().list_rounds(kind, count, both_ways)
            return [replace(one, repeats=one.repeats // 2) for one in rounds]  # too fast

    ring = load_network("ring:9,links=2")
    own = replace(ring, implementations={"all-reduce": ("bidirectional",)})
    group = [range(9)]
    before = time_collectives(ring, "all_reduce", GIB, group)
    monkeypatch.setitem(ALGORITHM_LIMITS, "bidirectional", ALGORITHM_LIMITS["ring"])
    monkeypatch.setitem(ALGORITHMS, "bidirectional", Bidirectional())
    assert time_collectives(ring, "all_reduce", GIB, group) == pytest.approx(before / 2, rel=0.01)
    assert time_collectives(own, "all_reduce", GIB, group) == pytest.approx(before / 2, rel=0.01)
    by_rules = [
        time_collectives(system, "all_reduce", GIB, group, network_model="astra")
        for system in (ring, own)
    ]
    assert by_rules[0] == by_rules[1]


def test_what_astra_sim_cannot_run_is_an_error_with_its_rules() -> None:
    with pytest.raises(HespasError, match="comm_type GATHER is not simulated by ASTRA-sim"):
        time_collectives("switch:8,links=1", "gather", 1024, [range(8)], network_model="astra")


# Messages


@dataclass(frozen=True)
class MessageCase:
    """Messages of 1 GiB at once: the network, their ends, and the time over that of one alone."""

    name: str
    ends: list[tuple[int, int]]
    factor: float


MESSAGE_CASES = [
    MessageCase("switch:4,links=1", [(0, 2)], 1),
    MessageCase("switch:4,links=1", [(0, 2), (1, 2)], 2),
    MessageCase("switch:4,links=1", [(0, 1), (0, 2)], 2),
    MessageCase("switch:4,links=1", [(0, 1), (2, 3)], 1),
    MessageCase("switch:4,links=1", [(0, 1), (1, 0)], 1),
    MessageCase("switch:8,links=1", [(source, 0) for source in range(1, 8)], 7),
    MessageCase("ring:8,links=2", [(0, 2), (1, 2)], 2),
    MessageCase("ring:8,links=2", [(0, 4)], 1),
    MessageCase("ring:8,links=2", [(0, 4), (1, 3)], 2),
    MessageCase("mesh:4x4,links=4", [(0, 3), (1, 3)], 2),
    MessageCase("torus:4x4,links=4", [(0, 1), (4, 5)], 1),
    MessageCase("torus:4x4,links=4", [(0, 5)], 1),
    MessageCase("switch:4x4,links=2", [(i, 4 + i) for i in range(4)], 1),
    MessageCase("fully-connected:4,links=3", [(0, 2), (1, 2)], 1),
]


@pytest.mark.parametrize("case", MESSAGE_CASES, ids=lambda c: f"{c.name} {len(c.ends)}")
@pytest.mark.parametrize("symmetry", [True, False])
def test_messages_share_links(case: MessageCase, symmetry: bool) -> None:
    system = load_network(case.name)
    program = FlowProgram(system.device_count)
    for tag, (source, target) in enumerate(case.ends):
        program.add_message(source, target, GIB, tag)
    time_ns = program.simulate(system, symmetry=symmetry).step_time_ns
    assert time_ns == pytest.approx(case.factor * GIB / LINK, rel=1e-3)


def test_a_flow_that_ends_leaves_its_share_to_the_others() -> None:
    """Three messages of 1, 2 and 3 MB into one port end when 3, 5 and 6 MB have passed it."""
    system = load_network("switch:4,links=1")
    program = FlowProgram(4)
    for source in (1, 2, 3):
        program.add_message(source, 0, source * 1_000_000, source)
    ends_ns = [record.finish_ns for record in program.simulate(system).comms]
    assert sorted(ends_ns) == pytest.approx([61_000, 101_000, 121_000], abs=2)


def test_what_is_not_used_by_the_slowest_goes_to_the_others() -> None:
    """Two messages leave device 0; one of them meets three others at its target."""
    system = load_network("switch:6,links=1")
    program = FlowProgram(6)
    program.add_message(0, 1, 10**9, 1)
    program.add_message(5, 2, 10**9, 2)
    for tag, source in enumerate((2, 3, 4), 3):
        program.add_message(source, 1, 10**9, tag)
    program.add_message(0, 5, 10**9, 9)
    ends = {r.name: r.finish_ns for r in program.simulate(system).comms}
    # A device has one SEND at a time, so that the second one of device 0 starts after the first.
    assert ends["message 1"] == pytest.approx(4 * 10**9 / LINK, rel=1e-3)
    assert ends["message 2"] == pytest.approx(10**9 / LINK, rel=1e-3)
    assert ends["message 9"] == pytest.approx(5 * 10**9 / LINK, rel=1e-3)


def test_messages_along_a_pipeline_follow_each_other() -> None:
    """Four pieces pass three stages, each of which computes as long as a message takes."""
    system = load_network("ring:4,links=2")
    program, size = FlowProgram(4), 5_000_000  # 100 us on a link
    for piece in range(4):
        for stage in range(3):
            program.add_compute(stage, 100)
            program.add_message(stage, stage + 1, size, 10 * piece + stage, chained=True)
        program.add_compute(3, 100)
    time_us = program.simulate(system).step_time_ns / 1e3
    # Seven tasks and messages follow each other for the first piece; each further piece comes one
    # task and one message later.
    assert time_us == pytest.approx(100 * (7 + 2 * 3), rel=0.005)


def test_collectives_that_start_at_different_times_share_links_while_both_run() -> None:
    system = load_network("ring:16,links=2")
    alone = time_collectives(system, "all_reduce", 1 << 28, [range(0, 16, 2)])
    program = FlowProgram(16)
    for device in range(1, 16, 2):
        program.add_compute(device, alone // 2000)  # half of the time of the other group
    for members in (range(0, 16, 2), range(1, 16, 2)):
        program.add_collective("all_reduce", 1 << 28, members)
    records = program.simulate(system).comms
    first, second = sorted(record.finish_ns for record in records)
    # Half of the first one passes alone; then both share the links, until the first one ends.
    assert first == pytest.approx(1.5 * alone, rel=0.01)
    assert second == pytest.approx(2 * alone, rel=0.01)


# Classes of devices


def simulate_both(program: FlowProgram, system: SystemSpec) -> tuple[list, list]:
    results = []
    for symmetry in (True, False):
        try:
            results.append(list(program.simulate(system, symmetry=symmetry).devices))
        except HespasError as error:
            results.append([error.message])
    return results[0], results[1]


NETWORKS = [
    "ring:12,links=2", "torus:4x3,links=4", "torus:2x3x2,links=6", "mesh:4x3,links=4",
    "switch:12,links=1", "switch:4x3,links=2", "fully-connected:12,links=11",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(count_cases(60)))
def test_a_class_of_devices_is_each_of_its_devices(seed: int) -> None:
    """Random programs of groups, messages and compute, in which some devices are alike."""
    rng = random.Random(seed)
    system = load_network(rng.choice(NETWORKS))
    program = FlowProgram(12)
    for step in range(rng.randint(1, 5)):
        kind, size = rng.choice(["all_reduce", "all_gather", "all_to_all"]), 1 << rng.randint(8, 26)
        make = rng.choice([list_blocks, list_strides])
        match rng.randrange(4):
            case 0:
                for members in make(12, rng.choice([2, 3, 4, 6, 12])):
                    program.add_collective(kind, size, members)
            case 1:
                offset = rng.randint(1, 11)
                for device in range(12):
                    program.add_message(device, (device + offset) % 12, size, step, chained=True)
            case 2:
                slow = rng.choice([{}, {0}, {0, 6}])
                for device in range(12):
                    program.add_compute(device, 5 + 20 * (device in slow))
            case 3:
                members = sorted(rng.sample(range(12), rng.randint(2, 12)))
                program.add_collective(kind, size, members)
    merged, single = simulate_both(program, system)
    assert merged == single


def test_groups_at_the_end_of_a_slow_link_are_divided() -> None:
    system = load_network("ring:12,links=2")
    link = {"dimension": 0, "devices": [0, 1], "bandwidth_share": 0.25}
    slow = configs.network_fabric.NetworkFabric.model_validate({"slow_links": [link]})
    system = replace(system, fabric=slow)
    program = FlowProgram(12)
    for members in list_blocks(12, 3):
        program.add_collective("all_reduce", 1 << 26, members)
    result = program.simulate(system)
    assert sorted(record.copies for record in result.comms) == [1, 3]
    merged, single = simulate_both(program, system)
    assert merged == single and len({device.finish_ns for device in merged}) == 2


# Bounds of random systems


@dataclass(frozen=True)
class RandomCase:
    name: str
    kind: str
    size: int
    groups: list[list[int]]
    starts_us: list[int]


@st.composite
def random_cases(draw: st.DrawFn) -> RandomCase:
    shape = draw(
        st.sampled_from(["ring:8", "ring:9", "ring:16", "torus:4x4", "torus:3x5", "torus:2x2x4",
                         "mesh:4x4", "mesh:9", "switch:16", "switch:4x4", "switch:3x4",
                         "fully-connected:8", "fat-tree:4x4", "fat-tree:2x2x3", "rails:4x3",
                         "dragonfly:2x2x3", "dragonfly:2x3x2"])
    )  # fmt: skip
    kind_of_network, _, sides = shape.partition(":")
    counts = [int(side) for side in sides.split("x")]
    n = math.prod(counts)
    links = {"ring": 2, "torus": 2 * len(counts), "mesh": 2 * len(counts), "switch": len(counts),
             "fully-connected": n - 1}.get(kind_of_network, 1)  # fmt: skip
    more = {"fat-tree": ",oversubscription=2", "rails": ",nic_gb_s=25"}.get(kind_of_network, "")
    devices = draw(st.permutations(range(n)))
    if draw(st.booleans()):
        devices = list(range(n))
    size = draw(st.integers(2, n))
    groups = [sorted(devices[i : i + size]) for i in range(0, n - size + 1, size)]
    starts = draw(
        st.one_of(
            st.just([0] * len(groups)),
            st.lists(st.integers(0, 2000), min_size=len(groups), max_size=len(groups)),
        )
    )
    return RandomCase(
        f"{shape},links={links}{more}",
        draw(st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])),
        draw(st.sampled_from([1 << 12, 1 << 18, 1 << 24, 1 << 28])),
        groups,
        starts,
    )


def count_crossing_bytes(kind: str, size: int, n: int, a: int) -> float:
    """Return the least bytes that a group of n sends from a of its members to the others."""
    if a in (0, n):
        return 0.0
    return {
        "all_reduce": size,
        "all_gather": size * a,
        "reduce_scatter": size * (n - a) / n,
        "all_to_all": size * a * (n - a) / n,
    }[kind]


def list_cuts(graph: LinkGraph, rng: random.Random) -> list[set[int]]:
    """List sets of devices: single ones, halves of each dimension, and random ones."""
    n = graph.place_count
    cuts = [{device} for device in range(n)]
    for dim, count in enumerate(graph.counts):
        for low, high in itertools.combinations(range(count + 1), 2):
            side = range(low, high)
            cuts.append({d for d in range(n) if d // graph.strides[dim] % count in side})
    cuts += [set(rng.sample(range(n), rng.randint(1, n - 1))) for _ in range(8)]
    return [cut for cut in cuts if 0 < len(cut) < n]


def measure_cut(graph: LinkGraph, side: set[int]) -> float:
    """Return the capacity from a set of devices to the others.

    A switch is on the side that makes the capacity least, which is found for each on its own, as no
    two switches that are joined differ in a case of these tests but those of a fat tree.
    """
    starts, ends = (places.tolist() for places in graph.link_ends)
    capacity: Counter[tuple[int, int]] = Counter()
    for start, end, rate in zip(starts, ends, graph.capacities.tolist(), strict=True):
        if rate:
            capacity[start, end] += rate
    switches = sorted({p for edge in capacity for p in edge if p >= graph.place_count})
    best = math.inf
    for chosen in itertools.product((False, True), repeat=len(switches)):
        inside = side | {s for s, is_in in zip(switches, chosen, strict=True) if is_in}
        total = sum(rate for (a, b), rate in capacity.items() if a in inside and b not in inside)
        best = min(best, total)
    return best


def bound_by_cuts(case: RandomCase, graph: LinkGraph) -> float:
    """Return the cut bound in nanoseconds for all groups at once."""
    bound = 0.0
    for side in list_cuts(graph, random.Random(case.size)):
        crossing = sum(
            count_crossing_bytes(case.kind, case.size, len(group), len(side & {*group}))
            for group in case.groups
        )
        if crossing:
            bound = max(bound, crossing / measure_cut(graph, side))
    return bound


def time_reference(case: RandomCase, graph: LinkGraph) -> float:
    """Return the time of the better of ring, halving and doubling, and direct for all-to-alls.

    Every round waits for its slowest message, which shares its busiest link with all groups.
    """
    n = len(case.groups[0])
    if case.kind == "all_to_all":
        pairs = [(a, b) for group in case.groups for a in group for b in group if a != b]
        return time_round(graph, pairs, case.size / n)
    whole = case.size * n if case.kind == "all_gather" else case.size
    rounds = 2 if case.kind == "all_reduce" else 1
    ring = [(g[i], g[(i + 1) % n]) for g in case.groups for i in range(n)]
    times = [rounds * (n - 1) * time_round(graph, ring, whole / n)]
    if n & (n - 1) == 0:
        exchanges = [
            time_round(
                graph,
                [(g[i], g[i ^ (1 << level)]) for g in case.groups for i in range(n)],
                whole / (2 << level),
            )
            for level in range(n.bit_length() - 1)
        ]
        times.append(rounds * sum(exchanges))
    return min(times)


def time_round(graph: LinkGraph, pairs: list[tuple[int, int]], size: float) -> float:
    flows: Counter[int] = Counter()
    longest = 0.0
    for source, target in pairs:
        route = graph.list_route(source, target)
        flows.update(route)
        longest = max(longest, LATENCY_NS * len(route))
    return longest + 10 + size * max(n / graph.capacities[link] for link, n in flows.items())


@pytest.mark.long
@given(random_cases())
@draw_examples(150)
def test_times_lie_between_the_cut_bound_and_a_library(case: RandomCase) -> None:
    system = load_network(case.name)
    graph = LinkGraph.from_system(system)
    program = FlowProgram(system.device_count)
    for members, start_us in zip(case.groups, case.starts_us, strict=True):
        for device in members:
            if start_us:
                program.add_compute(device, start_us)
        program.add_collective(case.kind, case.size, members)
    records = program.simulate(system).comms
    first = min(record.ready_ns for record in records)
    last_start = max(record.ready_ns for record in records)
    last = max(record.finish_ns for record in records)
    assert last - first >= bound_by_cuts(case, graph) - 1
    reference = time_reference(case, graph)
    assert last - last_start <= 1.6 * reference + 50
    for record in records:  # alone, each takes as long as its own bound at least
        group = list(record.ranks)
        own = replace(case, groups=[group])
        assert record.finish_ns - record.ready_ns >= bound_by_cuts(own, graph) - 1
