"""Validation of configurations against their models, with errors of one line that name the key."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, TypeVar, cast, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from hespas.configs.overlap_slowdown import (
    SlowdownShares,
    find_slowdown_problem,
    parse_slowdown_shares,
)
from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest

Model = TypeVar("Model")  # a model, or a dataclass, of pydantic
_UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")  # of models, of dataclasses
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _check_slowdown(shares: Any) -> Any:
    """Check both forms here: errors of a union would name its members instead of the key.

    Shares by kind may be text, because a sweep's values are scalars.
    """
    if isinstance(shares, str) and "=" in shares:
        try:
            return parse_slowdown_shares(shares)
        except UsageError as error:
            raise PydanticCustomError("slowdown", "{reason}", {"reason": error.message}) from None
    listed: list[Any] = list(shares.values()) if isinstance(shares, dict) else [shares]
    if not all(type(share) in (int, float) and 0 <= share < math.inf for share in listed):
        text = "input should be a finite number of at least 0, or such numbers by kind"
        raise PydanticCustomError("slowdown", text)
    problem = find_slowdown_problem(cast(SlowdownShares, shares))
    if problem:
        raise ValueError(problem)
    return shares


_Share = Annotated[float, Field(ge=0)]
SlowdownSetting = Annotated[_Share | dict[str, _Share], BeforeValidator(_check_slowdown)]


class StrictModel(BaseModel):
    """A model that rejects unknown keys and infinite numbers.

    It accepts the name of a field for its alias.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True, allow_inf_nan=False)


def validate_config(
    model: type[Model],
    values: dict[str, Any],
    where: str,
    error_class: type[HespasError] = HespasError,
) -> Model:
    """Validate values against a model.

    Args:
        where: The file, or the option, that error messages name.
        error_class: The class of the error.

    Raises:
        HespasError: A key or value is wrong; the message names the first one.
    """
    try:
        config = TypeAdapter(model).validate_python(values)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        # A misspelt key is also reported as missing, which is less helpful.
        first = next(
            (problem for problem in problems if problem["type"] in _UNKNOWN_KEY), problems[0]
        )
        message, remedy = _describe_problem(first, model)
        raise error_class(message, where=where, remedy=remedy) from None
    place = _find_boolean_number(values, config)
    if place is not None:
        key = ".".join(place)
        raise error_class(
            f"'{key}' is a number, not true or false", where=where, remedy="write the number"
        )
    return config


def _find_boolean_number(given: Any, taken: Any, *place: str) -> tuple[str, ...] | None:
    """Find the place of a boolean that pydantic has taken for a number, as 1 or 0; or None.

    Its strict mode would refuse them, but also whole numbers that are written as 8e10.
    """
    if isinstance(given, bool):
        return place if type(taken) in (int, float) else None
    pairs: list[tuple[str, Any, Any]] = []
    if isinstance(given, dict):
        fields = getattr(type(taken), "__pydantic_fields__", {})
        names = {field.alias: name for name, field in fields.items()}
        for key, value in given.items():
            inner = taken.get(key) if isinstance(taken, dict) else None
            pairs.append((str(key), value, getattr(taken, names.get(key, str(key)), inner)))
    elif isinstance(given, list) and isinstance(taken, list):
        pairs = [(str(i), *pair) for i, pair in enumerate(zip(given, taken, strict=False))]
    places = (_find_boolean_number(value, inner, *place, key) for key, value, inner in pairs)
    return next((found for found in places if found is not None), None)


def _describe_problem(first: Any, model: type) -> tuple[str, str]:
    place = [str(part) for part in first["loc"]]
    key = ".".join(place)
    if first["type"] in _UNKNOWN_KEY:
        return f"unknown key '{key}'", suggest_nearest(
            place[-1], _list_model_keys(model, place[:-1])
        )
    if first["type"] == "missing":
        return f"the key '{key}' is missing", ""
    if first["type"] == "value_error":  # from a validator of hespas
        message = first["msg"].removeprefix("Value error, ")
        return f"'{key}': {message}" if key else message, ""
    message = first["msg"][0].lower() + first["msg"][1:]
    return f"'{key}' is {json.dumps(first['input'], default=str)}: {message}", ""


def _list_model_keys(model: Any, place: list[str]) -> list[str]:
    """Return the keys that the model permits at a place of the file."""
    for part in place:
        fields = model.__pydantic_fields__
        field = next((f for n, f in fields.items() if part in (n, f.alias)), None)
        inner = [field.annotation, *get_args(field.annotation)] if field else []
        models = [t for t in inner if isinstance(t, type) and issubclass(t, BaseModel)]
        if not models:
            return []
        model = models[0]
    return [field.alias or name for name, field in model.__pydantic_fields__.items()]
