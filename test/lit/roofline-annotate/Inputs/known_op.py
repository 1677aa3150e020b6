"""A rule for an op that has one."""

from hespas.plugin import CostRule, OpWork, ir


def compute_tanh_work(op: ir.Operation) -> OpWork:
    return OpWork("custom", 16, 16, ())


RULES = [CostRule(compute_tanh_work, ops=("stablehlo.tanh",))]
