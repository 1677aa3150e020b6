"""prepare: global shapes become those of one device, as in a real compile."""

from __future__ import annotations

import itertools
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.budgets import thin_out
from support.execution import execute
from support.versions import JAXLIB

from hespas import frontends
from hespas.dialects.attr_codec import read_communicators
from hespas.dialects.attrs import TargetAttr
from hespas.dialects.mlir import (
    PassManager,
    collect_functions,
    drop_boundary_attrs,
    ir,
    make_context,
    register_passes,
)
from hespas.dialects.op_kinds import SHARDING_ATTRS
from hespas.passes.base import PassRun
from hespas.passes.compile import compiler_process
from hespas.passes.prepare.prepare import PreparePass

Workload = Callable[[str], object]

COUNTED = re.compile(
    r"(all_gather|all_reduce|all_to_all|collective_permute|reduce_scatter|dot|convolution)(_general)?$"
)


def prepare(module: ir.Module, **options: object) -> list[str]:
    run = PassRun(note=lambda _: None)
    PreparePass(**options).apply(module, run)  # type: ignore[arg-type]
    assert module.operation.verify()
    return run.warnings


def census(module: ir.Module) -> Counter[str]:
    """Collectives and matrix ops with the shapes they read."""
    counts: Counter[str] = Counter()

    def visit(op: ir.Operation) -> ir.WalkResult:
        match = COUNTED.search(op.name)
        if match:
            counts[f"{match[1]} {', '.join(str(value.type) for value in op.operands)}"] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return counts


PARTITIONED_PROGRAMS = [
    "adamw_update", "allgather_matmul", "bert_embedding_mlm_loss", "collectives_all",
    "conv_block_grad", "conv_variants_spatial", "elementwise_all", "fft_signal",
    "gather_scatter", "gnn_message_passing", "lstm_scan", "mlp_dp_train", "mlp_fsdp_tp_grad",
    "mlp_tp_shardmap", "moe_all_to_all", "moe_einsum_gspmd", "pipeline_ppermute",
    "pooling_windows", "reshard_transpose", "rng_dropout", "summa_like_matmul",
    "transformer_block_fwd", "zero_rs_ag",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "form"),
    thin_out(itertools.product(PARTITIONED_PROGRAMS, ("jax_sdy", "jax_gspmd")), 3),
)
def test_equals_the_compiled_program(
    context: ir.Context, workload: Workload, program: str, form: str
) -> None:
    """The partitioned zoo program of XLA:GPU has the same collectives, local shapes and groups."""
    module = frontends.read_module(str(workload(f"zoo/{program}/{form}.mlir")), context)
    prepare(module)
    reference = frontends.read_module(str(workload(f"zoo/{program}/spmd.mlir")), context)
    prepare(reference)
    if JAXLIB >= (0, 12) and (program, form) == ("fft_signal", "jax_sdy"):
        assert not census(module)  # the batch of an FFT stays divided
        return
    assert census(module) == census(reference)
    assert read_communicators(module) == read_communicators(reference)
    assert TargetAttr.read_from_op(module.operation) == TargetAttr(
        devices=8, replicas=1, partitions=8
    )
    assert "sdy." not in str(module)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("program", ["mlp_tp_shardmap", "zero_rs_ag", "moe_all_to_all"])
def test_manual_body_computes_what_xla_makes_of_it(
    context: ir.Context, workload: Workload, program: str
) -> None:
    """Inlining the manual body, and XLA's partitioner on the same program, give equal results."""
    results = []
    for form in ("jax_sdy", "jax_gspmd"):
        module = frontends.read_module(str(workload(f"zoo/{program}/{form}.mlir")), context)
        prepare(module)
        for name in ("mhlo.num_partitions", "mhlo.num_replicas"):
            del module.operation.attributes[name]
        results.append(execute(module))
    for manual, xla in zip(*results, strict=True):
        for a, b in zip(manual, xla, strict=True):
            np.testing.assert_allclose(
                a.astype(np.float32), b.astype(np.float32), rtol=2e-2, atol=1e-3
            )


def test_a_compiler_that_is_ended_after_the_wanted_dump_does_not_matter(
    context: ir.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XLA:CPU aborts after partitioning a program with replicas, mostly when that is read."""
    run_worker, codes = compiler_process._run_worker, []

    def run_ended_worker(folder: Path, request: compiler_process.CompileRequest) -> int:
        codes.append(run_worker(folder, request))
        if len(codes) == 1:
            for name in ("out", "hlo"):
                (folder / name).unlink(missing_ok=True)  # XLA may have ended this one itself
            return -signal.SIGABRT
        return codes[-1]

    monkeypatch.setattr(compiler_process, "_run_worker", run_ended_worker)
    sharding = 'mhlo.sharding = "{devices=[2]<=[2]}"'
    module = ir.Module.parse(
        f"""module attributes {{mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 2 : i32}} {{
          func.func @main(%x: tensor<4xf32> {{{sharding}}}) -> tensor<4xf32> {{
            %0 = stablehlo.tanh %x : tensor<4xf32> return %0 : tensor<4xf32> }} }}""",
        context,
    )
    prepare(module)
    assert len(codes) == 2 and codes[1] == 0
    assert "stablehlo.tanh %arg0 : tensor<2xf32>" in str(module)


KERNEL = """
module attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(
      %x: tensor<8x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}
  ) -> tensor<8x128xf32> {
    %0 = stablehlo.add %x, %x : tensor<8x128xf32>
    %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"x"}, {}]>]
        out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%part: tensor<4x128xf32>) {
      %2 = stablehlo.custom_call @tpu_custom_call(%part) {kernel_name = "own",
          mhlo.frontend_attributes = {kernel_metadata = "block=8"}}
        : (tensor<4x128xf32>) -> tensor<4x128xf32>
      sdy.return %2 : tensor<4x128xf32>
    } : (tensor<8x128xf32>) -> tensor<8x128xf32>
    return %1 : tensor<8x128xf32>
  }
}
"""


def test_kernels_keep_their_names():
    """HLO has no attribute for the name of a kernel, by which its cost is known."""
    module = ir.Module.parse(KERNEL, make_context())
    prepare(module)
    (call,) = (line for line in str(module).splitlines() if "@tpu_custom_call" in line)
    assert 'kernel_name = "own"' in call and 'kernel_metadata = "block=8"' in call
    assert "hespas_kernel" not in call and "tensor<4x128xf32>" in call


MLP = """
module attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func public @main(
      %x: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %up: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
      %down: tensor<64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}
  ) -> (tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %x, %up, contracting_dims = [1] x [0]
      : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
    %1 = stablehlo.tanh %0 : tensor<16x64xf32>
    %2 = stablehlo.dot_general %1, %down, contracting_dims = [1] x [0]
      : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    return %2 : tensor<16x32xf32>
  }
}
"""


def test_shardings_that_shardy_propagates_to_ops_alone(context):
    """Shardy's own propagation writes on every op what XLA divides it by.

    Without shardings of their own, arguments arrive as their first ops read them.
    """
    stated, propagated = (ir.Module.parse(MLP, context) for _ in range(2))
    register_passes()
    PassManager.parse("builtin.module(sdy-propagation-pipeline)", context).run(propagated.operation)
    (main,) = collect_functions(propagated).values()
    drop_boundary_attrs(main, SHARDING_ATTRS)
    prepare(stated)
    prepare(propagated)
    computed, expected = (
        {kind: n for kind, n in census(module).items() if kind.startswith(("dot", "all_reduce"))}
        for module in (propagated, stated)
    )
    assert (
        computed
        == expected
        == {
            "dot tensor<8x32xf32>, tensor<32x32xf32>": 2,
            "all_reduce tensor<8x32xf32>": 1,
        }
    )
