"""Options: whatever an option changes, every way to an estimate agrees.

The options come from the declarations of a run, of its estimators and of a plan, so that a new one
is covered. An option whose type does not say a value must have one in ``VALUES``.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.budgets import thin_out
from support.law_cases import format_flags
from support.option_cases import (
    BASE,
    OptionCase,
    Values,
    list_cases,
    list_option_values,
)
from support.plan_spaces import SpaceOutcome, compare_searches
from support.tool_commands import ToolCommand, run_command

import hespas
from hespas.dialects.attrs import Cost
from hespas.plugin import ir, walk_operations
from hespas.workflows import run_plan
from hespas.workflows.planning.layout_space import LayoutRequest
from hespas.workflows.planning.plan_search import OVERLAP, LayoutSearch, PlanOptions, plan_layouts
from hespas.workflows.program_replay import StepReplay
from hespas.workflows.run_config import (
    BOUNDED_OPTIONS,
    COMPILE_OPTIONS,
    NetworkOptions,
    RunConfig,
    RunOptions,
    list_flag_words,
    list_run_options,
)
from hespas.workflows.sweep.sweep_runner import SweepCellFactory
from hespas.workflows.sweep.sweep_table import flatten_figures, read_table
from hespas.workflows.validation.prediction_scores import COLUMNS

pytestmark = pytest.mark.slow

# What is not of the estimate: settings of a cell, and files of a result.
NOT_SHARED = (
    "cell.",
    "provenance.",
    "network.",
    "output",
    "program",
    "timeline",
    "memory.timeline",
)
# Values that change nothing here, although the option is handed on.
NO_EFFECT = {
    "split=linear": "the default of estimators of real times",
    "overlap=xla": "the default",
    "network_model=flows": "as above",
    "between_hosts=nccl": "as above",
    "roofline.compiler_estimates=True": "it needs a program that XLA:TPU has compiled",
    "calibrated.compiler_estimates=True": "as above",
    "calibrated.quantise=True": "it needs products of 8 bits",
    "calibrated.attention=flash-attention-2": "it needs fused attention",
    "systolic.sram_read_bytes_per_cycle=100000000000.0": "it needs the variant scalesim",
    "systolic.sram_write_bytes_per_cycle=100000000000.0": "as above",
}


@pytest.fixture(scope="module")
def case_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the programs of all cases, whose places are in the figures."""
    return tmp_path_factory.mktemp("cases")


def run_by_command(case: OptionCase, folder: Path) -> Values:
    """Run a case as ``hespas run`` does; returns its figures, or its error."""
    values = {"mlir": case.place_program(folder), **case.options}
    flags = format_flags({name: value for name, value in values.items() if value is not None})
    return _run_command_line((*flags, "--output", str(folder / "out")))


@functools.cache  # several tests have equal cases
def _run_command_line(flags: tuple[str, ...]) -> Values:
    done = run_command(ToolCommand(["hespas", "run", *flags], False, False))
    if done.code:
        return {"error": done.err.splitlines()[-1]}
    return flatten_figures(json.loads(Path(flags[-1], "run.json").read_text()))


def run_in_python(case: OptionCase, folder: Path) -> Values:
    """Run a case as ``hespas.estimate`` does; returns its figures, or its error."""
    try:
        estimate = hespas.estimate(case.place_program(folder), **case.options)
    except hespas.HespasError as error:
        return {"error": str(error)}
    values = flatten_figures(estimate.to_run_result().figures)
    # Remedies name the arguments of Python, in JSON with escaped quotes.
    warnings = str(values.get("warnings", "[]"))
    values["warnings"] = re.sub(r'(\w+)=\\"(\w+)\\"', r"--\1 \2", warnings)
    return values


def run_as_sweep(cases: list[OptionCase], folder: Path) -> list[Values]:
    """Run each case as a cell of one sweep; cells do not depend on each other."""
    file, table = folder / "cells.json", folder / "table.json"
    file.write_text(json.dumps({"cells": [_to_cell(case, folder) for case in cases]}))
    words = ["hespas", "sweep", str(file), "--output", str(table), "--cache", "none", "--jobs", "1"]
    run_command(ToolCommand(words, False, False))
    rows = read_table(str(table))
    for row in rows:  # remedies name the options of the command that was run
        row["warnings"] = re.sub(r"--set (\w+)=(\w+)", r"--\1 \2", str(row.get("warnings", "[]")))
    return rows


def _to_cell(case: OptionCase, folder: Path) -> Values:
    settings = {f"setting.{name}": value for name, value in case.options.get("setting", {}).items()}
    options = {name: value for name, value in case.options.items() if name != "setting"}
    return {"mlir": str(case.place_program(folder)), **options, **settings}


def find_differences(run: Values, other: Values) -> Values:
    """Find the figures and settings in which two results differ."""
    names = [name for name in {*run, *other} if not name.startswith(NOT_SHARED)]
    values = {name: (run.get(name), other.get(name)) for name in names}
    absent = (None, [], {}, "[]")
    return {
        n: (a, b) for n, (a, b) in values.items() if a != b and not (a in absent and b in absent)
    }


def check_ways(cases: list[OptionCase], folder: Path) -> None:
    """Check that a run, a cell of a sweep and an estimate in Python agree for each case."""
    different = []
    for case, row in zip(cases, run_as_sweep(cases, folder), strict=True):
        run = run_by_command(case, folder)
        for way, other in (("sweep", row), ("estimate", run_in_python(case, folder))):
            if differences := find_differences(run, other):
                different.append(f"{case.title}, {way}: {dict([*differences.items()][:3])}")
    assert not different, "\n".join(different)


def test_ways_to_an_estimate_agree(case_folder: Path) -> None:
    check_ways([OptionCase("", "", dict(BASE)), *list_cases()], case_folder)


def test_options_have_an_effect(case_folder: Path) -> None:
    """A value that changes nothing would not notice that its option is forgotten."""
    without_effect = {case.title for case in list_cases() if not has_effect(case, case_folder)}
    assert without_effect == {*NO_EFFECT}


def has_effect(case: OptionCase, folder: Path) -> bool:
    """Return whether a run differs from one with the default of the option."""
    others = {n: v for n, v in case.options.items() if n not in (case.option, "setting")}
    unset = {case.option: BASE[case.option]} if case.option in BASE else {}
    default = OptionCase(case.option, "", {**others, **unset})
    run = run_by_command(case, folder)
    assert "error" not in run, (case.title, run)
    return bool(find_differences(run_by_command(default, folder), run))


@pytest.mark.long
def test_other_rates_of_a_device_keep_the_settings_of_its_estimator(tmp_path: Path) -> None:
    """Each sensitivity begins at the time that was estimated with all options.

    The bands of the costs contain that time, too.
    """
    for case in list_cases():
        if "." in case.option or case.option in RunOptions.model_fields:
            estimate = hespas.estimate(case.place_program(tmp_path), **case.options)
            replay = StepReplay(estimate.module, None)
            compute_s = estimate.to_run_result().figures["compute_s"]
            assert replay.base_step_s == pytest.approx(compute_s), case.title
            check_bands(estimate.module, case.title)
            for rate in replay.base_estimator.list_device_rates():
                times_ns = replay.estimate_all(rate.scale(1.0))
                assert times_ns == pytest.approx(replay.estimate_all(replay.base_estimator)), (
                    case.title, rate.name,
                )  # fmt: skip


def check_bands(module: ir.Module, title: str) -> None:
    """Check that the time of each cost is between the ends of its band, and of the shared part."""

    def check_cost(op: ir.Operation) -> ir.WalkResult:
        cost = Cost.read_from_op(op)
        for side in ("", "shared_") if cost else ():
            low_ns, high_ns = (getattr(cost, f"{side}{end}_ns") for end in ("low", "high"))
            if low_ns is not None:
                slack_ns = 1e-9 * cost.time_ns  # of sums
                assert low_ns - slack_ns <= cost.time_ns <= high_ns + slack_ns, (title, cost)
        return ir.WalkResult.ADVANCE

    walk_operations(module.operation, check_cost)


@pytest.mark.parametrize("model", ["flows", "astra"])
def test_options_have_an_effect_in_each_model_of_the_network(model: str, case_folder: Path) -> None:
    names = {*NetworkOptions.model_fields} - {"network_model", "congestion"}  # they choose it
    cases = [
        replace(case, options={**case.options, "network_model": model})
        for case in list_cases()
        if case.option in names and case.title not in NO_EFFECT
    ]
    assert {case.option for case in cases} == names
    assert [case.title for case in cases if not has_effect(case, case_folder)] == []


def predict_by_validation(case: OptionCase, options: RunOptions, folder: Path) -> float:
    """Predict the step of a program that XLA has optimised as ``hespas validate`` does."""
    node, system = case.options["node"], case.options["system"]
    program = case.place_program(folder)
    program.rename(folder / f"{program.stem}-opt-{node.split('_')[0].lower()}.mlir")
    table = folder / "measured.csv"
    table.write_text(f"{','.join(COLUMNS)}\n{program.stem},8,{node},{system},1,0,made up\n")
    words = ["hespas", "validate", str(table), "--programs", str(folder), "--json"]
    words += ["--start", "optimised", "--no-baselines"]
    words += list_flag_words(options, list_run_options("hespas validate"))
    done = run_command(ToolCommand(words, False, False))
    assert done.code == 0, (case.title, done.err)
    (flow,) = json.loads(done.out)["flows"].values()
    return flow["cells"][0]["predicted_s"]


@pytest.mark.long
def test_validation_predicts_what_a_run_estimates(tmp_path: Path) -> None:
    for case, options in thin_out(list_option_values(), 3):
        if case.option not in ("split", *COMPILE_OPTIONS):  # it optimises no such program
            run = run_by_command(case, tmp_path)
            predicted_s = predict_by_validation(case, options, tmp_path)
            assert predicted_s == run["step_time_s"], case.title


# Plans: the search with bounds finds what the search of all layouts finds.

SPACE = {
    "model": "tiny", "layers": "4", "emb": "1024", "heads": "8", "mlp": "4096", "vocab": "2048",
    "head_dim": "128", "kv_heads": "8", "sequence": "512", "remat": "none", "accumulate": "1",
}  # fmt: skip
REQUEST = LayoutRequest(
    "llama", "H100_80GB", 8, 8, {"tensor": [1, 2, 4], "data": [1, 2, 4]},
    {name: [value] for name, value in SPACE.items()},
)  # fmt: skip
SYSTEM = BASE["system"]  # of two hosts
# Of an estimator of bounds, whose times follow from the model of the network alone.
NETWORK_OPTIONS = ("congestion", "network_model")


def list_plan_options() -> Iterator[RunOptions]:
    """List the values of the options with which plans have bounds.

    With others there are none, so that a plan estimates all layouts in any case.
    """
    for case, options in list_option_values():
        if case.option not in BOUNDED_OPTIONS or case.option in COMPILE_OPTIONS:
            continue
        if case.option in NETWORK_OPTIONS:
            options = options.model_copy(update={"estimator": "roofline"})
        if options.estimator != "systolic":
            yield options


@pytest.fixture(scope="module")
def plan_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that keeps the programs of layouts, which no option of an estimate changes."""
    return tmp_path_factory.mktemp("plan")


def search_space(run: RunOptions, folder: Path) -> SpaceOutcome:
    """Search the space with bounds and completely; estimates are kept, but not their bounds.

    The winner is what ``hespas.estimate`` says of its program, and its explanation has no part
    besides those that a serial program has.
    """
    options = PlanOptions(
        systems=[SYSTEM], run=run, top=1, compile_count=0,
        work_dir=str(folder / "programs"), cache=str(folder / "cells"),
    )  # fmt: skip
    searched = plan_layouts(REQUEST, options, lambda _: None)
    complete = plan_layouts(
        REQUEST, replace(options, exhaustive=True), lambda _: None, explain=False
    )
    outcome = compare_searches(1, REQUEST, searched, complete)
    assert outcome is not None and any(row.bound for row in searched.rows)
    figures = searched.winner and searched.winner.figures
    assert figures and OVERLAP not in {difference.part for difference in searched.differences}
    values = {
        "split": "linear",
        "node": REQUEST.node,
        "system": SYSTEM,
        **run.model_dump(exclude_unset=True),
        "form": "fuse",
        "overlap": "none",
    }
    step_s = hespas.estimate(figures.program, **values).summary.simulation.result.step_time_ns
    assert figures.step_time_s == pytest.approx(1e-9 * step_s)
    return outcome


def check_search(outcome: SpaceOutcome) -> None:
    """Check that the winner is the best of all layouts, and that no bound is above its estimate."""
    assert outcome.excess == 0 and outcome.largest_share <= 1, outcome.format_row()


@pytest.mark.long
def test_bounded_plans_find_the_best_of_all_layouts(plan_folder: Path) -> None:
    pytest.importorskip("jax")
    for options in thin_out(list_plan_options(), 9):
        check_search(search_space(options, plan_folder))


# Mutants: each way forgets an option that it should hand on.


def forget_option(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a mutant in which Python's estimate forgets an option."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        merge = run_plan.merge_run_config

        def forget(values: Values, overrides: Values, where: str) -> RunConfig:
            return merge({n: v for n, v in values.items() if n != name}, overrides, where)

        monkeypatch.setattr(run_plan, "merge_run_config", forget)

    return patch


def forget_key(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a mutant in which a sweep forgets a key of its cells."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        make_cell = SweepCellFactory.make_cell

        def forget(factory: SweepCellFactory, cell: Values) -> Any:
            return make_cell(factory, {n: v for n, v in cell.items() if n != name})

        monkeypatch.setattr(SweepCellFactory, "make_cell", forget)

    return patch


@pytest.mark.parametrize("forget", [forget_option, forget_key])
@pytest.mark.parametrize("name", ["network_model", "block_limit", "tokens_per_step"])
def test_a_forgotten_option_is_noticed(
    forget: Callable[[str], Callable[[pytest.MonkeyPatch], None]],
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    cases = [case for case in list_cases() if case.option == name]
    forget(name)(monkeypatch)
    with pytest.raises(AssertionError):
        check_ways(cases, tmp_path)


@pytest.mark.long
def test_a_forgotten_option_of_bounds_is_noticed(
    plan_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jax")
    make_bounds = LayoutSearch._make_bounds

    def forget(search: LayoutSearch, system: Any) -> Any:
        calibrated = replace(search, options=replace(search.options, run=RunOptions()))
        return make_bounds(calibrated, system)

    monkeypatch.setattr(LayoutSearch, "_make_bounds", forget)
    with pytest.raises(AssertionError):
        options = RunOptions(estimator="roofline", network_model="flows")
        check_search(search_space(options, plan_folder))
