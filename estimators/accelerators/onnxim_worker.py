"""Running ONNXim, in a worker process.

Its home has ``configs``, and a folder for each model; so each run has a home of its own, with a
link to the configurations and a model that holds one product.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from hespas.dialects.errors import HespasError
from hespas.estimators.accelerators.onnx_model import matmul
from hespas.estimators.accelerators.program import Program, private_folder, sha256
from hespas.estimators.measure.failure import Unsupported

ONNXIM = Program(
    "ONNXim", ("Simulator", "onnxim"), "HESPAS_ONNXIM", "github.com/PSAL-POSTECH/ONNXim"
)
HOME, CONFIG = "ONNXIM_HOME", "HESPAS_ONNXIM_CONFIG"
DEFAULT = "systolic_ws_128x128_c4_simple_noc_tpuv4.json"
READS = ("dram_config_path", "icnt_config_path")  # files that a configuration names, from configs/
NAME = "product"


def probe(settings: dict[str, Any]) -> dict[str, Any]:
    """The program and its configuration, by content; raises HespasError."""
    program = ONNXIM.use(settings["binary"], settings["time_limit"])
    named = settings["home"] or os.environ.get(HOME, "")
    if not named:
        raise HespasError(
            "ONNXim's home, the folder that holds its configs, is not given",
            remedy=f"name it by home=... or {HOME}",
        )
    configs = Path(named).expanduser().absolute() / "configs"
    if not configs.is_dir():
        raise HespasError(f"ONNXim's home has no folder {configs}")
    given = settings["config"]
    config = Path(given).expanduser().absolute() if given else configs / DEFAULT
    read = [file for key in READS if (file := configs / _read(config).get(key, "")).is_file()]
    os.environ[HOME], os.environ[CONFIG] = str(configs.parent), str(config)
    return {"device": f"ONNXim {sha256(program, config, *read)}, {config.stem}"}


def worker(payload: dict[str, Any]) -> dict[str, Any]:
    """Simulate the product ``payload`` says; raises Unsupported, HespasError.

    The answer has ``cycles`` of the core's clock, and ``median_s``.
    """
    config = _read(Path(os.environ[CONFIG]))
    if "cores" in payload:
        config |= _cores(config, payload["cores"])
    try:
        clock_mhz = max(round(config["core_freq"] / payload["slower"]), 1)
    except (KeyError, TypeError):
        raise HespasError("ONNXim's configuration has no number core_freq") from None
    config |= {"core_freq": clock_mhz, "precision": payload["element_bytes"]}
    with private_folder() as home:
        (home / "configs").symlink_to(Path(os.environ[HOME]) / "configs")
        model = home / "models" / NAME / f"{NAME}.onnx"
        model.parent.mkdir(parents=True)
        model.write_bytes(matmul(payload["m"], payload["k"], payload["n"]))
        (home / "core.json").write_text(json.dumps(config))
        models = [{"name": NAME, "batch_size": 1, "request_time": 0}]
        (home / "models.json").write_text(json.dumps({"models": models}))
        arguments = [
            "--config",
            str(home / "core.json"),
            "--models_list",
            str(home / "models.json"),
        ]
        said = ONNXIM.run(arguments, home, {HOME: str(home)})
    if "returned dummy operator" in said:
        raise Unsupported("ONNXim does not know the operator, and takes no time for it")
    cycles = [int(number) for number in re.findall(r"Total compute time (\d+)", said)]
    if len(cycles) != 1:
        raise Unsupported(f"ONNXim told {len(cycles)} times of one product")
    return {"cycles": cycles[0], "median_s": cycles[0] / (1e6 * clock_mhz)}


def _cores(config: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The keys of a configuration for so many cores like its first, of another size and clock."""
    try:
        first = config["core_config"]["core_0"]
    except (KeyError, TypeError):
        raise HespasError("ONNXim's configuration has no core_0 in core_config") from None
    core = first | {"core_width": wanted["columns"], "core_height": wanted["rows"]}
    return {
        "num_cores": wanted["count"],
        "core_config": {f"core_{i}": core for i in range(wanted["count"])},
        "core_freq": wanted["clock_mhz"],
    }


def _read(config: Path) -> dict[str, Any]:
    from hespas.configs import read_json

    return read_json(config)
