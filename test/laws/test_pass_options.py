"""What a lit test of a pass shows: that each option has an effect, and the pass twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from support.tool_commands import ToolCommand, parse_pipe, run_pipe

from hespas.estimators.measure.base import MeasuringEstimator
from hespas.estimators.registry import ESTIMATORS, load_estimator_class
from hespas.passes import base, registry

LIT = ROOT / "test" / "lit"
# They run simulators and compilers that are not here, or for a long time.
NOT_HERE = {"xla-optimize", "annotate", "accelsim-annotate"} | {
    f"{name}-annotate"
    for name in ESTIMATORS
    if issubclass(load_estimator_class(name), MeasuringEstimator)
}
NEED_SHELL = {("emit-chakra", "stats"), ("emit-chakra", "clean")}  # to look at files
OPTIONS = [
    (name, spelled)
    for name in registry.list_builtin_pass_names()
    if name not in NOT_HERE
    for spelled, _ in registry.load_pass_class(name).list_spelled_options()
    if (name, spelled) not in NEED_SHELL
]


def list_commands(name: str, option: str, folder: Path) -> Iterator[list[ToolCommand]]:
    """List the commands of the lit files that set an option, except those that show errors."""
    for file in sorted((LIT / name).glob("*.mlir")):
        text = file.read_text()
        lines = re.findall(r"// RUN: (.*)", text)
        is_set = any(
            re.search(rf"--{name}=.*\b{option}\b", line) for line in lines if line[:4] != "not "
        )
        for line in lines if is_set and "REQUIRES:" not in text else ():
            here = line.replace("%s", str(file)).replace("%t", str(folder / file.stem))
            stages = parse_pipe(here)
            if stages is not None and not stages[0].fails:
                yield stages


def finds_problem(stages: list[ToolCommand]) -> bool:
    try:
        return bool(run_pipe(stages))
    except FileNotFoundError:  # a file that another command should have written
        return True


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_a_lit_test_notices_an_option_that_is_ignored(
    name: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = dict(registry.load_pass_class(name).list_spelled_options())[option].default
    convert = base._convert_option

    def ignore_option(subject: str, hint: Any, text: str | bool) -> Any:
        value = convert(subject, hint, text)
        return default if subject == f"{name}: option '{option}'" else value

    monkeypatch.setattr(base, "_convert_option", ignore_option)
    monkeypatch.chdir(tmp_path)  # without the option, files get other names
    assert any(map(finds_problem, list_commands(name, option, tmp_path)))


@pytest.mark.parametrize("name", sorted({*registry.list_builtin_pass_names()} - NOT_HERE))
def test_a_lit_test_runs_the_pass_twice(name: str) -> None:
    twice = re.compile(rf"// RUN: .*--{name}(?![\w-]).*--{name}(?![\w-])")
    assert any(twice.search(file.read_text()) for file in (LIT / name).glob("*.mlir"))
