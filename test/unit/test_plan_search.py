"""Which layouts a plan compiles and ranks: made-up step times in the place of programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hespas import configs
from hespas.support.errors import HespasError
from hespas.support.text_tables import format_plain_table, format_seconds
from hespas.tools.report.plan_page import render_plan_page
from hespas.workflows.planning import layout_space, plan_result, plan_search
from hespas.workflows.planning.layout_bounds import StepBound
from hespas.workflows.planning.layout_space import (
    LayoutCandidate,
    LayoutRequest,
    ProgramInterface,
)
from hespas.workflows.planning.plan_result import (
    LayoutFigures,
    LayoutPlan,
    LayoutRow,
    rank_rows,
)
from hespas.workflows.planning.plan_search import MAX_FAILURES, LayoutSearch, PlanOptions
from hespas.workflows.planning.program_sketch import SketchOp
from hespas.workflows.run_config import RunOptions

REQUEST = LayoutRequest("llama", "H100_80GB", 8, 16)
NODE = configs.load_node("H100_80GB")


@dataclass(frozen=True)
class MadeUpLayout:
    """A layout with the figures that its programs have; ``compiled_s`` is None if XLA refuses.

    Attributes:
        compute_s: The compute of its fused program.
        comm_s: The collectives of its fused program, all exposed.
        compiled_s: The step of its compiled program.
        compiled_bytes: The memory of its compiled program.
        bound: The share of the fused figures that its bound is.
        compiled_compute_s: The compute of its compiled program; None for that of its fused one.
    """

    compute_s: float
    comm_s: float
    compiled_s: float | None
    compiled_bytes: float = 50e9
    bound: float = 1.0
    compiled_compute_s: float | None = None


@dataclass
class MadeUpPlan:
    """Plans made-up layouts, whose names are those of an axis; each compile takes a minute."""

    layouts: Sequence[MadeUpLayout]
    options: PlanOptions = field(default_factory=lambda: PlanOptions(top=1))
    compiled: list[int] = field(default_factory=list)
    estimated: list[int] = field(default_factory=list)
    verdict: str = ""
    warnings: Sequence[str] = ()

    def make_rows(self) -> list[LayoutRow]:
        return [
            LayoutRow(
                LayoutCandidate({"data": number}, {}), "pruned",
                bound=StepBound(one.compute_s * one.bound, one.comm_s * one.bound, 0),
            )
            for number, one in enumerate(self.layouts)
        ]  # fmt: skip

    def search(self, count: int | None = None) -> LayoutPlan:
        programs: Any = None  # no program is made
        search = LayoutSearch(REQUEST, self.options, NODE, None, programs, lambda text: None)

        def estimate_rows(rows: Sequence[LayoutRow], form: str) -> None:
            for row in rows:
                self.record(search, row, form)

        search.estimate_rows = estimate_rows  # type: ignore[method-assign]
        rows = self.make_rows()
        search.estimate_best(rows)
        search.compile_best(rows, count)
        verdict = search.judge_rest(rows)
        self.warnings = search.warnings
        ranked = rank_rows(rows)
        return LayoutPlan("H100_80GB", "HGX_H100_8", 8, ranked, 80e9, verdict=verdict)

    def record(self, search: LayoutSearch, row: LayoutRow, form: str) -> None:
        number = row.candidate.mesh["data"]
        layout = self.layouts[number]
        step_s, exposed_s, size = layout.compute_s + layout.comm_s, layout.comm_s, 40e9
        (self.estimated if form == "fused" else self.compiled).append(number)
        if form != "fused":
            if layout.compiled_s is None:
                search._record_failure(row, HespasError("no config is supported"), form)
                return
            step_s, size = layout.compiled_s, layout.compiled_bytes
            exposed_s = step_s - layout.compute_s
        compute_s = layout.compute_s
        if form != "fused":
            compute_s = min(compute_s, layout.compiled_compute_s or compute_s)
        values = {
            "step_time_s": step_s, "compute_s": compute_s, "exposed_comm_s": exposed_s,
            "peak_bytes": size,
        }  # fmt: skip
        search._record_figures(row, LayoutFigures(form, values), fits=size <= 80e9)


# Llama 70B on 64 H100, sequences of 8,192, 2026-11-26: fsdp 64, data 2 x fsdp 32, fsdp 32 x tensor
# 2 with remat=full; fsdp 64 and fsdp 32 x tensor 2 with save_qkv_proj; data 2 x fsdp 16 x tensor 2.
LLAMA_70B = [
    MadeUpLayout(14.364, 2.065, 15.492, 59.6e9),
    MadeUpLayout(14.392, 1.795, 16.448, 70.8e9),
    MadeUpLayout(14.750, 2.218, 16.639, 58.6e9),
    MadeUpLayout(14.061, 2.065, 16.866, 84.0e9),
    MadeUpLayout(14.422, 2.218, 17.478, 83.2e9),
    MadeUpLayout(14.777, 2.197, 16.900, 63.8e9),
]


def get_number(row: LayoutRow | None) -> int:
    assert row is not None
    return row.candidate.mesh["data"]


def test_a_layout_whose_communication_is_hidden_wins() -> None:
    made_up = MadeUpPlan(LLAMA_70B)
    plan = made_up.search()
    assert get_number(plan.winner) == 0 and not plan.contenders
    assert [get_number(row) for row in plan.ranked] == [0, 1, 2, 5]
    assert plan.verdict.startswith("Rank 1 is the fastest: ")
    assert sorted(made_up.compiled) == [*range(6)]
    # Two of the fastest fused programs do not tell: one does not fit, the other is slower.
    assert get_number(MadeUpPlan(LLAMA_70B).search(1).winner) == 1


def test_what_does_not_fit_as_compiled_has_no_rank() -> None:
    plan = MadeUpPlan(LLAMA_70B).search()
    rows = {get_number(row): row for row in plan.rows}
    for number, size in ((3, "84.000 GB"), (4, "83.200 GB")):
        row = rows[number]
        assert (row.status, row.rank, row.on_front) == ("too large", 0, False)
        assert row.reason == (
            f"as XLA compiles it, needs {size} of memory on each device, and H100_80GB has "
            "80.000 GB"
        )


def test_layouts_that_could_not_win_are_not_compiled() -> None:
    layouts = [MadeUpLayout(1.0, 0.5, 1.1), MadeUpLayout(1.05, 0.6, 1.2),
               MadeUpLayout(1.2, 0.7, 1.3), MadeUpLayout(1.3, 0.1, 1.3)]  # fmt: skip
    made_up = MadeUpPlan(layouts, PlanOptions(top=4))
    plan = made_up.search()
    assert made_up.compiled == [3, 0, 1]
    left = {get_number(row): row.reason for row in plan.fused_only}
    assert left[2] == (
        "not compiled; at best 1.200 s, without exposed communication, not less than the "
        "1.100 s of rank 1"
    )
    assert all(row.rank == 0 for row in plan.fused_only)


def test_what_xla_gains_in_one_layout_it_may_gain_in_all() -> None:
    """The compiled compute of the first is 4 % shorter, so that the third one may take 1.056 s."""
    layouts = [MadeUpLayout(1.0, 0.1, 1.08, compiled_compute_s=0.96),
               MadeUpLayout(1.05, 0.1, 1.1), MadeUpLayout(1.1, 0.1, 1.06),
               MadeUpLayout(1.2, 0.1, 1.19)]  # fmt: skip
    made_up = MadeUpPlan(layouts, PlanOptions(top=4))
    plan = made_up.search()
    assert get_number(plan.winner) == 2 and made_up.compiled == [0, 1, 2]
    assert "and XLA made its compute 4.0 % shorter, as that of a compiled one" in plan.verdict
    assert plan.fused_only[0].reason.startswith("not compiled; at best 1.152 s")


def test_a_pruned_layout_may_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_search, "FIRST_BATCH", 1)
    layouts = [MadeUpLayout(2.0, 0.1, 2.1), MadeUpLayout(1.0, 3.0, 1.5, bound=0.9),
               MadeUpLayout(1.9, 1.0, 2.5), MadeUpLayout(2.5, 2.0, 2.6, bound=0.9),
               MadeUpLayout(2.4, 0.8, 3.0)]  # fmt: skip
    plan = MadeUpPlan(layouts, PlanOptions(top=2)).search()
    assert get_number(plan.winner) == 1
    rows = {get_number(row): row for row in plan.rows}
    assert rows[3].status == "pruned" and rows[3].fused is None
    assert rows[3].reason.startswith("not estimated; at best 2.250 s")


def test_a_winner_that_does_not_compile_gives_way_to_the_next() -> None:
    layouts = [MadeUpLayout(1.0, 0.1, None), MadeUpLayout(1.2, 0.1, 1.25),
               MadeUpLayout(1.24, 0.2, 1.3)]  # fmt: skip
    for count in (None, 1, 2):
        plan = MadeUpPlan(layouts, PlanOptions(top=3)).search(count)
        assert get_number(plan.winner) == 1
        (failed,) = (row for row in plan.rows if row.status == "failed")
        assert get_number(failed) == 0 and failed.rank == 0
        assert failed.reason == "XLA does not compile it: no config is supported"
        assert failed.reason in str(plan)


def test_if_xla_compiles_nothing_ranks_are_those_of_fused_programs() -> None:
    layouts = [MadeUpLayout(1 + number, 0.1, None) for number in range(MAX_FAILURES + 2)]
    made_up = MadeUpPlan(layouts, PlanOptions(top=len(layouts)))
    plan = made_up.search()
    assert len(made_up.compiled) == MAX_FAILURES
    assert [get_number(row) for row in plan.ranked] == [*range(len(layouts))]
    (warning,) = made_up.warnings
    assert warning.startswith(f"XLA compiled none of the {MAX_FAILURES} layouts that it tried")
    assert "no config is supported" in warning and not plan.verdict


def test_the_order_is_unknown_only_when_the_time_has_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made_up = MadeUpPlan(LLAMA_70B, PlanOptions(top=1, compile_minutes=3))
    monkeypatch.setattr(plan_search.time, "monotonic", lambda: 60.0 * len(made_up.compiled))
    plan = made_up.search()
    assert len(made_up.compiled) == 3 and plan.contenders
    assert "the order of the rest is unknown: " in plan.verdict
    assert "the 3 minutes for compiling have passed" in plan.verdict
    assert plan.to_json()["contenders"] == len(plan.contenders)
    made_up = MadeUpPlan(LLAMA_70B, PlanOptions(top=1, compile_minutes=7))
    assert "unknown" not in made_up.search().verdict
    counted = MadeUpPlan(LLAMA_70B, PlanOptions(top=3, compile_minutes=0)).search(1)
    assert "only a stated number of layouts is compiled" in counted.verdict
    none = MadeUpPlan(LLAMA_70B, PlanOptions(top=3, compile_minutes=0)).search()
    assert none.winner is not None and none.winner.compiled is None
    assert none.verdict.startswith("No layout that fits is compiled yet, and the order of all is")


def test_one_table_has_figures_of_one_form() -> None:
    plan = MadeUpPlan(LLAMA_70B, PlanOptions(top=6)).search(2)
    assert len(plan.ranked) == 2 and len(plan.fused_only) == 3
    tables = [table for table in plan_result.build_plan_tables(plan) if "margin" in table.header]
    steps_s = [{row[table.header.index("step")] for row in table.rows} for table in tables]
    compiled, _, fused, _ = steps_s
    assert compiled == {format_seconds(r.compiled.step_time_s) for r in plan.ranked if r.compiled}
    assert fused == {format_seconds(r.fused.step_time_s) for r in plan.fused_only if r.fused}
    assert [table.title.partition(", H100_80GB")[0] for table in tables] == [
        "Layouts by step time, as XLA compiles them",
        "Best in time, memory and cost, as XLA compiles them",
        "Layouts by step time, not compiled: every collective exposed",
        "Best in time, memory and cost, not compiled: every collective exposed",
    ]


def test_the_terminal_names_the_form_and_the_peak_of_its_figures() -> None:
    """With one form only too; and MFU of layouts in 8 bits is a share of another peak."""
    plan = MadeUpPlan(LLAMA_70B, PlanOptions(top=6)).search(0)
    first, *_ = plan_result.build_plan_tables(plan)
    assert first.title.startswith("Layouts by step time, not compiled: every collective exposed")
    assert max(len(line) for line in format_plain_table(first).splitlines()) < 120
    for row, dtype in zip(plan.ranked, ("bf16", "int8", "int8"), strict=False):
        assert row.fused is not None
        values = {**row.fused.values, "mfu": 0.25, "peak_dtype": dtype}
        row.fused = replace(row.fused, values=values)
    first, *_ = plan_result.build_plan_tables(plan)
    shown = [row[first.header.index("MFU")] for row in first.rows]
    assert shown[:3] == ["25.0 % of bf16", "25.0 % of int8", "25.0 % of int8"]


def test_the_picture_shows_what_the_table_ranks() -> None:
    plan = MadeUpPlan(LLAMA_70B, PlanOptions(top=6)).search(2)
    # The charts for wide windows; each is followed by one for narrow windows.
    ranked, _, fused, *_ = render_plan_page(plan, "Layouts").decode().split("<svg")[1:]
    for row in plan.ranked:
        assert row.compiled is not None
        assert f"rank {row.rank}: data={get_number(row)}" in ranked
        assert f"\n{row.compiled.step_time_s:.4g}"[:5] in ranked
    assert ranked.count("<circle") == len(plan.ranked)
    assert fused.count("<circle") == len(plan.fused_only)
    assert "rank " not in fused.partition("</svg>")[0]


shares = st.floats(0, 1)
layouts = st.builds(
    lambda compute_s, comm_s, left, size, bound, fails: MadeUpLayout(
        compute_s, comm_s, None if fails else compute_s + left * 2 * comm_s, size, bound
    ),
    st.floats(1, 2), shares, shares, st.sampled_from([50e9, 50e9, 90e9]), shares,
    st.sampled_from([False, False, False, True]),
)  # fmt: skip


@given(st.lists(layouts, min_size=1, max_size=20), st.integers(1, 4), st.integers(1, 3))
def test_the_winner_is_that_of_compiling_everything(
    made_up: list[MadeUpLayout], top: int, jobs: int
) -> None:
    compiled = [one for one in made_up if one.compiled_s and one.compiled_bytes < 80e9]
    refused = [one for one in made_up if one.compiled_s is None]
    searched = MadeUpPlan(made_up, PlanOptions(top=top, jobs=jobs))
    plan = searched.search()
    if searched.warnings or not compiled:
        assert len(refused) >= MAX_FAILURES or not compiled
        return
    assert plan.winner is not None and plan.winner.compiled is not None
    assert plan.winner.compiled.step_time_s == min(one.compiled_s or 0.0 for one in compiled)
    assert all(row.figures is not None and row.figures.form == "scheduled" for row in plan.ranked)


def test_fused_attention_adds_the_policy_that_keeps_its_results() -> None:
    defaults = {"batch": "1", "remat": "full", "attention": "dot_product"}
    interface = ProgramInterface(("data",), defaults)

    def list_policies(**changes: Any) -> tuple[str, ...]:
        request = replace(REQUEST, **changes)
        return layout_space.select_option_values(request, interface)["remat"]

    plain = ("none", "minimal", "save_qkv_proj", "full")
    with_flash = ("none", "minimal_flash", *plain[1:])
    assert list_policies() == plain
    assert list_policies(attention="cudnn") == list_policies(attention="splash") == with_flash
    assert list_policies(options={"attention": ["cudnn"]}) == with_flash
    assert list_policies(attention="cudnn", options={"attention": ["dot_product"]}) == plain
    assert list_policies(attention="cudnn", options={"remat": ["full"]}) == ("full",)


def test_the_keys_of_maxtext_name_attention_and_products() -> None:
    def list_keys(**options: str) -> list[str]:
        options = {"logits_dtype": "bf16", **options}
        row = LayoutRow(LayoutCandidate({"data": 8}, options), "estimated")
        return plan_search.list_maxtext_flags(REQUEST, row)

    size = ["ici_data_parallelism=8", "per_device_batch_size=2"]
    assert list_keys() == [*size, "attention=dot_product"]
    assert list_keys(attention="splash", products="none") == [*size, "attention=flash"]
    keys = list_keys(attention="cudnn", products="fp8_delayed", remat="full")
    assert keys == [
        *size, "remat_policy=full", "attention=cudnn_flash_jax", "quantization=fp8",
    ]  # fmt: skip
    row = LayoutRow(
        LayoutCandidate({"data": 8}, {"logits_dtype": "bf16", "attention": "cudnn"}), "estimated"
    )
    keys = plan_search.list_maxtext_flags(replace(REQUEST, node="MI300X"), row)
    assert keys == [*size, "attention=autoselected"]
    static = list_keys(products="fp8_static")
    assert "quantization=fp8_full" in static
    assert "act_quantization_calibration_method=fixed,-224,224" in static
    assert list_keys(products="fp8") == []  # MaxText has no scales from the values themselves
    assert list_keys(logits_dtype="f32") == []  # nor logits in f32 of products in bf16


def test_bounds_are_those_of_devices_that_are_faster_than_the_node(tmp_path: Path) -> None:
    name = "switch:8,links=4,link_gb_s=25,latency_ns=500,local_mem_gb_s=3350"
    for file, text in configs.read_system_files(name).items():
        (tmp_path / file).write_text(text)
    bounds_s = []
    for devices in ([], range(7), range(8)):
        fast = {"slow_devices": [{"devices": [d], "speed": 2 + d} for d in devices]}
        (tmp_path / "fabric.json").write_text(json.dumps(fast))
        system = configs.load_system(str(tmp_path))
        search = LayoutSearch(REQUEST, PlanOptions(), NODE, str(tmp_path), mock.Mock(), print)
        ops = [SketchOp("product", "bf16", (), "", (1, 4096, 4096, 4096, 2 * 4096**3))]
        bounds_s.append(search._make_bounds(system).compute.bound_compute_s(ops))
    assert bounds_s == [bounds_s[0], bounds_s[0] / 8, bounds_s[0] / 9]


def test_options_of_estimates_are_checked_before_anything_is_searched() -> None:
    for options, error in (
        (PlanOptions(run=RunOptions(overlap="none"), compile_count=0), "no use for --compile 0"),
        (PlanOptions(run=RunOptions(setting={"job-device": 8})), "has no setting 'job-device'"),
        (PlanOptions(run=RunOptions(curves="A99")), "no measured collectives"),
    ):
        with pytest.raises(HespasError, match=error):
            plan_search.plan_layouts(REQUEST, options, lambda text: None)
