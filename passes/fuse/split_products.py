"""Products with many inner elements as batches of shorter ones, as XLA's SplitkRewriter.

(xla/backends/gpu/transforms/splitk_rewriter.cc.) A product whose result has fewer tiles than the
GPU has cores leaves cores idle. Its inner dimension is divided, each part is a product with a
result in the type of the sum, and a reduction adds the parts. The number of parts is the power of
two with the lowest cost in XLA's model, whose weights depend on the generation of the GPU.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import find_attribute, get_defining_op, ir
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.base import option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import (
    DOT,
    DotGeneral,
    DotOperand,
)
from hespas.passes.fuse.fold_transposes import create_product
from hespas.passes.fuse.form_kernels import FormKernelsPass
from hespas.passes.fuse.kernel_cost_model import FusionDevice
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    get_element_type,
    get_static_shape,
)
from hespas.passes.fuse.product_kernels import APPLIED
from hespas.passes.fuse.simplify import ADD

TILE = 128  # rows and columns of a tile of the result
PARTS = tuple(1 << power for power in range(12))
ALIGNED_BITS = 128  # of the inner elements of a part
_SUM_TYPES = {"bf16": "f32", "f16": "f32", "i8": "i32"}
_NARROW_FLOAT = re.compile(r"f[468]E.*")
# The operations of a multiplication and addition by the number of products that an algorithm adds.
_ALGORITHM_FLOPS = {3: 12, 6: 20, 9: 28}


@dataclass(frozen=True, slots=True)
class SplitWeights:
    """The weights of XLA's model: of an operation, a byte, a byte of the reduction, a launch."""

    flop: float
    byte: float
    reduced_byte: float
    reduction: float


# By the lowest major compute capability, as in XLA.
WEIGHTS = {
    10: SplitWeights(100.0, 0.0848863, 189.711, 1.21563e08),
    9: SplitWeights(100.0, 0.194136, 193.1384, 4.36e07),
    0: SplitWeights(100.0, 0.0666955, 467.815, 5.65307e07),
}


@dataclass(frozen=True, slots=True)
class ProductSize:
    """The sizes of a product, and the bits of the elements that it reads, sums and writes."""

    batch: int
    m: int
    n: int
    k: int
    lhs_bits: int
    rhs_bits: int
    sum_bits: int
    result_bits: int
    flops: int = 2

    def estimate_cost(self, parts: int, cores: int, weights: SplitWeights) -> float:
        """Estimate the cost of the product in parts in the unit of XLA's weights."""
        batch, k = self.batch * parts, -(-self.k // parts)
        m, n = min(self.m, TILE), min(self.n, TILE)
        tiles = batch * -(-self.m // TILE) * -(-self.n // TILE)
        waves = max(tiles * m * n / (cores * TILE * TILE), 1.0)
        compute = self.flops * m * n * k * waves * weights.flop
        read = self.batch * self.k * (self.m * self.lhs_bits + self.n * self.rhs_bits) / 8
        result = self.m * self.n
        written = batch * result * (self.sum_bits if parts > 1 else self.result_bits) / 8
        cost = max(compute, (read + written) * weights.byte)
        if parts == 1:
            return cost
        reduced = result * (batch * self.sum_bits + self.batch * self.result_bits) / 8
        return cost + weights.reduction + reduced * weights.reduced_byte


@dataclass(frozen=True)
class SplitProductsPass(BlockPass):
    """Split products with few results and many inner elements into parts, and add these."""

    name: ClassVar[str] = "split-products"

    target: str = option(
        FormKernelsPass.target, "GPU whose cores the parts fill, as in form-kernels"
    )

    def rewrite_block(self, block: ir.Block) -> None:
        products = find_named_ops(block, (DOT,))
        if not products:
            return
        device = FusionDevice.from_target(self.target)
        weights = next(WEIGHTS[least] for least in WEIGHTS if device.capability >= least)
        for op in products:
            size = _measure_product(op)
            if size is None:
                continue
            parts = _choose_part_count(size, device.cores, weights)
            if parts > 1:
                _split_product(op, size, parts)


@functools.lru_cache(maxsize=4096)
def _choose_part_count(size: ProductSize, cores: int, weights: SplitWeights) -> int:
    """Choose the number of parts with the lowest cost, the lowest number if there are several."""
    return min(PARTS, key=lambda parts: size.estimate_cost(parts, cores, weights))


def _measure_product(op: ir.Operation) -> ProductSize | None:
    """Measure a product; None if XLA does not split it."""
    types = [str(get_element_type(value)) for value in op.operands]
    lhs, rhs = DotGeneral.from_op(op).sides
    if "i32" in types or _find_contracted_places(lhs, rhs) is None:
        return None
    algorithm = re.search(r"num_primitive_operations = (\d+)", str(find_attribute(op, "algorithm")))
    result = to_buffer_size(op.results[0].type)
    return ProductSize(
        math.prod(lhs.shape[dim] for dim in lhs.batch),
        math.prod(lhs.free_sizes),
        math.prod(rhs.free_sizes),
        math.prod(lhs.shape[dim] for dim in lhs.contracting),
        _count_read_bits(op.operands[0]),
        _count_read_bits(op.operands[1]),
        max(result.bits, 32),
        result.bits,
        _ALGORITHM_FLOPS.get(int(algorithm[1]), 2) if algorithm else 2,
    )


def _find_contracted_places(lhs: DotOperand, rhs: DotOperand) -> tuple[int, int] | None:
    """Return where the contracted dimensions of both sides begin, which must be one piece."""
    pairs = sorted(zip(lhs.contracting, rhs.contracting, strict=True))
    for dims in zip(*pairs, strict=True):
        if dims != tuple(range(dims[0], dims[0] + len(dims))):
            return None
    return pairs[0] if pairs else None


def _count_read_bits(value: ir.Value) -> int:
    """Count the bits of the elements of what the product reads if it takes unary ops along."""
    op = get_defining_op(value)
    while op is not None and op.name in APPLIED and len(op.operands) == 1:
        value = op.operands[0]
        op = get_defining_op(value)
    return to_buffer_size(value.type).bits


def _split_product(op: ir.Operation, size: ProductSize, parts: int) -> None:
    """Multiply the parts of the inner dimension, and add the products."""
    sides = DotGeneral.from_op(op).sides
    places = _find_contracted_places(*sides)
    assert places is not None
    step = parts * ALIGNED_BITS // min(ALIGNED_BITS, size.lhs_bits, size.rhs_bits)
    k = -(-size.k // step) * step
    builder, result = OpBuilder(op), op.results[0]
    (lhs, left), (rhs, right) = (
        _divide_operand(builder, value, side, place, parts, k)
        for value, side, place in zip(op.operands, sides, places, strict=True)
    )
    kind = str(get_element_type(result))
    kind = _SUM_TYPES.get(kind, "f32" if _NARROW_FLOAT.match(kind) else kind)
    sum_type = ir.Type.parse(kind, op.context)
    product = create_product(op, [lhs, rhs], (left, right), sum_type).results[0]
    zero = builder.create_constant(builder.make_tensor_type([], sum_type), 0)
    batch = len(sides[0].batch)
    total = builder.create_reduction(ADD, product, zero, [batch])
    result.replace_all_uses_with(builder.create_convert(total, result))
    op.erase()


def _divide_operand(
    builder: OpBuilder, value: ir.Value, side: DotOperand, place: int, parts: int, k: int
) -> tuple[ir.Value, DotOperand]:
    """Divide the contracted dimensions of an operand into parts, and the elements of each.

    The parts are the last dimension of the batch.

    Args:
        place: The first of the contracted dimensions.
        k: Their elements, padded to parts of whole multiples of 16 bytes.
    """
    end = place + len(side.contracting)
    before, whole, after = side.shape[:place], math.prod(side.shape[place:end]), side.shape[end:]
    value = builder.create_reshape(value, [*before, whole, *after])
    if k > whole:
        zero = builder.create_constant(builder.make_tensor_type([], value), 0)
        low, high = [0] * len(get_static_shape(value)), [0] * len(get_static_shape(value))
        high[place] = k - whole
        value = builder.create_pad(value, zero, low, high)
    value = builder.create_reshape(value, [*before, parts, k // parts, *after])
    batch, free = (
        tuple(dim if dim < place else dim + 2 - len(side.contracting) for dim in dims)
        for dims in (side.batch, side.free)
    )
    return value, DotOperand(get_static_shape(value), (*batch, place), (place + 1,), free)
