"""Transfers of XLA:TPU that hosts take part in: between slices, and to the memory of the host."""

from __future__ import annotations

import pytest
from support.hlo import read_hlo_program, rewrite_tpu_text

from hespas import configs, passes
from hespas.chakra.trace_steps import HostCopyContent
from hespas.dialects.attr_codec import read_communicators
from hespas.dialects.attrs import HOST_LINK, SLICES, CommAttr, MemoryAttr
from hespas.dialects.mlir import hlo_text_to_proto, ir, make_context
from hespas.dialects.program_facts import write_program_facts
from hespas.passes.base import PassRun
from hespas.passes.compile.compiler_estimates import name_memory_facts
from hespas.passes.compile.hlo_to_stablehlo import convert_tpu_hlo
from hespas.passes.compile.tpu_hlo import rewrite_tpu_hlo
from hespas.passes.emit.emit_chakra import EmittedTraces
from hespas.passes.memory.host_values import find_host_values
from hespas.passes.optimize.xla_optimize import OPTIMISED_FOR
from hespas.workflows.run_flow import check_memory_fit, find_memory_plan

# Two slices of two devices: an all-gather in the slice, and a sum over both slices.
BETWEEN_SLICES = """HloModule m, is_scheduled=true

ENTRY %main (p: f32[1024,1024]) -> (f32[2048,1024], f32[1024,1024]) {
  %p = f32[1024,1024]{1,0:T(8,128)} parameter(0)
  %after = token[] after-all()
  %send = (f32[1024,1024]{1,0:T(8,128)}, u32[], token[]) send(%p, %after), channel_id=2, is_host_transfer=true, frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",_xla_host_transfer_rendezvous="sum_0",_xla_megascale_reduce_operation="SUM",_xla_megascale_target="{1,2}x{0:1}",_xla_megascale_transfer_type="ALL_REDUCE"}
  %recv = (f32[1024,1024]{1,0:T(8,128)}, u32[], token[]) recv(%after), channel_id=1, is_host_transfer=true, frontend_attributes={_xla_host_transfer_handler_name="xla_megascale_runtime",_xla_host_transfer_rendezvous="sum_0",_xla_megascale_reduce_operation="SUM",_xla_megascale_target="{1,2}x{0:1}",_xla_megascale_transfer_type="ALL_REDUCE"}
  %send-done = token[] send-done(%send), channel_id=2, is_host_transfer=true
  %gathered = f32[2048,1024]{1,0:T(8,128)} all-gather(%p), channel_id=3, replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
  %recv-done = (f32[1024,1024]{1,0:T(8,128)}, token[]) recv-done(%recv), channel_id=1, is_host_transfer=true
  %sum = f32[1024,1024]{1,0:T(8,128)} get-tuple-element(%recv-done), index=0
  ROOT %results = (f32[2048,1024]{1,0:T(8,128)}, f32[1024,1024]{1,0:T(8,128)}) tuple(%gathered, %sum)
}
"""  # noqa: E501
OFFLOADED = """HloModule m, is_scheduled=true

ENTRY %main (p: bf16[1,1024,1024], q: f32[1024,1024]) -> (bf16[1,1024,1024], f32[1024,1024]) {
  %p = bf16[1,1024,1024]{2,1,0:T(8,128)(2,1)} parameter(0)
  %q = f32[1024,1024]{1,0:T(8,128)} parameter(1)
  %zero = s32[] constant(0)
  %stack = bf16[8,1024,1024]{2,1,0:T(8,128)(2,1)S(5)} custom-call(), custom_call_target="AllocateBuffer"
  %out = ((bf16[8,1024,1024]{2,1,0:T(8,128)(2,1)S(5)}, bf16[1,1024,1024]{2,1,0:T(8,128)(2,1)}, s32[], s32[], s32[]), bf16[8,1024,1024]{2,1,0:T(8,128)(2,1)S(5)}, u32[]{:S(2)}) dynamic-update-slice-start(%stack, %p, %zero, %zero, %zero)
  %negated = f32[1024,1024]{1,0:T(8,128)} negate(%q)
  %done = bf16[8,1024,1024]{2,1,0:T(8,128)(2,1)S(5)} dynamic-update-slice-done(%out)
  %in = ((bf16[8,1024,1024]{2,1,0:T(8,128)(2,1)S(5)}, s32[], s32[], s32[]), bf16[1,1024,1024]{2,1,0:T(8,128)(2,1)}, u32[]{:S(2)}) dynamic-slice-start(%done, %zero, %zero, %zero), dynamic_slice_sizes={1,1024,1024}
  %back = bf16[1,1024,1024]{2,1,0:T(8,128)(2,1)} dynamic-slice-done(%in)
  ROOT %results = (bf16[1,1024,1024]{2,1,0:T(8,128)(2,1)}, f32[1024,1024]{1,0:T(8,128)}) tuple(%back, %negated)
}
"""  # noqa: E501
COPIED_BYTES = 2 * 1024 * 1024


def import_tpu_module(text: str, *, keep_async: bool = True) -> ir.Module:
    bytecode = convert_tpu_hlo(hlo_text_to_proto(text), keep_async=keep_async)
    return ir.Module.parse(bytecode, make_context())


def list_comm_attrs(module: ir.Module) -> list[CommAttr]:
    attrs: list[CommAttr] = []

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        if (attr := CommAttr.read_from_op(op)) is not None:
            attrs.append(attr)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit_op)
    return attrs


@pytest.mark.parametrize("keep_async", [True, False])
def test_a_sum_over_slices_is_a_collective_between_their_devices(keep_async):
    module = import_tpu_module(BETWEEN_SLICES, keep_async=keep_async)
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    between, within = list_comm_attrs(module)
    assert (between.kind, between.network, between.is_async) == ("all_reduce", SLICES, keep_async)
    assert between.operand_bytes == 4 * 1024 * 1024
    assert (within.kind, within.network, within.is_async) == ("all_gather", None, False)
    groups = read_communicators(module)
    assert [groups[i] for i in between.groups] == [(0, 2), (1, 3)]
    assert [groups[i] for i in within.groups] == [(0, 1), (2, 3)]


def test_the_collective_is_awaited_where_it_is_received():
    program = read_hlo_program(BETWEEN_SLICES)
    rewrite_tpu_hlo(program, keep_async=True)
    opcodes = [one.opcode for one in program.find_entry().instructions]
    assert opcodes == [
        "parameter", "after-all", "all-reduce", "all-gather", "opt-barrier", "tuple"
    ]  # fmt: skip


def test_unknown_transfers_between_slices_are_an_error():
    with pytest.raises(ValueError, match="of the kind ALL_GATHER SUM, not an all-reduce"):
        rewrite_tpu_text(BETWEEN_SLICES.replace('"ALL_REDUCE"', '"ALL_GATHER"'))


@pytest.mark.parametrize("keep_async", [True, False])
def test_copies_to_and_from_the_host_move_their_slices(keep_async):
    module = import_tpu_module(OFFLOADED, keep_async=keep_async)
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    copies = list_comm_attrs(module)
    assert [copy.network for copy in copies] == [HOST_LINK] * 2
    assert [copy.operand_bytes for copy in copies] == [COPIED_BYTES] * 2
    assert [copy.is_async for copy in copies] == [keep_async] * 2


def emit_offloaded(tmp_path, node: str) -> tuple[list[int], list[str]]:
    """Return the microseconds of the copies, and the warnings."""
    run = PassRun(note=lambda _: None)
    passes.run_pipeline(
        import_tpu_module(OFFLOADED),
        f"split-linear,roofline-annotate{{node={node}}},emit-chakra{{output={tmp_path / 'out'}}}",
        run,
    )
    contents = [step.content for step in run.get_artefact(EmittedTraces).trace.steps]
    copies = [one.latency_us for one in contents if isinstance(one, HostCopyContent)]
    return copies, run.warnings


def test_copies_take_the_time_of_the_hosts_link(tmp_path):
    copies, warnings = emit_offloaded(tmp_path, "TPUv6e")
    assert copies == [66, 66]  # 2 MiB at 32 GB/s
    assert not warnings


def test_a_node_without_a_link_to_its_host_is_warned_of(tmp_path):
    copies, warnings = emit_offloaded(tmp_path, "TPUv3_core")
    assert not copies
    assert "2 copies between device and host take no time" in " ".join(warnings)


CARRIED = """
func.func @main(%x: tensor<1x256x256xbf16>) -> tensor<1x256x256xbf16> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %eight = stablehlo.constant dense<8> : tensor<i32>
  %stack = stablehlo.custom_call @AllocateBuffer() : () -> tensor<8x256x256xbf16>
  %loop:2 = stablehlo.while(%i = %zero, %kept = %stack) : tensor<i32>, tensor<8x256x256xbf16>
    cond {
      %less = stablehlo.compare LT, %i, %eight : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    } do {
      %written = stablehlo.custom_call @hespas_offload(%kept, %x, %i, %zero, %zero)
        : (tensor<8x256x256xbf16>, tensor<1x256x256xbf16>, tensor<i32>, tensor<i32>, tensor<i32>)
        -> tensor<8x256x256xbf16>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %written : tensor<i32>, tensor<8x256x256xbf16>
    }
  %last = stablehlo.custom_call @hespas_fetch(%loop#1, %one, %zero, %zero)
    : (tensor<8x256x256xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x256x256xbf16>
  return %last : tensor<1x256x256xbf16>
}
"""


def test_what_is_on_the_host_takes_no_device_memory():
    module = ir.Module.parse(CARRIED, make_context())
    assert len(find_host_values(module)) == 5  # of the buffer, the loop, and the copy
    passes.run_pipeline(module, "memory-annotate", PassRun(note=lambda _: None))
    memory = MemoryAttr.read_from_op(module.operation)
    slice_bytes = 2 * 256 * 256
    assert memory is not None and 2 * slice_bytes <= memory.peak_bytes < 3 * slice_bytes


def test_a_program_with_xlas_memory_plan_fits():
    module = ir.Module.parse(CARRIED, make_context())
    node = configs.load_node("TPUv6e")
    assert find_memory_plan(module, node) == {}
    write_program_facts(module, {"xla_temp_bytes": 3, "xla_peak_bytes": 5, OPTIMISED_FOR: "TPUv6e"})
    assert find_memory_plan(module, node) == {"temp": 3, "peak": 5}
    assert find_memory_plan(module, configs.load_node("TPUv5e")) == {}


def test_xlas_memory_plan_is_that_of_the_program_that_it_has_compiled():
    """It counts for nothing once another pass has changed the program, with a warning."""
    module = ir.Module.parse(CARRIED, make_context())
    node = configs.load_node("TPUv6e")
    facts = {**name_memory_facts(module, {"temp": 3, "peak": 5}), OPTIMISED_FOR: "TPUv6e"}
    extra = "  %extra = stablehlo.negate %x : tensor<1x256x256xbf16>\n  %zero ="
    found = []
    for text in (CARRIED, CARRIED.replace("  %zero =", extra, 1)):
        module, run = ir.Module.parse(text, make_context()), PassRun(note=lambda _: None)
        write_program_facts(module, facts)
        passes.run_pipeline(module, "memory-annotate,split-linear", run)
        check_memory_fit(module, run, node)
        found.append(
            (find_memory_plan(module, node), [one for one in run.warnings if "XLA" in one])
        )
    stale = "the program has changed since XLA planned its memory: XLA's own plan does not count"
    assert found == [({"temp": 3, "peak": 5}, []), ({}, [stale])]
