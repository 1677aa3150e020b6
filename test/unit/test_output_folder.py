"""Output folders: whole or not at all, and no file of the user is replaced or removed."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.output_files import read_output_files
from support.published_inputs import PROGRAM

from hespas.passes.emit.emit_chakra import choose_default_name
from hespas.support import folder_publication, output_folder, temporary_paths
from hespas.support.errors import HespasError
from hespas.support.folder_manifest import MANIFEST, FolderManifest, OutputSet
from hespas.support.output_file import write_atomically
from hespas.tools import hespas, hespas_opt
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows import run_flow

NUMBERS = OutputSet("numbers", re.compile(r"\d+\.txt"))
FLAGS = ("--mlir", "step.mlir", "--node", "A100_SXM_40GB", "--simulator", "embedded")
SYSTEM = ("--system", "A100_SXM_40GB_4GPU")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.delenv("HESPAS_ASTRA_SIM", raising=False)
    Path("step.mlir").write_text(PROGRAM)
    return tmp_path


def run(*argv: str) -> int:
    return run_tool_main(hespas.main, ["run", *argv])


def write_numbers(folder: Path, count: int, text: str) -> None:
    with output_folder.open_output_folder(folder, NUMBERS) as fresh:
        for number in range(count):
            (fresh / f"{number}.txt").write_text(text)


def read_whole_folder(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_run_beside_its_configuration_touches_no_file(place, capsys):
    config = {"mlir": "step.mlir", "node": "A100_SXM_40GB", "output": "."}
    Path("run.json").write_text(json.dumps(config))
    Path("simulation.json").write_text("mine")
    before = read_whole_folder(place)
    assert run("run.json") == 1
    assert capsys.readouterr().err == (
        "run.json: error: hespas does not replace this file and 1 more: it did not write it, or it "
        "has changed since; name another output folder, or move the file away\n"
    )
    Path("run.json").rename("mine.json")
    assert run("mine.json") == 1
    Path("simulation.json").unlink()
    assert run("mine.json") == 0 and run("mine.json") == 0
    assert json.loads(Path("mine.json").read_text()) == config
    assert Path("step.mlir").read_text() == before[str(place / "step.mlir")].decode()
    assert json.loads(Path("run.json").read_text())["output"] == "."


def test_a_run_that_fails_leaves_the_former_result(place, capsys, monkeypatch):
    assert run(*FLAGS, *SYSTEM, "--output", "out", "--timeline", "out/step.pftrace") == 0
    before = read_whole_folder(place)
    assert "out/step.pftrace" in {os.path.relpath(path, place) for path in before}

    def fail(plan: object, outcome: run_flow.RunOutcome, *args: object, **more: object) -> None:
        traces = outcome.run.get_artefact(run_flow.EmittedTraces).folder
        raise HespasError("a deadlock", where=f"{traces}/dev.0.et node 3")

    with monkeypatch.context() as patch:
        patch.setattr(run_flow, "simulate_traces", fail)
        assert run(*FLAGS, *SYSTEM, "--output", "out", "--fuse") == 1
        assert capsys.readouterr().err.endswith("out/dev.0.et node 3: error: a deadlock\n")
        assert run(*FLAGS, *SYSTEM, "--output", "new/out") == 1
    assert read_whole_folder(place) == before
    assert run(*FLAGS, "--output", "out") == 0  # without a simulation, and without its files
    assert not Path("out/simulation.json").exists() and not Path("out/step.pftrace").exists()


def test_new_traces_replace_the_results_of_a_run(place):
    assert run(*FLAGS, "--output", "out") == 0
    Path("out/notes.txt").write_text("mine")
    flags = ["--split-linear", "--roofline-annotate=node=A100_SXM_40GB", "--emit-chakra=output=out"]
    assert run_tool_main(hespas_opt.main, ["step.mlir", *flags, "--disable-output"]) == 0
    traces = {f"dev.{device}.et" for device in range(4)}
    assert read_output_files("out").keys() == traces | {
        "comm_group.json", "module_stats.json", "notes.txt"
    }  # fmt: skip


def test_a_timeline_of_a_result_belongs_to_hespas(place):
    timeline = ("--timeline", "out/step.pftrace")
    assert run(*FLAGS, *SYSTEM, "--output", "out") == 0
    for _ in range(2):
        assert run_tool_main(hespas.main, ["simulate", "out", *timeline]) == 0
    assert run(*FLAGS, *SYSTEM, "--output", "out", *timeline) == 0
    Path("out/step.pftrace").write_text("mine")
    assert run(*FLAGS, *SYSTEM, "--output", "out", *timeline) == 1
    assert run_tool_main(hespas.main, ["simulate", "out", *timeline]) == 1
    assert Path("out/step.pftrace").read_text() == "mine"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--simulator", "astra-sim"], "AstraSim_Analytical_Congestion_Unaware is not on PATH"),
        (["--simulator", "both", "--curves", "A100_SXM"], "ASTRA-sim cannot model --curves; "),
        (["--curves", "A100_SXN"], "did you mean 'A100_SXM'"),
        (["--system", "A100_SXM_40GB_8GPU"], "the program runs on 4 devices, but system"),
    ],
)
def test_what_cannot_succeed_is_refused_before_the_work(place, capsys, monkeypatch, flags, message):
    monkeypatch.setattr(run_flow, "execute_plan", None)
    roofline = ("--estimator", "roofline", *SYSTEM, "--output", "out")
    assert run(*FLAGS, *roofline, *flags) in (1, 2)
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1 and not Path("out").exists()


@pytest.mark.parametrize(
    ("symbol", "folder"),
    [('"../../x"', "x"), ('"/tmp/../.."', "tmp"), ('".."', "module"), ('"a b\\0Ac"', "a_b_c")],
)
def test_a_name_inside_a_program_is_no_path(place, capsys, monkeypatch, symbol, folder):
    inner = place / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    text = PROGRAM.replace("module @step", f"module @{symbol}", 1)
    assert symbol in text
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    before = read_whole_folder(place)
    assert run("--mlir", "-", *FLAGS[2:]) == 0
    added = {os.path.relpath(path, inner) for path in read_whole_folder(place).keys() - before}
    assert {path.partition("/")[0] for path in added} == {folder}


def test_a_default_name_selects_no_folder_of_the_user(place, capsys, parse):
    Path("step").mkdir()
    Path("step/main.py").write_text("mine")
    assert run(*FLAGS) == 0
    assert [path.name for path in Path("step").iterdir()] == ["main.py"]
    assert Path("step.traces/run.json").exists() and run(*FLAGS) == 0
    located = parse('module @m {} loc("../../up/..":1:1)')
    assert choose_default_name(located, "-") == "m"


def fail_at_call(function: Callable, number: int, action: Callable[[], None]) -> Callable:
    calls = iter(range(1000))

    def call(*args: object) -> object:
        if next(calls) == number:
            action()
        return function(*args)

    return call


def test_a_failure_while_files_move_restores_the_folder(tmp_path, monkeypatch):
    """One file more each time cannot be moved, until all can."""
    folder = tmp_path / "out"
    write_numbers(folder, 3, "old")
    (folder / "mine").write_text("mine")
    before = read_whole_folder(tmp_path)

    def fill_disk() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    real, number = os.rename, 0
    for number in range(100):
        monkeypatch.setattr(os, "rename", fail_at_call(real, number, fill_disk))
        try:
            write_numbers(folder, 2, "new")
        except HespasError as error:
            assert "No space left" in error.message
            assert read_whole_folder(tmp_path) == before
        else:
            break
    assert number > 7  # the publication, its three files, the list, and as many new ones
    assert read_output_files(folder) == {"0.txt": b"new", "1.txt": b"new", "mine": b"mine"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_while_files_move_restores_the_folder(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    write_numbers(folder, 3, "old")
    before = read_whole_folder(tmp_path)
    real, number = os.rename, 0
    while True:
        child = os.fork()
        if child == 0:
            try:  # whatever happens, this process must not go on with the tests
                os.rename = fail_at_call(real, number, lambda: os._exit(9))
                write_numbers(folder, 2, "new")
                os._exit(0)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9)
        if code == 0:
            break
        with folder_publication.hold_folder_unchanged(folder):
            temporary_paths.remove_abandoned_folders(folder)
            assert read_whole_folder(tmp_path) == before
        number += 1
    assert number > 7
    assert set(os.listdir(folder)) == {"0.txt", "1.txt", MANIFEST}


def test_of_two_runs_on_one_folder_one_wins_whole(tmp_path):
    folder = tmp_path / "out"
    errors: list[BaseException] = []

    def write_often(text: str, count: int) -> None:
        try:
            for _ in range(20):
                write_numbers(folder, count, text)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=write_often, args=(text, count))
        for text, count in (("a", 3), ("b", 5))
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if folder.exists():
            with folder_publication.hold_folder_unchanged(folder):
                names = [name for name in os.listdir(folder) if name.endswith(".txt")]
                texts = {(folder / name).read_text() for name in names}
            assert (texts, len(names)) in (({"a"}, 3), ({"b"}, 5))
    assert errors == []
    assert len(os.listdir(tmp_path)) == 1 and len(os.listdir(folder)) in (4, 6)


def test_a_folder_that_appears_meanwhile_keeps_its_files(tmp_path):
    folder = tmp_path / "out"
    with (
        pytest.raises(HespasError, match="hespas does not replace this file"),
        output_folder.open_output_folder(folder, NUMBERS) as fresh,
    ):
        (fresh / "0.txt").write_text("new")
        folder.mkdir()
        (folder / "0.txt").write_text("mine")
    assert read_whole_folder(tmp_path) == {str(folder / "0.txt"): b"mine"}


def test_planted_names_are_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "a").write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    for name in (folder_publication.PUBLICATION, ".hespas-00000000-0.tmp"):
        (folder / name).symlink_to(victim)
    with pytest.raises(HespasError, match="cannot be rolled back: another user's"):
        write_numbers(folder, 1, "new")
    (folder / folder_publication.PUBLICATION).unlink()
    journal = folder / folder_publication.PUBLICATION
    (journal / "new").mkdir(parents=True)
    (journal / "old").mkdir()
    host = temporary_paths.HOST
    (journal / "journal.json").write_text(json.dumps({"host": host, "new": ["../victim/a"]}))
    with pytest.raises(HespasError, match="damaged"):
        write_numbers(folder, 1, "new")
    assert read_whole_folder(victim) == {str(victim / "a"): b"mine"}
    stamp = [4, (victim / "a").stat().st_mtime_ns]
    sets = {"version": 1, "sets": {"numbers": {"../victim/a": stamp}}}
    (folder / MANIFEST).write_text(json.dumps(sets))
    with pytest.raises(HespasError, match="not a list of files that this version"):
        FolderManifest.read(folder)
    (folder / MANIFEST).unlink()
    (folder / MANIFEST).symlink_to(victim / "a")
    with pytest.raises(HespasError, match="not a list of files that this version"):
        FolderManifest.read(folder)


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for text in ("old", "new"):
        write_numbers(tmp_path / "link", 1, text)
    assert (tmp_path / "link").is_symlink()
    assert read_output_files(tmp_path / "real") == {"0.txt": b"new"}
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o777 & ~mask
    assert stat.S_IMODE((tmp_path / "real" / "0.txt").stat().st_mode) == 0o666 & ~mask


def test_a_file_of_another_is_no_temporary_file(tmp_path, monkeypatch):
    (tmp_path / "victim").write_text("mine")
    monkeypatch.setattr(temporary_paths.os, "urandom", bytes)
    planted = temporary_paths.make_temporary_path(tmp_path)
    planted.symlink_to(tmp_path / "victim")
    with pytest.raises(HespasError, match="cannot write it: File exists"):
        write_atomically(str(tmp_path / "file"), b"new")
    assert planted.is_symlink() and (tmp_path / "victim").read_text() == "mine"
