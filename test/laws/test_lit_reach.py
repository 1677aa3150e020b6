"""A rule of the modules of the folders listed here has a lit case: a lit test runs it.

A module of ``passes/fuse`` that has the name of a pass counts the lit tests of this pass alone,
one that passes share those of all. The passes of other folders share more, and each of their
modules counts those of all. So a rule is a statement of its own, such as the ``return`` of a
guard: a condition that is one more operand of another's ``and`` is run without a case in which it
decides.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import Coverage
from support.paths import ROOT
from support.tool_commands import run_line

from hespas.estimators import registry as estimators
from hespas.passes.prepare import write_trip_counts
from hespas.passes.registry import FOLDERS

LIT = ROOT / "test" / "lit"
# The passes whose lit tests run the modules of a folder.
PASSES = {f"passes/{room}": names for room, names in FOLDERS.items()}
PASSES["passes/annotate"] += tuple(
    f"{name}-annotate" for name in ("calibrated", "roofline", "systolic", "xla")
)
PASSES["estimators/calibrated"] = ("calibrated-annotate",)
# Statements of functions that no lit test runs: for callers that are no passes, or passes of other
# folders, and for input that this version of MLIR refuses, or that takes the compiler for TPUs.
UNREACHED: dict[str, dict[str, int]] = {
    "estimators/calibrated": {  # other powers, clocks and launches are those of analyses
        "board_power.scale_clock": 3,
        "calibrated_estimator._scale_clock": 7,
        "calibrated_estimator.estimate_time_ns": 5,
        "calibrated_estimator.list_device_rates": 7,
        "calibrated_estimator.scale_power": 2,
        "device_constants.scale_launches": 2,
    },
    "passes/annotate": {
        "cost_walk.is_estimated_whole": 1,
        "stale_costs.refresh_costs": 1,
        "traverse.require_target": 2,
    },
    "passes/emit": {
        "emit_chakra.nodes_per_device": 1,
        "module_stats.replace_costs": 2,
    },
    "passes/fuse": {},
    "passes/memory": {"memory_annotate.digest_prepared_program": 5},
    "passes/optimize": {
        "xla_optimize._build_xla_flags": 1,
        "xla_optimize._to_compile_error": 1,
        "xla_optimize.apply": 1,
    },
    "passes/prepare": {
        "annotate_collectives._renumber_stated_groups": 1,
        "census._collect_op_names": 4,
        "census.add_name": 2,
        "choose_branches.is_selected_at_run_time": 2,
        "inline_calls._copy_region_function": 1,
        "manual_computation._is_fully_manual": 2,
        "manual_computation.inline_manual_computation": 1,
        "mesh_axes._resolve_mesh_shape": 2,
        "partition._run_partitioner": 1,
        "partition.partition_module": 1,
        "partition.state_partitions": 4,
        "replace_host_placements.warn_of_lost_copies": 1,
        "single_partition.remove_shardy_op": 1,
    },
    "passes/split": {"region_digest.digest_function": 1},
}


def run_lit_tests(name: str, folder: Path) -> None:
    """Run the commands of the lit tests of a pass, without comparing what they print."""
    for file in sorted((LIT / name).glob("*.mlir")):
        for line in re.findall(r"^// RUN: (.*)", file.read_text(), re.MULTILINE):
            here = line.replace("%S", str(file.parent)).replace("%s", str(file))
            here = here.replace("%t", str(folder / file.stem)).replace("%%", "%")
            commands = re.sub(r"(^| \| )filecheck [^|&]*", "", here)
            problem = run_line(commands) if commands else ""
            assert not problem, f"{line}: {problem}"


def forget_results(folder: str) -> None:
    """Clear the caches of the modules, so that functions run again, whatever ran before."""
    for name, module in [*sys.modules.items()]:
        if name.startswith(f"hespas.{folder.replace('/', '.')}."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def is_abstract(function: ast.FunctionDef) -> bool:
    """Return whether a method only says by a TypeError that passes must define it."""
    *_, last = function.body
    return len(function.body) == 2 and ast.unparse(last).startswith("raise TypeError(")


def list_statements(path: Path) -> dict[int, str]:
    """Map the first line of each statement of the functions of a module to its function."""
    statements = {}
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef) and not is_abstract(function):
            for node in ast.walk(function):
                is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                is_run = not is_text and not isinstance(node, ast.Nonlocal)
                if isinstance(node, ast.stmt) and node is not function and is_run:
                    place = getattr(node, "test", node)  # of an if over several lines, its test
                    statements[place.lineno] = f"{path.stem}.{function.name}"
    return statements


def run_passes(folder: str, scratch: Path) -> dict[str, set[int]]:
    """Run the lit tests of the passes of a folder; returns the lines that count, by module."""
    is_alone = folder == "passes/fuse"
    passes = {name.replace("-", "_") for name in PASSES[folder]} if is_alone else set()
    ran: dict[str, set[int]] = defaultdict(set)
    for name in PASSES[folder]:
        forget_results(folder)
        recorder = Coverage(None, include=[f"{ROOT / folder}/*.py"], config_file=False)
        with recorder.collect():
            run_lit_tests(name, scratch)
        data = recorder.get_data()
        for file in data.measured_files():
            module = Path(file).stem
            if module == name.replace("-", "_") or module not in passes:
                ran[module].update(data.lines(file) or ())
    return ran


@pytest.fixture
def guest_estimators(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the package in ``test/plugin``."""
    monkeypatch.syspath_prepend(str(ROOT / "test" / "plugin"))
    estimators.find_plugins.cache_clear()
    yield
    estimators.find_plugins.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("guest_estimators")
@pytest.mark.parametrize("folder", UNREACHED)
def test_each_statement_of_a_pass_is_run_by_a_lit_test(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Evaluating loops to the end takes minutes under coverage, and reaches nothing more.
    monkeypatch.setattr(write_trip_counts, "MAX_LOOP_STEPS", 20_000)
    ran = run_passes(folder, tmp_path)
    unreached: dict[str, list[int]] = defaultdict(list)
    for path in (ROOT / folder).glob("*.py"):
        for line, function in list_statements(path).items():
            if line not in ran[path.stem]:
                unreached[function].append(line)
    known = UNREACHED[folder]
    new = {name: lines for name, lines in unreached.items() if len(lines) > known.get(name, 0)}
    assert not new, f"no lit test of the pass runs the lines {new}"
