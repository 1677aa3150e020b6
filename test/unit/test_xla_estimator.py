"""Regions measured by XLA and IREE on this machine's processor."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from support.execution import call

from hespas import passes
from hespas.dialects.attrs import Cost, RegionAttr
from hespas.dialects.mlir import collect_functions, ir, make_context
from hespas.dialects.pjrt import compile_for_device, open_first_device, wait_for_results
from hespas.estimators import registry
from hespas.estimators.base import CostItem
from hespas.estimators.iree import iree_worker as iree_worker
from hespas.estimators.iree.iree_runtime import compile_to_bytecode, open_runtime
from hespas.estimators.lower.plain_stablehlo import render_compilable_module
from hespas.estimators.measure import turns
from hespas.estimators.measure.failure import UnsupportedError
from hespas.estimators.xla import xla_worker as xla_worker
from hespas.estimators.xla.clock import measure_launch_s
from hespas.estimators.xla.flag_parser import parse_xla_flags
from hespas.estimators.xla.xla_worker import create_device_inputs
from hespas.passes.annotate.traverse import Annotation
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError, UsageError

CONTEXT = make_context()
XLA = {"device": "cpu", "flags": "", "repetitions": 5, "inputs": "auto"}
IREE = {"target": "llvm-cpu", "driver": "", "flags": "", "repetitions": 5}


def product(n: int, count: int = 1) -> str:
    """``count`` matrix products in a row, each of the one before."""
    kind = f"tensor<{n}x{n}xf32>"
    lines = [
        f"%{i} = stablehlo.dot_general %{i - 1 if i else 'x'}, %y, contracting_dims = [1] x [0] "
        f": ({kind}, {kind}) -> {kind}"
        for i in range(count)
    ]
    body = "\n".join(lines)
    return f"""func.func @main(%x: {kind}, %y: {kind}) -> {kind} {{
      {body}
      return %{count - 1} : {kind} }}"""


def xla(text: str, **settings):
    return xla_worker.measure_region({"module": text, **XLA, **settings})


def iree(text: str, **settings):
    return iree_worker.measure_region({"module": text, **IREE, **settings})


def annotated(text: str, pipeline: str) -> tuple[ir.Module, PassRun]:
    module = ir.Module.parse(text, CONTEXT)
    return module, passes.run_pipeline(module, pipeline, PassRun(note=lambda text: None))


@pytest.fixture(scope="module")
def device():
    return open_first_device("cpu")


@pytest.mark.slow
@pytest.mark.parametrize("measure", [xla, iree])
def test_times_repeat_within_what_they_say(measure):
    """Two measurements of one region: their bands, doubled, overlap; more work takes longer.

    Other work on the machine may begin or end between the two, so there are some rounds.
    """
    for _ in range(5):
        first, second = measure(product(384)), measure(product(384))
        if first["low_s"] <= 4 * second["high_s"] and second["low_s"] <= 4 * first["high_s"]:
            break
    else:
        pytest.fail(f"the bands are far apart: {first}, {second}")
    for run_statistics in (first, second):
        assert (
            0
            < run_statistics["min_s"]
            <= run_statistics["low_s"]
            <= run_statistics["median_s"]
            <= run_statistics["high_s"]
        )
        assert run_statistics["repetitions"] >= 3
        assert run_statistics["clock"] == "host"
        assert run_statistics["compile_s"] > 0
    least_s = min(first["min_s"], second["min_s"])
    assert measure(product(384, 16))["min_s"] > 2 * least_s


def test_operations_are_xlas():
    module, _ = annotated(product(128, 3), "split-linear,xla-annotate{device=cpu cache=none}")
    function = collect_functions(module)["region_0"]
    cost = Cost.read_from_op(function)
    assert cost is not None
    counted = xla(render_compilable_module(function))
    assert cost.flops == counted["flops"] == 3 * 2 * 128**3
    assert counted["bytes"] > 0
    assert (cost.bound, cost.estimator) == ("measured", "xla")
    assert cost.low_ns is not None
    assert cost.low_ns <= cost.latency_ns


@pytest.mark.slow
def test_the_sum_of_regions_is_near_the_whole():
    """Four regions of products each, within a factor of 3.

    Other work on the machine only adds time, so the least times of some rounds are compared.
    """
    text = product(320, 8)
    least_whole_ns = least_sum_ns = math.inf
    for _ in range(5):
        whole, _ = annotated(text, "split-linear,xla-annotate{device=cpu cache=none}")
        _, run = annotated(text, "split-linear{block-limit=2},xla-annotate{device=cpu cache=none}")
        assert run.get_artefact(Annotation).measured.regions == 4
        cost = Cost.read_from_op(collect_functions(whole)["region_0"])
        assert cost is not None
        total = run.get_artefact(Annotation).total
        assert total.flops == cost.flops
        least_whole_ns = min(least_whole_ns, cost.low_ns)
        least_sum_ns = min(least_sum_ns, total.low_ns)
        if 1 / 3 < least_sum_ns / least_whole_ns < 3:
            return
    pytest.fail(f"sum of regions {least_sum_ns} ns, whole {least_whole_ns} ns")


@pytest.mark.slow
def test_iree_times_the_empty_program_alone(monkeypatch):
    timing, alone = [], []
    real_turn, real_launch_s = turns.hold_timing_turn, iree_worker.measure_launch_s

    @contextlib.contextmanager
    def running(device=""):
        with real_turn(device):
            timing.append(device)
            yield
            timing.pop()

    monkeypatch.setattr(turns, "hold_timing_turn", running)
    monkeypatch.setattr(
        iree_worker,
        "measure_launch_s",
        lambda *arguments: alone.append(bool(timing)) or real_launch_s(*arguments),
    )
    iree(product(8))
    assert alone == [True]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["xla", "iree"])
def test_a_result_in_the_cache_is_not_compiled_again(name, tmp_path):
    steps = f"split-linear,{name}-annotate{{cache={tmp_path / 'times'}}}"
    first, run = annotated(product(64, 2), steps)
    second, rerun = annotated(product(64, 2), steps)
    counts = [
        (r.get_artefact(Annotation).measured.measured, r.get_artefact(Annotation).measured.cached)
        for r in (run, rerun)
    ]
    assert counts == [(1, 0), (0, 1)]
    costs = [str(collect_functions(m)["region_0"].attributes[Cost.NAME]) for m in (first, second)]
    assert costs[0] == costs[1]
    assert RegionAttr.NAME in collect_functions(second)["region_0"].attributes


def test_xla_and_iree_compute_the_same():
    text = """func.func @main(%x: tensor<4x8xf32>, %y: tensor<8xbf16>) -> tensor<4xf32> {
      %0 = stablehlo.convert %y : (tensor<8xbf16>) -> tensor<8xf32>
      %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0]
        : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>
      %2 = chlo.asinh %1 : tensor<4xf32> -> tensor<4xf32>
      %3 = stablehlo.cosine %2 : tensor<4xf32>
      return %3 : tensor<4xf32> }"""
    module = ir.Module.parse(text, CONTEXT)
    device = open_runtime("local-task")
    context, function = device.load_bytecode(compile_to_bytecode(text, "llvm-cpu", ()))
    api = device.api
    main = collect_functions(module)["main"]
    argument_list, result_list = api.VmVariantList(2), api.VmVariantList(1)
    for argument in main.regions[0].blocks[0].arguments:
        argument_list.push_ref(device.allocate_zeros(argument.type))
    context.invoke(function, argument_list, result_list)
    view = result_list.get_as_object(0, api.HalBufferView)
    result = api.DeviceArray(device.config.device, view, implicit_host_transfer=True).to_host()
    import ml_dtypes

    zeros = [np.zeros((4, 8), np.float32), np.zeros(8, ml_dtypes.bfloat16)]
    np.testing.assert_allclose(result, call(module, zeros)[0])


def test_what_a_compiler_does_not_know_is_unsupported():
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @nobody(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }"""
    with pytest.raises(UnsupportedError, match=r"XLA does not compile it: .*nobody"):
        xla(text)
    with pytest.raises(UnsupportedError, match=r"IREE does not compile it: .*custom_call"):
        iree(text)


def test_lapack_is_there():
    import jax

    module = jax.jit(jax.numpy.linalg.eigh).lower(jax.ShapeDtypeStruct((8, 8), "float32"))
    assert "@lapack_" in module.as_text()
    assert xla(module.as_text())["median_s"] >= 0  # it ran: what a call costs is subtracted


def test_a_region_that_does_not_fit_is_refused():
    kind = "tensor<65536x65536x8xf64>"  # from 1 TiB on, XLA of jaxlib 0.12 crashes
    text = f"""func.func @main(%x: {kind}) -> {kind} {{
      %0 = stablehlo.add %x, %x : {kind}
      return %0 : {kind} }}"""
    with pytest.raises(HespasError, match=r"it needs 512\.0 GiB of memory"):
        xla(text)


def test_flags():
    assert parse_xla_flags("--xla_a=true xla_b=2 xla_c=1.5 xla_d=x=y xla_e") == {
        "xla_a": True, "xla_b": 2, "xla_c": 1.5, "xla_d": "x=y", "xla_e": True,
    }  # fmt: skip
    with pytest.raises(UsageError, match="'fast' is not a flag of XLA"):
        parse_xla_flags("fast")
    assert xla(product(8), flags="xla_cpu_enable_fast_math=true")["median_s"] >= 0
    with pytest.raises(HespasError, match="No such compile option: 'xla_nonsense'"):
        xla_worker.probe_device({**XLA, "flags": "xla_nonsense=1"})
    with pytest.raises(HespasError, match=r"IREE rejects the flags: .*nonsense"):
        iree_worker.probe_device({**IREE, "flags": "--nonsense"})


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("xla", {"device": "tpu"}, "setting 'device'"),
        ("xla", {"flags": "fast"}, "not a flag of XLA"),
        ("xla", {"repetitions": "0"}, "less than 1"),
        ("iree", {"target": "sparc"}, "setting 'target'"),
        ("iree", {"flags": "fast"}, "not a flag of iree-compile"),
    ],
)
def test_wrong_settings(name, settings, message):
    with pytest.raises(UsageError, match=message):
        registry.build_estimator(name, None, settings)


def test_devices_that_are_not_here(monkeypatch):
    monkeypatch.setattr("hespas.dialects.pjrt.open_gpu_client", lambda platforms: None)
    assert open_first_device("auto").platform == "cpu"
    with pytest.raises(HespasError, match="no cuda device was found here"):
        open_first_device("cuda")
    with pytest.raises(HespasError, match="IREE has no device 'nothing' here"):
        iree_worker.probe_device({**IREE, "driver": "nothing"})


@pytest.mark.parametrize("kind", ["zeros", "normal"])
def test_inputs(device, kind):
    types = [
        ir.Type.parse(f"tensor<{text}>", CONTEXT)
        for text in ("64x64xf32", "64x64xf32", "f32", "3xbf16", "2xi1", "2xui8", "2xcomplex<f32>")
    ]
    buffers = create_device_inputs(device, types, kind)
    assert len({array.unsafe_buffer_pointer() for array in buffers}) == len(types)
    first = np.asarray(buffers[0]._single_device_array_to_np_array_did_copy()[0])
    assert (np.std(first) == 0) == (kind == "zeros")
    results = compile_for_device(device, product(64)).launch_once(buffers[:2])
    wait_for_results(results)


def test_an_empty_program_takes_little(device):
    assert 0 < measure_launch_s(device) < 0.01


def test_an_item_says_what_is_wrong_and_where():
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.custom_call @xla_python_cpu_callback(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }"""
    module = ir.Module.parse(text, CONTEXT)
    op = collect_functions(module)["main"].regions[0].blocks[0].operations[0].operation
    with pytest.raises(HespasError, match="runs on the host") as raised:
        registry.build_estimator("xla", None, {}).build_measurement_job(CostItem(op))
    assert raised.value.where.endswith(":2:12")
