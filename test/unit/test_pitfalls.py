"""One test for each way in which the published tools were silently wrong, on the whole pipeline.

The numbers are the rows of the project's list of pitfalls. Each program goes through prepare,
split, annotate and emit; what is checked is mostly what a simulator would read from the traces.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.annotated_programs import ADD, BYTES, FLAT, REDUCE, X, loop, program
from support.output_files import read_output_files

from hespas import configs, passes
from hespas.chakra import trace_reader
from hespas.chakra.check_traces import check_trace_folder
from hespas.chakra.schema import CollectiveCommType, NodeType
from hespas.chakra.trace_reader import TraceNode
from hespas.dialects.attrs import Cost, RegionAttr, TargetAttr
from hespas.dialects.mlir import collect_functions, ir
from hespas.passes.annotate.traverse import Annotation
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main

COMP, COLL = NodeType.COMP_NODE, NodeType.COMM_COLL_NODE
SEND, RECV = NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids"
ALL_4 = f"replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, {CHANNEL}"
SUM = """({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %s : tensor<f32>
  })"""
A100 = "roofline-annotate{node=A100_SXM_40GB}"
INDIVIDUAL, MERGE = "split-individual", "split-individual{merge}"


@dataclass
class Traced:
    """A module after the pipeline, and what was written for it."""

    module: ir.Module
    run: PassRun
    folder: Path

    def nodes(self, device: int = 0, *kinds: NodeType) -> list[TraceNode]:
        """The nodes of a device, in file order, of some types or of all."""
        nodes = trace_reader.read_trace_nodes(self.folder / f"dev.{device}.et")
        return [node for node in nodes if not kinds or node.type in kinds]

    def sum_of(self, attribute: str) -> int:
        """The sum of an attribute over device 0's compute nodes."""
        return sum(node.get_attr_value(attribute) for node in self.nodes(0, COMP))

    @property
    def time_ns(self) -> int:
        """The time of device 0's compute nodes, as ASTRA-sim's roofline mode counts it."""
        return sum(node.get_attr_value("num_ops") // 1000 for node in self.nodes(0, COMP))

    @property
    def groups(self) -> dict[str, list[int]]:
        return json.loads((self.folder / "comm_group.json").read_text())

    @property
    def stats(self) -> dict:
        return json.loads((self.folder / "module_stats.json").read_text())


Trace = Callable[..., Traced]


@pytest.fixture
def trace(parse: Callable[[str], ir.Module], tmp_path: Path) -> Trace:
    def through(
        text: str,
        split: str = "split-linear",
        annotate: str = FLAT,
        *,
        prepare: str = "",
        folder: str = "out",
        keep_going: bool = False,
    ) -> Traced:
        module, place = parse(text), tmp_path / folder
        run = PassRun(note=lambda text: None, keep_going=keep_going)
        emit = f'emit-chakra{{output="{place}"}}'
        passes.run_pipeline(module, f"prepare{{{prepare}}},{split},{annotate},{emit}", run)
        assert module.operation.verify()
        assert [
            problem for problem in check_trace_folder(place).problems if problem.severity == "error"
        ] == []
        return Traced(module, run, place)

    return through


def main(arguments: str, body: str, result: str, devices: int = 4, more: str = "") -> str:
    """A program whose last value is %r."""
    return f"""module attributes {{mhlo.num_partitions = {devices} : i32}} {{
  {more}
  func.func public @main({arguments}) -> {result} {{
    {body}
    return %r : {result}
  }}
}}"""


def gather(result: str, operand: str, n: int, groups: str = ALL_4) -> str:
    return (
        f'%{result} = "stablehlo.all_gather"(%{operand}) <{{all_gather_dim = 0 : i64, {groups}}}> '
        f": (tensor<{n}xf32>) -> tensor<{4 * n}xf32>"
    )


def scatter(result: str, operand: str, n: int) -> str:
    return (
        f'%{result} = "stablehlo.reduce_scatter"(%{operand}) <{{scatter_dimension = 0 : i64, '
        f"{ALL_4}}}> {SUM} : (tensor<{n}xf32>) -> tensor<{n // 4}xf32>"
    )


def reduce(result: str, operand: str, type_: str, groups: str = ALL_4) -> str:
    return (
        f'%{result} = "stablehlo.all_reduce"(%{operand}) <{{{groups}}}> {SUM} '
        f": ({type_}) -> {type_}"
    )


def test_01_sizes_are_those_of_operands(trace: Trace) -> None:
    body = scatter("0", "x", 64) + "\n" + gather("r", "0", 16)
    colls = trace(main("%x: tensor<64xf32>", body, "tensor<64xf32>")).nodes(0, COLL)
    assert [node.get_attr_value("comm_size") for node in colls] == [256, 64]


def test_02_collectives_in_a_row_stay_apart(trace: Trace) -> None:
    body = [scatter("0", "x", 64), reduce("1", "0", "tensor<16xf32>"), gather("r", "1", 16)]
    text = main("%x: tensor<64xf32>", "\n".join(body), "tensor<64xf32>")
    kinds = CollectiveCommType
    for split in ("split-linear", MERGE):
        colls = trace(text, split).nodes(0, COLL)
        assert [node.get_attr_value("comm_type") for node in colls] == [
            kinds.REDUCE_SCATTER, kinds.ALL_REDUCE, kinds.ALL_GATHER
        ]  # fmt: skip
        assert [node.dependency_ids for node in colls[1:]] == [(node.id,) for node in colls[:-1]]


@pytest.mark.parametrize("form", ["hex", "mesh", "ragged"])
def test_03_every_form_of_groups(trace: Trace, form: str) -> None:
    rows = np.arange(256).reshape(128, 2)
    devices, more = 256, ""
    if form == "hex":
        numbers = "0x" + rows.astype("<i8").tobytes().hex().upper()
        groups = f'replica_groups = dense<"{numbers}"> : tensor<128x2xi64>, {CHANNEL}'
    elif form == "mesh":
        more = 'sdy.mesh @mesh = <["a"=128, "b"=2]>'
        axes = '#stablehlo.axis_ref<name = "b">'
        mesh = f"#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [{axes}]>"
        groups = f"replica_groups = {mesh}, {CHANNEL}"
    else:
        rows, devices = [[2, 0], [1, 3, 4]], 5
        groups = f"replica_groups = dense<[[2, 0, -1], [1, 3, 4]]> : tensor<2x3xi64>, {CHANNEL}"
    body = reduce("r", "x", "tensor<4xf32>", groups)
    traced = trace(main("%x: tensor<4xf32>", body, "tensor<4xf32>", devices, more))
    assert [sorted(row) for row in rows] == list(traced.groups.values())
    for device in (0, devices - 1):
        (node,) = traced.nodes(device, COLL)
        assert device in traced.groups[node.get_attr_value("pg_name")]


def test_04_a_permute_is_point_to_point(trace: Trace) -> None:
    pairs = "source_target_pairs = dense<[[0, 1], [1, 2], [3, 3]]> : tensor<3x2xi64>"
    body = f"""%r = "stablehlo.collective_permute"(%x) <{{{pairs},
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}}>
      : (tensor<4xf32>) -> tensor<4xf32>"""
    traced = trace(main("%x: tensor<4xf32>", body, "tensor<4xf32>"))
    moved = [
        [(node.type, *map(node.get_attr_value, ("comm_src", "comm_dst", "comm_size")))
         for node in traced.nodes(device, COLL, SEND, RECV)]
        for device in range(4)
    ]  # fmt: skip
    first, second = (0, 1, 16), (1, 2, 16)
    assert moved == [[(SEND, *first)], [(SEND, *second), (RECV, *first)], [(RECV, *second)], []]


def test_05_nothing_is_left_over_from_another_run(trace: Trace) -> None:
    one = program(f"%0 = {ADD}\n{REDUCE.format('1', '0')}\n%2 = stablehlo.tanh %1 : {X}", "2")
    two = one.replace("stablehlo.tanh", "stablehlo.negate").replace(ADD, "stablehlo.tanh %x : " + X)
    for text in (one, two):
        for split in ("split-linear", INDIVIDUAL):
            for annotate in (A100, FLAT):
                second_trace = trace(text, split, annotate, folder="same")
                fresh = trace(text, split, annotate, folder=f"{two is text}{split}{len(annotate)}")
                assert read_output_files(second_trace.folder) == read_output_files(fresh.folder)
    assert not list(second_trace.folder.parent.rglob("*.p*kl*"))


def test_06_program_order_or_data_flow(trace: Trace) -> None:
    body = f"%0 = stablehlo.tanh %x : {X}\n{REDUCE.format('1', '0')}\n%2 = stablehlo.sine %y : {X}"
    text = program(f"{body}\n%3 = stablehlo.add %1, %2 : {X}", "3")
    linear = trace(text).nodes()
    assert [node.type for node in linear] == [COMP, COLL, COMP]
    assert ["tanh" in linear[0].name, "sine" in linear[2].name] == [True, True]
    assert [node.dependency_ids for node in linear] == [(), (linear[0].id,), (linear[1].id,)]
    tanh, coll, sine, add = trace(text, INDIVIDUAL).nodes()
    assert coll.dependency_ids == (tanh.id,)
    assert coll.id not in sine.dependency_ids and coll.id in add.dependency_ids


WINDOW = "window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [L, L]}"


@pytest.mark.parametrize(
    ("dims", "lhs", "rhs", "out", "dilation", "groups", "flops"),
    [
        ("[b, f, 0, 1]x[o, i, 0, 1]", "2x3x8x8", "4x3x3x3", "2x4x6x6", 1, 1, 2 * 288 * 27),
        ("[b, 0, 1, f]x[0, 1, i, o]", "2x8x8x3", "3x3x3x4", "2x6x6x4", 1, 1, 2 * 288 * 27),
        ("[b, f, 0, 1]x[o, i, 0, 1]", "2x3x8x8", "3x1x3x3", "2x3x6x6", 1, 3, 2 * 216 * 9),
        # Of the 2x2 kernel one element meets data and three meet the zeros of the dilation.
        ("[b, f, 0, 1]x[o, i, 0, 1]", "1x1x4x4", "1x1x2x2", "1x1x6x6", 2, 1, 2 * 36),
    ],
)
def test_07_convolutions_by_their_dimension_numbers(
    trace: Trace, dims: str, lhs: str, rhs: str, out: str, dilation: int, groups: int, flops: int
) -> None:
    types = [f"tensor<{shape}xf32>" for shape in (lhs, rhs, out)]
    result = dims.split("x[")[0]
    body = f"""%r = stablehlo.convolution(%x, %w) dim_numbers = {dims}->{result},
      {WINDOW.replace("L", str(dilation))}
      {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
      : ({types[0]}, {types[1]}) -> {types[2]}"""
    traced = trace(main(f"%x: {types[0]}, %w: {types[1]}", body, types[2]))
    assert traced.sum_of("flops") == flops


def test_08_unknown_work_is_no_zero(trace: Trace, tmp_path: Path) -> None:
    call = f"%0 = stablehlo.custom_call @mystery(%x) : ({X}) -> {X}"
    text = program(f"{call}\n%1 = {ADD}", "1")
    with pytest.raises(HespasError, match=r"@mystery has no cost rule in .*use --keep-going"):
        trace(text)
    assert not (tmp_path / "out").exists()
    traced = trace(text, INDIVIDUAL, keep_going=True)
    assert 'gap = "stablehlo.custom_call: custom call @mystery has no cost rule in' in str(
        traced.module
    )
    assert traced.stats["totals"]["gaps"] == 1
    assert any("mystery" in text for text in traced.run.warnings)
    config = (
        r'"{\22gemm_backend_config\22:{\22dot_dimension_numbers\22:'
        r'{\22lhs_contracting_dimensions\22:[\221\22],\22rhs_contracting_dimensions\22:[\220\22]}}}"'
    )
    known = (
        f"%0 = stablehlo.custom_call @__cublas$gemm(%x, %y) {{backend_config = {config}}} "
        f": ({X}, {X}) -> {X}"
    )
    assert trace(program(known, "0")).sum_of("flops") == 2 * 64**3


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(
    ("operand", "result", "rate"), [("bf16", "f32", 312e12), ("i8", "i32", 624e12)]
)
def test_09_the_rate_is_that_of_the_operands(
    trace: Trace, operand: str, result: str, rate: float, fused: bool
) -> None:
    a, r = f"tensor<2048x2048x{operand}>", f"tensor<2048x2048x{result}>"
    dot = f"stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ({a}, {a}) -> {r}"
    body = f"%r = {dot}"
    if fused:
        body = f"""%r = "mhlo.fusion"(%a, %b) <{{fusion_kind = #mhlo<fusion_kind kOutput>}}> ({{
          ^bb0(%x: {a}, %y: {a}):
            %d = {dot}
            "mhlo.return"(%d) : ({r}) -> ()
          }}) : ({a}, {a}) -> {r}"""
    names = ("%a", "%b") if fused else ("%x", "%y")
    traced = trace(main(", ".join(f"{name}: {a}" for name in names), body, r), annotate=A100)
    assert traced.time_ns == pytest.approx(2 * 2048**3 / rate * 1e9, abs=1)


@pytest.mark.parametrize(
    ("arguments", "body", "result", "read", "written"),
    [
        (
            "%t: tensor<1000x64xf32>, %i: tensor<4x1xi32>",
            """"stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<
            offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0],
            index_vector_dim = 1>, slice_sizes = array<i64: 1, 64>}>
            : (tensor<1000x64xf32>, tensor<4x1xi32>) -> tensor<4x64xf32>""",
            "tensor<4x64xf32>",
            4 * 64 * 4 + 4 * 4,
            4 * 64 * 4,
        ),
        (
            "%t: tensor<1000x64xf32>, %u: tensor<1x64xf32>, %i: tensor<i32>",
            "stablehlo.dynamic_update_slice %t, %u, %i, %i : (tensor<1000x64xf32>, "
            "tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1000x64xf32>",
            "tensor<1000x64xf32>",
            64 * 4 + 2 * 4,
            64 * 4,
        ),
        (
            "%a: tensor<64xf32>",
            "stablehlo.compare LT, %a, %a : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xi1>",
            "tensor<64xi1>",
            2 * 64 * 4,
            64,
        ),
        ("%a: tensor<64xi4>", "stablehlo.add %a, %a : tensor<64xi4>", "tensor<64xi4>", 64, 32),
        (
            "%a: tensor<64xf32>",
            "stablehlo.reshape %a : (tensor<64xf32>) -> tensor<8x8xf32>",
            "tensor<8x8xf32>",
            0,
            0,
        ),
        (
            "%a: tensor<64xf32>",
            '"mhlo.bitcast"(%a) : (tensor<64xf32>) -> tensor<8x8xf32>',
            "tensor<8x8xf32>",
            0,
            0,
        ),
    ],
    ids=["gather", "dynamic_update_slice", "i1", "i4", "reshape", "bitcast"],
)
def test_10_bytes_that_are_touched(
    trace: Trace, arguments: str, body: str, result: str, read: int, written: int
) -> None:
    traced = trace(main(arguments, f"%r = {body}", result))
    totals = traced.stats["totals"]
    assert (totals["read_bytes"], totals["write_bytes"]) == (read, written)
    assert totals["time_ns"] == pytest.approx(read + written)


def test_11_no_share_above_one_and_energy_is_power_times_time(trace: Trace) -> None:
    a = "tensor<2048x2048xbf16>"
    body = f"%r = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : ({a}, {a}) -> {a}"
    node = "node=A100_SXM_40GB hbm-power-share=0.4"
    traced = trace(main(f"%x: {a}", body, a), annotate=f"roofline-annotate{{{node}}}")
    shares, totals = traced.stats["utilisation"], traced.stats["totals"]
    time_s = 2 * 2048**3 / 312e12
    memory_share = 3 * 2 * 2048**2 / 1555e9 / time_s
    assert shares["flops"] == pytest.approx(1) and shares["flops"] <= 1
    assert shares["bandwidth"] == pytest.approx(memory_share)
    watts = 400 * (0.6 + 0.4 * memory_share)
    assert totals["energy_nj"] * 1e-9 == pytest.approx(time_s * watts)


def test_12_rounding_does_not_add_up(trace: Trace) -> None:
    lines = [f"%{i + 1} = stablehlo.tanh %{i} : tensor<f32>" for i in range(100)]
    body = "\n".join(lines).replace("%0 ", "%x ").replace("%100 ", "%r ")
    flat = f"roofline-annotate{{peak-flops=1e30 memory-bandwidth={8 / 300.4e-9}}}"
    traced = trace(main("%x: tensor<f32>", body, "tensor<f32>"), INDIVIDUAL, flat)
    nodes = traced.nodes(0, COMP)
    assert len(nodes) == 100
    assert traced.time_ns == 30040
    total = sum(node.duration_us for node in nodes)
    assert total == 30
    assert max(node.duration_us for node in nodes) == 1


def test_13_groups_of_one_and_the_device_count(trace: Trace) -> None:
    alone = [[device] for device in range(64)]
    groups = f"replica_groups = dense<{alone}> : tensor<64x1xi64>, {CHANNEL}"
    v = "tensor<4xf32>"
    body = f"{reduce('0', 'x', v, groups)}\n%r = stablehlo.tanh %0 : {v}"
    text = main(f"%x: {v}", body, v, 64)
    traced = trace(text)
    assert (traced.groups, traced.nodes(0, COLL)) == ({}, [])
    assert len(list(traced.folder.glob("dev.*.et"))) == 64
    with pytest.raises(HespasError, match=r"1 x 64 devices .* not 8"):
        trace(text, prepare="devices=8")


def test_14_presets(trace: Trace) -> None:
    dense = configs.load_node("B200_180GB").find_peak_rate("matrix", "bf16").flops_per_s
    assert dense == 2.25e15  # twice that is the rate with 2:4 sparsity
    text = program(f"%0 = {ADD}", "0")
    for name in configs.list_node_presets():
        traced = trace(text, annotate=f"roofline-annotate{{node={name}}}")
        target = TargetAttr.read_from_op(traced.module.operation)
        assert target is not None and target.node == name and target.constants
        assert traced.stats["totals"]["time_ns"] > 0
    for name in ("A40_48GB_2GPU", "TPUv3_2"):
        assert configs.load_system(name).device_count == 2


def test_15_ops_that_stopped_it(trace: Trace) -> None:
    v = "tensor<1x4x16xf32>"
    body = f"""
    %e = chlo.erf %x : {v} -> {v}
    %k:2 = chlo.top_k(%e, k = 4) : {v} -> (tensor<1x4x4xf32>, tensor<1x4x4xi32>)
    %f = stablehlo.fft %x, type = RFFT, length = [16] : ({v}) -> tensor<1x4x9xcomplex<f32>>
    %n = stablehlo.constant dense<[1, 4, 16]> : tensor<3xi64>
    %lo = stablehlo.constant dense<0.0> : tensor<f32>
    %hi = stablehlo.constant dense<1.0> : tensor<f32>
    %u = stablehlo.rng %lo, %hi, %n, distribution = UNIFORM
      : (tensor<f32>, tensor<f32>, tensor<3xi64>) -> {v}
    %s = "stablehlo.sort"(%u) <{{dimension = 2 : i64, is_stable = true}}> ({{
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %lt = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %lt : tensor<i1>
      }}) : ({v}) -> {v}
    %c = stablehlo.convolution(%s, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0],
      window = {{stride = [1], pad = [[1, 1]]}}
      {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
      : ({v}, tensor<4x4x3xf32>) -> {v}
    %b = "stablehlo.collective_broadcast"(%c) <{{
      replica_groups = dense<[[2, 0, 1, 3]]> : tensor<1x4xi64>,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}}> : ({v}) -> {v}
    %t = stablehlo.create_token : !stablehlo.token
    %sent = "stablehlo.send"(%b, %t) <{{is_host_transfer = false,
      channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>,
      source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}}>
      : ({v}, !stablehlo.token) -> !stablehlo.token
    %got:2 = "stablehlo.recv"(%sent) <{{is_host_transfer = false,
      channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>,
      source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}}>
      : (!stablehlo.token) -> ({v}, !stablehlo.token)
    %r = stablehlo.add %got#0, %b : {v}"""
    traced = trace(main(f"%x: {v}, %w: tensor<4x4x3xf32>", body, v), INDIVIDUAL, A100)
    assert "chlo." not in str(traced.module)
    # A tree from device 2 in two rounds of one and two messages, then the send.
    count = {device: len(traced.nodes(device, SEND)) for device in range(4)}
    assert (sum(count.values()), count[2]) == (4, 2)
    assert traced.stats["totals"]["gaps"] == 0


def test_16_what_jax_writes_now(trace: Trace) -> None:
    row = 'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>'
    g = "tensor<8x8xf32>"
    mesh = 'sdy.mesh @mesh = <["x"=4]>'
    local = "tensor<2x8xf32>"
    manual = f"""%r = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"x"}}, {{}}]>]
      out_shardings=[<@mesh, [{{"x"}}, {{}}]>] manual_axes={{"x"}} (%y: {local}) {{
        {reduce("1", "y", local)}
        sdy.return %1 : {local}
      }} : ({g}) -> {g}"""
    automatic = f"""%r = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0]
      : ({g}, {g}) -> {g}"""
    for body in (manual, automatic):
        traced = trace(main(f"%x: {g} {{{row}}}", body, g, more=mesh))
        (coll,) = traced.nodes(0, COLL)
        if body is manual:
            assert coll.get_attr_value("comm_size") == 2 * 8 * 4
        else:
            assert (coll.get_attr_value("comm_size"), traced.sum_of("flops")) == (
                8 * 8 * 4,
                2 * 8 * 8 * 2,
            )
    shards = f"""func.func private @body(%y: {local}) -> {local} {{
      {reduce("1", "y", local)}
      return %1 : {local} }}"""
    called = f"%r = call @body(%x) : ({local}) -> {local}"
    (coll,) = trace(main(f"%x: {local}", called, local, more=shards)).nodes(0, COLL)
    assert coll.get_attr_value("comm_size") == 2 * 8 * 4


def test_17_async_pairs_overlap_what_is_between(trace: Trace) -> None:
    bundle = "!mhlo.async_bundle<tensor<4xf32>, tensor<16xf32>>"
    same = 'called_computation = @gather, execution_thread = "main"'
    body = f"""%0 = "mhlo.async_start"(%x) <{{{same}}}> : (tensor<4xf32>) -> {bundle}
    %1 = stablehlo.tanh %x : tensor<4xf32>
    %2 = "mhlo.async_done"(%0) {{{same}}} : ({bundle}) -> tensor<16xf32>
    %r = stablehlo.negate %2 : tensor<16xf32>"""
    called = f"""func.func private @gather(%x: tensor<4xf32>) -> tensor<16xf32>
      attributes {{execution_thread = "main"}} {{
      {gather("g", "x", 4)}
      return %g : tensor<16xf32> }}"""
    text = main("%x: tensor<4xf32>", body, "tensor<16xf32>", more=called)
    for split in ("split-linear", INDIVIDUAL):
        nodes_by_name = {
            n.name.split(": ")[-1].split(".")[0]: n for n in trace(text, split).nodes()
        }
        assert set(nodes_by_name) == {"all_gather", "tanh", "negate"}
        coll, tanh, negate = (
            nodes_by_name["all_gather"],
            nodes_by_name["tanh"],
            nodes_by_name["negate"],
        )
        assert coll.id not in tanh.dependency_ids and tanh.id not in coll.dependency_ids
        assert coll.id in negate.dependency_ids


def test_18_loops_run_their_trips(trace: Trace) -> None:
    text = program(loop("w", 5, f"%t = stablehlo.tanh %acc : {X}", "t", "x"), "w#1")
    tanh, counter = 2 * BYTES, (4 + 4 + 1) + (4 + 4 + 4)
    assert trace(text).time_ns == 5 * (tanh + counter)
    unknown = text.replace(
        "%n = stablehlo.constant dense<5> : tensor<i32>", "%n = stablehlo.negate %k : tensor<i32>"
    ).replace(f"%y: {X}", f"%y: {X}, %k: tensor<i32>")
    traced = trace(unknown)
    assert traced.time_ns == tanh + counter + 8
    assert any("trip count of the loop depends on data" in text for text in traced.run.warnings)
    assert 'gap = "trip count 1 assumed' in str(traced.module)
    assert traced.stats["totals"]["gaps"] == 1
    traced_with_count = trace(unknown, prepare="trip-count=7")
    assert traced_with_count.time_ns == 7 * (tanh + counter + 8)
    assert traced_with_count.stats["totals"]["gaps"] == 0
    with pytest.raises(HespasError, match=r"'stablehlo.while': the trip count of the loop"):
        trace(unknown, prepare="trip-count=error")


@pytest.mark.parametrize("split", ["split-linear", INDIVIDUAL, MERGE])
def test_19_each_op_is_charged_once(trace: Trace, split: str) -> None:
    body = f"""%c = stablehlo.constant dense<2.0> : tensor<f32>
    %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> {X}
    %0 = stablehlo.add %x, %b : {X}
    {REDUCE.format("1", "0")}
    %2 = stablehlo.add %1, %b : {X}
    {REDUCE.format("3", "2")}
    %4 = stablehlo.multiply %3, %b : {X}"""
    traced = trace(program(body, "4"), split)
    assert traced.stats["kinds"]["stablehlo.broadcast_in_dim"]["count"] == 1
    once = (BYTES + 4) + 3 * (3 * BYTES)
    assert traced.time_ns == traced.stats["totals"]["time_ns"] == once
    assert traced.run.get_artefact(Annotation).total.time_ns == once


def test_20_outputs_and_no_more(
    trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = program(f"%0 = {ADD}\n{REDUCE.format('1', '0')}", "1")
    source, out = tmp_path / "step.mlir", tmp_path / "traces"
    source.write_text(text)
    argv = ["run", "--mlir", str(source), "--node", "A100_SXM_40GB", "--output", str(out)]
    assert run_tool_main(hespas.main, [*argv, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["devices"] == 2
    assert captured.err == ""
    figures = {"run.json", "annotated.mlirbc", "memory_timeline.json"}
    expected = {"dev.0.et", "dev.1.et", "comm_group.json", "module_stats.json", *figures}
    assert read_output_files(out).keys() == expected
    assert {path.name for path in tmp_path.iterdir()} == {"step.mlir", "traces"}
    assert (
        sum(len(data) for name, data in read_output_files(out).items() if name not in figures)
        < 10_000
    )


def test_21_nodes_lead_back_to_the_model(trace: Trace) -> None:
    place = 'loc("jit(step)/layer_3/add"("model.py":12:3))'
    traced = trace(program(f"%0 = {ADD} {place}\n{REDUCE.format('1', '0')} {place}", "1"))
    comp, coll = traced.nodes()
    for node in (comp, coll):
        assert "jit(step)/layer_3/add" in node.name
        assert node.get_attr_value("location") == "model.py:12:3"
    block = collect_functions(traced.module)["main"].regions[0].blocks[0]
    regions = [RegionAttr.read_from_op(view.operation) for view in block.operations]
    ids = {region.id for region in regions if region is not None}
    assert comp.get_attr_value("region") in ids


@pytest.mark.slow
def test_22_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    body = f"{REDUCE.format('0', 'x')}\n{loop('w', 3, REDUCE.format('t', 'acc'), 't', '0')}"
    source = tmp_path / "step.mlir"
    source.write_text(program(f"{body}\n%1 = stablehlo.add %w#1, %0 : {X}", "1"))
    outputs = []
    for seed in ("1", "2"):
        argv = [source, "--split-individual=merge", "--roofline-annotate", "--emit-chakra=output=o"]
        (tmp_path / seed).mkdir()
        subprocess.run(
            [sys.executable, "-m", "hespas.tools.hespas_opt", *argv, "-o", "annotated.mlir"],
            cwd=tmp_path / seed,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stderr=subprocess.PIPE,
            check=True,
        )
        outputs.append(read_output_files(tmp_path / seed / "o"))
        outputs[-1]["annotated.mlir"] = (tmp_path / seed / "annotated.mlir").read_bytes()
    assert outputs[0] == outputs[1]
    assert Cost.NAME.encode() in outputs[0]["annotated.mlir"]
