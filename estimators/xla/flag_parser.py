"""Parsing XLA flags, written as ``xla_a=true xla_b=2``."""

from __future__ import annotations

from hespas.support.errors import UsageError

FlagValue = bool | int | float | str


def parse_xla_flags(text: str) -> dict[str, FlagValue]:
    """Return typed values by name, without leading dashes; raises UsageError."""
    flags: dict[str, FlagValue] = {}
    for word in text.split():
        name, equals, value = word.lstrip("-").partition("=")
        if not name.startswith("xla_"):
            raise UsageError(f"flags: '{word}' is not a flag of XLA, whose names begin with xla_")
        flags[name] = _parse_flag_value(value) if equals else True
    return flags


def _parse_flag_value(text: str) -> FlagValue:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
