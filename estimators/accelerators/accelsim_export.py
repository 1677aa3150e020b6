"""Exporting regions as PTX, to be run on a GPU under NVBit for Accel-Sim's traces.

IREE compiles the regions. It supports NVIDIA GPUs up to sm_89, and no product of bf16 with a bf16
result. Accel-Sim has configurations up to sm_86. A region that IREE cannot compile is reported with
IREE's message.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hespas.plugin import (
    CostItem,
    HespasError,
    UnknownCost,
    UsageError,
    create_private_folder,
    has_only_free_ops,
    render_compilable_module,
)

TARGETS = tuple(f"sm_{number}" for number in (60, 70, 75, 80, 86, 89))
COMPILE_LIMIT_S = 300.0
MISSING = "install it: pip install 'hespas[iree]'"


@dataclass(frozen=True)
class ExportedRegion:
    """A distinct region of a program.

    ``count`` is how often the program contains it; ``problem`` says why it has no kernels.
    """

    digest: str
    kernels: int
    count: int
    problem: str = ""


def export_regions(
    items: Iterable[CostItem], folder: Path, target: str
) -> Iterator[ExportedRegion]:
    """Write each distinct item that takes time to ``folder``; raises HespasError without IREE.

    ``<digest>.mlir`` is the module, ``<digest>.0.ptx`` and so on are its kernels, and
    ``<digest>.vmfb`` is the module for IREE's runtime.
    """
    if target not in TARGETS:
        raise UsageError(f"target is {target}", remedy=f"IREE's are {', '.join(TARGETS)}")
    distinct: dict[str, list[CostItem]] = {}
    for item in items:
        if not has_only_free_ops(item.op):
            distinct.setdefault(item.digest, []).append(item)
    compiler = _find_iree_compiler()
    for digest, equal_items in distinct.items():
        try:
            text = render_compilable_module(equal_items[0].op)
            module = folder / f"{digest}.mlir"
            module.write_text(text)
            kernels = _compile_to_ptx(compiler, module, target)
        except UnknownCost as error:
            yield ExportedRegion(digest, 0, len(equal_items), error.message)
        else:
            yield ExportedRegion(digest, kernels, len(equal_items))


def _find_iree_compiler() -> str:
    """Return the path of ``iree-compile``, beside this interpreter or on PATH."""
    beside = Path(sys.executable).with_name("iree-compile")
    compiler_path = str(beside) if beside.is_file() else shutil.which("iree-compile")
    if not compiler_path:
        raise HespasError("IREE's compiler is not installed", remedy=MISSING)
    return compiler_path


def _compile_to_ptx(compiler: str, module: Path, target: str) -> int:
    """Compile a module to files beside it. Returns the number of kernels; raises UnknownCost."""
    with create_private_folder() as scratch:
        command = [
            compiler, str(module), "--iree-hal-target-device=cuda", f"--iree-cuda-target={target}",
            f"--iree-hal-dump-executable-binaries-to={scratch}/kernels",
            "-o", f"{scratch}/module.vmfb",
        ]  # fmt: skip
        try:
            completed = subprocess.run(
                command, capture_output=True, text=True, timeout=COMPILE_LIMIT_S
            )
        except subprocess.TimeoutExpired:
            raise UnknownCost(f"IREE took more than {COMPILE_LIMIT_S:g} s to compile it") from None
        if completed.returncode:
            errors = re.findall(r"error: (.*)", completed.stderr)
            why = errors[0] if errors else f"it exited with code {completed.returncode}"
            raise UnknownCost(f"IREE does not compile it for {target}: {why}")
        kernels = sorted(Path(scratch, "kernels").glob("*.ptx"))
        for number, kernel in enumerate(kernels):
            shutil.copy(kernel, module.with_suffix(f".{number}.ptx"))
        shutil.copy(f"{scratch}/module.vmfb", module.with_suffix(".vmfb"))
        return len(kernels)
