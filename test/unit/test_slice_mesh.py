"""Meshes on slices: the ids of their devices, and modules that are renumbered by them."""

from __future__ import annotations

import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples

from hespas.dialects.attr_codec import read_communicators
from hespas.dialects.mlir import ir, make_context
from hespas.frontends.export.device_placement import place_module_devices
from hespas.frontends.export.slice_mesh import (
    is_in_device_order,
    list_axis_lines,
    list_slice_divisions,
    order_devices,
)
from hespas.passes.base import PassRun
from hespas.passes.pipeline import run_pipeline
from hespas.support.errors import UsageError

MESH = {"data": 4, "fsdp": 4}
PROGRAM = """
module attributes {mhlo.num_partitions = 16 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=4, "fsdp"=4]>
  func.func public @main(%x: tensor<16x8xf32>
      {sdy.sharding = #sdy.sharding<@mesh, [{"data", "fsdp"}, {}]>})
      -> (tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "fsdp"}, {}]>}) {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"data", "fsdp"}, {}]>]
        out_shardings=[<@mesh, [{"data", "fsdp"}, {}]>] manual_axes={"data", "fsdp"}
        (%y: tensor<1x8xf32>) {
      %id = stablehlo.partition_id : tensor<ui32>
      %f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
      %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<1x8xf32>
      %sum = "stablehlo.all_reduce"(%b) <{
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]>
              : tensor<4x4xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<1x8xf32>) -> tensor<1x8xf32>
      sdy.return %sum : tensor<1x8xf32>
    } : (tensor<16x8xf32>) -> tensor<16x8xf32>
    return %0 : tensor<16x8xf32>
  }
}
"""


def read_program() -> ir.Module:
    return ir.Module.parse(PROGRAM, make_context())


def test_the_first_axes_lie_between_slices() -> None:
    assert order_devices(MESH, {}) == [*range(16)]
    assert is_in_device_order(MESH, {"data": 4})
    assert is_in_device_order(MESH, {"data": 4, "fsdp": 2})
    assert not is_in_device_order(MESH, {"fsdp": 4})


def test_parts_of_axes_are_checked() -> None:
    with pytest.raises(UsageError, match="no axis 'fdsp'"):
        order_devices(MESH, {"fdsp": 2})
    with pytest.raises(UsageError, match="axis data of 4 has no part of 3"):
        order_devices(MESH, {"data": 3})


@draw_examples(50)
@given(st.lists(st.tuples(st.sampled_from((1, 2, 3)), st.sampled_from((1, 2, 4))), min_size=1,
                max_size=3), st.data())  # fmt: skip
def test_lines_are_the_groups_of_the_mesh(parts, data) -> None:
    """The devices along axes, by their ids, are those at the distances of ``list_axis_lines``."""
    mesh = {f"a{i}": between * within for i, (between, within) in enumerate(parts)}
    dcn = {f"a{i}": between for i, (between, _) in enumerate(parts)}
    ids = numpy.array(order_devices(mesh, dcn)).reshape(list(mesh.values()))
    assert sorted(ids.flat) == [*range(ids.size)]
    slice_size = math.prod(within for _, within in parts)
    axes = data.draw(st.lists(st.sampled_from([*mesh]), unique=True))
    index = tuple(slice(None) if name in axes else 0 for name in mesh)
    reached = {0}
    for stride, count in list_axis_lines(axes, mesh, dcn):
        reached = {device + stride * i for device in reached for i in range(count)}
    assert {*numpy.atleast_1d(ids[index]).flat} == reached
    if all(dcn[axis] == 1 for axis in axes):
        assert max(reached) < slice_size  # these axes lie within a slice


def test_divisions_multiply_to_the_slices() -> None:
    ways = list_slice_divisions(MESH, 4, {})
    assert ways == [{"data": 1, "fsdp": 4}, {"data": 2, "fsdp": 2}, {"data": 4, "fsdp": 1}]
    assert list_slice_divisions(MESH, 4, {"fsdp": (1, 2)}) == ways[1:]
    assert list_slice_divisions(MESH, 3, {}) == []


def test_a_placed_module_communicates_between_the_placed_devices() -> None:
    module = read_program()
    place_module_devices(module, MESH, {"data": 1, "fsdp": 4})
    assert module.operation.verify()
    text = str(module)
    ids = order_devices(MESH, {"fsdp": 4})
    assert ids[:4] == [0, 4, 8, 12]  # the devices along fsdp are one in each slice
    assert f"device_ids={ids}" in text
    run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    groups = {*read_communicators(module).values()}
    assert groups == {(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)}


def test_a_placed_device_knows_its_position() -> None:
    module = read_program()
    place_module_devices(module, MESH, {"data": 1, "fsdp": 2})
    ids = order_devices(MESH, {"fsdp": 2})
    positions = [ids.index(device) for device in range(16)]
    assert positions != ids and f"dense<{positions}> : tensor<16xui32>" in str(module)
    assert "stablehlo.dynamic_slice" in str(module)


def test_a_mesh_in_order_changes_nothing() -> None:
    module, before = read_program(), str(read_program())
    place_module_devices(module, MESH, {"data": 4})
    assert str(module) == before
