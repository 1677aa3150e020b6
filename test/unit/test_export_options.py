"""What stands on the command line of ``hespas export``: arrays, and the options of recipes."""

from __future__ import annotations

import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from hespas.frontends.export.array_text import ArraySpec, parse_array_spec, parse_sharding_axes
from hespas.frontends.export.program_source import collect_recipes, find_program_function
from hespas.frontends.export.recipe_options import (
    bind_option_texts,
    collect_options,
    convert_option_text,
    expand_option_groups,
)
from hespas.support.errors import HespasError, UsageError
from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main


def test_text_of_arrays():
    assert parse_array_spec("f32") == ArraySpec("float32", ())
    assert parse_array_spec("bfloat16[8, 4] @ a+b, -") == ArraySpec(
        "bfloat16", (8, 4), (("a", "b"), ())
    )
    assert parse_array_spec("s32[8]@") == ArraySpec("int32", (8,), ())
    assert parse_sharding_axes("@-,x") == ((), ("x",))
    assert parse_sharding_axes("@ a + b , -") == (("a", "b"), ())
    for text in ("@a,,b", "@a+"):
        with pytest.raises(UsageError, match="a dimension is empty"):
            parse_sharding_axes(text)


def test_options_are_those_of_the_signature():
    def build(
        mesh: dict[str, int] | None = None,
        size: Annotated[int | None, "how many"] = None,
        rate: float = 0.5,
        kind: Literal["a", "b"] = "a",
        fast: bool = True,
        text="x",
    ) -> None: ...

    options = {option.name: option for option in collect_options(build)}
    assert options["size"].describe_form() == "int | none" and options["size"].help == "how many"
    assert options["kind"].describe_form() == "a | b"
    texts = {"size": "none", "rate": "1e-3", "kind": "b", "fast": "false", "text": "7"}
    values = bind_option_texts(build, texts, {"x": 2}, "it")
    assert values == {
        "mesh": {"x": 2}, "size": None, "rate": 1e-3, "kind": "b", "fast": False, "text": "7"
    }  # fmt: skip
    assert convert_option_text(options["size"], "12", "it") == 12
    with pytest.raises(UsageError, match=r"'kind' takes a \| b, not 'c'"):
        bind_option_texts(build, {"kind": "c"}, None, "it")
    with pytest.raises(UsageError, match="no option 'mesh'; use --mesh"):
        bind_option_texts(build, {"mesh": "x=2"}, None, "it")


@dataclass(frozen=True)
class Shape:
    rows: Annotated[int, "how many"] = 2
    columns: int | None = None


def test_the_type_of_the_result_need_not_exist():
    def build(size: int = 2) -> OnlyForTypeCheckers:  # type: ignore[name-defined]  # noqa: F821
        """Build nothing."""

    (option,) = collect_options(build)
    assert (option.name, option.default) == ("size", 2)


def test_options_of_a_group_are_options_like_the_others():
    @expand_option_groups
    def build(*, first: str = "a", shape: Shape, last: bool = False) -> tuple:
        """What it does."""
        return first, shape, last

    options = collect_options(build)
    assert [option.name for option in options] == ["first", "rows", "columns", "last"]
    assert options[1].help == "how many" and options[1].format_default() == "2"
    assert options[2].describe_form() == "int | none" and build.__doc__ == "What it does."
    assert build() == ("a", Shape(), False)
    assert build("b", columns=3, last=True) == ("b", Shape(columns=3), True)
    assert build(**bind_option_texts(build, {"rows": "5"}, None, "it")) == (
        "a",
        Shape(rows=5),
        False,
    )
    with pytest.raises(TypeError, match="unexpected keyword argument 'shape'"):
        build(shape=Shape())


def test_two_recipes_of_one_name(monkeypatch):
    point = importlib.metadata.EntryPoint("llama", "other:build", "hespas.recipes")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    message = r"a package defines the recipe 'llama' \(other:build\), which hespas defines"
    with pytest.raises(HespasError, match=message):
        collect_recipes()


@pytest.mark.parametrize(
    ("recipe", "model", "known"),
    [
        ("llama", "llama3-8b", "8b"),
        ("llama", "meta-llama/Llama-3.1-70B-Instruct", "70b"),
        ("llama", "Llama_2_7b", "llama2-7b"),
        ("llama", "mistral7b-v0.3", "mistral-7b"),
        ("moe", "deepseek-v3-671b", "deepseek-v3"),
        ("moe", "mixtral-8x7", "mixtral-8x7b"),
    ],
)
def test_a_model_is_suggested_by_the_names_of_others(recipe, model, known):
    build = find_program_function(recipe)
    with pytest.raises(UsageError) as raised:
        bind_option_texts(build, {"model": model}, None, recipe)
    assert raised.value.remedy == f"did you mean '{known}'?"


def test_places_in_recipes_do_not_tell_where_hespas_is(tmp_path):
    output = str(tmp_path / "tiny.mlir")
    argv = ["export", "llama", "--model", "tiny", "--set", "sequence=128", "-o", output]
    assert run_tool_main(hespas.main, argv) == 0
    text = Path(output).read_text()
    assert 'loc("hespas/recipes/' in text
    assert not re.search(r'"/[^"]*hespas/recipes/', text)
