"""The work of ``mhlo.fusion``: one kernel, whose inner values do not touch device memory.

Uses are propagated from the results back to the operands, as in XLA's GpuHloCostAnalysis. When the
walk reaches an op, ``uses`` of its results are complete, because its users come after it. They say
how many elements of a value each user needs, and the op is counted for the sum of them, at most for
all elements. An elementwise op passes the uses of its result on to its operands, keyed by the same
user, so that ``x * x`` reads x once. Slices, gathers and broadcasts add a use for the elements that
they read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Sized
from dataclasses import field

from hespas.dialects.mlir import ir
from hespas.dialects.op_bodies import list_captured_values
from hespas.dialects.op_kinds import BARRIERS, FORWARDING_OPS, FUSION, TERMINATORS, VIEWS
from hespas.estimators.rules.base import (
    BufferSize,
    CostRule,
    OpWork,
    to_buffer_size,
)
from hespas.estimators.rules.body_tally import (
    CONTROL,
    WorkTally,
    compute_inner_work,
    tally_control_flow,
    uses_first_arguments,
)
from hespas.support.errors import HespasError
from hespas.support.records import record

# The kind of a kernel is the first of these that its ops have, after XLA's choice of a hero.
_HEROES = (
    "attention", "gemm", "conv", "linalg", "sort", "fft", "scatter", "scan", "reduction", "custom",
    "transpose", "gather", "rng", "control", "loop", "copy",
)  # fmt: skip

_SLICES = frozenset(
    (
        "slice", "dynamic_slice", "real_dynamic_slice", "gather", "dynamic_gather",
        "torch_index_select",
    )
)  # fmt: skip
_BROADCASTS = frozenset(("broadcast", "broadcast_in_dim", "dynamic_broadcast_in_dim"))
_PROPORTIONAL = frozenset(("reduce", "reduce_window", "concatenate", "pad", "dynamic_pad"))
# Every element of the result is one of the operand, though at another place.
_VIEWS = frozenset(name.partition(".")[2] for name in VIEWS | FORWARDING_OPS | BARRIERS) | {
    "transpose",
    "reverse",
}


@record(slots=True, eq=False)
class _FusedValue:
    """A value in a fusion; ``uses`` holds the used elements by user.

    The user is the op or output at the end of a chain of elementwise ops.
    """

    size: BufferSize
    producer: _FusedOp | None = None
    uses: dict[object, int] = field(default_factory=dict)

    def count_used_elements(self) -> int:
        return min(sum(self.uses.values()), self.size.elements)


@record(slots=True, eq=False)
class _FusedOp:
    """An op of the flattened body; ``work`` is None for control flow.

    ``captured`` are the values that its regions read besides its operands.
    """

    op: ir.Operation
    name: str
    operands: list[_FusedValue]
    captured: list[_FusedValue]
    results: list[_FusedValue]
    work: OpWork | None


class _FusionBody:
    """The ops of a fusion and of the fusions nested in it, in program order.

    ``params`` are the operands.
    """

    def __init__(self, fusion: ir.Operation) -> None:
        self.ops: list[_FusedOp] = []
        self.params = [_FusedValue(to_buffer_size(operand.type)) for operand in fusion.operands]
        self.outputs = self._flatten_body(fusion, self.params)

    def _flatten_body(
        self, fusion: ir.Operation, arguments: Sequence[_FusedValue]
    ) -> list[_FusedValue]:
        block = fusion.regions[0].blocks[0]
        _check_equal_count(fusion, "operands", arguments, "arguments", block.arguments)
        values: dict[ir.Value, _FusedValue] = dict(zip(block.arguments, arguments, strict=True))
        for view in block.operations:
            op = view.operation
            name = op.name
            try:
                operands = [values[value] for value in op.operands]
                captured = [values[value] for value in list_captured_values(op, name)]
            except KeyError:
                raise HespasError(
                    "the body of the fusion reads a value that is defined outside of it",
                    op=op,
                    remedy="hand it on as an operand of the fusion",
                ) from None
            if name in TERMINATORS:
                _check_equal_count(fusion, "results", fusion.results, "results", operands)
                return operands
            if name == FUSION:
                results = self._flatten_body(op, operands)
            else:
                results = [_FusedValue(to_buffer_size(value.type)) for value in op.results]
                work = None if name in CONTROL else compute_inner_work(op)
                node = _FusedOp(op, name.partition(".")[2], operands, captured, results, work)
                for result in results:
                    result.producer = node
                self.ops.append(node)
            values.update(zip(op.results, results, strict=True))
        return []


def _check_equal_count(
    fusion: ir.Operation, noun: str, values: Sized, body_noun: str, body_values: Sized
) -> None:
    """Raise HespasError if a fusion and its body differ; MLIR does not verify this."""
    if len(values) != len(body_values):
        raise HespasError(
            f"the fusion has {len(values)} {noun}, and its body has {len(body_values)} {body_noun}",
            op=fusion,
        )


def compute_operand_reads(fusion: ir.Operation) -> tuple[OpWork, list[int]]:
    """Compute the work of a fusion, and the bytes that it reads of each operand."""
    body = _FusionBody(fusion)
    work = _tally_body(body)
    return work, [_count_read_bytes(param) for param in body.params]


def _compute_fusion_work(fusion: ir.Operation) -> OpWork:
    return compute_operand_reads(fusion)[0]


def _tally_body(body: _FusionBody) -> OpWork:
    """Count the work of a body, and the uses of its parameters."""
    in_place: set[_FusedOp] = set()
    write = 0
    for i, output in enumerate(body.outputs):
        output.uses["out", i] = output.size.elements
        updater = _find_in_place_update(output, body.params)
        if updater is None:
            write += output.size.bytes
        elif updater not in in_place:
            in_place.add(updater)
            write += updater.work.write_bytes if updater.work else 0

    tally = WorkTally()
    kinds = set()
    for node in reversed(body.ops):
        used = max((result.count_used_elements() for result in node.results), default=0)
        elements = max((result.size.elements for result in node.results), default=0)
        if not used and elements:
            continue
        if node.work is None:
            tally.add_work(tally_control_flow(node.op))
            kinds.add("control")
        else:
            kinds.add(node.work.kind)
            tally.add_work(node.work, used, elements) if used < elements else tally.add_work(
                node.work
            )
        _propagate_uses_to_operands(node, used, elements, node in in_place)

    read = sum(map(_count_read_bytes, body.params))
    return OpWork(classify_kernel(kinds), read, write, tally.to_parts(), tally.transcendentals)


def _count_read_bytes(param: _FusedValue) -> int:
    size, used = param.size, param.count_used_elements()
    return size.bytes if used == size.elements else -(-size.bytes * used // size.elements)


def classify_kernel(kinds: Collection[str]) -> str:
    """Return the kind of a kernel that consists of ops of these kinds."""
    return next((hero for hero in _HEROES if hero in kinds), "copy")


def _propagate_uses_to_operands(node: _FusedOp, used: int, elements: int, in_place: bool) -> None:
    """Add the uses of a node's operands, given that ``used`` of its ``elements`` are needed."""
    name = node.name
    is_elementwise = _is_elementwise_or_view(node)
    for value in node.captured:
        value.uses[node, value] = value.size.elements
    for position, operand in enumerate(node.operands):
        size = operand.size.elements
        if is_elementwise and size == elements:
            result = node.results[position if name == "optimization_barrier" else 0]
            for user, amount in result.uses.items():
                operand.uses[user] = max(operand.uses.get(user, 0), amount)
            continue
        if name == "dynamic_update_slice" and position == 0:
            amount = 0 if in_place else used
        elif name == "scatter" and position < len(node.results):
            touched = (
                min(size, node.operands[-1].size.elements) if combines_old_values(node.op) else 0
            )
            amount = touched if in_place else used
        elif (name in _SLICES and position == 0) or name in _BROADCASTS or is_elementwise:
            amount = min(size, used)
        elif name in _PROPORTIONAL and elements:
            amount = -(-size * used // elements)
        else:
            amount = size
        if amount:
            operand.uses[node, position] = amount


def combines_old_values(scatter: ir.Operation) -> bool:
    """Return whether the updates of a scatter are combined with the values that they replace."""
    return uses_first_arguments(scatter.regions[0].blocks[0], len(scatter.results))


def _is_elementwise_or_view(node: _FusedOp) -> bool:
    """Return whether each result element depends on one element of each operand."""
    if node.name in _VIEWS:
        return True
    return node.work is not None and node.work.kind == "loop" and node.name not in _BROADCASTS


def _find_in_place_update(output: _FusedValue, params: Sequence[_FusedValue]) -> _FusedOp | None:
    """Return the dynamic_update_slice or scatter that writes into a parameter, or None."""
    node = _skip_views(output).producer
    if node is None or node.name not in ("dynamic_update_slice", "scatter"):
        return None
    return node if _skip_views(node.operands[0]) in params else None


def _skip_views(value: _FusedValue) -> _FusedValue:
    """Return the value of which ``value`` is a view through bitcasts and reshapes."""
    while value.producer is not None and value.producer.name in ("bitcast", "reshape"):
        value = value.producer.operands[0]
    return value


RULES = (
    CostRule(
        _compute_fusion_work, "loop", "sum over its body, as far as used; kind of its hero",
        "operands, as far as used inside", "results; where updated in place, the update",
        ops=(FUSION,),
    ),
)  # fmt: skip
