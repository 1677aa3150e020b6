"""Kernels of annotated programs, and ``hespas explain``."""

import json
from pathlib import Path

import pytest

from hespas import frontends
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import ir, make_context
from hespas.passes import run
from hespas.tools import hespas, kernels
from hespas.tools.common import entry

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
    run(module, f"{estimator}-annotate{{node=A100_SXM_40GB}}")
    return module


def test_loops_are_multiplied_and_layers_named():
    rows = {row.op: row for row in kernels.rows(annotated(LOOP))}
    dot = rows["stablehlo.dot_general"]
    assert (dot.count, dot.layer) == (5, "layer_1/mlp")
    assert dot.shapes == "64x64xf32, 64x64xf32 -> 64x64xf32"


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
    assert kernels.layer_of(name, 2) == layer


def test_not_annotated_is_an_error():
    with pytest.raises(HespasError, match="no op has a cost"):
        kernels.rows(ir.Module.parse(LOOP, make_context()))


def test_the_kernels_are_the_program(tmp_path, capsys):
    """Their times sum to the compute time of the run, split or not, and to each grouping."""
    out = tmp_path / "out"
    argv = ["run", "--mlir", str(EXAMPLE), "--node", "A100_SXM_40GB", "--output", str(out)]
    assert entry(hespas.main, argv) == 0
    run_s = json.loads((out / "run.json").read_text())["compute_s"]
    capsys.readouterr()
    assert entry(hespas.main, ["explain", str(out), "--json", "--top", "0"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["compute_s"] == pytest.approx(run_s)
    assert sum(one["total_s"] for one in found["kernels"]) == pytest.approx(run_s)
    for what in ("layer", "kind", "dtype", "bound", "constants"):
        assert sum(one["time_s"] for one in found[f"by_{what}"]) == pytest.approx(run_s)
    first = found["kernels"][0]
    assert first["low_s"] < first["time_s"] < first["high_s"]
    assert 0 < first["of_bandwidth"] < 1 and first["place"].startswith(EXAMPLE.name)
    module = frontends.read(str(EXAMPLE), make_context())
    run(module, "calibrated-annotate{node=A100_SXM_40GB}")
    assert sum(row.time_ns for row in kernels.rows(module)) == pytest.approx(1e9 * run_s)


def test_explain_shows_constants_and_refuses_other_folders(tmp_path, capsys):
    path = tmp_path / "a.mlir"
    path.write_text(str(annotated(LOOP, "calibrated")))
    assert entry(hespas.main, ["explain", str(path)]) == 0
    out = capsys.readouterr().out
    assert "Constants" in out and "product.f32" in out and "NeuSight" in out
    assert entry(hespas.main, ["explain", str(tmp_path)]) == 1
    assert "name the output folder of a hespas run" in capsys.readouterr().err
    assert entry(hespas.main, ["explain", str(path), "--depth", "0"]) == 2
