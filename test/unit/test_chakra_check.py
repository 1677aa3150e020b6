"""Each rule of ``hespas trace check`` finds its fault, and a correct trace has none."""

import json
import os

import pytest

from hespas.chakra import record_encoding, schema, trace_folder
from hespas.chakra.check_traces import check_trace_folder
from hespas.support.errors import HespasError, UsageError
from hespas.tools.commands import trace

COMP, SEND, RECV, COLL = 4, 5, 6, 7


def node(number, kind, deps=(), micros=0, ctrl=(), **attrs):
    """Build a node message; attribute values are (kind, value), or None for an absent one."""
    defaults = {"is_cpu_op": ("bool", False)}
    if kind == COLL:
        defaults |= {"comm_type": ("int64", 0), "comm_size": ("int64", 1024)}
        defaults |= {"pg_name": ("string", "1")}
    elif kind in (SEND, RECV):
        defaults |= {"comm_size": ("int64", 64), "comm_tag": ("int32", 1)}
    message = schema.get_message_class("Node")(
        id=number, name=f"n{number}", type=kind, data_deps=deps, duration_micros=micros
    )
    message.ctrl_deps.extend(ctrl)
    for name, value in (defaults | attrs).items():
        if value is not None:
            attr = message.attr.add(name=name)
            if value[0].endswith("_list"):
                getattr(attr, value[0]).values.extend(value[1])
            else:
                setattr(attr, f"{value[0]}_val", value[1])
    return record_encoding.encode_record(message.SerializeToString())


def comp(number, deps=(), **more):
    return node(number, COMP, deps, **{"micros": 5, **more})


def coll(number, deps=(), **more):
    return node(number, COLL, deps, **more)


def send(number, to, deps=(), **more):
    return node(number, SEND, deps, comm_dst=("int32", to), **more)


def recv(number, source, deps=(), **more):
    return node(number, RECV, deps, comm_src=("int32", source), **more)


@pytest.fixture
def save(tmp_path):
    def write(*ranks, groups=None, metadata=True):
        for rank, nodes in enumerate(ranks):
            head = record_encoding.encode_metadata_record() if metadata else b""
            (tmp_path / f"dev.{rank}.et").write_bytes(head + b"".join(nodes))
        groups = {"1": list(range(len(ranks)))} if groups is None else groups
        (tmp_path / "comm_group.json").write_text(json.dumps(groups))
        return tmp_path

    return write


def find_rules(folder, severity="error"):
    return {p.rule: p.text for p in check_trace_folder(folder).problems if p.severity == severity}


GOOD = [comp(1), coll(2, [1]), comp(3, [2])]


def test_a_good_trace_has_no_problems(save):
    assert check_trace_folder(save(GOOD, GOOD)).problems == []


def test_matching_transfers_in_a_ring_have_no_problems(save):
    ranks = [
        [comp(1), send(2, (r + 1) % 3, [1]), recv(3, (r - 1) % 3, [1]), coll(4, [2, 3])]
        for r in range(3)
    ]
    report = check_trace_folder(save(*ranks))
    assert report.problems == []


BAD = {
    "type": [node(1, 1)],
    "cycle": [comp(1), comp(2, [2])],
    "deps": [comp(1, [7])],
    "ids": [comp(1), comp(1)],
    "attributes": [coll(1, comm_size=("double", 8.0))],
    "collective": [coll(1, comm_type=None)],
    "size": [coll(1, comm_type=("int64", 2), comm_size=("int64", 0))],
    "group": [coll(1, pg_name=("string", "9"))],
    "transfer": [send(1, 0)],
}


@pytest.mark.parametrize("rule", BAD)
def test_each_rule_finds_its_fault(save, rule):
    assert rule in find_rules(save(BAD[rule], [comp(1)]))


def test_a_cycle_beside_free_nodes_is_found(save):
    # ASTRA-sim runs the rest and prints "finished".
    nodes = [comp(1), comp(2, [3]), comp(3, [2]), comp(4, [3])]
    assert find_rules(save(nodes, [comp(1)]))["cycle"].startswith("3 nodes in or after a cycle")


WARNED = {
    "deps": [comp(1), comp(2, ctrl=[1])],
    "attributes": [comp(1, num_ops=("uint64", 5), tensor_size=("uint64", 1))],
    "duration": [comp(1, micros=0)],
    "collective": [coll(1, comm_type=("int64", 5))],
}


@pytest.mark.parametrize("rule", WARNED)
def test_each_doubtful_thing_is_a_warning(save, rule):
    nodes = WARNED[rule]
    assert rule in find_rules(save(nodes, nodes), "warning")


def test_missing_cpu_flag_is_a_warning_and_a_cpu_collective_an_error(save):
    nodes = [comp(1, is_cpu_op=None)]
    assert "is_cpu_op" in find_rules(save(nodes), "warning")["attributes"]
    nodes = [coll(1, is_cpu_op=("bool", True))]
    assert "is_cpu_op" in find_rules(save(nodes, nodes))["attributes"]


def test_missing_metadata_eats_the_first_node(save):
    assert "metadata" in find_rules(save(GOOD, GOOD, metadata=False))


def test_missing_rank_empty_trace_and_truncation(save, tmp_path):
    save(GOOD, GOOD, GOOD)
    (tmp_path / "dev.1.et").unlink()
    assert "rank 1 has no trace" in find_rules(tmp_path)["files"]
    (tmp_path / "dev.1.et").write_bytes(record_encoding.encode_metadata_record())
    assert "has no nodes" in find_rules(tmp_path)["files"]
    (tmp_path / "dev.1.et").write_bytes(
        record_encoding.encode_metadata_record() + b"".join(GOOD)[:-2]
    )
    assert "ends within record" in find_rules(tmp_path)["files"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_read_only_trace(save):
    folder = save(GOOD, GOOD)
    (folder / "dev.0.et").chmod(0o444)
    assert "read-only" in find_rules(folder, "warning")["files"]


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ({"0": [0, 1]}, "reserved"),
        ({"x": [0, 1]}, "not a number"),
        ({"1": [0]}, "has 1 member: a collective"),
        ({"1": [0, 1, 1]}, "twice"),
        ({"1": [0, 1, 5]}, "outside 0 to 1"),
        ({"1": "all"}, "not a list"),
        ({"1": [[0, 1]]}, "not a list"),
        ({"1": [0, {}]}, "not a list"),
    ],
)
def test_communicators(save, groups, text):
    problems = check_trace_folder(save(GOOD, GOOD, groups=groups)).problems
    assert any(text in p.text for p in problems if p.rule == "groups")


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "[0, 1]"])
def test_a_file_of_communicators_that_is_none(save, tmp_path, text):
    save(GOOD, GOOD)
    (tmp_path / "comm_group.json").write_text(text)
    assert "groups" in find_rules(tmp_path)
    with pytest.raises(HespasError, match=r"JSON|nested"):
        trace_folder.read_trace_communicators(tmp_path / "comm_group.json", 2)


def test_a_number_far_away_is_one_missing_rank_after_another(save, tmp_path):
    save(GOOD, GOOD)
    (tmp_path / "dev.20261121181354.et").write_bytes(
        record_encoding.encode_metadata_record() + b"".join(GOOD)
    )
    missing = [
        p.text for p in check_trace_folder(tmp_path).problems if p.text.endswith("has no trace")
    ]
    assert missing == [f"rank {rank} has no trace" for rank in range(2, 12)]


def test_default_communicator_beside_one_of_some_ranks(save):
    both = [coll(1, pg_name=None), coll(2, [1])]
    folder = save(both, both, [coll(1, pg_name=None)], groups={"1": [0, 1]})
    assert "default communicator" in find_rules(folder)["group"]


def test_ranks_that_disagree_on_a_collective(save):
    other = [comp(1), coll(2, [1], comm_size=("int64", 8)), comp(3, [2])]
    assert "differs in type or size" in find_rules(save(GOOD, other))["match"]


def test_pairwise_groups_in_cyclic_order_deadlock(save):
    groups = {"1": [0, 1], "2": [1, 2], "3": [0, 2]}

    def pair(first, second):
        return [coll(1, pg_name=("string", first)), coll(2, [1], pg_name=("string", second))]

    ordered = (pair("1", "3"), pair("1", "2"), pair("2", "3"))
    assert check_trace_folder(save(*ordered, groups=groups)).problems == []
    cyclic = (pair("1", "3"), pair("2", "1"), pair("3", "2"))
    assert "3 of 3 ranks" in find_rules(save(*cyclic, groups=groups))["deadlock"]


@pytest.mark.parametrize("change", [{"comm_tag": ("int32", 2)}, {"comm_size": ("int64", 65)}])
def test_recv_that_nothing_matches(save, change):
    folder = save([send(1, 1)], [recv(1, 0, **change)])
    assert "deadlock" in find_rules(folder)
    assert "never received" in find_rules(folder, "warning")["match"]


def test_a_ready_collective_with_a_lower_id_holds_up_a_send(save):
    # Facts of ASTRA-sim: {collective 1, send 2} against a rank that needs the send to join.
    waits = [recv(1, 0), coll(2, [1])]
    assert "deadlock" in find_rules(save([coll(1), send(2, 1)], waits))
    folder = save([send(1, 1), coll(2)], waits)
    assert not find_rules(folder)
    assert "order" in find_rules(folder, "warning")


def test_several_programs_and_none(tmp_path, save):
    save(GOOD, GOOD)
    (tmp_path / "other.0.et").write_bytes(record_encoding.encode_metadata_record() + b"".join(GOOD))
    with pytest.raises(HespasError, match="dev, other"):
        check_trace_folder(tmp_path)
    assert check_trace_folder(tmp_path, "dev").problems == []
    with pytest.raises(HespasError, match="no traces"):
        check_trace_folder(tmp_path, "none")
    with pytest.raises(HespasError, match="the folder does not exist"):
        check_trace_folder(tmp_path / "none")


def test_command_line(save, capsys):
    folder = str(save(GOOD, GOOD))
    assert trace.main(["check", folder]) == 0
    assert "2 devices, 6 nodes: 0 errors, 0 warnings" in capsys.readouterr().out
    assert trace.main(["print", f"{folder}/dev.0.et", "--limit", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "COMM_COLL 'n2'  after 1  comm_type=ALL_REDUCE  comm_size=1024" in lines[1]
    with pytest.raises(UsageError, match="--limit is -1"):
        trace.main(["print", f"{folder}/dev.0.et", "--limit", "-1"])
    save(GOOD, [comp(1, [9])])
    assert trace.main(["check", folder, "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["ok"], shown["problems"][0]["rule"]) == (False, "deps")
