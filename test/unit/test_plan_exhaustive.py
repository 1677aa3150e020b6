"""The winner of a plan against the best of all layouts: of fused programs, and of compiled ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.budgets import PROFILE
from support.plan_spaces import is_search_exact, survey_spaces

import hespas
from hespas.dialects.xla import find_gpu_library

pytestmark = pytest.mark.slow
pytest.importorskip("jax")

SPACES = 50  # each takes about 17 s of processor time


@pytest.mark.skipif(PROFILE != "nightly", reason="test/laws searches a space for each option")
def test_the_search_finds_the_best_of_all_layouts() -> None:
    outcomes = list(survey_spaces(SPACES))
    assert is_search_exact(outcomes), [outcome.format_row() for outcome in outcomes]
    assert sum(o.estimated for o in outcomes) < sum(o.layouts for o in outcomes)


SHARED = {"layers": 2, "emb": 1024, "mlp": 4096, "heads": 8, "kv_heads": 8, "head_dim": 128,
          "vocab": 2048, "accumulate": 1, "remat": "full"}  # fmt: skip
STAND_INS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "dense": ("llama", {"tensor": [1, 2], "data": [1, 2]}, {"model": "tiny", "sequence": 1024}),
    "experts": ("moe", {"tensor": 1, "expert": [1, 2]}, {"model": "tiny-moe", "sequence": 512}),
    "long context": (
        "llama", {"tensor": [1, 2], "context": [1, 2], "data": 1},
        {"model": "tiny", "sequence": 8192, "attention": "dot_product"},
    ),
}  # fmt: skip


@pytest.mark.skipif(find_gpu_library() is None, reason="needs hespas[gpu-compiler]")
@pytest.mark.parametrize("name", STAND_INS)
def test_the_compiled_winner_is_that_of_compiling_everything(name: str, tmp_path: Path) -> None:
    program, mesh, options = STAND_INS[name]
    request: dict[str, Any] = {
        "node": "H100_80GB", "devices": 4, "global_batch": 4, "mesh": mesh,
        "options": {**SHARED, **options}, "top": 1, "jobs": 2,
        "work_dir": str(tmp_path), "cache": str(tmp_path / "cells"),
    }  # fmt: skip
    searched = hespas.plan(program, **request)
    complete = hespas.plan(program, **request, exhaustive=True, compile_count=1000)
    assert searched.winner is not None and complete.winner is not None
    assert searched.winner.candidate == complete.winner.candidate
    assert searched.verdict.startswith("Rank 1 is the fastest: ") and not searched.contenders
    possible = [row for row in complete.rows if row.status in ("estimated", "too large")]
    assert len(possible) >= 4 and all(row.compiled for row in possible)
    for row in possible:  # what the search relies on
        assert row.fused is not None and row.compiled is not None
        assert row.compiled.step_time_s >= row.fused.overlapped_step_s
