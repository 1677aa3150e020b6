"""The roles of values in a model (parameters, activations ...), as far as names show them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hespas.dialects.mlir import DONATED, get_attribute, ir, read_boundary_attrs, require_kind
from hespas.estimators.rules.base import DynamicShape, to_buffer_size
from hespas.support.errors import HespasError, find_framework_name

ALIASED = "tf.aliasing_output"  # of an argument: the result that is written to its buffer
MODULE_ALIASES = "mhlo.input_output_alias"  # of the module: the same, as XLA states it
PARAMETER, OPTIMIZER, OTHER = "parameter", "optimizer", "other argument"
CONSTANT, RESULT, ACTIVATION, TEMPORARY = "constant", "result", "activation", "temporary"
# Words in the names of arguments, such as state.opt_state[0].mu['params']['wq']. The first of them
# determines the role, because later words may be names of layers, such as in params['mu'].
_ROLES = dict.fromkeys(
    ("opt", "opt_state", "optimizer", "optimizer_state", "mu", "nu", "momentum"), OPTIMIZER
) | dict.fromkeys(("param", "params", "parameters", "weights"), PARAMETER)
_BACKWARD = "transpose("  # in JAX's names of backward ops: transpose(jvp(f))/mul


def classify_arguments(entry: ir.Operation) -> list[str] | None:
    """Classify the arguments of a program by their names; None if no name shows a role."""
    roles = [
        _classify_name(find_framework_name(value.location))
        for value in entry.regions[0].blocks[0].arguments
    ]
    return roles if any(role != OTHER for role in roles) else None


def _classify_name(name: str) -> str:
    return next((_ROLES[word] for word in re.findall(r"\w+", name) if word in _ROLES), OTHER)


def is_backward(location: ir.Location) -> bool:
    """Return whether the name that JAX gives to an op is of the backward pass."""
    return _BACKWARD in find_framework_name(location)


def find_replaced_arguments(module: ir.Module, entry: ir.Operation, results: int) -> dict[int, int]:
    """Map the numbers of arguments to the numbers of the results that use their buffers.

    An attribute on the argument (``tf.aliasing_output``) or on the module
    (``mhlo.input_output_alias``) names the result; an argument with ``jax.buffer_donor`` is donated
    to any result of its size. ``results`` is the number of results.
    """
    result_by_argument: dict[int, int] = {}
    donated: list[int] = []
    for number, attributes in enumerate(read_boundary_attrs(entry, "arg_attrs")):
        if ALIASED in attributes:
            result = require_kind(attributes[ALIASED], ir.IntegerAttr, ALIASED, entry)
            result_by_argument[number] = result.value
        elif DONATED in attributes and _is_donated(attributes[DONATED], entry):
            donated.append(number)
    result_by_argument |= _read_module_aliases(module.operation)
    if donated:
        _match_donated_arguments(entry, donated, result_by_argument)
    arguments = len(entry.regions[0].blocks[0].arguments)
    return {
        argument: result
        for argument, result in result_by_argument.items()
        if 0 <= argument < arguments and 0 <= result < results
    }


def _is_donated(attr: ir.Attribute, entry: ir.Operation) -> bool:
    is_unit = isinstance(attr, ir.UnitAttr)
    return is_unit or require_kind(attr, ir.BoolAttr, DONATED, entry).value


def _read_module_aliases(module_op: ir.Operation) -> dict[int, int]:
    """Map arguments to results as the module states, without parts of tuples."""
    result_by_argument: dict[int, int] = {}
    if MODULE_ALIASES not in module_op.attributes:
        return result_by_argument
    stated: Any = module_op.attributes[MODULE_ALIASES]
    try:
        for pair in stated:
            if not list(pair["alias"]["parameter_index"]):
                output = list(pair["output_index"])
                number = pair["alias"]["parameter_number"].value
                result_by_argument[number] = int(output[0]) if output else 0
    except (AttributeError, KeyError, TypeError):
        raise HespasError(
            f"{MODULE_ALIASES} is {stated}, not as XLA writes it",
            op=module_op,
            remedy="correct it, or remove it",
        ) from None
    return result_by_argument


def _match_donated_arguments(
    entry: ir.Operation, donated: Sequence[int], result_by_argument: dict[int, int]
) -> None:
    """Assign to each donated argument the first result of its size that has no buffer yet."""
    kind = get_attribute(entry, "function_type").value
    assigned_results = set(result_by_argument.values())
    try:
        free_results = {
            number: to_buffer_size(result).bytes
            for number, result in enumerate(kind.results)
            if number not in assigned_results
        }
        donated_sizes = [(number, to_buffer_size(kind.inputs[number]).bytes) for number in donated]
    except DynamicShape:
        return  # Reading the program has already reported it.
    for argument, size in donated_sizes:
        for number, result_size in free_results.items():
            if result_size == size:
                result_by_argument[argument] = number
                del free_results[number]
                break
