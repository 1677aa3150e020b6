"""ZigZag and SCALE-Sim: runs if they are installed, and errors if they are not."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from support.simulator_programs import matmul_module, read_costs
from support.zigzag_traffic import search_least_traffic

from hespas import passes
from hespas.dialects.mlir import ir, make_context
from hespas.estimators.accelerators import dataflow as flow
from hespas.estimators.accelerators import scalesim_worker, zigzag_worker
from hespas.estimators.accelerators.off_chip_traffic import count_best_order_bits
from hespas.estimators.accelerators.scalesim_memory import count_fold_order_elements
from hespas.estimators.measure.failure import UnsupportedError
from hespas.passes.annotate.traverse import Annotation
from hespas.support.errors import HespasError, UsageError
from hespas.workflows import simulator_doctor

HERE = {"m": 256, "k": 256, "n": 256, "rows": 128, "columns": 128, "in_bits": 16, "out_bits": 16,
        "clock_hz": 1e9, "bits_per_cycle": 4096, "sram_bytes": 8 << 20, "lpf_limit": 5,
        "sum_bits": 32}  # fmt: skip


def has_zigzag() -> bool:
    return all(find_spec(name) is not None for name in ("zigzag", "six"))


def scalesim_python() -> str:
    """Return an interpreter with SCALE-Sim: HESPAS_SCALESIM_PYTHON or this one."""
    python = os.environ.get("HESPAS_SCALESIM_PYTHON", sys.executable)
    done = subprocess.run([python, "-c", "import scalesim"], capture_output=True, check=False)
    return python if done.returncode == 0 else ""


needs_zigzag = pytest.mark.skipif(not has_zigzag(), reason="needs hespas[zigzag]")
PYTHON = scalesim_python()
needs_scalesim = pytest.mark.skipif(
    not PYTHON, reason="needs hespas[scalesim], or HESPAS_SCALESIM_PYTHON"
)


@pytest.mark.slow
@needs_zigzag
def test_zigzag_is_between_ideal_and_three_times_that(tmp_path):
    program = matmul_module((1024, 1024, 1024), (512, 512, 512))
    options = f"node=TPUv3_core arrays=1 memory-bandwidth=2e12 cache={tmp_path / 'cache'}"
    pass_run = passes.run_pipeline(program, f"zigzag-annotate{{{options}}}")
    ideal_ns = [m**3 / 128**2 / 0.94 for m in (1024, 512)]
    for cost, least in zip(read_costs(program), ideal_ns, strict=True):
        assert least < cost.latency_ns < 1.5 * least
        assert cost.bound == "compute"
    assert pass_run.get_artefact(Annotation).measured.measured == 2
    second_run = passes.run_pipeline(
        matmul_module((512, 512, 512)), f"zigzag-annotate{{{options}}}"
    )
    assert second_run.get_artefact(Annotation).measured.cached == 1


@pytest.mark.slow
@needs_zigzag
@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 13, 11), (997, 1009, 1013), (1, 1024, 1024)])
def test_zigzag_of_any_size(sizes):
    product = {**HERE, **dict(zip("mkn", sizes, strict=True))}
    m, k, n = sizes
    answer = zigzag_worker.simulate_product(product)
    least = max(m * k * n / 128**2, zigzag_worker.compute_least_transfer_cycles(product))
    assert answer["cycles"] >= 0.99 * least  # ZigZag rounds loops to integers


@pytest.mark.slow
@needs_zigzag
def test_zigzag_searches_wider_where_it_found_little():
    answer = zigzag_worker.simulate_product({**HERE, "m": 32768, "k": 4096, "n": 4096})
    assert answer["lpf_limit"] == 6
    assert answer["cycles"] < 1.1 * 32768 * 4096 * 4096 / 128**2


@pytest.mark.slow
@needs_zigzag
def test_zigzags_own_accelerator():
    own = {"accelerator": {"name": "tpu_like"}, "mapping": {"name": "tpu_like"}}
    product = {**HERE, "m": 512, "k": 1024, "n": 768, "in_bits": 8, "out_bits": 8, **own}
    product["sum_bits"] = 16
    assert 0.9 < zigzag_worker.simulate_product(product)["cycles"] / 458_816 < 1.1
    with pytest.raises(HespasError, match=r"ships no accelerator 'tpuv3_like'.*it has .*tpu_like"):
        zigzag_worker.simulate_product({**product, "accelerator": {"name": "tpuv3_like"}})
    with pytest.raises(UnsupportedError, match="ZigZag fails: "):
        zigzag_worker.simulate_product({**product, "accelerator": {"text": "name: nothing"}})


@needs_zigzag
def test_products_of_an_own_accelerator_stay_there(tmp_path):
    """The vector unit of the node, which is another chip, would be faster."""
    options = f"node=TPUv3_core accelerator=tpu_like sum-bits=16 cache={tmp_path / 'cache'}"
    operand, result = "tensor<256x256xi8>", "tensor<256x256xi32>"
    program = ir.Module.parse(
        f"func.func @main(%x: {operand}) {{ %0 = stablehlo.dot_general %x, %x, contracting_dims = "
        f"[1] x [0] : ({operand}, {operand}) -> {result}\nreturn }}",
        make_context(),
    )
    passes.run_pipeline(program, f"zigzag-annotate{{{options}}}")
    [cost] = read_costs(program)
    assert cost.energy_nj == pytest.approx(41_390, rel=1e-3)  # that of ZigZag's own interface
    assert cost.bound != "vector"


@needs_zigzag
@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (
            "- {name: default, spatial_mapping: {D1: ['M, 32']}}",
            "does not have: M; use D .rows of the result",
        ),
        ("- {name: Conv, spatial_mapping: {}}", "has no entry for products"),
        ("D1: 3", "not have the format of ZigZag"),
        ("{", "not have the format of ZigZag"),
    ],
)
def test_loops_of_a_mapping_are_checked(mapping, message):
    own = {"accelerator": {"name": "tpu_like"}, "mapping": {"text": mapping}}
    with pytest.raises(HespasError, match=message):
        zigzag_worker.simulate_product({**HERE, **own})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("mapping=a.yaml", "mapping needs accelerator"),
        ("accelerator=a.yaml", "a.yaml needs a mapping"),
        ("accelerator=none.yaml mapping=none.yaml", "none.yaml cannot be read: No such file"),
        ("lpf-limit=0", "lpf-limit is 0"),
    ],
)
def test_wrong_settings_of_zigzag(settings, message):
    with pytest.raises(UsageError, match=message):
        passes.run_pipeline(
            matmul_module((8, 8, 8)), f"zigzag-annotate{{node=TPUv3_core {settings}}}"
        )


@pytest.mark.slow
def test_zigzag_is_missing(monkeypatch):
    monkeypatch.setattr(zigzag_worker, "find_spec", lambda name: None if name == "six" else name)
    with pytest.raises(HespasError, match="package 'six' is missing") as caught:
        zigzag_worker.probe_simulator({})
    assert caught.value.remedy == "install it: pip install 'hespas[zigzag]'"


@pytest.mark.slow
@needs_scalesim
@pytest.mark.parametrize("dataflow", ["ws", "os", "is"])
def test_scalesim_gives_the_closed_form(dataflow, tmp_path):
    """SCALE-Sim needs a bandwidth that is a multiple of eight words per cycle.

    The bounds may differ: only the closed form counts what is moved again.
    """
    shapes = [(256, 256, 256), (100, 300, 200), (64, 130, 40), (1, 257, 127)]
    common = f"node=TPUv3_core arrays=1 dataflow={dataflow} memory-bandwidth=481.28e9"
    simulated, closed = matmul_module(*shapes), matmul_module(*shapes)
    cache = f"python={PYTHON} cache={tmp_path / 'cache'} jobs=2"
    passes.run_pipeline(simulated, f"scalesim-annotate{{{common} {cache}}}")
    passes.run_pipeline(closed, f"systolic-annotate{{{common} variant=scalesim}}")
    for one, other in zip(read_costs(simulated), read_costs(closed), strict=True):
        assert one.latency_ns == pytest.approx(other.latency_ns)


@pytest.mark.slow
@needs_scalesim
@pytest.mark.parametrize("dataflow", flow.DATAFLOWS)
def test_scalesim_moves_what_the_closed_form_counts(dataflow, monkeypatch):
    monkeypatch.setenv(scalesim_worker.PYTHON_VARIABLE, PYTHON)
    monkeypatch.setenv(scalesim_worker.LIMIT_VARIABLE, "300")
    sizes = {"m": 24, "k": 28, "n": 40}
    payload = {
        **sizes,
        "rows": 8,
        "columns": 8,
        "sram_kb": 1,
        "words_per_cycle": 0,
        "clock_hz": 1e9,
    }
    answer = scalesim_worker.simulate_product({**payload, "dataflow": dataflow})
    moved = count_fold_order_elements(dataflow, (24, 28, 40), 8, 8, 1024)
    assert (answer["inputs"], answer["weights"]) == (moved.inputs, moved.weights)
    assert 0 <= answer["results"] - moved.results <= 7


@pytest.mark.slow
@needs_zigzag
def test_zigzag_moves_what_the_closed_form_counts():
    traffic = search_least_traffic((94, 48, 80), 4096)
    bits = count_best_order_bits("ws", (94, 48, 80), 16, 16, 8, 8, 8 * 4096, even_blocks=True)
    assert 8 * sum(traffic) == bits.moved


@needs_scalesim
def test_scalesim_refuses_what_would_take_too_long():
    with pytest.raises(HespasError, match=r"takes 89983 cycles.*--systolic-annotate=variant=scale"):
        passes.run_pipeline(
            matmul_module((1024, 1024, 1024)), f"scalesim-annotate{{{ONE} python={PYTHON}}}"
        )
    with pytest.raises(HespasError, match=r"took more than 0.5 s; allow more with time-limit"):
        options = f"{ONE} python={PYTHON} cache=none time-limit=0.5"
        passes.run_pipeline(matmul_module((512, 512, 512)), f"scalesim-annotate{{{options}}}")


def test_scalesim_refuses_a_memory_that_it_cannot_have():
    with pytest.raises(
        HespasError, match=r"is 4.25 elements a cycle.* gives 8 or more; increase memory"
    ):
        options = f"{ONE} memory-bandwidth=8e9 cache=none"
        passes.run_pipeline(matmul_module((8, 8, 8)), f"scalesim-annotate{{{options}}}")


ONE = "node=TPUv3_core arrays=1"


def test_scalesim_is_missing(tmp_path):
    with pytest.raises(HespasError, match=r"cannot be run: No such file.*pip install 'hespas"):
        passes.run_pipeline(
            matmul_module((8, 8, 8)), f"scalesim-annotate{{{ONE} python={tmp_path / 'none'}}}"
        )
    python = tmp_path / "python"
    for message, problem in (
        ("exit 1", "SCALE-Sim is not installed in"),
        ("""echo '{"scalesim": "3.0.0", "numpy": "2.4.6"}'""", "fails with numpy 2.4.6"),
    ):
        python.write_text(f"#!/bin/sh\n{message}\n")
        python.chmod(0o755)
        with pytest.raises(HespasError, match=problem):
            passes.run_pipeline(
                matmul_module((8, 8, 8)), f"scalesim-annotate{{{ONE} python={python}}}"
            )


def test_scalesim_failure_is_typed(monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'AssertionError: sizes' >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setenv(scalesim_worker.PYTHON_VARIABLE, str(python))
    monkeypatch.setenv(scalesim_worker.LIMIT_VARIABLE, "5")
    with pytest.raises(
        UnsupportedError, match="SCALE-Sim exited with code 1: AssertionError: sizes"
    ):
        scalesim_worker.simulate_product({"m": 1, "clock_hz": 1e9})


def test_the_doctor_says_what_is_missing(monkeypatch, tmp_path):
    for name in ("HESPAS_COCOSSIM", "HESPAS_ONNXIM", "HESPAS_ASTRA_SIM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HESPAS_SCALESIM_PYTHON", str(tmp_path / "python"))
    names = ("cocossim", "onnxim", "scalesim")
    states = [simulator_doctor.examine_estimator(name) for name in names]
    states.append(simulator_doctor.examine_astra_sim())
    assert [state.tested_version for state in states] == ["8da7e20", "a1e8629", "3.0.0", "518bd51"]
    assert not any(state.is_usable or state.identity for state in states)
    assert all(state.problem and state.remedy for state in states)
    program = tmp_path / "AstraSim_Analytical_Congestion_Unaware"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    state = simulator_doctor.examine_astra_sim()
    assert state.is_usable and state.identity == str(program)
