"""The facts of a program: figures and names that the exporter knows, ``hespas.facts`` of a module.

Figures of a step, such as its tokens, are of the program that they were written for. A fact beside
them tells which one that is, so that the figures count for nothing once another tool has changed
the batch or the number of devices. The passes of hespas divide and compile a program, which changes
neither: they bring this fact up to date.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hespas.dialects.attr_codec import iterate_module_dictionary
from hespas.dialects.attrs import FACTS
from hespas.dialects.mlir import (
    decode_string_attr,
    ir,
    to_f64_attr,
    to_i64_attr,
)
from hespas.dialects.op_kinds import NUM_PARTITIONS, NUM_REPLICAS, find_entry_function
from hespas.support.errors import HespasError

Fact = int | float | str
STEP_FIGURES = frozenset(
    ("parameters", "tokens_per_step", "samples_per_step", "images_per_step", "flops_per_step")
)
STEP_PROGRAM = "step_program"  # the fact of the digest of the program that these figures are of


EXPORTED_FOR = "exported_for"  # the fact that lists platforms, in the order of their numbers
_SEPARATOR = ", "


class _StepProgram(NamedTuple):
    """What tells the work of a step: the type of the entry function, and the stated devices."""

    signature: ir.Attribute
    device_counts: tuple[str, ...]


def read_program_facts(module: ir.Module) -> dict[str, Fact]:
    """Return the facts in ``hespas.facts``, or an empty dictionary.

    Raises:
        HespasError: The attribute has another form.
    """
    facts: dict[str, Fact] = {}
    for name, value in iterate_module_dictionary(module, FACTS):
        if not isinstance(value, (ir.IntegerAttr, ir.FloatAttr, ir.StringAttr)):
            message = f"{FACTS}: {name} must be a number or a string, not {value}"
            raise HespasError(message, op=module.operation)
        if isinstance(value, ir.FloatAttr) and not math.isfinite(value.value):
            raise HespasError(f"{FACTS}: {name} is {value.value}", op=module.operation)
        facts[name] = decode_string_attr(value) if isinstance(value, ir.StringAttr) else value.value
    return facts


def read_current_facts(module: ir.Module) -> dict[str, Fact]:
    """Return the facts without figures of a step that are of another program."""
    facts, stale = read_program_facts(module), list_stale_figures(module)
    return {name: value for name, value in facts.items() if name not in stale}


def list_stale_figures(module: ir.Module) -> list[str]:
    """List the figures of a step that are not those of the program as it is now."""
    facts = read_program_facts(module)
    if STEP_PROGRAM not in facts or facts[STEP_PROGRAM] == _digest_program(_read_program(module)):
        return []
    return sorted(STEP_FIGURES & facts.keys())


def write_program_facts(module: ir.Module, facts: Mapping[str, Fact]) -> None:
    """Set ``hespas.facts``, in place of existing facts.

    Figures of a step are those of the program as it is, unless the facts say of which they are.
    """
    if STEP_FIGURES & facts.keys() and STEP_PROGRAM not in facts:
        digest = _digest_program(_read_program(module))
        facts = {**facts, STEP_PROGRAM: digest} if digest else facts
    context = module.context
    entries = {name: _build_fact_attr(value, context) for name, value in facts.items()}
    module.operation.attributes[FACTS] = ir.DictAttr.get(entries, context)


def record_exported_platforms(module: ir.Module, platforms: Sequence[str]) -> None:
    """Write the platforms that ``jax.export`` has exported a module for as a fact, or remove it."""
    facts = read_program_facts(module)
    if platforms:
        write_program_facts(module, {**facts, EXPORTED_FOR: _SEPARATOR.join(platforms)})
    elif facts.pop(EXPORTED_FOR, None) is not None and facts:
        write_program_facts(module, facts)
    elif not facts and FACTS in module.operation.attributes:
        del module.operation.attributes[FACTS]


def read_exported_platforms(module: ir.Module) -> list[str]:
    """Return the platforms that a module was exported for; empty if it does not say so."""
    text = str(read_program_facts(module).get(EXPORTED_FOR, ""))
    return text.split(_SEPARATOR) if text else []


@contextlib.contextmanager
def keep_step_figures(module: ir.Module) -> Iterator[None]:
    """Keep figures of a step true while hespas itself changes the form of a program."""
    if FACTS not in module.operation.attributes:  # as of most modules in pipelines
        yield
        return
    before = _read_program(module)
    yield
    if before != _read_program(module):
        facts = read_program_facts(module)
        if facts.get(STEP_PROGRAM) == _digest_program(before):
            del facts[STEP_PROGRAM]
            write_program_facts(module, facts)


def _read_program(module: ir.Module) -> _StepProgram | None:
    """Return what tells the work of a step; None if the module has no entry function."""
    try:
        entry = find_entry_function(module)
    except HespasError:
        return None
    attributes = module.operation.attributes
    counts = tuple([str(attributes.get(name)) for name in (NUM_PARTITIONS, NUM_REPLICAS)])
    return _StepProgram(entry.attributes["function_type"], counts)


def _digest_program(program: _StepProgram | None) -> str:
    """Digest the shapes of arguments and results, and the devices; "" without a program.

    Element types do not count: a pass that makes them narrower changes no figure of the model.
    """
    if program is None:
        return ""
    signature = ir.FunctionType(ir.TypeAttr(program.signature).value)
    shapes = [
        [kind.shape if isinstance(kind, ir.ShapedType) else str(kind) for kind in kinds]
        for kinds in (signature.inputs, signature.results)
    ]
    return hashlib.sha256(repr((shapes, program.device_counts)).encode()).hexdigest()[:16]


def _build_fact_attr(value: Fact, context: ir.Context) -> ir.Attribute:
    if isinstance(value, str):
        return ir.StringAttr.get(value, context)
    if isinstance(value, float) or value >= 2**63:  # the operations of a step on 2,048 devices
        return to_f64_attr(value, context)
    return to_i64_attr(value, context)
