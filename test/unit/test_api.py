"""The public Python API: ``hespas`` and ``hespas.plugin``."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hespas
from hespas import plugin
from hespas.dialects.mlir import make_context
from hespas.support.errors import UsageError
from hespas.tools import hespas as command_line

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / ".pkg" / "hespas"
SYSTEM = "A100_SXM_40GB_4GPU"
NODE = "A100_SXM_40GB"
TEXT = """\
module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
    %0 = stablehlo.add %x, %x : tensor<512x512xf32>
    %1 = "stablehlo.all_reduce"(%0) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        use_global_device_ids}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<512x512xf32>) -> tensor<512x512xf32>
    %2 = stablehlo.tanh %1 : tensor<512x512xf32>
    %3 = stablehlo.dot_general %2, %x, contracting_dims = [1] x [0]
      : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    return %3 : tensor<512x512xf32>
  }
}
"""
LOCAL_TEXT = """\
func.func @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = stablehlo.tanh %x : tensor<512x512xf32>
  return %0 : tensor<512x512xf32>
}
"""


@pytest.fixture
def program(tmp_path, monkeypatch) -> Path:
    """A program in an otherwise empty current folder, and an empty folder for temporary files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    path = tmp_path / "step.mlir"
    path.write_text(TEXT)
    return path


def test_import_is_light():
    code = (
        "import sys, hespas, hespas.plugin\n"
        "heavy = ('jaxlib', 'numpy', 'pydantic', 'xdsl')\n"
        "assert not [m for m in sys.modules if m.startswith(heavy)]\n"
        "assert [m for m in sys.modules if m.startswith('hespas')] == ['hespas', 'hespas.plugin']"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("module", [hespas, plugin], ids=lambda module: module.__name__)
def test_every_name_is_there_typed_and_documented(module):
    assert module.__all__ == sorted(module.__all__)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        value = getattr(module, name)
        assert name in ("__version__", "ir") or value.__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing


@pytest.mark.parametrize("module", [hespas, plugin], ids=lambda module: module.__name__)
def test_every_name_is_in_the_reference(module):
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    for name in module.__all__:
        assert f"::: {module.__name__}.{name}\n" in page or f"`{name}`" in page or "__" in name, (
            name
        )


@pytest.mark.parametrize(("file", "own"), [("__init__.py", {"__version__"}), ("plugin.py", set())])
def test_type_checkers_see_the_names(file, own):
    tree = ast.parse((PACKAGE / file).read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hespas")
        for alias in node.names
    }
    assert imported | own == set((hespas if file == "__init__.py" else plugin).__all__)


def test_estimate_accepts_every_form(program):
    forms = [str(program), program, TEXT, TEXT.encode(), hespas.read(TEXT)]
    estimates = [hespas.estimate(form, node=NODE, system=SYSTEM) for form in forms]
    assert len({e.step_time_s for e in estimates}) == 1
    assert {e.target.devices for e in estimates} == {4}
    assert sorted(path.name for path in program.parent.iterdir()) == ["step.mlir", "tmp"]
    assert not [*(program.parent / "tmp").iterdir()]


def test_estimate_of_a_module_leaves_it_as_it_is():
    module = hespas.read(TEXT)
    before = str(module)
    result = hespas.estimate(module, node=NODE)
    assert str(module) == before
    assert "hespas.cost" in str(result.module) and result.module.context is module.context


def test_passes_leave_the_module_that_jax_keeps() -> None:
    """JAX compiles it when the function is called, and returns it when it is lowered again."""
    jax = pytest.importorskip("jax")
    function = jax.jit(lambda x: x * 2)
    x = jax.ShapeDtypeStruct((4,), "float32")
    module = hespas.read(function.lower(x))
    plugin.run_pipeline(module, f"split-linear,roofline-annotate{{node={NODE}}}")
    assert "hespas.cost" in str(module)
    assert "hespas" not in function.lower(x).as_text()
    assert "hespas" not in str(hespas.read(function.lower(x)))


def test_estimate_of_what_jax_lowers(program):
    jax = pytest.importorskip("jax")
    lowered = jax.jit(lambda x: jax.numpy.tanh(x @ x)).lower(
        jax.ShapeDtypeStruct((512, 512), "float32")
    )
    fused = hespas.estimate(lowered, node=NODE, fuse=True)
    assert fused.step_time_s == fused.compute_s > 0
    assert "hespas" not in lowered.as_text()
    assert not [*(program.parent / "tmp").iterdir()]


def test_estimate_agrees_with_the_command(program, capsys):
    command = ["run", "--mlir", "step.mlir", "--node", NODE, "--system", SYSTEM, "--json"]
    assert command_line.main([*command, "--output", "out"]) == 0
    figures = json.loads(capsys.readouterr().out)
    result = hespas.estimate("step.mlir", node=NODE, system=SYSTEM)
    assert result.step_time_s == figures["step_time_s"]
    assert result.compute_s == figures["compute_s"]
    assert result.band_s == tuple(figures["step_time_band_s"])
    assert result.memory is not None and result.memory.peak_bytes == figures["memory"]["peak_bytes"]
    assert result.fits_memory is True
    assert result.warnings == figures["warnings"]
    assert result.target.node == NODE


@pytest.mark.parametrize("form", [None, "as-is"])
def test_breakdown_adds_up(program, form):
    result = hespas.estimate(program, node=NODE, form=form)
    parts = result.breakdown
    shares = [[*times.values()] for times in (parts.kinds, parts.bounds, parts.dtypes)]
    for times in (*shares, [region.time_s for region in parts.regions]):
        assert sum(times) == pytest.approx(result.compute_s)
        assert times == sorted(times, reverse=True)
    assert form is None or "stablehlo.dot_general" in parts.kinds


def test_without_a_system_only_local_programs_have_a_step_time():
    assert hespas.estimate(TEXT, node=NODE).step_time_s is None
    local = hespas.estimate(LOCAL_TEXT, node=NODE)
    assert local.step_time_s == local.compute_s
    assert local.band_s is not None and local.band_s[0] < local.compute_s < local.band_s[1]


def test_estimate_prints_tables(program):
    text = str(hespas.estimate(program, node=NODE, system=SYSTEM))
    assert "Compute time by bound\n" in text and "  step time " in text
    assert "traces" not in text and "hespas-" not in text


def test_options_of_a_run_are_checked(program):
    with pytest.raises(hespas.HespasError, match="unknown key 'curve'") as raised:
        hespas.estimate(program, node=NODE, curve="none")
    assert "curves" in raised.value.remedy
    with pytest.raises(UsageError, match="estimate writes no files: 'timeline'"):
        hespas.estimate(program, node=NODE, timeline="x.perfetto-trace")
    with pytest.raises(hespas.HespasError, match="no program is given"):
        hespas.run(node=NODE)


def test_notes_reach_the_caller(program):
    notes: list[str] = []
    text = LOCAL_TEXT.replace(
        "stablehlo.tanh %x :", "stablehlo.custom_call @mystery(%x) :"
    ).replace(
        ": tensor<512x512xf32>\n  return",
        ": (tensor<512x512xf32>) -> tensor<512x512xf32>\n  return",
    )
    result = hespas.estimate(text, node=NODE, keep_going=True, note=notes.append)
    assert any("could not be estimated" in note for note in notes)
    assert [f"warning: {warning}" for warning in result.warnings] == [
        note for note in notes if note.startswith("warning: ")
    ]


def test_run_and_simulate(program):
    (program.parent / "run.json").write_text(json.dumps({"mlir": "step.mlir", "node": NODE}))
    summary = hespas.run("run.json", system=SYSTEM, output="out")
    assert summary.simulation is not None
    step_ns = summary.simulation.result.step_time_ns
    options = {"curves": "A100_SXM", "network_model": "flows", "slowdown": 0.0}
    report = hespas.simulate("out", SYSTEM, **options)
    assert report.result.step_time_ns == step_ns
    assert hespas.run({"mlir": "step.mlir"}, node=NODE, output="out").simulation is None


def test_sweep_and_compare(program):
    keys = {"mlir": "step.mlir", "node": [NODE, "H100_80GB"]}
    outcome = hespas.sweep(keys, cache="none")
    assert outcome.failed == 0 and [row["node"] for row in outcome.rows] == keys["node"]
    first, second = hespas.compare([program], nodes=[NODE, "H100_80GB"])
    assert first.time_s == outcome.rows[0]["compute_s"]
    assert second.speed_up == pytest.approx(first.time_s / second.time_s)


def test_an_estimator_written_with_the_plugin_names(program):
    class Flat(plugin.Estimator):
        """One microsecond for everything."""

        name = "flat"
        version = "1"

        def __init__(self, config):
            pass

        def estimate(self, item: plugin.CostItem) -> plugin.Cost:
            work: plugin.OpWork = item.work
            return plugin.Cost("flat", work.flops, 0, 0, 1000.0, "compute", work.dtype)

    module = hespas.read(program)
    op = module.body.operations[0].regions[0].blocks[0].operations[0].operation
    assert Flat(None).estimate(plugin.CostItem(op)).flops == plugin.compute_op_work(op).flops


def test_a_context_can_be_shared():
    from hespas import frontends

    context = make_context()
    module = frontends.parse_module(TEXT.encode(), "<text>", context)
    assert hespas.estimate(module, node=NODE).module.context is context


def test_a_program_on_one_line_is_no_name_of_a_file(tmp_path, monkeypatch) -> None:
    text = " ".join(TEXT.split())
    assert "\n" not in text
    assert str(hespas.read(text)) == str(hespas.read(TEXT))
    monkeypatch.chdir(tmp_path)
    Path("{a}.mlir").write_text(TEXT)
    assert str(hespas.read("{a}.mlir")) == str(hespas.read(TEXT))
    with pytest.raises(hespas.HespasError, match="cannot read it: No such file"):
        hespas.read("a.mlir")


ADD = """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (bytes, "<bytes>"),
        (bytearray, "<bytearray>"),
        (memoryview, "<memoryview>"),
        (lambda data: np.frombuffer(data, np.uint8), "<ndarray>"),
        (io.BytesIO, "<BytesIO>"),
        (lambda data: io.StringIO(data.decode()), "<StringIO>"),
        (lambda data: open("add.mlir", "rb"), "add.mlir"),  # noqa: SIM115
        (lambda data: open("add.mlir"), "add.mlir"),  # noqa: SIM115
    ],
)
def test_the_contents_of_a_file_may_be_any_kind_of_bytes_or_an_open_file(
    make: Callable[[bytes], Any], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("add.mlir").write_text(ADD)
    assert name in str(hespas.read(make(ADD.encode())).operation.location)
    estimate = hespas.estimate(make(ADD.encode()), target="H100_80GB", form="as-is")
    expected = hespas.estimate(ADD, target="H100_80GB", form="as-is")
    assert estimate.step_time_s == expected.step_time_s


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([ADD], "from an object of type list; pass the path or the contents of a file"),
        ("", '"": error: cannot read it: No such file or directory'),
    ],
)
def test_what_is_no_program_is_refused(program: Any, message: str) -> None:
    with pytest.raises(hespas.HespasError, match=re.escape(message)):
        hespas.read(program)
