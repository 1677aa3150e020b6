"""What comes with data: nothing of it is executed, it stays in its folder, and it is bounded."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import tracemalloc
from pathlib import Path

import pytest
from support.astra_stub import finished, write_astra_stub
from support.published_inputs import PROGRAM

import hespas
from hespas import configs, frontends
from hespas.chakra.trace_folder import find_groups_file, find_trace_files
from hespas.dialects.mlir import ir, make_context
from hespas.passes import run_pipeline
from hespas.simulators import simulation_inputs
from hespas.simulators.collectives import msccl_xml
from hespas.simulators.embedded import run_event_simulation
from hespas.support import data_files, packed_data
from hespas.support.errors import HespasError
from hespas.support.folder_manifest import MANIFEST, FolderManifest
from hespas.tools import hespas as hespas_tool
from hespas.tools.console_scripts import run_tool_main
from hespas.workflows.module_output import to_mlir_bytecode
from hespas.workflows.network_settings import read_recorded_network
from hespas.workflows.run_results import RunResult
from hespas.workflows.sweep import sweep_table
from support import traces

PRINTED = "".join(finished(rank, 5000, 0, 5000, 0, 0) for rank in range(2))


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A working directory without ASTRA-sim."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.defpath)
    for variable in ("HESPAS_ASTRA_SIM", data_files.TRUSTED_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


@pytest.fixture
def downloaded(place) -> Path:
    """Results of a run of somebody else, with a program that leaves a file if it is executed."""
    folder = traces.save(place / "downloaded", [[traces.comp(0, micros=5)]] * 2)
    program = write_astra_stub(folder / "bin", PRINTED)
    traces.system(folder / "ring", [2])
    write_network(folder, simulator="astra-sim", astra_sim=str(program.path))
    return folder


def write_network(folder: Path, **settings: object) -> None:
    network = {"system": str(folder / "ring"), "simulator": "embedded", **settings}
    (folder / "run.json").write_text(json.dumps({"network": network}))


def simulate(*arguments: object) -> int:
    return run_tool_main(hespas_tool.main, ["simulate", *map(str, arguments)])


def test_no_program_of_a_folder_is_executed(downloaded, capsys, monkeypatch) -> None:
    ran = downloaded / "bin" / "seen.json"
    program = str(next((downloaded / "bin").iterdir()))
    assert simulate("downloaded") == 1
    error = capsys.readouterr().err
    assert error.startswith("downloaded/run.json: error: the run used the simulator ")
    assert "--astra-sim" in error and "--simulator embedded" in error
    for analyse in (read_recorded_network, hespas.simulate):
        with pytest.raises(HespasError, match="executes no program that a file"):
            analyse("downloaded")
    assert simulate("downloaded", "--simulator", "embedded") == 0
    assert not ran.exists()
    assert simulate("downloaded", "--astra-sim", program) == 0
    assert ran.exists()
    ran.unlink()
    monkeypatch.setenv("HESPAS_ASTRA_SIM", program)
    assert simulate("downloaded") == 0
    assert ran.exists()


@pytest.mark.parametrize("simulator", ["auto", "both"])
def test_other_simulators_execute_no_program_of_a_folder(downloaded, simulator) -> None:
    program = str(next((downloaded / "bin").iterdir()))
    write_network(downloaded, simulator=simulator, astra_sim=program)
    assert simulate("downloaded") == 1
    assert not (downloaded / "bin" / "seen.json").exists()


def test_costs_are_not_estimated_again_by_another_estimator(place) -> None:
    """Costs that are out of date are estimated again by a pass that the module names."""
    module = frontends.parse_module(PROGRAM.encode(), "m.mlir", make_context())
    run_pipeline(module, "roofline-annotate{node=A100_SXM_40GB}")
    (place / "evil").write_text("#!/bin/sh\ntouch ran\n")
    (place / "evil").chmod(0o755)
    configs_file = place.parent / "elsewhere.json"
    configs_file.write_text(json.dumps(configs.read_node_json("A100_SXM_40GB")))
    text = str(module).replace("tanh", "sine").replace("add", "multiply")
    for step, problem in [
        (f"scalesim-annotate{{python={place}/evil}}", "another pass than that of roofline"),
        (f"roofline-annotate{{node={configs_file}}}", "another pass than that of roofline"),
    ]:
        changed = text.replace("roofline-annotate{node=A100_SXM_40GB}", step)
        assert changed != text
        hostile = frontends.parse_module(changed.encode(), "m.mlir", make_context())
        with pytest.raises(HespasError) as raised:
            run_pipeline(hostile, "refresh-costs")
        assert problem in raised.value.remedy
    assert not (place / "ran").exists()


def test_a_recorded_system_is_in_the_folder_of_the_run(downloaded, capsys, monkeypatch) -> None:
    """Or in the working directory, from which the names that users give to a run begin."""
    assert simulate("downloaded", "--simulator", "embedded") == 0
    outside = traces.system(downloaded.parent / "ring", [2])
    capsys.readouterr()
    (downloaded / "link").symlink_to(outside)
    write_network(downloaded, system="ring")
    assert simulate("downloaded") == 0
    Path("work").mkdir()
    monkeypatch.chdir("work")
    for system in ("../ring", str(outside), "../downloaded/link"):
        write_network(downloaded, system=system)
        assert simulate("../downloaded") == 1
        error = capsys.readouterr().err
        assert f"it names {system}, which is outside of its folder" in error
        assert "--system" in error
    assert simulate("../downloaded", "--system", "../ring") == 0
    monkeypatch.setenv(data_files.TRUSTED_VARIABLE, str(outside))
    assert simulate("../downloaded") == 0


def test_a_recorded_node_is_in_the_folder_or_the_working_directory(place, monkeypatch) -> None:
    Path("step.mlir").write_text(PROGRAM)
    Path("mine.json").write_text(json.dumps(configs.read_node_json("A100_SXM_40GB")))
    node = str(place / "mine.json")
    run = ["run", "--mlir", "step.mlir", "--node", node, "--output", "out", "--no-simulate"]
    assert run_tool_main(hespas_tool.main, run) == 0
    result = RunResult.load_folder("out")
    assert result.resolved_node is not None
    Path("other").mkdir()
    monkeypatch.chdir("other")
    assert RunResult.load_folder("../out").resolved_node is not None, "there is a copy"
    assert RunResult.load_folder("../out").annotated_module
    change_module(place / "out" / "annotated.mlirbc")
    with pytest.raises(HespasError, match="is stale"):
        assert RunResult.load_folder("../out").annotated_module
    (place / "out" / "node.json").unlink()
    for use in (lambda r: r.resolved_node, lambda r: r.annotated_module):
        with pytest.raises(HespasError, match=r"names .*, which is outside") as raised:
            use(RunResult.load_folder("../out"))
        assert f"run this in {place}" in raised.value.remedy
    monkeypatch.setenv(data_files.TRUSTED_VARIABLE, str(place))
    assert RunResult.load_folder("../out").annotated_module


def change_module(path: Path) -> None:
    """Change the digests of what was estimated."""
    text = str(frontends.read_module(str(path), make_context()))
    changed = text.replace('digest = "', 'digest = "0')
    assert changed != text
    path.write_bytes(to_mlir_bytecode(ir.Module.parse(changed, make_context())))


@pytest.mark.parametrize("prefix", ["../own/dev", "{place}/own/dev", "link/dev"])
@pytest.mark.parametrize("by_node", [False, True])
def test_custom_traces_are_in_the_folder_of_the_system(place, prefix, by_node, monkeypatch) -> None:
    own = traces.save(place / "own", [[traces.send(0, 1)], [traces.recv(0, 0)]])
    prefix = prefix.format(place=place)
    keys = {"per_node_custom_implementation": "nodes.yml"} if by_node else {}
    custom = {} if by_node else {"all_reduce_implementation_custom": [prefix]}
    system = traces.system(place / "two", [2], **keys, **custom)
    (system / "nodes.yml").write_text(f"0: {prefix}\n")
    (system / "link").symlink_to(own)
    work = traces.save(place / "w", [[traces.coll(0)]] * 2)
    if not prefix.startswith(("..", "/")):
        (place / "empty").mkdir()  # the working directory is where ASTRA-sim's relative names begin
        monkeypatch.chdir(place / "empty")
        system = f"../{system.name}"
    with pytest.raises(HespasError, match="outside of its folder"):
        run_event_simulation(simulation_inputs.load_inputs(work, str(system)))
    monkeypatch.setenv(data_files.TRUSTED_VARIABLE, f"/nowhere{os.pathsep}{own}")
    inputs = simulation_inputs.load_inputs(work, str(system))
    assert run_event_simulation(inputs).step_time_ns


def test_the_file_for_single_nodes_is_in_the_folder_of_the_system(place) -> None:
    (place / "nodes.yml").write_text("0: dev\n")
    traces.system(place / "two", [2], per_node_custom_implementation="../nodes.yml")
    work = traces.save(place / "w", [[traces.coll(0)]] * 2)
    with pytest.raises(HespasError, match=r"per-node-custom-implementation: .*names ../nodes.yml"):
        run_event_simulation(simulation_inputs.load_inputs(work, "two"))


def test_custom_traces_of_another_folder_are_copied(place) -> None:
    """A system that hespas writes names its own files only, so it can be moved and used."""
    traces.system(place / "sys", [4], preferred_dataset_splits=1)
    generate = ["trace", "collective", "generate", "ring", "--ranks", "4", "--size", "4096"]
    first = [*generate, "--system", "sys", "--output", "one"]
    second = [*generate, "--collective", "all_gather", "--system", "one", "--output", "two"]
    assert run_tool_main(hespas_tool.main, first) == 0
    assert run_tool_main(hespas_tool.main, second) == 0
    keys = json.loads((place / "two" / "system.json").read_text())
    for kind in ("all_reduce", "all_gather"):
        key = f"{kind.replace('_', '-')}-implementation-custom"
        assert keys[key] == [f"{place}/two/{kind}_4x4096"]
        assert len(list((place / "two").glob(f"{kind}_4x4096.*.et"))) == 4
    work = traces.save(place / "w", [[traces.coll(0, size=4096)]] * 4)
    one, two = (
        run_event_simulation(simulation_inputs.load_inputs(work, name)) for name in ("one", "two")
    )
    assert one.step_time_ns == two.step_time_ns


def test_links_among_traces_do_not_leave_their_folder(place, monkeypatch) -> None:
    folder = traces.save(place / "w", [[traces.comp(0)]] * 2)
    outside = place / "outside.et"
    (folder / "dev.1.et").rename(outside)
    (folder / "dev.1.et").symlink_to("dev.0.et")  # a link within the folder is a saving of space
    assert len(find_trace_files(folder)) == 2
    (folder / "dev.1.et").unlink()
    (folder / "dev.1.et").symlink_to(outside)
    with pytest.raises(HespasError, match=r"dev\.1\.et: error: it names .*outside of its folder"):
        find_trace_files(folder)
    monkeypatch.setenv(data_files.TRUSTED_VARIABLE, str(place))
    assert len(find_trace_files(folder)) == 2
    monkeypatch.delenv(data_files.TRUSTED_VARIABLE)
    (folder / "comm_group.json").unlink()
    (place / "groups.json").write_text("{}")
    (folder / "comm_group.json").symlink_to("../groups.json")
    with pytest.raises(HespasError, match="outside of its folder"):
        find_groups_file(folder)


@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_only_files_are_read(place, kind) -> None:
    """A device never ends, and a pipe without a writer never begins."""
    path = place / "x.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    problem = "folder|directory" if kind == "folder" else "a device or a pipe"
    name = "/dev/zero" if kind == "device" else str(path)
    for read in (configs.read_json, frontends.read_unpacked_bytes):
        with pytest.raises(HespasError, match=f"(?i){problem}"):
            read(name)


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress], ids=["xz", "gzip"])
def test_what_exceeds_the_limit_is_refused_without_being_held(pack, monkeypatch) -> None:
    """An xz file of 300 kB with more than the default limit took 2.1 GB."""
    monkeypatch.setattr(packed_data, "KEPT_BYTES", 1 << 20)
    monkeypatch.setattr(packed_data, "CHUNK_BYTES", 1 << 16)
    monkeypatch.setenv(packed_data.LIMIT_VARIABLE, "20")
    fitting, excessive = pack(bytes(20_000_000)), pack(bytes(20_000_001))
    assert len(packed_data.unpack_bytes(fitting, "f")) == 20_000_000
    tracemalloc.start()
    try:
        with pytest.raises(HespasError, match="more than 20 MB when unpacked"):
            packed_data.unpack_bytes(excessive, "f")
        assert tracemalloc.get_traced_memory()[1] < 14_000_000  # 8 MiB are of xz
    finally:
        tracemalloc.stop()


def test_every_reader_has_the_limit(place, monkeypatch) -> None:
    monkeypatch.setenv(packed_data.LIMIT_VARIABLE, "1")
    blank = lzma.compress(b" " * 1_000_001)
    plain = b" " * 1_000_001
    for data, problem in ((blank, "more than 1 MB when unpacked"), (plain, "more than 1 MB")):
        for name, read in [
            ("run.json", configs.read_json),
            ("table.json", sweep_table.read_table),
            ("table.csv", sweep_table.read_table),
            ("program.xml", lambda path: msccl_xml.read_program(Path(path))),
            ("m.mlir", lambda path: frontends.read_module(path, make_context())),
        ]:
            Path(name).write_bytes(data)
            with pytest.raises(HespasError, match=problem):
                read(name)
    folder = traces.save(place / "w", [[traces.comp(0)]] * 2)
    traces.system(place / "two", [2])
    (folder / "dev.1.et").write_bytes(plain)
    with pytest.raises(HespasError, match="more than 1 MB"):
        simulation_inputs.load_inputs(folder, "two")
    (folder / "dev.1.et").write_bytes(blank)  # ASTRA-sim reads no packed traces
    with pytest.raises(HespasError, match="record"):
        simulation_inputs.load_inputs(folder, "two")


def test_tables_of_parquet_have_the_limit(place, monkeypatch) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    column = arrow.array([1.0]).cast(arrow.float64()).take(arrow.array([0] * 200_000))
    parquet.write_table(arrow.table({"compute_s": column}), "t.parquet", compression="zstd")
    assert Path("t.parquet").stat().st_size < 10_000
    monkeypatch.setenv(packed_data.LIMIT_VARIABLE, "1")
    with pytest.raises(HespasError, match="more than 1 MB when unpacked"):
        sweep_table.read_table("t.parquet")


DEEP, DIGITS = "[" * 100_000, '{"a": ' + "1" * 5000 + "}"


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 100_000, DIGITS], ids=["list", "object", "int"])
def test_json_that_python_cannot_hold(place, text) -> None:
    Path("run.json").write_text(text)
    Path("t.json").write_text(text.replace("{", "[{", 1))
    Path("t.csv").write_text(f"cell.mlir,compute_s\nm,{text}\n")
    folder = place / "out"
    folder.mkdir()
    (folder / MANIFEST).write_text(text)
    for read in (
        lambda: configs.read_json("run.json"),
        lambda: sweep_table.read_table("t.json"),
        lambda: FolderManifest.read(folder),
        lambda: sweep_table.read_split_results("t.csv"),
    ):
        with pytest.raises(HespasError):
            read()


def test_counts_in_xml_make_no_lists(place) -> None:
    """The number of GPUs became a list before it was compared."""
    Path("a.xml").write_text(
        '<algo name="a" nchunksperloop="1" ngpus="100000000000" coll="allreduce">'
        '<gpu id="0" i_chunks="1" o_chunks="1" s_chunks="0"></gpu></algo>'
    )
    with pytest.raises(HespasError, match="the GPUs are 0, but ngpus=100000000000"):
        msccl_xml.read_program(Path("a.xml"))


def test_xml_entities_are_refused(place) -> None:
    Path("a.xml").write_text('<!DOCTYPE algo [<!ENTITY a "b">]><algo name="&a;"/>')
    with pytest.raises(HespasError, match="DOCTYPE"):
        msccl_xml.read_program(Path("a.xml"))
