"""``hespas compare --changes``: what changed between two results."""

import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.result_programs import layered, result, run

from hespas.workflows import run_differences, run_results
from hespas.workflows.run_differences import find_run_differences
from hespas.workflows.run_results import RunResult


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run on an A100, one on an H100, and one of a program with another layer."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        "a": result(folder, name="a.mlir"),
        "same": result(folder, name="same.mlir"),
        "b": result(folder, node="H100_80GB", system="H100_80GB_4GPU", name="b.mlir"),
        "more": result(folder, program=layered(4), name="more.mlir"),
        "bare": result(folder, system="", name="bare.mlir"),
        "folder": str(folder),
    }


def diff(capsys, *argv):
    capsys.readouterr()
    code = run("compare", "--changes", *argv)
    out, err = capsys.readouterr()
    return code, out, err


def test_equal_programs_differ_in_nothing_but_their_name(runs, capsys):
    code, out, _ = diff(capsys, runs["a"], runs["same"], "--json", "--fail-above", "0")
    data = json.loads(out)
    assert code == 0 and data["growth"] == 0
    for table in ("kinds", "kernels", "layers", "collectives"):
        assert data[table] and all(row["difference_s"] == 0 for row in data[table])
    other = [n for n, pair in data["provenance"].items() if pair["a"] != pair["b"]]
    assert other == ["program"]
    out = diff(capsys, runs["a"], runs["same"])[1]
    assert "no difference" in out and "a.mlir" in out


def test_every_table_adds_up_to_the_change_of_the_compute(runs):
    a, b = RunResult.load_folder(runs["a"]), RunResult.load_folder(runs["b"])
    differences = find_run_differences(a, b)
    change = b.figures["compute_s"] - a.figures["compute_s"]
    assert change < 0
    for rows in (differences.kinds, differences.kernels, differences.layers):
        assert math.fsum(row.difference_s for row in rows) == pytest.approx(change)
    times = [r.simulation["collectives"] for r in (a, b) if r.simulation]
    sums = [math.fsum(row["time_s"] for row in rows) for rows in times]
    apart = math.fsum(row.difference_s for row in differences.collectives)
    assert apart == pytest.approx(sums[1] - sums[0])
    assert differences.relative_growth == pytest.approx(
        b.figures["step_time_s"] / a.figures["step_time_s"] - 1
    )
    assert differences.provenance["node"] == ("A100_SXM_40GB", "H100_80GB")
    assert (
        differences.provenance["simulation curves"][0]
        != differences.provenance["simulation curves"][1]
    )


def test_swapped_the_differences_change_their_sign(runs):
    a, b = RunResult.load_folder(runs["a"]), RunResult.load_folder(runs["more"])
    there, back = find_run_differences(a, b), find_run_differences(b, a)
    for one, other in ((there.kernels, back.kernels), (there.layers, back.layers)):
        assert {r.name: r.difference_s for r in one} == {r.name: -r.difference_s for r in other}
    assert {r.name: r.only_in for r in there.layers}[("layer_3/mlp",)] == "b"
    assert {r.name: r.only_in for r in back.layers}[("layer_3/mlp",)] == "a"


def test_what_is_new_is_said(runs, capsys):
    out = diff(capsys, runs["a"], runs["more"])[1]
    layers = out.partition("By layer")[2].splitlines()
    row = next(line for line in layers if "layer_3/mlp" in line)
    assert row.split()[-1] == "new"
    assert "By layer, 6 equal" in out  # those of the other three layers


def test_the_largest_change_comes_first_and_the_rest_is_counted(runs, capsys):
    differences = find_run_differences(
        RunResult.load_folder(runs["a"]), RunResult.load_folder(runs["b"])
    )
    for rows in (differences.kinds, differences.kernels, differences.layers):
        sizes = [abs(row.difference_s) for row in rows]
        assert sizes == sorted(sizes, reverse=True)
    out = diff(capsys, runs["a"], runs["b"], "--top", "2")[1]
    layers = out.partition("By layer")[2].partition("\n\n")[0]
    assert len(layers.splitlines()) == 5 and "(4 more)" in layers


def test_differences_have_a_sign_and_shares_differ_by_points(runs, capsys):
    out = diff(capsys, runs["a"], runs["b"])[1]
    rows = out.partition("Totals, one device")[2].partition("\n\n")[0].splitlines()[2:]
    lines_by_name = {line[:24].strip(): line for line in rows}
    assert re.search(r"[+-][\d.]+ points", lines_by_name["HFU"])
    for line in rows:
        assert re.search(r" ([+-][\d.]+|0) [^+-]*([+-][\d.]+ %|-)$", line), line


def test_fail_above_is_for_slower_ones_only(runs, capsys):
    code, _, err = diff(capsys, runs["b"], runs["a"], "--fail-above", "10")
    assert code == 1 and "% longer, more than the 10 % allowed" in err
    assert diff(capsys, runs["a"], runs["b"], "--fail-above", "0")[0] == 0
    assert diff(capsys, runs["b"], runs["a"], "--fail-above", "1000000")[0] == 0
    assert diff(capsys, runs["b"], runs["a"], "--fail-above", "-1")[0] == 2


def test_without_a_simulation_compute_is_compared(runs, capsys):
    code, out, err = diff(capsys, runs["b"], runs["bare"], "--fail-above", "1", "--json")
    data = json.loads(out)
    assert code == 1 and data["measure"] == "compute_s" and "the compute takes" in err
    assert [(row["a_count"], row["b_count"], row["a_s"]) for row in data["collectives"]] == [
        (3, 3, None)
    ]


def test_programs_and_configurations_are_run_and_leave_nothing(runs, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = str(Path(runs["folder"], "a.mlir"))
    Path("run.json").write_text(
        json.dumps(
            {"mlir": program, "node": "A100_SXM_40GB", "system": "A100_SXM_40GB_4GPU",
             "timeline": "t.perfetto-trace", "output": "here", "form": "as-is"}
        )
    )  # fmt: skip
    flags = ("--nodes", "A100_SXM_40GB", "--systems", "A100_SXM_40GB_4GPU", "--json")
    flags += ("--form", "as-is")
    code, out, _ = diff(capsys, runs["a"], program, *flags)
    assert code == 0 and json.loads(out)["growth"] == 0
    code, out, _ = diff(capsys, runs["a"], "run.json", "--json")
    assert code == 0 and json.loads(out)["growth"] == 0
    code, out, _ = diff(capsys, "run.json", program, *flags, "--estimator", "roofline")
    assert code == 0 and json.loads(out)["provenance"]["estimator"]["a"].startswith("roofline")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json"]


def test_an_annotated_program_keeps_its_annotation(runs, capsys):
    annotated = str(Path(runs["b"], "annotated.mlirbc"))
    system = ("--systems", "H100_80GB_4GPU")
    code, out, _ = diff(capsys, runs["b"], annotated, *system, "--json")
    data = json.loads(out)
    assert code == 0 and data["growth"] == 0
    assert data["provenance"]["node"] == {"a": "H100_80GB", "b": "H100_80GB"}
    out = diff(capsys, runs["b"], annotated, *system, "--nodes", "A100_SXM_40GB", "--json")[1]
    assert json.loads(out)["provenance"]["node"]["b"] == "A100_SXM_40GB"


def test_an_annotated_program_that_is_not_split_is_split(runs, capsys, tmp_path):
    from hespas.tools.hespas_opt import main as hespas_opt

    path = str(tmp_path / "annotated.mlir")
    program = str(Path(runs["folder"], "a.mlir"))
    assert hespas_opt([program, "--roofline-annotate=node=H100_80GB", "-o", path]) == 0
    flags = ("--systems", "H100_80GB_4GPU")
    code, out, _ = diff(capsys, path, path, *flags, "--json")
    data = json.loads(out)
    assert code == 0 and data["provenance"]["estimator"]["a"].startswith("roofline")
    assert data["totals"]["step_time_s"]["a"] > 0


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (("{a}", "{b}", "--nodes", "H100_80GB"), 2, "it is a result already"),
        (("{a}", "{b}", "--estimator", "roofline"), 2, "it is a result already"),
        (("{a}", "{folder}"), 1, "there is no run.json; name the output folder of a hespas run"),
        (("{a}", "none.mlir"), 1, "none.mlir"),
        (("{a}", "none.json"), 1, "none.json: error: there is no such file"),
        (("{a}",), 2, "there is one result only"),
        (("{a}", "{b}", "{bare}"), 2, "--changes compares two results, and there are 3"),
        (("{a}", "{b}", "--top", "-1"), 2, "argument --top: '-1' is not a whole number"),
        (("{a}", "{b}", "--fail-abov", "1"), 2, "did you mean '--fail-above'"),
    ],
)
def test_wrong_lines_are_one_line(runs, capsys, argv, code, text):
    data, out, err = diff(capsys, *(word.format(**runs) for word in argv))
    assert data == code and text in err and not out
    assert "Traceback" not in err


def test_files_of_different_runs_are_an_error(runs, tmp_path, capsys):
    for name in (run_results.FIGURES, run_results.SIMULATION, run_results.MODULE):
        (tmp_path / name).write_bytes(Path(runs["a"], name).read_bytes())
    (tmp_path / run_results.SIMULATION).write_bytes(
        Path(runs["b"], run_results.SIMULATION).read_bytes()
    )
    code, _, err = diff(capsys, runs["a"], str(tmp_path))
    assert code == 1 and "are of different runs" in err
    (tmp_path / run_results.SIMULATION).unlink()
    (tmp_path / run_results.FIGURES).write_text("{}")
    code, _, err = diff(capsys, runs["a"], str(tmp_path))
    assert code == 1 and "run.json was not written by hespas run" in err


def test_a_run_without_a_system_removes_an_earlier_simulation(tmp_path):
    folder = Path(result(tmp_path))
    assert (folder / run_results.SIMULATION).exists()
    result(tmp_path, system="")
    assert not (folder / run_results.SIMULATION).exists()
    assert RunResult.load_folder(str(folder)).simulation is None


TIMES = st.floats(0, 1e3)
TABLES = st.dictionaries(
    st.tuples(st.sampled_from("abcdef")), st.tuples(TIMES, st.integers(1, 9)), max_size=6
)


@given(TABLES, TABLES)
def test_changes_hold_every_name_once(a, b):
    changes = run_differences.list_time_changes(a, b)
    assert {change.name for change in changes} == {*a, *b} and len(changes) == len({*a, *b})
    for change in changes:
        assert (change.only_in == "a") == (change.name not in b)
        assert (change.only_in == "b") == (change.name not in a)
        both = change.name in a and change.name in b
        assert change.is_equal == (both and a[change.name] == b[change.name])


def test_results_of_one_question_that_differ_name_their_instructions(runs, capsys):
    """Side by side too: which settings, instructions and collectives make the difference."""
    run("compare", runs["a"], runs["more"])
    out = capsys.readouterr().out
    title = re.search(r"^The second differs by ([+-][0-9.]+) %: settings that differ$", out, re.M)
    times = [RunResult.load_folder(runs[name]).figures["step_time_s"] for name in ("a", "more")]
    assert title is not None
    assert float(title[1]) == pytest.approx(100 * (times[1] / times[0] - 1), abs=0.06)
    assert re.search(r"^  program +first +\S*a\.mlir$", out, re.M)
    assert "By instruction" in out and "By collective" in out
    for other in ("same", "b"):  # what agrees, and what is another question
        run("compare", runs["a"], runs[other])
        assert "differs by" not in capsys.readouterr().out


def test_instructions_add_up_to_the_change_of_the_compute(runs):
    a, b = RunResult.load_folder(runs["a"]), RunResult.load_folder(runs["more"])
    rows = find_run_differences(a, b).instructions
    change = b.figures["compute_s"] - a.figures["compute_s"]
    assert math.fsum(row.difference_s for row in rows) == pytest.approx(change)
