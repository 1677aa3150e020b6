"""Textual pipelines: parsing, printing, options, native passes, ``prepare`` put in."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hespas import passes
from hespas.dialects.attrs import SplitAttr, TargetAttr
from hespas.passes import pipeline, registry
from hespas.passes.base import PassRun
from hespas.passes.pipeline import NativePass, format_pipeline, parse_options, parse_pipeline
from hespas.passes.split.split_linear import SplitLinearPass
from hespas.support.errors import HespasError, UsageError

IDENTITY = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"


def test_every_pass_loads_and_says_what_it_does():
    for name in registry.list_pass_names():
        cls = registry.load_pass_class(name)
        assert cls.name == name
        assert cls.get_help_summary().endswith(".")
        assert all(field.metadata["help"] for _, field in cls.list_spelled_options())
        assert format_pipeline(parse_pipeline(name)) == name


def test_options_reach_the_pass_and_print_back():
    steps = parse_pipeline(
        'split-linear{block-limit=64},func.func(cse),roofline-annotate{node="a b.json"}'
    )
    assert steps[0] == SplitLinearPass(block_limit=64)
    assert steps[1] == NativePass("func.func(cse)")
    assert parse_pipeline(format_pipeline(steps)) == steps
    assert format_pipeline(parse_pipeline("split-individual{merge}")) == "split-individual{merge}"
    assert format_pipeline(parse_pipeline("prepare{partition=0}")) == "prepare{partition=false}"


@given(limit=st.integers(0, 10**9), policy=st.sampled_from(["isolated", "end-block"]))
def test_spelling_round_trips(limit, policy):
    step = SplitLinearPass(block_limit=limit, separator_policy=policy)
    assert parse_pipeline(format_pipeline([step])) == [step]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        ("a=1 b=x", {"a": "1", "b": "x"}),
        ("a=1,merge", {"a": "1", "merge": True}),
        ('node="x y, z"', {"node": "x y, z"}),
        ("block_limit=3", {"block-limit": "3"}),
    ],
)
def test_option_syntax(text, options):
    assert parse_options(text) == options


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("split-linear{block-limt=3}", "did you mean 'block-limit'"),
        ("split-linear{block-limit=many}", "takes a whole number, not 'many'"),
        ("split-linear{block-limit}", "needs a value"),
        ("split-individual{merge=perhaps}", "takes true or false"),
        ("split-linear{block-limit=1", "unbalanced"),
        ("split-linear,,cse", "an empty pass name"),
        ("split-linear{a=1 a=2}", "set twice"),
        ("split-linear{=}", "cannot read the options"),
    ],
)
def test_bad_pipelines_say_what_is_wrong(text, says):
    with pytest.raises(HespasError, match=says):
        parse_pipeline(text)


def test_an_unknown_pass_suggests_the_near_name(parse):
    with pytest.raises(UsageError, match="did you mean 'split-linear'"):
        passes.run_pipeline(parse(IDENTITY), "split-liner")


def test_native_passes_mix_with_ours(parse):
    module = parse(IDENTITY)
    names: list[str] = []

    class NameCollector(pipeline.PassInstrumentation):
        def run_after_pass(self, module, step):
            names.append(step.name)

    pipeline_text = "cse,split-linear,symbol-dce"
    passes.run_pipeline(module, pipeline_text, instrumentation=[NameCollector()])
    assert names == ["cse", "prepare", "split-linear", "symbol-dce"]
    assert TargetAttr.read_from_op(module.operation) == TargetAttr(1, 1, 1)
    assert SplitAttr.read_from_op(module.operation) == SplitAttr("linear")


def test_prepare_is_not_repeated(parse):
    module = parse(IDENTITY)
    passes.run_pipeline(module, "prepare")
    assert [
        s.name for s in pipeline.insert_prepare(module, pipeline.parse_pipeline("split-linear"))
    ] == ["split-linear"]


class CollectionState(pipeline.PassInstrumentation):
    """Records whether garbage is collected at each pass."""

    def __init__(self):
        self.states = []

    def run_before_pass(self, module, step):
        self.states.append(gc.isenabled())


@pytest.mark.parametrize("is_enabled", [True, False])
def test_garbage_collection_pauses_while_passes_run(parse, is_enabled):
    was_enabled, state = gc.isenabled(), CollectionState()
    (gc.enable if is_enabled else gc.disable)()
    try:
        passes.run_pipeline(parse(IDENTITY), "fuse", instrumentation=[state])
        assert gc.isenabled() == is_enabled
        with pytest.raises(HespasError):
            passes.run_pipeline(parse("module {}"), "fuse", instrumentation=[state])
        assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
    assert len(state.states) >= 3 and not any(state.states)


def test_warnings_are_kept_once():
    notes = []
    run = PassRun(note=notes.append)
    run.warn("same")
    run.warn("same")
    assert run.warnings == ["same"] and notes == ["warning: same"]


def test_values_out_of_range_are_refused(parse):
    with pytest.raises(HespasError, match="option 'block-limit' is -1, less than 0"):
        passes.run_pipeline(parse(IDENTITY), [SplitLinearPass(block_limit=-1)])


@pytest.mark.parametrize("wrong", ["module {}", None, 3])
def test_what_is_no_module_is_named(wrong) -> None:
    with pytest.raises(TypeError, match=r"runs on an ir\.Module of jaxlib's bindings, not on"):
        passes.run_pipeline(wrong, "prepare")


@pytest.mark.parametrize("wrong", [["prepare"], [None], ("cse", "prepare")])
def test_a_list_of_what_is_no_pass_is_named(parse, wrong) -> None:
    with pytest.raises(TypeError, match="a text, such as 'split-linear,cse', or a list of passes"):
        passes.run_pipeline(parse(IDENTITY), wrong)
