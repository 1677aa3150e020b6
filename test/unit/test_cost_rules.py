"""Cost rules of other packages: the entry point group hespas.cost_rules."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint

import pytest

from hespas.dialects.mlir import ir
from hespas.estimators.rules import registry
from hespas.estimators.work import (
    CostRule,
    OpWork,
    UnknownCost,
    WorkPart,
    compute_op_work,
    find_cost_rule,
    is_free_op,
)
from hespas.support.errors import HespasError, UsageError

PROGRAM = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @my_kernel(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  %2 = stablehlo.custom_call @my_kernel(%1)
    {backend_config = "{\\22cost_estimate\\22: {\\22flops\\22: 7}}"}
    : (tensor<4xf32>) -> tensor<4xf32>
  %3 = stablehlo.add %2, %a : tensor<4xf32>
  return %3 : tensor<4xf32>
}
"""
WORK = OpWork("custom", 16, 16, (WorkPart("matrix", "bf16", 1000),))
KERNEL = CostRule(lambda _: WORK, call_targets=("my_kernel",))
EXP = CostRule(lambda _: WORK, "loop", ops=("math.exp",))

Installed = Callable[..., list[str]]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    """Install packages, one per value; returns the list to which each search adds its group."""

    def install(*values: object) -> list[str]:
        searches: list[str] = []
        points = []
        for number, value in enumerate(values):
            module = types.ModuleType(f"package_{number}")
            vars(module)["RULES"] = value
            monkeypatch.setitem(sys.modules, module.__name__, module)
            points.append(EntryPoint("rules", f"{module.__name__}:RULES", "hespas.cost_rules"))

        def entry_points(group: str) -> list[EntryPoint]:
            searches.append(group)
            return [point for point in points if point.group == group]

        monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
        registry.load_package_rules.cache_clear()
        return searches

    yield install
    registry.load_package_rules.cache_clear()


@pytest.fixture
def ops(parse: Callable[[str], ir.Module]) -> Iterator[list[ir.Operation]]:
    module = parse(PROGRAM)
    yield [view.operation for view in module.body.operations[0].regions[0].blocks[0].operations]


def test_packages_add_ops_and_custom_calls(ops, installed: Installed) -> None:
    searches = installed([KERNEL, EXP])
    assert [compute_op_work(op) for op in ops[:3]] == [WORK] * 3  # before the declared estimate
    rule = find_cost_rule("math.exp")
    assert rule is not None and (rule.kind, rule.ops) == (EXP.kind, EXP.ops)
    assert not is_free_op(ops[1])
    assert searches == ["hespas.cost_rules"]


def test_an_entry_point_may_name_one_rule(ops, installed: Installed) -> None:
    installed(EXP, KERNEL)
    assert compute_op_work(ops[0]) == compute_op_work(ops[1]) == WORK


def test_packages_add_what_hespas_does_not_know_of_a_library(parse, installed: Installed) -> None:
    installed(CostRule(lambda _: WORK, call_targets=("cusolver_csrlsvqr_ffi",)))
    module = parse(
        "func.func @main() {\nstablehlo.custom_call @cusolver_csrlsvqr_ffi() : () -> ()\nreturn\n}"
    )
    call = module.body.operations[0].regions[0].blocks[0].operations[0].operation
    assert compute_op_work(call) == WORK


def test_known_ops_search_no_packages(ops, installed: Installed) -> None:
    searches = installed([KERNEL])
    assert compute_op_work(ops[3]).flops == 4
    assert find_cost_rule("stablehlo.add") is not None and is_free_op(ops[4])
    assert searches == []
    for _ in range(2):
        with pytest.raises(UnknownCost, match="no cost rule for this op"):
            compute_op_work(ops[1])
    assert len(searches) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (([EXP], [EXP]), "package_0:RULES and package_1:RULES define the cost of the op math.exp"),
        (
            ([KERNEL, KERNEL],),
            "package_0:RULES defines the cost of the custom call my_kernel twice",
        ),
        (
            ([CostRule(lambda _: WORK, ops=("stablehlo.add",))],),
            "package_0:RULES defines the cost of stablehlo.add, which hespas defines",
        ),
        (
            ([CostRule(lambda _: WORK, call_targets=("__cudnn$norm",))],),
            "package_0:RULES defines the cost of __cudnn$norm, which hespas defines",
        ),
        ((["EXP"],), "package_0:RULES is not a CostRule or a list of them"),
        (
            (CostRule(lambda _: WORK, call_targets="my_kernel"),),  # type: ignore[arg-type]
            "package_0:RULES: call_targets of a CostRule is 'my_kernel', not a tuple of names",
        ),
        (
            (CostRule(lambda _: WORK),),
            "package_0:RULES: a CostRule has neither ops nor call_targets",
        ),
    ],
)
def test_wrong_packages_are_one_clear_error(ops, installed: Installed, values, message) -> None:
    installed(*values)
    with pytest.raises(UsageError) as caught:
        compute_op_work(ops[1])
    assert caught.value.message == message


def test_a_package_that_cannot_be_imported(ops, installed: Installed, monkeypatch) -> None:
    installed([EXP])
    monkeypatch.setitem(sys.modules, "package_0", None)
    with pytest.raises(
        UsageError, match="the list of cost rules package_0:RULES cannot be imported: Mod"
    ):
        compute_op_work(ops[0])


def raise_key_error(op: ir.Operation) -> OpWork:
    raise KeyError("tile")


def raise_unknown_cost(op: ir.Operation) -> OpWork:
    raise UnknownCost("the tiles do not fit")


PARTS = (WorkPart("matrix", "bf16", 1),)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (raise_key_error, rf"its cost rule \({__file__}:\d+\) raised KeyError: 'tile'"),
        (raise_unknown_cost, "the tiles do not fit"),
        (lambda _: None, "its cost rule returned NoneType, not OpWork"),
        (lambda _: OpWork("custom", 1.5, 2, PARTS), "its cost rule returned 1.5 as read_bytes"),
        (lambda _: OpWork("custom", 1, -2, PARTS), "its cost rule returned -2 as write_bytes"),
        (lambda _: OpWork("custom", 1, 2, None), "its cost rule returned parts=None"),
        (
            lambda _: OpWork("custom", 1, 2, (WorkPart("matrix", "bf16", float("nan")),)),
            "its cost rule returned nan as flops of the matrix unit",
        ),
        (
            lambda _: OpWork("custom", 1, 2, (WorkPart("tensor", "bf16", 1),)),
            "its cost rule returned a part on the unit 'tensor', not on matrix or vector",
        ),
        (
            lambda _: OpWork("product", 1, 2, PARTS),
            "its cost rule returned the kind 'product', not one of loop, ",
        ),
        (lambda _: OpWork("custom", 1, 2, PARTS, gap=3), "its cost rule returned gap=3"),
        (lambda _: OpWork("custom", 1, 2, PARTS, trips=-1), "returned -1 as trips"),
    ],
)
def test_what_a_rule_raises_or_returns_is_an_error_of_the_op(
    ops, installed: Installed, work, message
) -> None:
    installed(CostRule(work, call_targets=("my_kernel",)))
    with pytest.raises(HespasError, match=message) as caught:
        compute_op_work(ops[0])
    assert caught.value.op_name == "stablehlo.custom_call" and ":3:8" in caught.value.where


def test_a_rule_that_erases_its_op_is_one_error(ops, installed: Installed) -> None:
    def erase_op(op: ir.Operation) -> OpWork:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.erase()
        return OpWork("custom", 1, 2, PARTS)

    installed(CostRule(erase_op, call_targets=("my_kernel",)))
    with pytest.raises(HespasError, match="its cost rule has erased the op"):
        compute_op_work(ops[0])


def test_an_error_may_name_an_op_that_is_gone(ops) -> None:
    ops[0].results[0].replace_all_uses_with(ops[0].operands[0])
    ops[0].erase()
    assert str(HespasError("the op went", op=ops[0])) == "error: the op went"
