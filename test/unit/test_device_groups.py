"""One job on devices of several kinds: every collective waits for the slowest of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.tool_commands import parse_pipe, run_command

import hespas
from hespas import configs
from hespas.simulators.combined_jobs import PlacedTraces
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.variation.device_groups import (
    MixedStep,
    parse_device_group,
    simulate_groups,
)
from support import traces as t

# All devices of a collective in the switch end together, after the last one has started.
SYSTEM = "switch:4,links=1,link_gb_s=50,latency_ns=500,local_mem_gb_s=3350,reduction=1"


def write_kinds(folder: Path, **kinds_us: tuple[int, int]) -> None:
    """Write a job of two steps of compute, each before an all-reduce, for each kind of device."""
    for name, (first_us, second_us) in kinds_us.items():
        nodes = [
            t.comp(1, micros=first_us), t.coll(2, [1]),
            t.comp(3, [2], micros=second_us), t.coll(4, [3]),
        ]  # fmt: skip
        t.save(folder / name, [nodes] * 4)


def simulate(folder: Path, **devices: tuple[int, ...]) -> MixedStep:
    groups = [PlacedTraces(folder / name, own) for name, own in devices.items()]
    return simulate_groups(groups, configs.load_system(SYSTEM), SimulatorChoice("embedded"))


def test_the_slowest_kind_determines_the_step(tmp_path: Path) -> None:
    write_kinds(tmp_path, fast=(100, 50), slow=(250, 120))
    step = simulate(tmp_path, fast=(0, 1), slow=(2, 3))
    fast, slow = step.groups
    assert step.step_time_s == slow.alone_s > fast.alone_s
    assert (fast.compute_s, slow.compute_s) == pytest.approx((150e-6, 370e-6))
    assert fast.exposed_comm_s - slow.exposed_comm_s == pytest.approx(220e-6)


def test_a_step_waits_for_another_kind_at_each_collective(tmp_path: Path) -> None:
    """Each kind is slower in one half: the step is longer than that of either kind alone."""
    write_kinds(tmp_path, a=(100, 300), b=(200, 100))
    step = simulate(tmp_path, a=(0, 2), b=(1, 3))
    a, b = step.groups
    collectives_s = a.alone_s - 400e-6
    assert b.alone_s == pytest.approx(300e-6 + collectives_s)
    assert step.step_time_s == pytest.approx(500e-6 + collectives_s)


def test_one_kind_alone_is_the_run_of_it(tmp_path: Path) -> None:
    write_kinds(tmp_path, a=(100, 300))
    step = simulate(tmp_path, a=(0, 1, 2, 3))
    assert step.step_time_s == step.groups[0].alone_s


@pytest.mark.parametrize(
    ("own", "match"),
    [
        ({"a": (0, 1), "b": (1, 2, 3)}, "device 1 is in two groups"),
        ({"a": (0, 1), "b": (3,)}, "device 2 of system .* is in no group"),
        ({"a": (0, 1), "b": (2, 3, 4)}, "has no device 4"),
    ],
)
def test_groups_divide_the_devices(own: dict, match: str, tmp_path: Path) -> None:
    write_kinds(tmp_path, a=(1, 1), b=(2, 2))
    with pytest.raises(HespasError, match=match):
        simulate(tmp_path, **own)


def test_unlike_programs_are_refused(tmp_path: Path) -> None:
    write_kinds(tmp_path, a=(1, 1))
    t.save(tmp_path / "b", [[t.comp(1), t.coll(2, [1], size=1 << 10)]] * 4)
    with pytest.raises(HespasError, match="meets"):
        simulate(tmp_path, a=(0, 1), b=(2, 3))
    t.save(tmp_path / "c", [[t.coll(1, group=7)]] * 4, {7: [0, 1, 2, 3]})
    with pytest.raises(HespasError, match="communicators differ"):
        simulate(tmp_path, a=(0, 1), c=(2, 3))


@pytest.mark.parametrize("text", ["a", "=0-3", "a=", "a=3-1", "a=0-x", "a=-3"])
def test_groups_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError, match=r"FOLDER=DEVICES|no list of devices|names no device"):
        parse_device_group(text)


def test_the_forms_of_a_request_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_kinds(Path(), a=(100, 50), b=(250, 120))
    Path("g.yml").write_text(f"system: '{SYSTEM}'\ngroups:\n- a=0,2-3\n- b=1\n")
    Path("g.json").write_text(json.dumps({"groups": ["a=0,2-3", "b=1"]}))
    step = hespas.groups({"a": [0, 2, 3], "b": 1}, system=SYSTEM)
    assert hespas.groups({"a": "0, 2-3", "b": "1"}, system=SYSTEM) == step
    assert hespas.groups("g.yml") == hespas.groups(Path("g.json"), system=SYSTEM) == step
    assert str(step).startswith("Step of ") and step.to_json()["groups"][1]["devices"] == (1,)
    commands = parse_pipe("hespas study groups g.yml --json")
    assert commands is not None
    figures = json.loads(run_command(commands[0]).out)
    assert figures == json.loads(json.dumps(step.to_json()))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("group: [a=0]\n", "unknown key 'group'"),
        ("system: x\n", "no list of groups"),
        ("groups: a=0\n", "no list of groups"),
        ("groups: [a]\n", "FOLDER=DEVICES"),
        ("groups: [a=0]\nsystem: [x, y]\n", "'system' is not one name"),
    ],
)
def test_files_that_cannot_be_read(text: str, match: str, tmp_path: Path) -> None:
    path = tmp_path / "groups.yml"
    path.write_text(text)
    with pytest.raises(UsageError, match=match):
        hespas.groups(path)


def test_groups_without_devices() -> None:
    for devices, match in (({}, "there are no groups"), ({"a": []}, "'a' has no device")):
        with pytest.raises(UsageError, match=match):
            hespas.groups(devices)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_kinds(Path(), a=(100, 50), b=(250, 120))
    commands = parse_pipe(
        f"hespas study groups a=0,2-3 b=1 --system {SYSTEM} --json --csv g.csv --plot g.svg"
    )
    assert commands is not None
    done = run_command(commands[0])
    assert done.code == 0, done.err
    figures = json.loads(done.out)
    assert [row["devices"] for row in figures["groups"]] == [[0, 2, 3], [1]]
    assert figures["step_time_s"] == figures["groups"][1]["alone_s"]
    assert len(Path("g.csv").read_text().splitlines()) == 3 and Path("g.svg").exists()
