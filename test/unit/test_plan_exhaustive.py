"""The winner of a plan against the best of all layouts: of fused programs, and of compiled ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.budgets import PROFILE, thin_out
from support.plan_spaces import is_search_exact, survey_spaces

import hespas
from hespas.dialects.xla import find_gpu_library
from hespas.workflows.planning.plan_result import LayoutRow

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


@dataclass(frozen=True)
class StandIn:
    """A small program, and the layouts among which its plan chooses.

    Attributes:
        fused_rank: The rank of the compiled winner among fused programs. Where it is not the first,
            a plan that ranks them instead, or that compiles too few, has another winner.
    """

    program: str
    mesh: dict[str, Any]
    options: dict[str, Any]
    global_batch: int
    fused_rank: int


STAND_INS = {
    "dense": StandIn(
        "llama", {"tensor": [1, 2, 4], "data": [1, 2, 4]}, {"model": "tiny", "sequence": 512}, 4, 1
    ),
    "experts": StandIn(
        "moe", {"tensor": 1, "expert": [1, 2], "data": [1, 2]},
        {"model": "tiny-moe", "sequence": 2048}, 4, 2,
    ),
    "long context": StandIn(
        "llama", {"tensor": [1, 2], "context": 2, "data": [1, 2]},
        {"model": "tiny", "sequence": 8192, "emb": 2048, "mlp": 8192, "heads": 16, "kv_heads": 16,
         "vocab": 4096}, 2, 2,
    ),
}  # fmt: skip


@pytest.mark.skipif(find_gpu_library() is None, reason="needs hespas[gpu-compiler]")
@pytest.mark.parametrize("name", thin_out(STAND_INS, 3))
def test_the_compiled_winner_is_that_of_compiling_everything(name: str, tmp_path: Path) -> None:
    stand_in = STAND_INS[name]
    request: dict[str, Any] = {
        "node": "H100_80GB", "devices": 4, "global_batch": stand_in.global_batch,
        "mesh": stand_in.mesh, "options": {**SHARED, **stand_in.options}, "top": 1, "jobs": 2,
        "work_dir": str(tmp_path), "cache": str(tmp_path / "cells"),
    }  # fmt: skip
    searched = hespas.plan(stand_in.program, **request)
    complete = hespas.plan(stand_in.program, **request, exhaustive=True, compile_count=1000)
    possible = [row for row in complete.rows if row.status in ("estimated", "too large")]
    assert len(possible) >= 3 and all(row.compiled for row in possible)
    # The winner by the compiled times themselves, and not by the plan's own ranking.
    fastest, *others = sorted(
        (row for row in possible if row.status == "estimated"), key=get_compiled_s
    )
    assert searched.winner is not None and complete.winner is not None
    assert searched.winner.candidate == complete.winner.candidate == fastest.candidate
    assert complete.ranked == [fastest, *others]
    times_s = sorted(row.fused.step_time_s for row in [fastest, *others] if row.fused)
    assert fastest.fused is not None
    assert times_s.index(fastest.fused.step_time_s) == stand_in.fused_rank - 1
    assert searched.verdict.startswith("Rank 1 is the fastest: ") and not searched.contenders
    for row in possible:  # what the search relies on
        assert row.fused is not None
        assert get_compiled_s(row) >= row.fused.overlapped_step_s


def get_compiled_s(row: LayoutRow) -> float:
    assert row.compiled is not None
    return row.compiled.values["step_time_s"]
