"""The parts of a plan that need no program: the space, families of sketches, and the front."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hespas import configs
from hespas.simulators.simulation_options import SimulationOptions
from hespas.support.errors import HespasError, UsageError
from hespas.tools.report.plan_page import render_plan_page
from hespas.workflows.planning import (
    layout_programs,
    layout_space,
    plan_result,
    plan_search,
    program_sketch,
)
from hespas.workflows.planning.layout_bounds import (
    CommBounds,
    NoSketchFamily,
    SketchFamily,
    SketchSample,
    StepBound,
    check_member,
    group_families,
    make_point,
    plan_families,
)
from hespas.workflows.planning.layout_programs import LayoutPrograms
from hespas.workflows.planning.layout_space import (
    LayoutCandidate,
    LayoutRequest,
    MeshFacts,
    ProgramInterface,
)
from hespas.workflows.planning.plan_result import (
    LayoutFigures,
    LayoutPlan,
    LayoutRow,
    rank_rows,
)
from hespas.workflows.planning.plan_search import (
    LayoutSearch,
    PlanOptions,
    count_compiles,
    explore_space,
)
from hespas.workflows.planning.program_sketch import SketchOp
from hespas.workflows.sweep.sweep_analysis import dominates

INTERFACE = ProgramInterface(
    ("data", "context", "tensor"), {"batch": "1", "accumulate": "1", "remat": "full"}
)
REQUEST = LayoutRequest("llama", "H100_80GB", 8, 16)


def explore(request: LayoutRequest = REQUEST) -> layout_space.LayoutSpace:
    """The space of a request for a program whose samples are divided over ``data``."""
    axes = layout_space.select_axis_sizes(request, INTERFACE)
    meshes = layout_space.enumerate_meshes(axes, request.devices)
    facts = [MeshFacts(mesh["data"], 10) for mesh in meshes]
    return layout_space.build_layout_space(request, INTERFACE, meshes, facts)


def test_every_layout_does_the_same_step() -> None:
    space = explore()
    assert {candidate.mesh["data"] for candidate in space.candidates} == {1, 2, 4, 8}
    for candidate in space.candidates:
        assert math.prod(candidate.mesh.values()) == 8
        assert candidate.mesh["context"] == 1  # as the request leaves it open
        counts = [int(candidate.options[name]) for name in ("batch", "accumulate")]
        assert candidate.mesh["data"] * math.prod(counts) == 16
    remats = layout_space.OPEN_OPTIONS["remat"]
    assert {candidate.options["remat"] for candidate in space.candidates} == set(remats)
    assert space.describe_size().startswith(f"{len(space.candidates)} layouts: 4 meshes")


def test_the_length_of_sequences_is_always_stated() -> None:
    interface = replace(INTERFACE, defaults={**INTERFACE.defaults, "sequence": "4096"})
    assert layout_space.select_option_values(REQUEST, interface)["sequence"] == ("4096",)
    request = replace(REQUEST, options={"sequence": ["512"]})
    assert layout_space.select_option_values(request, interface)["sequence"] == ("512",)


def test_an_axis_and_an_option_can_be_fixed() -> None:
    request = replace(
        REQUEST, axes={"tensor": [2], "context": [1, 2]}, options={"accumulate": ["4"]}
    )
    space = explore(request)
    assert {tuple(c.mesh.values()) for c in space.candidates} == {(4, 1, 2), (2, 2, 2)}
    assert {candidate.options["accumulate"] for candidate in space.candidates} == {"4"}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (replace(REQUEST, axes={"tensr": [2]}), "has no mesh axis 'tensr'"),
        (replace(REQUEST, axes={"tensor": [3]}), "no sizes of the mesh multiply to 8 devices"),
        (replace(REQUEST, options={"rmat": ["full"]}), "has no option 'rmat'"),
    ],
)
def test_what_a_program_lacks_is_an_error(request_: LayoutRequest, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        explore(request_)


def test_a_batch_that_cannot_be_divided_is_a_row_with_the_reason() -> None:
    space = explore(replace(REQUEST, global_batch=12))
    errors = {c.mesh["data"]: c.error for c in space.candidates if c.error}
    assert errors == {8: "12 samples of a step are not a multiple of the 8 of all batch shards"}


POINT = {"data": 2, "tensor": 2, "batch": 1}


def make_ops(point: dict[str, int]) -> list[SketchOp]:
    """A product, an all-reduce over tensor, one over data, and an argument."""
    rows, width = 64 * point["batch"], 256 // point["tensor"]
    ops = [
        SketchOp("argument", "", (), "", (4 * 64 * width,)),
        SketchOp("product", "bf16", (), "", (1, rows, 64, width, 2 * rows * 64 * width), 3),
        SketchOp("all_reduce", "", ("tensor",), "", (2 * rows * 64,), 3),
        SketchOp("all_reduce", "", ("data",), "", (4 * 64 * width,), 3),
    ]
    return [op for op in ops if not op.axes or point[op.axes[0]] > 1]


@given(st.sampled_from([1, 2, 8]), st.sampled_from([1, 4, 16]), st.sampled_from([1, 3, 6]))
def test_sketches_follow_from_those_of_a_few(data: int, tensor: int, batch: int) -> None:
    variants = [(name, {**POINT, name: 2 * size}) for name, size in POINT.items()]
    family = SketchFamily(
        SketchSample(POINT, make_ops(POINT)),
        {name: SketchSample(point, make_ops(point)) for name, point in variants},
    )
    point = {"data": data, "tensor": tensor, "batch": batch}
    assert family.derive_sketch(point) == make_ops(point)
    check_member(family, SketchSample(point, make_ops(point)))


@given(st.sampled_from([1, 2]), st.sampled_from([1, 3]))
def test_an_axis_of_one_size_needs_no_other(tensor: int, batch: int) -> None:
    variants = [(name, {**POINT, **change}) for name, change in
                (("tensor", {"tensor": 1}), ("batch", {"batch": 2}))]  # fmt: skip
    family = SketchFamily(
        SketchSample(POINT, make_ops(POINT)),
        {name: SketchSample(point, make_ops(point)) for name, point in variants},
    )
    point = {"data": 2, "tensor": tensor, "batch": batch}
    assert family.derive_sketch(point) == make_ops(point)


def test_layouts_whose_sizes_are_no_powers_are_no_family() -> None:
    base, other = make_ops(POINT), make_ops({**POINT, "batch": 2})
    odd = replace(other[1], sizes=(1, 129, *other[1].sizes[2:]))
    sample = SketchSample({**POINT, "batch": 2}, [other[0], odd, *other[2:]])
    with pytest.raises(NoSketchFamily, match="no powers of batch"):
        SketchFamily(SketchSample(POINT, base), {"batch": sample})
    with pytest.raises(NoSketchFamily, match="have other ops"):
        SketchFamily(SketchSample(POINT, base), {"batch": SketchSample(POINT, base[1:])})


def test_a_sketch_is_made_again_where_it_would_be_another(tmp_path, monkeypatch) -> None:
    """Rules of estimators give the work of its ops, and are no part of its program."""
    programs = LayoutPrograms("llama", "cuda", tmp_path, 1, print)
    request = programs.make_request({"data": 1}, {"model": "tiny"})
    first = programs._locate_sketch(request)
    assert programs._locate_sketch(request) == first
    environments = mock.Mock(side_effect=lambda folders, _: {"source": f"new {folders}"})
    monkeypatch.setattr(layout_programs, "collect_environment", environments)
    assert programs._locate_sketch(request) != first
    ((folders, _), _) = environments.call_args
    assert set(folders) == {"estimators", "workflows/planning"}


def test_a_member_with_other_compute_is_found() -> None:
    family = SketchFamily(SketchSample(POINT, make_ops(POINT)), {})
    slower = [replace(op, runs=op.runs + 1) for op in make_ops(POINT)]
    with pytest.raises(NoSketchFamily, match="does not follow"):
        check_member(family, SketchSample(POINT, slower))


def test_a_family_is_planned_where_it_saves_sketches() -> None:
    candidates = [
        LayoutCandidate({"data": 8 // t, "tensor": t}, {"batch": str(b), "remat": "full"})
        for t in (1, 2, 4, 8)
        for b in (1, 2, 4)
    ]
    (plan,) = plan_families(candidates, group_families(candidates))
    assert plan.base == {"data": 2, "tensor": 2, "batch": 1}
    assert plan.variants["tensor"] == {"data": 2, "tensor": 4, "batch": 1}
    assert plan.check == {"data": 1, "tensor": 1, "batch": 1}
    assert [make_point(candidates[index]) for index in plan.members] == [
        {**candidate.mesh, "batch": int(candidate.options["batch"])} for candidate in candidates
    ]
    assert plan_families(candidates, [[0, 1]]) == []


def test_loops_inside_each_other_are_in_memory_together() -> None:
    ops = [
        SketchOp("argument", "", (), "", (5,)),
        SketchOp("carried", "", (), "/0", (100,)),
        SketchOp("carried", "", (), "/0/1", (10,)),
        SketchOp("carried", "", (), "/0/2", (40,)),
        SketchOp("carried", "", (), "/01", (120,)),
    ]
    assert program_sketch.sum_resident_bytes(ops) == 5 + 100 + 40


def test_a_combined_collective_bounds_its_parts() -> None:
    system = configs.load_system("HGX_H100_8")
    bounds = CommBounds(system, SimulationOptions(network_model="flows", curves="H100_SXM"))
    small = SketchOp("all_reduce", "", ("data",), "", (1 << 20,))
    large = replace(small, sizes=(16 << 20,))
    mesh = {"data": 8}
    parts_s = bounds.bound_comm_s([replace(small, runs=16)], mesh)
    assert 0 < parts_s <= bounds.bound_comm_s([large], mesh) * (1 + 1e-6)


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=20))
def test_the_front_dominates_every_other_point(points: list[tuple[int, ...]]) -> None:
    front = [p for p in points if not any(dominates(other, p) for other in points)]
    for point in points:
        better = [
            o for o in points if o != point and all(a <= b for a, b in zip(o, point, strict=True))
        ]
        assert (point in front) == (not better)
        assert any(all(a <= b for a, b in zip(best, point, strict=True)) for best in front)


@given(
    st.lists(st.tuples(st.floats(1, 9), st.floats(0, 1), st.booleans()), min_size=1, max_size=30),
    st.integers(1, 4),
)
def test_the_search_finds_the_best(layouts: list[tuple[float, float, bool]], top: int) -> None:
    """Each layout has a step time, the share of it that its bound is, and may lack a bound."""
    rows = [
        LayoutRow(LayoutCandidate({}, {}), "pruned",
                  bound=StepBound(time_s * share, 0.0, 0) if has_bound else None)
        for time_s, share, has_bound in layouts
    ]  # fmt: skip
    times_s = {id(row): time_s for row, (time_s, _, _) in zip(rows, layouts, strict=True)}
    node = configs.load_node("H100_80GB")
    programs: Any = None  # no program is made
    search = LayoutSearch(REQUEST, PlanOptions(top=top), node, None, programs, lambda text: None)

    def estimate_rows(chosen: list[LayoutRow], form: str) -> None:
        for row in chosen:
            row.status, row.fused = (
                "estimated",
                LayoutFigures(form, {"step_time_s": times_s[id(row)]}),
            )

    search.estimate_rows = estimate_rows  # type: ignore[method-assign]
    search.estimate_best(rows)
    best_s = sorted(times_s.values())[:top]
    estimated = [row for row in rows if row.fused]
    assert sorted(row.fused.step_time_s for row in estimated if row.fused)[:top] == best_s
    for row in rows:
        if row.status == "pruned":
            assert row.bound is not None and row.bound.step_time_s >= best_s[-1]
            assert "is above" in row.reason


class StubPrograms:
    """Programs whose layouts exist only without fused attention."""

    def read_interface(self) -> ProgramInterface:
        return replace(INTERFACE, defaults={**INTERFACE.defaults, "attention": "dot_product"})

    def describe_meshes(
        self, meshes: list[Any], options: dict[str, str], interface: ProgramInterface
    ) -> list[MeshFacts]:
        error = "it has limits of scores" if options.get("attention") == "cudnn" else ""
        return [MeshFacts(mesh["data"], 10, error) for mesh in meshes]


def test_a_program_without_fused_attention_is_searched_with_its_own() -> None:
    notes: list[str] = []
    programs: Any = StubPrograms()
    space = explore_space(replace(REQUEST, attention="cudnn"), programs, notes.append)
    assert not any(candidate.error for candidate in space.candidates)
    assert notes == ["note: without attention=cudnn: it has limits of scores"]
    asked = replace(REQUEST, options={"attention": ["cudnn"]}, attention="cudnn")
    space = explore_space(asked, programs, notes.append)
    assert all(candidate.error for candidate in space.candidates) and len(notes) == 1


def test_a_node_without_a_compiler_compiles_only_if_asked() -> None:
    notes: list[str] = []
    assert count_compiles(PlanOptions(), "MI300X", notes.append) == 0
    assert notes == ["note: no layout is compiled: XLA has no target for node MI300X"]
    assert count_compiles(PlanOptions(compile_count=0), "MI300X", notes.append) == 0
    with pytest.raises(HespasError, match="XLA has no target for node MI300X"):
        count_compiles(PlanOptions(compile_count=1), "MI300X", notes.append)


def make_plan() -> LayoutPlan:
    """A plan of three ranked layouts, two of them on the front, and one that is pruned."""
    figures = [(1.0, 40e9), (2.0, 20e9), (3.0, 30e9)]
    rows = []
    for t, (step_s, size) in zip((1, 2, 4), figures, strict=True):
        values = {"step_time_s": step_s, "mfu": 0.5, "peak_bytes": size}
        candidate = LayoutCandidate({"data": 8 // t}, {"remat": "full"})
        rows.append(LayoutRow(candidate, "estimated", fused=LayoutFigures("fused", values)))
    slow = LayoutCandidate({"data": 1}, {"remat": "full"})
    pruned = LayoutRow(slow, "pruned", "bound 4 s is above", StepBound(4.0, 0.0, 0))
    return LayoutPlan("H100_80GB", "HGX_H100_8", 8, rank_rows([pruned, *reversed(rows)]), 80e9)


def test_rows_are_ranked_and_shown() -> None:
    plan = make_plan()
    assert [row.rank for row in plan.rows] == [1, 2, 3, 0]
    assert [row.figures.step_time_s for row in plan.front if row.figures] == [1.0, 2.0]
    tables = plan_result.build_plan_tables(plan)
    assert [len(table.rows) for table in tables] == [3, 2, 1]
    assert list(tables[0].rows[0])[:2] == ["1", "8"]
    assert "50.0 %" in tables[0].rows[0]
    page = render_plan_page(plan, "Layouts").decode()
    assert page.count("<circle") == 2 * 3 and page.count('class="s2"') == 2 * 2
    assert "bound 4 s is above" in page and str(plan).startswith("Layouts by step time")
    assert [row["status"] for row in plan.to_json()["rows"]] == ["estimated"] * 3 + ["pruned"]


@pytest.mark.parametrize(
    ("arrays", "names"),
    [
        ({"params.layers.0.up": "A", "params.layers.1.up": "A", "mu.layers.0.up": "A"}, ["up"]),
        (
            {"params.Block_0.Dense_0.kernel": "A", "params.Block_0.Dense_1.kernel": "B",
             "params.Block_1.Dense_0.kernel": "A", "tokens": "None"},
            ["Block_*.Dense_0.kernel", "Block_*.Dense_1.kernel"],
        ),
        ({"weights.layers.0.up": "A", "weights.layers.1.up": "A", "x": "B"},
         ["weights.layers.*.up", "x"]),
    ],
)  # fmt: skip
def test_arrays_are_named_by_what_tells_them_apart(arrays: dict[str, str], names: list[str]):
    tables = plan_result.build_plan_tables(replace(make_plan(), partition_specs=arrays))
    (recipe,) = [table for table in tables if table.title == "How to build rank 1"]
    assert [row[0] for row in recipe.rows] == names


def test_a_plan_without_a_fitting_layout_has_a_page() -> None:
    plan = replace(make_plan(), rows=make_plan().rows[3:])
    assert plan.winner is None and "<circle" not in render_plan_page(plan, "Layouts").decode()


def test_axes_are_split_within_a_host_first() -> None:
    layout = LayoutCandidate({"data": 4, "fsdp": 8, "tensor": 2}, {})
    parts = plan_search.divide_axes(layout, 8)
    assert parts == {"data": (1, 4), "fsdp": (4, 2), "tensor": (2, 1)}
    assert plan_search.format_hybrid_mesh(layout) == ""


def test_axes_are_divided_over_slices_as_stated() -> None:
    mesh = {"data": 4, "fsdp": 8, "tensor": 2}
    layout = LayoutCandidate(mesh, {}, dcn={"data": 2, "fsdp": 4, "tensor": 1})
    parts = plan_search.divide_axes(layout, 8)
    assert parts == {"data": (2, 2), "fsdp": (2, 4), "tensor": (2, 1)}
    assert [layout.format_axis(axis) for axis in mesh] == ["2x2", "4x2", "2"]
    call = plan_search.format_hybrid_mesh(layout)
    assert "create_hybrid_device_mesh((2, 2, 2), (2, 4, 1))" in call


def test_every_division_over_slices_is_a_layout() -> None:
    request = replace(REQUEST, dcn={}, slices=2, axes={"context": (1,)})
    layouts = [one for one in explore(request).candidates if not one.error]
    assert all(math.prod(one.dcn.values()) == 2 for one in layouts)
    meshes = {(one.format_axis("data"), one.format_axis("tensor")) for one in layouts}
    assert meshes == {("2x4", "1"), ("2x2", "2"), ("4", "2x1"), ("2x1", "4"), ("2", "2x2"),
                      ("1", "2x4")}  # fmt: skip
    fixed = explore(replace(request, dcn={"tensor": (1,)})).candidates
    assert {one.dcn["tensor"] for one in fixed if not one.error} == {1}
    assert {one.error for one in fixed if one.error} == {
        "no requested parts of its axes multiply to 2 slices"
    }
    assert "in 6 divisions over slices" in explore(request).describe_size()
