"""The form of a program in a run: compiled by XLA, fused by hespas, or as it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.versions import JAXLIB

import hespas as hespas_api
from hespas import configs
from hespas.dialects import xla
from hespas.dialects.program_facts import write_program_facts
from hespas.dialects.xla import find_gpu_library
from hespas.passes.fuse.fuse import FusePass
from hespas.passes.optimize.xla_optimize import XlaOptimizePass
from hespas.passes.pipeline import run_pipeline
from hespas.support.errors import HespasError, UsageError
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows import followed_flags
from hespas.workflows.program_form import (
    FormRequest,
    ProgramForm,
    ProgramState,
    choose_program_form,
    inspect_program,
)
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_plan import build_run_plan

CHAIN = """
func.func public @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.tanh %x : tensor<64x64xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}
"""
PRODUCT = """
func.func public @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.add %0, %x : tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}
"""
REFUSED = """
module @refused attributes {mhlo.num_replicas = 4 : i32} {
  func.func public @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %s = "stablehlo.async_start"(%x) ({
    ^bb0(%a: tensor<64x64xf32>):
      %g = "stablehlo.all_reduce"(%a)
          <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
      ^bb1(%p: tensor<f32>, %q: tensor<f32>):
        %t = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %t : tensor<f32>
      }) : (tensor<64x64xf32>) -> tensor<64x64xf32>
      stablehlo.return %g : tensor<64x64xf32>
    }) : (tensor<64x64xf32>) -> !stablehlo.future<tensor<64x64xf32>>
    %0 = stablehlo.tanh %x : tensor<64x64xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<64x64xf32>
    %w = "stablehlo.async_done"(%s)
      : (!stablehlo.future<tensor<64x64xf32>>) -> tensor<64x64xf32>
    %2 = stablehlo.add %w, %1 : tensor<64x64xf32>
    return %2 : tensor<64x64xf32>
  }
}
"""
SINGLE_OPS = """
func.func public @main(%x: tensor<64x64xf32>, %w: tensor<4x64x64xf32>, %n: tensor<4xi32>)
    -> tensor<64x64xf32> {
  %0 = "chlo.ragged_dot"(%x, %w, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<
    lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0],
    rhs_group_dimensions = [0]>}>
    : (tensor<64x64xf32>, tensor<4x64x64xf32>, tensor<4xi32>) -> tensor<64x64xf32>
  %1 = "stablehlo.sort"(%0) <{dimension = 1 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = "stablehlo.sort"(%1) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}
"""
RAW = ProgramState("", False, True)
AMPERE, CHOSEN = {"conversions=no-f8E4M3"}, ("conversions", "ragged")
LONE = ProgramState("", False, False)
NEEDS_PLUGIN = pytest.mark.skipif(find_gpu_library() is None, reason="needs the CUDA plug-in")


def list_steps(state: ProgramState, **request: object) -> list[str]:
    values = {"form": None, "node": "H100_80GB", "estimates_real_times": True, **request}
    form = choose_program_form(state, FormRequest(**values))  # type: ignore[arg-type]
    return [step.name for step in form.steps]


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the plug-in is installed: these tests do not compile."""
    monkeypatch.setattr(xla, "find_gpu_library", lambda: "plugin.so")
    monkeypatch.setattr(xla, "find_tpu_library", lambda: "libtpu.so")


def test_the_state_of_a_program():
    module = hespas_api.read(CHAIN)
    assert inspect_program(module) == RAW
    assert not inspect_program(hespas_api.read(PRODUCT)).has_fusible_pair
    mhlo = PRODUCT.replace("stablehlo.dot_general %x, %x,", '"mhlo.dot"(%x, %x)').replace(
        " contracting_dims = [1] x [0]", ""
    )
    assert not inspect_program(hespas_api.read(mhlo)).has_fusible_pair
    assert inspect_program(hespas_api.read(SINGLE_OPS)).rewritten_ops == (
        "1 x ragged_dot (one dense product of all groups, or one for each)",
        "2 x sort (passes of its own, or a call of a library)",
    )
    write_program_facts(module, {"optimised_for": "H100_80GB"})
    assert inspect_program(module).optimisation == "optimised by XLA for H100_80GB"
    fused = hespas_api.read("docs/examples/llama3-100m-opt-a100.mlir.xz")
    assert inspect_program(fused).optimisation == "with XLA's fusions"


@pytest.mark.usefixtures("compiler")
def test_real_times_of_raw_programs_are_of_what_xla_makes():
    assert list_steps(RAW) == list_steps(LONE) == ["xla-optimize"]
    assert list_steps(RAW, node=None) == ["xla-optimize"]
    assert list_steps(RAW, node="TPUv5p") == ["xla-optimize"]
    assert list_steps(RAW, estimates_real_times=False) == []
    assert list_steps(RAW, estimates_real_times=False, otherwise="fuse") == ["fuse"]
    assert list_steps(RAW, node="MI300X") == []
    assert list_steps(RAW, node="MI300X", otherwise="fuse") == ["fuse"]
    assert list_steps(ProgramState("with XLA's fusions", False, True)) == []
    assert list_steps(ProgramState("", True, True)) == []


def test_without_the_compiler_a_program_that_xla_would_not_change_is_as_it_is(monkeypatch):
    monkeypatch.setattr(xla, "find_gpu_library", lambda: None)
    monkeypatch.setattr(xla, "find_tpu_library", lambda: None)
    assert list_steps(LONE) == list_steps(LONE, node="TPUv5p") == []
    assert list_steps(RAW) == list_steps(RAW, node="TPUv5p") == ["fuse"]
    state = ProgramState("", False, False, ("1 x ragged_dot (one dense product)",))
    for node, step in (("H100_80GB", ["fuse"]), ("TPUv5p", [])):
        form = choose_program_form(state, FormRequest(None, node, True))
        assert [one.name for one in form.steps] == step
        assert "compiler is not installed (pip install" in form.warning
        assert form.warning.endswith("it matters for 1 x ragged_dot (one dense product)")


@pytest.mark.parametrize(
    ("node", "target", "words"),
    [
        ("H100_80GB", "H100_80GB", "for H100_80GB: "),
        ("A40_48GB", "A40_48GB", "for A40_48GB (XLA has no description of it; the nearest is that "
         "of NVIDIA RTX A6000): "),
        ("L4_24GB", "L4_24GB", "of NVIDIA RTX A6000): "),
        ("L40S_48GB", "L40S_48GB", "of NVIDIA RTX A6000): "),
        ("mine.json", "H200_141GB", "for H200_141GB, the nearest target to mine: "),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("compiler")
def test_a_node_without_a_target_gets_the_nearest(node, target, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.json").write_text(
        json.dumps({**configs.read_node_json("H200_141GB"), "name": "mine"})
    )
    form = choose_program_form(RAW, FormRequest(None, node, True))
    assert f"target={target} " in form.steps[0].to_pipeline_text()
    assert form.description.startswith("compiled by XLA ") and words in form.description


@pytest.mark.usefixtures("compiler")
def test_a_form_that_is_asked_for_is_taken():
    assert list_steps(RAW, form="as-is") == []
    assert list_steps(RAW, form="fuse", node="MI300X") == ["fuse"]
    assert list_steps(RAW, form="xla", estimates_real_times=False) == ["xla-optimize"]
    optimised = ProgramState("optimised by XLA for A100_SXM_40GB", False, False)
    assert list_steps(optimised, form="xla") == []


def test_where_xla_cannot_compile_the_loss_is_a_warning(monkeypatch):
    monkeypatch.setattr(xla, "find_gpu_library", lambda: None)
    form = choose_program_form(RAW, FormRequest(None, "H100_80GB", True))
    assert form.warning.startswith("XLA's GPU compiler is not installed (pip install")
    assert "collectives alongside compute" in form.warning
    assert form.description == "fused by hespas"


@pytest.mark.usefixtures("compiler")
def test_the_compiler_gets_the_hosts_of_the_system():
    config = RunConfig(mlir="p.mlir", node="H100_80GB", system="DGX_H100_SuperPOD_2")
    form = choose_program_form(RAW, build_run_plan(config).form)
    text = form.steps[0].to_pipeline_text()
    for option in ("target=H100_80GB", "stage=scheduled", "async-collectives=keep"):
        assert option in text


@pytest.mark.parametrize(
    ("node", "options"),
    [("H100_80GB", set()), ("L4_24GB", set()), ("MI300X", set()), ("A100_SXM_40GB", AMPERE),
     ("A40_48GB", AMPERE), ("V100_32GB", {"conversions=none"}), ("TPUv5p", {"ragged=grouped"})],
)  # fmt: skip
def test_fusion_makes_what_the_compiler_of_the_node_makes(node, options):
    """XLA:GPU has no ragged products, and converts operands in kernels from Ampere on."""
    request = FormRequest("fuse", node, estimates_real_times=True)
    (step,) = choose_program_form(RAW, request).steps
    text = step.to_pipeline_text()
    chosen = {word for word in re.findall(r"[\w-]+=[\w-]+", text) if word.startswith(CHOSEN)}
    assert chosen == options


FOUR_BITS = """
func.func @main(%x: tensor<16x8192xbf16>, %w: tensor<8192x8192xi4>, %s: tensor<8192xbf16>)
    -> tensor<16x8192xbf16> {
  %0 = stablehlo.convert %w : (tensor<8192x8192xi4>) -> tensor<8192x8192xbf16>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0]
    : (tensor<16x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<16x8192xbf16>
  %2 = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<8192xbf16>) -> tensor<16x8192xbf16>
  %3 = stablehlo.multiply %1, %2 : tensor<16x8192xbf16>
  return %3 : tensor<16x8192xbf16>
}
"""
EXPERTS = """
func.func @main(%x: tensor<262144x2560xbf16>, %w: tensor<64x2560x1280xbf16>, %s: tensor<64xi32>)
    -> tensor<262144x1280xbf16> {
  %0 = "chlo.ragged_dot"(%x, %w, %s) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<
    lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
    lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}>
    : (tensor<262144x2560xbf16>, tensor<64x2560x1280xbf16>, tensor<64xi32>)
    -> tensor<262144x1280xbf16>
  return %0 : tensor<262144x1280xbf16>
}
"""


@pytest.mark.parametrize(
    ("program", "node", "seconds", "tolerance"),
    [(FOUR_BITS, "A100_SXM_40GB", 43.3e-6, 0.11), (EXPERTS, "B200_180GB", 93.8e-3, 0.05)],
)
def test_fusion_takes_the_time_of_what_xla_compiles(tmp_path, program, node, seconds, tolerance):
    """The times are those of form xla (jaxlib 0.10.2), which packs weights of four bits otherwise.

    The product of experts took 75 ms when it was measured (marin-community/marin#7012).
    """
    path = tmp_path / "program.mlir"
    path.write_text(program)
    estimate = hespas_api.estimate(str(path), node=node, form="fuse")
    assert estimate.compute_s == pytest.approx(seconds, rel=tolerance)


def test_a_ragged_product_on_a_tpu_has_one_kernel(tmp_path):
    path = tmp_path / "program.mlir"
    path.write_text(EXPERTS)
    estimate = hespas_api.estimate(str(path), node="TPUv5p", form="fuse")
    assert estimate.compute_s < 8e-3


def test_grouped_products_of_pytorch_have_its_kernel_if_fused_and_a_warning_if_dense(tmp_path):
    path, seen = tmp_path / "program.mlir", []
    module = hespas_api.read(EXPERTS)
    write_program_facts(module, {"grouped_products": 1})
    path.write_text(str(module))
    times_s = {}
    for form in ("fuse", "as-is"):
        seen.clear()
        times_s[form] = hespas_api.estimate(
            str(path), node="B200_180GB", form=form, note=seen.append
        ).compute_s
        assert not [text for text in seen if "dense product" in text], form
    assert times_s["fuse"] == times_s["as-is"] < 10e-3
    run_pipeline(module, "fuse")
    path.write_text(str(module))
    hespas_api.estimate(str(path), node="B200_180GB", note=seen.append)
    (warning,) = [text for text in seen if "dense products of 1 grouped products" in text]
    assert 'form="fuse" has such kernels' in warning


def test_fuse_is_a_form():
    assert build_run_plan(RunConfig(mlir="p.mlir", fuse=True)).form.form == "fuse"
    with pytest.raises(UsageError, match="'form' is xla"):
        build_run_plan(RunConfig(mlir="p.mlir", fuse=True, form="xla"))


@pytest.mark.usefixtures("compiler")
def test_the_compiler_gets_the_options_of_a_run():
    options = 'disable="dot-merger,b" triton-gemm=false'
    config = RunConfig(mlir="p.mlir", node="H100_80GB", overlap="none", xla_optimize=options)
    form = choose_program_form(RAW, build_run_plan(config).form)
    (step,) = form.steps
    assert isinstance(step, XlaOptimizePass)
    assert (step.async_collectives, step.stage) == ("remove", "scheduled")
    assert (step.disable, step.triton_gemm) == ("dot-merger,b", False)
    assert "with serial collectives; xla-optimize: disable=" in form.description
    assert form.fallback is None


def test_fused_programs_overlap_as_the_run_asks():
    hidden = "latency-hiding"
    for overlap, expected in ((None, "xla"), ("xla", "xla"), (hidden, hidden), ("none", "none")):
        config = RunConfig(mlir="p.mlir", node="H100_80GB", form="fuse", overlap=overlap)
        (step,) = choose_program_form(RAW, build_run_plan(config).form).steps
        assert isinstance(step, FusePass)
        assert (step.target, step.overlap) == ("H100_80GB", expected)


def choose_fused_form(xla_optimize: str, **values: str) -> tuple[FusePass, ProgramForm]:
    config = RunConfig(mlir="p.mlir", form="fuse", xla_optimize=xla_optimize, **values)
    form = choose_program_form(RAW, build_run_plan(config).form)
    (step,) = form.steps
    assert isinstance(step, FusePass)
    return step, form


def test_fused_programs_follow_flags_about_collectives():
    step, form = choose_fused_form("framework=maxtext")
    assert step.overlap == "latency-hiding"
    limits = (step.combine_all_gather, step.combine_all_reduce, step.combine_reduce_scatter)
    assert limits == (128 << 20, 128 << 20, 64 << 20)
    assert (
        form.description == "fused by hespas; xla-optimize: framework=maxtext" and not form.warning
    )

    flags = "--xla_gpu_all_gather_combine_threshold_bytes="
    step, form = choose_fused_form(f'framework=maxtext flags="{flags}5 {flags}7 --xla_a=b"')
    assert (step.combine_all_gather, step.combine_all_reduce) == (7, 128 << 20)
    assert form.warning == "the form fuse follows flags about collectives, not --xla_a=b"

    serial = "--xla_gpu_disable_async_collectives=ALLCOLLECTIVES"
    for more in ("", " --xla_gpu_enable_latency_hiding_scheduler=true"):
        assert choose_fused_form(f'flags="{serial}{more}"')[0].overlap == "none"
    assert choose_fused_form(f"flags={serial}", overlap="xla")[0].overlap == "none"
    hidden = "latency-hiding"
    assert choose_fused_form(f"flags={serial}", overlap=hidden)[0].overlap == hidden

    some = "--xla_gpu_disable_async_collectives=ALLTOALL,COLLECTIVEPERMUTE"
    step, form = choose_fused_form(f'flags="{some}"')
    assert (step.serial, step.overlap, form.warning) == ("all_to_all,permute", "xla", "")
    step, form = choose_fused_form(f'flags="{some},OTHER"')
    assert step.serial == "" and "OTHER" in form.warning


def test_fused_programs_of_tpus_hide_what_a_flag_makes_asynchronous():
    flag = "--xla_tpu_enable_async_collective_fusion"
    for options, expected in (
        ("preset=maxtext-v5e", "latency-hiding"), (f"flags={flag}=false", "transfers"),
    ):  # fmt: skip
        step, _ = choose_fused_form(options, node="TPUv5e")
        assert step.overlap == expected
    options = f'slices=2,flags="--xla_a=b {flag}=true"'
    assert followed_flags.select_followed_flags(options) == f'flags="{flag}=true"'


def test_fused_programs_refuse_options_of_a_compilation():
    for options in ("stage=hlo", "framework=maxtext disable=a", "preset=unknown", "flags=a"):
        config = RunConfig(mlir="p.mlir", form="fuse", xla_optimize=options)
        with pytest.raises(HespasError):
            build_run_plan(config)


@pytest.mark.parametrize("values", [{"overlap": "none"}, {"overlap": "xla"}, {"xla_optimize": ""}])
def test_options_for_xla_need_a_form_that_compiles(values, monkeypatch):
    monkeypatch.setattr(xla, "find_gpu_library", lambda: None)
    with pytest.raises(UsageError, match="a program that XLA compiles, and 'form' is as-is"):
        build_run_plan(RunConfig(mlir="p.mlir", node="H100_80GB", form="as-is", **values))

    def choose(state: ProgramState, **options: str):
        config = RunConfig(mlir="p.mlir", **{"node": "H100_80GB", **options}, **values)
        return choose_program_form(state, build_run_plan(config).form)

    optimised = ProgramState("optimised by XLA for A100_SXM_40GB", False, False)
    for state, options in (
        (optimised, {}), (optimised, {"form": "xla"}), (RAW, {"estimator": "roofline"}),
        (RAW, {"node": "MI300X"}),
    ):  # fmt: skip
        with pytest.raises(UsageError, match="this one is taken as it is"):
            choose(state, **options)
    # Without its compiler there is an error too, and no second best form.
    assert [step.name for step in choose(RAW).steps] == ["xla-optimize"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"xla_optimize": "dissable=x"}, "did you mean 'disable'"),
        ({"xla_optimize": "target=cpu"}, "that of the node"),
        ({"xla_optimize": "async-collectives=keep", "overlap": "none"}, "is async-collectives="),
        ({"overlap": "none", "split": "individual"}, "'split' is individual"),
    ],
)
def test_wrong_options_for_xla_are_found_before_the_program_is_read(values, words):
    with pytest.raises(UsageError) as raised:
        build_run_plan(RunConfig(mlir="missing.mlir", node="H100_80GB", **values))
    assert words in str(raised.value)


def test_serial_collectives_keep_their_order():
    config = RunConfig(mlir="p.mlir", estimator="roofline", form="xla", overlap="none")
    assert "split-linear" in [step.name for step in build_run_plan(config).steps]


OVERLAPPING = """
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32} {
  func.func @main(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>)
      -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %1 = stablehlo.dot_general %y, %y, contracting_dims = [1] x [0]
      : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    %2 = stablehlo.add %0, %1 : tensor<1024x1024xf32>
    return %2, %1 : tensor<1024x1024xf32>, tensor<1024x1024xf32>
  }
}
"""
CELLS = """workload,devices,node,system,measured_s,uncertainty_s,source
sum,4,H100_80GB,H100_80GB_4GPU,1,0.1,none: this test compares predictions
"""


@NEEDS_PLUGIN
@pytest.mark.slow
def test_one_program_has_one_prediction(tmp_path, monkeypatch, capsys):
    """A run, an estimate in Python and a validation agree to the digit, with each option."""
    monkeypatch.chdir(tmp_path)
    Path("sum.mlir").write_text(OVERLAPPING)
    Path("cells.csv").write_text(CELLS)
    device = {"node": "H100_80GB", "system": "H100_80GB_4GPU"}

    def predict(**options: str) -> dict:
        flags = [word for name, value in options.items()
                 for word in (f"--{name.replace('_', '-')}", value)]  # fmt: skip
        assert run_tool_main(hespas.main, ["run", "--mlir", "sum.mlir", "--node", device["node"],
                             "--system", device["system"], "--json", *flags]) == 0  # fmt: skip
        figures = json.loads(capsys.readouterr().out)
        estimate = hespas_api.estimate("sum.mlir", **device, **options)
        assert estimate.step_time_s == figures["step_time_s"]
        assert run_tool_main(hespas.main, ["validate", "cells.csv", "--programs", ".", "--start",
                             "default", "--no-baselines", "--json", *flags]) == 0  # fmt: skip
        (flow,) = json.loads(capsys.readouterr().out)["flows"].values()
        assert flow["cells"][0]["predicted_s"] == figures["step_time_s"]
        return figures

    default, serial = predict(), predict(overlap="none")
    assert predict(overlap="xla")["step_time_s"] == default["step_time_s"] < serial["step_time_s"]
    assert (default["scheduler"], serial["scheduler"]) == ("latency-hiding", "memory")
    assert default["serial_step_s"] > default["step_time_s"]
    disabled = predict(xla_optimize="disable=latency-hiding-scheduler")
    assert disabled["scheduler"] == "memory"
    off = predict(xla_optimize="flags=--xla_gpu_enable_latency_hiding_scheduler=false")
    if JAXLIB >= (0, 12):  # this XLA heeds the flag
        assert (off["step_time_s"], off["scheduler"]) == (disabled["step_time_s"], "memory")
        return
    assert off["step_time_s"] == default["step_time_s"]
    (warning,) = off["warnings"]
    assert "disable=latency-hiding-scheduler" in warning and "--overlap none" in warning


@NEEDS_PLUGIN
def test_a_run_says_its_form_as_a_sweep_does(tmp_path, monkeypatch, capsys):
    """The compiled program has one kernel, and its result names the form."""
    monkeypatch.chdir(tmp_path)
    Path("p.mlir").write_text(CHAIN)
    argv = ["run", "--mlir", "p.mlir", "--node", "H100_80GB", "--output", "out", "--json"]
    assert run_tool_main(hespas.main, argv) == 0
    figures = json.loads(capsys.readouterr().out)
    compiled = "compiled by XLA for H100_80GB: scheduled, with asynchronous collectives"
    assert (figures["form"], figures["warnings"]) == (compiled, [])
    cells = {"mlir": "p.mlir", "node": "H100_80GB", "form": ["xla", "fuse", "as-is"]}
    rows = hespas_api.sweep(cells, cache="none").rows
    assert [row["form"] for row in rows] == [compiled, "fused by hespas", "as it is"]
    times = [row["compute_s"] for row in rows]
    assert times[0] == figures["compute_s"] and times[2] > max(times[:2])


@NEEDS_PLUGIN
@pytest.mark.skipif(JAXLIB >= (0, 12), reason="this XLA reads StableHLO's asynchronous ops")
def test_a_program_that_xla_refuses_is_fused_with_a_warning(tmp_path, monkeypatch, capsys):
    """XLA's plug-in does not read StableHLO's asynchronous ops; with ``xla``, that is an error."""
    monkeypatch.chdir(tmp_path)
    Path("p.mlir").write_text(REFUSED)
    argv = ["run", "--mlir", "p.mlir", "--node", "H100_80GB", "--output", "out"]
    assert run_tool_main(hespas.main, [*argv, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    warning = next(text for text in figures["warnings"] if "XLA could not optimise" in text)
    assert "hespas fuses the program" in warning
    assert run_tool_main(hespas.main, [*argv, "--form", "fuse", "--json"]) == 0
    fused = json.loads(capsys.readouterr().out)
    assert (fused["form"], fused["compute_s"]) == (figures["form"], figures["compute_s"])
    (row,) = hespas_api.sweep({"mlir": "p.mlir", "node": "H100_80GB"}, cache="none").rows
    assert (row["form"], row["compute_s"]) == (figures["form"], figures["compute_s"])
    assert run_tool_main(hespas.main, [*argv, "--form", "xla"]) == 1
    assert "XLA could not optimise the module for H100_80GB" in capsys.readouterr().err
