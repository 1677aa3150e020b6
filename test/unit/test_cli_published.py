"""The published tools' names: flags, configuration files, printed lines."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.output_files import claim_files, read_output_files
from support.published_inputs import HARDWARE, PROGRAM, write_config
from support.simulator_programs import COCOSSIM, onnxim, program

from hespas.dialects.mlir import ir
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main
from hespas.tools.published import (
    estimator_command,
    hespas_chakra_gen,
    hespas_mlir_analyzer,
    hespas_mlir_splitter,
    published_config,
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("step.mlir").write_text(PROGRAM)
    return tmp_path


def lines(text):
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


def test_analyzer_prints_the_published_lines(place, capsys):
    assert run_tool_main(hespas_mlir_analyzer.main, ["step.mlir"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "  stablehlo.dot_general.........:     2" in out
    assert out[0] == "MLIR Analysis Results:"
    assert out[2:5] == ["Unique Operators   : 4", "", "Operator Histogram:"]
    assert out[-1] == "  Total Operators...............:     6"
    assert run_tool_main(hespas_mlir_analyzer.main, ["-f", "csv", "-e", "-s", "step.mlir"]) == 0
    assert "stablehlo.all_reduce(tensor<64x256xbf16>),1" in capsys.readouterr().out
    assert run_tool_main(hespas_mlir_analyzer.main, ["-f", "xml", "step.mlir"]) == 2
    assert capsys.readouterr().err == "error: unknown format 'xml'; known: table, csv\n"


def test_splitter_writes_pieces_that_parse(place, capsys, context):
    Path("out").mkdir()
    for stale in ("mini_module_7.mlir", "mini_module_7.json"):
        Path("out", stale).write_text("")
    claim_files("out", "mini modules")
    Path("out", "mine.txt").write_text("")
    config = write_config(estimator={"method": "xla", "hardware": {"translate": {}}})
    assert run_tool_main(hespas_mlir_splitter.main, [config, "--print_meta"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Parsing MLIR file: step.mlir\nOutput path: out\nNumber of splits: 3\n")
    assert '"collective": "stablehlo.all_reduce"' in out
    names = read_output_files("out").keys()
    assert names == {f"mini_module_{i}.{e}" for i in range(3) for e in ("mlir", "json")} | {
        "mine.txt"
    }
    kinds = []
    for i in range(3):
        meta = json.loads(Path(f"out/mini_module_{i}.json").read_text())
        assert meta["id"] == i and meta["parent_module"] == "step.mlir"
        module = ir.Module.parse(Path("out", meta["module_file"]).read_text(), context)
        main = module.body.operations[0]
        assert main.sym_name.value == "main"
        assert [str(t) for t in main.type.inputs] == meta["input_dims"]
        assert [str(t) for t in main.type.results] == meta["output_dims"]
        kinds.append((meta["block_type"], meta["op_count"]))
    assert kinds == [("COMP_NODE", 2), ("COMM_COLL_NODE", 1), ("COMP_NODE", 2)]


@pytest.mark.parametrize(
    ("keys", "pieces"),
    [
        ({"split_strategy": "individual_split"}, 5),
        ({"split_strategy": "individual_split", "merge": True}, 3),
        ({"block_lim": 1}, 5),
        ({"separator": "is_dot_general_op", "separator_policy": "END_BLOCK"}, 5),
    ],
)
def test_splitter_takes_the_configured_split(place, capsys, keys, pieces):
    assert run_tool_main(hespas_mlir_splitter.main, [write_config(**keys)]) == 0
    assert f"Number of splits: {pieces}" in capsys.readouterr().out


def test_chakra_gen_prints_results_on_stdout_and_log_on_stderr(place, capsys):
    config = write_config(disable_cache=True, num_threads=4)
    argv = [config, "--num_npus", "4", "--split_fn", "individual_split", "--merge"]
    assert run_tool_main(hespas_chakra_gen.main, argv) == 0
    out, err = capsys.readouterr()
    printed = lines(out)
    assert "disable_cache: no effect, because equal regions" in err and "num_threads" in err
    assert printed["Basic block reuse rate"] == "0.500 (1/2)"
    assert printed["Operator reuse factor"] == "0.500 (2/4)"
    # Each dot: 2*64*256*256 FLOP, (2*64*256 + 256*256) * 2 B; each tanh: 64*256*2*2 B.
    seconds = 2 * ((2 * 64 * 256 + 256 * 256) * 2 + 64 * 256 * 2 * 2) / 1555e9
    assert printed["Compute Runtime Estimation"] == f"{seconds * 1e6:.3f} us"
    assert printed["Memory bandwidth utilisation"] == "1.000"
    assert 0 < float(printed["FLOPS/s utilisation"]) < 1
    assert printed["    stablehlo.dot_general"].strip() > "0.7"
    assert printed["Done. Output directory"] == "out"
    written = read_output_files("out")
    traces = {f"dev.{i}.et" for i in range(4)}
    assert written.keys() == traces | {"comm_group.json", "module_stats.json"}
    assert run_tool_main(hespas_chakra_gen.main, [*argv, "--log-level", "warning"]) == 0
    second_output = capsys.readouterr()
    assert second_output.err == ""
    assert second_output.out.splitlines()[:-1] == out.splitlines()[:-1]
    assert re.fullmatch(r"Took \d+\.\d{3}s", out.splitlines()[-1])
    assert read_output_files("out") == written


LOCAL = """
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<64x256xf32>) -> tensor<64x256xf32> {
    %0 = stablehlo.tanh %x : tensor<64x256xf32>
    return %0 : tensor<64x256xf32>
  }
}
"""


def test_a_program_of_one_device_runs_on_each_of_num_npus(place, capsys):
    Path("step.mlir").write_text(LOCAL)
    assert run_tool_main(hespas_chakra_gen.main, [write_config(hardware={"num_npus": 64})]) == 0
    out, err = capsys.readouterr()
    assert "64 devices run the program of one device without communication" in err
    assert lines(out)["Compute Runtime Estimation"] == f"{2 * 64 * 256 * 4 / 1555e9 * 1e6:.3f} us"
    assert len(list(Path("out").glob("dev.*.et"))) == 64


@pytest.mark.parametrize("method", ["xla", "iree"])
def test_sample_is_a_switch_or_a_number(place, method):
    for sample, repetitions in ((False, None), (True, None), (7, 7)):
        config = write_config(estimator={"method": method, "hardware": {"sample": sample}})
        read = published_config.read_published_config(config, {})
        assert read.method.to_estimator_settings().get("repetitions") == repetitions
        assert ("sample: no effect as a switch" in " ".join(read.notes)) == (repetitions is None)


@pytest.mark.parametrize("key", ["target-backends", "target_backend"])
def test_the_target_has_two_spellings(place, key):
    config = write_config(estimator={"method": "xla", "hardware": {"translate": {key: "cuda"}}})
    read = published_config.read_published_config(config, {})
    assert read.method.to_estimator_settings() == {"device": "cuda"}


METHODS = ("roofline", "xla", "iree", "cocossim", "onnxim", "zigzag_onnx")


@pytest.mark.parametrize("method", METHODS)
def test_published_estimator_commands_name_what_to_use(method):
    command = [sys.executable, "-m", f"hespas.estimator.{method}_estimator", "--config-file", "c"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    estimator = method.removesuffix("_onnx")
    assert f"hespas run --mlir FILE --estimator {estimator}" in done.stderr


def estimate(method, *flags):
    return run_tool_main(
        lambda argv: estimator_command.run_estimator_command(method, argv), [*flags]
    )


def test_an_estimator_command_estimates_without_traces(place, capsys):
    """By a file, by flags that override it, or by flags alone."""
    assert run_tool_main(hespas_chakra_gen.main, [write_config()]) == 0
    wanted = lines(capsys.readouterr().out)["Compute Runtime Estimation"]
    table = json.dumps(HARDWARE["per_datatype_flops"])
    rates = ("--peak-flops", "9.7e12", "--per-datatype-flops", table)
    for flags in (
        ("--config-file", "config.json"),
        ("--config-file", write_config("slow.json", hardware={"memory_bandwidth": 1}),
         "--memory-bandwidth", "1555e9"),
        ("--mlir-file", "step.mlir", *rates, "--memory-bandwidth", "1555e9"),
    ):  # fmt: skip
        assert estimate("roofline", *flags) == 0
        printed = capsys.readouterr().out
        assert lines(printed)["Compute Runtime Estimation"] == wanted
        seconds = re.fullmatch(r"Execution of module completed: (.*)s", printed.splitlines()[-1])
        assert float(seconds[1]) == pytest.approx(float(wanted[:-3]) * 1e-6, rel=1e-3)
    assert estimate("roofline", "--config-file", "A100_SXM_40GB", "--mlir-file", "step.mlir") == 0
    assert {path.name for path in Path().iterdir()} == {
        "config.json", "out", "slow.json", "step.mlir"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "flags", "message"),
    [
        ("roofline", (), "no device is given; name a --config-file; hespas run --mlir FILE"),
        ("roofline", ("--memory-bandwidth", "x", "--peak-flops", "1"),
         "flags: error: 'perf_estimator.hardware.memory_bandwidth' is \"x\""),
        ("xla", ("--config-file", "config.json"), "config.json: error: the file is not of"),
        ("cocossim", ("--config-file", "TPUv3/cocossim", "--mlir-file", "step.mlir"),
         "build it from github.com/mc186/cocossim"),
        ("onnxim", ("--roofline-peak-flops", "1e12", "--roofline-memory-bandwidth", "1e12",
                    "--frequency", "940", "--mlir-file", "step.mlir"),
         "flags: error: 'perf_estimator.hardware.frequency' is \"940\""),
        ("roofline", ("--per-datatype-flops", "{bf16}"), "{bf16} is not valid JSON"),
        ("roofline", ("--config-file", "number.json", "--peak-flops", "1"),
         "number.json: error: 'perf_estimator' is 5"),
    ],
)  # fmt: skip
def test_what_an_estimator_command_cannot_do_is_named(
    place, capsys, monkeypatch, method, flags, message
):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("HESPAS_COCOSSIM", raising=False)
    write_config()
    write_config("number.json", perf_estimator=5)
    assert estimate(method, *flags) in (1, 2)
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_one_rate_is_meant_for_all_types(place, capsys):
    """Types are reported where a table lacks them, or where the file asks for it."""
    rate = {"peak_flops": 1e12, "memory_bandwidth": 1e12}
    table = {"per_datatype_flops": {"f32": 1e12}}
    for hardware, is_reported in (
        (rate, False),
        ({**rate, "warn_on_unknown_type": True}, True),
        ({**rate, **table}, True),
        ({**rate, **table, "warn_on_unknown_type": False}, False),
    ):
        config = method("roofline", hardware)
        assert run_tool_main(hespas_chakra_gen.main, [config]) == 0
        assert ("config has no own rate for this type: matrix.bf16" in capsys.readouterr().err) == (
            is_reported
        )
    flags = ["--setting", "peak_flops=1e12", "--setting", "memory_bandwidth=1e12"]
    argv = ["run", "--mlir", "step.mlir", "--estimator", "roofline", "--output", "run", *flags]
    assert run_tool_main(hespas.main, argv) == 0
    assert "no own rate" not in capsys.readouterr().err


def test_a_configuration_without_a_device_contradicts_no_program(place, capsys):
    """Nobody knows whether it is the device that XLA has optimised the program for."""
    optimised = PROGRAM.replace(
        "attributes {", 'attributes {hespas.facts = {optimised_for = "A100_SXM_40GB"}, '
    )
    Path("step.mlir").write_text(optimised)
    flags = ("--mlir_file", "step.mlir", "--output", "out")
    for config, is_other in ((write_config(), False), ("A100_SXM_40GB", False),
                             ("H100_80GB", True)):  # fmt: skip
        assert run_tool_main(hespas_chakra_gen.main, [config, *flags]) == 0
        err = capsys.readouterr().err
        assert ("XLA has optimised the program for A100_SXM_40GB, and the node" in err) == is_other
        assert ("--form fuse to hespas run CONFIG" in err) == is_other


def test_clean_removes_our_outputs_only(place, capsys):
    Path("out").mkdir()
    for name in ("dev.9.et", "mini_module_7.mlir"):
        Path("out", name).write_text("old")
    claim_files("out", "mini modules")
    Path("out", "run.out").write_text("old")
    assert (
        run_tool_main(hespas_chakra_gen.main, [write_config(clean=True), "--log-path", "log"]) == 0
    )
    assert not Path("out/dev.9.et").exists() and not Path("out/mini_module_7.mlir").exists()
    assert Path("out/run.out").exists() and capsys.readouterr().err == ""
    Path("out/dev.9.et").write_text("mine")
    for main in (hespas_chakra_gen.main, hespas_mlir_splitter.main):
        code = 1 if main is hespas_chakra_gen.main else 0
        assert run_tool_main(main, [write_config(clean=True)]) == code
        assert Path("out/dev.9.et").read_text() == "mine"


def test_presets_configuration_needs_only_flags(place, capsys):
    config = write_config(mlir_file=None, output_dir=None)
    assert run_tool_main(hespas_chakra_gen.main, [config]) == 1
    assert "config.json: error: the key 'output_dir' is missing; or give --output" in (
        capsys.readouterr().err
    )
    argv = [config, "--mlir_file", "step.mlir", "--output", "there"]
    assert run_tool_main(hespas_chakra_gen.main, argv) == 0
    assert Path("there/dev.0.et").exists()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"split_stratgy": "linear_split"},
         "unknown key 'split_stratgy'; did you mean 'split_strategy'?"),
        ({"hardware": {"memory_bandwith": 1e9}},
         "unknown key 'perf_estimator.hardware.memory_bandwith'; did you mean 'memory_bandwidth'?"),
        ({"estimator": {"method": "xla"}},
         "unknown key 'perf_estimator.hardware.peak_flops'"),
        ({"estimator": {"method": "systolic"}},
         "is not an estimator of the published tools; hespas run --estimator systolic uses it"),
        ({"estimator": {"method": "xla", "hardware": {"translate": {"target-backends": "tpu"}}}},
         "'perf_estimator.hardware.translate.target-backends' is \"tpu\""),
        ({"estimator": {"method": "cocossim", "hardware": {}}},
         "the key 'perf_estimator.hardware.roofline' is missing"),
        ({"estimator": {"method": "cocossim", "hardware": {"roofline": {"memory_bandwith": 1}}}},
         "unknown key 'perf_estimator.hardware.roofline.memory_bandwith'; did you mean"),
        ({"estimator": {"method": "onnxim", "hardware": {"frequency": 940, "roofline": HARDWARE}}},
         "'perf_estimator.hardware.frequency' is 940"),
        ({"estimator": {"method": "rofline"}}, "did you mean 'roofline'?"),
        ({"perf_estimator": None}, "the key 'perf_estimator' is missing"),
        ({"split_strategy": "linear"},
         "'split_strategy' is 'linear'; did you mean 'linear_split'?"),
        ({"separator": "is_dot_op"}, "did you mean 'is_dot_general_op'?"),
        ({"separator_node_type": "comp_node"}, "collectives are communication"),
        ({"block_lim": "many"}, '\'block_lim\' is "many"'),
        ({"block_lim": -1}, "'block_lim' is -1: "),
        ({"hardware": {"peak_flops": 0}}, "'perf_estimator.hardware.peak_flops' is 0"),
        ({"hardware": {"num_npus": 8}}, "the program runs on 4 devices, but num_npus is 8"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_named(place, capsys, keys, message):
    assert run_tool_main(hespas_chakra_gen.main, [write_config(**keys)]) == 1
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
    assert not Path("out").exists()


def test_keys_without_effect_are_said(place):
    config = write_config(
        cache_dir="c", estimator={"in_memory_only_cache": True}, split_strategy="individual_split",
        block_lim=3,
    )  # fmt: skip
    notes = "\n".join(published_config.read_published_config(config, {}).notes)
    assert "cache_dir, in_memory_only_cache: no effect, because equal regions" in notes
    assert "block_lim: no effect on individual_split" in notes


def method(name, hardware, **keys):
    """A configuration with that estimator."""
    perf = {"method": name, "hardware": hardware}
    return write_config(perf_estimator=perf, disable_cache=True, **keys)


def test_cocossim_is_run_as_the_published_tool_runs_it(place, capsys):
    memory = place / "home" / "dramsim3" / "configs" / "HBM2_8Gb_x128.ini"
    memory.parent.mkdir(parents=True)
    memory.write_text("channels = 8")
    log = str(place / "log")
    binary = program(place / "home" / "perf_model", COCOSSIM.format(log=log))
    config = method("cocossim", {"cocossim_path": binary, "roofline": HARDWARE})
    assert run_tool_main(hespas_chakra_gen.main, [config]) == 0
    out, err = capsys.readouterr()
    assert Path(log).read_text() == "Matmul 64 256 256 1 128 1024 1 0.94\n"
    tanh = max(64 * 256 / (1024 * 0.94e9), 64 * 256 * 2 * 2 / 1555e9)
    seconds = 2 * (64_000 / 0.94e9 + tanh)
    assert lines(out)["Compute Runtime Estimation"] == f"{seconds * 1e6:.3f} us"
    assert "a vector unit of 1024 lanes" in err
    twice = {"cocossim_path": binary, "roofline": HARDWARE, "frequency": 1.5, "chips": 2}
    assert run_tool_main(hespas_chakra_gen.main, [method("cocossim", twice)]) == 0
    assert Path(log).read_text().splitlines()[1] == "Matmul 64 256 256 2 128 1024 1 1.5"


def test_onnxim_takes_its_home_from_the_device(place, capsys):
    core = place / "onnxim" / "configs" / "core.json"
    core.parent.mkdir(parents=True)
    core.write_text('{"core_freq": 1000, "dram_config_path": "memory.yaml"}')
    (core.parent / "memory.yaml").write_text("")
    binary = program(place / "Simulator", onnxim(place / "log", ""))
    hardware = {
        "binary_path": binary, "device_path": str(core), "frequency": 0.94, "roofline": HARDWARE,
    }  # fmt: skip
    assert run_tool_main(hespas_chakra_gen.main, [method("onnxim", hardware)]) == 0
    out, err = capsys.readouterr()
    assert 2 * 9.283 < float(lines(out)["Compute Runtime Estimation"].split()[0]) < 2 * 9.4
    assert "core_freq of device_path" in err


def test_a_simulator_that_is_not_there_is_one_line(place, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("HESPAS_COCOSSIM", raising=False)
    assert run_tool_main(hespas_chakra_gen.main, [method("cocossim", {"roofline": HARDWARE})]) == 1
    err = capsys.readouterr().err
    assert "COCOSSim is not found" in err and not Path("out").exists()


@pytest.mark.parametrize(
    ("name", "hardware", "estimator", "settings"),
    [
        ("xla", {"sample": 3, "translate": {"target-backends": ["CPU"]}},
         "xla", {"repetitions": 3, "device": "cpu"}),
        ("xla", {"xla_translate_path": "x", "translate": {"target-backends": "gpu"}},
         "xla", {"device": "cuda"}),
        ("iree", {"compile": {"device": "local-sync", "target-backends": "llvm-cpu",
                              "extra-args": ["--a=b", "--c"]}},
         "iree", {"driver": "local-sync", "target": "llvm-cpu", "flags": "--a=b --c"}),
        ("zigzag_onnx", {"accelerator": "tpu_like", "mapping": "m.yaml", "frequency": 1,
                         "roofline": HARDWARE},
         "zigzag", {"accelerator": "tpu_like", "mapping": "m.yaml", "clock_hz": 1e9}),
    ],
)  # fmt: skip
def test_methods_are_estimators_of_ours(place, name, hardware, estimator, settings):
    published = published_config.read_published_config(method(name, hardware), {})
    assert published.method is not None and published.method.estimator == estimator
    made = published.method.to_estimator_settings()
    assert {key: made[key] for key in settings} == settings
    (step,) = [
        step
        for step in published_config.build_published_plan(published).steps
        if step.name == f"{estimator}-annotate"
    ]
    assert all(getattr(step, key) == value for key, value in settings.items())


def test_the_cache_of_what_is_measured(place):
    perf = {"method": "xla", "hardware": {}}
    for keys, inner, cache in (
        ({}, {}, ""),
        ({"cache_dir": "c"}, {}, "c/measurements.sqlite"),
        ({"cache_dir": "c"}, {"cache_dir": "d"}, "d/measurements.sqlite"),
        ({"cache_dir": "c"}, {"disable_cache": True}, "none"),
        ({"in_memory_only_cache": True}, {"in_memory_only_cache": False, "cache_dir": "d"},
         "d/measurements.sqlite"),
    ):  # fmt: skip
        config = write_config(perf_estimator={**perf, "hardware": inner}, **keys)
        published = published_config.read_published_config(config, {})
        (step,) = [
            step
            for step in published_config.build_published_plan(published).steps
            if step.name == "xla-annotate"
        ]
        assert step.cache == cache
        assert not any("cached" in note for note in published.notes)


def test_regions_are_measured_by_xla(place, capsys):
    """A region that is measured as a whole has the names of its ops."""
    pytest.importorskip("jax")
    config = method("xla", {"sample": 1, "translate": {"target-backends": "cpu"}})
    assert run_tool_main(hespas_chakra_gen.main, [config, "--split_fn", "linear_split"]) == 0
    out = capsys.readouterr().out
    _, _, shares = out.partition("Op time proportions:\n")
    assert shares.splitlines()[0].split(":")[0].strip() == "stablehlo.dot_general, stablehlo.tanh"
    times = re.search(
        r"^Total estimator time taken vs cached time: (.*) s vs total time \(without caching\): "
        r"(.*) s \((.*) % reduction\)$", out, re.M,
    )  # fmt: skip
    taken_s, uncached_s, reduction = map(float, times.groups())
    assert 0 < taken_s < uncached_s and reduction == pytest.approx(
        100 * (1 - taken_s / uncached_s), abs=0.1
    )
    assert "utilisation" not in out and float(lines(out)["Compute Runtime Estimation"][:-3]) > 0
    assert run_tool_main(hespas.main, ["show", "out"]) == 1  # the published tool leaves no module


def test_flags_of_run_are_heeded(place, capsys):
    """``--fuse``, ``--setting`` and ``--jobs`` change a published configuration, or are refused."""
    first = "%1 = stablehlo.tanh %0 : tensor<64x256xbf16>"
    assert first in PROGRAM
    two = f"{first.replace('%1', '%t')}\n{first.replace('%0', '%t')}"
    Path("step.mlir").write_text(PROGRAM.replace(first, two))
    config = write_config()
    assert run_tool_main(hespas.main, ["run", config, "--fuse", "--json"]) == 0
    fused = json.loads(capsys.readouterr().out)
    assert "mhlo.fusion" in fused["compute_s_by"]["op"]
    assert run_tool_main(hespas.main, ["run", config, "--form", "fuse", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compute_s"] == fused["compute_s"]
    assert (
        run_tool_main(hespas.main, ["run", config, "--setting", "memory_bandwidth=1e9", "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["compute_s"] > 10 * fused["compute_s"]
    assert run_tool_main(hespas.main, ["run", config, "--jobs", "2"]) == 2
    assert "roofline does not" in capsys.readouterr().err
    assert run_tool_main(hespas.main, ["run", config, "--estimator", "xla"]) == 2
    assert "does not go with the published file" in capsys.readouterr().err


# The published run on its own export: 268 blocks, FLOP/s 0.362 and bandwidth 0.847 of the peak.
# Ours charges bitcasts nothing and gathers what they touch: docs/how-to/published-tools.md.
def test_llama_is_near_the_published_result(workload, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    program = str(workload("llama3/llama3-100m-opt-a100.mlir"))
    argv = [write_config(mlir_file=program), "--split_fn", "individual_split", "--merge"]
    assert run_tool_main(hespas_chakra_gen.main, argv) == 0
    printed = lines(capsys.readouterr().out)
    assert 45_000 < float(printed["Compute Runtime Estimation"].split()[0]) < 58_000
    assert 0.3 < float(printed["FLOPS/s utilisation"]) < 0.5
    assert 0.75 < float(printed["Memory bandwidth utilisation"]) < 0.95
