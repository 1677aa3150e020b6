"""A rule of a pass of ``fuse`` has a lit case: each statement of the passes is run by a lit test.

A module that has the name of a pass counts the lit tests of this pass alone, one that passes share
those of all. So a rule is a statement of its own, such as the ``return`` of a guard: a condition
that is one more operand of another's ``and`` is run without a case in which it decides.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from support.paths import ROOT
from support.tool_commands import parse_pipe, run_pipe

from hespas.passes.registry import FOLDERS

LIT = ROOT / "test" / "lit"
ROOM = ROOT / "passes" / "fuse"
# Statements of functions that no lit test runs: for programs that are rare, and internal errors.
UNREACHED: dict[str, int] = {
    "block_pass.rewrite_block": 1,
    "copy_kept_values.depends_on": 2,
    "dependency_order.find_related_units": 2,
    "dependency_order.merge_units": 2,
    "dependency_order.order_topologically": 1,
    "dots.find_roles": 3,
    "expand_scatters._read_constant_place": 1,
    "hoist_transposes._find_update": 1,
    "hoist_transposes._move_out_of_loop": 1,
    "hoist_transposes._reorder": 2,
    "hoist_transposes._transpose_update": 1,
    "kernel_cost_model._has_transposed_tiles": 1,
    "op_builder._is_control_flow_of": 1,
    "order_convolutions._has_channels_last": 1,
    "order_convolutions.rewrite_block": 1,
    "overlap_collectives._estimate_kernel_s": 1,
    "overlap_collectives.order_backwards": 1,
    "pad_convolutions.is_input_gradient": 1,
    "pad_convolutions.is_kernel_gradient": 1,
    "priority_fusion._keeps_rows": 1,
    "product_kernels._is_available": 2,
    "row_normalisations._is_computed_transposed": 1,
    "scatter_reductions._slice_before_transpose": 1,
    "simplify._broadcast_before_transpose": 1,
    "simplify._broadcast_scalar": 2,
    "simplify._convert_constant": 1,
    "simplify.read_uniform_constant": 1,
    "sink_transposes._divide_product": 1,
    "sink_transposes._find_broadcast_parts": 1,
    "sink_transposes._find_claimable_values": 1,
    "sink_transposes._find_concatenated_order": 3,
    "sink_transposes._find_result_order": 2,
    "sink_transposes.has_any_order": 1,
    "sink_transposes._is_undone": 1,
    "sink_transposes.transpose_order": 1,
    "split_products._count_read_bits": 2,
    "split_products._find_contracted_places": 1,
    "split_products.rewrite_block": 1,
    "split_scans._combine": 1,
    "split_scans._pad": 1,
    "split_scans._scan_exclusively": 2,
    "split_scans.scan_inclusively": 1,
    "transpose_collectives._transpose_all_to_all": 1,
}


class StatementRecorder:
    """Records the lines of the modules of a folder that run.

    Attributes:
        lines: By module, the lines that have run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: dict[str, set[int]] = defaultdict(set)
        self._modules: dict[str, str] = {}  # by file; "" for those of other folders

    def trace_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if file not in self._modules:
            path = Path(file).resolve()
            self._modules[file] = path.stem if path.parent == self.folder else ""
        return self._trace_line if self._modules[file] else None

    def _trace_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines[self._modules[frame.f_code.co_filename]].add(frame.f_lineno)
        return self._trace_line


def run_lit_tests(name: str, folder: Path) -> None:
    """Run the commands of the lit tests of a pass that need no shell."""
    for file in sorted((LIT / name).glob("*.mlir")):
        for line in re.findall(r"^// RUN: (.*)", file.read_text(), re.MULTILINE):
            here = line.replace("%s", str(file)).replace("%t", str(folder / file.stem))
            stages = parse_pipe(here)
            if stages is not None:
                run_pipe(stages)


def forget_results() -> None:
    """Clear the caches of the modules, so that functions run again, whatever ran before."""
    for name, module in [*sys.modules.items()]:
        if name.startswith("hespas.passes.fuse."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def list_statements(path: Path) -> dict[int, str]:
    """Map the first line of each statement of the functions of a module to its function."""
    statements = {}
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                if isinstance(node, ast.stmt) and node is not function and not is_text:
                    place = getattr(node, "test", node)  # of an if over several lines, its test
                    statements[place.lineno] = f"{path.stem}.{function.name}"
    return statements


@pytest.mark.slow
def test_each_statement_of_a_pass_is_run_by_a_lit_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recorder = StatementRecorder(ROOM.resolve())
    passes = {name.replace("-", "_") for name in FOLDERS["fuse"]}
    ran: dict[str, set[int]] = defaultdict(set)
    for name in FOLDERS["fuse"]:
        recorder.lines.clear()
        forget_results()
        sys.settrace(recorder.trace_call)
        try:
            run_lit_tests(name, tmp_path)
        finally:
            sys.settrace(None)
        for module, lines in recorder.lines.items():
            if module == name.replace("-", "_") or module not in passes:
                ran[module] |= lines
    unreached: dict[str, list[int]] = defaultdict(list)
    for path in ROOM.glob("*.py"):
        for line, function in list_statements(path).items():
            if line not in ran[path.stem]:
                unreached[function].append(line)
    new = {
        function: sorted(lines)
        for function, lines in unreached.items()
        if len(lines) > UNREACHED.get(function, 0)
    }
    assert not new, f"no lit test of the pass runs the lines {new}"
