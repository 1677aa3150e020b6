"""Measuring: each distinct region once, whatever its worker does, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.measuring import PROGRAM, Fake, FakeConfig, OwnTurns, X, calls
from support.paths import ROOT
from support.processes import start_process

from hespas import passes
from hespas.dialects import verify_attrs
from hespas.dialects.attrs import Cost, RegionAttr
from hespas.dialects.mlir import collect_functions
from hespas.estimators.base import CostItem
from hespas.estimators.measure import turns
from hespas.estimators.measure.measurement_cache import MeasurementCache
from hespas.estimators.measure.measurement_job import MeasureError
from hespas.estimators.measure.measurement_run import MeasureOptions, MeasureStatistics
from hespas.estimators.measure.processes import LocalWorkerPool, WorkerSpec
from hespas.estimators.measure.progress import (
    ProgressCounter,
    format_duration,
    open_progress_display,
)
from hespas.estimators.rules.base import UnknownCost
from hespas.passes.annotate.traverse import annotate_module
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError, UsageError


@pytest.fixture
def measured(parse, tmp_path):
    """Annotate a program with a fake estimator; (module, statistics, run)."""

    def go(text: str = PROGRAM, cls: type[Fake] = Fake, keep_going=False, options=None, **config):
        module = parse(text)
        passes.run_pipeline(module, "prepare,split-linear")
        run = PassRun(note=lambda text: None)
        settings = {"cache": str(tmp_path / "cache.sqlite"), "timeout": 20.0, **(options or {})}
        annotation = annotate_module(
            module, cls(FakeConfig(**config)), run,
            keep_going=keep_going, options=MeasureOptions(**settings),
        )  # fmt: skip
        verify_attrs.verify_attributes(module)
        return module, annotation.measured, run

    return go


def counts(statistics: MeasureStatistics) -> tuple[int, ...]:
    return (
        statistics.regions,
        statistics.free,
        statistics.distinct,
        statistics.measured,
        statistics.cached,
        statistics.failed,
    )


def test_each_distinct_region_is_measured_once(measured, tmp_path):
    log = tmp_path / "log"
    module, statistics, _ = measured(log=str(log))
    assert counts(statistics) == (4, 1, 2, 2, 0, 0)
    assert len(calls(log)) == 2
    assert len({line.split()[0] for line in calls(log)}) == 1, "one worker does both"
    regions = [f for f in collect_functions(module).values() if RegionAttr.NAME in f.attributes]
    sizes = [int(line.split()[1]) for line in calls(log)]
    costs = [Cost.read_from_op(function) for function in regions]
    assert [cost.latency_ns for cost in costs] == pytest.approx([size * 1e3 for size in sizes])
    assert costs[0].bound == "measured" and costs[0].flops == 64 * 64
    total = [
        Cost.read_from_op(op.operation)
        for op in collect_functions(module)["main"].regions[0].blocks[0]
    ]
    assert total[-2:] == [None, None], "the free region, and the end"


def test_the_cache_saves_every_worker_call(measured, tmp_path):
    log = tmp_path / "log"
    first, _, _ = measured(log=str(log))
    second, statistics, _ = measured(log=str(log))
    assert counts(statistics) == (4, 1, 2, 0, 2, 0)
    assert len(calls(log)) == 2
    assert str(first) == str(second)
    assert statistics.uncached_s > statistics.elapsed_s


@pytest.mark.parametrize("changed", [{"mark": "x"}, {"device": "another device"}])
def test_what_results_depend_on_is_in_the_key(measured, changed):
    measured()
    assert measured(**changed)[1].measured == 2
    assert measured(**changed)[1].cached == 2
    assert measured()[1].cached == 2


def test_another_version_measures_again(measured):
    measured()

    class Newer(Fake):
        version = "2"

    assert measured(cls=Newer)[1].measured == 2


@pytest.mark.long
def test_jobs_do_not_change_results(measured):
    one, _, _ = measured(options={"cache": "none"})
    two, statistics, _ = measured(options={"cache": "none", "jobs": 2})
    assert str(one) == str(two) and statistics.measured == 2


@pytest.mark.parametrize(
    ("act", "options", "message"),
    [
        ("exit", {}, "the worker exited with code 7; its last lines: first words | last words"),
        ("silent exit", {}, "the worker exited with code 7 and printed nothing"),
        ("segfault", {}, "the worker crashed (SIGSEGV)"),
        ("hang", {"timeout": 0.5}, "it took more than 0.5 s"),
        ("memory", {"memory_limit": 2.0}, "it ran out of memory"),
    ],
)
def test_a_lost_worker_costs_a_try_and_then_the_region(measured, tmp_path, act, options, message):
    log = tmp_path / "log"
    behaviour = {"act": act, "where": "stablehlo.sine", "log": str(log)}
    with pytest.raises(MeasureError) as caught:
        measured(options=options, **behaviour)
    assert message in str(caught.value) and "@region_2 could not be measured" in str(caught.value)
    assert caught.value.where and len(calls(log)) == 3, "the good one, and two tries"
    assert len({line.split()[0] for line in calls(log)}) == 2, "the second in a new worker"
    module, statistics, run = measured(keep_going=True, options=options, **behaviour)
    assert counts(statistics) == (4, 1, 2, 0, 1, 1) and statistics.retried == 1
    assert len(calls(log)) == 5, "the good one is cached, the failure is not"
    gaps = [
        Cost.read_from_op(f).gap
        for f in collect_functions(module).values()
        if RegionAttr.NAME in f.attributes
    ]
    assert gaps[0] is None and message in gaps[1]
    assert any(message in warning for warning in run.warnings)


@pytest.mark.parametrize("act", ["once exit", "once hang", "once memory"])
def test_what_fails_once_is_measured(measured, tmp_path, act):
    limits = {"timeout": 1.0, "memory_limit": 2.0}
    _, statistics, _ = measured(
        act=act, where="stablehlo.sine", mark=str(tmp_path / "mark"), options=limits
    )
    assert counts(statistics) == (4, 1, 2, 2, 0, 0) and statistics.retried == 1


def test_an_error_is_not_tried_again_and_not_cached(measured, tmp_path):
    log = tmp_path / "log"
    for calls_so_far in (1, 2):
        with pytest.raises(MeasureError) as caught:
            measured(act="raise", where="tanh", log=str(log))
        assert "@region_0 could not be measured: ValueError: the compiler says no; use" in str(
            caught.value
        )
        assert len(calls(log)) == calls_so_far


def test_a_worker_that_calls_sys_exit_says_so(measured):
    with pytest.raises(MeasureError, match="could not be measured: SystemExit: 7"):
        measured(act="leave", where="tanh")


def test_what_can_never_run_is_cached(measured, tmp_path):
    log = tmp_path / "log"
    behaviour = {"act": "unsupported", "where": "tanh", "log": str(log), "keep_going": True}
    assert counts(measured(**behaviour)[1]) == (4, 1, 2, 1, 0, 1)
    assert counts(measured(**behaviour)[1]) == (4, 1, 2, 0, 1, 1)
    assert len(calls(log)) == 2
    behaviour["keep_going"] = False
    with pytest.raises(MeasureError, match="the device has no such type"):
        measured(**behaviour)


def test_equal_regions_without_a_module_fail_once(measured):
    class Picky(Fake):
        def build_module_text(self, item):
            text = super().build_module_text(item)
            if "tanh" in text:
                raise UnknownCost("no tanh here", op=item.op)
            return text

    _, statistics, run = measured(cls=Picky, keep_going=True)
    assert counts(statistics) == (4, 1, 2, 1, 0, 1)
    assert any("2 ops without a full cost" in warning for warning in run.warnings)


def test_results_so_far_are_kept(measured, tmp_path):
    log = tmp_path / "log"
    with pytest.raises(MeasureError):
        measured(act="exit", where="stablehlo.sine", log=str(log), options={"retries": 0})
    log.unlink()
    _, statistics, _ = measured(act="exit", where="stablehlo.sine", log=str(log), keep_going=True)
    assert statistics.cached == 1


def test_what_a_worker_prints_is_no_answer(measured):
    assert measured(act="print", where="tanh")[1].measured == 2


def test_a_worker_that_cannot_start_says_why(measured):
    with pytest.raises(HespasError, match="there is no such device"):
        measured(act="no device")

    class Lost(Fake):
        worker = "support.measuring_work:nowhere"

    with pytest.raises(HespasError, match=r"AttributeError: .*'nowhere'"):
        measured(cls=Lost)


def test_a_time_that_is_none_is_refused(measured, monkeypatch):
    class Odd(Fake):
        worker = "support.measuring_work:probe"  # answers without a time

    with pytest.raises(MeasureError, match="median_s is None"):
        measured(cls=Odd)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 0}, "jobs is less than 1"),
        ({"retries": -1}, "retries is less than 0"),
        ({"timeout": 0.0}, "timeout is not a number of seconds"),
        ({"jobs": 2, "dask": "tcp://x:1"}, "jobs and dask exclude each other"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(UsageError, match=message):
        MeasureOptions(**options)


def test_an_item_alone_is_measured_when_asked_for(parse, monkeypatch, tmp_path):
    monkeypatch.setenv("HESPAS_CACHE", str(tmp_path / "cache.sqlite"))
    module = parse(
        f"func.func @f(%x: {X}) -> {X} {{ %0 = stablehlo.tanh %x : {X} return %0 : {X} }}"
    )
    op = collect_functions(module)["f"].regions[0].blocks[0].operations[0].operation
    cost = Fake(FakeConfig()).estimate(CostItem(op))
    assert cost.latency_ns > 0 and cost.read_bytes == 64 * 64 * 4
    assert (tmp_path / "cache.sqlite").exists()


def test_an_unsplit_module_is_measured_by_op_with_a_warning(parse):
    module, run = parse(PROGRAM), PassRun(note=lambda text: None)
    passes.run_pipeline(module, "prepare")
    options = MeasureOptions(cache="none")
    annotation = annotate_module(module, Fake(FakeConfig()), run, options=options)
    assert counts(annotation.measured)[:4] == (6, 0, 4, 4)
    assert "each op is measured separately" in run.warnings[0]


def test_costs_of_another_estimator_do_not_stay_inside(parse):
    module = parse(PROGRAM)
    passes.run_pipeline(
        module, "split-linear,roofline-annotate{node=A100_SXM_40GB}", PassRun(note=print)
    )
    annotate_module(module, Fake(FakeConfig()), PassRun(), options=MeasureOptions(cache="none"))
    assert "roofline" not in str(module)
    verify_attrs.verify_attributes(module)


def test_timed_runs_are_alone_and_compiles_are_not(measured, tmp_path):
    log = tmp_path / "log"
    text = PROGRAM.replace("%4 = stablehlo.tanh", "%4 = stablehlo.cosine")
    measured(text, cls=OwnTurns, log=str(log), options={"jobs": 3})
    times: dict[str, list[float]] = {}
    for line in calls(log):
        event, at = line.split()
        times.setdefault(event, []).append(float(at))
    assert [len(event_times) for event_times in times.values()] == [3] * 4
    events = sorted((at, event) for event, event_times in times.items() for at in event_times)
    compiling = running = most = 0
    for _, event in events:
        compiling += {"compile": 1, "compiled": -1}.get(event, 0)
        running += {"run": 1, "ran": -1}.get(event, 0)
        most = max(most, compiling)
        assert running <= 1 and not (running and compiling)
    assert most > 1


def test_waiting_for_a_turn_is_not_working_time(measured):
    text = PROGRAM.replace("%4 = stablehlo.tanh", "%4 = stablehlo.cosine")
    start = time.monotonic()
    _, outcome, _ = measured(
        text, act="slow", where="func", options={"jobs": 3, "timeout": 60.0, "retries": 0}
    )
    elapsed_s = time.monotonic() - start
    assert outcome.measured == 3
    assert 1.2 <= outcome.uncached_s <= elapsed_s, "three of 0.4 s, one after the other"


LOOP = f"""
    %n = stablehlo.constant dense<7> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %y = %2) : tensor<i32>, {X} cond {{
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %z = stablehlo.tanh %y : {X}
      stablehlo.return %next, %z : tensor<i32>, {X}
    }}"""


@pytest.mark.parametrize("split", ["split-linear", "split-individual"])
def test_a_loop_that_is_a_region_is_measured_whole(parse, tmp_path, split):
    text = PROGRAM.replace(f"%3 = stablehlo.add %2, %2 : {X}", LOOP)
    text = text.replace(f"%4 = stablehlo.tanh %3 : {X}\n", "").replace('"(%4)', '"(%r#1)')
    module, run = parse(text), PassRun(note=lambda text: None)
    # Costs that are inside already, of another estimator, do not stay.
    passes.run_pipeline(module, f"{split},roofline-annotate{{node=A100_SXM_40GB}}", run)
    options = MeasureOptions(cache="none")
    annotation = annotate_module(module, Fake(FakeConfig()), run, options=options)
    verify_attrs.verify_attributes(module)
    entry = [
        view.operation for view in collect_functions(module)["main"].regions[0].blocks[0].operations
    ]
    loop = next(op for op in entry if op.name == "stablehlo.while")
    cost = Cost.read_from_op(loop)
    assert cost is not None and cost.trips == 7 and cost.estimator == "fake"
    assert cost.write_bytes == 7 * (64 * 64 * 4 + 4 + 1)
    assert str(loop).count("hespas.cost") == 1
    passes.run_pipeline(module, f"emit-chakra{{output={tmp_path / 'out'}}}", run)
    stats = json.loads((tmp_path / "out" / "module_stats.json").read_text())
    assert stats["kinds"]["stablehlo.while"]["time_ns"] == cost.latency_ns
    assert stats["totals"]["time_ns"] == annotation.total.time_ns


def test_progress_tells_the_time_left(monkeypatch):
    clock = iter(range(0, 1000, 60))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    lines: list[str] = []
    progress = ProgressCounter("fake", 3, lines.append)
    progress.count_finished("@region_0")
    progress.count_finished("@region_1")
    progress.count_finished("@region_2")
    assert lines == [
        "fake: 0 of 3 regions measured",
        "fake: 1 of 3 regions measured (@region_0), about 2 min left",
        "fake: 2 of 3 regions measured (@region_1), about 60 s left",
        "fake: 3 of 3 regions measured (@region_2)",
    ]
    notes: list[str] = []
    with open_progress_display(notes.append, None) as show:  # no terminal: a line each half minute
        show("one")
    assert notes == ["one"]
    assert [format_duration(s) for s in (0.2, 89, 100, 3 * 3600 + 125)] == [
        "1 s", "89 s", "2 min", "3 h 2 min",
    ]  # fmt: skip


def test_equal_entry_points_are_one(monkeypatch):
    from importlib.metadata import EntryPoint

    from hespas.estimators import registry as estimators
    from hespas.passes import registry

    for names, group in (
        (estimators.list_estimator_names, "hespas.estimators"),
        (registry.list_pass_names, "hespas.passes"),
    ):
        for values, fails in (("a:A a:A", False), ("a:A b:B", True)):
            points = [EntryPoint("mine", value, group) for value in values.split()]
            monkeypatch.setattr("importlib.metadata.entry_points", lambda group, p=points: p)
            estimators.find_plugins.cache_clear()
            registry.find_plugins.cache_clear()
            if fails:
                with pytest.raises(UsageError, match=r"two packages define the .* 'mine'"):
                    names()
            else:
                assert names().count("mine") == 1
    estimators.find_plugins.cache_clear()
    registry.find_plugins.cache_clear()


def test_it_says_that_it_waits_for_another_run(parse, monkeypatch):
    monkeypatch.setattr("hespas.estimators.measure.processes.WAIT_NOTED_S", 0.2)
    module, notes = parse(PROGRAM), []

    def note(text: str) -> None:
        notes.append(text)
        turn.close()  # the other run ends

    with contextlib.ExitStack() as turn:
        turn.enter_context(turns.hold_timing_turn())
        options = MeasureOptions(cache="none", jobs=2)
        passes.run_pipeline(module, "prepare,split-linear")
        annotate_module(module, Fake(FakeConfig()), PassRun(note=note), options=options)
    assert notes == ["waiting until another run has finished a measurement on this machine"]


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_no_process_outlives_the_run(tmp_path, sent, code):
    (tmp_path / "in.mlir").write_text(PROGRAM)
    script = f"""
import sys; sys.path.insert(0, {str(ROOT / "test")!r})
from support.measuring import Fake
from hespas.estimators import registry
registry.ESTIMATORS["fake"] = "support.measuring:Fake"
from hespas.tools.hespas import script
sys.argv[1:] = ["run", "--mlir", "in.mlir", "--estimator", "fake", "--cache", "c.sqlite",
    "--split", "linear", "--setting", "act=child", "--setting", "where=sine",
    "--setting", "mark=pid", "--setting", "log=log"]
script()
"""
    command = [sys.executable, "-c", script]
    with start_process(command, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + 120
        while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        pids = [int((tmp_path / "pid").read_text()), int(calls(tmp_path / "log")[0].split()[0])]
        assert all(map(alive, pids))
        process.send_signal(sent)
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == code
    if sent == signal.SIGINT:
        assert stderr.splitlines()[-1] == "interrupted" and "Traceback" not in stderr
    while any(map(alive, pids)):
        assert time.monotonic() < end, "a process is left"
        time.sleep(0.05)
    with MeasurementCache(str(tmp_path / "c.sqlite")) as cache:
        assert cache.count_grouped_outcomes() == [("fake", "1", "a fake device", 1, 0)], (
            "what was done is kept"
        )


def test_a_whole_flow_by_a_plug_in(tmp_path, monkeypatch, capsys):
    from hespas.estimators import registry
    from hespas.tools import console_scripts, hespas

    monkeypatch.setitem(registry.ESTIMATORS, "fake", "support.measuring:Fake")
    monkeypatch.chdir(tmp_path)
    Path("in.mlir").write_text(PROGRAM)
    argv = ["run", "--mlir", "in.mlir", "--estimator", "fake", "--split", "linear", "--json"]
    argv += ["--cache", "c.sqlite", "--output", "out", "--setting", "device=a toaster"]
    assert console_scripts.run_tool_main(hespas.main, argv) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["measured"]["measured"] == 2 and data["measured"]["device"] == "a toaster"
    assert data["basic_block_reuse_rate"] == 1 / 4 and data["flops_utilisation"] is None
    assert data["estimator"] == "fake 1" and data["compute_s_by"]["bound"].keys() == {"measured"}
    assert (
        console_scripts.run_tool_main(
            hespas.main, [*argv[:-2], "--setting", "device=a toaster", "--jobs", "2"]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["measured"]["cached"] == 2
    for extra, message in (
        (["--setting", "devices=x"], "no setting 'devices'; did you mean 'device'"),
        (["--setting", "device"], "'device' is not KEY=VALUE"),
        (["--jobs", "0"], "--jobs is 0"),
        (["--estimator", "roofline", "--jobs", "2"], "roofline does not"),
        (["--dask", "tcp://127.0.0.1:1", "--jobs", "2"], "exclude each other"),
    ):
        assert console_scripts.run_tool_main(hespas.main, [*argv, *extra]) == 2
        assert message in capsys.readouterr().err


def test_temporary_folders_of_workers_are_removed(monkeypatch, tmp_path):
    """A killed worker removes nothing: what its libraries leave lies in a folder of the pool."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spec = WorkerSpec(
        worker="support.measuring_work:leave_folder",
        probe="support.measuring_work:probe",
        timed=False,
        settings={"act": "", "device": "d"},
    )
    with LocalWorkerPool(spec) as pool:
        [(_, answer)] = pool.run_payloads([{}])
        folder = Path(answer["folder"])
        assert folder.is_dir() and str(folder.parent) == answer["inherited"]
        assert tmp_path in folder.parents
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_dies_while_it_starts_is_replaced(tmp_path):
    """The memory of the machine may be short for a moment, after workers have started well."""
    starts, mark = tmp_path / "starts", str(tmp_path / "mark")
    spec = WorkerSpec(
        worker="support.measuring_work:die_once",
        probe="support.measuring_work:probe_except_second",
        timed=False,
        retries=2,
        settings={"device": str(starts)},
    )
    with LocalWorkerPool(spec) as pool:
        outcomes = list(pool.run_payloads([{"mark": ""}, {"mark": mark}]))
    assert [(number, answer["mark"]) for number, answer in outcomes] == [(0, ""), (1, mark)]
    assert len(starts.read_text()) == 3
