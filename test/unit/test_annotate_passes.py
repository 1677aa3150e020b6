"""The passes ``--NAME-annotate`` are generated from estimators, those of packages included."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from support.annotated_programs import ADD, X, program

from hespas import passes
from hespas.dialects.attrs import TargetAttr
from hespas.estimators import registry as estimators
from hespas.passes import registry
from hespas.passes.base import PassRun
from hespas.support.errors import UsageError
from hespas.tools import hespas, hespas_opt

PACKAGE = '''
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from hespas.plugin import Cost, Estimator, Pass, setting


@dataclass(frozen=True)
class FlatConfig:
    op_ns: float
    bound: Literal["memory", "latency"] = setting("latency", "what limits an op")
    shape: tuple = ()


class Flat(Estimator):
    """Give every op the same time.

    It ignores the node.
    """

    name, version, Config = "flat", "1", FlatConfig

    def __init__(self, config):
        self.config = config

    def estimate(self, item):
        return Cost(self.name, 0, 0, 0, self.config.op_ns, self.config.bound, "none")


class ModelConfig(BaseModel):
    op_ns: float = Field(2.0, gt=0, description="time of an op in ns")
    bound: str = "latency"


class Model(Flat):
    name, Config = "model", ModelConfig


@dataclass
class ClashConfig:
    keep_going: bool = True


class Clash(Flat):
    name, Config = "clash", ClashConfig


class Unfinished(Estimator):
    name, version, Config = "unfinished", "1", FlatConfig

    def __init__(self, config):
        self.config = config


class UnfinishedPass(Pass):
    name = "unfinished"
'''
POINTS = {
    "flat": "installed_package:Flat",
    "model": "installed_package:Model",
    "clash": "installed_package:Clash",
    "broken": "no_such_package:Broken",
    "wrong": "installed_package:FlatConfig",
    "unfinished": "installed_package:Unfinished",
}
PASS_POINTS = {
    "not-a-pass": "installed_package:Flat",
    "unfinished": "installed_package:UnfinishedPass",
    "renamed": "hespas.passes.annotate.strip_costs:StripCostsPass",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose entry points name estimators."""
    (tmp_path / "installed_package.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(tmp_path))

    def entry_points(group: str) -> list[EntryPoint]:
        points = {"hespas.estimators": POINTS, "hespas.passes": PASS_POINTS}.get(group, {})
        return [EntryPoint(name, value, group) for name, value in points.items()]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    for cached in (estimators.find_plugins, registry.find_plugins):
        cached.cache_clear()
    yield
    for cached in (estimators.find_plugins, registry.find_plugins):
        cached.cache_clear()
    sys.modules.pop("installed_package", None)


def test_an_installed_estimator_has_a_flag(package, tmp_path, capsys):
    assert "flat-annotate" in registry.list_pass_names()
    assert registry.is_pass_name("flat-annotate") and not registry.is_pass_name("flat")
    assert "installed_package" not in sys.modules, "names are listed without an import"
    path = tmp_path / "in.mlir"
    path.write_text(program(f"%0 = {ADD}\n%1 = stablehlo.tanh %0 : {X}", "1"))
    assert hespas_opt.main([str(path), "--flat-annotate=op-ns=2.5 bound=memory"]) == 0
    shown = capsys.readouterr()
    assert shown.out.count('bound = "memory"') == 2 and "latency_ns = 2.5" in shown.out
    assert 'constants = "op-ns=2.5, bound=memory, shape=()"' in shown.out
    assert "the default" not in shown.err, "no node is chosen for an estimator that reads none"


def test_options_and_help_are_those_of_the_configuration(package):
    cls = registry.load_pass_class("flat-annotate")
    assert cls is registry.load_pass_class("flat-annotate")
    assert cls.get_help_summary() == "Give every op the same time."
    options = {name: (f.default, f.metadata["help"]) for name, f in cls.list_spelled_options()}
    assert list(options) == ["node", "keep-going", "kernel-cost", "op-ns", "bound", "shape"]
    assert options["bound"] == ("latency", "what limits an op")
    assert options["op-ns"] == (None, "a setting of flat")
    model = {f.name: f for f in dataclasses.fields(registry.load_pass_class("model-annotate"))}
    assert (model["op_ns"].default, model["op_ns"].metadata["help"]) == (2.0, "time of an op in ns")


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("flat-annotate", "flat needs the setting 'op-ns'"),
        ("flat-annotate{op-ns=fast}", "option 'op-ns' takes a finite number, not 'fast'"),
        ("flat-annotate{op-ms=1}", "flat-annotate has no option 'op-ms'; did you mean 'op-ns'"),
        ("flat-annotate{op-ns=1 bound=x}", "flat: setting 'bound': Input should be 'memory' or"),
        ("annotate{estimator=flat settings=op-ns=fast}", "flat: setting 'op-ns': Input should be"),
        ("model-annotate{op-ns=-1}", "model: setting 'op-ns': Input should be greater than 0"),
        ("clash-annotate", "estimator clash: its setting 'keep-going' is also an option"),
        ("wrong-annotate", "installed_package:FlatConfig does not derive from Estimator"),
        ("not-a-pass", "the pass installed_package:Flat does not derive from Pass"),
        ("unfinished-annotate", "estimator installed_package:Unfinished does not define estimate"),
        ("unfinished", "the pass installed_package:UnfinishedPass does not define apply; correct"),
        ("renamed", "StripCostsPass is named 'strip-costs', but its entry point 'renamed'"),
        ("flut-annotate", "no pass is named 'flut-annotate'; did you mean 'flat-annotate'"),
    ],
)
def test_wrong_settings(package, parse, pipeline, message):
    with pytest.raises(UsageError, match=message):
        passes.run_pipeline(parse(program(f"%0 = {ADD}", "0")), pipeline, PassRun())


def test_the_settings_of_any_estimator_are_those_of_its_pass(package, parse):
    texts = []
    for pipeline in ("flat-annotate{op-ns=3}", "annotate{estimator=flat settings=op-ns=3}"):
        module = parse(program(f"%0 = {ADD}", "0"))
        passes.run_pipeline(module, pipeline)
        target = TargetAttr.read_from_op(module.operation)
        assert target is not None and target.node is None and target.estimator == "flat 1"
        texts.append(str(module))
    assert texts[0] == texts[1]


def test_help_lists_a_broken_package(package, capsys):
    assert hespas_opt.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert (
        "--broken-annotate\n      (the estimator no_such_package:Broken cannot be imported: "
        in text
    )
    assert "--flat-annotate\n      Give every op the same time." in text
    assert "--not-a-pass\n      (the pass installed_package:Flat does not derive" in text
    assert "--unfinished\n      (the pass installed_package:UnfinishedPass does not define" in text


def test_names_are_listed_without_bindings_and_estimators():
    code = (
        "import sys; from hespas.passes import registry; names = registry.list_pass_names();"
        "assert 'xla-annotate' in names and registry.is_pass_name('xla-annotate');"
        "loaded = [m for m in sys.modules if m.startswith(('jaxlib', 'pydantic', 'hespas.est'))];"
        "assert loaded == ['hespas.estimators', 'hespas.estimators.registry'], loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_notes_spell_options_as_the_tool_does(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.mlir").write_text(program(f"%0 = {ADD}", "0"))
    assert hespas.main(["run", "--mlir", "in.mlir"]) == 0
    notes = capsys.readouterr().err
    assert "(the default; --node NAME chooses another)" in notes
    assert "the result is in in; --output FOLDER writes traces too" in notes
    run = ["run", "--mlir", "in.mlir", "--estimator", "roofline", "--setting"]
    with pytest.raises(UsageError, match="roofline has no setting 'tdq'; did you mean 'tdp'"):
        hespas.main([*run, "tdq=1"])
    with pytest.raises(UsageError, match="roofline has no setting 'keep-going'"):
        hespas.main([*run, "keep-going=1"])
    with pytest.raises(UsageError, match="roofline: setting 'tdp' takes a finite number, not 'x'"):
        hespas.main([*run, "tdp=x"])
