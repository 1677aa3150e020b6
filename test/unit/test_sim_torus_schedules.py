"""Tori and meshes of unequal dimensions that run at once, against the bounds of their links."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sim_finishes import compute_finishes

from hespas import configs
from hespas.configs.network_fabric import SlowLink
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.embedded.dimension_orders import list_balanced_orders, list_single_orders
from hespas.simulators.embedded.event_simulation import run_event_simulation
from hespas.simulators.embedded.link_traffic import collect_dimension_loads, collect_link_traffic
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import CommRecord
from support import traces as t

BY_DIMENSION = SimulationOptions(by_dimension=True)
LINK_NS, DELAY_NS = 500, 10
WHOLE = 1 << 30
KINDS = ("all_reduce", "reduce_scatter", "all_gather")
# Of the 8 links of the last torus, the first dimension has 4, and each of the others 2.
TORI = ["torus:4x4,links=4", "torus:8x2,links=4", "torus:4x2x2,links=6", "torus:4x2x2,links=8"]


def load_network(name: str) -> SystemSpec:
    """Return a network of 16 devices whose reductions take no time."""
    return configs.load_system(f"{name},link_gb_s=50,latency_ns={LINK_NS},local_mem_gb_s=1e9")


def finish_ns(system: SystemSpec, kind: str, size: int) -> int:
    devices = range(system.device_count)
    return max(end.end_ns for end in compute_finishes(system, kind, size, devices, BY_DIMENSION))


def make_record(system: SystemSpec, kind: str, size: int, time_ns: int) -> CommRecord:
    return CommRecord("", kind, size, 0, tuple(range(system.device_count)), 0, 0, time_ns)


def get_rates(system: SystemSpec) -> list[float]:
    """Return the bytes per nanosecond of a device in one direction of each dimension."""
    return [rate * 2**30 / 1e9 for rate in system.bandwidth_gib_s]


def test_the_shares_of_two_orders_have_a_closed_form() -> None:
    """A byte loads rings of 8 and 2 with 7/8 and 1/16, or with 7/16 and 1/2, by their order.

    A share x of the first order makes both loads equal: 7 x / 8 + 7 (1 - x) / 16 = 15/32.
    """
    parts = list_balanced_orders([0, 1], [8, 2], [50, 50], False)
    shares = {part.dims: float(part.share) for part in parts}
    assert shares == {(0, 1): pytest.approx(1 / 14), (1, 0): pytest.approx(13 / 14)}


def test_a_dimension_that_is_too_slow_comes_last() -> None:
    """The least load of the ring of 2 is 1/16, more than its share of the bandwidth."""
    parts = list_balanced_orders([0, 1], [8, 2], [100, 1], False)
    assert [(part.dims, part.share) for part in parts] == [((0, 1), 1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TORI)
def test_all_links_carry_their_share_and_end_together(name: str, kind: str) -> None:
    system = load_network(name)
    n, rates = system.device_count, get_rates(system)
    size = WHOLE // n if kind == "all_gather" else WHOLE
    sent_bytes = WHOLE * (n - 1) / n * (2 if kind == "all_reduce" else 1)
    bound_ns = sent_bytes / (2 * sum(rates))  # both directions
    record = make_record(system, kind, size, round(bound_ns))
    loads = collect_dimension_loads(system, BY_DIMENSION, [record])
    assert [load.shares[0][1] for load in loads] == pytest.approx([100] * len(rates), rel=0.001)
    assert bound_ns < finish_ns(system, kind, size) < 1.05 * bound_ns


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_link_takes_the_share_of_its_bandwidth(kind: str, share: float) -> None:
    """A link that is down has a detour with half of the bandwidth in both directions."""
    even = load_network("torus:4x4,links=4")
    slow = replace(even, fabric=replace(even.fabric, slow_links=(SlowLink(0, (4, 5), share),)))
    size = WHOLE // 16 if kind == "all_gather" else WHOLE
    total = 1 + (share or 0.5)  # of the bandwidth of two dimensions
    assert finish_ns(slow, kind, size) / finish_ns(even, kind, size) == pytest.approx(
        2 / total, rel=0.1
    )


@pytest.mark.parametrize("share", [0.5, 0.8])
@pytest.mark.parametrize("kind", KINDS)
def test_three_dimensions_share_the_data_by_their_bandwidths(kind: str, share: float) -> None:
    even = load_network("torus:4x4x4,links=6")
    slow = replace(even, fabric=replace(even.fabric, slow_links=(SlowLink(0, (0, 1), share),)))
    size = WHOLE // 64 if kind == "all_gather" else WHOLE
    growth = finish_ns(slow, kind, size) / finish_ns(even, kind, size)
    assert growth == pytest.approx(3 / (2 + share), rel=0.02)


@pytest.mark.parametrize("name", ["torus:4x3x3,links=6", "mesh:4x3x3,links=6"])
def test_messages_that_share_links_do_not_block_each_other(name: str, tmp_path: Path) -> None:
    system = load_network(name)
    nodes = [t.coll(1, size=1 << 24), t.coll(2, [1], size=1 << 22)]
    t.save(tmp_path, [nodes] * system.device_count)
    inputs = load_inputs(tmp_path, system)
    alone, shared = (
        run_event_simulation(inputs, replace(BY_DIMENSION, congestion=congestion)).step_time_ns
        for congestion in (False, True)
    )
    assert 0.9 * alone < shared < 2 * alone


@given(
    counts=st.permutations((2, 2, 3)), kind=st.sampled_from(KINDS), share=st.floats(0.05, 1),
    device=st.integers(0, 11), data=st.data(),
)  # fmt: skip
def test_devices_that_are_not_alike_do_not_block_each_other(counts, kind, share, device, data):
    """Of three dimensions, the parts arrive in another order on the devices of a slow link."""
    system = load_network(f"torus:{'x'.join(map(str, counts))},links=6")
    dim = data.draw(st.integers(0, 2))
    stride = math.prod(counts[:dim])
    if device // stride % counts[dim] + 1 == counts[dim]:
        device -= stride
    link = SlowLink(dim, (device, device + stride), share)
    slow = replace(system, fabric=replace(system.fabric, slow_links=(link,)))
    size = 1 << data.draw(st.integers(12, 26))
    assert finish_ns(slow, kind, size) >= 0.9 * finish_ns(system, kind, size)


@pytest.mark.parametrize("name", TORI[1:])
def test_a_few_bytes_take_as_few_steps_as_a_single_order(name: str) -> None:
    system = load_network(name)
    steps = 2 * sum(count - 1 for count in system.npus_count)
    phases = 2 * len(system.npus_count) - 1
    expected = phases * DELAY_NS + steps * (LINK_NS + DELAY_NS)
    assert finish_ns(system, "all_reduce", 512) == pytest.approx(expected, rel=0.01)


def test_all_orders_of_three_dimensions_are_candidates() -> None:
    orders = [order.dims for (order,) in list_single_orders([0, 1, 2], False)]
    assert len(set(orders)) == len(orders) == math.factorial(3)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 16])
def test_an_all_to_all_takes_the_shorter_way_around_a_ring(n: int) -> None:
    """Half of the blocks that a half of the ring has for the other half cross either cut.

    Opposite positions exchange half of their block in each direction.
    """
    size = n * n << 16
    system = load_network(f"ring:{n},links=2")
    link_bytes = size / n * (n * n // 4) / 2
    steps = n // 2
    expected = DELAY_NS + steps * (LINK_NS + DELAY_NS) + link_bytes / get_rates(system)[0]
    assert finish_ns(system, "all_to_all", size) == pytest.approx(expected, abs=steps)
    record = make_record(system, "all_to_all", size, round(expected))
    links = collect_link_traffic(system, BY_DIMENSION, [record], round(expected))
    assert {link.carried_bytes for link in links} == {link_bytes * (2 if n == 2 else 1)}
    assert all(0.5 < link.utilisation < 1 for link in links)


@pytest.mark.parametrize("name", TORI)
def test_an_all_to_all_is_bound_by_the_bisection_of_a_torus(name: str) -> None:
    system = load_network(name)
    rates = get_rates(system)
    bound_ns = max(
        WHOLE * count / 8 / rate for count, rate in zip(system.npus_count, rates, strict=True)
    )
    assert finish_ns(system, "all_to_all", WHOLE) == pytest.approx(bound_ns, rel=0.001)


@given(n=st.integers(2, 24), size=st.integers(1 << 16, 1 << 34))
def test_an_all_to_all_crosses_the_middle_of_a_line_once(n: int, size: int) -> None:
    """Each half of a line has floor(n / 2) * ceil(n / 2) blocks for the other half."""
    size -= size % (n * n)
    system = load_network(f"mesh:{n},links=2")
    bound_ns = size / n * (n * n // 4) / get_rates(system)[0]
    latency_ns = 2 * (n - 1) * LINK_NS + n * (DELAY_NS + 1)  # the ring of messages turns once
    assert bound_ns < finish_ns(system, "all_to_all", size) <= bound_ns + latency_ns
    record = make_record(system, "all_to_all", size, round(bound_ns))
    links = collect_link_traffic(system, BY_DIMENSION, [record], round(bound_ns))
    assert max(link.carried_bytes for link in links) == size // n * (n * n // 4)


@pytest.mark.parametrize("name", ["mesh:4x4,links=4", "mesh:8x2,links=4", "mesh:4x2x2,links=6"])
def test_an_all_to_all_is_bound_by_the_bisection_of_a_mesh(name: str) -> None:
    system = load_network(name)
    bound_ns = max(
        WHOLE * count / 4 / rate
        for count, rate in zip(system.npus_count, get_rates(system), strict=True)
    )
    assert finish_ns(system, "all_to_all", WHOLE) == pytest.approx(bound_ns, rel=0.001)


@pytest.mark.parametrize("name", ["torus:8x2,links=4", "mesh:8x2,links=4", "torus:4x2x2,links=6",
                                  "mesh:4x2x2,links=6"])  # fmt: skip
def test_chunks_do_not_block_each_other_if_devices_start_apart(name: str) -> None:
    system, rng = load_network(name), random.Random(1)
    devices = range(system.device_count)
    for spread_ns in (10_000, 1_000_000):
        starts = [rng.randrange(spread_ns) for _ in devices]
        ends = [
            end.end_ns
            for end in compute_finishes(
                system, "all_reduce", 1 << 26, devices, BY_DIMENSION, starts=starts
            )
        ]
        together_ns = finish_ns(system, "all_reduce", 1 << 26)
        assert max(starts) < min(ends) <= max(ends) < 1.2 * together_ns + max(starts)
    if name.startswith("torus:4x2x2"):
        assert set(ends) == {max(starts) + together_ns}
