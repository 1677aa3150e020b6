"""Traces and systems of other tools, which ASTRA-sim accepts, run as they are, with a note."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hespas import configs
from hespas.simulators import simulator_choice
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
from hespas.simulators.simulation_result import SimulationResult
from hespas.support.errors import HespasError
from hespas.tools.hespas import main
from support import traces


def simulate(
    folder: Path, groups_file: Path | None = None, **options: float
) -> tuple[SimulationResult, list[str]]:
    notes: list[str] = []
    inputs = load_inputs(folder / "traces", str(folder / "system"), groups_file=groups_file)
    choice = SimulatorChoice("embedded", SimulationOptions(**options))  # type: ignore[arg-type]
    return simulator_choice.simulate_inputs(inputs, choice, note=notes.append), notes


def edit_settings(folder: Path, **changes: object) -> None:
    """Change keys of system.json; None removes one."""
    path = folder / "system" / "system.json"
    settings = json.loads(path.read_text())
    settings |= {key.replace("_", "-"): value for key, value in changes.items()}
    path.write_text(json.dumps({k: v for k, v in settings.items() if v is not None}))


def test_communicators_of_one_device_may_be_listed(tmp_path: Path, capsys) -> None:
    traces.system(tmp_path / "system", [2])
    groups = {1: [0, 1], 2: [0], 3: [1]}
    folder = traces.save(tmp_path / "traces", [[traces.coll(1)]] * 2, groups)
    _, notes = simulate(tmp_path)
    text = "2 communicators of fewer than two devices, unused: 2, 3"
    assert notes == [f"{folder / 'comm_group.json'}: {text}"]
    assert main(["trace", "check", str(folder)]) == 0
    assert "communicator '2' has 1 member: a collective on it never" in capsys.readouterr().out


def test_communicators_of_one_device_cannot_be_used(tmp_path: Path, capsys) -> None:
    traces.system(tmp_path / "system", [2])
    nodes = [traces.coll(1, group=2)], [traces.comp(1)]
    folder = traces.save(tmp_path / "traces", nodes, {2: [0]})
    with pytest.raises(HespasError, match="communicator 2, which has one device, never") as caught:
        simulate(tmp_path)
    assert caught.value.where.endswith("dev.0.et node 1")
    assert main(["trace", "check", str(folder)]) == 1
    assert "communicator 2 has one rank" in capsys.readouterr().out


def test_a_flag_names_the_communicators(tmp_path: Path, capsys) -> None:
    traces.system(tmp_path / "system", [4])
    folder = traces.save(tmp_path / "traces", [[traces.coll(1)]] * 4, {1: [0, 1, 2, 3]})
    named = (folder / "comm_group.json").rename(tmp_path / "groups.json")
    result, _ = simulate(tmp_path, groups_file=named)
    assert result.comms[0].ranks == (0, 1, 2, 3)
    flags = ["--comm-groups", str(named)]
    system = ["--system", str(tmp_path / "system")]
    for command in (["simulate", str(folder), *system], ["trace", "check", str(folder)]):
        assert main([*command, *flags]) == 0
    capsys.readouterr()
    with pytest.raises(HespasError, match="communicator 1 is not in comm_group"):
        simulate(tmp_path)
    with pytest.raises(HespasError, match=r"absent.json: error: cannot read it: No such file"):
        simulate(tmp_path, groups_file=tmp_path / "absent.json")


def test_one_algorithm_for_all_dimensions(tmp_path: Path) -> None:
    traces.save(tmp_path / "traces", [[traces.coll(1)]] * 6)
    finishes = []
    for algorithm in (["oneRing"], ["oneRing", "direct"]):
        traces.system(tmp_path / "system", [2, 3], algorithm=algorithm)
        finishes.append(simulate(tmp_path)[0].step_time_ns)
    assert finishes[0] == finishes[1]


def test_defaults_of_astra_sim(tmp_path: Path) -> None:
    """The default of the endpoint delay is 10 ns and not scaled."""
    traces.save(tmp_path / "traces", [[traces.coll(1)]] * 4)
    traces.system(tmp_path / "system", [4], endpoint_delay=10)
    expected = simulate(tmp_path)[0].step_time_ns
    edit_settings(tmp_path, endpoint_delay=None, collective_optimization=None, track_local_mem=1)
    for scale in (1.0, 3.0):
        result, notes = simulate(tmp_path, injection_scale=scale)
        assert result.step_time_ns == expected
    place = tmp_path / "system" / "system.json"
    assert notes == [
        f"{place}: collective-optimization is missing, but has no effect here",
        f"{place}: track-local-mem has no effect here",
        f"{place}: endpoint-delay is missing: 10 ns, as in ASTRA-sim",
    ]


def test_an_optimization_that_has_an_effect_is_required(tmp_path: Path) -> None:
    traces.system(tmp_path / "system", [2, 2])
    edit_settings(tmp_path, collective_optimization=None)
    with pytest.raises(HespasError, match="'collective-optimization' is missing, on which"):
        configs.load_system(str(tmp_path / "system"))
    edit_settings(tmp_path, all_reduce_implementation=["oneRing"])
    assert configs.load_system(str(tmp_path / "system")).notes


@pytest.mark.parametrize("key", ["model_shared_bus", "replay_only"])
def test_features_that_are_not_simulated(key: str, tmp_path: Path) -> None:
    traces.system(tmp_path / "system", [2], **{key: 0})
    configs.load_system(str(tmp_path / "system"))
    edit_settings(tmp_path, **{key: 1})
    with pytest.raises(HespasError, match=key.replace("_", "-")):
        configs.load_system(str(tmp_path / "system"))


def test_custom_collectives_without_other_algorithms(tmp_path: Path, monkeypatch) -> None:
    """The prefix is relative to the working directory, as in ASTRA-sim's examples."""
    size = 1 << 20
    nodes = [[traces.send(0, 1, size=size)], [traces.recv(0, 0, size=size)]]
    traces.save(tmp_path / "shared" / "custom", nodes)
    traces.system(tmp_path / "system", [2])
    lists = [f"{kind}_implementation" for kind in ("all_gather", "reduce_scatter", "all_to_all")]
    edit_settings(tmp_path, all_reduce_implementation=None, **dict.fromkeys(lists))
    edit_settings(tmp_path, all_reduce_implementation_custom=["shared/custom/dev"])
    traces.save(tmp_path / "traces", [[traces.coll(1, group=0)]] * 2)
    monkeypatch.chdir(tmp_path)
    assert simulate(tmp_path)[0].step_time_ns == int(500 + size / (100 * 2**30 / 1e9))
    node = traces.coll(1, kind=traces.ALL_GATHER, group=0)
    traces.save(tmp_path / "traces", [[node]] * 2)
    with pytest.raises(HespasError, match="the key 'all-gather-implementation' is missing, but"):
        simulate(tmp_path)
