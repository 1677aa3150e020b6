"""``prepare`` and ``fuse`` are lists of passes: each pass alone, in order, does the same."""

from __future__ import annotations

import pytest
from support.budgets import thin_out
from support.paths import ROOT

from hespas import frontends, passes
from hespas.dialects.mlir import make_context
from hespas.passes import registry
from hespas.passes.base import PassRun
from hespas.passes.fuse.block_pass import FuseStep
from hespas.passes.pass_list import PassList
from hespas.passes.pipeline import PassInstrumentation
from hespas.passes.prepare.preparation import PrepareStep

SEEDS = sorted((ROOT / "test" / "seeds").glob("*.mlir"))
LISTS = {name: registry.load_pass_class(name) for name in ("prepare", "fuse")}


def make_list(name: str) -> PassList:
    cls = LISTS[name]
    assert issubclass(cls, PassList)
    return cls()


@pytest.mark.slow
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("path", thin_out(SEEDS, 3), ids=lambda path: path.stem)
def test_the_passes_of_a_list_do_what_the_list_does(name, path):
    modules = [frontends.read_module(str(path), make_context()) for _ in range(2)]
    run = PassRun(keep_going=True)
    passes.run_pipeline(modules[0], name, run)
    passes.run_pipeline(modules[1], make_list(name).to_entries_text(), run)
    assert str(modules[0]) == str(modules[1])


@pytest.mark.parametrize("name", LISTS)
def test_each_pass_of_a_list_is_a_pass_with_a_reason(name):
    for step, reason in make_list(name).list_entries():
        assert registry.load_pass_class(step.name) is type(step)
        assert reason


@pytest.mark.parametrize(("name", "kind"), [("prepare", PrepareStep), ("fuse", FuseStep)])
def test_a_list_has_all_passes_of_its_kind(name, kind):
    entries = {step.name for step, _ in make_list(name).list_entries()}
    classes = {name: registry.load_pass_class(name) for name in registry.FOLDERS[name]}
    assert {name for name, cls in classes.items() if issubclass(cls, kind)} <= entries


class Recorder(PassInstrumentation):
    """Records the passes that it sees."""

    def __init__(self):
        self.before: list[str] = []
        self.after: list[str] = []

    def run_before_pass(self, module, step):
        self.before.append(step.name)

    def run_after_pass(self, module, step):
        self.after.append(step.name)

    run_before_listed_pass, run_after_listed_pass = run_before_pass, run_after_pass


def test_a_tool_sees_each_pass_of_a_list():
    module = frontends.read_module(str(SEEDS[0]), make_context())
    recorder, timings = Recorder(), []
    passes.run_pipeline(module, "fuse", instrumentation=[recorder], timings=timings)
    expected = [
        name
        for title in LISTS
        for name in (title, *(step.name for step, _ in make_list(title).list_entries()))
    ]
    assert recorder.before == expected
    assert sorted(recorder.after) == sorted(expected)
    assert [text.strip().partition("{")[0] for text, _ in timings] == expected
