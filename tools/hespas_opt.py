"""``hespas-opt``: read a module, run passes in the order of their flags, and print the module."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hespas.support import output_file, supervised_process
from hespas.support.errors import HespasError, UsageError
from hespas.tools import console_scripts
from hespas.tools.commands.shared_flags import add_module_flags

if TYPE_CHECKING:
    from hespas.passes.pipeline import PipelineStep

DESCRIPTION = """\
Read StableHLO (MLIR text or bytecode, portable artifact, HLO text or protobuf, also .xz or .gz)
from a file or stdin, run passes in the order of their flags, and print the module.

  hespas-opt in.mlir --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=out
  hespas-opt in.mlir -p "split-linear{block-limit=64},cse,roofline-annotate{node=H100_80GB}"

Passes of MLIR, StableHLO, mhlo and Shardy are flags too: --canonicalize --cse --symbol-dce ...
The options of a pass follow '=', separated by commas, or by spaces within quotes.
"""


def build_parser(with_passes: bool = False) -> argparse.ArgumentParser:
    """Build the parser of all options except the passes.

    Args:
        with_passes: Whether the help lists the passes, which imports all of them.
    """
    parser = argparse.ArgumentParser(
        "hespas-opt",
        description=DESCRIPTION,
        epilog=_format_pass_help() if with_passes else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this help and exit")
    add("--version", action="store_true", help="show the version and exit")
    add_module_flags(parser)
    add("--disable-output", action="store_true", help="do not print the module")
    add("--mlir-print-op-generic", action="store_true", help="print ops in the generic form")
    add(
        "--mlir-elide-elementsattrs-if-larger", type=int, metavar="N",
        help="elide the values of constants with more than N elements",
    )  # fmt: skip
    add(
        "--typed-attributes", action="store_true",
        help="print #hespas.cost<...> instead of dictionaries",
    )  # fmt: skip
    add("--allow-unregistered-dialect", action="store_true", help="accept ops of unknown dialects")
    add(
        "--split-input-file",
        action="store_true",
        help="process the parts between '// -----' separately",
    )
    add(
        "--verify-diagnostics", action="store_true",
        help="check that errors match the expected-error comments",
    )  # fmt: skip
    add("--print-pipeline", action="store_true", help="print the pipeline on stderr before it runs")
    add(
        "--mlir-print-ir-after", action="append", default=[], metavar="PASS",
        help="print the module on stderr after this pass; may be repeated",
    )  # fmt: skip
    add(
        "--mlir-print-ir-after-all", action="store_true",
        help="print the module on stderr after every pass",
    )  # fmt: skip
    add(
        "--timing",
        "--mlir-timing",
        action="store_true",
        help="print the time of each pass on stderr",
    )
    add(
        "--keep-going", action="store_true",
        help="tag and count ops without a cost rule instead of stopping",
    )  # fmt: skip
    add(
        "-p",
        "--pass-pipeline",
        metavar="TEXT",
        help="textual pipeline; may be combined with pass flags",
    )
    return parser


def _format_pass_help() -> str:
    from hespas.passes import registry

    lines = ["passes:"]
    for name in registry.list_pass_names():
        lines.append(f"  --{name}")
        try:
            cls = registry.load_pass_class(name)
        except HespasError as error:  # a package is incomplete
            lines.append(f"      ({error.message})")
            continue
        lines.append(f"      {cls.get_help_summary()}")
        for spelled, field in cls.list_spelled_options():
            value = str(field.default).lower() if field.default in (True, False) else field.default
            default = f" (default {value})" if value not in ("", None) else ""
            lines.append(f"        {spelled}: {field.metadata['help']}{default}")
    return "\n".join(lines)


def _parse_arguments(argv: Sequence[str]) -> tuple[argparse.Namespace, list[PipelineStep]]:
    """Parse the options, and the passes in the order of their flags; raises UsageError."""
    parser = build_parser()
    own = {string for action in parser._actions for string in action.option_strings}
    with_value = {
        string
        for action in parser._actions
        for string in action.option_strings
        if action.nargs is None
    }
    steps: list[PipelineStep] = []
    rest: list[str] = []
    items = iter(argv)
    for item in items:
        flag, equals, value = item.partition("=")
        if flag in ("-p", "--pass-pipeline"):
            text = value if equals else next(items, None)
            if text is None:
                raise UsageError(f"{flag} needs a pipeline")
            from hespas.passes import pipeline

            steps += pipeline.parse_pipeline(text)
        elif flag.startswith("--") and len(flag) > 2 and flag not in own:
            steps.append(_build_pass_step(flag[2:], value))
        else:
            rest.append(item)
            if item in with_value:
                rest += [value for value in [next(items, None)] if value is not None]
    try:
        parser.error = _raise_usage_error  # type: ignore[method-assign]
        return parser.parse_args(rest), steps
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from None


def _raise_usage_error(message: str) -> Any:
    raise UsageError(message, remedy="see hespas-opt --help")


def _build_pass_step(name: str, options: str) -> PipelineStep:
    from hespas.passes import pipeline, registry
    from hespas.passes.base import build_pass

    if registry.is_pass_name(name):
        return build_pass(registry.load_pass_class(name), pipeline.parse_options(options))
    return pipeline.NativePass(f"{name}{{{options}}}" if options else name)


def main(argv: Sequence[str]) -> int:
    """Run the tool; returns its exit code, raises HespasError."""
    options, steps = _parse_arguments(argv)
    if options.help:
        print(build_parser(with_passes=True).format_help(), end="")
        return 0
    if options.version:
        from hespas import __version__

        print(f"hespas-opt {__version__}")
        return 0
    from hespas import frontends
    from hespas.passes import pipeline

    supervised_process.handle_interrupts_in_child()
    if options.print_pipeline:
        print(pipeline.format_pipeline(steps), file=sys.stderr)
    if options.output != "-" and not options.disable_output:
        output_file.check_writable_file(options.output)
    if options.split_input_file or options.verify_diagnostics:
        return _process_parts(options, steps)
    name = "<stdin>" if options.input == "-" else frontends.to_display_name(options.input)
    read = functools.partial(frontends.read_module, options.input)
    _write_module_output(options, _run_pass_pipeline(options, steps, read, name))
    return 0


def _process_parts(options: argparse.Namespace, steps: Sequence[PipelineStep]) -> int:
    """Process each part of the input separately, and check expected errors; returns exit code."""
    from hespas import frontends
    from hespas.tools import expected_diagnostics

    name, data = frontends.read_unpacked_bytes(options.input)
    parts = [(0, data)]
    if options.split_input_file:
        parts = expected_diagnostics.split_at_separators(data, name)
    outputs, failures = [], []
    for line, part in parts:
        reported_errors = []
        try:
            # Blank lines replace the parts before, so that source positions are right.
            parse = functools.partial(frontends.parse_module, b"\n" * line + part, name)
            outputs.append(_run_pass_pipeline(options, steps, parse, name))
        except HespasError as error:
            if not options.verify_diagnostics:
                raise
            reported_errors = [error]
        if options.verify_diagnostics:
            failures += expected_diagnostics.compare_diagnostics(part, line, name, reported_errors)
    if failures:
        print("\n".join(failures), file=sys.stderr)
        return console_scripts.EXIT_ERROR
    if not options.verify_diagnostics:
        _write_module_output(options, b"// -----\n\n".join(outputs))
    return 0


def _run_pass_pipeline(
    options: argparse.Namespace,
    steps: Sequence[PipelineStep],
    read_module: Callable[[Any], Any],
    name: str,
) -> bytes:
    """Run the pipeline on one module and return its text or bytecode.

    Args:
        options: The options of the tool.
        steps: The passes.
        read_module: Reads the module into a context.
        name: The name of the file, for messages.

    Raises:
        HespasError: The module cannot be read, or a pass fails.
    """
    from hespas.dialects.mlir import make_context
    from hespas.passes import pipeline
    from hespas.passes.base import PassRun

    context = make_context()
    context.allow_unregistered_dialects = options.allow_unregistered_dialect
    module = read_module(context)
    run = PassRun(input_name=name, keep_going=options.keep_going)
    shown = {part for item in options.mlir_print_ir_after for part in item.split(",")}
    unknown = shown - {step.name for step in steps} - {"prepare"}
    if unknown:
        raise UsageError(f"--mlir-print-ir-after: '{min(unknown)}' is not in the pipeline")

    class IrPrinting(pipeline.PassInstrumentation):
        def run_after_pass(self, module: Any, step: PipelineStep) -> None:
            if options.mlir_print_ir_after_all or step.name in shown:
                title = f"// -----// IR Dump After {step.to_pipeline_text()} //----- //"
                print(title, module, sep="\n", file=sys.stderr)

    timings: list[tuple[str, float]] | None = [] if options.timing else None
    pipeline.run_pipeline(module, steps, run, instrumentation=IrPrinting(), timings=timings)
    for spelled, seconds in timings or []:
        print(f"{seconds:10.4f} s  {spelled}", file=sys.stderr)
    if options.disable_output or options.output == "/dev/null":
        return b""
    with supervised_process.describe_activity(f"{name}: error: the printing of the module"):
        return _render_module(options, module)


def _render_module(options: argparse.Namespace, module: Any) -> bytes:
    """Render the module in the form that the options select."""
    if options.typed_attributes:
        from hespas.dialects import typed_attrs

        return typed_attrs.to_typed_text(module).encode()

    from hespas.workflows import module_output

    if options.emit_bytecode:
        return module_output.to_mlir_bytecode(module)
    return module_output.to_mlir_text(
        module,
        locations=options.mlir_print_debuginfo,
        print_generic_op_form=options.mlir_print_op_generic,
        large_elements_limit=options.mlir_elide_elementsattrs_if_larger,
    )


def _write_module_output(options: argparse.Namespace, data: bytes) -> None:
    """Write the output completely or not at all."""
    if not options.disable_output:
        from hespas.workflows import module_output

        module_output.write_file_or_stdout(options.output, data)


def script() -> None:
    console_scripts.script(main)


if __name__ == "__main__":
    script()
