"""Fixtures: a context, a parser, and shared workloads and measurements where they are at hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.paths import ROOT, find_workloads

from hespas.dialects.mlir import ir, make_context


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or writes the user's measurements; tools that tests start do not either."""
    folder = tmp_path_factory.mktemp("measuring")
    os.environ["HESPAS_CACHE"] = str(folder / "measurements.sqlite")
    os.environ["XDG_RUNTIME_DIR"] = str(folder)  # nor waits for what is measured elsewhere


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
