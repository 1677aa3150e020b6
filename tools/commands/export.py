"""``hespas export``: export a JAX program as StableHLO; no devices needed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.frontends.export.stages import CPU, STAGES
from hespas.support.data_files import parse_json_or_text
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.support.text_tables import TextTable, format_scaled, format_seconds, print_tables
from hespas.tools.commands.command_parser import CommandParser, parse_count, parse_mesh
from hespas.tools.commands.shared_flags import add_key_value_flag

if TYPE_CHECKING:
    from hespas.frontends.export.export_process import ExportedModule
    from hespas.frontends.export.export_spec import ExportSpec
    from hespas.frontends.export.program_source import ExportRequest

DESCRIPTION = """\
Export a JAX program as StableHLO. Neither accelerators nor the devices of the mesh are needed, and
no array is allocated.

  hespas export --list
  hespas export llama --model 8b --mesh fsdp=4,tensor=2 --set scan=true -o llama.mlir.xz
  hespas export llama --mesh fsdp=8 --stage partitioned -o llama.mlir
  hespas export model.py:step --mesh data=8 --arg f32[512,512] --arg f32[64,512]@data -o step.mlir

PROGRAM is the name of a recipe, module:function or FILE.py:function. If --arg or --spec describe
the arguments of the function, it is lowered. Otherwise it is called with --mesh and --set, and must
return an Exportable or JAX's Lowered (FILE.py alone means FILE.py:build).
"""
FORMATS = (".mlir", ".mlirbc")
PACKED = ("", ".xz", ".gz")


def build_parser() -> CommandParser:
    parser = CommandParser("hespas export", DESCRIPTION)
    add = parser.add_argument
    add("program", nargs="?", metavar="PROGRAM", help="recipe or function to export")
    add("--list", action="store_true", help="list the recipes, or the options of one")
    add("--stage", choices=STAGES, default="lowered", help="stage to export (default lowered)")
    add(
        "--target", metavar="NAME",
        help="device that the program is lowered, partitioned and optimised for: cpu (default), or "
        "a target of hespas presets targets",
    )  # fmt: skip
    add(
        "-o", "--output", default="-", metavar="FILE",
        help="file to write: .mlir text or .mlirbc bytecode, optionally .xz or .gz; default: text "
        "on stdout",
    )  # fmt: skip
    add("--mesh", type=parse_mesh, metavar="AXIS=N,...", help="mesh of devices, major axis first")
    add(
        "--dcn", type=parse_mesh, default={}, metavar="AXIS=N,...",
        help="part of an axis of the mesh that lies between slices or hosts, whose devices have "
        "consecutive ids; default: the first axes lie there",
    )  # fmt: skip
    add("--model", "--config", metavar="NAME", help="short form of --set model=NAME")
    add_key_value_flag(parser, "--set", "option of the recipe")
    add(
        "--arg", action="append", default=[], metavar="ARRAY",
        help="type and sharding of the next argument, such as bf16[1024,4096]@fsdp,tensor (-: "
        "dimension not sharded, @: replicated)",
    )  # fmt: skip
    add(
        "--spec",
        metavar="FILE",
        help="YAML or JSON file with arguments that are trees, and all other options",
    )
    add(
        "--out-sharding", action="append", default=[], metavar="@AXIS,...",
        help="sharding of the next result; may be repeated",
    )  # fmt: skip
    add_key_value_flag(parser, "--static", "static keyword argument, as JSON or text")
    add(
        "--donate",
        default="",
        metavar="N,...",
        help="numbers of the arguments whose memory results may reuse",
    )
    add("--platform", choices=("cpu", "cuda", "rocm", "tpu"), help="platform that JAX lowers for")
    add(
        "--devices",
        type=parse_count,
        metavar="N",
        help="number of devices that the program sees; default: that of --mesh",
    )
    add(
        "--xla-optimize",
        default="",
        metavar="OPTIONS",
        help="options of the pass xla-optimize, for --stage optimised",
    )
    add("--no-source", action="store_true", help="write names but no source lines in locations")
    add("--json", action="store_true", help="print a summary as one JSON object on stdout")
    add("--traceback", action="store_true", help="show the traceback of an error in the program")
    return parser


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code, raises HespasError."""
    options = build_parser().parse_args(argv)
    if options.list:
        return _print_recipes(options.program, as_json=options.json)
    if options.program is None:
        raise UsageError("the program is missing", remedy="see hespas export --list")

    from hespas.support import output_file

    _check_output_options(options)
    target = _select_compile_target(options)
    if options.output != "-":
        output_file.check_writable_file(options.output)
    request = _build_export_request(options, target)

    from hespas.frontends.export import export_process
    from hespas.workflows.module_output import write_file_or_stdout

    exported = export_process.lower_in_process(
        request,
        devices=options.devices or 0,
        source=not options.no_source,
        traceback=options.traceback,
    )
    warnings = request.spec.list_warnings() if request.spec else []
    data, warnings = _advance_to_stage(exported, options, target, warnings)
    write_file_or_stdout(options.output, data)
    _print_export_report(exported, options, target, len(data), warnings)
    return 0


def _check_output_options(options: argparse.Namespace) -> None:
    endings = [form + packed for form in FORMATS for packed in PACKED]
    if options.output == "-":
        if options.json:
            raise UsageError(
                "--json and the module are both written to stdout", remedy="name a file with -o"
            )
    elif not options.output.endswith(tuple(endings)) and options.output != "/dev/null":
        raise UsageError(
            f"the name '{options.output}' has no known ending",
            remedy=f"known: {', '.join(endings)}",
        )


def _select_compile_target(options: argparse.Namespace) -> str:
    if options.stage == "optimised" and options.target is None:
        raise UsageError(
            "--stage optimised needs --target", remedy="add --target cpu, or the name of a GPU"
        )
    if options.stage != "optimised" and options.xla_optimize:
        raise UsageError("--xla-optimize has an effect on --stage optimised only")
    if options.target is not None:
        from hespas.configs import compile_targets

        # Find a wrong target before the program is lowered, which may take long.
        compile_targets.load_compile_target(options.target)
    return options.target or CPU


def _build_export_request(options: argparse.Namespace, target: str) -> ExportRequest:
    from hespas.frontends.export.program_source import ExportRequest

    model = {} if options.model is None else {"model": options.model}
    recipe_options = {**model, **options.set}
    spec = _build_export_spec(options)
    if spec is not None and recipe_options:
        raise UsageError("--set does not go with --arg and --spec", remedy="see --static")
    from hespas.configs import compile_targets

    target_platform = compile_targets.load_compile_target(target).platform
    platform = options.platform or target_platform
    return ExportRequest(
        options.program, recipe_options, options.mesh, spec, platform, options.dcn,
        target if platform == target_platform else "",
    )  # fmt: skip


def _build_export_spec(options: argparse.Namespace) -> ExportSpec | None:
    """Build the spec of the file and of the flags, which override it; None without either."""
    flags = (options.arg, options.out_sharding, options.static, options.donate)
    if options.spec is None and not any(flags):
        return None
    from hespas.configs.validation import validate_config
    from hespas.frontends.export import array_text, export_spec

    for text in options.arg:  # checked here to report a wrong command line, not a wrong file
        array_text.parse_array_spec(text)
    for text in options.out_sharding:
        array_text.parse_sharding_axes(text)
    values = {}
    if options.spec is not None:
        values = export_spec.read_export_spec(options.spec).model_dump()
    values |= _collect_spec_flags(options, values.get("static", {}))
    if "args" not in values:
        raise UsageError("the arguments are missing", remedy="give --arg for each, or --spec")
    return validate_config(export_spec.ExportSpec, values, options.spec or "the flags")


def _collect_spec_flags(options: argparse.Namespace, static: dict[str, Any]) -> dict[str, Any]:
    """Collect the keys of a spec that flags set; ``static`` are the values of the file."""
    values: dict[str, Any] = {}
    if options.arg:
        values["args"] = options.arg
    if options.mesh is not None:
        values["mesh"] = options.mesh
    if options.out_sharding:
        shardings = options.out_sharding
        values["out_shardings"] = shardings[0] if len(shardings) == 1 else shardings
    if options.static:
        flags = {key: parse_json_or_text(text) for key, text in options.static.items()}
        values["static"] = {**static, **flags}
    if options.donate:
        values["donate"] = [_parse_argument_number(part) for part in options.donate.split(",")]
    return values


def _advance_to_stage(
    exported: ExportedModule, options: argparse.Namespace, target: str, warnings: list[str]
) -> tuple[bytes, list[str]]:
    """Advance the module to the requested stage; returns its encoded form and all warnings."""
    from hespas.dialects.mlir import ir, make_context
    from hespas.dialects.program_facts import read_program_facts, write_program_facts
    from hespas.frontends.export import stages
    from hespas.passes.base import PassRun, print_note
    from hespas.workflows.module_output import encode_module

    module = ir.Module.parse(exported.bytecode, make_context())
    run = PassRun(input_name=options.program, note=print_note)
    for warning in warnings:
        run.warn(warning)
    stages.advance_to_stage(module, options.stage, target, run, options.xla_optimize)
    if exported.facts:
        write_program_facts(module, {**read_program_facts(module), **exported.facts})
    return encode_module(module, options.output), run.warnings


def _print_export_report(
    exported: ExportedModule,
    options: argparse.Namespace,
    target: str,
    size: int,
    warnings: list[str],
) -> None:
    devices = exported.devices
    if options.json:
        print(
            json.dumps(
                {
                    "program": exported.name,
                    "stage": options.stage,
                    "target": None if options.stage == "lowered" else target,
                    "mesh": exported.mesh,
                    "devices": devices,
                    "facts": exported.facts,
                    "output": options.output,
                    "output_bytes": size,
                    "lower_s": exported.lower_s,
                    "lower_peak_bytes": exported.peak_bytes,
                    "warnings": warnings,
                },
                indent=1,
            )
        )
        return

    shape = " x ".join(f"{axis} {size}" for axis, size in exported.mesh.items() if size > 1)
    words = [f"{devices} device{'s' if devices != 1 else ''}{f' ({shape})' if shape else ''}"]
    for name, value in exported.facts.items():
        words.append(f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}")
    memory = format_scaled(exported.peak_bytes, "B")
    words.append(f"lowered in {format_seconds(exported.lower_s)} with {memory} of memory")
    print(f"{exported.name}: {', '.join(words)}", file=sys.stderr)


def _print_recipes(name: str | None, *, as_json: bool) -> int:
    """Print the recipes, or one with its options; returns the exit code, raises HespasError."""
    from hespas.frontends.export import export_process

    rows = export_process.list_recipes()
    if name is not None:
        matches = [row for row in rows if row["name"] == name]
        if not matches:
            remedy = suggest_nearest(name, [row["name"] for row in rows])
            raise UsageError(f"unknown recipe '{name}'", remedy=remedy)
        rows = matches
    if as_json:
        print(json.dumps(rows if name is None else rows[0], indent=1))
    elif name is None:
        cells = [(row["name"], row["summary"] or row["problem"]) for row in rows]
        print_tables([TextTable("", cells, ("recipe", "program"), left=2)])
        print("\nhespas export --list RECIPE lists the options of a recipe.")
    else:
        print(rows[0]["summary"] or rows[0]["problem"])
        cells = [(o["name"], o["form"], o["default"], o["help"]) for o in rows[0]["options"]]
        print_tables([TextTable("", cells, ("option", "value", "default", ""), left=4)])
    return 0


def _parse_argument_number(text: str) -> int:
    if not text.strip().isdecimal():
        raise UsageError(f"--donate: '{text}' is not the number of an argument")
    return int(text)
