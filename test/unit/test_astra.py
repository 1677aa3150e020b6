"""The ASTRA-sim driver: how it finds, runs and checks the program.

A script that prints recorded output replaces the program; if the real one is on PATH, it runs too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from support.astra_stub import STAMP, finished, write_astra_stub
from support.traces import simulate_folder

from hespas.configs import load_system as load_system
from hespas.simulators import astra, astra_output, astra_program
from hespas.simulators.astra_program import AWARE, UNAWARE, AstraProgram
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
from hespas.support.errors import HespasError, UsageError
from support import traces as t

real = pytest.mark.skipif(shutil.which(UNAWARE) is None, reason=f"{UNAWARE} is not on PATH")


GOOD = finished(1, 13775, 3775, 10000, 11775, 8000) + finished(0, 14000, 0, 14000, 11775, 11775)
UNRELEASED = (
    f"{STAMP} [HardwareResource] [critical] !!!Hardware Resource sys.id=0 has unreleased nodes!!!\n"
    f"{STAMP} [HardwareResource] [critical] GPU comm node id: 2\n"
    f"{STAMP} [system] [warning] Exiting\n"
)
LOST = (
    f"{STAMP} [system] [critical] warning! a callable is removed before call "
    "Attribute comm_size not found in node 2\n"
)
CRASH = (
    "terminate called after throwing an instance of 'std::runtime_error'\n"
    "  what():  Node 9 in data_dep graph, but not found in index, file might be corrupted\n"
)
LOG = "".join(
    f"{STAMP} [workload] [debug] {event},sys->id={device}, tick={tick}, node->id={node}, "
    f"node->name=n{node}, node->type={kind}\n"
    for event, device, tick, node, kind in (
        ("issue", 0, 0, 1, 4), ("issue", 0, 0, 2, 7), ("issue", 1, 0, 1, 4), ("issue", 1, 0, 2, 7),
        ("callback", 0, 5000, 1, 4), ("issue", 0, 5000, 3, 4), ("callback", 1, 5000, 1, 4),
        ("issue", 1, 5000, 3, 4), ("callback", 1, 8000, 3, 4), ("callback", 0, 11775, 2, 7),
        ("callback", 1, 11775, 2, 7), ("issue", 1, 11775, 4, 4), ("callback", 0, 12000, 3, 4),
        ("issue", 0, 12000, 4, 4), ("callback", 1, 13775, 4, 4), ("callback", 0, 14000, 4, 4),
    )
)  # fmt: skip


def seen(ran: AstraProgram) -> dict:
    return json.loads((ran.path.parent / "seen.json").read_text())


@pytest.fixture
def job(tmp_path):
    """Two devices with a collective alongside two compute nodes, and one more compute node."""
    folder = t.save(
        tmp_path / "traces",
        [
            [t.comp(1), t.coll(2), t.comp(3, [1], 7), t.comp(4, [2, 3], 2)],
            [t.comp(1), t.coll(2), t.comp(3, [1], 3), t.comp(4, [2, 3], 2)],
        ],
    )
    system = load_system(str(t.system(tmp_path / "system", [2])))
    return astra.AstraSimulation(load_inputs(folder, system), SimulationOptions())


def failure(tmp_path, job, prints, code="0"):
    with pytest.raises(HespasError) as error:
        astra.simulate_with_astra(write_astra_stub(tmp_path / "bin", prints, code=code), job)
    return str(error.value)


def test_statistics_intervals_and_records(tmp_path, job):
    result = astra.simulate_with_astra(write_astra_stub(tmp_path / "bin", GOOD, log=LOG), job)
    first, second = result.devices
    assert (first.finish_ns, first.exposed_ns, first.overlap_ns) == (14000, 0, 11775)
    assert (second.finish_ns, second.exposed_ns, second.compute_ns) == (13775, 3775, 10000)
    assert second.comm_ns == 11775
    assert result.step_time_ns == 14000
    assert list(result.class_of) == [0, 1]
    intervals = [(i.node, i.start_ns, i.finish_ns, i.resource) for i in result.classes[1]]
    assert intervals == [
        (1, 0, 5000, "compute"), (2, 0, 11775, "comm"),
        (3, 5000, 8000, "compute"), (4, 11775, 13775, "compute"),
    ]  # fmt: skip
    (record,) = result.comms
    assert (record.kind, record.operand_bytes, record.ranks) == ("all_reduce", 1 << 20, (0, 1))
    assert (record.communicator, record.start_ns, record.finish_ns) == (1, 0, 11775)


def test_runs_in_a_folder_of_its_own(tmp_path, job):
    ran = write_astra_stub(tmp_path / "bin", GOOD, log=LOG)
    before = {p: p.read_bytes() for p in job.inputs.folder.iterdir()}
    astra.simulate_with_astra(ran, job)
    output = seen(ran)
    assert not Path(output["cwd"]).exists()
    assert output["opened"] == 2 and output["links"] == ["dev.0.et", "dev.1.et"]
    assert json.loads(output["files"]["system.json"])["trace-enabled"] == 1
    assert "roofline-enabled" not in json.loads(output["files"]["system.json"])
    assert {p: p.read_bytes() for p in job.inputs.folder.iterdir()} == before
    arguments = dict(a.split("=", 1) for a in output["argv"])
    assert arguments["--workload-configuration"].endswith("/dev")
    assert "empty" not in arguments["--comm-group-configuration"]


def test_a_temporary_folder_called_empty(tmp_path, job, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "empty"))
    ran = write_astra_stub(tmp_path / "bin", GOOD)
    astra.simulate_with_astra(
        ran, astra.AstraSimulation(job.inputs, SimulationOptions(intervals=False))
    )
    assert not [a for a in seen(ran)["argv"] if "empty" in a]


def test_read_only_traces_are_copied(tmp_path, job, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write anyway
    for device in job.inputs.devices:
        device.path.chmod(0o444)
    ran = write_astra_stub(tmp_path / "bin", GOOD, log=LOG)
    astra.simulate_with_astra(ran, job)
    assert seen(ran)["links"] == [] and seen(ran)["opened"] == 2


def test_options_become_arguments(tmp_path, job):
    ran = AstraProgram(write_astra_stub(tmp_path / "bin", GOOD).path, ("--extra", "x"))
    options = SimulationOptions(
        queues_per_dim=2, injection_scale=1.5, rendezvous=True, intervals=False
    )
    result = astra.simulate_with_astra(ran, astra.AstraSimulation(job.inputs, options, exact=True))
    output = seen(ran)
    assert "--num-queues-per-dim=2" in output["argv"] and "--injection-scale=1.5" in output["argv"]
    assert "--rendezvous-protocol=true" in output["argv"] and output["argv"][-2:] == [
        "--extra",
        "x",
    ]
    settings = json.loads(output["files"]["system.json"])
    assert (settings["roofline-enabled"], settings["peak-perf"]) == (1, 1)
    assert settings["trace-enabled"] == 0 and not result.classes


@pytest.mark.parametrize(
    "options", [SimulationOptions(curves="H100_SXM"), SimulationOptions(slowdown=0.1)]
)
def test_options_beyond_astra_sim(tmp_path, job, options):
    with pytest.raises(HespasError, match="ASTRA-sim cannot model"):
        astra.simulate_with_astra(
            write_astra_stub(tmp_path / "bin", GOOD),
            astra.AstraSimulation(job.inputs, options),
        )


def test_paths_in_the_system_are_made_absolute(tmp_path, job):
    folder = job.inputs.system.folder
    keys = json.loads((folder / "system.json").read_text())
    keys["all-reduce-implementation-custom"] = ["algorithms/mine"]
    keys["per-node-custom-implementation"] = "nodes.yml"
    (folder / "system.json").write_text(json.dumps(keys))
    (folder / "nodes.yml").write_text("2: algorithms/other\n")
    ran = write_astra_stub(tmp_path / "bin", GOOD, log=LOG)
    astra.simulate_with_astra(
        ran,
        astra.AstraSimulation(
            load_inputs(job.inputs.folder, load_system(str(folder))), SimulationOptions()
        ),
    )
    files = seen(ran)["files"]
    settings = json.loads(files["system.json"])
    assert settings["all-reduce-implementation-custom"] == [str(folder / "algorithms/mine")]
    assert files["per_node.yml"] == f"2: {folder / 'algorithms/other'}\n"


def test_partial_finish_with_exit_code_0(tmp_path, job):
    text = failure(tmp_path, job, finished(1, 5000, 0, 5000, 0, 0) + UNRELEASED)
    assert "finished 1 of 2 devices; device 0 never leaves node 2" in text


def test_silence_is_no_success(tmp_path, job):
    assert "finished 0 of 2 devices" in failure(tmp_path, job, f"{STAMP} [system] Exiting\n")


def test_lost_exception(tmp_path, job):
    text = failure(tmp_path, job, GOOD + LOST)
    assert "Attribute comm_size not found in node 2" in text


def test_abort(tmp_path, job):
    text = failure(tmp_path, job, CRASH, code="os.abort()")
    assert "killed by SIGABRT: Node 9 in data_dep graph" in text


def test_exit_code_and_last_line(tmp_path, job):
    text = failure(tmp_path, job, "[Error] Topology name Rung not supported\n", code="255")
    assert "exit code 255: [Error] Topology name Rung not supported" in text
    assert failure(tmp_path, job, "", code="3").endswith("exit code 3, and printed nothing")


def test_deadlock_is_explained_by_our_own_check(tmp_path, job):
    t.save(job.inputs.folder, [[t.comp(1), t.coll(2, [1])], [t.comp(1)]])
    printed = finished(1, 5000, 0, 5000, 0, 0) + UNRELEASED
    with pytest.raises(HespasError) as error:
        astra.simulate_with_astra(write_astra_stub(tmp_path / "bin", printed), job)
    assert "deadlock: 1 of 2 ranks do not finish" in str(error.value)
    assert "dev.0.et" in error.value.where


def test_chunks_that_block_each_other(tmp_path):
    folder = t.save(tmp_path / "traces", [[t.comp(1), t.coll(2, [1])]] * 8)
    settings = {"preferred_dataset_splits": 4, "active_chunks_per_dimension": 1}
    system = load_system(str(t.system(tmp_path / "system", [2, 2, 2], **settings)))
    job = astra.AstraSimulation(load_inputs(folder, system), SimulationOptions())
    text = failure(tmp_path, job, UNRELEASED)
    assert "2 queues per dimension" in text


def test_timeout_leaves_nothing_behind(tmp_path, job, monkeypatch):
    started = tmp_path / "started"
    code = f"os.mkdir({str(started)!r}); time.sleep(600)"
    ran = write_astra_stub(tmp_path / "bin", "", code=code)
    wait = subprocess.Popen.wait

    def wait_after_start(process: subprocess.Popen, timeout: float | None = None) -> int:
        """Begin to count when the program has started, however slow the machine is."""
        while not started.exists() and process.poll() is None:
            time.sleep(0.01)
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait_after_start)
    begun = time.monotonic()
    with pytest.raises(HespasError, match=r"did not finish within 0\.1 s"):
        astra.simulate_with_astra(ran, job, timeout_s=0.1)
    assert time.monotonic() - begun < 300
    assert not Path(seen(ran)["cwd"]).exists()


def test_a_log_without_its_beginning(tmp_path, job):
    notes = []
    ran = write_astra_stub(tmp_path / "bin", GOOD, log=LOG.split("\n", 1)[1])
    result = astra.simulate_with_astra(ran, job, note=notes.append)
    assert not result.classes and result.devices[0].finish_ns == 14000
    assert "no times of single nodes" in notes[0]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "wrote no log"),
        ({"log.log": ""}, "wrote no log"),
        ({"log.log": "x", "log.10.log": "y"}, "kept only the last 110 MB of its log"),
        ({"log.log": "x"}, "has a log without the times of all devices"),
    ],
)
def test_why_there_are_no_times_of_single_nodes(tmp_path, files, reason):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert astra_output.read_node_times(tmp_path, 2) is None
    assert astra_output.explain_missing_times(tmp_path) == reason


def test_rotated_logs_are_read_in_order(tmp_path):
    lines = LOG.splitlines(keepends=True)
    for name, part in (
        ("log.10.log", lines[:3]),
        ("log.2.log", lines[3:6]),
        ("log.log", lines[6:]),
    ):
        (tmp_path / name).write_text("".join(part))
    times = astra_output.read_node_times(tmp_path, 2)
    assert times is not None and times[0] == {1: (0, 5000), 2: (0, 11775), 3: (5000, 12000),
                                              4: (12000, 14000)}  # fmt: skip


def test_statistics_from_the_log_where_none_are_printed(tmp_path, job):
    """An older or another front end prints only that devices finish."""
    bare = "sys[0] finished, 14000 cycles\nsys[1] finished, 13775 cycles\n"
    result = astra.simulate_with_astra(
        write_astra_stub(tmp_path / "bin", bare, log=LOG, name="ns3"), job
    )
    full = astra.simulate_with_astra(write_astra_stub(tmp_path / "bin", GOOD, log=LOG), job)
    assert list(result.devices) == list(full.devices)
    assert result.settings.backend == "ns3"
    with pytest.raises(HespasError, match="no statistics of device 0"):
        astra.simulate_with_astra(write_astra_stub(tmp_path / "bin", bare), job)


class TestFind:
    @pytest.fixture(autouse=True)
    def nothing_installed(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path / "path"))
        monkeypatch.delenv(astra_program.ENVIRONMENT, raising=False)

    def test_nowhere(self):
        assert astra_program.find_astra_sim() is None

    def test_on_path(self, tmp_path):
        stub = write_astra_stub(tmp_path / "path", "").path
        assert astra_program.find_astra_sim() == AstraProgram(stub)
        assert astra_program.find_astra_sim(congestion=True) is None

    def test_file_folder_checkout(self, tmp_path, monkeypatch):
        built = tmp_path / "astra-sim" / "build" / "astra_analytical" / "build" / "bin"
        built.mkdir(parents=True)
        path = write_astra_stub(built, "").path
        aware = write_astra_stub(built, "", name=AWARE).path
        for named in (path, built, tmp_path / "astra-sim"):
            assert astra_program.find_astra_sim(named) == AstraProgram(path)
            assert astra_program.find_astra_sim(str(named), congestion=True) == AstraProgram(aware)
        monkeypatch.setenv(astra_program.ENVIRONMENT, str(built))
        assert astra_program.find_astra_sim() == AstraProgram(path)

    def test_command_with_arguments(self, tmp_path):
        ns3 = write_astra_stub(tmp_path / "path", "", name="ns3-front").path
        program = astra_program.find_astra_sim(
            "ns3-front --logical-topology-configuration='a b.json'"
        )
        assert program == AstraProgram(ns3, ("--logical-topology-configuration=a b.json",))

    def test_wrong_names(self, tmp_path):
        (tmp_path / "path").mkdir()
        for named, says in (("nope", "there is no program nope"), (tmp_path, f"no {UNAWARE} in"),
                            ("'", "is not a command")):  # fmt: skip
            with pytest.raises(HespasError, match=says):
                astra_program.find_astra_sim(named)
        path = write_astra_stub(tmp_path / "path", "").path
        with pytest.raises(HespasError, match="no congestion-aware program"):
            astra_program.find_astra_sim(path, congestion=True)
        path.chmod(0o644)
        with pytest.raises(HespasError, match="is not executable"):
            astra_program.find_astra_sim(path)


class TestChoose:
    @pytest.fixture
    def run(self, tmp_path, job):
        def run(simulator, astra_sim=None, options=None, **more):
            notes = []
            result = simulate_folder(
                job.inputs.folder, job.inputs.system,
                SimulatorChoice(simulator, options or SimulationOptions(), astra_sim, **more),
                note=notes.append,
            )  # fmt: skip
            return result, " ".join(notes)

        return run

    @pytest.fixture
    def nowhere(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv(astra_program.ENVIRONMENT, raising=False)

    @pytest.mark.parametrize("installed", [False, True])
    def test_auto_is_embedded(self, run, nowhere, monkeypatch, tmp_path, installed):
        if installed:
            ran = write_astra_stub(tmp_path / "bin", GOOD, log=LOG)
            monkeypatch.setenv(astra_program.ENVIRONMENT, str(ran.path))
        result, note = run("auto")
        assert result.simulator == "embedded" and not note
        assert [d.finish_ns for d in result.devices] == [14000, 13775]

    def test_auto_with_astra_sim_named(self, run, tmp_path):
        ran = write_astra_stub(tmp_path / "bin", GOOD, log=LOG)
        result, note = run("auto", ran.path)
        assert result.simulator == "astra-sim" and str(ran.path) in note

    def test_auto_with_an_option_that_astra_sim_lacks(self, run, tmp_path):
        ran = write_astra_stub(tmp_path / "bin", GOOD, log=LOG)
        result, note = run("auto", ran.path, SimulationOptions(slowdown=0.5))
        assert result.simulator == "embedded" and "ASTRA-sim cannot model --slowdown" in note

    def test_astra_sim_that_is_not_there(self, run, nowhere):
        for simulator in ("astra-sim", "both"):
            with pytest.raises(HespasError, match="is not on PATH"):
                run(simulator)
        with pytest.raises(UsageError, match="no simulator 'astra'"):
            run("astra")

    def test_both_agree(self, run, tmp_path):
        ran = write_astra_stub(tmp_path / "bin", GOOD, log=LOG)
        result, _ = run("both", ran.path)
        assert result.simulator == "embedded"
        assert result.settings.agrees_with == str(ran.path)

    def test_both_disagree(self, run, tmp_path):
        wrong = GOOD.replace("sys[1] finished, 13775", "sys[1] finished, 13776")
        with pytest.raises(HespasError, match="device 1 finish 13775 ns here, 13776 ns there"):
            run("both", write_astra_stub(tmp_path / "bin", wrong, log=LOG).path)

    def test_records_are_those_of_the_embedded_simulator(self, run, tmp_path):
        embedded_result, _ = run("embedded")
        astra_result, _ = run("astra-sim", write_astra_stub(tmp_path / "bin", GOOD, log=LOG).path)
        assert list(embedded_result.comms) == list(astra_result.comms)
        assert [list(embedded_result.classes[c]) for c in embedded_result.class_of] == [
            list(astra_result.classes[c]) for c in astra_result.class_of
        ]


@pytest.mark.parametrize(
    ("settings", "nodes", "expected"),
    [
        ({}, [t.comp(1, micros=1, ns=1234)], True),
        ({}, [t.comp(1, micros=1, ns=1234), t.comp(2, micros=1)], False),
        ({"roofline_enabled": 1, "peak_perf": 1}, [t.comp(1, micros=1, ns=1234)], None),
        ({"local_mem_bw": 0.5}, [t.comp(1, micros=1, ns=1234)], False),
    ],
    ids=["exact", "a node without", "roofline of the user", "slow memory"],
)
def test_exact_durations(tmp_path, settings, nodes, expected):
    folder = t.save(tmp_path / "traces", [nodes, nodes])
    system = t.system(tmp_path / "system", [2], **settings)
    result = simulate_folder(folder, system, SimulatorChoice("embedded"))
    rounded = simulate_folder(folder, system, SimulatorChoice("embedded", exact_durations=False))
    assert (result.settings.to_texts()["durations"] == "nanoseconds") == bool(expected)
    if expected:
        assert (result.step_time_ns, rounded.step_time_ns) == (1234, 1000)
    elif expected is None:
        assert result.step_time_ns == rounded.step_time_ns == 1234
    else:
        assert result.step_time_ns == rounded.step_time_ns


@real
class TestReal:
    @pytest.mark.parametrize("ns", [None, 4321])
    def test_both(self, tmp_path, ns):
        """Every kind of node, in microseconds and in nanoseconds."""
        ranks = [
            [
                t.comp(1, micros=3 + device, ns=ns and ns + device),
                t.coll(2, [1]),
                t.send(3, (device + 1) % 4, [2]),
                t.recv(4, (device - 1) % 4, [2]),
                t.coll(5, [3], kind=t.ALL_GATHER, group=2 + device % 2),
                t.comp(6, [1], micros=20, ns=ns and 20123),
                t.coll(7, [4, 5, 6], kind=t.ALL_TO_ALL),
            ]
            for device in range(4)
        ]
        folder = t.save(tmp_path / "t", ranks, {1: range(4), 2: (0, 2), 3: (1, 3)})
        system = t.system(tmp_path / "s", [4], topology="Switch")
        result = simulate_folder(folder, system, SimulatorChoice("both"))
        assert result.settings.agrees_with
        astra_result = simulate_folder(folder, system, SimulatorChoice("astra-sim"))
        assert list(astra_result.devices) == list(result.devices)
        assert list(astra_result.comms) == list(result.comms)
        assert (result.settings.to_texts()["durations"] == "nanoseconds") == (ns is not None)

    @pytest.mark.parametrize(
        "ranks",
        [
            [[t.comp(1), t.coll(2, [1])], [t.comp(1)]],
            [[t.comp(1), t.recv(2, 1, [1])], [t.comp(1)]],
            [[t.comp(1), t.node(2, t.COLL, [1], comm_type=("int64", 0))], [t.comp(1)]],
            [[t.comp(1), t.comp(2, [9])], [t.comp(1)]],
        ],
        ids=["deadlock", "no sender", "no size", "dangling"],
    )
    def test_faults(self, tmp_path, ranks):
        folder = t.save(tmp_path / "t", [[t.comp(1)]] * 2)
        system = load_system(str(t.system(tmp_path / "s", [2])))
        job = astra.AstraSimulation(load_inputs(folder, system), SimulationOptions())
        t.save(folder, ranks)  # hespas itself reads only sound traces
        program = astra_program.find_astra_sim()
        assert program is not None
        with pytest.raises(HespasError, match=r"finished [01] of 2 devices"):
            astra.simulate_with_astra(program, job)
