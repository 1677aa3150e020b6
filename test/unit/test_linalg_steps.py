"""Factorisations: measured times of single matrices and of batches, within a factor of two."""

from __future__ import annotations

import pytest

from hespas import configs
from hespas.dialects.mlir import collect_functions
from hespas.estimators.base import CostItem
from hespas.estimators.calibrated.calibrated_estimator import CalibratedConfig, CalibratedEstimator

# (routine, batch, rows, columns, node, measured milliseconds, source)
MEASURED = [
    ("cusolver_syevd_ffi", 16, 1024, 1024, "V100_16GB", 900, "jax-ml/jax#10180"),
    ("cusolver_syevd_ffi", 500, 100, 100, "A100_SXM_80GB", 914, "pytorch/pytorch#174674"),
    ("cusolver_syevd_ffi", 128, 32, 32, "H100_80GB", 0.26, "jax-ml/jax#31368"),
    ("cusolver_getrf_ffi", 1, 4096, 4096, "V100_16GB", 41, "jax-ml/jax#9694"),
    ("cusolver_getrf_ffi", 1, 4096, 4096, "A100_SXM_80GB", 44, "jax-ml/jax#9694"),
    ("cusolver_potrf_ffi", 1, 16, 16, "H100_80GB", 0.0348, "pytorch/pytorch#173515"),
    ("cusolver_potrf_ffi", 1, 128, 128, "H100_80GB", 0.1086, "pytorch/pytorch#173515"),
    ("cusolver_potrf_ffi", 1, 512, 512, "H100_80GB", 0.3761, "pytorch/pytorch#173515"),
    ("cusolver_potrf_ffi", 1, 2048, 2048, "H100_80GB", 1.954, "pytorch/pytorch#173515"),
    ("cusolver_potrf_ffi", 16, 512, 512, "H100_80GB", 0.8349, "pytorch/pytorch#173515"),
    ("cusolver_potrf_ffi", 64, 512, 512, "H100_80GB", 1.2614, "pytorch/pytorch#173515"),
    ("cusolver_potrf_ffi", 64, 128, 128, "L40S_48GB", 0.223, "ml-explore/mlx#4208"),
    ("cusolver_potrf_ffi", 256, 32, 32, "L40S_48GB", 0.089, "ml-explore/mlx#4208"),
    ("cusolver_gesvdj_ffi", 300, 900, 100, "V100_16GB", 1609, "pytorch/pytorch#41306"),
    ("cusolver_gesvdj_ffi", 1000, 60, 3, "V100_16GB", 292, "pytorch/pytorch#41306"),
    ("cusolver_gesvdj_ffi", 100, 10, 10, "V100_16GB", 0.2987, "pytorch/pytorch#41306"),
    ("cusolver_gesvd_ffi", 300, 900, 100, "V100_16GB", 2811, "pytorch/pytorch#41306"),
    ("cusolver_gesvd_ffi", 1000, 60, 3, "V100_16GB", 226, "pytorch/pytorch#41306"),
    ("cusolver_gesvd_ffi", 100, 10, 10, "V100_16GB", 45.8, "pytorch/pytorch#41306"),
]


@pytest.fixture
def estimate(parse):
    def estimate_call(target, batch, rows, columns, node, dtype="f32"):
        matrix = f"tensor<{batch}x{rows}x{columns}x{dtype}>"
        module = parse(
            f"func.func @main(%a: {matrix}) {{\n"
            f"%0 = stablehlo.custom_call @{target}(%a) : ({matrix}) -> {matrix}\nreturn\n}}"
        )
        op = collect_functions(module)["main"].regions[0].blocks[0].operations[0].operation
        config = CalibratedConfig(configs.load_node(node))
        return CalibratedEstimator(config).estimate(CostItem(op))

    return estimate_call


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: "-".join(map(str, row[:4])))
def test_measured_factorisations_are_within_a_factor_of_two(estimate, row):
    *call, measured_ms, _ = row
    cost = estimate(*call)
    assert measured_ms / 2 < 1e-6 * cost.latency_ns < measured_ms * 2
    assert cost.low_ns <= 1e6 * measured_ms <= cost.high_ns
    assert cost.high_ns < 4 * cost.low_ns


@pytest.mark.parametrize("routine", ["syevd", "gesvd", "orgqr"])
def test_matrices_of_a_batch_run_one_after_the_other(estimate, routine):
    one, many = (estimate(f"cusolver_{routine}_ffi", b, 256, 256, "H100_80GB") for b in (1, 32))
    assert many.latency_ns == pytest.approx(32 * one.latency_ns, rel=0.01)


@pytest.mark.parametrize(("routine", "size"), [("getrf", 128), ("geqrf", 64), ("gesvdj", 32)])
def test_small_matrices_of_a_batch_run_together(estimate, routine, size):
    """By jaxlib's rules: 128 columns for each matrix of a batch, 32 of Jacobi's method."""
    one, many = (estimate(f"cusolver_{routine}_ffi", b, size, size, "H100_80GB") for b in (1, 64))
    assert many.latency_ns < 3 * one.latency_ns


@pytest.mark.parametrize("routine", ["potrf", "getrf", "geqrf", "syevd", "gesvdj", "gesvd"])
def test_time_grows_with_the_matrices(estimate, routine):
    target = f"cusolver_{routine}_ffi"
    # From 1024 / 128 matrices on, one call factorises them together, and takes less time.
    for shapes in ([(1, 2**k) for k in range(4, 13)], [(2**k, 1024) for k in range(3)]):
        times = [estimate(target, b, n, n, "A100_SXM_80GB").latency_ns for b, n in shapes]
        assert times == sorted(times)


def test_double_precision_is_bound_by_its_rate(estimate):
    """A T4 takes four to five minutes for 10,000 x 10,000 in f64 (jax-ml/jax#2980); L4 alike."""
    cost = estimate("cusolver_gesvd_ffi", 1, 10000, 10000, "L4_24GB", "f64")
    assert 60e9 < cost.latency_ns < 400e9
