"""``mhlo.fusion``: one kernel; what stays inside it touches no memory.

Use is propagated from the results back to the operands, as in XLA's GpuHloCostAnalysis: a value is
computed and read as far as its users need it. Users that pass elements through one by one share
their own use (``x * x`` reads x once); slices, gathers and broadcasts ask for their part; several
parts add up, to the whole at most.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import TERMINATORS, qualify_op_names
from hespas.estimators.rules.base import (
    BufferSize,
    CostRule,
    OpWork,
    to_buffer_size,
)
from hespas.estimators.rules.body_tally import (
    CONTROL,
    WorkTally,
    tally_control_flow,
    uses_first_arguments,
)
from hespas.estimators.work import compute_op_work

# The kind of the kernel is that of its dearest-to-emit op, after XLA's choice of a hero.
_HEROES = (
    "attention", "gemm", "conv", "linalg", "sort", "fft", "scatter", "scan", "reduction", "custom",
    "transpose", "gather", "rng", "control", "loop", "copy",
)  # fmt: skip

_SLICES = frozenset(("slice", "dynamic_slice", "real_dynamic_slice", "gather", "dynamic_gather"))
_BROADCASTS = frozenset(("broadcast", "broadcast_in_dim", "dynamic_broadcast_in_dim"))
_PROPORTIONAL = frozenset(("reduce", "reduce_window", "concatenate", "pad"))
_VIEWS = frozenset(
    qualify_op_names(
        "",
        """
        bitcast reshape bitcast_convert copy transpose reverse optimization_barrier
        """,
    )
)

_Uses = dict[object, int]  # elements used, by the user at the end of a chain of elementwise ops


@dataclass(slots=True)
class _FusedOp:
    """An op of the flattened body; operands and results are indices of values."""

    op: ir.Operation
    name: str
    operands: list[int]
    results: list[int]
    work: OpWork | None


class _FusionBody:
    """The fusion's body with nested fusions taken in."""

    def __init__(self, fusion: ir.Operation) -> None:
        self.sizes: list[BufferSize] = []
        self.nodes: list[_FusedOp] = []
        params = [self._add_value(operand.type) for operand in fusion.operands]
        self.params = list(params)  # and what the body captures
        self.outputs = self._flatten_block(fusion.regions[0].blocks[0], params)

    def _add_value(self, type_: ir.Type) -> int:
        self.sizes.append(to_buffer_size(type_))
        return len(self.sizes) - 1

    def _capture_value(self, value: ir.Value, ids: dict[ir.Value, int]) -> int:
        ids[value] = self._add_value(value.type)
        self.params.append(ids[value])
        return ids[value]

    def _flatten_block(self, block: ir.Block, arguments: Sequence[int]) -> list[int]:
        ids: dict[ir.Value, int] = dict(zip(block.arguments, arguments, strict=True))
        for view in block.operations:
            op = view.operation
            name = op.name
            operands = [
                ids[value] if value in ids else self._capture_value(value, ids)
                for value in op.operands
            ]
            if name in TERMINATORS:
                return operands
            if name == "mhlo.fusion":
                results = self._flatten_block(op.regions[0].blocks[0], operands)
            else:
                results = [self._add_value(value.type) for value in op.results]
                work = None if name in CONTROL else compute_op_work(op)
                node = _FusedOp(op, name.partition(".")[2], operands, results, work)
                self.nodes.append(node)
            ids.update(zip(op.results, results, strict=True))
        return []


def _compute_fusion_work(fusion: ir.Operation) -> OpWork:
    body = _FusionBody(fusion)
    sizes = body.sizes
    uses: list[_Uses] = [{} for _ in sizes]
    producer = {result: node for node in body.nodes for result in node.results}
    in_place: set[int] = set()
    write = 0
    for i, output in enumerate(body.outputs):
        uses[output]["out", i] = sizes[output].elements
        updater = _find_in_place_update(output, producer, body.params)
        if updater is None:
            write += sizes[output].bytes
        elif id(updater) not in in_place:
            in_place.add(id(updater))
            write += updater.work.write_bytes if updater.work else 0

    tally = WorkTally()
    kinds = set()
    for index in range(len(body.nodes) - 1, -1, -1):
        node = body.nodes[index]
        used = max(
            (_count_used_elements(uses[result], sizes[result]) for result in node.results),
            default=0,
        )
        elements = max((sizes[result].elements for result in node.results), default=0)
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
        _propagate_operand_uses(node, index, used, elements, uses, sizes, id(node) in in_place)

    read = 0
    for param in body.params:
        size = sizes[param]
        used = _count_used_elements(uses[param], size)
        read += size.bytes if used == size.elements else -(-size.bytes * used // size.elements)
    return OpWork(classify_kernel(kinds), read, write, tally.to_parts(), tally.transcendentals)


def classify_kernel(kinds: Collection[str]) -> str:
    """The kind of the kernel that ops of these kinds make."""
    return next((hero for hero in _HEROES if hero in kinds), "copy")


def _count_used_elements(uses: _Uses, size: BufferSize) -> int:
    return min(sum(uses.values()), size.elements)


def _propagate_operand_uses(
    node: _FusedOp,
    index: int,
    used: int,
    elements: int,
    uses: list[_Uses],
    sizes: list[BufferSize],
    in_place: bool,
) -> None:
    """Tell each operand of a node how much of it is used."""
    name = node.name
    is_elementwise = _is_elementwise_or_view(node)
    for position, operand in enumerate(node.operands):
        size = sizes[operand].elements
        if is_elementwise and size == elements:
            result = node.results[position if name == "optimization_barrier" else 0]
            for user, amount in uses[result].items():
                uses[operand][user] = max(uses[operand].get(user, 0), amount)
            continue
        if name == "dynamic_update_slice" and position == 0:
            amount = 0 if in_place else used
        elif name == "scatter" and position < len(node.results):
            touched = (
                min(size, sizes[node.operands[-1]].elements) if _combines_old_values(node.op) else 0
            )
            amount = touched if in_place else used
        elif (name in _SLICES and position == 0) or name in _BROADCASTS or is_elementwise:
            amount = min(size, used)
        elif name in _PROPORTIONAL and elements:
            amount = -(-size * used // elements)
        else:
            amount = size
        if amount:
            uses[operand][index, position] = amount


def _combines_old_values(scatter: ir.Operation) -> bool:
    return uses_first_arguments(scatter.regions[0].blocks[0], len(scatter.results))


def _is_elementwise_or_view(node: _FusedOp) -> bool:
    """Whether result element i depends on element i of the operands, up to their order."""
    if node.name in _VIEWS:
        return True
    return node.work is not None and node.work.kind == "loop" and node.name not in _BROADCASTS


def _find_in_place_update(
    output: int, producer: dict[int, _FusedOp], params: Sequence[int]
) -> _FusedOp | None:
    """The dynamic_update_slice or scatter that writes this output into a parameter's buffer."""
    node = _find_producer_past_views(output, producer)
    if node is None or node.name not in ("dynamic_update_slice", "scatter"):
        return None
    source = node.operands[0]
    while source in producer and producer[source].name in ("bitcast", "reshape"):
        source = producer[source].operands[0]
    return node if source in params else None


def _find_producer_past_views(value: int, producer: dict[int, _FusedOp]) -> _FusedOp | None:
    node = producer.get(value)
    while node is not None and node.name in ("bitcast", "reshape"):
        node = producer.get(node.operands[0])
    return node


RULES: dict[str, CostRule] = {
    "mhlo.fusion": CostRule(
        "leaf",
        "loop",
        "sum over its body, as far as used; kind of its hero",
        "operands, as far as used inside",
        "results; where updated in place, the update",
        _compute_fusion_work,
    )
}
