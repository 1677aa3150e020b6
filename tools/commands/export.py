"""``hespas export``: a JAX program to StableHLO, for devices that need not be there."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hespas.frontends.export.stages import CPU, STAGES
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.tools.commands.command_parser import CommandParser, parse_count

if TYPE_CHECKING:
    from hespas.frontends.export.export_process import ExportedModule
    from hespas.frontends.export.export_spec import ExportSpec
    from hespas.frontends.export.program_source import ExportRequest

DESCRIPTION = """\
Export a JAX program as StableHLO. No accelerator is needed, nor are the devices of its mesh, and
its arrays are never allocated.

  hespas export --list
  hespas export llama --model 8b --mesh fsdp=4,tensor=2 --set scan=true -o llama.mlir.xz
  hespas export llama --mesh fsdp=8 --stage partitioned -o llama.mlir
  hespas export model.py:step --mesh data=8 --arg f32[512,512] --arg f32[64,512]@data -o step.mlir

PROGRAM is a recipe's name, module:function or FILE.py:function. A function is lowered itself where
--arg or --spec say its arguments; else it is called, with --mesh and --set, and gives an Exportable
or a Lowered of JAX (FILE.py alone stands for FILE.py:build).
"""
FORMATS = (".mlir", ".mlirbc")
PACKED = ("", ".xz", ".gz")


def build_parser() -> CommandParser:
    parser = CommandParser("hespas export", DESCRIPTION)
    add = parser.add_argument
    add("program", nargs="?", metavar="PROGRAM", help="what to export")
    add("--list", action="store_true", help="list the recipes, or one with its options")
    add("--stage", choices=STAGES, default="lowered", help="how far to take it (default lowered)")
    add(
        "--target", metavar="NAME",
        help="what XLA partitions and optimises for: cpu (default), or a GPU's description",
    )  # fmt: skip
    add(
        "-o", "--output", default="-", metavar="FILE",
        help=".mlir text or .mlirbc bytecode, also with .xz or .gz; default: text on stdout",
    )  # fmt: skip
    add("--mesh", type=_parse_mesh, metavar="AXIS=N,...", help="devices, major axis first")
    add("--model", "--config", metavar="NAME", help="short for --set model=NAME")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of a recipe")
    add(
        "--arg", action="append", default=[], metavar="ARRAY",
        help="the function's next argument, as bf16[1024,4096]@fsdp,tensor (- whole, @ replicated)",
    )  # fmt: skip
    add("--spec", metavar="FILE", help="arguments that are trees, and the rest: YAML or JSON")
    add(
        "--out-sharding", action="append", default=[], metavar="@AXIS,...",
        help="of the function's next result",
    )  # fmt: skip
    add(
        "--static", action="append", default=[], metavar="KEY=VALUE",
        help="a keyword argument that is a value, in JSON or as text",
    )  # fmt: skip
    add("--donate", default="", metavar="N,...", help="arguments whose memory results may take")
    add("--platform", choices=("cpu", "cuda", "rocm", "tpu"), help="what JAX lowers for")
    add(
        "--devices",
        type=parse_count,
        metavar="N",
        help="devices that a program finds; default: --mesh",
    )
    add("--xla-optimize", default="", metavar="OPTIONS", help="options of that pass, for optimised")
    add("--no-source", action="store_true", help="keep names in locations, but no source lines")
    add("--json", action="store_true", help="say what was exported as one JSON object on stdout")
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
    data, warnings = _advance_to_stage(exported, options, target)
    write_file_or_stdout(options.output, data)
    _print_export_report(exported, options, target, len(data), warnings)
    return 0


def _check_output_options(options: argparse.Namespace) -> None:
    endings = [form + packed for form in FORMATS for packed in PACKED]
    if options.output == "-":
        if options.json:
            raise UsageError(
                "--json and the module both go to stdout", remedy="name a file with -o"
            )
    elif not options.output.endswith(tuple(endings)) and options.output != "/dev/null":
        raise UsageError(
            f"'{options.output}' does not say its format", remedy=f"end it in {', '.join(endings)}"
        )


def _select_compile_target(options: argparse.Namespace) -> str:
    if options.stage == "lowered" and options.target is not None:
        raise UsageError("--target has no use for --stage lowered", remedy="say another stage")
    if options.stage == "optimised" and options.target is None:
        raise UsageError("--stage optimised needs --target", remedy="--target cpu, or a GPU's name")
    if options.stage != "optimised" and options.xla_optimize:
        raise UsageError("--xla-optimize has a use for --stage optimised only")
    if options.target is not None:
        from hespas.configs import compile_targets

        compile_targets.load_compile_target(
            options.target
        )  # a wrong one is better known before the program is lowered
    return options.target or CPU


def _build_export_request(options: argparse.Namespace, target: str) -> ExportRequest:
    from hespas.frontends.export.program_source import ExportRequest

    recipe_options = dict(_parse_key_value("--set", text) for text in options.set)
    if options.model is not None:
        recipe_options.setdefault("model", options.model)
    spec = _build_export_spec(options)
    if spec is not None and recipe_options:
        raise UsageError("--set has no use beside --arg and --spec", remedy="see --static")
    platform = options.platform or ("cpu" if target == CPU else "cuda")
    return ExportRequest(options.program, recipe_options, options.mesh, spec, platform)


def _build_export_spec(options: argparse.Namespace) -> ExportSpec | None:
    """The spec file with the flags put over it; None where neither is given."""
    flags = (options.arg, options.out_sharding, options.static, options.donate)
    if options.spec is None and not any(flags):
        return None
    from hespas.configs.validation import validate_config
    from hespas.frontends.export import array_text, export_spec

    for text in options.arg:
        array_text.parse_array_spec(text)  # here a wrong one is a wrong command line
    for text in options.out_sharding:
        array_text.parse_sharding_axes(text)
    values = (
        export_spec.read_export_spec(options.spec).model_dump() if options.spec is not None else {}
    )
    if options.arg:
        values["args"] = options.arg
    if options.mesh is not None:
        values["mesh"] = options.mesh
    if options.out_sharding:
        shardings = options.out_sharding
        values["out_shardings"] = shardings[0] if len(shardings) == 1 else shardings
    if options.static:
        texts = dict(_parse_key_value("--static", text) for text in options.static)
        values["static"] = {
            **values.get("static", {}),
            **{k: _parse_json_or_text(v) for k, v in texts.items()},
        }
    if options.donate:
        values["donate"] = [_parse_argument_number(part) for part in options.donate.split(",")]
    if "args" not in values:
        raise UsageError("the arguments are missing", remedy="give --arg for each, or --spec")
    return validate_config(export_spec.ExportSpec, values, options.spec or "the flags")


def _advance_to_stage(
    exported: ExportedModule, options: argparse.Namespace, target: str
) -> tuple[bytes, list[str]]:
    """The module at the wanted stage, in the form of the output; and the warnings on the way."""
    from hespas.dialects.attr_codec import write_program_facts
    from hespas.dialects.mlir import ir, make_context
    from hespas.frontends.export import stages
    from hespas.passes.base import PassRun

    module = ir.Module.parse(exported.bytecode, make_context())
    run = PassRun(input_name=options.program)
    stages.advance_to_stage(module, options.stage, target, run, options.xla_optimize)
    if exported.facts:
        write_program_facts(module, exported.facts)
    return encode_module(module, options.output), run.warnings


def encode_module(module: Any, output: str) -> bytes:
    """The module in the form that the file's name asks for; text carries locations too."""
    from hespas.workflows.module_output import to_mlir_bytecode, to_mlir_text

    base, _, packing = output.rpartition(".")
    is_text = ".mlirbc" not in output[-len(".mlirbc.xz") :]
    data = to_mlir_text(module, locations=True) if is_text else to_mlir_bytecode(module)
    if base and packing == "xz":
        import lzma

        return lzma.compress(data)
    if base and packing == "gz":
        import gzip

        return gzip.compress(data, mtime=0)
    return data


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
    from hespas.support.text_tables import format_scaled, format_seconds

    shape = " x ".join(f"{axis} {size}" for axis, size in exported.mesh.items() if size > 1)
    words = [f"{devices} device{'s' if devices != 1 else ''}{f' ({shape})' if shape else ''}"]
    words += [f"{name} {_format_fact(value)}" for name, value in exported.facts.items()]
    words.append(
        f"lowered in {format_seconds(exported.lower_s)} "
        f"with {format_scaled(exported.peak_bytes, 'B')} of memory"
    )
    print(f"{exported.name}: {', '.join(words)}", file=sys.stderr)


def _format_fact(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _print_recipes(name: str | None, *, as_json: bool) -> int:
    """Print the recipes, or one with its options; returns the exit code, raises HespasError."""
    from hespas.frontends.export import export_process
    from hespas.support import text_tables

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
        text_tables.print_tables([text_tables.TextTable("", cells, ("recipe", "program"), left=2)])
        print("\nhespas export --list RECIPE tells a recipe's options.")
    else:
        print(rows[0]["summary"] or rows[0]["problem"])
        cells = [(o["name"], o["form"], o["default"], o["help"]) for o in rows[0]["options"]]
        text_tables.print_tables(
            [text_tables.TextTable("", cells, ("option", "takes", "default", ""), left=4)]
        )
    return 0


def _parse_mesh(text: str) -> dict[str, int]:
    """``fsdp=4,tensor=2``."""
    mesh: dict[str, int] = {}
    for part in text.split(","):
        axis, equals, size = (word.strip() for word in part.partition("="))
        if not equals or not axis or not size.isdecimal() or int(size) < 1:
            raise argparse.ArgumentTypeError(f"'{part}' is not AXIS=N with N from 1")
        if axis in mesh:
            raise argparse.ArgumentTypeError(f"the axis '{axis}' is there twice")
        mesh[axis] = int(size)
    return mesh


def _parse_key_value(flag: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"{flag} takes KEY=VALUE, not '{text}'")
    return key, value


def _parse_json_or_text(text: str) -> Any:
    """JSON where it is that, else the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _parse_argument_number(text: str) -> int:
    if not text.strip().isdecimal():
        raise UsageError(f"--donate takes numbers of arguments, not '{text}'")
    return int(text)
