"""The supervising process: native crashes, endless parsers, signals and what a child leaves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.processes import start_process

from hespas.tools import console_scripts, supervisor

PREAMBLE = """
import os, signal, sys, tempfile, time
from hespas.support.supervised_process import *
from hespas.tools import console_scripts

def main(argv):
    if "imported" in argv:
        handle_interrupts_in_child()
    print("ready", os.getpid(), flush=True)
    {body}
    return 0

console_scripts.script(main)
"""
WAIT = "time.sleep(60)"
READ = "with run_native_reader('in', 0):\n        "
CLEANING = """tempfile.tempdir = '.'
    with open_temporary_folder() as folder:
        print(os.listdir('.') and 'made', flush=True)
        time.sleep(60)"""


def build_command(body: str, *argv: str) -> list[str]:
    return [sys.executable, "-c", PREAMBLE.format(body=body), *(argv or ("imported",))]


def run_tool(
    body: str, *argv: str, data: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        build_command(body, *argv), input=data, env={**os.environ, **variables}, text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_streams_and_exit_codes_pass_through() -> None:
    body = "sys.stdout.write(sys.stdin.read()); print('note', file=sys.stderr); sys.exit(7)"
    done = run_tool(body.replace("sys.exit", "return "), data="text")
    assert (done.returncode, done.stdout[-4:], done.stderr) == (7, "text", "note\n")


@pytest.mark.parametrize(
    ("printed", "dies", "message"),
    [
        ("", "os.abort()", "SIGABRT"),
        ("", "os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("F0102 10:00:00.1 9 a.cc:1] Check failed\\n @ 0x1", "os.abort()", "SIGABRT: Check failed"),
        ("LLVM ERROR: bad", "os.abort()", "SIGABRT: bad"),
        ("terminate called\\n  what():  worse", "os.abort()", "SIGABRT: worse"),
    ],
)  # fmt: skip
def test_a_native_crash_is_one_line(printed: str, dies: str, message: str) -> None:
    """What native code prints before it ends the process is not shown, except the reason."""
    done = run_tool(f"{READ}os.write(2, b'{printed}'); {dies}")
    assert done.returncode == 1
    assert done.stderr.startswith(f"in: error: the native reader failed ({message}); ")
    assert done.stderr.count("\n") == 1


def test_a_crash_elsewhere_names_the_pass() -> None:
    done = run_tool("with run_native_code(\"f: error: pass 'cse'\"):\n        os.abort()")
    message = "f: error: pass 'cse' failed (SIGABRT); please report it\n"
    assert (done.returncode, done.stderr) == (1, message)
    done = run_tool("os.abort()")
    message = "error: hespas failed (SIGABRT); please report it\n"
    assert (done.returncode, done.stderr) == (1, message)


def test_native_output_is_shown_if_nothing_fails() -> None:
    done = run_tool(f"{READ}os.write(2, b'native\\n'); print('ours', file=sys.stderr)")
    assert (done.returncode, done.stderr) == (0, "ours\nnative\n")


def test_an_endless_reader_is_ended() -> None:
    done = run_tool(f"{READ}\n            while True: pass", HESPAS_READ_LIMIT_S="0.1")
    assert done.returncode == 1
    assert re.fullmatch(
        r"in: error: the native reader did not finish within 0\.1 s of processor time; .*"
        r"HESPAS_READ_LIMIT_S=SECONDS allows more\n",
        done.stderr,
    )
    done = run_tool(f"{READ}sum(range(3 * 10**6))", HESPAS_READ_LIMIT_S="0")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("name", "value"), [("SUPERVISE", "no"), ("READ_LIMIT_S", "-1")])
def test_wrong_variables(name: str, value: str) -> None:
    done = run_tool("pass", **{f"HESPAS_{name}": value})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"HESPAS_{name}" in done.stderr and f"'{value}'" in done.stderr


@pytest.mark.parametrize("argv", [["--help"], ["f"]])
def test_one_process_without_supervision(argv: Sequence[str]) -> None:
    """Help needs no supervisor; a debugger sees the crash itself."""
    variables = {"HESPAS_SUPERVISE": "0"} if argv == ["f"] else {}
    done = run_tool("print(os.getppid(), flush=True); os.abort()", *argv, **variables)
    assert done.returncode == -signal.SIGABRT
    assert str(os.getpid()) in done.stdout.splitlines()[-1]


FOLDER = "record_temporary('t'); os.mkdir('t')\n    "
FILE = "record_temporary('t'); open('t', 'w').close()\n    "
ABORT = f"""record_new_folder('n'); os.mkdir('n')
    try: {WAIT}
    finally: os.abort()"""


@pytest.mark.parametrize(
    ("number", "argv", "body"),
    [
        (signal.SIGINT, "early", WAIT),  # before the imports are complete
        (signal.SIGTERM, "early", WAIT),
        (signal.SIGINT, "imported", CLEANING),
        (signal.SIGTERM, "imported", CLEANING),
        (signal.SIGHUP, "imported", CLEANING),
        (signal.SIGINT, "imported", f"{FOLDER}{READ}\n            while True: pass"),
        (signal.SIGTERM, "imported", f"{FILE}{READ}{WAIT}"),
        (signal.SIGTERM, "imported", ABORT),  # as native code does when a callback raises
    ],
)
def test_signals_clean_up(number: signal.Signals, argv: str, body: str) -> None:
    with start_process(
        build_command(body, argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        if body == CLEANING:
            assert process.stdout.readline() == "made\n"
        time.sleep(0.1)
        process.send_signal(number)
        err = process.communicate(timeout=30)[1]
    words = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
    assert (process.returncode, err) == (128 + number, f"{words[number]}\n")
    assert os.listdir() == []


def test_a_signal_ends_the_import_of_the_bindings_at_once() -> None:
    """They run Python code meanwhile, and would drop the exception that a handler raises in it."""
    done = run_tool("""class Finder:
        def find_spec(self, name, *arguments):
            if name == "jaxlib.mlir._mlir_libs._mlir":
                print(signal.getsignal(signal.SIGINT).name, flush=True)
    sys.meta_path.insert(0, Finder())
    import hespas.dialects.mlir
    print(signal.getsignal(signal.SIGINT).__name__)""")
    assert done.stdout.splitlines()[-2:] == ["SIG_DFL", "_raise_interrupt"]


def test_the_files_of_a_killed_child_are_removed() -> None:
    body = """for name in ('a', 'kept'):
        record_temporary(name); os.makedirs(name + '/b')
    forget_temporary('kept')
    os.kill(os.getpid(), signal.SIGKILL)"""
    done = run_tool(body)
    message = "error: hespas was killed (SIGKILL); perhaps the machine is out of memory\n"
    assert (done.returncode, done.stderr) == (137, message)
    assert os.listdir() == ["kept"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs O_ASYNC of pipes")
def test_a_child_without_its_parent_cleans_up() -> None:
    with start_process(
        build_command(CLEANING), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready")
        assert process.stdout.readline() == "made\n"
        process.kill()
        err = process.communicate(timeout=30)[1]  # the child has closed its streams
    assert err == "the supervising process has been killed\n"
    assert os.listdir() == []


def test_a_child_that_ignores_a_signal_is_killed_at_the_second() -> None:
    """Python code may lose a KeyboardInterrupt, such as one that a destructor raises."""
    body = """record_temporary('t'); os.mkdir('t')
    while True:
        try: print('armed', flush=True); time.sleep(60)
        except KeyboardInterrupt: print('lost', flush=True)"""
    with start_process(
        build_command(body), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert process.stdout.readline() == "armed\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "lost\n"
        time.sleep(1.1)
        process.send_signal(signal.SIGTERM)
        err = process.communicate(timeout=30)[1]
    assert (process.returncode, err) == (143, "terminated\n")
    assert os.listdir() == []


def test_stopping_and_continuing() -> None:
    """SIGTSTP and SIGCONT of the tool stop and continue both of its processes."""
    with start_process(
        build_command("sys.stdin.readline()"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        process_group=0,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        child = int(process.stdout.readline().split()[1])
        process.send_signal(signal.SIGTSTP)
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        wait_for_state(child, "T")
        process.send_signal(signal.SIGCONT)
        wait_for_state(child, "S")
        assert process.communicate("\n", timeout=30) and process.returncode == 0


def wait_for_state(pid: int, state: str) -> None:
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        if subprocess.run(command, capture_output=True, text=True).stdout.startswith(state):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} does not enter state {state}")


def test_ignored_signals_stay_ignored() -> None:
    """``nohup`` starts a tool with SIGHUP ignored."""
    with subprocess.Popen(
        build_command("sys.stdin.readline()"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        child = int(process.stdout.readline().split()[1])
        process.send_signal(signal.SIGHUP)
        os.kill(child, signal.SIGHUP)
        process.communicate("\n", timeout=30)
    assert process.returncode == 0


def test_without_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    assert supervisor.can_supervise() or sys.gettrace()
    monkeypatch.delattr(os, "fork")
    assert not supervisor.can_supervise()


def test_nothing_is_supervised_in_process(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs that import hespas, and these tests, keep their own handlers of signals."""
    from hespas.tools import hespas_opt

    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    Path("m").write_text("func.func @main() { return }")
    assert console_scripts.run_tool_main(hespas_opt.main, ["m", "--cse"]) == 0
    assert capsys.readouterr().out.startswith("module")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


HLO = """HloModule m

ENTRY main {
  x = f32[4] parameter(9)
  ROOT y = f32[4] add(x, x)
}
"""


def test_hlo_that_ends_the_process() -> None:
    """XLA's parser checks the numbers of parameters with an assertion."""
    Path("in").write_text(HLO)
    command = [sys.executable, "-m", "hespas.tools.hespas_opt", "in", "-o", "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(
        r"in: error: the native reader failed \(SIGABRT: Check failed: .*\); .*\n", done.stderr
    )
    assert os.listdir() == ["in"]
