"""A pipeline has the same results in one process and as one process per pass.

Everything that a pass needs from an earlier one is on the IR. The pipelines are those of the shell
examples in the docs, on a small program, and a few more. Passes that measure are left out.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from support.annotated_programs import ADD, REDUCE, X, loop, program
from support.paths import ROOT

from hespas.estimators import registry as estimators
from hespas.passes import registry
from hespas.passes.pipeline import format_pipeline, parse_pipeline
from hespas.tools import hespas_opt

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODE = {
    "name": "mine", "peaks_flops": {"matrix": {"bf16": 2e14}, "vector": {"f32": 2e13}},
    "memory_bandwidth_bytes_per_s": 2e12, "memory_bytes": 10**9,
}  # fmt: skip
PROGRAM = program(
    f"%0 = {ADD}\n%1 = stablehlo.dot_general %0, %y, contracting_dims = [1] x [0] "
    f": ({X}, {X}) -> {X}"
    f"\n{REDUCE.format('2', '1')}{loop('w', 3, f'%b = stablehlo.tanh %acc : {X}', 'b', '2')}",
    "w#1",
)
MORE = (
    # An option that changes the node: the later process reads it from hespas.target.
    "split-linear,roofline-annotate{node=A100_SXM_40GB memory-bandwidth=1e11},"
    "emit-chakra{output=out}",
    # A node that options alone describe, and a second annotation that inherits it.
    "split-linear,roofline-annotate{peak-flops=1e12 memory-bandwidth=1e11 "
    'per-datatype-flops="f32=1e9;matrix.bf16=2e9"},roofline-annotate{'
    "tdp=300 hbm-power-share=0.4},emit-chakra{output=out}",
    "split-linear,systolic-annotate{node=TPUv4 memory-bandwidth=1e11},emit-chakra{output=out}",
    "fuse,memory-annotate,split-individual{merge},calibrated-annotate{node=H100_80GB},cse,"
    "emit-chakra",
)


def collect_documented_pipelines() -> list[str]:
    """The pipelines of ``hespas-opt`` in shell examples, those of a shell pipe together."""
    pipelines = []
    for page in PAGES:
        for block in SHELL_BLOCK.findall(page.read_text()):
            for command in re.sub(r"\\?\n *(?=\||-)|\\\n", " ", block).splitlines():
                steps = list_steps(command) if "hespas-opt" in command else []
                if steps:
                    pipelines.append(format_pipeline(parse_pipeline(",".join(steps))))
    return sorted(set(pipelines))


def list_steps(command: str) -> list[str]:
    words, steps = shlex.split(command), []
    for i, word in enumerate(words):
        name, _, options = word.removeprefix("--").partition("=")
        if word in ("-p", "--pass-pipeline"):
            steps.append(words[i + 1])
        elif registry.is_pass_name(name) or name in ("cse", "canonicalize"):
            steps.append(f"{name}{{{options}}}" if options else name)
    return steps


def measures(pipeline: str) -> bool:
    names = [step.name.removesuffix("-annotate") for step in parse_pipeline(pipeline)]
    known = estimators.list_estimator_names()
    return any(name in known and estimators.load_estimator_class(name).measures for name in names)


DOCUMENTED = [pipeline for pipeline in collect_documented_pipelines() if not measures(pipeline)]


def test_the_docs_have_pipelines():
    assert len(DOCUMENTED) > 8
    assert any("emit-chakra" in pipeline for pipeline in DOCUMENTED)


@pytest.mark.parametrize("pipeline", [*DOCUMENTED, *MORE])
def test_processes_in_a_pipe_do_what_one_process_does(pipeline, tmp_path, monkeypatch):
    if "emit-chakra" in pipeline and "split-" not in pipeline:  # its input is of an example before
        pipeline = f"split-linear,roofline-annotate{{node=A100_SXM_40GB}},{pipeline}"
    results = []
    steps = parse_pipeline(pipeline)
    for name, stages in (
        ("together", [pipeline]),
        ("apart", [format_pipeline([step]) for step in steps]),
    ):
        folder = tmp_path / name
        (folder / "programs").mkdir(parents=True)
        (folder / "programs" / "in.mlir").write_text(PROGRAM)
        for node in set(re.findall(r"node=([\w.]+\.json)", pipeline)):
            (folder / node).write_text(json.dumps(NODE))
        for array in set(re.findall(r"array=([\w.]+\.json)", pipeline)):
            (folder / array).write_bytes((ROOT / "configs/accelerators/TPUv4.json").read_bytes())
        for rules in set(re.findall(r"kernel-cost=([\w.]+\.py)", pipeline)):
            (folder / rules).write_text("RULES = []\n")
        monkeypatch.chdir(folder)
        results.append((run_stages(stages, monkeypatch), read_files(folder)))
    assert results[0] == results[1]


def run_stages(stages: list[str], monkeypatch) -> list[str]:
    """Run ``hespas-opt`` once per stage, in contexts of their own, through pipes of bytecode.

    Returns the module as text, with locations and without.
    """
    source, data = "programs/in.mlir", b""
    for stage in stages:
        data = run_tool([source, "-p", stage, "--emit-bytecode"], data, monkeypatch)
        source = "-"
    plain = run_tool(["-"], data, monkeypatch)
    return [plain.decode(), run_tool(["-", "--mlir-print-debuginfo"], data, monkeypatch).decode()]


def run_tool(arguments: list[str], data: bytes, monkeypatch) -> bytes:
    output = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    monkeypatch.setattr(sys, "stdout", output)
    assert hespas_opt.main(arguments) == 0
    output.flush()
    return output.buffer.getvalue()


def read_files(folder: Path) -> dict[str, bytes]:
    """Read all files but hidden ones, which record when the others were written."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("[!.]*"))
        if path.is_file()
    }
