"""Work of single ops and fusions: rates, bytes, custom calls, errors, completeness."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.paths import ROOT
from support.versions import JAXLIB

from hespas import passes
from hespas.dialects.attrs import KERNEL_KINDS
from hespas.dialects.mlir import ir, make_context, stablehlo
from hespas.estimators.op_content import render_op_text
from hespas.estimators.rules.custom_calls import CALL_FAMILIES
from hespas.estimators.work import (
    NotALeaf,
    OpWork,
    UnknownCost,
    WorkPart,
    compute_op_work,
    find_cost_rule,
    get_cost_rules,
    is_free_op,
)
from hespas.support.errors import HespasError

Parse = Callable[[str], ir.Module]


@pytest.fixture
def first(parse: Parse) -> Callable[[str, str], ir.Operation]:
    """The last op of a function body with these arguments; its module is kept alive."""
    modules = []

    def build(arguments: str, body: str) -> ir.Operation:
        module = parse(f"func.func @main({arguments}) {{\n{body}\nreturn }}")
        modules.append(module)
        return module.body.operations[-1].regions[0].blocks[0].operations[-2].operation

    return build


def generated(dialect: str) -> set[str]:
    """The names of all ops of a dialect, from its generated bindings."""
    text = Path(stablehlo.__file__).with_name(f"_{dialect}_ops_gen.py").read_text()
    return set(re.findall(r'OPERATION_NAME = "([^"]+)"', text))


@pytest.mark.parametrize(
    ("body", "is_free"),
    [
        ("%0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (A) -> tensor<4x8x1xf32>", True),
        ("%0 = stablehlo.broadcast_in_dim %a, dims = [1, 2] : (A) -> tensor<1x4x8xf32>", True),
        ("%0 = stablehlo.broadcast_in_dim %a, dims = [1, 0] : (A) -> tensor<8x4xf32>", False),
        ("%0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (A) -> tensor<4x8x2xf32>", False),
        ("%0 = stablehlo.transpose %a, dims = [1, 0] : (A) -> tensor<8x4xf32>", False),
        ("%0 = stablehlo.transpose %b, dims = [1, 0, 2] : (B) -> tensor<1x4x8xf32>", True),
        ("%0 = stablehlo.transpose %b, dims = [2, 1, 0] : (B) -> tensor<8x1x4xf32>", False),
    ],
)
def test_what_only_moves_dimensions_of_size_1_is_a_view(first, body, is_free):
    a, b = "tensor<4x8xf32>", "tensor<4x1x8xf32>"
    op = first(f"%a: {a}, %b: {b}", body.replace("(A)", f"({a})").replace("(B)", f"({b})"))
    assert compute_op_work(op).is_free == is_free


# Of jaxlib 0.12, a reduction to one device of each group.
REFUSED = {"stablehlo.collective_reduce", "mhlo.collective_reduce"}


@pytest.mark.skipif(JAXLIB < (0, 12), reason="jaxlib does not know the op")
def test_a_collective_without_a_model_is_refused() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.collective_reduce"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }"""
    module = ir.Module.parse(text, make_context())
    with pytest.raises(HespasError, match=r"'stablehlo\.collective_reduce'"):
        passes.run_pipeline(module, "split-linear,roofline-annotate{node=A100_SXM_40GB}")


@pytest.mark.parametrize("dialect", ["stablehlo", "mhlo", "chlo"])
def test_every_op_has_a_rule(dialect: str) -> None:
    assert generated(dialect) - get_cost_rules().keys() - REFUSED == set()
    groups = {"leaf", "free", "collective", "control", "terminator", "host"}
    for name, rule in get_cost_rules().items():
        assert rule.group in groups and rule.kind in KERNEL_KINDS, name


def test_the_documentation_lists_every_op() -> None:
    page = (ROOT / "docs/reference/op-costs.md").read_text()
    for name in generated("stablehlo") - REFUSED:
        assert f"| `{name.removeprefix('stablehlo.')}` |" in page


def dot(lhs: str, rhs: str, out: str, extra: str = "") -> str:
    return (
        f"%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]{extra} : "
        f"(tensor<4x8x{lhs}>, tensor<8x16x{rhs}>) -> tensor<4x16x{out}>"
    )


ALGORITHM = (
    ", algorithm = <lhs_precision_type = {0}, rhs_precision_type = {0}, accumulation_type = f32, "
    "lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = {1}, "
    "allow_imprecise_accumulation = false>"
)


@pytest.mark.parametrize(
    ("lhs", "rhs", "out", "extra", "unit", "key", "times"),
    [
        ("bf16", "bf16", "f32", "", "matrix", "bf16", 1),
        ("f16", "f16", "f16", "", "matrix", "f16", 1),
        ("i8", "i8", "i32", "", "matrix", "i8", 1),
        ("i4", "i8", "i32", "", "matrix", "i8", 1),
        ("f8E4M3FN", "f8E5M2", "f32", "", "matrix", "f8", 1),
        ("f4E2M1FN", "f4E2M1FN", "f32", "", "matrix", "f4", 1),
        ("f6E2M3FN", "f6E2M3FN", "f32", "", "matrix", "f6", 1),
        ("i32", "i32", "i32", "", "vector", "i32", 1),
        ("f64", "f64", "f64", "", "matrix", "f64", 1),
        ("f32", "f32", "f32", "", "matrix", "tf32", 1),
        ("f32", "bf16", "f32", "", "matrix", "tf32", 1),
        ("f32", "f32", "f32", ", precision = [DEFAULT, DEFAULT]", "matrix", "tf32", 1),
        ("f32", "f32", "f32", ", precision = [HIGH, HIGH]", "matrix", "tf32", 1),
        ("f32", "f32", "f32", ", precision = [HIGHEST, HIGHEST]", "matrix", "f32", 1),
        ("f32", "f32", "f32", ALGORITHM.format("f32", 1), "matrix", "f32", 1),
        ("f32", "f32", "f32", ALGORITHM.format("tf32", 3), "matrix", "tf32", 3),
        ("f32", "f32", "f32", ALGORITHM.format("bf16", 6), "matrix", "bf16", 6),
        ("complex<f32>", "complex<f32>", "complex<f32>", "", "matrix", "tf32", 4),
    ],
)
def test_rate_of_a_product(first, lhs, rhs, out, extra, unit, key, times) -> None:
    op = first(f"%a: tensor<4x8x{lhs}>, %b: tensor<8x16x{rhs}>", dot(lhs, rhs, out, extra))
    assert compute_op_work(op).parts == (WorkPart(unit, key, 1024 * times),)


OPS = [
    (  # i1 takes a byte, comparison runs at its operands' rate
        "%a: tensor<100xf32>, %b: tensor<100xf32>",
        "%0 = stablehlo.compare LT, %a, %b : (tensor<100xf32>, tensor<100xf32>) -> tensor<100xi1>",
        OpWork("loop", 800, 100, (WorkPart("vector", "f32", 100),)),
    ),
    (
        "%p: tensor<100xi1>, %a: tensor<100xbf16>, %b: tensor<100xbf16>",
        "%0 = stablehlo.select %p, %a, %b : tensor<100xi1>, tensor<100xbf16>",
        OpWork("loop", 500, 200, (WorkPart("vector", "bf16", 100),)),
    ),
    (  # types below a byte are packed, to whole bytes
        "%a: tensor<11xi4>",
        "%0 = stablehlo.add %a, %a : tensor<11xi4>",
        OpWork("loop", 12, 6, (WorkPart("vector", "i4", 11),)),
    ),
    (
        "%a: tensor<100xi1>",
        "%0 = stablehlo.convert %a : (tensor<100xi1>) -> tensor<100xf32>",
        OpWork("loop", 100, 400, (WorkPart("vector", "f32", 100),)),
    ),
    (
        "%a: tensor<100xf32>",
        "%0 = stablehlo.exponential %a : tensor<100xf32>",
        OpWork("loop", 400, 400, (), transcendentals=100),
    ),
    (
        "%a: tensor<10xcomplex<f64>>",
        "%0 = stablehlo.multiply %a, %a : tensor<10xcomplex<f64>>",
        OpWork("loop", 320, 160, (WorkPart("vector", "f64", 60),)),
    ),
    (
        "%a: tensor<10xcomplex<f64>>, %b: tensor<complex<f64>>",
        "%0 = chlo.broadcast_multiply %a, %b : (tensor<10xcomplex<f64>>, tensor<complex<f64>>)"
        " -> tensor<10xcomplex<f64>>",
        OpWork("loop", 176, 160, (WorkPart("vector", "f64", 60),)),
    ),
    (
        "%a: tensor<2x3xf32>",
        "%0 = stablehlo.reshape %a : (tensor<2x3xf32>) -> tensor<6xf32>",
        OpWork("free", 0, 0, ()),
    ),
    (  # the layout undoes the permutation: XLA moves nothing
        "%a: tensor<2x3xf32>",
        "%0 = stablehlo.transpose %a, dims = [1, 0] "
        "{result_layout = dense<[0, 1]> : tensor<2xindex>} : "
        "(tensor<2x3xf32>) -> tensor<3x2xf32>",
        OpWork("free", 0, 0, ()),
    ),
    (
        "%a: tensor<2x3xf32>",
        "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>",
        OpWork("transpose", 24, 24, ()),
    ),
    (
        "%a: tensor<1000xf32>, %u: tensor<10xf32>, %i: tensor<i32>",
        "%0 = stablehlo.dynamic_update_slice %a, %u, %i : "
        "(tensor<1000xf32>, tensor<10xf32>, tensor<i32>) -> tensor<1000xf32>",
        OpWork("copy", 44, 40, ()),
    ),
    (  # 50,000 rows, 5 read
        "%a: tensor<50000x8xf32>, %i: tensor<5x1xi32>",
        '%0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = '
        "[1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
        "slice_sizes = array<i64: 1, 8>}> : (tensor<50000x8xf32>, tensor<5x1xi32>) -> "
        "tensor<5x8xf32>",
        OpWork("gather", 180, 160, ()),
    ),
    (  # 2 rows, 5 read: no more than the table
        "%a: tensor<2x8xf32>, %i: tensor<5x1xi32>",
        '%0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = '
        "[1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
        "slice_sizes = array<i64: 1, 8>}> : (tensor<2x8xf32>, tensor<5x1xi32>) -> "
        "tensor<5x8xf32>",
        OpWork("gather", 84, 160, ()),
    ),
    (  # the comparator's operations, n log2 n times per row
        "%a: tensor<4x8xf32>",
        '%0 = "stablehlo.sort"(%a) <{dimension = 1 : i64}> ({'
        "^bb0(%x: tensor<f32>, %y: tensor<f32>): %c = stablehlo.compare LT, %x, %y : "
        "(tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return %c : tensor<i1>}) : "
        "(tensor<4x8xf32>) -> tensor<4x8xf32>",
        OpWork("sort", 128, 128, (WorkPart("vector", "f32", 96),)),
    ),
    (
        "%a: tensor<4xui64>",
        "%0, %1 = stablehlo.rng_bit_generator %a, algorithm = PHILOX : "
        "(tensor<4xui64>) -> (tensor<4xui64>, tensor<100xui32>)",
        OpWork("rng", 32, 432, (WorkPart("vector", "i32", 2500),)),
    ),
    (
        "%a: tensor<2x64xf32>",
        "%0 = stablehlo.fft %a, type = RFFT, length = [64] : "
        "(tensor<2x64xf32>) -> tensor<2x33xcomplex<f32>>",
        OpWork("fft", 512, 528, (WorkPart("vector", "f32", 5 * 128 * 6 // 2),)),
    ),
    (  # each row meets one of the four groups
        "%a: tensor<32x8xbf16>, %b: tensor<4x8x16xbf16>, %g: tensor<4xi32>",
        '%0 = "chlo.ragged_dot"(%a, %b, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<'
        "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], "
        "lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<32x8xbf16>, "
        "tensor<4x8x16xbf16>, tensor<4xi32>) -> tensor<32x16xbf16>",
        OpWork("gemm", 1552, 1024, (WorkPart("matrix", "bf16", 8192),)),
    ),
    (
        "%a: tensor<8x16x4xf32>, %f: tensor<4xf32>",
        '%0:3 = "stablehlo.batch_norm_training"(%a, %f, %f) <{epsilon = 1.0e-5 : f32, '
        "feature_index = 2 : i64}> : (tensor<8x16x4xf32>, tensor<4xf32>, tensor<4xf32>) -> "
        "(tensor<8x16x4xf32>, tensor<4xf32>, tensor<4xf32>)",
        OpWork("reduction", 4128, 2080, (WorkPart("vector", "f32", 4096),), transcendentals=4),
    ),
    (
        "%a: tensor<512xf32>, %i: tensor<f32>",
        "%0:2 = chlo.scan(%a) inits (%i) dimension=0 attributes {is_reverse = false} {\n"
        "^bb0(%x: tensor<f32>, %y: tensor<f32>): %s = stablehlo.add %x, %y : tensor<f32>\n"
        "stablehlo.return %s, %s : tensor<f32>, tensor<f32>} : "
        "(tensor<512xf32>, tensor<f32>) -> (tensor<512xf32>, tensor<f32>)",
        OpWork("scan", 2052, 2052, (WorkPart("vector", "f32", 512),)),
    ),
    (  # a comparison with the threshold, and two levels of a tree of the four largest
        "%a: tensor<4x16xf32>",
        "%0:2 = chlo.top_k(%a, k = 4) : tensor<4x16xf32> -> (tensor<4x4xf32>, tensor<4x4xi32>)",
        OpWork("sort", 256, 128, (WorkPart("vector", "f32", 3 * 64),)),
    ),
    (
        "",
        '%0 = "mhlo.xla.rng_get_and_update_state"() <{delta = 1 : i64}> : () -> tensor<2xui64>',
        OpWork("rng", 16, 16, ()),
    ),
]


@pytest.mark.parametrize(("arguments", "body", "expected"), OPS)
def test_work_of_an_op(first, arguments: str, body: str, expected: OpWork) -> None:
    op = first(arguments, body)
    assert compute_op_work(op) == expected
    assert is_free_op(op) == expected.is_free


def test_a_rule_that_no_op_of_stablehlo_has_is_tested() -> None:
    """XLA's counts check the others (``test_work_oracle.py``), and values check fusions."""
    ops_by_function: dict[object, list[str]] = {}
    for name, rule in get_cost_rules().items():
        if rule.group == "leaf" and name != "mhlo.fusion":
            ops_by_function.setdefault(rule.work.__code__, []).append(name)
    bodies = "\n".join(body for _, body, _ in OPS)
    untested = [
        names
        for names in ops_by_function.values()
        if not any(name.startswith("stablehlo.") or name in bodies for name in names)
    ]
    assert not untested, f"add cases of {untested}"


CONFIG = r"{\22gemm_backend_config\22:{\22epilogue\22:\22%s\22,%s\22beta\22:0}}"
DIMS = (
    r"\22dot_dimension_numbers\22:{\22lhs_contracting_dimensions\22:[\221\22],"
    r"\22rhs_contracting_dimensions\22:[\220\22]},"
)
WINDOW = "\\22,\\22sliding_window_length\\22:32,\\22seed\\22:\\22"
SCORES = (
    r"{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22%s\22,\22intermediate_tensor_shape\22:"
    r"{\22dimensions\22:[\222\22,\224\22,\22128\22,\22128\22]}}}"
)
PAGED_SCORES = (
    r"{\22cudnn_fmha_backend_config\22:{\22mask_type\22:\22PADDING\22,\22is_paged_attention\22:true,"
    r"\22intermediate_tensor_shape\22:{\22dimensions\22:[\222\22,\224\22,\221\22,\2216\22]}}}"
)
QKV = "tensor<2x128x4x64xbf16>"
ATTENDED = 8 * sum(min(query + 1, 32) for query in range(128))


CALLS = [
    (
        "nvte_quantize",
        "",
        ("tensor<1x32x64xbf16>", "tensor<f32>"),
        "tuple<tensor<1x32x64xf4E2M1FN>, tensor<1x32x4xf8E4M3FN>>",
        OpWork(
            "loop",
            2 * 32 * 64 + 4,
            32 * 64 // 2 + 32 * 4,
            (WorkPart("vector", "f32", 5 * (32 * 64 + 32 * 4)),),
        ),
    ),
    (
        "nvte_hadamard_transform_amax",
        "",
        ("tensor<1x32x64xbf16>",),
        "tuple<tensor<f32>, tensor<f32>>",
        OpWork(
            "loop",
            2 * 32 * 64,
            8,
            (
                WorkPart("vector", "f32", 2 * 32 * 64),
                WorkPart("matrix", "bf16", 2 * 16 * 32 * 64),
            ),
        ),
    ),
    (
        "__cublas$lt$matmul",
        CONFIG % ("BIAS_RELU", DIMS),
        ("tensor<4x8xbf16>", "tensor<8x16xbf16>", "tensor<16xbf16>"),
        "tuple<tensor<4x16xbf16>, tensor<4096xi8>>",
        OpWork(
            "gemm",
            352,
            128,
            (WorkPart("matrix", "bf16", 1024), WorkPart("vector", "bf16", 128)),
        ),  # the workspace is not written
    ),
    (  # no dimension numbers: depth from the sizes
        "__cublas$gemm",
        "",
        ("tensor<3x4x8xf32>", "tensor<3x8x16xf32>"),
        "tensor<3x4x16xf32>",
        OpWork("gemm", 1920, 768, (WorkPart("matrix", "tf32", 3072),)),
    ),
    (
        "__cublas$lt$matmul$f8",
        CONFIG % ("GELU", DIMS),
        ("tensor<4x8xf8E4M3FN>", "tensor<8x16xf8E4M3FN>", "tensor<f32>", "tensor<f32>"),
        "tensor<4x16xf16>",
        OpWork(
            "gemm",
            168,
            128,
            (WorkPart("matrix", "f8", 1024), WorkPart("vector", "f16", 512)),
            64,
        ),
    ),
    (  # grouped, NCHW: one input channel per output channel
        "__cudnn$convForward",
        "",
        ("tensor<1x32x10x10xf32>", "tensor<32x1x3x3xf32>"),
        "tuple<tensor<1x32x8x8xf32>, tensor<0xui8>>",
        OpWork("conv", 13952, 8192, (WorkPart("matrix", "tf32", 2 * 32 * 64 * 9),)),
    ),
    (
        "__cudnn$fmhaSoftmax",
        SCORES % "NO_MASK",
        (QKV, QKV, QKV),
        f"tuple<{QKV}, tensor<0xui8>>",
        OpWork(
            "attention",
            3 * 131072,
            131072,
            (
                WorkPart("matrix", "bf16", 4 * 131072 * 64),
                WorkPart("vector", "f32", 5 * 131072),
            ),
            131072,
        ),
    ),
    (
        "__cudnn$fmhaSoftmaxBackward",
        SCORES % "CAUSAL",
        (QKV, QKV, QKV),
        f"tuple<{QKV}, {QKV}, {QKV}>",
        OpWork(
            "attention",
            3 * 131072,
            3 * 131072,
            (WorkPart("matrix", "bf16", 10 * 66048 * 64), WorkPart("vector", "f32", 5 * 66048)),
            66048,
        ),
    ),
    (  # one query of each sequence, and 4 pages of 16 tokens: the cache is read once
        "__cudnn$fmhaSoftmax",
        PAGED_SCORES,
        (
            "tensor<2x1x4x64xbf16>",
            *["tensor<8x16x2x64xbf16>"] * 2,
            *["tensor<2xi32>"] * 2,
            *["tensor<2x1x4x1xi32>"] * 2,
        ),
        "tuple<tensor<2x4x1x64xbf16>, tensor<0xui8>>",
        OpWork(
            "attention",
            2 * 2 * (8 * 16 * 2 * 64) + 2 * (2 * 4 * 64) + 4 * (2 + 2) + 4 * 2 * (2 * 4),
            2 * (2 * 4 * 64),
            (
                WorkPart("matrix", "bf16", 4 * (2 * 4 * 64) * 64),
                WorkPart("vector", "f32", 5 * (2 * 4 * 64)),
            ),
            2 * 4 * 64,
        ),
    ),
    (  # a window of 32 of 128 tokens; values of 32 instead of 64, as in latent attention
        "__cudnn$fmhaSoftmaxBackward",
        SCORES % ("CAUSAL" + WINDOW),
        (QKV, QKV, "tensor<2x128x4x32xbf16>"),
        f"tuple<{QKV}, {QKV}, tensor<2x128x4x32xbf16>>",
        OpWork(
            "attention",
            5 * 65536,
            5 * 65536,
            (
                WorkPart("matrix", "bf16", 2 * ATTENDED * (3 * 64 + 2 * 32)),
                WorkPart("vector", "f32", 5 * ATTENDED),
            ),
            ATTENDED,
        ),
    ),
    (
        "lapack_spotrf_ffi",
        "",
        ("tensor<2x30x30xf32>",),
        "tuple<tensor<2x30x30xf32>, tensor<2xi32>>",
        OpWork("linalg", 7200, 7208, (WorkPart("vector", "f32", 18000),)),
    ),
    (
        "cusolver_getrf_ffi",
        "",
        ("tensor<40x30xf64>",),
        "tuple<tensor<40x30xf64>, tensor<30xi32>, tensor<i32>>",
        OpWork("linalg", 9600, 9724, (WorkPart("vector", "f64", 27000),)),
    ),
    (  # 8 systems of 30 equations, 3 right-hand sides: 8 x (3 x 30 + 5 x 30 x 3)
        "lapack_sgtsv_ffi",
        "",
        ("tensor<8x30xf32>", "tensor<8x30xf32>", "tensor<8x30xf32>", "tensor<8x30x3xf32>"),
        "tensor<8x30x3xf32>",
        OpWork("linalg", 5760, 2880, (WorkPart("vector", "f32", 4320),)),
    ),
    (
        "cusparse_gtsv2_ffi",
        "",
        ("tensor<8x30xf32>", "tensor<8x30xf32>", "tensor<8x30xf32>", "tensor<8x30x3xf32>"),
        "tensor<8x30x3xf32>",
        OpWork("linalg", 5760, 2880, (WorkPart("vector", "f32", 4320),)),
    ),
    (  # 2 x 20 x 10 x 20: the products of a matrix and its transpose, half of them computed
        "cusolver_syrk_ffi",
        "",
        ("tensor<2x20x10xf32>", "tensor<2x20x20xf32>", "tensor<f32>", "tensor<f32>"),
        "tensor<2x20x20xf32>",
        OpWork("linalg", 4808, 3200, (WorkPart("vector", "f32", 8000),)),
    ),
    (  # as cusolver_geqrf_ffi: 2 x 10 x 10 x (20 - 10 / 3)
        "cuhybrid_geqp3",
        "",
        ("tensor<20x10xf32>", "tensor<10xi32>"),
        "tuple<tensor<20x10xf32>, tensor<10xi32>, tensor<10xf32>>",
        OpWork("linalg", 840, 880, (WorkPart("vector", "f32", 3333),)),
    ),
    (  # as lapack_sgeev_ffi: 25 x 10^3, complex
        "cuhybrid_eig_comp",
        "",
        ("tensor<10x10xcomplex<f32>>",),
        "tuple<tensor<10xcomplex<f32>>, tensor<10x10xcomplex<f32>>, tensor<i32>>",
        OpWork("linalg", 800, 884, (WorkPart("vector", "f32", 100000),)),
    ),
    *(
        (  # 3 reflectors of 20 numbers turn 10 vectors each: 2 x 3 x (2 x 20 - 3) x 10
            "cusolver_ormqr_ffi",
            "",
            ("tensor<2x20x3xf32>", "tensor<2x3xf32>", matrix),
            matrix,
            OpWork("linalg", 2104, 1600, (WorkPart("vector", "f32", 4440),)),
        )
        for matrix in ("tensor<2x20x10xf32>", "tensor<2x10x20xf32>")
    ),
    (
        "TopK",
        "",
        ("tensor<4x128xf32>",),
        "tuple<tensor<4x8xf32>, tensor<4x8xi32>>",
        OpWork("sort", 2048, 256, (WorkPart("vector", "f32", 2048),)),
    ),
    (
        "__cudnn$norm",
        "",
        ("tensor<4x8xbf16>", "tensor<8xf32>", "tensor<8xf32>"),
        "tensor<4x8xbf16>",
        OpWork("reduction", 128, 64, (WorkPart("vector", "bf16", 256),)),
    ),
    *(
        (
            f"AwsNeuron{name}",
            "",
            ("tensor<4x8xf32>",) * operands,
            "tensor<4x8xf32>",
            OpWork(kind, 128 * operands, 128, (WorkPart("vector", "f32", 32 * flops),), exp),
        )
        for name, operands, kind, flops, exp in (
            ("Gelu", 1, "loop", 8, 32),
            ("GeluBackward", 2, "loop", 8, 32),
            ("Softmax", 1, "reduction", 5, 32),
            ("SoftmaxBackward", 2, "reduction", 5, 0),
        )
    ),
    (
        "AwsNeuronTransferWithStaticRing",
        "",
        ("tensor<4xf32>",),
        "tensor<4xf32>",
        OpWork("free", 0, 0, ()),
    ),
    (  # four passes over keys and values, and one over the keys
        "__cub$DeviceRadixSort",
        "",
        ("tensor<1000xf32>", "tensor<1000xi16>"),
        "tuple<tensor<1000xf32>, tensor<1000xi16>, tensor<2048xui8>>",
        OpWork("sort", 28000, 24000, (WorkPart("vector", "f32", 4000),)),
    ),
    (
        "cu_threefry2x32_ffi",
        "",
        ("tensor<16xui32>",) * 4,
        "tuple<tensor<16xui32>, tensor<16xui32>>",
        OpWork("rng", 256, 128, (WorkPart("vector", "i32", 32 * 58),)),
    ),
    ("Sharding", "", ("tensor<4xf32>",), "tensor<4xf32>", OpWork("free", 0, 0, ())),
    (
        "tpu_custom_call",
        r"{\22custom_call_config\22:{\22cost_estimate\22:{\22flops\22:7,\22transcendentals\22:3,"
        r"\22bytes_accessed\22:48}}}",
        ("tensor<4xf32>",),
        "tensor<4xf32>",
        OpWork("custom", 32, 16, (WorkPart("matrix", "f32", 7),), 3),
    ),
    (
        "xla_ffi_python_cpu_callback",
        "",
        ("tensor<4xf32>",),
        "tuple<tensor<2xf32>>",
        OpWork(
            "custom",
            16,
            8,
            (),
            gap="@xla_ffi_python_cpu_callback runs on the host, whose time is not known",
        ),
    ),
]


@pytest.mark.parametrize(("target", "config", "operands", "result", "expected"), CALLS)
def test_custom_calls(first, target, config, operands, result, expected) -> None:
    arguments = ", ".join(f"%a{i}: {type_}" for i, type_ in enumerate(operands))
    values = ", ".join(f"%a{i}" for i in range(len(operands)))
    body = (
        f'%0 = stablehlo.custom_call @{target}({values}) {{backend_config = "{config}"}} : '
        f"({', '.join(operands)}) -> {result}"
    )
    assert compute_op_work(first(arguments, body)) == expected


def test_every_family_of_custom_calls_has_a_case() -> None:
    targets = [target for target, *_ in CALLS]
    untested = [
        family.targets
        for family in CALL_FAMILIES
        if not any(re.fullmatch(family.pattern, target) for target in targets)
    ]
    assert not untested, f"add cases of {untested}"


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("%0 = stablehlo.custom_call @mystery(%a) : (tensor<4xf32>) -> tensor<4xf32>",
         UnknownCost, "error: 'stablehlo.custom_call': custom call @mystery has no cost rule"),
        ("%0 = stablehlo.custom_call @__gpu$xla.gpu.triton(%a) : (tensor<4xf32>) -> tensor<4xf32>",
         UnknownCost, "holds a kernel that only it can cost; declare the work of"),
        ("%0 = stablehlo.custom_call @ragged_all_to_all(%a) : (tensor<4xf32>) -> tensor<4xf32>",
         NotALeaf, "collective"),
        ("%0 = math.exp %a : tensor<4xf32>", UnknownCost, "no cost rule for this op"),
        ("%0 = stablehlo.add %d, %d : tensor<?xf32>", HespasError,
         r"tensor<\?xf32> is not static; give the sizes with --prepare=dims"),
        ('%0 = "stablehlo.if"(%p) ({stablehlo.return %a : tensor<4xf32>}, {stablehlo.return %a : '
         "tensor<4xf32>}) : (tensor<i1>) -> tensor<4xf32>", NotALeaf, "walk into it"),
    ],
)  # fmt: skip
def test_what_has_no_work(first, body: str, error: type[Exception], message: str) -> None:
    op = first("%a: tensor<4xf32>, %d: tensor<?xf32>, %p: tensor<i1>", body)
    with pytest.raises(error, match=message.replace("$", r"\$")):
        compute_op_work(op)
    assert not is_free_op(op)


def test_work_depends_on_the_text_alone(first) -> None:
    arguments = "%a: tensor<4xf32>, %b: tensor<4xf32>"
    square = first(arguments, "%0 = stablehlo.multiply %a, %a : tensor<4xf32>")
    product = first(arguments, "%0 = stablehlo.multiply %a, %b : tensor<4xf32>")
    assert render_op_text(square) == render_op_text(product)
    assert compute_op_work(square) == compute_op_work(product)


def test_properties() -> None:
    work = OpWork("gemm", 1, 2, (WorkPart("vector", "f32", 3), WorkPart("matrix", "bf16", 9)))
    assert (work.flops, work.dtype, work.is_free) == (12, "bf16", False)
    assert (OpWork("free", 0, 0, ()).dtype, OpWork("free", 0, 0, ()).is_free) == ("none", True)
    assert not OpWork("loop", 0, 0, (), transcendentals=1).is_free
    assert find_cost_rule("nothing.at_all") is None
