"""Running ONNXim in a worker process.

The home folder of ONNXim contains ``configs`` and a folder per model. So each run has a temporary
home with a link to ``configs`` and a model of one product. ONNXim is built in ``build/bin`` of its
own home folder, with its libraries in ``build/lib``.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from hespas.estimators.accelerators.onnxim_model import build_matmul_model
from hespas.plugin import (
    ExternalProgram,
    HespasError,
    UnsupportedError,
    create_private_folder,
    hash_file_contents,
    read_json,
)

ONNXIM = ExternalProgram(
    "ONNXim", ("Simulator", "onnxim"), "HESPAS_ONNXIM", "github.com/PSAL-POSTECH/ONNXim"
)
LIBRARY_VARIABLE = "LD_LIBRARY_PATH"
HOME_VARIABLE, CONFIG_VARIABLE = "ONNXIM_HOME", "HESPAS_ONNXIM_CONFIG"
DEFAULT_CONFIG = "systolic_ws_128x128_c4_simple_noc_tpuv4.json"
REFERENCED_FILE_KEYS = ("dram_config_path", "icnt_config_path")  # of files in configs/
MODEL_NAME = "product"


def probe_simulator(settings: dict[str, Any]) -> dict[str, Any]:
    """Identify the program and its configuration by a hash; raises HespasError."""
    program = ONNXIM.configure_environment(settings["binary"], settings["time_limit"])
    named = settings["home"] or os.environ.get(HOME_VARIABLE, "") or _find_home_of_program(program)
    if not named:
        raise HespasError(
            "the home folder of ONNXim, which contains configs, is not set",
            remedy=f"set it by home=... or {HOME_VARIABLE}",
        )
    configs = Path(named).expanduser().absolute() / "configs"
    if not configs.is_dir():
        raise HespasError(f"ONNXim's home has no folder {configs}")
    config_setting = settings["config"]
    config = (
        Path(config_setting).expanduser().absolute() if config_setting else configs / DEFAULT_CONFIG
    )
    referenced_files = [
        file
        for key in REFERENCED_FILE_KEYS
        if (file := configs / read_json(config).get(key, "")).is_file()
    ]
    os.environ[HOME_VARIABLE], os.environ[CONFIG_VARIABLE] = str(configs.parent), str(config)
    return {
        "device": f"ONNXim {hash_file_contents(program, config, *referenced_files)}, {config.stem}"
    }


def simulate_product(payload: dict[str, Any]) -> dict[str, Any]:
    """Simulate a product; raises UnsupportedError, HespasError.

    The answer contains ``cycles`` of the core clock, and ``median_s``.
    """
    config = read_json(Path(os.environ[CONFIG_VARIABLE]))
    if "cores" in payload:
        config |= _replace_core_config(config, payload["cores"])
    try:
        clock_mhz = max(round(config["core_freq"] / payload["slower"]), 1)
    except (KeyError, TypeError):
        raise HespasError("the configuration of ONNXim has no number core_freq") from None
    config |= {"core_freq": clock_mhz, "precision": payload["element_bytes"]}
    with create_private_folder() as home:
        (home / "configs").symlink_to(Path(os.environ[HOME_VARIABLE]) / "configs")
        model = home / "models" / MODEL_NAME / f"{MODEL_NAME}.onnx"
        model.parent.mkdir(parents=True)
        model.write_bytes(build_matmul_model(payload["m"], payload["k"], payload["n"]))
        (home / "core.json").write_text(json.dumps(config))
        models = [{"name": MODEL_NAME, "batch_size": 1, "request_time": 0}]
        (home / "models.json").write_text(json.dumps({"models": models}))
        arguments = [
            "--config",
            str(home / "core.json"),
            "--models_list",
            str(home / "models.json"),
        ]
        variables = {HOME_VARIABLE: str(home), **_extend_library_path()}
        printed_text = ONNXIM.run_in_folder(arguments, home, variables)
    if "returned dummy operator" in printed_text:
        raise UnsupportedError("ONNXim does not support the operator and simulates nothing")
    cycles = [int(number) for number in re.findall(r"Total compute time (\d+)", printed_text)]
    if len(cycles) != 1:
        raise UnsupportedError(f"ONNXim printed {len(cycles)} times for one product")
    return {"cycles": cycles[0], "median_s": cycles[0] / (1e6 * clock_mhz)}


def _find_home_of_program(program: Path) -> str:
    """Return the folder of which ``build/bin`` has the program and ``configs`` is there, or ""."""
    home = program.parent.parent.parent
    return str(home) if (home / "configs").is_dir() else ""


def _extend_library_path() -> dict[str, str]:
    """Return the search path of libraries with those of ONNXim, if its home has them."""
    libraries = Path(os.environ[HOME_VARIABLE]) / "build" / "lib"
    if not libraries.is_dir():
        return {}
    inherited = os.environ.get(LIBRARY_VARIABLE)
    return {LIBRARY_VARIABLE: os.pathsep.join(filter(None, [str(libraries), inherited]))}


def _replace_core_config(config: dict[str, Any], core_settings: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a configuration with copies of its first core, resized and re-clocked."""
    try:
        first = config["core_config"]["core_0"]
    except (KeyError, TypeError):
        raise HespasError("the configuration of ONNXim has no core_0 in core_config") from None
    core = first | {"core_width": core_settings["columns"], "core_height": core_settings["rows"]}
    return {
        "num_cores": core_settings["count"],
        "core_config": {f"core_{i}": core for i in range(core_settings["count"])},
        "core_freq": core_settings["clock_mhz"],
    }
