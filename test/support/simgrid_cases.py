"""Programs that are simulated by SimGrid and by the flow-level model, and SimGrid's times.

``python test/support/simgrid_cases.py > test/data/simgrid.csv`` records the times anew.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from hespas.simulators.simgrid_backend import simgrid_program, simgrid_simulation
from hespas.simulators.simulation_options import SimulationOptions
from support.flow_cases import FlowProgram, list_blocks, list_strides, load_network
from support.paths import DATA

MIB, GIB = 1 << 20, 1 << 30
FILE = DATA / "simgrid.csv"
Builder = Callable[[FlowProgram], None]


@dataclass(frozen=True)
class SimgridCase:
    """A program on a network.

    Attributes:
        name: What is simulated.
        network: The network, without its rates.
        build: Adds the nodes.
    """

    name: str
    network: str
    build: Builder

    def make_program(self) -> FlowProgram:
        program = FlowProgram(load_network(self.network).device_count)
        self.build(program)
        return program

    def simulate_with_simgrid(self) -> int:
        """Return SimGrid's time in nanoseconds."""
        inputs = self.make_program().place_on(load_network(self.network))
        options = SimulationOptions(intervals=False)
        return simgrid_simulation.simulate_with_simgrid(inputs, options).step_time_ns


def _send(size: int, ends: Sequence[tuple[int, int]]) -> Builder:
    def build(program: FlowProgram) -> None:
        for tag, (source, target) in enumerate(ends):
            program.add_message(source, target, size, tag)

    return build


def _run(kind: str, size: int, groups: Sequence[Sequence[int]]) -> Builder:
    def build(program: FlowProgram) -> None:
        for members in groups:
            program.add_collective(kind, size, members)

    return build


def _build_pipeline(program: FlowProgram) -> None:
    """Eight pieces pass four stages, which compute as long as a message takes."""
    for piece in range(8):
        for stage in range(program.devices - 1):
            program.add_compute(stage, 200)
            tag = 10 * piece + stage
            program.add_message(stage, stage + 1, 10_000_000, tag, chained=True)
        program.add_compute(program.devices - 1, 200)


def _build_skewed_groups(program: FlowProgram) -> None:
    """Two groups that share a ring, the second of which starts 3 ms later."""
    for device in range(1, 16, 2):
        program.add_compute(device, 3000)
    for first in (0, 1):
        program.add_collective("all_reduce", 256 * MIB, range(first, 16, 2))


def _build_training_step(program: FlowProgram) -> None:
    """Layers with a gather in one dimension, compute, and a reduction in the other one."""
    for _ in range(3):
        for members in list_strides(16, 4):
            program.add_collective("all_gather", 8 * MIB, members)
        for device in range(16):
            program.add_compute(device, 100 + 10 * (device % 4))
        for members in list_blocks(16, 4):
            program.add_collective("all_reduce", 32 * MIB, members)


def _build_message_beside_ring(program: FlowProgram) -> None:
    """A ring of even devices, and messages between odd ones that cross its links."""
    program.add_collective("all_reduce", 256 * MIB, range(0, 16, 2))
    program.add_message(1, 5, 64 * MIB, 1)
    program.add_message(13, 9, 64 * MIB, 2)


CASES = [
    SimgridCase("seven messages into one port", "switch:8,links=1",
                _send(GIB, [(source, 0) for source in range(1, 8)])),
    SimgridCase("messages that share two links of a ring", "ring:8,links=2",
                _send(256 * MIB, [(0, 4), (1, 3), (3, 1)])),
    SimgridCase("messages across a torus", "torus:4x4,links=4",
                _send(256 * MIB, [(i, (i + 6) % 16) for i in range(16)])),
    SimgridCase("a pipeline of four stages", "ring:4,links=2", _build_pipeline),
    SimgridCase("all-reduce, ring", "ring:8,links=2", _run("all_reduce", 256 * MIB, [range(8)])),
    SimgridCase("all-reduces, blocks of a ring", "ring:16,links=2",
                _run("all_reduce", 256 * MIB, list_blocks(16, 4))),
    SimgridCase("all-reduces, strides of a ring", "ring:64,links=12",
                _run("all_reduce", GIB, list_strides(64, 16))),
    SimgridCase("all-reduces, blocks of a torus", "torus:8x8,links=12",
                _run("all_reduce", GIB, list_blocks(64, 4))),
    SimgridCase("all-reduces, strides of a torus", "torus:8x8,links=12",
                _run("all_reduce", GIB, list_strides(64, 16))),
    SimgridCase("all-reduce, unequal torus", "torus:8x4,links=4",
                _run("all_reduce", 256 * MIB, [range(32)])),
    SimgridCase("all-gather, three dimensions", "torus:4x4x2,links=6",
                _run("all_gather", 16 * MIB, [range(32)])),
    SimgridCase("all-reduce, mesh", "mesh:4x4,links=4", _run("all_reduce", 256 * MIB, [range(16)])),
    SimgridCase("all-to-all, torus", "torus:4x8,links=4",
                _run("all_to_all", 256 * MIB, [range(32)])),
    SimgridCase("all-to-alls, strides of a ring", "ring:64,links=12",
                _run("all_to_all", 256 * MIB, list_strides(64, 16))),
    SimgridCase("all-reduce, switch, halving and doubling", "switch:16,links=1",
                _run("all_reduce", 256 * MIB, [range(16)])),
    SimgridCase("all-reduce, switch, ring", "switch:15,links=1",
                _run("all_reduce", 256 * MIB, [range(15)])),
    SimgridCase("all-reduce, two switches", "switch:4x4,links=2",
                _run("all_reduce", 256 * MIB, [range(16)])),
    SimgridCase("all-reduce, rails", "rails:4x4,links=8,nic_gb_s=50",
                _run("all_reduce", 256 * MIB, [range(16)])),
    SimgridCase("all-reduce, oversubscribed fat tree", "fat-tree:4x4,links=1,oversubscription=2",
                _run("all_reduce", 256 * MIB, [range(16)])),
    SimgridCase("all-to-all, three levels", "fat-tree:2x2x4,links=1,oversubscription=2x2",
                _run("all_to_all", 256 * MIB, [range(16)])),
    SimgridCase("reduce-scatters across leaves", "fat-tree:4x4,links=1,oversubscription=4",
                _run("reduce_scatter", 256 * MIB, list_strides(16, 4))),
    SimgridCase("all-reduce, dragonfly", "dragonfly:2x2x3,links=1",
                _run("all_reduce", 256 * MIB, [range(12)])),
    SimgridCase("broadcast, switch", "switch:16,links=1",
                _run("broadcast", 64 * MIB, [range(16)])),
    SimgridCase("all-reduces across a dragonfly", "dragonfly:4x4x2,links=1",
                _run("all_reduce", 256 * MIB, list_strides(32, 8))),
    SimgridCase("all-reduce beside a link that is down", "torus:4x4,links=4,down=0-1",
                _run("all_reduce", 256 * MIB, [range(16)])),
    SimgridCase("all-reduce, rails with a device down", "rails:4x4,links=8,nic_gb_s=50,down=5",
                _run("all_reduce", 256 * MIB, [range(15)])),
    SimgridCase("all-gather, torus with a device down", "torus:4x4,links=4,down=6",
                _run("all_gather", 16 * MIB, [range(15)])),
    SimgridCase("all-reduces of groups that are no grids", "torus:4x4,links=4",
                _run("all_reduce", 256 * MIB,
                     [[0, 1, 2, 5, 6, 7, 8], [3, 4, 9, 10, 11, 14, 15]])),
    SimgridCase("two groups that start apart", "ring:16,links=2", _build_skewed_groups),
    SimgridCase("layers with two groups", "torus:4x4,links=4", _build_training_step),
    SimgridCase("messages beside a ring", "ring:16,links=2", _build_message_beside_ring),
    SimgridCase("all-reduce of 64 KiB, torus", "torus:4x4,links=4",
                _run("all_reduce", 1 << 16, [range(16)])),
]  # fmt: skip


def read_times_ns() -> dict[str, int]:
    """Return the recorded times by the name of their case."""
    with FILE.open(encoding="utf-8") as lines:
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        return {row["case"]: int(row["time_ns"]) for row in rows}


def _record_times() -> Iterator[str]:
    version = simgrid_program.check_simgrid()
    command = "python test/support/simgrid_cases.py > test/data/simgrid.csv"
    yield f"# SimGrid {version}, network/model:CM02, latencies after each message: {command}"
    yield "case,network,time_ns"
    for case in CASES:
        yield f'"{case.name}","{case.network}",{case.simulate_with_simgrid()}'


if __name__ == "__main__":
    for text in _record_times():
        print(text, flush=True)
