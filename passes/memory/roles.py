"""What the values of a program are to a model, as far as names tell: parameters, activations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hespas.dialects.errors import name_of
from hespas.dialects.mlir import attribute, ir
from hespas.estimators.rules.base import DynamicShape, buffer

PARAMETER, OPTIMIZER, OTHER = "parameter", "optimizer", "other argument"
CONSTANT, RESULT, ACTIVATION, TEMPORARY = "constant", "result", "activation", "temporary"
# Words in the names of arguments, as in state.opt_state[0].mu['params']['wq']. The first one tells:
# what is further in is the name of a layer, as in params['mu'].
_ROLES = dict.fromkeys(
    ("opt", "opt_state", "optimizer", "optimizer_state", "mu", "nu", "momentum"), OPTIMIZER
) | dict.fromkeys(("param", "params", "parameters", "weights"), PARAMETER)
_BACKWARD = "transpose("  # of JAX's names: transpose(jvp(f))/mul


def argument_roles(entry: ir.Operation) -> list[str] | None:
    """What each argument of the program is, by name; None where no name tells."""
    roles = [_role(name_of(value.location)) for value in entry.regions[0].blocks[0].arguments]
    return roles if any(role != OTHER for role in roles) else None


def _role(name: str) -> str:
    return next((_ROLES[word] for word in re.findall(r"\w+", name) if word in _ROLES), OTHER)


def is_backward(location: ir.Location) -> bool:
    """Whether JAX names an op as part of the backward pass."""
    return _BACKWARD in name_of(location)


def replaced(module: ir.Module, entry: ir.Operation, results: int) -> dict[int, int]:
    """The arguments whose memory a result takes, by number, and the number of that result.

    They are named on the argument (``tf.aliasing_output``), on the module
    (``mhlo.input_output_alias``), or offered for any result of the size (``jax.buffer_donor``).
    """
    found: dict[int, int] = {}
    offered: list[int] = []
    given: Sequence[Any] = attribute(entry, "arg_attrs") if "arg_attrs" in entry.attributes else ()
    for number, attributes in enumerate(given):
        if "tf.aliasing_output" in attributes:
            found[number] = attributes["tf.aliasing_output"].value
        elif "jax.buffer_donor" in attributes and attributes["jax.buffer_donor"].value:
            offered.append(number)
    if "mhlo.input_output_alias" in module.operation.attributes:
        for pair in attribute(module.operation, "mhlo.input_output_alias"):
            if not list(pair["alias"]["parameter_index"]):
                output = list(pair["output_index"])
                found[pair["alias"]["parameter_number"].value] = output[0] if output else 0
    if offered:
        _match(entry, offered, found)
    arguments = len(entry.regions[0].blocks[0].arguments)
    return {a: r for a, r in found.items() if a < arguments and r < results}


def _match(entry: ir.Operation, offered: Sequence[int], found: dict[int, int]) -> None:
    """Give each offered argument the first free result of its size."""
    kind = attribute(entry, "function_type").value
    taken = set(found.values())
    try:
        free = {
            number: buffer(result).bytes
            for number, result in enumerate(kind.results)
            if number not in taken
        }
        wanted = [(number, buffer(kind.inputs[number]).bytes) for number in offered]
    except DynamicShape:
        return  # reading the program says so
    for argument, size in wanted:
        for number, other in free.items():
            if other == size:
                found[argument] = number
                del free[number]
                break
