"""Collectives on a torus: its dimensions run at the same time, each with all of its links."""

from __future__ import annotations

from itertools import pairwise

import pytest
from support.sim_finishes import compute_finishes

from hespas import configs
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.embedded.chunk_phases import QueueTurn
from hespas.simulators.embedded.collective_plan import CollectivePlanner
from hespas.simulators.embedded.network import AnalyticalNetwork
from hespas.simulators.simulation_options import SimulationOptions

BY_DIMENSION = SimulationOptions(by_dimension=True)
SHARD = 1 << 22


def finish_ns(
    system: SystemSpec, kind: str, size: int, options: SimulationOptions = BY_DIMENSION
) -> int:
    """Return when the devices of a collective between all of them finish."""
    everyone = range(system.device_count)
    (end,) = {end.end_ns for end in compute_finishes(system, kind, size, everyone, options)}
    return end


def ring_ns(system: SystemSpec, dim: int, message: int) -> int:
    """Return the time of an all-gather of ``message`` bytes around one ring."""
    transfer_ns = int(
        system.latency_ns[dim] + message / (system.bandwidth_gib_s[dim] * 1.073741824)
    )
    delay_ns = system.endpoint_delay_ns
    return delay_ns + (system.npus_count[dim] - 1) * (transfer_ns + delay_ns)


@pytest.mark.parametrize("name", ["TPUv5e_16x16", "TPUv6e_4x4", "TPUv5p_4x4x4", "TPU7x_8x8x8"])
def test_an_all_gather_over_equal_dimensions_uses_all_of_them_all_the_time(name: str) -> None:
    """Each of as many parts as dimensions runs in another dimension in each of its phases."""
    system = configs.load_system(name)
    count = len(system.npus_count)
    part_bytes = -(-SHARD // count)
    expected = sum(
        ring_ns(system, 0, part_bytes * system.npus_count[0] ** phase) for phase in range(count)
    )
    assert finish_ns(system, "all_gather", SHARD) == expected


def test_the_busiest_dimension_bounds_a_collective() -> None:
    """Half a pod of v5e has an axis of 16 chips that wraps around, and one of 8 that does not."""
    system = configs.load_system("TPUv5e_8x16")
    (line, ring), size = system.bandwidth_gib_s, SHARD
    gathered_parts = [[size / 2 * 1, size / 2 * 16], [size / 2 * 8, size / 2 * 1]]
    busy_ns = [
        sum(parts) * (n - 1) / (rate * 1.073741824)
        for parts, n, rate in zip(gathered_parts, (8, 16), (line, ring), strict=True)
    ]
    one_by_one_ns = finish_ns(system, "all_gather", size, SimulationOptions())
    assert max(busy_ns) < finish_ns(system, "all_gather", size) < one_by_one_ns


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_large_collectives_are_as_many_times_faster_as_there_are_dimensions(kind: str) -> None:
    system = configs.load_system("TPUv5p_4x4x4")
    size = 1 << (26 if kind == "all_gather" else 30)
    one_by_one_ns = finish_ns(system, kind, size, SimulationOptions())
    assert one_by_one_ns / finish_ns(system, kind, size) == pytest.approx(3, rel=0.01)


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_to_all", "all_gather"])
@pytest.mark.parametrize("size", [1, 2, 63])
def test_a_few_bytes_are_sent(kind: str, size: int) -> None:
    """The parts of a collective of fewer bytes than devices are not empty."""
    system = configs.load_system("TPUv5p_4x4x4")
    assert finish_ns(system, kind, size) > 0


def test_a_mesh_axis_over_two_dimensions_uses_both() -> None:
    """The axes of a mesh of 16 x 4 chips, over two dimensions of 4 and over the third one."""
    system = configs.load_system("TPUv4_4x4x4")
    square = [n for n in range(64) if n // 16 == 2]
    line = [2 + 16 * n for n in range(4)]
    both, one = (
        compute_finishes(system, "all_gather", SHARD * 16 // len(members), members, BY_DIMENSION)[0]
        for members in (square, line)
    )
    gathered_share = (15 / 16) / (3 / 4)  # of what each device receives
    assert one.end_ns * gathered_share / both.end_ns == pytest.approx(2, rel=0.05)


def test_slices_exchange_what_is_left_after_their_torus() -> None:
    system = configs.load_system("TPUv5e_16x16_DCN_4")
    size = 1 << 30
    between_ns = 2 * 3 / 4 * size / 256 / 3.125
    inside = configs.load_system("TPUv5e_16x16")
    inside_ns = finish_ns(inside, "reduce_scatter", size) + finish_ns(
        inside, "all_gather", size // 256
    )
    assert finish_ns(system, "all_reduce", size) == pytest.approx(between_ns + inside_ns, rel=0.02)


@pytest.mark.parametrize("congestion", [False, True])
def test_parts_between_slices_share_their_bandwidth_once(congestion: bool) -> None:
    """Either each part takes the time of both, or the links are shared as messages cross them."""
    system = configs.load_system("TPUv5e_16x16_DCN_4")
    options = SimulationOptions(by_dimension=True, congestion=congestion)
    planner = CollectivePlanner(system, AnalyticalNetwork.from_system(system, True), options)
    everyone = tuple(range(system.device_count))
    communicator = planner.plan_communicator(1, "all_reduce", everyone, False, ())
    plan = planner.plan_collective("all_reduce", 1 << 30, communicator, QueueTurn())
    assert [[phase.dim for phase in part] for part in plan] == [[0, 1, 2, 1, 0], [1, 0, 2, 0, 1]]
    sizes = [part[2].size for part in plan]
    assert sizes == [(1 << 30) // 256 // (2 if congestion else 1)] * 2
    assert len({part[2].queue for part in plan}) == 2


def test_without_by_dimension_the_dimensions_follow_each_other_as_in_astra_sim() -> None:
    system = configs.load_system("TPUv5p_4x4x4")
    sizes = [SHARD * 4**phase for phase in range(3)]
    expected = sum(ring_ns(system, dim, size) for dim, size in zip((2, 1, 0), sizes, strict=True))
    assert finish_ns(system, "all_gather", SHARD, SimulationOptions()) == expected


# AI-Hypercomputer/tpu-recipes microbenchmarks/ironwood/collectives/all_gather.md (Apache-2.0):
# both cores of each of four chips gather this many elements of f32, at this rate in GB/s.
GATHERED_GB_S = {65536: 71.77, 262144: 129.19, 1048576: 161.90, 4194304: 174.77, 16777216: 178.77}


def test_all_gathers_of_a_host_of_tpu7x_are_as_measured() -> None:
    """Large ones are exact; small ones lack the time that a collective takes to start."""
    system = configs.load_system("TPU7x_2x2x1")
    errors = [
        finish_ns(system, "all_gather", 2 * 4 * elements) / (2 * 3 * 4 * elements / rate) - 1
        for elements, rate in GATHERED_GB_S.items()
    ]
    assert errors[-1] == pytest.approx(0, abs=0.01)
    assert all(before < after < 0.01 for before, after in pairwise(errors))
    assert errors[0] > -0.6


def test_the_cores_of_a_chip_share_its_links() -> None:
    """Both cores gather as much as in the measurement, each from the same core of other chips."""
    system = configs.load_system("TPU7x_core_2x2x1")
    shard, group = 4 * 16777216, [0, 2, 4, 6]
    (end,) = {
        end.end_ns for end in compute_finishes(system, "all_gather", shard, group, BY_DIMENSION)
    }
    assert end == pytest.approx(2 * 3 * shard / GATHERED_GB_S[16777216], rel=0.01)


def test_an_all_reduce_of_a_pod_of_v6e_is_as_measured() -> None:
    """AI-Hypercomputer/tpu-recipes microbenchmarks/trillium/collectives/README.md: 235.76 GB/s."""
    size = 2 * 17408**2
    measured_ns = 2 * 255 / 256 * size / 235.76
    assert (
        -0.3
        < finish_ns(configs.load_system("TPUv6e_16x16"), "all_reduce", size) / measured_ns - 1
        < 0
    )
