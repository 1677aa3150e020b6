"""Cells on a Dask cluster of two workers: the same rows as on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.published_inputs import EIGHT, PROGRAM
from support.stage_programs import write_stage_programs
from support.tool_commands import parse_pipe, run_command

from hespas.estimators.measure import cluster as cluster_pool
from hespas.support.errors import HespasError
from hespas.workflows import cells
from hespas.workflows.sweep import sweep_grid, sweep_runner
from hespas.workflows.validation.prediction_scores import COLUMNS
from support import sweep_work, traces

pytestmark = pytest.mark.slow

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def keys(tmp_path, monkeypatch):
    # Not of the files, which somebody may be working on.
    for module in (cells, sweep_runner):
        monkeypatch.setattr(module, "collect_environment", lambda: sweep_work.ENVIRONMENT)
    monkeypatch.setattr(cells, "PROBE", "support.sweep_work:probe")
    monkeypatch.chdir(tmp_path)  # paths are relative to here, and the workers are elsewhere
    (tmp_path / "step.mlir").write_text(PROGRAM)
    (tmp_path / "step-8.mlir").write_text(EIGHT)
    return sweep_grid.expand_cells(
        {
            "mlir": ["step.mlir", "step-8.mlir"], "estimator": "roofline", "node": "TPUv4",
            "system": ["MI300X_[48]", "HGX_H100_8"], "node.tdp_w": [100, 200],
        }
    )  # fmt: skip


def rows(outcome: sweep_runner.SweepOutcome) -> list[dict]:
    return [{k: v for k, v in row.items() if k != "provenance.created"} for row in outcome.rows]


def test_the_rows_are_those_of_this_machine(cluster, keys, tmp_path):
    cache = str(tmp_path / "c.sqlite")
    there = sweep_runner.run_sweep(
        keys, sweep_runner.PoolOptions(dask=cluster, cache=cache), lambda text: None
    )
    here = sweep_runner.run_sweep(keys, sweep_runner.PoolOptions(cache="none"), lambda text: None)
    assert (there.computed, there.failed) == (here.computed, here.failed) == (6, 2)
    assert rows(there) == rows(here)
    good = [cell for cell, row in zip(keys, there.rows, strict=False) if row["error"] is None]
    assert good  # cells in the cache need no cluster
    second_outcome = sweep_runner.run_sweep(
        good[:1],
        sweep_runner.PoolOptions(dask="tcp://127.0.0.1:9", cache=cache),
        lambda text: None,
    )
    assert second_outcome.cached == 1


def test_workers_with_another_version_are_refused(cluster, keys, monkeypatch):
    monkeypatch.setattr(cells, "PROBE", "support.sweep_work:other_probe")
    with pytest.raises(HespasError, match=r"the Dask workers have another jaxlib: 1, here 2"):
        sweep_runner.run_sweep(
            keys, sweep_runner.PoolOptions(dask=cluster, cache="none"), lambda text: None
        )


def test_a_lost_scheduler_keeps_what_is_finished(keys, tmp_path, monkeypatch):
    """The other cells have its loss as their error, and the next run computes them alone."""
    here = sweep_runner.PoolOptions(cache="none")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        monkeypatch.setattr(cells, "_limit_chunk_size", lambda size_bytes, count: 1)
        cache = str(tmp_path / "c.sqlite")
        options = sweep_runner.PoolOptions(dask=cluster.scheduler_address, cache=cache)
        store = cells.CellPool._store_answer

        def store_and_lose(pool, cell, answer):
            stored = store(pool, cell, answer)
            is_cell = isinstance(stored, dict) and "figures" in stored
            if is_cell and cluster.status.name == "running":
                cluster.close()
            return stored

        monkeypatch.setattr(cells.CellPool, "_store_answer", store_and_lose)
        monkeypatch.setattr(cluster_pool, "CONNECT_TIMEOUT_S", 3)  # of each try to connect again
        lost = sweep_runner.run_sweep(keys, options, lambda text: None)
    monkeypatch.setattr(cells.CellPool, "_store_answer", store)
    assert "is gone; results so far are kept" in lost.lost
    assert 1 <= lost.computed < 6 and lost.failed == len(keys) - lost.computed
    again = sweep_runner.run_sweep(keys, sweep_runner.PoolOptions(cache=cache), lambda text: None)
    assert again.cached == lost.computed and not again.lost
    assert rows(again) == rows(sweep_runner.run_sweep(keys, here, lambda text: None))


def test_pipelines_and_predictions_are_those_of_this_machine(
    cluster: str, keys: list[dict], tmp_path: Path
) -> None:
    write_stage_programs(tmp_path / "stages")
    traces.system(tmp_path / "system", (2,), topology="Switch")
    nodes = ("A100_SXM_40GB", "H100_80GB")
    rows = [f"step,4,{node},{node}_4GPU,0.5,0,made up" for node in nodes]
    Path("cells.csv").write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")
    pipelines = "hespas study pipeline stages --ranks 2 --system system --schedules gpipe,zb-h1"
    for line in (
        f"{pipelines} --microbatches 2,4 --keep-going",
        "hespas validate cells.csv --programs . --start unoptimised --at-least 0",
    ):
        tables = []
        for place in (f"--dask {cluster}", "--jobs 2"):
            commands = parse_pipe(f"{line} --cache none {place}")
            assert commands is not None
            tables.append(run_command(commands[0]))
            assert tables[-1].code == 0, tables[-1].err
        assert tables[0].out == tables[1].out and "H100_80GB" in tables[0].out
