"""Functions of square matrices that torchax lacks, or gives too few results of, in JAX.

All of them compute from the factors of one LU decomposition, which are results too.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def solve_equations(
    matrix: Any, right: Any, *, left: bool = True, check_errors: bool = False
) -> tuple[Any, ...]:
    """Solve linear equations; the parameters and results are those of ``aten._linalg_solve_ex``.

    ``right`` has columns, unless its shape is that of one vector for each matrix.
    """
    factors, pivots, _ = jax.lax.linalg.lu(matrix)
    is_vector = right.ndim == 1 or right.shape == matrix.shape[:-1]
    columns = right[..., None] if is_vector else right
    if left:
        result = jax.scipy.linalg.lu_solve((factors, pivots), columns)
    else:
        result = jax.scipy.linalg.lu_solve((factors, pivots), columns.mT, trans=1).mT
    failures = jnp.zeros(matrix.shape[:-2], jnp.int32)
    return result[..., 0] if is_vector else result, factors, pivots + 1, failures


def compute_determinant(matrix: Any) -> tuple[Any, ...]:
    """Compute a determinant; the results are those of ``aten._linalg_det``."""
    factors, pivots, diagonal, sign = _factorise_matrix(matrix)
    return sign * jnp.prod(diagonal, -1), factors, pivots


def compute_log_determinant(matrix: Any) -> tuple[Any, ...]:
    """Compute the logarithm of a determinant; the results are those of ``aten._linalg_slogdet``."""
    factors, pivots, diagonal, sign = _factorise_matrix(matrix)
    logarithm = jnp.sum(jnp.log(jnp.abs(diagonal)), -1)
    return sign * jnp.prod(jnp.sign(diagonal), -1), logarithm, factors, pivots


def _factorise_matrix(matrix: Any) -> tuple[Any, Any, Any, Any]:
    """Return the LU factors, LAPACK's pivots, the diagonal, and the sign of the permutation."""
    factors, pivots, _ = jax.lax.linalg.lu(matrix)
    diagonal = jnp.diagonal(factors, axis1=-2, axis2=-1)
    swaps = jnp.sum(pivots != jnp.arange(matrix.shape[-1]), -1)
    return factors, pivots + 1, diagonal, (1 - 2 * (swaps % 2)).astype(diagonal.dtype)
