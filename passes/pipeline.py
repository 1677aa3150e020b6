"""Textual pipelines of hespas' and MLIR's own passes, run by MLIR's PassManager."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hespas.dialects.attrs import TargetAttr
from hespas.dialects.mlir import PassManager, capture_native_stderr, ir, register_passes
from hespas.passes import registry
from hespas.passes.base import Pass, PassRun, build_pass
from hespas.support.errors import (
    HespasError,
    UsageError,
    extract_first_diagnostic,
    extract_first_line,
    fill_in_file_name,
    format_source_position,
    is_encoding_error,
)
from hespas.support.suggestions import suggest_nearest
from hespas.support.supervised_process import describe_activity, run_native_code


@dataclass(frozen=True)
class NativePass:
    """A pass of MLIR, StableHLO, MHLO or Shardy, in MLIR's own textual form."""

    text: str

    @property
    def name(self) -> str:
        """The name, without options and nested passes."""
        return re.split(r"[({]", self.text, maxsplit=1)[0]

    def to_pipeline_text(self) -> str:
        """Return the text as it was written."""
        return self.text


PipelineStep = Pass | NativePass
StepHook = Callable[[ir.Module, PipelineStep], None]


def run_pipeline(
    module: ir.Module,
    pipeline: str | Sequence[PipelineStep],
    run: PassRun | None = None,
    *,
    after: StepHook | None = None,
    timings: list[tuple[str, float]] | None = None,
    is_continued: bool = False,
) -> PassRun:
    """Run a pipeline on ``module`` in place.

    Args:
        module: The module.
        pipeline: Text, such as ``"split-linear{block-limit=64},cse"``, or parsed steps.
        run: Where passes report to; a new one by default.
        after: Called after each step.
        timings: Collects the text of each step and its time in seconds.
        is_continued: Whether the ops are as the last pipeline of ``run`` left them.

    Returns:
        The run with the artefacts of the passes: ``run.get_artefact(EmittedTraces)``.

    Raises:
        HespasError: A pass failed. For an unknown pass or wrong options it is a UsageError.
    """
    steps = parse_pipeline(pipeline) if isinstance(pipeline, str) else list(pipeline)
    run = run or PassRun()
    register_passes()
    if not is_continued:
        run.forget_caches()
    unverified = ""
    for step in insert_prepare(module, steps):
        start = time.perf_counter()
        if isinstance(step, Pass) and step.only_marks:
            unverified = _verify_module(module, unverified)
        else:
            run.forget_caches()
            unverified = step.name if isinstance(step, Pass) else ""
        _run_pipeline_step(module, step, run)
        if timings is not None:
            timings.append((step.to_pipeline_text(), time.perf_counter() - start))
        if after is not None:
            after(module, step)
    _verify_module(module, unverified)
    return run


def insert_prepare(module: ir.Module, steps: Sequence[PipelineStep]) -> list[PipelineStep]:
    """Insert ``prepare`` before the first step that requires it, unless it runs or has run."""
    prepared = TargetAttr.NAME in module.operation.attributes
    result: list[PipelineStep] = []
    for step in steps:
        if step.name == "prepare":
            prepared = True
        elif isinstance(step, Pass) and step.prepares and not prepared:
            result.append(build_pass(registry.load_pass_class("prepare"), {}))
            prepared = True
        result.append(step)
    return result


def _run_pipeline_step(module: ir.Module, step: PipelineStep, run: PassRun) -> None:
    with module.context as context:
        manager = PassManager("builtin.module", context)
        if isinstance(step, Pass):
            # MLIR cannot schedule a Python pass that is restricted to an op.
            manager.add(lambda _op, _pass: _apply_python_pass(step, module, run), step.name)
            manager.enable_verifier(False)  # run_pipeline verifies before results are written
        else:
            _add_native_pass(manager, step)
        activity = f"{run.input_name}: error: pass '{step.name}'"
        contain = describe_activity if isinstance(step, Pass) else run_native_code
        try:
            with contain(activity):
                manager.run(module.operation)
        except ir.MLIRError as error:
            raise _to_hespas_error(error, step, run) from None


def _verify_module(module: ir.Module, name: str) -> str:
    """Verify the module after the pass ``name``, unless the name is empty. Returns ""."""
    try:
        if name:
            module.operation.verify()
        return ""
    except ir.MLIRError as error:
        diagnostics = error.error_diagnostics
        where = format_source_position(diagnostics[0].location) if diagnostics else ""
        reason = extract_first_diagnostic(error)
        message = f"the passes up to '{name}' produced an invalid module: {reason}"
        remedy = f"please report it to the authors of '{name}'"
        raise HespasError(message, where=where, remedy=remedy) from None


def _add_native_pass(manager: PassManager, step: NativePass) -> None:
    """Add a pass of MLIR. Raises UsageError for an unknown pass and for wrong options."""
    # LLVM prints to stderr why it rejects the value of an option.
    with capture_native_stderr() as stderr_lines:
        try:
            manager.add(step.text)
            return
        except (ValueError, ir.MLIRError) as error:
            text = str(error)
    unknown = re.search(r"'([^']*)' does not refer to a registered pass", text)
    if unknown:
        known = suggest_nearest(unknown[1], registry.list_pass_names())
        raise UsageError(f"no pass is named '{unknown[1]}'", remedy=known)
    reasons = [line.lstrip(": ") for line in stderr_lines] or [
        line.rpartition("error: ")[2] for line in text.splitlines() if "error: " in line
    ]
    reason = reasons[0] if reasons else extract_first_line(text)
    raise UsageError(f"MLIR rejects the pass '{step.text}': {reason}")


def _to_hespas_error(error: ir.MLIRError, step: PipelineStep, run: PassRun) -> HespasError:
    """Convert the first diagnostic of a failed pass of MLIR."""
    diagnostics = error.error_diagnostics
    where = fill_in_file_name(
        format_source_position(diagnostics[0].location) if diagnostics else "", run.input_name
    )
    return HespasError(f"pass '{step.name}' failed: {extract_first_diagnostic(error)}", where=where)


def _apply_python_pass(step: Pass, module: ir.Module, run: PassRun) -> None:
    try:
        artefact = step.apply(module, run)
        if artefact is not None:
            run.artefacts.append(artefact)
    except UsageError:
        raise
    except HespasError as error:
        error.where = fill_in_file_name(error.where, run.input_name)
        raise
    except RuntimeError as error:
        if not is_encoding_error(error):
            raise
        raise HespasError(
            f"pass '{step.name}' cannot read a name in the module, which is not UTF-8 text",
            where=run.input_name,
        ) from None


def format_pipeline(steps: Sequence[PipelineStep]) -> str:
    """Format a pipeline as ``--print-pipeline`` shows it and ``parse_pipeline`` reads it."""
    return ",".join(step.to_pipeline_text() for step in steps)


def parse_pipeline(text: str) -> list[PipelineStep]:
    """Parse a textual pipeline. Raises UsageError for bad syntax and wrong options."""
    text = text.strip()
    outer = re.fullmatch(r"(?:builtin\.module|any)\((.*)\)", text, re.DOTALL)
    return [
        _parse_pipeline_step(item) for item in _split_pipeline_steps(outer[1] if outer else text)
    ]


def _parse_pipeline_step(item: str) -> PipelineStep:
    name, brace, rest = item.partition("{")
    name = name.strip()
    if "(" in name or not registry.is_pass_name(name):
        return NativePass(item)
    if brace and not rest.endswith("}"):
        raise UsageError(f"the options in '{item}' have no closing '}}'")
    return build_pass(registry.load_pass_class(name), parse_options(rest[:-1] if brace else ""))


def parse_options(text: str) -> dict[str, str | bool]:
    """Parse ``a=1 b="x y" flag``. A word without a value is a flag; commas separate too."""
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
            raise UsageError(f"option '{key}' is set twice")
        value = next((g for g in match.groups()[1:] if g is not None), None)
        options[key] = True if value is None else value
        position = match.end()
    return options


def _split_pipeline_steps(text: str) -> list[str]:
    """Split at the commas outside brackets and quotes."""
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
