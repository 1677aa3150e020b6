"""The survey of a folder (`test/survey_folder.py`): runs of each class are counted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.forked_tools import CLASSES, classify_outcome
from support.paths import ROOT

GOOD = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
CRASHING_HLO = "HloModule m\n\nENTRY main {\n  ROOT x = f32[4] parameter(3)\n}\n"


def run_survey(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "test" / "survey_folder.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_runs_are_counted_by_class(tmp_path: Path) -> None:
    folder = tmp_path / "modules"
    (folder / "inner").mkdir(parents=True)
    (folder / "good.mlir").write_text(GOOD)
    (folder / "inner" / "good.mlir").write_text(GOOD)
    (folder / "wrong.mlir").write_text("func.func @main(")
    (folder / "crash.hlo").write_text(CRASHING_HLO)
    done = run_survey(folder, "--list", tmp_path / "list")
    assert (done.returncode, done.stderr) == (0, "")
    counts = re.findall(r"^ +([1-9]\d*)  (result|refused|contained|\w+) ", done.stdout, re.M)
    assert counts[:3] == [("2", "result"), ("1", "refused"), ("1", "contained")]
    listed = [line.split("\t") for line in (tmp_path / "list").read_text().splitlines()]
    assert [row[0] for row in listed] == ["contained", "refused", "result", "result"]
    assert listed[1][2].endswith("wrong.mlir")


def test_failures_are_named(tmp_path: Path) -> None:
    """Runs that take too long, and another command."""
    (tmp_path / "a.mlir").write_text(GOOD)
    done = run_survey(tmp_path, "--limit-s", "0.001", "--", "hespas-opt", "FILE", "--cse")
    assert done.returncode == 1
    assert re.search(r"^ +1  hang ", done.stdout, re.M)
    assert re.search(r"^hang: .*a\.mlir: ", done.stdout, re.M)


@pytest.mark.parametrize(
    ("code", "stderr", "outcome"),
    [
        (0, "warning: w\n", "result"),
        (1, "f:1:2: error: wrong\n", "refused"),
        (2, "warning: w\nerror: wrong\n", "refused"),
        (1, "f: error: the native reader failed (SIGSEGV); x\n", "contained"),
        (
            1,
            "f: error: the native reader did not finish within 10 s of processor time",
            "contained",
        ),
        (1, "f: error: wrong\nf: error: worse\n", "unclear"),
        (1, "", "unclear"),
        (1, "Traceback (most recent call last):\n  File\nValueError: x\n", "traceback"),
        (-11, "", "signal"),
        (134, "", "signal"),
    ],
)
def test_classes(code: int, stderr: str, outcome: str) -> None:
    assert classify_outcome(code, stderr) == outcome
    assert outcome in CLASSES
