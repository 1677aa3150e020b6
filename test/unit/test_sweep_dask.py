"""A sweep on a Dask cluster of two workers: the same rows as on this machine."""

from __future__ import annotations

import pytest
from support.published_inputs import EIGHT, PROGRAM

from hespas.support.errors import HespasError
from hespas.workflows.sweep import sweep_grid, sweep_jobs, sweep_runner
from support import sweep_work

pytestmark = pytest.mark.slow

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def cells(tmp_path, monkeypatch):
    for module in (sweep_jobs, sweep_runner):  # not of the files, which somebody may be working on
        monkeypatch.setattr(module, "collect_environment", lambda: sweep_work.ENVIRONMENT)
    monkeypatch.setattr(sweep_runner, "PROBE", "support.sweep_work:probe")
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


def test_the_rows_are_those_of_this_machine(cluster, cells, tmp_path):
    cache = str(tmp_path / "c.sqlite")
    there = sweep_runner.run_sweep(
        cells, sweep_runner.SweepOptions(dask=cluster, cache=cache), lambda text: None
    )
    here = sweep_runner.run_sweep(cells, sweep_runner.SweepOptions(cache="none"), lambda text: None)
    assert (there.computed, there.failed) == (here.computed, here.failed) == (6, 2)
    assert rows(there) == rows(here)
    good = [cell for cell, row in zip(cells, there.rows, strict=False) if row["error"] is None]
    assert good  # cells in the cache need no cluster
    second_outcome = sweep_runner.run_sweep(
        good[:1],
        sweep_runner.SweepOptions(dask="tcp://127.0.0.1:9", cache=cache),
        lambda text: None,
    )
    assert second_outcome.cached == 1


def test_workers_with_another_version_are_refused(cluster, cells, monkeypatch):
    monkeypatch.setattr(sweep_runner, "PROBE", "support.sweep_work:other_probe")
    with pytest.raises(HespasError, match=r"the Dask workers have another jaxlib: 1, here 2"):
        sweep_runner.run_sweep(
            cells, sweep_runner.SweepOptions(dask=cluster, cache="none"), lambda text: None
        )
