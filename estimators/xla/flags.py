"""XLA's flags as the user writes them: ``xla_a=true xla_b=2``."""

from __future__ import annotations

from hespas.dialects.errors import UsageError

Value = bool | int | float | str


def parse_flags(text: str) -> dict[str, Value]:
    """Names without leading dashes, and values in their types; raises UsageError."""
    flags: dict[str, Value] = {}
    for word in text.split():
        name, equals, value = word.lstrip("-").partition("=")
        if not name.startswith("xla_"):
            raise UsageError(f"flags: '{word}' is no flag of XLA, whose names begin with xla_")
        flags[name] = _value(value) if equals else True
    return flags


def _value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
