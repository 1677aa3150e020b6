"""The cost of an op of a dialect that hespas does not know."""

from hespas.plugin import CostRule, OpWork, WorkPart, ir


def compute_bar_work(op: ir.Operation) -> OpWork:
    return OpWork("custom", 16, 16, (WorkPart("vector", "f32", 7000),))


RULES = [CostRule(compute_bar_work, ops=("foo.bar",))]
