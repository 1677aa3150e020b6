"""What the values of a program are to a model, as far as names tell: parameters, activations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hespas.dialects.mlir import get_attribute, ir
from hespas.estimators.rules.base import DynamicShape, to_buffer_size
from hespas.support.errors import find_framework_name

PARAMETER, OPTIMIZER, OTHER = "parameter", "optimizer", "other argument"
CONSTANT, RESULT, ACTIVATION, TEMPORARY = "constant", "result", "activation", "temporary"
# Words in the names of arguments, as in state.opt_state[0].mu['params']['wq']. The first one tells:
# what is further in is the name of a layer, as in params['mu'].
_ROLES = dict.fromkeys(
    ("opt", "opt_state", "optimizer", "optimizer_state", "mu", "nu", "momentum"), OPTIMIZER
) | dict.fromkeys(("param", "params", "parameters", "weights"), PARAMETER)
_BACKWARD = "transpose("  # of JAX's names: transpose(jvp(f))/mul


def classify_arguments(entry: ir.Operation) -> list[str] | None:
    """What each argument of the program is, by name; None where no name tells."""
    roles = [
        _classify_name(find_framework_name(value.location))
        for value in entry.regions[0].blocks[0].arguments
    ]
    return roles if any(role != OTHER for role in roles) else None


def _classify_name(name: str) -> str:
    return next((_ROLES[word] for word in re.findall(r"\w+", name) if word in _ROLES), OTHER)


def is_backward(location: ir.Location) -> bool:
    """Whether JAX names an op as part of the backward pass."""
    return _BACKWARD in find_framework_name(location)


def find_replaced_arguments(module: ir.Module, entry: ir.Operation, results: int) -> dict[int, int]:
    """The arguments whose memory a result takes, by number, and the number of that result.

    They are named on the argument (``tf.aliasing_output``), on the module
    (``mhlo.input_output_alias``), or offered for any result of the size (``jax.buffer_donor``).
    """
    result_by_argument: dict[int, int] = {}
    offered: list[int] = []
    argument_attributes: Sequence[Any] = (
        get_attribute(entry, "arg_attrs") if "arg_attrs" in entry.attributes else ()
    )
    for number, attributes in enumerate(argument_attributes):
        if "tf.aliasing_output" in attributes:
            result_by_argument[number] = attributes["tf.aliasing_output"].value
        elif "jax.buffer_donor" in attributes and attributes["jax.buffer_donor"].value:
            offered.append(number)
    if "mhlo.input_output_alias" in module.operation.attributes:
        for pair in get_attribute(module.operation, "mhlo.input_output_alias"):
            if not list(pair["alias"]["parameter_index"]):
                output = list(pair["output_index"])
                result_by_argument[pair["alias"]["parameter_number"].value] = (
                    output[0] if output else 0
                )
    if offered:
        _match_donated_arguments(entry, offered, result_by_argument)
    arguments = len(entry.regions[0].blocks[0].arguments)
    return {a: r for a, r in result_by_argument.items() if a < arguments and r < results}


def _match_donated_arguments(
    entry: ir.Operation, offered: Sequence[int], result_by_argument: dict[int, int]
) -> None:
    """Give each offered argument the first free result of its size."""
    kind = get_attribute(entry, "function_type").value
    assigned_results = set(result_by_argument.values())
    try:
        free = {
            number: to_buffer_size(result).bytes
            for number, result in enumerate(kind.results)
            if number not in assigned_results
        }
        donated_sizes = [(number, to_buffer_size(kind.inputs[number]).bytes) for number in offered]
    except DynamicShape:
        return  # reading the program says so
    for argument, size in donated_sizes:
        for number, other in free.items():
            if other == size:
                result_by_argument[argument] = number
                del free[number]
                break
