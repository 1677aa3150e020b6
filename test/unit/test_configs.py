"""Node and system presets are complete and have sources; files of users are validated."""

from __future__ import annotations

import json

import pytest

from hespas import configs
from hespas.configs import node_files
from hespas.configs.node_spec import DTYPES, UNITS, NodeSpec
from hespas.configs.simple_yaml import parse_scalar
from hespas.support.errors import HespasError, UsageError

PUBLISHED_NODES = [
    "A100_PCIe_40GB",
    "A100_PCIe_80GB",
    "A100_SXM_40GB",
    "A100_SXM_80GB",
    "A40_48GB",
    "H100_80GB",
    "H200_141GB",
    "B200_180GB",
    "V100_32GB",
    "MI300X",
    "MI300X3D",
    "MI300X3D_HBM3_16H",
    "MI300X3D_HBM4",
    "TPUv3",
]
PUBLISHED_SYSTEMS = [
    "A100_SXM_40GB_4GPU",
    "A100_SXM_40GB_4GPU_32_4_2",
    "A100_SXM_40GB_8GPU_32_8",
    "A100_SXM_80GB_4GPU",
    "A40_48GB_2GPU",
    "B200_180GB_8GPU_2",
    "GPT3_455_MI300X_8",
    "H100_80GB_4GPU",
    "H200_141GB_4GPU",
    "MI300X_4",
    "MI300X_8",
    "QuadAMDIP3D",
    "MI300X3D_HBM4_Volumetric_8",
    "TPUv3_2",
    "TPUv3_4_2",
    "V100_32GB_8GPU_32_4",
]
NUMBERS = (
    "collectives",
    "overlap_slowdown",
    "memory_bandwidth_bytes_per_s",
    "memory_bytes",
    "l2_bytes",
    "tdp_w",
    "default_flops",
    "idle_w",
    "price_per_hour",
    "host_link_bytes_per_s",
)


@pytest.mark.parametrize("name", configs.list_node_presets())
def test_node_preset(name):
    data = configs.read_node_json(name)
    checked = node_files.NodeFile.model_validate(data).to_node_spec()
    node = configs.load_node(name)
    assert node == checked
    assert node.name == name
    numbers = {key for key in NUMBERS if data.get(key) is not None}
    if isinstance(node.overlap_slowdown, dict):  # each share has a source
        numbers.remove("overlap_slowdown")
        numbers |= {f"overlap_slowdown.{kind}" for kind in node.overlap_slowdown}
    numbers |= {f"peaks_flops.{u}.{d}" for u, table in node.peaks_flops.items() for d in table}
    numbers |= {f"fallbacks.{key}" for key in node.fallbacks}
    assert set(node.sources) == numbers
    assert all(node.sources.values())
    for dtype in ("f32", "tf32", "bf16", "f16", "f8", "i8", "i32", "i64", "i1"):
        for unit in UNITS:
            assert node.find_peak_rate(unit, dtype).flops_per_s > 0
    assert (
        node.find_peak_rate("matrix", "bf16").flops_per_s
        >= node.find_peak_rate("vector", "bf16").flops_per_s
    )
    # A slip of a power of ten shows: f32 vectors at 1 to 200 operations per byte of bandwidth.
    ratio = node.find_peak_rate("vector", "f32").flops_per_s / node.memory_bandwidth_bytes_per_s
    assert 1 < ratio < 200


def test_published_names_are_kept():
    assert set(PUBLISHED_NODES) <= set(configs.list_node_presets())
    assert set(PUBLISHED_SYSTEMS) <= set(configs.list_system_presets())
    assert configs.DEFAULT_NODE in configs.list_node_presets()


def test_dense_peaks():
    b200 = configs.load_node("B200_180GB").peaks_flops["matrix"]
    assert b200["bf16"] == 2.25e15 and b200["f8"] == 4.5e15 and b200["tf32"] == 1.1e15
    assert configs.load_node("H100_80GB").peaks_flops["matrix"]["f8"] == pytest.approx(
        1979e12, rel=1e-3
    )
    a100 = configs.load_node("A100_SXM_40GB").peaks_flops
    assert (a100["matrix"]["f64"], a100["vector"]["f64"]) == (19.5e12, 9.7e12)


def test_fallbacks_in_order():
    node = NodeSpec(
        "n",
        1e12,
        {"matrix": {"bf16": 4.0, "i8": 8.0}, "vector": {"f32": 2.0}},
        fallbacks={"matrix.f8": "matrix.i8"},
    )
    own = node.find_peak_rate("matrix", "bf16")
    assert (own.flops_per_s, own.via) == (4.0, "")
    assert node.find_peak_rate("matrix", "f8").via == "matrix.i8"  # the node's own word
    assert (
        node.find_peak_rate("matrix", "tf32").via == "vector.f32"
    )  # as f32, which the matrix unit lacks
    assert (
        node.find_peak_rate("matrix", "f4").via == "matrix.i8"
    )  # a rule, then the node's own word
    assert node.find_peak_rate("vector", "i64").via == "vector.f32"
    with pytest.raises(HespasError, match=r"n has no peak rate for f64 .*per-datatype-flops=f64="):
        node.find_peak_rate("matrix", "f64")
    flat_node = NodeSpec("n", 1e12, {"vector": {"f32": 2.0}}, default_flops=1.0)
    assert flat_node.find_peak_rate("vector", "bf16").via == "default"
    assert flat_node.find_peak_rate("matrix", "tf32").via == "default"


def test_every_type_ends_somewhere():
    node = NodeSpec("n", 1.0, {"vector": {"f32": 1.0, "f64": 1.0}})
    for unit in UNITS:
        for dtype in DTYPES:
            assert node.find_peak_rate(unit, dtype).flops_per_s == 1.0


@pytest.mark.parametrize(
    ("name", "hint"),
    [("H100", "H100_80GB"), ("A100_SXM_40", "A100_SXM_40GB"), ("mi300x", "MI300X")],
)
def test_unknown_preset_suggests(name, hint):
    with pytest.raises(UsageError, match=f"did you mean '{hint}"):
        configs.load_node(name)


def test_unknown_system_suggests():
    with pytest.raises(UsageError, match="did you mean 'H100_80GB_4GPU'"):
        configs.load_system("H100_80G_4GPU")


PUBLISHED = {
    "peak_flops": 9.7e12,
    "memory_bandwidth": 1555e9,
    "per_datatype_flops": {"f32": 19.5e12, "tf32": 156e12, "bf16": 312e12, "ui8": 624e12},
    "tdp_W": 400,
    "hbm_power_ratio": 0.4,
    "warn_on_unknown_type": True,
    "disable_cache": True,
}


def write(path, data):
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return str(path)


def test_published_hardware_file(tmp_path):
    node = configs.load_node(write(tmp_path / "mine.json", PUBLISHED))
    assert node.name == "mine"
    assert node.memory_bandwidth_bytes_per_s == 1555e9
    assert node.find_peak_rate("vector", "bf16").flops_per_s == 312e12  # one table for both units
    assert node.find_peak_rate("matrix", "i8").flops_per_s == 624e12
    assert node.find_peak_rate("vector", "f16").via == "default"
    assert (node.tdp_w, node.hbm_power_share) == (400, 0.4)
    whole = {"mlir_file": "x", "perf_estimator": {"method": "roofline", "hardware": PUBLISHED}}
    assert (
        configs.load_node(write(tmp_path / "whole.json", whole))
        .find_peak_rate("matrix", "tf32")
        .via
        == ""
    )
    strict = configs.load_node(
        write(tmp_path / "s.json", {**PUBLISHED, "error_on_unknown_type": True})
    )
    with pytest.raises(HespasError, match="no peak rate for f16"):
        strict.find_peak_rate("vector", "f16")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({**PUBLISHED, "peak_flop": 1}, "unknown key 'peak_flop'; did you mean 'peak_flops'"),
        (
            {**PUBLISHED, "memory_bandwidth": -1},
            "'memory_bandwidth' is -1: .*greater",
        ),
        ({**PUBLISHED, "memory_bandwidth": "fast"}, "'memory_bandwidth' is .*valid number"),
        ({**PUBLISHED, "per_datatype_flops": {"bf61": 1}}, "no element type is named 'bf61'"),
        ({"memory_bandwidth": 1}, "peak rates are missing"),
        ({"name": "x", "peaks_flops": {"vector": {"f32": 1}}}, "'memory_bandwidth_bytes_per_s' is"),
        ({"peak_flops": 1, "memory_bandwith": 1}, "did you mean 'memory_bandwidth'"),
        ({"perf_estimator": 3}, "no object 'hardware'"),
        ({}, "the key 'name' is missing"),
        ("[1]", "must hold a JSON object"),
        ('{"a": 1,\n}', r"f\.json:(2:1|1:8): error: is not valid JSON"),
    ],
)
def test_bad_node_files(tmp_path, data, message):
    with pytest.raises(HespasError, match=message) as caught:
        configs.load_node(write(tmp_path / "f.json", data))
    assert "f.json" in str(caught.value)


def test_missing_file_and_binary(tmp_path):
    with pytest.raises(HespasError, match=r"none\.json: error: cannot read it: No such file"):
        configs.load_node(str(tmp_path / "none.json"))
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HespasError, match="not UTF-8"):
        configs.load_node(str(tmp_path / "b.json"))


NETWORK = "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 100, 50.5 ]\nlatency:\n"
LATENCY = "- 500\n- 1e3  # ns\n"


def system_folder(tmp_path, network=NETWORK + LATENCY, **changes):
    keys = configs.read_json(configs.load_system("B200_180GB_8GPU_2").folder / "system.json")
    keys.update({key.replace("_", "-"): value for key, value in changes.items()})
    write(tmp_path / "network.yml", network)
    write(tmp_path / "system.json", {k: v for k, v in keys.items() if v is not None})
    return str(tmp_path)


def test_system_from_folder(tmp_path):
    system = configs.load_system(system_folder(tmp_path))
    assert (system.npus_count, system.device_count) == ((4, 2), 8)
    assert system.bandwidth_gib_s == (100.0, 50.5)
    assert system.latency_ns == (500.0, 1000.0)


@pytest.mark.parametrize(
    ("network", "changes", "message"),
    [
        (NETWORK + "- 1\n", {}, "latency has 1, not 2 entries"),
        (NETWORK.replace("4, 2", "4, 1") + LATENCY, {}, "'npus_count.1' is 1: .*greater than 1"),
        (
            NETWORK.replace("Ring", "Torus") + LATENCY,
            {},
            "'topology.0' is .Torus.: .* 'Ring'",
        ),
        (
            NETWORK.replace("bandwidth", "band") + LATENCY,
            {},
            "'band'; did you mean 'bandwidth'",
        ),
        ("topology: [ Ring\n", {}, r"network\.yml:1: error: the list has no ']'"),
        ("nonsense\n", {}, r"network\.yml:1: error: expected 'key"),
        (NETWORK + LATENCY, {"preferred_dataset_splits": None}, "splits' is missing"),
        (NETWORK + LATENCY, {"endpoint_delay": 0}, "'endpoint-delay' is 0: .*greater than 0"),
        (
            NETWORK + LATENCY,
            {"all_reduce_implementation": ["ring"]},
            "1, not 2 entries, one for each dimension of network",
        ),
        (NETWORK + LATENCY, {"all_reduce_implementation": ["rings"] * 2}, "should match pattern"),
        (NETWORK + LATENCY, {"endpont_delay": 1}, "did you mean 'endpoint-delay'"),
        (NETWORK + "- 1e300\n- 1\n", {}, "'latency.0' is 1e"),
        (NETWORK + "- inf\n- 1\n", {}, "'latency.0' is "),
        (NETWORK.replace("50.5", "1e300") + LATENCY, {}, "'bandwidth.1' is 1e"),
        (NETWORK.replace("50.5", "1e-300") + LATENCY, {}, "'bandwidth.1' is 1e-300"),
        (NETWORK.replace("4, 2", "4, 16777216") + LATENCY, {}, "a product of more than 16777216"),
        (NETWORK + LATENCY, {"preferred_dataset_splits": 2**64}, "less than or equal to 1048576"),
        (NETWORK + LATENCY, {"active_chunks_per_dimension": 2**64}, "active-chunks-per-dimension"),
        (NETWORK + LATENCY, {"local_mem_bw": float("inf")}, "'local-mem-bw' is Infinity"),
        (NETWORK + LATENCY, {"peak_perf": 1e300}, "'peak-perf' is 1e"),
    ],
)
def test_bad_systems(tmp_path, network, changes, message):
    with pytest.raises(HespasError, match=message):
        configs.load_system(system_folder(tmp_path, network, **changes))


def test_scalars_of_yaml():
    texts = ("3", "2.5e9", "true", "false", "Ring", '"true"', "'3'", "nan")
    values = [parse_scalar(text) for text in texts]
    assert values[:-1] == [3, 2.5e9, True, False, "Ring", "true", "3"]
    assert values[-1] != values[-1]
