"""What scheduled HLO files say of loops, of permutes in two halves, and of copies to the host."""

from __future__ import annotations

import pytest

import hespas
from hespas import frontends, passes
from hespas.dialects.attr_codec import read_trip_count
from hespas.dialects.attrs import HOST_LINK, TRIPS_FOUND, CommAttr
from hespas.dialects.mlir import find_ops, ir, make_context
from hespas.dialects.op_kinds import LOOPS
from hespas.passes.prepare.census import collect_census
from hespas.support.errors import HespasError
from hespas.workflows.run_summary import to_summary_json

# The first value of the counter is an argument, so that only XLA's remark says how often it runs.
LOOP = """HloModule loop, is_scheduled=true

%body (t: (s32[], f32[64])) -> (s32[], f32[64]) {
  %t = (s32[], f32[64]{0}) parameter(0)
  %i = s32[] get-tuple-element(%t), index=0
  %x = f32[64]{0} get-tuple-element(%t), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %y = f32[64]{0} tanh(%x)
  ROOT %out = (s32[], f32[64]{0}) tuple(%next, %y)
}

%condition (u: (s32[], f32[64])) -> pred[] {
  %u = (s32[], f32[64]{0}) parameter(0)
  %j = s32[] get-tuple-element(%u), index=0
  %n = s32[] constant(12)
  ROOT %more = pred[] compare(%j, %n), direction=LT
}

ENTRY %main (first: s32[], x: f32[64]) -> f32[64] {
  %first = s32[] parameter(0)
  %x = f32[64]{0} parameter(1)
  %start = (s32[], f32[64]{0}) tuple(%first, %x)
  %loop = (s32[], f32[64]{0}) while(%start), condition=%condition, body=%body, backend_config=CONFIG
  ROOT %result = f32[64]{0} get-tuple-element(%loop), index=1
}
"""
TRANSFER = "channel_id=3, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}"
PERMUTE = f"""HloModule permute, is_scheduled=true, num_partitions=4

ENTRY %main (x: f32[2048,2048]) -> (f32[2048,2048], f32[2048,2048]) {{
  %x = f32[2048,2048]{{1,0}} parameter(0)
  %after = token[] after-all()
  %recv = (f32[2048,2048]{{1,0}}, u32[], token[]) recv(%after), {TRANSFER}
  %send = (f32[2048,2048]{{1,0}}, u32[], token[]) send(%x, %after), {TRANSFER}
  %product = f32[2048,2048]{{1,0}} dot(%x, %x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %received = (f32[2048,2048]{{1,0}}, token[]) recv-done(%recv), channel_id=3
  %sent = token[] send-done(%send), channel_id=3
  %y = f32[2048,2048]{{1,0}} get-tuple-element(%received), index=0
  ROOT %out = (f32[2048,2048]{{1,0}}, f32[2048,2048]{{1,0}}) tuple(%y, %product)
}}
"""  # noqa: E501
ON_HOST, ON_DEVICE = "f32[2048,2048]{1,0:S(5)}", "f32[2048,2048]{1,0}"
COPY = f"""HloModule copies, is_scheduled=true

ENTRY %main (x: f32[2048,2048]) -> f32[2048,2048] {{
  %x = {ON_DEVICE} parameter(0)
  %out = ({ON_HOST}, {ON_DEVICE}, u32[]) copy-start(%x)
  %product = {ON_DEVICE} dot(%x, %x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %kept = {ON_HOST} copy-done(%out)
  %back = {ON_DEVICE} copy(%kept)
  ROOT %sum = {ON_DEVICE} add(%back, %product)
}}
"""
# As XLA:GPU writes slices of an array on the host: fusions that copy, in asynchronous calls.
SLICES = """HloModule slices, is_scheduled=true

%update (a: f32[8,1024], b: f32[1,1024], c: s32[]) -> f32[8,1024] {
  %a = f32[8,1024]{1,0:S(5)} parameter(0)
  %b = f32[1,1024]{1,0} parameter(1)
  %copied = f32[1,1024]{1,0} copy(%b)
  %c = s32[] parameter(2)
  %zero = s32[] constant(0)
  ROOT %u = f32[8,1024]{1,0:S(5)} dynamic-update-slice(%a, %copied, %c, %zero)
}

%started (d: f32[8,1024], e: f32[1,1024], f: s32[]) -> f32[8,1024] {
  %d = f32[8,1024]{1,0:S(5)} parameter(0)
  %e = f32[1,1024]{1,0} parameter(1)
  %f = s32[] parameter(2)
  ROOT %v = f32[8,1024]{1,0:S(5)} fusion(%d, %e, %f), kind=kLoop, calls=%update
}

%fetch (g: f32[8,1024], h: s32[]) -> f32[1,1024] {
  %g = f32[8,1024]{1,0:S(5)} parameter(0)
  %h = s32[] parameter(1)
  %none = s32[] constant(0)
  %s = f32[1,1024]{1,0} dynamic-slice(%g, %h, %none), dynamic_slice_sizes={1,1024}
  ROOT %w = f32[1,1024]{1,0} copy(%s)
}

ENTRY %main (x: f32[1,1024], i: s32[]) -> f32[1,1024] {
  %x = f32[1,1024]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %stack = f32[8,1024]{1,0:S(5)} custom-call(), custom_call_target="AllocateBuffer"
  %start = ((f32[8,1024]{1,0:S(5)}, f32[1,1024]{1,0}, s32[]), f32[8,1024]{1,0:S(5)}, u32[]) async-start(%stack, %x, %i), calls=%started
  %done = f32[8,1024]{1,0:S(5)} async-done(%start)
  ROOT %back = f32[1,1024]{1,0} fusion(%done, %i), kind=kLoop, calls=%fetch
}
"""  # noqa: E501

# As XLA:GPU writes the sum of a gradient in a loop over layers: slices in place, and no kernel.
FUSED = """HloModule fused, is_scheduled=true, num_partitions=4

%sum (y: f32[], z: f32[]) -> f32[] {
  %y = f32[] parameter(0)
  %z = f32[] parameter(1)
  ROOT %s = f32[] add(%y, %z)
}

%scatter (a: f32[8,1024,1024], b: f32[8,256,1024], c: s32[]) -> f32[8,256,1024] {
  %a = f32[8,1024,1024]{2,1,0} parameter(0)
  %b = f32[8,256,1024]{2,1,0} parameter(1)
  %c = s32[] parameter(2)
  %zero = s32[] constant(0)
  %slice = f32[1,1024,1024]{2,1,0} dynamic-slice(%a, %c, %zero, %zero), dynamic_slice_sizes={1,1024,1024}
  %layer = f32[1024,1024]{1,0} bitcast(%slice)
  %part = f32[256,1024]{1,0} reduce-scatter(%layer), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={0}, to_apply=%sum
  %wide = f32[1,256,1024]{2,1,0} bitcast(%part)
  ROOT %u = f32[8,256,1024]{2,1,0} dynamic-update-slice(%b, %wide, %c, %zero, %zero)
}
STARTED
ENTRY %main (g: f32[8,1024,1024], h: f32[8,256,1024], i: s32[], x: f32[1024,1024]) -> (f32[8,256,1024], f32[1024,1024]) {
  %g = f32[8,1024,1024]{2,1,0} parameter(0)
  %h = f32[8,256,1024]{2,1,0} parameter(1)
  %i = s32[] parameter(2)
  %x = f32[1024,1024]{1,0} parameter(3)
  FUSION
  %product = f32[1024,1024]{1,0} dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  END
  ROOT %out = (f32[8,256,1024]{2,1,0}, f32[1024,1024]{1,0}) tuple(%result, %product)
}
"""  # noqa: E501
CALL = "f32[8,256,1024]{2,1,0} fusion(%g, %h, %i), kind=kCustom, calls=%scatter"
STARTED = f"""
%started (g: f32[8,1024,1024], h: f32[8,256,1024], i: s32[]) -> f32[8,256,1024] {{
  %g = f32[8,1024,1024]{{2,1,0}} parameter(0)
  %h = f32[8,256,1024]{{2,1,0}} parameter(1)
  %i = s32[] parameter(2)
  ROOT %f = {CALL}
}}
"""
BUNDLE = "((f32[8,1024,1024], f32[8,256,1024], s32[]), f32[8,256,1024], u32[])"
FORMS = {
    "sync": {"STARTED": "", "FUSION": f"%result = {CALL}", "END": ""},
    "async": {
        "STARTED": STARTED,
        "FUSION": f"%start = {BUNDLE} async-start(%g, %h, %i), calls=%started",
        "END": "%result = f32[8,256,1024]{2,1,0} async-done(%start)",
    },
}


def read_prepared(text: str) -> ir.Module:
    module = frontends.parse_module(text.encode(), "step.hlo", make_context())
    passes.run_pipeline(module, "prepare")
    return module


def list_comms(module: ir.Module) -> list[CommAttr]:
    ops = collect_census(module).list_collectives()
    return [comm for op in ops if (comm := CommAttr.read_from_op(op)) is not None]


@pytest.mark.parametrize(
    ("config", "trips"),
    [
        ('{"known_trip_count":{"n":"12"},"known_init_step":{"init":"0","step":"1"}}', 12),
        ('"{\\"known_trip_count\\":{\\"n\\":\\"12\\"}}"', 12),
        ('{"known_trip_count":12}', 1),
        ("{}", 1),
    ],
)
def test_a_loop_runs_as_often_as_xla_has_found(config, trips):
    module = read_prepared(LOOP.replace("CONFIG", config))
    [loop] = find_ops(module.operation, LOOPS)
    assert read_trip_count(loop) == trips
    assert TRIPS_FOUND not in loop.attributes
    assert "hespas_trips" not in str(module)


def test_a_send_and_a_receive_of_xla_are_a_permute():
    module = read_prepared(PERMUTE)
    [comm] = list_comms(module)
    assert (comm.kind, comm.pairs, comm.is_async) == ("permute", (0, 1, 1, 2), True)
    result = hespas.estimate(module, target="H100_80GB", system="H100_80GB_4GPU", form="as-is")
    summary = to_summary_json(result.summary)
    assert summary["overlap_s"] > 0  # of the product


def test_a_receive_that_ends_in_another_iteration_is_an_error():
    """XLA's importer crashes on it."""
    lines = [
        line for line in PERMUTE.splitlines() if "recv-done" not in line and "%y =" not in line
    ]
    text = "\n".join(lines).replace("(%y, %product)", "(%x, %product)")
    with pytest.raises(HespasError, match=r"step\.hlo: .*recv ends in another iteration"):
        read_prepared(text)


@pytest.mark.parametrize(("text", "size"), [(COPY, 4 * 2048 * 2048), (SLICES, 4 * 1024)])
def test_copies_to_the_host_and_back_cross_its_link(text, size):
    out, back = list_comms(read_prepared(text))
    for comm in (out, back):
        assert (comm.network, comm.operand_bytes or size) == (HOST_LINK, size)
    assert (out.is_async, back.is_async) == (True, False)


@pytest.mark.parametrize("form", FORMS)
def test_a_collective_in_a_fusion_runs_without_its_slices(form):
    text = FUSED
    for word, meaning in FORMS[form].items():
        text = text.replace(word, meaning)
    module = read_prepared(text)
    [comm] = list_comms(module)
    assert (comm.kind, comm.operand_bytes, comm.is_async) == (
        "reduce_scatter", 4 * 1024 * 1024, form == "async",
    )  # fmt: skip
    result = hespas.estimate(module, target="H100_80GB", system="H100_80GB_4GPU", form="as-is")
    summary = to_summary_json(result.summary)
    assert summary["compute_s_by"]["op"].keys() == {"stablehlo.dot"}
    assert (summary["overlap_s"] > 0) == (form == "async")
