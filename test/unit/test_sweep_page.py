"""The page of a sweep: short names of nodes, fronts with labelled points, effects, named peaks."""

from __future__ import annotations

import re

import pytest

from hespas.tools.report.charts import ScatterAxis, ScatterPoint, draw_scatter_chart
from hespas.tools.report.sweep_page import SweepResults, label_nodes, render_sweep_page

CHIP = "chip[accelerator.arrays={0},sram_bytes=33554432,memory_bandwidth_bytes_per_s={1}]"


def make_sweep() -> SweepResults:
    """Make a sweep of two programs over arrays, and HBM whose stacks and bandwidth go with it."""
    rows = []
    for program, factor in (("train.mlir", 100.0), ("decode.mlir", 1.0)):
        for arrays in (8, 16):
            for hbm, bandwidth in (("HBM3E", 1.2e12), ("HBM4", 2e12)):
                rows.append(
                    {
                        "cell.mlir": program, "cell.let.arrays": arrays, "cell.let.hbm": hbm,
                        "cell.let.stack_gb_s": bandwidth / 1e9,
                        "cell.node.accelerator.arrays": arrays,
                        "cell.node.memory_bandwidth_bytes_per_s": bandwidth,
                        "node": CHIP.format(arrays, bandwidth), "devices": 4,
                        "step_time_s": factor / arrays / bandwidth * 1e12, "compute_s": factor,
                        "derived.area_mm2": 10.0 * arrays + (3 if hbm == "HBM4" else 0),
                        "derived.energy_j": factor * 2, "derived.cost_usd": factor * 3,
                        "derived.mfu": 0.3,
                        "derived.peak_dtype": "bf16" if arrays == 8 else "f8E4M3FN",
                    }
                )  # fmt: skip
    names = [name for name in rows[0] if name.startswith("cell.")]
    return SweepResults("cells.csv", rows, [], "step_time_s", names)


def test_nodes_are_named_by_what_tells_them_apart():
    names = [CHIP.format(arrays, bandwidth) for arrays in (8, 16) for bandwidth in (1.2e12, 2e12)]
    assert list(label_nodes(names).values()) == [
        f"chip, arrays {arrays}, memory bandwidth {bandwidth}"
        for arrays in (8, 16) for bandwidth in ("1.2e+12", "2e+12")
    ]  # fmt: skip
    together = [CHIP.format(8, 1.2e12), CHIP.format(16, 2e12), "H100_80GB"]
    assert list(label_nodes(together).values()) == [
        "chip, arrays 8",
        "chip, arrays 16",
        "H100_80GB",
    ]
    assert label_nodes(["A[1]", "A[2]"]) == {"A[1]": "A[1]", "A[2]": "A[2]"}


def test_settings_that_follow_from_others_are_left_out():
    assert make_sweep().free_axes == ["cell.mlir", "cell.let.arrays", "cell.let.hbm"]
    assert not make_sweep().is_sampled


def test_a_page_has_fronts_effects_and_what_they_cost():
    page = render_sweep_page(make_sweep()).decode()
    titles = [re.sub("<[^>]*>", "", title) for title in re.findall(r"<h2[^>]*>(.*?)</h2>", page)]
    assert titles[:5] == [
        "Programs and nodes", "Front of train.mlir", "Front of decode.mlir", "Effects", "Cells"
    ]  # fmt: skip
    heads = [re.sub("<[^>]*>", "", head) for head in re.findall(r"<th[^>]*>(.*?)</th>", page)]
    assert {"Energy", "Area", "Cost"} <= set(heads)
    # Each program's front: more arrays, or faster memory, for more area. All four cells are on it.
    labels = re.findall(r'class="label">(\d)<', page)
    assert sorted(labels) == sorted("1234" * 4)  # of two programs, wide and narrow
    assert "relative to the least of each program" in page
    assert "of bf16" in page and "of f8E4M3FN" in page
    assert "let.stack_gb_s" not in re.sub(r'<section[^>]*id="provenance".*', "", page, flags=re.S)


def test_one_peak_is_not_named():
    sweep = make_sweep()
    for row in sweep.done:
        row["derived.peak_dtype"] = "bf16"
    assert "of bf16" not in render_sweep_page(sweep).decode()


@pytest.mark.parametrize("width", [320, 900])
def test_labels_of_points_do_not_cover_each_other(width):
    points = [
        ScatterPoint(1.0 + 0.004 * i, 2.0 - 0.004 * i, True, "", str(i + 1)) for i in range(30)
    ]
    axis = ScatterAxis("time", str)
    chart = str(draw_scatter_chart("points", points, (axis, axis), width=width))
    places = [
        (float(x), float(y), text)
        for x, y, text in re.findall(r'<text x="([\d.]+)" y="([\d.]+)" class="label">(\d+)<', chart)
    ]
    assert places
    for i, (x, y, text) in enumerate(places):
        for other_x, other_y, other in places[:i]:
            apart = x > other_x + 7 * len(other) or other_x > x + 7 * len(text)
            assert apart or abs(y - other_y) >= 13
