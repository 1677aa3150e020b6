"""The backward pass of a stage in two programs: the gradient of its input, and of its weights.

The operations of the backward pass are those of one jaxpr. The first program has those that the
gradient of the input needs; it also returns what the others read of them. The second program has
the others. Nothing is computed twice. The first stage has no gradient of an input: its first
program goes as far as the gradient of the embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Literal

# Calls whose operations are divided; loops are not.
_CALLS = ("jit", "closed_call", "core_call", "checkpoint", "remat2")


class GradientParts(NamedTuple):
    """The operations of a backward pass in two parts, with its variables.

    Attributes:
        closed: All operations.
        first_count: The number of leading results that the first part returns.
        first: The operations of the gradient of the input.
        second: The others.
        shared: The variables that the first part defines and the second part reads or returns.
    """

    closed: ClosedJaxpr
    first_count: int
    first: list[Any]
    second: list[Any]
    shared: list[Any]

    def run_first(self, arguments: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Return the results of the first part, and the shared values."""
        values = self._bind_arguments(arguments)
        evaluate_operations(self.first, values)
        results = self.closed.jaxpr.outvars[: self.first_count]
        return [read_value(values, v) for v in results], [values[v] for v in self.shared]

    def run_second(self, arguments: Sequence[Any], shared: Sequence[Any]) -> list[Any]:
        """Return the results of the second part."""
        values = self._bind_arguments(arguments) | dict(zip(self.shared, shared, strict=True))
        evaluate_operations(self.second, values)
        return [read_value(values, v) for v in self.closed.jaxpr.outvars[self.first_count :]]

    def _bind_arguments(self, arguments: Sequence[Any]) -> dict[Any, Any]:
        jaxpr = self.closed.jaxpr
        constants = zip(jaxpr.constvars, self.closed.consts, strict=True)
        return {**dict(constants), **dict(zip(jaxpr.invars, arguments, strict=True))}


def split_gradients(
    pull_back: Callable[..., tuple[list[Any], list[Any]]], arguments: Sequence[Any]
) -> GradientParts:
    """Divide a backward pass.

    Args:
        pull_back: A function of arrays that returns the results of the first part, and those of the
            second part.
        arguments: The arrays.
    """
    first_count = 0

    def list_results(*leaves: Any) -> list[Any]:
        nonlocal first_count
        first, second = pull_back(*leaves)
        first_count = len(first)
        return [*first, *second]

    nested = jax.make_jaxpr(list_results)(*arguments)
    flat = jax.make_jaxpr(partial(_evaluate_inlined, nested))(*arguments)
    results = flat.jaxpr.outvars
    first = _find_needed_operations(flat.jaxpr.eqns, results[:first_count])
    needed = _find_needed_operations(flat.jaxpr.eqns, results[first_count:])
    done = {id(operation) for operation in first}
    second = [operation for operation in needed if id(operation) not in done]
    made = {variable: None for operation in first for variable in operation.outvars}
    read = {v for operation in second for v in operation.invars if not isinstance(v, Literal)}
    read |= {v for v in results[first_count:] if not isinstance(v, Literal)}
    return GradientParts(flat, first_count, first, second, [v for v in made if v in read])


def _find_needed_operations(operations: Sequence[Any], results: Iterable[Any]) -> list[Any]:
    """Find the operations that results depend on, in order."""
    needed = {variable for variable in results if not isinstance(variable, Literal)}
    selected = []
    for operation in reversed(operations):
        if needed & set(operation.outvars):
            selected.append(operation)
            needed |= {v for v in operation.invars if not isinstance(v, Literal)}
    return selected[::-1]


def _evaluate_inlined(closed: ClosedJaxpr, *arguments: Any) -> list[Any]:
    """Evaluate a jaxpr with its calls inlined."""
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values |= dict(zip(jaxpr.invars, arguments, strict=True))
    evaluate_operations(jaxpr.eqns, values)
    return [read_value(values, variable) for variable in jaxpr.outvars]


def evaluate_operations(operations: Iterable[Any], values: dict[Any, Any]) -> None:
    """Evaluate operations in order, and add their results to ``values`` by variable."""
    for operation in operations:
        inputs = [read_value(values, variable) for variable in operation.invars]
        name = operation.primitive.name
        if name in _CALLS:
            body = operation.params.get("jaxpr") or operation.params["call_jaxpr"]
            body = body if isinstance(body, ClosedJaxpr) else ClosedJaxpr(body, ())
            results = _evaluate_inlined(body, *inputs)
        elif name == "reshape" and operation.outvars[0].aval.shape == inputs[0].shape:
            results = inputs  # JAX adds such reshapes for some kinds of mesh only
        else:
            params = operation.primitive.get_bind_params(operation.params)
            results = operation.primitive.bind(*inputs, **params)
            results = results if operation.primitive.multiple_results else [results]
        values |= zip(operation.outvars, results, strict=True)


def read_value(values: dict[Any, Any], variable: Any) -> Any:
    """Return the value of a variable or a literal."""
    return variable.val if isinstance(variable, Literal) else values[variable]
