"""prepare: who takes part in a collective, with how many bytes, in device ids."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from hespas.dialects.attr_codec import read_communicators
from hespas.dialects.attrs import CommAttr, TargetAttr
from hespas.dialects.mlir import ir
from hespas.passes import run_pipeline
from hespas.passes.base import PassRun
from hespas.passes.prepare.census import collect_census
from hespas.passes.prepare.device_grid import DeviceGrid, resolve_groups
from hespas.passes.prepare.mesh_axes import resolve_axis_groups
from hespas.passes.prepare.prepare import PreparePass
from hespas.support.errors import HespasError

Parse = Callable[[str], ir.Module]
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, "


def prepared(module: ir.Module, **options: object) -> tuple[list[CommAttr], PassRun]:
    """The collectives of a prepared module, in order."""
    run = PassRun(note=lambda _: None)
    PreparePass(**options).apply(module, run)  # type: ignore[arg-type]
    assert module.operation.verify()
    comms = [CommAttr.read_from_op(op) for op in collect_census(module).list_collectives()]
    assert None not in comms
    return [comm for comm in comms if comm is not None], run


def gather(attributes: str, module: str = "") -> str:
    return f"""module attributes {{{module}}} {{
      func.func @main(%x: tensor<4xi1>) -> tensor<16xi1> {{
      %0 = "stablehlo.all_gather"(%x) <{{all_gather_dim = 0 : i64, {attributes}}}>
        : (tensor<4xi1>) -> tensor<16xi1>
      return %0 : tensor<16xi1> }} }}"""


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("cross_replica", ((0, 3), (1, 4), (2, 5))),
        ("cross_replica_and_partition", ((0, 1, 2, 3, 4, 5),)),
        ("flattened_ids", ((0, 1),)),
    ],
)
def test_group_modes(mode: str, expected: tuple[tuple[int, ...], ...]) -> None:
    """StableHLO specification, all_gather: the four meanings of replica_groups on a 2 x 3 grid."""
    assert resolve_groups(((0, 1),), mode, DeviceGrid(2, 3)) == expected


def test_cross_partition_and_everybody() -> None:
    assert resolve_groups(((0, 2),), "cross_partition", DeviceGrid(2, 3)) == ((0, 2), (3, 5))
    for mode in ("flattened_ids", "cross_replica_and_partition"):
        assert resolve_groups((), mode, DeviceGrid(2, 2)) == ((0, 1, 2, 3),)


def test_mode_follows_channel_and_global_ids(parse: Parse) -> None:
    groups = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
    grid = "mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 2 : i32"
    for extra, ranks in (("", {(0, 2), (1, 3)}), (CHANNEL, {(0, 1, 2, 3)})):
        text = gather(extra + groups, grid)
        if extra:
            text = text.replace("tensor<16xi1>", "tensor<16xi1>")
        else:
            text = text.replace("tensor<16xi1>", "tensor<8xi1>")
        module = parse(text)
        comms, _ = prepared(module)
        assert set(read_communicators(module).values()) == ranks
        assert comms[0].operand_bytes == 4  # i1 takes a byte
        assert TargetAttr.read_from_op(module.operation) == TargetAttr(
            devices=4, replicas=2, partitions=2
        )


@pytest.mark.parametrize("size", [2, 64, 512])
def test_groups_of_any_size(parse: Parse, size: int) -> None:
    """Over 100 elements the attribute prints as hex (pitfalls row 3): its text is not read."""
    rows = [[2 * i, 2 * i + 1] for i in range(size // 2)]
    groups = f"replica_groups = dense<{rows}> : tensor<{size // 2}x2xi64>, use_global_device_ids"
    module = parse(gather(CHANNEL + groups).replace("tensor<16x", "tensor<8x"))
    comms, _ = prepared(module)
    assert read_communicators(module) == {i: tuple(row) for i, row in enumerate(rows, 1)}
    assert comms[0].groups == tuple(range(1, size // 2 + 1))


def test_singletons_cost_nothing_and_padding_is_dropped(parse: Parse) -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.all_reduce"(%x) <{CHreplica_groups = dense<[[0], [1], [2]]> : tensor<3x1xi64>,
        use_global_device_ids}> ({^bb0(%a: tensor<f32>, %b: tensor<f32>):
        stablehlo.return %a : tensor<f32>}) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = "stablehlo.all_reduce"(%0) <{CHreplica_groups = dense<[[2, 0], [1, -1]]>
        : tensor<2x2xi64>, use_global_device_ids}> ({^bb0(%a: tensor<f32>, %b: tensor<f32>):
        stablehlo.return %a : tensor<f32>}) : (tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32> }""".replace("CH", CHANNEL)
    module = parse(text)
    comms, _ = prepared(module)
    assert read_communicators(module) == {1: (0, 2)}
    assert [comm.groups for comm in comms] == [(), (1,)]
    assert TargetAttr.read_from_op(module.operation) == TargetAttr(
        devices=3, replicas=1, partitions=3
    )


def test_variadic_sum_and_permute_pairs(parse: Parse) -> None:
    """Bytes are summed over operands; a permute names pairs, and none that sends to itself."""
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0:2 = "stablehlo.all_reduce"(%x, %x) <{
        replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>): stablehlo.return %a : tensor<f32>
      }) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
      %1 = "stablehlo.collective_permute"(%0#0) <{source_target_pairs =
        dense<[[1, 0], [2, 2]]> : tensor<2x2xi64>}> : (tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32> }"""
    comms, _ = prepared(parse(text))
    assert comms[0].operand_bytes == comms[0].result_bytes == 32
    assert (comms[1].kind, comms[1].pairs, comms[1].groups) == ("permute", (1, 0), ())


def test_send_is_charged_once(parse: Parse) -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %t = stablehlo.create_token : !stablehlo.token
      %s = "stablehlo.send"(%x, %t) <{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = T>,
        is_host_transfer = HOST, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
        : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
      %r:2 = "stablehlo.recv"(%s) <{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = T>,
        is_host_transfer = HOST, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
        : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
      return %r#0 : tensor<4xf32> }"""
    sent, received = prepared(parse(text.replace("T>", "1>").replace("HOST", "false")))[0]
    assert (sent.kind, sent.operand_bytes, sent.pairs) == ("permute", 16, (0, 1))
    assert (received.pairs, received.operand_bytes) == ((), 0)
    assert received.note is not None
    missing = re.sub(r", source_target_pairs = dense<[^>]*> : tensor<1x2xi64>", "", text)
    missing = re.sub(r",\s*source_target_pairs = dense<.*?> : tensor<1x2xi64>", "", missing)
    with pytest.raises(HespasError, match="does not name source and target devices"):
        prepared(parse(missing.replace("T>", "1>").replace("HOST", "false")))
    host = missing.replace("type = T", "type = 2", 1).replace("type = T", "type = 3")
    module = parse(host.replace("HOST", "true"))
    assert prepared(module)[0] == []  # no communication of devices, and a gap of each
    run_pipeline(module, "roofline-annotate{node=H100_80GB}")
    assert str(module).count("ToHost runs on the host, whose time is not known") == 1
    assert str(module).count("@RecvFromHost runs on the host, whose time is not known") == 1


MESH = "#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [{}]>"


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ('#stablehlo.axis_ref<name = "b">', ((0, 1, 2, 3), (4, 5, 6, 7))),
        ('#stablehlo.axis_ref<name = "a">', ((0, 4), (1, 5), (2, 6), (3, 7))),
        (
            '#stablehlo.axis_ref<name = "b">, #stablehlo.axis_ref<name = "a">',
            ((0, 4, 1, 5, 2, 6, 3, 7),),
        ),
        (
            '#stablehlo.axis_ref<name = "b", sub_axis_info = (1)2>',
            ((0, 2), (1, 3), (4, 6), (5, 7)),
        ),
    ],
)
def test_mesh_axes(parse: Parse, axes: str, expected: tuple[tuple[int, ...], ...]) -> None:
    """Devices that differ in the named axes only are a group."""
    module = parse('sdy.mesh @mesh = <["a"=2, "b"=4]>')
    attr = ir.Attribute.parse(MESH.format(axes), module.context)
    assert resolve_axis_groups(attr, module) == expected


def test_mesh_axes_are_spelled_out(parse: Parse) -> None:
    axes = MESH.format('#stablehlo.axis_ref<name = "a">')
    mesh = 'sdy.mesh @mesh = <["a"=2, "b"=2], device_ids=[3, 2, 1, 0]>\n'
    text = gather(CHANNEL + f"replica_groups = {axes}, use_global_device_ids")
    module = parse(text.replace("func.func", mesh + "func.func").replace("16x", "8x"))
    prepared(module)
    assert read_communicators(module) == {1: (1, 3), 2: (0, 2)}
    assert "mesh" not in str(module)


def test_device_count(parse: Parse) -> None:
    """A wrong count is an error; where the module says nothing, the user's number holds."""
    groups = "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids"
    with pytest.raises(HespasError, match=r"1 x 4 devices .* not 8"):
        prepared(parse(gather(CHANNEL + groups, "mhlo.num_partitions = 4 : i32")), devices=8)
    module = parse(gather(CHANNEL + groups))
    prepared(module, devices=8)
    target = TargetAttr.read_from_op(module.operation)
    assert target is not None
    assert target.devices == 8


def test_idempotent(parse: Parse, workload: Callable[[str], object]) -> None:
    from hespas import frontends

    module = frontends.read_module(
        str(workload("zoo/collectives_all/final.mlir")), parse("").context
    )
    PreparePass().apply(module, PassRun(note=lambda _: None))
    once = str(module)
    PreparePass().apply(module, PassRun(note=lambda _: None))
    assert str(module) == once
