"""PyTorch's ops with functions as arguments, such as ``torch.cond`` and ``scan``, in JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Run = Callable[..., Sequence[Any]]
"""Runs a traced graph on operands."""


def apply_cond(
    run: Run, predicate: Any, true_graph: Any, false_graph: Any, operands: Sequence[Any] = ()
) -> Sequence[Any]:
    """Run one of two graphs."""
    if isinstance(predicate, bool):
        return run(true_graph if predicate else false_graph, *operands)
    arrays = [jnp.asarray(x) for x in operands]
    results = jax.eval_shape(lambda *values: tuple(run(true_graph, *values)), *arrays)

    def run_false_graph(*values: Any) -> tuple[Any, ...]:
        return _cast_like(run(false_graph, *values), results)

    return jax.lax.cond(
        predicate.reshape(()), lambda *values: tuple(run(true_graph, *values)), run_false_graph,
        *arrays,
    )  # fmt: skip


def apply_while_loop(
    run: Run,
    condition: Any,
    body: Any,
    carried: Sequence[Any],
    additional: Sequence[Any] = (),
) -> Sequence[Any]:
    """Run a graph on its results while another one yields true."""
    start = tuple(jnp.asarray(x) for x in carried)

    def is_running(values: tuple[Any, ...]) -> Any:
        result = run(condition, *values, *additional)
        return jnp.asarray(result[0] if isinstance(result, (list, tuple)) else result).reshape(())

    def run_body(values: tuple[Any, ...]) -> tuple[Any, ...]:
        return _cast_like(run(body, *values, *additional), start)

    return jax.lax.while_loop(is_running, run_body, start)


def apply_scan(
    run: Run,
    combine: Any,
    initial: Sequence[Any],
    rows: Sequence[Any],
    additional: Sequence[Any] = (),
) -> Sequence[Any]:
    """Run a graph on each row of arrays, with values that each run hands to the next."""
    start = tuple(jnp.asarray(x) for x in initial)

    def run_row(carried: tuple[Any, ...], row: tuple[Any, ...]) -> tuple[Any, Any]:
        results = run(combine, *carried, *row, *additional)
        return _cast_like(results[: len(start)], start), tuple(results[len(start) :])

    last, stacked = jax.lax.scan(run_row, start, tuple(rows))
    return [*last, *stacked]


def apply_associative_scan(
    run: Run, combine: Any, rows: Sequence[Any], additional: Sequence[Any] = ()
) -> Sequence[Any]:
    """Combine all rows up to each one, by a graph that combines two of them elementwise."""

    def combine_rows(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        return _cast_like(run(combine, *left, *right, *additional), left)

    return jax.lax.associative_scan(jax.vmap(combine_rows), tuple(rows))


def apply_subgraph(run: Run, graph: Any, identifier: Any, *operands: Any) -> Sequence[Any]:
    """Run a graph that a program has several times, as ``invoke_subgraph``."""
    return run(graph, *operands)


def _cast_like(values: Sequence[Any], likes: Sequence[Any]) -> tuple[Any, ...]:
    """Convert values to the types of others; JAX demands that both are equal."""
    pairs = zip(values, likes, strict=True)
    return tuple(jnp.asarray(value, like.dtype) for value, like in pairs)


FUNCTIONS: dict[str, Callable[..., Sequence[Any]]] = {
    "associative_scan": apply_associative_scan,
    "cond": apply_cond,
    "invoke_subgraph": apply_subgraph,
    "scan": apply_scan,
    "while_loop": apply_while_loop,
}
"""The functions of ops by their names."""
