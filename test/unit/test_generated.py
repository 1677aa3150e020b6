"""Generated files are current, and the shipped files fit the JSON Schemas."""

from __future__ import annotations

import argparse
import copy
import functools
import json

import pytest
from support.paths import ROOT

from docs.generators import __main__ as generators
from docs.generators import cli as cli_page
from docs.generators import passes as passes_page
from docs.generators import schemas
from hespas import configs
from hespas.configs.accelerator import list_accelerator_presets
from hespas.configs.simple_yaml import read_simple_yaml
from hespas.passes import registry
from hespas.passes.emit.stats_model import ModuleStats
from hespas.support.errors import UsageError
from hespas.tools import hespas

jsonschema = pytest.importorskip("jsonschema")


CONFIGS = ROOT / "configs"


@functools.cache
def validator(name: str):
    schema = json.loads(configs.read_schema_text(name))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def assert_valid(name: str, data: object) -> None:
    problems = [
        f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(data)
    ]
    assert not problems


@pytest.mark.parametrize("path", generators.GENERATORS)
def test_generated_page_is_current(path):
    assert (ROOT / path).read_text("utf-8") == generators.render_page(path), "run make generate"


def test_generated_file_sets_are_current():
    assert not [*generators.find_stale_sets()], "run make generate"


def test_a_stale_file_is_named_and_fails_the_check(tmp_path, monkeypatch, capsys):
    """A file that differs, is missing, or is left over; without ``--check`` each is mended."""
    monkeypatch.setattr(generators, "ROOT", tmp_path)
    monkeypatch.setattr(generators, "GENERATORS", {})
    assert generators.main([]) == 0
    node = tmp_path / "configs/nodes/A100_SXM_40GB/roofline/config.json"
    current = node.read_text()
    assert current == (CONFIGS / "nodes/A100_SXM_40GB/roofline/config.json").read_text()
    node.write_text(current.replace("156e12", "157e12"))
    missing = tmp_path / "configs/systems/TPUv3_2/astra-sim/network.yml"
    missing.unlink()
    left_over = tmp_path / "configs/systems/NoSuch/astra-sim/network.yml"
    left_over.parent.mkdir(parents=True)
    left_over.write_text("")
    names = sorted(str(path.relative_to(tmp_path)) for path in (node, missing, left_over))
    capsys.readouterr()
    assert generators.main(["--check"]) == 1
    assert sorted(capsys.readouterr().out.split()) == names
    assert generators.main([]) == 0
    assert node.read_text() == current and missing.exists() and not left_over.exists()
    assert generators.main(["--check"]) == 0


def test_cli_page_has_every_command_and_option():
    page = cli_page.render_page()
    for name in hespas.COMMANDS:
        assert f"\n## hespas {name}" in page
        assert f"| [`hespas {name}`](" in page
    for parser in cli_page.build_all_parsers():
        section = page.split(f"\n## {parser.prog}\n")[1].split("\n## ")[0]
        for action in parser._actions:
            if action.help == argparse.SUPPRESS:  # an older spelling of another option
                continue
            for string in action.option_strings:
                assert string in ("-h", "--help") or f"`{string}" in section, (parser.prog, string)


def test_passes_page_has_every_pass_and_option():
    page = passes_page.render_page()
    for name in registry.list_builtin_pass_names():
        section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
        for spelled, _ in registry.load_pass_class(name).list_spelled_options():
            assert f"| `{spelled}` |" in section


@pytest.mark.parametrize("path", sorted((CONFIGS / "nodes").glob("*.json")), ids=lambda p: p.stem)
def test_node_presets_fit_the_schema(path):
    assert_valid("node", json.loads(path.read_text("utf-8")))


@pytest.mark.parametrize("name", list_accelerator_presets())
def test_accelerator_presets_fit_the_schema(name):
    assert_valid("accelerator", configs.read_json(CONFIGS / "accelerators" / f"{name}.json"))


@pytest.mark.parametrize("name", configs.list_system_presets())
def test_system_presets_fit_the_schemas(name, tmp_path):
    files = configs.read_system_files(name)
    for file in [name for name in files if name.startswith("system") and name.endswith(".json")]:
        assert_valid("system", json.loads(files[file]))
    (tmp_path / "network.yml").write_text(files["network.yml"])
    assert_valid("network", read_simple_yaml(tmp_path / "network.yml"))


def test_run_example_fits_the_schema():
    assert_valid("run", configs.read_json(ROOT / "docs" / "examples" / "llama3-100m.json"))


@pytest.mark.parametrize(
    "data",
    [
        {"mlir": "step-{layers}.mlir", "node": ["A100*", "H100_80GB"], "system": "*_4GPU"},
        {
            "mlir": "a.mlir",
            "fuse": [True, False],
            "node.memory_bandwidth_bytes_per_s": [1e12, 2e12],
        },
        {"mlir": ["a", "b"], "node": ["x", "y"], "together": "mlir node", "setting": {"k": [1, 2]}},
        {"mlir": "a", "cells": [{"node": "x", "system": "y"}, {"node": "z", "setting.k": 2}]},
    ],
)
def test_what_sweep_takes_fits_the_schema(data, tmp_path, monkeypatch):
    from hespas.workflows.sweep import sweep_grid

    monkeypatch.chdir(tmp_path)
    (tmp_path / "step-2.mlir").touch()
    assert sweep_grid.expand_cells(copy.deepcopy(data))
    assert_valid("sweep", data)


@pytest.mark.parametrize(
    ("name", "data", "place"),
    [
        ("run", {"nodes": "H100_80GB"}, "$"),
        ("run", {"split": "linea"}, "$.split"),
        ("node", {"name": "x", "memory_bytes": 0}, "$.memory_bytes"),
        ("network", {"topology": ["Rng"], "npus_count": [2], "bandwidth": [1], "latency": [1]},
         "$.topology[0]"),
        ("sweep", {"node": {"a": 1}}, "$.node"),
        ("sweep", {"output": "out"}, "$"),
        ("accelerator", {"name": "x", "row": 1}, "$"),
        ("system", {"scheduling-policy": "FILO"}, "$['scheduling-policy']"),
    ],
)  # fmt: skip
def test_schemas_refuse_what_is_wrong(name, data, place):
    assert place in {error.json_path for error in validator(name).iter_errors(data)}


def test_module_stats_fit_the_schema(tmp_path):
    """All keys of real statistics are in the model, and the values are of its types."""
    out = tmp_path / "out"
    example = str(ROOT / "docs" / "examples" / "llama3-100m-opt-a100.mlir.xz")
    command = ["--mlir", example, "--node", "A100_SXM_40GB", "--estimator", "roofline"]
    assert hespas.main(["run", *command, "--output", str(out), "--no-simulate"]) == 0
    assert_valid("memory-timeline", configs.read_json(out / "memory_timeline.json"))
    stats = configs.read_json(out / "module_stats.json")
    assert_valid("module-stats", stats)
    model = ModuleStats.model_validate(stats)
    assert not _unnamed(model), "name the new keys in passes/emit/stats_model.py"
    broken = copy.deepcopy(stats)
    broken["totals"]["time_ns"] = -1
    assert not validator("module-stats").is_valid(broken)


def _unnamed(model) -> list[str]:
    unnamed = [f"{type(model).__name__}.{key}" for key in model.model_extra or {}]
    for value in model.__dict__.values():
        inner = value.values() if isinstance(value, dict) else value
        parts = inner if isinstance(value, (dict, list)) else [value]
        for part in parts:
            if hasattr(part, "model_extra"):
                unnamed += _unnamed(part)
    return unnamed


def test_schema_key_is_allowed_in_a_file(tmp_path):
    data = configs.read_node_json("H100_80GB")
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"$schema": "node.schema.json", **data}))
    assert configs.load_node(str(path)).memory_bandwidth_bytes_per_s == 3350e9
    assert_valid("node", json.loads(path.read_text()))


def test_schema_command(capsys):
    assert hespas.main(["presets", "schema"]) == 0
    listed = capsys.readouterr().out
    for name in configs.list_schema_names():
        assert f"  {name} " in listed
        assert hespas.main(["presets", "schema", name]) == 0
        assert json.loads(capsys.readouterr().out) == schemas.build_schemas()[name]
    with pytest.raises(UsageError, match=r"no schema is named 'nodes'.*did you mean 'node'"):
        hespas.main(["presets", "schema", "nodes"])
