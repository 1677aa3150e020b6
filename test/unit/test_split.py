"""Splitting: equal results by execution, exact dependencies, nothing lost, collectives in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples, thin_out
from support.execution import assert_same_results, execute

from hespas import frontends, passes
from hespas.dialects.attrs import RegionAttr, SplitAttr
from hespas.dialects.mlir import collect_functions, ir, make_context
from hespas.dialects.op_kinds import find_entry_function, is_marked_collective
from hespas.estimators.op_content import render_op_text

PROGRAMS = [
    "adamw_update", "allgather_matmul", "collectives_all", "control_flow", "conv_block_grad",
    "conv_variants_spatial", "decode_step", "elementwise_all", "fft_signal", "gather_scatter",
    "gnn_message_passing", "lstm_scan", "mlp_dp_train", "mlp_fsdp_tp_grad", "mlp_tp_shardmap",
    "moe_all_to_all", "moe_einsum_gspmd", "pipeline_ppermute", "pooling_windows",
    "reshard_transpose", "rng_dropout", "shape_ops", "sort_topk", "summa_like_matmul", "zero_rs_ag",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("program", thin_out(PROGRAMS, 4))
def test_split_programs_compute_the_same(program, workload, context):
    path = workload(f"zoo/{program}/spmd.mlir")
    plain = frontends.read_module(str(path), context)
    passes.run_pipeline(plain, "prepare")
    expected = execute(plain)
    for pipeline in ("split-linear", "split-individual{merge}"):
        module = frontends.read_module(str(path), context)
        passes.run_pipeline(module, pipeline)
        assert_same_results(execute(module), expected, rtol=2e-2, atol_of_largest=1e-6)


@st.composite
def programs(draw):
    """A random program over tensor<4xf32>: text of ops, some of them collectives."""
    count = draw(st.integers(1, 24))
    lines, values = ["%c = stablehlo.constant dense<2.0> : tensor<4xf32>"], ["%x", "%y", "%c"]
    for k in range(count):
        kind = draw(st.sampled_from(["add", "multiply", "tanh", "all_reduce", "all_gather"]))
        pick = st.sampled_from(values)
        if kind in ("add", "multiply"):
            lines.append(f"%v{k} = stablehlo.{kind} {draw(pick)}, {draw(pick)} : tensor<4xf32>")
        elif kind == "tanh":
            lines.append(f"%v{k} = stablehlo.tanh {draw(pick)} : tensor<4xf32>")
        else:
            groups = draw(st.sampled_from(["[[0, 1, 2, 3]]", "[[0, 1], [2, 3]]"]))
            shape = "1x4" if groups == "[[0, 1, 2, 3]]" else "2x2"
            lines.append(
                f'%v{k} = "stablehlo.all_reduce"({draw(pick)}) '
                f"<{{replica_groups = dense<{groups}> : tensor<{shape}xi64>}}> ({{\n"
                "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
                "  %s = stablehlo.add %a, %b : tensor<f32>\n"
                "  stablehlo.return %s : tensor<f32>\n}) : (tensor<4xf32>) -> tensor<4xf32>"
            )
        values.append(f"%v{k}")
    outs = draw(st.lists(st.sampled_from(values[3:]), min_size=1, max_size=3))
    kinds = ", ".join(["tensor<4xf32>"] * len(outs))
    return (
        "module attributes {mhlo.num_replicas = 4 : i32, mhlo.num_partitions = 1 : i32} {\n"
        f"func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> ({kinds}) {{\n"
        + "\n".join(lines)
        + f"\nreturn {', '.join(outs)} : {kinds}\n}} }}"
    )


def flat_ops(module: ir.Module) -> list[list[ir.Operation]]:
    """The entry's ops, each call replaced by the ops of its region function."""
    functions = collect_functions(module)
    result = []
    for view in find_entry_function(module).regions[0].blocks[0].operations:
        op = view.operation
        if op.name == "func.call":
            body = functions[op.attributes["callee"].value].regions[0].blocks[0].operations
            result.append([inner.operation for inner in list(body)[:-1]])
        else:
            result.append([op])
    return result


def texts(module: ir.Module) -> list[str]:
    return sorted(
        render_op_text(op)
        for group in flat_ops(module)
        for op in group
        if op.name not in ("stablehlo.constant", "func.return")
    )


def needs(module: ir.Module) -> list[list[str]]:
    """Per collective, in order, the texts of all compute ops that must be done before it starts.

    Collectives run in program order, so a collective needs what the ones before it need.
    """
    functions = collect_functions(module)
    done: dict[ir.Value, frozenset[int]] = {}
    spelled: dict[int, str] = {}
    before: frozenset[int] = frozenset()
    result = []
    for view in find_entry_function(module).regions[0].blocks[0].operations:
        op = view.operation
        required = frozenset().union(*(done.get(v, frozenset()) for v in op.operands))
        if is_marked_collective(op):
            before |= required
            result.append(sorted(spelled[i] for i in before))
            required = before
        elif op.name not in ("stablehlo.constant", "func.return"):
            inner = [op]
            if op.name == "func.call":
                body = functions[op.attributes["callee"].value].regions[0].blocks[0].operations
                inner = [
                    x.operation for x in list(body)[:-1] if x.operation.name != "stablehlo.constant"
                ]
            for x in inner:
                spelled[len(spelled)] = render_op_text(x)
                required |= {len(spelled) - 1}
        for value in op.results:
            done[value] = required
    return result


@draw_examples(60)
@given(text=programs(), limit=st.sampled_from([0, 1, 3]))
def test_any_split_keeps_ops_order_and_needs(text, limit, context):
    plain = ir.Module.parse(text, context)
    passes.run_pipeline(plain, "prepare")
    collectives = [render_op_text(g[0]) for g in flat_ops(plain) if is_marked_collective(g[0])]
    for pipeline in ("split-linear", "split-individual", "split-individual{merge}"):
        module = ir.Module.parse(text, context)
        if limit and pipeline != "split-individual":
            pipeline = pipeline.rstrip("}") + ("," if "{" in pipeline else "{")
            pipeline += f"block-limit={limit}}}"
        passes.run_pipeline(module, pipeline)
        assert module.operation.verify()
        assert texts(module) == texts(plain)
        assert [
            render_op_text(g[0]) for g in flat_ops(module) if is_marked_collective(g[0])
        ] == collectives
        split = SplitAttr.read_from_op(module.operation)
        assert split is not None
        if split.strategy == "individual":
            assert needs(module) == needs(plain)
        if limit and "limit" in pipeline:
            for view in find_entry_function(module).regions[0].blocks[0].operations:
                region = RegionAttr.read_from_op(view.operation)
                assert region is None or region.ops <= limit


def test_a_digest_tells_called_functions_apart(parse):
    def digest(op: str) -> str:
        module = parse(f"""
          func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
            %0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
            %1 = call @f(%0) : (tensor<4xf32>) -> tensor<4xf32>
            return %1 : tensor<4xf32>
          }}
          func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {{
            %0 = stablehlo.{op} %x : tensor<4xf32>
            return %0 : tensor<4xf32>
          }}""")
        passes.run_pipeline(module, "split-linear")
        region = RegionAttr.read_from_op(collect_functions(module)["region_0"])
        assert region is not None
        return region.digest

    assert digest("tanh") == digest("tanh") != digest("negate")


def test_preparing_again_keeps_regions(parse):
    module = parse("""func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.tanh %x : tensor<4xf32>
      %1 = stablehlo.negate %0 : tensor<4xf32>
      return %1 : tensor<4xf32> }""")
    passes.run_pipeline(module, "split-linear")
    split = str(module)
    passes.run_pipeline(module, "prepare")
    assert str(module) == split


@pytest.mark.parametrize("split", ["split-linear", "split-individual{merge}", "split-individual"])
@draw_examples(20)
@given(text=programs())
def test_a_split_that_is_undone_can_be_made_again(split, text):
    context = make_context()
    once, twice, again = (ir.Module.parse(text, context) for _ in range(3))
    passes.run_pipeline(once, split)
    passes.run_pipeline(twice, f"{split},{split}")
    passes.run_pipeline(again, f"{split},unsplit,{split}")
    assert str(once) == str(twice) == str(again)
