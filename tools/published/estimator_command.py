"""``python -m hespas.estimator.NAME_estimator``: estimate a program without writing traces.

The flags are the keys of the method's section in a configuration file, as in the published tool.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from hespas.support.errors import HespasError, UsageError
from hespas.tools import console_scripts
from hespas.tools.commands.command_parser import CommandParser
from hespas.tools.published import log_options
from hespas.tools.published.published_methods import METHODS

DESCRIPTION = """\
Estimate a program with {method} and print the results; hespas_chakra_gen writes traces too. Flags
override the configuration file. Paths are relative to the current folder.
"""
_SWITCHES = (
    "disable_cache",
    "in_memory_only_cache",
    "sample",
    "warn_on_unknown_type",
    "error_on_unknown_type",
)
# The program is split at its collectives only, which are not estimated.
_SPLIT = {"split_strategy": "linear_split", "block_lim": 0}


def build_parser(method: str) -> CommandParser:
    """Build the parser of an estimator's command."""
    parser = CommandParser(
        f"python -m hespas.estimator.{method}_estimator", DESCRIPTION.format(method=method)
    )
    parser.add_argument("--config-file", metavar="FILE", help="configuration file, or a preset")
    parser.add_argument("--mlir-file", metavar="FILE", help="program, in place of the file's")
    for path in _list_keys(METHODS[method]):
        name = "_".join(path)
        flag = f"--{name.replace('_', '-')}"
        text = f"the key {'.'.join(path)} of perf_estimator.hardware"
        if path[-1] in _SWITCHES:
            parser.add_argument(flag, dest=name, action="store_true", default=None, help=text)
        else:
            parser.add_argument(flag, dest=name, metavar="VALUE", help=text)
    log_options.add_log_options(parser)
    return parser


def _list_keys(section: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    """Yield the path of each key, into the nested section ``roofline`` too."""
    for name, field in section.model_fields.items():
        inner = field.annotation
        if name == "roofline" and isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from ((name, *path) for path in _list_keys(inner))
        else:
            yield (name,)


def run_estimator_command(method: str, argv: Sequence[str]) -> int:
    """Run the command of a method; returns its exit code, raises HespasError."""
    options = build_parser(method).parse_args(argv)
    try:
        return _estimate(method, options)
    except HespasError as error:
        if options.config_file is None or isinstance(error, UsageError):
            other = f"hespas run --mlir FILE --estimator {METHODS[method].estimator} needs no file"
            error.remedy = f"{error.remedy}; {other}" if error.remedy else other
        raise


def _estimate(method: str, options: argparse.Namespace) -> int:
    from hespas.tools.published import hespas_chakra_gen, published_config
    from hespas.workflows.run_config import load_json_object

    path = published_config.find_config_file(options.config_file) if options.config_file else ""
    values = load_json_object(path) if path else {}
    if published_config.find_method_name(values, path) != method and path:
        raise UsageError(f"the file is not of the method '{method}'", where=path)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "out")
        overrides = {"mlir_file": options.mlir_file, "output_dir": str(output), **_SPLIT}
        has_flags = _merge_flags(values, method, options)
        if not path and not has_flags:
            raise UsageError("no device is given", remedy="name a --config-file")
        if has_flags:
            merged = Path(folder, Path(path or "flags.json").name)
            merged.write_text(json.dumps(values), encoding="utf-8")
        else:
            merged = Path(path)
        try:
            config_file = published_config.read_published_config(str(merged), overrides)
            summary, module = hespas_chakra_gen.run_config_file(config_file, options)
        except HespasError as error:
            error.where = error.where.replace(str(merged), path or "flags")
            raise
    print("\n".join(hespas_chakra_gen.format_results(summary, module)))
    print(f"Execution of module completed: {summary.time_ns * 1e-9:.6g}s")
    return 0


def _merge_flags(values: dict[str, Any], method: str, options: argparse.Namespace) -> bool:
    """Write the flags to the section of the estimator; returns whether any was written.

    A section that is no object is left to the check of the whole file.
    """
    estimator = values.setdefault("perf_estimator", {"method": method})
    is_changed = False
    for *outer, key in _list_keys(METHODS[method]):
        value = getattr(options, "_".join([*outer, key]))
        section = estimator if value is not None else None
        for name in ("hardware", *outer):
            section = section.setdefault(name, {}) if isinstance(section, dict) else None
        if isinstance(section, dict):
            section[key], is_changed = _parse_value(value), True
    return is_changed


def _parse_value(value: Any) -> Any:
    """Return the object of a value in JSON, or any other value as it is."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            return json.loads(value)
        except json.JSONDecodeError as error:
            raise UsageError(f"{value} is not valid JSON: {error.msg}") from None
    return value


def script(method: str) -> None:
    """Run the command of a method as a program."""
    console_scripts.script(lambda argv: run_estimator_command(method, argv))
