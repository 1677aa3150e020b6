"""Damaged or hostile files that hespas reads and writes: tables, results, packed files, times."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples
from support.published_inputs import PROGRAM

import hespas
from hespas import configs
from hespas.simulators import simulation_inputs
from hespas.simulators.embedded import run_event_simulation
from hespas.simulators.timeline import write_timeline
from hespas.support import packed_data
from hespas.support.csv_cells import quote_formula, unquote_formula
from hespas.support.errors import HespasError, UsageError
from hespas.tools import hespas as hespas_tool
from hespas.tools import hespas_opt
from hespas.tools.console_scripts import EXIT_USAGE, run_tool_main
from hespas.workflows.calibration.measurement_tables import parse_measurements
from hespas.workflows.network_settings import NetworkSettings
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_results import RunResult
from hespas.workflows.studies import study_output
from hespas.workflows.sweep import sweep_table
from support import traces

QUICK = draw_examples(60)
PACKERS = {"xz": lzma.compress, "gzip": gzip.compress}


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_the_size_of_unpacked_files_is_limited(pack, monkeypatch) -> None:
    data = b"x" * 3_000_000
    assert packed_data.unpack_bytes(pack(data) + pack(b"y"), "f") == data + b"y"
    monkeypatch.setenv(packed_data.LIMIT_VARIABLE, "2.5")
    with pytest.raises(
        HespasError, match=r"^f: error: the file has more than 2.5 MB when"
    ) as caught:
        packed_data.unpack_bytes(pack(data), "f")
    assert packed_data.LIMIT_VARIABLE in caught.value.remedy
    monkeypatch.setenv(packed_data.LIMIT_VARIABLE, "3")
    assert packed_data.unpack_bytes(pack(data), "f") == data
    for text in ("much", "-1", "inf", "nan"):
        monkeypatch.setenv(packed_data.LIMIT_VARIABLE, text)
        with pytest.raises(UsageError, match="must be a number of megabytes"):
            packed_data.unpack_bytes(pack(data), "f")
    assert packed_data.unpack_bytes(data, "f") == data


@pytest.mark.parametrize(
    "command",
    [
        "hespas-opt {} -o /dev/null",
        "hespas run --mlir {} --node H100_80GB --no-simulate",
        "hespas optimize {} --target H100_80GB",
        "hespas show {}",
    ],
)
def test_commands_raise_the_limit_of_unpacked_files(command, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv(packed_data.LIMIT_VARIABLE, "1")  # the flag overrides it
    path = tmp_path / "m.mlir.xz"
    path.write_bytes(lzma.compress(b"module {" + b" " * 3_000_000 + b"\n"))
    tool, *arguments = command.format(path).split()
    main = {"hespas": hespas_tool.main, "hespas-opt": hespas_opt.main}[tool]
    assert run_tool_main(main, arguments) != 0
    error = capsys.readouterr().err
    assert "more than 1 MB when unpacked" in error
    assert "--unpacked-limit MB" in error
    assert run_tool_main(main, [*arguments, packed_data.LIMIT_FLAG, "4"]) != 0
    assert "expected operation name" in capsys.readouterr().err  # the module was unpacked
    assert run_tool_main(main, [*arguments, packed_data.LIMIT_FLAG, "0"]) == EXIT_USAGE


@given(st.text())
@QUICK
def test_formulas_are_quoted(text: str) -> None:
    quoted = quote_formula(text)
    assert not quoted.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    if not text.startswith('"'):
        assert unquote_formula(quoted) == text


def test_tables_hold_no_formulas(tmp_path: Path) -> None:
    path = str(tmp_path / "t.csv")
    row = {"cell.mlir": "=HYPERLINK(1)", "cell.+x": "@sum", "compute_s": -1.5, "error": "-2+3"}
    sweep_table.write_table(path, [row], {})
    cells = [cell for line in csv.reader(io.StringIO(Path(path).read_text())) for cell in line]
    assert [cell for cell in cells if cell[:1] in "=+-@"] == ["-1.5"]
    assert sweep_table.read_table(path) == [row]
    assert study_output.format_csv([{"@a": "=1", "b": True}]) == '"""@a""",b\n"""=1""",true\n'


FIGURES = {
    "step_time_s": 2e-3, "exposed_comm_s": 1e-3, "compute_s": 1e-3, "devices": 4, "flops": 10,
    "program": "p.mlir", "warnings": [], "collectives": [],
    "memory": {"peak_bytes": 10, "live_bytes": 10, "fits": True},
    "compute_s_by": {"op": {"a": 1e-3}}, "derived": {"mfu": 0.5, "peak_dtype": "bf16"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("compute_s", "x"), ("compute_s", float("inf")), ("devices", []), ("step_time_s", -1.0),
        ("program", 5), ("warnings", "none"), ("collectives", [{}]), ("memory", 7),
        ("compute_s_by", {"op": {"a": None}}), ("derived", {"mfu": "high"}), ("flops", True),
        ("compute_band_s", [1.0]),
    ],
)  # fmt: skip
def test_figures_of_another_type(key: str, value: object, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(FIGURES))
    loaded = RunResult.load_folder(str(tmp_path)).figures
    assert loaded.keys() >= FIGURES.keys()
    for name, figure in loaded.items():  # what the file lacks is null or empty
        if isinstance(figure, dict):
            figure = {part: content for part, content in figure.items() if content}
        assert figure == FIGURES[name] if name in FIGURES else not figure, name
    path.write_text(json.dumps(FIGURES | {key: value}))
    with pytest.raises(HespasError, match=rf"run\.json: error: .*'{key}") as caught:
        RunResult.load_folder(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_results_of_other_versions_are_shown(tmp_path: Path, monkeypatch, capsys) -> None:
    """They lack the figures that are newer; what each version has written is required."""
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(PROGRAM)
    flags = ("--mlir", "m.mlir", "--node", "H100_80GB", "--system", "H100_80GB_4GPU")
    assert run_tool_main(hespas_tool.main, ["run", *flags, "--output", "old"]) == 0
    path = Path("old/run.json")
    figures = json.loads(path.read_text())
    kept = ("program", "devices", "compute_s", "step_time_s", "exposed_comm_s")
    memory = {name: figures["memory"][name] for name in ("peak_bytes", "live_bytes")}
    path.write_text(json.dumps({name: figures[name] for name in kept} | {"memory": memory}))
    for line in (
        "show old",
        "show old --page p.html",
        "compare old old --work strong",
        "compare old old --work strong --changes",
    ):
        assert run_tool_main(hespas_tool.main, line.split()) == 0
    capsys.readouterr()
    for name in kept:
        path.write_text(json.dumps({key: figures[key] for key in figures if key != name}))
        assert run_tool_main(hespas_tool.main, ["show", "old", "--page", "p.html"]) == 1
        assert (
            f"run.json was not written by hespas run: it has no '{name}'" in capsys.readouterr().err
        )


def test_a_simulation_of_another_form(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(FIGURES))
    for values in ({}, {"step_time_s": None}, {"step_time_s": 2e-3}):
        (tmp_path / "simulation.json").write_text(json.dumps(values))
        with pytest.raises(HespasError, match=r"simulation\.json: error: "):
            RunResult.load_folder(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "value"),
    [("compute_s", "much"), ("warnings", "[1"), ("derived", "x"), ("step_time_s", "1e400")],
)
def test_rows_of_another_type(name: str, value: str, tmp_path: Path) -> None:
    cells = {"cell.mlir": "a", "compute_s": "1.0", "step_time_s": "2.0", "derived.mfu": "0.5"}
    cells = {name: value} | cells | {name: value}
    text = f"{','.join(cells)}\n{','.join(cells.values())}\n"
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(HespasError, match=r"t\.csv, row 1: error: "):
        sweep_table.read_split_results(str(tmp_path / "t.csv"))


OWN = "kernel,sizes,flops,bytes,time_s"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("product.bf16,1x2x3x4,1,1,inf", "row 2 cannot be read: the time is inf"),
        ("product.bf16,1x2x3x4,nan,1,1", "row 2 cannot be read: the operations or bytes"),
        ("product.bf16,1x2x3x0,1,1,1", "row 2 cannot be read: the sizes are"),
        ("product.bf16,1x2,1,1,1", "row 2 cannot be read: the sizes of product are not 2"),
        ("whatever,1,1,1,1", "row 2 cannot be read: there is no class 'whatever'"),
        ("product.bf16", "row 2 cannot be read: "),
        ("product.bf16,1x2x3x4,1,1," + "1" * 200_000, "is not a CSV file: field larger"),
    ],
)
def test_measurements_that_are_none(row: str, message: str) -> None:
    with pytest.raises(HespasError, match=rf"^k\.csv: error: {message}"):
        parse_measurements(f"{OWN}\n{row}\n", "k.csv")


def test_measurements_with_a_header_that_is_short() -> None:
    with pytest.raises(HespasError, match="the columns a,b are of no known form"):
        parse_measurements("a,b\n1,2,3,4\n", "k.csv")


@pytest.mark.parametrize("name", ["tokens_per_step", "model_flops", "price_per_hour", "slowdown"])
def test_infinite_rates_are_refused(name: str) -> None:
    values = {"mlir": "a", "node": "A100_SXM_40GB", name: float("inf")}
    with pytest.raises(ValueError, match="finite"):
        RunConfig(**values)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="finite"):
        NetworkSettings(slowdown=float("inf"))


def test_a_timeline_of_strange_attributes(tmp_path: Path) -> None:
    attrs = {
        "flag": ("bool", True), "large": ("uint64", 2**64 - 1), "list": ("int64_list", [1, 2]),
        "tensor_size": ("bool", True),
    }  # fmt: skip
    node = traces.node(1, traces.COMP, micros=5, **attrs)
    traces.save(tmp_path / "traces", [[node]] * 2)
    system = configs.load_system(str(traces.system(tmp_path / "system", [2])))
    inputs = simulation_inputs.load_inputs(tmp_path / "traces", system)
    result = run_event_simulation(inputs)
    path = tmp_path / "x.perfetto-trace"
    write_timeline(result, inputs.get_device_nodes, inputs.groups, path)
    assert b"18446744073709551615" in path.read_bytes()


@pytest.mark.parametrize("skew", [0, 1])
@pytest.mark.parametrize("size", [2**40, 2**62])
def test_times_that_are_too_long(skew: int, size: int, tmp_path: Path) -> None:
    ranks = [
        [traces.comp(1, micros=1 + skew * rank), traces.coll(2, [1], size=size)]
        for rank in range(400)
    ]
    traces.save(tmp_path / "traces", ranks)
    folder = traces.system(tmp_path / "system", [400], bandwidth=1e-6, topology="Switch")
    system = configs.load_system(str(folder))
    inputs = simulation_inputs.load_inputs(tmp_path / "traces", system)
    if size == 2**40 and not skew:
        assert run_event_simulation(inputs).step_time_ns > 1e14
        return
    message = r"takes more than 2\*\*53 ns" if size == 2**62 else r"takes more than 2\*\*61 ns"
    with pytest.raises(HespasError, match=message):
        run_event_simulation(inputs)


def test_a_duration_that_is_too_long(tmp_path: Path) -> None:
    traces.save(tmp_path / "traces", [[traces.comp(1, micros=2**63)]] * 2)
    system = configs.load_system(str(traces.system(tmp_path / "system", [2])))
    with pytest.raises(HespasError, match="node 1: error: duration_micros is 9223372036854775808"):
        simulation_inputs.load_inputs(tmp_path / "traces", system)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mlir", "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tens"),
        ("mlir", "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"),
        ("hlo", "HloModule x\nENTRY main {\n  p = f32[2] parameter(0)\n"),
    ],
)
def test_a_truncated_text_is_named(name, text, tmp_path):
    path = tmp_path / f"step.{name}"
    path.write_text(text)
    with pytest.raises(HespasError, match="the file ends here: is it complete"):
        hespas.read(path)


def test_an_error_before_the_end_is_no_truncation(tmp_path):
    path = tmp_path / "step.mlir"
    path.write_text("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %y\n}\n")
    with pytest.raises(HespasError) as caught:
        hespas.read(path)
    assert "complete" not in str(caught.value)
