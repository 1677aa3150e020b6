"""Processes that are forked from a template: their surroundings, exit codes, timeouts and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from hespas.support import worker_template
from hespas.support.worker_template import (
    TaskStreams,
    TemplatePool,
    WorkerTask,
    open_output_streams,
)

# The file that it is called with says what it does.
WORKER = """
import json, os, sys, time
from pathlib import Path

started = os.getpid()

def main(argument):
    path = Path(argument)
    command = path.read_text()
    path.with_suffix(".pid").write_text(str(os.getpid()))
    if command == "tell":
        facts = {"template": started, "pid": os.getpid(), "folder": os.getcwd(),
                 "environment": dict(os.environ), "input": sys.stdin.read()}
        path.with_suffix(".json").write_text(json.dumps(facts))
        print("told", flush=True)
    elif command == "sleep":
        time.sleep(600)
    else:
        exec(command)
"""


@pytest.fixture
def pool(tmp_path, monkeypatch):
    (tmp_path / "telling_worker.py").write_text(WORKER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    pool = TemplatePool()
    yield pool
    pool.stop_idle()


def run(pool, path, command, timeout_s=60.0, **changes):
    path.mkdir(exist_ok=True)
    (path / "task").write_text(command)
    task = WorkerTask(str(path / "task"), {**os.environ, **changes}, str(path))
    with open_output_streams(str(path / "output")) as streams:
        return pool.run_task("telling_worker", task, streams, timeout_s)


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_end(pid):
    deadline = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("forks", [True, False])
def test_each_task_has_its_folder_environment_and_output(pool, tmp_path, monkeypatch, forks):
    monkeypatch.setattr(worker_template, "FORKS", forks)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)  # Dask sets it in its process
    facts = []
    for name in ("a", "b"):
        assert run(pool, tmp_path / name, "tell", NAMED=name) == 0
        assert (tmp_path / name / "output").read_text() == "told\n"
        facts.append(json.loads((tmp_path / name / "task.json").read_text()))
    assert [fact["folder"] for fact in facts] == [str(tmp_path / name) for name in ("a", "b")]
    assert [fact["environment"]["NAMED"] for fact in facts] == ["a", "b"]
    assert [fact["input"] for fact in facts] == ["", ""]
    assert "OPENBLAS_NUM_THREADS" not in facts[0]["environment"]
    assert (facts[0]["template"] == facts[1]["template"]) == forks
    assert facts[0]["pid"] != facts[1]["pid"]


@pytest.mark.parametrize("forks", [True, False])
def test_exit_codes_and_tracebacks(pool, tmp_path, monkeypatch, forks):
    monkeypatch.setattr(worker_template, "FORKS", forks)
    assert run(pool, tmp_path / "a", "os._exit(3)") == 3
    assert run(pool, tmp_path / "b", "os.abort()") == -signal.SIGABRT
    assert run(pool, tmp_path / "c", "raise ValueError('no')") == 1
    assert (tmp_path / "c" / "output").read_text().endswith("ValueError: no\n")
    assert run(pool, tmp_path / "d", "tell") == 0


@pytest.mark.parametrize("forks", [True, False])
def test_what_takes_too_long_is_killed(pool, tmp_path, monkeypatch, forks):
    monkeypatch.setattr(worker_template, "FORKS", forks)
    assert run(pool, tmp_path / "first", "tell") == 0
    with pytest.raises(TimeoutError):
        run(pool, tmp_path / "a", "sleep", timeout_s=3.0)
    file = tmp_path / "a" / "task.pid"
    pid = file.read_text() if file.exists() else ""  # it may be killed before it has written it
    assert not pid or not is_running(int(pid))
    assert run(pool, tmp_path / "b", "tell") == 0


def test_a_task_ends_with_the_process_that_has_sent_it(pool, tmp_path):
    (tmp_path / "task").write_text("sleep")
    task = (str(tmp_path / "task"), dict(os.environ), str(tmp_path))
    program = (
        "import sys, json\nfrom hespas.support.worker_template import *\n"
        "task = WorkerTask(*json.loads(sys.argv[1]))\n"
        "POOL.run_task('telling_worker', task, TaskStreams(0, 1, 2), 600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, json.dumps(task)]) as process:
        pid = tmp_path / "task.pid"
        while not (pid.exists() and pid.read_text()):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
    wait_for_end(int(pid.read_text()))


def test_a_fork_has_templates_of_its_own(pool, tmp_path):
    assert run(pool, tmp_path / "a", "tell") == 0
    child = os.fork()
    if child == 0:
        code = 1
        try:  # whatever happens, this process must not go on with the tests
            code = run(pool, tmp_path / "b", "tell")
            pool.stop_idle()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert run(pool, tmp_path / "c", "tell") == 0
    templates = [
        json.loads((tmp_path / name / "task.json").read_text())["template"] for name in "abc"
    ]
    assert templates[0] == templates[2] != templates[1]


@pytest.mark.parametrize("forks", [True, False])
def test_a_task_reads_and_writes_pipes_until_it_ends_or_is_killed(
    pool, tmp_path, monkeypatch, forks
):
    monkeypatch.setattr(worker_template, "FORKS", forks)
    (tmp_path / "echo").write_text("[print(line.strip()[::-1], flush=True) for line in sys.stdin]")
    (tmp_path / "sleep").write_text("sleep")
    for name in ("echo", "sleep", "echo"):
        input_fd, our_input_fd = os.pipe()
        our_output_fd, output_fd = os.pipe()
        task = WorkerTask(str(tmp_path / name), dict(os.environ), str(tmp_path))
        streams = TaskStreams(input_fd, output_fd, output_fd)
        running = pool.start_task("telling_worker", task, streams)
        os.close(input_fd)
        os.close(output_fd)
        with open(our_input_fd, "w") as requests, open(our_output_fd) as answers:
            if name == "sleep":
                with pytest.raises(TimeoutError):
                    running.wait(0.1)
                assert running.kill() == -signal.SIGKILL
            else:
                print("abc", file=requests, flush=True)
                assert answers.readline() == "cba\n"
                requests.close()
                assert running.wait(60.0) == running.kill() == 0
            assert answers.read() == ""


def test_few_templates_are_kept(pool, tmp_path, monkeypatch):
    monkeypatch.setattr(worker_template, "_MAX_IDLE", 2)
    names = ["a", "b", "c", "a", "c"]
    for number, name in enumerate(names):
        assert run(pool, tmp_path / str(number), "tell", PYTHONNAMED=name) == 0
    templates = [
        json.loads((tmp_path / str(number) / "task.json").read_text())["template"]
        for number in range(len(names))
    ]
    assert len(set(templates)) == 4 and templates[2] == templates[4]
