"""The GitHub workflow in docs/examples: its YAML, and its commands on two versions of a program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.gate_runs import EXAMPLES

WORKFLOW = EXAMPLES / "hespas-gate.yml"
GH = '#!/bin/sh\necho "$@" > gh-arguments\n'  # stands for GitHub's command


@pytest.fixture(scope="module")
def workflow():
    return yaml.safe_load(WORKFLOW.read_text())


def test_the_workflow_is_one_of_pull_requests(workflow):
    assert workflow[True] == "pull_request"  # YAML 1.1 reads the key `on` as true
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    (job,) = workflow["jobs"].values()
    assert job["runs-on"] == "ubuntu-latest"
    checkouts = [s["with"]["path"] for s in job["steps"] if "checkout" in s.get("uses", "")]
    assert sorted(checkouts) == ["base", "head"]
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])


@pytest.fixture
def run_step(workflow, tmp_path, monkeypatch):
    """Run the commands of a step as GitHub does; returns the finished process."""
    (job,) = workflow["jobs"].values()
    gh = tmp_path / "bin" / "gh"
    gh.parent.mkdir()
    gh.write_text(GH)
    gh.chmod(0o755)
    tools = Path(sys.executable).parent
    fixed = {"PATH": f"{gh.parent}:{tools}:{os.environ['PATH']}", "GITHUB_REPOSITORY": "me/model",
             "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "NUMBER": "7"}  # fmt: skip

    def run(name):
        step = next(step for step in job["steps"] if step.get("name") == name)
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, **workflow["env"], **fixed},
        )  # fmt: skip

    return run


@pytest.mark.slow
def test_its_commands_comment_and_fail_on_a_regression(run_step, tmp_path):
    source = (EXAMPLES / "train_step.py").read_text()
    slower = source.replace("bf16: bool = True", "bf16: bool = False")
    assert slower != source
    for version, text in (("base", source), ("head", slower)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "train_step.py").write_text(text)
    assert run_step("export").returncode == 0
    compared = run_step("compare")
    assert compared.returncode == 1, compared.stderr
    assert "error: head.mlirbc: the step takes" in compared.stderr
    assert run_step("comment").returncode == 0
    comment = (tmp_path / "comment.md").read_text()
    assert "products in f32 that were bf16" in comment and "| mlp |" in comment
    assert (tmp_path / "summary.md").read_text() == comment
    arguments = (tmp_path / "gh-arguments").read_text()
    assert arguments.startswith("pr comment 7 --repo me/model --body-file comment.md")
    Path(tmp_path / "base.mlirbc").replace(tmp_path / "head.mlirbc")
    (tmp_path / "base.mlirbc").write_bytes((tmp_path / "head.mlirbc").read_bytes())
    assert run_step("compare").returncode == 0
    assert (tmp_path / "comment.md").read_text().startswith("Nothing exceeds its limit.")
