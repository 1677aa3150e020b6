"""Textual pipelines, ours and MLIR's own passes mixed, run by MLIR's PassManager."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hespas.dialects.attrs import Target
from hespas.dialects.errors import (
    HespasError,
    UsageError,
    diagnosis,
    first_line,
    in_file,
    position,
)
from hespas.dialects.mlir import PassManager, ir, native_stderr, register_passes
from hespas.passes import registry
from hespas.passes.base import Pass, Run, build, nearest


@dataclass(frozen=True)
class NativePass:
    """A pass of MLIR, StableHLO, mhlo or Shardy, in MLIR's own textual form."""

    text: str

    @property
    def name(self) -> str:
        return re.split(r"[({]", self.text, maxsplit=1)[0]

    def spelling(self) -> str:
        return self.text


Step = Pass | NativePass
Hook = Callable[[ir.Module, Step], None]


def run(
    module: ir.Module,
    pipeline: str | Sequence[Step],
    run: Run | None = None,
    *,
    after: Hook | None = None,
    timings: list[tuple[str, float]] | None = None,
) -> Run:
    """Run a pipeline on ``module`` in place, and return what the run found.

    ``pipeline`` is text (``"split-linear{block-limit=64},cse"``) or parsed steps; ``after`` is
    called after each step; ``timings`` collects (pass, seconds). Raises HespasError.
    """
    steps = parse(pipeline) if isinstance(pipeline, str) else list(pipeline)
    run = run or Run()
    register_passes()
    unverified = ""
    for step in complete(module, steps):
        start = time.perf_counter()
        if isinstance(step, Pass) and step.only_marks:
            unverified = _verify(module, unverified)
        else:
            run.texts.clear()
            unverified = step.name if isinstance(step, Pass) else ""
        _run_step(module, step, run)
        if timings is not None:
            timings.append((step.spelling(), time.perf_counter() - start))
        if after is not None:
            after(module, step)
    _verify(module, unverified)
    return run


def complete(module: ir.Module, steps: Sequence[Step]) -> list[Step]:
    """The steps with ``prepare`` put before the first that wants it, unless it is there already."""
    prepared = Target.NAME in module.operation.attributes
    result: list[Step] = []
    for step in steps:
        if step.name == "prepare":
            prepared = True
        elif isinstance(step, Pass) and step.prepares and not prepared:
            result.append(build(registry.get("prepare"), {}))
            prepared = True
        result.append(step)
    return result


def _run_step(module: ir.Module, step: Step, run: Run) -> None:
    with module.context as context:
        manager = PassManager("builtin.module", context)
        if isinstance(step, Pass):
            # A Python pass must not name its op: it could not be scheduled.
            manager.add(lambda _op, _pass: _apply(step, module, run), step.name)
            manager.enable_verifier(False)  # ``run`` verifies once, before results are written
        else:
            _add_native(manager, step)
        try:
            manager.run(module.operation)
        except ir.MLIRError as error:
            raise _failure(error, step, run) from None


def _verify(module: ir.Module, name: str) -> str:
    """Verify what the passes up to ``name`` made, if there are any; returns ""."""
    try:
        if name:
            module.operation.verify()
        return ""
    except ir.MLIRError as error:
        message = f"up to '{name}' the passes made a module that is not valid: {error}"
        raise HespasError(message, remedy="please report it") from None


def _add_native(manager: PassManager, step: NativePass) -> None:
    """Add a pass that MLIR knows; raises UsageError for an unknown one and wrong options."""
    with native_stderr() as said:  # where LLVM prints what is wrong with the value of an option
        try:
            manager.add(step.text)
            return
        except (ValueError, ir.MLIRError) as error:
            text = str(error)
    unknown = re.search(r"'([^']*)' does not refer to a registered pass", text)
    if unknown:
        known = nearest(unknown[1], registry.names())
        raise UsageError(f"no pass is named '{unknown[1]}'", remedy=known)
    reasons = [line.lstrip(": ") for line in said] or [
        line.rpartition("error: ")[2] for line in text.splitlines() if "error: " in line
    ]
    reason = reasons[0] if reasons else first_line(text)
    raise UsageError(f"MLIR does not take the pass '{step.text}': {reason}")


def _failure(error: ir.MLIRError, step: Step, run: Run) -> HespasError:
    """What a failed pass reported, at the place it named."""
    found = error.error_diagnostics
    where = in_file(position(found[0].location) if found else "", run.input_name)
    return HespasError(f"pass '{step.name}' failed: {diagnosis(error)}", where=where)


def _apply(step: Pass, module: ir.Module, run: Run) -> None:
    try:
        step.apply(module, run)
    except UsageError:
        raise
    except HespasError as error:
        error.where = in_file(error.where, run.input_name)
        raise


def spelling(steps: Sequence[Step]) -> str:
    """The pipeline's text, as ``--print-pipeline`` shows it and ``parse`` reads it."""
    return ",".join(step.spelling() for step in steps)


def parse(text: str) -> list[Step]:
    """Steps of a textual pipeline; raises UsageError for bad syntax and HespasError for options."""
    text = text.strip()
    outer = re.fullmatch(r"(?:builtin\.module|any)\((.*)\)", text, re.DOTALL)
    return [_step(item) for item in _split(outer[1] if outer else text)]


def _step(item: str) -> Step:
    name, brace, rest = item.partition("{")
    name = name.strip()
    if "(" in name or not registry.is_pass(name):
        return NativePass(item)
    if brace and not rest.endswith("}"):
        raise UsageError(f"in '{item}': the options' '}}' is missing")
    return build(registry.get(name), parse_options(rest[:-1] if brace else ""))


def parse_options(text: str) -> dict[str, str | bool]:
    """``a=1 b="x y" flag`` to a dictionary; a word alone is a flag; commas separate too."""
    options: dict[str, str | bool] = {}
    pattern = re.compile(
        r"""\s*,?\s*([A-Za-z0-9_-]+)(?:=(?:"([^"]*)"|'([^']*)'|\{([^}]*)\}|([^\s,]*)))?"""
    )
    position, text = 0, text.rstrip(" ,")
    while position < len(text):
        match = pattern.match(text, position)
        if not match:
            raise UsageError(f"cannot read the options from '{text[position:]}'")
        key = match[1].replace("_", "-")
        if key in options:
            raise UsageError(f"option '{key}' is given twice")
        value = next((g for g in match.groups()[1:] if g is not None), None)
        options[key] = True if value is None else value
        position = match.end()
    return options


def _split(text: str) -> list[str]:
    """Items between commas that stand outside brackets and quotes."""
    items, depth, quote, start = [], 0, "", 0
    for i, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "({<[":
            depth += 1
        elif char in ")}>]":
            depth -= 1
        elif char == "," and depth == 0:
            items.append(text[start:i])
            start = i + 1
    if depth or quote:
        raise UsageError(f"unbalanced brackets or quotes in the pipeline '{text}'")
    items.append(text[start:])
    items = [item.strip() for item in items]
    if items == [""]:
        return []
    if "" in items:
        raise UsageError(f"an empty pass name in the pipeline '{text}'")
    return items
