"""A list of ops in the code says of every op of its family whether it belongs to it.

The rules of ops (``estimators/rules``) and the sets of ``dialects/op_kinds.py`` are where an op is
added. What follows from them is computed of them. A list that is written by hand, because it says
something of its own, is complete here: the other ops of its family stand beside it, with the reason
why they are not in it. An op that is added to a rule and forgotten in a list fails these tests.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from support.paths import ROOT

from hespas.dialects import op_kinds
from hespas.estimators.rules.elementwise import TRANSCENDENTAL
from hespas.estimators.work import get_cost_rules
from hespas.passes.fuse.fusion_graph import STRUCTURAL
from hespas.passes.memory.buffer_sharing import is_elementwise

PACKAGES = ("dialects", "estimators", "frontends", "passes", "workflows")
LEAST = 4  # names in a list by hand


def select(dialects: str, *kinds: str) -> frozenset[str]:
    """The short names of the ops of some dialects with work of some kinds."""
    return frozenset(
        name.partition(".")[2]
        for name, rule in get_cost_rules().items()
        if rule.group == "leaf"
        and rule.kind in kinds
        and name.partition(".")[0] in dialects.split()
    )


ELEMENTWISE = frozenset(
    name.partition(".")[2]
    for name in get_cost_rules()
    if name.startswith("stablehlo.") and is_elementwise(name)
)
# All that XLA compiles to loops that are no products, sorts or calls.
LOOPS = select("stablehlo mhlo", "loop", "copy", "gather", "transpose", "reduction", "scatter")
MOVES = LOOPS - frozenset(
    name.partition(".")[2] for name in get_cost_rules() if is_elementwise(name)
)
PRODUCTS = select("stablehlo mhlo chlo", "gemm", "conv")
COLLECTIVES = frozenset(name.partition(".")[2] for name in op_kinds.COLLECTIVES)

COMPLEX = "complex imag real"
EXPANDED = "batch_norm_inference map uniform_dequantize uniform_quantize"
BATCH_NORMS = "batch_norm_grad batch_norm_training"
BITS = "count_leading_zeros popcnt"
SHIFTS = "shift_left shift_right_arithmetic shift_right_logical"
LOGIC = "and not or xor"
DYNAMIC = "dynamic_broadcast_in_dim dynamic_gather dynamic_iota dynamic_pad real_dynamic_slice"


class OpList(NamedTuple):
    """A list by hand (``module:NAME``, or several names), its family, and what is not in it."""

    names: str
    family: frozenset[str]
    rest: dict[str, str]  # reason to ops
    more: str = ""  # ops in the list that are of no rule of the family


LISTS = [
    OpList(
        "passes/fuse/product_kernels.py:APPLIED",
        ELEMENTWISE,
        {
            "products are of real numbers": COMPLEX,
            "XLA expands them before": EXPANDED,
            "Triton has none of them": f"{BITS} {SHIFTS} is_finite reduce_precision "
            "round_nearest_afz round_nearest_even sign",
        },
        "erf",
    ),
    OpList(
        "passes/fuse/widen_floats.py:_FUNCTIONS _ARITHMETIC",
        ELEMENTWISE,
        {
            "of other types than bf16": f"{BITS} {COMPLEX} {LOGIC} {SHIFTS}",
            "XLA expands them before": EXPANDED,
            "they compare, choose or convert elements, or change their sign": "abs clamp compare "
            "convert is_finite maximum minimum negate reduce_precision select sign",
            "GPUs have them for bf16": "exponential log",
        },
        "erf",
    ),
    OpList(
        "passes/fuse/fusion_graph.py:STRUCTURAL NOT_ELEMENTWISE",
        LOOPS,
        {
            "elements stay at their places": " ".join(
                select("stablehlo mhlo", "loop")
                - MOVES
                - {"batch_norm_inference", "map", "stochastic_convert"}
            ),
            "no loop of one op: they are opaque": f"{BATCH_NORMS} copy dynamic_gather dynamic_pad "
            "real_dynamic_slice select_and_scatter torch_index_select",
        },
    ),
    OpList(
        "passes/fuse/kernel_cost_model.py:UNTILED",
        STRUCTURAL,
        {"XLA tiles them": "broadcast_in_dim concatenate iota reduce slice transpose"},
    ),
    OpList(
        "estimators/rules/fusion.py:_SLICES _BROADCASTS _PROPORTIONAL _VIEWS",
        MOVES,
        {
            "they read all of their operands, or have a case of their own": f"{BATCH_NORMS} "
            "dynamic_update_slice fusion scatter select_and_scatter",
            "they read nothing": "dynamic_iota iota",
        },
        " ".join(
            name.partition(".")[2]
            for name in op_kinds.VIEWS | op_kinds.FORWARDING_OPS | op_kinds.BARRIERS
        ),
    ),
    OpList(
        "estimators/product_shapes.py:PRODUCT_OPS",
        PRODUCTS,
        {"it multiplies nothing": "unary_einsum"},
    ),
    OpList(
        "estimators/calibrated/kernel_traits.py:_INSTRUCTIONS",
        TRANSCENDENTAL,
        {
            "no measurement: like log_plus_one": "_asin_acos_kernel acos acosh asin asinh atan "
            "atanh bessel_i1e broadcast_atan2 broadcast_polygamma broadcast_power broadcast_zeta "
            "cosh digamma erfc exp2 lgamma log2 polygamma sinh zeta",
        },
        "divide remainder",
    ),
    OpList(
        "estimators/calibrated/kernel_traits.py:_TRAIT_COLLECTORS",
        MOVES,
        {
            "they read and write in order": f"{BATCH_NORMS} broadcast concatenate copy "
            "dynamic_broadcast_in_dim dynamic_iota dynamic_pad dynamic_update_slice fusion iota "
            "pad real_dynamic_slice reverse",
            "XLA expands them before": "select_and_scatter torch_index_select",
        },
    ),
    OpList(
        "estimators/rules/elementwise.py:_COMPLEX_FLOPS _COMPLEX_EXPANSIONS",
        ELEMENTWISE,
        {
            "two operations for each complex element": "add compare is_finite negate select "
            "subtract convert",
            "two transcendentals for each": "cosine exponential_minus_one logistic power rsqrt "
            "sine tan tanh",
            "of real numbers": f"{BITS} {LOGIC} {SHIFTS} atan2 cbrt ceil clamp floor maximum "
            "minimum reduce_precision remainder round_nearest_afz round_nearest_even sign",
            "counted by rules of their own": EXPANDED,
        },
        "conj square",
    ),
    OpList(
        "passes/prepare/scalars.py:ARITHMETIC",
        ELEMENTWISE,
        {
            "cases of their own in the evaluator": "compare convert select",
            "of no counter of a loop: the value is unknown": f"{BITS} {COMPLEX} {EXPANDED} atan2 "
            "cbrt ceil cosine exponential exponential_minus_one floor is_finite log log_plus_one "
            "logistic power reduce_precision round_nearest_afz round_nearest_even rsqrt sine sqrt "
            "tan tanh",
        },
    ),
    OpList(
        "passes/compile/tpu_element_types.py:_SAME_TYPE",
        ELEMENTWISE | MOVES,
        {
            "the element types differ by what they do": "compare complex convert imag is_finite "
            "real",
            "XLA:TPU has them for whole numbers and truth values": f"{BITS} {LOGIC} {SHIFTS}",
            "XLA expands them before": f"{BATCH_NORMS} {DYNAMIC} {EXPANDED} torch_index_select",
            "no operand, or other programs inside": "fusion iota reduce reduce_window scatter "
            "select_and_scatter",
            "HLO calls it broadcast": "broadcast_in_dim",
        },
        "reshape",
    ),
    OpList(
        "passes/compile/hlo_program.py:COLLECTIVES",
        COLLECTIVES,
        {"not between all devices of a group: they are pairs of ops": "recv send"},
        "ragged_all_to_all",
    ),
]

# Lists that need no other op of their family, and why.
OPEN = {
    "dialects/attrs.py:COMM_KINDS": "test_op_kinds.py compares it with the collectives",
    "passes/emit/trace_tasks.py:COMM_TYPES": "the types of Chakra; others are send and receive",
    "passes/memory/buffer_sharing.py:PAIRWISE": "what XLA computes in place beside loops",
    "passes/prepare/write_trip_counts.py:LANE_OPS": "ARITHMETIC, and what the evaluator reads",
    "passes/prepare/scalars.py:IDEMPOTENT": "a reduction by another op has no known value",
    "passes/compile/rematerialisation.py:_FREE": "the views and constants of HLO",
    "passes/compile/tpu_transfers.py:_REDUCTIONS": "the names of reductions in a backend config",
    "passes/fuse/combine_collectives.py:COMMUTATIVE": "the reductions that XLA combines",
    "passes/fuse/fuse_epilogues.py:FUNCTIONS": "the ops that the formulas of epilogues consist of",
    "passes/fuse/fusion_graph.py:EXPANDED_OPS": "what XLA expands; the others are in its table",
    "passes/fuse/remove_empty_values.py:REWRITES": "other ops have results without elements",
    "passes/fuse/simplify.py:COMMUTATIVE": "only equal ops with other operands are found by it",
    "passes/fuse/simplify.py:FUNCTIONS": "functions that are computed of constants",
    "passes/fuse/simplify.py:NEUTRAL": "ops with a neutral element",
    "passes/fuse/simplify.py:NUMBER_REWRITES": "rules of the pass",
    "passes/fuse/simplify.py:REWRITES": "rules of the pass",
    "workflows/sweep/sweep_expressions.py:FUNCTIONS": "functions of numbers in sweep files, no ops",
}


def read_list(names: str) -> set[str]:
    """The short names of the ops in a list, or in several of one module."""
    path, _, variables = names.partition(":")
    module = importlib.import_module(f"hespas.{path.removesuffix('.py').replace('/', '.')}")
    listed = {name for variable in variables.split() for name in getattr(module, variable)}
    return {(name.partition(".")[2] or name).replace("-", "_") for name in listed}


@pytest.mark.parametrize("one", LISTS, ids=lambda one: one.names)
def test_a_list_decides_of_every_op_of_its_family(one: OpList) -> None:
    listed, reasoned = (
        read_list(one.names),
        [name for ops in one.rest.values() for name in ops.split()],
    )
    assert len(reasoned) == len(set(reasoned)), "an op has two reasons"
    assert not listed & set(reasoned), "in the list, and in what is not in it"
    forgotten = one.family - listed - set(reasoned)
    assert not forgotten, f"say whether {one.names} has them"
    unknown = (listed | set(reasoned)) - one.family - set(one.more.split())
    assert not unknown, "no rule of the family has such ops"


def list_written() -> Iterator[str]:
    """Find the variables of modules whose values name several ops, each in its own words."""
    known = {*get_cost_rules(), *(name.partition(".")[2] for name in get_cost_rules())}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for statement in ast.parse(path.read_text("utf-8")).body:
                if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or not statement.value:
                    continue
                words = {
                    word.replace("-", "_")
                    for node in ast.walk(statement.value)
                    if isinstance(node, ast.Constant) and isinstance(node.value, str)
                    for word in node.value.split()
                }
                if len(words & known) >= LEAST and 2 * len(words & known) >= len(words):
                    targets = getattr(statement, "targets", None) or [statement.target]
                    yield f"{path.relative_to(ROOT)}:{ast.unparse(targets[0])}"


def test_every_list_by_hand_is_compared_with_the_rules() -> None:
    """Those of ``op_kinds`` and the rules themselves are what all others are compared with."""
    stated = set(OPEN)
    for one in LISTS:
        path, _, variables = one.names.partition(":")
        stated.update(f"{path}:{name}" for name in variables.split())
    sources = ("dialects/op_kinds.py:", "estimators/rules/")
    found = {name for name in list_written() if not name.startswith(sources)}
    assert found - stated == set(), "compute it of the rules, or compare it with them here"
    assert OPEN.keys() - found == set(), "there is no such list any more"
