"""``hespas.facts``: what is known of a program beside its ops, written when it is exported."""

from __future__ import annotations

from collections.abc import Mapping

from hespas.dialects.attrs import FACTS
from hespas.dialects.mlir import ir, to_f64_attr, to_i64_attr
from hespas.support.errors import HespasError

Fact = int | float | str


def read_program_facts(module: ir.Module) -> dict[str, Fact]:
    """What a module's exporter knew of the program; raises HespasError."""
    attributes = module.operation.attributes
    if FACTS not in attributes:
        return {}
    attr = attributes[FACTS]
    if not isinstance(attr, ir.DictAttr):
        raise HespasError(f"{FACTS} must be a dictionary", op=module.operation)
    known_facts: dict[str, Fact] = {}
    for entry in attr:
        value = attr[entry.name]
        if not isinstance(value, (ir.IntegerAttr, ir.FloatAttr, ir.StringAttr)):
            message = f"{FACTS}: {entry.name} must be a number or a string, not {value}"
            raise HespasError(message, op=module.operation)
        known_facts[entry.name] = value.value
    return known_facts


def write_program_facts(module: ir.Module, known: Mapping[str, Fact]) -> None:
    """Write what is known of the program beside its ops."""
    module.operation.attributes[FACTS] = ir.DictAttr.get(
        {name: _to_fact_attr(value, module.context) for name, value in known.items()},
        module.context,
    )


def _to_fact_attr(value: Fact, context: ir.Context) -> ir.Attribute:
    if isinstance(value, str):
        return ir.StringAttr.get(value, context)
    return to_f64_attr(value, context) if isinstance(value, float) else to_i64_attr(value, context)
