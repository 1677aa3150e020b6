"""Fixtures of many test modules, and the order and distribution of the tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.budgets import load_default_budget
from support.paths import ROOT, find_workloads

from hespas.dialects.mlir import UNREGISTERED_VARIABLE, ir, make_context
from hespas.passes.compile import compiler_process

# The modules that take longest begin first, so that both workers end with modules of a few seconds.
LONGEST = (
    "test_record", "test_lit_reach", "test_docs", "test_rewrites", "test_recipe_models",
    "test_options", "test_recipes_run", "test_split", "test_playbooks", "test_adapters",
    "test_stored_weights", "test_block_products", "test_xla_optimize", "test_fused_against_xla",
    "test_sensitivity", "test_study_programs", "test_export", "test_recipes", "test_surroundings",
    "test_plan_exhaustive", "test_simulators_python", "test_eager_operators",
    "test_quantised_products", "test_bert", "test_cells", "test_fuse", "test_plan",
    "test_sweep_run", "test_published_files", "test_study_serving", "test_xla_estimator",
    "test_fuzz_programs", "test_recipe_stages", "test_study_pipeline", "test_plan_pipelines",
    "test_site", "test_plan_functions", "test_measure", "test_bad_input", "test_workloads",
    "test_lower", "test_work_oracle", "test_calibrate", "test_report_page", "test_maxtext",
    "test_model_operations", "test_validate_cases", "test_splash_attention", "test_reference",
    "test_rematerialisation", "test_prepare_partition", "test_stale_costs",
    "test_measure_region", "test_collectives", "test_generated", "test_measure_dask", "test_verify",
    "test_sweep_dask", "test_memory", "test_sim_embedded", "test_supervisor", "test_conventions",
    "test_sim_astra_rows", "test_prepare_trips", "test_training_options", "test_ring_attention",
    "test_gate", "test_growth", "test_stale_facts",
)  # fmt: skip
# Their tests share no fixtures: each test, or each parametrised function, may run on any worker.
SPREAD_BY_TEST = {
    "test_docs", "test_export", "test_fuse", "test_lit_reach", "test_playbooks",
    "test_prepare_partition", "test_record", "test_rewrites", "test_split", "test_sweep_run",
    "test_validate_cases", "test_workloads", "test_xla_optimize",
}  # fmt: skip
SPREAD_BY_FUNCTION = {"test_recipes_run"}
# The second stage of CI, which takes as long as all others: what the documentation shows and
# advises, programs that are executed, measured or simulated by others, or that XLA compiles, and
# what repeats whole runs. Single tests of this kind are marked ``long``.
LONG = {
    "test_bert", "test_calibrate", "test_cells", "test_compiled_programs", "test_default_form",
    "test_docs", "test_eager_operators", "test_export", "test_fused_against_xla",
    "test_gate_workflow", "test_lit_reach", "test_lower", "test_maxtext", "test_measure_dask",
    "test_model_operations", "test_plan_exhaustive", "test_plan_functions", "test_plan_pipelines",
    "test_playbooks", "test_program_form", "test_published_files", "test_quantised_products",
    "test_recipe_models", "test_recipe_stages", "test_recipes", "test_recipes_run", "test_record",
    "test_reference", "test_rematerialisation", "test_rewrites", "test_ring_attention",
    "test_ring_products", "test_sensitivity", "test_simulators_python", "test_site",
    "test_splash_attention", "test_study_pipeline", "test_study_programs", "test_surroundings",
    "test_sweep_dask", "test_t5", "test_training_options", "test_validate_cases",
    "test_work_oracle", "test_worker_template", "test_workloads", "test_xla_estimator",
    "test_xla_optimize",
}  # fmt: skip

load_default_budget()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looking for garbage: what is imported stays, and looking takes seconds.

    The tests look for it a hundred times less often than by default.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(70_000, 20, 100)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))
    for item in items:
        if item.path.stem in LONG:
            item.add_marker(pytest.mark.long)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a file on one worker, except those of the files named above."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            stem = Path(nodeid.partition("::")[0]).stem
            if stem in SPREAD_BY_TEST:
                return nodeid
            if stem in SPREAD_BY_FUNCTION:
                return nodeid.partition("[")[0]
            return super()._split_scope(nodeid)

    config.option.loadscopereorder = False  # in the order of collection
    return Scheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or writes the user's measurements; tools that tests start do not either.

    All workers of a run share what XLA has compiled, which is kept beside the measurements.
    """
    folder = tmp_path_factory.mktemp("measuring")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    shared = tmp_path_factory.getbasetemp().parent / "compiled" if worker else folder
    shared.mkdir(exist_ok=True)
    os.environ["HESPAS_CACHE"] = str(shared / f"measurements{worker}.sqlite")
    os.environ["XDG_RUNTIME_DIR"] = str(folder)  # nor waits for what is measured elsewhere
    compiler_process.LEAST_S = 0.0  # fast compilations too, which many tests repeat


@pytest.fixture(scope="session")
def context() -> ir.Context:
    return make_context()


@pytest.fixture
def parse(context: ir.Context) -> Callable[[str], ir.Module]:
    return lambda text: ir.Module.parse(text, context)


@pytest.fixture
def workload() -> Iterator[Callable[[str], Path]]:
    """A shared workload by its path without ``.xz``; the test is skipped where there are none."""

    def find(name: str) -> Path:
        folder = find_workloads()
        if folder is None:
            pytest.skip("the shared workloads are not here: set HESPAS_WORKLOADS")
        plain = folder / name
        return plain if plain.exists() else folder / f"{name}.xz"

    yield find


@pytest.fixture(scope="session")
def component() -> Callable[[str], str]:
    """A table of measured kernels by its name; the test is skipped where there are none."""
    default = ROOT.parent / "shared" / "components"
    folder = Path(os.environ.get("HESPAS_COMPONENTS", default))

    def find(name: str) -> str:
        if not folder.is_dir():
            pytest.skip("the measured kernels are not here: set HESPAS_COMPONENTS")
        return str(folder / f"{name}.csv.xz")

    return find


@pytest.fixture(autouse=True)
def accept_no_unregistered_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs in this process accepts them for what comes after it, too."""
    monkeypatch.setenv(UNREGISTERED_VARIABLE, "0")
