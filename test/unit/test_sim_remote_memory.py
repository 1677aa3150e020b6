"""Remote memory: times as ASTRA-sim's AnalyticalRemoteMemory.cc computes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.tool_commands import parse_pipe, run_command

from hespas import configs
from hespas.chakra.schema import NodeType
from hespas.simulators.embedded import run_event_simulation
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import SimulationResult
from hespas.support.errors import HespasError
from support import traces as t

LATENCY_NS, GB_S = 700, 25
SIZE = 100_000
ACCESS_NS = LATENCY_NS + SIZE // GB_S


def load(number: int, deps=(), size: int = SIZE) -> bytes:
    return t.node(number, NodeType.MEM_LOAD_NODE, deps, tensor_size=("uint64", size))


def store(number: int, deps=(), size: int = SIZE) -> bytes:
    return t.node(number, NodeType.MEM_STORE_NODE, deps, tensor_size=("uint64", size))


def write_case(folder: Path, ranks, kind: str, **keys) -> None:
    t.save(folder / "traces", ranks)
    t.system(folder / "system", (len(ranks),))
    memory = {
        "memory-type": kind, "remote-mem-latency": LATENCY_NS, "remote-mem-bw": GB_S,
        **{key.replace("_", "-"): value for key, value in keys.items()},
    }  # fmt: skip
    (folder / "system" / "remote_memory.json").write_text(json.dumps(memory))


def simulate(folder: Path, ranks, kind: str, **keys) -> SimulationResult:
    write_case(folder, ranks, kind, **keys)
    inputs = load_inputs(folder / "traces", configs.load_system(str(folder / "system")))
    result = run_event_simulation(inputs)
    everyone = run_event_simulation(inputs, SimulationOptions(symmetry=False))
    assert everyone.devices == result.devices
    return result


def list_finishes(result: SimulationResult) -> list[int]:
    return [device.finish_ns for device in result.devices]


def test_devices_with_memories_of_their_own_do_not_wait(tmp_path: Path) -> None:
    ranks = [[load(1), store(2)]] * 4
    result = simulate(tmp_path, ranks, "PER_NPU_MEMORY_EXPANSION")
    assert list_finishes(result) == [2 * ACCESS_NS] * 4


def test_devices_of_a_node_take_turns(tmp_path: Path) -> None:
    ranks = [[load(1)]] * 4
    keys = {"num_nodes": 2, "num_npus_per_node": 2}
    result = simulate(tmp_path, ranks, "PER_NODE_MEMORY_EXPANSION", **keys)
    assert list_finishes(result) == [ACCESS_NS, 2 * ACCESS_NS] * 2


def test_a_pool_serves_in_order_of_arrival(tmp_path: Path) -> None:
    """The second access of device 0 arrives while the others wait, and so comes last."""
    ranks = [[load(1), store(2, [1])], [load(1)], [t.comp(1, micros=1), load(2, [1])]]
    result = simulate(tmp_path, ranks, "MEMORY_POOL")
    assert list_finishes(result) == [4 * ACCESS_NS, 2 * ACCESS_NS, 3 * ACCESS_NS]


def test_an_access_runs_alongside_compute_and_not_alongside_a_collective(tmp_path: Path) -> None:
    alone_ns = simulate(tmp_path / "a", [[t.coll(1)]] * 2, "MEMORY_POOL").step_time_ns
    ranks = [[load(1), t.coll(2), t.comp(3, micros=3)]] * 2
    result = simulate(tmp_path / "b", ranks, "PER_NPU_MEMORY_EXPANSION")
    assert result.step_time_ns == ACCESS_NS + alone_ns
    assert result.devices[0].compute_ns == 3000


def test_the_command_reports_accesses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_case(Path(), [[load(1), t.comp(2, [1]), t.coll(3, [2])]] * 2, "MEMORY_POOL")
    commands = parse_pipe("hespas simulate traces --system system --timeline step.perfetto-trace")
    assert commands is not None
    done = run_command(commands[0])
    assert done.code == 0 and "Critical path" in done.out, done.err


@pytest.mark.parametrize(
    ("kind", "keys", "match"),
    [
        ("MEMORY_POOL", {"remote_mem_bw": None}, "remote-mem-bw"),
        ("PER_NODE_MEMORY_EXPANSION", {"num_nodes": 1}, "num-npus-per-node are needed"),
        ("PER_NODE_MEMORY_EXPANSION", {"num_nodes": 1, "num_npus_per_node": 1}, "fewer than 2"),
        ("MEMORY", {}, "memory-type"),
    ],
)
def test_errors_of_the_file(kind: str, keys: dict, match: str, tmp_path: Path) -> None:
    write_case(tmp_path, [[load(1)]] * 2, kind, **keys)
    with pytest.raises(HespasError, match=match):
        configs.load_system(str(tmp_path / "system"))
