"""The embedded simulator equals recorded runs of ASTRA-sim in every row of the table."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hespas import configs
from hespas.simulators import simulation_inputs
from hespas.simulators.embedded import SimulationOptions, run_event_simulation
from hespas.simulators.simulation_inputs import SimulationInputs
from hespas.support.errors import HespasError
from support import traces

ROWS = traces.experiments()


def prepare(folder: Path, row: dict[str, str]) -> SimulationInputs:
    """Write the collective and the system of a row."""
    trace_folder, system = traces.experiment(folder, row)
    return simulation_inputs.load_inputs(trace_folder, configs.load_system(str(system)))


def name(row: dict[str, str]) -> str:
    keys = ("collective", "topology", "npus", "algorithm", "size_bytes", "splits", "endpoint_delay")
    return "-".join(row[key] for key in keys)


@pytest.mark.parametrize("symmetry", [True, False], ids=["symmetric", "plain"])
@pytest.mark.parametrize("row", ROWS, ids=map(name, ROWS))
def test_row(row: dict[str, str], symmetry: bool, tmp_path: Path) -> None:
    if row["astra_unaware_max"] == "NONE":
        with pytest.raises(HespasError, match="endpoint-delay"):
            prepare(tmp_path, row)
        return
    result = run_event_simulation(prepare(tmp_path, row), SimulationOptions(symmetry=symmetry))
    finishes = [device.finish_ns for device in result.devices]
    assert len(finishes) == math.prod(map(int, row["npus"].split("x")))
    assert max(finishes) == int(row["astra_unaware_max"])
    assert min(finishes) == int(row["astra_unaware_min"])


@pytest.mark.parametrize("topology, finish, exposed", [
    ("Ring", 341545, 166545), ("FullyConnected", 341545, 166545), ("Switch", 360545, 185545),
])  # fmt: skip
def test_tiny_trace(topology: str, finish: int, exposed: int, tmp_path: Path) -> None:
    """Run compute, four kinds of collectives and a ring of messages; times of ASTRA-sim 518bd51."""
    ranks = [
        [
            traces.comp(1, micros=100),
            traces.coll(2, [1], traces.ALL_REDUCE, 4 << 20),
            traces.comp(3, [1], micros=50),
            traces.coll(4, [2, 3], traces.ALL_GATHER, 1 << 20),
            traces.comp(5, [4], micros=20),
            traces.coll(6, [5], traces.REDUCE_SCATTER, 4 << 20),
            traces.coll(7, [6], traces.ALL_TO_ALL, 4 << 20),
            traces.send(8, (rank + 1) % 4, [7], 1 << 20),
            traces.recv(9, (rank - 1) % 4, [7], 1 << 20),
            traces.comp(10, [8, 9], micros=5),
        ]
        for rank in range(4)
    ]
    system = traces.system(tmp_path / "system", [4], topology=topology, latency=1000)
    traces.save(tmp_path / "traces", ranks)
    result = run_event_simulation(
        simulation_inputs.load_inputs(tmp_path / "traces", configs.load_system(str(system)))
    )
    for device in result.devices:
        assert (device.finish_ns, device.exposed_ns) == (finish, exposed)
        assert (device.compute_ns, device.overlap_ns) == (175000, 50000)
