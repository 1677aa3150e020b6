"""Reports: critical path, exposed communication, bandwidths, on results written by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest
from support.budgets import count_cases
from support.traces import simulate_folder

from hespas import configs
from hespas.chakra.node_rules import COLL, COMP, RECV, SEND
from hespas.chakra.trace_reader import TraceNode
from hespas.simulators import critical_path as paths
from hespas.simulators import embedded
from hespas.simulators import report_rows as reports
from hespas.simulators.critical_path import COMMUNICATION, COMPUTE, WAITING, TracedResult
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulationOptions, SimulatorChoice
from hespas.simulators.simulation_result import (
    CommRecord,
    DeviceResult,
    NodeInterval,
    SimulationResult,
)
from hespas.support.errors import HespasError
from support import sim_programs, traces


def comp(number, deps=(), name="region 3: fusion +4"):
    return TraceNode(number, name, COMP, tuple(deps))


def coll(number, deps=(), group=1, size=1 << 20):
    attrs = {
        "comm_type": ("int64", 0),
        "comm_size": ("int64", size),
        "pg_name": ("string", str(group)),
        "location": ("string", f"step.mlir:{number}:1"),
    }
    return TraceNode(number, f"all_reduce.{number}", COLL, tuple(deps), attrs=attrs)


def message(number, kind, peer, deps=()):
    end = "comm_dst" if kind == SEND else "comm_src"
    attrs = {"comm_size": ("int64", 8), "comm_tag": ("int32", 1), end: ("int32", peer)}
    return TraceNode(number, f"permute.{number}", kind, tuple(deps), attrs=attrs)


def story(programs, classes, class_of=None, groups=None):
    """A story of devices that run ``programs``, by intervals (node, start, finish)."""
    class_of = class_of or list(range(len(programs)))
    resource = {COMP: "compute", COLL: "comm", SEND: "comm", RECV: "recv"}
    nodes = [{node.id: node for node in program} for program in programs]
    intervals, devices = [], []
    for c, members_class in enumerate(classes):
        first = nodes[class_of.index(c)]
        intervals.append(
            [NodeInterval(n, a, b, resource[first[n].type]) for n, a, b in members_class]
        )
    for c in class_of:
        end = max(i.finish_ns for i in intervals[c])
        busy = sum(i.finish_ns - i.start_ns for i in intervals[c] if i.resource == "compute")
        devices.append(DeviceResult(end, end - busy, busy, 0, 0))
    result = SimulationResult("by hand", devices, (), intervals, class_of)
    return TracedResult(result, nodes.__getitem__, groups or {1: range(len(programs))})


def steps(path):
    return [(s.device, s.node and s.node.id, s.what, s.start_ns, s.finish_ns) for s in path]


CHAIN = [comp(1), coll(2, [1]), comp(3, [2]), comp(4, [1])]


def test_a_path_goes_back_through_dependencies_to_the_last_device_to_join():
    late = [(1, 0, 30), (2, 30, 50), (3, 50, 60)]
    early = [(1, 0, 10), (4, 10, 15), (2, 10, 50), (3, 50, 61)]
    traced = story([CHAIN, CHAIN], [late, early])
    assert steps(paths.find_critical_path(traced)) == [
        (0, 1, COMPUTE, 0, 30),
        (1, 2, COMMUNICATION, 30, 50),
        (1, 3, COMPUTE, 50, 61),
    ]
    (row,) = paths.find_exposed_nodes(traced, 1)
    assert (row.node.id, row.exposed_ns, row.waiting_ns) == (2, 35, 15)
    assert row.needed_by is not None and row.needed_by.id == 3
    (row,) = paths.find_exposed_nodes(traced, 0)
    assert (row.exposed_ns, row.waiting_ns) == (20, 0)


def test_a_path_goes_through_what_held_the_resource():
    program = [comp(1), comp(2), coll(3, [1]), coll(4, [2]), comp(5, [4])]
    times = [(1, 0, 10), (2, 10, 15), (3, 10, 40), (4, 40, 50), (5, 50, 51)]
    traced = story([program, program], [times], [0, 0])
    assert [s.node.id for s in paths.find_critical_path(traced) if s.node] == [1, 3, 4, 5]
    assert sum(s.finish_ns - s.start_ns for s in paths.find_critical_path(traced)) == 51


def test_a_receive_waits_for_its_send():
    sender = [comp(1), message(2, SEND, 1, [1])]
    receiver = [message(1, RECV, 0), comp(2, [1])]
    traced = story([sender, receiver], [[(1, 0, 20), (2, 20, 25)], [(1, 0, 25), (2, 25, 30)]])
    assert steps(paths.find_critical_path(traced)) == [
        (0, 1, COMPUTE, 0, 20),
        (1, 1, COMMUNICATION, 20, 25),
        (1, 2, COMPUTE, 25, 30),
    ]
    (row,) = paths.find_exposed_nodes(traced, 1)
    assert (row.exposed_ns, row.waiting_ns) == (25, 20)


def test_a_message_that_is_there_already_takes_no_time():
    sender = [message(1, SEND, 1)]
    receiver = [comp(1), message(2, RECV, 0, [1]), comp(3, [2])]
    times = [(1, 0, 20), (2, 20, 20), (3, 20, 30)]
    traced = story([sender, receiver], [[(1, 0, 5)], times])
    assert steps(paths.find_critical_path(traced)) == [
        (1, 1, COMPUTE, 0, 20),
        (1, 3, COMPUTE, 20, 30),
    ]
    assert paths.find_exposed_nodes(traced, 1) == []


def test_what_nothing_explains_is_waiting():
    traced = story([[comp(1), comp(2)]], [[(1, 3, 10), (2, 12, 20)]])
    assert [(s.what, s.start_ns) for s in paths.find_critical_path(traced)] == [
        (WAITING, 0), (COMPUTE, 3), (WAITING, 10), (COMPUTE, 12),
    ]  # fmt: skip


def test_dependencies_through_nodes_that_do_not_run():
    program = [comp(1), TraceNode(2, "nothing", 0, (1,)), comp(3, [2]), comp(4, [1])]
    traced = story([program], [[(1, 0, 10), (4, 10, 12), (3, 12, 20)]])
    assert [s.node.id for s in paths.find_critical_path(traced) if s.node] == [1, 4, 3]


def test_receives_get_what_the_slot_leaves():
    program = [message(1, RECV, 1), message(2, RECV, 1), coll(3), comp(4, [1, 2, 3])]
    other = [coll(1), message(2, SEND, 0), message(3, SEND, 0)]
    times = [(1, 0, 30), (2, 0, 40), (3, 0, 20), (4, 40, 41)]
    traced = story([program, other], [times, [(1, 0, 20), (2, 20, 30), (3, 30, 40)]])
    rows = {row.node.id: row.exposed_ns for row in paths.find_exposed_nodes(traced, 0)}
    assert rows == {1: 10, 2: 10, 3: 20}


def test_devices_that_behave_alike_share_intervals():
    late, early = [(1, 0, 30), (2, 30, 50), (3, 50, 60)], [(1, 0, 10), (2, 10, 50), (3, 50, 61)]
    class_of = [1, 0, 1, 0]
    two = [comp(1), coll(2, [1], group=2), comp(3, [2])]
    traced = story([CHAIN, CHAIN, two, two], [late, early], class_of, {1: (0, 1), 2: (2, 3)})
    assert traced.find_last_joins(1) == [(30, 1)] and traced.find_last_joins(2) == [(30, 3)]
    assert paths.find_critical_path(traced)[0].device == 1


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("region 12: fusion +4", "fusion"),
        ("dot_general", "dot_general"),
        ("region 1: jit(step)/layers/attention/dot_general", "dot_general"),
        ("fusion.123", "fusion"),
        ("loop_fusion_12", "loop_fusion"),
        ("42", "42"),
    ],
)
def test_compute_is_grouped_by_op(name, kind):
    assert paths.classify_node(TraceNode(1, name, COMP)) == kind


def test_bandwidths_are_those_of_nccl_tests():
    rows = {
        kind: reports.CollectiveRow(kind, 4, 1000, 2, 2000)
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send")
    }
    algorithm = {kind: row.algorithm_bandwidth for kind, row in rows.items()}
    assert algorithm == {**dict.fromkeys(rows, 1e9), "all_gather": 4e9}
    bus = {kind: row.bus_bandwidth for kind, row in rows.items()}
    assert bus == {
        "all_reduce": 1.5e9, "all_gather": 3e9, "reduce_scatter": 0.75e9,
        "all_to_all": 0.75e9, "send": 1e9,
    }  # fmt: skip
    assert reports.CollectiveRow("send", 2, 8, 1, 0).bus_bandwidth is None


def test_rows_add_up():
    late = [(1, 0, 30), (2, 30, 50), (3, 50, 60)]
    early = [(1, 0, 10), (4, 10, 15), (2, 10, 50), (3, 50, 61)]
    traced = story([CHAIN, CHAIN], [late, early])
    comms = (
        CommRecord("all_reduce.2", "all_reduce", 1 << 20, 1, (0, 1), 10, 30, 50),
        CommRecord("permute", "send", 8, -1, (0, 1), 50, 50, 55),
        CommRecord("permute", "send", 8, -1, (1, 0), 50, 50, 56),
    )
    result = SimulationResult(
        "by hand", traced.result.devices, comms, traced.result.classes, traced.result.class_of
    )
    traced = TracedResult(result, traced.get_device_nodes, traced.groups)
    report = reports.build_report(result, traced)
    assert report.path is not None and report.exposed is not None
    assert sum(row.time_ns for row in report.path) == result.step_time_ns
    assert reports.sum_path_times(report.path) == {COMPUTE: 41, COMMUNICATION: 20, WAITING: 0}
    (row,) = report.exposed
    assert (row.location, row.needed_by, row.count) == ("step.mlir:2:1", "region 3: fusion +4", 1)
    assert sum(row.exposed_ns for row in report.exposed) == report.critical_result.exposed_ns
    assert [(row.devices, row.result.finish_ns) for row in report.devices] == [
        ((1,), 61),
        ((0,), 60),
    ]
    # From the last device's start to the last finish.
    assert [(r.kind, r.count, r.time_ns) for r in report.collectives] == [
        ("all_reduce", 1, 20), ("send", 2, 11),
    ]  # fmt: skip
    together = replace(result, comms=[replace(comms[0], ready_ns=comms[0].start_ns)])
    assert reports.group_collectives(together)[0].time_ns == 40
    assert [(r.id, r.devices, r.count, r.time_ns) for r in report.communicators] == [
        (1, (0, 1), 1, 40), (-1, (0, 1), 2, 11),
    ]  # fmt: skip
    assert reports.build_report(result, None).path is None


def random_traces(folder, seed):
    """Four devices with collectives on all and on halves, messages, and skewed compute."""
    rng = random.Random(seed)
    groups = {1: [0, 1, 2, 3], 2: [0, 1], 3: [2, 3]}
    ranks = [[traces.comp(1, micros=rng.randrange(9))] for _ in range(4)]
    ids = [{1} for _ in range(4)]
    last = [1] * 4
    for number in range(2, 40, 2):
        kind = rng.choice(["comp", "comp", "coll", "message"])
        group = rng.choice(list(groups))
        size = rng.choice([4096, 1 << 18, 1 << 21])
        sender, receiver = rng.sample(range(4), 2)
        for rank in range(4):
            deps = [n for n in sorted(ids[rank]) if n >= number - 4 and rng.random() < 0.3]
            chained = sorted({*deps, last[rank]})
            if kind == "comp":
                node = traces.comp(number, deps, rng.randrange(30))
            elif kind == "coll" and rank in groups[group]:
                node = traces.coll(number, chained, size=size, group=group)
            elif kind == "message" and rank == sender:
                node = traces.send(number, receiver, chained, size, number)
            elif kind == "message" and rank == receiver:
                node = traces.recv(number, sender, chained, size, number)
            else:
                continue
            ranks[rank].append(node)
            ids[rank].add(number)
            last[rank] = number if kind != "comp" else last[rank]
    return traces.save(folder, ranks, groups)


@pytest.mark.parametrize("seed", range(count_cases(20)))
def test_parts_sum_to_the_whole(tmp_path, seed):
    folder = random_traces(tmp_path / "traces", seed)
    place = traces.system(tmp_path / "system", [4])
    result = simulate_folder(folder, place, SimulatorChoice("embedded"))
    read = partial(traces.read_nodes, folder)
    report = reports.build_report(result, TracedResult(result, read, traces.read_groups(folder)))
    assert report.path is not None and report.exposed is not None
    assert sum(row.time_ns for row in report.path) == result.step_time_ns
    assert reports.sum_path_times(report.path)[WAITING] == 0
    assert sum(row.exposed_ns for row in report.exposed) == report.critical_result.exposed_ns
    assert all(0 <= row.waiting_ns <= row.exposed_ns for row in report.exposed)
    for row in report.collectives:
        assert row.bus_bandwidth is None or row.bus_bandwidth > 0


def reported(folder, symmetry=True):
    """The report of traces and a system that lie in a folder."""
    inputs = load_inputs(folder / "traces", configs.load_system(str(folder / "system")))
    result = embedded.run_event_simulation(inputs, SimulationOptions(symmetry=symmetry))
    return reports.build_report(
        result, TracedResult(result, inputs.get_device_nodes, inputs.groups)
    )


def test_one_communicator_stands_for_those_that_are_alike(tmp_path):
    """Devices 0 and 1, then 2 and 3 are first to join: the record names communicator 1 each time.

    Joins of each collective are told from its own devices, whichever communicator they are on.
    """
    ranks = []
    for rank in range(4):
        first, then = (1, 90) if rank < 2 else (40, 2)
        ranks.append([
            traces.comp(1, micros=first), traces.coll(2, [1], group=1 + (rank in (1, 2))),
            traces.comp(3, [2], micros=then), traces.coll(4, [3], group=1 + (rank in (1, 2))),
        ])  # fmt: skip
    traces.save(tmp_path / "traces", ranks, {1: [0, 3], 2: [1, 2]})
    traces.system(tmp_path / "system", [4], topology="Switch")
    alike, each = (reported(tmp_path, symmetry) for symmetry in (True, False))
    assert len(alike.result.classes) == 2 and len(each.result.classes) == 4
    assert alike.communicators == each.communicators
    assert [(row.id, row.alike, row.count) for row in alike.communicators] == [(1, 2, 2)]
    assert alike.collectives == each.collectives


@pytest.mark.parametrize("seed", range(count_cases(25)))
def test_symmetry_does_not_show(tmp_path, seed):
    """Neither in collectives nor in communicators; ids are those of the first of the alike."""
    sim_programs.spmd(random.Random(seed), tmp_path)
    try:
        each = reported(tmp_path, symmetry=False)
    except HespasError:
        return
    alike = reported(tmp_path)
    assert alike.collectives == each.collectives
    assert alike.communicators == each.communicators


def test_collectives_along_one_dimension(tmp_path):
    """The default communicator's devices that meet are a line of the network each."""
    along = {"group": 0, "involved_dim": ("bool_list", [True, False])}
    ranks = [
        [traces.comp(1, micros=1 + 100 * (rank // 2) + rank), traces.coll(2, [1], **along)]
        for rank in range(4)
    ]
    traces.save(tmp_path / "traces", ranks, {})
    traces.system(tmp_path / "system", [2, 2], topology="Switch")
    report = reported(tmp_path)
    spans = [comm.finish_ns - comm.ready_ns for comm in report.result.comms]
    assert [comm.ranks for comm in report.result.comms] == [(0, 1), (2, 3)]
    assert spans[0] == spans[1] > 0
    (row,) = report.collectives
    assert (row.count, row.group_size, row.time_ns) == (2, 2, sum(spans))
    assert [(row.devices, row.alike) for row in report.communicators] == [((0, 1), 2)]
    assert report.path is not None
    assert sum(row.time_ns for row in report.path) == report.result.step_time_ns


@pytest.mark.parametrize("seed", range(count_cases(25)))
def test_nodes_of_the_input_are_those_of_the_files(tmp_path, seed):
    """Also of devices whose trace is another's but for names."""
    sim_programs.spmd(random.Random(seed), tmp_path)
    folder = tmp_path / "traces"
    inputs = load_inputs(folder, configs.load_system(str(tmp_path / "system")))
    for device in range(len(inputs.devices)):
        assert inputs.get_device_nodes(device) == traces.read_nodes(folder, device)
