"""Warnings about programs, nodes and systems that do not fit each other, in text and in JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import hespas as hespas_api
from hespas import configs
from hespas.dialects.program_facts import (
    list_stale_figures,
    read_program_facts,
    write_program_facts,
)
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows.run_warnings import find_system_vendor

UNFUSED = """
module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %0 = stablehlo.tanh %x : tensor<1024x1024xf32>
    %1 = stablehlo.add %0, %x : tensor<1024x1024xf32>
    return %1 : tensor<1024x1024xf32>
  }
}
"""
SINGLE = UNFUSED.replace("%1 = stablehlo.add %0, %x", "%1 = stablehlo.add %x, %x")
NOT_OPTIMISED = (
    r"XLA has not optimised the program: 100.0 % of its compute time is in ops that XLA would fuse"
    r".*; add --form"
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("step.mlir").write_text(UNFUSED)
    return tmp_path


def collect_warnings(capsys: pytest.CaptureFixture[str], *flags: str) -> list[str]:
    """Run a program, and return the warnings in its JSON, which are those in its text too."""
    argv = ["run", "--mlir", "step.mlir", "--output", "out", "--json", *flags]
    assert run_tool_main(hespas.main, argv) == 0
    out, err = capsys.readouterr()
    warnings = json.loads(out)["warnings"]
    printed = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert printed == [f"warning: {text}" for text in warnings]
    assert json.loads(Path("out/run.json").read_text())["warnings"] == warnings
    return warnings


@pytest.mark.parametrize(("node", "count"), [("H100_80GB", 1), ("TPUv5p", 0)])
def test_attention_that_a_framework_fuses_is_a_warning(place, capsys, node, count):
    module = hespas_api.read("step.mlir")
    write_program_facts(module, {"unfused_attention": 3})
    Path("step.mlir").write_text(str(module))
    warnings = collect_warnings(capsys, "--node", node, "--form", "fuse", "--no-simulate")
    assert sum("3 calls of attention" in text for text in warnings) == count


@pytest.mark.parametrize("form", ["fuse", "as-is"])
def test_a_composite_of_attention_that_is_not_fused_is_a_warning(place, capsys, form):
    """StableHLO composites stand for kernels of a library, of which only the op's body is known."""
    kind = "tensor<1x4x16x8xf32>"
    Path("step.mlir").write_text(f"""
    func.func @main(%q: {kind}) -> {kind} {{
      %0 = stablehlo.composite "odml.scaled_dot_product_attention" %q
        {{decomposition = @attend}} : ({kind}) -> {kind}
      %1 = stablehlo.composite "my.gelu" %0 {{decomposition = @gelu}} : ({kind}) -> {kind}
      return %1 : {kind}
    }}
    func.func private @attend(%q: {kind}) -> {kind} {{
      %0 = stablehlo.exponential %q : {kind}
      return %0 : {kind}
    }}
    func.func private @gelu(%q: {kind}) -> {kind} {{
      %0 = stablehlo.tanh %q : {kind}
      return %0 : {kind}
    }}""")
    warnings = collect_warnings(capsys, "--node", "H100_80GB", "--form", form)
    (text,) = [text for text in warnings if "composite" in text]
    assert "odml.scaled_dot_product_attention" in text and "gelu" not in text


SCALED = """
func.func @main(%a: tensor<1x64x256xf8E4M3FN>, %b: tensor<1x128x256xf8E4M3FN>,
    %c: tensor<1x64x8xf8E8M0FNU>, %d: tensor<1x128x8xf8E8M0FNU>) -> tensor<1x64x128xf32> {
  %0 = stablehlo.custom_call @__op$block_scaled_dot(%a, %b, %c, %d) : (
    tensor<1x64x256xf8E4M3FN>, tensor<1x128x256xf8E4M3FN>, tensor<1x64x8xf8E8M0FNU>,
    tensor<1x128x8xf8E8M0FNU>) -> tensor<1x64x128xf32>
  return %0 : tensor<1x64x128xf32>
}
"""


@pytest.mark.parametrize(("node", "count"), [("H100_80GB", 1), ("B200_180GB", 0)])
def test_products_of_scaled_blocks_on_a_gpu_without_them(place, capsys, node, count):
    """`jax.nn.scaled_matmul`: XLA computes it at the rate of bf16 before Blackwell."""
    Path("step.mlir").write_text(SCALED)
    warnings = collect_warnings(capsys, "--node", node, "--form", "fuse")
    assert sum("a product of scaled blocks" in text for text in warnings) == count


def test_a_program_that_xla_has_not_optimised(place, capsys):
    (warning,) = collect_warnings(capsys, "--node", "H100_80GB", "--form", "as-is")
    assert re.fullmatch(
        NOT_OPTIMISED + " xla, which compiles it for the node, or --form fuse", warning
    )
    (warning,) = collect_warnings(capsys, "--node", "MI300X", "--estimator", "roofline")
    assert re.fullmatch(NOT_OPTIMISED + " fuse", warning)
    assert collect_warnings(capsys, "--node", "H100_80GB", "--fuse") == []
    Path("step.mlir").write_text(SINGLE)
    assert collect_warnings(capsys, "--node", "H100_80GB") == []


REDUCTION = """
func.func @main(%x: tensor<4096x4096xf32>) -> tensor<4096xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
  return %sum : tensor<4096xf32>
}
"""


def test_one_kernel_has_nothing_to_fuse(place, capsys):
    """A reduction reads a constant, which is no kernel; nor is fusing the remedy after fusing."""
    Path("step.mlir").write_text(REDUCTION)
    for form in ("as-is", "fuse"):
        assert collect_warnings(capsys, "--node", "A100_SXM_40GB", "--form", form) == []
    exp = "  %e = stablehlo.exponential %x : tensor<4096x4096xf32>\n  %zero"
    Path("step.mlir").write_text(
        REDUCTION.replace("  %zero", exp, 1).replace("reduce(%x", "reduce(%e")
    )
    (warning,) = collect_warnings(capsys, "--node", "A100_SXM_40GB", "--form", "as-is")
    assert re.fullmatch(NOT_OPTIMISED + " xla, which compiles it for the node, or .*", warning)
    assert collect_warnings(capsys, "--node", "A100_SXM_40GB", "--form", "fuse") == []


def test_the_form_of_the_run_is_no_remedy(place, capsys):
    module = hespas_api.read("step.mlir")
    write_program_facts(module, {"optimised_for": "A100_SXM_40GB"})
    Path("step.mlir").write_text(str(module))
    for flags, ends in (
        (("--node", "H100_80GB", "--fuse"), "and add --form xla, which compiles it for the node"),
        (("--node", "MI300X", "--fuse"), "start from the program before optimisation"),
        (("--node", "MI300X"), "and add --form fuse"),
    ):
        warnings = collect_warnings(capsys, *flags)
        assert any(warning.endswith(ends) for warning in warnings), warnings


def test_sweeps_and_estimates_warn_like_runs(place, capsys):
    flags = {"node": "MI250X", "system": "A100_SXM_40GB_4GPU"}
    warnings = collect_warnings(capsys, *(f"--{name}={value}" for name, value in flags.items()))
    assert len(warnings) == 3
    estimated = hespas_api.estimate("step.mlir", **flags).warnings
    assert any(warning.endswith('; add form="fuse"') for warning in estimated)
    assert [text.replace('form="fuse"', "--form fuse") for text in estimated] == warnings
    systems = ["MI300X_4", flags["system"]]
    outcome = hespas_api.sweep({"mlir": "step.mlir", **flags, "system": systems}, cache="none")
    texts = [str(row["warnings"]) for row in outcome.rows]
    assert all("; add --set form=fuse" in text for text in texts)  # an option of a sweep
    spelled = [json.loads(text.replace("--set form=fuse", "--form fuse")) for text in texts]
    *first, caveat = spelled[0]
    assert [first, spelled[1]] == [warnings[:2], warnings]
    assert caveat.startswith("system MI300X_4: 128 GB/s of each link is kept as published")


def test_a_program_optimised_for_another_gpu(place, capsys):
    module = hespas_api.read("step.mlir")
    write_program_facts(module, {"optimised_for": "A100_SXM_40GB"})
    Path("step.mlir").write_text(str(module))
    assert collect_warnings(capsys, "--node", "A100_SXM_40GB") == []
    (warning,) = collect_warnings(capsys, "--node", "H100_80GB")
    assert warning.startswith(
        "XLA has optimised the program for A100_SXM_40GB, and the node is H100_80GB: "
    )
    assert warning.endswith("add --form xla, which compiles it for the node, or --form fuse")


def test_optimisation_records_its_target_beside_the_facts_of_the_exporter(place, capsys):
    module = hespas_api.read("step.mlir")
    write_program_facts(module, {"parameters": 7})
    Path("step.mlir").write_text(str(module))
    argv = ["optimize", "step.mlir", "--target", "cpu", "-o", "optimised.mlir"]
    assert run_tool_main(hespas.main, argv) == 0
    optimised = hespas_api.read("optimised.mlir")
    facts = read_program_facts(optimised)
    assert facts.pop("step_program")
    assert facts == {"parameters": 7, "optimised_for": "cpu"}
    assert not list_stale_figures(optimised)


def test_a_node_whose_constants_are_all_anothers(place, capsys):
    Path("step.mlir").write_text(SINGLE)
    (warning,) = collect_warnings(capsys, "--node", "A40_48GB")
    assert warning == (
        "no kernel of A40_48GB has been measured: all efficiencies of its kernels are those of "
        "A100_SXM_80GB"
    )
    (warning,) = collect_warnings(capsys, "--node", "Gaudi3")
    assert warning == (
        "no kernel of Gaudi3 has been measured: their times are those of the roofline, a lower "
        "bound from the rates of the data sheet"
    )
    assert collect_warnings(capsys, "--node", "Gaudi3", "--estimator", "roofline") == []
    for node in ("A100_SXM_40GB", "H100_80GB", "B200_180GB"):
        assert collect_warnings(capsys, "--node", node) == []


def test_a_system_of_another_vendor(place, capsys):
    Path("step.mlir").write_text(SINGLE)
    flags = ("--node", "H100_80GB", "--system")
    (warning,) = collect_warnings(capsys, *flags, "MI300X_4")
    assert warning.startswith(
        "the node H100_80GB is of NVIDIA, and system MI300X_4 connects devices of AMD: "
    )
    assert collect_warnings(capsys, *flags, "A100_SXM_40GB_4GPU") == []
    assert run_tool_main(hespas.main, ["presets", "systems", "MI300X_4", "--output", "mine"]) == 0
    capsys.readouterr()
    (warning,) = collect_warnings(capsys, *flags, "mine")
    assert "system mine connects devices of AMD" in warning


WIDENED = """
func.func @main(%x: tensor<64x64xf8E4M3FN>, %w: tensor<64x64xf8E4M3FN>, %s: tensor<bf16>) -> tensor<64x64xbf16> {
  %scale = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<bf16>) -> tensor<64x64xbf16>
  %0 = "mhlo.fusion"(%x, %scale) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<64x64xf8E4M3FN>, %b: tensor<64x64xbf16>):
    %1 = stablehlo.convert %a : (tensor<64x64xf8E4M3FN>) -> tensor<64x64xbf16>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<64x64xbf16>) -> tensor<64x64xbf16>
    mhlo.return %2 : tensor<64x64xbf16>
  }) : (tensor<64x64xf8E4M3FN>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  %3 = "mhlo.fusion"(%0, %w, %scale) <{fusion_kind = #mhlo<fusion_kind kCustom>}> ({
  ^bb0(%a: tensor<64x64xbf16>, %b: tensor<64x64xf8E4M3FN>, %c: tensor<64x64xbf16>):
    %4 = stablehlo.convert %b : (tensor<64x64xf8E4M3FN>) -> tensor<64x64xbf16>
    %5 = stablehlo.multiply SCALED : tensor<64x64xbf16>
    %6 = stablehlo.dot_general %a, %5, contracting_dims = [1] x [0] : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    mhlo.return %6 : tensor<64x64xbf16>
  }) : (tensor<64x64xbf16>, tensor<64x64xf8E4M3FN>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
  return %3 : tensor<64x64xbf16>
}
"""  # noqa: E501


def test_products_of_8_bit_floats_at_the_rate_of_a_wider_type(place, capsys):
    """cuBLAS multiplies them if the scale is one number; %c of a fusion is not known as one."""
    for scaled, node, is_warned in (
        ("%4, %4", "H100_80GB", False),
        ("%4, %c", "H100_80GB", False),
        ("%4, %one", "H100_80GB", True),
        ("%one, %4", "H100_80GB", True),
        ("%4, %one", "A100_SXM_40GB", False),
    ):
        text = WIDENED.replace("SCALED", scaled)
        if "%one" in scaled:
            line = "%n = stablehlo.constant dense<1.0> : tensor<bf16>\n"
            line += "%one = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<bf16>)"
            text = text.replace("    %5 =", f"{line} -> tensor<64x64xbf16>\n    %5 =")
        Path("step.mlir").write_text(text)
        warnings = collect_warnings(capsys, "--node", node)
        assert any("a product of 8-bit floats" in text for text in warnings) == is_warned


def test_what_is_said_against_the_numbers_of_a_system(place, capsys):
    Path("step.mlir").write_text(SINGLE)
    argv = ["presets", "systems", "MI300X_4", "--output", "mine"]
    assert run_tool_main(hespas.main, argv) == 0
    capsys.readouterr()
    for system in ("MI300X_4", "mine"):
        warnings = collect_warnings(capsys, "--node", "MI300X", "--system", system)
        assert warnings[-1].startswith(f"system {system}: 128 GB/s of each link is kept")


def test_the_vendor_of_each_system_preset_is_known():
    vendors = {
        name: find_system_vendor(configs.load_system(name))
        for name in configs.list_system_presets()
    }
    assert set(vendors.values()) == {"NVIDIA", "AMD", "Google"}
    assert vendors["QuadAMDIP"] == "AMD" and vendors["DGX_B200_SuperPOD_4"] == "NVIDIA"


def add_facts(**facts: str) -> None:
    module = hespas_api.read("step.mlir")
    write_program_facts(module, {**read_program_facts(module), **facts})
    Path("step.mlir").write_text(str(module))


@pytest.mark.parametrize(
    ("platform", "node", "own"),
    [("cpu", "TPUv5p", "tpu"), ("cpu", "H100_80GB", "cuda"), ("tpu", "H100_80GB", "cuda"),
     ("tpu", "TPUv5p", ""), ("cuda", "H100_80GB", "")],
)  # fmt: skip
def test_a_program_that_was_lowered_for_another_platform(place, capsys, platform, node, own):
    add_facts(lowered_for=platform, platform_ops="ragged_dot_general")
    warnings = [
        text
        for text in collect_warnings(capsys, "--node", node, "--form", "as-is")
        if "lowered" in text
    ]
    expected = (
        f"the program was lowered for {platform}, and the node is {node}: JAX lowers "
        f"ragged_dot_general otherwise for {own}; lower it for the node, with hespas export "
        f"--platform {own}, or pass the function itself to hespas.estimate"
    )
    assert warnings == ([expected] if own else [])


def test_other_programs_are_the_same_on_all_platforms(place, capsys):
    add_facts(lowered_for="cpu")
    flags = ("--node", "H100_80GB", "--form", "as-is")
    assert not [text for text in collect_warnings(capsys, *flags) if "lowered" in text]


@pytest.mark.parametrize(
    ("compiler", "node", "device"),
    [("XLA:CPU", "H100_80GB", "CPUs"), ("XLA:GPU", "TPUv5p", "GPUs"), ("XLA:TPU", "TPUv5p", ""),
     ("XLA:GPU", "H100_80GB", ""), ("XLA", "H100_80GB", "")],
)  # fmt: skip
def test_a_program_that_xla_has_scheduled_for_another_device(place, capsys, compiler, node, device):
    add_facts(scheduled_by=compiler)
    warnings = collect_warnings(capsys, "--node", node)
    assert not [text for text in warnings if "has not optimised" in text]
    words = f"XLA has optimised the program for {device}, and the node is {node}: its kernels"
    assert [text.startswith(words) for text in warnings if "the node is" in text] == (
        [True] if device else []
    )


def test_a_node_whose_program_is_compiled_for_the_nearest_target(place, capsys):
    add_facts(optimised_for="H200_141GB")
    data = {**configs.read_node_json("H200_141GB"), "name": "mine"}
    Path("mine.json").write_text(json.dumps(data))
    warnings = " ".join(collect_warnings(capsys, "--node", "mine.json"))
    assert "XLA has no target for mine, and compiled the program for the nearest one" in warnings


def test_a_ragged_product_that_xla_has_not_seen(place, capsys):
    Path("step.mlir").write_text(
        """
        func.func @main(%x: tensor<64x64xf32>, %w: tensor<4x64x64xf32>, %n: tensor<4xi32>)
            -> tensor<64x64xf32> {
          %0 = "chlo.ragged_dot"(%x, %w, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<
              lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
              lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}>
            : (tensor<64x64xf32>, tensor<4x64x64xf32>, tensor<4xi32>) -> tensor<64x64xf32>
          return %0 : tensor<64x64xf32>
        }"""
    )
    warnings = collect_warnings(capsys, "--node", "B200_180GB", "--form", "as-is")
    assert warnings[0].startswith("1 x ragged_dot is estimated as a product of its groups")
    # Fusion makes of it what XLA makes.
    assert collect_warnings(capsys, "--node", "B200_180GB", "--form", "fuse") == []
    assert collect_warnings(capsys, "--node", "TPUv5p", "--form", "fuse") == []
