"""A pass of ``fuse`` keeps what it computes: the programs of its lit tests are executed.

The reference is XLA's CPU compiler, before and after the pass. Every rule of a pass has a lit case
that fails without it, so that a rule that changes values fails here. Programs that XLA:CPU cannot
run, such as those with calls of unknown kernels, are left out; few are. Of a pass with many
programs every third is executed, and nightly all of them. Random programs of products, between
which dimensions are moved, divided and dropped, must be rewritten without an error, and some of
them are executed too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.budgets import PROFILE, count_cases, thin_out
from support.execution import DEVICES, assert_same_results, execute, put_fusions_in_place
from support.paths import ROOT
from support.random_layouts import render_layout_program

from hespas import passes
from hespas.dialects.mlir import ir, make_context
from hespas.dialects.op_kinds import FETCH_CALL_TARGET, OFFLOAD_CALL_TARGET, find_entry_function
from hespas.passes.registry import FOLDERS
from hespas.support.errors import HespasError

LIT = ROOT / "test" / "lit"
# The CPU has none of these as ops: ragged products, scans, copies to the host.
HOST_COPIES = (OFFLOAD_CALL_TARGET, FETCH_CALL_TARGET)
NEVER_RUN = {"expand-ragged-products", "expand-scans", "overlap-transfers"}
NIGHTLY = {"overlap-collectives"}  # its products are long enough to hide collectives of 8 devices
MOST_RUN_WHOLE = 8  # programs of a pass, of which a third would be too few
REWRITING = [name for name in FOLDERS["fuse"] if name not in NEVER_RUN]
COUNT = r"mhlo\.num_{} = (\d+)"


def list_programs(name: str) -> Iterator[tuple[str, str, str]]:
    """List title, text, and pipeline of the programs on which a lit test runs the pass."""
    for file in sorted((LIT / name).glob("*.mlir")):
        text = file.read_text()
        step = re.match(rf'// RUN: hespas-opt %s --{name}(?:=("[^"]*"|\S+))? ', text)
        if step is not None:
            options = (step[1] or "").strip('"').replace(",", " ")
            if name == "combine-collectives":  # XLA:CPU has no call for combined reduce-scatters
                options += " reduce-scatter=0"
            for number, program in enumerate(text.split("// -----")):
                yield f"{file.name}[{number}]", program, f"{name}{{{options}}}"


def run_program(program: str, pipeline: str, title: str) -> bool:
    """Compare the results of a program before and after the pass; return whether it can run."""
    context = make_context()
    try:
        plain = ir.Module.parse(program, context)
        module = ir.Module.parse(program, context)
        passes.run_pipeline(module, pipeline)
        has_entry = bool(find_entry_function(plain))
    except (ir.MLIRError, HespasError):
        return False  # the lit test shows an error
    counts = [re.search(COUNT.format(kind), str(plain)) for kind in ("replicas", "partitions")]
    devices = max([1, *(int(count[1]) for count in counts if count)])
    is_on_host = any(target in str(module) for target in HOST_COPIES)
    if not has_entry or devices > DEVICES or is_on_host:
        return False
    try:
        put_fusions_in_place(plain)
        references = execute(plain, devices)
    except Exception:  # XLA raises errors of many types
        return False
    put_fusions_in_place(module)
    results = execute(module, devices)
    # XLA keeps more bits of a value of 16 bits that it fuses with what follows. Differences of
    # such values, as in the gradient of a softmax, have few bits left.
    is_narrow = "f16" in program and "convert" in program
    tolerance, of_largest = (1e-1, 3e-2) if is_narrow else (1e-5, 1e-6)
    try:
        assert_same_results(results, references, rtol=tolerance, atol_of_largest=of_largest)
    except AssertionError as error:
        raise AssertionError(f"{title}: {error}") from None
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", REWRITING)
def test_programs_of_lit_tests_compute_the_same(name: str) -> None:
    if name in NIGHTLY and PROFILE != "nightly":
        pytest.skip("its programs take minutes, for make nightly")
    programs = list(list_programs(name))
    if len(programs) > MOST_RUN_WHOLE:
        programs = thin_out(programs, 3)
    outcomes = [run_program(text, pipeline, title) for title, text, pipeline in programs]
    assert sum(outcomes) > len(outcomes) / 2, f"{outcomes.count(False)} of {len(outcomes)} not run"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"), [("assign-orders", 300), ("sink-transposes", 100), ("fuse", 60)]
)
def test_random_programs_compute_the_same(name: str, count: int) -> None:
    for seed in range(count_cases(count)):
        program = render_layout_program(seed)
        if seed % 50:
            passes.run_pipeline(ir.Module.parse(program, make_context()), name)
        else:
            assert run_program(program, name, f"random program {seed}")
