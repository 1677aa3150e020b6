"""HLO files of programs that XLA has scheduled keep their schedule, and are taken as they are."""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from jaxlib import _hlo
from support.hlo import wrap_hlo_proto

import hespas
from hespas import frontends, passes
from hespas.dialects.attr_codec import read_communicators
from hespas.dialects.attrs import CommAttr, MemoryAttr
from hespas.dialects.hlo_schema import parse_hlo_module
from hespas.dialects.mlir import hlo_text_to_proto, ir, make_context
from hespas.dialects.op_kinds import NUM_PARTITIONS, NUM_REPLICAS
from hespas.dialects.xla import find_gpu_library
from hespas.passes.base import PassRun
from hespas.passes.compile.compiler_worker import find_complete_dump
from hespas.passes.compile.named_shardings import number_sharding, replace_named_shardings
from hespas.support.errors import HespasError
from hespas.tools import hespas as tool
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows.program_form import FormRequest, choose_program_form, inspect_program
from hespas.workflows.run_summary import to_summary_json

# A gradient is summed while the next layer is computed: `w` is all-reduced from before the product
# to after it. The step takes what the product and the kernel take.
STEP = """HloModule step, is_scheduled=true, num_partitions=8

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

%gelu (q: bf16[8192,4096]) -> bf16[8192,4096] {
  %q = bf16[8192,4096]{1,0} parameter(0)
  %t = bf16[8192,4096]{1,0} tanh(%q)
  ROOT %m = bf16[8192,4096]{1,0} multiply(%q, %t)
}
WRAPPED
ENTRY %main_spmd (x: bf16[8192,4096], w: bf16[4096,4096], g: f32[16777216]) -> (bf16[8192,4096], f32[16777216]) {
  %x = bf16[8192,4096]{1,0} parameter(0), sharding={devices=[8,1]<=[8]}
  %w = bf16[4096,4096]{1,0} parameter(1), sharding={replicated}
  %g = f32[16777216]{0} parameter(2)
  %start = START
  %d = bf16[8192,4096]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %f = bf16[8192,4096]{1,0} fusion(%d), kind=kLoop, calls=%gelu
  %done = f32[16777216]{0} DONE(%start)
  ROOT %out = (bf16[8192,4096]{1,0}, f32[16777216]{0}) tuple(%f, %done)
}
"""  # noqa: E501
SUM = "channel_id=1, replica_groups=[1,8]<=[8], use_global_device_ids=true, to_apply=%sum"
OPS = {
    "WRAPPED": "",
    "START": f"f32[16777216]{{0}} all-reduce-start(%g), {SUM}",
    "DONE": "all-reduce-done",
}
# As XLA of jax 0.12 prints what it holds as an async-start: its parser refuses the aliasing.
REFUSED = {
    **OPS,
    "START": f"f32[16777216]{{0}} all-reduce-start(%g), {SUM}, "
    "output_to_operand_aliasing={{1}: (0, {})}",
}
WRAPPED = {
    "WRAPPED": f"""
%wrapped (h: f32[16777216]) -> f32[16777216] {{
  %h = f32[16777216]{{0}} parameter(0)
  ROOT %r = f32[16777216]{{0}} all-reduce(%h), {SUM}
}}
""",
    "START": "((f32[16777216]{0}), f32[16777216]{0}) async-start(%g), calls=%wrapped",
    "DONE": "async-done",
}
IN_ORDER = """
module @step attributes {mhlo.num_partitions = 8 : i32} {
  func.func @main(%x: tensor<8192x4096xbf16>, %w: tensor<4096x4096xbf16>, %g: tensor<16777216xf32>)
      -> (tensor<8192x4096xbf16>, tensor<16777216xf32>) {
    %s = "stablehlo.async_start"(%g) ({
    ^bb0(%a: tensor<16777216xf32>):
      %r = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>,
          replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}> ({
      ^bb0(%b: tensor<f32>, %c: tensor<f32>):
        %d = stablehlo.add %b, %c : tensor<f32>
        stablehlo.return %d : tensor<f32>
      }) : (tensor<16777216xf32>) -> tensor<16777216xf32>
      stablehlo.return %r : tensor<16777216xf32>
    }) : (tensor<16777216xf32>) -> !stablehlo.future<tensor<16777216xf32>>
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<8192x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<8192x4096xbf16>
    %f = "mhlo.fusion"(%h) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%q: tensor<8192x4096xbf16>):
      %t = stablehlo.tanh %q : tensor<8192x4096xbf16>
      %m = stablehlo.multiply %q, %t : tensor<8192x4096xbf16>
      mhlo.return %m : tensor<8192x4096xbf16>
    }) : (tensor<8192x4096xbf16>) -> tensor<8192x4096xbf16>
    %e = "stablehlo.async_done"(%s) : (!stablehlo.future<tensor<16777216xf32>>) -> tensor<16777216xf32>
    return %f, %e : tensor<8192x4096xbf16>, tensor<16777216xf32>
  }
}
"""  # noqa: E501
H100S = {"target": "H100_80GB", "system": "HGX_H100_8"}


def fill(text: str, words: dict[str, str]) -> str:
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return text


def read_text(text: str) -> ir.Module:
    return frontends.parse_module(text.encode(), "step.hlo", make_context())


def list_comm_attrs(module: ir.Module) -> list[CommAttr]:
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    attrs: list[CommAttr] = []

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        if (attr := CommAttr.read_from_op(op)) is not None:
            attrs.append(attr)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit_op)
    return attrs


def write_folder(path: Path, data: bytes) -> None:
    """A folder as XLA writes it: other files, and the program before optimisation."""
    path.mkdir()
    stem = "module_0003.jit_step"
    (path / f"{stem}.before_optimizations.hlo.pb").write_bytes(data[:9])
    (path / f"{stem}.sm_9.0_gpu_after_optimizations-buffer-assignment.txt").write_text("x")
    (path / f"{stem}.sm_9.0_gpu_after_optimizations.txt").write_text("x")
    (path / f"{stem}.sm_9.0_gpu_after_optimizations.hlo.pb").write_bytes(data)


FILES: dict[str, Callable[[Path, str], None]] = {
    "text": lambda path, text: path.write_text(text) and None,
    "packed text": lambda path, text: path.write_bytes(lzma.compress(text.encode())) and None,
    "bare protobuf": lambda path, text: path.write_bytes(hlo_text_to_proto(text)) and None,
    "HloProto": lambda path, text: path.write_bytes(wrap_hlo_proto(text)) and None,
    "dump folder": lambda path, text: write_folder(path, wrap_hlo_proto(text)),
}


@pytest.mark.parametrize("form", FILES)
def test_each_file_keeps_the_schedule(form, tmp_path):
    path = tmp_path / "step"
    FILES[form](path, fill(STEP, OPS))
    result = hespas.estimate(str(path), **H100S)
    assert result.summary.form == "as it is, scheduled by XLA"
    assert not result.warnings
    # 512.6 us; half as much again if the all-reduce waits for nothing and nothing runs alongside.
    assert result.step_time_s == pytest.approx(512.59e-6, abs=1e-8)


@pytest.mark.parametrize("words", [OPS, REFUSED, WRAPPED], ids=["ops", "refused", "wrapped"])
def test_each_form_of_a_pair_is_the_pair_of_stablehlo(words):
    expected = hespas.estimate(IN_ORDER, **H100S, form="as-is")
    result = hespas.estimate(read_text(fill(STEP, words)), **H100S)
    assert result.step_time_s == expected.step_time_s
    assert result.memory is not None and expected.memory is not None
    assert result.memory.peak_bytes == expected.memory.peak_bytes
    assert to_summary_json(result.summary)["exposed_comm_s"] == 0


LOOP = """HloModule loop, is_scheduled=true, num_partitions=4

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

%body (p: (s32[], f32[1048576], f32[2048,2048])) -> (s32[], f32[1048576], f32[2048,2048]) {
  %p = (s32[], f32[1048576]{0}, f32[2048,2048]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %g = f32[1048576]{0} get-tuple-element(%p), index=1
  %start = f32[1048576]{0} all-reduce-start(%g), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%sum
  %x = f32[2048,2048]{1,0} get-tuple-element(%p), index=2
  %d = f32[2048,2048]{1,0} dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %done = f32[1048576]{0} all-reduce-done(%start)
  ROOT %t = (s32[], f32[1048576]{0}, f32[2048,2048]{1,0}) tuple(%next, %done, %d)
}

%cond (q: (s32[], f32[1048576], f32[2048,2048])) -> pred[] {
  %q = (s32[], f32[1048576]{0}, f32[2048,2048]{1,0}) parameter(0)
  %j = s32[] get-tuple-element(%q), index=0
  %n = s32[] constant(32)
  ROOT %less = pred[] compare(%j, %n), direction=LT
}

ENTRY %main (g0: f32[1048576], x0: f32[2048,2048]) -> f32[1048576] {
  %g0 = f32[1048576]{0} parameter(0)
  %x0 = f32[2048,2048]{1,0} parameter(1)
  %zero = s32[] constant(0)
  %init = (s32[], f32[1048576]{0}, f32[2048,2048]{1,0}) tuple(%zero, %g0, %x0)
  %w = (s32[], f32[1048576]{0}, f32[2048,2048]{1,0}) while(%init), condition=%cond, body=%body
  ROOT %r = f32[1048576]{0} get-tuple-element(%w), index=1
}
"""  # noqa: E501


@pytest.mark.parametrize("words", [OPS, WRAPPED], ids=["ops", "wrapped"])
def test_pairs_of_a_text_that_states_no_schedule_keep_its_order(words):
    """Only the order of the text shows what runs alongside."""
    text = "\n" + fill(STEP, words).replace("is_scheduled=true, ", "")
    result = hespas.estimate(read_text(text), **H100S)
    assert result.step_time_s == hespas.estimate(IN_ORDER, **H100S).step_time_s
    with pytest.raises(HespasError, match=r"step\.hlo:\d+:\d+: .*not valid HLO text"):
        read_text(text.replace("all-reduce", "all-produce"))


def test_the_body_of_a_loop_keeps_its_schedule():
    early = hespas.estimate(read_text(LOOP), target="H100_80GB", system="H100_80GB_4GPU")
    start = next(line for line in LOOP.split("\n") if "%start = " in line)
    product = next(line for line in LOOP.split("\n") if "%d = " in line)
    serial_text = LOOP.replace(f"{start}\n", "").replace(product, f"{product}\n{start}")
    serial = hespas.estimate(read_text(serial_text), target="H100_80GB", system="H100_80GB_4GPU")
    assert early.compute_s == serial.compute_s
    hidden_s, none_s = (to_summary_json(one.summary)["overlap_s"] for one in (early, serial))
    assert hidden_s > 0 == none_s
    assert early.step_time_s < serial.step_time_s


PARTITIONED = """HloModule m, HEADER num_partitions=4

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

ENTRY %NAME (p: f32[512,1024], q: f32[256]) -> (f32[512,1024], f32[256]) {
  %p = f32[512,1024]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}
  %q = f32[256]{0} parameter(1), sharding={replicated}
  ROOT %r = (f32[512,1024]{1,0}, f32[256]{0}) OP, sharding={{replicated}, {replicated}}
}
"""
TUPLE = "tuple(%p, %q)"
REDUCED = f"all-reduce(%p, %q), {SUM.replace('[1,8]<=[8]', '[1,4]<=[4]')}"


@pytest.mark.parametrize(
    ("header", "name", "op", "kinds"),
    [
        ("is_scheduled=true,", "main", TUPLE, []),
        ("", "main.12_spmd", TUPLE, []),
        ("", "main_spmd.3.1", TUPLE, []),
        ("", "main", REDUCED, ["all_reduce"]),
        ("is_scheduled=true,", "main", REDUCED, ["all_reduce"]),
    ],
)
def test_shardings_of_a_partitioned_program_are_of_the_program_before(header, name, op, kinds):
    """Its shapes are local. The sharding of a result would be an all-gather to replicate it."""
    text = fill(PARTITIONED, {"HEADER": header, "NAME": name, "OP": op})
    module = read_text(text)
    assert ir.IntegerAttr(module.operation.attributes[NUM_PARTITIONS]).value == 4
    assert "sharding" not in str(module)
    attrs = list_comm_attrs(module)
    assert [attr.kind for attr in attrs] == kinds
    assert [attr.operand_bytes for attr in attrs] == [4 * (512 * 1024 + 256)] * len(kinds)


@pytest.mark.parametrize(("name", "op"), [("main_spmd", TUPLE), ("main", REDUCED)])
def test_a_partitioned_program_is_taken_as_it_is(name, op):
    """It can still be compiled where that is asked for: XLA has not scheduled it."""
    module = read_text(fill(PARTITIONED, {"HEADER": "", "NAME": name, "OP": op}))
    state = inspect_program(module)
    request = FormRequest(form=None, node="H100_80GB", estimates_real_times=True)
    form = choose_program_form(state, request)
    assert (form.steps, form.description) == ((), "as it is, partitioned by XLA")
    compiled = choose_program_form(state, replace(request, form="xla"))
    assert [step.name for step in compiled.steps] == ["xla-optimize"]


def test_shardings_of_a_program_before_partitioning_divide_it():
    text = fill(PARTITIONED, {"HEADER": "", "NAME": "main", "OP": TUPLE})
    assert inspect_program(read_text(text)).is_raw
    module = read_text(text)
    assert "mhlo.sharding" in str(module)
    assert [attr.kind for attr in list_comm_attrs(module)] == ["all_gather"]


def test_shardings_divide_a_program_whose_header_has_no_counts():
    """As JAX prints ``lowered.as_text("hlo")``."""
    text = fill(PARTITIONED, {"HEADER": "", "NAME": "main", "OP": TUPLE})
    module = read_text(text.replace(",  num_partitions=4", ""))
    assert ir.IntegerAttr(module.operation.attributes[NUM_PARTITIONS]).value == 4
    assert [attr.kind for attr in list_comm_attrs(module)] == ["all_gather"]


def test_shardings_that_the_partitioner_left_divide_nothing():
    """As XLA's importer writes a partitioned program without collectives: it has no number."""
    text = """module @m attributes {mhlo.is_dynamic = false} {
      func.func @main(%x: tensor<64x8xf32> {mhlo.sharding = "{devices=[8,1]<=[8]}"})
          -> tensor<64x8xf32> {
        %0 = stablehlo.tanh %x : tensor<64x8xf32>
        return %0 : tensor<64x8xf32>
      } }"""
    module = ir.Module.parse(text, make_context())
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    assert "tensor<8x8xf32>" not in str(module)


# XLA of jax 0.12 writes the first in its dumps of what JAX 0.12 lowers to the second.
NAMED = {
    "{mesh['x'=2,'y'=4], [{'x'}, {'y'}]}": "{devices=[2,4]<=[8]}",
    "{mesh['x'=2,'y'=4], [{'y'}, {'x'}]}": "{devices=[4,2]<=[2,4]T(1,0)}",
    "{mesh['x'=2,'y'=4], [{'y','x'}, {}]}": "{devices=[8,1]<=[2,4]T(1,0)}",
    "{mesh['x'=2,'y'=4], [{}, {'x', 'y'}]}": "{devices=[1,8]<=[8]}",
    "{mesh['x'=2,'y'=4], [{'y'}, {}]}": ("{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"),
    "{mesh['x'=2,'y'=4], [{}, {'x', ?}], replicated={'y'}}": (
        "{devices=[1,2,4]<=[8] last_tile_dim_replicate}"
    ),
    "{mesh['x'=2,'y'=4], [{}, {?}]}": "{replicated}",
    "{{mesh['x'=2], [{'x'}]}, {mesh['x'=2], [{}]}}": "{{devices=[2]<=[2]}, {replicated}}",
    "{mesh['x'=2,'y'=4], manual}": "{manual}",
    "{mesh['x'=2,'y'=4], replicated}": "{replicated}",
    "{mesh['x'=2,'y'=4], [{'x'}], manual={'y'}}": "{devices=[2,4]<=[8] last_tile_dims={manual}}",
    "{mesh['x'=2,'y'=4], [{}, {}], unreduced={'y'}}": (
        "{devices=[1,1,4,2]<=[2,4]T(1,0) last_tile_dims={unreduced, replicated}}"
    ),
    "{mesh['x'=2,'y'=4], [{'y':(1)2}, {'x'}]}": (
        "{devices=[2,2,2]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}"
    ),
    "{single_device[device_id=1]}": "{maximal device=1}",
    "{devices=[2,1]<=[2]}": "{devices=[2,1]<=[2]}",
}


@pytest.mark.parametrize(("named", "numbered"), NAMED.items())
def test_named_shardings_become_numbers(named, numbered):
    text = f"""func.func @main(%x: tensor<64x64xf32> {{mhlo.sharding = "{named}"}})
        -> (tensor<64x64xf32> {{mhlo.sharding = "{named}"}}) {{
      %0 = stablehlo.tanh %x {{mhlo.sharding = "{named}"}} : tensor<64x64xf32>
      return %0 : tensor<64x64xf32> }}"""
    module = ir.Module.parse(text, make_context())
    replace_named_shardings(module)
    assert str(module).count(f'"{numbered}"') == 3


@pytest.mark.parametrize("numbered", NAMED.values())
def test_xla_reads_numbered_shardings(numbered):
    """XLA ignores a sharding that it cannot read."""
    assert str(_hlo.HloSharding.from_string(numbered)) == numbered


@pytest.mark.skipif(not hasattr(_hlo.HloSharding, "v3_to_v2_sharding"), reason="jaxlib is older")
@pytest.mark.parametrize(("named", "numbered"), NAMED.items())
def test_named_shardings_become_the_numbers_of_xla(named, numbered):
    if named.startswith("{mesh"):
        sharding = _hlo.HloSharding.from_string(named)
        assert str(sharding.v3_to_v2_sharding()) == numbered


@pytest.mark.parametrize("dims", ["[{'x':(3)2}, {}]", "[{'x'}, {'x'}]", "[{'z'}, {}]"])
def test_other_named_shardings_are_errors(dims):
    with pytest.raises(ValueError, match="has a form that is not known"):
        number_sharding(f"{{mesh['x'=4], {dims}}}")


# A product in `jax.shard_map`, another one after it. XLA of jax 0.12 dumps the first before it
# optimises; `lowered.as_text("hlo")` is the second.
MANUAL = """HloModule jit_f, META num_partitions=8

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%xla.sdy.manual_computation_body.1 (p: f32[256,256], q: f32[256,512]) -> f32[256,512] {
  %p = f32[256,256]{1,0} parameter(0)
  %q = f32[256,512]{1,0} parameter(1)
  %dot.1 = f32[256,512]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %psum = f32[256,512]{1,0} all-reduce(%dot.1), channel_id=1, replica_groups=[4,2]<=[8], use_global_device_ids=true, to_apply=%add
}

ENTRY %main.1 (x: f32[1024,512], w: f32[512,512]) -> f32[1024,512] {
  %x = f32[1024,512]{1,0} parameter(0), XSHARDING
  %w = f32[512,512]{1,0} parameter(1), WSHARDING
  %in = (f32[256,256]{1,0}, f32[256,512]{1,0}) custom-call(%x, %w), custom_call_target="xla.sdy.GlobalToLocalShape", custom_call_has_side_effect=true, INTO
  %in.0 = f32[256,256]{1,0} get-tuple-element(%in), index=0
  %in.1 = f32[256,512]{1,0} get-tuple-element(%in), index=1
  %body = f32[256,512]{1,0} call(%in.0, %in.1), to_apply=%xla.sdy.manual_computation_body.1, BODY frontend_attributes={inlineable="xla_late"}
  %out = f32[1024,512]{1,0} custom-call(%body), custom_call_target="xla.sdy.LocalToGlobalShape", custom_call_has_side_effect=true, OUTOF
  ROOT %dot.2 = f32[1024,512]{1,0} dot(%out, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""  # noqa: E501
MANUAL_FORMS = {
    "dumped": {
        "META": "",
        "XSHARDING": "sharding={mesh['d'=4,'t'=2], [{'d'}, {'t'}]}",
        "WSHARDING": "sharding={mesh['d'=4,'t'=2], [{'t'}, {}]}",
        "INTO": "sharding={{mesh['d'=4,'t'=2], manual}, {mesh['d'=4,'t'=2], manual}}",
        "BODY": "sharding={mesh['d'=4,'t'=2], manual},",
        "OUTOF": "sharding={mesh['d'=4,'t'=2], [{'d'}, {}]}",
    },
    "lowered": {
        "META": 'frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["d"=4, "t"=2]>}},',
        "XSHARDING": 'sharding={devices=[4,2]<=[8]}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"d\\"}, {\\"t\\"}]>"}',  # noqa: E501
        "WSHARDING": 'sharding={devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"t\\"}, {}]>"}',  # noqa: E501
        "INTO": 'frontend_attributes={xla.sdy.in_shardings="#sdy.sharding_per_value<[<@mesh, [{\\"d\\"}, {\\"t\\"}]>, <@mesh, [{\\"t\\"}, {}]>]>",xla.sdy.manual_axes="#sdy<manual_axes{\\"d\\", \\"t\\"}>"}',  # noqa: E501
        "BODY": "",
        "OUTOF": 'frontend_attributes={xla.sdy.manual_axes="#sdy<manual_axes{\\"d\\", \\"t\\"}>",xla.sdy.out_shardings="#sdy.sharding_per_value<[<@mesh, [{\\"d\\"}, {}]>]>"}',  # noqa: E501
    },
}


@pytest.mark.parametrize("form", MANUAL_FORMS)
def test_manual_computations_of_hlo_before_optimisation(form):
    """Both forms are the program of one device: not the body alone, and not an error."""
    text = MANUAL
    for key, value in MANUAL_FORMS[form].items():
        text = text.replace(key, value)
    module = hespas.read(text.encode())
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    prepared = str(module)
    assert re.search(r"@main\(%arg0: tensor<256x256xf32>.*, %arg1: tensor<256x512xf32>", prepared)
    assert prepared.count('"stablehlo.all_reduce"') == prepared.count("stablehlo.dot ") == 2
    assert "custom_call" not in prepared


# `jax.jit(f).lower(x, w).compiler_ir("hlo")`: a constraint in the program, and one on its result.
CONSTRAINED = """HloModule jit_f, buffer_donor={ (0, {}) }, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}

ENTRY main {
  x = f32[256,512]{1,0} parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"x\\"}, {}]>"}
  w = f32[512,1024]{1,0} parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{}, {\\"y\\"}]>"}
  dot = f32[256,1024]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  hidden = f32[256,1024]{1,0} custom-call(dot), custom_call_target="Sharding", sharding={devices=[2,4]<=[8]}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\\"x\\"}, {\\"y\\"}]>]>"}
  tanh = f32[256,1024]{1,0} tanh(hidden)
  out = f32[256,512]{1,0} dot(tanh, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT result = f32[256,512]{1,0} custom-call(out), custom_call_target="Sharding", sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{\\"x\\"}, {}]>]>"}
}
"""  # noqa: E501


def test_constraints_of_hlo_before_optimisation():
    """XLA divides it by Shardy, whose constraints HLO keeps as attributes of GSPMD's."""
    module = hespas.read(CONSTRAINED.encode())
    passes.run_pipeline(module, "prepare,memory-annotate", PassRun(note=lambda _: None))
    prepared = str(module)
    types = (
        r"@main\(%arg0: tensor<128x512xf32> .*, %arg1: tensor<512x256xf32>.* -> tensor<128x512xf32>"
    )
    assert re.search(types, prepared)
    assert prepared.count('"stablehlo.all_reduce"') == 1
    assert "all_gather" not in prepared
    # The result gets the memory of the first argument.
    memory = MemoryAttr.read_from_op(module.operation)
    assert memory is not None
    assert memory.argument_bytes == 4 * (128 * 512 + 512 * 256)


def test_the_wanted_dump_is_that_of_the_program(tmp_path):
    """XLA of jax 0.12 compiles bodies of `jax.shard_map` alone, too."""
    hlo = wrap_hlo_proto("HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }")
    (tmp_path / "module_0000.jit_f.before_optimizations.hlo.pb").write_bytes(hlo)
    (tmp_path / "module_0002.body.0005.after_spmd-partitioning.hlo.pb").write_bytes(hlo)
    assert find_complete_dump(tmp_path, "after_spmd-partitioning") is None
    wanted = tmp_path / "module_0000.jit_f.0007.after_spmd-partitioning.hlo.pb"
    wanted.write_bytes(hlo)
    assert find_complete_dump(tmp_path, "after_spmd-partitioning") == wanted


def test_the_protobuf_has_the_number_of_devices():
    """XLA's device assignment states it; the text of the header is not in it."""
    text = fill(PARTITIONED, {"HEADER": "is_scheduled=true,", "NAME": "main", "OP": TUPLE})
    message = parse_hlo_module(hlo_text_to_proto(text))
    message.device_assignment.replica_count = 2
    message.device_assignment.computation_count = 4
    for partition in range(4):  # field 3: the devices of a partition, by replica
        devices = bytes([partition, 4 + partition])
        message.device_assignment.MergeFromString(b"\x1a\x04\x0a\x02" + devices)
    module = frontends.parse_module(message.SerializeToString(), "m.pb", make_context())
    counts = [module.operation.attributes[name] for name in (NUM_REPLICAS, NUM_PARTITIONS)]
    assert [ir.IntegerAttr(count).value for count in counts] == [2, 4]


COMBINED = """HloModule combined, is_scheduled=true, num_partitions=4

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

%scatter (f: f32[8,4], g: f32[16]) -> (f32[2,4], f32[4]) {
  %f = f32[8,4]{1,0} parameter(0)
  %g = f32[16]{0} parameter(1)
  ROOT %h = (f32[2,4]{1,0}, f32[4]{0}) reduce-scatter(%f, %g), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={0}, to_apply=%sum
}

ENTRY %main_spmd (p: f32[8,4], q: f32[16]) -> (f32[2,4], f32[4], f32[8,4], f32[16]) {
  %p = f32[8,4]{1,0} parameter(0)
  %q = f32[16]{0} parameter(1)
  %start = ((f32[8,4]{1,0}, f32[16]{0}), (f32[2,4]{1,0}, f32[4]{0})) async-start(%p, %q), calls=%scatter
  %moved = (f32[8,4]{1,0}, f32[16]{0}) collective-permute(%p, %q), channel_id=2, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  %first = f32[8,4]{1,0} get-tuple-element(%moved), index=0
  %second = f32[16]{0} get-tuple-element(%moved), index=1
  %done = (f32[2,4]{1,0}, f32[4]{0}) async-done(%start)
  %third = f32[2,4]{1,0} get-tuple-element(%done), index=0
  %fourth = f32[4]{0} get-tuple-element(%done), index=1
  ROOT %out = (f32[2,4]{1,0}, f32[4]{0}, f32[8,4]{1,0}, f32[16]{0}) tuple(%third, %fourth, %first, %second)
}
"""  # noqa: E501


def test_combined_collectives_are_one_collective_each():
    """StableHLO's reduce-scatter and permute have one operand; XLA:GPU combines them."""
    module = read_text(COMBINED)
    assert module.operation.verify()
    scatter, permute = list_comm_attrs(module)
    assert (scatter.kind, scatter.is_async) == ("reduce_scatter", True)
    assert (scatter.operand_bytes, scatter.result_bytes) == (4 * 48, 4 * 12)
    assert read_communicators(module)[scatter.groups[0]] == (0, 1, 2, 3)
    assert (permute.kind, permute.is_async, permute.operand_bytes) == ("permute", False, 4 * 48)
    assert permute.pairs == (0, 1, 1, 2, 2, 3, 3, 0)
    result = hespas.estimate(read_text(COMBINED), target="H100_80GB", system="H100_80GB_4GPU")
    assert result.step_time_s and "beyond measured bytes" in " ".join(result.warnings)


NEURON = """HloModule SyncTensorsGraph.9

%Add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

ENTRY %SyncTensorsGraph.9 (p: f32[8,4], q: f32[16]) -> (f32[32,4], f32[2,4], f32[4], f32[16], f32[]) {
  %p = f32[8,4]{1,0} parameter(0)
  %load = f32[8,4]{1,0} custom-call(%p), custom_call_target="AwsNeuronTransferWithStaticRing", api_version=API_VERSION_UNSPECIFIED
  %q = f32[16]{0} parameter(1)
  %zero = f32[] constant(0)
  %reduced = (f32[16]{0}, f32[]) all-reduce(%q, %zero), replica_groups={{0,1,2,3}}, to_apply=%Add
  %same = f32[16]{0} get-tuple-element(%reduced), index=0
  %order = f32[] get-tuple-element(%reduced), index=1
  %gathered = (f32[32,4]{1,0}, f32[]) all-gather(%load, %order), replica_groups={{0,1,2,3}}, dimensions={0}
  %whole = f32[32,4]{1,0} get-tuple-element(%gathered), index=0
  %order.1 = f32[] get-tuple-element(%gathered), index=1
  %scattered = (f32[2,4]{1,0}, f32[], f32[4]{0}) reduce-scatter(%load, %order.1, %same), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=%Add
  %part = f32[2,4]{1,0} get-tuple-element(%scattered), index=0
  %order.2 = f32[] get-tuple-element(%scattered), index=1
  %other = f32[4]{0} get-tuple-element(%scattered), index=2
  ROOT %out = (f32[32,4]{1,0}, f32[2,4]{1,0}, f32[4]{0}, f32[16]{0}, f32[]) tuple(%whole, %part, %other, %same, %order.2)
}
"""  # noqa: E501


def test_scalars_that_order_collectives_of_pytorch_are_no_operands():
    """PyTorch/XLA writes them, and Neuron's PyTorch also calls without a version."""
    module = read_text(NEURON)
    assert module.operation.verify()
    reduction, gather, scatter = list_comm_attrs(module)
    assert (reduction.kind, reduction.operand_bytes) == ("all_reduce", 64 + 4)
    assert (gather.kind, gather.operand_bytes, gather.result_bytes) == ("all_gather", 128, 512)
    assert (scatter.kind, scatter.operand_bytes) == ("reduce_scatter", 128 + 64)


def test_a_scheduled_program_is_not_compiled_again():
    with pytest.raises(HespasError, match="XLA has optimised this module already"):
        passes.run_pipeline(read_text(fill(STEP, OPS)), "xla-optimize{target=cpu}", PassRun())


def test_folders_without_one_program(tmp_path):
    with pytest.raises(HespasError, match=r"the folder has no program .*; dump it with XLA_FLAGS="):
        frontends.read_module(tmp_path, make_context())
    for name in ("module_0001.jit_a", "module_0002.jit_b"):
        (tmp_path / f"{name}.cpu_after_optimizations.txt").write_text(name)
    (tmp_path / "module_0002.jit_b.cpu_after_optimizations.hlo.pb").write_bytes(bytes(99))
    message = (
        r"the folder has 2 programs; name the file of one; the largest is \S+jit_b\S+\.hlo\.pb"
    )
    with pytest.raises(HespasError, match=message):
        frontends.read_module(tmp_path, make_context())


def test_a_protobuf_without_constants():
    """TensorFlow's ``optimized_hlo_proto_serialized``."""
    proto = hlo_text_to_proto("HloModule m\nENTRY e { ROOT c = s32[] constant(5) }")
    message = parse_hlo_module(proto)
    message.computations[0].instructions[0].literal.Clear()
    message.computations[0].instructions[0].literal.shape.CopyFrom(
        message.computations[0].instructions[0].shape
    )
    with pytest.raises(HespasError, match=r"without its constants, .*: write its text"):
        frontends.parse_module(message.SerializeToString(), "f", make_context())


def test_folders_of_what_xla_and_jax_were_given(tmp_path):
    """XLA of jax 0.12 keeps the module of each program; JAX writes it with `jax_dump_ir_to`."""
    for name in ("module.mlir", "compile_options.textproto", "topology.textproto"):
        (tmp_path / name).write_text(SMALL if name == "module.mlir" else "x: 1")
    assert "@small" in str(frontends.read_module(tmp_path, make_context()))
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "saved_model.pb").write_bytes(b"")
    with pytest.raises(HespasError, match=r"a SavedModel of TensorFlow.*get_compiler_ir"):
        frontends.read_module(tmp_path / "tensorflow", make_context())
    for number in range(2):
        (tmp_path / f"jax_ir000{number}_jit_f_compile.mlir").write_text(SMALL)
    with pytest.raises(HespasError, match="the folder has 3 programs; name the file of one"):
        frontends.read_module(tmp_path, make_context())


SMALL = """
module @small attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<512x512xf32>, %w: tensor<512x512xf32>) -> tensor<512x512xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %1 = stablehlo.tanh %0 : tensor<512x512xf32>
    %2 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<512x512xf32>) -> tensor<512x512xf32>
    %3 = stablehlo.add %1, %2 : tensor<512x512xf32>
    return %3 : tensor<512x512xf32>
  }
}
"""  # noqa: E501
GPU = pytest.param(
    "H100_80GB",
    marks=[
        pytest.mark.slow,
        pytest.mark.skipif(find_gpu_library() is None, reason="hespas[gpu-compiler]"),
    ],
)


@pytest.mark.parametrize("target", ["cpu", GPU])
@pytest.mark.parametrize("communicates", [True, False])
def test_kept_hlo_is_read_back(target, communicates, tmp_path):
    """Its time, memory and devices are those of the module that the same command writes."""
    source, output = tmp_path / "small.mlir", tmp_path / "out.mlir"
    source.write_text(SMALL if communicates else SMALL.replace("%1, %2", "%1, %1"))
    argv = ["optimize", str(source), "--target", target, "--stage", "scheduled", "-o", str(output)]
    argv += ["--async-collectives", "keep", "--keep-hlo", str(tmp_path / "hlo")]
    assert run_tool_main(tool.main, argv) == 0
    expected, result = (
        hespas.estimate(path, target="H100_80GB", form="as-is", memory=True)
        for path in (str(output), str(tmp_path / "hlo"))
    )
    assert result.summary.form.startswith("as it is, scheduled by XLA")
    assert result.target.devices == expected.target.devices == 2
    assert result.compute_s == expected.compute_s > 0
    assert result.memory == expected.memory


@pytest.mark.parametrize(
    ("config", "kernel_class"),
    [
        ('{"operation_queue_id":"0","fusion_backend_config":{"kind":"__triton_gemm"}}', "_xla"),
        ('{"outer_dimension_partitions":[],"fusion_config":{"kind":"__ynn_fusion"}}', ""),
    ],
    ids=["GPU", "CPU"],
)
def test_products_of_other_compilers_are_no_kernels_of_xla_gpu(config, kernel_class):
    """XLA:CPU of jax 0.10 calls its library in fusions of kind kCustom, as XLA:GPU calls Triton."""
    text = f"""HloModule m, is_scheduled=true

%body (a: bf16[512,512], b: bf16[512,512]) -> bf16[512,512] {{
  %a = bf16[512,512]{{1,0}} parameter(0)
  %b = bf16[512,512]{{1,0}} parameter(1)
  ROOT %d = bf16[512,512]{{1,0}} dot(%a, %b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}

ENTRY %main (x: bf16[512,512], y: bf16[512,512]) -> bf16[512,512] {{
  %x = bf16[512,512]{{1,0}} parameter(0)
  %y = bf16[512,512]{{1,0}} parameter(1)
  ROOT %f = bf16[512,512]{{1,0}} fusion(%x, %y), kind=kCustom, calls=%body, backend_config={config}
}}
"""
    module = hespas.estimate(text, target="H100_80GB").module
    (found,) = re.findall('kernel_class = "product.bf16([a-z_]*)"', str(module))
    assert (found == "_xla") == (kernel_class == "_xla")
