"""``hespas study``: a question over a range of workloads."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from hespas.support.errors import UsageError
from hespas.tools import console_scripts

STUDIES = {
    "operators": "one matrix product after another, by every estimator of an accelerator",
    "gemm": "one matrix product over more and more devices, divided in five ways",
    "resnet": "training of ResNets of several depths, data-parallel",
    "llama": "training of Llama models of several sizes, node by node",
    "scale-out": "training of Llama 2 7B over 8 to 4,096 devices",
}

USAGE = """\
usage: hespas study NAME [...]

{studies}

hespas study NAME --help tells a study's options.
"""


def main(argv: Sequence[str]) -> int:
    """Run a study; returns the exit code, raises HespasError."""
    if not argv or argv[0] in ("-h", "--help"):
        studies = "\n".join(f"  {name:<10} {text}" for name, text in STUDIES.items())
        print(USAGE.format(studies=studies), end="")
        return 0 if argv else console_scripts.EXIT_USAGE
    name = argv[0]
    if name not in STUDIES:
        from hespas.support.suggestions import suggest_nearest

        raise UsageError(f"no study is called '{name}'", remedy=suggest_nearest(name, [*STUDIES]))
    return import_study_module(name).main(list(argv[1:]))


def import_study_module(name: str) -> Any:
    """The module of a study, with its ``main`` and ``arguments``."""
    return importlib.import_module(f"hespas.workflows.studies.{name.replace('-', '_')}")
