"""Copies between device and host in programs that XLA:GPU has compiled."""

from __future__ import annotations

import pytest
from support.hlo import read_hlo_program, rewrite_tpu_text

from hespas import passes
from hespas.dialects.attrs import HOST_LINK, CommAttr
from hespas.dialects.mlir import hlo_text_to_proto, ir, make_context
from hespas.passes.base import PassRun
from hespas.passes.compile.async_pairs import PairMarker
from hespas.passes.compile.hlo_to_stablehlo import convert_hlo_to_stablehlo
from hespas.passes.compile.host_copies import replace_host_copies
from hespas.passes.memory.host_values import get_host_copy_target

# A layer of activations is written to an array of the host, and another one read, by fusions.
SLICES = """HloModule m, is_scheduled=true

%update (a: f32[8,256,256], x: f32[1,256,256], i: s32[]) -> f32[8,256,256] {
  %a = f32[8,256,256]{2,1,0:S(5)} parameter(0)
  %x = f32[1,256,256]{2,1,0} parameter(1)
  %same = f32[1,256,256]{2,1,0} copy(%x)
  %i = s32[] parameter(2)
  %zero = s32[] constant(0)
  ROOT %u = f32[8,256,256]{2,1,0:S(5)} dynamic-update-slice(%a, %same, %i, %zero, %zero)
}

%slice (i: s32[], a: f32[8,256,256]) -> f32[1,256,256] {
  %i = s32[] parameter(0)
  %a = f32[8,256,256]{2,1,0:S(5)} parameter(1)
  %zero = s32[] constant(0)
  %s = f32[1,256,256]{2,1,0} dynamic-slice(%a, %i, %zero, %zero), dynamic_slice_sizes={1,256,256}
  ROOT %same = f32[1,256,256]{2,1,0} copy(%s)
}

ENTRY %main (a: f32[8,256,256], x: f32[1,256,256], i: s32[]) -> (f32[8,256,256], f32[1,256,256], f32[1,256,256]) {
  %a = f32[8,256,256]{2,1,0:S(5)} parameter(0)
  %x = f32[1,256,256]{2,1,0} parameter(1)
  %i = s32[] parameter(2)
  %in = ((s32[], f32[8,256,256]{2,1,0:S(5)}), f32[1,256,256]{2,1,0}, u32[]) fusion-start(%i, %a), kind=kCustom, calls=%slice
  %negated = f32[1,256,256]{2,1,0} negate(%x)
  %read = f32[1,256,256]{2,1,0} fusion-done(%in)
  %out = ((f32[8,256,256]{2,1,0:S(5)}, f32[1,256,256]{2,1,0}, s32[]), f32[8,256,256]{2,1,0:S(5)}, u32[]) fusion-start(%a, %negated, %i), kind=kCustom, calls=%update
  %sine = f32[1,256,256]{2,1,0} sine(%read)
  %written = f32[8,256,256]{2,1,0:S(5)} fusion-done(%out)
  ROOT %results = (f32[8,256,256]{2,1,0:S(5)}, f32[1,256,256]{2,1,0}, f32[1,256,256]{2,1,0}) tuple(%written, %negated, %sine)
}
"""  # noqa: E501
# The state of an optimiser is fetched, changed and sent back, and a value is gathered meanwhile.
WHOLE = """HloModule m, is_scheduled=true, num_partitions=2

ENTRY %main (m: f32[512,512], g: f32[512,512]) -> (f32[512,512], f32[1024,512]) {
  %m = f32[512,512]{1,0:S(5)} parameter(0)
  %g = f32[512,512]{1,0} parameter(1)
  %in = (f32[512,512]{1,0}, f32[512,512]{1,0:S(5)}, u32[]) copy-start(%m)
  %gather = (f32[512,512]{1,0}, f32[1024,512]{1,0}) all-gather-start(%g), channel_id=1, replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
  %state = f32[512,512]{1,0} copy-done(%in)
  %sum = f32[512,512]{1,0} add(%state, %g)
  %gathered = f32[1024,512]{1,0} all-gather-done(%gather)
  %sent = f32[512,512]{1,0:S(5)} copy(%sum)
  ROOT %results = (f32[512,512]{1,0:S(5)}, f32[1024,512]{1,0}) tuple(%sent, %gathered)
}
"""  # noqa: E501


def import_gpu_module(text: str) -> tuple[ir.Module, list[tuple[str, CommAttr]]]:
    """Return a prepared module and its copies and collectives in order, each with its target."""
    bytecode = convert_hlo_to_stablehlo(hlo_text_to_proto(text), scheduled=True)
    module = ir.Module.parse(bytecode, make_context())
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    comms: list[tuple[str, CommAttr]] = []

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        if (comm := CommAttr.read_from_op(op)) is not None:
            comms.append((get_host_copy_target(op) or comm.kind, comm))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit_op)
    return module, comms


def test_fusions_that_slice_an_array_of_the_host_copy_their_slice():
    _, comms = import_gpu_module(SLICES)
    assert [name for name, _ in comms] == ["hespas_fetch", "hespas_offload"]
    for _, comm in comms:
        assert (comm.network, comm.is_async, comm.operand_bytes) == (HOST_LINK, True, 4 * 256 * 256)


def test_whole_values_are_copied_beside_collectives():
    _, comms = import_gpu_module(WHOLE)
    assert [(name, comm.is_async) for name, comm in comms] == [
        ("hespas_fetch", True), ("all_gather", True), ("hespas_offload", False)
    ]  # fmt: skip
    assert {comm.operand_bytes for name, comm in comms if name != "all_gather"} == {4 * 512 * 512}


def test_programs_of_tpus_copy_whole_values_too():
    text = rewrite_tpu_text(WHOLE)
    assert "hespas_fetch" in text
    assert "hespas_offload" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("S(5)", "S(1)"),  # another memory of the device
        ("copy(%s)", "sine(%s)"),  # it computes something
    ],
)  # fmt: skip
def test_what_copies_nothing_to_the_host_stays(old, new):
    program = read_hlo_program(SLICES.replace(old, new))
    replace_host_copies(program, PairMarker(program, keep_async=True))
    targets = {one.custom_call_target for one in program.iterate_instructions()}
    assert "hespas_fetch" not in targets
