"""The sketch of a program: what one device certainly does in a step, whatever is fused.

A sketch lists the matrix products, the fused attention calls and the collectives of a prepared
program with their sizes and runs, its arguments and results, and the arrays that its loops carry.
Fusion moves and merges everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hespas.dialects.attr_codec import read_communicators
from hespas.dialects.attrs import TRIPS, CommAttr
from hespas.dialects.mlir import collect_functions, has_users, ir
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import find_entry_function
from hespas.estimators.calibrated.attention_shape import read_attention_shape
from hespas.estimators.product_shapes import PRODUCT_OPS, derive_matrix_product
from hespas.estimators.rules.base import to_buffer_size
from hespas.estimators.rules.registry import compute_op_work

PRODUCT, ATTENTION, BACKWARD, CALL = "product", "attention", "attention backward", "call"
ARGUMENT, RESULT, CARRIED = "argument", "result", "carried"
COMPUTE_KINDS = (PRODUCT, ATTENTION, BACKWARD, CALL)
LOOP, CALLED = "stablehlo.while", "func.call"


@dataclass(frozen=True, slots=True)
class SketchOp:
    """One op, argument, result, or carried array.

    Attributes:
        kind: One of ``COMPUTE_KINDS``, ``ARGUMENT``, ``RESULT`` or ``CARRIED``, or a kind of
            collective.
        dtype: The key of the peak rate; "" if no operations are done.
        axes: The mesh axes that a collective spans.
        loop: The loop of a carried array, as the path of the loops that contain it.
        sizes: The number of products, M, K, N and operations of a product; heads, queries, head
            size and operations of an attention; the operations of a call; else bytes.
        runs: How many times the op runs in a step.
    """

    kind: str
    dtype: str
    axes: tuple[str, ...]
    loop: str
    sizes: tuple[int, ...]
    runs: int = 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SketchOp:
        """Build an op from what ``to_json`` returns."""
        return cls(
            data["kind"], data["dtype"], tuple(data["axes"]), data["loop"], tuple(data["sizes"]),
            data["runs"],
        )  # fmt: skip


def collect_sketch(module: ir.Module, mesh: Mapping[str, int]) -> list[SketchOp]:
    """Collect the sketch of a prepared program over ``mesh``, in program order.

    Raises:
        UnknownCost: A product or a call has no cost rule.
    """
    entry = find_entry_function(module)
    block = entry.regions[0].blocks[0]
    results = get_terminator(block).operands
    ends = [
        *(SketchOp(ARGUMENT, "", (), "", (to_buffer_size(v.type).bytes,)) for v in block.arguments),
        *(SketchOp(RESULT, "", (), "", (to_buffer_size(v.type).bytes,)) for v in results),
    ]
    walker = _SketchWalker(collect_functions(module), read_communicators(module), mesh)
    return [*ends, *walker.walk_block(block, 1, "")]


class _SketchWalker:
    """Walks a program with the number of runs of each op."""

    def __init__(
        self,
        functions: Mapping[str, ir.Operation],
        communicators: Mapping[int, tuple[int, ...]],
        mesh: Mapping[str, int],
    ) -> None:
        self._functions = functions
        self._communicators = communicators
        self._mesh = mesh
        self._loops = 0

    def walk_block(self, block: ir.Block, runs: int, loop: str) -> Iterator[SketchOp]:
        """Yield the ops of a block that runs ``runs`` times in the loops of ``loop``."""
        for view in block.operations:
            op = view.operation
            comm = CommAttr.read_from_op(op)
            if comm is not None:
                if comm.groups:
                    axes = self._find_spanned_axes(comm)
                    yield SketchOp(comm.kind, "", axes, "", (comm.operand_bytes,), runs)
            elif op.name == CALLED:
                callee = self._functions[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
                yield from self.walk_block(callee.regions[0].blocks[0], runs, loop)
            elif op.name == LOOP:
                yield from self._walk_loop(op, runs, loop)
            else:
                yield from _sketch_compute_op(op, runs)

    def _walk_loop(self, op: ir.Operation, runs: int, loop: str) -> Iterator[SketchOp]:
        path, self._loops = f"{loop}/{self._loops}", self._loops + 1
        trips = ir.IntegerAttr(op.attributes[TRIPS]).value if TRIPS in op.attributes else 1
        body = op.regions[1].blocks[0]
        carried = get_terminator(body).operands
        for before, after, result in zip(body.arguments, carried, op.results, strict=True):
            if before != after and has_users(result):
                size = to_buffer_size(result.type).bytes
                yield SketchOp(CARRIED, "", (), path, (size,), runs)
        yield from self.walk_block(body, runs * trips, path)

    def _find_spanned_axes(self, comm: CommAttr) -> tuple[str, ...]:
        """Return the axes along which the devices of a communicator differ."""
        ranks = self._communicators[comm.groups[0]]
        spanned, stride = [], 1
        for name, size in reversed(list(self._mesh.items())):
            if len({rank // stride % size for rank in ranks}) > 1:
                spanned.append(name)
            stride *= size
        return tuple(reversed(spanned))


def _sketch_compute_op(op: ir.Operation, runs: int) -> Iterator[SketchOp]:
    """Yield a product, an attention or another call that does operations."""
    if op.name.partition(".")[2] in PRODUCT_OPS:
        shape = derive_matrix_product(op, compute_op_work(op))
        if shape.unit == "matrix":
            sizes = (shape.count, shape.m, shape.k, shape.n, shape.flops)
            yield SketchOp(PRODUCT, shape.dtype, (), "", sizes, runs)
    elif op.name == "stablehlo.custom_call":
        work = compute_op_work(op)
        if work.kind == "attention":
            call = read_attention_shape(op, work)
            kind = BACKWARD if call.backward else ATTENTION
            sizes = (call.heads, call.queries, call.head_size, call.flops)
            yield SketchOp(kind, call.dtype, (), "", sizes, runs)
        else:
            for part in work.parts:
                if part.unit == "matrix" and part.flops:
                    yield SketchOp(CALL, part.dtype, (), "", (part.flops,), runs)


def sum_resident_bytes(ops: list[SketchOp]) -> int:
    """Return bytes that are certainly in memory at the same time on one device.

    These are the arguments, and the results of the loops along one path of nested loops.
    """
    arguments = sum(op.sizes[0] for op in ops if op.kind == ARGUMENT)
    carried: dict[str, int] = {}
    for op in ops:
        if op.kind == CARRIED:
            carried[op.loop] = carried.get(op.loop, 0) + op.sizes[0]
    paths = [
        sum(size for outer, size in carried.items() if f"{path}/".startswith(f"{outer}/"))
        for path in carried
    ]
    return arguments + max(paths, default=0)
