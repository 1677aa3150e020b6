"""``hespas-opt``: read a module, run passes in the order of their flags, and print the module."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from hespas.support import output_file, supervised_process
from hespas.support.errors import HespasError, UsageError, fill_in_file_name
from hespas.support.records import record
from hespas.support.settings import BOOLS
from hespas.tools import console_scripts
from hespas.tools.commands.shared_flags import add_module_flags

if TYPE_CHECKING:
    from hespas.passes.pipeline import PipelineStep
    from hespas.tools.expected_diagnostics import Diagnostic

DESCRIPTION = """\
Read StableHLO (MLIR text or bytecode, portable artifact, jax.export's, HLO text or protobuf)
from a file or stdin, run passes in the order of their flags, and print the module.

  hespas-opt in.mlir --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=out
  hespas-opt in.mlir -p "split-linear{block-limit=64},cse,roofline-annotate{node=H100_80GB}"

Passes of MLIR, StableHLO, mhlo and Shardy are flags too: --canonicalize --cse --symbol-dce ...
The options of a pass follow '=', separated by commas, or by spaces within quotes; those of a native
pass by spaces.
"""


ALL, ONLY_EXPECTED = "all", "only-expected"  # what --verify-diagnostics checks
SEPARATOR = "// -----"  # of the parts of a file
# What a flag has as its value if it is written without one. argparse would take the input file.
IMPLICIT_VALUES = {"--verify-diagnostics": ALL, "--split-input-file": SEPARATOR}
# Flags of mlir-opt that hespas-opt cannot have, with the remedy.
_LEFT_OUT = "leave it out"
_OF_DEBUG_BUILDS = "it belongs to debug builds of MLIR's own tools"
REFUSED_FLAGS = {
    "debug": _OF_DEBUG_BUILDS,
    "debug-only": _OF_DEBUG_BUILDS,
    "mlir-debug-counter": _OF_DEBUG_BUILDS,
    "mlir-enable-debugger-hook": _OF_DEBUG_BUILDS,
    "elide-resource-data-from-bytecode": f"{_LEFT_OUT}: bytecode contains all resources",
    "emit-bytecode-producer": _LEFT_OUT,
    "help-hidden": "use --help",
    "help-list": "use --help",
    "load-dialect-plugin": "read the ops of a dialect with --irdl-file or "
    "--allow-unregistered-dialect",
    "load-pass-plugin": "install a Python package with the entry point hespas.passes",
    "log-actions-to": "use --mlir-print-ir-before-all",
    "log-mlir-actions-filter": "use --mlir-print-ir-before",
    "profile-actions-to": "use --timing",
    "mlir-generate-reproducer": "use --mlir-pass-pipeline-crash-reproducer=FILE",
    "mlir-reproducer-before-all": "use --mlir-pass-pipeline-crash-reproducer=FILE",
    "mlir-pass-pipeline-local-reproducer": f"{_LEFT_OUT}: a reproducer has the pass that failed "
    "and those after it",
    "mlir-pass-statistics": "use --timing, or --op-stats for the ops of a module",
    "mlir-pass-statistics-display": "use --timing, or --op-stats for the ops of a module",
    "mlir-pretty-debuginfo": "use --mlir-print-debuginfo",
    "mlir-print-assume-verified": f"{_LEFT_OUT}: a module is printed so",
    "mlir-print-elementsattrs-with-hex-if-larger": "use --mlir-elide-elementsattrs-if-larger=N, "
    "or --emit-bytecode",
    "mlir-print-ir-tree-dir": "use --mlir-print-ir-after-all 2> FILE",
    "mlir-print-op-on-diagnostic": f"{_LEFT_OUT}: errors are one line",
    "mlir-print-skip-regions": "use --op-stats",
    "mlir-print-stacktrace-on-diagnostic": _LEFT_OUT,
    "mlir-print-unique-ssa-ids": "use --mlir-use-nameloc-as-prefix",
    "mlir-print-value-users": _LEFT_OUT,
    "mlir-timing-display": "use --timing, which prints a list",
    "mlir-very-unsafe-disable-verifier-on-parsing": f"{_LEFT_OUT}: each module is verified",
    "no-implicit-module": f"{_LEFT_OUT}: a module in the file is the module",
    "register-plugin": "install a Python package with the entry point hespas.passes",
    "show-dialects": "hespas reads builtin, func, stablehlo, chlo, vhlo, mhlo, sdy and upstream "
    "dialects",
    "verify-roundtrip": "compare the output with that of a second hespas-opt",
}


def build_parser(with_passes: bool = False) -> argparse.ArgumentParser:
    """Build the parser of all options except the passes.

    Args:
        with_passes: Whether the help lists the passes, which imports all of them.
    """
    parser = argparse.ArgumentParser(
        "hespas-opt",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this help and exit")
    add("--version", action="store_true", help="show the version and exit")
    add("--list-passes", action="store_true", help="list all passes, native ones too, and exit")
    add_module_flags(parser)
    _add_form_flags(parser)
    _add_reading_flags(parser)
    _add_pipeline_flags(parser)
    if with_passes:
        parser.epilog = _format_pass_help(parser)
    return parser


def _add_form_flags(parser: argparse.ArgumentParser) -> None:
    """Add what determines the form of the printed module."""
    add = parser.add_argument
    add("--disable-output", action="store_true", help="do not print the module")
    add("--mlir-print-op-generic", action="store_true", help="print ops in the generic form")
    add(
        "--emit-bytecode-version", type=int, metavar="N",
        help="version of the bytecode; default: the newest",
    )  # fmt: skip
    add(
        "--mlir-print-local-scope", action="store_true",
        help="print attributes and locations in place, without aliases",
    )  # fmt: skip
    add(
        "--mlir-use-nameloc-as-prefix", action="store_true",
        help="name values after the names in their locations",
    )  # fmt: skip
    add(
        "--mlir-elide-elementsattrs-if-larger", type=int, metavar="N",
        help="elide the values of constants with more than N elements",
    )  # fmt: skip
    add(
        "--mlir-elide-resource-strings-if-larger", type=int, metavar="N",
        help="elide resources whose text has more than N characters",
    )  # fmt: skip
    add(
        "--typed-attributes", action="store_true",
        help="print #hespas.cost<...> instead of dictionaries",
    )  # fmt: skip


def _add_reading_flags(parser: argparse.ArgumentParser) -> None:
    """Add how the input is read, and what is expected of it."""
    add = parser.add_argument
    add(
        "--irdl-file", action="append", default=[], metavar="FILE",
        help="accept and verify the ops that this IRDL file defines; may be repeated",
    )  # fmt: skip
    add(
        "--split-input-file", nargs="?", const=SEPARATOR, metavar="SEPARATOR",
        help=f"process the parts between lines with '{SEPARATOR}', or another separator, "
        "separately, and print those without an error; with -o, nothing is written if a part has "
        "one",
    )  # fmt: skip
    add(
        "--output-split-marker", default=SEPARATOR, metavar="SEPARATOR",
        help=f"what is printed between the parts of --split-input-file (default {SEPARATOR})",
    )  # fmt: skip
    add(
        "--verify-diagnostics", nargs="?", const=ALL, choices=(ALL, ONLY_EXPECTED),
        metavar="all|only-expected",
        help="check that errors, warnings, remarks and notes match the expected-error, "
        "-warning, -remark and -note comments; with only-expected, others are ignored",
    )  # fmt: skip
    add(
        "--run-reproducer", action="store_true",
        help="run the pipeline that a reproducer contains",
    )  # fmt: skip
    add(
        "--keep-going", action="store_true",
        help="tag and count ops without a cost rule instead of stopping",
    )  # fmt: skip


def _add_pipeline_flags(parser: argparse.ArgumentParser) -> None:
    """Add the pipeline, and what is done around its passes."""
    add = parser.add_argument
    add(
        "-p", "--pass-pipeline", metavar="TEXT",
        help="textual pipeline; may be combined with pass flags",
    )  # fmt: skip
    add(
        "--print-pipeline", action="store_true",
        help="print the pipeline on stderr as it was given, before the input is read",
    )  # fmt: skip
    add(
        "--dump-pass-pipeline", action="store_true",
        help="print the pipeline on stderr as it runs: with prepare, and native passes nested",
    )  # fmt: skip
    add(
        "--verify-each", action="store_true",
        help="verify the module after each pass; by default, consecutive passes of hespas are "
        "verified together",
    )  # fmt: skip
    for when, verb in (("before", "before"), ("after", "after")):
        add(
            f"--mlir-print-ir-{when}", action="append", default=[], metavar="PASS",
            help=f"print the module on stderr {verb} this pass; may be repeated",
        )  # fmt: skip
        add(
            f"--mlir-print-ir-{when}-all", action="store_true",
            help=f"print the module on stderr {verb} every pass",
        )  # fmt: skip
    add(
        "--mlir-print-ir-after-change", action="store_true",
        help="print the module on stderr after every pass that changed it",
    )  # fmt: skip
    add(
        "--mlir-print-ir-after-failure", action="store_true",
        help="print the module on stderr after a pass that failed",
    )  # fmt: skip
    add(
        "--mlir-print-ir-module-scope", action="store_true",
        help="print the whole module around passes that are nested on functions: always so",
    )  # fmt: skip
    add(
        "--mlir-disable-threading", action="store_true",
        help="run native passes in one thread",
    )  # fmt: skip
    add(
        "--mlir-pass-pipeline-crash-reproducer", metavar="FILE",
        help="write the module before the pass that fails, with the rest of the pipeline",
    )  # fmt: skip
    add(
        "--timing", "--mlir-timing", action="store_true",
        help="print the time and share of reading, each pass and printing on stderr",
    )  # fmt: skip


def _format_pass_help(parser: argparse.ArgumentParser) -> str:
    from hespas.passes import registry

    _check_guest_passes(list_flags(parser))

    lines = ["passes:"]
    for name in registry.list_pass_names():
        lines.append(f"  --{name}")
        try:
            cls = registry.load_pass_class(name)
        except HespasError as error:  # a package is incomplete
            lines.append(f"      ({error.message})")
            continue
        lines.append(f"      {cls.get_help_summary()}")
        for spelled, declared in cls.list_spelled_options():
            value = declared.default
            value = str(value).lower() if value in (True, False) else value
            default = f" (default {value})" if value not in ("", None) else ""
            lines.append(f"        {spelled}: {declared.metadata.get('help', '')}{default}")
    return "\n".join(lines)


def list_flags(parser: argparse.ArgumentParser) -> list[str]:
    """List the flags of a parser."""
    return [string for action in parser._actions for string in action.option_strings]


def _parse_arguments(argv: Sequence[str]) -> tuple[argparse.Namespace, list[PipelineStep]]:
    """Parse the options, and the passes in the order of their flags; raises UsageError."""
    parser = build_parser()
    own = set(list_flags(parser))
    with_value, switches = (
        {
            string
            for action in parser._actions
            for string in action.option_strings
            if action.nargs == nargs
        }
        for nargs in (None, 0)
    )
    steps: list[PipelineStep] = []
    rest: list[str] = []
    pass_flag, after_passes = "", []  # words after a pass that are no files: options, it seems
    items = iter(argv)
    for item in items:
        flag, equals, value = item.partition("=")
        last_pass, pass_flag = pass_flag, ""
        joined = re.match("-p(?!=)(?=.)", item)  # -pcse, as argparse reads it
        if joined and not _is_flag_with_dash(flag[1:], own):
            flag, equals, value = "-p", "=", item[2:]
        if flag in ("-p", "--pass-pipeline"):
            text = value if equals else next(items, None)
            if not text:
                raise UsageError(
                    f"{flag} needs a pipeline",
                    remedy="" if text is None else "builtin.module() is one without passes",
                )
            from hespas.passes import pipeline

            steps += pipeline.parse_pipeline(text)
        elif flag.startswith("--") and len(flag) > 2 and flag not in own:
            steps.append(_build_pass_step(flag[2:], value))
            pass_flag = flag
        elif re.match("-[A-Za-z][A-Za-z-]+$", flag):  # argparse would read -pass-pipeline as -p
            raise UsageError(f"there is no option {flag}", remedy=f"write it as -{flag}")
        elif equals and flag in switches and value.lower() in BOOLS:  # as in MLIR's tools
            rest = [other for other in rest if other != flag]
            rest += [flag] if BOOLS[value.lower()] else []
        else:
            rest.append(f"{item}={IMPLICIT_VALUES[item]}" if item in IMPLICIT_VALUES else item)
            if last_pass and not item.startswith("-") and not os.path.exists(item):
                after_passes.append(f"{last_pass}={item}")
            if item in with_value:
                rest += [value for value in [next(items, None)] if value is not None]
    if _may_contain_guests(steps) if steps else _is_about_passes(rest):
        _check_guest_passes(own)
    try:
        parser.error = functools.partial(_raise_usage_error, after_passes)  # type: ignore[method-assign]
        return parser.parse_args(rest), steps
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from None


def _may_contain_guests(steps: Sequence[PipelineStep]) -> bool:
    """Return whether a pipeline has passes that are not of hespas, so that packages are known."""
    from hespas.passes import registry

    return any(not registry.is_builtin_pass_name(step.name) for step in steps)


def _is_about_passes(arguments: Sequence[str]) -> bool:
    """Return whether options are about the passes of a pipeline.

    In a command without passes, such an option may be meant as a pass.
    """
    parser = argparse.ArgumentParser(add_help=False)
    _add_pipeline_flags(parser)
    return not {argument.partition("=")[0] for argument in arguments}.isdisjoint(list_flags(parser))


def _check_guest_passes(own: Collection[str]) -> None:
    """Raise UsageError for a pass of a package whose flag would be an option of the tool."""
    from hespas.passes import registry

    for name, import_path in sorted(registry.find_plugins().items()):
        if f"--{name}" in own:
            raise UsageError(
                f"a package defines the pass '{name}' ({import_path}), which is an option of "
                "hespas-opt",
                remedy="uninstall the package, or give its pass another name",
            )


def _is_flag_with_dash(name: str, own: Collection[str]) -> bool:
    """Return whether a flag would have the name with two dashes."""
    from hespas.passes import native_passes, registry

    return f"--{name}" in own or registry.is_pass_name(name) or name in native_passes.NAMES


def _raise_usage_error(pass_options: Sequence[str], message: str) -> Any:
    """Raise UsageError with a message of argparse, and with how it is written if that is known."""
    remedy = "see hespas-opt --help"
    unwanted = re.fullmatch(r"argument (\S+): ignored explicit argument '(.*)'", message)
    if unwanted:
        message, remedy = f"{unwanted[1]} takes no value", f"leave out '={unwanted[2]}'"
    elif message.startswith("unrecognized arguments") and pass_options:
        remedy = f"the options of a pass follow '=': {', '.join(pass_options)}"
    raise UsageError(message, remedy=remedy)


def _build_pass_step(name: str, options: str) -> PipelineStep:
    from hespas.passes import pipeline, registry

    if registry.is_pass_name(name):
        return pipeline.build_pass_from_text(name, options)
    if name in REFUSED_FLAGS:
        raise UsageError(
            f"hespas-opt has no flag --{name} of MLIR's tools", remedy=REFUSED_FLAGS[name]
        )
    bare, brace, rest = name.partition("{")
    if brace and registry.is_pass_name(bare):  # as in a textual pipeline
        written = f"{rest}={options}" if options else rest
        raise UsageError(
            f"the options of --{bare} stand in braces",
            remedy=f"write --{bare}={written.removesuffix('}')}",
        )
    return pipeline.NativePass(f"{name}{{{options}}}" if options else name, is_flag=True)


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
    if options.list_passes:
        print(_format_pass_list())
        return 0
    from hespas import frontends
    from hespas.passes import pipeline

    _check_options(options)
    if options.run_reproducer and steps:
        raise UsageError(
            "--run-reproducer runs the passes of the file, and others are given",
            remedy="leave out one of them",
        )
    supervised_process.handle_interrupts_in_child()
    if options.print_pipeline:
        print(pipeline.format_pipeline(steps), file=sys.stderr)
    if options.output != "-" and not options.disable_output:
        output_file.check_writable_file(options.output)
    job = _OptJob(options, steps)
    if options.split_input_file or options.verify_diagnostics or options.run_reproducer:
        return _process_parts(job)
    name = "<stdin>" if options.input == "-" else frontends.to_display_name(options.input)
    read = functools.partial(
        frontends.read_module, options.input, only_live=_hides_dead_functions(options, steps)
    )
    _write_module_output(options, job.process_module(read, name))
    return 0


def _hides_dead_functions(options: argparse.Namespace, steps: Sequence[PipelineStep]) -> bool:
    """Return whether no output can show functions that ``prepare`` removes before other passes."""
    from hespas.passes.base import Pass

    first = steps[0] if steps else None
    prepares = isinstance(first, Pass) and (first.name == "prepare" or first.prepares)
    return prepares and not _has_mlir_flag(options) and _discards_output(options)


def _has_mlir_flag(options: argparse.Namespace) -> bool:
    """Return whether a flag of MLIR's own tools is set, most of which print modules."""
    return any(value for name, value in vars(options).items() if name.startswith("mlir_"))


def _discards_output(options: argparse.Namespace) -> bool:
    return options.disable_output or options.output == os.devnull


def _check_options(options: argparse.Namespace) -> None:
    """Raise UsageError for options that exclude each other, or have no meaning."""
    if options.split_input_file == "":
        raise UsageError("--split-input-file needs a separator", remedy="leave out '='")
    if options.emit_bytecode_version is not None and not options.emit_bytecode:
        raise UsageError("--emit-bytecode-version is for --emit-bytecode", remedy="add it")
    reproducer = options.mlir_pass_pipeline_crash_reproducer
    for path in (options.input, options.output):
        if reproducer and os.path.realpath(reproducer) == os.path.realpath(path):
            raise UsageError(
                f"--mlir-pass-pipeline-crash-reproducer would replace {path}",
                remedy="choose another file for it",
            )
    if options.emit_bytecode:
        for flag in ("split_input_file", "typed_attributes"):
            if getattr(options, flag):
                spelled = flag.replace("_", "-")
                raise UsageError(
                    f"--{spelled} is for text, and --emit-bytecode writes none",
                    remedy="leave one of them out",
                )


def _format_pass_list() -> str:
    """Format the names of all passes with their first lines, and of native ones with their op."""
    from hespas.dialects.mlir import make_context
    from hespas.passes import registry
    from hespas.passes.native_passes import MODULE, list_native_passes
    from hespas.passes.pass_list import PassList

    _check_guest_passes(list_flags(build_parser()))
    lines = ["passes of hespas and of installed packages:"]
    for name in registry.list_pass_names():
        try:
            cls = registry.load_pass_class(name)
        except HespasError as error:  # a package is incomplete
            lines.append(f"  --{name:32} ({error.message})")
            continue
        lines.append(f"  --{name:32} {cls.get_help_summary()}")
        if issubclass(cls, PassList):
            lines.append(f"{'':37}{cls().to_entries_text()}")
    lines.append("passes of MLIR, StableHLO, mhlo and Shardy:")
    for name, anchor in list_native_passes(make_context()):
        lines.append(f"  --{name}" if anchor == MODULE else f"  --{name:32} on {anchor}")
    return "\n".join(lines)


def _process_parts(job: _OptJob) -> int:
    """Process each part of the input separately; returns the exit code.

    Each part with an error is reported, and the others are printed on stdout; a file is written if
    there are no errors. With ``--verify-diagnostics`` errors are unmet expectations, and parts are
    printed if there are none.
    """
    from hespas import frontends
    from hespas.tools import expected_diagnostics

    options = job.options
    name, data = frontends.read_unpacked_bytes(options.input)
    if options.run_reproducer:
        from hespas.tools import ir_printing

        job.steps = ir_printing.read_pipeline(data, name)
    parts = [(0, data)]
    if options.split_input_file:
        parts = expected_diagnostics.split_at_separators(data, name, options.split_input_file)
        if len(parts) > 1 and not options.verify_diagnostics:
            _refuse_shared_outputs(job.steps)
    outputs, problems = [], []
    for line, part in parts:
        # Blank lines replace the parts before, so that source positions are right.
        parse = functools.partial(frontends.parse_module, b"\n" * line + part, name)
        job.diagnostics.clear()
        try:
            outputs.append(job.process_module(parse, name))
        except UsageError:
            raise
        except HespasError as error:
            if not options.verify_diagnostics:
                problems.append(str(error))
            job.diagnostics += expected_diagnostics.list_error_diagnostics(error)
        if options.verify_diagnostics:
            problems += expected_diagnostics.compare_diagnostics(
                part, line, name, job.diagnostics,
                only_expected=options.verify_diagnostics == ONLY_EXPECTED,
            )  # fmt: skip
    if problems:
        print("\n".join(problems), file=sys.stderr)
    # Good parts are shown, but a file with some of the parts would look complete.
    if not problems or (options.output == "-" and not options.verify_diagnostics):
        _write_module_output(options, f"{options.output_split_marker}\n\n".encode().join(outputs))
    return console_scripts.EXIT_ERROR if problems else 0


def _refuse_shared_outputs(steps: Sequence[PipelineStep]) -> None:
    """Raise UsageError for a pass that would write what one part gives over that of another."""
    for step in steps:
        paths = [getattr(step, name, "") for name in ("output", "keep_hlo")]
        is_shared = any(
            path and path != "-" and not output_file.is_open_file(path) for path in paths
        )
        if is_shared or step.name == "emit-chakra":  # its folder is named after the input
            raise UsageError(
                f"--split-input-file: {step.name} would replace the files of each part by those of "
                "the next",
                remedy="run the parts one by one",
            )


@record()
class _OptJob:
    """The options, the passes, and what is reported of one module."""

    options: argparse.Namespace
    steps: Sequence[PipelineStep]
    diagnostics: list[Diagnostic] = field(default_factory=list)
    irdl_dialects: Any = None  # those of the files of --irdl-file

    def process_module(self, read_module: Callable[[Any], Any], name: str) -> bytes:
        """Run the pipeline on one module and return its text or bytecode.

        Args:
            read_module: Reads the module into a context.
            name: The name of the file, for messages.

        Raises:
            HespasError: The module cannot be read, or a pass fails.
        """
        from hespas.dialects.mlir import make_context
        from hespas.passes import pipeline
        from hespas.passes.base import PassRun, ignore_note, print_note

        options = self.options
        start = time.perf_counter()
        timings: list[tuple[str, float]] = []
        context = make_context(allow_unregistered=bool(options.irdl_file))
        if options.mlir_disable_threading:
            context.enable_multithreading(False)
        flags: list[str] = []
        if any(isinstance(step, pipeline.NativePass) for step in self.steps):
            flags = [flag[2:] for flag in list_flags(build_parser())]
        steps = pipeline.resolve_native_passes(self.steps, context, flags)
        with self._capture_diagnostics(context):
            module = self._read_module(read_module, context, name)
            console_scripts.keep_until_exit(module)
            timings.append(("read", time.perf_counter() - start))
            steps = pipeline.insert_prepare(module, steps)
            if options.dump_pass_pipeline:
                print(_format_pipeline_dump(steps), file=sys.stderr)
            run = PassRun(
                input_name=name,
                keep_going=options.keep_going,
                note=ignore_note if options.verify_diagnostics else print_note,
            )
            pipeline.run_pipeline(
                module,
                steps,
                run,
                instrumentation=self._list_instrumentation(steps),
                timings=timings,
                # The reproducer is the module before the pass that has made it invalid.
                verify_each=options.verify_each
                or bool(options.mlir_pass_pipeline_crash_reproducer),
            )
        before_print = time.perf_counter()
        with supervised_process.describe_activity(f"{name}: error: the printing of the module"):
            data = self._render_module(module)
        if options.timing:
            end = time.perf_counter()
            timings.append(("print", end - before_print))
            _print_timings(timings, end - start)
        return data

    def _read_module(self, read_module: Callable[[Any], Any], context: Any, name: str) -> Any:
        if self.options.irdl_file:
            from hespas.frontends.irdl_dialects import load_irdl_dialects

            self.irdl_dialects = load_irdl_dialects(self.options.irdl_file)
        module = read_module(context)
        if self.irdl_dialects is not None:
            try:
                self.irdl_dialects.verify_module(module)
            except HespasError as error:
                error.where = fill_in_file_name(error.where, name)
                raise
        return module

    def _list_instrumentation(self, steps: Sequence[PipelineStep]) -> list[Any]:
        listed: list[Any] = [] if self.irdl_dialects is None else [self.irdl_dialects]
        if not _has_mlir_flag(self.options):
            return listed
        from hespas.tools import ir_printing

        listed.append(ir_printing.IrPrinting(self.options, steps))
        path = self.options.mlir_pass_pipeline_crash_reproducer
        if path:
            listed.append(ir_printing.ReproducerWriting(path, list(steps)))
        return listed

    @contextlib.contextmanager
    def _capture_diagnostics(self, context: Any) -> Iterator[None]:
        """Collect the warnings, remarks and notes of all passes, if diagnostics are verified."""
        if not self.options.verify_diagnostics:
            yield
            return
        from hespas.dialects.mlir import PassDiagnostic
        from hespas.dialects.mlir_diagnostics import list_diagnostics
        from hespas.tools.expected_diagnostics import build_diagnostic

        def collect(diagnostic: Any) -> bool:
            for severity, place, text in list_diagnostics(diagnostic, context):
                # A note of hespas stands alone, as a remark of MLIR does.
                is_own_note = isinstance(diagnostic, PassDiagnostic) and severity == "remark"
                kinds = ("note", "remark") if is_own_note else (severity,)
                self.diagnostics.append(build_diagnostic(kinds, text, place))
            return True

        handler = context.attach_diagnostic_handler(collect)
        try:
            yield
        finally:
            handler.detach()

    def _render_module(self, module: Any) -> bytes:
        """Render the module in the form that the options select; nothing if it is not written."""
        options = self.options
        if _discards_output(options):
            return b""
        if options.emit_bytecode:
            return _encode_bytecode(module, options.emit_bytecode_version)
        from hespas.tools.ir_printing import render_as_asked

        return render_as_asked(module, options)


def _encode_bytecode(module: Any, version: int | None) -> bytes:
    """Encode a module as bytecode. Raises UsageError for a version that MLIR does not write."""
    from hespas.dialects.mlir import capture_native_stderr
    from hespas.workflows import module_output

    if version is None:
        return module_output.to_mlir_bytecode(module)
    with capture_native_stderr() as lines:
        try:
            return module_output.to_mlir_bytecode(module, version)
        except ValueError as error:
            reason = str(error)
    reason = lines[0].rpartition("error: ")[2] if lines else reason
    raise UsageError(f"--emit-bytecode-version: {reason}")


def _format_pipeline_dump(steps: Sequence[PipelineStep]) -> str:
    from hespas.passes import pipeline

    return (
        f"Pass Manager with {len(steps)} passes:\nbuiltin.module({pipeline.format_pipeline(steps)})"
    )


def _print_timings(timings: Sequence[tuple[str, float]], total_s: float) -> None:
    """Print the seconds and the share of each step; the rest is imports and verification."""
    from hespas.passes import pipeline

    steps = (s for name, s in timings if not name.startswith(pipeline.LIST_INDENT))
    rest_s = total_s - sum(steps)
    for name, seconds in [*timings, ("rest", rest_s), ("total", total_s)]:
        print(f"{seconds:10.4f} s {100 * seconds / total_s:5.1f} %  {name}", file=sys.stderr)


def _write_module_output(options: argparse.Namespace, data: bytes) -> None:
    """Write the output completely or not at all."""
    if not options.disable_output:
        from hespas.workflows import module_output

        packed = module_output.compress_for_file(options.output, data)
        module_output.write_file_or_stdout(options.output, packed)


def script() -> None:
    console_scripts.script(main)


if __name__ == "__main__":
    script()
