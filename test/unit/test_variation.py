"""What varies: steps of unlike devices, and jobs with failures, against closed forms."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from support.tool_commands import parse_pipe, run_command

from hespas import configs
from hespas.configs.network_fabric import SlowDeviceEntry
from hespas.simulators.embedded import run_event_simulation
from hespas.simulators.simulation_inputs import load_inputs
from hespas.support.errors import HespasError, UsageError
from hespas.tools import hespas
from hespas.workflows.variation import checkpoint_goodput, step_variation
from hespas.workflows.variation.checkpoint_goodput import FailureModel, goodput
from hespas.workflows.variation.step_variation import VariationOptions, vary_step
from hespas.workflows.variation.trace_replay import TraceReplay
from support import traces as t


def make_replay(folder: Path, ranks, counts, groups=None, **fabric) -> TraceReplay:
    """Simulate traces on a Switch and return their replay."""
    t.save(folder / "traces", ranks, groups)
    system = configs.load_system(str(t.system(folder / "system", counts, topology="Switch")))
    system = replace(system, fabric=system.fabric.model_copy(update=fabric))
    inputs = load_inputs(folder / "traces", system)
    return TraceReplay(inputs, run_event_simulation(inputs))


def write_step(folder: Path, devices: int, micros: int = 1000) -> Path:
    """Write traces of compute followed by an all-reduce, and their system."""
    t.save(folder, [[t.comp(1, micros=micros), t.coll(2, [1], size=4096)]] * devices)
    return t.system(folder.with_name("system"), (devices,), topology="Switch")


@pytest.mark.parametrize("devices", [4, 64])
def test_a_step_waits_for_the_slowest_of_n_normal_devices(devices: int, tmp_path: Path) -> None:
    """The mean of the maximum of n standard normal values is 1.0294 for 4, and 2.3437 for 64."""
    system = write_step(tmp_path / "traces", devices)
    variation = step_variation.variation(
        str(tmp_path / "traces"),
        device_spread=0.05,
        draws=4000,
        seed=3,
        system=str(system),
    )
    expected = {4: 1.0294, 64: 2.3437}[devices]
    growth = (variation.mean_s - variation.step_time_s) / 1e-3 / 0.05
    assert growth == pytest.approx(expected, abs=0.05)
    # The median of the maximum is the quantile 0.5 ** (1 / n) of one device.
    quantile = step_variation.NormalDist().inv_cdf(0.99 ** (1 / devices))
    p99_s = variation.compute_quantile_s(0.99)
    assert (p99_s - variation.step_time_s) / 1e-3 / 0.05 == pytest.approx(quantile, abs=0.2)


def test_jitter_averages_out_over_a_chain_of_nodes(tmp_path: Path) -> None:
    chain = [t.comp(k, [k - 1] if k > 1 else [], micros=10) for k in range(1, 101)]
    replay = make_replay(tmp_path, [[*chain, t.coll(101, [100])]] * 2, (2,))
    variation = vary_step(replay, VariationOptions(jitter=0.1, draws=4000))
    # The mean of the maximum of two values is their deviation over the square root of pi.
    expected_s = 0.1 * 10e-6 * math.sqrt(100) / math.sqrt(math.pi)
    assert variation.mean_s - variation.step_time_s == pytest.approx(expected_s, rel=0.1)


def test_equal_seeds_give_equal_draws(tmp_path: Path) -> None:
    replay = make_replay(tmp_path, [[t.comp(1, micros=90), t.coll(2, [1])]] * 4, (4,))
    options = VariationOptions(device_spread=0.02, jitter=0.02, draws=50, seed=7)
    assert vary_step(replay, options) == vary_step(replay, options)
    assert vary_step(replay, options).draws_s != vary_step(replay, replace(options, seed=8)).draws_s


def test_a_straggler_costs_what_the_simulation_of_a_slow_device_says(tmp_path: Path) -> None:
    ranks = [[t.comp(1, micros=90), t.coll(2, [1]), t.comp(3, [1], micros=300), t.coll(4, [2, 3])]]
    replay = make_replay(tmp_path / "even", ranks * 4, (4,))
    for cost in step_variation.list_straggler_costs(replay):
        slow = make_replay(
            tmp_path / f"{cost.speed}",
            ranks * 4,
            (4,),
            slow_devices=[SlowDeviceEntry(devices=[cost.device], speed=cost.speed)],
        )
        assert 1e9 * cost.step_time_s == pytest.approx(slow.step_time_ns, abs=2)


def test_random_programs_of_pipelines_are_replayed_exactly(tmp_path: Path) -> None:
    """Stages of unlike compute exchange messages and reduce in pairs; the replay checks itself."""
    rng = random.Random(5)
    for case in range(5):
        stages, pair = 4, {1: [0, 1], 2: [2, 3], 3: [0, 1, 2, 3]}
        ranks = []
        for stage in range(stages):
            nodes, last = [], 0
            for batch in range(3):
                number = 10 * batch + 1
                deps = [last] if last else []
                if stage:
                    nodes.append(t.recv(number, stage - 1, [], tag=batch + 1))
                    deps = [*deps, number]
                nodes.append(t.comp(number + 1, deps, micros=rng.randrange(5, 60)))
                if stage + 1 < stages:
                    nodes.append(t.send(number + 2, stage + 1, [number + 1], tag=batch + 1))
                last = number + 1
            nodes.append(t.coll(91, [last], group=1 + stage // 2))
            nodes.append(t.coll(92, [91], group=3))
            ranks.append(nodes)
        replay = make_replay(tmp_path / str(case), ranks, (4,), pair)
        costs = step_variation.list_straggler_costs(replay)
        assert all(cost.step_time_s * 1e9 > replay.step_time_ns for cost in costs[-1:])


def test_a_spread_from_bands_is_that_of_the_run(tmp_path: Path) -> None:
    write_step(tmp_path / "traces", 4)
    (tmp_path / "traces" / "run.json").write_text(json.dumps({"compute_band_s": None}))
    with pytest.raises(HespasError, match="no band of compute"):
        step_variation.variation(str(tmp_path / "traces"), device_spread="bands")
    with pytest.raises(UsageError, match=r"device_spread is '0\.03'"):
        step_variation.variation(str(tmp_path / "traces"), device_spread="0.03")
    band = {"compute_s": 1e-3, "compute_band_s": [0.9e-3, 1.1e-3]}
    (tmp_path / "traces" / "run.json").write_text(json.dumps(band))
    variation = step_variation.variation(
        str(tmp_path / "traces"),
        device_spread="bands",
        draws=5,
        system=str(tmp_path / "system"),
    )
    assert variation.options.device_spread == pytest.approx(0.1 / 1.2816, rel=1e-3)
    with pytest.raises(UsageError, match="not from 0 to"):
        VariationOptions(jitter=0.5)


MODELS = [FailureModel(3600.0, 30.0, 300.0), FailureModel(600.0, 60.0, 120.0)]


@pytest.mark.parametrize("model", MODELS)
def test_goodput_is_that_of_a_simulated_failure_process(model: FailureModel) -> None:
    """Work, checkpoints and restarts are interrupted at random times."""
    rng, interval_s = random.Random(11), model.find_best_interval_s()
    time_s = work_s = 0.0
    while work_s < 4000 * interval_s:
        remaining_s = interval_s + model.checkpoint_s
        until_failure_s = rng.expovariate(1 / model.mtbf_s)
        while until_failure_s < remaining_s:
            time_s += until_failure_s
            remaining_s = model.restart_s + interval_s + model.checkpoint_s
            until_failure_s = rng.expovariate(1 / model.mtbf_s)
        time_s += remaining_s
        work_s += interval_s
    assert work_s / time_s == pytest.approx(model.compute_goodput(interval_s), rel=0.02)


@pytest.mark.parametrize("model", MODELS)
def test_the_best_interval_is_the_best(model: FailureModel) -> None:
    best_s = model.find_best_interval_s()
    best = model.compute_goodput(best_s)
    assert all(model.compute_goodput(best_s * factor) < best for factor in (0.5, 0.99, 1.01, 2))


def test_devices_that_fail_at_once_make_no_progress() -> None:
    model = FailureModel(1e-11, 30.0, 300.0)
    assert model.compute_goodput(model.find_best_interval_s()) == 0


def test_the_estimates_of_young_and_daly_approach_the_best_interval() -> None:
    errors = []
    for checkpoint_s in (100.0, 10.0, 1.0):
        model = FailureModel(10_000.0, checkpoint_s, 0.0)
        best_s = model.find_best_interval_s()
        errors.append(abs(model.estimate_young_interval_s() / best_s - 1))
        assert abs(model.estimate_interval_s() / best_s - 1) < min(1e-3, errors[-1])
    assert errors[0] > errors[1] > errors[2]


def test_a_page_that_cannot_be_written_is_an_error_before_the_study(tmp_path: Path) -> None:
    page = tmp_path / "nowhere" / "page.html"
    arguments = ["study", "variation", str(tmp_path), "--page", str(page)]
    with pytest.raises(HespasError, match="nowhere"):  # not of the folder without traces
        hespas.main(arguments)


def test_rows_of_goodput() -> None:
    result = goodput([8, 16384], 30.0, restart_s=300.0, step_time_s=2.0)
    few, many = result.rows
    assert few.goodput > many.goodput
    assert few.steps is not None and many.steps is not None and few.steps > many.steps
    assert many.effective_step_s == pytest.approx(2.0 / many.goodput)
    parts = many.goodput / (1 - many.checkpoint_share) + many.failure_share
    assert parts == pytest.approx(1)
    assert "16,384" in str(result) and json.loads(json.dumps(result.to_json()))["rows"]
    for wrong in (
        {"devices": []}, {"checkpoint_s": 0.0}, {"checkpoint_s": math.nan}, {"step_time_s": -1.0},
        {"step_time_s": 0.0}, {"interval_s": math.nan}, {"device_mtbf_h": math.nan},
    ):  # fmt: skip
        with pytest.raises(UsageError):
            goodput(**{"devices": [8], "checkpoint_s": 30.0, **wrong})


def run_line(line: str):
    """Run one command of hespas; return its exit code and what it printed."""
    commands = parse_pipe(line)
    assert commands is not None
    return run_command(commands[0])


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_step(tmp_path / "traces", 4)
    done = run_line(
        "hespas study variation traces --system system --device-spread 0.05 --draws 20 "
        "--csv draws.csv --plot draws.svg --page draws.html --json"
    )
    assert done.code == 0, done.err
    figures = json.loads(done.out)
    assert figures["p50_s"] < figures["p95_s"] < figures["p99_s"]
    assert len(Path("draws.csv").read_text().splitlines()) == 21 and Path("draws.svg").exists()
    assert "P99" in Path("draws.html").read_text()
    done = run_line(
        "hespas study goodput --devices 1024 --checkpoint-gb 600 --storage-gb-s 20 "
        "--plot goodput.svg"
    )
    assert done.code == 0 and "1,024" in done.out and Path("goodput.svg").exists()
    done = run_line("hespas study goodput --devices 1024")
    assert done.code == 2 and "given once" in done.err


def test_the_default_rate_of_failures_has_a_source() -> None:
    hours = 16384 * 54 * 24 / 419
    assert pytest.approx(hours, rel=1e-3) == checkpoint_goodput.DEVICE_MTBF_H
