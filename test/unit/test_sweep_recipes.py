"""Sweeps whose programs are recipes, and the sweeps that hespas ships."""

from __future__ import annotations

import json
import math
import re
import shlex

import pytest
from support.paths import ROOT

from hespas.frontends.export.slice_mesh import is_in_device_order
from hespas.support.errors import HespasError
from hespas.tools import hespas
from hespas.tools.commands import study as study_command
from hespas.workflows.cells import PoolOptions
from hespas.workflows.studies.grid_studies import STUDIES
from hespas.workflows.studies.study_programs import describe_workload as describe_in_words
from hespas.workflows.sweep import sweep_grid, sweep_runner
from hespas.workflows.sweep.sweep_runner import make_recipe_workload

pytestmark = pytest.mark.slow

pytest.importorskip("jax")

PRODUCT = {
    "recipe": "gemm", "let.size": 256, "recipe.m": "= size", "recipe.k": "= size",
    "recipe.n": "= size", "node": "H100_80GB", "system": "auto", "form": "fuse",
}  # fmt: skip


@pytest.fixture
def sweep(tmp_path):
    options = PoolOptions(cache=str(tmp_path / "cells"), work_dir=str(tmp_path / "programs"))

    def sweep(**keys) -> list[dict]:
        cells = sweep_grid.expand_cells(PRODUCT | keys)
        return sweep_runner.run_sweep(cells, options, lambda text: None).rows

    return sweep


def test_a_cell_is_the_run_of_the_exported_program(sweep, tmp_path, monkeypatch, capsys):
    (row,) = sweep(**{"mesh.x": 4})
    monkeypatch.chdir(tmp_path)
    for command in (
        "export gemm --mesh x=4 --set m=256 --set k=256 --set n=256 --output product.mlir",
        "run --mlir product.mlir --node H100_80GB --system H100_80GB_4GPU --form fuse --json",
    ):
        capsys.readouterr()
        assert hespas.main(shlex.split(command)) == 0
    figures = json.loads(capsys.readouterr().out)
    assert row["system"] == "H100_80GB_4GPU"
    assert [row[name] for name in ("step_time_s", "compute_s", "flops")] == [
        figures[name] for name in ("step_time_s", "compute_s", "flops")
    ]


def test_a_recipe_on_several_meshes_scales(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"{key}: {value}" for key, value in PRODUCT.items()]
    (tmp_path / "sweep.yml").write_text("\n".join([*lines, "mesh.x: [1, 4, 16]"]))
    places = ["--cache", "cells", "--work-dir", "programs", "--output", "table.json"]
    assert hespas.main(["sweep", "sweep.yml", *places]) == 0
    scaling = capsys.readouterr().out.partition("Scaling")[2].splitlines()[2:5]
    assert [line.split()[:3] for line in scaling] == [
        ["-", "1", "1"], ["H100_80GB_4GPU", "4", "4"], ["DGX_H100_SuperPOD_2", "16", "16"],
    ]  # fmt: skip
    rows = json.loads((tmp_path / "table.json").read_text())
    assert {row["cell.mlir"] for row in rows} == {row["cell.family"] for row in rows} == {"gemm"}


def test_a_program_that_cannot_be_made_costs_its_cells_only(sweep):
    sizes = {"let.devices": [4, 5, 6], "mesh.x": "= devices", "mesh.y": "= devices / 4 - 1"}
    rows = sweep(**sizes, **{"recipe.kind": ["all-gather", "cannon"]})
    errors = [row["error"] or "" for row in rows]
    assert errors[0] == "" and "'kind' takes" in errors[1]
    assert all("mesh.y is 0.25, not a whole number" in error for error in errors[2:4])
    assert all(
        "no system of node H100_80GB has" in error or "mesh.y" in error for error in errors[4:]
    )


@pytest.mark.parametrize(
    ("size", "shown"),
    [(2.5, "2.5"), (-1, "-1"), (True, "true"), ("two", '"two"'), (math.inf, "inf")],
)
def test_an_axis_has_a_whole_number_of_devices(size, shown):
    with pytest.raises(HespasError, match=f"mesh.x is {shown}, not a whole number"):
        make_recipe_workload({"recipe": "gemm", "mesh.x": size})


def test_values_are_spelled_as_flags_spell_them():
    (keys,) = sweep_grid.expand_cells(
        PRODUCT | {"recipe.m": "= size / 2", "recipe.rate": 0.5, "recipe.scan": True, "mesh.x": 0}
    )
    workload = make_recipe_workload(keys)
    assert workload.options["m"] == "128" and workload.options["rate"] == "0.5"
    assert workload.options["scan"] == "true"
    assert describe_in_words(workload) == "gemm m=128 k=256 n=256 rate=0.5 scan=true"


def test_the_size_of_a_mesh_alone_costs_nothing():
    assert is_in_device_order({"x": 10**300}, {})


def test_auto_is_the_system_of_a_program_in_a_file(sweep, tmp_path):
    path = tmp_path / "product.mlir"
    hespas.main(["export", "gemm", "--mesh", "x=4", "--output", str(path)])
    cells = sweep_grid.expand_cells(
        {
            "mlir": str(path),
            "node": ["H100_80GB", "A100_SXM_40GB"],
            "system": "auto",
            "form": "as-is",
        }
    )
    outcome = sweep_runner.run_sweep(cells, PoolOptions(cache="none"), lambda text: None)
    assert [row["system"] for row in outcome.rows] == ["H100_80GB_4GPU", "A100_SXM_40GB_4GPU"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"recipe": "gemm", "mlir": "step.mlir"}, "both 'recipe' and 'mlir'"),
        ({"recipe": 5}, "'recipe' holds 5, not the name of a recipe"),
        ({"mlir": "step.mlir", "mesh.x": 4}, "'mesh.x' is for a program of a recipe"),
        ({"mlir": "step.mlir", "recipe.m": 4}, "'recipe.m' is for a program of a recipe"),
    ],
)
def test_wrong_keys_are_one_error(keys, message):
    with pytest.raises(HespasError, match=message):
        sweep_grid.expand_cells(keys)


def test_a_shipped_sweep_is_a_study_that_the_command_and_the_page_list():
    shipped = {path.stem for path in sweep_grid.SHIPPED_SWEEPS.glob("*.yml")}
    assert shipped == {*STUDIES} and shipped <= {*study_command.STUDIES}
    page = (ROOT / "docs" / "how-to" / "studies.md").read_text()
    first_table = page.partition("```")[0]
    listed = set(re.findall(r"^\| `hespas study (\S+)` \|", first_table, re.MULTILINE))
    assert {*study_command.STUDIES} == listed


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_has_the_programs_of_its_sweep(name):
    study = STUDIES[name]
    values = {axis.name: axis.parse_values(axis.default) for axis in study.axes}
    cells = sweep_grid.expand_cells(sweep_grid.read_sweep_file(name))
    swept = {describe_workload(make_recipe_workload(cell)) for cell in cells}
    studied = {describe_workload(workload) for workload in study.workloads(values)}
    assert swept == studied and len(cells) == len(studied) * len(study.nodes)


def describe_workload(workload) -> tuple:
    options = {**workload.defaults, **workload.options}
    return workload.recipe, workload.mesh_text, *sorted(options.items())
