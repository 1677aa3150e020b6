"""Configuration files: JSON, checked against a model, errors in one line that name the key."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hespas.configs import read_json
from hespas.dialects.errors import HespasError

SPLITS = ("linear", "individual", "individual-merge")

Model = TypeVar("Model", bound=BaseModel)


class RunConfig(BaseModel):
    """What ``hespas run`` needs; the keys of its file, and its flags with ``_`` for ``-``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mlir: str | None = Field(None, description="the program, in any form that hespas reads")
    node: str | None = Field(None, description="node preset or file: what a device can do")
    system: str | None = Field(None, description="system preset or folder: the network")
    split: Literal["linear", "individual", "individual-merge"] = Field(
        "individual-merge", description="how compute is cut into regions"
    )
    block_limit: int = Field(0, ge=0, description="most ops in a region; 0: no limit")
    estimator: str = Field("roofline", description="what estimates the regions")
    output: str | None = Field(None, description="folder for the traces; default: by the program")
    keep_going: bool = Field(False, description="count what no rule can cost, instead of stopping")
    jobs: int = Field(1, ge=1, description="processes for estimators that measure")


def load_json(path: str) -> dict[str, Any]:
    """The object in a JSON file; raises HespasError with line and column."""
    try:
        return read_json(path)
    except HespasError as error:
        error.remedy = error.remedy or _if_program(path)
        raise


def _if_program(path: str) -> str:
    name = path.removesuffix(".xz").removesuffix(".gz")
    program = name.endswith((".mlir", ".mlirbc", ".hlo", ".pb", ".txt"))
    return "a program goes with --mlir" if program else ""


def checked(model: type[Model], values: dict[str, Any], where: str) -> Model:
    """``values`` as a ``model``; raises HespasError for the first wrong key or value."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_url=False)
        # A misspelt key is missing too: its own spelling tells more.
        first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
        raise HespasError(*_problem(first, model), where=where) from None  # type: ignore[misc]


def _problem(first: Any, model: type[BaseModel]) -> tuple[str]:
    place = [str(part) for part in first["loc"]]
    key = ".".join(place)
    if first["type"] == "extra_forbidden":
        from hespas.passes.base import nearest

        known = _keys(model, place[:-1])
        return (f"unknown key '{key}'; {nearest(place[-1], known)}",)
    if first["type"] == "missing":
        return (f"the key '{key}' is missing",)
    message = first["msg"].removeprefix("Value error, ")
    message = message[0].lower() + message[1:]
    return (f"'{key}' is {json.dumps(first['input'], default=str)}: {message}",)


def _keys(model: type[BaseModel], place: list[str]) -> list[str]:
    """The keys that may stand at a place of the file."""
    for part in place:
        field = next((f for n, f in model.model_fields.items() if part in (n, f.alias)), None)
        inner = [field.annotation, *get_args(field.annotation)] if field else []
        models = [t for t in inner if isinstance(t, type) and issubclass(t, BaseModel)]
        if not models:
            return []
        model = models[0]
    return [field.alias or name for name, field in model.model_fields.items()]
