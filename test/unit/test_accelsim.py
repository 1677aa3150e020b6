"""Accel-Sim: the reading of its reports, and the regions written for it."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from hespas import passes
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import collect_functions, ir, make_context
from hespas.estimators.accelerators.accelsim import AccelsimReport, parse_accelsim_report
from hespas.passes.annotate.measured_items import collect_items
from hespas.passes.annotate.traverse import Annotation
from hespas.support.errors import HespasError, UsageError
from hespas.tools import hespas

pytestmark = pytest.mark.slow

CONTEXT = make_context()
PROGRAM = """
func.func @main(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.tanh %0 : tensor<64x64xf32>
  %2 = stablehlo.dot_general %1, %1, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %1, %2 : tensor<64x64xf32>, tensor<64x64xf32>
}
"""
# The lines that count of a run of two kernels.
REPORT = """\
GPGPU-Sim: Configuration options:
-gpgpu_clock_domains   1447.0:1447.0:1447.0:850.0 # Clock Domain Frequencies in MhZ
kernel_name = main_dispatch_0
gpu_sim_cycle = 5451
gpu_tot_sim_cycle = 5451
kernel_name = main_dispatch_1
gpu_sim_cycle = 1000
gpu_tot_sim_cycle = 6451
GPGPU-Sim: *** simulation thread exiting ***
GPGPU-Sim: *** exit detected ***
"""


def test_report_of_two_kernels():
    assert parse_accelsim_report(REPORT) == AccelsimReport(6451, 2, 1.447e9)
    assert parse_accelsim_report(REPORT.replace("-gpgpu_clock", "-no_clock")).clock_hz is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no gpu_tot_sim_cycle"),
        (REPORT.replace("*** exit detected ***", ""), "the simulation did not end"),
    ],
)
def test_reports_that_are_none(text, message):
    with pytest.raises(HespasError, match=message):
        parse_accelsim_report(text)


def annotated(folder, options=""):
    module = ir.Module.parse(PROGRAM, CONTEXT)
    passes.run_pipeline(module, "split-individual")
    for number, digest in enumerate(sorted({item.digest for item in collect_items(module)})):
        (folder / f"{digest}.log").write_text(REPORT.replace("6451", str(1447 * (number + 1))))
    pass_run = passes.run_pipeline(module, f"accelsim-annotate{{reports={folder} {options}}}")
    block = collect_functions(module)["main"].regions[0].blocks[0]
    costs = [Cost.read_from_op(view.operation) for view in block.operations]
    return pass_run, [cost for cost in costs if cost is not None]


def test_times_are_those_of_the_reports(tmp_path):
    pass_run, costs = annotated(tmp_path)
    assert sorted({cost.latency_ns for cost in costs}) == pytest.approx([1000, 2000])
    assert costs[0] == costs[2]  # equal ops, one report
    assert costs[0].flops == 2 * 64**3
    assert pass_run.get_artefact(Annotation).total.time_ns == pytest.approx(
        sum(c.latency_ns for c in costs)
    )
    _, slower = annotated(tmp_path, "clock-hz=1e9")
    assert slower[0].latency_ns == pytest.approx(1.447 * costs[0].latency_ns)


def test_a_region_without_a_report_is_named(tmp_path):
    module = ir.Module.parse(PROGRAM, CONTEXT)
    with pytest.raises(
        HespasError, match=r"there is no report .*\.log; hespas measure accelsim writes"
    ):
        passes.run_pipeline(module, f"split-linear,accelsim-annotate{{reports={tmp_path}}}")
    with pytest.raises(UsageError, match="none is not a folder"):
        passes.run_pipeline(module, "accelsim-annotate{reports=none}")
    (digest,) = {item.digest for item in collect_items(module)}
    (tmp_path / f"{digest}.log").write_text("nothing")
    with pytest.raises(HespasError, match="no gpu_tot_sim_cycle"):
        passes.run_pipeline(module, f"accelsim-annotate{{reports={tmp_path}}}")
    pass_run = passes.run_pipeline(module, f"accelsim-annotate{{reports={tmp_path} keep-going}}")
    assert pass_run.get_artefact(Annotation).total.gap


@pytest.mark.skipif(find_spec("iree") is None, reason="needs hespas[iree]")
def test_regions_are_written_as_ptx(tmp_path, capsys):
    program = tmp_path / "program.mlir"
    program.write_text(PROGRAM)
    place = tmp_path / "regions"
    command = ["measure", "accelsim", str(program), "--output", str(place), "--split", "individual"]
    assert hespas.main(command) == 0
    data = json.loads((place / "regions.json").read_text())
    assert data["target"] == "sm_80"
    assert sorted(region["count"] for region in data["regions"]) == [1, 2]
    for region in data["regions"]:
        assert region["kernels"] == 1 and not region["problem"]
        assert ".target sm_80" in (place / f"{region['digest']}.0.ptx").read_text()
        assert (place / f"{region['digest']}.vmfb").stat().st_size > 0
    module = ir.Module.parse(PROGRAM, CONTEXT)
    passes.run_pipeline(module, "split-individual")
    assert {item.digest for item in collect_items(module)} == {r["digest"] for r in data["regions"]}


@pytest.mark.skipif(find_spec("iree") is None, reason="needs hespas[iree]")
def test_what_iree_does_not_compile_is_told(tmp_path, capsys):
    program = tmp_path / "program.mlir"
    program.write_text(PROGRAM.replace("f32", "bf16").replace("64x64", "256x256"))
    command = [
        "measure",
        "accelsim",
        str(program),
        "--output",
        str(tmp_path / "r"),
        "--split",
        "individual",
    ]
    hespas.main([*command, "--json"])
    caught = capsys.readouterr()
    regions = json.loads(caught.out)["regions"]
    problems = [region for region in regions if region["problem"]]
    assert all(region["kernels"] == 0 for region in problems)
    assert caught.err.count("warning: ") == len(problems)
    with pytest.raises(UsageError, match="target is sm_90; IREE's are sm_60"):
        hespas.main([*command, "--target", "sm_90"])
    with pytest.raises(UsageError, match="invalid choice: 'linea'; did you mean 'linear'"):
        hespas.main([*command[:-1], "linea"])
