"""Damaged programs give a result or one clear line (`test/fuzz_programs.py`)."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.budgets import count_cases
from support.paths import ROOT


@pytest.mark.long
@pytest.mark.slow
def test_damaged_programs() -> None:
    """The mutations of our seeds: text, bytecode, portable artifacts, HLO text and protobufs."""
    script = str(ROOT / "test" / "fuzz_programs.py")
    command = [sys.executable, script, "--cases", str(count_cases(500)), "--keep", "build/fuzz"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  result  " in done.stdout


def test_a_case_is_always_the_same_program() -> None:
    code = "from support.program_mutations import *; print([make_case(i) for i in range(40)])"
    command = [sys.executable, "-c", code]
    outputs = [
        subprocess.run(command, cwd=ROOT / "test", capture_output=True, check=True).stdout
        for _ in range(2)
    ]
    assert outputs[0] == outputs[1] and len(outputs[0]) > 10_000
