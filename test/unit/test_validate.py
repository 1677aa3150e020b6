"""``hespas validate``: cells, scores, and the command on real programs."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hespas.support.errors import HespasError
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows.run_config import RunOptions
from hespas.workflows.validation import prediction_scores as c
from hespas.workflows.validation.prediction_scores import (
    StepPrediction,
    compute_pair_order,
    draw_validation,
    list_speed_ups,
    score_predictions,
)
from hespas.workflows.validation.step_predictions import (
    ValidationRequest,
    scale_by_bandwidth,
)

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
HEADER = ",".join(c.COLUMNS) + "\n"


def cell(measured_s, *, workload="w", node="A100_SXM_40GB", uncertainty_s=0.0):
    return c.MeasuredCell(workload, 4, node, "s", measured_s, uncertainty_s, "here", 2)


def test_scores():
    """Errors are signed for the bias, absolute for the MAPE; small cells are not counted."""
    scores = score_predictions(
        [
            StepPrediction(cell(1.0), 1.1),
            StepPrediction(cell(2.0), 1.8),
            StepPrediction(cell(0.05), 0.5),
        ],
        at_least_s=0.1,
    )
    assert (scores.cells, scores.order, scores.inside) == (2, 1.0, None)
    assert scores.mape == pytest.approx(0.1) and scores.bias == pytest.approx(0.0)
    assert score_predictions([StepPrediction(cell(0.05), 0.5)], at_least_s=0.1) is None


def test_inside_counts_the_measurement_s_own_uncertainty():
    assert StepPrediction(cell(1.0), 1.3, 1.2, 1.4).is_inside_band is False
    assert StepPrediction(cell(1.0, uncertainty_s=0.2), 1.3, 1.2, 1.4).is_inside_band is True


def test_order_leaves_out_what_measurements_do_not_tell_apart():
    near = [
        StepPrediction(cell(1.0, uncertainty_s=0.1), 2.0),
        StepPrediction(cell(1.1, uncertainty_s=0.1), 1),
    ]
    assert compute_pair_order(near) == 1.0
    assert (
        compute_pair_order([StepPrediction(cell(1.0), 2.0), StepPrediction(cell(1.1), 1.0)]) == -1.0
    )


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=8), st.floats(0.5, 2))
def test_a_constant_factor_is_bias_and_keeps_the_order(times, factor):
    scores = score_predictions([StepPrediction(cell(t), factor * t) for t in times])
    assert scores is not None
    assert scores.order == 1.0
    assert scores.bias == pytest.approx(factor - 1, abs=1e-9)
    assert scores.mape == pytest.approx(abs(factor - 1), abs=1e-9)


def test_bandwidth_ratio():
    """The first cell of a workload is what the others are scaled from."""
    cells = [cell(1.0, node="slow"), cell(0.4, node="fast"), cell(3.0, workload="x", node="fast")]
    (only,) = scale_by_bandwidth(cells, {"slow": 1.0, "fast": 2.0}.__getitem__)
    assert (only.cell, only.step_s) == (cells[1], 0.5)


def make_flows():
    """A program on three nodes, by an estimator that lacks one, and scaled from the first."""
    cells = [
        replace(cell(t, node=name, uncertainty_s=0.1 * t), line=i)
        for i, (t, name) in enumerate([(4.0, "old"), (2.0, "new"), (1.0, "newest")])
    ]
    other = replace(cell(1.0, workload="other"), line=9)
    steps = zip([*cells[:2], other], [3.0, 1.0, 5.0], strict=True)
    bandwidths = {"old": 1.0, "new": 2.5, "newest": 5.0, "A100_SXM_40GB": 1.0}
    return {
        "calibrated": [StepPrediction(one, step_s) for one, step_s in steps],
        "ratio": scale_by_bandwidth([*cells, other], bandwidths.__getitem__),
    }


def test_speed_ups_compare_with_the_first_node():
    new, newest = list_speed_ups(make_flows())
    assert (new.reference, new.node, new.measured) == ("old", "new", 2.0)
    assert new.uncertainty == pytest.approx(2 * math.hypot(0.1, 0.1))
    assert new.predicted == pytest.approx({"calibrated": 3.0, "ratio": 2.5})
    assert newest.measured == 4.0 and newest.predicted == pytest.approx({"ratio": 5.0})


def test_the_plot_has_errors_and_speed_ups(tmp_path):
    pytest.importorskip("matplotlib")
    for compares_nodes in (True, False):
        path = tmp_path / "plot.svg"
        draw_validation(str(path), make_flows(), compares_nodes=compares_nodes)
        texts = re.findall(r"<text[^>]*>([^<]*)<", path.read_text())
        assert {"calibrated", "ratio", "w, 4 x old", "other, 4 x A100_SXM_40GB"} <= {*texts}
        assert ("speed-up over old" in texts) == ("measured" in texts) == compares_nodes
    many = [replace(cell(1.0, node=f"n{i}"), line=i) for i in range(40)]
    draw_validation(str(path), {"f": [StepPrediction(c, 3.0) for c in many]}, compares_nodes=False)
    texts = re.findall(r"<text[^>]*>([^<]*)<", path.read_text())
    assert "w" in texts and not any(text.startswith("w, 4 x") for text in texts)


def test_programs_are_found_by_name(tmp_path):
    for name in ("w.mlir", "w-opt-a100.mlir.xz", "w-opt-cudnn-a100.mlir", "v_4_devices.mlir"):
        (tmp_path / name).touch()
    programs = c.find_programs([str(tmp_path)])
    name = {start: c.find_cell_program(cell(1.0), start, programs).name for start in c.STARTS}
    assert name == {
        c.DEFAULT: "w.mlir", c.OPTIMISED: "w-opt-cudnn-a100.mlir", c.UNOPTIMISED: "w.mlir",
    }  # fmt: skip
    assert c.find_cell_program(cell(1.0, node="H100_80GB"), c.OPTIMISED, programs) is None
    assert (
        c.find_cell_program(cell(1.0, workload="v"), c.UNOPTIMISED, programs).name
        == "v_4_devices.mlir"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("workload,node\n", r"m.csv:1: error: there is no column devices"),
        (HEADER, "no measurement"),
        (HEADER + "w,four,n,s,1,0,x\n", r"m.csv:2: error: the row is wrong"),
        (HEADER + "w,4,n,s,0,0,x\n", r"m.csv:2: .*must be positive"),
        (HEADER + "w,4\n", r"m.csv:2: error: the row is wrong"),
    ],
)
def test_wrong_cells(tmp_path, text, error):
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(HespasError) as caught:
        c.read_measured_cells(str(path))
    assert re.search(error, str(caught.value))


def run(*argv):
    return run_tool_main(hespas.main, ["validate", *argv])


def test_missing_program_is_named_before_any_work(tmp_path, capsys):
    path = tmp_path / "m.csv"
    path.write_text(HEADER + "nothing,4,A100_SXM_40GB,A100_SXM_40GB_4GPU,1,0,x\n")
    assert run(str(path), "--programs", str(tmp_path)) == 1
    missing = "m.csv:2: error: there is no default or optimised or unoptimised program of nothing"
    assert missing in capsys.readouterr().err


@pytest.mark.slow
def test_limits_decide_the_exit_code(tmp_path, capsys):
    """One real cell: its table, its JSON, and a limit that is met or not."""
    path = tmp_path / "m.csv"
    path.write_text(HEADER + "llama3-100m,4,A100_SXM_40GB,A100_SXM_40GB_4GPU,0.09,0.005,x\n")
    common = [str(path), "--programs", str(EXAMPLES), "--start", "optimised", "--at-least", "0.01"]
    markdown = tmp_path / "t.md"
    assert run(*common, "--max-mape", "50", "--json", "--markdown", str(markdown)) == 0
    flows = json.loads(capsys.readouterr().out)["flows"]
    assert list(flows) == ["calibrated, optimised", "roofline, optimised", "bandwidth ratio"]
    (cell,) = flows["calibrated, optimised"]["cells"]
    (bound,) = flows["roofline, optimised"]["cells"]
    assert bound["predicted_s"] < cell["predicted_s"]
    assert cell["low_s"] < cell["predicted_s"] < cell["high_s"]
    assert "| llama3-100m | 4 | A100_SXM_40GB |" in markdown.read_text()
    assert run(*common, "--max-mape", "0.1", "--no-baselines") == 1
    assert "the limit is 0.1 %" in capsys.readouterr().err


PROGRAM = """
module @w attributes {mhlo.num_partitions = 4 : i32} {
  func.func @main(%x: tensor<512x512xbf16>, %w: tensor<512x512xbf16>) -> tensor<512x512xbf16> {
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
    %s = "stablehlo.all_reduce"(%y) ({
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %sum = stablehlo.add %a, %b : tensor<bf16>
      stablehlo.return %sum : tensor<bf16>
    }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}
      : (tensor<512x512xbf16>) -> tensor<512x512xbf16>
    %t = stablehlo.tanh %s : tensor<512x512xbf16>
    return %t : tensor<512x512xbf16>
  }
}
"""


@pytest.mark.slow
def test_the_default_flow_is_that_of_a_run(tmp_path, capsys):
    """``validate`` and ``run`` agree to the digit; a flow without a program of a cell is noted."""
    path, program = tmp_path / "m.csv", tmp_path / "w.mlir"
    program.write_text(PROGRAM)
    path.write_text(HEADER + "w,4,H100_80GB,H100_80GB_4GPU,0.001,0,x\n")
    assert run(str(path), "--programs", str(tmp_path), "--no-baselines", "--json") == 0
    output = capsys.readouterr()
    flows = json.loads(output.out)["flows"]
    assert list(flows) == [
        "calibrated, default",
        "calibrated, optimised",
        "calibrated, unoptimised",
    ]
    assert "m.csv:2: there is no optimised program of w for H100_80GB" in output.err
    (cell,) = flows["calibrated, default"]["cells"]
    assert not flows["calibrated, optimised"]["cells"]
    folder = tmp_path / "out"
    place = ["--node", "H100_80GB", "--system", "H100_80GB_4GPU", "--output", str(folder)]
    assert run_tool_main(hespas.main, ["run", "--mlir", str(program), *place]) == 0
    figures = json.loads((folder / "run.json").read_text())
    assert cell["predicted_s"] == figures["step_time_s"]
    assert [cell["low_s"], cell["high_s"]] == figures["step_time_band_s"]


def test_options_for_xla_need_programs_that_xla_compiles(tmp_path, capsys):
    path = tmp_path / "m.csv"
    path.write_text(HEADER + "w,4,H100_80GB,H100_80GB_4GPU,0.001,0,x\n")
    for flags in (("--overlap", "none"), ("--xla-optimize", "preset=paxml")):
        command = [str(path), "--programs", str(tmp_path), "--start", "both", *flags]
        assert run(*command) == 2
        assert "--start default compiles them" in capsys.readouterr().err


def test_options_are_those_of_the_flows_that_have_a_use_for_them():
    options = RunOptions(
        overlap="none", slowdown=0.5, setting={"attention": "cudnn"}, keep_going=True
    )
    request = ValidationRequest("m.csv", ["."], options, starts=("default", "optimised"))
    compiled, optimised = request.flows
    assert compiled.options == options
    assert optimised.options == options.model_copy(update={"overlap": None})
    assert request.baseline.options == RunOptions(estimator="roofline", keep_going=True)
