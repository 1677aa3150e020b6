"""What XLA computes again to save memory: marks on the IR, the limit, and what a run says of it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from hespas import passes
from hespas.configs import compile_targets
from hespas.dialects.attrs import RECOMPUTED
from hespas.dialects.mlir import hlo_text_to_proto, ir, make_context
from hespas.dialects.program_facts import write_program_facts
from hespas.dialects.xla import find_gpu_library
from hespas.passes.base import PassRun
from hespas.passes.compile.hlo_to_stablehlo import import_hlo
from hespas.passes.compile.rematerialisation import find_origin
from hespas.passes.optimize.xla_optimize import OPTIMISED_FOR
from hespas.tools.console_scripts import run_tool_main
from hespas.tools.hespas import main
from hespas.workflows.compiler_rematerialisation import find_rematerialisation

# As XLA writes what it has cloned: the second use of "a" reads a clone. Of "b" XLA has removed the
# first instruction, whose uses all read the first clone. Views cost nothing.
CLONES = """HloModule m, is_scheduled=true

ENTRY main {
  p = f32[64,64]{1,0} parameter(0)
  a.1 = f32[64,64]{1,0} tanh(p)
  b.remat = f32[64,64]{1,0} exponential(p)
  c.2 = f32[64,64]{1,0} add(a.1, b.remat)
  v.remat = f32[4096]{0} bitcast(c.2)
  w.remat.3 = f32[4096]{0} bitcast(c.2)
  a.1.remat = f32[64,64]{1,0} tanh(p)
  b.remat2 = f32[64,64]{1,0} exponential(p)
  a.1.remat2 = f32[64,64]{1,0} tanh(p)
  d = f32[64,64]{1,0} add(a.1.remat, b.remat2)
  e = f32[4096]{0} add(v.remat, w.remat.3)
  ROOT r = (f32[64,64]{1,0}, f32[64,64]{1,0}, f32[4096]{0}) tuple(d, a.1.remat2, e)
}
"""


def list_marks(module: ir.Module) -> Counter[str]:
    marks: Counter[str] = Counter()

    def visit(op: ir.Operation) -> ir.WalkResult:
        if RECOMPUTED in op.attributes:
            marks[ir.StringAttr(op.attributes[RECOMPUTED]).value] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return marks


def test_clones_after_the_first_are_computed_again():
    module = import_hlo(hlo_text_to_proto(CLONES), make_context())
    assert list_marks(module) == {"a.1": 2, "b": 1}
    assert "hespas_recomputed" not in str(module)
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    assert list_marks(module) == {"a.1": 2, "b": 1}


def test_a_mark_counts_for_nothing_on_another_kernel():
    """A conversion copies the marks of the op that it replaces; of a clone they are true."""
    module = import_hlo(hlo_text_to_proto(CLONES), make_context())
    write_program_facts(module, {OPTIMISED_FOR: "A100_SXM_40GB"})
    steps = "split-linear,roofline-annotate{node=A100_SXM_40GB}"
    passes.run_pipeline(module, steps, PassRun(note=lambda _: None))
    run = PassRun(note=lambda _: None)
    before = find_rematerialisation(module, run)
    assert before is not None
    assert {one.name: one.count for one in before.kernels} == {"a.1": 2, "b": 1}
    assert not run.warnings
    marked = []

    def collect_marked_exponential(op: ir.Operation) -> ir.WalkResult:
        if op.name == "stablehlo.exponential" and RECOMPUTED in op.attributes:
            marked.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect_marked_exponential)
    (exponential,) = marked
    attributes = dict(exponential.attributes.items())
    with ir.InsertionPoint(exponential), exponential.location:
        cosine = ir.Operation.create(
            "stablehlo.cosine",
            results=[one.type for one in exponential.results],
            operands=list(exponential.operands),
            attributes=attributes,
        )
    exponential.results[0].replace_all_uses_with(cosine.results[0])
    exponential.erase()
    after = find_rematerialisation(module, run)
    assert after is not None
    assert {one.name: one.count for one in after.kernels} == {"a.1": 2}
    (warning,) = run.warnings
    assert "stablehlo.cosine" in warning and "do not count as computed again" in warning


@pytest.mark.parametrize("split", ["split-linear", "split-individual", "split-individual{merge}"])
def test_a_kernel_whose_first_run_is_gone_is_the_first(split: str) -> None:
    """Whoever deletes the first of three equal kernels leaves one that is computed again."""
    module = import_hlo(hlo_text_to_proto(CLONES), make_context())
    write_program_facts(module, {OPTIMISED_FOR: "A100_SXM_40GB"})
    steps = f"{split},roofline-annotate{{node=A100_SXM_40GB}}"
    passes.run_pipeline(module, steps, PassRun(note=lambda _: None))
    ops: dict[str, list[ir.Operation]] = {}

    def collect_unmarked(op: ir.Operation) -> ir.WalkResult:
        if RECOMPUTED not in op.attributes:
            ops.setdefault(op.name, []).append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect_unmarked)
    (tanh,) = ops["stablehlo.tanh"]
    with ir.InsertionPoint(tanh), tanh.location:
        sine = ir.Operation.create(
            "stablehlo.sine", results=[tanh.results[0].type], operands=list(tanh.operands)
        )
    tanh.results[0].replace_all_uses_with(sine.results[0])
    tanh.erase()
    run = PassRun(note=lambda _: None)
    passes.run_pipeline(module, "refresh-costs", run)
    found = find_rematerialisation(module, run)
    assert found is not None
    assert {one.name: one.count for one in found.kernels} == {"a.1": 1, "b": 1}
    (warning,) = run.warnings
    assert "stablehlo.tanh" in warning and "no other kernel has computed before" in warning


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("fusion.24", "fusion.24"), ("fusion.24.remat", "fusion.24"),
        ("fusion.24.remat12", "fusion.24"), ("bitcast.remat.13", "bitcast"),
        ("copy.5.remat_uncompressed", "copy.5"), ("a.remat2.remat", "a"), ("remat", "remat"),
    ],
)  # fmt: skip
def test_origins_of_clones(name, origin):
    assert find_origin(name) == origin


def test_the_limit_is_what_the_allocator_leaves():
    """XLA takes 80 % of the stated memory, so that the stated one is larger."""
    target = compile_targets.load_compile_target("H100_80GB")
    limit = target.compute_memory_limit(0.75)
    stated = compile_targets.MEMORY_SIZE.search(target.limit_memory(0.75) or "")
    assert stated is not None and int(stated[1]) * 80 // 100 == limit
    assert limit == pytest.approx(0.75 * 85e9, rel=0.01)
    assert compile_targets.load_compile_target("cpu").limit_memory(0.75) is None


def test_a_fraction_is_a_share():
    module = ir.Module.parse("module {func.func @main() {return}}", make_context())
    for fraction in ("0", "1.5"):
        options = f"xla-optimize{{target=H100_80GB,memory-fraction={fraction}}}"
        with pytest.raises(Exception, match="'memory-fraction' is"):
            passes.run_pipeline(module, options, PassRun(note=lambda _: None))


def make_deep_program() -> str:
    """Make a forward and a backward pass of six layers of 512 kB activations, in f32."""
    lines, value = [], "%x"
    tensor, matrix = "tensor<1024x128xf32>", "tensor<128x128xf32>"
    product = f"contracting_dims = [1] x [0] : ({tensor}, {matrix}) -> {tensor}"
    for i in range(6):
        lines += [
            f"%p{i} = stablehlo.dot_general {value}, %w, {product}",
            f"%h{i} = stablehlo.tanh %p{i} : {tensor}",
        ]
        value = f"%h{i}"
    for i in reversed(range(6)):
        lines += [
            f"%m{i} = stablehlo.multiply {value}, %h{i} : {tensor}",
            f"%g{i} = stablehlo.dot_general %m{i}, %w, {product}",
        ]
        value = f"%g{i}"
    body = "\n".join(lines)
    signature = f"@main(%x: {tensor}, %w: {matrix}) -> {tensor}"
    return f"func.func public {signature} {{\n{body}\nreturn {value} : {tensor}\n}}"


@pytest.mark.slow
@pytest.mark.skipif(find_gpu_library() is None, reason="needs pip install 'hespas[gpu-compiler]'")
def test_a_run_says_what_xla_computes_again(tmp_path, capsys, monkeypatch):
    """The kernels that are computed again are those that a run with more memory does not have."""
    program = tmp_path / "deep.mlir"
    program.write_text(make_deep_program())
    monkeypatch.chdir(tmp_path)
    results = {}
    for fraction in ("0.75", "0.00003"):
        command = ["run", "--mlir", str(program), "--node", "H100_80GB", "--json"]
        options = ["--xla-optimize", f"memory-fraction={fraction}"]
        assert run_tool_main(main, [*command, *options]) == 0
        results[fraction] = json.loads(capsys.readouterr().out)
    roomy, tight = results.values()
    memory = compile_targets.load_compile_target("H100_80GB").compute_memory_limit(1.0)
    assert roomy["compile_memory_limit_bytes"] == pytest.approx(0.75 * memory, rel=1e-6)
    assert roomy["rematerialised_s"] == 0 and roomy["rematerialised"] == []
    assert tight["compile_memory_limit_bytes"] == pytest.approx(0.00003 * memory, rel=1e-6)
    assert tight["rematerialised_flops"] == tight["flops"] - roomy["flops"] > 0
    assert not [text for text in tight["warnings"] if "computed before" in text]
    kernels = tight["rematerialised"]
    assert sum(kernel["time_s"] for kernel in kernels) == pytest.approx(tight["rematerialised_s"])
    assert tight["rematerialised_s"] == pytest.approx(
        tight["compute_s"] - roomy["compute_s"], rel=0.2
    )
    assert run_tool_main(main, [*command[:-1], *options]) == 0
    assert "by XLA, to keep within 2.548 MB" in capsys.readouterr().out
