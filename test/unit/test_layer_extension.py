"""Programs with many equal layers, extended from two programs with few."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hespas.passes.compile.compiler_process import describe_exceeded_limit
from hespas.support.errors import HespasError
from hespas.workflows.studies import study_programs
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.studies.study_programs import ProgramFiles, StudyProgram
from hespas.workflows.sweep import sweep_runner
from hespas.workflows.validation import case_runner
from hespas.workflows.validation.case_kernels import divide_logits
from hespas.workflows.validation.case_layers import (
    LayerCounts,
    choose_layer_counts,
    extend_row,
    plan_oversized_extension,
    plan_unrolled_extension,
    replace_layers,
)
from hespas.workflows.validation.case_report import build_case_row
from hespas.workflows.validation.training_cases import CaseOptions, TrainingCase

TOO_LARGE = "XLA could not optimise the module: it needs 31.98G of 31.25G in memory hbm"


def make_workload(recipe="llama", **options):
    return StudyWorkload(recipe, {"model": "8b", "scan": "false", **options}, {"fsdp": 8}, {})


def make_program(**options):
    return StudyProgram(make_workload(**options), "scheduled", "H100_80GB", 8)


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({}, (2, 4, 32)),
        ({"layers": "9"}, (2, 4, 9)),
        ({"layers": "5"}, (2, 4, 5)),
        ({"layers": "4"}, None),
        ({"scan": "true"}, (4, 8, 32)),
        ({"scan": "true", "layers": "9"}, (2, 4, 9)),
        ({"remat": "full@1/3+none", "layers": "40"}, (7, 13, 40)),  # whole groups of three, and one
        ({"model": "gemma3-12b"}, (12, 24, 48)),  # six layers of a pattern
        ({"model": "gemma3-4b"}, (16, 28, 34)),
        ({"model": "gemma3-4b", "layers": "28"}, None),
        ({"model": "gemma3-27b", "scan": "true"}, (14, 26, 62)),
        ({"model": "deepseek-v3", "scan": "true"}, (10, 17, 61)),  # three dense layers
        ({"model": "deepseek-v3", "dense_layers": "1", "layers": "5"}, None),
        ({"model": "no such model"}, None),
    ],
)
def test_smaller_programs_have_the_ends_and_patterns_of_the_whole(options, counts):
    expected = counts and LayerCounts(*counts)
    assert choose_layer_counts(make_workload(**options)) == expected


@given(
    st.integers(0, 10**12), st.integers(0, 10**12), st.integers(1, 9), st.integers(1, 9),
    st.integers(1, 99),
)  # fmt: skip
def test_what_is_linear_in_the_layers_is_extended_exactly(first, each, short, step, steps):
    """The counts differ by whole periods, as those that are chosen do."""
    counts = LayerCounts(short, short + step, short + step + steps * step)
    figures = [first + each * layers for layers in (counts.short, counts.long, counts.full)]
    assert counts.extend_figure(*figures[:2]) == figures[2]


def make_row(layers, **further):
    return {
        "error": None, "step_time_s": 1.0 + layers, "compute_s": 0.5 + layers, "flops": 7 * layers,
        "exposed_comm_s": 0.5, "memory.peak_bytes": 10 * layers, "memory.node_bytes": 100,
        "derived.model_flops": 8.0 * layers, "derived.mfu": 8.0 * layers / (1.0 + layers) / 50,
        "node": "H100_80GB", "cell.mlir": str(layers),
        "warnings": json.dumps(["odd"]), "flops_utilisation": 0.3 + layers, **further,
    }  # fmt: skip


def test_rows_are_extended_to_the_row_of_the_whole_program():
    counts = LayerCounts(2, 4, 12)
    row = extend_row(make_row(2), make_row(4), counts)
    whole = make_row(12)
    for name in set(whole) - {"cell.mlir", "flops_utilisation", "warnings", "memory.fits"}:
        assert row[name] == pytest.approx(whole[name]), name
    assert "cell.mlir" not in row and "flops_utilisation" not in row
    assert "memory.fits" not in row
    assert json.loads(row["warnings"]) == ["with 4 layers: odd"]


def test_what_only_the_ends_have_is_never_negative():
    short = make_row(2, **{"compute_s_by.class.loop": 0.1})
    row = extend_row(short, make_row(4), LayerCounts(2, 4, 12))
    assert row["compute_s_by.class.loop"] == 0


def test_rows_that_cannot_be_extended():
    counts = LayerCounts(2, 4, 12)
    failed = {"error": "error: it broke"}
    assert extend_row(make_row(2), failed, counts) == failed
    with pytest.raises(HespasError, match="computes no longer"):
        extend_row(make_row(4), make_row(4), counts)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (TOO_LARGE, "XLA finds this program too large: 31.98 GiB of 31.25 GiB"),
        ("XLA could not optimise it: it did not finish in 1800 s",
         "XLA did not compile this program in 1800 s"),
        ("it needs 3.00M of 2.00M in memory vmem", ""),
        ("XLA could not optimise it: Check failed", ""),
    ],
)  # fmt: skip
def test_limits_of_the_compiler_are_told_from_other_failures(message, expected):
    assert describe_exceeded_limit(message) == expected


def test_programs_that_are_extended():
    assert plan_unrolled_extension(make_program(eager="true")) is not None
    assert plan_unrolled_extension(make_program(eager="true", scan="true")) is None
    assert plan_unrolled_extension(make_program()) is None
    assert plan_unrolled_extension(make_program(eager="true", layers="6")) is None  # as many
    assert plan_oversized_extension(make_program(), "Check failed") is None
    assert plan_oversized_extension(make_program(layers="4"), TOO_LARGE) is None
    extension = plan_oversized_extension(make_program(), TOO_LARGE)
    assert [p.workload.options["layers"] for p in extension.programs] == ["2", "4"]
    assert "extended to 32 layers" in extension.describe()


def predict_case(monkeypatch, tmp_path, errors, sequence="2048"):
    """Predict an 8B model whose compiler fails where ``PARTS LAYERS`` ends with a key of errors."""

    def make_program_files(programs, options, note):
        chosen = [p.workload.options for p in programs]
        parts = [f"{o.get('vocab_tiles', 1)} {o.get('layers', 32)}" for o in chosen]
        paths = [str(options.program_folder / f"in {part}") for part in parts]
        failed = {
            p: HespasError(text) for p in paths for n, text in errors.items() if p.endswith(n)
        }
        return ProgramFiles(paths, 0, failed, {path: 1.0 for path in paths if path not in failed})

    def run_sweep(cells, options, note):
        rows = [make_row(int(cell["mlir"].rpartition(" ")[2])) for cell in cells]
        return sweep_runner.SweepOutcome(rows, computed=len(rows))

    monkeypatch.setattr(study_programs, "make_program_files", make_program_files)
    monkeypatch.setattr(sweep_runner, "run_sweep", run_sweep)
    texts = {
        "model": "llama3-8b", "hardware": "H100_80GB_SXM", "framework": "MaxText",
        "seq_len": sequence,
    }  # fmt: skip
    case = TrainingCase("a", 8, 30.0, texts, 2)
    options = CaseOptions(work_dir=str(tmp_path), cache="none")
    return case_runner.predict_cases([case], options, print)[0]


def test_a_program_that_is_too_large_is_predicted_and_flagged(monkeypatch, tmp_path, capsys):
    outcome = predict_case(monkeypatch, tmp_path, {"32": TOO_LARGE})
    row = build_case_row(outcome)
    assert row["predicted_s"] == pytest.approx(33.0) and row["reason"] is None
    assert row["fits"] is False and row["extended_from_layers"] == "4 8"
    assert row["exceeded_limit"] == "XLA finds this program too large: 31.98 GiB of 31.25 GiB"
    assert row["exceeded_limit"] in row["assumptions"]
    assert "1 of 1 rows predicted (1 from programs with fewer layers)" in capsys.readouterr().out


def test_a_program_that_fails_with_few_layers_too_has_both_reasons(monkeypatch, tmp_path):
    outcome = predict_case(monkeypatch, tmp_path, {"32": TOO_LARGE, " 8": "it broke"})
    assert outcome.prediction is None
    assert outcome.reasons["compile"].endswith("too large: 31.98 GiB of 31.25 GiB; it broke")


def test_replacing_layers_keeps_the_other_options():
    workload = replace_layers(make_workload(layers="32"), 4)
    assert workload.options == {"model": "8b", "scan": "false", "layers": "4"}


def test_a_program_with_large_logits_is_compiled_with_parts_of_them(monkeypatch, tmp_path):
    outcome = predict_case(monkeypatch, tmp_path, {"in 1 32": TOO_LARGE}, sequence="32768")
    row = build_case_row(outcome)
    assert row["predicted_s"] == pytest.approx(33.0) and row["extended_from_layers"] is None
    assert (
        "logits in 16 parts, because with all at once XLA finds this program too large: "
        "31.98 GiB of 31.25 GiB" in row["assumptions"]
    )


def test_a_program_that_is_too_large_with_parts_too_has_fewer_layers(monkeypatch, tmp_path):
    outcome = predict_case(monkeypatch, tmp_path, {" 32": TOO_LARGE}, sequence="32768")
    assert outcome.extension.counts == LayerCounts(4, 8, 32)
    assert [cell.path for cell in outcome.cells] == [
        str(tmp_path / f"in 16 {layers}") for layers in (4, 8)
    ]
    assert "logits in 16 parts" in "; ".join(outcome.assumptions)


@pytest.mark.parametrize(
    ("recipe", "options", "mesh", "texts", "parts"),
    [
        ("gemma", {}, {"fsdp": 8}, {}, "16"),  # 16 GiB
        ("gemma", {"logits_dtype": "f32"}, {"fsdp": 8}, {}, "32"),
        ("gemma", {"batch": "3"}, {"fsdp": 8}, {}, "64"),  # 48 GiB
        ("gemma", {}, {"fsdp": 8, "tensor": 8, "context": 2}, {}, None),
        ("gemma", {}, {"fsdp": 8}, {"framework": "AXLearn"}, None),
        ("gemma", {"vocab_tiles": "1"}, {"fsdp": 8}, {}, None),
        ("gemma", {"partitioning": "auto"}, {"fsdp": 8}, {}, None),
        ("gemma", {"sequence": "32766"}, {"fsdp": 8}, {}, "2"),  # tokens are divided evenly
        ("bert", {}, {"data": 8}, {}, None),
    ],
)
def test_logits_have_as_few_parts_as_give_each_a_gib(recipe, options, mesh, texts, parts):
    case = TrainingCase("a", 8, 1.0, {"framework": "MaxText", **texts}, 2)
    sizes = {"model": "gemma3-12b", "batch": "1", "sequence": "32768", "logits_dtype": "bf16"}
    divided = divide_logits(case, StudyWorkload(recipe, {**sizes, **options}, mesh, {}))
    assert (divided and divided.options["vocab_tiles"]) == parts
