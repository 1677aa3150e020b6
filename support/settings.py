"""Settings: fields of configuration classes, declared once with their defaults and help texts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import MISSING, field, fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hespas.support.records import record

BOOLS = {"true": True, "1": True, "false": False, "0": False}  # the texts of truth values


def setting(default: Any, help: str, *, least: int | None = None) -> Any:
    """Declare a field of a configuration class or of a pass.

    Command lines spell ``block_limit`` as ``block-limit``. Fields without a default are plain
    annotated fields.

    Args:
        default: The value of the field when it is not set.
        help: One phrase for ``--help`` and the reference pages, with the unit of the value.
        least: The smallest value that the option of a pass may have.
    """
    return field(default=default, metadata={"help": help, "least": least})


def list_union_types(hint: Any) -> tuple[Any, ...]:
    """List the types of a union, or the one type that is no union."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


@record(frozen=True)
class Setting:
    """A field of an estimator's ``Config`` class.

    ``default`` is ``dataclasses.MISSING`` for a field that must be set.
    """

    name: str
    type: Any
    default: Any
    help: str

    @property
    def spelled(self) -> str:
        """The name as command lines spell it."""
        return self.name.replace("_", "-")


@functools.cache
def list_settings(config: Any) -> Sequence[Setting]:
    """List the fields of the ``Config`` class of an estimator, ``node`` included."""
    hints = get_type_hints(config, include_extras=True)
    if is_dataclass(config):
        return [
            Setting(f.name, hints[f.name], _get_default(f), f.metadata.get("help", ""))
            for f in fields(config)
            if f.init
        ]
    return [
        Setting(
            name,
            hints[name],
            MISSING if f.is_required() else f.get_default(call_default_factory=True),
            f.description or "",
        )
        for name, f in config.model_fields.items()
    ]


def _get_default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
