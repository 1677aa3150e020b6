"""COCOSSim and ONNXim by programs in their place, and by the real ones where they are found."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.simulator_programs import (
    COCOSSIM,
    CONTEXT,
    matmul_module,
    onnxim_cycles,
    program,
    read_costs,
)
from support.simulator_programs import onnxim as onnxim_program

from hespas import passes
from hespas.dialects.mlir import ir
from hespas.estimators.accelerators.cocossim_worker import COCOSSIM as REAL_COCOSSIM
from hespas.estimators.accelerators.onnxim_model import build_matmul_model
from hespas.estimators.accelerators.onnxim_worker import DEFAULT_CONFIG
from hespas.estimators.accelerators.onnxim_worker import ONNXIM as REAL_ONNXIM
from hespas.passes.annotate.traverse import Annotation
from hespas.support.errors import HespasError

VARIABLES = ("HESPAS_COCOSSIM", "HESPAS_COCOSSIM_HOME", "HESPAS_ONNXIM", "ONNXIM_HOME")
GIVEN = {name: os.environ.get(name, "") for name in VARIABLES}
CORE = {"core_freq": 1000, "precision": 2, "dram_config_path": "memory.yaml"}


@pytest.fixture(autouse=True)
def no_real_ones(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cocossim(tmp_path):
    """Options of a pass, and the file in which each call is written."""
    home = tmp_path / "home"
    (home / "dramsim3" / "configs").mkdir(parents=True)
    (home / "dramsim3" / "configs" / "HBM2_8Gb_x128.ini").write_text("channels = 8")
    (home / "build").mkdir()
    log = tmp_path / "log"
    binary = program(home / "build" / "perf_model", COCOSSIM.format(log=str(log)))
    options = f"node=TPUv3_core arrays=1 binary={binary} cache={tmp_path / 'cache'}"
    return options, log


def test_a_type_without_a_rate_is_a_gap(cocossim):
    """Operations without a shape run at full rate, of which f64 has none on a TPU."""
    options, _ = cocossim
    program = ir.Module.parse(RAGGED, CONTEXT)
    pass_run = passes.run_pipeline(program, f"cocossim-annotate{{{options} keep-going=true}}")
    (cost,) = read_costs(program)
    assert "TPUv3_core has no peak rate for f64 on its matrix unit" in (cost.gap or "")
    assert any("1 op without a full cost" in warning for warning in pass_run.warnings)


RAGGED = """
func.func @main(%x: tensor<64x32xf64>, %w: tensor<4x32x16xf64>, %g: tensor<4xi32>) {
  %0 = "chlo.ragged_dot"(%x, %w, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<
    lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions =
    [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0],
    rhs_group_dimensions = [0]>}>
    : (tensor<64x32xf64>, tensor<4x32x16xf64>, tensor<4xi32>) -> tensor<64x16xf64>
  return
}"""


def test_cocossim_runs_each_shape_once(cocossim):
    options, log = cocossim
    program = matmul_module((1024, 1024, 1024), (128, 128, 128), (1024, 1024, 1024))
    pass_run = passes.run_pipeline(program, f"cocossim-annotate{{{options}}}")
    times = [cost.latency_ns for cost in read_costs(program)]
    assert times == pytest.approx([165492 / 0.94, 883 / 0.94, 165492 / 0.94])
    assert log.read_text().splitlines() == [
        "Matmul 1024 1024 1024 1 128 1024 1 0.94",
        "Matmul 128 128 128 1 128 1024 1 0.94",
    ]
    assert (
        pass_run.get_artefact(Annotation).measured.measured,
        pass_run.get_artefact(Annotation).measured.regions,
    ) == (2, 3)
    second_run = passes.run_pipeline(
        matmul_module((128, 128, 128)), f"cocossim-annotate{{{options}}}"
    )
    assert second_run.get_artefact(Annotation).measured.cached == 1
    assert len(log.read_text().splitlines()) == 2


def test_another_program_is_another_key(cocossim, tmp_path):
    options, log = cocossim
    passes.run_pipeline(matmul_module((128, 128, 128)), f"cocossim-annotate{{{options}}}")
    binary = Path(options.split("binary=")[1].split()[0])
    program(binary, COCOSSIM.format(log=str(log)) + "# another\n")
    passes.run_pipeline(matmul_module((128, 128, 128)), f"cocossim-annotate{{{options}}}")
    assert len(log.read_text().splitlines()) == 2


def test_cores_precision_and_remainder(cocossim):
    options, log = cocossim
    options = options.replace("arrays=1", "arrays=2")
    program = matmul_module((100, 300, 201), key="f32")
    passes.run_pipeline(program, f"cocossim-annotate{{{options}}}")
    # six passes of bf16 are a sixth of the clock; a column more, as a core takes no half
    name, m, k, n, cores, *_, clock = log.read_text().split()
    assert (name, m, k, n, cores) == ("Matmul", "100", "300", "202", "2")
    assert float(clock) == pytest.approx(0.94 / 6, rel=0.01)


@pytest.mark.parametrize(
    ("m", "message"),
    [
        (13, r"COCOSSim crashed \(SIGSEGV\): Job Type: 0; use --keep-going"),
        (17, "COCOSSim took more than 2 s; allow more with time-limit"),
        (19, "COCOSSim wrote no cycles: ''"),
    ],
)
def test_cocossim_fails(cocossim, m, message):
    options, _ = cocossim
    with pytest.raises(HespasError, match=message):
        passes.run_pipeline(
            matmul_module((m, 128, 128)), f"cocossim-annotate{{{options} time-limit=2}}"
        )


def test_keep_going_leaves_a_gap(cocossim):
    options, log = cocossim
    program = matmul_module((13, 128, 128), (128, 128, 128))
    passes.run_pipeline(program, f"cocossim-annotate{{{options} keep-going}}")
    first, second = read_costs(program)
    assert first.gap and "SIGSEGV" in first.gap and first.latency_ns == 0
    assert second.gap is None and second.latency_ns > 0
    program = matmul_module((13, 128, 128))  # a crash is the shape's own: it is not tried again
    passes.run_pipeline(program, f"cocossim-annotate{{{options} keep-going}}")
    assert len(log.read_text().splitlines()) == 2


def test_cocossim_is_not_there(cocossim, tmp_path, monkeypatch):
    options, _ = cocossim
    monkeypatch.setenv("PATH", str(tmp_path))
    for option, message in (
        ("", "COCOSSim is not found: .*build it from github.com/mc186/cocossim"),
        (f"binary={tmp_path / 'none'}", "binary: .*none is not an executable program"),
        (f"binary={program(tmp_path / 'alone', 'pass')}", "no folder above .*alone has a dramsim3"),
        (f"{options.split(' ', 2)[2]} home={tmp_path}", f"{tmp_path} has no dramsim3/configs"),
    ):
        with pytest.raises(HespasError, match=message):
            passes.run_pipeline(
                matmul_module((8, 8, 8)), f"cocossim-annotate{{node=TPUv3_core {option}}}"
            )


def test_cocossim_limits():
    big = matmul_module((65536, 65536, 8))
    with pytest.raises(HespasError, match="counts elements in 32 bits"):
        passes.run_pipeline(big, "cocossim-annotate{node=TPUv3_core}")
    with pytest.raises(HespasError, match="arrays are square, not 64 x 128"):
        passes.run_pipeline(matmul_module((8, 8, 8)), "cocossim-annotate{node=TPUv3_core rows=64}")


def onnxim(tmp_path: Path, act: str = "") -> tuple[str, Path]:
    home = tmp_path / "onnxim"
    (home / "configs").mkdir(parents=True)
    (home / "configs" / "memory.yaml").write_text("HBM2")
    (home / "configs" / "core.json").write_text(json.dumps(CORE))
    log = tmp_path / "log"
    binary = program(tmp_path / "Simulator", onnxim_program(log, act))
    where = f"binary={binary} home={home} config={home / 'configs' / 'core.json'}"
    return f"node=TPUv3_core {where} cache={tmp_path / 'cache'}", log


def test_onnxim_simulates_the_product(tmp_path):
    options, log = onnxim(tmp_path)
    program = matmul_module((512, 512, 512))
    passes.run_pipeline(program, f"onnxim-annotate{{{options}}}")
    assert read_costs(program)[0].latency_ns == pytest.approx(9283)
    text, clock, element_bytes = log.read_text().split()
    assert bytes.fromhex(text) == build_matmul_model(512, 512, 512)
    assert (clock, element_bytes) == ("1000", "2")
    program = matmul_module((512, 512, 512), key="f32")
    passes.run_pipeline(program, f"onnxim-annotate{{{options}}}")
    assert log.read_text().split()[4:] == ["166", "4"]  # six passes, the nodes' peaks rounded
    assert read_costs(program)[0].latency_ns == pytest.approx(9283 / 0.166)


def test_onnxim_gets_the_nodes_arrays(tmp_path):
    """Without a configuration: that of its home, with other cores."""
    options, log = onnxim(tmp_path)
    configs = tmp_path / "onnxim" / "configs"
    options = options.replace(f" config={configs / 'core.json'}", "")
    (configs / DEFAULT_CONFIG).write_text(
        json.dumps({**CORE, "core_config": {"core_0": {"spad": 1}}})
    )
    passes.run_pipeline(matmul_module((512, 512, 512)), f"onnxim-annotate{{{options}}}")
    passes.run_pipeline(
        matmul_module((512, 512, 512)), f"onnxim-annotate{{{options} rows=64 arrays=3}}"
    )
    assert [line.split()[1:] for line in log.read_text().splitlines()] == [
        ["940", "2", "2", "128x128"], ["940", "2", "3", "64x128"],
    ]  # fmt: skip
    (configs / DEFAULT_CONFIG).write_text(json.dumps(CORE))
    with pytest.raises(HespasError, match="no core_0 in core_config"):
        passes.run_pipeline(matmul_module((512, 512, 512)), f"onnxim-annotate{{{options}}}")


def test_onnxim_counts_its_memory_in_the_key(tmp_path):
    options, log = onnxim(tmp_path)
    passes.run_pipeline(matmul_module((512, 512, 512)), f"onnxim-annotate{{{options}}}")
    (tmp_path / "onnxim" / "configs" / "memory.yaml").write_text("HBM3")
    passes.run_pipeline(matmul_module((512, 512, 512)), f"onnxim-annotate{{{options}}}")
    assert len(log.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("act", "message"),
    [
        ("crash", r"\(SIGFPE\): \[info\] .* \| \[info\] Model Name \| \[info\] =+Start Simulation"),
        ("abort", r"ONNXim crashed \(SIGABRT\): terminate .* what\(\):  Config key dram_freq"),
        ("dummy", "ONNXim does not support the operator"),
    ],
)
def test_onnxim_fails(tmp_path, act, message):
    options, _ = onnxim(tmp_path, act)
    with pytest.raises(HespasError, match=message):
        passes.run_pipeline(matmul_module((8, 8, 8)), f"onnxim-annotate{{{options}}}")


def test_what_is_no_fault_of_the_product_is_tried_again(tmp_path):
    options, log = onnxim(tmp_path, "library")
    for runs in (1, 2):
        with pytest.raises(HespasError, match=r"code 127: .* loading shared libraries"):
            passes.run_pipeline(matmul_module((8, 8, 8)), f"onnxim-annotate{{{options}}}")
        assert len(log.read_text().splitlines()) == runs


def test_onnxim_without_its_home(tmp_path):
    binary = program(tmp_path / "Simulator", "pass")
    with pytest.raises(HespasError, match=r"home=.* or ONNXIM_HOME"):
        passes.run_pipeline(
            matmul_module((8, 8, 8)), f"onnxim-annotate{{node=TPUv3_core binary={binary}}}"
        )


def test_onnx_model_is_valid():
    onnx = pytest.importorskip("onnx")
    model = onnx.ModelProto.FromString(build_matmul_model(4, 5, 6))
    (weights,) = model.graph.initializer
    assert (list(weights.dims), weights.raw_data) == ([5, 6], b"")
    weights.raw_data = bytes(4 * 30)  # the checker wants data; simulators do not
    onnx.checker.check_model(model, full_check=True)
    (node,) = model.graph.node
    assert (node.op_type, list(node.input), list(node.output)) == ("MatMul", ["x", "w"], ["y"])


def real(program) -> str:
    """The simulator itself, by its environment variable or PATH; else the test is skipped."""
    try:
        return str(program.find_executable(GIVEN[program.variable]))
    except HespasError as error:
        pytest.skip(error.message)


def test_real_cocossim():
    options = f"node=TPUv3_core arrays=1 binary={real(REAL_COCOSSIM)} cache=none"
    options += f" home={GIVEN['HESPAS_COCOSSIM_HOME']}"
    program = matmul_module((1024, 1024, 1024), (4096, 320, 320))
    passes.run_pipeline(program, f"cocossim-annotate{{{options}}}")
    cycles = [cost.latency_ns * 0.94 for cost in read_costs(program)]
    assert cycles == pytest.approx([165492, 98899])  # the second is in its authors' results.txt


def test_real_onnxim():
    """The recorded cycles, of four cores by its own configuration, and of one like them."""
    options = f"node=TPUv4 binary={real(REAL_ONNXIM)} home={GIVEN['ONNXIM_HOME']} cache=none"
    one = matmul_module((512, 512, 512))
    passes.run_pipeline(one, f"onnxim-annotate{{{options} cores=1 arrays=1 clock-hz=1e9}}")
    assert read_costs(one)[0].latency_ns == pytest.approx(
        dict(onnxim_cycles(cores=1))[512, 512, 512]
    )
    options += f" config={Path(GIVEN['ONNXIM_HOME']) / 'configs' / DEFAULT_CONFIG}"
    recorded = onnxim_cycles(cores=4)[:4] + onnxim_cycles(cores=4)[-2:]
    program = matmul_module(*(sizes for sizes, _ in recorded))
    passes.run_pipeline(program, f"onnxim-annotate{{{options} keep-going}}")
    for cost, (_, cycles) in zip(read_costs(program), recorded, strict=False):
        assert ("SIGFPE" in (cost.gap or "")) == (cycles is None)
        assert cost.latency_ns == pytest.approx(cycles or 0)  # its clock is 1 GHz
