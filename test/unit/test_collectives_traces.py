"""Custom collectives as traces: written, simulated, and compared with ASTRA-sim if installed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.budgets import draw_examples
from support.collective_xml import NINE
from support.traces import simulate_folder

from hespas.chakra.trace_reader import read_trace_nodes
from hespas.simulators.astra_program import UNAWARE
from hespas.simulators.collectives import per_node, standard_algorithms
from hespas.simulators.embedded import run_event_simulation
from hespas.simulators.simulation_inputs import load_inputs
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import HespasError
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from support import traces

KINDS = {
    "all_reduce": traces.ALL_REDUCE,
    "all_gather": traces.ALL_GATHER,
    "reduce_scatter": traces.REDUCE_SCATTER,
    "all_to_all": traces.ALL_TO_ALL,
}
MIB = 1 << 20
real = pytest.mark.skipif(shutil.which(UNAWARE) is None, reason=f"{UNAWARE} is not on PATH")


def collective(*words) -> int:
    return run_tool_main(hespas.main, ["trace", "collective", *map(str, words)])


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """Return a folder with ``sys``: a Ring of 4 at 100 GB/s and 500 ns, reductions at 50 GB/s."""
    monkeypatch.chdir(tmp_path)
    traces.system(tmp_path / "sys", [4], local_mem_bw=50)
    return tmp_path


def workload(folder: Path, ranks: int, *kinds: str, size: int = MIB, **more) -> Path:
    nodes = [
        traces.coll(i + 1, [i] if i else [], KINDS[kind], size, **more)
        for i, kind in enumerate(kinds)
    ]
    return traces.save(folder, [nodes] * ranks)


def finish(folder: Path, system: str | Path = "custom") -> list[int]:
    return [
        device.finish_ns
        for device in run_event_simulation(load_inputs(folder, str(system))).devices
    ]


# Times of ASTRA-sim for the traces of its converter (facts/astrasim.md, section 5).
@pytest.mark.parametrize(
    ("name", "kind", "cycles"),
    [
        ("ring", "all_reduce", 62646),
        ("ring", "all_gather", 30795),
        ("recursive", "all_gather", 30796),
        ("direct", "all_to_all", 3441),
        ("recursive", "all_reduce", 63646),
    ],
)
def test_times_of_astra_sims_own_converter(place, name, kind, cycles):
    common = ("--size", MIB, "--system", "sys", "--rounding", "down", "--output", "custom")
    assert collective("generate", name, "--collective", kind, "--ranks", 4, *common) == 0
    assert finish(workload(place / "w", 4, kind)) == [cycles] * 4


def test_both_generations_of_attributes(place):
    assert collective(
        "generate", "direct", "--collective", "all_gather", "--ranks", 4, "--size", 1000,
        "--output", "custom", "--name", "mine",
    ) == 0  # fmt: skip
    nodes = list(read_trace_nodes(place / "custom" / "mine.2.et"))
    assert [node.id for node in nodes] == list(range(6))
    sent = next(node for node in nodes if node.type == traces.SEND)
    assert sent.attrs == {
        "is_cpu_op": ("bool", False),
        "comm_size": ("int64", 1000),
        "comm_dst": ("int32", 3),
        "comm_tag": ("int32", 499_000_000),
        "msg_chunk_cnt": ("int32", 1),
        "msg_chunk_idx": ("int32", 2),
        "total_chunk_cnt": ("int32", 4),
    }
    assert json.loads((place / "custom" / "custom.json").read_text()) == {
        "all-gather-implementation-custom": [str(place / "custom" / "mine")]
    }


def test_convert_plays_all_step_types(place, capsys):
    """Computed by hand: four messages and two reductions along ranks 0, 1, 2 and back."""
    (place / "nine.xml").write_text(NINE)
    traces.system(place / "three", [3], topology="FullyConnected", local_mem_bw=50)
    line = ("convert", "nine.xml", "--size", 2 * MIB, "--system", "three", "--output", "custom")
    assert collective(*line, "--rounding", "down") == 0
    assert "verified: every schedule is correct" in capsys.readouterr().out
    message, reduction = 500 + int(MIB / (100 * 2**30 / 1e9)), 3 * int(MIB / 50) // 1000 * 1000
    result = run_event_simulation(
        load_inputs(workload(place / "w", 3, "all_reduce", size=2 * MIB), "custom")
    )
    assert result.step_time_ns == 4 * message + 2 * reduction
    (record,) = result.comms
    assert (record.kind, record.ranks, record.operand_bytes) == ("all_reduce", (0, 1, 2), 2 * MIB)


def test_sizes_that_msccl_does_not_run_an_algorithm_for(place, capsys):
    """Of an all-gather, they count all ranks' bytes, as those of nccl-tests do."""
    line = ("generate", "ring", "--ranks", 4, "--size", MIB, "--output", "a", "--local-mem-bw", 50)
    for kind, factor in (("all_reduce", 1), ("all_gather", 4)):
        assert collective(*line, "--collective", kind, "--xml", "a.xml") == 0
        text = (place / "a.xml").read_text()
        for least, most, is_run in (
            (0, 0, True), (0, factor * MIB, True), (0, factor * MIB - 1, False),
            (factor * MIB + 1, 0, False),
        ):  # fmt: skip
            limits = text.replace('minBytes="0"', f'minBytes="{least}"')
            limits = limits.replace('maxBytes="0"', f'maxBytes="{most}"')
            (place / "b.xml").write_text(limits)
            capsys.readouterr()
            assert collective("convert", "b.xml", *line[4:]) == 0
            warning = f"minBytes is {least} and maxBytes {most}"
            assert (warning in capsys.readouterr().err) != is_run


def test_system_keeps_what_was_there(place):
    first = ("--ranks", 4, "--size", MIB, "--output", "custom")
    assert collective("generate", "ring", *first, "--system", "sys") == 0
    assert collective(
        "generate", "ring", "--collective", "all_gather", *first, "--system", "custom"
    ) == 0  # fmt: skip
    keys = json.loads((place / "custom" / "system.json").read_text())
    for kind in ("all-reduce", "all-gather"):
        prefix = f"{place}/custom/{kind.replace('-', '_')}_4x{MIB}"
        assert keys[f"{kind}-implementation-custom"] == [prefix]
        assert Path(f"{prefix}.3.et").exists()
    assert keys["local-mem-bw"] == 50
    result = run_event_simulation(
        load_inputs(workload(place / "w", 4, "all_reduce", "all_gather"), "custom")
    )
    assert result.settings.custom.count("; ") == 1


def test_a_system_may_say_that_it_has_no_custom_collective(place):
    traces.system(place / "null", [4], all_gather_implementation_custom=None)
    line = ("--ranks", 4, "--size", MIB, "--system", "null", "--output", "custom")
    assert collective("generate", "ring", *line) == 0
    settings = json.loads((place / "custom" / "system.json").read_text())
    assert settings["all-gather-implementation-custom"] is None
    assert finish(workload(place / "w", 4, "all_reduce"))


def test_by_node_and_the_first_of_a_communicator(place):
    """The first collective of a kind decides for its communicator, except for the default one."""
    line = ("--ranks", 4, "--size", MIB, "--system", "sys", "--output", "custom")
    assert collective("generate", "ring", *line, "--node", 2) == 0
    assert per_node.read_prefixes(place / "custom" / "per_node.yml") == {
        2: f"{place}/custom/all_reduce_4x{MIB}"
    }
    one = [finish(workload(place / f"a{g}", 4, "all_reduce", group=g))[0] for g in (0, 1)]
    two = [finish(workload(place / f"b{g}", 4, "all_reduce", "all_reduce", group=g))[0]
           for g in (0, 1)]  # fmt: skip
    assert one[0] == one[1]  # node 1 has no custom traces
    assert two[1] == 2 * one[1]
    assert two[0] == one[0] + 64646  # played: 6 messages of 2941 ns, reductions of 47 us


def test_another_size_is_told(place):
    line = ("--ranks", 4, "--size", MIB, "--system", "sys", "--output", "custom")
    assert collective("generate", "ring", *line) == 0
    ten = workload(place / "w", 4, "all_reduce", "all_reduce", size=10 * MIB)
    result = run_event_simulation(load_inputs(ten, "custom"))
    assert result.step_time_ns == 2 * 64646
    assert "(2 of 2 with another size in the workload)" in result.settings.custom


@pytest.mark.parametrize(
    ("ranks", "change", "text"),
    [
        (3, None, r"all_reduce_3x1048576\.3\.et: error: is missing: it is for position 3"),
        (5, None, r"comm_src is rank 4, in a communicator of 4"),
        (4, ("preferred-dataset-splits", 2), "preferred-dataset-splits is more than 1"),
        (
            4,
            ("per-node-custom-implementation", "none.yml"),
            "none.yml: error: cannot read it: No such file",
        ),
    ],
)
def test_what_astra_sim_would_fail_on(place, ranks, change, text):
    line = ("--ranks", ranks, "--size", MIB, "--system", "sys", "--output", "custom")
    assert collective("generate", "ring", *line) == 0
    if change:
        file = place / "custom" / "system.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | dict([change])))
    with pytest.raises(HespasError, match=text):
        finish(workload(place / "w", 4, "all_reduce"))


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([traces.coll(0)], "only SEND, RECV and COMP nodes run"),
        ([traces.send(0, 1, [5])], "depends on 5, which does not exist"),
        ([traces.send(0, 1, [1]), traces.recv(1, 1, [0])], "cycle"),
        ([traces.send(0, 0)], "comm_dst is itself"),
        ([traces.send(0, 1, size=0)], "comm_size is 0"),
        ([traces.node(0, traces.SEND, comm_dst=("int32", 1))], "'comm_size' is missing"),
        ([], "has no nodes"),
        ([traces.recv(0, 1)], "waits for a message of 4096 bytes with tag 1 from device 1"),
    ],
)
def test_wrong_custom_traces(place, nodes, text):
    traces.system(place / "two", [2], all_reduce_implementation_custom=["own/dev"])
    traces.save(place / "two" / "own", [nodes, [traces.comp(0)]])
    with pytest.raises(HespasError, match=text):
        finish(workload(place / "w", 2, "all_reduce"), "two")


def test_members_must_ascend(place):
    assert collective(
        "generate", "ring", "--ranks", 2, "--size", MIB, "--system", "sys", "--output", "custom"
    ) == 0  # fmt: skip
    nodes = [[traces.coll(1)], [traces.comp(1)], [traces.coll(1)], [traces.comp(1)]]
    with pytest.raises(HespasError, match="communicator 1 are not ascending"):
        finish(traces.save(place / "w", nodes, {1: [2, 0]}))
    assert max(finish(traces.save(place / "v", nodes, {1: [0, 2]}))) > 0


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("generate", "rign"), 2, "did you mean 'ring'"),
        (("generate", "ring", "--collective", "allreduce"), 2, "did you mean 'all_reduce'"),
        (("generate", "ring"), 2, "give --system, or --local-mem-bw"),
        (("generate", "ring", "--size", 0, "--local-mem-bw", 1), 1, "a collective of 0 bytes"),
        (("generate", "ring", "--local-mem-bw", "nan"), 2, "nan is not a bandwidth"),
        (("generate", "ring", "--size", 1 << 62, "--local-mem-bw", 1), 1, "a trace can hold"),
        (
            ("generate", "ring", "--name", "a/b", "--local-mem-bw", 1),
            1,
            "is not a valid name for traces",
        ),
        (("generate", "ring", "--tag", 500_000_000, "--local-mem-bw", 1), 2, "--tag is not"),
        (("generate", "ring", "--output", "w", "--local-mem-bw", 1), 1, "of workload traces"),
        (("convert", "none.xml"), 1, "none.xml: error: cannot read it: No such file"),
    ],
)
def test_wrong_command_lines(place, capsys, words, code, text):
    workload(place / "w", 2, "all_reduce")
    line = ["--size", 64, "--output", "custom", *words[2:]]
    if words[0] == "generate":
        line = ["--ranks", 4, *line]
    assert collective(*words[:2], *line) == code
    error = capsys.readouterr().err
    assert text in error and error.count("\n") == 1
    assert not (place / "custom").exists()


def test_xml_that_is_wrong_leaves_nothing(place, capsys):
    (place / "nine.xml").write_text(NINE.replace('coll="allreduce"', 'coll="custom"'))
    line = ("convert", "nine.xml", "--size", 64, "--local-mem-bw", 50, "--output", "custom")
    assert collective(*line) == 1
    assert "name the kind of collective with --collective" in capsys.readouterr().err
    assert collective(*line, "--collective", "all_reduce", "--no-verify") == 0
    assert "not verified" in capsys.readouterr().out
    shutil.rmtree("custom")
    (place / "nine.xml").write_text(NINE.replace('type="cpy"', 'type="nop"'))
    assert collective(*line) == 1
    assert "holds nothing yet" in capsys.readouterr().err
    assert not (place / "custom").exists()
    assert collective(*line, "--no-verify") == 0


def test_xml_of_a_generated_one_converts_to_the_same(place):
    line = ("--size", MIB, "--system", "sys", "--name", "x")
    assert collective(
        "generate", "recursive", "--ranks", 4, *line, "--output", "a", "--xml", "a.xml"
    ) == 0  # fmt: skip
    assert collective("convert", "a.xml", *line, "--output", "b") == 0
    workload(place / "w", 4, "all_reduce")
    assert finish(place / "w", "a") == finish(place / "w", "b")


def test_per_node_file(tmp_path):
    file = tmp_path / "map.yml"
    file.write_text("# by node\n---\n3: /a/b\n\n1: \"/with space/b\"  # quoted\n2: '/it''s'\n")
    assert per_node.read_prefixes(file) == {3: "/a/b", 1: "/with space/b", 2: "/it's"}
    locations = {7: "/x/y", 2: "/with space/b: c"}
    file.write_text(per_node.format_prefixes(locations))
    assert per_node.read_prefixes(file) == locations
    file.write_text("1: /a\n- /b\n")
    with pytest.raises(HespasError, match=r"map\.yml:2: error: is not of the form NODE: PREFIX"):
        per_node.read_prefixes(file)


@pytest.mark.parametrize(
    ("name", "expected_ms"),
    [
        # By hand: 2 S 15 / 16 over the NIC at the end of a host; 2 S 12 / 16 over each NIC;
        # 2 S 3 / 4 within a host, and then 2 S / 4 * 3 / 4 over each NIC.
        ("ring", 10.07), ("direct", 8.05), ("hierarchical", 3.02),
    ],
)  # fmt: skip
def test_algorithms_are_charged_for_the_network_that_they_run_on(place, name, expected_ms):
    """With NICs of 50 GB/s and 400 GB/s within hosts, the hierarchical one is the fastest."""
    size, hosts = 256 * MIB, "rails:4x4,links=4,link_gb_s=100,nic_gb_s=50,latency_ns=500"
    local = ("--local", 4) if name == "hierarchical" else ()
    words = ("--collective", "all_reduce", "--ranks", 16, *local, "--size", size, "--output", "out")
    system = f"{hosts},local_mem_gb_s=1000000"
    assert collective("generate", name, *words, "--system", system) == 0
    times_ns = finish(workload(place / "w", 16, "all_reduce", size=size), "out")
    assert expected_ms <= max(times_ns) / 1e6 * 1.001 < expected_ms * 1.03


@real
@given(st.data())
@draw_examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_astra_sim_agrees(place, data):
    """Mix custom and native collectives with different starts on all or half of the devices."""
    counts = data.draw(st.sampled_from([[4], [6], [2, 3], [4, 2], [8]]))
    total = counts[0] * (counts[1] if len(counts) > 1 else 1)
    groups = data.draw(
        st.sampled_from([{1: range(total)}, {1: range(0, total, 2), 2: range(1, total, 2)}])
    )
    ranks = len(groups[1])
    for name in ("sys2", "out", "w2"):
        shutil.rmtree(place / name, ignore_errors=True)
    topology = [data.draw(st.sampled_from(["Ring", "Switch", "FullyConnected"])) for _ in counts]
    traces.system(place / "sys2", counts, topology=topology, local_mem_bw=7.5)
    system = "sys2"
    for kind in data.draw(st.lists(st.sampled_from([*KINDS]), min_size=1, max_size=2, unique=True)):
        name = data.draw(
            st.sampled_from([a for a, of in standard_algorithms.ALGORITHMS.items() if kind in of])
        )
        if name == "recursive" and ranks & (ranks - 1):
            name = "direct"
        local = next((k for k in range(2, ranks) if ranks % k == 0), 0)
        if name == "hierarchical" and not local:
            name = "direct"
        more = ("--local", local) if name == "hierarchical" else ()
        assert collective(
            "generate", name, "--collective", kind, "--ranks", ranks, *more, "--system", system,
            "--size", data.draw(st.integers(100, 3_000_000)), "--output", "out",
        ) == 0  # fmt: skip
        system = "out"
    kinds = data.draw(st.lists(st.sampled_from([*KINDS.values()]), min_size=1, max_size=4))
    programs = []
    for rank in range(total):
        group = next(number for number, members in groups.items() if rank in members)
        nodes = [traces.comp(1, micros=data.draw(st.sampled_from([1, 1, 2, 20])))]
        nodes += [traces.coll(i, [i - 1], kind, group=group) for i, kind in enumerate(kinds, 2)]
        programs.append(nodes)
    simulate_folder(traces.save(place / "w2", programs, groups), "out", SimulatorChoice("both"))
