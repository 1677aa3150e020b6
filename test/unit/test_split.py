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
from hespas.passes.split.blocks import list_split_blocks
from hespas.support.errors import HespasError

PROGRAMS = [
    "adamw_update", "allgather_matmul", "collectives_all", "control_flow", "conv_block_grad",
    "conv_variants_spatial", "decode_step", "elementwise_all", "fft_signal", "gather_scatter",
    "gnn_message_passing", "lstm_scan", "mlp_dp_train", "mlp_fsdp_tp_grad", "mlp_tp_shardmap",
    "moe_all_to_all", "moe_einsum_gspmd", "pipeline_ppermute", "pooling_windows",
    "reshard_transpose", "rng_dropout", "shape_ops", "sort_topk", "summa_like_matmul", "zero_rs_ag",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("program", thin_out(PROGRAMS, 2))
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


def test_equal_regions_are_one_function(workload, context):
    module = frontends.read_module(str(workload("llama3/llama3-100m-opt-a100.mlir")), context)
    passes.run_pipeline(module, "split-linear")
    calls = sum(
        view.operation.name == "func.call"
        for view in find_entry_function(module).regions[0].blocks[0].operations
    )
    assert len(collect_functions(module)) - 1 < calls / 2


def test_ids_count_the_regions_in_order(workload, context):
    module = frontends.read_module(str(workload("llama3/llama3-100m.mlir")), context)
    passes.run_pipeline(module, "split-individual{merge}")
    regions = [
        region
        for view in find_entry_function(module).regions[0].blocks[0].operations
        if (region := RegionAttr.read_from_op(view.operation)) is not None
    ]
    assert [region.id for region in regions] == list(range(len(regions)))


def test_a_second_split_is_refused(parse):
    body = "%0 = stablehlo.add %x, %x : tensor<f32> %1 = stablehlo.tanh %0 : tensor<f32>"
    module = parse(
        f"func.func @main(%x: tensor<f32>) -> tensor<f32> {{ {body} return %1 : tensor<f32> }}"
    )
    passes.run_pipeline(module, "split-linear")
    with pytest.raises(HespasError, match="already split by split-linear; run unsplit first"):
        passes.run_pipeline(module, "split-individual")


def test_a_loop_with_a_collective_is_split_inside(workload, context):
    module = frontends.read_module(str(workload("scaling/llama2-7b-L32-scan-fsdp8.mlir")), context)
    passes.run_pipeline(module, "split-linear")
    loops = [
        view.operation
        for view in find_entry_function(module).regions[0].blocks[0].operations
        if view.operation.name == "stablehlo.while"
    ]
    assert loops and all(RegionAttr.NAME not in loop.attributes for loop in loops)
    inner = [view.operation for view in loops[0].regions[1].blocks[0].operations]
    assert any(op.name == "func.call" and RegionAttr.NAME in op.attributes for op in inner)
    assert len(list(list_split_blocks(module))) >= 1 + 2 * len(loops)


def test_a_wait_comes_after_the_asynchronous_computation_that_it_ends(parse):
    text = """module attributes {mhlo.num_partitions = 2 : i32} {
      func.func public @main(%x: tensor<4xf32>) -> tensor<8xf32> {
        %0 = "mhlo.async_start"(%x) <{called_computation = @f, execution_thread = "main"}>
          : (tensor<4xf32>) -> !mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>
        %1 = "mhlo.async_done"(%0) {called_computation = @f, execution_thread = "main"}
          : (!mhlo.async_bundle<tensor<4xf32>, tensor<8xf32>>) -> tensor<8xf32>
        %2 = stablehlo.tanh %1 : tensor<8xf32>
        %3 = stablehlo.negate %2 : tensor<8xf32>
        return %3 : tensor<8xf32>
      }
      func.func private @f(%x: tensor<4xf32>) -> tensor<8xf32>
          attributes {execution_thread = "main"} {
        %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, use_global_device_ids,
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
        %1 = stablehlo.negate %0 : tensor<8xf32>
        %2 = stablehlo.tanh %1 : tensor<8xf32>
        return %2 : tensor<8xf32>
      }
    }"""
    module = parse(text)
    passes.run_pipeline(module, "split-individual{merge}")
    names = [
        view.operation.name for view in find_entry_function(module).regions[0].blocks[0].operations
    ]
    assert names == [
        "stablehlo.all_gather", "func.call", "stablehlo.optimization_barrier", "func.call",
        "func.return",
    ]  # fmt: skip


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
