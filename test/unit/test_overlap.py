"""Compute between the start and the end of an asynchronous collective runs alongside it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import hespas
from hespas.chakra.node_rules import COLL
from hespas.chakra.trace_reader import TraceNode, read_trace_nodes
from hespas.configs import overlap_slowdown
from hespas.configs.validation import validate_config
from hespas.simulators.simulation_result import NodeInterval
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.network_settings import NetworkSettings

SYSTEM = "A100_SXM_40GB_4GPU"
TENSOR = "tensor<512x512xf32>"


def write_iteration(number: int, value: str, products: int) -> str:
    """Return StableHLO of an all-reduce of a value alongside products, and of their sum."""
    lines = [
        f"%d{number}_{k + 1} = stablehlo.dot %d{number}_{k}, {value} : "
        f"({TENSOR}, {TENSOR}) -> {TENSOR}"
        for k in range(products)
    ]
    alongside = "\n".join([f"%d{number}_0 = stablehlo.tanh {value} : {TENSOR}", *lines])
    return f"""
    %s{number} = "stablehlo.async_start"({value}) ({{
    ^bb0(%a: {TENSOR}):
      %r = "stablehlo.all_reduce"(%a)
          <{{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}}> ({{
      ^bb1(%p: tensor<f32>, %q: tensor<f32>):
        %t = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %t : tensor<f32>
      }}) : ({TENSOR}) -> {TENSOR}
      stablehlo.return %r : {TENSOR}
    }}) : ({TENSOR}) -> !stablehlo.future<{TENSOR}>
    {alongside}
    %w{number} = "stablehlo.async_done"(%s{number}) : (!stablehlo.future<{TENSOR}>) -> {TENSOR}
    %z{number} = stablehlo.add %w{number}, %d{number}_{products} : {TENSOR}"""


def write_unrolled_program(products: int, iterations: int = 3) -> str:
    body, value = "", "%x"
    for number in range(iterations):
        body += write_iteration(number, value, products)
        value = f"%z{number}"
    return f"""module @m attributes {{mhlo.num_replicas = 4 : i32}} {{
      func.func @main(%x: {TENSOR}) -> {TENSOR} {{{body}
        return {value} : {TENSOR}
      }}
    }}"""


def write_looped_program(products: int) -> str:
    return f"""module @m attributes {{mhlo.num_replicas = 4 : i32}} {{
      func.func @main(%x: {TENSOR}) -> {TENSOR} {{
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %three = stablehlo.constant dense<3> : tensor<i32>
        %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, {TENSOR}
        cond {{
          %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }} do {{
          {write_iteration(0, "%v", products)}
          %n = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %n, %z0 : tensor<i32>, {TENSOR}
        }}
        return %0#1 : {TENSOR}
      }}
    }}"""


def simulate_program(text: str, folder: Path, **options) -> tuple[list[TraceNode], list]:
    """Run a program; return the nodes and the intervals of a device."""
    (folder / "m.mlir").write_text(text)
    hespas.run(
        mlir=str(folder / "m.mlir"), node="A100_SXM_40GB", system=SYSTEM, split="linear",
        estimator="roofline", output=str(folder / "out"),
    )  # fmt: skip
    report = hespas.simulate(folder / "out", SYSTEM, **options)
    (intervals,) = report.result.classes  # all devices are equivalent
    return sorted(read_trace_nodes(folder / "out" / "dev.0.et"), key=lambda n: n.id), intervals


def predict_intervals(
    nodes: list[TraceNode], comm_ns: int, slowdown: float
) -> dict[int, tuple[int, int]]:
    """Predict the start and end of each node, if each collective is awaited before the next one."""
    now = comm_end = 0
    collectives: set[int] = set()
    times = {}
    for node in nodes:
        if node.type == COLL:
            collectives.add(node.id)
            start, comm_end = now, now + comm_ns
            times[node.id] = (start, comm_end)
            continue
        if collectives.intersection(node.dependency_ids):
            now = max(now, comm_end)
        work = node.get_attr_value("num_ops") // 1000
        alongside = min(work * (1 + slowdown), max(0, comm_end - now))
        end = math.ceil(now + alongside + work - alongside / (1 + slowdown) - 1e-6)
        times[node.id] = (now, end)
        now = end
    return times


@pytest.mark.parametrize("write_program", [write_unrolled_program, write_looped_program])
@pytest.mark.parametrize("products", [1, 12], ids=["exposed", "hidden"])
@pytest.mark.parametrize("slowdown", [0.0, 0.5])
def test_compute_between_start_and_end_runs_alongside(write_program, products, slowdown, tmp_path):
    nodes, intervals = simulate_program(write_program(products), tmp_path, slowdown=slowdown)
    assert sum(node.type == COLL for node in nodes) == 3
    (comm_ns,) = {i.finish_ns - i.start_ns for i in intervals if i.resource == "comm"}
    expected = predict_intervals(nodes, comm_ns, slowdown)
    assert {i.node: (i.start_ns, i.finish_ns) for i in intervals} == expected
    # The exposed rest is what compute does not cover.
    collectives = [i for i in intervals if i.resource == "comm"]
    for collective in collectives:
        covered = sum(_overlap_ns(collective, i) for i in intervals if i.resource == "compute")
        assert covered > 0
        assert (covered == comm_ns) == (products == 12)


def _overlap_ns(a: NodeInterval, b: NodeInterval) -> int:
    return max(0, min(a.finish_ns, b.finish_ns) - max(a.start_ns, b.start_ns))


def test_the_slowdown_is_that_of_the_kind(tmp_path):
    text = write_unrolled_program(products=12, iterations=1)
    shares = {"all_reduce": 0.5, "all_gather": 2.0, "other": 1.0}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    by_kind = simulate_program(text, tmp_path / "a", slowdown=shares)
    assert by_kind == simulate_program(text, tmp_path / "b", slowdown=0.5)
    other = {"all_gather": 0.5, "other": 0.25}
    assert simulate_program(text, tmp_path / "a", slowdown=other) == simulate_program(
        text, tmp_path / "b", slowdown=0.25
    )


def test_the_result_states_the_slowdown(tmp_path):
    simulate_program(write_unrolled_program(products=1, iterations=1), tmp_path)
    shares = {"all_reduce": 0.5, "other": 0.1}
    report = hespas.simulate(tmp_path / "out", SYSTEM, slowdown=shares)
    assert report.result.settings.to_texts()["slowdown"] == "all_reduce=0.5,other=0.1"
    summary = hespas.run(
        mlir=str(tmp_path / "m.mlir"), node="A100_SXM_40GB", system=SYSTEM, estimator="calibrated",
        form="as-is",
        output=str(tmp_path / "out"),
    )  # fmt: skip
    assert summary.simulation is not None
    settings = summary.simulation.result.settings.to_texts()
    assert settings["slowdown"] == "all_reduce=0.227,other=0.189"
    # Simulating the folder again uses what the run recorded.
    report = hespas.simulate(tmp_path / "out")
    assert report.result.settings.to_texts()["slowdown"] == settings["slowdown"]
    assert report.result.step_time_ns == summary.simulation.result.step_time_ns


@pytest.mark.parametrize("text", ["0.2", "all_reduce=0.3,other=0.2"])
def test_shares_are_parsed_as_they_are_formatted(text):
    assert (
        overlap_slowdown.format_slowdown_shares(overlap_slowdown.parse_slowdown_shares(text))
        == text
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("all_reduce=0.3", "the share of 'other' communication is missing"),
        ("gather=0.3,other=0.1", "'gather' is not a kind of communication"),
        ("all_reduce=x,other=0.1", "'x' is not a number"),
        ("-1", "'-1' is negative"),
        ("nan", "'nan' is not a number"),
    ],
)
def test_wrong_shares_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        overlap_slowdown.parse_slowdown_shares(text)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "^'slowdown' is -1: input should be a finite number"),
        ("x", "'slowdown' is \"x\""),
        ({"other": True}, "input should be a finite number"),
        ({"all_reduce": 0.1}, "^'slowdown': the share of 'other' communication is missing"),
    ],
)
def test_wrong_shares_in_files_are_refused(value, message):
    with pytest.raises(HespasError) as caught:
        validate_config(NetworkSettings, {"slowdown": value}, "")
    assert re.search(message, caught.value.message)
