"""Short forms for the ops that the rewrites of this folder make."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hespas.dialects.attrs import Kernel
from hespas.dialects.mlir import functions, i64, ir, producer
from hespas.dialects.ops import CONTROL, FUSION
from hespas.estimators.rules.base import buffer
from hespas.passes.split.blocks import is_small


def element(value: ir.Value) -> ir.Type:
    """The element type of a tensor."""
    kind = value.type
    assert isinstance(kind, ir.ShapedType)
    return kind.element_type


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The sizes of a tensor of static shape."""
    return buffer(value.type).shape


def i64s(numbers: Sequence[int], context: ir.Context) -> ir.Attribute:
    """The numbers as an ``array<i64>`` attribute."""
    return ir.DenseI64ArrayAttr.get(list(numbers), context)


def is_static(kind: ir.Type) -> bool:
    """Whether a type is that of a tensor of static shape."""
    return isinstance(kind, ir.RankedTensorType) and kind.has_static_shape


def named(block: ir.Block, names: Collection[str]) -> list[ir.Operation]:
    """The ops of a block that have one of the names, and static shapes, as they stand."""
    found = [view.operation for view in block.operations]
    return [
        op
        for op in found
        if op.name in names and all(is_static(v.type) for v in (*op.operands, *op.results))
    ]


T = TypeVar("T")


def in_order(items: Iterable[T], op_of: Callable[[T], ir.Operation]) -> list[T]:
    """Things by the places of their ops, which are of one block."""

    def compare(a: T, b: T) -> int:
        return -1 if op_of(a).is_before_in_block(op_of(b)) else 1

    return sorted(items, key=functools.cmp_to_key(compare))


def blocks_of(module: ir.Module) -> list[ir.Block]:
    """The blocks of a module's functions and of the control flow in them, inner ones first."""
    return [block for function in functions(module).values() for block in _blocks(function)]


def _blocks(op: ir.Operation) -> list[ir.Block]:
    found: list[ir.Block] = []
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                if view.operation.name in CONTROL:
                    found += _blocks(view.operation)
            found.append(block)
    return found


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes ops before another, with its location."""

    place: ir.Operation

    def tensor(self, shape: Sequence[int], like: ir.Value) -> ir.Type:
        """A type of this shape with the elements of ``like``."""
        return ir.RankedTensorType.get(list(shape), element(like), loc=self.place.location)

    def op(
        self,
        name: str,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
        attributes: Mapping[str, ir.Attribute],
        body: ir.Operation | None = None,
    ) -> ir.Operation:
        """An op; with ``body`` its region is a copy of that op's."""
        made = ir.Operation.create(
            name,
            results=list(results),
            operands=list(operands),
            attributes=dict(attributes),
            regions=0 if body is None else 1,
            loc=self.place.location,
            ip=ir.InsertionPoint(self.place),
        )
        if body is not None:
            copy = body.clone(ir.InsertionPoint(self.place)).operation
            copy.regions[0].blocks[0].append_to(made.regions[0])
            copy.erase()
        return made

    def reshape(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        kind = self.tensor(shape, value)
        if kind == value.type:
            return value
        return self.op("stablehlo.reshape", [value], [kind], {}).results[0]

    def transpose(self, value: ir.Value, order: Sequence[int]) -> ir.Value:
        shape = shape_of(value)
        kind = self.tensor([shape[d] for d in order], value)
        attributes = {"permutation": i64s(order, value.context)}
        return self.op("stablehlo.transpose", [value], [kind], attributes).results[0]

    def concatenate(self, values: Sequence[ir.Value], axis: int) -> ir.Value:
        shape = list(shape_of(values[0]))
        shape[axis] = sum(shape_of(value)[axis] for value in values)
        kind = self.tensor(shape, values[0])
        attributes = {"dimension": i64(axis, kind.context)}
        return self.op("stablehlo.concatenate", values, [kind], attributes).results[0]

    def slice(self, value: ir.Value, axis: int, start: int, end: int) -> ir.Value:
        shape = list(shape_of(value))
        low, high = [0] * len(shape), list(shape)
        low[axis], high[axis] = start, end
        shape[axis] = end - start
        attributes = {
            "start_indices": i64s(low, value.context),
            "limit_indices": i64s(high, value.context),
            "strides": i64s([1] * len(shape), value.context),
        }
        kind = self.tensor(shape, value)
        return self.op("stablehlo.slice", [value], [kind], attributes).results[0]


def fusion(
    place: ir.Operation,
    kind: str,
    kernel: str,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Type],
    location: ir.Location,
) -> tuple[ir.Operation, ir.Block]:
    """An ``mhlo.fusion`` with an empty body before ``place``, and that body."""
    attributes = {
        "fusion_kind": ir.Attribute.parse(f"#mhlo<fusion_kind {kind}>", place.context),
        Kernel.NAME: Kernel(kernel).to_attr(place.context),
    }
    op = ir.Operation.create(
        FUSION,
        results=list(results),
        operands=list(operands),
        attributes=attributes,
        regions=1,
        loc=location,
        ip=ir.InsertionPoint(place),
    )
    kinds = [operand.type for operand in operands]
    block = op.regions[0].blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
    return op, block


def fuse(ops: Sequence[ir.Operation], kind: str, kernel: str) -> None:
    """Replace ops, of which only the last's results are read elsewhere, by a fusion.

    Small constants, and broadcasts, that they read are copied into it.
    """
    inside = {result for op in ops for result in op.results}
    copied: dict[ir.Value, ir.Operation] = {}
    taken: dict[ir.Value, None] = {}

    def need(value: ir.Value) -> None:
        made = producer(value)
        if value in inside or value in copied:
            return
        if made is not None and made.name == "stablehlo.broadcast_in_dim":
            need(made.operands[0])
        elif made is None or made.name != "stablehlo.constant" or not is_small(made):
            taken[value] = None
            return
        copied[value] = made

    for op in ops:
        for value in op.operands:
            need(value)
    last = ops[-1]
    results = [result.type for result in last.results]
    new, block = fusion(last, kind, kernel, list(taken), results, ops[0].location)
    values: dict[ir.Value, ir.Value] = dict(zip(taken, block.arguments, strict=True))
    point = ir.InsertionPoint(block)
    for op in [*copied.values(), *ops]:
        clone = op.clone(point).operation
        for k, value in enumerate(op.operands):
            clone.operands[k] = values[value]
        values.update(zip(op.results, clone.results, strict=True))
    ir.Operation.create(
        "mhlo.return", operands=[values[r] for r in last.results], loc=last.location, ip=point
    )
    for old, result in zip(last.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    for op in reversed(ops):
        op.erase()
