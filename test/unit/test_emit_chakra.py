"""``emit-chakra`` on split, annotated modules: nodes, loops, transfers, statistics, files."""

import errno
import json
import os

import pytest
from support.output_files import read_output_files

from hespas.chakra import trace_writer
from hespas.chakra.check_traces import check_trace_folder
from hespas.chakra.trace_reader import read_trace_nodes
from hespas.passes import pipeline
from hespas.passes.base import PassRun
from hespas.passes.emit.emit_chakra import EmittedTraces, choose_default_name
from hespas.support.errors import HespasError

COMP, SEND, RECV, COLL = 4, 5, 6, 7


def cost(ns, **more):
    fields = {
        "estimator": '"test"',
        "flops": "10 : i64",
        "read_bytes": "8 : i64",
        "write_bytes": "4 : i64",
        "latency_ns": f"{float(ns):.3f} : f64",
        "bound": '"memory"',
        "dtype": '"f32"',
        **more,
    }
    return "hespas.cost = {" + ", ".join(f"{k} = {v}" for k, v in fields.items()) + "}"


def op(result, *operands, ns=None, comm=None, region=None, target="work"):
    """One op; all are custom calls, as this pass looks at attributes only."""
    attrs = []
    if ns is not None:
        attrs.append(cost(ns))
    if region is not None:
        attrs.append(
            f'hespas.region = {{id = {region} : i64, ops = 1 : i64, digest = "d{region}"}}'
        )
    if comm is not None:
        attrs.append(f"hespas.comm = {{{comm}}}")
    names = ", ".join(f"%{name}" for name in operands)
    kinds = ", ".join(["tensor<4xf32>"] * len(operands))
    attributes = ", ".join(attrs)
    return (
        f"%{result} = stablehlo.custom_call @{target}({names}) {{{attributes}}}"
        f" : ({kinds}) -> tensor<4xf32>"
    )


def comm(kind="all_reduce", size=16, groups=(1,), pairs=(), is_async=False):
    def ints(values):
        return "array<i64: " + ", ".join(map(str, values)) + ">" if values else "array<i64>"

    return (
        f'kind = "{kind}", operand_bytes = {size} : i64, result_bytes = 16 : i64, '
        f"groups = {ints(groups)}, pairs = {ints(pairs)}, is_async = {str(is_async).lower()}"
    )


def wait(result, value):
    return f"%{result} = stablehlo.optimization_barrier {{hespas.wait}} %{value} : tensor<4xf32>"


def module(*lines, devices=4, groups=None, strategy="individual", result="x"):
    groups = groups or {"1": list(range(devices))}
    listed = ", ".join(f'"{k}" = array<i64: {", ".join(map(str, v))}>' for k, v in groups.items())
    listed = listed if devices > 1 else ""
    body = "\n    ".join(lines)
    return f"""
module @m attributes {{
  hespas.split = {{strategy = "{strategy}", merge = false, block_limit = 0 : i64}},
  hespas.target = {{devices = {devices} : i64, replicas = 1 : i64, partitions = {devices} : i64}},
  hespas.communicators = {{{listed}}}}} {{
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
    {body}
    return %{result} : tensor<4xf32>
  }}
}}"""


@pytest.fixture
def emit(parse, tmp_path):
    """Emit a module's text; gives the nodes of each device, checked to have no problems."""

    def run(text, options="", warned=None):
        out = tmp_path / "out"
        state = PassRun(note=lambda text: None)
        pipeline.run_pipeline(parse(text), f"emit-chakra{{output={out} {options}}}", state)
        assert check_trace_folder(out).problems == []
        assert warned is None or any(warned in text for text in state.warnings)
        run.state = state
        devices = state.get_artefact(EmittedTraces).trace.devices
        return [list(read_trace_nodes(out / f"dev.{d}.et")) for d in range(devices)]

    run.out = tmp_path / "out"
    return run


def shape(nodes):
    return [(n.id, n.type, n.data_deps) for n in nodes]


def test_a_collective_keeps_its_operand_bytes_and_gets_its_communicator(emit):
    # pitfalls 1 and 13: not the output's size; all ranks together have an id of their own.
    text = module(
        op("a", "x", ns=100, region=0),
        op("b", "a", comm=comm("all_gather", 16)),
        op("c", "b", comm=comm("reduce_scatter", 64, groups=(2, 3))),
        groups={"1": [0, 1, 2, 3], "2": [0, 1], "3": [2, 3]},
    )
    devices = emit(text)
    for rank, nodes in enumerate(devices):
        gather, scatter = nodes[1:]
        assert (gather.get_attr_value("comm_type"), gather.get_attr_value("comm_size")) == (2, 16)
        assert gather.get_attr_value("pg_name") == "1"
        assert (scatter.get_attr_value("comm_type"), scatter.get_attr_value("comm_size")) == (7, 64)
        assert scatter.get_attr_value("pg_name") == ("2" if rank < 2 else "3")
        assert scatter.attrs["comm_size"][0] == "int64"
    groups = json.loads((emit.out / "comm_group.json").read_text())
    assert groups == {"1": [0, 1, 2, 3], "2": [0, 1], "3": [2, 3]}


def test_collectives_in_a_row_stay_apart(emit):
    # pitfall 2
    kinds = ["reduce_scatter", "all_reduce", "all_gather"]
    lines = [op(f"v{i}", "x", comm=comm(kind)) for i, kind in enumerate(kinds)]
    nodes = emit(module(*lines))[0]
    assert [n.name for n in nodes] == [f"{kind}.0" for kind in kinds]
    assert [n.data_deps for n in nodes] == [(), (1,), (2,)]


def test_permute_is_send_and_recv(emit):
    # pitfall 4; device 3 has no part in it, 0 to itself is dropped
    text = module(
        op("a", "x", ns=100, region=0),
        op("b", "a", comm=comm("permute", 16, (), (0, 0, 1, 2, 2, 1))),
        op("c", "b", ns=100, region=1),
    )
    devices = emit(text)
    assert shape(devices[1]) == [
        (1, COMP, ()),
        (2, SEND, (1,)),
        (3, RECV, (1,)),
        (4, COMP, (1, 2, 3)),
    ]
    assert shape(devices[3]) == [(1, COMP, ()), (4, COMP, (1,))]
    assert shape(devices[0]) == shape(devices[3])
    send, recv = devices[1][1:3]
    peers = [
        n.get_attr_value(k) for n in (send, recv) for k in ("comm_src", "comm_dst", "comm_size")
    ]
    assert peers == [1, 2, 16, 2, 1, 16]


def test_program_order_runs_forwards(emit):
    # pitfall 6
    lines = [op("a", "x", ns=1, region=0), op("b", "x", comm=comm()), op("c", "x", ns=1, region=1)]
    nodes = emit(module(*lines, strategy="linear"))[0]
    assert shape(nodes) == [(1, COMP, ()), (2, COLL, (1,)), (3, COMP, (2,))]


def test_data_flow_lets_communication_overlap(emit):
    lines = [op("a", "x", ns=1, region=0), op("b", "a", comm=comm()), op("c", "x", ns=1, region=1)]
    nodes = emit(module(*lines))[0]
    assert shape(nodes) == [(1, COMP, ()), (2, COLL, (1,)), (3, COMP, (1,))]


def test_async_collective_overlaps_up_to_its_wait(emit):
    # pitfall 17
    lines = [
        op("a", "x", comm=comm(is_async=True)),
        op("b", "x", ns=5, region=0),
        wait("w", "a"),
        op("c", "w", ns=5, region=1),
    ]
    nodes = emit(module(*lines, strategy="linear"))[0]
    assert shape(nodes) == [(1, COLL, ()), (2, COMP, ()), (3, COMP, (1, 2))]


def test_singletons_and_zero_time_pass_dependencies_on(emit):
    # pitfall 13: a collective of one device each hangs ASTRA-sim
    lines = [
        op("a", "x", ns=5, region=0),
        op("b", "a", comm=comm(groups=())),
        op("c", "b", ns=0, region=1),
        op("d", "c", comm=comm(size=0)),
        op("e", "d", comm=comm()),
    ]
    assert shape(emit(module(*lines))[0]) == [(1, COMP, ()), (2, COLL, (1,))]


def test_a_device_without_nodes_gets_one(emit):
    devices = emit(module(op("a", "x", comm=comm(groups=(1,))), groups={"1": [0, 1]}))
    assert [n.type for n in devices[2]] == [COMP]
    assert emit.state.get_artefact(EmittedTraces).nodes == (1, 1, 1, 1)
    (node,) = emit(module(devices=1))[0]
    assert (node.type, node.get_attr_value("num_ops")) == (COMP, 1500)


def test_broadcast_is_a_tree_from_its_source(emit):
    for pairs, root in (((), 0), ((2, 0), 2)):
        devices = emit(module(op("a", "x", comm=comm("broadcast", 16, (1,), pairs))))
        sent = {
            (rank, n.get_attr_value("comm_dst"), n.id)
            for rank, nodes in enumerate(devices)
            for n in nodes
            if n.type == SEND
        }
        assert len(sent) == 3
        assert {target for _, target, _ in sent} == {0, 1, 2, 3} - {root}
        assert [n.type for n in devices[root]] == [SEND, SEND]
        assert devices[root][1].data_deps == (1,)


LOOP = """
%r = stablehlo.while(%i = %x) : tensor<4xf32> attributes {hespas.trips = 3 : i64}
 cond {
  %p = stablehlo.custom_call @p(%i) {COND} : (tensor<4xf32>) -> tensor<i1>
  stablehlo.return %p : tensor<i1>
} do {
  BODY
  stablehlo.return %b : tensor<4xf32>
}"""


def test_loops_are_expanded_with_their_values(emit):
    body = op("a", "i", ns=7, region=1) + "\n" + op("b", "a", comm=comm())
    text = LOOP.replace("COND", cost(2)).replace("BODY", body)
    nodes = emit(module(text, op("z", "r", ns=9, region=2)))[0]
    # condition, body and collective three times; the value is carried from trip to trip
    assert [n.type for n in nodes] == [COMP, COMP, COLL] * 3 + [COMP]
    assert [n.data_deps[-1] for n in nodes[3:6]] == [3, 4, 5]
    assert nodes[9].data_deps[-1] == 9
    totals = emit.state.get_artefact(EmittedTraces).stats["totals"]
    assert totals["time_ns"] == pytest.approx(36)
    assert (totals["comm_ops"], totals["comm_operand_bytes"]) == (3, 48)


def test_a_loop_with_collectives_of_unknown_length_is_named(emit):
    text = LOOP.replace("hespas.trips = 3 : i64", "").replace("COND", cost(2))
    text = text.replace("BODY", op("b", "i", comm=comm()))
    emit(
        module(text, result="r"), warned="the trip count of the loop depends on data: 1 is assumed"
    )


def test_a_branch_with_collectives_takes_the_one_that_communicates_most(emit):
    small, large = op("s", "x", comm=comm(size=8)), op("l", "x", comm=comm(size=32))
    text = f"""%p = stablehlo.custom_call @p(%x) {{{cost(0)}}} : (tensor<4xf32>) -> tensor<i1>
    %r = "stablehlo.if"(%p) ({{
      {small}
      stablehlo.return %s : tensor<4xf32>
    }}, {{
      {large}
      stablehlo.return %l : tensor<4xf32>
    }}) : (tensor<i1>) -> tensor<4xf32>"""
    nodes = emit(module(text, result="r"), warned="the trace contains branch 1")[0]
    assert [n.get_attr_value("comm_size") for n in nodes] == [32]


def test_a_branch_waits_for_what_chooses_it(emit):
    inner = op("b", "x", comm=comm())
    text = f"""%p = stablehlo.custom_call @p(%x) {{{cost(5)}}} : (tensor<4xf32>) -> tensor<i1>
    %r = "stablehlo.if"(%p) ({{
      {inner}
      stablehlo.return %b : tensor<4xf32>
    }}, {{
      stablehlo.return %x : tensor<4xf32>
    }}) : (tensor<i1>) -> tensor<4xf32>"""
    nodes = emit(module(op("first", "x", comm=comm()), text, result="r"))[0]
    assert shape(nodes[1:]) == [(2, COMP, ()), (3, COLL, (1, 2))]


def test_assumed_trip_counts_around_collectives_are_gaps(emit):
    body = op("a", "i", ns=7, region=1) + "\n" + op("b", "a", comm=comm())
    text = LOOP.replace("COND", cost(2)).replace("BODY", body)
    assumed = 'hespas.trips = 3 : i64, hespas.trips_note = "trip count 3 assumed"'
    emit(module(text.replace("hespas.trips = 3 : i64", assumed), result="r"))
    assert emit.state.get_artefact(EmittedTraces).stats["totals"]["gaps"] == 1
    assert any("lack the time of 1 op" in text for text in emit.state.warnings)


def test_names_and_attributes_lead_back_to_the_model(emit):
    # pitfall 21
    place = ' loc("jit(f)/layer/dot"("model.py":7:3))'
    lines = [op("a", "x", ns=1500, region=12) + place, op("b", "a", comm=comm()) + place]
    compute, collective = emit(module(*lines))[0]
    assert compute.name == "region 12: jit(f)/layer/dot"
    assert collective.name == "all_reduce.0 jit(f)/layer/dot"
    assert compute.get_attr_value("location") == "model.py:7:3"
    expected = {"region": 12, "flops": 10, "read_bytes": 8, "write_bytes": 4, "estimator": "test"}
    assert {name: compute.get_attr_value(name) for name in expected} == expected
    assert (compute.duration_us, compute.get_attr_value("num_ops")) == (2, 1500 * 1000 + 500)
    assert compute.attrs["num_ops"][0] == "int64"
    assert compute.attrs["tensor_size"] == ("uint64", 1)
    assert compute.attrs["is_cpu_op"] == ("bool", False)


@pytest.mark.parametrize(("time", "micros", "has_ops"), [("carry", 3, False), ("exact", 0, True)])
def test_time_modes(emit, time, micros, has_ops):
    (node,) = emit(module(op("a", "x", ns=3000, region=0)), f"time={time}")[0]
    assert (node.duration_us, "num_ops" in node.attrs) == (micros, has_ops)


def test_wrong_order_names_the_missing_pass(parse, tmp_path):
    text = module(op("a", "x", region=0))

    def emitted(source):
        pipeline.run_pipeline(parse(source), f"emit-chakra{{output={tmp_path / 'o'}}}", PassRun())

    with pytest.raises(HespasError, match=r"run an annotate pass first, e\.g\. roofline-annotate"):
        emitted(text)
    with pytest.raises(HespasError, match="run split-linear or split-individual first"):
        emitted("func.func public @main() { return }")
    with pytest.raises(HespasError, match=r"communicator 9 is not in hespas\.communicators"):
        emitted(module(op("a", "x", comm=comm(groups=(9,)))))
    with pytest.raises(HespasError, match="device 7, and there are 4"):
        emitted(module(op("a", "x", comm=comm()), groups={"1": [0, 7]}))
    with pytest.raises(HespasError, match="did you mean 'carry'"):
        pipeline.run_pipeline(parse(text), "emit-chakra{time=cary}", PassRun())
    assert not (tmp_path / "o").exists()


def test_gaps_are_counted_and_said(emit):
    # pitfall 8
    emit(module(op("a", "x", ns=0, region=0).replace('"f32"', '"f32", gap = "unknown call"')))
    assert any("lack the time of 1 op" in text for text in emit.state.warnings)
    stats = json.loads((emit.out / "module_stats.json").read_text())
    assert (stats["totals"]["gaps"], stats["regions"][0]["gap"]) == (1, "unknown call")


@pytest.mark.parametrize(
    ("gap", "trips", "time_ns", "gaps"), [("", 3, 6, 0), ("", 0, 0, 0), ('gap = "?", ', 3, 6, 0)]
)
def test_control_flow_counts_what_runs(emit, gap, trips, time_ns, gaps):
    # pitfall 8: a gap counts in the branch that runs, and in no other
    whole = cost(2 * trips, trips=f"{trips} : i64")
    inner = f"""%p = stablehlo.custom_call @p(%i) {{{cost(0)}}} : (tensor<4xf32>) -> tensor<i1>
      %b = "stablehlo.if"(%p) ({{
        {op("s", "i", ns=2)}
        stablehlo.return %s : tensor<4xf32>
      }}, {{
        {op("t", "i", ns=0).replace("hespas.cost = {", "hespas.cost = {" + gap)}
        stablehlo.return %t : tensor<4xf32>
      }}) {{{cost(2).replace("hespas.cost = {", "hespas.cost = {" + gap)}}}
        : (tensor<i1>) -> tensor<4xf32>"""
    text = LOOP.replace("COND", cost(0)).replace("BODY", inner)
    text = text.replace("hespas.trips = 3 : i64", f"hespas.trips = {trips} : i64, {whole}")
    emit(module(text, result="r"))
    totals = emit.state.get_artefact(EmittedTraces).stats["totals"]
    assert (totals["time_ns"], totals["gaps"]) == (pytest.approx(time_ns), gaps * trips)


def test_a_region_estimated_as_a_whole_is_in_the_totals(emit):
    call = f"%a = call @f(%x) {{{cost(6)}}} : (tensor<4xf32>) -> tensor<4xf32>"
    function = f"""func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32>
        attributes {{{cost(6)}}} {{
      %0 = stablehlo.negate %x : tensor<4xf32>
      return %0 : tensor<4xf32> }}"""
    text = module(call, result="a").rstrip().removesuffix("}")
    emit(f"{text}{function} }}")
    assert emit.state.get_artefact(EmittedTraces).stats["totals"]["time_ns"] == 6


PROGRAM = """
module @step attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> {
    %a = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %b = stablehlo.tanh %a : tensor<64x64xf32>
    %c = "stablehlo.all_reduce"(%b) <{replica_groups = dense<[[0,1,2,3],[4,5,6,7]]>
      : tensor<2x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      use_global_device_ids}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %d = stablehlo.dot_general %c, %c, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %e = stablehlo.tanh %d : tensor<64x64xf32>
    return %e : tensor<64x64xf32>
  }
}"""
FLOW = "{split},roofline-annotate{{node=A100_SXM_40GB}},emit-chakra{{output={out}}}"


def test_whole_flow_statistics(parse, tmp_path):
    totals = {}
    for split in ("split-linear", "split-individual", "split-individual{merge}"):
        out = tmp_path / "out"
        run = PassRun(note=lambda text: None)
        pipeline.run_pipeline(parse(PROGRAM), FLOW.format(split=split, out=out), run)
        assert check_trace_folder(out).problems == []
        data = json.loads((out / "module_stats.json").read_text())
        assert data["schema"] == "hespas.module_stats/1"
        kinds, total = data["kinds"], data["totals"]
        for name in ("count", "time_ns", "flops", "read_bytes", "write_bytes"):
            for table in ("kinds", "dtypes", "bounds", "classes"):
                assert sum(row[name] for row in data[table].values()) == pytest.approx(total[name])
            if name != "count":
                rows = data["regions"]
                assert sum(r[name] * r["runs"] for r in rows) == pytest.approx(total[name])
        assert kinds["stablehlo.dot_general"]["flops"] == 2 * 2 * 64**3
        assert kinds["stablehlo.dot_general"]["count"] == 2
        expected = {"ranks": [4, 5, 6, 7]}
        expected["collectives"] = {"all_reduce": {"count": 1, "operand_bytes": 64 * 64 * 4}}
        assert data["communicators"]["2"] == expected
        # pitfall 11
        assert all(0 < share <= 1 for share in data["utilisation"].values())
        ns = [
            n.get_attr_value("num_ops") // 1000
            for n in read_trace_nodes(out / "dev.0.et")
            if n.type == COMP
        ]
        assert abs(sum(ns) - total["time_ns"]) <= 1
        assert run.get_artefact(EmittedTraces).stats == data
        totals[split] = total["time_ns"]
        if split == "split-linear":  # two equal regions: the second is the first again
            assert data["reuse"]["basic_block_reuse_rate"] == 0.5
            assert data["reuse"]["operator_reuse_factor"] == 0.5
            assert [r["runs"] for r in data["regions"]] == [2] or len(data["regions"]) == 1
    assert len(set(totals.values())) == 1


def test_equal_input_gives_equal_bytes_wherever_it_lies(context, tmp_path):
    # pitfall 22
    from hespas import frontends

    for name in ("a", "b"):
        source = tmp_path / f"in-{name}" / "step.mlir"
        source.parent.mkdir()
        source.write_text(PROGRAM)
        flow = FLOW.format(split="split-individual", out=tmp_path / name)
        run = PassRun(input_name=str(source), note=lambda text: None)
        pipeline.run_pipeline(frontends.read_module(str(source), context), flow, run)
    locations = [
        n.get_attr_value("location") for n in read_trace_nodes(tmp_path / "a" / "dev.0.et")
    ]
    assert locations[0].startswith("step.mlir:")
    files = list(read_output_files(tmp_path / "a"))
    # pitfall 20: what was asked for, and no more
    assert files == [
        "comm_group.json",
        *(f"dev.{i}.et" for i in range(8)),
        "module_stats.json",
    ]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_former_run_is_replaced_and_other_files_stay(emit):
    # pitfall 5
    emit.out.mkdir()
    (emit.out / "notes.txt").write_text("mine")
    emit(module(devices=4))
    emit(module(devices=2), "stats=false")
    names = list(read_output_files(emit.out))
    assert names == ["comm_group.json", "dev.0.et", "dev.1.et", "notes.txt"]
    emit(module(devices=1), "clean")
    assert (emit.out / "notes.txt").read_text() == "mine"
    assert not (emit.out / "dev.1.et").exists()


def test_files_of_the_user_are_not_replaced(emit):
    emit.out.mkdir()
    for name in ("dev.7.et", "comm_group.json"):
        (emit.out / name).write_text("mine")
        for options in ("", "clean"):
            with pytest.raises(HespasError, match="hespas does not replace this file") as caught:
                emit(module(devices=1), options)
            assert caught.value.where.endswith(f"out/{name}")
        assert read_output_files(emit.out) == {name: b"mine"}
        (emit.out / name).unlink()
    emit(module(devices=1))
    (emit.out / "comm_group.json").write_text("changed")
    with pytest.raises(HespasError, match="does not replace this file"):
        emit(module(devices=1))
    assert (emit.out / "comm_group.json").read_text() == "changed"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_nothing_is_left_of_a_run_that_fails(emit, parse, monkeypatch, tmp_path, error):
    emit(module(devices=2))
    before = {p.name: p.read_bytes() for p in emit.out.iterdir()}
    real = trace_writer.write_trace_file

    def fail(path, data):
        if path.endswith("dev.1.et"):
            raise error
        real(path, data)

    monkeypatch.setattr(trace_writer, "write_trace_file", fail)
    raised = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else HespasError
    for out in (emit.out, tmp_path / "deep" / "new"):
        emit.out = out
        with pytest.raises(raised):
            text = module(op("a", "x", ns=5, region=0), devices=2)
            flow = f"emit-chakra{{output={out}}}"
            pipeline.run_pipeline(parse(text), flow, PassRun(note=lambda text: None))
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    assert os.listdir(tmp_path) == ["out"]


def test_output_that_cannot_be_written(parse, tmp_path):
    (tmp_path / "file").write_text("")
    for place, text in (("file", "this is a file"), ("file/below", "file is a file")):
        with pytest.raises(HespasError, match=text):
            pipeline.run_pipeline(
                parse(module()), f"emit-chakra{{output={tmp_path / place}}}", PassRun()
            )


def test_default_folder_is_named_after_the_module(parse, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notes = []
    run = PassRun(input_name="/in/llama3.opt.mlir.xz", note=notes.append)
    pipeline.run_pipeline(parse(module()), "emit-chakra", run)
    assert os.listdir(tmp_path) == ["llama3.opt"]
    assert any("traces in llama3.opt" in note for note in notes)
    assert choose_default_name(parse(module()), "-") == "m"
    assert choose_default_name(parse("module {}"), "-") == "module"


def test_a_thousand_devices_differ_by_communicator(parse, tmp_path):
    groups = {str(i + 1): list(range(8 * i, 8 * i + 8)) for i in range(128)}
    lines = [op("a", "x", ns=5, region=0), op("b", "a", comm=comm(groups=range(1, 129)))]
    out = tmp_path / "out"
    text = module(*lines, devices=1024, groups=groups)
    pipeline.run_pipeline(parse(text), f"emit-chakra{{output={out} stats=false}}", PassRun())
    assert check_trace_folder(out).problems == []
    sizes = {(out / f"dev.{d}.et").stat().st_size for d in (0, 79, 800)}
    assert len(sizes) == 3  # ids of one, two and three digits
    assert list(read_trace_nodes(out / "dev.1023.et"))[1].get_attr_value("pg_name") == "128"


def test_what_a_recv_gives_waits_for_the_message(emit):
    lines = [
        op("s", "x", comm=comm("permute", 16, (), (0, 1))),
        op("r", "x", comm=comm("permute", 0, ())),
        op("a", "r", ns=5, region=0),
    ]
    sender, receiver = emit(module(*lines, devices=2))
    assert shape(sender) == [(1, SEND, ()), (3, COMP, (1,))]
    assert shape(receiver) == [(2, RECV, ()), (3, COMP, (2,))]


def test_a_trace_too_long_to_write_is_refused(emit, monkeypatch):
    monkeypatch.setattr("hespas.passes.emit.trace_order.MAX_STEPS", 2)
    body = LOOP.replace("COND", cost(2)).replace("BODY", op("b", "i", comm=comm()))
    with pytest.raises(HespasError, match="over 2 nodes per device"):
        emit(module(body, result="r"))
    assert not emit.out.exists()


@pytest.mark.parametrize("name", ["pipeline_ppermute/spmd", "transformer_scan_train/opt_cpu"])
def test_workloads_give_sound_traces(workload, context, tmp_path, name):
    from hespas import frontends

    for split in ("split-linear", "split-individual{merge}"):
        module_read = frontends.read_module(str(workload(f"zoo/{name}.mlir")), context)
        out = tmp_path / "out"
        run = PassRun(note=lambda text: None)
        pipeline.run_pipeline(module_read, FLOW.format(split=split, out=out), run)
        assert check_trace_folder(out).problems == []
