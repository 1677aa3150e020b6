"""The bytes that products of XLA:TPU read again, by their windows."""

from __future__ import annotations

import pytest
from support.hlo import read_hlo_program

from hespas import configs
from hespas.estimators.calibrated.device_constants import DeviceConstants
from hespas.estimators.calibrated.kernel_times import estimate_product_time
from hespas.estimators.product_shapes import MatrixProduct
from hespas.passes.compile.hlo_program import read_frontend_value
from hespas.passes.compile.tpu_windows import REFETCHED_BYTES, keep_refetched_bytes

# A gradient of an MLP as XLA:TPU computes it for TPU v5e: the left operand is a product of two.
PRODUCT = """HloModule gradient

%fused {
  %p0 = bf16[6,2048,28672]{2,1,0:T(8,128)(2,1)} parameter(0)
  %p1 = bf16[6,2048,28672]{2,1,0:T(8,128)(2,1)} parameter(1)
  %p2 = bf16[4096,28672,1]{1,0,2:T(8,128)(2,1)} parameter(2)
  %m = bf16[6,2048,28672]{2,1,0:T(8,128)(2,1)} multiply(%p0, %p1)
  ROOT %c = bf16[6,2048,4096]{2,1,0:T(8,128)(2,1)} convolution(%m, %p2), window={size=1}, \
dim_labels=0bf_oi0->0bf
}

ENTRY %main {
  %a = bf16[6,2048,28672]{2,1,0:T(8,128)(2,1)} parameter(0)
  %b = bf16[6,2048,28672]{2,1,0:T(8,128)(2,1)} parameter(1)
  %w = bf16[4096,28672,1]{1,0,2:T(8,128)(2,1)} parameter(2)
  ROOT %f = bf16[6,2048,4096]{2,1,0:T(8,128)(2,1)} fusion(%a, %b, %w), kind=kOutput, \
calls=%fused, backend_config={"window_config":{"output_window_bounds":["6","16","11"],\
"iteration_bounds":["3","16","1","1","75"]}}
}
"""
ACTIVATION_BYTES, WEIGHT_BYTES = 6 * 2048 * 28672 * 2, 4096 * 28672 * 2


def read_refetched_bytes(text: str) -> list[int]:
    program = read_hlo_program(text)
    keep_refetched_bytes(program)
    values = (read_frontend_value(one, REFETCHED_BYTES) for one in program.iterate_instructions())
    return [int(value) for value in values if value]


def replace_all(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_operands_are_read_again_for_the_windows_that_they_lack():
    """Activations for each of 3 windows of the result's columns, weights for each 16 of rows."""
    again = 2 * ACTIVATION_BYTES * (3 - 1) + WEIGHT_BYTES * (16 - 1)
    assert read_refetched_bytes(PRODUCT) == [again]


def test_windows_of_whole_rows_are_read_once():
    """Without a loop over the contracted dimension, the weights stay for all rows of a column."""
    text = replace_all(PRODUCT, ('"75"]', '"1"]'))
    assert read_refetched_bytes(text) == [2 * ACTIVATION_BYTES * (3 - 1)]


@pytest.mark.parametrize(
    ("operand", "again"),
    [("w", 2 * ACTIVATION_BYTES * 2), ("a", ACTIVATION_BYTES * 2 + WEIGHT_BYTES * 15)],
)
def test_what_is_in_vmem_is_not_read_again(operand, again):
    line = next(one for one in PRODUCT.split("\n") if one.startswith(f"  %{operand} = "))
    text = PRODUCT.replace(line, line.replace("(2,1)}", "(2,1)S(1)}"))
    assert text != PRODUCT and read_refetched_bytes(text) == [again]


def test_of_a_stack_the_slice_counts():
    stack = "bf16[32,6,2048,28672]{3,2,1,0:T(8,128)(2,1)}"
    line = "  %a = bf16[6,2048,28672]{2,1,0:T(8,128)(2,1)}"
    text = replace_all(PRODUCT, (line, f"  %a = {stack}"))
    assert read_refetched_bytes(text) == read_refetched_bytes(PRODUCT)


@pytest.mark.parametrize(
    "change",
    [
        ('["3","16","1","1","75"]', '["4","16","1","1","75"]'),
        ('["6","16","11"]', '["16","11"]'),
        ('["6","16","11"]', '["6","0","11"]'),
        ('"iteration_bounds"', '"other_bounds"'),
    ],
)
def test_windows_that_do_not_fit_the_product_are_unknown(change):
    assert read_refetched_bytes(replace_all(PRODUCT, change)) == []


# The bytes that libtpu 0.0.42.1 reads again; measurements of docs/data/tpu-products.csv, of TPU v5e
# without the host's part, of TPU v6e the growth from 4096 to 8192 rows, doubled, and both figures
# of AI-Hypercomputer/tpu-recipes.
@pytest.mark.parametrize(
    ("node", "sizes", "refetched_bytes", "least_us", "most_us"),
    [
        ("TPUv5e", (8192, 8192, 8192), 1_879_048_192, 5_850, 6_040),
        ("TPUv6e", (8192, 8192, 8192), 1_073_741_824, 1_329, 1_458),
        ("TPUv6e", (8192, 4096, 4096), 0, 315, 327),
        ("TPUv6e", (8192, 4096, 7168), 352_321_536, 590, 650),
    ],
)
def test_products_with_known_windows_are_as_measured(
    node, sizes, refetched_bytes, least_us, most_us
):
    m, n, k = sizes
    constants = DeviceConstants.from_node(configs.load_node(node))
    shape = MatrixProduct(m, n, k, 1, "bf16", 2 * m * n * k)
    moved = 2 * (m * k + k * n + m * n)
    time = estimate_product_time(constants, shape, moved, refetched_bytes=refetched_bytes)
    assert least_us < 1e6 * time.time_s < most_us


def test_tpu7x_does_not_count_them():
    """Its constants were measured on products that read them again."""
    constants = DeviceConstants.from_node(configs.load_node("TPU7x_core"))
    shape = MatrixProduct(8192, 8192, 8192, 1, "bf16", 2 * 8192**3)
    once, again = (
        estimate_product_time(constants, shape, 4e8, refetched_bytes=count).time_s
        for count in (None, 10**9)
    )
    assert once == again
