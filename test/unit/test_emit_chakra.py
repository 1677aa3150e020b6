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

COMP = 4


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


def op(result, *operands, ns=None, comm=None, region=None):
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
        f"%{result} = stablehlo.custom_call @work({names}) {{{attributes}}}"
        f" : ({kinds}) -> tensor<4xf32>"
    )


def comm(groups=(1,)):
    listed = ", ".join(map(str, groups))
    return (
        'kind = "all_reduce", operand_bytes = 16 : i64, result_bytes = 16 : i64, '
        f"groups = array<i64: {listed}>, pairs = array<i64>, is_async = false"
    )


def module(*lines, devices=4, groups=None, result="x"):
    groups = groups or {"1": list(range(devices))}
    listed = ", ".join(f'"{k}" = array<i64: {", ".join(map(str, v))}>' for k, v in groups.items())
    listed = listed if devices > 1 else ""
    body = "\n    ".join(lines)
    return f"""
module @m attributes {{
  hespas.split = {{strategy = "individual", merge = false, block_limit = 0 : i64}},
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

    def run(text):
        out = tmp_path / "out"
        state = PassRun(note=lambda text: None)
        pipeline.run_pipeline(parse(text), f"emit-chakra{{output={out}}}", state)
        assert check_trace_folder(out).problems == []
        run.state = state
        devices = state.get_artefact(EmittedTraces).trace.devices
        return [list(read_trace_nodes(out / f"dev.{d}.et")) for d in range(devices)]

    run.out = tmp_path / "out"
    return run


LOOP = """
%r = stablehlo.while(%i = %x) : tensor<4xf32> attributes {hespas.trips = 3 : i64}
 cond {
  %p = stablehlo.custom_call @p(%i) {COND} : (tensor<4xf32>) -> tensor<i1>
  stablehlo.return %p : tensor<i1>
} do {
  BODY
  stablehlo.return %b : tensor<4xf32>
}"""


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


@pytest.mark.parametrize("name", ["pipeline_ppermute/spmd", "transformer_scan_train/opt_cpu"])
def test_workloads_give_sound_traces(workload, context, tmp_path, name):
    from hespas import frontends

    for split in ("split-linear", "split-individual{merge}"):
        module_read = frontends.read_module(str(workload(f"zoo/{name}.mlir")), context)
        out = tmp_path / "out"
        run = PassRun(note=lambda text: None)
        pipeline.run_pipeline(module_read, FLOW.format(split=split, out=out), run)
        assert check_trace_folder(out).problems == []
