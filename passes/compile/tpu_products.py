"""Products that XLA:TPU writes as convolutions, as products again.

A spatial dimension of such a convolution is one of four things: a dimension of only one operand
(each output position reads one position of it), a contracted dimension (one output position reads
every position of both), or a batch dimension (position ``i`` of the output reads position ``i`` of
both, which XLA writes with a dilated operand). Which one follows from the positions that are read.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from hespas.passes.compile.hlo_instructions import (
    HloComputation,
    HloInstruction,
    parse_array_type,
)

_MAX_POSITIONS = 2**20  # output x kernel positions of a dimension that is examined
_LHS, _RHS, _CONTRACTED, _BATCH = "lhs", "rhs", "contracted", "batch"
_GROUPS = re.compile(r"\b(feature|batch)_group_count=")


@dataclass(frozen=True)
class _Window:
    """The window of a spatial dimension."""

    size: int
    stride: int
    low: int
    lhs_dilation: int
    rhs_dilation: int
    is_reversed: bool


@dataclass
class _ProductDims:
    """The dimensions of a product, as positions in the operands.

    Attributes:
        result: For each dimension of the convolution's result, the operand and its dimension that
            it is; None for one of size 1.
    """

    lhs_batch: list[int] = field(default_factory=list)
    rhs_batch: list[int] = field(default_factory=list)
    lhs_contracted: list[int] = field(default_factory=list)
    rhs_contracted: list[int] = field(default_factory=list)
    result: list[tuple[str, int] | None] = field(default_factory=list)


def replace_convolutions(computation: HloComputation, *, is_fused: bool) -> None:
    """Replace the convolutions of a computation that are products.

    Outside a fusion, only those whose result needs no transpose are replaced, because a transpose
    would be a kernel of its own.
    """
    by_name = {one.name: one for one in computation.instructions}
    output: list[HloInstruction] = []
    for one in computation.instructions:
        product = _build_product(one, by_name) if one.opcode == "convolution" else None
        is_accepted = product is not None and (
            is_fused or not any(step.opcode == "transpose" for step in product)
        )
        output += product if product is not None and is_accepted else [one]
    computation.instructions = output


def _build_product(
    convolution: HloInstruction, by_name: dict[str, HloInstruction]
) -> list[HloInstruction] | None:
    """Return a product with the transpose and reshape of its result; None if it is not one."""
    lhs, rhs = (parse_array_type(by_name[name].type)[1] for name in convolution.operands)
    element, shape = parse_array_type(convolution.type)
    dims = _find_product_dims(convolution.attributes, lhs, rhs, shape)
    if dims is None:
        return None
    order = [*((_LHS, i) for i in dims.lhs_batch)]
    order += [
        (_LHS, i) for i in range(len(lhs)) if i not in (*dims.lhs_batch, *dims.lhs_contracted)
    ]
    order += [
        (_RHS, i) for i in range(len(rhs)) if i not in (*dims.rhs_batch, *dims.rhs_contracted)
    ]
    sizes = [(lhs if operand == _LHS else rhs)[i] for operand, i in order]
    wanted = [at for at in dims.result if at is not None]
    permutation = [order.index(at) for at in wanted]
    permutation += [i for i in range(len(order)) if i not in permutation]  # of size 1
    steps = [(sizes, "dot", _format_dot_attributes(dims, convolution.attributes))]
    if [i for i in permutation if sizes[i] > 1] != sorted(i for i in permutation if sizes[i] > 1):
        sizes = [sizes[i] for i in permutation]
        order_text = ",".join(map(str, permutation))
        steps.append((sizes, "transpose", f", dimensions={{{order_text}}}"))
    if tuple(sizes) != shape:
        steps.append((list(shape), "reshape", ""))
    return _chain_instructions(convolution, element, steps)


def _chain_instructions(
    convolution: HloInstruction, element: str, steps: list[tuple[list[int], str, str]]
) -> list[HloInstruction]:
    """Return the steps, of which the last one has the name and the type of the convolution."""
    metadata = re.search(r", metadata=\{.*?\}", convolution.attributes)
    chain: list[HloInstruction] = []
    for number, (sizes, opcode, attributes) in enumerate(steps):
        is_last = number == len(steps) - 1
        chain.append(
            HloInstruction(
                convolution.name if is_last else f"{convolution.name}.{opcode}",
                convolution.type if is_last else f"{element}[{','.join(map(str, sizes))}]",
                opcode,
                [chain[-1].name] if chain else convolution.operands,
                "",
                attributes if number == 0 else f"{attributes}{metadata[0] if metadata else ''}",
                convolution.is_root and is_last,
            )
        )
    return chain


def _format_dot_attributes(dims: _ProductDims, attributes: str) -> str:
    """Return the attributes of the product: its dimensions, and what the convolution has else."""
    fields = (
        ("lhs_batch_dims", dims.lhs_batch), ("lhs_contracting_dims", dims.lhs_contracted),
        ("rhs_batch_dims", dims.rhs_batch), ("rhs_contracting_dims", dims.rhs_contracted),
    )  # fmt: skip
    text = "".join(f", {name}={{{','.join(map(str, at))}}}" for name, at in fields if at)
    return text + re.sub(r", (window=\{[^}]*\}|dim_labels=[^,\s]+)", "", attributes)


def _find_product_dims(
    attributes: str, lhs: tuple[int, ...], rhs: tuple[int, ...], result: tuple[int, ...]
) -> _ProductDims | None:
    """Return the dimensions of the product that a convolution computes; None if there is none."""
    labels = re.search(r"\bdim_labels=(\w+)_(\w+)->(\w+)", attributes)
    if not labels or _GROUPS.search(attributes):
        return None
    lhs_labels, rhs_labels, result_labels = labels.groups()
    dims = _ProductDims(
        lhs_contracted=[lhs_labels.index("f")], rhs_contracted=[rhs_labels.index("i")]
    )
    places: dict[str, tuple[str, int] | None] = {
        "b": (_LHS, lhs_labels.index("b")), "f": (_RHS, rhs_labels.index("o"))
    }  # fmt: skip
    for number, window in enumerate(_parse_windows(attributes)):
        label = str(number)
        at = lhs_labels.index(label), rhs_labels.index(label), result_labels.index(label)
        role = _classify_dimension(lhs[at[0]], result[at[2]], window)
        if role is None:
            return None
        if role in (_BATCH, _CONTRACTED):
            left, right = (
                (dims.lhs_batch, dims.rhs_batch)
                if role == _BATCH
                else (dims.lhs_contracted, dims.rhs_contracted)
            )
            left.append(at[0])
            right.append(at[1])
        places[label] = {
            _LHS: (_LHS, at[0]), _BATCH: (_LHS, at[0]), _RHS: (_RHS, at[1]), _CONTRACTED: None
        }[role]  # fmt: skip
    dims.result = [places[label] for label in result_labels]
    return dims


@functools.lru_cache(maxsize=1024)
def _classify_dimension(size: int, out: int, window: _Window) -> str | None:
    """Return what a spatial dimension with ``size`` input and ``out`` output positions is."""
    if out * window.size > _MAX_POSITIONS:
        return None
    reads = set()
    for o in range(out):
        for k in range(window.size):
            at = o * window.stride + k * window.rhs_dilation - window.low
            position, rest = divmod(at, window.lhs_dilation)
            if rest == 0 and 0 <= position < size:
                reads.add((o, window.size - 1 - k if window.is_reversed else k, position))
    for role, wanted in (
        (_LHS, {(i, 0, i) for i in range(size)} if window.size == 1 else None),
        (_RHS, {(i, i, 0) for i in range(out)} if size == 1 and out == window.size else None),
        (_CONTRACTED, {(0, i, i) for i in range(size)} if size == window.size else None),
        (_BATCH, {(i, i, i) for i in range(size)} if size == window.size == out else None),
    ):
        if reads == wanted:
            return role
    return None


def _parse_windows(attributes: str) -> list[_Window]:
    """Parse ``window={size=1x64 pad=0_0x63_63 rhs_reversal=0x1}``."""
    match = re.search(r"\bwindow=\{([^}]*)\}", attributes)
    fields = dict(part.split("=") for part in match[1].split()) if match else {}
    columns = {name: text.split("x") for name, text in fields.items()}
    count = len(columns.get("size", ()))
    return [
        _Window(
            int(columns["size"][i]),
            int(columns["stride"][i]) if "stride" in columns else 1,
            int(columns["pad"][i].split("_")[0]) if "pad" in columns else 0,
            int(columns["lhs_dilate"][i]) if "lhs_dilate" in columns else 1,
            int(columns["rhs_dilate"][i]) if "rhs_dilate" in columns else 1,
            columns["rhs_reversal"][i] == "1" if "rhs_reversal" in columns else False,
        )
        for i in range(count)
    ]
