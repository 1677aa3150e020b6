"""Textual pipelines of hespas' and MLIR's own passes, run by MLIR's PassManager."""

from __future__ import annotations

import contextlib
import functools
import gc
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hespas.dialects.attrs import ON_CHIP_PROGRAM, MemoryAttr, TargetAttr
from hespas.dialects.mlir import (
    PassManager,
    capture_native_stderr,
    forget_other_contexts,
    has_diagnostic_handlers,
    ir,
    register_inliner,
    register_passes,
    report_diagnostic,
)
from hespas.dialects.mlir_diagnostics import (
    collect_errors,
    find_error_position,
    list_attached_diagnostics,
)
from hespas.dialects.program_facts import keep_step_figures
from hespas.dialects.verify_attrs import verify_attributes
from hespas.passes import registry
from hespas.passes.base import FACTS, Pass, PassRun, build_pass, check_least_values
from hespas.passes.native_passes import (
    MODULE,
    NAMES,
    add_native_pass,
    check_unchecked_options,
)
from hespas.passes.pass_list import PassList
from hespas.support.entry_points import report_raised_errors
from hespas.support.errors import (
    HespasError,
    UsageError,
    extract_first_diagnostic,
    extract_first_line,
    fill_in_file_name,
    find_source_file,
    find_walk_error,
    is_encoding_error,
    is_interrupted_walk,
)
from hespas.support.records import record
from hespas.support.suggestions import suggest_nearest
from hespas.support.supervised_process import describe_activity, run_native_code


@record(frozen=True)
class NativePass:
    """A pass of MLIR, StableHLO, MHLO or Shardy, in MLIR's own textual form.

    Attributes:
        text: The name with options and nested passes.
        is_flag: Whether it was a flag of a tool. It is then nested on the op that it is restricted
            to, as in MLIR's tools.
    """

    text: str
    is_flag: bool = False

    @property
    def name(self) -> str:
        """The name, without options and nested passes."""
        return re.split(r"[({]", self.text, maxsplit=1)[0]

    def list_names(self) -> list[str]:
        """List the name, and the names of the nested passes: ``func.func``, ``cse``."""
        without_options = re.sub(r"\{[^{}]*\}", "", self.text)
        return [self.name, *re.findall(r"[\w.-]+(?![\w.(-])", without_options)]

    def to_pipeline_text(self) -> str:
        """Return the text as it was written."""
        return self.text


PipelineStep = Pass | NativePass
LIST_INDENT = "  "  # before the names of the passes of a list in tables of times
PLACE = r"([^\s()][^()]*?):(\d+):(\d+)"


class PassInstrumentation:
    """What a caller of ``run_pipeline`` wants to do around each pass; by default nothing.

    The methods are those of MLIR's class of the same name, which the bindings lack.
    """

    def run_before_pass(self, module: ir.Module, step: PipelineStep) -> None:
        """Called before each pass."""

    def run_after_pass(self, module: ir.Module, step: PipelineStep) -> None:
        """Called after each pass that has left a valid module."""

    def verify_module(self, module: ir.Module) -> None:
        """Called where MLIR has verified a module; raises HespasError if it is invalid."""

    def run_after_pass_failed(self, module: ir.Module, step: PipelineStep) -> None:
        """Called after a pass that raised an error, or that left an invalid module."""

    def run_before_listed_pass(self, module: ir.Module, step: Pass) -> None:
        """Called before each pass of a list, such as ``prepare``."""

    def run_after_listed_pass(self, module: ir.Module, step: Pass) -> None:
        """Called after each pass of a list that has raised no error."""


def run_pipeline(
    module: ir.Module,
    pipeline: str | Sequence[PipelineStep],
    run: PassRun | None = None,
    *,
    instrumentation: Sequence[PassInstrumentation] = (),
    timings: list[tuple[str, float]] | None = None,
    is_continued: bool = False,
    verify_each: bool = False,
) -> PassRun:
    """Run a pipeline on ``module`` in place.

    Args:
        module: The module.
        pipeline: Text, such as ``"split-linear{block-limit=64},cse"``, or parsed steps.
        run: Where passes report to; a new one by default.
        instrumentation: Called before and after each step.
        timings: Collects the text of each step and its time in seconds. Those of the passes of a
            list follow it, and are indented.
        is_continued: Whether the ops are as the last pipeline of ``run`` left them.
        verify_each: Verify the module after each pass. Otherwise passes of hespas itself are
            verified together, before a pass that only reads, and before one of another origin.

    Returns:
        The run with the artefacts of the passes: ``run.get_artefact(EmittedTraces)``.

    Raises:
        HespasError: A pass failed. For an unknown pass or wrong options it is a UsageError.
    """
    module = _require_module(module)
    steps = parse_pipeline(pipeline) if isinstance(pipeline, str) else _check_steps(pipeline)
    run = run or PassRun(find_source_file(module.operation.location))
    steps = resolve_native_passes(steps, module.context)
    forget_other_contexts(module.context)
    if not is_continued:
        run.forget_facts()
    execution = _PipelineExecution(module, run, instrumentation, timings, verify_each)
    with forward_diagnostics(module, run), pause_garbage_collection():
        for step in steps:
            # A pass of somebody else may remove what prepare has written.
            for one in insert_prepare(module, [step]):
                execution.run_step(one)
        execution.verify_unverified()
    return run


def _require_module(module: Any) -> ir.Module:
    """Return a module, also of its operation. Raises TypeError for anything else."""
    op = getattr(module, "operation", None)
    if not isinstance(op, ir.Operation) or op.name != MODULE:
        found = op.name if isinstance(op, ir.Operation) else _name_class(module)
        raise TypeError(
            f"a pipeline runs on an ir.Module of jaxlib's bindings, not on {found}; "
            "hespas.read reads the bytecode of others"
        )
    view: Any = op.opview  # it has the properties of ir.Module
    return module if hasattr(module, "body") else view


def _check_steps(steps: Any) -> list[PipelineStep]:
    """Return passes as a list. Raises TypeError for anything else."""
    listed = list(steps) if isinstance(steps, Iterable) else [steps]
    for step in listed:
        if not isinstance(step, PipelineStep):
            raise TypeError(
                f"a pipeline is a text, such as 'split-linear,cse', or a list of passes, not of "
                f"{_name_class(step)}"
            )
    return listed


def _name_class(value: object) -> str:
    """Return the name of the class of a value, with its module unless it is built in."""
    cls = type(value)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


@contextlib.contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause Python's search for cycles, which a pass makes few of among millions of objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@record()
class _PipelineExecution:
    """Runs the steps of a pipeline, and does what the caller asked for around each.

    Passes of hespas itself are verified together, because a verification takes as long as a pass.

    Attributes:
        unverified: The last of those that have not been verified.
    """

    module: ir.Module
    run: PassRun
    instrumentation: Sequence[PassInstrumentation]
    timings: list[tuple[str, float]] | None
    verify_each: bool
    unverified: PipelineStep | None = None

    def run_step(self, step: PipelineStep) -> None:
        """Run a step by a pass manager of MLIR. Raises HespasError."""
        start, first = time.perf_counter(), len(self.timings or ())
        is_builtin = isinstance(step, Pass) and step.is_builtin
        if not is_builtin or _only_marks(step):
            self.verify_unverified()
        for one in self.instrumentation:
            one.run_before_pass(self.module, step)
        with self.module.context as context, self._report_failure(step, context):
            manager = PassManager(MODULE, context)
            # MLIR's manager skips its verifier after a pass that reports no change; each pass that
            # is not of hespas itself is verified here.
            manager.enable_verifier(False)
            if isinstance(step, Pass):
                # MLIR cannot schedule a Python pass that is restricted to an op.
                apply = functools.partial(_apply_python_pass, step, self.module, self.run)
                manager.add(apply, step.name)
            else:
                _add_native_pass(manager, step)
            manager.run(self.module.operation)
        if self.verify_each or not is_builtin:
            self.verify_step(step)
        elif not _only_marks(step):
            self.unverified = step
        if self.timings is not None:
            self.timings.insert(first, (step.to_pipeline_text(), time.perf_counter() - start))
        for one in self.instrumentation:
            one.run_after_pass(self.module, step)

    @contextlib.contextmanager
    def _report_failure(self, step: PipelineStep, context: ir.Context) -> Iterator[None]:
        """Report a failure of a step, also if native code ends the process.

        What is known of the ops ends with a native step; a pass of Python says what it keeps.
        """
        activity = f"{self.run.input_name}: error: pass '{step.name}'"
        self.run.observe = self.observe_listed_pass if isinstance(step, PassList) else None
        try:
            if isinstance(step, Pass):
                with describe_activity(activity):
                    yield
            else:
                with run_native_code(activity), self.run.keep_facts(frozenset(), keeps_ops=False):
                    yield
        except Exception as error:
            for one in self.instrumentation:
                one.run_after_pass_failed(self.module, step)
            if isinstance(error, ir.MLIRError):
                raise _to_hespas_error(error, step, self.run, context) from None
            raise
        finally:
            self.run.observe = None

    @contextlib.contextmanager
    def observe_listed_pass(self, step: Pass) -> Iterator[None]:
        """Do around a pass of a list what is done around a pass of a pipeline.

        Its time is indented, because that of the list contains it. If it fails, the list fails.
        """
        for one in self.instrumentation:
            one.run_before_listed_pass(self.module, step)
        start = time.perf_counter()
        yield
        if self.timings is not None:
            text = LIST_INDENT + step.to_pipeline_text()
            self.timings.append((text, time.perf_counter() - start))
        if self.verify_each:
            self.verify_step(step)
        for one in self.instrumentation:
            one.run_after_listed_pass(self.module, step)

    def verify_unverified(self) -> None:
        """Verify the passes of hespas that have not been verified. Raises HespasError."""
        if self.unverified is not None:
            step, self.unverified = self.unverified, None
            self.verify_step(step, with_attributes=False)

    def verify_step(self, step: PipelineStep, *, with_attributes: bool = True) -> None:
        """Verify the module, and its ``hespas`` attributes if asked, after a pass.

        Raises:
            HespasError: The module is invalid; the message names the pass.
        """
        module, run = self.module, self.run
        is_builtin = isinstance(step, Pass) and step.is_builtin
        producer = "the passes up to " if is_builtin else "pass "
        remedy = (
            "" if isinstance(step, NativePass) else f"report it to the authors of '{step.name}'"
        )
        try:
            with describe_activity(
                f"{run.input_name}: error: the verification after '{step.name}'"
            ):
                module.operation.verify()
                if with_attributes:
                    verify_attributes(module)
                for one in self.instrumentation:
                    one.verify_module(module)
            return
        except ir.MLIRError as error:
            where = find_error_position(error, module.context)
            reason = extract_first_diagnostic(error)
            notes = list_attached_diagnostics(error, module.context)
        except HespasError as error:
            where, notes = error.where, []
            reason = f"'{error.op_name}': {error.reason}" if error.op_name else error.reason
        for one in self.instrumentation:
            one.run_after_pass_failed(module, step)
        problem = HespasError(
            f"{producer}'{step.name}' left an invalid module: {reason}",
            where=fill_in_file_name(where, run.input_name),
            remedy=remedy,
        )
        problem.notes = notes
        raise problem


def resolve_native_passes(
    steps: Sequence[PipelineStep], context: ir.Context, options: Sequence[str] = ()
) -> list[PipelineStep]:
    """Check the native passes of a pipeline, and nest those that were flags as MLIR requires.

    Args:
        steps: The pipeline.
        context: The context of the module.
        options: The other flags of the tool, which errors suggest.

    Raises:
        UsageError: MLIR has no such pass, or rejects its place or its options.
    """
    register_passes()
    register_inliner(context)  # that of JAX lacks it
    resolved: list[PipelineStep] = []
    for step in steps:
        if isinstance(step, NativePass):
            _check_anchors(step, context)
            try:
                anchor = _add_native_pass(PassManager(MODULE, context), step, options)
            except UsageError as error:
                error.remedy = _suggest_option_of_pass(step, steps) or error.remedy
                raise
            if anchor != MODULE:
                step = NativePass(f"{anchor}({step.text})")
        resolved.append(step)
    return resolved


def _check_anchors(step: NativePass, context: ir.Context) -> None:
    """Raise UsageError for passes nested on ops that no dialect has: MLIR would run none."""
    text = step.text
    while (shorter := re.sub(r"\{[^{}]*\}", "", text)) != text:  # options, which may be pipelines
        text = shorter
    for name in re.findall(r"([^(),\s]+)\(", text):
        if name == "any" or context.is_registered_operation(name):
            continue
        if "." in name and not _is_loaded(context, name.partition(".")[0]):
            continue  # a pass of MLIR may load it
        full_names = filter(context.is_registered_operation, (f"builtin.{name}", f"{name}.{name}"))
        remedy = next((f"write {full_name}(...)" for full_name in full_names), "")
        raise UsageError(
            f"no op is named '{name}'", remedy=remedy or "passes are nested on ops: func.func(cse)"
        )


def _is_loaded(context: ir.Context, dialect: str) -> bool:
    try:
        return bool(context.dialects[dialect])
    except IndexError:
        return False


def _suggest_option_of_pass(step: NativePass, steps: Sequence[PipelineStep]) -> str:
    """Return how a flag is written that is the option of a pass, of one in the pipeline or else."""
    option, _, rest = step.text.partition("{")
    if not step.is_flag or option in NAMES:
        return ""
    for other in steps:
        if isinstance(other, Pass) and option in dict(other.list_spelled_options()):
            value = f"={rest.removesuffix('}')}" if rest else ""
            return f"did you mean --{other.name}={option}{value}?"
    owners = [
        name
        for name in registry.list_pass_names()
        if registry.is_builtin_pass_name(name)
        and option in dict(registry.load_pass_class(name).list_spelled_options())
    ]
    shown = ", ".join(owners[:3]) + " ..." * (len(owners) > 3)
    return f"it is an option of passes, --PASS={option}=VALUE: {shown}" if owners else ""


def _only_marks(step: PipelineStep) -> bool:
    return isinstance(step, Pass) and step.only_marks


def _keeps_ops(step: PipelineStep) -> bool:
    return isinstance(step, Pass) and step.only_marks and step.is_builtin


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


def _add_native_pass(manager: PassManager, step: NativePass, options: Sequence[str] = ()) -> str:
    """Add a pass of MLIR, and return the op that it runs on.

    Raises:
        UsageError: The pass is not known, is in a wrong place, or has wrong options.
    """
    # LLVM prints to stderr why it rejects the value of an option.
    with capture_native_stderr() as stderr_lines:
        try:
            anchor = MODULE
            if step.is_flag:
                anchor = add_native_pass(manager, step.text)
            elif not re.fullmatch(r"[\w.]+\s*\(\s*\)", step.text):  # func.func(): nothing
                manager.add(step.text)
            check_unchecked_options(step.text)
            return anchor
        except (ValueError, ir.MLIRError) as error:
            text = str(error)
    unknown = re.search(r"'([^']*)' does not refer to a registered pass", text)
    if unknown:
        raise _build_unknown_pass_error(unknown[1], step, options)
    reasons = [line.lstrip(": ") for line in stderr_lines] or [
        line.rpartition("error: ")[2].removeprefix("unknown: ")
        for line in text.splitlines()
        if "error: " in line
    ]
    reason = reasons[0] if reasons else extract_first_line(text)
    restricted, remedy = re.search(r"restricted to '([\w.]+)'", reason), ""
    if restricted and step.name == step.text:
        remedy = f"write {restricted[1]}({step.text})"
    elif restricted:
        remedy = f"write the pass beside {step.name}(...), not in it"
    elif "{" in step.text:
        remedy = "MLIR documents its options: NAME=VALUE, separated by spaces"
    raise UsageError(f"MLIR rejects the pass '{step.text}': {reason}", remedy=remedy)


def _build_unknown_pass_error(name: str, step: NativePass, options: Sequence[str]) -> UsageError:
    if not name:
        return UsageError(f"an empty pass name in the pipeline '{step.text}'")
    if registry.is_pass_name(name):
        anchor = step.name
        nested = f"a {MODULE} in the module" if anchor == MODULE else anchor
        return UsageError(
            f"{name} is a pass on {MODULE} and cannot be nested on {nested}",
            remedy=f"write it beside {anchor}(...), not in it",
        )
    known = [*registry.list_pass_names(), *NAMES]
    is_flag = step.is_flag and name == step.name
    remedy = suggest_nearest(name, [*known, *options] if is_flag else known)
    if remedy.startswith("known:"):
        remedy = "hespas-opt --list-passes lists all passes"
    if is_flag:
        return UsageError(f"there is no option or pass --{name}", remedy=remedy)
    return UsageError(f"no pass is named '{name}'", remedy=remedy)


def _to_hespas_error(
    error: ir.MLIRError, step: PipelineStep, run: PassRun, context: ir.Context
) -> HespasError:
    """Convert the first diagnostic of a failed pass of MLIR."""
    where = fill_in_file_name(find_error_position(error, context), run.input_name)
    result = HespasError(
        f"pass '{step.name}' failed: {extract_first_diagnostic(error)}", where=where
    )
    result.notes = list_attached_diagnostics(error, context)
    return result


@contextlib.contextmanager
def forward_diagnostics(module: ir.Module, run: PassRun) -> Iterator[None]:
    """Report the warnings and notes of passes to the diagnostic handlers of the context, too."""
    if not has_diagnostic_handlers(module.context):
        yield
        return
    note = run.note

    def report(text: str) -> None:
        note(text)
        if "\n" not in text:  # several lines are a table
            severity = "WARNING" if text.startswith("warning: ") else "REMARK"
            message = text.removeprefix("warning: ")
            location = _find_location(message, module.operation)
            place = re.match(PLACE, message)
            if place:
                message = message[place.end() :].removeprefix(": ")
            report_diagnostic(module.context, severity, message, location)

    run.note = report
    try:
        yield
    finally:
        run.note = note


def _find_location(text: str, op: ir.Operation) -> ir.Location:
    """Return the first place in a text; the location of the op if the text names none."""
    place = re.search(PLACE, text)
    if place is None:
        return op.location
    return ir.Location.file(place[1], int(place[2]), int(place[3]), op.context)


def add_passes(
    manager: PassManager, pipeline: str | Sequence[PipelineStep], run: PassRun | None = None
) -> PassRun:
    """Add passes of hespas and of MLIR to a pass manager of modules of the same bindings.

    Each pass runs ``prepare`` first if it needs it and the module is not prepared. The manager
    verifies between passes, and prints and times them as it is told to. An error of a pass of
    hespas is reported to the diagnostic handlers, and fails the manager.

    Args:
        manager: A manager on ``builtin.module``.
        pipeline: Text, such as ``"func.func(cse),split-linear"``, or parsed steps.
        run: Where passes report to; a new one by default.

    Returns:
        The run with the artefacts of the passes, once the manager has run.

    Raises:
        UsageError: An unknown pass, or wrong options.
    """
    run = run or PassRun()
    register_passes()
    for step in parse_pipeline(pipeline) if isinstance(pipeline, str) else _check_steps(pipeline):
        if isinstance(step, NativePass):
            _add_native_pass(manager, step)
        else:
            manager.add(_make_pass_callback(step, run), step.name, argument=step.to_pipeline_text())
    return run


def _make_pass_callback(step: Pass, run: PassRun) -> Callable[[ir.Operation, Any], None]:
    def apply_to_op(op: ir.Operation, external: Any) -> None:
        try:
            if op.name != MODULE:
                raise HespasError(f"{step.name} is a pass on {MODULE}, not on {op.name}", op=op)
            # The bindings give no ir.Module for an op; its view has the same properties.
            module: Any = op.opview
            forget_other_contexts(module.context)
            run.forget_facts()  # other passes of the manager may have run
            with forward_diagnostics(module, run):
                for one in insert_prepare(module, [step]):
                    assert isinstance(one, Pass)
                    _apply_python_pass(one, module, run)
        except HespasError as error:
            location: Any = _find_location(error.where, op)
            names_pass = error.reason.startswith(step.name) or f"'{step.name}'" in error.reason
            location.emit_error(error.reason if names_pass else f"{step.name}: {error.reason}")
            external.signal_pass_failure()

    return apply_to_op


def _apply_python_pass(step: Pass, module: ir.Module, run: PassRun, *_of_mlir: object) -> None:
    try:
        check_least_values(step)
        if step.prepares:
            # What is current needs no refresh for any pass.
            with run.keep_facts(FACTS), keep_step_figures(module):
                refresh_facts(module, run)
        keeps = run.keep_facts(step.list_kept_facts(), _keeps_ops(step))
        follows = keep_step_figures(module) if step.is_builtin else contextlib.nullcontext()
        with keeps, follows, _fail_on_emitted_errors(step, module.context), report_raised_errors(
            f"pass '{step.name}'", type(step), where=run.input_name,
            remedy=f"report it to the authors of '{step.name}'",
        ):  # fmt: skip
            artefact = step.apply(module, run)
        if artefact is not None:
            run.artefacts.append(artefact)
    except UsageError:
        raise
    except HespasError as error:
        error.where = fill_in_file_name(error.where, run.input_name)
        raise
    except RuntimeError as error:
        if is_interrupted_walk(error):
            raise KeyboardInterrupt from None
        raised = find_walk_error(str(error))
        if raised is not None:
            raised.where = fill_in_file_name(raised.where, run.input_name)
            raise raised from None
        if not is_encoding_error(error):
            raise
        raise HespasError(
            f"pass '{step.name}' cannot read a name in the module, which is not UTF-8 text",
            where=run.input_name,
        ) from None


@contextlib.contextmanager
def _fail_on_emitted_errors(step: Pass, context: ir.Context) -> Iterator[None]:
    """Raise HespasError after a pass of a package that has emitted errors of MLIR.

    The bindings drop the diagnostics of a pass that does not fail.
    """
    if step.is_builtin:
        yield
        return
    with collect_errors(context) as emitted:
        try:
            yield
        except HespasError as error:
            error.notes += emitted
            raise
    if emitted:
        (_, where, text), *others = emitted
        more = f"; and {len(others)} more error{'s' * (len(others) > 1)}" if others else ""
        error = HespasError(
            f"pass '{step.name}' failed: {extract_first_line(text)}{more}", where=where
        )
        error.notes = others
        raise error


def refresh_facts(module: ir.Module, run: PassRun) -> None:
    """Make what ``prepare`` and the passes of memory have written describe the ops as they are.

    Raises:
        HespasError: Another pass has left something that they refuse.
    """
    from hespas.passes.prepare.prepare import refresh_preparation  # slow to import

    refresh_preparation(module, run)
    if MemoryAttr.NAME in module.operation.attributes:
        from hespas.passes.memory.memory_annotate import refresh_memory  # few modules have it

        refresh_memory(module, run)
    if ON_CHIP_PROGRAM in module.operation.attributes:
        from hespas.passes.memory.on_chip_annotate import refresh_on_chip

        refresh_on_chip(module, run)


def format_pipeline(steps: Sequence[PipelineStep]) -> str:
    """Format a pipeline as ``--print-pipeline`` shows it and ``parse_pipeline`` reads it."""
    return ",".join(step.to_pipeline_text() for step in steps)


def parse_pipeline(text: str) -> list[PipelineStep]:
    """Parse a textual pipeline. Raises UsageError for bad syntax and wrong options.

    ``builtin.module(...)`` around the text, or around a part of it, is the module itself.
    """
    items: list[str] = []
    for item in _split_pipeline_steps(text):
        outer = re.fullmatch(r"(?:builtin\.module|any)\s*\((.*)\)", item, re.DOTALL)
        items += _split_pipeline_steps(outer[1]) if outer else [item]
    return [_parse_pipeline_step(item) for item in items]


def _parse_pipeline_step(item: str) -> PipelineStep:
    name, brace, rest = item.partition("{")
    name = name.strip()
    if "(" in name or not registry.is_pass_name(name):
        _check_pass_syntax(item)
        return NativePass(item)
    if brace and not rest.endswith("}"):
        raise UsageError(f"the options in '{item}' have no closing '}}'")
    return build_pass_from_text(name, rest[:-1] if brace else "")


def build_pass_from_text(name: str, options: str) -> Pass:
    """Build a pass of hespas or of a package with options in text. Raises UsageError."""
    return build_pass(registry.load_pass_class(name), _parse_words(options))


def _check_pass_syntax(item: str) -> None:
    """Raise UsageError for a pass of hespas in another form than ``NAME{OPTIONS}``."""
    written = re.fullmatch(r"-*([\w-]+)[=(; ]?\s*(.*?)\)?", item, re.DOTALL)
    if written is None or not registry.is_pass_name(written[1]):
        return
    name, rest = written.groups()
    following = re.split(r"[^\w-]", rest, maxsplit=1)[0]
    if following in NAMES or registry.is_pass_name(following):
        remedy = f"separate passes by commas: {name},{rest}"
    else:
        remedy = f"write {name}{{{rest}}}" if rest else f"write {name}"
    raise UsageError(f"cannot read the pass '{item}'", remedy=remedy)


def parse_options(text: str) -> dict[str, str | bool]:
    """Parse ``a=1 b="x y" flag``. A word without a value is a flag; commas separate too.

    Names are spelled with dashes, as passes spell those of their options.
    """
    return {name.replace("_", "-"): value for name, value in _parse_words(text).items()}


def _parse_words(text: str) -> dict[str, str | bool]:
    """Parse options, and leave their names as they are written. Raises UsageError."""
    options, rest = _scan_words(text)
    if rest:
        # Braces are those of a textual pipeline, and quotes those of a shell.
        plain = re.sub(r"\s*[=:]\s*", "=", text.strip(" {}\"'").replace(";", ","))
        if plain and not _scan_words(plain)[1]:
            remedy = f"write {plain}"
        elif re.search(r"[=,\s]", plain):
            remedy = (
                "write NAME=VALUE, separated by commas; a value with commas or spaces is quoted"
            )
        else:
            remedy = f"write NAME={plain} with the name of an option"
        raise UsageError(f"cannot read the options from '{rest}'", remedy=remedy)
    return options


def _scan_words(text: str) -> tuple[dict[str, str | bool], str]:
    """Return the options by name, and the text from where it is no option."""
    options: dict[str, str | bool] = {}
    names: set[str] = set()
    pattern = re.compile(
        r"""\s*,?\s*([A-Za-z0-9_-]+)(?:=(?:"([^"]*)"|'([^']*)'|\{([^}]*)\}|([^\s,]*)))?"""
    )
    position, text = 0, text.rstrip(" ,")
    while position < len(text):
        match = pattern.match(text, position)
        if not match:
            return options, text[position:]
        name = match[1].replace("_", "-")
        if name in names:
            raise UsageError(f"option '{name}' is set twice")
        if match[5] and match[5][0] in "\"'{":
            raise UsageError(f"the value of option '{name}' has no end: {match[5]}")
        value = next((g for g in match.groups()[1:] if g is not None), None)
        names.add(name)
        options[match[1]] = True if value is None else value
        position = match.end()
    return options, ""


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
            if depth < 0:
                break
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
