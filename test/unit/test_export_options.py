"""What stands on the command line of ``hespas export``: arrays, and the options of recipes."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from hespas.frontends.export.array_text import ArraySpec, parse_array_spec, parse_sharding_axes
from hespas.frontends.export.program_source import collect_recipes
from hespas.frontends.export.recipe_options import (
    bind_option_texts,
    collect_options,
    convert_option_text,
    expand_option_groups,
)
from hespas.support.errors import HespasError, UsageError


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
