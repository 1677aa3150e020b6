"""Conventions whose breach is a fault: of layers, of names that lead to a place, of documentation.

No test counts lines or letters, or bans words: such rules were obeyed in letter, by a cousin of the
word or by cutting a concept in two. CONTRIBUTING.md says how code reads, with reasons.
"""

from __future__ import annotations

import ast
import collections
import functools
import re
from pathlib import Path

from support.paths import ROOT

from hespas.estimators.registry import ESTIMATORS
from hespas.frontends.export.program_source import BUILD, RECIPES
from hespas.passes import registry

LAYERS = (
    "support",
    "dialects",
    "configs",
    "chakra",
    "estimators",
    "passes",
    "frontends",
    "recipes",
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
    "recipes",
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


ADAPTERS = {name for name, path in ESTIMATORS.items() if ".accelerators." in path} - {"systolic"}
CLOSED_FORMS = {"scalesim_memory.py"}  # of the estimator systolic, without a simulator


def test_adapters_of_external_simulators_use_the_public_api() -> None:
    """What they need, the adapter of a stranger needs too: ``hespas.plugin`` and own modules."""
    folder = Path("estimators", "accelerators")
    found = set()
    for name, nodes in parse_sources().items():
        own = next((adapter for adapter in ADAPTERS if name.name.startswith(adapter)), None)
        if own is None or name.parent != folder or name.name in CLOSED_FORMS:
            continue
        found.add(own)
        allowed = ("plugin.", f"estimators.accelerators.{own}")
        foreign = {each for each in imported_modules(nodes) if not each.startswith(allowed)}
        assert not foreign, f"{name}: {foreign}"
    assert found == ADAPTERS


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
    """Messages, tracebacks and the API page name a class without its module."""
    names = collections.Counter(
        node.name
        for nodes in parse_sources().values()
        for node in nodes
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_private_functions_are_used_in_their_module() -> None:
    """A rewrite that no table lists, or a helper without a caller, does nothing."""
    unused = []
    for name, nodes in parse_sources().items():
        read = {node.id for node in nodes if isinstance(node, ast.Name)}
        read |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            is_definition = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if is_definition and re.fullmatch("_[a-z].*(?<!_)", node.name):
                is_validator = any(isinstance(d, ast.Call) for d in node.decorator_list)
                if node.name not in read and not is_validator:
                    unused.append(f"{name}: {node.name}")
    assert unused == []


def test_a_pass_its_file_and_its_tests_share_a_name() -> None:
    """The flag is all that a user or a message names: it leads to the code and to the tests."""
    files = {
        name: path.partition(":")[0].rpartition(".")[2] for name, path in registry.PASSES.items()
    }
    assert files == {name: name.replace("-", "_") for name in files}
    folders = {path.parent.name for path in (ROOT / "test" / "lit").glob("*/*.mlir")}
    untested = set(registry.list_builtin_pass_names()) - folders
    assert not untested, f"add test/lit/NAME/*.mlir for {sorted(untested)}"


def test_what_is_declared_is_registered() -> None:
    """A pass, an estimator or a recipe that no registry names is in no tool."""
    declared: dict[str, set[str]] = {"passes": set(), "estimators": set(), "recipes": set()}
    for file, nodes in parse_sources().items():
        room = file.parts[0]
        if room in ("passes", "estimators"):
            names = re.findall(
                r'^    name: ClassVar\[str\] = "(.+)"', SOURCES[file].read_text(), re.M
            )
            declared[room].update(names)
        elif room == "recipes" and any(
            isinstance(node, ast.FunctionDef) and node.name == BUILD for node in nodes
        ):
            declared[room].add(file.stem)
    assert declared == {
        "passes": {*registry.PASSES},
        "estimators": {*ESTIMATORS},
        "recipes": {*RECIPES},
    }


def test_caches_of_types_and_attributes_do_not_keep_contexts() -> None:
    """``cache_ir_function`` forgets those of other contexts; functools keeps them alive."""
    for name, nodes in parse_sources().items():
        for node in nodes:
            if isinstance(node, ast.FunctionDef):
                caches = [ast.unparse(one) for one in node.decorator_list]
                signature = (
                    f"{ast.unparse(node.args)} -> {node.returns and ast.unparse(node.returns)}"
                )
                if any(re.match(r"functools\.(lru_)?cache\b", cache) for cache in caches):
                    assert "ir." not in signature, f"{name}: {node.name}: use cache_ir_function"


def test_documented_arguments_are_parameters() -> None:
    """A renamed parameter whose description keeps the old name misleads the reader."""
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
