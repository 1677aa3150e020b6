"""The tools load numpy when they use it, and other modules when a job needs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.paths import ROOT

DEFERRED = "from hespas.support import deferred_numpy\ndeferred_numpy.defer_numpy()\n"
IS_LOADED = "print('numpy._core' in sys.modules or 'numpy.core' in sys.modules)\n"


def run_python(code: str) -> list[str]:
    command = [sys.executable, "-c", f"import os, sys\n{code}"]
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    return done.stdout.splitlines()


def test_numpy_is_loaded_when_it_is_used():
    code = "import numpy\nfrom hespas.dialects.mlir import make_context\nmake_context()\n"
    use = "print(numpy.arange(3).sum(), numpy.linalg.det(numpy.eye(2)))\n"
    assert run_python(DEFERRED + code + IS_LOADED + use + IS_LOADED) == ["False", "3 1.0", "True"]


def test_names_and_submodules_can_be_imported_first():
    for statement, expression in (
        ("from numpy import arange", "arange(3).tolist()"),
        ("import numpy.linalg as linalg", "linalg.norm([3.0]) and [0, 1, 2]"),
        ("import numpy.typing\nimport numpy", "numpy.arange(3).tolist()"),
        ("from numpy.random import default_rng", "default_rng(0) and [0, 1, 2]"),
        ("import numpy as np", "[0, 1, 2] if not hasattr(np, 'no_such_name') else []"),
    ):
        assert run_python(f"{DEFERRED}{statement}\nprint({expression})\n") == ["[0, 1, 2]"]


def test_threads_that_use_it_first_at_the_same_time_all_find_it():
    code = (
        "import numpy, concurrent.futures\n"
        "with concurrent.futures.ThreadPoolExecutor(8) as pool:\n"
        "    print(set(pool.map(lambda k: int(numpy.arange(3).sum()), range(64))))\n"
    )
    assert run_python(DEFERRED + code) == ["{3}"]


def test_worker_processes_do_not_inherit_the_number_of_threads():
    code = "import numpy\nnumpy.eye(1)\nprint(os.environ.get('OPENBLAS_NUM_THREADS'))\n"
    assert run_python(DEFERRED + code) == ["None"]
    stated = "os.environ['OPENBLAS_NUM_THREADS'] = '2'\n"
    assert run_python(stated + DEFERRED + code) == ["2"]


def test_the_package_changes_no_imports():
    code = "import hespas, hespas.plugin, hespas.dialects.mlir\n"
    assert run_python(code + "print(type(sys.modules['numpy']).__name__)") == ["module"]


# What the main job does not use.
UNUSED = (
    "numpy._core",
    "pydantic",
    "platform",
    "secrets",
    "jaxlib.mlir.dialects.sdy",
    "hespas.chakra.trace_reader",
    "hespas.configs.kernel_costs",
    "hespas.dialects.xla",
    "hespas.estimators.rules.pallas_attention",
    "hespas.passes.annotate.stale_costs",
    "hespas.passes.compile.named_shardings",
    "hespas.passes.prepare.manual_computation",
    "hespas.tools.ir_printing",
)
# Counts the classes of hespas whose methods ``dataclass`` has compiled.
COUNT_COMPILED = """
classes = {
    value
    for name, module in list(sys.modules.items()) if name.startswith("hespas.")
    for value in vars(module).values()
    if isinstance(value, type) and "__dataclass_fields__" in vars(value)
}
methods = [vars(cls).get("__eq__") for cls in classes]
print(sum(m is not None and m.__code__.co_filename == "<string>" for m in methods))
"""


def run_main_job(annotate: str, folder: Path, report: str) -> list[str]:
    """Run the main job on an op with a pass that annotates, and then the code of a report."""
    program = folder / "in.mlir"
    program.write_text(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {"
        " %0 = stablehlo.tanh %x : tensor<8xf32> return %0 : tensor<8xf32> }"
    )
    arguments = [str(program), "--split-individual=merge", annotate]
    arguments += [f"--emit-chakra=output={folder / 'out'}", "-o", os.devnull]
    run = f"from hespas.tools import hespas_opt\nassert hespas_opt.main({arguments!r}) == 0\n"
    return run_python(DEFERRED + run + report)


def test_the_main_job_imports_what_it_uses(tmp_path: Path):
    """Each module takes 0.2 ms or more to import, and each compiled dataclass 0.4 ms."""
    report = (
        f"print([name for name in {UNUSED!r} if name in sys.modules])\n"
        "print(sum(name.startswith('hespas.') for name in sys.modules))\n"
    )
    loaded, modules, compiled = run_main_job(
        "--roofline-annotate", tmp_path, report + COUNT_COMPILED
    )
    assert loaded == "[]"
    assert int(modules) <= 140
    assert int(compiled) <= 12


def test_calibrated_kernels_are_estimated_without_pydantic(tmp_path: Path):
    """Its import takes a twentieth of the job on a program of 13 MB."""
    loaded = run_main_job("--calibrated-annotate", tmp_path, "print('pydantic' in sys.modules)")
    assert loaded == ["False"]
