"""The files of the published Hespas, a row each: nodes, systems, experiments and fixtures.

Their numbers are in ``test/data/published_nodes.json`` and ``published_systems.csv``. Each file
runs as it is, or stops at the missing simulator with the sentence that says how to get it.
"""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.paths import DATA, ROOT
from support.published_inputs import EIGHT, PROGRAM
from support.simulator_programs import COCOSSIM, onnxim, program
from support.traces import simulate_folder

from hespas import configs
from hespas.configs.simple_yaml import read_simple_yaml
from hespas.dialects.xla import get_compiler_library
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import HespasError
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from hespas.tools.published import estimator_command, hespas_chakra_gen, hespas_mlir_splitter
from hespas.workflows.sweep import sweep_grid

FACTS = json.loads((DATA / "published_nodes.json").read_text())
NODES = FACTS["nodes"]
SYSTEMS = list(csv.reader((DATA / "published_systems.csv").read_text().splitlines()))[1:]
MERGED = ("--split_fn", "individual_split", "--merge")
PRODUCT = """
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %0 : tensor<64x64xf32>
}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HESPAS_COCOSSIM", raising=False)
    monkeypatch.delenv("HESPAS_ONNXIM", raising=False)
    monkeypatch.delenv("ONNXIM_HOME", raising=False)
    Path("step.mlir").write_text(PROGRAM)
    Path("eight.mlir").write_text(EIGHT)
    Path("product.mlir").write_text(PRODUCT)
    return tmp_path


def generate(config, *flags, mlir="step.mlir", output="out"):
    """Run ``hespas_chakra_gen`` in this process; returns its exit code."""
    argv = [str(config), "--mlir_file", mlir, "--output", output, *flags]
    return run_tool_main(hespas_chakra_gen.main, argv)


def list_rates(node):
    table = FACTS["rates"].get(node.get("rates"), {})
    return {dtype: rate for dtypes, rate in table.items() for dtype in dtypes.split()}


def build_hardware(name):
    """Build the section of a node's published configuration."""
    node, rates = NODES[name], list_rates(NODES[name])
    table = {"per_datatype_flops": rates} if rates else {}
    return {"peak_flops": node["peak"], "memory_bandwidth": node["bandwidth"], **table}


def write_published_node(name, method, hardware):
    path = Path("configs", "nodes", name, method, "config.json")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"perf_estimator": {"method": method, "hardware": hardware}}))
    return path


def read_runtime_us(out):
    return float(re.search(r"^Compute Runtime Estimation: ([\d.]+) us$", out, re.M)[1])


@pytest.mark.parametrize("name", NODES)
def test_a_published_node_runs(place, capsys, name):
    """It has no warning, as the file has either one rate, or those of the program's types."""
    path = write_published_node(name, "roofline", build_hardware(name))
    if "syntax" in NODES[name]:
        path.write_text(path.read_text().replace(', "i8"', ' "i8"'))
        assert generate(path) == 1
        assert "config.json:1:" in capsys.readouterr().err and not Path("out").exists()
        return
    assert generate(path, *MERGED, "--num_npus", "4") == 0
    out, err = capsys.readouterr()
    core = "note: TPUv3 is one core of the chip, TPUv3_core, as in the published presets\n"
    assert err == (core if name == "TPUv3" else "")
    work = build_hardware(name)
    rates = work.get("per_datatype_flops", {})
    product_us = (2 * 64 * 256 + 256 * 256) * 2 / work["memory_bandwidth"] * 1e6
    compute_us = 2 * 64 * 256 * 256 / rates.get("bf16", work["peak_flops"]) * 1e6
    tanh_us = 2 * 64 * 256 * 2 / work["memory_bandwidth"] * 1e6
    assert read_runtime_us(out) == pytest.approx(
        2 * (max(product_us, compute_us) + tanh_us), abs=0.001
    )


@pytest.mark.parametrize("name", configs.list_node_presets())
def test_every_node_is_there_by_path_and_by_name(place, capsys, name):
    published = f"configs/nodes/{name}/roofline/config.json"
    assert (ROOT / published).is_file()
    by_form = []
    for form in (ROOT / published, published, name):  # the second needs no clone
        assert generate(form) == 0
        out, err = capsys.readouterr()
        assert "warning" not in err and err.count("\n") == (name == "TPUv3")
        by_form.append(read_runtime_us(out))
    assert len({*by_form}) == 1
    assert configs.load_node(published).name == {"TPUv3": "TPUv3_core"}.get(name, name)
    assert generate(ROOT / f"configs/nodes/{name}.json") == 0  # the form of hespas


@pytest.mark.parametrize("name", NODES)
def test_a_shipped_node_has_the_published_rates(name):
    """Other numbers are corrections: dense rates of B200, one core of TPU v3 by its data sheet."""
    shipped = json.loads((ROOT / f"configs/nodes/{name}/roofline/config.json").read_text())
    hardware = shipped["perf_estimator"]["hardware"]
    assert hardware["memory_bandwidth"] == pytest.approx(NODES[name]["bandwidth"], 0.05)
    rates = list_rates(NODES[name])
    own = hardware["per_datatype_flops"]
    ratio = own["f16"] / rates.get("f16", NODES[name]["peak"])
    assert ratio == pytest.approx(0.5 if "wrong" in NODES[name] else 1, 0.03)
    for dtype in {"tf32", "bf16"} & rates.keys():
        assert own[dtype] / rates[dtype] == pytest.approx(ratio, 0.01)


def test_a_node_by_a_wrong_name(place, capsys):
    assert generate("A100_SXM_40G") == 2
    err = capsys.readouterr().err
    assert "no preset is named 'A100_SXM_40G'; did you mean 'A100_SXM_40GB'?" in err
    assert generate("configs/nodes/A100/roofline/config.json") == 1
    assert "cannot read it: No such file" in capsys.readouterr().err


def test_tpuv3_is_a_core_in_the_published_commands_and_a_chip_in_run(place, capsys):
    step = ("--mlir", "step.mlir", "--output", "out", "--estimator", "roofline", "--json")
    core, chip = (configs.load_node(name) for name in ("TPUv3_core", "TPUv3"))
    nodes = {
        "configs/nodes/TPUv3/roofline/config.json": core, "TPUv3_core": core, "TPUv3": chip,
    }  # fmt: skip
    times = {}
    for name, node in nodes.items():
        assert configs.load_node(name).memory_bandwidth_bytes_per_s == (
            node.memory_bandwidth_bytes_per_s
        )
        assert run_tool_main(hespas.main, ["run", "--node", name, *step]) == 0
        out, err = capsys.readouterr()
        times[name] = json.loads(out)["compute_s"]
        note = "TPUv3 is the chip; the published preset of this name is one core, TPUv3_core"
        assert (note in err) == (node is chip)
    path, name, chip_name = times.values()
    assert path == pytest.approx(name, 0.3) and name == pytest.approx(2 * chip_name)
    for argument in ("TPUv3", "configs/nodes/TPUv3/roofline/config.json"):
        assert generate(argument) == 0
        out, err = capsys.readouterr()
        assert read_runtime_us(out) == pytest.approx(path * 1e6, 1e-3)
        assert "TPUv3 is one core of the chip" in err


def test_the_splitter_takes_a_preset(place, capsys):
    argv = ["A100_SXM_40GB", "--mlir_file", "step.mlir", "--output", "out"]
    assert run_tool_main(hespas_mlir_splitter.main, argv) == 0
    assert "Number of splits: 3" in capsys.readouterr().out


@pytest.mark.parametrize("row", SYSTEMS, ids=lambda row: row[0])
def test_a_published_system(row, tmp_path, monkeypatch):
    """Its three files are there, have the published numbers, and are read from each path."""
    name, dimensions, local_mem_bw = row
    columns = zip(*(part.split(" ") for part in dimensions.split(";")), strict=True)
    topology, counts, bandwidth, latency, algorithms = columns
    folder = ROOT / "configs" / "systems" / name
    network = read_simple_yaml(folder / "astra-sim" / "network.yml")
    assert network == {
        "topology": list(topology),
        "npus_count": [int(count) for count in counts],
        "bandwidth": [float(rate) for rate in bandwidth],
        "latency": [float(value) for value in latency],
    }
    settings = json.loads((folder / "astra-sim" / "system.json").read_text())
    assert {tuple(settings[f"{kind}-implementation"]) for kind in ("all-reduce", "all-to-all")} == {
        algorithms
    }
    assert settings["local-mem-bw"] == float(local_mem_bw or 450)
    memory = json.loads((folder / "astra-sim" / "remote_memory.json").read_text())
    assert memory == {"memory-type": "NO_MEMORY_EXPANSION"}
    monkeypatch.chdir(tmp_path)
    published = f"configs/systems/{name}"
    for form in (name, published, f"{published}/astra-sim", f"{published}/astra-sim/system.json",
                 str(folder), str(folder / "astra-sim")):  # fmt: skip
        system = configs.load_system(form)
        assert (system.name, system.npus_count) == (name, tuple(network["npus_count"]))
        assert configs.read_system_provenance(system)["description"]


def test_a_pattern_of_published_folders(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert sweep_grid.find_systems("configs/systems/H*_4GPU") == [
        "configs/systems/H100_80GB_4GPU",
        "configs/systems/H200_141GB_4GPU",
    ]


def test_a_published_system_without_local_memory(tmp_path):
    """Those of TPU v3 have none, so that ASTRA-sim charges reductions nothing."""
    folder = tmp_path / "TPUv3_2" / "astra-sim"
    folder.mkdir(parents=True)
    shipped = ROOT / "configs" / "systems" / "TPUv3_2" / "astra-sim"
    for file in ("network.yml", "remote_memory.json"):
        (folder / file).write_text((shipped / file).read_text())
    settings = json.loads((shipped / "system.json").read_text())
    (folder / "system.json").write_text(json.dumps({**settings, "roofline-enabled": 1}))
    assert configs.load_system(str(folder.parent)).local_mem_bw_gb_s == 450
    del settings["local-mem-bw"]
    (folder / "system.json").write_text(json.dumps(settings))
    system = configs.load_system(str(folder.parent))
    assert "reductions take no time" in " ".join(system.notes)
    (folder / "system.json").write_text(json.dumps({**settings, "roofline-enabled": 1}))
    with pytest.raises(HespasError, match="roofline-enabled needs the key 'local-mem-bw'"):
        configs.load_system(str(folder.parent))


GPUS = ("A100_SXM_40GB", "H100_80GB", "H200_141GB", "B200_180GB")
EXPERIMENTS = [  # node's configuration, system, devices
    *((f"{gpu}/roofline", f"{gpu}_4GPU", 4) for gpu in GPUS),  # llama3 and resnet, roofline
    ("TPUv3/roofline", "TPUv3_4_2", 8),
    ("TPUv3/cocossim", "TPUv3_4_2", 8),
]


@pytest.mark.parametrize(("node", "system", "devices"), EXPERIMENTS)
def test_an_experiment(place, capsys, node, system, devices):
    """What its ``run_exp.sh`` does: copy both presets, estimate, simulate, and read two lines."""
    config, mlir = Path("estimator_config.json"), "step.mlir" if devices == 4 else "eight.mlir"
    config.write_text((ROOT / f"configs/nodes/{node}/config.json").read_text())
    flags = ("--split_fn", "individual_split", "--num_npus", str(devices), "--merge")
    code = generate(config, *flags, mlir=mlir)
    out, err = capsys.readouterr()
    if node == "TPUv3/cocossim":
        assert code == 1 and err.count("\n") == 2
        assert "COCOSSim is not found" in err and "build it from github.com/mc186/cocossim" in err
        return
    assert code == 0 and "warning" not in err
    for line in ("flops/s utilisation:", "memory bandwidth utilisation:"):
        (printed,) = [text for text in out.splitlines() if line in text.lower()]
        assert 0 < float(printed.split(":")[1]) <= 1
    copied = Path("astrasim")
    copied.mkdir()
    for file in (ROOT / f"configs/systems/{system}/astra-sim").iterdir():
        (copied / file.name).write_text(file.read_text())
    result = simulate_folder(
        Path("out"), configs.load_system(str(copied)), SimulatorChoice("embedded")
    )
    assert len(result.devices) == devices and result.step_time_ns > 0


@pytest.mark.parametrize("module", ["src.hespas", "hespas"])
def test_the_module_that_experiments_start(module, tmp_path):
    (tmp_path / "step.mlir").write_text(PROGRAM)
    command = [
        sys.executable, "-m", f"{module}.hespas_chakra_gen",
        "configs/nodes/A100_SXM_40GB/roofline/config.json", "--mlir_file", tmp_path / "step.mlir",
        "--output", tmp_path / "out", *MERGED, "--num_npus", "4",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert re.fullmatch(r"Took \d+\.\d+s", done.stdout.splitlines()[-1])  # profiling's run_exp.sh


def test_the_experiment_of_cocossim_with_its_program(place, capsys, monkeypatch):
    memory = place / "cocossim" / "dramsim3" / "configs" / "HBM2_8Gb_x128.ini"
    memory.parent.mkdir(parents=True)
    memory.write_text("channels = 8")
    (place / "cocossim" / "build").mkdir()
    program(place / "cocossim" / "build" / "perf_model", COCOSSIM.format(log=str(place / "log")))
    monkeypatch.setenv("PATH", str(place / "cocossim" / "build"), prepend=":")
    hardware = {"roofline": build_hardware("TPUv3"), **FACTS["cocossim"]}
    for config in (write_published_node("TPUv3", "cocossim", hardware), "TPUv3/cocossim"):
        assert generate(config, *MERGED) == 0
        assert (place / "log").read_text() == "Matmul 64 256 256 1 128 1024 1 0.94\n"
    assert "TPUv3 is one core" in capsys.readouterr().err
    # One rate for all types: the clock of an f32 product is the same.
    Path("step.mlir").write_text(PROGRAM.replace("bf16", "f32"))
    Path("log").unlink()
    config = write_published_node("core", "cocossim", {**hardware, "disable_cache": True})
    assert generate(config, *MERGED) == 0
    assert (place / "log").read_text() == "Matmul 64 256 256 1 128 1024 1 0.94\n"


def write_onnxim_config(**changes):
    """Write the configuration and the device of the experiment ``tpu_matmul``."""
    hardware = {**FACTS["onnxim"]["config"], **changes}
    values = {
        "mlir_file": "big.mlir",
        "split_strategy": "individual_split",
        "clean": False,
        "perf_estimator": {"method": "onnxim", "hardware": hardware},
        "output_dir": "output",
    }
    Path("config_onnxim_tpuv3.json").write_text(json.dumps(values))
    Path(hardware["device_path"]).write_text(json.dumps(FACTS["onnxim"]["device"]))
    Path("big.mlir").write_text(PRODUCT.replace("64", "512").replace("f32", "bf16"))
    return "config_onnxim_tpuv3.json"


def test_the_experiment_of_onnxim_needs_onnxim(place, capsys):
    assert run_tool_main(hespas_chakra_gen.main, [write_onnxim_config()]) == 1
    err = capsys.readouterr().err.splitlines()[-1]
    assert "Simulator is not on PATH" in err and not Path("output").exists()
    assert err.endswith("build it from github.com/PSAL-POSTECH/ONNXim")


def test_the_experiment_of_onnxim_with_its_program(place, capsys, monkeypatch):
    """940000000 Hz is 0.94 GHz; the home folder is above the program, which is on PATH."""
    home = place / "ONNXim"
    for file in ("ramulator2_configs/HBM2.yaml", "booksim2_configs/fly_c4_m32.icnt"):
        (home / "configs" / file).parent.mkdir(parents=True, exist_ok=True)
        (home / "configs" / file).write_text("")
    (home / "build" / "bin").mkdir(parents=True)
    program(home / "build" / "bin" / "Simulator", onnxim(place / "log", ""))
    monkeypatch.setenv("PATH", str(home / "build" / "bin"), prepend=":")
    times, notes = [], []
    for changes in ({}, {"frequency": 0.94}, {"engine_path": str(home), "output_dir": "onnx"}):
        config = write_onnxim_config(**changes)
        assert run_tool_main(hespas_chakra_gen.main, [config]) == 0
        out, err = capsys.readouterr()
        times.append(read_runtime_us(out))
        notes.append(err)
    assert times == [pytest.approx(9283 / 940, 1e-3)] * 3  # cycles of the core's clock
    assert "0.94 is read as GHz" in notes[1] and "read as GHz" not in notes[0]
    assert "output_dir: no effect, because the files of a simulation are temporary" in notes[2]
    assert run_tool_main(hespas_chakra_gen.main, [write_onnxim_config(frequency=1e9)]) == 0
    err = capsys.readouterr().err
    assert "frequency: 1 GHz is not the 0.94 GHz of core_freq" in err


FIXTURES = sorted((ROOT / "tests" / "fixtures" / "configs").glob("*.json"))
DEVICES = {"config_roofline_a100": 64, "config_iree_x64_64": 64, "config_xla_gpu_03": 4}


@pytest.mark.slow
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_a_fixture_runs(path, place, capsys):
    """Those of XLA need a GPU, and say so. The program is one of one device."""
    pytest.importorskip("jax" if "xla" in path.stem else "iree.compiler" if "iree" in path.stem
                        else "hespas")  # fmt: skip
    Path("tests").symlink_to(ROOT / "tests")
    code = run_tool_main(hespas_chakra_gen.main, [str(path)])
    out, err = capsys.readouterr()
    if "no cuda device was found" in err:
        assert code == 1 and "xla" in path.stem
        return
    assert code == 0, err
    output = json.loads(path.read_text())["output_dir"]
    assert f"Done. Output directory: {output}" in out
    assert len([*Path(output).glob("dev.*.et")]) == DEVICES[path.stem]
    assert "own rate" not in err
    assert ("--form fuse to hespas run CONFIG" in err) == ("roofline" in path.stem)


def test_the_power_of_the_resnet_fixture(place, capsys):
    hardware = {
        "peak_flops": 312e12, "memory_bandwidth": 1935e9, "num_npus": 4, "tdp_W": 1600,
        "hbm_power_ratio": 0.25, "in_memory_only_cache": True,
    }  # fmt: skip
    path = Path("config.json")
    for changes, has_energy in (({}, True), ({"tdp_W": 0, "hbm_power_ratio": 0}, False)):
        estimator = {"method": "roofline", "hardware": {**hardware, **changes}}
        path.write_text(json.dumps({"perf_estimator": estimator}))
        assert generate(path) == 0
        assert ("Total energy: " in capsys.readouterr().out) == has_energy


# Cycles of ZigZag 3.9.1 for 64 x 64 x 64, with elements of 8 bits and sums of 16, as its own
# interface with ONNX has them for any type; 458,816 of the cell below are that interface's too.
ZIGZAG = {
    "tpu_like.yaml": "tpu_like.yaml",  # names of ZigZag
    "tpuv3_like.yaml": "tpuv3_like.yaml",  # the default, which hespas has
    None: None,
    "tpuv3_like_1core.yaml": "mn.yaml",  # files with loops M and N
    "tests/tpu_like.yaml": "mixed.yaml",
}
MAPPINGS = {
    "mn.yaml": '- {name: Gemm, spatial_mapping: {D1: ["M, 128"], D2: ["N, 128"]},\n'
    "   memory_operand_links: {O: O, W: I2, I: I1}}\n"
    '- {name: default, spatial_mapping: {D1: ["M, 128"], D2: ["N, 128"]},\n'
    "   memory_operand_links: {O: O, W: I2, I: I1}}\n",
    "mixed.yaml": "- {name: default,\n"
    '   spatial_mapping: {D1: ["K, 32"], D2: ["C, 2", "FX, 3", "FY, 3"]},\n'
    "   memory_operand_links: {O: O, W: I2, I: I1}}\n",
}


def write_one_core(path):
    """Write the fixture of one core: registers of 32 bits, 16 MiB of SRAM, 16 GiB of memory."""
    text = (ROOT / "configs/zigzag/accelerators/tpuv3_like.yml").read_text()
    numbers = {"4096": "32", "2048": "32", "33554432": "134217728", "17179869184": "137438953472"}
    pattern = re.compile(rf"\b({'|'.join(numbers)})\b")
    Path(path).write_text(pattern.sub(lambda number: numbers[number[1]], text))


@pytest.mark.slow
@pytest.mark.parametrize("accelerator", ZIGZAG)
def test_a_fixture_of_zigzag_runs(accelerator, place, capsys):
    pytest.importorskip("six")
    zigzag = pytest.importorskip("zigzag")
    write_one_core("tpuv3_like_1core.yaml")
    shipped = Path(zigzag.__file__).parent / "inputs" / "hardware" / "tpu_like.yaml"
    Path("tests").mkdir()
    Path("tests/tpu_like.yaml").write_text(shipped.read_text())
    for name, text in MAPPINGS.items():
        Path(name).write_text(text)
    names = {"accelerator": accelerator, "mapping": ZIGZAG[accelerator]} if accelerator else {}
    roofline = {"peak_flops": 12e13, "memory_bandwidth": 9e11}
    times = []
    for clock in ({"frequency": 940000000}, {"frequency": 0.94}, {}):
        hardware = {"roofline": roofline, **names, **clock, "disable_cache": True}
        estimator = {"method": "zigzag_onnx", "hardware": hardware}
        Path("config.json").write_text(json.dumps({"perf_estimator": estimator}))
        assert generate("config.json", mlir="product.mlir") == 0
        times.append(read_runtime_us(capsys.readouterr().out))
    assert times[0] == times[1] == pytest.approx(times[2] / 0.94, abs=0.002)
    assert times[2] * 1000 >= 64**3 / 128**2  # cycles at 1 GHz


@pytest.mark.slow
def test_zigzags_cycles_are_those_of_the_published_path(place, capsys):
    """458,816 cycles for 512 x 1024 x 768, of any type, as ZigZag's interface with ONNX has it."""
    pytest.importorskip("six")
    pytest.importorskip("zigzag")
    text = PRODUCT.replace("%x: tensor<64x64", "%x: tensor<512x1024")
    text = text.replace("%w: tensor<64x64", "%w: tensor<1024x768").replace(
        "-> tensor<64x64", "-> tensor<512x768"
    )
    text = text.replace(
        "(tensor<64x64xf32>, tensor<64x64xf32>)", "(tensor<512x1024xf32>, tensor<1024x768xf32>)"
    )
    Path("product.mlir").write_text(text.replace("%0 : tensor<64x64", "%0 : tensor<512x768"))
    flags = ["--accelerator", "tpu_like.yaml", "--mapping", "tpu_like.yaml", "--disable-cache",
             "--roofline-peak-flops", "12e13", "--roofline-memory-bandwidth", "9e11"]  # fmt: skip
    argv = ["--mlir-file", "product.mlir", "--frequency", "940000000", *flags]
    assert estimator_command.run_estimator_command("zigzag_onnx", argv) == 0
    assert read_runtime_us(capsys.readouterr().out) == pytest.approx(458_816 / 940, 1e-5)


@pytest.mark.parametrize("name", ["none.yaml", "sub/none.yaml"])
def test_a_description_that_zigzag_lacks(place, capsys, name):
    hardware = {"roofline": build_hardware("TPUv3"), "accelerator": name, "mapping": name}
    path = Path("config.json")
    estimator = {"method": "zigzag_onnx", "hardware": hardware}
    path.write_text(json.dumps({"perf_estimator": estimator}))
    assert generate(path, mlir="product.mlir") != 0
    assert f"{name} cannot be read: No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("method", "keys"),
    [
        ("iree", {"iree_compile": "/usr/bin/iree-compile", "iree_benchmark": "b", "compile": {}}),
        ("xla", {"hlo_runner_main_path": "hlo_runner_main", "xla_translate_path": "x",
                 "translate": {}}),
        ("roofline", {**build_hardware("TPUv3"), "type": "tpu", "warn_on_unknown_type": None}),
    ],
)  # fmt: skip
def test_keys_of_the_published_options_are_known(place, method, keys):
    from hespas.tools.published import published_config

    estimator = {"method": method, "hardware": keys}
    Path("config.json").write_text(json.dumps({"perf_estimator": estimator}))
    notes = " ".join(published_config.read_published_config("config.json", {}).notes)
    for key in {"iree_compile", "iree_benchmark", "hlo_runner_main_path", "type"} & keys.keys():
        assert key in notes


def run_optimiser(*flags):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", str(ROOT / "scripts" / "xla_optimiser.sh"), *flags]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": path})


@pytest.mark.slow
def test_the_script_that_optimises(place, capsys):
    """The configuration that XLA dumps names the device, which is that of a preset."""
    try:
        get_compiler_library("gpu")
    except HespasError as error:
        pytest.skip(error.message)
    assert run_tool_main(hespas.main, ["presets", "targets", "A100_SXM_40GB", "--txtpb"]) == 0
    dumped = Path("module_0014.jit_train_step.gpu_target_config.pbtxt")
    dumped.write_text(capsys.readouterr().out)
    passes = "async-collective-conversion,gpu-reduce-scatter-combiner,spmd-partitioning"
    done = run_optimiser("-i", "step.mlir", "-o", "opt.mlir", "-g", str(dumped), "-d", passes)
    assert done.returncode == 0, done.stderr
    assert "mhlo.fusion" in Path("opt.mlir").read_text()
    assert generate("A100_SXM_40GB", *MERGED, mlir="opt.mlir") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        ((), 2, "error: -i PROGRAM is missing"),
        (("-i", "step.mlir", "-o"), 2, "error: -o needs a value"),
        (("--docker",), 2, "there is no container image"),
        (("-x",), 2, "unknown argument '-x'"),
        (("-i", "none.mlir", "-o", "x", "-g", "none.pbtxt"), 1, "none.mlir: error: cannot read"),
    ],
)
def test_what_the_script_refuses(place, flags, code, message):
    done = run_optimiser(*flags)
    assert done.returncode == code and message in done.stderr and not done.stdout
