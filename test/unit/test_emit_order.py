"""Dependencies: any program gives a sound trace, and chaining changes no time."""

import heapq
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples
from support.trace_programs import DEVICES, NS, random_trace

from hespas.chakra import trace_writer
from hespas.chakra.check_traces import check_trace_folder
from hespas.chakra.trace_reader import read_trace_nodes
from hespas.chakra.trace_steps import (
    CollectiveContent,
    ComputeContent,
    HostCopyContent,
    ProgramTrace,
    round_durations,
)
from hespas.passes.emit.trace_order import NOTHING, DataFlowOrder, LinearOrder


class Loose(DataFlowOrder):
    """Data flow without chaining of compute steps and without any reduction."""

    def join_values(self, values):
        return tuple(sorted({d for v in values for d in v}))

    def add_compute_step(self, activity, value):
        self.trace.chain[self._next] = self._next
        return (self._append_compute(activity, tuple(sorted(value))),)


@draw_examples(60)
@given(st.integers(0, 2**32), st.sampled_from([LinearOrder, DataFlowOrder]))
def test_any_program_gives_a_sound_trace(seed, order_class):
    with tempfile.TemporaryDirectory() as folder:
        trace_writer.write_traces(random_trace(seed, order_class), Path(folder))
        report = check_trace_folder(folder)
        assert report.problems == []
        for rank in range(DEVICES):
            assert all(
                d < n.id
                for n in read_trace_nodes(Path(folder) / f"dev.{rank}.et")
                for d in n.dependency_ids
            )


def finish(trace):
    """The finish time of one device that takes part in everything: lowest id first, one compute and
    one communication at a time, communication of a size-dependent length."""
    steps = {step.id: step for step in trace.steps}
    waiting = {step.id: len(step.deps) for step in trace.steps}
    children = {}
    for step in trace.steps:
        for d in step.deps:
            children.setdefault(d, []).append(step.id)
    ready = {True: [], False: []}
    running = {}
    events = []
    now = 0

    def put(number):
        heapq.heappush(ready[isinstance(steps[number].content, ComputeContent)], number)

    for number, count in waiting.items():
        if not count:
            put(number)
    while True:
        for slot, queue in ready.items():
            if queue and slot not in running:
                number = running[slot] = heapq.heappop(queue)
                content = steps[number].content
                took = (
                    content.latency_fs
                    if isinstance(content, ComputeContent)
                    else content.size * 100 * NS
                )
                heapq.heappush(events, (now + took, slot, number))
        if not events:
            return now
        now, slot, number = heapq.heappop(events)
        del running[slot]
        for child in children.get(number, ()):
            waiting[child] -= 1
            if not waiting[child]:
                put(child)


@draw_examples(150)
@given(st.integers(0, 2**32))
def test_chaining_and_reduction_change_no_time(seed):
    assert finish(random_trace(seed, DataFlowOrder)) == finish(random_trace(seed, Loose))


def test_chained_programs_have_few_dependencies():
    trace = ProgramTrace(1)
    order = DataFlowOrder(trace)
    values = [order.add_compute_step(ComputeContent("c", NS), ()) for _ in range(200)]
    whole = order.join_values(values)
    order.add_compute_step(ComputeContent("end", NS), whole)
    assert trace.steps[-1].deps == (200,)


def test_async_in_linear_order_overlaps_up_to_its_wait():
    trace = ProgramTrace(2, {1: (0, 1)})
    order = LinearOrder(trace)
    order.add_compute_step(ComputeContent("before", NS), NOTHING)
    value = order.add_communication_step(CollectiveContent("ar", 0, 8, (1,)), NOTHING, True)
    order.add_compute_step(ComputeContent("beside", NS), NOTHING)
    order.wait_for_value(value)
    order.add_compute_step(ComputeContent("after", NS), NOTHING)
    assert [step.deps for step in trace.steps] == [(), (1,), (1,), (2, 3)]


def test_async_in_linear_order_is_waited_for_by_its_first_use():
    trace = ProgramTrace(2, {1: (0, 1)})
    order = LinearOrder(trace)
    value = order.add_communication_step(CollectiveContent("ar", 0, 8, (1,)), NOTHING, True)
    order.add_communication_step(CollectiveContent("ag", 2, 8, (1,)), NOTHING, True)
    order.add_compute_step(ComputeContent("beside", NS), NOTHING)
    order.add_compute_step(ComputeContent("use", NS), value)
    order.add_communication_step(CollectiveContent("last", 0, 8, (1,)), NOTHING, False)
    assert [step.deps for step in trace.steps] == [(), (1,), (), (1, 3), (2, 4)]


def test_each_network_has_a_chain_in_linear_order():
    trace = ProgramTrace(2, {1: (0, 1)})
    order = LinearOrder(trace)
    order.add_compute_step(ComputeContent("before", NS), NOTHING)
    slices = CollectiveContent("between slices", 0, 8, (1,), network="slices")
    between = order.add_communication_step(slices, NOTHING, True)
    order.add_communication_step(CollectiveContent("links", 0, 8, (1,)), NOTHING, True)
    copied = order.add_communication_step(HostCopyContent("copy", 5), NOTHING, True)
    order.add_communication_step(HostCopyContent("next copy", 5), NOTHING, True)
    order.wait_for_value(copied)
    order.add_compute_step(ComputeContent("use", NS), between)
    order.add_communication_step(CollectiveContent("more", 0, 8, (1,)), NOTHING, False)
    assert [step.deps for step in trace.steps] == [
        (), (1,), (1,), (1,), (1, 4), (1, 2, 4), (3, 6),
    ]  # fmt: skip


@given(st.lists(st.integers(0, 5_000_000_000), max_size=60))
def test_durations_add_up(latencies_fs):
    took = round_durations(latencies_fs)
    exact_ns = (sum(latencies_fs) + NS // 2) // NS
    assert sum(d.nanos for d in took) == max(exact_ns, len(took))
    assert all(d.nanos >= 1 and d.micros >= 0 for d in took)
    simulated = sum(d.micros * 1000 or 1 for d in took)
    assert abs(simulated - exact_ns) <= 1000 + len(took)


def test_thousand_short_nodes_take_their_time_not_1000_ns_each():
    took = round_durations([400 * NS] * 1000)
    assert {d.nanos for d in took} == {400}
    assert abs(sum(d.micros * 1000 or 1 for d in took) - 400_000) <= 1000


BINARY = shutil.which("AstraSim_Analytical_Congestion_Unaware")
SYSTEM = """{"scheduling-policy": "FIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
"preferred-dataset-splits": 1, "all-reduce-implementation": ["ring"],
"all-gather-implementation": ["ring"], "reduce-scatter-implementation": ["ring"],
"all-to-all-implementation": ["ring"], "collective-optimization": "localBWAware",
"local-mem-bw": 1600, "roofline-enabled": 1, "peak-perf": 1}"""
NETWORK = "topology: [Ring]\nnpus_count: [4]\nbandwidth: [100]\nlatency: [500]\n"


def simulate(trace, folder):
    """ASTRA-sim's (cycles, exposed communication) by rank."""
    folder.mkdir()
    trace_writer.write_traces(trace, folder)
    (folder / "system.json").write_text(SYSTEM)
    (folder / "network.yml").write_text(NETWORK)
    (folder / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    options = {
        "workload-configuration": "dev",
        "system-configuration": "system.json",
        "network-configuration": "network.yml",
        "remote-memory-configuration": "memory.json",
        "comm-group-configuration": "comm_group.json",
    }
    words = [f"--{name}={folder / value}" for name, value in options.items()]
    done = subprocess.run(
        [str(BINARY), *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    pattern = r"sys\[(\d+)\] finished, (\d+) cycles, exposed communication (-?\d+)"
    lines = re.findall(pattern, done.stdout + done.stderr)
    return {int(rank): (int(cycles), int(exposed)) for rank, cycles, exposed in lines}


@pytest.mark.skipif(BINARY is None, reason="ASTRA-sim is not on PATH")
def test_on_the_real_astra_sim(tmp_path):
    for seed in range(8):
        trace = random_trace(seed, DataFlowOrder)
        finish = simulate(trace, tmp_path / f"chained{seed}")
        assert len(finish) == DEVICES
        fs = sum(
            step.content.latency_fs
            for step in trace.steps
            if isinstance(step.content, ComputeContent)
        )
        assert {cycles - exposed for cycles, exposed in finish.values()} == {fs // NS}
        assert finish == simulate(random_trace(seed, Loose), tmp_path / f"loose{seed}")
