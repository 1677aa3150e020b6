"""Options: whatever an option changes, every way to an estimate agrees.

The options come from the declarations of a run, of its estimators and of a plan, so that a new one
is covered. An option whose type does not say a value must have one in ``VALUES``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from support.budgets import thin_out
from support.law_cases import format_flags
from support.plan_spaces import SpaceOutcome, compare_searches
from support.random_programs import render_program
from support.tool_commands import ToolCommand, run_command

import hespas
from hespas.estimators.registry import load_estimator_class
from hespas.support.settings import list_settings
from hespas.workflows import run_plan
from hespas.workflows.planning.layout_runs import BOUNDED_OPTIONS
from hespas.workflows.planning.layout_space import LayoutRequest
from hespas.workflows.planning.plan_explanation import OVERLAP
from hespas.workflows.planning.plan_search import LayoutSearch, PlanOptions, plan_layouts
from hespas.workflows.run_config import (
    COMPILE_OPTIONS,
    MEASURING,
    OUTPUTS,
    RunConfig,
    RunOptions,
    list_flag_words,
    list_run_options,
)
from hespas.workflows.sweep.sweep_jobs import SweepJobFactory
from hespas.workflows.sweep.sweep_table import flatten_figures, read_table
from hespas.workflows.validation.measured_cells import COLUMNS

pytestmark = pytest.mark.slow

Values = dict[str, Any]
BASE: Values = {"node": "A100_SXM_40GB", "system": "A100_SXM_40GB_4GPU_2", "form": "as-is"}
# Options that name the program or the way it is run, and change no figure. That of the sizes of
# symbolic dimensions, which the programs here lack, is in test_symbolic_sizes.
NO_CHANGE = {"mlir", "dims", "simulator", "astra_sim", *OUTPUTS, *MEASURING}
# Values of options, beside those that follow from the type.
VALUES: Mapping[str, tuple[Any, ...]] = {
    "node": ("H100_80GB", "TPUv5e"),
    "system": ("ring:8,links=2,link_gb_s=50,latency_ns=500,local_mem_gb_s=100",),
    "estimator": ("roofline", "systolic"),
    "setting": (),  # those of the estimators follow
    "kernel_cost": ("mystery=1000000,2000000",),
    "block_limit": (2,),
    "curves": ("none", "H100_SXM"),
    "slowdown": (0.3, "all_reduce=0.5,other=0.1"),
    "roofline.per_datatype_flops": ("f32=1e13",),
    "roofline.hbm_power_share": (0.5,),
    "roofline.tdp": (300.0,),
    "calibrated.attention": ("flash-attention-2",),
    "xla_optimize": ("async-collectives=remove",),
    "systolic.array": ("TPUv6e",),
    "systolic.rows": (64,),
    "systolic.columns": (64,),
    "systolic.sram_bytes": (100,),
}
MORE: Mapping[str, Values] = {  # what an option or a setting needs beside it
    "estimator=systolic": {"node": "TPUv5e"},
    "fuse=True": {"form": None},
    "overlap=xla": {"form": "xla"},
    "overlap=none": {"form": "xla"},
    "xla_optimize=async-collectives=remove": {"form": "xla"},
    "roofline.tdp": {"hbm-power-share": 0.4},
}
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
BODY = [
    ("op", "tanh"), ("call", 0), ("all_reduce",), ("op", "dot_general"),
    ("loop", 3, [("op", "exponential"), ("all_reduce",)]),
]  # fmt: skip
FUNCTIONS = [[("op", "dot_general"), ("op", "maximum")]]
GAP_OPTIONS = ("keep_going", "kernel_cost")  # they concern ops without a cost
# XLA's compiler reads no asynchronous ops of StableHLO.
FORM_OPTIONS = ("form", "fuse", *COMPILE_OPTIONS)
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


def render_case_program(option: str) -> str:
    """Render a program for eight devices, whose collectives are between hosts."""
    body = BODY if option in FORM_OPTIONS else [*BODY, ("async", "sine")]
    if option in GAP_OPTIONS:
        body = [*body, ("gap",)]
    text = render_program(body, FUNCTIONS).replace("num_partitions = 2", "num_partitions = 8")
    groups = "[[0, 4], [1, 5], [2, 6], [3, 7]]> :\n    tensor<4x2xi64>"
    return text.replace("[[0, 1]]> :\n    tensor<1x2xi64>", groups)


@dataclass(frozen=True)
class OptionCase:
    """An option with a value that is not its default, and the options of the whole run."""

    option: str
    value: Any
    options: Values

    @property
    def title(self) -> str:
        return f"{self.option}={self.value}"

    def place_program(self, folder: Path) -> Path:
        """Write the program, and return its file."""
        path = folder / f"{self.option or 'default'}.mlir"
        path.write_text(render_case_program(self.option))
        return path


def list_cases() -> Iterator[OptionCase]:
    """List the values to try of each declared option."""
    for name, option in RunConfig.model_fields.items():
        if name not in NO_CHANGE:
            for value in _list_values(name, option.annotation, option.default):
                more = MORE.get(f"{name}={value}", {})
                case = OptionCase(name, value, {**BASE, **more, name: value})
                if case.options != BASE:
                    yield case
    for estimator in ("roofline", "calibrated", "systolic"):
        for setting in list_settings(load_estimator_class(estimator).Config):
            if setting.name == "node":
                continue
            for value in _list_values(f"{estimator}.{setting.name}", setting.type, setting.default):
                name = f"{estimator}.{setting.name}"
                options = {**BASE, **MORE.get(f"estimator={estimator}", {}), "estimator": estimator}
                settings = {**MORE.get(name, {}), setting.spelled: value}
                yield OptionCase(name, value, {**options, "setting": settings})


def _list_values(name: str, hint: Any, default: Any) -> tuple[Any, ...]:
    """List values of an option by its type, without its default."""
    if name in VALUES:
        return VALUES[name]
    if get_origin(hint) in (UnionType, Union):
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    if get_origin(hint) is Literal:
        return tuple(choice for choice in get_args(hint) if choice != default)
    if hint is bool:
        return (False, True) if default is None else (not default,)
    assert hint in (int, float), f"give the option {name} a value in VALUES"
    return (128,) if hint is int else (1e11,)


def run_by_command(case: OptionCase, folder: Path) -> Values:
    """Run a case as ``hespas run`` does; returns its figures, or its error."""
    output = folder / "out"
    values = {"mlir": case.place_program(folder), "output": output, **case.options}
    flags = format_flags({name: value for name, value in values.items() if value is not None})
    done = run_command(ToolCommand(["hespas", "run", *flags], False, False))
    if done.code:
        return {"error": done.err.splitlines()[-1]}
    return flatten_figures(json.loads((output / "run.json").read_text()))


def run_in_python(case: OptionCase, folder: Path) -> Values:
    """Run a case as ``hespas.estimate`` does; returns its figures, or its error."""
    try:
        estimate = hespas.estimate(case.place_program(folder), **case.options)
    except hespas.HespasError as error:
        return {"error": str(error)}
    return flatten_figures(estimate.to_run_result().figures)


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


def test_ways_to_an_estimate_agree(tmp_path: Path) -> None:
    check_ways([OptionCase("", "", dict(BASE)), *list_cases()], tmp_path)


def test_options_have_an_effect(tmp_path: Path) -> None:
    """A value that changes nothing would not notice that its option is forgotten."""
    without_effect = []
    for case in list_cases():
        others = [name for name in case.options if name not in (case.option, "setting")]
        is_nested = "." in case.option or case.option in COMPILE_OPTIONS
        options = {name: case.options[name] for name in others} if is_nested else BASE
        default = OptionCase(case.option, "", dict(options))
        run = run_by_command(case, tmp_path)
        assert "error" not in run, (case.title, run)
        if not find_differences(run_by_command(default, tmp_path), run):
            without_effect.append(case.title)
    assert set(without_effect) == set(NO_EFFECT)


def list_option_values() -> Iterator[tuple[OptionCase, RunOptions]]:
    """List the cases of the options of an estimate, which every command hands on, as values."""
    for case in list_cases():
        if case.option in RunOptions.model_fields or "." in case.option:
            names = [name for name in case.options if name in RunOptions.model_fields]
            yield case, RunOptions(**{name: case.options[name] for name in names})


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
    "llama", "H100_80GB", 8, 16, {"tensor": [1, 2, 4], "data": [1, 2, 4]},
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
    values = {"network_model": None if run.congestion else "flows", "split": "linear"}
    values |= {
        "node": REQUEST.node,
        "system": SYSTEM,
        **run.model_dump(exclude_unset=True),
        "form": "fuse",
    }
    step_s = hespas.estimate(figures.program, **values).summary.simulation.result.step_time_ns
    assert figures.step_time_s == pytest.approx(1e-9 * step_s)
    return outcome


def check_search(outcome: SpaceOutcome) -> None:
    """Check that the winner is the best of all layouts, and that no bound is above its estimate."""
    assert outcome.excess == 0 and outcome.largest_share <= 1, outcome.format_row()


def test_bounded_plans_find_the_best_of_all_layouts(plan_folder: Path) -> None:
    pytest.importorskip("jax")
    for options in thin_out(list_plan_options(), 4):
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
        make_job = SweepJobFactory.make_job

        def forget(factory: SweepJobFactory, cell: Values) -> Any:
            return make_job(factory, {n: v for n, v in cell.items() if n != name})

        monkeypatch.setattr(SweepJobFactory, "make_job", forget)

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
        check_search(search_space(RunOptions(estimator="roofline"), plan_folder))
