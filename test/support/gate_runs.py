"""Versions of one training step, each with one mistake, and their results."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.workflows.run_results import RunResult
from support.paths import ROOT
from support.result_programs import result

EXAMPLES = ROOT / "docs" / "examples" / "gate"
MISTAKES = ("constrain", "bf16", "donate", "remat")


def lower_training_step(**options: bool) -> Any:
    """The lowered step of docs/examples/gate/train_step.py."""
    spec = importlib.util.spec_from_file_location("train_step", EXAMPLES / "train_step.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lower_exportable(module.build(**options))


def run_training_step(folder: Path, mistake: str = "") -> RunResult:
    """The result of the step without the option that is named."""
    lowered = lower_training_step(**{mistake: False} if mistake else {})
    output = result(
        folder,
        "--form", "fuse",
        program=lowered.as_text(debug_info=True),
        node="H100_80GB",
        system="HGX_H100_8",
        name=f"{mistake or 'step'}.mlir",
    )  # fmt: skip
    return RunResult.load_folder(output)
