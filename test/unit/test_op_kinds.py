"""Sets of ops are declared once and treat StableHLO and MHLO alike."""

from __future__ import annotations

import ast

from support.paths import ROOT

from hespas.dialects import attrs, op_kinds
from hespas.estimators.work import find_cost_rule

PACKAGES = ("chakra", "estimators", "frontends", "passes", "simulators", "tools", "workflows")


def test_no_other_module_lists_custom_call_targets() -> None:
    declared = op_kinds.FREE_CALL_TARGETS | op_kinds.COLLECTIVE_CALL_TARGETS
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    repeated = declared & set(node.value.split())
                    assert not repeated, f"{path}:{node.lineno} repeats {repeated} of op_kinds"


def get_group(name: str) -> str:
    rule = find_cost_rule(name)
    assert rule is not None, name
    return rule.group


def test_every_collective_has_a_kind_and_a_rule() -> None:
    assert set(op_kinds.COMM_KIND_BY_NAME.values()) == set(attrs.COMM_KINDS)
    for name in op_kinds.COLLECTIVES:
        assert name.partition(".")[2] in op_kinds.COMM_KIND_BY_NAME
        assert get_group(name) == "collective"
    assert op_kinds.COMM_KIND_BY_NAME.keys() >= op_kinds.COLLECTIVE_CALL_TARGETS


def test_rules_agree_with_the_sets() -> None:
    assert {get_group(name) for name in op_kinds.FREE_OPS} == {"free"}
    assert {get_group(name) for name in op_kinds.TERMINATORS} == {"terminator"}
    assert {get_group(name) for name in op_kinds.CONTROL} == {"control"}
