"""The gate: limits of how much worse a program may be, the band of the difference, and causes."""

import itertools
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gate_runs import MISTAKES, run_training_step
from support.result_programs import layered, result, run

from hespas.support.errors import HespasError, UsageError
from hespas.workflows.gate.budget_check import BudgetLimits, find_violations, parse_growth_limit
from hespas.workflows.gate.step_comparison import (
    CollectiveProfile,
    KernelProfile,
    StepComparison,
    StepProfile,
    compute_difference_band,
    compute_relative_growth,
    profile_result,
)
from hespas.workflows.run_results import RunResult

PERCENT = parse_growth_limit("1%")
LIMITS = BudgetLimits(PERCENT, PERCENT, PERCENT)


def make_profile(*kernels, comm_s=0.0, peak_bytes=100, **fields):
    compute_s = math.fsum(kernel.count * kernel.time_s for kernel in kernels)
    return StepProfile(
        settings={},
        step_time_s=compute_s + comm_s,
        compute_s=compute_s,
        exposed_comm_s=comm_s,
        memory={"peak_bytes": peak_bytes, "temporary_bytes": peak_bytes},
        kernels=list(kernels),
        **fields,
    )


def make_kernel(time_s, error_s=0.0, count=1, shapes="2xf32", **fields):
    fields = {"op": "stablehlo.add", "kind": "loop", "dtype": "f32", "flops": 1, **fields}
    return KernelProfile(
        count=count, shapes=shapes, time_s=time_s, low_s=time_s - error_s,
        high_s=time_s + 2 * error_s, **fields,
    )  # fmt: skip


def find_texts(before, after, limits=LIMITS):
    violations = find_violations(StepComparison(before, after), limits)
    return {violation.figure: violation.text for violation in violations}


KERNELS = st.lists(
    st.builds(make_kernel, st.floats(1, 9), st.floats(0, 1), st.integers(1, 9)), min_size=1
)


@given(KERNELS)
def test_equal_programs_have_a_band_of_zero(kernels):
    assert compute_difference_band(make_profile(*kernels), make_profile(*kernels)) == (0, 0)


@given(KERNELS, KERNELS, KERNELS)
def test_common_kernels_do_not_widen_the_band(common, before, after):
    def measure_band(*groups):
        return compute_difference_band(*(make_profile(*group) for group in groups))

    assert measure_band(common + before, common + after) == pytest.approx(
        measure_band(before, after), abs=1e-9
    )


def test_unrelated_programs_have_the_root_of_the_sum_of_squares():
    before = make_profile(make_kernel(5.0, 0.3, count=10))  # 50, from 47 to 56
    after = make_profile(make_kernel(6.0, 0.4, count=10))  # 60, from 56 to 68
    low, high = compute_difference_band(before, after)
    assert 10 - low == pytest.approx(math.hypot(60 - 56, 56 - 50))
    assert high - 10 == pytest.approx(math.hypot(68 - 60, 50 - 47))
    swapped = compute_difference_band(after, before)
    assert (-swapped[1], -swapped[0]) == pytest.approx((low, high))


def test_a_difference_without_a_band_needs_a_percentage():
    bare = make_kernel(2.0).model_copy(update={"low_s": None, "high_s": None})
    before, after = make_profile(make_kernel(1.0)), make_profile(bare)
    assert compute_difference_band(before, after) is None
    assert compute_difference_band(make_profile(bare), make_profile(bare)) == (0, 0)
    band = BudgetLimits(parse_growth_limit("band", allows_band=True))
    with pytest.raises(HespasError, match=r"no band.*give a percentage"):
        find_violations(StepComparison(before, after), band)


@pytest.mark.parametrize(
    ("limit", "error_s", "is_violated"),
    [("band", 0.01, True), ("band", 0.2, False), ("5%+band", 0.01, True), ("5%+band", 0.03, False)],
)
def test_the_band_decides_whether_a_growth_counts(limit, error_s, is_violated):
    before, after = (make_profile(make_kernel(time_s, error_s)) for time_s in (1.0, 1.1))
    limits = BudgetLimits(parse_growth_limit(limit, allows_band=True))
    assert bool(find_texts(before, after, limits)) == is_violated
    assert not find_texts(after, before, limits)


def test_limits_are_of_the_growth_of_their_figure():
    before = make_profile(make_kernel(1.0), comm_s=1.0)
    after = make_profile(make_kernel(1.0), comm_s=1.03, peak_bytes=102)
    texts = find_texts(before, after)
    assert set(texts) == {"step", "memory", "exposed"}
    assert texts["step"].startswith("the step takes 1.50 % longer, more than the 1 % allowed")
    assert "2.00 % higher" in texts["memory"] and "grows by 1.50 % of the step" in texts["exposed"]
    assert not find_texts(before, after, BudgetLimits(*[parse_growth_limit(2)] * 3))
    assert not find_texts(before, before) and not find_texts(after, before)
    assert compute_relative_growth(0, 1) == math.inf


def test_figures_that_are_not_known_are_errors():
    profile = make_profile(make_kernel(1.0))
    for figure, field in (("memory", "memory"), ("exposed", "exposed_comm_s")):
        partial = profile.model_copy(update={field: None})
        with pytest.raises(HespasError, match=r"a result has no"):
            find_violations(StepComparison(profile, partial), BudgetLimits(**{figure: PERCENT}))


@pytest.mark.parametrize("text", ["3", "3%", "3 %", 3])
def test_limits_are_percentages(text):
    assert parse_growth_limit(text).share == pytest.approx(0.03)


@pytest.mark.parametrize("text", ["", "-1", "nan", "band", "3 %%"])
def test_wrong_limits_are_errors(text):
    with pytest.raises(UsageError, match="is not a percentage"):
        parse_growth_limit(text)


def test_a_slower_layer_is_named_if_nothing_else_explains_it():
    before, after = (
        make_profile(make_kernel(1.0), make_kernel(t, shapes=f"{t}xf32", layer="mlp"))
        for t in (1.0, 2.0)
    )
    assert "slower kernels in mlp, +1.000 s" in find_texts(before, after)["step"]


def test_more_operations_and_more_recomputation_are_named():
    gemm = {"op": "stablehlo.dot_general", "kind": "gemm", "dtype": "bf16", "layer": "mlp"}
    before = make_profile(make_kernel(1.0, flops=10**9, **gemm))
    twice = make_profile(make_kernel(2.0, flops=2 * 10**9, shapes="4xf32", **gemm))
    again = make_profile(
        make_kernel(1.0, flops=10**9, **gemm),
        make_kernel(1.0, flops=10**9, is_recomputed=True, **gemm),
    )
    text = find_texts(before, twice)["step"]
    assert "1.000 GFLOP more of products on each device, 2.00 times as many as before" in text
    assert (
        "recomputation that was not there: 1.000 GFLOP in mlp" in find_texts(before, again)["step"]
    )


def test_collectives_of_more_bytes_are_not_new_ones():
    def make_program(operand_bytes, comm_s):
        row = CollectiveProfile(
            layer="mlp", framework_op="psum", count=2, kind="all_reduce", group_size=4,
            operand_bytes=operand_bytes, exposed_s=comm_s,
        )  # fmt: skip
        return make_profile(make_kernel(1.0), comm_s=comm_s, collectives=[row])

    text = find_texts(make_program(1000, 0.1), make_program(3000, 0.2))["exposed"]
    assert "all_reduces of more bytes: 4.000 kB in mlp (psum), +100.000 ms exposed" in text


@pytest.fixture(scope="module")
def training_runs(tmp_path_factory):
    """The results of the training step, and of versions with one mistake each."""
    folder = tmp_path_factory.mktemp("gate")
    return {name: run_training_step(folder, name) for name in ("", *MISTAKES)}


@pytest.mark.long
def test_typical_mistakes_are_caught_and_named(training_runs):
    profiles = {name: profile_result(run) for name, run in training_runs.items()}
    texts = {name: find_texts(profiles[""], profile) for name, profile in profiles.items()}
    assert texts[""] == {}
    assert "24 reduce_scatters that were not there" in texts["constrain"]["exposed"]
    assert "mlp (dot_general, train_step.py:" in texts["constrain"]["step"]
    assert (
        "products in f32 that were bf16: 549.756 GFLOP in mlp (dot_general, train_step.py:23:30), +"
        in texts["bf16"]["step"]
    )
    assert set(texts["donate"]) == {"memory"}
    assert "more is live because 4 arguments are not donated: state[" in texts["donate"]["memory"]
    assert "recomputation is gone: 137.447 GFLOP" in texts["remat"]["memory"]
    # Keeping takes about as long as recomputing: kernels of their own write and read what is kept.
    assert set(texts["remat"]) == {"memory"}
    backwards = find_texts(profiles["remat"], profiles[""], BudgetLimits(step=PERCENT))
    assert not backwards  # recomputing takes less than 1 % of this step


@pytest.mark.long
def test_the_command_names_them_too(training_runs, capsys, tmp_path):
    before, after = training_runs[""].folder, training_runs["bf16"].folder
    markdown = tmp_path / "comment.md"
    limits = ("--fail-above", "3%", "--fail-memory-above", "1", "--fail-exposed-above", "5%")
    capsys.readouterr()
    argv = ("compare", before, after, "--changes", "--json", "--markdown", str(markdown))
    assert run(*argv, *limits) == 1
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert [row["figure"] for row in data["violations"]] == ["step", "memory", "exposed"]
    assert "wider-products" in {cause["kind"] for cause in data["causes"]}
    assert data["difference_band_s"][0] > 0
    assert err.count("error: bf16.mlir: the ") == 3
    text = markdown.read_text()
    assert text.startswith("- **bf16.mlir**: the step takes ")
    assert "| mlp |" in text and "**What makes B worse**" in text
    assert run("compare", before, before, *limits, "--markdown", str(markdown)) == 0
    assert markdown.read_text().startswith("Nothing exceeds its limit.\n\n")


def test_a_limit_may_be_the_band(tmp_path, capsys):
    before = result(tmp_path, name="a.mlir")
    after = result(tmp_path, program=layered(4), name="b.mlir")
    assert run("compare", before, before, "--fail-above", "band") == 0
    capsys.readouterr()
    assert run("compare", before, after, "--fail-above", "band") == 1
    assert "more than the 0 % allowed with a probability of 90 % (" in capsys.readouterr().err
    assert run("compare", after, before, "--fail-above", "band") == 0
    with_memory = ("--fail-memory-above", "band")
    assert run("compare", before, after, *with_memory) == 2
    assert "'band' is not a percentage" in capsys.readouterr().err


def test_tables_in_markdown_have_as_many_columns_as_their_rows(tmp_path):
    before = result(tmp_path, name="a.mlir")
    after = result(tmp_path, node="H100_80GB", system="H100_80GB_4GPU", name="b.mlir")
    path = tmp_path / "c.md"
    assert run("compare", before, after, "--changes", "--markdown", str(path)) == 0
    lines = path.read_text().splitlines()
    for line, following in itertools.pairwise(lines):
        if line.startswith("|") and following.startswith("|"):
            assert line.count(" |") == following.count(" |"), (line, following)


def test_profiles_survive_their_file(tmp_path):
    profile = profile_result(RunResult.load_folder(result(Path(tmp_path))))
    again = StepProfile.model_validate_json(profile.model_dump_json())
    assert find_texts(profile, again, BudgetLimits(*[parse_growth_limit(0)] * 3)) == {}
    assert compute_difference_band(profile, again) == (0, 0)
    assert {row.layer for row in profile.collectives} == {f"layer_{i}" for i in range(3)}
