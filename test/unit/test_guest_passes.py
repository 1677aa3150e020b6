"""Passes of other packages between those of hespas: nothing that they change stays cached."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from support.annotated_programs import X, program
from support.paths import ROOT

from hespas import frontends
from hespas.dialects.attrs import Cost, MemoryAttr, OnChipAttr
from hespas.dialects.mlir import ir, make_context, walk_operations
from hespas.passes import registry
from hespas.passes.annotate.stale_costs import refresh_costs
from hespas.passes.base import FACTS, Pass, PassRun
from hespas.passes.pipeline import PassInstrumentation, run_pipeline
from hespas.support.errors import HespasError, UsageError
from hespas.tools import hespas_opt

ANNOTATE = "roofline-annotate{node=A100_SXM_40GB}"
CHAIN = program(
    f"%0 = stablehlo.add %x, %x : {X} %1 = stablehlo.multiply %0, %x : {X} "
    f"%2 = stablehlo.tanh %1 : {X}",
    "2",
)
ENDLESS = f"""func.func @main(%p: tensor<i1>, %x: {X}) -> {X} {{
  %0:2 = stablehlo.while(%a = %x, %q = %p) : {X}, tensor<i1> attributes {{hespas.trips = 1}}
  cond {{ stablehlo.return %q : tensor<i1> }} do {{
    %1 = stablehlo.add %a, %a : {X}
    stablehlo.return %1, %q : {X}, tensor<i1>
  }}
  return %0#0 : {X}
}}"""


@pytest.fixture(autouse=True)
def guest_package(monkeypatch):
    """Install the package in ``test/plugin``."""
    monkeypatch.syspath_prepend(str(ROOT / "test" / "plugin"))
    registry.find_plugins.cache_clear()
    yield
    registry.find_plugins.cache_clear()


def read(text):
    return frontends.parse_module(text.encode(), "in.mlir", make_context())


def emit(text: str, steps: list[str], folder, *, in_one_run: bool) -> tuple[bytes, list[str]]:
    """Run the steps in one run, or each on the text that the one before left; returns a trace."""
    notes: list[str] = []
    steps = [*steps, f"emit-chakra{{output={folder} stats=false}}"]
    for pipeline in [",".join(steps)] if in_one_run else steps:
        module = read(text)
        run = PassRun("in.mlir", note=notes.append)
        run_pipeline(module, pipeline, run)
        text = str(module.operation.get_asm(enable_debug_info=True))
    return (folder / "dev.0.et").read_bytes(), notes


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (ENDLESS, ["split-linear", ANNOTATE, "guest-set-trips"]),
        (ENDLESS, ["split-linear", ANNOTATE, "guest-set-trips{again}"]),
        (CHAIN, [ANNOTATE, "split-individual", "guest-fuse-chain"]),
        (CHAIN, ["split-linear", ANNOTATE, "guest-mark"]),
        (CHAIN, ["split-linear", ANNOTATE, "guest-derive-refresh"]),
    ],
)
def test_one_run_and_a_run_for_each_pass_write_the_same_trace(text, steps, tmp_path):
    one, _ = emit(text, steps, tmp_path / "one", in_one_run=True)
    several, _ = emit(text, steps, tmp_path / "several", in_one_run=False)
    assert one == several


def test_a_pass_that_reads_costs_twice_gets_those_of_its_own_changes():
    module, run = read(ENDLESS), PassRun(note=lambda text: None)
    run_pipeline(module, f"split-linear,{ANNOTATE},guest-set-trips{{again}}", run)
    cost = Cost.read_from_op(module.body.operations[0].regions[0].blocks[0].operations[0])
    assert cost is not None and cost.trips == 100


def test_nothing_is_trusted_outside_a_pass():
    module, run = read(ENDLESS), PassRun(note=lambda text: None)
    run_pipeline(module, f"split-linear,{ANNOTATE}", run)
    assert run.current == FACTS - {MemoryAttr.NAME, OnChipAttr.NAME} and not any(
        map(run.is_current, FACTS)
    )
    run_pipeline(module, "guest-set-trips", PassRun(note=lambda text: None))
    refresh_costs(module, run)
    cost = Cost.read_from_op(module.body.operations[0].regions[0].blocks[0].operations[0])
    assert cost is not None and cost.trips == 100


@dataclass(frozen=True)
class InterruptedPass(Pass):
    """Be interrupted by ^C in a walk."""

    name: ClassVar[str] = "guest-interrupted"
    in_bindings: bool = False

    def apply(self, module: ir.Module, run: PassRun) -> None:
        def visit_op(op: ir.Operation) -> ir.WalkResult:
            raise KeyboardInterrupt

        if self.in_bindings:
            module.operation.walk(visit_op)
        walk_operations(module, visit_op)


@pytest.mark.parametrize("in_bindings", [False, True])
def test_an_interrupt_in_a_walk_is_no_error_of_the_pass(in_bindings: bool) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(read(CHAIN), [InterruptedPass(in_bindings)])


class Recorder(PassInstrumentation):
    def __init__(self):
        self.calls: list[str] = []

    def run_before_pass(self, module, step):
        self.calls.append(f"before {step.name}")

    def run_after_pass(self, module, step):
        self.calls.append(f"after {step.name}")

    def run_after_pass_failed(self, module, step):
        text = module.operation.get_asm(assume_verified=True)
        self.calls.append(f"failed {step.name}{' tensor<7xf32>' * ('<7xf32>' in text)}")


def test_instrumentation_sees_what_a_pass_left():
    recorder = Recorder()
    with pytest.raises(HespasError, match="pass 'guest-drop-shape' left an invalid module"):
        run_pipeline(read(CHAIN), "prepare,guest-drop-shape,cse", instrumentation=[recorder])
    assert recorder.calls == [
        "before prepare", "after prepare", "before guest-drop-shape",
        "failed guest-drop-shape tensor<7xf32>",
    ]  # fmt: skip


def test_a_builtin_pass_is_verified_on_its_own_on_request(monkeypatch):
    verified: list[str] = []
    monkeypatch.setattr(
        "hespas.passes.pipeline._PipelineExecution.verify_step",
        lambda execution, step, **options: verified.append(step.name),
    )
    run_pipeline(read(CHAIN), "prepare,fuse,split-linear,op-stats", PassRun(note=lambda text: None))
    assert verified == ["split-linear"], "ours are verified together, before a pass that only reads"
    verified.clear()
    run_pipeline(
        read(CHAIN), "prepare,cse,op-stats", PassRun(note=lambda t: None), verify_each=True
    )
    assert verified[:2] == ["check-input", "select-platform"], "each pass of the list"
    assert verified[-3:] == ["prepare", "cse", "op-stats"]


@pytest.fixture
def define_guest_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], None]]:
    """A function that installs a package with a pass of a name."""

    def define(name: str) -> None:
        info = tmp_path / "guest-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Name: guest\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[hespas.passes]\n{name} = guest:GuestPass\n")
        (tmp_path / "guest.py").write_text(
            f"from hespas.plugin import Pass\nclass GuestPass(Pass):\n    name = {name!r}\n"
            "    def apply(self, module, run): ...\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        registry.find_plugins.cache_clear()

    yield define
    registry.find_plugins.cache_clear()
    sys.modules.pop("guest", None)


def test_a_package_cannot_define_a_pass_of_mlir(define_guest_pass: Callable[[str], None]) -> None:
    """The pass would run in the place of the native one, but not where it is nested."""
    define_guest_pass("cse")
    with pytest.raises(UsageError, match=r"'cse' \(guest:GuestPass\), which MLIR has"):
        registry.find_plugins()


@pytest.mark.parametrize(
    "argument", ["--help", "--list-passes", "--pass-pipeline=timing", "--timing"]
)
def test_a_pass_of_a_package_cannot_have_the_name_of_an_option(
    define_guest_pass: Callable[[str], None], argument: str
) -> None:
    """The flag would be the option, so that the pass would not run."""
    define_guest_pass("timing")
    message = r"the pass 'timing' \(guest:GuestPass\), which is an option of hespas-opt"
    with pytest.raises(UsageError, match=message):
        hespas_opt.main([argument])
