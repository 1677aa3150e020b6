"""Sums agree at every stage: kernels, statistics, traces, simulation, and all that prints them.

Programs and costs are random, and every field of a cost is set, also one that is new. Each law
fails on its mutants: one reader that leaves a field out, or one walk with another rule.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples
from support.law_cases import LawCase
from support.random_programs import programs, render_program

import hespas
from hespas.dialects.attr_schema import list_attr_fields
from hespas.dialects.attrs import (
    COUNTS,
    LARGEST,
    MAXIMA,
    ONE_KERNEL,
    OTHER_AMOUNTS,
    OWN_RULE,
    SUM,
    TIME,
    Cost,
)  # fmt: skip
from hespas.dialects.executions import ExecutionWalk
from hespas.dialects.mlir import ir
from hespas.estimators import aggregate
from hespas.estimators.measure.standalone_region import build_standalone_module
from hespas.passes import run_pipeline
from hespas.passes.emit import module_stats, trace_program, trace_tasks
from hespas.workflows import kernel_rows, program_replay, step_facts
from support import law_cases

pytestmark = pytest.mark.slow

SPLITS = st.sampled_from(("linear", "individual", "individual-merge"))
SEEDS = st.integers(0, 99)
EXAMPLES = 24


def test_every_field_of_a_cost_has_a_rule() -> None:
    """What adds up is compared below; a rule of its own is one that ``aggregate.py`` writes."""
    rules = {field.name: field.adds for field in list_attr_fields(Cost)}
    assert set(rules.values()) <= {SUM, TIME, LARGEST, OWN_RULE, ONE_KERNEL}, rules
    assert all(getattr(Cost("", 0, 0, 0, 0.0), name) is None for name in MAXIMA)
    own = {name for name, rule in rules.items() if rule == OWN_RULE}
    written = {
        keyword.arg
        for node in ast.walk(ast.parse(inspect.getsource(aggregate)))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Cost", "replace")
        for keyword in node.keywords
        if keyword.arg
    }
    assert own == written, f"estimators/aggregate.py writes {written}, declared are {own}"


def test_a_sum_has_nothing_of_one_kernel() -> None:
    """Two costs of which all fields are set add up to the defaults of what is of one kernel."""
    of_one = [field for field in fields(Cost) if field.metadata["adds"] == ONE_KERNEL]
    marks: dict[str, Any] = {field.name: f"mark of {field.name}" for field in of_one}
    cost = Cost("", 0, 0, 0, 0.0, **marks)
    total = aggregate.aggregate_costs([cost, cost])
    assert {f.name for f in of_one if getattr(total, f.name) != f.default} == set()


def check_equal(figures: Iterable[tuple[str, Any]]) -> None:
    """Check that all places show the same figure."""
    shown = list(figures)
    _, first = shown[0]
    different = [(place, value) for place, value in shown if not _is_equal(value, first)]
    assert not different, f"{shown[0]} is not {different}"


def _is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        return a is not None and b is not None and math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6)
    return a == b


def check_times(case: LawCase) -> None:
    """Check the compute time of a device: exactly, and in the whole nanoseconds of a trace."""
    check_equal(law_cases.list_times_ns(case))
    check_equal(law_cases.list_simulated_times_ns(case))
    _, traced_ns = next(law_cases.list_simulated_times_ns(case))
    assert abs(traced_ns - case.stats["totals"]["time_ns"]) <= case.result.figures["regions"] + 1


def check_amounts(case: LawCase) -> None:
    """Check what adds up beside time, operations, bytes and energies, and what is largest."""
    for field in COUNTS:
        check_equal(law_cases.list_counts(case, field))
    for field in OTHER_AMOUNTS:
        check_equal(law_cases.list_other_amounts(case, field))
    for field in MAXIMA:
        check_equal(law_cases.list_maxima(case, field))


def check_bands(case: LawCase) -> None:
    """Check both ends of the band, and the tags of the constants behind it."""
    for end in (0, 1):
        check_equal(law_cases.list_bands_ns(case, end))
    check_equal(law_cases.list_tag_counts(case))


def check_gaps(case: LawCase) -> None:
    """Check the number of ops without a cost."""
    check_equal(law_cases.list_gap_counts(case))


CHECKS = (check_times, check_amounts, check_bands)


def run_case(text: str, split: str, seed: int, checks: Iterable[Callable[[LawCase], None]]) -> None:
    """Run a program and check its result."""
    with tempfile.TemporaryDirectory() as folder:
        case = law_cases.run_program(Path(folder), text, split, setting={"seed": seed})
        for check in checks:
            check(case)


@draw_examples(EXAMPLES)
@given(programs(), SPLITS, SEEDS)
def test_sums_agree(text: str, split: str, seed: int) -> None:
    run_case(text, split, seed, CHECKS)


@draw_examples(EXAMPLES // 3)
@given(programs(branches=False), SPLITS, SEEDS)
def test_gaps_agree(text: str, split: str, seed: int) -> None:
    run_case(text, split, seed, [check_gaps])


GAP_OF_THE_OTHER_BRANCH = [("branch", [[("gap",)], [("op", "add")]]), ("all_reduce",)]


def test_gaps_of_branches_agree() -> None:
    run_case(render_program(GAP_OF_THE_OTHER_BRANCH, []), "linear", 0, [check_gaps])


PRODUCT_OR_ADDITIONS = render_program(
    [("branch", [[("op", "dot_general")], [("op", "add"), ("op", "add")]])], []
)


@pytest.mark.parametrize(
    ("stated", "flops"), [(None, 2 * 64 * 64), (0, 2 * 64**3), (1, 2 * 64 * 64)]
)
def test_measured_branches_are_those_that_are_charged(stated: int | None, flops: int) -> None:
    """The additions move more bytes than the product; a statement of somebody holds."""
    module = hespas.read(PRODUCT_OR_ADDITIONS)
    (branch,) = find_ops(module, "stablehlo.if")
    if stated is not None:
        branch.attributes["hespas.branch"] = ir.IntegerAttr.get(
            ir.IntegerType.get_signless(64, module.context), stated
        )
    run_pipeline(module, "split-linear,roofline-annotate{peak-flops=1e9 memory-bandwidth=1e12}")
    (branch,) = find_ops(module, "stablehlo.if")
    charged = Cost.read_from_op(branch)
    assert charged is not None and charged.flops == flops
    measured = build_standalone_module(branch)
    selectors = find_ops(measured, "stablehlo.constant")
    value = "true" if stated == 0 else "false"
    assert [str(op.attributes["value"]) for op in selectors] == [f"dense<{value}> : tensor<i1>"]


def find_ops(module: ir.Module, name: str) -> list[ir.Operation]:
    """Find the ops of a name, in order."""
    ops: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        ops.extend([op] if op.name == name else [])
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return ops


# A program with everything, for the mutants and for what is printed.
WHOLE = render_program(
    [
        ("op", "tanh"), ("call", 0), ("call", 0), ("all_reduce",),
        ("branch", [[("op", "dot_general"), ("op", "add")], [("op", "negate")], [("op", "sine")]]),
        ("loop", 3, [("op", "exponential"), ("loop", 2, [("op", "add")])]),
        ("branch", [[("op", "abs"), ("all_reduce",)], [("op", "cosine")]]),
        ("loop", 2, [("op", "sqrt"), ("async", "logistic")]), ("gap",), ("op", "multiply"),
    ],
    [[("op", "dot_general"), ("op", "maximum")]],
)  # fmt: skip


@pytest.mark.parametrize("split", ["linear", "individual-merge"])
def test_a_whole_program_agrees(split: str) -> None:
    run_case(WHOLE, split, 1, [*CHECKS, check_gaps])


def test_a_program_without_compute_agrees() -> None:
    run_case(render_program([("all_reduce",)], []), "linear", 1, [*CHECKS, check_gaps])


# Mutants: each replaces one reader by one that is wrong, as a change that forgot it would be.

Mutant = Callable[[pytest.MonkeyPatch], None]


def forget_field(module: Any, field: str) -> Mutant:
    """Return a mutant in which a module reads costs without a field."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        class PartialCost(Cost):
            __slots__ = ()

            @classmethod
            def from_dictionary_attr(cls, attr: Any, op: Any = None) -> Cost:
                return replace(Cost.from_dictionary_attr(attr, op), **{field: _forget(field)})

            @classmethod
            def read_from_op(cls, op: Any) -> Cost | None:
                cost = Cost.read_from_op(op)
                return cost and replace(cost, **{field: _forget(field)})

        monkeypatch.setattr(module, "Cost", PartialCost)

    return patch


def _forget(field: str) -> Any:
    default = next(f for f in list_attr_fields(Cost) if f.name == field)
    return 0 if default.is_required else None


def forget_in_sum(field: str) -> Mutant:
    """Return a mutant in which loops do not repeat a field."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        original = aggregate.repeat_cost

        def repeat_cost(cost: Cost, trips: int, gap: str | None = None) -> Cost:
            return replace(original(cost, trips, gap), **{field: getattr(cost, field)})

        for module in _list_users("repeat_cost", original):
            monkeypatch.setattr(module, "repeat_cost", repeat_cost)

    return patch


def take_last_branch(module: Any, name: str, choose: Callable[[ir.Operation], Any]) -> Mutant:
    """Return a mutant in which one walk takes the last branch, whatever the op says."""
    return lambda monkeypatch: monkeypatch.setattr(module, name, choose)


def walk_last_branch(module: Any) -> Mutant:
    """Return a mutant in which the executions that a module reads are of the last branch."""
    walk = functools.partial(ExecutionWalk, choose_branch=find_last)
    return lambda monkeypatch: monkeypatch.setattr(module, "ExecutionWalk", walk)


def find_last(op: ir.Operation) -> int:
    return len(op.regions) - 1


def forget_total(name: str) -> Mutant:
    """Return a mutant in which the totals of the statistics lack a sum."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        original = module_stats._sum_costs
        monkeypatch.setattr(module_stats, "_sum_costs", lambda costs: {**original(costs), name: 0})

    return patch


def forget_run_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let run.json have the time of the largest kind instead of that of all."""
    largest = property(
        lambda facts: 1e-9 * max(r["time_ns"] for r in facts.stats["kinds"].values())
    )
    monkeypatch.setattr(step_facts.StepFacts, "compute_s", largest)


def _list_users(name: str, value: Any) -> Iterator[Any]:
    import sys

    for module in list(sys.modules.values()):
        if (
            getattr(module, "__name__", "").startswith("hespas.")
            and vars(module).get(name) is value
        ):
            yield module


MUTANTS: dict[str, tuple[Mutant, Callable[[LawCase], None]]] = {
    **{
        f"{module.__name__.rpartition('.')[2]} without {field}": (
            forget_field(module, field),
            check,
        )
        for module, field, check in (
            (kernel_rows, "latency_ns", check_times),
            (trace_tasks, "latency_ns", check_times),
            (module_stats, "latency_ns", check_times),
            (kernel_rows, "flops", check_amounts),
            (trace_tasks, "write_bytes", check_amounts),
            (module_stats, "sram_nj", check_amounts),
            (kernel_rows, "shared_low_ns", check_bands),
            (module_stats, "high_ns", check_bands),
            (module_stats, "tag", check_bands),
            (kernel_rows, "gap", check_gaps),
        )
    },
    "loops do not repeat latency_ns": (forget_in_sum("latency_ns"), check_times),
    "loops do not repeat read_bytes": (forget_in_sum("read_bytes"), check_amounts),
    "loops do not repeat leakage_nj": (forget_in_sum("leakage_nj"), check_amounts),
    "totals without time": (forget_total("time_ns"), check_times),
    "totals without bytes": (forget_total("read_bytes"), check_amounts),
    "run.json without a part": (forget_run_figure, check_times),
    "kernel rows take another branch": (
        walk_last_branch(kernel_rows),
        check_times,
    ),
    "sensitivities take another branch": (
        walk_last_branch(program_replay),
        check_times,
    ),
    "statistics take another branch": (
        walk_last_branch(module_stats),
        check_times,
    ),
    "traces take another branch": (
        take_last_branch(trace_program, "require_branch_number", find_last),
        check_times,
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_noticed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, check = MUTANTS[name]
    mutant(monkeypatch)
    case = law_cases.run_program(tmp_path, WHOLE, "linear", setting={"seed": 1})
    with pytest.raises(AssertionError):
        check(case)
