"""Inputs at which ASTRA-sim hangs or crashes raise errors that name file, node and key."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hespas import configs
from hespas.simulators import simulation_inputs
from hespas.simulators.embedded import SimulationOptions, run_event_simulation
from hespas.support.errors import HespasError
from support import traces as t


def fails(tmp_path: Path, ranks, match: str, groups=None, counts=(2,), **system) -> HespasError:
    t.save(tmp_path / "traces", ranks, groups)
    folder = t.system(tmp_path / "system", counts, **system)
    with pytest.raises(HespasError, match=match) as caught:
        read = simulation_inputs.load_inputs(tmp_path / "traces", configs.load_system(str(folder)))
        run_event_simulation(read, SimulationOptions(symmetry=False))
    with pytest.raises(HespasError):
        run_event_simulation(
            simulation_inputs.load_inputs(tmp_path / "traces", configs.load_system(str(folder)))
        )
    return caught.value


def attrs(**more):
    return {"comm_type": ("int64", 0), "comm_size": ("int64", 64), **more}


NODES = {
    "id twice": ([t.comp(1), t.comp(1)], "the id 1 is used twice"),
    "dangling": ([t.comp(1, [9])], "node 1: error: depends on node 9, which does not exist"),
    "cycle": ([t.comp(1), t.comp(2, [3]), t.comp(3, [2])], "2 nodes in or after a cycle"),
    "own cycle": ([t.comp(1, [1])], "1 node in or after a cycle"),
    "metadata": ([t.node(1, 1)], "has type 1"),
    "memory": ([t.node(1, 2, tensor_size=("uint64", 8))], "no remote memory"),
    "unknown": ([t.node(1, 8)], "has type 8"),
    "no type": ([t.node(1, 7, comm_size=("int64", 8))], "'comm_type' is missing"),
    "no size": ([t.node(1, 7, comm_type=("int64", 0))], "'comm_size' is missing"),
    "reduce": ([t.node(1, 7, **attrs(comm_type=("int64", 1)))], "comm_type REDUCE"),
    "type 77": ([t.node(1, 7, **attrs(comm_type=("int64", 77)))], "comm_type 77"),
    "float": ([t.node(1, 7, **attrs(comm_size=("double", 8.0)))], "has the type double"),
    "negative": ([t.coll(1, size=-1)], "comm_size is -1: the collective never finishes"),
    "gather 0": ([t.coll(1, kind=t.ALL_GATHER, size=0)], "comm_size is 0"),
    "pg text": ([t.node(1, 7, **attrs(pg_name=("string", "tp")))], "pg_name 'tp'"),
    "pg absent": ([t.coll(1, group=7)], "communicator 7 is not in comm_group.json"),
    "dims false": ([t.coll(1, group=0, involved_dim=("bool_list", [False]))], "no true"),
    "dims kind": ([t.coll(1, group=0, involved_dim=("int64", 1))], "has the type int64"),
    "dims short": ([t.coll(1, group=0, involved_dim=("bool_list", []))], "0 entries"),
    "cpu": ([t.node(1, 7, **attrs(is_cpu_op=("bool", True)))], "is_cpu_op is true"),
    "send 0": ([t.send(1, 1, size=0)], "comm_size is 0"),
    "peer": ([t.send(1, 5)], "the peer of device 0 is 5, which does not exist"),
    "self": ([t.send(1, 0)], "the peer of device 0 is itself"),
    "invalid": ([t.node(1, 0), t.comp(2, [1])], "the nodes that it waits for take no time"),
    "empty": ([], "has no nodes"),
}


@pytest.mark.parametrize("nodes, match", NODES.values(), ids=NODES)
def test_nodes(nodes: list[bytes], match: str, tmp_path: Path) -> None:
    error = fails(tmp_path, [nodes, [t.comp(1)]], match)
    assert "dev.0.et" in error.where or "no nodes" in match or "peer" in match


def test_an_algorithm_that_runs_in_no_involved_dimension(tmp_path: Path) -> None:
    node = t.coll(1, group=0, involved_dim=("bool_list", [False, True]))
    match = "involved_dim is true in no dimension of all-reduce-implementation"
    fails(tmp_path, [[node]] * 4, match, counts=(2, 2), algorithm=["oneRing", "oneRing"])


def test_a_device_outside_its_communicator(tmp_path: Path) -> None:
    ranks = [[t.coll(1)], [t.coll(1)], [t.coll(1)]]
    fails(tmp_path, ranks, "device 2 is not in its communicator 1", {1: [0, 1]}, (3,))


def test_deadlock_says_who_waits_for_what(tmp_path: Path) -> None:
    ranks = [[t.coll(1), t.send(2, 1, [1])], [t.recv(1, 0), t.coll(2, [1])]]
    error = fails(tmp_path, ranks, "deadlock: 2 of 2 devices")
    assert "waits in all_reduce of 1048576 bytes on communicator 1 for device 1" in error.message
    assert "which is in node 1 (recv)" in error.message


@pytest.mark.parametrize("other", [t.recv(1, 0, size=5), t.recv(1, 0, tag=9)])
def test_messages_that_do_not_match(other: bytes, tmp_path: Path) -> None:
    error = fails(tmp_path, [[t.send(1, 1)], [other]], "deadlock: 1 of 2 devices never finish")
    assert "from device 0" in error.message and "dev.1.et node 1" in error.where


def test_collectives_that_do_not_match(tmp_path: Path) -> None:
    ranks = [[t.coll(1)], [t.coll(1, size=5000)]]
    fails(tmp_path, ranks, "all_reduce of 5000 bytes on communicator 1 meets all_reduce of 1048576")


def test_the_default_communicator_beside_others(tmp_path: Path) -> None:
    ranks = [[t.coll(1), t.coll(2, [1], group=0)]] * 2 + [[t.coll(2, group=0)]]
    error = fails(tmp_path, ranks, "deadlock", {1: [0, 1]}, (3,))
    assert "list all devices as a communicator with its own id" in error.remedy


def test_fewer_traces_than_devices(tmp_path: Path) -> None:
    fails(tmp_path, [[t.comp(1)]] * 2, "4 devices, but there is no trace for 2", counts=(4,))


SYSTEMS: dict[str, tuple[tuple[int, ...], dict, str]] = {
    "halving on 3": ((3,), {"algorithm": "halvingDoubling"}, "a power of two of devices"),
    "tree on 3": ((3,), {"algorithm": "doubleBinaryTree"}, "a power of two of devices"),
    "longer": (
        (4,),
        {"algorithm": ["ring", "ring"]},
        "all-reduce-implementation has 2, not 1 entries",
    ),
    "shorter": ((2, 2), {"algorithm": ["ring"]}, "all-reduce-implementation has 1, not 2 entries"),
    "splits 0": ((4,), {"preferred_dataset_splits": 0}, "preferred-dataset-splits"),
    "memory 0": ((4,), {"local_mem_bw": 0}, "local-mem-bw"),
    "endpoint 0": ((4,), {"endpoint_delay": 0}, "endpoint-delay"),
    "unknown": ((4,), {"algorithm": "tree"}, "all-reduce-implementation"),
    "roofline": ((4,), {"roofline_enabled": 1}, "'num_ops' is missing"),
}


@pytest.mark.parametrize("counts, keys, match", SYSTEMS.values(), ids=SYSTEMS)
def test_systems(counts: tuple[int, ...], keys: dict, match: str, tmp_path: Path) -> None:
    devices = math.prod(counts)
    fails(tmp_path, [[t.comp(1), t.coll(2, [1])]] * devices, match, counts=counts, **keys)


def test_a_tree_on_some_devices(tmp_path: Path) -> None:
    ranks = [[t.coll(1)]] * 2 + [[t.comp(1)]] * 2
    match = "does not work on a communicator of some devices"
    fails(tmp_path, ranks, match, {1: [0, 1]}, (4,), algorithm="doubleBinaryTree")


def test_a_tree_gathers_nothing(tmp_path: Path) -> None:
    ranks = [[t.coll(1, kind=t.ALL_GATHER)]] * 4
    fails(tmp_path, ranks, "does no", None, (4,), algorithm="doubleBinaryTree")


def test_a_gather_of_fewer_bytes_than_splits(tmp_path: Path) -> None:
    ranks = [[t.coll(1, kind=t.ALL_GATHER, size=3)]] * 4
    fails(tmp_path, ranks, "cannot be split in 4", None, (4,), preferred_dataset_splits=4)


def test_a_message_without_time_at_the_start(tmp_path: Path) -> None:
    ranks = [[t.send(1, 1, size=1)], [t.recv(1, 0, size=1)]]
    fails(tmp_path, ranks, "takes no time", latency=0)


def test_chunks_that_block_each_other(tmp_path: Path) -> None:
    """Use three dimensions, more chunks than run at once, and devices with different starts."""
    ranks = [[t.comp(1, micros=1 + 37 * rank % 11), t.coll(2, [1])] for rank in range(8)]
    error = fails(tmp_path, ranks, "block each other", None, (2, 2, 2), preferred_dataset_splits=4)
    assert "active-chunks-per-dimension" in error.remedy
