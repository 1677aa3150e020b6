"""Timelines: the Perfetto file is read back with Perfetto's message classes."""

from __future__ import annotations

import json
import shutil
from functools import partial

import pytest
from support.traces import simulate_folder

from hespas import configs
from hespas.chakra import record_encoding
from hespas.chakra.record_encoding import encode_int_attr, encode_text_attr
from hespas.chakra.schema import CollectiveCommType, NodeType
from hespas.simulators import astra_program, timeline
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.simulators.simulation_result import (
    DeviceResult,
    NodeInterval,
    SimulationResult,
    SimulationSettings,
)
from hespas.support.errors import HespasError
from support import traces as common

COMP, SEND, RECV, COLL = (
    NodeType.COMP_NODE,
    NodeType.COMM_SEND_NODE,
    NodeType.COMM_RECV_NODE,
    NodeType.COMM_COLL_NODE,
)
GEMM = (
    encode_int_attr("flops", 4096, "int64")
    + encode_int_attr("region", 1, "int64")
    + encode_text_attr("location", "step.mlir:3:5")
)
COPY = encode_int_attr("num_ops", 7, "int64") + encode_text_attr("location", "step.mlir:9:1")


def transfer(kind, peer):
    return (
        encode_int_attr("comm_size", 1000, "int64")
        + encode_int_attr("comm_tag", 5, "int32")
        + encode_int_attr("comm_dst" if kind == SEND else "comm_src", peer, "int32")
    )


REDUCE = (
    encode_int_attr("comm_type", CollectiveCommType.ALL_REDUCE, "int64")
    + encode_int_attr("comm_size", 400, "int64")
    + encode_text_attr("pg_name", "1")
)


def traces(folder, *programs):
    """Write trace files of nodes (id, name, type, deps, attributes)."""
    for device, program in enumerate(programs):
        data = record_encoding.encode_metadata_record()
        for number, name, kind, deps, attrs in program:
            data += record_encoding.encode_record(
                record_encoding.encode_node(
                    number, record_encoding.encode_node_name(name), kind, deps, 0, attrs
                )
            )
        (folder / f"dev.{device}.et").write_bytes(data)
    ranks = list(range(len(programs)))
    (folder / "comm_group.json").write_text(json.dumps({"1": ranks}))
    return folder


def result(classes, class_of, **settings):
    ends = [max(i.finish_ns for i in classes[c]) for c in class_of]
    devices = [DeviceResult(end, 0, 0, 0, 0) for end in ends]
    return SimulationResult(
        "embedded", devices, (), classes, class_of, SimulationSettings(**settings)
    )


def write(simulated, folder, path, **options):
    return timeline.write_timeline(
        simulated, partial(common.read_nodes, folder), common.read_groups(folder), path, **options
    )


@pytest.fixture
def pair(tmp_path):
    """Two devices with compute, an all-reduce alongside it, and a message from 0 to 1."""
    common = [
        (1, "region 1: dot_general", COMP, (), GEMM),
        (2, "all_reduce.0", COLL, (1,), REDUCE),
        (3, "", COMP, (1,), COPY),
    ]
    folder = traces(
        tmp_path,
        [*common, (4, "permute.0", SEND, (2, 3), transfer(SEND, 1))],
        [*common, (5, "permute.0", RECV, (2,), transfer(RECV, 0)), (6, "end", COMP, (3, 5), b"")],
    )
    start = [NodeInterval(1, 0, 100, "compute"), NodeInterval(2, 100, 300, "comm")]
    zero = [*start, NodeInterval(3, 100, 150, "compute"), NodeInterval(4, 300, 350, "comm")]
    one = [
        *start,
        NodeInterval(3, 100, 140, "compute"),
        NodeInterval(5, 300, 350, "recv"),
        NodeInterval(6, 350, 360, "compute"),
    ]
    return folder, result([zero, one], [0, 1], system="two")


def read(path):
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    return trace


def dump(path):
    """Return the trace as lines with resolved names."""
    names, tracks, lines = {}, {}, []
    for packet in read(path).packet:
        assert packet.trusted_packet_sequence_id == 1
        for entry in packet.interned_data.debug_annotation_string_values:
            names[entry.iid] = entry.str.decode()
        for kind in ("event_names", "event_categories", "debug_annotation_names"):
            names |= {entry.iid: entry.name for entry in getattr(packet.interned_data, kind)}
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            above = f"{tracks[track.parent_uuid]} / " if track.parent_uuid else ""
            tracks[track.uuid] = above + track.name
            unit = track.counter.unit_name or ("bytes" if track.counter.unit else "")
            lines.append(f"track {tracks[track.uuid]}" + (f" [{unit}]" if unit else ""))
        elif packet.HasField("track_event"):
            event = packet.track_event
            words = [str(packet.timestamp), tracks[event.track_uuid]]
            words.append({1: "begin", 2: "end", 4: "count"}[event.type])
            if event.type == 1:
                words.append(repr(names[event.name_iid]))
                assert packet.sequence_flags & 2, "interned names need the sequence's state"
            if event.type == 4:
                value = event.counter_value or event.double_counter_value
                words.append(f"{value:g}")
            for note in event.debug_annotations:
                value = names.get(note.string_value_iid, note.int_value)
                words.append(f"{names[note.name_iid]}={value}")
            words += [f"->{flow}" for flow in event.flow_ids]
            words += [f"<-{flow}" for flow in event.terminating_flow_ids]
            lines.append(" ".join(words))
    return lines


GOLDEN = """\
track step
0 step begin 'step' simulator=embedded devices=2 system=two
360 step end
track step / device 0
track step / device 0 / compute
track step / device 0 / communication
0 step / device 0 / compute begin 'region 1: dot_general' node=1 flops=4096 region=1 \
location=step.mlir:3:5 ->2
100 step / device 0 / compute end
100 step / device 0 / communication begin 'all_reduce.0' node=2 bytes=400 \
collective=all_reduce communicator=1 devices=2 sent_bytes=400 <-2
300 step / device 0 / communication end
100 step / device 0 / compute begin 'node 3' node=3 num_ops=7 location=step.mlir:9:1 ->3
150 step / device 0 / compute end
300 step / device 0 / communication begin 'permute.0' node=4 bytes=1000 to=1 tag=5 ->1 <-3
350 step / device 0 / communication end
track step / device 0 / bytes in flight [bytes]
track step / device 0 / sending [GB/s]
100 step / device 0 / bytes in flight count 400
100 step / device 0 / sending count 2
300 step / device 0 / bytes in flight count 1000
300 step / device 0 / sending count 20
350 step / device 0 / bytes in flight count 0
350 step / device 0 / sending count 0
track step / device 1
track step / device 1 / compute
track step / device 1 / communication
track step / device 1 / receive
0 step / device 1 / compute begin 'region 1: dot_general' node=1 flops=4096 region=1 \
location=step.mlir:3:5 ->4
100 step / device 1 / compute end
100 step / device 1 / communication begin 'all_reduce.0' node=2 bytes=400 \
collective=all_reduce communicator=1 devices=2 sent_bytes=400 ->5 <-4
300 step / device 1 / communication end
100 step / device 1 / compute begin 'node 3' node=3 num_ops=7 location=step.mlir:9:1
140 step / device 1 / compute end
300 step / device 1 / receive begin 'permute.0' node=5 bytes=1000 from=0 tag=5 ->6 <-5
350 step / device 1 / receive end <-1
350 step / device 1 / compute begin 'end' node=6 <-6
360 step / device 1 / compute end
track step / device 1 / bytes in flight [bytes]
track step / device 1 / sending [GB/s]
100 step / device 1 / bytes in flight count 400
100 step / device 1 / sending count 2
300 step / device 1 / bytes in flight count 0
300 step / device 1 / sending count 0
"""


def test_golden(pair, tmp_path):
    folder, simulated = pair
    drawn = write(simulated, folder, tmp_path / "t.pftrace")
    assert "\n".join(dump(tmp_path / "t.pftrace")) + "\n" == GOLDEN
    assert (drawn.devices, drawn.device_count, drawn.slices, drawn.flows) == ((0, 1), 2, 9, 6)
    assert drawn.size_bytes == (tmp_path / "t.pftrace").stat().st_size
    write(simulated, folder, tmp_path / "again.pftrace")
    assert (tmp_path / "again.pftrace").read_bytes() == (tmp_path / "t.pftrace").read_bytes()


def test_slices_of_a_track_never_overlap(tmp_path):
    """Receives that wait at once have separate lanes, which Perfetto shows as one track."""
    program = [(n, f"r{n}", RECV, (), transfer(RECV, 0)) for n in range(1, 5)]
    times = [(0, 90), (10, 50), (20, 70), (50, 60)]
    intervals = [NodeInterval(n, *t, "recv") for n, t in enumerate(times, 1)]
    path = tmp_path / "t.pftrace"
    write(result([intervals], [0]), traces(tmp_path, program), path)
    open_slices, lanes, end = {}, {}, 0
    for packet in read(path).packet:
        event = packet.track_event
        if packet.track_descriptor.name == "receive":
            lanes[packet.track_descriptor.uuid] = []
        elif event.track_uuid in lanes and event.type == 1:
            assert not open_slices.get(event.track_uuid)
            assert packet.timestamp >= max([0, *lanes[event.track_uuid]])
            open_slices[event.track_uuid] = True
        elif event.track_uuid in lanes:
            open_slices[event.track_uuid] = False
            lanes[event.track_uuid].append(packet.timestamp)
            end += 1
    assert sorted(lanes.values()) == [[50, 60], [70], [90]]
    assert end == 4


def test_many_devices_are_drawn_once_a_class(tmp_path):
    program = [(1, "work", COMP, (), b"")]
    folder = traces(tmp_path, *[program] * 70)
    classes = [[NodeInterval(1, 0, 10, "compute")], [NodeInterval(1, 0, 20, "compute")]]
    simulated = result(classes, [0] * 69 + [1])
    path = tmp_path / "t.pftrace"
    assert write(simulated, folder, path).devices == (0, 69)
    assert "track step / device 0, like 68 others" in dump(path)
    assert "track step / device 69" in dump(path)


@pytest.mark.parametrize(
    ("kind", "operand", "sent"),
    [
        ("all_reduce", 400, 2 * 3 * 100),
        ("reduce_scatter", 400, 3 * 100),
        ("all_to_all", 400, 3 * 100),
        ("all_gather", 100, 3 * 100),
    ],
)
def test_sent_bytes(kind, operand, sent):
    """The result equals the bytes that a ring of four devices sends step by step."""
    assert timeline.count_sent_bytes(kind, operand, 4) == sent


def test_errors_leave_no_file(pair, tmp_path):
    folder, simulated = pair
    path = tmp_path / "t.pftrace"
    with pytest.raises(HespasError, match="recorded no times of single nodes"):
        write(SimulationResult("x", simulated.devices), folder, path)
    with pytest.raises(HespasError, match="its folder does not exist"):
        write(simulated, folder, tmp_path / "no" / "t.pftrace")
    with pytest.raises(HespasError, match="the traces have no node 9 on device 0"):
        write(result([[NodeInterval(9, 0, 1, "comm")]], [0]), folder, path)
    assert not path.exists()


def mixed(folder):
    """Four devices with compute, collectives of halves and a message, at different times."""
    ranks = []
    for rank in range(4):
        half = 1 + rank // 2
        nodes = [common.comp(1, micros=5 + rank), common.comp(2, [1], micros=30)]
        nodes += [common.coll(3, [1], group=half), common.coll(4, [3], group=3, kind=7)]
        if rank == 0:
            nodes.append(common.send(5, 3, [4]))
        if rank == 3:
            nodes.append(common.recv(6, 0, [1]))
        nodes.append(common.comp(7, [2, 4] + ([6] if rank == 3 else []), micros=9))
        ranks.append(nodes)
    return common.save(folder, ranks, {1: (0, 1), 2: (2, 3), 3: (0, 1, 2, 3)})


def test_what_is_drawn_is_what_was_simulated(tmp_path):
    folder = mixed(tmp_path / "w")
    system = configs.load_system(str(common.system(tmp_path / "s", [4])))
    simulated = simulate_folder(folder, system, SimulatorChoice("embedded"))
    path = tmp_path / "t.pftrace"
    drawn = write(simulated, folder, path)
    lines = dump(path)
    for device in range(4):
        intervals = simulated.classes[simulated.class_of[device]]
        begins = [i.start_ns for i in intervals]
        device_lines = [line.split() for line in lines if f"device {device} /" in line]
        assert sorted(int(w[0]) for w in device_lines if "begin" in w) == sorted(begins)
    assert f"{simulated.step_time_ns} step end" in lines
    assert drawn.slices == 4 * 5 + 2
    assert sum("->" in line for line in lines) > 8
    (arrival,) = [line for line in lines if "device 3 / receive end <-" in line]
    (sent,) = [line for line in lines if "to=3" in line]
    flow = arrival.partition("<-")[2]
    assert f"->{flow}" in sent


def test_timeline_of_the_log_of_astra_sim(tmp_path):
    if astra_program.find_astra_sim() is None:
        pytest.skip("ASTRA-sim is not on PATH")
    folder = mixed(tmp_path / "w")
    system = configs.load_system(str(common.system(tmp_path / "s", [4])))
    dumps = []
    for simulator in ("embedded", "astra-sim"):
        path = tmp_path / f"{simulator}.pftrace"
        write(
            simulate_folder(folder, system, SimulatorChoice(simulator)),
            folder,
            path,
        )
        dumps.append([line for line in dump(path) if "begin 'step'" not in line])
    assert dumps[0] == dumps[1]


def test_trace_processor_reads_it(pair, tmp_path):
    shell = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    if shell is None:
        pytest.skip("trace_processor_shell is not on PATH (Perfetto's prebuilt binary)")
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    folder, simulated = pair
    path = tmp_path / "t.pftrace"
    write(simulated, folder, path)
    config = TraceProcessorConfig(bin_path=shell)
    with TraceProcessor(trace=str(path), config=config) as processor:
        rows = list(processor.query("select name, ts, dur from slice order by ts, dur, name"))
        assert rows[0].ts == 0
        assert len(rows) == 10
        assert max(row.ts + row.dur for row in rows) == 360
        (flows,) = processor.query("select count(*) as n from flow")
        assert flows.n == 6
        where = "extract_arg(arg_set_id, 'debug.location') as place from slice"
        names = processor.query(f"select {where} where name like 'region%'")
        assert {row.place for row in names} == {"step.mlir:3:5"}
