"""Rewriting what XLA's optimiser leaves: the new ops compute what the old ones stand for."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples, thin_out
from support.execution import call, execute

from hespas import frontends, passes
from hespas.dialects.mlir import collect_functions, ir, make_context
from hespas.estimators.lower.plain_stablehlo import (
    lower_to_plain_stablehlo,
    render_compilable_module,
)
from hespas.estimators.work import UnknownCost
from hespas.passes.base import PassRun

CONTEXT = make_context()
RANDOM = np.random.default_rng(0)


def plain(text: str) -> ir.Module:
    """The module, rewritten and verified, without anything that compilers refuse."""
    module = ir.Module.parse(text, CONTEXT)
    lower_to_plain_stablehlo(module)
    module.operation.verify()
    for word in ("mhlo.", "cudnn", "cublas", "tuple"):
        assert word not in str(module)
    return module


def type_of(array: np.ndarray) -> str:
    names = {"f": "f", "i": "i", "u": "ui"}
    element = f"{names[array.dtype.kind]}{8 * array.dtype.itemsize}"
    return f"tensor<{''.join(f'{n}x' for n in array.shape)}{element}>"


@st.composite
def bitcasts(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], list[int]]:
    """Two shapes of as many elements, and a layout (minor to major) of each."""
    factors = draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=4))
    source = factors
    order = draw(st.permutations(factors))
    cut = draw(st.integers(0, len(order)))
    merged = [math.prod(order[:cut]), *order[cut:]]
    layouts = [draw(st.permutations(range(len(shape)))) for shape in (source, merged)]
    return source, layouts[0], merged, layouts[1]


def index_attr(values: list[int]) -> str:
    return f"dense<{values}> : tensor<{len(values)}xindex>"


def bitcast_text(source: str, result: str, attributes: str = "") -> str:
    return f"""func.func @main(%x: {source}) -> {result} {{
      %0 = "mhlo.bitcast"(%x) {{{attributes}}} : ({source}) -> {result}
      return %0 : {result} }}"""


@draw_examples(30, derandomize=True)
@given(bitcasts())
def test_a_bitcast_reads_the_same_memory(data):
    """Against numpy: the bytes in the source's order in memory are those in the result's."""
    source, source_layout, result, result_layout = data
    x = np.arange(math.prod(source), dtype=np.float32).reshape(source)
    attributes = (
        f"source_layout = {index_attr(source_layout)}, result_layout = {index_attr(result_layout)}"
    )
    y = np.empty(result, np.float32)
    (output,) = call(plain(bitcast_text(type_of(x), type_of(y), attributes)), [x])
    assert output.shape == tuple(result)
    memory = x.transpose(source_layout[::-1]).ravel()
    np.testing.assert_array_equal(output.transpose(result_layout[::-1]).ravel(), memory)


@pytest.mark.parametrize("expected", [np.int32, np.int16, np.uint8, np.float64])
def test_a_bitcast_changes_the_element_type(expected):
    x = RANDOM.integers(-(2**31), 2**31, (6, 4), np.int32)
    y = x.view(expected).reshape(2, -1)
    (result,) = call(plain(bitcast_text(type_of(x), type_of(y))), [x])
    np.testing.assert_array_equal(result.view(np.uint8), y.view(np.uint8))


def test_a_bitcast_that_cannot_be():
    text = bitcast_text("tensor<4xf32>", "tensor<5xf32>")
    with pytest.raises(UnknownCost, match="changes its size"):
        lower_to_plain_stablehlo(ir.Module.parse(text, CONTEXT))
    layout = f"source_layout = {index_attr([0, 1])}"
    text = bitcast_text("tensor<4xf32>", "tensor<2x2xf32>", layout)
    with pytest.raises(UnknownCost, match="its source_layout does not fit tensor<4xf32>"):
        lower_to_plain_stablehlo(ir.Module.parse(text, CONTEXT))


def test_fusions_copies_and_mhlo_ops():
    module = plain(
        """
        func.func @main(%x: tensor<8xf32>, %c: tensor<f32>) -> (tensor<8xf32>, tensor<2xf32>) {
          %0:2 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kInput>}> ({
          ^bb0(%a: tensor<8xf32>):
            %1 = "mhlo.fusion"(%a) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
            ^bb0(%b: tensor<8xf32>):
              %2 = mhlo.erf %b : tensor<8xf32>
              mhlo.return %2 : tensor<8xf32>
            }) : (tensor<8xf32>) -> tensor<8xf32>
            %3 = mhlo.copy %1 : tensor<8xf32>
            %4 = mhlo.add %3, %a : tensor<8xf32>
            mhlo.return %4, %3 : tensor<8xf32>, tensor<8xf32>
          }) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
          %5 = mhlo.asinh %0#0 : tensor<8xf32>
          %6:2 = mhlo.topk(%0#1, k=2, largest=true)
            : tensor<8xf32> -> (tensor<2xf32>, tensor<2xi32>)
          return %5, %6#0 : tensor<8xf32>, tensor<2xf32>
        }
        """
    )
    x = RANDOM.normal(size=8).astype(np.float32)
    first, second = call(module, [x, np.zeros((), np.float32)])
    erf = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(first, np.arcsinh(erf + x), rtol=1e-5)
    np.testing.assert_allclose(second, np.sort(erf)[::-1][:2], rtol=1e-5)


def test_the_upper_half_of_a_product_is_an_op_of_chlo():
    module = plain(
        """
        func.func @main(%x: tensor<2xui32>) -> tensor<2xui32> {
          %0 = mhlo.mulhi %x, %x : tensor<2xui32>
          %1 = sdy.reshard %0 <@mesh, [{}]> : tensor<2xui32>
          return %1 : tensor<2xui32>
        }
        sdy.mesh @mesh = <["x"=1]>
        """
    )
    (result,) = call(module, [np.array([2**31, 2**16], np.uint32)])
    np.testing.assert_array_equal(result, [2**30, 1])


def test_tuples_go_in_and_out():
    pair = "tuple<tensor<2xf32>, tuple<tensor<3xi32>>>"
    module = plain(
        f"""
        func.func @main(%t: {pair}, %x: tensor<2xf32>) -> (tensor<2xf32>, tuple<tensor<3xi32>>) {{
          %0 = stablehlo.get_tuple_element %t[0] : ({pair}) -> tensor<2xf32>
          %1 = stablehlo.get_tuple_element %t[1] : ({pair}) -> tuple<tensor<3xi32>>
          %2 = stablehlo.add %0, %x : tensor<2xf32>
          return %2, %1 : tensor<2xf32>, tuple<tensor<3xi32>>
        }}
        """
    )
    x, f, i = np.ones(2, np.float32), np.full(2, 2.0, np.float32), np.arange(3, dtype=np.int32)
    first, second = call(module, [x, f, i])
    assert list(first) == [3.0, 3.0]
    assert list(second) == [0, 1, 2]


def library_call(
    target: str, config: dict[str, Any], inputs: list[np.ndarray], result: np.ndarray
) -> np.ndarray:
    """The result of a cuDNN or cuBLAS call, rewritten and run."""
    types = ", ".join(type_of(x) for x in inputs)
    names = ", ".join(f"%a{i}" for i in range(len(inputs)))
    given_ = ", ".join(f"%a{i}: {type_of(x)}" for i, x in enumerate(inputs))
    out = type_of(result)
    quoted = json.dumps(config).replace('"', '\\"')
    text = f"""func.func @main({given_}) -> {out} {{
      %0 = stablehlo.custom_call @{target}({names}) {{backend_config = "{quoted}"}}
        : ({types}) -> tuple<{out}, tensor<7xui8>>
      %1 = stablehlo.get_tuple_element %0[0] : (tuple<{out}, tensor<7xui8>>) -> {out}
      return %1 : {out} }}"""
    (output,) = call(plain(text), inputs)
    return output


WINDOWS = [  # layout, image, kernel, channels in and out, groups, stride, padding, dilation
    ("NHWC", (9, 9), (3, 3), 4, 6, 1, 2, 1, 1),
    ("NCHW", (8, 12), (3, 3), 4, 6, 1, 1, 1, 1),
    ("NCHW", (9, 8), (3, 3), 4, 4, 4, 1, 1, 1),
    ("NHWC", (10, 8), (1, 1), 4, 8, 1, 2, 0, 1),
    ("NHWC", (12, 9), (3, 3), 4, 6, 1, 1, 0, 2),
    ("NHWC", (14, 14), (7, 7), 3, 8, 1, 2, 3, 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("window", thin_out(WINDOWS, 2), ids=lambda w: "-".join(map(str, w)))
def test_convolutions_are_those_of_jax(window):
    import jax

    layout, space, kernel, inputs, outputs, groups, stride, padding, dilation = window
    filters = "OHWI" if layout == "NHWC" else "OIHW"

    def shaped(letters: str, sizes: dict[str, int]) -> np.ndarray:
        return RANDOM.normal(size=[sizes[c] for c in letters]).astype(np.float32)

    x = shaped(layout, dict(zip("NHWC", (2, *space, inputs), strict=True)))
    w = shaped(filters, dict(zip("OHWI", (outputs, *kernel, inputs // groups), strict=True)))

    def forward(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, w, (stride,) * 2, [(padding,) * 2] * 2, rhs_dilation=(dilation,) * 2,
            dimension_numbers=(layout, filters, layout), feature_group_count=groups,
        )  # fmt: skip

    y, gradients = jax.vjp(forward, x, w)
    y, dy = np.asarray(y), shaped("NHWC", dict(zip("NHWC", y.shape, strict=True)))
    dx, dw = map(np.asarray, gradients(dy))
    bias = shaped("O", {"O": outputs})
    leaky = {"activation_mode": "kLeakyRelu", "leakyrelu_alpha": 0.2, "conv_result_scale": 2}
    config: dict[str, Any] = {"cudnn_conv_backend_config": leaky}
    result = library_call("__cudnn$convBiasActivationForward", config, [x, w, bias], y)
    z = 2 * y + (bias if layout == "NHWC" else bias[:, None, None])
    close(result, np.where(z > 0, z, 0.2 * z))
    close(library_call("__cudnn$convForward", {}, [x, w], y), y)
    close(library_call("__cudnn$convBackwardFilter", {}, [x, dy], w), dw)
    if groups == 1:
        close(library_call("__cudnn$convBackwardInput", {}, [dy, w], x), dx)
    else:
        with pytest.raises(UnknownCost, match="the gradient of a grouped convolution"):
            library_call("__cudnn$convBackwardInput", {}, [dy, w], x)


def close(result: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def product_config(epilogue: str = "DEFAULT", beta: float = 0.0, **batch: list[str]) -> Any:
    dims = {"lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["0"], **batch}
    return {
        "gemm_backend_config": {
            "alpha_real": 0.5, "beta": beta, "epilogue": epilogue, "dot_dimension_numbers": dims,
        }
    }  # fmt: skip


def test_products_with_their_epilogues():
    a, b = (RANDOM.normal(size=s).astype(np.float32) for s in ((6, 5), (5, 4)))
    c, bias = (RANDOM.normal(size=s).astype(np.float32) for s in ((6, 4), (4,)))
    dot = 0.5 * a @ b
    close(library_call("__cublas$gemm", product_config(), [a, b], dot), dot)
    result = library_call("__cublas$gemm", product_config(beta=2.0), [a, b, c], dot)
    close(result, dot + 2 * c)
    matmul = "__cublas$lt$matmul"
    result = library_call(matmul, product_config("BIAS_RELU", 1.0), [a, b, c, bias], dot)
    close(result, np.maximum(dot + c + bias, 0))
    result = library_call(matmul, product_config("GELU"), [a, b], dot)
    inner = math.sqrt(2 / math.pi) * (dot + 0.044715 * dot**3)
    close(result, 0.5 * dot * (1 + np.tanh(inner)))
    result = library_call(matmul, product_config("SILU"), [a, b], dot)
    close(result, dot / (1 + np.exp(-dot)))


@pytest.mark.parametrize("argv", ["HIGHEST", "DEFAULT"])
def test_a_product_keeps_its_precision(argv):
    config = product_config()
    config["gemm_backend_config"]["precision_config"] = {"operand_precision": [argv, argv]}
    text = json.dumps(json.dumps(config))
    module = plain(f"""func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {{
      %0 = stablehlo.custom_call @"__cublas$gemm"(%x, %x) {{backend_config = {text}}}
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %0 : tensor<8x8xf32> }}""")
    assert ("precision = [HIGHEST, HIGHEST]" in str(module)) == (argv == "HIGHEST")


def test_a_batched_product():
    a, b = (RANDOM.normal(size=s).astype(np.float32) for s in ((3, 6, 5), (3, 4, 5)))
    dims = {
        "lhs_contracting_dimensions": ["2"], "rhs_contracting_dimensions": ["2"],
        "lhs_batch_dimensions": ["0"], "rhs_batch_dimensions": ["0"],
    }  # fmt: skip
    dot = 0.5 * np.einsum("bik,bjk->bij", a, b)
    close(library_call("__cublas$gemm", product_config(**dims), [a, b], dot), dot)


@pytest.mark.parametrize(
    ("call_text", "message"),
    [
        ('@xla_ffi_python_cpu_callback(%x) {backend_config = ""}', "runs on the host"),
        ('@"__cublas$lt$matmul$f8"(%x, %x)', "fp8 product"),
        ('@"__cublas$gemm"(%x, %x) {backend_config = "{}"}', "lacks the dot_dimension_numbers"),
        ('@"__cudnn$convForward"(%x, %x)', "its dimension numbers are not known"),
    ],
)
def test_what_cannot_be_compiled_is_said_with_its_place(call_text, message):
    operands = ", ".join(["tensor<4x4xf32>"] * call_text.count("%x"))
    text = f"""func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {{
      %0 = stablehlo.custom_call {call_text} : ({operands}) -> tensor<4x4xf32>
      return %0 : tensor<4x4xf32> }}"""
    with pytest.raises(UnknownCost, match=message) as raised:
        lower_to_plain_stablehlo(ir.Module.parse(text, CONTEXT))
    assert raised.value.where.endswith(":2:12")


def test_a_collective_is_never_inside():
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.all_reduce"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }"""
    module = ir.Module.parse(text, CONTEXT)
    with pytest.raises(UnknownCost, match="a collective cannot be inside") as raised:
        render_compilable_module(collect_functions(module)["main"])
    assert raised.value.op_name == "stablehlo.all_reduce"


def test_equal_regions_give_equal_text():
    text = """func.func @{name}(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %y = stablehlo.add %x, %x {{hespas.region = {{id = {id} : i64, ops = 1 : i64, digest = "a"}}}}
        : tensor<4xf32>
      return %y : tensor<4xf32> }}"""
    module = ir.Module.parse(text.format(name="a", id=0) + text.format(name="b", id=1), CONTEXT)
    first, second = (
        render_compilable_module(function) for function in collect_functions(module).values()
    )
    assert first == second
    assert "hespas." not in first


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    thin_out(["conv_block_grad", "conv_variants_spatial", "elementwise_all", "shape_ops"], 2),
)
def test_what_xla_made_for_a_gpu_computes_what_it_did(name, workload):
    """Fusions, bitcasts and cuDNN calls of real programs, run on 8 processor devices."""
    results = []
    for stage in ("spmd", "opt"):
        module = frontends.read_module(str(workload(f"zoo/{name}/{stage}.mlir")), make_context())
        passes.run_pipeline(module, "prepare", PassRun(note=lambda text: None))
        if stage == "opt":
            del module.operation.attributes["mhlo.input_output_alias"]
            lower_to_plain_stablehlo(module)
            assert "mhlo.bitcast" not in str(module)
        results.append(execute(module))
    for before, after in zip(*results, strict=True):
        for x, y in zip(before, after, strict=True):
            wide = np.complex128 if x.dtype.kind == "c" else np.float64
            x, y = x.astype(wide), y.astype(wide)
            is_finite = np.isfinite(x)
            assert (is_finite == np.isfinite(y)).all()
            scale = np.abs(x[is_finite]).max(initial=1e-30)
            np.testing.assert_allclose(y[is_finite], x[is_finite], atol=1e-2 * scale)
