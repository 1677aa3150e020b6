"""Splash attention for TPUs: the recipes' calls, and the work of the kernels."""

from __future__ import annotations

import functools
import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.cpu_compilation import FAST_COMPILATION

from hespas import frontends
from hespas.dialects.mlir import ir, make_context
from hespas.dialects.op_kinds import find_entry_function
from hespas.estimators.calibrated.attention_shape import read_attention_shape
from hespas.estimators.rules.base import UnknownCost
from hespas.estimators.work import compute_op_work
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.recipes import llama, splash_kernels
from hespas.recipes.context_chunks import (
    compute_chunk_positions,
    list_chunks,
    restore_token_order,
)
from hespas.support.errors import UsageError

CALL = """
func.func public @main(%table: tensor<1x{rows}x{columns}xi8>, %q: tensor<{heads}x2048x128xbf16>,
    %k: tensor<2x2048x128xbf16>, %position: tensor<2048x128xi32>)
    -> tensor<{heads}x2048x128xbf16> {{
  %0 = stablehlo.custom_call @tpu_custom_call(%table, %table, %q, %k, %k{more}{position})
    {{kernel_name = "{name}", mhlo.frontend_attributes = {{kernel_metadata = "{metadata}"}}}}
    : (tensor<1x{rows}x{columns}xi8>, tensor<1x{rows}x{columns}xi8>, tensor<{heads}x2048x128xbf16>,
       tensor<2x2048x128xbf16>, tensor<2x2048x128xbf16>{more_types}{position_type})
    -> tensor<{heads}x2048x128xbf16>
  return %0 : tensor<{heads}x2048x128xbf16>
}}
"""
LOWERED = (
    r"{\22block_q\22: 512, \22block_kv\22: 512, \22block_q_dq\22: 512, \22block_kv_dq\22: 512}"
)
COMPILED = "block_q_dkv=512 block_kv_dkv=512"


def make_call(
    name: str,
    metadata: str,
    *,
    rows: int = 4,
    columns: int = 4,
    heads: int = 4,
    masked: bool = True,
) -> ir.Module:
    gradient = "fwd" not in name
    text = CALL.format(
        name=name, metadata=metadata, rows=rows, columns=columns, heads=heads,
        more=", %q" if gradient else "",
        more_types=f", tensor<{heads}x2048x128xbf16>" if gradient else "",
        position=", %position" if masked else "",
        position_type=", tensor<2048x128xi32>" if masked else "",
    )  # fmt: skip
    return ir.Module.parse(text, make_context())


def get_call(module: ir.Module) -> ir.Operation:
    return find_entry_function(module).regions[0].blocks[0].operations[0].operation


@pytest.mark.parametrize(
    ("name", "metadata", "products"),
    [
        ("splash_mha_fwd_residuals", LOWERED, 2),
        ("splash_mha_dkv_no_residuals", COMPILED, 4),
        ("splash_mha_dq_no_residuals", LOWERED, 3),
    ],
)
def test_causal_kernels_compute_whole_blocks(name, metadata, products):
    module = make_call(name, metadata)
    op = get_call(module)
    work = compute_op_work(op)
    scores = 4 * (4 + 3 + 2 + 1) * 512 * 512
    matrix = [part for part in work.parts if part.unit == "matrix"]
    assert [part.flops for part in matrix] == [2 * products * scores * 128]
    assert matrix[0].dtype == "bf16" and work.transcendentals == scores
    assert work.kind == "attention"
    again = 4 * 10 * 512 * 2 * 128 * 2  # keys and values, or queries and gradients, of each block
    assert again < work.read_bytes < 2 * again
    shape = read_attention_shape(op, work)
    assert (shape.heads, shape.queries, shape.head_size) == (4, 2048, 128)
    assert shape.flops == matrix[0].flops and shape.backward == (products > 2)


@pytest.mark.parametrize(
    ("name", "metadata", "table"),
    [
        ("splash_mha_fwd_residuals", LOWERED, {"columns": 2}),
        ("splash_mha_dkv_no_residuals", COMPILED, {"rows": 2}),
    ],
)
def test_a_window_has_fewer_blocks(name, metadata, table):
    module = make_call(name, metadata, **table)
    work = compute_op_work(get_call(module))
    assert work.transcendentals == 4 * (1 + 2 + 2 + 2) * 512 * 512


def test_devices_that_divide_the_queries_have_the_same_blocks():
    """Of 2 devices each has 5 of the 10 blocks: the first and the last chunk, or both others."""
    text = str(make_call("splash_mha_fwd_residuals", LOWERED, rows=2))
    short = text.replace("4x2048x128xbf16", "4x1024x128xbf16")
    module = ir.Module.parse(short, make_context())
    work = compute_op_work(get_call(module))
    assert work.transcendentals == 4 * 5 * 512 * 512


TOKAMAX_CALL = """
func.func public @main(%count: tensor<i32>, %list: tensor<{listed}xi8>,
    %q: tensor<4x2048x128xbf16>, %k: tensor<2x2048x128xbf16>) -> tensor<4x2048x128xbf16> {{
  %0:{results} = stablehlo.custom_call @tpu_custom_call(%count, %list, %list, %q, %k, %k)
    {{kernel_name = "{name}", mhlo.frontend_attributes = {{kernel_metadata = "{metadata}"}}}}
    : (tensor<i32>, tensor<{listed}xi8>, tensor<{listed}xi8>, tensor<4x2048x128xbf16>,
       tensor<2x2048x128xbf16>, tensor<2x2048x128xbf16>) -> ({types})
  return %0#0 : tensor<4x2048x128xbf16>
}}
"""


@pytest.mark.parametrize(
    ("name", "listed", "results", "blocks", "products"),
    [
        ("splash_mha_fwd_segmented_residuals", 10, 2, 10, 2),
        ("splash_mha_fwd_segmented_residuals", 7, 2, 7, 2),  # a window
        ("splash_mha_dkv_segmented_no_residuals", 16, 3, 10, 5),  # padded; all gradients at once
    ],
)
def test_kernels_of_tokamax_list_their_blocks(name, listed, results, blocks, products):
    text = TOKAMAX_CALL.format(
        name=name, listed=listed, results=results, metadata=f"{COMPILED} block_q=512 block_kv=512",
        types=", ".join(["tensor<4x2048x128xbf16>"] * results),
    )  # fmt: skip
    module = ir.Module.parse(text, make_context())
    work = compute_op_work(get_call(module))
    assert work.transcendentals == 4 * blocks * 512 * 512
    (flops,) = (part.flops for part in work.parts if part.unit == "matrix")
    assert flops == 2 * products * work.transcendentals * 128


@pytest.mark.slow
@pytest.mark.parametrize("has_sinks", [False, True])
def test_chunks_of_devices_make_the_attention_of_whole_sequences(monkeypatch, has_sinks):
    """Outputs and gradients of all devices' kernels, interpreted, against numpy's formula."""
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    monkeypatch.setattr(splash_kernels, "BLOCK", 128)
    interpreted = functools.partial(splash.make_splash_mha, interpret=True)
    monkeypatch.setattr(splash, "make_splash_mha", interpreted)
    splash_kernels._make_kernel.cache_clear()
    devices, tokens, size = 2, 256, 128
    random = np.random.default_rng(0)
    q, k, v, g = (
        jnp.asarray(random.normal(size=(1, heads, tokens, size)), jnp.float32)
        for heads in (2, 1, 1, 2)
    )
    options = splash_kernels.MaskOptions(0, 0.0, devices, "context")
    order = np.concatenate([np.split(np.arange(tokens), 2 * devices)[i] for i in list_chunks(2)])

    sinks = jnp.asarray([0.5, 2.0]) if has_sinks else None

    def attend_by_parts(q, k, v, sinks):
        parts = jnp.split(q[:, :, order], devices, axis=2)
        outs = [
            splash_kernels.attend(part, k, v, sinks, i, options) for i, part in enumerate(parts)
        ]
        return restore_token_order(jnp.concatenate(outs, axis=2), devices, axis=2)

    def attend_to_all(q, k, v, sinks):
        mask = np.arange(tokens)[:, None] >= np.arange(tokens)
        scores = jnp.where(mask, jnp.einsum("bhsd,bgtd->bhst", q, k), -1e30)
        if sinks is not None:
            sink = jnp.broadcast_to(sinks[:, None, None], (1, 2, tokens, 1))
            scores = jnp.concatenate([scores, sink], axis=-1)
        shares = jax.nn.softmax(scores, axis=-1)[..., :tokens]
        return jnp.einsum("bhst,bgtd->bhsd", shares, v)

    q = q * size**-0.5

    def differentiate(attend):
        def run(q, k, v, sinks, g):
            out, pull = jax.vjp(attend, q, k, v, sinks)
            return out, jax.tree.leaves(pull(g))

        return jax.jit(run, compiler_options=FAST_COMPILATION)(q, k, v, sinks, g)

    out, gradients = differentiate(attend_by_parts)
    expected, expected_gradients = differentiate(attend_to_all)
    np.testing.assert_allclose(out, expected, atol=1e-4)
    for gradient, expected in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(gradient, expected, atol=1e-3)


def test_devices_of_context_have_two_chunks_of_a_sequence():
    positions = [compute_chunk_positions(i, 3, 4).tolist() for i in range(3)]
    assert positions == [[0, 1, 10, 11], [2, 3, 8, 9], [4, 5, 6, 7]]
    everything = np.concatenate(positions)
    assert restore_token_order(jnp.asarray(everything), 3, axis=0).tolist() == list(range(12))
    with pytest.raises(UsageError, match="3 tokens of a device are not two chunks"):
        compute_chunk_positions(0, 2, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "splash_mha_fwd", "metadata": "block_q=512"}, "lacks block_kv"),
        ({"name": "splash_mha_fwd", "metadata": LOWERED, "masked": False}, "mask is a table"),
        ({"name": "my_kernel", "metadata": LOWERED}, "kernel that only it can cost"),
    ],
)
def test_unknown_kernels_are_errors(options, message):
    module = make_call(**options)
    with pytest.raises(UnknownCost, match=message):
        compute_op_work(get_call(module))


@pytest.mark.parametrize("mesh", [{"fsdp": 2, "tensor": 2}, {"fsdp": 2, "context": 2}])
@pytest.mark.parametrize(
    ("window", "remat", "forward"), [(0, "minimal_flash", 1), (600, "full", 2)]
)
def test_recipes_call_the_kernels_in_both_directions(window, remat, forward, mesh):
    """A policy that keeps the output of attention keeps what the backward kernels need."""
    program = llama.build(
        model="tiny", mesh=mesh, sequence=1024, head_dim=128,
        attention="splash", remat=remat, scan=True,
    )  # fmt: skip
    text = str(frontends.from_jax(lower_exportable(program, "tpu")))
    kernels = Counter(re.findall(r'kernel_name = "splash_mha_(\w+?)_', text))
    assert kernels == {"fwd": forward, "dkv": 1, "dq": 1}


def test_xla_cannot_divide_the_kernels():
    with pytest.raises(UsageError, match="XLA cannot divide its kernels"):
        llama.build(model="tiny", attention="splash", partitioning="auto")
