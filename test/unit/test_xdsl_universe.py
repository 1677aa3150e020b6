"""The dialect, passes and targets that hespas adds to ``xdsl-opt``, on its command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from support.paths import ROOT
from xdsl.universe import Universe

from hespas.dialects.mlir import ir
from hespas.frontends import xdsl_universe
from hespas.passes import registry
from hespas.passes.base import Pass, PassRun, option


@dataclass(frozen=True)
class TagPass(Pass):
    """Tag the module with every option."""

    name: ClassVar[str] = "tag"

    word: str = option("", "a string")
    count: int = option(0, "an int")
    share: float | None = option(None, "a float")
    flag: bool = option(False, "a flag")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        text = f"{self.word}|{self.count}|{self.share}|{self.flag}"
        module.operation.attributes["a.tag"] = ir.StringAttr.get(text, module.context)


def xdsl_opt(*words: str, input: str = "builtin.module {}") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "xdsl.tools.xdsl_opt", *words]
    return subprocess.run(command, input=input, capture_output=True, text=True)


@pytest.fixture
def tag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "load_pass_class", lambda name: TagPass)


@pytest.mark.usefixtures("tag")
@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ("tag", "|0|None|False"),
        ("tag{word=A100_SXM_40GB count=3 share=0.5 flag}", "A100_SXM_40GB|3|0.5|True"),
        ('tag{word="a b" share=2 flag=true}', "a b|0|2.0|True"),
        ("tag{word=7 flag=false}", "7|0|None|False"),
    ],
)
def test_options_reach_the_pass(pipeline: str, expected: str) -> None:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import PassPipeline

    module = ModuleOp([])
    passes = {"tag": lambda: xdsl_universe.wrap_hespas_pass("tag", "tag")}
    PassPipeline.parse_spec(passes, pipeline).apply(Context(allow_unregistered=True), module)
    assert str(module.attributes["a.tag"]) == f'"{expected}"'


def test_every_pass_is_offered_and_none_clashes() -> None:
    universe = Universe.get_multiverse()
    assert {*registry.list_pass_names(), "hespas-read"} <= universe.all_passes.keys()
    assert "hespas" in universe.all_dialects.keys() & universe.all_targets.keys()


def test_a_clash_with_xdsl_gets_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "list_pass_names", lambda: ["cse", "prepare"])
    assert {"hespas-cse", "prepare"} <= xdsl_universe.list_pass_factories().keys()


def test_starting_xdsl_opt_imports_no_bindings() -> None:
    code = (
        "import sys; from xdsl.universe import Universe; u = Universe.get_multiverse()\n"
        "u.all_dialects['hespas'](); u.all_targets['hespas']()\n"
        "sys.exit(any(name.startswith('jaxlib') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_an_error_names_pass_and_op() -> None:
    done = xdsl_opt(
        "--allow-unregistered-dialect",
        "--verify-diagnostics",
        "-p",
        "roofline-annotate{node=A100_SXM_40G}",
        input="func.func @main() {\n  func.return\n}",
    )
    assert done.returncode == 0, done.stderr
    assert "A100_SXM_40GB" in done.stdout


def test_reading_prints_what_hespas_opt_prints(
    workload: Callable[[str], Path], context: ir.Context
) -> None:
    from hespas import frontends

    path = workload("zoo/transformer_block_fwd/jax_sdy.mlir")
    done = xdsl_opt("-p", f'hespas-read{{input="{path}"}}', "-t", "hespas")
    assert done.returncode == 0, done.stderr
    assert done.stdout == str(frontends.read_module(path, context))


@pytest.mark.slow
def test_the_how_to_runs(tmp_path: Path) -> None:
    """The blocks of docs/how-to/xdsl.md run unchanged, in order, in one folder."""
    text = (ROOT / "docs" / "how-to" / "xdsl.md").read_text()
    blocks = [part.split("```")[0] for part in text.split("```")[1::2]]
    for block in blocks:
        language, _, body = block.partition("\n")
        if language.startswith("mlir"):
            (tmp_path / language.split("=")[1]).write_text(body)
            continue
        assert language in ("sh", "python")
        command = ["bash", "-e", "-c", body] if language == "sh" else [sys.executable, "-c", body]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=_path())
        assert done.returncode == 0, f"{body}\n{done.stderr}"
    assert "#hespas.cost<" in (tmp_path / "typed.mlir").read_text()
    assert "hespas.cost = {" in (tmp_path / "out.mlir").read_text()


def _path() -> dict[str, str]:
    import os

    folder = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join([folder, os.environ.get("PATH", "")])}
