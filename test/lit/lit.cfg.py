"""lit configuration: tools run in process, which is ten times faster than a process each.

``HESPAS_LIT_EXTERNAL=1`` runs the installed executables instead.
"""

import os
import sys
from pathlib import Path

import lit.formats

here = Path(__file__).resolve().parent
plugin = str(here.parent / "plugin")  # passes of another package
sys.path[:0] = [str(here), str(here.parent), plugin]

from inprocess import InProcess  # noqa: E402

config.name = "hespas"  # noqa: F821
config.test_source_root = str(here)  # noqa: F821
config.test_exec_root = os.environ.get("HESPAS_LIT_OUTPUT", str(here.parents[1] / "build" / "lit"))  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.excludes = ["Inputs"]  # noqa: F821
config.environment["PYTHONPATH"] = plugin  # noqa: F821
config.environment["PATH"] = os.pathsep.join(  # noqa: F821
    [str(Path(sys.executable).parent), os.environ["PATH"]]
)
from hespas.dialects.xla import find_gpu_library  # noqa: E402

if find_gpu_library():  # REQUIRES: gpu-compiler
    config.available_features.add("gpu-compiler")  # noqa: F821
from importlib.util import find_spec  # noqa: E402

if find_spec("iree"):  # REQUIRES: iree
    config.available_features.add("iree")  # noqa: F821
if find_spec("zigzag") and find_spec("six"):  # REQUIRES: zigzag
    config.available_features.add("zigzag")  # noqa: F821
external = os.environ.get("HESPAS_LIT_EXTERNAL") == "1"
config.test_format = (  # noqa: F821
    lit.formats.ShTest(execute_external=False) if external else InProcess()
)
