"""``hespas study gemm | resnet | llama | scale-out``: from export to table, CSV, JSON and plot."""

from __future__ import annotations

import csv
import io
import json
import re
from importlib.util import find_spec

import pytest

from hespas import configs
from hespas.dialects.xla import find_gpu_library
from hespas.support.errors import HespasError
from hespas.tools import hespas
from hespas.tools.commands import study as command
from hespas.workflows.studies import operators, program_forms
from hespas.workflows.studies.study_definition import StudyWorkload
from hespas.workflows.studies.study_programs import StudyProgram

pytestmark = pytest.mark.slow

pytest.importorskip("jax")
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs hespas[plot]")
needs_gpu_compiler = pytest.mark.skipif(
    find_gpu_library() is None, reason="needs hespas[gpu-compiler]"
)
GEMM = ("gemm", "--kinds", "all-gather,reduce-scatter,summa", "--sizes", "512,256x1024x512",
        "--devices", "8,1,4")  # fmt: skip
TINY = ("--models", "tiny", "--set", "sequence=64")


@pytest.fixture(scope="module")
def program_folder(tmp_path_factory):
    """A folder for programs and cells, so that the tests export each once."""
    return tmp_path_factory.mktemp("study")


@pytest.fixture
def run(program_folder):
    def run(*arguments: str, form: str = "fused") -> int:
        places = (
            "--work-dir",
            str(program_folder / "programs"),
            "--cache",
            str(program_folder / "cells"),
        )
        return hespas.main(["study", *arguments, "--form", form, "--jobs", "1", *places])

    return run


@pytest.fixture
def rows(run, capsys):
    def rows(*arguments: str, **more: str) -> list[dict]:
        assert run(*arguments, "--json", **more) == 0
        return json.loads(capsys.readouterr().out)["rows"]

    return rows


def test_a_divided_product_is_the_whole(rows):
    study_rows = rows(*GEMM)
    assert len(study_rows) == 3 * 2 * 3
    for row in study_rows:
        m, k, n = operators.parse_product_shape(row["size"])
        assert row["model_flops"] == 2 * m * k * n
        # Each device does its share; sums over devices are the only others that count.
        share = row["flops_per_device"] * row["devices"] / row["model_flops"]
        assert share == pytest.approx(1, rel=0.02)
        assert row["flops_per_s_per_device"] == pytest.approx(
            row["model_flops"] / row["devices"] / row["step_time_s"]
        )
        assert row["step_time_low_s"] <= row["step_time_s"] <= row["step_time_high_s"]
        assert 0 <= row["mfu"] < 1 and row["fits"]
        if row["devices"] == 1:
            assert row["efficiency"] == 1 and row["exposed_comm_s"] == 0
            assert row["system"] is None and row["step_time_s"] == row["compute_s"]
        else:
            assert row["exposed_comm_s"] > 0
            parts_s = row["compute_s"] + row["exposed_comm_s"]
            assert row["step_time_s"] == pytest.approx(parts_s, abs=1e-8)
    meshes = {row["mesh"] for row in study_rows if row["kind"] == "summa"}
    assert meshes == {"x=1,y=1", "x=2,y=2", "x=2,y=4"}


def test_efficiency_is_against_the_fewest_devices(rows):
    summa_rows = [row for row in rows(*GEMM) if (row["kind"], row["size"]) == ("summa", "512")]
    by = {row["devices"]: row for row in summa_rows}
    for n in (4, 8):
        speed_up = by[1]["step_time_s"] / by[n]["step_time_s"]
        assert by[n]["efficiency"] == pytest.approx(speed_up / n)


def test_table_and_csv(run, capsys, tmp_path):
    place = tmp_path / "gemm.csv"
    assert run(*GEMM, "--csv", str(place)) == 0
    out, err = capsys.readouterr()
    title, header, *lines = out.splitlines()
    assert title == "Distributed matrix products, H100_80GB"
    assert header.split()[:4] == ["size", "kind", "devices", "system"]
    assert lines[0].split()[:4] == ["512", "all-gather", "8", "HGX_H100_8"]
    assert lines[1].split()[:4] == ["512", "all-gather", "1", "-"]
    table = list(csv.DictReader(io.StringIO(place.read_text())))
    assert len(table) == len(lines) == 18
    assert table[0]["fits"] == "true" and table[1]["system"] == ""
    for message in ("form fused", "estimator calibrated", "as measured (H100_SXM)", "18 programs"):
        assert message in err


def test_again_nothing_is_done_again(run, capsys):
    run(*GEMM)
    first = capsys.readouterr().out
    run(*GEMM)
    out, err = capsys.readouterr()
    assert out == first
    assert "18 programs, 0 made now" in err and "18 cells, 0 computed now" in err


@needs_matplotlib
@pytest.mark.parametrize(("kind", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_plot_is_the_same_each_time(run, tmp_path, kind, begins):
    places = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for place in places:
        run(*GEMM, "--plot", str(place))
    first, second = (place.read_bytes() for place in places)
    assert first == second and first.startswith(begins)
    if kind == "svg":
        assert b">size 512<" in first and b">size 256x1024x512<" in first  # the panels


@needs_matplotlib
def test_llama_on_several_nodes(run, tmp_path, capsys):
    place = tmp_path / "llama.svg"
    arguments = ("llama", *TINY, "--devices", "4", "--node", "H100_80GB", "B200_180GB", "--json")
    assert run(*arguments, "--plot", str(place)) == 0
    data_rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["system"] for row in data_rows] == ["H100_80GB_4GPU", "B200_180GB_4GPU"]
    for row in data_rows:
        assert row["tokens_per_s"] == pytest.approx(4 * 64 / row["step_time_s"])
        assert row["energy_j"] > 0
    assert data_rows[0]["cost_usd"] > 0 and data_rows[1]["cost_usd"] is None  # no price is known
    text = place.read_text()
    assert "H100_80GB" in text and "tokens/s" in text


@needs_matplotlib
def test_resnet(run, tmp_path, capsys):
    place = tmp_path / "resnet.pdf"
    small = ("--set", "image=32", "--set", "batch=2")
    assert run("resnet", "--depths", "18", "--devices", "8", *small, "--json",
               "--plot", str(place)) == 0  # fmt: skip
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["depth"] == "18" and row["mesh"] == "data=8"
    assert row["samples_per_s"] == pytest.approx(2 * 8 / row["step_time_s"])
    assert row["tokens_per_s"] is None
    assert place.read_bytes().startswith(b"%PDF")


@needs_matplotlib
def test_scale_out(run, tmp_path, capsys):
    place = tmp_path / "out.png"
    arguments = ("scale-out", *TINY, "--tensor", "2", "--devices", "4,16")
    assert run(*arguments, "--plot", str(place)) == 0
    title, header, *lines = capsys.readouterr().out.splitlines()
    assert title == "Scale-out of Llama training, tiny, tensor 2, H100_80GB"
    assert header.split()[:2] == ["devices", "system"] and "tokens/s" in header
    assert [line.split()[:2] for line in lines] == [
        ["4", "H100_80GB_4GPU"], ["16", "DGX_H100_SuperPOD_2"],
    ]  # fmt: skip
    run(*arguments, "--json")
    first, second = json.loads(capsys.readouterr().out)["rows"]
    assert first["efficiency"] == 1
    rates = [row["tokens_per_s"] / row["devices"] for row in (first, second)]
    assert second["efficiency"] == pytest.approx(rates[1] / rates[0])
    assert second["mesh"] == "fsdp=8,tensor=2"


@needs_gpu_compiler
def test_optimised_by_xla(rows, program_folder):
    """The ring: XLA merges its products, and leaves a sharding of global shapes behind."""
    arguments = ("gemm", "--kinds", "ring", "--sizes", "1024", "--devices", "8")
    fused, optimised, scheduled = (
        rows(*arguments, form=form)[0] for form in ("fused", "optimised", "scheduled")
    )
    for row in (optimised, scheduled):
        assert row["model_flops"] == fused["model_flops"] == 2 * 1024**3
        assert row["flops_per_device"] == pytest.approx(2 * 1024**3 / 8, rel=0.02)
        assert row["step_time_s"] == pytest.approx(fused["step_time_s"], rel=0.5)
    names = [
        path.name for path in (program_folder / "programs").glob("gemm-x8-*-H100_80GB-*.mlirbc")
    ]
    assert len(names) == 2


def test_what_cannot_be_made_is_a_row(tmp_path, run, capsys):
    """A mesh that does not divide, and devices without a system, cost their own rows only."""
    table = tmp_path / "t.csv"
    sizes = ("gemm", "--kinds", "ring", "--sizes", "64,100", "--devices", "1,8,6")
    assert run(*sizes, "--csv", str(table)) == 1
    out, err = capsys.readouterr()
    assert "3 of 6 rows have an error" in err and "Errors" in out
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    errors = [(row["size"], row["devices"], row["error"].partition(";")[0]) for row in rows]
    assert [error[:2] for error in errors if error[2]] == [("64", "6"), ("100", "8"), ("100", "6")]
    assert "has 6 devices" in errors[2][2] and "100 over x=8" in errors[4][2]
    assert all(bool(row["step_time_s"]) != bool(row["error"]) for row in rows)
    assert run(*sizes, "--keep-going") == 0
    capsys.readouterr()
    assert hespas.main(["show", str(table)]) == 0
    out = capsys.readouterr().out
    assert "size 100, kind ring, devices 1" in out and "100 over x=8" in out
    page = tmp_path / "t.html"
    assert hespas.main(["show", str(table), "--page", str(page)]) == 0
    assert "100 over x=8" in page.read_text()


def test_an_uneven_group_is_a_row(rows, run, capsys):
    arguments = ("scale-out", *TINY, "--tensor", "1,2", "--devices", "4,5", "--keep-going")
    arguments += ("--system", "*_4GPU")
    study_rows = rows(*arguments)
    errors = {(row["tensor"], row["devices"]): row["error"] for row in study_rows}
    assert errors[2, 5] == (
        "mesh.fsdp is 2.5, not a whole number of devices: 5 devices, tiny, tensor 2"
    )
    assert errors[1, 4] is errors[2, 4] is None and "no system" in errors[1, 5]
    assert [row["efficiency"] for row in study_rows] == [1, None, 1, None]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gemm", "--kinds", "cannon"), "'cannon' is not one of"),
        (("gemm", "--sizes", "8x8"), "'8x8' is not a product"),
        (("gemm", "--devices", "6"), "no system of node H100_80GB has 6 devices"),
        (("gemm", "--devices", "0"), "'0' is not a whole number"),
        (("gemm", "--devices", ","), "--devices is empty"),
        (
            ("gemm", "--system", "HGX*", "--devices", "16"),
            "no system like HGX. has 16 devices .they have 8.",
        ),
        (("gemm", "--system", "nothing*"), "no system preset matches 'nothing"),
        (("gemm", "--node", "H100"), "no node preset is named 'H100'"),
        (("gemm", "--set", "kind=ring"), "the study has a flag for it"),
        (("gemm", "--set", "kind"), "--set: 'kind' is not KEY=VALUE"),
        (("gemm", "--sizes", "64", "--devices", "8", "--set", "nothing=1"), "no option 'nothing'"),
        (("gemm", "--plot", "a.gif"), "a plot is a file .png"),
        (("gemm", "--estimator", "roofine"), "no estimator is named 'roofine'"),
        (("resnet", "--depths", "19"), "'19' is not one of"),
        (
            ("llama", "--tensor", "3"),
            "mesh.fsdp is 2.66667, not a whole number of devices: 8 devices",
        ),
        (("llama", "--models", "9b", "--node", "H100_80GB"), "llama: 'model' takes"),
        (("scale-out", "--devices", "8", "--set", "scan=maybe"), "'scan' takes"),
        (("scale-outs",), "no study is called 'scale-outs'; did you mean 'scale-out'"),
    ],
)
def test_wrong_arguments(run, arguments, message):
    with pytest.raises(HespasError, match=message):
        run(*arguments)


def test_a_node_that_xla_cannot_optimise_for(run):
    with pytest.raises(HespasError, match="no target for node MI300X") as caught:
        run("gemm", "--node", "MI300X", "--devices", "8", form="optimised")
    assert "--form fused" in caught.value.remedy


def test_without_the_compiler(run, monkeypatch):
    monkeypatch.setattr("hespas.dialects.xla.find_gpu_library", lambda: None)
    with pytest.raises(HespasError, match="compiler is not installed") as caught:
        run("gemm", "--devices", "8", form="optimised")
    assert "hespas[gpu-compiler]" in caught.value.remedy and "--form" in caught.value.remedy


def test_which_system_is_taken():
    """Fewest dimensions first, a family's before another's; the node's own of a pattern."""
    assert program_forms.choose_system("A100_SXM_40GB", 8, ()) == "A100_SXM_40GB_8GPU"
    assert program_forms.choose_system("B200_180GB", 16, ()) == "DGX_B200_SuperPOD_2"
    assert program_forms.choose_system("H100_80GB", 4096, ()) == "DGX_H100_SuperPOD_512"
    assert program_forms.choose_system("B200_180GB", 8, ("HGX_*",)) == "HGX_B200_8"
    assert (
        program_forms.choose_system("A100_SXM_80GB", 8, ("A100_SXM_40GB_*",))
        == "A100_SXM_40GB_8GPU"
    )
    assert program_forms.choose_system("TPUv3_core", 8, ()) == "TPUv3_4_2"
    with pytest.raises(HespasError, match="those of --node TPUv3_core"):
        program_forms.choose_system("TPUv3", 8, ())
    assert program_forms.choose_system("H100_80GB", 1, ()) is None


def test_warnings_of_many_programs_are_one(run, capsys):
    """Each program has another number of collectives."""
    assert run("gemm", "--kinds", "summa,ring", "--sizes", "512", "--devices", "16,32") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "as measured" in line]
    assert 0 < len(lines) == len(set(lines)) <= 3
    assert not any(re.search(r"\d (measured|by the)", line) for line in lines)


def test_a_ring_over_nodes_pays_for_the_way_between_them(rows):
    """Its slowest message goes from the last device of a node to the first of the next."""
    (row,) = rows("gemm", "--kinds", "ring", "--sizes", "256", "--devices", "16")
    system = configs.load_system(row["system"])
    message_bytes = 256 // 16 * 256 * 2
    least_s = 1e-9 * system.latency_ns[1] + message_bytes / (system.bandwidth_gib_s[1] * 2**30)
    assert row["comm_s"] > 15 * least_s


@pytest.mark.parametrize(
    "name", [name for name in command.STUDIES if name not in command._OWN_STUDIES]
)
def test_defaults_are_a_study(name):
    """The default workloads have systems, and labels that tell them apart."""
    study = command.load_study(name)
    axis_values = {axis.name: axis.parse_values(axis.default) for axis in study.axes}
    workloads = list(study.workloads(axis_values))
    assert len({(*workload.labels.items(), workload.devices) for workload in workloads}) == len(
        workloads
    )
    for workload in workloads:
        for node in study.nodes:
            assert (program_forms.choose_system(node, workload.devices, ()) is None) == (
                workload.devices == 1
            )
    if name == "serving":
        return  # its plot is of loads, not of programs
    drawn = {column.name for panel in study.panels for column in panel.columns}
    assert drawn <= {column.name for column in study.columns}
    assert {study.across, *study.series} <= {*workloads[0].labels, "node", "devices"}


def test_the_kernel_of_attention_decides_the_platform_of_a_program_without_a_target():
    for kernel, platform in (("cudnn", "cuda"), ("splash", "tpu"), ("dot_product", "cpu")):
        workload = StudyWorkload("llama", {"attention": kernel}, {"fsdp": 8}, {})
        program = StudyProgram(workload, "fused", "", 1)
        assert program.make_request()["platform"] == platform
    assert StudyProgram(workload, "scheduled", "H100_80GB", 1).make_request()["platform"] == "cuda"
