"""The work of LAPACK, cuSOLVER, cuBLAS, cuSPARSE, hipSOLVER and MAGMA routines that JAX calls.

Operations are the leading terms of Blackford and Dongarra, "Installation guide for LAPACK" (LAPACK
Working Note 41), appendix C. Those of iterative eigenvalue and singular value routines are from
Golub and Van Loan, "Matrix computations". They run at the vector rate: XLA does not allow TF32 in
these routines, and the panel factorisations that bound them do not use the matrix units.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from hespas.dialects.mlir import get_call_target, ir
from hespas.estimators.rules.base import OpWork, build_vector_parts, list_operand_sizes
from hespas.estimators.rules.library_calls import count_output_bytes, list_output_sizes
from hespas.estimators.rules.numerics import COMPLEX_FACTOR


def _count_lu_flops(m: int, n: int) -> float:
    short, long = min(m, n), max(m, n)
    return short * short * (long - short / 3)


def _count_qr_flops(m: int, n: int) -> float:
    short, long = min(m, n), max(m, n)
    return 2 * short * short * (long - short / 3)


def _count_svd_flops(m: int, n: int) -> float:
    short, long = min(m, n), max(m, n)
    return 6 * long * short**2 + 20 * short**3  # R-SVD with both sets of vectors


# (pattern in the target, operations for an m x n matrix); the first match applies.
_ROUTINES: tuple[tuple[str, Callable[[int, int], float]], ...] = (
    (r"lu_pivots", lambda m, n: m * n),
    (r"getrf|LuDecomposition", _count_lu_flops),
    (r"potrf|cholesky|Cholesky", lambda m, n: n**3 / 3),
    (r"geqp3|geqrf|Qr", _count_qr_flops),
    (r"orgqr|ungqr|Householder", _count_qr_flops),
    (r"syev|heev|Eigh", lambda m, n: 9 * n**3),
    (r"gesdd|gesv[dj]|gesvdj|gesvdp|gesvda", _count_svd_flops),
    (r"geev|eig_(real|comp)", lambda m, n: 25 * n**3),
    (r"gees", lambda m, n: 25 * n**3),
    (r"gehrd", lambda m, n: 10 * n**3 / 3),
    (r"sytrd|hetrd", lambda m, n: 4 * n**3 / 3),
    (r"gtsv", lambda m, n: 3 * m + 5 * m * n),  # Thomas algorithm: factors, n right-hand sides
    (r"syrk", lambda m, n: m * m * n),  # a times its transpose, of which half is computed
)
_SOLVE = r"trsm|triangularSolve"
_APPLY = r"ormqr|unmqr"
_NAMES = "|".join([_SOLVE, _APPLY, *(pattern for pattern, _ in _ROUTINES)])
# JAX computes some on the CPU of a machine with a GPU, or with MAGMA, and calls them "hybrid".
LINALG_CALL = (
    rf"(lapack|magma|(cu|hip)(solver|blas|sparse|hybrid)?)_\w*({_NAMES})\w*"
    r"|blas_[sdcz]trsm|__cusolver\$cholesky|__cublas\$triangularSolve|Cholesky|Qr|Eigh"
    r"|LuDecomposition|ProductOfElementaryHouseholderReflectors|HouseholderProduct"
)


def compute_linalg_work(op: ir.Operation, _: Mapping[str, Any]) -> OpWork:
    """Compute the work of a routine on a batch: the operand with the most dimensions."""
    target = get_call_target(op)
    sizes = list_operand_sizes(op)
    read = sum(size.bytes for size in sizes)
    if re.search(_APPLY, target):
        # The reflectors are columns of the first operand, and turn the rows or columns of a matrix.
        out, length, count = list_output_sizes(op)[0], sizes[0].shape[-2], sizes[1].shape[-1]
        factor = COMPLEX_FACTOR if out.is_complex else 1
        flops = 2 * count * (2 * length - count) * (out.elements // length)
        parts = build_vector_parts(out.key, factor * flops)
        return OpWork("linalg", read, count_output_bytes(op), parts)
    if re.search(_SOLVE, target):
        # The solution has the shape of the right-hand side; the triangular matrix is square.
        out = list_output_sizes(op)[0]
        square = next((s for s in sizes if len(s.shape) > 1 and s.shape[-1] == s.shape[-2]), out)
        factor = COMPLEX_FACTOR if out.is_complex else 1
        parts = build_vector_parts(out.key, factor * out.elements * square.shape[-1])
        return OpWork("linalg", read, count_output_bytes(op), parts)
    flops = next(count for pattern, count in _ROUTINES if re.search(pattern, target))
    data = max(sizes, key=lambda size: len(size.shape))
    m, n = data.shape[-2:] if len(data.shape) > 1 else (data.elements, 1)
    count = data.elements // max(m * n, 1) * round(flops(m, n))
    count *= COMPLEX_FACTOR if data.is_complex else 1
    return OpWork("linalg", read, count_output_bytes(op), build_vector_parts(data.key, count))
