"""Kernels of annotated programs, and ``hespas show``."""

import json
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from support.result_programs import layered

from hespas import configs, frontends
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import ir, make_context
from hespas.estimators.base import CostItem, Estimator
from hespas.passes import run_pipeline
from hespas.passes.annotate.traverse import Annotation, annotate_module
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows import kernel_rows

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "llama3-100m-opt-a100.mlir.xz"

LOOP = """
module attributes {mhlo.num_partitions = 1 : i32} {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %five = stablehlo.constant dense<5> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<64x64xf32>
      cond {
        %c = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %n = stablehlo.add %i, %one : tensor<i32>
        %z = stablehlo.dot_general %y, %y, contracting_dims = [1] x [0]
          : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> loc(#dot)
        stablehlo.return %n, %z : tensor<i32>, tensor<64x64xf32>
      }
    return %0#1 : tensor<64x64xf32>
  }
}
#dot = loc("jit(f)/jit(main)/while/body/transpose(jvp(layer_1))/mlp/dot_general")
"""


def annotated(text, estimator="roofline"):
    module = ir.Module.parse(text, make_context())
    run_pipeline(module, f"{estimator}-annotate{{node=A100_SXM_40GB}}")
    return module


@pytest.mark.parametrize("scope", ["", "closed_call/", "eval_jaxpr/"])  # since jax 0.11
def test_loops_are_multiplied_and_layers_named(scope):
    loop = LOOP.replace("while/body/", f"while/body/{scope}")
    rows = {row.op: row for row in kernel_rows.collect_kernel_rows(annotated(loop))}
    dot = rows["stablehlo.dot_general"]
    assert (dot.count, dot.layer) == (5, "layer_1/mlp")
    assert dot.shapes == "64x64xf32, 64x64xf32 -> 64x64xf32"


BRANCH = """
module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%p: tensor<i1>, %x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = "stablehlo.if"(%p) ({
      %1 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          use_global_device_ids}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }) : (tensor<64x64xf32>) -> tensor<64x64xf32>
      %2 = stablehlo.negate %1 : tensor<64x64xf32>
      stablehlo.return %2 : tensor<64x64xf32>
    }, {
      %1 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      stablehlo.return %1 : tensor<64x64xf32>
    }) : (tensor<i1>) -> tensor<64x64xf32>
    return %0 : tensor<64x64xf32>
  }
}
"""


def test_of_branches_it_is_the_one_that_the_cost_is_of():
    """That which sends more, though the other one computes for longer."""
    module = ir.Module.parse(BRANCH, make_context())
    total = (
        run_pipeline(module, "roofline-annotate{node=A100_SXM_40GB}").get_artefact(Annotation).total
    )
    rows = kernel_rows.collect_kernel_rows(module)
    assert [row.op for row in rows] == ["stablehlo.negate"]
    assert sum(row.time_ns for row in rows) == total.time_ns


def test_a_loop_that_never_runs_has_no_kernels():
    module = annotated(LOOP.replace("dense<5>", "dense<0>"))
    assert kernel_rows.collect_kernel_rows(module) == []


class Whole(Estimator):
    """A microsecond for each region."""

    name: ClassVar[str] = "whole"
    version: ClassVar[str] = "1"
    granularity: ClassVar[Literal["op", "kernel", "region"]] = "region"

    def __init__(self) -> None:
        pass

    def estimate(self, item: CostItem) -> Cost:
        return Cost(self.name, 0, 0, 0, 1000.0, "measured", "none")


@pytest.mark.parametrize("text", [LOOP, layered(3)])
@pytest.mark.parametrize("split", ["split-linear", "split-individual{merge=true}"])
def test_a_region_that_was_estimated_whole_is_a_kernel(text, split):
    module = ir.Module.parse(text, make_context())
    run_pipeline(module, split)
    total = annotate_module(module, Whole(), PassRun()).total
    rows = kernel_rows.collect_kernel_rows(module)
    assert total.time_ns and sum(row.time_ns for row in rows) == total.time_ns
    assert any(row.kind == "region" for row in rows)


def test_a_kernel_has_one_kind_fused_or_not():
    plain, fused = (ir.Module.parse(layered(3), make_context()) for _ in range(2))
    run_pipeline(plain, "roofline-annotate{node=A100_SXM_40GB}")
    run_pipeline(fused, "fuse,roofline-annotate{node=A100_SXM_40GB}")
    kinds = [
        {row.kind for row in kernel_rows.collect_kernel_rows(module)} for module in (plain, fused)
    ]
    assert kinds == [{"gemm", "loop"}, {"gemm", "loop", "reduction"}]  # of the parts of products
    titles = {row.kind_title for row in kernel_rows.collect_kernel_rows(plain)}
    assert titles == {"gemm (dot_general)", "loop (add)"}


def test_a_node_of_options_alone_has_no_peaks_to_show(tmp_path, capsys):
    module = ir.Module.parse(LOOP, make_context())
    run_pipeline(module, "roofline-annotate{peak-flops=1e12 memory-bandwidth=1e12}")
    path = tmp_path / "a.mlir"
    path.write_text(str(module))
    assert run_tool_main(hespas.main, ["show", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["node"] == "custom" and data["kernels"][0]["of_peak"] is None
    assert run_tool_main(hespas.main, ["compare", "--changes", str(path), str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["growth"] == 0


def test_a_result_keeps_the_file_of_its_node(tmp_path, capsys, monkeypatch):
    """It is shown from any folder, and where it was moved; without the copy, the file is named."""
    (tmp_path / "mine.json").write_text(json.dumps(configs.read_node_json("A100_SXM_40GB")))
    (tmp_path / "step.mlir").write_text(LOOP)
    monkeypatch.chdir(tmp_path)
    argv = ["run", "--mlir", "step.mlir", "--node", "mine.json", "--output", "out"]
    assert run_tool_main(hespas.main, argv) == 0
    capsys.readouterr()
    assert run_tool_main(hespas.main, ["show", "out"]) == 0
    shown = capsys.readouterr().out
    assert "mine.json" in shown
    (tmp_path / "mine.json").unlink()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "elsewhere")
    for result in ("../moved", str(tmp_path / "moved")):
        assert run_tool_main(hespas.main, ["show", result]) == 0
        assert capsys.readouterr().out == shown
        assert run_tool_main(hespas.main, ["show", result, "--page", "report.html"]) == 0
        Path("report.html").unlink()
        capsys.readouterr()
    monkeypatch.chdir(tmp_path / "moved")
    Path("node.json").unlink()
    capsys.readouterr()
    for flags in ([], ["--page", "report.html"]):
        assert run_tool_main(hespas.main, ["show", ".", *flags]) == 1
        err = capsys.readouterr().err
        assert (
            "mine.json: error: cannot read it: No such file or directory; "
            "the result refers to its node's file" in err
        )
    assert not Path("report.html").exists()


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("jit(step)/jit(main)/transpose(jvp(layer_3))/mlp/dot_general", "layer_3/mlp"),
        ("jit(f)/vmap(jit(norm))/rsqrt", ""),
        ("a/b/c/add", "a/b"),
        ("", ""),
    ],
)
def test_layer_of(name, layer):
    assert kernel_rows.extract_layer(name, 2) == layer


def test_not_annotated_is_an_error():
    with pytest.raises(HespasError, match="no op has a cost"):
        kernel_rows.collect_kernel_rows(ir.Module.parse(LOOP, make_context()))


@pytest.mark.slow
def test_the_kernels_are_the_program(tmp_path, capsys):
    """Their times sum to the compute time of the run, split or not, and to each grouping."""
    out = tmp_path / "out"
    argv = ["run", "--mlir", str(EXAMPLE), "--node", "A100_SXM_40GB", "--output", str(out)]
    assert run_tool_main(hespas.main, argv) == 0
    run_s = json.loads((out / "run.json").read_text())["compute_s"]
    capsys.readouterr()
    assert run_tool_main(hespas.main, ["show", str(out), "--json", "--top", "0"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["compute_s"] == pytest.approx(run_s)
    assert sum(row["total_s"] for row in data["kernels"]) == pytest.approx(run_s)
    for group_name in ("layer", "kind", "dtype", "bound", "constants"):
        assert sum(row["time_s"] for row in data[f"by_{group_name}"]) == pytest.approx(run_s)
    first = data["kernels"][0]
    assert first["low_s"] < first["time_s"] < first["high_s"]
    assert 0 < first["of_bandwidth"] < 1 and first["place"].startswith(EXAMPLE.name)
    module = frontends.read_module(str(EXAMPLE), make_context())
    run_pipeline(module, "calibrated-annotate{node=A100_SXM_40GB}")
    assert sum(row.time_ns for row in kernel_rows.collect_kernel_rows(module)) == pytest.approx(
        1e9 * run_s
    )


def test_what_was_measured_is_told_of_estimators_that_measured(tmp_path, capsys):
    path = tmp_path / "a.mlir"
    for estimator, has_constants in (("roofline", False), ("calibrated", True)):
        path.write_text(str(annotated(LOOP, estimator)))
        assert run_tool_main(hespas.main, ["show", str(path)]) == 0
        assert ("Time by constants" in capsys.readouterr().out) is has_constants


def test_explain_shows_constants_and_refuses_other_folders(tmp_path, capsys):
    path = tmp_path / "a.mlir"
    path.write_text(str(annotated(LOOP, "calibrated")))
    assert run_tool_main(hespas.main, ["show", str(path)]) == 0
    out = capsys.readouterr().out
    assert "Constants" in out and "product.f32" in out and "NeuSight" in out
    assert run_tool_main(hespas.main, ["show", str(tmp_path)]) == 1
    assert "name the output folder of a hespas run" in capsys.readouterr().err
    assert run_tool_main(hespas.main, ["show", str(path), "--depth", "0"]) == 2
