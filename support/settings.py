"""Declare a setting once: a dataclass field with its default and its help text."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def setting(default: Any, help: str) -> Any:
    """Declare a field of a configuration class or of a pass.

    Command lines spell ``block_limit`` as ``block-limit``. Fields without a default are plain
    annotated fields.

    Args:
        default: The value of the field when it is not set.
        help: One phrase for ``--help`` and the reference pages, with the unit of the value.
    """
    return field(default=default, metadata={"help": help})
