"""Combination of small collectives of the same kind, like XLA's combiners.

(all_reduce_combiner.cc, all_gather_combiner.cc and reduce_scatter_combiner.cc of
xla/hlo/transforms/collectives.) All-gathers become one op with several operands, and so do
reduce-scatters, which are custom calls then, because those of StableHLO have one operand.
All-reduces become one all-reduce of a buffer, which one kernel fills and others slice, as on
XLA:GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import copy_attributes, ir
from hespas.dialects.op_kinds import COMBINED_SCATTER_TARGET
from hespas.estimators.rules.base import read_integer, to_buffer_size
from hespas.passes.base import option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dependency_order import (
    DependencyOrder,
    collect_dependencies,
    order_topologically,
)
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    get_element_type,
    get_static_shape,
)

ALL_GATHER, ALL_REDUCE = "stablehlo.all_gather", "stablehlo.all_reduce"
REDUCE_SCATTER = "stablehlo.reduce_scatter"
COMBINED = (ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER)
SCATTER_DIM = "scatter_dimension"
LIMIT_OPTIONS = tuple(name.removeprefix("stablehlo.") for name in COMBINED)
MAX_GROUP_SIZE = 2048  # collectives that are combined into one
COMMUTATIVE = tuple(
    f"stablehlo.{n}" for n in ("add", "and", "maximum", "minimum", "multiply", "or")
)


@dataclass(frozen=True)
class CombineCollectivesPass(BlockPass):
    """Combine small collectives of the same kind."""

    name: ClassVar[str] = "combine-collectives"

    limit: int = option((30 << 20) + 7, "maximum bytes of a combined collective", least=0)
    all_gather: int = option(-1, "maximum bytes of a combined all-gather; -1: limit", least=-1)
    all_reduce: int = option(-1, "maximum bytes of a combined all-reduce; -1: limit", least=-1)
    reduce_scatter: int = option(
        -1, "maximum bytes of a combined reduce-scatter; -1: limit", least=-1
    )

    def rewrite_block(self, block: ir.Block) -> None:
        limits_bytes: dict[str, int] = {}
        for name, option_name in zip(COMBINED, LIMIT_OPTIONS, strict=True):
            own_bytes = getattr(self, option_name)
            limits_bytes[name] = self.limit if own_bytes < 0 else own_bytes
        CollectiveCombiner(block, limits_bytes).combine_collectives()


@dataclass(slots=True)
class CollectiveCombiner:
    """Combines the collectives of a block into collectives of at most ``limits_bytes``, by name."""

    block: ir.Block
    limits_bytes: Mapping[str, int]
    ops: list[ir.Operation] = field(init=False)
    names: list[str] = field(init=False)
    dependencies: dict[int, set[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.ops = [view.operation for view in self.block.operations]
        self.names = [op.name for op in self.ops]

    def combine_collectives(self) -> None:
        """Combine the collectives."""
        candidates = self._collect_combinable()
        if not candidates:
            return
        self.dependencies = collect_dependencies(self.ops, self.names)
        order = DependencyOrder.from_dependencies(self.dependencies)
        groups: list[list[int]] = []
        for members in candidates:
            groups += self._form_groups(members, order)
        if groups:
            self._place_groups_together(groups)
        for group in groups:
            self._combine_group([self.ops[index] for index in group])

    def _collect_combinable(self) -> list[list[int]]:
        """Collect the lists of collectives that may be combined, all-gathers first."""
        members_by_key: dict[object, list[int]] = {}
        for index, (op, name) in enumerate(zip(self.ops, self.names, strict=True)):
            comm = CommAttr.read_from_op(op) if name in COMBINED else None
            if comm is not None and not comm.is_async and len(op.results) == 1:
                members_by_key.setdefault(_make_combination_key(op, comm), []).append(index)
        several = [(key, group) for key, group in members_by_key.items() if len(group) > 1]
        return [group for _, group in sorted(several, key=lambda item: str(item[0]))]

    def _form_groups(self, members: list[int], order: DependencyOrder) -> list[list[int]]:
        """Form groups of independent collectives within the limits, and merge them in ``order``."""
        groups: list[list[int]] = []
        size, limit_bytes = 0, self.limits_bytes[self.names[members[0]]]
        for index in members:
            extra = sum(to_buffer_size(value.type).bytes for value in self.ops[index].results)
            if extra > limit_bytes:
                continue
            group = groups[-1] if groups else []
            is_full = size + extra > limit_bytes or len(group) >= MAX_GROUP_SIZE
            if not group or is_full or order.has_path_between(index, group[0]):
                groups.append([index])
                size = extra
            else:
                order.merge_units(group[0], index)
                group.append(index)
                size += extra
        return [group for group in groups if len(group) > 1]

    def _place_groups_together(self, groups: list[list[int]]) -> None:
        """Move the ops so that the members of each group are adjacent."""
        leader = {index: group[0] for group in groups for index in group}
        members = {group[0]: group for group in groups}
        dependencies: dict[int, set[int]] = {}
        for index, before in self.dependencies.items():
            unit_dependencies = dependencies.setdefault(leader.get(index, index), set())
            unit_dependencies.update(leader.get(other, other) for other in before)
        last = len(self.ops) - 1
        for unit in order_topologically(dependencies, {unit: unit for unit in dependencies}):
            for index in members.get(unit, (unit,)):
                if index != last:
                    self.ops[index].move_before(self.ops[last])

    def _combine_group(self, group: list[ir.Operation]) -> None:
        """Replace adjacent collectives by one."""
        first, builder = group[0], OpBuilder(group[-1])
        operands = [op.operands[0] for op in group]
        attributes = copy_attributes(first)
        if first.name != ALL_REDUCE:
            name = first.name
            if name == REDUCE_SCATTER:
                del attributes[SCATTER_DIM]
                name = "stablehlo.custom_call"
                attributes["call_target_name"] = ir.StringAttr.get(
                    COMBINED_SCATTER_TARGET, first.context
                )
            kinds = [op.results[0].type for op in group]
            results = list(builder.create_op(name, operands, kinds, attributes).results)
        else:
            sizes = [math.prod(get_static_shape(value)) for value in operands]
            flat = [builder.create_reshape(v, [n]) for v, n in zip(operands, sizes, strict=True)]
            concatenated = builder.create_concatenate(flat, 0)
            combined_op = builder.create_op(
                ALL_REDUCE, [concatenated], [concatenated.type], attributes, body=first
            )
            results, start = [], 0
            for op, size in zip(group, sizes, strict=True):
                part = builder.create_slice(combined_op.results[0], 0, start, start + size)
                results.append(builder.create_reshape(part, get_static_shape(op.results[0])))
                start += size
        for op, result in zip(group, results, strict=True):
            op.results[0].replace_all_uses_with(result)
            op.erase()


def _make_combination_key(op: ir.Operation, comm: CommAttr) -> object:
    """Make a key that is equal for collectives that may be combined with each other.

    XLA:GPU combines all-gathers of several types.
    """
    if op.name == ALL_GATHER:
        return (op.name, comm.groups, read_integer(op, "all_gather_dim", 0))
    shared_key: tuple[object, ...] = (
        op.name, str(get_element_type(op.operands[0])), comm.groups,
    )  # fmt: skip
    if op.name == REDUCE_SCATTER:
        shared_key = (*shared_key, str(op.attributes[SCATTER_DIM]))
    body = [view.operation.name for view in op.regions[0].blocks[0].operations]
    return (
        (*shared_key, body[0])
        if len(body) == 2 and body[0] in COMMUTATIVE
        else (*shared_key, id(op))
    )
