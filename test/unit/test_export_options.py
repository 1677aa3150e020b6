"""What stands on the command line of ``hespas export``: arrays, and the options of recipes."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from hespas.dialects.errors import HespasError, UsageError
from hespas.frontends.export.arrays import Array, array, sharding
from hespas.frontends.export.options import bind, convert, grouped, options
from hespas.frontends.export.program import recipes


def test_text_of_arrays():
    assert array("f32") == Array("float32", ())
    assert array("bfloat16[8, 4] @ a+b, -") == Array("bfloat16", (8, 4), (("a", "b"), ()))
    assert array("s32[8]@") == Array("int32", (8,), ())
    assert sharding("@-,x") == ((), ("x",))
    assert sharding("@ a + b , -") == (("a", "b"), ())
    for text in ("@a,,b", "@a+"):
        with pytest.raises(UsageError, match="a dimension is empty"):
            sharding(text)


def test_options_are_those_of_the_signature():
    def build(
        mesh: dict[str, int] | None = None,
        size: Annotated[int | None, "how many"] = None,
        rate: float = 0.5,
        kind: Literal["a", "b"] = "a",
        fast: bool = True,
        text="x",
    ) -> None: ...

    found = {option.name: option for option in options(build)}
    assert found["size"].form() == "int | none" and found["size"].help == "how many"
    assert found["kind"].form() == "a | b"
    given = {"size": "none", "rate": "1e-3", "kind": "b", "fast": "false", "text": "7"}
    values = bind(build, given, {"x": 2}, "it")
    assert values == {
        "mesh": {"x": 2}, "size": None, "rate": 1e-3, "kind": "b", "fast": False, "text": "7"
    }  # fmt: skip
    assert convert(found["size"], "12", "it") == 12
    with pytest.raises(UsageError, match=r"'kind' takes a \| b, not 'c'"):
        bind(build, {"kind": "c"}, None, "it")
    with pytest.raises(UsageError, match="no option 'mesh'; give it as --mesh"):
        bind(build, {"mesh": "x=2"}, None, "it")


@dataclass(frozen=True)
class Shape:
    rows: Annotated[int, "how many"] = 2
    columns: int | None = None


def test_options_of_a_group_are_options_like_the_others():
    @grouped
    def build(*, first: str = "a", shape: Shape, last: bool = False) -> tuple:
        """What it does."""
        return first, shape, last

    found = options(build)
    assert [option.name for option in found] == ["first", "rows", "columns", "last"]
    assert found[1].help == "how many" and found[1].default_text() == "2"
    assert found[2].form() == "int | none" and build.__doc__ == "What it does."
    assert build() == ("a", Shape(), False)
    assert build("b", columns=3, last=True) == ("b", Shape(columns=3), True)
    assert build(**bind(build, {"rows": "5"}, None, "it")) == ("a", Shape(rows=5), False)
    with pytest.raises(TypeError, match="unexpected keyword argument 'shape'"):
        build(shape=Shape())


def test_two_recipes_of_one_name(monkeypatch):
    point = importlib.metadata.EntryPoint("llama", "other:build", "hespas.recipes")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    message = r"two packages define the recipe 'llama': .*llama:build and other:build; uninstall"
    with pytest.raises(HespasError, match=message):
        recipes()
