"""``hespas study operators``: table, CSV, JSON, plot; what is not there is told."""

from __future__ import annotations

import csv
import io
import json
from importlib.util import find_spec

import pytest
from support.paths import ROOT

from hespas.support.errors import HespasError, UsageError
from hespas.tools import hespas

THREE = ("--estimator", "roofline", "--estimator", "systolic", "--estimator",
         "systolic{variant=scalesim dataflow=os}")  # fmt: skip
needs_matplotlib = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs hespas[plot]")


def run(*arguments: str) -> int:
    return hespas.main(["study", "operators", "--cache", "none", *arguments])


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch, tmp_path):
    for name in ("HESPAS_COCOSSIM", "HESPAS_ONNXIM", "HESPAS_SCALESIM_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_table_and_files(tmp_path, capsys):
    place = tmp_path / "out.csv"
    assert run("--sizes", "256,1x1024x1024", *THREE, "--csv", str(place)) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "TPUv3_core: time of M x K by K x N"
    assert out[1].split("  ")[1].strip() == "product" and "systolic scalesim os" in out[1]
    assert [line.split()[0] for line in out[2:]] == ["256x256x256", "1x1024x1024"]
    rows = list(csv.DictReader(io.StringIO(place.read_text())))
    assert len(rows) == 6
    assert {row["node"] for row in rows} == {"TPUv3_core"}
    first = rows[0]
    assert (first["m"], first["flops"], first["reason"]) == ("256", str(2 * 256**3), "")
    assert float(first["flops_per_s"]) == pytest.approx(2 * 256**3 / float(first["time_s"]))


def test_no_estimator_is_faster_than_the_arrays(capsys):
    run("--json", "--sizes", "128,512,2048,100x200x300", *THREE)
    data = json.loads(capsys.readouterr().out)
    assert data["peak_flops"] == 61.5e12
    assert all(row["flops_per_s"] <= 1.002 * data["peak_flops"] for row in data["rows"])
    assert set(data["constants"]) == {"roofline", "systolic", THREE[-1]}
    assert data["skipped"] == {}


@pytest.mark.long
def test_what_is_not_there_is_told(capsys):
    assert run("--sizes", "64") == 0
    caught = capsys.readouterr()
    assert "- no onnxim{time-limit=100}: ONNXim is not found" in caught.err
    assert "- no cocossim{time-limit=100}: COCOSSim is not found" in caught.err
    assert "onnxim" not in caught.out and "roofline" in caught.out


def test_what_is_asked_for_must_be_there():
    with pytest.raises(HespasError, match="ONNXim is not found"):
        run("--sizes", "64", "--estimator", "onnxim")


def test_a_product_that_one_refuses_is_a_gap(capsys):
    arguments = ("--estimator", "cocossim", "--estimator", "systolic{rows=64}", "--node", "TPUv3")
    with pytest.raises(HespasError):
        run("--sizes", "64", *arguments)
    assert run("--dtype", "f16", "--sizes", "64", "--node", "Trainium2", "--estimator", "roofline",
               "--estimator", "systolic{array=TPUv4}") == 0  # fmt: skip
    assert "-" not in capsys.readouterr().out.splitlines()[2]


def test_what_is_named_twice_is_done_once(capsys):
    run("--json", "--sizes", "64,64x64x64,128", *THREE[:2], *THREE[:2])
    data = json.loads(capsys.readouterr().out)
    assert [row["m"] for row in data["rows"]] == [64, 128]


@pytest.mark.slow
@needs_matplotlib
@pytest.mark.parametrize(("kind", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_plot_is_the_same_each_time(tmp_path, kind, begins, capsys):
    places = [tmp_path / f"{name}.{kind}" for name in "ab"]
    for place in places:
        run("--sizes", "64,1024", *THREE, "--plot", str(place))
    first, second = (place.read_bytes() for place in places)
    assert first == second and first.startswith(begins)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sizes", "12x"), "'12x' is not a product"),
        (("--sizes", "0"), "'0' is not a product"),
        (("--sizes", ","), "--sizes is empty"),
        (("--plot", "a.gif"), "a plot is a file .png"),
        (("--estimator", "systolc"), "no estimator is named 'systolc'"),
        (("--estimator", "systolic{row=3}"), "systolic has no setting 'row'"),
        (("--estimator", "systolic{"), "is not NAME"),
        (("--csv", "/nowhere/at/all.csv"), "its folder does not exist"),
        (("--dtype", "f64"), "invalid choice"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(HespasError, match=message):
        run("--sizes", "64", *arguments)


def test_studies_are_listed(capsys):
    assert hespas.main(["study", "--help"]) == 0
    assert "operators" in capsys.readouterr().out
    with pytest.raises(UsageError, match="no study is called 'operator'; did you mean 'operators'"):
        hespas.main(["study", "operator"])


def test_the_table_of_the_docs_is_what_the_command_prints(tmp_path):
    """Its roofline and closed forms, which need no simulator."""
    columns = ["roofline", "systolic", "systolic{variant=scalesim}", "systolic{variant=cocossim}"]
    flags = [word for name in columns for word in ("--estimator", name)]
    assert run(*flags, "--csv", str(tmp_path / "operators.csv")) == 0
    with (tmp_path / "operators.csv").open() as file:
        rows = list(csv.DictReader(file))
    times_us = {
        (f"{row['m']} x {row['k']} x {row['n']}", row["estimator"]): float(row["time_s"]) * 1e6
        for row in rows
    }
    page = (ROOT / "docs" / "how-to" / "studies.md").read_text()
    table = page.partition("| M x K x N |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(table) == len(rows) / len(columns)
    for line in table:
        product, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for name, cell in zip(columns, cells, strict=False):
            shown = float(cell.replace(",", ""))
            assert shown == pytest.approx(times_us[product, name], rel=0.005), (product, name)


def test_the_documented_times_are_those_of_the_closed_forms(capsys):
    """The first four columns of the table in docs/how-to/studies.md, to their digits."""
    names = ("roofline", "systolic", "systolic{variant=scalesim}", "systolic{variant=cocossim}")
    assert run("--json", *(f"--estimator={name}" for name in names)) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    times = {
        (f"{row['m']} x {row['k']} x {row['n']}", row["estimator"]): row["time_s"] for row in rows
    }
    text = (ROOT / "docs/how-to/studies.md").read_text()
    documented = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ") and line.split("|")[1].count(" x ") == 2 and "K" not in line
    ]
    assert len(documented) * len(names) == len(times)
    for product, *cells in documented:
        for name, cell in zip(names, cells, strict=False):
            assert float(cell.replace(",", "")) == pytest.approx(
                1e6 * times[product, name], rel=6e-3
            ), (product, name)
