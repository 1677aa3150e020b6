"""Conventions of the code base: names, layers and language (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import collections
import functools
import re
import subprocess
from pathlib import Path

import pytest
from support.paths import ROOT

LAYERS = (
    "support",
    "dialects",
    "configs",
    "chakra",
    "estimators",
    "passes",
    "frontends",
    "simulators",
    "workflows",
    "tools",
)
SOURCES = {
    path.relative_to(ROOT): path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")
}


@functools.cache
def parse_nodes(path: Path) -> list[ast.AST]:
    """The nodes of a file, which takes longer to list than to parse."""
    return list(ast.walk(ast.parse(path.read_text())))


def parse_sources() -> dict[Path, list[ast.AST]]:
    """The nodes of each source file by its name."""
    return {name: parse_nodes(path) for name, path in SOURCES.items()}


# What the core may not import: programs, pages, adapters of other simulators, published names.
CORE = (
    "support",
    "dialects",
    "configs",
    "chakra",
    "passes",
    "estimators/rules",
    "simulators/embedded",
)
LEAVES = (
    "estimators.accelerators",
    "estimators.iree",
    "estimators.xla",
    "frontends.recipes",
    "simulators.astra",
    "tools",
    "workflows",
)


def imported_modules(nodes: list[ast.AST]) -> set[str]:
    """The modules of hespas that a file imports, anywhere in it, without the leading package."""
    modules = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hespas"):
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names if alias.name.startswith("hespas.")}
    return {module.partition(".")[2] for module in modules}


def test_layers_import_downwards() -> None:
    upward = [
        f"{name}: {module}"
        for name, nodes in parse_sources().items()
        for module in imported_modules(nodes)
        if module.split(".")[0] in LAYERS
        and LAYERS.index(module.split(".")[0]) > LAYERS.index(name.parts[0])
    ]
    assert not upward


def test_the_core_imports_no_leaf() -> None:
    crossing = [
        f"{name}: {module}"
        for name, nodes in parse_sources().items()
        if name.as_posix().startswith(CORE)
        for module in imported_modules(nodes)
        if module.startswith(LEAVES)
    ]
    assert not crossing


def test_no_test_module_imports_another() -> None:
    crossing = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in (ROOT / "test").rglob("*.py")
        for node in parse_nodes(path)
        for module in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if module.startswith(("test_", "conftest"))
    ]
    assert not crossing
    helpers = {path.name for path in (ROOT / "test" / "unit").glob("*.py")}
    assert all(name == "conftest.py" or name.startswith("test_") for name in helpers)


def test_class_names_are_unique() -> None:
    names = collections.Counter(
        node.name
        for nodes in parse_sources().values()
        for node in nodes
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_module_names_are_used_at_most_twice() -> None:
    names = collections.Counter(name.stem for name in SOURCES)
    common = {"__init__", "base", "registry"}
    assert [name for name, count in names.items() if count > 2 and name not in common] == []


def test_function_names_are_verbs_with_objects() -> None:
    names = [
        node.name.strip("_")
        for nodes in parse_sources().values()
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("__")
    ]
    assert sum("_" not in name for name in names) <= 0.4 * len(names)
    assert sum(len(name.replace("_", "")) for name in names) >= 12 * len(names)


def test_documented_arguments_are_parameters() -> None:
    for name, nodes in parse_sources().items():
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                documented = find_documented_arguments(ast.get_docstring(node) or "")
                parameters = {item.arg for item in ast.walk(node.args) if isinstance(item, ast.arg)}
                assert documented <= parameters, f"{name}: {node.name}: {documented - parameters}"


def find_documented_arguments(docstring: str) -> set[str]:
    """The names in the section Args of a docstring."""
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", docstring, re.MULTILINE)
    return set(re.findall(r"^    (\w+):", section[1], re.MULTILINE)) if section else set()


def test_variables_are_named_by_role() -> None:
    vague = {"found", "given", "told", "said", "mine"}
    folders = [*LAYERS, "benchmarks", "test"]
    assignments = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.id}"
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in parse_nodes(path)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        if node.id in (vague if folder == "test" else {*vague, "kept", "ours"})
    ]
    assert assignments == []


OBSCURE = re.compile(
    r"; whether (one|it|there|any)|as one says|need not be there|that goes again|; none:"
    r"|is as one of"
)


@pytest.mark.parametrize("pattern", ["*.py", "*.md"])
def test_the_language_is_plain(pattern: str) -> None:
    files = subprocess.run(
        ["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert files
    lines = [
        f"{name}:{number}: {line.strip()}"
        for name in files
        if name != Path(__file__).relative_to(ROOT).as_posix()
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        if OBSCURE.search(line)
    ]
    assert lines == []
