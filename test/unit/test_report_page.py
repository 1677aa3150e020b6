"""``hespas show``: pages and plots of runs and sweeps."""

import itertools
import json
import re
import shlex
import xml.etree.ElementTree as ET
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pages import CHROMIUM, parse, render, rows
from support.result_programs import layered, result, run

from hespas import configs
from hespas.support.text_tables import format_seconds, format_time_range
from hespas.tools.report import (
    charts,
    html_table,
    report_plots,
    roofline_chart,
    sweep_page,
)
from hespas.tools.report.markup import Markup, allow_breaks, escape_markup, tag
from hespas.tools.report.page_frame import read_asset
from hespas.workflows import kernel_rows
from hespas.workflows.run_results import RunResult
from hespas.workflows.sweep.sweep_table import read_table as table_of

NASTY = "layer <{}> & \"quoted\" 'it' </script>"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run with its page, one with nasty names, and a sweep with its page."""
    folder = tmp_path_factory.mktemp("pages")
    out = result(folder, "--timeline", str(folder / "step.perfetto-trace"), program=layered(8))
    assert run("show", out, "--page", str(folder / "step.html")) == 0
    nasty = layered(2, names=NASTY)
    out = result(folder, program=nasty, name="a <b> & 'c'.mlir", node="H100_80GB", system="")
    assert run("show", out, "--page", str(folder / "nasty.html")) == 0
    (folder / "other.mlir").write_text(layered(2))
    argv = (
        "--mlir", str(folder / "step.mlir"), str(folder / "other.mlir"),
        "--node", "A100_SXM_40GB", "H100_80GB", "B200_180GB",
        "--system", "A100_SXM_40GB_4GPU", "A100_SXM_40GB_8GPU", "--estimator", "roofline",
    )  # fmt: skip
    run("sweep", *argv, "--cache", "none", "--output", str(folder / "cells.csv"))
    assert run("show", str(folder / "cells.csv"), "--page", str(folder / "cells.html")) == 0
    return folder


PAGES = ("step.html", "nasty.html", "cells.html")


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_valid_and_load_nothing(place, name):
    text = (place / name).read_text()
    page = parse(text)
    assert text.startswith('<!doctype html>\n<html lang="en">')
    everything = page.all()
    ids = [e.attributes["id"] for e in everything if "id" in e.attributes]
    assert len(set(ids)) == len(ids)
    for element in everything:
        for key in ("aria-labelledby", "aria-controls", "for"):
            assert element.attributes.get(key, ids[0]) in ids, element
        assert not {"src", "srcset", "data", "style"} & set(element.attributes)
        assert not any(key.startswith("on") for key in element.attributes)
        if element.name == "a":
            target = element.attributes["href"]
            if target.startswith("#"):
                assert target[1:] in ids
        assert element.name not in ("link", "img", "iframe", "object", "embed", "base")
    assert not re.search(r"@import|url\(|https?://", read_asset("page.css") + read_asset("page.js"))
    for head in page.all("th"):
        assert head.attributes["scope"] in ("row", "col")
    for svg in page.all("svg"):
        assert {"aria-label", "aria-hidden"} & set(svg.attributes) or svg.all("rect"), svg
    policy = page.one("meta", http_equiv="Content-Security-Policy")
    assert policy.attributes["content"].startswith("default-src 'none'; style-src 'sha256-")


def test_a_page_says_what_the_run_says(place):
    run_result = RunResult.load_folder(str(place / "step.mlir.out"))
    page = parse((place / "step.html").read_text())
    text = page.text
    for section in (
        "step",
        "fix",
        "collectives",
        "roofline",
        "top",
        "layers",
        "memory",
        "provenance",
    ):
        assert page.one("section", id=section).one("h2").text
    whole = kernel_rows.merge_layers(run_result.kernel_rows)
    shown = rows(page, "kernels")
    assert len(shown) == len(whole)
    assert [row[0] for row in shown] == [row.kind_title for row in whole]
    values = [
        float(row.all("td")[2].attributes["data-v"])
        for row in page.one("table", id="kernels").one("tbody").all("tr")
    ]
    assert values == [1e-9 * row.time_ns for row in whole]
    assert sum(values) == pytest.approx(run_result.figures["compute_s"])
    layers = {f"layer_{i}/{part}" for i in range(8) for part in ("mlp", "norm")}
    assert {row[0] for row in rows(page, "layer")} == layers
    assert run_result.figures["constants"] in text and "80 % band" in text
    link = next(a for a in page.all("a") if a.text == "step.perfetto-trace")
    assert link.attributes["href"] == "step.perfetto-trace"
    points = page.all("svg", class_="points")
    assert len(points) == 2 and len(points[0].all("a")) == len(points[1].all("a")) > 0


def test_a_run_without_a_simulation_says_so(place):
    page = parse((place / "nasty.html").read_text())
    alert = page.one("div", role="alert")
    assert "there is no step time" in alert.text
    assert not page.all("section", id="fix")
    assert rows(page, "collective")[0][:2] == ["all_reduce", "4"]


def test_names_are_text_whatever_is_in_them(place):
    page = parse((place / "nasty.html").read_text())
    assert page.one("h1").text == "a <b> & 'c'.mlir"
    assert any(row[0].startswith(NASTY.format(1)[:28]) for row in rows(page, "layer"))
    assert len(page.all("script")) == 1


TEXT = st.text(alphabet=st.characters(), max_size=40)


@given(TEXT, TEXT)
def test_markup_keeps_any_text(text, value):
    element = parse(tag("p", text, "", data_tip=value)).one("p")
    expected = [re.sub(r"\r\n?", "\n", unescape(escape_markup(t))) for t in (text, value)]
    assert [re.sub(r"\r\n?", "\n", t) for t in (element.text, element.attributes["data-tip"])] == (
        expected
    )
    assert not element.all()
    printable = "".join(c for c in text if c.isprintable() and not 0xFDD0 <= ord(c) <= 0xFDEF)
    assert set(printable) - {"\ufffd"} <= set(element.text)
    assert (
        escape_markup(text).encode().decode() == escape_markup(text)
        and escape_markup(Markup("<b>")) == "<b>"
    )


@given(st.lists(st.tuples(TEXT, st.floats(0, 1e6)), min_size=1, max_size=20))
def test_tables_hold_every_row(values):
    columns = [
        html_table.TableColumn(
            "name", "Name", lambda row: html_table.format_text_cell(row[0]), "text"
        ),
        html_table.TableColumn("time", "Time", lambda row: html_table.format_time_cell(row[1])),
    ]
    page = parse(html_table.render_table("it", "Caption", columns, values))
    assert len(rows(page, "it")) == len(values)
    number_cells = page.one("tbody").all("td", class_="number")
    assert [float(cell.attributes["data-v"]) for cell in number_cells] == [
        time for _, time in values
    ]


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.floats(0, 1e3), max_size=12))
def test_bars_hold_all_of_the_time(times):
    shown = charts.make_bar_segments([*times.items()])
    assert sum(part.time_s for part in shown) == pytest.approx(sum(times.values()))
    assert len(shown) <= charts.SERIES + 1
    bar = parse(charts.draw_stacked_bar("it", shown)).one("svg", class_="stack")
    ends = [
        float(part.attributes["x"][:-1]) + float(part.attributes["width"][:-1])
        for part in bar.all("svg")
    ]
    assert all(end <= 100.1 for end in ends) and ends == sorted(ends)


@given(st.floats(1e-9, 1e15))
def test_ticks_hold_the_top(top):
    marks = charts.choose_tick_values(top)
    assert marks[0] == 0 and marks[-1] >= top * (1 - 1e-9) and 2 <= len(marks) <= 7
    assert marks[-2] < top


def test_no_kernel_is_above_its_roof(place):
    node = configs.load_node("A100_SXM_40GB")
    run_result = RunResult.load_folder(str(place / "step.mlir.out"))
    plot = roofline_chart.build_roofline_plot(
        kernel_rows.merge_layers(run_result.kernel_rows), node
    )
    assert {roof.name for roof in plot.roofs} == {"matrix bf16", "vector bf16"}
    assert plot.roofs[0].rate == node.peaks_flops["matrix"]["bf16"]
    low, high = plot.intensity_range
    for point in plot.points:
        roof = min(plot.roofs[0].rate, point.intensity * node.memory_bandwidth_bytes_per_s)
        assert 0 < point.rate <= roof * (1 + 1e-9)
        assert (
            low <= point.intensity <= high
            and plot.rate_range[0] <= point.rate <= plot.rate_range[1]
        )
    assert plot.left_out_share + sum(p.share for p in plot.points) == pytest.approx(1)


def test_without_a_node_there_are_points_and_no_roofs(place):
    run_result = RunResult.load_folder(str(place / "step.mlir.out"))
    plot = roofline_chart.build_roofline_plot(
        kernel_rows.merge_layers(run_result.kernel_rows), None
    )
    assert plot.points and not plot.roofs and plot.bandwidth is None
    assert parse(roofline_chart.draw_roofline(plot, [], width=400, height=300)).all("a")
    nothing = roofline_chart.build_roofline_plot([], None)
    assert not nothing.points and nothing.left_out_share == 0


def make_roofline(place, rates, roofs=(3e14, 4e13, 3.9e13, 3.8e13)) -> roofline_chart.RooflinePlot:
    """A plot of kernels with these rates at 0.5, 5, 50 ... operations per byte."""
    kernel = RunResult.load_folder(str(place / "step.mlir.out")).kernel_rows[0]
    points = [
        roofline_chart.RooflinePoint(0.5 * 10**i, rate, 1 / len(rates), i, kernel, 1)
        for i, rate in enumerate(rates)
    ]
    peaks = [roofline_chart.PeakRoof(rate, f"vector of type {i}") for i, rate in enumerate(roofs)]
    return roofline_chart.RooflinePlot(points, peaks, 1e12, ["gemm"], 0, 0.0)


def test_one_slow_kernel_does_not_stretch_the_axis(place):
    plot = make_roofline(place, [4e5, 3e12, 3e12, 2e14])
    assert plot.rate_range == (2e9, 5e14)  # 0.01 x 0.5 op/B x 1 TB/s, rounded
    assert [point.row for point in plot.points_below] == [0]
    sentence = "At the lower edge: 1 kernel below 2 Gop/s, with 25.0 % of the time."
    assert plot.describe_points_below() == sentence
    page = parse(roofline_chart.draw_roofline(plot, [], width=1100, height=500))
    (mark,) = page.all(class_="below")
    assert float(mark.attributes["cy"]) == 500 - 48  # on the axis
    assert len(page.all("a")) == 4
    assert not make_roofline(place, [4e11, 3e12]).points_below


@pytest.mark.parametrize(("width", "height"), [(1100, 500), (400, 420)])
def test_labels_of_peaks_are_apart_and_outside_of_the_plot(place, width, height):
    plot = make_roofline(place, [4e11, 3e12, 3e13, 2e14])
    page = parse(roofline_chart.draw_roofline(plot, [], width=width, height=height))
    peak_lines = page.all("line", class_="roof")[1:]
    right = max(float(line.attributes["x2"]) for line in peak_lines)
    labels = [text for text in page.all("text") if text.text.endswith("op/s")]
    assert [label.text.split()[-2] for label in labels] == ["300", "40", "39", "38"]
    ys = [float(label.attributes["y"]) for label in labels]
    assert all(b - a >= 14.9 for a, b in itertools.pairwise(ys))
    for label in labels:
        end = float(label.attributes["x"]) + roofline_chart.CHARACTER_WIDTH * len(label.text)
        assert right < float(label.attributes["x"]) and end <= width
    for mark in page.all("circle", class_="point"):
        assert float(mark.attributes["cx"]) + float(mark.attributes["r"]) < right
    notes = [note.text for note in page.all("p", class_="note")]
    names = "Peaks: vector of type 0 300 Top/s; vector of type 1 40 Top/s;"
    assert all(note.startswith(names) for note in notes) and len(notes) == (width == 400)


@given(st.lists(st.floats(-50, 550), max_size=12))
def test_spread_labels_keep_their_distance(positions):
    positions.sort()
    spread = roofline_chart.spread_labels(positions, 15, 0, 500)
    assert len(spread) == len(positions)
    assert all(b - a >= 15 - 1e-9 for a, b in itertools.pairwise(spread))
    assert all(-1e-9 <= place <= 500 + 1e-9 for place in spread)
    apart = [15.0 * i + 30 for i in range(12)]
    assert roofline_chart.spread_labels(apart, 15, 0, 500) == apart


@given(st.lists(st.floats(1e-6, 1e18), min_size=1, max_size=5))
def test_axes_end_close_to_their_values(values):
    low, high = roofline_chart.round_axis_ends(values)
    assert low < min(values) < 3.01 * low and max(values) < high
    assert high < 3.01 * max(values) or high == 10 * low
    assert roofline_chart.list_powers_of_ten(low, high)


def changed(place: Path, to: Path, **figures: object) -> str:
    """A copy of the run with other figures."""
    for path in (place / "step.mlir.out").iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    known = json.loads((to / "run.json").read_text())
    (to / "run.json").write_text(json.dumps({**known, **figures}))
    return str(to)


def test_memory_is_shown_where_it_is_known(place, tmp_path):
    memory = RunResult.load_folder(str(place / "step.mlir.out")).get_figure("memory")
    page = parse((place / "step.html").read_text())
    section = page.one("section", id="memory")
    assert "arguments" in section.text and section.all("path", class_="area")
    assert not page.all("div", role="alert")
    cases = [(memory["peak_bytes"], False), (memory["peak_bytes"] - 1, True), (None, False)]
    for node_bytes, is_said in cases:
        out = changed(place, tmp_path, memory={**memory, "node_bytes": node_bytes})
        assert run("show", out, "--page", str(tmp_path / "p.html")) == 0
        page = parse((tmp_path / "p.html").read_text())
        alerts = [alert.text for alert in page.all("div", role="alert")]
        assert any("does not fit" in text for text in alerts) is is_said
        assert len(page.all("line", class_="limit")) == (2 if node_bytes else 0)


def test_the_points_of_the_memory_chart_are_round_numbers():
    points = [(2, 3e9), (100, 5e9), (1182, 1e9)]
    chart = charts.draw_area_chart("it", points, None, "B", "point", width=400, height=260)
    texts = [text for text in parse(chart).all("text", class_="quiet") if "B" not in text.text]
    assert [text.text for text in texts] == ["500", "1,000"]
    xs = [float(text.attributes["x"]) for text in texts]
    assert xs == sorted(xs) and all(68 < x < 400 - 20 for x in xs)


def test_the_memory_chart_is_drawn_from_its_file(place, tmp_path, capsys):
    out, page = changed(place, tmp_path), str(tmp_path / "p.html")
    timeline = tmp_path / "memory_timeline.json"
    timeline.write_text('{"points": [0, 7], "live_bytes": [3]}')
    capsys.readouterr()
    assert run("show", out, "--page", page) == 1
    message = "is not a memory timeline: Value error, points and live_bytes differ in length"
    assert capsys.readouterr().err.startswith(f"{timeline}: error: {message}")
    timeline.unlink()
    assert run("show", out, "--page", page) == 0
    section = parse((tmp_path / "p.html").read_text()).one("section", id="memory")
    assert "arguments" in section.text and not section.all("path", class_="area")
    out = changed(place, tmp_path, memory=None)
    assert run("show", out, "--page", str(tmp_path / "p.html")) == 0
    assert not parse((tmp_path / "p.html").read_text()).all("section", id="memory")


@pytest.mark.parametrize("more", [(), ("--congestion",)])
def test_the_command_for_a_timeline_simulates_as_the_run_did(more, tmp_path, capsys, monkeypatch):
    out = result(tmp_path, "--slowdown", "0.25", "--estimator", "calibrated", *more)
    assert run("show", out, "--page", str(tmp_path / "p.html")) == 0
    section = parse((tmp_path / "p.html").read_text()).one("section", id="provenance")
    (command,) = (code.text for code in section.all("code") if "--timeline" in code.text)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert run(*shlex.split(command)[1:], "--json") == 0
    step_s = json.loads(capsys.readouterr().out)["step_time_s"]
    assert step_s == RunResult.load_folder(out).figures["step_time_s"]
    assert (tmp_path / "step.perfetto-trace").exists()


def test_what_follows_from_a_run_is_on_a_card(place, tmp_path):
    known = RunResult.load_folder(str(place / "step.mlir.out")).get_figure("derived")
    more = {"mfu": 0.4321, "tokens_per_s": 1.5e6, "price_per_hour": 2.0, "cost_usd": 1e-3}
    out = changed(place, tmp_path, derived={**known, **more}, gaps=3, warnings=["<i>careful</i>"])
    assert run("show", out, "--page", str(tmp_path / "p.html")) == 0
    page = parse((tmp_path / "p.html").read_text())
    items = page.one("ul", class_="cards").all("li")
    cards = {item.one("span", class_="name").text: item.text for item in items}
    assert "43.2 %" in cards["MFU"] and "1,500,000/s" in cards["tokens"]
    assert "0.001 USD" in cards["cost"] and "2 USD an hour" in cards["cost"]
    assert "3 ops have no estimate" in page.one("div", role="alert").text
    assert "<i>careful</i>" in page.text


def test_a_sweeps_page_has_its_cells_and_failures(place):
    page = parse((place / "cells.html").read_text())
    grid = page.one("section", id="grid").one("table")
    assert [h.text for h in grid.one("thead").all("th")] == [
        "A100_SXM_40GB", "H100_80GB", "B200_180GB",
    ]  # fmt: skip
    assert [h.text for h in grid.one("tbody").all("th")] == ["step.mlir", "other.mlir"]
    times = rows(page, "cell")
    assert len(times) == 6 and len(rows(page, "failure")) == 6
    assert {row[-1] for row in rows(page, "failure")} and "8" in rows(page, "failure")[0][-1]
    best = [cell for cell in grid.all("td", class_="h0") if "1.00 x" in cell.text]
    assert len(best) == 2
    assert "roofline" in page.one("section", id="provenance").text


def make_sweep(*cells: dict) -> sweep_page.SweepResults:
    """The results of a sweep with these columns in addition to times and devices."""
    rows = [
        {"cell.mlir": "a_b.mlir", "step_time_s": 0.01 * (i + 1), "compute_s": 0.01, "devices": 4}
        | {"flops_utilisation": 0.1 * i, "exposed_share": 0.5, "node": cell["cell.node"]}
        | cell
        for i, cell in enumerate(cells)
    ]
    names = dict.fromkeys(name for row in rows for name in row if name.startswith("cell."))
    axes = [name for name in names if len({row[name] for row in rows}) > 1]
    return sweep_page.SweepResults("cells.csv", rows, [], "step_time_s", axes)


def test_the_heat_map_says_over_what_it_minimises():
    paired = [
        {"cell.node": "A100", "cell.system": "A100_4", "cell.node.tdp_w": 300, "node": "A100[300]"},
        {"cell.node": "A100", "cell.system": "A100_4", "cell.node.tdp_w": 400, "node": "A100[400]"},
        {"cell.node": "H100", "cell.system": "H100_4", "cell.node.tdp_w": 300, "node": "H100[300]"},
    ]  # system and tdp_w belong to the column
    sweep = make_sweep(*paired)
    assert {"cell.node", "cell.system", "cell.node.tdp_w"} == set(sweep.axes)
    assert sweep.find_minimised_axes() == []
    lead = (
        parse(sweep_page.render_sweep_page(sweep).decode())
        .one("section", id="grid")
        .one("p", class_="lead")
        .text
    )
    assert lead.startswith("The step of each program on each node, and its ratio")
    splits = [{**cell, "cell.split": split} for cell in paired for split in ("linear", "merge")]
    sweep = make_sweep(*splits)
    assert sweep.find_minimised_axes() == ["cell.split"]
    lead = (
        parse(sweep_page.render_sweep_page(sweep).decode())
        .one("section", id="grid")
        .one("p", class_="lead")
        .text
    )
    assert "on each node, the shortest of all values of split, and" in lead


def test_columns_that_are_equal_in_all_cells_take_no_width():
    sweep = make_sweep({"cell.node": "A100"}, {"cell.node": "H100"})
    page = parse(sweep_page.render_sweep_page(sweep).decode())
    section = page.one("section", id="cells")
    titles = [head.text for head in section.all("th")]
    assert titles == ["Node", "Step", "Of shortest", "Of peak"]
    note = "Equal in all cells: Devices 4, Compute 10.000 ms, Share 50.0 %."
    assert section.one("p", class_="note").text == note
    single = parse(sweep_page.render_sweep_page(make_sweep({"cell.node": "A100"})).decode())
    assert not single.all("section", id="grid")  # it would compare each program with itself
    assert "Devices" in [head.text for head in single.one("section", id="cells").all("th")]


def test_long_names_may_break_and_are_copied_whole():
    name = "llama_3-opt/x.mlir on H100_80GB[memory_bandwidth_bytes_per_s=3e+12]"
    markup = allow_breaks(name)
    assert "H100_<wbr>80GB<wbr>[memory_<wbr>bandwidth_" in markup and "per_<wbr>s=<wbr>3e" in markup
    element = parse(tag("p", markup)).one("p")
    assert element.text == name
    card = parse(html_table.render_cards([("shortest step", "1 ms", name)]))
    assert len(card.all("wbr")) == len(element.all("wbr")) > 5
    assert allow_breaks("a mesh of 100 over x=8, H100_80GB") == "a mesh of 100 over x=8, H100_80GB"
    css = read_asset("page.css")
    assert re.search(r"\.cards li \{[^}]*overflow-wrap: anywhere", css)


@pytest.mark.parametrize("name", ["step.html", "nasty.html"])
def test_lists_of_shapes_are_clipped_to_lines(place, name):
    page = parse((place / name).read_text())
    cells = page.one("table", id="kernels").all("code")
    assert cells
    for cell in cells:
        *operands, result = cell.all("span", class_="clip")
        assert result.text.startswith("-> ") and len(operands) <= 1
        for part in (*operands, result):
            hint = part.attributes.get("data-tip")
            assert hint == (part.text if len(part.text) > 40 else None)
    assert re.search(r"\.clip \{[^}]*-webkit-line-clamp: 2", read_asset("page.css"))


def test_a_source_is_named_once(place):
    facts = parse((place / "step.html").read_text()).one("section", id="provenance").one("dl")
    keys_by_source = {}
    for fact in facts.all("div"):
        if (key := fact.one("dt").text).startswith("source of "):
            assert keys_by_source.setdefault(fact.one("dd").text, key) == key
    sources = configs.load_node("A100_SXM_40GB").sources
    assert set(keys_by_source) == set(sources.values())
    keys = ", ".join(keys_by_source.values()).replace("source of ", "").split(", ")
    assert sorted(keys) == sorted(sources)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.066957, 0.087933, "67.0 to 87.9 ms"),
        (0.086913, 0.141357, "87 to 141 ms"),
        (0.0009, 0.0012, "0.90 to 1.20 ms"),
        (0, 0, "0.00 to 0.00 s"),
    ],
)
def test_a_range_of_times_has_one_unit(low, high, text):
    assert format_time_range(low, high) == text


@pytest.mark.slow
def test_three_programs_six_nodes_and_two_systems_end_in_a_report(tmp_path, capsys):
    """What a designer asks: 36 cells by one command, and a page of them by another."""
    programs = [("shallow.mlir", layered(1)), ("deep.mlir", layered(4)), ("wide.mlir",
                layered(2, width=512))]  # fmt: skip
    for name, text in programs:
        (tmp_path / name).write_text(text)
    nodes = ("A100_SXM_40GB", "H100_80GB", "B200_180GB", "TPUv3", "TPUv4", "TPUv5p")
    argv = (
        "--mlir", *(str(tmp_path / name) for name, _ in programs), "--node", *nodes,
        "--system", "A100_SXM_40GB_4GPU", "H100_80GB_4GPU", "--estimator", "roofline",
        "--cache", "none", "--jobs", "1",
    )  # fmt: skip
    cells, page = str(tmp_path / "cells.csv"), tmp_path / "sweep.html"
    assert run("sweep", *argv, "--output", cells) == 0
    out = capsys.readouterr().out
    assert "cells           36" in out and "errors          0" in out
    assert run("show", cells, "--page", str(page), "--plots", str(tmp_path / "plots")) == 0
    table = table_of(cells)
    assert len(table) == 36 and len({row["step_time_s"] for row in table}) == 36
    document = parse(page.read_text())
    assert "a sweep of 36 cells over mlir, node, system" in document.text
    assert len(rows(document, "cell")) == 36 and not document.all("section", id="failed")
    body = document.one("section", id="grid").one("tbody").all("tr")
    for (name, _), line in zip(programs, body, strict=True):
        assert line.one("th").text == name
        for node, cell in zip(nodes, line.all("td"), strict=True):
            times = [
                row["step_time_s"] for row in table
                if row["cell.mlir"].endswith(name) and row["cell.node"] == node
            ]  # fmt: skip
            assert len(times) == 2 and cell.text.startswith(format_seconds(min(times)))
    # Times of several programs do not compare, so that no card has the shortest of all.
    assert "shortest" not in document.one("ul", class_="cards").text
    if CHROMIUM is not None:
        assert not render(page).console


X = "tensor<64x256xbf16>"
GAP = layered(1).replace(
    f"stablehlo.add %all0, %x : {X}", f"stablehlo.custom_call @f(%all0, %x) : ({X}, {X}) -> {X}"
)


def test_cells_with_gaps_say_so(tmp_path, capsys):
    (tmp_path / "odd.mlir").write_text(GAP)
    (tmp_path / "good.mlir").write_text(layered(1))
    cells, page = str(tmp_path / "cells.csv"), tmp_path / "p.html"
    argv = ("--mlir", str(tmp_path / "*.mlir"), "--estimator", "roofline", "--cache", "none",
            "--set", "keep_going=true", "--output", cells, "--jobs", "1")  # fmt: skip
    assert run("sweep", *argv) == 0
    tables = "1 cell with ops that have no estimate, or with loops whose trip counts are assumed"
    assert tables in capsys.readouterr().out
    assert run("show", cells, "--page", str(page)) == 0
    document = parse(page.read_text())
    assert "1 cell has ops without an estimate" in document.one("div", role="alert").text
    assert [row[-1] for row in rows(document, "cell")] == ["0", "1"]
    assert run("compare", cells) == 0
    table_text = capsys.readouterr().out
    assert "gaps" in table_text.splitlines()[-3]
    out = str(tmp_path / "out")
    argv = ("--mlir", str(tmp_path / "odd.mlir"), "--node", "A100_SXM_40GB", "--output", out)
    assert run("run", *argv, "--keep-going") == 0 and run("show", out) == 0
    tables = capsys.readouterr().out.partition("Compute, one device")[2]
    assert "not estimated  1 op: the time is too low" in tables and "no estimate" in tables


@pytest.mark.long
@pytest.mark.slow
def test_plots_are_files_and_equal_for_equal_results(place, tmp_path, capsys):
    out = str(place / "step.mlir.out")
    assert run("show", out, "--plots", str(tmp_path / "a")) == 0
    printed = capsys.readouterr().out.split()
    assert sorted(printed) == sorted(str(p) for p in (tmp_path / "a").iterdir())
    assert {Path(p).name for p in printed} == {
        f"{name}.{kind}" for name in ("breakdown", "memory", "roofline") for kind in ("png", "svg")
    }
    assert run("show", out, "--plots", str(tmp_path / "b")) == 0
    for path in (tmp_path / "a").glob("*.svg"):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
        assert ET.parse(path).getroot().tag.endswith("svg")
    assert run("show", str(place / "cells.csv"), "--plots", str(tmp_path / "c")) == 0
    texts = {e.text for e in ET.parse(tmp_path / "c" / "grid.svg").iter()}
    assert {"step.mlir", "B200_180GB"} <= texts


@pytest.fixture
def figures(monkeypatch) -> list:
    """The figures that are written from now on."""
    written = []
    monkeypatch.setattr(report_plots, "save_figure", lambda figure, path: written.append(figure))
    return written


def assert_texts_fit(figure) -> None:
    """All texts of a figure are inside of it, and none is drawn over another."""
    from matplotlib.text import Text

    figure.draw_without_rendering()
    outside = set()  # labels of ticks beyond the ends of their axis, which are not drawn
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low <= tick.get_loc() <= high:
                outside |= {tick.label1, tick.label2}
    boxes = [
        Text.get_window_extent(text)  # without the line of an annotation
        for text in figure.findobj(Text)
        if text.get_text().strip() and text.get_visible() and text.get_rotation() in (0, 90)
        and text not in outside
    ]  # fmt: skip
    assert boxes
    for box in boxes:
        assert box.x0 >= -1 and box.y0 >= -1, box
        assert box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1, box
    for box, other in itertools.combinations(boxes, 2):
        assert box.x1 - 1 <= other.x0 or other.x1 - 1 <= box.x0 or (
            box.y1 - 1 <= other.y0 or other.y1 - 1 <= box.y0
        ), (box, other)  # fmt: skip


OVERRIDDEN = [f"H100_80GB[memory_bandwidth_bytes_per_s={x}e+12]" for x in (1.5, 2, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows_", [["a.mlir"], ["resnet18_train_4_devices-opt-cudnn-a100.mlir.xz"] * 7]
)
@pytest.mark.parametrize("columns", [["H100"], ["A100_SXM_40GB", "B200_180GB"], OVERRIDDEN])
def test_no_label_of_a_heat_map_is_cut(tmp_path, figures, rows_, columns):
    import warnings

    times = [[0.01 * (k + 1) ** 2 for k in range(len(columns))] for _ in rows_]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a layout that has no room
        report_plots.write_heat_map(str(tmp_path), rows_, columns, times)
        assert_texts_fit(figures[0])
    from matplotlib.text import Text

    extent = figures[0].get_tightbbox().extents * figures[0].dpi
    assert min(extent[:2]) >= -1 and extent[2] <= figures[0].bbox.x1 + 1
    assert extent[3] <= figures[0].bbox.y1 + 1  # with slanted labels
    assert "time over the best of the row" in {text.get_text() for text in figures[0].findobj(Text)}


@pytest.mark.long
def test_no_text_of_a_plot_is_cut(place, tmp_path, figures):
    out = str(place / "step.mlir.out")
    assert run("show", out, "--plots", str(tmp_path)) == 0
    assert run("compare", out, out, "--plot", str(tmp_path / "c.png")) == 0
    slow = make_roofline(place, [4e5, 3e12, 3e13, 2e14])
    report_plots._write_plots({"r": lambda f: report_plots._draw_roofline(f, slow)}, str(tmp_path))
    assert len(figures) == 2 * 3 + 1 + 2
    for figure in figures:
        assert_texts_fit(figure)


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (("none", "--page", "x.html"), 1, "none"),
        (("{place}", "--page", "x.html"), 1, "there is no run.json"),
        (("{place}/step.mlir", "--page", "x.html"), 1, "it is not the table of a sweep"),
        (
            ("{place}/step.mlir.out", "--page", "{place}/none/x.html"),
            1,
            "its folder does not exist",
        ),
        (("{place}/step.mlir.out", "--plot", "x"), 2, "did you mean '--plots'"),
        (("{place}/step.mlir.out", "--page", "x.html", "--json"), 2, "--json prints tables"),
    ],
)
def test_wrong_lines_are_one_line(place, capsys, tmp_path, monkeypatch, argv, code, text):
    monkeypatch.chdir(tmp_path)
    assert run("show", *(word.format(place=place) for word in argv)) == code
    out, err = capsys.readouterr()
    assert text in err and not out and "Traceback" not in err
    assert not list(tmp_path.iterdir())


def colours(scheme: str) -> dict[str, str]:
    blocks = re.findall(r":root \{(.*?)\}", read_asset("page.css"), re.DOTALL)
    colours_by_name: dict[str, str] = {}
    for block in blocks[: 1 if scheme == "light" else 2]:
        colours_by_name |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    return colours_by_name


def contrast(a: str, b: str) -> float:
    """The ratio of WCAG 2.2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_the_contrast_that_wcag_asks_for(scheme):
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    colours_by_name = colours(scheme)
    texts = [(ink, ground) for ink in ("ink", "quiet", "link") for ground in ("ground", "sheet")]
    texts += [("bad", "bad-ground"), ("ink", "warn-ground"), ("ink", "mark")]
    texts += [("heat-ink", f"h{i}") for i in range(5)]
    texts += [("on-series", f"s{i}") for i in range(1, 5)]
    for ink, ground in texts:
        assert contrast(colours_by_name[ink], colours_by_name[ground]) >= 4.5, (ink, ground)
    for i in range(1, 7):
        assert contrast(colours_by_name[f"s{i}"], colours_by_name["sheet"]) >= 3, i


def needs_chromium(test):
    """Mark a test that starts a browser."""
    has_none = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
    return pytest.mark.slow(has_none(test))


@needs_chromium
@pytest.mark.parametrize("name", PAGES)
def test_a_browser_shows_it_without_complaint(place, name):
    seen = render(place / name)
    assert not seen.console
    for grid in seen.document.all("table", class_="sortable"):
        row_count = len(grid.one("tbody").all("tr"))
        assert len(rows(seen.document, grid.attributes["id"])) == min(
            row_count, html_table.SHOWN_ROWS
        )


@needs_chromium
def test_a_script_that_is_not_the_pages_own_does_not_run(place, tmp_path):
    """Also that complaints are seen at all."""
    bad = tmp_path / "bad.html"
    text = (place / "step.html").read_text()
    bad.write_text(text.replace("</body>", "<script>document.title = 'changed'</script></body>"))
    seen = render(bad)
    assert any("Content Security Policy" in line for line in seen.console)
    assert seen.document.one("title").text != "changed"
    assert render(place / "step.html", script="throw new Error('oops')").console


@needs_chromium
def test_the_address_sorts_and_filters(place):
    page = render(place / "step.html", "#layer?sort=time.up&all").document
    body = page.one("table", id="layer").one("tbody")
    times = [float(row.all("td")[2].attributes["data-v"]) for row in body.all("tr")]
    assert len(times) == 16 and times == sorted(times) and times[0] < times[-1]
    head = page.one("th", aria_sort="ascending")
    assert head.attributes["data-key"] == "time"
    page = render(place / "step.html", "#layer?sort=layer.down&filter=LAYER_%20mlp").document
    shown = [row[0] for row in rows(page, "layer")]
    assert shown == [f"layer_{i}/mlp" for i in range(7, -1, -1)]
    tools = page.one("table", id="layer")
    assert "8 of 16 rows" in page.text and tools
    assert not render(place / "step.html", "#layer?filter=100%").console


@needs_chromium
@pytest.mark.parametrize("direction", ["up", "down"])
def test_what_has_no_value_stands_last(place, tmp_path, direction):
    (tmp_path / "small.mlir").write_text(layered(1))
    cells, path = str(tmp_path / "cells.csv"), tmp_path / "p.html"
    argv = (
        "--mlir", str(tmp_path / "small.mlir"), "--system", "A100_SXM_40GB_4GPU",
        "--node", "A100_SXM_40GB", "TPUv5e", "H100_80GB", "--estimator", "roofline",
    )  # fmt: skip
    assert run("sweep", *argv, "--cache", "none", "--jobs", "1", "--output", cells) == 0
    text = Path(cells).read_text()
    names = text.splitlines()[0].split(",")
    assert run("show", cells, "--page", str(path)) == 0 and "derived.energy_j" in names
    page = render(path, f"#cell?sort=energy_j.{direction}").document
    keys = [head.attributes["data-key"] for head in page.one("table", id="cell").all("th")]
    energies = [row[keys.index("energy_j")] for row in rows(page, "cell")]
    assert len(energies) == 3 and sorted(energies, key="-".__eq__) == energies


CLICKS = """
const click = (key) => document.querySelector(`#layer th[data-key=${key}] button`).click();
const log = (name, value) => document.documentElement.setAttribute(`data-${name}`, value);
const shown = () => [...document.querySelectorAll("#layer tbody tr:not([hidden])")];
click("time");
log("first", shown()[0].cells[2].dataset.v);
click("time");
log("last", shown()[0].cells[2].dataset.v);
const tools = document.querySelector("#layer").closest(".table").querySelector(".tools");
tools.querySelector("input").value = "layer_3";
tools.querySelector("input").dispatchEvent(new Event("input"));
log("filtered", shown().map((row) => row.cells[0].textContent).join());
log("hash", location.hash);
const points = [...document.querySelectorAll(".wide svg.points a")];
points[0].focus();
// The event comes with the focus only in a window that has it, which a busy machine does not grant.
points[0].dispatchEvent(new FocusEvent("focusin", { bubbles: true }));
log("tip", document.querySelector("#tip").textContent);
points[0].dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
log("focus", points.indexOf(document.activeElement));
log("points", points.length);
log("stops", points.filter((point) => point.getAttribute("tabindex") === "0").length);
location.hash = "#k1";
"""


@needs_chromium
def test_clicks_and_keys_do_what_they_say(place):
    page = render(place / "step.html", script=CLICKS).document
    attributes = page.one("html").attributes
    assert float(attributes["data-first"]) > float(attributes["data-last"])
    assert attributes["data-filtered"] == "layer_3/norm,layer_3/mlp"
    assert attributes["data-hash"] == "#layer?sort=time.up&filter=layer_3"
    assert attributes["data-tip"].startswith("gemm (dot_general) 64x256xbf16")
    assert (
        int(attributes["data-focus"]) == int(attributes["data-points"]) - 1
        and attributes["data-stops"] == "1"
    )


LAYOUT = """
const widths = [document.documentElement.scrollWidth, innerWidth];
document.documentElement.setAttribute("data-widths", widths.join());
const shown = [...document.querySelectorAll("svg.points")].filter((e) => e.getClientRects().length);
document.documentElement.setAttribute("data-charts", shown.length);
const boxes = document.querySelectorAll(innerWidth < 1300 ? "li, dt, dd" : "li, dt, dd, .scroll");
const cut = [...boxes].filter((box) => box.scrollWidth > box.clientWidth + 1);
document.documentElement.setAttribute("data-cut", cut.map((box) => box.textContent).join("|"));
"""


@needs_chromium
@pytest.mark.parametrize(
    ("name", "width"),
    [("step.html", 500), ("step.html", 1300), ("cells.html", 500), ("cells.html", 1300)],
)
def test_no_width_is_too_narrow(place, name, width):
    page = render(place / name, script=LAYOUT, width=width).document
    scroll, inner = page.one("html").attributes["data-widths"].split(",")
    assert int(scroll) <= int(inner) <= width
    assert int(page.one("html").attributes["data-charts"]) == (name != "cells.html")
    assert page.one("html").attributes["data-cut"] == ""


@needs_chromium
@pytest.mark.parametrize("name", ["step.html", "cells.html"])
def test_tables_fit_a_printed_page(place, tmp_path, name):
    copy = tmp_path / name
    copy.write_text((place / name).read_text().replace("@media print", "@media all"))
    page = render(copy, script=LAYOUT.replace("innerWidth < 1300", "false"), width=794).document
    scroll, inner = page.one("html").attributes["data-widths"].split(",")
    assert int(scroll) <= int(inner) == 794
    assert page.one("html").attributes["data-cut"] == ""
