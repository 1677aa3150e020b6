"""The pytest plug-in: budgets of programs, their baselines, and its cost where it is not used."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.paths import ROOT
from support.result_programs import layered

PLUGIN = "hespas.tools.pytest_plugin"
FLAGS = (
    "-p", PLUGIN, "-p", "no:xdist", "-p", "no:cacheprovider", "--import-mode=importlib",
    "-p", "no:unraisableexception",  # which collects the garbage of the outer run five times
)  # fmt: skip
TEST = """
import pytest

@pytest.mark.hespas_budget(target="A100_SXM_40GB", system="A100_SXM_40GB_4GPU")
class TestSpeed:
    def test_step(self, hespas_budget):
        profile = hespas_budget("step.mlir")
        assert profile.step_time_s > profile.compute_s > 0
"""
BASELINES = Path("test_speed.budgets.json")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a test of the speed of ``step.mlir``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # tests are edited within a second
    Path("pytest.ini").write_text("[pytest]\n")
    Path("test_speed.py").write_text(TEST)
    Path("step.mlir").write_text(layered())


def run_tests(capsys, *flags):
    """Run the tests of the project in this process; returns the exit code and the output."""
    capsys.readouterr()
    sys.modules.pop("test_speed", None)
    code = pytest.main([*FLAGS, *flags])
    return code, capsys.readouterr().out


@pytest.mark.slow
def test_a_baseline_is_written_and_then_held(project, capsys):
    code, out = run_tests(capsys)
    assert code == 1 and re.search(r"no baseline in test_speed.budgets.json.*--hespas-update", out)
    assert run_tests(capsys, "--hespas-update")[0] == 0
    assert list(json.loads(BASELINES.read_text())) == ["TestSpeed::test_step"]
    assert run_tests(capsys)[0] == 0
    Path("step.mlir").write_text(layered(4))
    code, out = run_tests(capsys)
    assert code == 1
    for pattern in (
        r"TestSpeed::test_step: the step takes [\d.]+ % longer, more than the 1 % allowed with a "
        r"probability of 90 % \(.*in layer_\d/mlp \(dot_general",
        r"TestSpeed::test_step: the exposed communication grows by .*1 all_reduce that was not "
        r"there, of 32.768 kB in layer_3 \(psum",
    ):
        assert re.search(pattern, out), out
    assert run_tests(capsys, "--hespas-update")[0] == 0
    assert run_tests(capsys)[0] == 0
    Path("step.mlir").write_text(layered(3))
    assert run_tests(capsys)[0] == 0  # it became faster


def test_limits_of_a_call_override_those_of_the_marker(project, capsys):
    assert run_tests(capsys, "--hespas-update")[0] == 0
    Path("step.mlir").write_text(layered(4))
    growths = 'step_growth="60%", memory_growth=None, exposed_growth=60'
    wide = TEST.replace('"step.mlir"', f'"step.mlir", {growths}')
    Path("test_speed.py").write_text(wide)
    assert run_tests(capsys)[0] == 0
    Path("test_speed.py").write_text(wide.replace("60%", "six"))
    assert "'six' is not a percentage such as 3%" in run_tests(capsys)[1]


def test_a_baseline_of_another_machine_is_an_error(project, capsys):
    assert run_tests(capsys, "--hespas-update")[0] == 0
    Path("test_speed.py").write_text(TEST.replace("A100_SXM_40GB", "H100_80GB"))
    message = 'the baseline was made with node "A100_SXM_40GB", and this is "H100_80GB"; make it'
    assert message in run_tests(capsys)[1]


def test_a_damaged_baseline_is_an_error(project, capsys):
    BASELINES.write_text('{"TestSpeed::test_step": {"kernels": 1}}')
    code, out = run_tests(capsys)
    assert code == 1 and "test_speed.budgets.json: TestSpeed::test_step: error: " in out


def test_a_program_without_a_system_has_no_exposed_communication(project, capsys):
    bare = TEST.replace(', system="A100_SXM_40GB_4GPU"', "").replace("step_time_s > profile.", "")
    Path("test_speed.py").write_text(bare)
    assert run_tests(capsys, "--hespas-update")[0] == 0
    assert run_tests(capsys)[0] == 0
    Path("test_speed.py").write_text(bare.replace('("step.mlir"', '("step.mlir", exposed_growth=1'))
    out = run_tests(capsys)[1]
    assert "a result has no exposed communication: it was not simulated; name a system" in out


def test_the_plugin_is_an_entry_point_with_the_name_of_its_module():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points["pytest11"] == {PLUGIN: PLUGIN}


def test_the_plugin_imports_nothing_else():
    """It is imported by every pytest of an environment with hespas."""
    code = f"""
import sys, pytest
before = set(sys.modules)
import {PLUGIN}
print(*sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["hespas", "hespas.tools", PLUGIN]
