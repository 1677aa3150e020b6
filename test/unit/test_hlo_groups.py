"""Replica groups that name mesh axes become the lists of devices that XLA means by them."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples
from support.hlo import print_hlo_program, read_hlo_program
from support.versions import JAXLIB

from hespas.dialects import hlo_groups
from hespas.dialects.hlo_schema import build_hlo_message
from hespas.dialects.mlir import (
    collect_functions,
    hlo_text_to_proto,
    ir,
    make_context,
)
from hespas.passes.compile.compiler_process import CompileRequest, compile_module
from hespas.passes.compile.hlo_to_stablehlo import import_hlo
from hespas.passes.prepare.census import collect_census
from hespas.passes.prepare.partition import CPU_DUMPS, build_compilation

PARTITIONED = """
module @sums attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2]>
  func.func public @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [SPEC]>})
      -> tensor<f32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
"""
HLO = """HloModule m, num_partitions=8
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[8] parameter(0)
  ROOT y = f32[8] all-reduce(x), channel_id=1, use_global_device_ids=true, to_apply=sum,
    replica_groups=GROUPS
}
"""


def groups(module: ir.Module) -> list[str]:
    group_lists = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if "replica_groups" in op.attributes:
            group_lists.append(str(op.attributes["replica_groups"]))
        return ir.WalkResult.ADVANCE

    collect_functions(module)["main"].walk(visit)
    return group_lists


@pytest.mark.parametrize("spec", ['{"b"}, {}', '{"c"}, {"a"}', '{"b", "c"}, {}'])
def test_as_xla_lists_them_itself(spec):
    """XLA's older form, lists, is the oracle: a flag asks for it."""
    group_lists = []
    for flags in ("", "--xla_enable_rgv3_materialization=false"):
        module = ir.Module.parse(PARTITIONED.replace("SPEC", spec), make_context())
        compilation = build_compilation(module, collect_census(module))
        group_lists.append(
            groups(
                compile_module(module, CompileRequest(compilation, *CPU_DUMPS, flags=flags)).module
            )
        )
    if JAXLIB >= (0, 11):  # its older form lists the same groups in another order
        group_lists = [
            [sorted(re.findall(r"\[[\d, ]+\]", text)) for text in form] for form in group_lists
        ]
    assert group_lists[0] == group_lists[1] and group_lists[0] and "mesh" not in group_lists[0][0]


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("mesh['a'=2,'b'=4] {'a'}", "[0, 4], [1, 5], [2, 6], [3, 7]"),
        ("mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}", "[0, 1], [2, 3], [4, 5], [6, 7]"),
        ("mesh['a'=2,'b'=4], device_ids=(7,6,5,4,3,2,1,0) {'a'}", "[7, 3], [6, 2], [5, 1], [4, 0]"),
        ("mesh['a'=8] {'a':(2)2}", "[0, 2], [1, 3], [4, 6], [5, 7]"),
    ],
)
def test_of_hlo_text(text, listed):
    """What a user reads in keeps the order of its devices."""
    proto = hlo_text_to_proto(HLO.replace("GROUPS", text))
    module = import_hlo(proto, make_context())
    assert groups(module) == [f"dense<[{listed}]> : tensor<4x2xi64>"]


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("{{0,1},{2,3}}", [[0, 1], [2, 3]]),
        ("[2,4]<=[8]", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("[4,2]<=[2,4]T(1,0)", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("mesh['a'=2,'b'=4] {'a'}", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("{}", []),
    ],
)
def test_each_form_is_read_and_written_as_lists(text, listed):
    """The lists that XLA prints for them are the oracle."""
    program = read_hlo_program(HLO.replace("GROUPS", text))
    collective = next(one for one in program.iterate_instructions() if one.channel_id)
    assert hlo_groups.read_replica_groups(collective) == listed
    hlo_groups.write_replica_groups(collective, listed)
    lists = ",".join(f"{{{','.join(map(str, group))}}}" for group in listed)
    assert f"replica_groups={{{lists}}}" in print_hlo_program(program)


def test_damaged_protobuf():
    with pytest.raises(ValueError, match="damaged"):
        import_hlo(b"\x1a\xff\xff", make_context())


@draw_examples(50)
@given(st.data())
def test_a_group_differs_in_the_named_axes_only(data):
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4))
    named_axes = data.draw(st.lists(st.sampled_from(range(len(sizes))), unique=True))
    count = 1
    for size in sizes:
        count *= size
    ids = data.draw(st.permutations(range(count)))
    message = build_hlo_message("MeshAxesReplicaGroupListProto")
    for size in sizes:
        message.mesh.axes.add(size=size)
    message.mesh.device_ids.extend(ids)
    for axis in named_axes:
        message.axes.add(mesh_axis_index=axis)
    places = dict(zip(ids, itertools.product(*map(range, sizes)), strict=True))
    groups = hlo_groups.compute_device_groups(message)
    assert sorted(itertools.chain(*groups)) == list(range(count))
    for group in groups:
        others = {
            tuple(at for axis, at in enumerate(places[device]) if axis not in named_axes)
            for device in group
        }
        inside = [tuple(places[device][axis] for axis in named_axes) for device in group]
        assert len(others) == 1 and inside == sorted(set(inside))
