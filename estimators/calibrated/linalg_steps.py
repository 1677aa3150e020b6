"""The sequential part of factorisations on GPUs, which takes most of their time.

A factorisation goes column by column, with a few kernels for each that depend on the one before.
cuSOLVER's times of one matrix of n columns are described by

    fixed + n (step + growth n)

and the operations of the work at the peak rate beside. JAX calls cuSOLVER for one matrix of a batch
after the other, but for some routines on small matrices, which one call factorises together
(jaxlib/gpu/solver_kernels_ffi.cc). The constants are those of public measurements, within a factor
of two of each:

- LU: 4096 columns in 41 ms on V100 and 44 ms on A100 (jax-ml/jax#9694).
- Eigenvalues and vectors: 16 matrices of 1024 in 0.90 s on V100 (jax-ml/jax#10180); 500 of 100 in
  914 ms (pytorch/pytorch#174674); up to 128 matrices of 32 together in 0.26 ms (jax-ml/jax#31368).
- Cholesky: 16 to 2048 columns in 35 us to 1.95 ms, and 16 and 64 matrices of them together in 46 us
  to 22 ms (pytorch/pytorch#173515); on L40S, 32 to 512 columns in 15 us to 331 us (ml-explore/mlx
  pull request 4208).
- Singular values, V100: 900 x 100 in 9.4 ms (gesvd) and 5.4 ms (gesvdj), 60 x 3 in 226 and 292 us,
  100 matrices of 10 together in 299 us (pytorch/pytorch#41306); 64 x 64 in 3.7 ms (cupy/cupy
  pull request 4628).
- Triangular systems: 16 matrices of 16 and of 128 in 15 and 60 us (pytorch/pytorch#175898).

QR, general eigenvalues and tridiagonal reductions were not measured; their steps are those of LU
and of singular values.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from hespas.dialects.mlir import get_call_target, ir
from hespas.dialects.op_kinds import CUSTOM_CALLS
from hespas.estimators.rules.base import list_operand_sizes

BAND_FACTOR = 1.7  # of the measured over the estimated time, either way

_JACOBI_COLUMNS = 32  # up to which one call diagonalises a batch
_BLAS_COLUMNS = 128  # columns for each matrix of a batch, up to which cuBLAS factorises it


@dataclass(frozen=True, slots=True)
class _Routine:
    """The sequential steps of a routine, in microseconds.

    Attributes:
        pattern: A pattern in the target of the call, or the name of the op.
        fixed_us: The time of the call.
        step_us: The time of each column.
        growth_us: The time of each column for each column of the matrix.
        together: Which batches one call factorises: ``none``, ``all``, those of small matrices
            (``jacobi``, ``blas``).
        batch_fixed_us: The time of such a call.
        batch_step_us: The time of each column in it.
        batch_matrix_us: The time of each matrix in it.
    """

    pattern: str
    fixed_us: float
    step_us: float
    growth_us: float = 0.0
    together: str = "none"
    batch_fixed_us: float = 0.0
    batch_step_us: float = 0.0
    batch_matrix_us: float = 0.0


_ROUTINES = (  # the first match applies
    _Routine(r"trsm|triangularSolve|triangular_solve", 10, 0.45, 0, "all", 10, 0.45),
    _Routine(r"lu_pivots|gtsv|syrk", 10, 0),
    _Routine(r"potrf|cholesky|Cholesky", 10, 0.65, 0, "all", 30, 1.1),
    _Routine(r"getrf|LuDecomposition", 10, 8, 0, "blas", 20, 3),
    _Routine(r"geqp3|geqrf|Qr", 10, 8, 0, "blas", 20, 5),
    _Routine(r"orgqr|ungqr|ormqr|unmqr|Householder", 10, 4),
    _Routine(r"syev|heev|Eigh", 0, 14.7, 0.036, "jacobi", 250, 0, 0.5),
    _Routine(r"gesv[dj]*j", 200, 10, 0.2, "jacobi", 280, 0, 0.5),
    _Routine(r"gesv|gesdd", 80, 45, 0.35),
    _Routine(r"geev|eig_(real|comp)|gees", 200, 90, 0.7),
    _Routine(r"gehrd|sytrd|hetrd", 10, 10, 0.018),
)
_OTHER_ROUTINE = _Routine("", 10, 8)


def estimate_steps_s(op: ir.Operation) -> float:
    """Return the seconds of the sequential steps of a factorisation and of its batch."""
    name = get_call_target(op) if op.name in CUSTOM_CALLS else op.name
    routine = next((r for r in _ROUTINES if re.search(r.pattern, name)), _OTHER_ROUTINE)
    matrix = max(list_operand_sizes(op), key=lambda size: (len(size.shape), size.elements))
    rows, columns = matrix.shape[-2:] if len(matrix.shape) > 1 else (matrix.elements, 1)
    count = max(matrix.elements // max(rows * columns, 1), 1)
    short = min(rows, columns)  # of a system too: that of its triangle
    if count > 1 and _is_factorised_together(routine.together, rows, columns, count):
        steps_us = routine.batch_fixed_us + routine.batch_step_us * short
        return 1e-6 * (steps_us + routine.batch_matrix_us * count)
    wide = math.sqrt(rows * columns) if routine.together == "jacobi" else short
    return 1e-6 * count * (routine.fixed_us + short * (routine.step_us + routine.growth_us * wide))


def _is_factorised_together(together: str, rows: int, columns: int, count: int) -> bool:
    if together == "jacobi":
        return max(rows, columns) <= _JACOBI_COLUMNS
    if together == "blas":
        return max(rows, columns) <= _BLAS_COLUMNS * count
    return together == "all"
