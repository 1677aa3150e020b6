"""Algebraic simplification before fusion, like XLA's AlgebraicSimplifier.

All rewrites preserve the result bit by bit, but for the order of additions where a scatter starts
from the sum with its result, and the last bit of functions such as exponentials of constants.
Each of them maps an op to the value that replaces its result, or to None if it does not apply. An
op that a rewrite creates is rewritten too, so that a rewrite need not see whether it creates one
that changes nothing.

Most ops are arithmetic, and few of these have a constant operand. So the constants are collected
first, by their values, and an op of ``NUMBER_REWRITES`` without any is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from hespas.dialects.mlir import (
    PassManager,
    copy_attributes,
    find_ops,
    get_defining_op,
    has_users,
    ir,
    register_passes,
)
from hespas.dialects.op_bodies import get_terminator
from hespas.estimators.rules.base import (
    parse_number_fields,
    read_integer,
    read_integer_list,
    to_buffer_size,
)
from hespas.estimators.rules.movement import is_unit_broadcast
from hespas.passes.base import PassRun, option
from hespas.passes.fuse.block_pass import FuseStep
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    find_only_reader,
    get_element_type,
    get_static_shape,
    has_static_values,
)
from hespas.passes.prepare.scalars import (
    ARITHMETIC,
    COMPARE,
    read_comparison_direction,
    read_splat_constant,
)

ADD = "stablehlo.add"
CONSTANT = "stablehlo.constant"
BROADCAST = "stablehlo.broadcast_in_dim"
SCATTER = "stablehlo.scatter"
WHILE = "stablehlo.while"
CONVERT = "stablehlo.convert"
NEGATE = "stablehlo.negate"
MOVERS = frozenset(f"stablehlo.{name}" for name in ("concatenate", "reshape", "slice"))
WHOLE_BITS = 8  # of the types whose conversions XLA moves

COMMUTATIVE = frozenset(
    f"stablehlo.{name}" for name in ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
)

Number = float | int
Numbers = list["Number | None"]  # of the operands of an op; None: not constant, or not uniform
Rewrite = Callable[[ir.Operation], "ir.Value | None"]
NumberRewrite = Callable[[ir.Operation, Numbers], "ir.Value | None"]  # not all numbers are None
LAYOUT = "result_layout"  # XLA writes it on transposes that may change only the layout


@dataclass(frozen=True)
class SimplifyPass(FuseStep):
    """Simplify algebra, merge equal ops, and remove unused ops, loops and branches."""

    name: ClassVar[str] = "simplify"

    layouts: bool = option(
        False, "layouts are assigned: what is repeated may be a copy in another order"
    )

    def rewrite(self, module: ir.Module, view: list[ir.Block], run: PassRun) -> bool:
        simplifier = _Simplifier(self.layouts)
        # Outer blocks come first, so that the ops that inner blocks capture are simple already.
        for block in reversed(view):
            for loop in find_named_ops(block, (WHILE,)):
                _merge_counters(loop)
            for op in find_ops(block.owner.operation, NAMES):
                if op.block == block:
                    simplifier.simplify_op(op)
        register_passes()
        # By itself, cse removes of a chain of unused ops only the last.
        merge = PassManager.parse("builtin.module(trivial-dce,cse)", module.context)
        merge.enable_verifier(False)  # the pipeline verifies what its own passes leave, once
        merge.run(module.operation)
        if _swap_commuted_operands(module):
            merge.run(module.operation)
        return True


def _swap_commuted_operands(module: ir.Module) -> bool:
    """Swap the operands of ops that are equal to an earlier one except for the order of these."""
    seen: dict[str, set[tuple[ir.Value, ir.Value]]] = {name: set() for name in COMMUTATIVE}
    swapped = False
    for op in find_ops(module.operation, COMMUTATIVE):
        operands, known = op.operands, seen[op.name]
        a, b = pair = operands[0], operands[1]
        if (b, a) in known and pair not in known:
            operands[0], operands[1] = b, a
            swapped = True
        else:
            known.add(pair)
    return swapped


@dataclass(slots=True)
class _Simplifier:
    """Rewrites ops, each after those that it reads.

    Attributes:
        has_layouts: Whether transposes before broadcasts that repeat elements are copies.
        numbers: The values whose elements are all equal to a constant number.
        scatters: The results of scatters: an addition that reads none is not looked at.
    """

    has_layouts: bool
    numbers: dict[ir.Value, Number] = field(default_factory=dict)
    scatters: set[ir.Value] = field(default_factory=set)

    def simplify_op(self, op: ir.Operation | None) -> None:
        """Replace an op by what its rewrite returns, whose op is rewritten too."""
        while op is not None and (name := op.name) in NAMES:
            self._record_result(op, name)
            new = self._find_simpler_value(op, name)
            if new is None:
                return
            op.results[0].replace_all_uses_with(new)
            op = get_defining_op(new)

    def _record_result(self, op: ir.Operation, name: str) -> None:
        """Record the number that all elements of a constant or broadcast have, or a scatter."""
        if name == CONSTANT:
            number = read_splat_constant(op)
        elif name == BROADCAST:
            number = self.numbers.get(op.operands[0])
        else:
            if name == SCATTER:
                self.scatters.update(op.results)
            return
        if number is not None:
            self.numbers[op.results[0]] = number

    def _find_simpler_value(self, op: ir.Operation, name: str) -> ir.Value | None:
        rewrite = REWRITES.get(name)
        if name in WITH_NUMBERS:
            operands = list(op.operands)
            numbers = [self.numbers.get(operand) for operand in operands]
            known = [number for number in numbers if number is not None]
            if known and has_static_values(op):
                new = NUMBER_REWRITES[name](op, numbers) if name in NUMBER_REWRITES else None
                if new is None and name in FOLDED and len(known) == len(numbers):
                    new = _fold_constants(op, known)
                if new is not None:
                    return new
            if name == ADD and self.scatters.isdisjoint(operands):
                return None
        if rewrite is None or not has_static_values(op):
            return None
        new = rewrite(op)
        if new is None and name == BROADCAST and not (self.has_layouts and _repeats_elements(op)):
            return _broadcast_before_transpose(op)
        return new


def _merge_counters(loop: ir.Operation) -> None:
    """Let counters of a loop that start and grow alike be one, as those of a fori_loop.

    Inside the loop, a counter that starts or grows otherwise is computed from the one that counts
    the iterations, because a counter is a kernel (TryMergeInductionVariables in
    xla/service/while_loop_simplifier.cc). One that the condition or an op after the loop reads
    stays.
    """
    condition, body = (region.blocks[0] for region in loop.regions)
    end = get_terminator(body)
    numbers: dict[tuple[ir.Value | Number, Number], int] = {}
    iterations: dict[ir.Type, int] = {}  # the numbers of counters from 0 in steps of 1
    others: list[tuple[int, Number]] = []
    for number, start in enumerate(loop.operands):
        step = _find_counter_step(end.operands[number], body.arguments[number])
        if step is None:
            continue
        value = read_uniform_constant(start)
        first = numbers.setdefault((start if value is None else value, step), number)
        if first != number and start.type == loop.operands[first].type:
            for values in (condition.arguments, body.arguments, loop.results):
                values[number].replace_all_uses_with(values[first])
            end.operands[number] = end.operands[first]
        elif (value, step) == (0, 1):
            iterations[start.type] = number
        elif _is_integer_scalar(start.type):
            others.append((number, step))
    for number, step in others:
        start, argument = loop.operands[number], body.arguments[number]
        is_read_outside = has_users(condition.arguments[number]) or has_users(loop.results[number])
        if start.type not in iterations or is_read_outside:
            continue
        counter = iterations[start.type]
        builder = OpBuilder(body.operations[0].operation)
        factor = builder.create_constant(start.type, step)
        grown = builder.create_op(
            "stablehlo.multiply", [body.arguments[counter], factor], [start.type], {}
        )
        sum_op = builder.create_op(ADD, [start, grown.results[0]], [start.type], {})
        argument.replace_all_uses_with(sum_op.results[0])
        end.operands[number] = end.operands[counter]


def _find_counter_step(value: ir.Value, argument: ir.Value) -> Number | None:
    """Return the sum of the constants that are added to an argument to get a value, or None."""
    total: Number = 0
    while value != argument:
        op = get_defining_op(value)
        if op is None or op.name != ADD:
            return None
        value, other = op.operands
        step = read_uniform_constant(other)
        if step is None:
            value, step = other, read_uniform_constant(value)
        if step is None:
            return None
        total += step
    return total or None


def _is_integer_scalar(kind: ir.Type) -> bool:
    is_tensor = isinstance(kind, ir.RankedTensorType)
    return is_tensor and not kind.rank and isinstance(kind.element_type, ir.IntegerType)


def _forward_operand(op: ir.Operation) -> ir.Value | None:
    source = op.operands[0]
    return source if source.type == op.results[0].type else None


def _find_operand_source(op: ir.Operation, name: str) -> ir.Operation | None:
    """Return the op that defines the first operand, if it has this name."""
    source_op = get_defining_op(op.operands[0])
    return source_op if source_op is not None and source_op.name == name else None


def _broadcast_scalar(op: ir.Operation) -> ir.Value | None:
    """Broadcast a scalar to the type of an op that only rearranges such a broadcast."""
    inner = _find_operand_source(op, BROADCAST)
    if inner is None or get_static_shape(inner.operands[0]):
        return None
    return OpBuilder(op).create_broadcast(inner.operands[0], get_static_shape(op.results[0]), [])


def _simplify_reshape(op: ir.Operation) -> ir.Value | None:
    source = op.operands[0]
    inner = _find_operand_source(op, "stablehlo.reshape")
    if source.type == op.results[0].type:
        return source
    if inner is None:
        inner = _find_operand_source(op, BROADCAST)
        if inner is None or not is_unit_broadcast(inner):
            return _broadcast_scalar(op)
    return OpBuilder(op).create_reshape(inner.operands[0], get_static_shape(op.results[0]))


def _simplify_transpose(op: ir.Operation) -> ir.Value | None:
    if LAYOUT in op.attributes:
        return None
    order = read_integer_list(op, "permutation", ())
    inner = _find_operand_source(op, "stablehlo.transpose")
    if inner is not None and LAYOUT not in inner.attributes:
        before = read_integer_list(inner, "permutation", ())
        return OpBuilder(op).create_transpose(inner.operands[0], [before[d] for d in order])
    shape = get_static_shape(op.operands[0])
    wide = [d for d in order if shape[d] > 1]
    if wide == sorted(wide):
        return OpBuilder(op).create_reshape(op.operands[0], get_static_shape(op.results[0]))
    return _broadcast_scalar(op)


def _simplify_broadcast(op: ir.Operation) -> ir.Value | None:
    source, dims = op.operands[0], read_integer_list(op, "broadcast_dimensions", ())
    if source.type == op.results[0].type and list(dims) == sorted(dims):
        return source
    inner = _find_operand_source(op, BROADCAST)
    if inner is None:
        return None
    before = read_integer_list(inner, "broadcast_dimensions", ())
    shape, joined = get_static_shape(op.results[0]), [dims[d] for d in before]
    return OpBuilder(op).create_broadcast(inner.operands[0], shape, joined)


def _repeats_elements(op: ir.Operation) -> bool:
    """Return whether the result of an op has more elements than its operand."""
    before, after = (to_buffer_size(value.type) for value in (op.operands[0], op.results[0]))
    return after.elements > before.elements


def _broadcast_before_transpose(op: ir.Operation) -> ir.Value | None:
    """Broadcast what is transposed before; dimensions of size 1 may be added or dropped between."""
    source = op.operands[0]
    view = _find_operand_source(op, "stablehlo.reshape")
    transpose = _find_operand_source(view or op, "stablehlo.transpose")
    if transpose is None or LAYOUT in transpose.attributes:
        return None
    shape, viewed = get_static_shape(transpose.results[0]), get_static_shape(source)
    if [size for size in shape if size != 1] != [size for size in viewed if size != 1]:
        return None
    pairs = zip(read_integer_list(op, "broadcast_dimensions", ()), viewed, strict=True)
    dims = iter([dim for dim, size in pairs if size != 1])
    order = read_integer_list(transpose, "permutation", ())
    places = {old: next(dims) for old, size in zip(order, shape, strict=True) if size != 1}
    wide = sorted(places)
    before = get_static_shape(transpose.operands[0])
    builder = OpBuilder(op)
    value = builder.create_reshape(transpose.operands[0], [before[dim] for dim in wide])
    joined = [places[dim] for dim in wide]
    return builder.create_broadcast(value, get_static_shape(op.results[0]), joined)


FLOATS = {"f64": (11, 52), "f32": (8, 23), "bf16": (8, 7), "f16": (5, 10)}  # exponent, mantissa
_PRECISIONS = FLOATS | {
    "f8E4M3FN": (4, 3), "f8E4M3FNUZ": (4, 3), "f8E5M2": (5, 2), "f8E5M2FNUZ": (5, 2),
}  # fmt: skip


def _can_represent_type(wide: ir.Type, narrow: ir.Type) -> bool:
    """Return whether ``wide`` represents every number of the element type ``narrow``."""
    a, b = str(wide), str(narrow)
    if a in FLOATS and b in FLOATS:
        return all(x >= y for x, y in zip(FLOATS[a], FLOATS[b], strict=True))
    if isinstance(wide, ir.IntegerType) and isinstance(narrow, ir.IntegerType):
        return wide.is_signless == narrow.is_signless and 1 < narrow.width <= wide.width
    return False


def _simplify_convert(op: ir.Operation) -> ir.Value | None:
    if op.operands[0].type == op.results[0].type:
        return op.operands[0]
    inner = _find_operand_source(op, CONVERT)
    if inner is None:
        return _convert_before_moves(op)
    if not _can_represent_type(
        get_element_type(op.operands[0]), get_element_type(inner.operands[0])
    ):
        return None
    return OpBuilder(op).create_convert(inner.operands[0], op.results[0])


def _convert_before_moves(op: ir.Operation) -> ir.Value | None:
    """Convert to a narrower type what ops only move, and not their result (ConvertMover)."""
    wide, narrow = (to_buffer_size(value.type).bits for value in (op.operands[0], op.results[0]))
    if not WHOLE_BITS <= narrow < wide or not _is_only_moved(get_defining_op(op.operands[0])):
        return None
    return _convert_moved(OpBuilder(op), op.operands[0], op.results[0])


def _convert_moved(builder: OpBuilder, value: ir.Value, like: ir.Value) -> ir.Value:
    """Convert a value to the element type of another one before the ops that only move it."""
    mover = get_defining_op(value)
    if mover is None or not _is_only_moved(mover):
        converted = builder.create_convert(value, like)
        maker = get_defining_op(converted)
        simpler = _simplify_convert(maker) if maker is not None and maker.name == CONVERT else None
        return converted if simpler is None else simpler
    operands = [_convert_moved(builder, operand, like) for operand in mover.operands]
    kinds = [builder.make_tensor_type(get_static_shape(value), like)]
    return builder.create_op(mover.name, operands, kinds, copy_attributes(mover)).results[0]


def _is_only_moved(maker: ir.Operation | None) -> bool:
    """Return whether an op only moves elements, for one reader."""
    return (
        maker is not None
        and maker.name in MOVERS
        and has_static_values(maker)
        and find_only_reader(maker) is not None
    )


def _convert_constant(op: ir.Operation, numbers: Numbers) -> ir.Value | None:
    number = numbers[0]
    assert number is not None  # as all operands of an op of one
    wide, narrow = (str(get_element_type(value)) for value in (op.operands[0], op.results[0]))
    if FLOATS.get(wide, (0, 0)) >= FLOATS.get(narrow, (9, 0)) and math.isfinite(number):
        return OpBuilder(op).create_constant(op.results[0].type, number)  # is rounded to the type
    return _create_exact_constant(op, number)


def _simplify_reduce_precision(op: ir.Operation) -> ir.Value | None:
    operand_bits = _PRECISIONS.get(str(get_element_type(op.operands[0])))
    result_bits = read_integer(op, "exponent_bits", 0), read_integer(op, "mantissa_bits", 0)
    if operand_bits is None or result_bits[0] < operand_bits[0] or result_bits[1] < operand_bits[1]:
        return None
    return op.operands[0]


def _simplify_slice(op: ir.Operation) -> ir.Value | None:
    if any(step != 1 for step in read_integer_list(op, "strides", ())):
        return None
    return _forward_operand(op) or _slice_scatter_operand(op)


def _slice_scatter_operand(op: ir.Operation) -> ir.Value | None:
    """Scatter into the start of a broadcast, of which a slice keeps no more.

    A scatter drops what is out of bounds. The gradient of a maximum over a padded window is one.
    """
    starts = read_integer_list(op, "start_indices", ())
    scatter = _find_operand_source(op, SCATTER)
    base = scatter and _find_operand_source(scatter, BROADCAST)
    if scatter is None or not base or len(scatter.results) > 1 or any(starts):
        return None
    if find_only_reader(scatter) is None or not has_static_values(scatter):
        return None
    kind, whole = op.results[0].type, get_static_shape(scatter.results[0])
    sizes = zip(whole, get_static_shape(op.results[0]), strict=True)
    cut = {dim for dim, (size, kept) in enumerate(sizes) if kept < size}
    numbers = parse_number_fields(scatter.attributes["scatter_dimension_numbers"])
    indexed = {*numbers["inserted_window_dims"]} & {*numbers["scatter_dims_to_operand_dims"]}
    is_uniform = not get_static_shape(base.operands[0])
    if not is_uniform or not cut <= indexed:
        return None
    builder = OpBuilder(op)
    start = builder.create_broadcast(base.operands[0], get_static_shape(op.results[0]), [])
    operands = [start, *list(scatter.operands)[1:]]
    attributes = copy_attributes(scatter)
    return builder.create_op(scatter.name, operands, [kind], attributes, body=scatter).results[0]


def _forward_single_operand(op: ir.Operation) -> ir.Value | None:
    return op.operands[0] if len(op.operands) == 1 else None


def _simplify_pad(op: ir.Operation) -> ir.Value | None:
    edges = [
        *read_integer_list(op, "edge_padding_low", ()),
        *read_integer_list(op, "edge_padding_high", ()),
    ]
    return None if any(edges) else _forward_operand(op)


def _create_exact_constant(op: ir.Operation, number: Number) -> ir.Value | None:
    """Create a constant of the type of an op's result; None if a device may compute another number.

    The number is exact, or a sum, product, quotient or root of two of its type that was computed in
    64 bits: rounded to a type of half as many bits, it is what the device computes. Of other types,
    only whole numbers that fit into the mantissa are sure to be that.
    """
    if not math.isfinite(number) or (number == 0 and str(number) == "-0.0"):
        return None
    kind = get_element_type(op.results[0])
    if str(kind) in FLOATS:
        largest = 1 << (1 << FLOATS[str(kind)][0] - 1) - 1
        is_exact = number == 0 or 4 / largest < abs(number) < largest
    elif isinstance(kind, ir.IntegerType) and kind.is_signless:
        is_exact = number == int(number) and abs(number) < 1 << kind.width - 1
    else:
        is_exact = False
    return OpBuilder(op).create_constant(op.results[0].type, number) if is_exact else None


def _fold_constants(op: ir.Operation, numbers: Sequence[Number]) -> ir.Value | None:
    """Compute an op of constants whose elements are equal."""
    try:
        number = FOLDED[op.name](*numbers)
    except (ArithmeticError, ValueError):  # as of the root of a negative number
        return None
    return None if number is None else _create_exact_constant(op, number)


def _add_before_scatter(op: ir.Operation) -> ir.Value | None:
    """Let a scatter that adds start from the sum, which then is computed once.

    The gradient of a cross entropy contains one: of zeros, to which each label adds a number.
    """
    left, right = (_find_adding_scatter(operand) for operand in op.operands)
    scatter = left or right
    if scatter is None or (left and right):
        return None
    kinds = [op.results[0].type]
    addends = [op.operands[0 if right else 1], scatter.operands[0]]
    builder = OpBuilder(op)
    start = builder.create_op(op.name, addends, kinds, {})
    operands = [start.results[0], *list(scatter.operands)[1:]]
    return builder.create_op(
        scatter.name, operands, kinds, copy_attributes(scatter), body=scatter
    ).results[0]


def _find_adding_scatter(value: ir.Value) -> ir.Operation | None:
    """Return the scatter that makes a value by additions, if nothing else reads it."""
    scatter = get_defining_op(value)
    if scatter is None or scatter.name != SCATTER or len(scatter.results) > 1:
        return None
    is_read_once = find_only_reader(scatter) is not None
    return scatter if is_read_once and _find_body_op(scatter) == "add" else None


def _find_body_op(op: ir.Operation) -> str | None:
    """Return the name, without its dialect, of the only op of a body besides its end."""
    body = [view.operation.name for view in op.regions[0].blocks[0].operations]
    return body[0].partition(".")[2] if len(body) == 2 else None


def _simplify_update(op: ir.Operation, numbers: Numbers) -> ir.Value | None:
    """Pad what is written at a constant place of a buffer whose elements are all equal."""
    fill, _, *starts = numbers
    builder = OpBuilder(op)
    if any(start is None for start in starts):
        return None
    if fill is not None:
        scalar = builder.create_constant(builder.make_tensor_type((), op.operands[0]), fill)
    elif (base := _find_operand_source(op, BROADCAST)) and not get_static_shape(base.operands[0]):
        scalar = base.operands[0]
    else:
        return None
    whole, part = (get_static_shape(value) for value in list(op.operands)[:2])
    spaces = [size - extent for size, extent in zip(whole, part, strict=True)]
    low = [min(max(int(start or 0), 0), space) for start, space in zip(starts, spaces, strict=True)]
    high = [space - before for space, before in zip(spaces, low, strict=True)]
    return builder.create_pad(op.operands[1], scalar, low, high)


def _forward_whole_update(op: ir.Operation) -> ir.Value | None:
    buffer, update = list(op.operands)[:2]
    return update if update.type == buffer.type else None


def _simplify_compare(op: ir.Operation, numbers: Numbers) -> ir.Value | None:
    """Compute a comparison of two constants whose elements are equal; of a truth value with one."""
    direction = read_comparison_direction(op)
    left, right = numbers
    if right is None or right != right:
        return None
    is_truth = get_element_type(op.operands[0]) == get_element_type(op.results[0])
    if left is None and is_truth and direction == ("EQ" if right else "NE"):
        return op.operands[0]
    if left is None or left != left:
        return None
    is_true = COMPARE[direction](left, right)
    return OpBuilder(op).create_constant(op.results[0].type, is_true)


def _simplify_select(op: ir.Operation, numbers: Numbers) -> ir.Value | None:
    """Simplify a selection by a constant."""
    chosen = numbers[0]
    return None if chosen is None else op.operands[1 if chosen else 2]


def _simplify_multiply(op: ir.Operation, numbers: Numbers) -> ir.Value | None:
    """Simplify x * 1 and 1 * x."""
    if 1 in numbers:
        return op.operands[1 - numbers.index(1)]
    return None


def _simplify_divide(op: ir.Operation, numbers: Numbers) -> ir.Value | None:
    """Simplify x / 1."""
    return op.operands[0] if numbers[1] == 1 else None


def _simplify_subtract(op: ir.Operation, numbers: Numbers) -> ir.Value | None:
    """Simplify x - 0, but not x - (-0.0), which changes the sign of a zero."""
    if numbers[1] == 0 and str(numbers[1]) != "-0.0":
        return op.operands[0]
    return None


def _simplify_reduce(op: ir.Operation, numbers: Numbers) -> ir.Value | None:
    """Simplify a reduction whose initial value is known.

    If that is the neutral element, one of dimensions of size 1 is a reshape, and a sum of negative
    elements is negated afterwards.
    """
    if len(numbers) != 2:
        return None
    neutral = NEUTRAL.get(_find_body_op(op) or "")
    if neutral is None or numbers[1] != neutral:
        return _find_value_at_position(op)
    shape = get_static_shape(op.operands[0])
    negation = _find_operand_source(op, NEGATE)
    if negation is not None and neutral == 0:
        operands, kinds = [negation.operands[0], op.operands[1]], [op.results[0].type]
        reduction = OpBuilder(op).create_op(op.name, operands, kinds, copy_attributes(op), body=op)
        return OpBuilder(op).create_applied(NEGATE, reduction.results[0])
    if any(shape[d] != 1 for d in read_integer_list(op, "dimensions", ())):
        return _find_value_at_position(op)
    return OpBuilder(op).create_reshape(op.operands[0], get_static_shape(op.results[0]))


def _find_value_at_position(op: ir.Operation) -> ir.Value | None:
    """Find the result of a reduction for the position of the largest or smallest element.

    XLA's simplifier takes that element in place of a reduction of its own.
    """
    direction = LARGER.get(_find_body_op(op) or "")
    if direction is None:
        return None
    for use in op.operands[0].uses:
        reader = use.owner.operation
        if (
            reader.name == op.name
            and use.operand_number == 0
            and len(reader.results) == 2
            and reader.block == op.block
            and read_uniform_constant(reader.operands[2]) == read_uniform_constant(op.operands[1])
            and read_integer_list(reader, "dimensions", ())
            == read_integer_list(op, "dimensions", ())
            and _selects_value(reader.regions[0].blocks[0], direction)
            and _move_before(reader, op)
        ):
            return reader.results[0]
    return None


def _selects_value(body: ir.Block, direction: str) -> bool:
    """Return whether a body selects the larger or smaller of two elements, or that is no number.

    Args:
        direction: How the first element compares with the second if it is selected.
    """
    first, second = body.arguments[0], body.arguments[2]
    selection = get_defining_op(get_terminator(body).operands[0])
    if selection is None or selection.name != "stablehlo.select":
        return False
    condition = get_defining_op(selection.operands[0])
    if list(selection.operands)[1:] != [first, second] or condition is None:
        return False
    is_either = condition.name == "stablehlo.or"
    compared = [get_defining_op(v) for v in condition.operands] if is_either else [condition]
    found = {
        (read_comparison_direction(each), each.operands[0], each.operands[1])
        for each in compared
        if each is not None and each.name == "stablehlo.compare"
    }
    if isinstance(first.type.element_type, ir.IntegerType):
        return found == {(direction, first, second)}
    return found == {(direction, first, second), ("NE", first, first)}


def _move_before(op: ir.Operation, reader: ir.Operation) -> bool:
    """Move an op and the constants that it reads before another op; False if it reads others."""
    if op.is_before_in_block(reader):
        return True
    makers = dict.fromkeys(map(get_defining_op, op.operands))  # in the same order in each run
    later = [
        maker
        for maker in makers
        if maker is not None and maker.block == op.block and not maker.is_before_in_block(reader)
    ]
    if any(len(maker.operands) for maker in later):
        return False
    for each in (*later, op):
        each.move_before(reader)
    return True


LARGER = {"maximum": "GT", "minimum": "LT"}  # how the element that is selected compares
NEUTRAL = {"add": 0, "multiply": 1, "maximum": -math.inf, "minimum": math.inf}


def read_uniform_constant(value: ir.Value) -> Number | None:
    """Return the value that all elements of a constant or of its broadcast have, or None."""
    constant = get_defining_op(value)
    if constant is not None and constant.name == BROADCAST:
        constant = get_defining_op(constant.operands[0])
    return read_splat_constant(constant) if constant and constant.name == CONSTANT else None


def _generalise_dot(op: ir.Operation) -> ir.Value | None:
    """Replace ``dot`` by ``dot_general``."""
    last = len(get_static_shape(op.operands[0])) - 1
    dimensions = f"lhs_contracting_dimensions = [{last}], rhs_contracting_dimensions = [0]"
    attributes = copy_attributes(op)
    attributes["dot_dimension_numbers"] = ir.Attribute.parse(
        f"#stablehlo.dot<{dimensions}>", op.context
    )
    kinds = [op.results[0].type]
    return (
        OpBuilder(op).create_op("stablehlo.dot_general", op.operands, kinds, attributes).results[0]
    )


REWRITES: dict[str, Rewrite] = {
    "mhlo.copy": _forward_operand,
    ADD: _add_before_scatter,
    BROADCAST: _simplify_broadcast,
    "stablehlo.concatenate": _forward_single_operand,
    CONVERT: _simplify_convert,
    "stablehlo.dot": _generalise_dot,
    "stablehlo.dynamic_slice": _forward_operand,
    "stablehlo.dynamic_update_slice": _forward_whole_update,
    "stablehlo.pad": _simplify_pad,
    "stablehlo.reduce_precision": _simplify_reduce_precision,
    "stablehlo.reshape": _simplify_reshape,
    "stablehlo.slice": _simplify_slice,
    "stablehlo.transpose": _simplify_transpose,
}
NUMBER_REWRITES: dict[str, NumberRewrite] = {
    "stablehlo.compare": _simplify_compare,
    "stablehlo.convert": _convert_constant,
    "stablehlo.divide": _simplify_divide,
    "stablehlo.dynamic_update_slice": _simplify_update,
    "stablehlo.multiply": _simplify_multiply,
    "stablehlo.reduce": _simplify_reduce,
    "stablehlo.select": _simplify_select,
    "stablehlo.subtract": _simplify_subtract,
}
FUNCTIONS: dict[str, Callable[..., float]] = {
    "exponential": math.exp, "log": math.log, "power": math.pow, "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x), "tanh": math.tanh,
}  # fmt: skip
FOLDED = {f"stablehlo.{kind}": compute for kind, compute in (ARITHMETIC | FUNCTIONS).items()}
WITH_NUMBERS = NUMBER_REWRITES.keys() | FOLDED.keys()
NAMES = frozenset((CONSTANT, SCATTER, *REWRITES, *WITH_NUMBERS))
