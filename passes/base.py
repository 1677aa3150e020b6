"""What a pass is: a frozen dataclass whose fields are its options."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir


MAX_NUMBER = 2**63 - 1  # options end up in i64 attributes


def option(default: Any, help: str) -> Any:
    """A pass option: ``block_limit`` is spelled ``block-limit`` on the command line."""
    return field(default=default, metadata={"help": help})


@dataclass
class PassRun:
    """What one run of a pipeline shares: where messages go, and what was found on the way.

    ``texts`` holds ``op_text`` of the ops of each region function, in order, while it is known.
    ``progress`` shows a line that the next one replaces, where the tool has a place for it.
    """

    input_name: str = "-"
    keep_going: bool = False
    note: Callable[[str], None] = lambda text: print(text, file=sys.stderr)
    warnings: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    progress: Callable[[str], None] | None = None

    def warn(self, text: str) -> None:
        """Say and keep a warning; the summary and ``--json`` repeat it."""
        # Text parsed from memory (compressed, from a pipe) has "-" for its file name.
        text = re.sub(r"(?<!\S)-(?=:\d+:\d)", lambda _: self.input_name, text)
        if text not in self.warnings:
            self.warnings.append(text)
            self.note(f"warning: {text}")


@dataclass(frozen=True)
class Pass:
    """Base of all passes: ``name`` is its flag, the first line of the docstring its help.

    ``prepares`` says that it runs ``prepare`` first where that was not done, ``only_marks`` that it
    changes no op but for ``hespas.*`` attributes.
    """

    name: ClassVar[str]
    prepares: ClassVar[bool] = False
    only_marks: ClassVar[bool] = False

    def apply(self, module: ir.Module, run: PassRun) -> None:
        """Transform ``module`` in place; raises HespasError."""
        raise TypeError(f"{type(self).__name__} does not define apply")

    @classmethod
    def get_help_summary(cls) -> str:
        return (cls.__doc__ or "").strip().split("\n", 1)[0]

    @classmethod
    def list_spelled_options(cls) -> list[tuple[str, dataclasses.Field[Any]]]:
        """Options as spelled on the command line, with their fields."""
        return [(f.name.replace("_", "-"), f) for f in dataclasses.fields(cls)]

    def to_pipeline_text(self) -> str:
        """The textual form without default options: ``split-linear{block-limit=64}``."""
        parts = []
        for spelled, f in self.list_spelled_options():
            value = getattr(self, f.name)
            if value != f.default:
                text = str(value).lower() if isinstance(value, bool) else str(value)
                quoted = f'"{text}"' if any(c in text for c in ' ,{}"') else text
                parts.append(spelled if value is True else f"{spelled}={quoted}")
        return f"{self.name}{{{' '.join(parts)}}}" if parts else self.name


def build_pass(cls: type[Pass], texts: dict[str, str | bool]) -> Pass:
    """The pass with options from text; raises UsageError for an unknown name or a wrong value."""
    known = dict(cls.list_spelled_options())
    hints = get_type_hints(cls)
    values = {}
    for spelled, text in texts.items():
        if spelled not in known:
            raise UsageError(
                f"{cls.name} has no option '{spelled}'",
                remedy=suggest_nearest(spelled, list(known)),
            )
        f = known[spelled]
        values[f.name] = _convert_option(cls.name, spelled, hints[f.name], text)
    return cls(**values)


def _convert_option(pass_name: str, spelled: str, hint: Any, text: str | bool) -> Any:
    kinds = {hint, *getattr(hint, "__args__", ())}
    if bool in kinds:
        words = {True: True, "true": True, "1": True, False: False, "false": False, "0": False}
        if text in words:
            return words[text]
        raise UsageError(f"{pass_name}: option '{spelled}' takes true or false, not '{text}'")
    if isinstance(text, bool):
        raise UsageError(f"{pass_name}: option '{spelled}' needs a value")
    for kind in (int, float):
        if kind in kinds:
            try:
                value = kind(text)
                if abs(value) <= MAX_NUMBER or kind is float:
                    return value
            except ValueError:
                pass
            wanted = "a whole number" if kind is int else "a number"
            raise UsageError(f"{pass_name}: option '{spelled}' takes {wanted}, not '{text}'")
    return text
