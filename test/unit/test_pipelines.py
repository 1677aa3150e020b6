"""Schedules of pipelines, their traces, bubbles and memory, against closed forms."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples

from hespas import configs
from hespas.chakra import check_traces
from hespas.chakra.schema import CollectiveCommType
from hespas.chakra.trace_steps import (
    CollectiveContent,
    ComputeContent,
    ProgramTrace,
    TraceStep,
)
from hespas.chakra.trace_writer import write_traces
from hespas.configs.network_fabric import SlowDeviceEntry
from hespas.configs.system_layout import SystemDimension, build_system_spec
from hespas.simulators import simulator_choice
from hespas.simulators.embedded.network import AnalyticalNetwork
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.network_settings import SimulatedNetwork
from hespas.workflows.pipelines.pipeline_estimate import (
    UpdateParts,
    divide_update,
    estimate_pipeline,
    find_worst_straggler,
    simulate_pipeline,
)
from hespas.workflows.pipelines.schedules import (
    FORWARD,
    INTERLEAVED,
    SCHEDULES,
    WEIGHT_GRADIENT,
    PipelineSchedule,
    StageTask,
    build_schedule,
    time_schedule,
)
from hespas.workflows.pipelines.stage_estimates import (
    UPDATE,
    StageEstimate,
    StagePart,
    StageProgramEstimate,
    compute_kept_bytes,
    count_in_flight,
    find_stage_files,
    list_task_kinds,
)
from hespas.workflows.pipelines.stage_workloads import divide_layers, plan_stage_workloads
from hespas.workflows.planning.pipeline_layouts import PipelineBounds, StageProgramBound
from hespas.workflows.studies.study_definition import StudyWorkload

SIZES = [(1, 1), (1, 4), (2, 2), (2, 8), (4, 4), (4, 8), (4, 12), (8, 16)]  # ranks, microbatches
DURATIONS = {"forward": 3, "backward": 6, "input_gradient": 4, "weight_gradient": 2}


def compute_bubble(schedule: PipelineSchedule) -> Fraction:
    spans = time_schedule(schedule, lambda task: DURATIONS[task.kind]).values()
    total = int(max(end for _, end in spans)) * schedule.ranks
    return Fraction(total - int(sum(end - start for start, end in spans)), total)


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
def test_bubbles_are_those_of_the_papers(ranks, microbatches):
    p, m = ranks, microbatches
    for name in ("gpipe", "1f1b"):
        assert compute_bubble(build_schedule(name, p, m)) == Fraction(p - 1, m + p - 1)
    for v in (1, 2, 3):
        schedule = build_schedule(INTERLEAVED, p, m, v)
        assert compute_bubble(schedule) == Fraction(p - 1, v * m + p - 1)
    f, b, w = (DURATIONS[kind] for kind in ("forward", "input_gradient", "weight_gradient"))
    idle = (p - 1) * (f + b - w)
    zero_bubble = compute_bubble(build_schedule("zb-h1", p, m))
    assert zero_bubble == Fraction(idle, m * (f + b + w) + idle)


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
def test_microbatches_in_flight_are_those_of_the_papers(ranks, microbatches):
    p, m = ranks, microbatches
    for rank in range(p):
        assert count_in_flight(build_schedule("gpipe", p, m), rank) == m
        assert count_in_flight(build_schedule("1f1b", p, m), rank) == min(p - rank, m)
        assert count_in_flight(build_schedule("zb-h1", p, m), rank) == min(p, m)


def test_interleaving_keeps_more_microbatches():
    assert [count_in_flight(build_schedule(INTERLEAVED, 4, 8, 2), r) for r in range(4)] == [
        11, 9, 7, 5,
    ]  # fmt: skip


@st.composite
def draw_schedules(draw: st.DrawFn) -> PipelineSchedule:
    name, ranks = draw(st.sampled_from(SCHEDULES)), draw(st.integers(1, 6))
    if name != INTERLEAVED:
        return build_schedule(name, ranks, draw(st.integers(1, 12)))
    return build_schedule(name, ranks, ranks * draw(st.integers(1, 3)), draw(st.integers(1, 3)))


@draw_examples(100)
@given(draw_schedules())
def test_schedules_are_complete_and_in_order(schedule):
    kinds = ["forward", *(["input_gradient", "weight_gradient"] if schedule.has_split_backward
                          else ["backward"])]  # fmt: skip
    expected = {
        StageTask(kind, stage, i)
        for kind in kinds
        for stage in range(schedule.stages)
        for i in range(schedule.microbatches)
    }
    ordered = schedule.order_tasks()
    assert len(ordered) == len(expected) and set(ordered) == expected
    place = {task: i for i, task in enumerate(ordered)}
    for task in ordered:
        assert all(place[needed] < place[task] for needed in schedule.list_inputs(task))
    for rank, tasks in enumerate(schedule.tasks):
        assert all(schedule.find_rank(task.stage) == rank for task in tasks)
        assert [place[task] for task in tasks] == sorted(place[task] for task in tasks)


def test_a_deadlock_is_an_error():
    tasks = ((StageTask("backward", 0, 0), StageTask(FORWARD, 0, 0)),)
    with pytest.raises(HespasError, match="waits for ever before the backward of microbatch 0"):
        PipelineSchedule("own", 1, 1, tasks).order_tasks()


def test_wrong_schedules_are_errors():
    with pytest.raises(UsageError, match="no schedule is called '1f2b'"):
        build_schedule("1f2b", 2, 4)
    with pytest.raises(UsageError, match="cannot run 6 microbatches"):
        build_schedule(INTERLEAVED, 4, 6, 2)
    with pytest.raises(UsageError, match="one stage for each rank"):
        build_schedule("1f1b", 4, 8, 2)
    with pytest.raises(UsageError, match="0 microbatches"):
        build_schedule("1f1b", 4, 0)


def make_program(
    micros: int, results: tuple[int, ...], devices: int = 1, arguments: int = 1000
) -> StageProgramEstimate:
    """A program of one compute node, and of an all-reduce if there are several devices."""
    trace = ProgramTrace(devices)
    trace.steps.append(TraceStep(1, (), ComputeContent("product", micros * 10**9)))
    if devices > 1:
        trace.groups[1] = tuple(range(devices))
        trace.steps.append(TraceStep(2, (1,), CollectiveContent("sum", 0, 4096, (1,))))
        trace.chain[2] = -1
    return StageProgramEstimate(
        trace, micros * 1e3, (micros * 900, micros * 1200), arguments, results,
        frozenset(range(len(results))), arguments + sum(results) + 7,
    )  # fmt: skip


def make_stages(count: int, devices: int = 1) -> list[StageEstimate]:
    """Stages whose forward programs send 64 bytes and keep 100; the B of ZB-H1 keeps 50 more."""
    return [
        StageEstimate(
            number,
            {
                "forward": make_program(1000, (64, 100), devices),
                "backward": make_program(2000, (64,), devices),
                "input_gradient": make_program(1000, (64, 50), devices),
                "weight_gradient": make_program(1000, (), devices),
                "update": make_program(10, (), devices, 5000),
            },
        )
        for number in range(count)
    ]


def leave_out_program(stage: StageEstimate, part: str) -> StageEstimate:
    programs = {key: value for key, value in stage.programs.items() if key != part}
    return StageEstimate(stage.number, programs)


def make_network(folder: Path, *counts: int) -> SimulatedNetwork:
    dimensions = [SystemDimension("Switch", count, 1e6, 0.5) for count in counts]
    return SimulatedNetwork(
        build_system_spec(folder, dimensions, 1000.0), SimulatorChoice("embedded")
    )


def estimate_step(schedule, stages, network):
    return estimate_pipeline(schedule, stages, network, configs.load_node("H100_80GB"))


def simulate_step_s(schedule, stages, network, slowdowns):
    return 1e-9 * simulate_pipeline(schedule, stages, network, slowdowns)[1].step_time_ns


@pytest.mark.parametrize(
    ("name", "per_rank", "bubble"),
    [("gpipe", 1, 3 / 11), ("1f1b", 1, 3 / 11), (INTERLEAVED, 2, 3 / 19), ("zb-h1", 1, 3 / 27)],
)
def test_the_simulation_has_the_bubble(tmp_path, name, per_rank, bubble):
    schedule = build_schedule(name, 4, 8, per_rank)
    estimate = estimate_step(schedule, make_stages(schedule.stages), make_network(tmp_path, 4))
    assert estimate["bubble_share"] == pytest.approx(bubble, abs=1e-5)
    assert estimate["ideal_bubble_share"] == pytest.approx(bubble)
    low_s, high_s = estimate["step_time_low_s"], estimate["step_time_high_s"]
    assert low_s == pytest.approx(0.9 * estimate["step_time_s"], rel=1e-3)
    assert high_s == pytest.approx(1.2 * estimate["step_time_s"], rel=1e-3)


def test_the_ideal_bubble_is_that_of_a_rank_with_a_slow_device(tmp_path):
    schedule, network = build_schedule("1f1b", 4, 8, 1), make_network(tmp_path, 4)
    slow = SlowDeviceEntry(devices=[1], speed=0.5)
    fabric = network.system.fabric.model_copy(update={"slow_devices": [slow]})
    network = replace(network, system=replace(network.system, fabric=fabric))
    estimate = estimate_step(schedule, make_stages(schedule.stages), network)
    assert estimate["bubble_share"] > 0.4
    assert estimate["ideal_bubble_share"] == pytest.approx(estimate["bubble_share"], abs=1e-5)


def test_memory_is_state_and_microbatches_and_temporaries(tmp_path):
    stages, network = make_stages(4), make_network(tmp_path, 4)
    forward = estimate_step(build_schedule("1f1b", 4, 8), stages, network)
    # the first stage receives no activation
    assert [rank["memory_bytes"] for rank in forward["ranks"]] == [
        5000 + 4 * 100 + 7, 5000 + 3 * 164 + 7, 5000 + 2 * 164 + 7, 5000 + 164 + 7,
    ]  # fmt: skip
    whole = build_schedule("gpipe", 4, 8)
    assert compute_kept_bytes(whole, stages, 1) == 8 * 164
    # Rank 3 has 4 forward results, of which 3 wait for their weights' gradients after the first.
    split = build_schedule("zb-h1", 4, 8)
    assert compute_kept_bytes(split, stages, 3) == 4 * 164 + 4 * 50
    stages[2] = leave_out_program(stages[2], "update")
    partial = estimate_step(whole, stages, network)
    assert partial["ranks"][2]["memory_bytes"] is None and partial["peak_bytes"] is None


def make_divided_update(devices: int) -> StageProgramEstimate:
    """An optimiser of ZeRO-1: gradients are summed, their norm is, weights change, are gathered."""
    program = make_program(10, (), devices, 5000)
    trace = ProgramTrace(devices, groups={1: tuple(range(devices))})
    kinds = CollectiveCommType
    contents = [
        ComputeContent("scale", 10 * 10**9),
        CollectiveContent("sum", kinds.REDUCE_SCATTER, 800_000_000, (1,)),
        CollectiveContent("norm", kinds.ALL_REDUCE, 4, (1,)),
        ComputeContent("adam", 10 * 10**9),
        CollectiveContent("gather", kinds.ALL_GATHER, 400_000_000, (1,)),
    ]
    for number, content in enumerate(contents, 1):
        trace.steps.append(TraceStep(number, (number - 1,) if number > 1 else (), content))
        if isinstance(content, CollectiveContent):
            trace.chain[number] = -1
    return replace(program, trace=trace)


def test_updates_run_alongside_the_tasks(tmp_path):
    """The gathers of the first stages and the sums of the last ones to end are not hidden."""
    schedule = build_schedule(INTERLEAVED, 2, 2, 3)
    stages = [
        replace(stage, programs={**stage.programs, UPDATE: make_divided_update(2)})
        for stage in make_stages(6, 2)
    ]
    network = SimulatedNetwork(
        build_system_spec(tmp_path, [SystemDimension("Switch", 4, 400, 0.5)], 1000.0),
        SimulatorChoice("embedded"),
    )
    node = configs.load_node("H100_80GB")
    serial, overlapped = (
        estimate_pipeline(schedule, stages, network, node, overlap_updates=overlap)
        for overlap in (False, True)
    )
    bare = [leave_out_program(stage, UPDATE) for stage in stages]
    tasks_s = estimate_pipeline(schedule, bare, network, node)["step_time_s"]
    update_s = (serial["step_time_s"] - tasks_s) / 3  # of one of the three stages of a rank
    assert update_s > 2e-3  # each device sends 400 MB at 400 GB/s, twice
    assert overlapped["step_time_s"] == pytest.approx(tasks_s + update_s, rel=0.01)
    assert overlapped["compute_s"] == serial["compute_s"]
    assert all(rank["update_s"] < update_s / 10 for rank in overlapped["ranks"])


def test_an_update_is_divided_by_its_large_sums():
    parts = divide_update(make_divided_update(2).trace)
    assert (parts.reductions, parts.gathers) == ({1, 2}, {5})
    assert divide_update(make_program(10, ()).trace) == UpdateParts(frozenset(), frozenset())


def test_a_slow_rank_delays_the_step(tmp_path):
    schedule, network = build_schedule("1f1b", 4, 8), make_network(tmp_path, 4)
    equal = estimate_step(schedule, make_stages(4), network)
    slow_s = simulate_step_s(schedule, make_stages(4), network, {2: 1.5})
    # 8 microbatches of 4.5 ms; before and after them those of ranks 0 and 1 take 6 ms; and after
    # its second forward task, rank 2 waits 1.5 ms for the first backward task of rank 3.
    assert equal["step_time_s"] == pytest.approx(33e-3, rel=1e-3)
    assert slow_s == pytest.approx(43.5e-3, rel=1e-3)


def test_the_straggler_that_costs_most(tmp_path):
    schedule, network = build_schedule("1f1b", 4, 8), make_network(tmp_path, 4)
    times_s = [simulate_step_s(schedule, make_stages(4), network, {rank: 1.5}) for rank in range(4)]
    rank, step_time_s = find_worst_straggler(schedule, make_stages(4), network, 1.5)
    assert step_time_s == max(times_s) == times_s[rank]


def test_the_time_of_messages(tmp_path):
    """A microbatch waits for one message in each direction; more of them hide all but these."""
    system = build_system_spec(tmp_path, [SystemDimension("Switch", 2, 1e-3, 500.0)], 1000.0)
    network = SimulatedNetwork(system, SimulatorChoice("embedded"))
    single = estimate_step(build_schedule("gpipe", 2, 1), make_stages(2), network)
    transfer_s = single["ranks"][0]["transfer_s"]
    # 64 bytes at 1 MB/s, and the latency of the links of a switch
    assert 64e-6 < transfer_s < 66e-6 and single["ranks"][1]["transfer_s"] == transfer_s
    work_s = 2 * 3e-3 + 10e-6
    assert single["step_time_s"] == pytest.approx(work_s + 2 * transfer_s, abs=1e-8)
    many = estimate_step(build_schedule("gpipe", 2, 8), make_stages(2), network)
    assert many["ranks"][1]["transfer_s"] == pytest.approx(transfer_s, abs=1e-8)


TIMES = st.integers(1, 5000)


@draw_examples(40)
@given(schedule=draw_schedules(), data=st.data())
def test_no_bound_of_a_schedule_is_above_its_simulation(tmp_path_factory, schedule, data):
    size = data.draw(st.sampled_from((64, 10**6, 10**9)))
    devices = data.draw(st.integers(1 if schedule.ranks > 1 else 2, 2))
    kinds: list[StagePart] = [*list_task_kinds(schedule.has_split_backward), UPDATE]
    micros: list[dict[StagePart, int]] = [
        {kind: data.draw(TIMES) for kind in kinds} for _ in range(schedule.stages)
    ]
    stages = [
        StageEstimate(
            number, {kind: make_program(t, (size, 100), devices) for kind, t in times.items()}
        )
        for number, times in enumerate(micros)
    ]
    bounds: list[dict[StagePart, StageProgramBound]] = [
        {kind: StageProgramBound(t * 1e-6, 0.0, 1000, (size, 100)) for kind, t in times.items()}
        for times in micros
    ]
    network = make_network(tmp_path_factory.mktemp("system"), schedule.ranks * devices)
    estimate = estimate_step(schedule, stages, network)
    idle = AnalyticalNetwork.from_system(network.system)
    bound = PipelineBounds(
        mock.Mock(), network.system.device_count, idle.compute_transfer_ns
    ).bound_schedule(schedule, bounds)
    assert bound.step_time_s <= estimate["step_time_s"] + 1e-9
    assert bound.compute_s <= estimate["compute_s"] + 1e-9
    assert bound.resident_bytes <= estimate["peak_bytes"]
    if devices == 1:  # without collectives it is the time of the simulation
        assert bound.step_time_s >= 0.999 * estimate["step_time_s"] - 1e-8 * len(
            schedule.order_tasks()
        )


@pytest.mark.parametrize("name", SCHEDULES)
def test_traces_are_valid_and_simulate_alike(tmp_path, name):
    schedule = build_schedule(name, 4, 8, 2 if name == INTERLEAVED else 1)
    network = make_network(tmp_path / "system", 2, 4)
    traces, simulated = simulate_pipeline(schedule, make_stages(schedule.stages, 2), network)
    folder = tmp_path / "traces"
    folder.mkdir()
    written = write_traces(traces.ranks, folder)
    assert len(written.nodes) == 8
    report = check_traces.check_trace_folder(folder)
    # Messages are asynchronous, so that priorities and not dependencies order communication.
    assert report.error_count == 0 and {p.rule for p in report.problems} <= {"order"}
    result = simulator_choice.simulate_inputs(load_inputs(folder, network.system), network.choice)
    assert result.devices == simulated.devices


def test_a_schedule_names_the_program_that_is_missing(tmp_path):
    stages = make_stages(2)
    stages[1] = leave_out_program(stages[1], WEIGHT_GRADIENT)
    with pytest.raises(HespasError, match="stage 1 has no weight gradient program"):
        estimate_step(build_schedule("zb-h1", 2, 2), stages, make_network(tmp_path, 2))


def test_files_of_stages_are_found_by_name(tmp_path):
    for name in ("stage.forward", "stage.backward", "stage-1.backward", "notes"):
        (tmp_path / f"{name}.mlir").write_text("")
    first, second = find_stage_files(tmp_path, 2)
    assert Path(first["backward"]).name == "stage.backward.mlir"
    assert Path(second["backward"]).name == "stage-1.backward.mlir"
    assert Path(second["forward"]).name == "stage.forward.mlir"
    (tmp_path / "stage-01.update.mlir").write_text("")
    assert [one.get("update", "") != "" for one in find_stage_files(tmp_path, 2)] == [False, True]
    with pytest.raises(UsageError, match="the schedule has 1 stages") as refused:
        find_stage_files(tmp_path, 1)  # not the first half of a model
    assert refused.value.where.endswith("stage-01.update.mlir")
    (tmp_path / "stage-1.update.mlirbc").write_text("")
    with pytest.raises(UsageError, match=r"stage-01\.update\.mlir is the same program"):
        find_stage_files(tmp_path, 2)
    (tmp_path / "stage-1.update.mlirbc").unlink()
    (tmp_path / "stage-1.sideways.mlir").write_text("")
    with pytest.raises(UsageError, match="no part 'sideways'"):
        find_stage_files(tmp_path, 2)
    with pytest.raises(UsageError, match="no forward program of stage 0"):
        find_stage_files(tmp_path.parent, 1)
    with pytest.raises(UsageError, match="no such folder"):
        find_stage_files(tmp_path / "none", 1)


def test_layers_are_divided_over_stages():
    assert divide_layers(126, 16) == [7, *[8] * 14, 7]
    assert divide_layers(7, 4) == [2, 2, 2, 1] and divide_layers(3, 2) == [2, 1]
    with pytest.raises(UsageError, match="3 layers cannot fill 4 stages"):
        divide_layers(3, 4)
    model = StudyWorkload("moe", {"model": "deepseek-v3", "layers": "8"}, {"data": 2}, {})
    stages = plan_stage_workloads(model, build_schedule("1f1b", 4, 8))
    options = [stage[FORWARD].options for stage in stages]
    assert [one["dense_layers"] for one in options] == ["2", "1", "0", "0"]
    assert [one["position"] for one in options] == ["first", "middle", "middle", "last"]
    assert list(stages[0]) == ["forward", "backward", "update"]


def test_the_pattern_of_windows_goes_on_in_the_next_stage():
    """Every sixth layer of Gemma 3 4B is global, and every second one of gpt-oss."""
    shifts = {}
    for name in ("gemma3-4b", "gpt-oss-20b", "8b"):
        model = StudyWorkload("moe", {"model": name, "layers": "13"}, {"data": 2}, {})
        stages = plan_stage_workloads(model, build_schedule("1f1b", 4, 8))
        options = [stage[FORWARD].options for stage in stages]
        assert [one["layers"] for one in options] == ["3", "4", "3", "3"]
        shifts[name] = [one.get("earlier_layers") for one in options]
    assert shifts["gemma3-4b"] == [None, "3", "1", "4"]
    assert shifts["gpt-oss-20b"] == [None, "1", "1", None]
    assert shifts["8b"] == [None] * 4
