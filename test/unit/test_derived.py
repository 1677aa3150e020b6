"""Figures of a step: utilisation, rates, energy, cost, scaling; and memory in a run's summary."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hespas import passes
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.program_facts import (
    read_current_facts,
    read_program_facts,
    write_program_facts,
)
from hespas.support.errors import HespasError
from hespas.tools import hespas
from hespas.workflows import api, step_facts
from hespas.workflows.figures import compute_figures
from hespas.workflows.run_summary import to_summary_json
from hespas.workflows.step_facts import (
    StepFacts,
    StepWork,
    compute_scaling_efficiency,
    list_figure_warnings,
)

NODE = NodeSpec(
    "n", 1e12, {"matrix": {"bf16": 1e12, "f32": 1e11}, "vector": {"f32": 1e10}}, tdp_w=100
)
STATS = {
    "program": {"devices": 4},
    "totals": {"time_ns": 5e8, "energy_nj": None, "comm_ops": 3},
    "dtypes": {
        "bf16": {"executed_flops": 500_000_000_000},
        "f32": {"executed_flops": 100_000_000_000},
        "i32": {"executed_flops": 0},
        "none": {"executed_flops": 0},
    },
}
WORK = StepWork(1.2e12, 2000, None, 3.6)


def make_facts(stats, step_s, node, work):
    """The facts of a step of so many seconds; None if it was not simulated."""
    return StepFacts(stats=stats, node=node, work=work, simulated={"step_time_s": step_s})


def derive(stats, step_s, node, work):
    """The derived figures of a step by name, and the model of its energy."""
    facts = make_facts(stats, step_s, node, work)
    figures = compute_figures(facts, "derived.")["derived"]
    more = {"energy_model": facts.energy.energy_model, "peak_dtype": facts.peak_dtype}
    return SimpleNamespace(**figures, **more)


def test_model_and_hardware_utilisation_are_told_apart():
    figures = derive(STATS, 1.0, NODE, WORK)
    assert (figures.peak_dtype, figures.peak_flops_per_s) == ("bf16", 1e12)
    assert figures.executed_flops == 4 * 600_000_000_000  # no integers
    assert figures.mfu == pytest.approx(1.2e12 / 4e12)
    assert figures.hfu == pytest.approx(2.4e12 / 4e12)
    assert derive(STATS, 1.0, NODE, StepWork()).mfu is None
    assert derive(STATS, 1.0, NODE, StepWork()).hfu == figures.hfu


def test_faster_types_count_at_their_own_rate():
    """A step at the peak rates of its types has an HFU of 1, whichever type prevails."""
    node = replace(NODE, peaks_flops={"matrix": {"bf16": 1e12, "f8": 2e12, "f32": 1e11}})
    for bf16, f8 in ((6e11, 4e11), (5e11, 5.1e11), (1e12, 1e6)):
        stats = {
            **STATS,
            "dtypes": {"bf16": {"executed_flops": int(bf16)}, "f8": {"executed_flops": int(f8)}},
        }
        least_s = bf16 / 1e12 + f8 / 2e12
        figures = derive(stats, least_s, node, StepWork())
        assert figures.hfu is not None and figures.hfu <= 1 + 1e-9
        if figures.peak_dtype == "bf16":
            assert figures.hfu == pytest.approx(1)


def test_contradictions_are_warnings():
    assert list_figure_warnings(make_facts(STATS, 0.6, NODE, WORK)) == []
    (warning,) = list_figure_warnings(make_facts(STATS, 0.5, NODE, WORK))
    assert "an HFU of 120.0 % is impossible" in warning and "node n" in warning
    causal = replace(WORK, model_flops=2.5e12)
    (warning,) = list_figure_warnings(make_facts(STATS, 1.0, NODE, causal))
    assert "executes 2.400 TFLOP, fewer than the 2.500 TFLOP" in warning and "masked" in warning


def test_rates_and_cost():
    figures = derive(STATS, 0.5, NODE, WORK)
    assert figures.tokens_per_s == 4000
    assert figures.samples_per_s is None
    assert figures.cost_usd == pytest.approx(4 * 0.5 * 3.6 / 3600)


def test_nothing_is_made_up():
    figures = derive(STATS, None, NODE, WORK)  # communicates, and was not simulated
    names = ("mfu", "hfu", "tokens_per_s", "samples_per_s", "energy_j", "cost_usd")
    assert not any(getattr(figures, name) for name in names)
    assert derive(STATS, 1.0, None, StepWork(1e12)).mfu is None
    assert derive(STATS, 1.0, replace(NODE, tdp_w=None), WORK).energy_j is None


def test_a_program_without_communication_needs_no_simulation():
    alone = {**STATS, "totals": {**STATS["totals"], "comm_ops": 0}}
    assert derive(alone, None, NODE, WORK).tokens_per_s == 4000


def test_energy_says_what_it_is_made_from():
    most = derive(STATS, 1.0, NODE, WORK)
    assert (most.energy_j, most.energy_model) == (400, step_facts.AT_MOST)
    long = derive(STATS, 2.0, NODE, WORK)
    assert (long.average_power_w, long.energy_delay_js) == (100, 2 * 800)
    idle = derive(STATS, 1.0, replace(NODE, idle_w=20), WORK)
    assert (idle.energy_j, idle.energy_model) == (4 * (50 + 10), step_facts.LIMITS)
    totals = {**STATS["totals"], "energy_nj": 30e9}
    model = derive({**STATS, "totals": totals}, 1.0, replace(NODE, idle_w=20), WORK)
    assert (model.energy_j, model.energy_model) == (4 * (30 + 10), step_facts.ANNOTATED)
    assert derive({**STATS, "totals": totals}, 1.0, NODE, WORK).energy_model == step_facts.AT_MOST


def test_what_is_given_goes_before_what_is_known():
    known = {"flops_per_step": 5, "images_per_step": 7, "parameters": 1}
    node = replace(NODE, price_per_hour=2.0)
    assert StepWork.from_facts(known, node, {}) == StepWork(5, None, 7, 2.0)
    assert StepWork.from_facts(
        known, node, {"model_flops": 6.0, "price_per_hour": 1.0}
    ) == StepWork(6, None, 7, 1)


def test_scaling_efficiency():
    assert compute_scaling_efficiency([1, 2, 4], [8, 4, 4]) == [1, 1, 0.5]
    assert compute_scaling_efficiency([1, 2], [8, 8], [1, 2]) == [1, 1]
    for wrong in (([1], [8, 4]), ([1, 2], [8, 0])):
        with pytest.raises(HespasError, match="scaling efficiency"):
            compute_scaling_efficiency(*wrong)


def test_facts_stay_on_the_module(parse):
    known = {"parameters": 8_030_261_248, "rate": 1.5, "name": "llama"}
    module = parse("module {}")
    assert read_program_facts(module) == {}
    write_program_facts(module, known)
    assert read_program_facts(parse(str(module))) == known
    with pytest.raises(HespasError, match="must be a number"):
        read_program_facts(parse("module attributes {hespas.facts = {parameters = [1]}} {}"))
    text = "module attributes {hespas.facts = {tokens_per_step = 0x7FF0000000000000 : f64}} {}"
    with pytest.raises(HespasError, match="tokens_per_step is inf"):
        read_program_facts(parse(text))


PROGRAM = """
module attributes {hespas.facts = {flops_per_step = 65536 : i64, tokens_per_step = 32 : i64}} {
  func.func public @main(%x: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<32x32xbf16>, tensor<32x32xbf16>) -> tensor<32x32xbf16>
    return %0 : tensor<32x32xbf16>
  }
}
"""


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """``hespas run`` of PROGRAM on a node with so much memory: what it prints."""

    def go(memory_bytes: int, *flags: str, vendor: str = "") -> tuple[int, str, str]:
        node = {
            "name": "small",
            "peaks_flops": {"matrix": {"bf16": 1e9}},
            "memory_bandwidth_bytes_per_s": 1e9,
            "memory_bytes": memory_bytes,
            "price_per_hour": 3.6,
            **({"vendor": vendor} if vendor else {}),
        }
        (tmp_path / "small.json").write_text(json.dumps(node))
        (tmp_path / "p.mlir").write_text(PROGRAM)
        monkeypatch.chdir(tmp_path)
        code = hespas.main(
            ["run", "--mlir", "p.mlir", "--node", "small.json", "--output", "out", *flags]
        )
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return go


DIVIDED = """
module attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(%x: tensor<32x32xbf16> {mhlo.sharding = "{devices=[4,1]<=[4]}"})
      -> tensor<32x32xbf16> {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<32x32xbf16>, tensor<32x32xbf16>) -> tensor<32x32xbf16>
    return %0 : tensor<32x32xbf16>
  }
}
"""


SYSTEM = "torus:{},links=2,link_gb_s=50,latency_ns=500,local_mem_gb_s=3350"
EDITS = {
    4: {"32x": "64x"},
    8: {"num_partitions = 4": "num_partitions = 8", "[4,1]<=[4]": "[8,1]<=[8]"},
}


@pytest.mark.parametrize("devices", EDITS)
def test_figures_of_a_step_are_those_of_their_program(parse, tmp_path, capsys, devices):
    module = parse(DIVIDED)
    write_program_facts(module, {"tokens_per_step": 32, "flops_per_step": 65536, "author": "us"})
    known = read_program_facts(module)
    path = tmp_path / "edited.mlir"
    text = str(module)
    for before, after in EDITS[devices].items():
        text = text.replace(before, after)
    path.write_text(text)
    passes.run_pipeline(module, "prepare")
    assert read_current_facts(module).keys() == known.keys()  # of the divided program now
    assert read_current_facts(module) != known
    command = ["run", "--mlir", str(path), "--node", "A100_SXM_40GB"]
    command += ["--system", SYSTEM.format(devices)]
    command += ["--output", str(tmp_path / "out"), "--json"]
    assert hespas.main(command) == 0
    out, err = capsys.readouterr()
    assert "flops_per_step, tokens_per_step count for nothing" in err
    assert json.loads(out)["derived"]["tokens_per_s"] is None
    assert hespas.main([*command, "--tokens-per-step=64", "--model-flops=5e5"]) == 0
    assert "count for nothing" not in capsys.readouterr().err


QUANTISED_LAYER = """
module attributes {hespas.facts = {flops_per_step = 17179869184 : i64}} {
  func.func public @main(%x: tensor<2048x2048xi8>, %w: tensor<2048x2048xi8>,
                         %s: tensor<2048x2048xf32>) -> tensor<2048x2048xi8> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<2048x2048xi8>, tensor<2048x2048xi8>) -> tensor<2048x2048xi32>
    %1 = stablehlo.convert %0 : (tensor<2048x2048xi32>) -> tensor<2048x2048xf32>
    %2 = stablehlo.divide %1, %s : tensor<2048x2048xf32>
    %3 = stablehlo.maximum %2, %s : tensor<2048x2048xf32>
    %4 = stablehlo.convert %3 : (tensor<2048x2048xf32>) -> tensor<2048x2048xi8>
    return %4 : tensor<2048x2048xi8>
  }
}
"""


def estimate_figures(text, node, tmp_path, **settings):
    """Run a program on a node; return what it derives, and its warnings."""
    path = tmp_path / "quantised.mlir"
    path.write_text(text)
    summary = api.run(mlir=str(path), node=node, output=str(tmp_path / "out"), **settings)
    return to_summary_json(summary)["derived"], summary.warnings


@pytest.mark.parametrize("form", ["as-is", "fuse"])
def test_products_of_integers_are_executed_operations(form, tmp_path):
    """Of a layer in 8 bits the product counts, at the peak rate of its type: 17.2 GOP."""
    figures, warnings = estimate_figures(QUANTISED_LAYER, "A100_SXM_40GB", tmp_path, form=form)
    assert figures["peak_dtype"] == "i8" and figures["peak_flops_per_s"] == 624e12
    assert figures["executed_flops"] == pytest.approx(17.18e9, rel=5e-3)
    assert 0.1 < figures["mfu"] < 0.7 and figures["hfu"] == pytest.approx(figures["mfu"], rel=5e-3)
    assert not [text for text in warnings if "MFU" in text]


@pytest.mark.parametrize(
    ("dtype", "node"),
    [("i4", "A100_SXM_40GB"), ("i32", "A100_SXM_40GB"), ("ui8", "H100_80GB"), ("i8", "TPUv5e"),
     ("f8E4M3FN", "H100_80GB"), ("f8E4M3FN", "A100_SXM_40GB"), ("f4E2M1FN", "B200_180GB")],
)  # fmt: skip
def test_products_of_every_type_are_executed_operations(dtype, node, tmp_path):
    operands = f"tensor<512x512x{dtype}>"
    text = f"""module attributes {{hespas.facts = {{flops_per_step = 268435456 : i64}}}} {{
      func.func public @main(%x: {operands}, %y: {operands}) -> tensor<512x512xi32> {{
        %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
          : ({operands}, {operands}) -> tensor<512x512xRESULT>
        %1 = stablehlo.convert %0 : (tensor<512x512xRESULT>) -> tensor<512x512xi32>
        return %1 : tensor<512x512xi32> }} }}"""
    text = text.replace("RESULT", "i32" if "i" in dtype else "f32")
    figures, _ = estimate_figures(text, node, tmp_path, form="as-is")
    assert figures["executed_flops"] == pytest.approx(268435456, rel=2e-3)
    assert figures["hfu"] == pytest.approx(figures["mfu"], rel=2e-3)


def test_integers_of_indices_and_random_numbers_are_not_executed(tmp_path):
    text = """func.func public @main(%i: tensor<4096xi32>) -> tensor<4096xi32> {
      %0 = stablehlo.multiply %i, %i : tensor<4096xi32>
      return %0 : tensor<4096xi32> }"""
    figures, _ = estimate_figures(text, "H100_80GB", tmp_path, form="as-is")
    assert figures["executed_flops"] == 0 and figures["hfu"] is None


def test_a_program_that_does_not_fit_is_said_first(run):
    code, out, err = run(4000)
    assert code == 0
    assert err.startswith("warning: the program does not fit: it takes 4.096 kB")
    assert out.startswith(
        "Memory, one device\n  peak           4.096 kB of 4.000 kB: DOES NOT FIT, 96 B"
    )


@pytest.mark.parametrize(
    ("node_bytes", "vendor", "is_said"),
    [(5000, "NVIDIA", True), (6000, "NVIDIA", False), (5000, "Google", False)],
)
def test_a_program_that_needs_more_than_jax_reserves_fits_the_device(
    run, node_bytes, vendor, is_said
):
    """JAX reserves 75 % of the memory of a GPU by default; 4,096 bytes are 82 % or 68 %."""
    _, out, _ = run(node_bytes, vendor=vendor)
    assert ("XLA_PYTHON_CLIENT_MEM_FRACTION" in out) == is_said and ": fits" in out


def test_json_has_memory_and_figures(run, tmp_path):
    code, out, err = run(8000, "--json", "--tokens-per-step", "64")
    data = json.loads(out)
    assert code == 0 and "does not fit" not in err
    memory, figures = data["memory"], data["derived"]
    assert (memory["fits"], memory["node_bytes"], memory["peak_bytes"]) == (True, 8000, 4096)
    assert memory["timeline"] == "memory_timeline.json"
    assert "timeline_points" not in memory and "timeline_bytes" not in memory
    timeline = json.loads((tmp_path / "out" / memory["timeline"]).read_text())
    assert timeline == {"points": [0, 1], "live_bytes": [4096, 4096]}
    assert figures["mfu"] == figures["hfu"] == pytest.approx(65536 / 1e9 / data["compute_s"])
    assert figures["tokens_per_s"] == pytest.approx(64 / data["compute_s"])
    assert figures["cost_usd"] == pytest.approx(data["compute_s"] / 1000)


def test_more_operations_than_are_executed_are_a_warning(run):
    code, out, err = run(8000, "--json", "--model-flops", "70000")
    assert code == 0 and "\nwarning: the program executes 65.536 kFLOP" in err
    assert [text.partition(",")[0] for text in json.loads(out)["warnings"]] == [
        "no kernel of small has been measured: their times are those of the roofline",
        "the program executes 65.536 kFLOP",
    ]


def test_memory_can_be_left_out(run, tmp_path):
    run(4000)
    timeline = tmp_path / "out/memory_timeline.json"
    assert timeline.exists()
    _, out, _ = run(4000, "--json", "--no-memory")
    assert json.loads(out)["memory"] is None
    assert not timeline.exists()  # that of the earlier run
