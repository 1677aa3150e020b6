"""`run`, `plan` and `estimate` take what XLA compiles, on each supported Python and JAX.

CI runs this module on the newest installed Python too (.ci/test-newest).
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import hespas
from hespas.dialects.xla import find_gpu_library
from hespas.tools import hespas as tool
from hespas.tools.console_scripts import run_tool_main

pytest.importorskip("jax")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_gpu_library() is None, reason="pip install 'hespas[gpu-compiler]'"),
]
NOT_XLA = ("hespas fuses the program", "not compiled", "could not optimise")


def run_command(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command, and return what it printed; XLA must not have failed."""
    assert run_tool_main(tool.main, argv) == 0
    printed = capsys.readouterr()
    for words in NOT_XLA:
        assert words not in printed.err
    return printed.out


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sharded training step, with collectives that XLA combines and runs alongside compute."""
    path = tmp_path_factory.mktemp("step") / "step.mlir"
    argv = ["export", "llama", "--model", "tiny", "--mesh", "fsdp=4", "-o", str(path)]
    assert run_tool_main(tool.main, [*argv, "--target", "H100_80GB"]) == 0
    return path


def test_run_takes_the_compiled_program(step, tmp_path, capsys):
    output = tmp_path / "traces"
    argv = ["run", "--mlir", str(step), "--node", "H100_80GB", "--system", "H100_80GB_4GPU"]
    result = json.loads(run_command([*argv, "--output", str(output), "--json"], capsys))
    assert result["form"].startswith("compiled by XLA for H100_80GB")
    assert not [text for text in result["warnings"] if "measured curves" not in text]
    assert result["overlap_s"] > 0  # XLA starts collectives early for this GPU


def test_plan_compiles_the_best_layout(tmp_path, capsys):
    table = tmp_path / "layouts.csv"
    argv = [
        "plan", "llama", "--set", "model=tiny", "remat=none", "--node", "H100_80GB",
        "--devices", "4", "--global-batch", "8", "--compile", "1", "--jobs", "1",
        "--mesh", "fsdp=4", "--csv", str(table),
    ]  # fmt: skip
    run_command(argv, capsys)
    rows = list(csv.DictReader(table.open()))
    assert rows[0]["form"] == "scheduled"  # by XLA; otherwise "fused"


def test_estimate_compiles_a_function():
    import jax
    import jax.numpy as jnp

    def loss(w, x):
        return jnp.mean(jnp.tanh(x @ w).astype(jnp.float32) ** 2)

    w = jax.ShapeDtypeStruct((1024, 1024), jnp.bfloat16)
    x = jax.ShapeDtypeStruct((4096, 1024), jnp.bfloat16)
    result = hespas.estimate(jax.grad(loss), w, x, target="H100_80GB", form="xla")
    assert result.summary.form.startswith("compiled by XLA for H100_80GB")
    assert result.step_time_s > 0
