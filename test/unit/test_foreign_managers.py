"""Passes of hespas in the pass managers, contexts and diagnostic handlers of other people."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path

import pytest
from jaxlib.mlir import ir as jax_ir
from jaxlib.mlir.passmanager import PassManager
from support.paths import ROOT

import hespas
from hespas import frontends
from hespas.dialects.mlir import attach_diagnostic_handler, ir, make_context, register_passes
from hespas.passes.base import PassRun
from hespas.passes.emit.emit_chakra import EmittedTraces
from hespas.passes.pipeline import add_passes, run_pipeline
from hespas.support.errors import UsageError

X = "tensor<64x64xf32>"
TEXT = f"""func.func @main(%p: tensor<i1>, %x: {X}) -> {X} {{
  %0 = stablehlo.tanh %x : {X}
  %dead = stablehlo.sine %0 : {X}
  %1:2 = stablehlo.while(%a = %0, %q = %p) : {X}, tensor<i1>
  cond {{ stablehlo.return %q : tensor<i1> }} do {{
    %2 = stablehlo.add %a, %a : {X}
    stablehlo.return %2, %q : {X}, tensor<i1>
  }}
  return %1#0 : {X}
}}"""
ANNOTATE = "roofline-annotate{node=A100_SXM_40GB}"


def read(text: str = TEXT, context: ir.Context | None = None) -> ir.Module:
    return frontends.parse_module(text.encode(), "in.mlir", context or make_context())


def make_manager(module: ir.Module) -> PassManager:
    register_passes()
    return PassManager("builtin.module", module.context)


PIPELINES = [
    f"prepare,split-linear,{ANNOTATE}",
    f"func.func(canonicalize),split-individual{{merge=true}},{ANNOTATE},cse,refresh-costs",
    f"fuse,memory-annotate,split-linear{{block-limit=2}},{ANNOTATE},strip-costs,unsplit",
    f"any(cse),{ANNOTATE},split-individual,builtin.module(symbol-dce),op-stats{{output=ops}}",
]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_foreign_manager_gives_what_run_pipeline_gives(pipeline, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    ours, theirs = read(), read()
    run_pipeline(ours, pipeline.replace("builtin.module(symbol-dce)", "symbol-dce"))
    manager = make_manager(theirs)
    add_passes(manager, pipeline.replace("builtin.module(symbol-dce)", "symbol-dce"))
    manager.run(theirs.operation)
    assert str(ours) == str(theirs)


def test_a_list_of_names_is_no_pipeline() -> None:
    with pytest.raises(TypeError, match=r"a pipeline is a text.* not of str"):
        add_passes(make_manager(read()), ["split-linear"])  # type: ignore[list-item]


def test_artefacts_and_passes_of_others_between(tmp_path: Path) -> None:
    """What a pass between two of ours changes is not taken to be as it was."""
    module = read()
    manager = make_manager(module)
    run = add_passes(manager, f"split-linear,{ANNOTATE}")
    manager.add("func.func(canonicalize)")  # removes the sine
    add_passes(manager, f"emit-chakra{{output={tmp_path}}}", run)
    manager.run(module.operation)
    emitted = run.get_artefact(EmittedTraces)
    again = read(str(module.operation.get_asm(enable_debug_info=True)))
    fresh = run_pipeline(again, f"strip-costs,{ANNOTATE},emit-chakra{{output={tmp_path / 'f'}}}")
    total = fresh.get_artefact(EmittedTraces).stats["totals"]["time_ns"]
    assert emitted.stats["totals"]["time_ns"] == total > 0


CALLS = f"""func.func @main(%x: {X}) -> {X} {{
  %0 = call @f(%x) : ({X}) -> {X}
  return %0 : {X}
}}
func.func private @f(%x: {X}) -> {X} {{
  %0 = stablehlo.tanh %x : {X}
  return %0 : {X}
}}"""


@pytest.mark.parametrize("owner", ["hespas", "jax"])
def test_the_inliner_of_a_foreign_manager_inlines_calls(owner: str) -> None:
    if owner == "hespas":
        module = read(CALLS)
    else:
        from jax._src.interpreters import mlir as jax_mlir  # JAX makes contexts of its own

        module = hespas.read(jax_ir.Module.parse(CALLS, jax_mlir.make_ir_context()))
    run_pipeline(module, f"split-linear,{ANNOTATE}")
    manager = make_manager(module)
    manager.add("inline")
    manager.run(module.operation)
    assert "call" not in str(module) and "@f" not in str(module)
    run_pipeline(module, "split-individual,refresh-costs")  # no region function is left
    assert str(module).count("hespas.region = ") == 1


def test_errors_reach_the_handlers_and_fail_the_manager() -> None:
    module = read()
    manager = make_manager(module)
    add_passes(manager, "prepare,emit-chakra")
    with pytest.raises(ir.MLIRError, match="emit-chakra: the module is not split; run split"):
        manager.run(module.operation)
    (function,) = module.body.operations
    with pytest.raises(UsageError, match="no pass is named 'split-liner'"):
        add_passes(manager, "split-liner")
    nested = PassManager("func.func", module.context)
    add_passes(nested, "prepare")
    with pytest.raises(ir.MLIRError, match=r"prepare is a pass on builtin\.module, not on func"):
        nested.run(function.operation)


@pytest.mark.parametrize("owner", ["hespas", "other"])
@pytest.mark.parametrize("in_manager", [False, True])
def test_warnings_and_notes_reach_the_handlers(owner: str, in_manager: bool, capfd) -> None:
    if owner == "hespas":
        context: ir.Context = make_context()
        module = read(context=context)
    else:
        from jax._src.interpreters import mlir as jax_mlir  # JAX makes contexts of its own

        context = jax_mlir.make_ir_context()
        module = jax_ir.Module.parse(TEXT, context)
    seen: list[tuple[str, str, str]] = []

    def handle(diagnostic) -> bool:
        seen.append((diagnostic.severity.name, str(diagnostic.location), diagnostic.message))
        return True

    handler = (
        context.attach_diagnostic_handler(handle)
        if owner == "hespas"
        else attach_diagnostic_handler(context, handle)
    )
    notes: list[str] = []
    run = PassRun("in.mlir", note=notes.append)
    for pipeline in ("split-linear,roofline-annotate", "func.func(canonicalize),refresh-costs"):
        if in_manager:
            manager = make_manager(module)
            add_passes(manager, pipeline, run)
            manager.run(module.operation)
        else:
            run_pipeline(module, pipeline, run)
    severities = [severity for severity, _, _ in seen]
    assert severities == ["WARNING", "REMARK", "REMARK"], seen
    assert "the trip count of the loop depends on data" in seen[0][2]
    assert ":4:10" in seen[0][1]
    assert "changed after the annotation: the sums of costs are added up again" in seen[2][2]
    assert len(notes) == 3, "the run receives them too"
    handler.detach()
    run_pipeline(module, "strip-costs,roofline-annotate", PassRun("in.mlir", note=notes.append))
    assert len(seen) == 3
    shown = capfd.readouterr()
    assert shown.out == shown.err == ""


@pytest.mark.parametrize("in_manager", [False, True])
@pytest.mark.parametrize("attaches", [False, True])
def test_a_context_is_freed_with_its_last_module(
    attaches: bool, in_manager: bool, tmp_path: Path
) -> None:
    """What hespas caches and attaches keeps one context at most, the last one."""
    pipeline = (
        f"fuse,memory-annotate,on-chip-annotate,split-individual{{merge}},{ANNOTATE},"
        f"refresh-costs,calibrated-annotate{{node=A100_SXM_40GB}},emit-chakra{{output={tmp_path}}}"
    )
    contexts: list[weakref.ref[ir.Context]] = []
    for _ in range(3):
        context = make_context()
        if attaches:
            context.attach_diagnostic_handler(lambda _: True)
        module = read(context=context)
        contexts.append(weakref.ref(context))
        del context
        if in_manager:
            manager = make_manager(module)
            add_passes(manager, pipeline)
            manager.run(module.operation)
            del manager
        else:
            run_pipeline(module, pipeline)
        del module
    gc.collect()
    assert [context() is None for context in contexts][:2] == [True, True]


def test_pipelines_in_two_contexts_do_not_disturb_each_other() -> None:
    path = ROOT / "docs" / "examples" / "llama3-100m.mlir.xz"
    pipeline = f"split-individual{{merge}},{ANNOTATE}"
    results: dict[int, str] = {}

    def work(number: int) -> None:
        module = frontends.read_module(str(path), make_context())
        run_pipeline(module, pipeline)
        results[number] = str(module)

    work(0)
    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1] == results[2]


def test_a_pipeline_runs_while_another_context_is_current() -> None:
    module, expected = read(), read()
    run_pipeline(expected, f"split-linear,{ANNOTATE}")
    with make_context(), ir.Location.unknown():
        run_pipeline(module, f"split-linear,{ANNOTATE}")
    assert str(module) == str(expected)
