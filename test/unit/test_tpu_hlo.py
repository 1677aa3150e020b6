"""The HLO of XLA:TPU: its rewriting, its import, and what XLA says about it."""

from __future__ import annotations

import lzma
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.execution import call
from support.hlo import read_hlo_program, rewrite_tpu_text

from hespas import configs, passes
from hespas.configs import compile_targets
from hespas.configs.tpu_targets import choose_tpu_topology
from hespas.dialects import xla
from hespas.dialects.attrs import CommAttr, CompilerEstimateAttr
from hespas.dialects.mlir import (
    find_ops,
    hlo_proto_to_stablehlo,
    hlo_text_to_proto,
    ir,
    make_context,
)
from hespas.dialects.op_kinds import FUSION, find_entry_function
from hespas.dialects.xla import find_tpu_library
from hespas.estimators.base import CostItem
from hespas.estimators.roofline import RooflineConfig, RooflineEstimator
from hespas.passes.annotate.traverse import Annotation
from hespas.passes.base import PassRun
from hespas.passes.compile import compiler_process
from hespas.passes.compile.compile_cache import (
    CompiledHlo,
    compute_compile_key,
    find_cached_compile,
    store_compile,
)
from hespas.passes.compile.compiler_estimates import attach_compiler_estimates
from hespas.passes.compile.compiler_process import (
    CompileFailure,
    CompileRequest,
    compile_module,
    explain_failure,
)
from hespas.passes.compile.hlo_to_stablehlo import convert_tpu_hlo
from hespas.passes.compile.tpu_hlo import rewrite_tpu_hlo
from hespas.support.errors import HespasError

DATA = Path(__file__).parents[1] / "data"
TPUS = ("TPU7x_core", "TPUv3_core", "TPUv4", "TPUv5e", "TPUv5p", "TPUv6e")
needs_libtpu = pytest.mark.skipif(
    find_tpu_library() is None, reason="needs pip install 'hespas[tpu-compiler]'"
)

SMALL = """
func.func public @main(%x: tensor<256x512xbf16>, %w: tensor<512x256xbf16>) -> tensor<256x256xbf16> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<256x512xbf16>, tensor<512x256xbf16>) -> tensor<256x256xbf16>
  %1 = stablehlo.tanh %0 : tensor<256x256xbf16>
  return %1 : tensor<256x256xbf16>
}
"""


@pytest.fixture(scope="module")
def llama_text() -> str:
    """The training step of ``llama --model tiny`` (fsdp=4, tensor=2, auto) for a TPU v5e.

    XLA:TPU compiled it (libtpu 0.0.42); metadata and most configurations are removed.
    """
    return lzma.decompress((DATA / "tpu_llama_tiny.hlo.xz").read_bytes()).decode()


def import_tpu_module(text: str, *, keep_async: bool = True) -> ir.Module:
    bytecode = convert_tpu_hlo(hlo_text_to_proto(text), keep_async=keep_async)
    return ir.Module.parse(bytecode, make_context())


def count_ops(module: ir.Module) -> Counter[str]:
    names: Counter[str] = Counter()

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        names[op.name.partition(".")[2]] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit_op)
    return names


def test_collectives_inside_fusions_run_alongside_them(llama_text):
    module = import_tpu_module(llama_text)
    assert llama_text.count('custom_call_target="AsyncCollectiveStart"') == 9
    assert count_ops(module)["async_start"] == count_ops(module)["async_done"] == 9
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    kinds: Counter[str] = Counter()

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        comm = CommAttr.read_from_op(op)
        kinds[comm.kind if comm is not None and comm.is_async else ""] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit_op)
    assert kinds["all_gather"] == 9
    assert "AsyncCollective" not in str(module)


def test_asynchronous_collectives_can_be_removed(llama_text):
    module = import_tpu_module(llama_text, keep_async=False)
    names = count_ops(module)
    assert names["async_start"] == 0
    assert names["all_gather"] == count_ops(import_tpu_module(llama_text))["all_gather"]


def test_reductions_that_keep_their_shard_are_reduce_scatters(llama_text):
    assert llama_text.count("calls=%all-reduce-scatter") == 3  # one of them with four operands
    rewritten = rewrite_tpu_text(llama_text)
    assert rewritten.count(" reduce-scatter(") == 6


def test_products_are_products(llama_text):
    program = read_hlo_program(rewrite_tpu_text(llama_text))
    opcodes = Counter(one.opcode for one in program.iterate_instructions())
    assert opcodes["convolution"] == 0 and opcodes["dot"] > 30


def test_estimated_cycles_are_kept(llama_text):
    module = import_tpu_module(llama_text)
    count = attach_compiler_estimates(module, 1.5)
    estimates: list[CompilerEstimateAttr] = []

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        if (estimate := CompilerEstimateAttr.read_from_op(op)) is not None:
            estimates.append(estimate)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit_op)
    stated = [int(text) for text in re.findall(r'estimated_cycles":"(\d+)', llama_text)]
    assert count == len(estimates) > 100
    assert {estimate.cycles for estimate in estimates} <= set(stated)
    assert all(e.latency_ns == pytest.approx(e.cycles / 1.5) for e in estimates)
    assert "hespas_cycles" not in str(module)


@pytest.mark.long
def test_an_estimate_of_the_compiler_follows_its_kernel(llama_text):
    """One of an edited kernel counts for as much as none, and passes of hespas change no kernel."""
    module = import_tpu_module(llama_text)
    attach_compiler_estimates(module, 1.5)
    text = str(module)
    edited = ir.Module.parse(text.replace("stablehlo.subtract", "stablehlo.divide"), make_context())
    removed = ir.Module.parse(str(edited), make_context())
    changed = 0
    for old, new in zip(
        *(find_ops(one.operation, (FUSION,)) for one in (module, removed)), strict=True
    ):
        if str(old) != str(new) and CompilerEstimateAttr.NAME in new.attributes:
            changed += 1
            del new.attributes[CompilerEstimateAttr.NAME]
    assert changed > 10
    times_ns, warnings = [], []
    for one in (module, edited, removed):
        run = PassRun()
        steps = "prepare,split-linear,roofline-annotate{node=TPUv5e compiler-estimates}"
        passes.run_pipeline(one, steps, run)
        times_ns.append(run.get_artefact(Annotation).total.time_ns)
        warnings.append([text for text in run.warnings if CompilerEstimateAttr.NAME in text])
    assert times_ns[0] != times_ns[1] == times_ns[2]
    assert [len(texts) for texts in warnings] == [0, 1, 0]


def test_the_roofline_takes_the_compilers_time_on_request():
    module = ir.Module.parse(SMALL, make_context())
    product = find_entry_function(module).regions[0].blocks[0].operations[0].operation
    CompilerEstimateAttr(3000, 2000.0).write_to_op(product)
    node = configs.load_node("TPUv5e")
    times = [
        RooflineEstimator(RooflineConfig(node, compiler_estimates=on)).estimate(
            CostItem(product, str(product))
        )
        for on in (False, True)
    ]
    assert times[0].latency_ns < 2000.0 == times[1].latency_ns
    assert times[0].flops == times[1].flops


CONVOLUTION = """HloModule m

ENTRY %main (lhs: f32[{lhs}], rhs: f32[{rhs}]) -> f32[{out}] {{
  %lhs = f32[{lhs}] parameter(0)
  %rhs = f32[{rhs}] parameter(1)
  ROOT %out = f32[{out}] convolution(%lhs, %rhs), {attributes}
}}
"""


@pytest.mark.parametrize(
    ("lhs", "rhs", "out", "attributes"),
    [
        ("5,7", "7,3", "5,3", "dim_labels=bf_io->bf"),
        ("7,3", "5,7", "5,3", "dim_labels=fb_oi->fb"),
        # a head of the weights is a spatial dimension that each output position reads once
        ("5,7,1", "7,4,3", "4,5,3",
         "window={size=4 pad=3_3 rhs_reversal=1}, dim_labels=bf0_i0o->0bf"),
        # batch and heads of attention
        ("2,5,3,7", "2,6,3,7", "2,3,5,6",
         "window={size=2x3 stride=1x2 lhs_dilate=2x3}, dim_labels=0b1f_0o1i->01bf"),
        # the gradient of weights contracts batch and sequence
        ("6,2,5", "6,2,4", "5,4,1", "window={size=6}, dim_labels=0fb_0io->bf0"),
    ],
)  # fmt: skip
def test_convolutions_of_products(lhs, rhs, out, attributes):
    text = CONVOLUTION.format(lhs=lhs, rhs=rhs, out=out, attributes=attributes)
    fused = text.replace("ENTRY %main", "%body") + (
        f"\nENTRY %main {{\n  %a = f32[{lhs}] parameter(0)\n  %b = f32[{rhs}] parameter(1)\n"
        f"  ROOT %f = f32[{out}] fusion(%a, %b), kind=kOutput, calls=%body\n}}\n"
    )
    rewritten = rewrite_tpu_text(fused)
    assert " dot(" in rewritten and "convolution" not in rewritten
    body = rewritten[rewritten.index("%body") : rewritten.index("ENTRY")]
    product = "HloModule m\n\n" + body.replace("%body", "ENTRY %body")
    results = []
    for form in (text, product):
        module = ir.Module.parse(hlo_proto_to_stablehlo(hlo_text_to_proto(form)), make_context())
        shapes = [[int(size) for size in dims.split(",")] for dims in (lhs, rhs)]
        random = np.random.default_rng(0)
        values = [random.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
        results.append(call(module, values)[0])
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize(
    "attributes",
    [
        "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f",  # a true convolution
        "dim_labels=bf_io->bf, feature_group_count=7",
    ],
)
def test_other_convolutions_stay(attributes):
    shapes = ("2,8,7", "3,7,4", "2,8,4") if "window" in attributes else ("5,7", "1,7", "5,7")
    text = CONVOLUTION.format(
        lhs=shapes[0], rhs=shapes[1], out=shapes[2], attributes=attributes
    )  # fmt: skip
    assert " convolution(" in rewrite_tpu_text(text)


def test_copies_between_memories_cost_nothing():
    text = """HloModule m

ENTRY %main (p: f32[8,128]) -> f32[8,128] {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  %copy-start = (f32[8,128]{1,0:T(8,128)S(1)}, f32[8,128]{1,0:T(8,128)}, u32[]{:S(2)}) copy-start(%p)
  %slice-start = ((f32[8,128]{1,0:T(8,128)}), f32[4,128]{1,0:T(8,128)S(1)}, s32[]{:S(2)}) slice-start(%p), slice={[0:4], [0:128]}
  %slice-start.1 = ((f32[8,128]{1,0:T(8,128)}), f32[4,128]{1,0:T(8,128)S(1)}, s32[]{:S(2)}) slice-start(%p), slice={[4:8], [0:128]}
  %slice-done = f32[4,128]{1,0:T(8,128)S(1)} slice-done(%slice-start)
  %slice-done.1 = f32[4,128]{1,0:T(8,128)S(1)} slice-done(%slice-start.1)
  %whole = f32[8,128]{1,0:T(8,128)S(1)} custom-call(%slice-done, %slice-done.1), custom_call_target="ConcatBitcast"
  %copy-done = f32[8,128]{1,0:T(8,128)S(1)} copy-done(%copy-start)
  %wide = bf16[8,128]{1,0:T(8,128)(2,1)} copy(%copy-done)
  ROOT %sum = f32[8,128]{1,0:T(8,128)} add(%wide, %whole)
}
"""  # noqa: E501
    rewritten = rewrite_tpu_text(text)
    assert "start" not in rewritten and "slice" not in rewritten and "T(8" not in rewritten
    assert "bf16[8,128]{1,0} convert(%p)" in rewritten
    assert "add(%sum.operand0, %p)" in rewritten  # the sum of bf16 and f32


def test_reductions_add_in_the_type_of_their_reducer():
    text = """HloModule m

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (p: bf16[8,128]) -> bf16[128] {
  %p = bf16[8,128]{1,0:T(8,128)(2,1)} parameter(0)
  %zero = f32[]{:T(128)} constant(0)
  ROOT %columns = bf16[128]{0:T(256)} reduce(%p, %zero), dimensions={0}, to_apply=%add
}
"""
    rewritten = rewrite_tpu_text(text)
    module = str(
        ir.Module.parse(hlo_proto_to_stablehlo(hlo_text_to_proto(rewritten)), make_context())
    )
    assert "(tensor<8x128xbf16>) -> tensor<8x128xf32>" in module
    assert "(tensor<8x128xf32>, tensor<f32>) -> tensor<128xf32>" in module
    assert "(tensor<128xf32>) -> tensor<128xbf16>" in module


def test_a_narrowed_result_of_an_argmax_is_converted():
    """XLA:TPU of libtpu 0.0.42 narrows the maximum that nothing reads to bf16."""
    text = """HloModule m

%larger (a: f32[], i: s32[], b: f32[], j: s32[]) -> (f32[], s32[]) {
  %a = f32[] parameter(0)
  %i = s32[] parameter(1)
  %b = f32[] parameter(2)
  %j = s32[] parameter(3)
  %gt = pred[] compare(%a, %b), direction=GT
  %value = f32[] select(%gt, %a, %b)
  %index = s32[] select(%gt, %i, %j)
  ROOT %both = (f32[], s32[]) tuple(%value, %index)
}

ENTRY %main (p: f32[8,128]) -> s32[8] {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  %iota = s32[8,128]{1,0:T(8,128)} iota(), iota_dimension=1
  %least = f32[]{:T(128)} constant(-inf)
  %zero = s32[]{:T(128)} constant(0)
  %r = (bf16[8]{0:T(256)}, s32[8]{0:T(128)}) reduce(%p, %iota, %least, %zero),
    dimensions={1}, to_apply=%larger
  ROOT %index = s32[8]{0:T(128)} get-tuple-element(%r), index=1
}
"""
    module = str(import_tpu_module(text))
    assert "-> (tensor<8xf32>, tensor<8xi32>)" in module
    assert "(tensor<8xf32>) -> tensor<8xbf16>" in module


def test_slices_of_bytes_are_the_value_that_they_divide():
    text = """HloModule m

ENTRY %main (p: f32[8,128]) -> f32[8,128] {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  %bytes = s8[4096]{0:T(1024)} bitcast(%p)
  %slice-start = ((s8[4096]{0}), s8[2048]{0:S(1)}, s32[]{:S(2)}) slice-start(%bytes), slice={[0:2048]}
  %slice-start.1 = ((s8[4096]{0}), s8[2048]{0:S(1)}, s32[]{:S(2)}) slice-start(%bytes), slice={[2048:4096]}
  %slice-done = s8[2048]{0:S(1)} slice-done(%slice-start)
  %slice-done.1 = s8[2048]{0:S(1)} slice-done(%slice-start.1)
  %whole = f32[8,128]{1,0:S(1)} custom-call(%slice-done, %slice-done.1), custom_call_target="ConcatBitcast"
  ROOT %sum = f32[8,128]{1,0:T(8,128)} add(%p, %whole)
}
"""  # noqa: E501
    rewritten = rewrite_tpu_text(text)
    assert "add(%p, %p)" in rewritten and "bitcast" not in rewritten
    with pytest.raises(ValueError, match="whole does not concatenate the slices of one value"):
        rewrite_tpu_text(text.replace("s8[4096]{0:T(1024)} bitcast", "s8[4096]{0} negate"))


def test_clearing_the_padding_of_a_buffer_is_free():
    text = """HloModule m

ENTRY %main (p: bf16[1,128]) -> bf16[2,128] {
  %p = bf16[1,128]{1,0:T(2,128)(2,1)} parameter(0)
  ROOT %padded = bf16[2,128]{1,0:T(2,128)(2,1)} custom-call(%p), custom_call_target="ZeroCrop", output_to_operand_aliasing={{}: (0, {})}, frontend_attributes={xla_skip_custom_call_alias_shape_check="1"}
}
"""  # noqa: E501
    assert estimate_first_call_ns(text) == 0


def test_the_number_of_the_slice_is_free():
    text = """HloModule m

ENTRY %main () -> u32[] {
  ROOT %number = u32[] custom-call(), custom_call_target="SliceId"
}
"""
    assert estimate_first_call_ns(text) == 0


def estimate_first_call_ns(text: str) -> float:
    module = import_tpu_module(text)
    call = find_entry_function(module).regions[0].blocks[0].operations[0].operation
    assert call.name == "stablehlo.custom_call"
    estimator = RooflineEstimator(RooflineConfig(configs.load_node("TPUv5e")))
    return estimator.estimate(CostItem(call, str(call))).latency_ns


PADDED_SCATTER = """HloModule m

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%body (p: f32[6,4]) -> f32[4,4] {
  %p = f32[6,4] parameter(0)
  %zero = f32[] constant(0)
  %pad = f32[8,4] pad(%p, %zero), padding=0_2x0_0
  %all-reduce = f32[8,4] all-reduce(%pad), channel_id=1, replica_groups={{0,1}}, to_apply=%add
  %id = u32[] partition-id()
  %nought = u32[] constant(0)
  ROOT %part = f32[4,4] dynamic-slice(%all-reduce, %id, %nought), dynamic_slice_sizes={4,4}
}

ENTRY %main (p: f32[6,4]) -> f32[4,4] {
  %p = f32[6,4] parameter(0)
  ROOT %fusion = f32[4,4] fusion(%p), kind=kCustom, calls=%body
}
"""


def test_a_reduce_scatter_pads_what_its_devices_do_not_divide():
    rewritten = rewrite_tpu_text(PADDED_SCATTER)
    pad = r"%fusion\.pad = f32\[8,4\]\{1,0\} pad\(%p[.\d]*, %fusion\.pad\.value\), padding=0_2x0_0"
    assert re.search(pad, rewritten)
    scatter = next(line for line in rewritten.split("\n") if "reduce-scatter(%fusion.pad)" in line)
    assert "dimensions={0}" in scatter and "channel_id=2" in scatter
    assert "reduce_scatter" in str(import_tpu_module(PADDED_SCATTER))


FUSED_GATHER = """HloModule m

%body (p: f32[8]) -> f32[16] {
  %p = f32[8] parameter(0)
  ROOT %all-gather = f32[16] all-gather(%p), channel_id=1, replica_groups={{0,1}}, dimensions={0}
}

ENTRY %main (p: f32[8]) -> f32[16] {
  %p = f32[8] parameter(0)
  ROOT %fusion = f32[16] fusion(%p), kind=kCustom, calls=%body
}
"""


def test_a_collective_in_an_unknown_fusion_is_an_error():
    with pytest.raises(ValueError, match="the fusion fusion contains all-gather all-gather"):
        rewrite_tpu_text(FUSED_GATHER)


@pytest.mark.parametrize(
    ("name", "devices", "slices", "topology"),
    [
        ("TPUv5e", 1, 0, "v5e:1x1"),
        ("TPUv5e", 8, 0, "v5e:2x4"),
        ("TPUv5e", 512, 0, "v5e:16x16 x 2"),
        ("TPUv5e", 512, 4, "v5e:8x16 x 4"),
        ("TPUv5p", 4, 0, "v5p:2x2x1"),
        ("TPUv5p", 128, 0, "v5p:4x4x8"),
        ("TPUv5p", 1024, 2, "v5p:8x8x8 x 2"),
        ("TPUv4", 192, 0, "v4:4x4x12"),
        ("TPUv3_core", 8, 0, "v3:2x2"),
        ("TPU7x_core", 256, 0, "tpu7x:4x4x8"),
    ],
)
def test_slices_are_nearly_cubes(name, devices, slices, topology):
    target = compile_targets.load_compile_target(name).tpu
    assert target is not None
    chosen = choose_tpu_topology(target, devices, slices)
    suffix = f" x {chosen.slices}" if chosen.slices > 1 else ""
    assert f"{chosen.name}{suffix}" == topology


@pytest.mark.parametrize(
    ("devices", "slices", "message"),
    [(385, 0, "do not fill 2 slices"), (12, 5, "do not fill 5"), (6, 0, "has 6 chips")],
)
def test_devices_that_fill_no_slice(devices, slices, message):
    target = compile_targets.load_compile_target("TPUv5e").tpu
    assert target is not None
    with pytest.raises(HespasError, match=message):
        choose_tpu_topology(target, devices, slices)


def test_results_are_kept_by_content():
    result = CompiledHlo(b"\x00hlo\n\xff", {"temp": 7})
    key = compute_compile_key(b"module", {"flags": ""}, None)
    assert find_cached_compile(key) is None
    store_compile(key, result)
    assert find_cached_compile(key) == result
    assert compute_compile_key(b"module", {"flags": "x"}, None) != key


@pytest.mark.parametrize(
    "text",
    [
        "error: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory "
        "space hbm. Used 60.67G of 31.25G hbm. Exceeded hbm capacity by 29.42G.\nTotal hbm usage",
        "error: RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
        "temporaries (60.67G) exceeds available HBM (31.25G).",
    ],
)
def test_a_program_that_does_not_fit_says_its_size(text):
    assert explain_failure(text, 1) == "it needs 60.67G of 31.25G in memory hbm"


def test_a_program_that_does_not_fit_is_compiled_once(monkeypatch, tmp_path):
    monkeypatch.setenv("HESPAS_CACHE", str(tmp_path / "cache"))
    module = ir.Module.parse(SMALL, make_context())
    request = CompileRequest(xla.CompilationSettings(1, 1), "", "")
    starts = []

    def run_worker(folder, request):
        starts.append(folder)
        (folder / "stderr").write_text("Ran out of memory in memory space hbm. Used 2G of 1G hbm")
        return 1

    monkeypatch.setattr(compiler_process, "_run_worker", run_worker)
    for _ in range(2):
        with pytest.raises(CompileFailure, match="it needs 2G of 1G in memory hbm"):
            compile_module(module, request)
    assert len(starts) == 1


def test_missing_libtpu_says_what_to_install(monkeypatch):
    monkeypatch.setattr(xla, "find_tpu_library", lambda: None)
    module = ir.Module.parse(SMALL, make_context())
    with pytest.raises(HespasError, match=r"pip install 'hespas\[tpu-compiler\]'"):
        passes.run_pipeline(module, "xla-optimize{target=TPUv5e}", PassRun())


@needs_libtpu
@pytest.mark.parametrize("name", TPUS)
def test_xla_compiles_for_every_tpu(name):
    module = ir.Module.parse(SMALL, make_context())
    passes.run_pipeline(module, f"xla-optimize{{target={name}}}", PassRun(note=lambda _: None))
    assert module.operation.verify()
    assert "xla_peak_bytes" in str(module) and "hespas.compiler_estimate" in str(module)


DIVIDED = """
module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<64xf32>) -> tensor<64xf32> {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64xf32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}"""


@needs_libtpu
def test_a_program_that_was_divided_before_is_refused_with_a_remedy():
    module = ir.Module.parse(DIVIDED, make_context())
    with pytest.raises(HespasError, match="not supported; XLA:TPU divides a program by its shard"):
        passes.run_pipeline(module, "xla-optimize{target=TPUv5p}", PassRun(note=lambda _: None))


CALLED_COLLECTIVE = """HloModule m, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%called (x: f32[8,128], y: f32[16,128], z: token[]) -> (f32[8,128], f32[16,128]) {
  %z = token[] parameter(2)
  %x = f32[8,128]{1,0:T(8,128)} parameter(0)
  %y = f32[16,128]{1,0:T(8,128)} parameter(1)
  ROOT %reduced = (f32[8,128]{1,0:T(8,128)}, f32[16,128]{1,0:T(8,128)}) all-reduce(%x, %y), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%add
}, execution_thread="sparsecore"

ENTRY %main (p: f32[8,128], q: f32[16,128]) -> (f32[8,128], f32[8,128]) {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  %q = f32[16,128]{1,0:T(8,128)} parameter(1)
  %after = token[] after-all()
  %call-start = ((f32[8,128]{1,0:T(8,128)}, f32[16,128]{1,0:T(8,128)}, token[]), (f32[8,128]{1,0:T(8,128)}, f32[16,128]{1,0:T(8,128)})) call-start(%p, %q, %after), async_execution_thread="sparsecore", to_apply=%called
  %negated = f32[8,128]{1,0:T(8,128)} negate(%p)
  %call-done = (f32[8,128]{1,0:T(8,128)}, f32[16,128]{1,0:T(8,128)}) call-done(%call-start)
  %first = f32[8,128]{1,0:T(8,128)} get-tuple-element(%call-done), index=0
  ROOT %results = (f32[8,128]{1,0:T(8,128)}, f32[8,128]{1,0:T(8,128)}) tuple(%first, %negated)
}
"""  # noqa: E501


@pytest.mark.parametrize("keep_async", [True, False])
def test_a_collective_of_the_sparse_core_is_asynchronous(keep_async):
    module = import_tpu_module(CALLED_COLLECTIVE, keep_async=keep_async)
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    comms = []

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        if (comm := CommAttr.read_from_op(op)) is not None:
            comms.append(comm)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit_op)
    assert [(c.kind, c.is_async, c.operand_bytes) for c in comms] == [
        ("all_reduce", keep_async, 4 * 24 * 128)
    ]


PREPARED_CALL = """HloModule gathers
gather { p = f32[8]{0} parameter(0) ROOT r = f32[8]{0} negate(p) }, execution_thread="sparsecore"
prepared {
  p = f32[8]{0} parameter(0)
  start = ((f32[8]{0}), f32[8]{0}, u32[]) call-start(p), async_execution_thread="sparsecore", to_apply=gather
  ROOT done = f32[8]{0} call-done(start)
}, execution_thread="sparsecore"
ENTRY main {
  p = f32[8]{0} parameter(0)
  begin = ((f32[8]{0}), f32[8]{0}, u32[]) call-start(p), async_execution_thread="sparsecore", to_apply=prepared
  q = f32[8]{0} exponential(p)
  update = ((f32[8]{0}), f32[8]{0}, u32[]) call-update(begin)
  ROOT end = f32[8]{0} call-done(update)
}
"""  # noqa: E501


def test_a_call_that_is_prepared_without_operands_starts_at_its_update():
    """As XLA of libtpu 0.0.52 writes gathers of the SparseCore."""
    program = read_hlo_program(PREPARED_CALL)
    entry = {one.name: one for one in program.iterate_instructions()}
    del entry["begin"].operand_ids[:]
    entry["update"].operand_ids.append(entry["q"].id)
    rewrite_tpu_hlo(program, keep_async=True)
    entry = {one.name: one for one in program.iterate_instructions()}
    begin = entry["begin"]
    assert begin.opcode == "async-start" and begin.operand_ids == [entry["q"].id]
    assert entry["end"].operand_ids == [begin.id] and "update" not in entry
    operation = program.find_started_operation(begin)
    assert operation is not None
    body = program.find_called(operation)
    assert body is not None and [each.opcode for each in body.instructions][-1] == "negate"


def test_a_prepared_call_of_something_else_is_refused():
    program = read_hlo_program(PREPARED_CALL)
    entry = {one.name: one for one in program.iterate_instructions()}
    del entry["begin"].operand_ids[:]
    entry["update"].operand_ids.extend((entry["q"].id, entry["q"].id))
    with pytest.raises(ValueError, match="begin does not start one call of its operands"):
        rewrite_tpu_hlo(program, keep_async=True)
