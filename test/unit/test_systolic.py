"""The systolic estimator: presets, times by hand, and what goes where."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budgets import draw_examples

from hespas import configs, passes
from hespas.configs.accelerator import Accelerator, list_accelerator_presets, load_accelerator
from hespas.configs.node_spec import NodeSpec
from hespas.configs.validation import validate_config
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import collect_functions, ir, make_context
from hespas.estimators import registry
from hespas.estimators.accelerators.accelerator_machine import derive_peak_rates
from hespas.estimators.accelerators.systolic import SystolicConfig, SystolicEstimator
from hespas.estimators.base import CostItem
from hespas.estimators.work import UnknownCost
from hespas.passes.annotate.traverse import Annotation
from hespas.support.errors import HespasError, UsageError
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_flow import run_program

CONTEXT = make_context()
NUMBERS = set(Accelerator.model_fields) - {"name", "description", "dtype", "silicon", "sources"}


def cost(text: str, node: str = "TPUv3_core", **settings) -> Cost:
    """The cost of the first op of a function with this signature and body."""
    module = ir.Module.parse(f"func.func @main({text}\n  return\n}}", CONTEXT)
    op = collect_functions(module)["main"].regions[0].blocks[0].operations[0].operation
    return registry.build_estimator("systolic", configs.load_node(node), settings).estimate(
        CostItem(op)
    )


def product(m: int, k: int, n: int, key: str = "bf16", precision: str = "DEFAULT") -> str:
    lhs, rhs, out = (f"tensor<{a}x{b}x{key}>" for a, b in ((m, k), (k, n), (m, n)))
    return (
        f"%x: {lhs}, %w: {rhs}) {{ %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0],"
        f" precision = [{precision}, {precision}] : ({lhs}, {rhs}) -> {out}"
    )


@pytest.mark.parametrize("name", list_accelerator_presets())
def test_preset_is_sourced_and_agrees_with_its_node(name):
    unit, node = load_accelerator(name), configs.load_node(name)
    assert unit.name == name
    assert unit.description
    assert set(unit.sources) == {key for key in NUMBERS if getattr(unit, key) is not None}
    assert unit.matrix_flops_per_s == pytest.approx(
        node.find_peak_rate("matrix", "bf16").flops_per_s, rel=0.01
    )
    assert unit.vector_ops_per_s == pytest.approx(
        node.find_peak_rate("vector", "f32").flops_per_s, rel=0.01
    )


def test_every_tpu_has_a_preset():
    tpus = [name for name in configs.list_node_presets() if name.startswith("TPU")]
    assert tpus and {*tpus} <= {*list_accelerator_presets()}
    chip, core = load_accelerator("TPUv3"), load_accelerator("TPUv3_core")
    assert (chip.cores, core.cores) == (2, 1)
    assert chip.matrix_flops_per_s == 2 * core.matrix_flops_per_s


def test_first_tiles_and_memory():
    slow = cost(product(1024, 1024, 1024), memory_bandwidth=1e9)
    assert slow.latency_ns == pytest.approx(3 * 2**21 + 272 / 0.94)
    assert slow.bound == "memory"
    # 2 arrays wait for 128 x 128 weights and as many rows each, of 2 bytes
    tiles = cost(product(65536, 128, 128), memory_bandwidth=100e9, first_access_cycles=0)
    assert tiles.latency_ns == pytest.approx(max(
        2 * 32768 * 2 / 100 + (128 + 32768 + 254) / 0.94, (65536 * 256 + 16384) * 2 / 100
    ))  # fmt: skip


def test_precision_follows_the_nodes_rates():
    sizes, memory = (4096, 1024, 1024), {"memory_bandwidth": 1e15, "first_access_cycles": 0}
    bf16 = cost(product(*sizes), "TPUv5e", **memory).latency_ns
    i8 = cost(product(*sizes, "i8"), "TPUv5e", **memory).latency_ns
    exact = cost(product(*sizes, "f32", "HIGHEST"), "TPUv5e", **memory).latency_ns
    assert bf16 / i8 == pytest.approx(2, rel=0.02)
    assert exact / bf16 == pytest.approx(6, rel=0.02)


def test_scalesim_variant_is_scalesim_with_its_memory():
    words = 512 * 2 * 0.94e9  # bytes of bf16 a second
    settings = {"arrays": 1, "variant": "scalesim", "memory_bandwidth": words}
    for dataflow, cycles in (("ws", 4562), ("os", 3360), ("is", 5138)):
        latency_ns = cost(product(300, 260, 140), dataflow=dataflow, **settings).latency_ns
        assert latency_ns * 0.94 == pytest.approx(cycles)
    best = cost(product(300, 260, 140), dataflow="best", **settings).latency_ns
    assert best * 0.94 == pytest.approx(3360)


def test_vector_unit():
    text = "%x: tensor<1024x1024xbf16>) { %0 = stablehlo.tanh %x : tensor<1024x1024xbf16>"
    assert cost(text).latency_ns == pytest.approx(1e9 * 2**22 / 450e9 + 272 / 0.94)
    assert cost(text, first_access_cycles=0).latency_ns == pytest.approx(1e9 * 2**22 / 450e9)
    fast = cost(text, memory_bandwidth=1e15)
    assert fast.latency_ns == pytest.approx(2**20 / (1024 * 2) / 0.94)
    assert fast.bound == "vector"
    wide = text.replace("bf16", "f64").replace("tanh", "negate")
    narrow = text.replace("tanh", "negate")
    both = [cost(each, memory_bandwidth=1e15).latency_ns for each in (wide, narrow)]
    assert both[0] == pytest.approx(2 * both[1])


def test_fusion_overlaps_its_units():
    text = """%x: tensor<512x512xbf16>) {
      %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kOutput>}> ({
      ^bb0(%a: tensor<512x512xbf16>):
        %d = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
          : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
        %t = stablehlo.tanh %d : tensor<512x512xbf16>
        mhlo.return %t : tensor<512x512xbf16>
      }) : (tensor<512x512xbf16>) -> tensor<512x512xbf16>"""
    memory = {"memory_bandwidth": 1e15}
    assert cost(text, **memory).latency_ns == cost(product(512, 512, 512), **memory).latency_ns
    few_lanes = cost(text, lanes=1, alus=1, **memory)
    assert few_lanes.latency_ns == pytest.approx(512 * 512 / 0.94)


def test_operations_without_a_shape_run_at_full_rate_and_are_counted():
    text = """%x: tensor<64x32xbf16>, %w: tensor<4x32x16xbf16>, %g: tensor<4xi32>) {
      %0 = "chlo.ragged_dot"(%x, %w, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<
        lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions =
        [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0],
        rhs_group_dimensions = [0]>}>
        : (tensor<64x32xbf16>, tensor<4x32x16xbf16>, tensor<4xi32>) -> tensor<64x16xbf16>"""
    module = ir.Module.parse(f"func.func @main({text}\n  return\n}}", CONTEXT)
    op = collect_functions(module)["main"].regions[0].blocks[0].operations[0].operation
    node = configs.load_node("TPUv3_core")
    settings = {"memory_bandwidth": 1e18, "first_access_cycles": 0}
    estimator = registry.build_estimator("systolic", node, settings)
    op_cost = estimator.estimate(CostItem(op))
    assert op_cost.latency_ns == pytest.approx(1e9 * 2 * 64 * 32 * 16 / (4 * 128 * 128 * 0.94e9))
    assert estimator.describe_provenance().endswith(
        "because the shape is not known (distinct ops): 1"
    )


def test_a_type_without_a_rate_is_named():
    with pytest.raises(UnknownCost, match="TPUv3_core has no peak rate for f64"):
        cost(product(8, 8, 8, "f64"))


def test_own_array_file(tmp_path):
    data = {"name": "mine", "rows": 64, "columns": 32, "clock_hz": 1e9, "lanes": 8,
            "sram_bytes": 1 << 20}  # fmt: skip
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    op_cost = cost(product(640, 64, 32), "H100_80GB", array=str(path), memory_bandwidth=1e15)
    assert op_cost.latency_ns == pytest.approx(64 + 640 + 64 + 32 - 2, rel=1e-4)
    entries = {key: value for key, value in data.items() if key != "name"}
    assert cost(product(640, 64, 32), "H100_80GB", memory_bandwidth=1e15, **entries) == op_cost
    path.write_text(json.dumps({**data, "row": 1}))
    with pytest.raises(HespasError, match="unknown key 'row'; did you mean 'rows'"):
        cost(product(8, 8, 8), array=str(path))
    path.write_text(json.dumps({**data, "dtype": "bf61"}))
    with pytest.raises(HespasError, match="no element type is named 'bf61'"):
        cost(product(8, 8, 8), array=str(path))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"array": "TPUv9"}, "no accelerator preset is named 'TPUv9'"),
        ({"rows": 0}, "rows must be more than 0"),
        ({"clock_hz": "nan"}, "'clock-hz' takes a finite number, not 'nan'"),
        ({"variant": "cocossim", "dataflow": "os"}, "cocossim is weight-stationary only"),
        ({"dataflow": "sw"}, "'dataflow': Input should be 'ws'"),
        ({"first_access_cycles": -1}, "at least 0"),
        ({"sram_read_bytes_per_cycle": 0}, "sram-read-bytes-per-cycle must be more than 0"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(UsageError, match=message):
        cost(product(8, 8, 8), **settings)


def test_node_without_an_array():
    with pytest.raises(UsageError, match="H100_80GB has no systolic array"):
        cost(product(8, 8, 8), "H100_80GB")


@pytest.mark.slow
def test_a_whole_program_and_its_sum(workload):
    from hespas import frontends

    module = frontends.read_module(str(workload("llama3/llama3-100m.mlir")), make_context())
    pass_run = passes.run_pipeline(module, "systolic-annotate{node=TPUv4}")
    systolic = pass_run.get_artefact(Annotation).total
    roofline = (
        passes.run_pipeline(module, "roofline-annotate{node=TPUv4}").get_artefact(Annotation).total
    )
    assert systolic.flops == roofline.flops
    assert systolic.read_bytes == roofline.read_bytes
    assert 1 < systolic.latency_ns / roofline.latency_ns < 3


OWN_ARRAY = {"name": "own", "rows": 256, "columns": 256, "arrays": 4, "clock_hz": 1.2e9,
             "lanes": 4096, "alus": 2, "sram_bytes": 96 << 20}  # fmt: skip


def run_own_chip(tmp_path, matrix_flops: float, **settings):
    """Run a product on a chip of one's own; returns the derived figures and the warnings."""
    (tmp_path / "own.json").write_text(json.dumps(OWN_ARRAY))
    peaks = {"matrix": {"bf16": matrix_flops, "f8": 2 * matrix_flops}, "vector": {"f32": 9.8304e12}}
    chip = {"name": "chip", "memory_bandwidth_bytes_per_s": 6e12, "peaks_flops": peaks}
    (tmp_path / "chip.json").write_text(json.dumps(chip))
    (tmp_path / "b.mlir").write_text(f"func.func @main({product(4096, 4096, 4096)}\n return }}")
    config = {
        "mlir": str(tmp_path / "b.mlir"),
        "node": str(tmp_path / "chip.json"),
        "estimator": "systolic",
        "setting": {"array": str(tmp_path / "own.json"), **settings},
        "output": str(tmp_path / "out"),
    }
    summary = run_program(validate_config(RunConfig, config, ""))
    return summary.figures["derived"], summary.warnings


@pytest.mark.parametrize(
    ("matrix_flops", "settings", "warned"),
    [
        (629e12, {}, False),
        (629e12, {"rows": 512}, False),
        (629e12, {"rows": 64, "clock_hz": 3e9}, False),
        (100e12, {}, True),
        (100e12, {"arrays": 1}, False),
        (5e15, {}, True),
    ],
)
def test_peak_rates_follow_from_the_arrays(tmp_path, matrix_flops, settings, warned):
    """Whatever the node declares, and whichever setting changes the arrays."""
    figures, warnings = run_own_chip(tmp_path, matrix_flops, **settings)
    unit = {**OWN_ARRAY, **settings}
    cells = unit["rows"] * unit["columns"] * unit["arrays"]
    assert figures["peak_flops_per_s"] == pytest.approx(2 * cells * unit["clock_hz"])
    assert 0.9 < figures["hfu"] <= 1
    assert [" declares " in text for text in warnings] == [True] * warned


def test_types_keep_the_ratio_of_the_node():
    unit = load_accelerator("TPUv5e").model_copy(update={"rows": 64})
    rates = derive_peak_rates(configs.load_node("TPUv5e"), unit)
    assert rates["matrix.bf16"] == unit.matrix_flops_per_s
    assert rates["matrix.i8"] == pytest.approx(2 * unit.matrix_flops_per_s, rel=0.01)


@given(
    st.tuples(*[st.integers(1, 3000)] * 3),
    st.fixed_dictionaries(
        {
            "rows": st.sampled_from([8, 128, 256]),
            "columns": st.sampled_from([8, 128]),
            "arrays": st.integers(1, 5),
            "clock_hz": st.floats(1e8, 1e10),
            "lanes": st.integers(1, 1 << 14),
            "memory_bandwidth": st.sampled_from([1e11, 1e18]),
        }
    ),
    st.sampled_from(["bf16", "f32", "i8"]),
    st.sampled_from(["pipelined", "scalesim", "cocossim"]),
    st.booleans(),
)
def test_no_utilisation_above_the_peak(sizes, settings, key, variant, fused):
    """Neither of the arrays nor with a vector unit that runs alongside them."""
    m, k, n = sizes
    config = SystolicConfig(configs.load_node("TPUv5e"), variant=variant, **settings)
    node = config.node_overrides.apply_to_node(config.node)
    text = fuse_with_epilogue(m, k, n, key) if fused else product(m, k, n, key)
    module = ir.Module.parse(f"func.func @main({text}\n  return\n}}", CONTEXT)
    op = collect_functions(module)["main"].regions[0].blocks[0].operations[0].operation
    estimated = SystolicEstimator(config).estimate(CostItem(op))
    peak = node.find_peak_rate("matrix", estimated.dtype).flops_per_s
    assert estimated.flops / peak <= estimated.latency_ns * 1e-9 * (1 + 1e-9)


def test_the_first_weights_are_loaded():
    """256 x 256 x 256 on one array of that size, as in SCALE-Sim, whose count is one cycle less."""
    own = {key: value for key, value in OWN_ARRAY.items() if key != "name"}
    settings = {**own, "arrays": 1, "memory_bandwidth": 1e15, "first_access_cycles": 0}
    latencies = [
        cost(product(256, 256, 256), "H100_80GB", dataflow=dataflow, **settings).latency_ns
        for dataflow in ("ws", "is", "os")
    ]
    assert latencies == pytest.approx([1022 / 1.2, 1022 / 1.2, 766 / 1.2], rel=1e-3)


def test_a_small_sram_moves_operands_again():
    """What was 192 MiB moved once is more, in each dataflow in another way."""
    sizes, memory = (4096, 8192, 4096), {"memory_bandwidth": 450e9, "arrays": 16}
    once_ns = 1e9 * 2 * (4096 * 8192 * 2 + 4096 * 4096) / 450e9
    for dataflow in ("ws", "is", "os"):
        times = [
            cost(product(*sizes), dataflow=dataflow, sram_bytes=size << 20, **memory).latency_ns
            for size in (1, 4, 16, 256)
        ]
        assert times == sorted(times, reverse=True) and times[0] > 2 * times[-1]
        assert (
            times[-1] <= max(once_ns, 1e9 * 2 * 4096**2 * 8192 / (16 * 2 * 128**2 * 0.94e9)) * 1.01
        )


def test_a_small_sram_makes_memory_the_bound():
    settings = {"memory_bandwidth": 450e9, "arrays": 16}
    bounds = [
        cost(product(4096, 8192, 4096), sram_bytes=size << 20, **settings).bound
        for size in (1, 256)
    ]
    assert bounds == ["memory", "compute"]


def test_cocossim_variant_takes_the_memory_of_the_node():
    """A product that waits for memory takes as long as in ``pipelined``, whichever SRAM it has."""
    times = {
        (size, variant): cost(
            product(4096, 8192, 4096), variant=variant, sram_bytes=size << 20, memory_bandwidth=1e10
        ).latency_ns
        for size in (1, 256)
        for variant in ("pipelined", "cocossim")
    }
    assert times[1, "cocossim"] == times[1, "pipelined"] > 2 * times[256, "pipelined"]
    assert times[256, "cocossim"] == times[256, "pipelined"]


def test_the_sram_feeds_the_edges_of_the_array():
    """Output-stationary arrays need rows + columns operands of 2 bytes a cycle, and no more."""
    sizes, settings = (512, 4096, 512), {"dataflow": "os", "arrays": 1, "memory_bandwidth": 1e15}
    free = cost(product(*sizes), **settings).latency_ns
    edges = {"sram_read_bytes_per_cycle": 512, "sram_write_bytes_per_cycle": 256}
    assert cost(product(*sizes), **settings, **edges).latency_ns == free
    slow = cost(product(*sizes), **settings, sram_read_bytes_per_cycle=256).latency_ns
    assert slow == pytest.approx(2 * 16 * 4096 / 0.94)
    written = cost(product(*sizes), **settings, sram_write_bytes_per_cycle=0.5).latency_ns
    assert written == pytest.approx(2 * 512 * 512 / 0.5 / 0.94)


def test_partial_sums_pass_through_the_sram():
    """Weight-stationary arrays write the sums of 32 folds along K, and read 31 of them again."""
    settings = {"arrays": 1, "memory_bandwidth": 1e15}
    slow = cost(product(512, 4096, 512), **settings, sram_read_bytes_per_cycle=128).latency_ns
    operand_bytes = 2 * (4096 * 512 + 4 * 512 * 4096)
    assert slow * 0.94 == pytest.approx((operand_bytes + 4 * 31 * 512 * 512) / 128)


def test_sram_bandwidth_of_an_accelerator_file(tmp_path):
    text = json.dumps({**OWN_ARRAY, "sram_read_bytes_per_cycle": 8.0})
    (tmp_path / "own.json").write_text(text)
    settings = {"array": str(tmp_path / "own.json"), "memory_bandwidth": 1e15}
    slow = cost(product(256, 256, 256), **settings)
    assert slow.latency_ns == pytest.approx(2 * 2 * 256 * 256 / 8 / 1.2)
    assert (
        slow.latency_ns
        > cost(product(256, 256, 256), **settings, sram_read_bytes_per_cycle=512).latency_ns
    )


def test_a_convolution_moves_its_overlapping_windows_once():
    """An SRAM that holds the image moves no byte twice, however large its windows are."""
    text = """%x: tensor<8x32x32x128xbf16>, %w: tensor<3x3x128x128xbf16>) {
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {pad = [[1, 1], [1, 1]]}
        {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<8x32x32x128xbf16>, tensor<3x3x128x128xbf16>) -> tensor<8x32x32x128xbf16>"""
    estimated = cost(text, memory_bandwidth=1e9)
    moved_bytes = 2 * (2 * 8 * 32 * 32 * 128 + 9 * 128 * 128)
    assert estimated.latency_ns == pytest.approx(moved_bytes + 272 / 0.94)


HARDWARE = {
    "rows": 128,
    "columns": 128,
    "arrays": 2,
    "clock_hz": 1e9,
    "lanes": 1024,
    "sram_bytes": 1 << 20,
    "memory_bandwidth": 1e11,
}


@pytest.mark.slow
@draw_examples(60)
@given(
    st.tuples(*[st.integers(1, 3000)] * 3),
    st.tuples(*[st.floats(0.05, 1)] * 3),
    st.integers(1, 6),
    st.tuples(st.integers(1, 5), *[st.floats(1, 8)] * 3),
    st.sampled_from(["ws", "os", "is", "best"]),
    st.sampled_from(["pipelined", "cocossim"]),
    st.sampled_from(["bf16", "i8"]),
)
def test_better_hardware_and_less_work_never_take_longer(
    sizes, shares, arrays, better, dataflow, variant, key
):
    """SCALE-Sim fills half of a buffer before it starts, so a larger one may take longer."""
    if variant == "cocossim":
        dataflow = "ws"
    common = {"dataflow": dataflow, "variant": variant}
    hardware = {**HARDWARE, "arrays": arrays}
    more, faster, wider, larger = better
    improved = {
        **hardware,
        "arrays": arrays + more,
        "clock_hz": hardware["clock_hz"] * faster,
        "memory_bandwidth": hardware["memory_bandwidth"] * wider,
        "sram_bytes": int(hardware["sram_bytes"] * larger),
    }
    before = cost(product(*sizes, key), "TPUv5e", **hardware, **common).latency_ns * (1 + 1e-9)
    assert cost(product(*sizes, key), "TPUv5e", **improved, **common).latency_ns <= before
    for name in ("arrays", "clock_hz", "memory_bandwidth", "sram_bytes"):
        one = {**hardware, name: improved[name]}
        assert cost(product(*sizes, key), "TPUv5e", **one, **common).latency_ns <= before, name
    fewer = [max(int(size * share), 1) for size, share in zip(sizes, shares, strict=True)]
    assert cost(product(*fewer, key), "TPUv5e", **hardware, **common).latency_ns <= before
    if key == "bf16":  # i8 has twice the rate, and half the bytes
        narrow = cost(product(*sizes, "i8"), "TPUv5e", **hardware, **common).latency_ns
        assert narrow <= before


def fuse_with_epilogue(m: int, k: int, n: int, key: str) -> str:
    lhs, rhs, out = (f"tensor<{a}x{b}x{key}>" for a, b in ((m, k), (k, n), (m, n)))
    return f"""%x: {lhs}, %w: {rhs}) {{
      %0 = "mhlo.fusion"(%x, %w) <{{fusion_kind = #mhlo<fusion_kind kOutput>}}> ({{
      ^bb0(%a: {lhs}, %b: {rhs}):
        %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({lhs}, {rhs}) -> {out}
        %s = stablehlo.add %d, %d : {out}
        %t = stablehlo.multiply %s, %d : {out}
        mhlo.return %t : {out}
      }}) : ({lhs}, {rhs}) -> {out}"""


# Thin products run on the vector unit, and the bound says what limits the time.


def multiply_and_reduce(batch: int, m: int, k: int, n: int, key: str, out: str) -> tuple[str, str]:
    """Return a batched product, and the fusion that multiplies, converts and reduces instead."""
    shape = f"{batch}x{m}x{n}x{k}"
    lhs, rhs = f"tensor<{batch}x{m}x{k}x{key}>", f"tensor<{batch}x{n}x{k}x{key}>"
    wide, result = f"tensor<{shape}x{key}>", f"tensor<{batch}x{m}x{n}x{out}>"
    dot = f"""%x: {lhs}, %w: {rhs}) {{
      %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [2]
        : ({lhs}, {rhs}) -> {result}"""
    convert, last = "", "p"
    if out != key:
        last, convert = "c", f"%c = stablehlo.convert %p : ({wide}) -> tensor<{shape}x{out}>"
    fusion = f"""%x: {lhs}, %w: {rhs}) {{
      %0 = "mhlo.fusion"(%x, %w) <{{fusion_kind = #mhlo<fusion_kind kInput>}}> ({{
      ^bb0(%a: {lhs}, %b: {rhs}):
        %l = stablehlo.broadcast_in_dim %a, dims = [0, 1, 3] : ({lhs}) -> {wide}
        %r = stablehlo.broadcast_in_dim %b, dims = [0, 2, 3] : ({rhs}) -> {wide}
        %p = stablehlo.multiply %l, %r : {wide}
        {convert}
        %z = stablehlo.constant dense<0.0> : tensor<{out}>
        %s = stablehlo.reduce(%{last} init: %z) applies stablehlo.add across dimensions = [3]
          : (tensor<{shape}x{out}>, tensor<{out}>) -> {result}
        mhlo.return %s : {result}
      }}) : ({lhs}, {rhs}) -> {result}"""
    return dot, fusion


SMALL = st.one_of(st.integers(1, 4), st.integers(1, 300))
CHIPS = st.fixed_dictionaries(
    {
        "rows": st.sampled_from([8, 128, 256]),
        "columns": st.sampled_from([8, 128]),
        "arrays": st.integers(1, 16),
        "lanes": st.sampled_from([128, 1024, 8192]),
        "memory_bandwidth": st.sampled_from([1e11, 1e12, 1e15]),
        "sram_bytes": st.sampled_from([1 << 12, 1 << 20, 1 << 27]),
        "dataflow": st.sampled_from(["ws", "os", "is", "best"]),
    }
)


@pytest.mark.slow
@draw_examples(100)
@given(
    st.sampled_from(["TPUv3_core", "TPUv6e", "silicon"]),
    st.tuples(st.integers(1, 64), SMALL, st.integers(2, 4000), SMALL),
    st.sampled_from([("bf16", "bf16"), ("bf16", "f32"), ("f32", "f32")]),
    st.sampled_from(["pipelined", "scalesim"]),
    CHIPS,
)
def test_no_product_takes_longer_than_on_the_vector_unit(node, sizes, types, variant, chip):
    node_spec = configs.load_node("TPUv4" if node == "silicon" else node)
    if node == "silicon":  # also at a power limit
        silicon = {"process": "5nm", "leakage_w": 20, "clock_exponent": 1.3}
        node_spec = replace(node_spec, silicon=silicon, tdp_w=60.0)
    times = []
    for text in multiply_and_reduce(*sizes, *types):
        module = ir.Module.parse(f"func.func @main({text}\n  return\n}}", CONTEXT)
        op = collect_functions(module)["main"].regions[0].blocks[0].operations[0].operation
        estimator = registry.build_estimator("systolic", node_spec, {**chip, "variant": variant})
        times.append(estimator.estimate(CostItem(op)).latency_ns)
    on_best_unit, on_vector_unit = times
    assert on_best_unit <= on_vector_unit * (1 + 1e-9)


def test_row_sums_run_on_the_vector_unit():
    """Attention's row sums took 2,397 us on TPU v6e, and 10.3 as multiply and reduce."""
    dot, fusion = multiply_and_reduce(8 * 4096, 1, 128, 1, "bf16", "f32")
    row_sums, on_vector_unit = cost(dot, "TPUv6e"), cost(fusion, "TPUv6e")
    assert row_sums.latency_ns == on_vector_unit.latency_ns == pytest.approx(10.3e3, rel=0.02)
    assert row_sums.bound == on_vector_unit.bound == "memory"
    assert (row_sums.flops, row_sums.dtype) == (2 * 8 * 4096 * 128, "bf16")


def test_each_bound(tmp_path):
    settings = {"memory_bandwidth": 1e15, "first_access_cycles": 0}
    own = {"silicon": {"process": "5nm", "leakage_w": 10}, "tdp_w": 50.0}
    limited = replace(configs.load_node("TPUv4"), **own)
    wide, narrow = product(2048, 2048, 2048), product(64, 2048, 64)
    bounds = {
        "compute": cost(wide, **settings).bound,
        "fill": cost(narrow, **settings, lanes=1).bound,
        "vector": cost(narrow, **settings, arrays=1, lanes=1 << 14).bound,
        "sram": cost(wide, **settings, lanes=1, sram_read_bytes_per_cycle=16).bound,
        "memory": cost(wide, memory_bandwidth=1e9).bound,
        "power": estimate_on(limited, wide).bound,
    }
    assert all(word == bound for word, bound in bounds.items()), bounds
    tanh = "%x: tensor<1024x1024xbf16>) { %0 = stablehlo.tanh %x : tensor<1024x1024xbf16>"
    assert cost(tanh, **settings, sram_write_bytes_per_cycle=16).bound == "sram"
    waits = {"arrays": 1, "lanes": 1, "variant": "scalesim"}
    assert cost(wide, **waits, memory_bandwidth=1e9).bound == "memory"
    assert cost(wide, **waits, memory_bandwidth=1e13).bound == "compute"
    assert cost(narrow, **waits, memory_bandwidth=1e15).bound == "fill"


def estimate_on(node: NodeSpec, text: str) -> Cost:
    """The cost of the first op of a function on a node."""
    module = ir.Module.parse(f"func.func @main({text}\n  return\n}}", CONTEXT)
    op = collect_functions(module)["main"].regions[0].blocks[0].operations[0].operation
    return registry.build_estimator("systolic", node, {}).estimate(CostItem(op))


def test_a_fusion_divides_its_products_among_the_units():
    """The thin product of two runs alongside the other one."""
    text = """%x: tensor<1024x1024xbf16>, %v: tensor<4096x1x128xbf16>) {
      %0:2 = "mhlo.fusion"(%x, %v) <{fusion_kind = #mhlo<fusion_kind kOutput>}> ({
      ^bb0(%a: tensor<1024x1024xbf16>, %b: tensor<4096x1x128xbf16>):
        %d = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
          : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
        %e = stablehlo.dot_general %b, %b, batching_dims = [0] x [0], contracting_dims = [2] x [2]
          : (tensor<4096x1x128xbf16>, tensor<4096x1x128xbf16>) -> tensor<4096x1x1xbf16>
        mhlo.return %d, %e : tensor<1024x1024xbf16>, tensor<4096x1x1xbf16>
      }) : (tensor<1024x1024xbf16>, tensor<4096x1x128xbf16>)
        -> (tensor<1024x1024xbf16>, tensor<4096x1x1xbf16>)"""
    settings = {"memory_bandwidth": 1e15, "first_access_cycles": 0}
    assert cost(text, **settings).latency_ns == pytest.approx(
        cost(product(1024, 1024, 1024), **settings).latency_ns
    )


def test_complex_products_and_algorithms_on_lanes():
    """A complex multiplication takes six operations, and no algorithm splits elements there."""
    complex_text = """%x: tensor<512x1x64xcomplex<f32>>, %w: tensor<512x64x1xcomplex<f32>>) {
      %0 = stablehlo.dot_general %x, %w, batching_dims = [0] x [0], contracting_dims = [2] x [1]
        : (tensor<512x1x64xcomplex<f32>>, tensor<512x64x1xcomplex<f32>>)
        -> tensor<512x1x1xcomplex<f32>>"""
    settings = {"memory_bandwidth": 1e18, "first_access_cycles": 0, "clock_hz": 1e9, "alus": 1}
    estimated = cost(complex_text, "TPUv5e", **settings, lanes=64, cores=1)
    assert estimated.bound == "vector"
    assert estimated.latency_ns == pytest.approx(512 * (6 * 64 + 2 * 63) / 64)
    exact = multiply_and_reduce(512, 1, 64, 1, "f32", "f32")[0].replace(
        "contracting_dims = [2] x [2]",
        "contracting_dims = [2] x [2], algorithm = <lhs_precision_type = bf16, "
        "rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1, "
        "rhs_component_count = 1, num_primitive_operations = 1, "
        "allow_imprecise_accumulation = false>",
    )
    assert cost(exact, "TPUv5e", **settings, lanes=64, cores=1).latency_ns == pytest.approx(
        512 * 127 / 64
    )
