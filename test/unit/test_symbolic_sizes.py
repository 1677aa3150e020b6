"""Sizes of symbolic dimensions: the option of each command that takes them, and what stops them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import hespas
from hespas.passes import run_pipeline
from hespas.passes.base import PassRun, print_note
from hespas.support.errors import HespasError
from hespas.tools import hespas as hespas_tool
from hespas.tools.console_scripts import run_tool_main

SYMBOLIC = """
func.func public @main(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) -> tensor<?x64xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
"""
COMPUTED = """
func.func @main(%n: tensor<1xi32>) -> tensor<?xf32> {
  %d = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  return %d : tensor<?xf32>
}
"""
RUN = ["run", "--mlir", "step.mlir", "--node", "H100_80GB", "--form", "as-is", "--json"]
FLOPS = 2 * 64 * 64  # for each row of x


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("step.mlir").write_text(SYMBOLIC)


@pytest.mark.parametrize("dims", ["arg0_dim0=1000", "arg0=1000x64"])
def test_a_run_takes_sizes(dims, capsys) -> None:
    assert run_tool_main(hespas_tool.main, [*RUN, "--dims", dims]) == 0
    assert json.loads(capsys.readouterr().out)["flops"] == 1000 * FLOPS
    name, size = dims.split("=")
    for sizes in (dims, {name: int(size) if size.isdecimal() else size}):
        estimate = hespas.estimate("step.mlir", node="H100_80GB", dims=sizes)
        assert estimate.summary.emitted.stats["totals"]["flops"] == 1000 * FLOPS


def test_an_estimate_names_its_argument() -> None:
    (warning, *_) = hespas.estimate("step.mlir", node="H100_80GB").warnings
    assert 'set them with dims="b=8,s=1024", or dims="arg0=8x1024x64"' in warning


@pytest.mark.long
def test_sizes_of_a_sweep_are_not_mixed(capsys) -> None:
    keys = {
        "mlir": "step.mlir", "node": ["H100_80GB", "A100_SXM_80GB"], "estimator": "roofline",
        "dims": [f"arg0_dim0={rows}" for rows in (100, 200)],
    }  # fmt: skip
    outcome = hespas.sweep(keys, cache="none")
    assert sorted((row["cell.dims"], row["flops"]) for row in outcome.rows) == [
        ("arg0_dim0=100", 100 * FLOPS), ("arg0_dim0=100", 100 * FLOPS),
        ("arg0_dim0=200", 200 * FLOPS), ("arg0_dim0=200", 200 * FLOPS),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (RUN, "--dims b=8,s=1024, or --dims arg0=8x1024x64"),
        (["optimize", "step.mlir", "--target", "cpu", "-o", "out.mlir"], "--dims b=8,s=1024, or"),
    ],
)
def test_a_warning_names_the_option_of_its_command(command, option, capsys) -> None:
    assert run_tool_main(hespas_tool.main, command) == 0
    error = capsys.readouterr().err
    assert f"sizes assumed for symbolic dimensions: arg0_dim0=128; set them with {option}" in error


def test_a_pipeline_names_the_option_of_prepare(capsys) -> None:
    run_pipeline(hespas.read("step.mlir"), "prepare", PassRun(note=print_note))
    assert 'set them with hespas-opt --prepare=dims="b=8,s=1024", or' in capsys.readouterr().err


def test_a_row_of_a_sweep_names_its_key() -> None:
    row = hespas.sweep({"mlir": "step.mlir", "node": "H100_80GB"}, cache="none").rows[0]
    assert "set them with --set dims=b=8,s=1024" in row["warnings"]


@pytest.mark.parametrize(
    ("program", "dims", "message"),
    [
        (SYMBOLIC, "c=3", r"^step.mlir: error: .*is named 'c'; known: arg0_dim0; or set"),
        (SYMBOLIC.replace("?", "8"), "c=3", r"^step.mlir: error: .*has no symbolic dimensions\n$"),
        (COMPUTED, "c=3", r"no dimension is named 'c'; no argument has symbolic dimensions, so"),
        (COMPUTED, "", r"^step.mlir:3:8: error: .*dynamic_iota.*; no argument has symbolic dim"),
    ],
)
def test_wrong_sizes_have_a_remedy_that_works(program, dims, message, capsys) -> None:
    Path("step.mlir").write_text(program)
    assert run_tool_main(hespas_tool.main, [*RUN, *(["--dims", dims] if dims else [])]) == 1
    shown = capsys.readouterr().err
    assert re.search(message, shown.splitlines()[-1] + "\n"), shown
    assert not shown.rstrip().endswith(";")


def test_an_expression_that_never_ends_is_refused() -> None:
    """JAX writes dimensions as expressions over names; a file may hold any other."""
    shape = ".shape = (9**9**9**9, 64)"
    text = SYMBOLIC.replace(
        "  %0 =",
        '  stablehlo.custom_call @shape_assertion() {error_message = "args[0]'
        f'{shape}. Obtained dimension", has_side_effect = true}} : () -> ()\n  %0 =',
        1,
    )
    Path("step.mlir").write_text(text)
    with pytest.raises(HespasError, match=r"cannot evaluate the dimension '9\*\*9\*\*9\*\*9'"):
        run_pipeline(hespas.read("step.mlir"), "prepare")


@pytest.mark.parametrize("end", [";", ": ", ";\n", " ,"])
def test_no_error_ends_in_the_middle(end) -> None:
    assert str(HespasError(f"Failed to serialize{end}")) == "error: Failed to serialize"
    assert str(HespasError(f"exit code 3{end}", remedy="do")) == "error: exit code 3; do"
