"""The commands as a page: ``python -m hespas.tools.cli_reference > docs/reference/cli.md``."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from typing import Any

from hespas.tools import hespas
from hespas.tools.commands.study import STUDIES, build_study_parser

HEAD = """# Command line

This page is generated from the parsers of the commands by `python -m hespas.tools.cli_reference`.

A wrong command line ends with exit code 2 and one line on stderr, any other failure with 1. Options
are written in full: there are no abbreviations.

| command | what it does |
|---|---|
"""
TOOLS = ("hespas_opt", "hespas_chakra_gen", "hespas_mlir_splitter", "hespas_mlir_analyzer")


def build_all_parsers() -> list[argparse.ArgumentParser]:
    """The parsers of all commands of ``hespas``, of each study, and of the other tools."""
    parsers: list[argparse.ArgumentParser] = []
    for name in hespas.COMMANDS:
        if name == "study":
            parsers += map(build_study_parser, STUDIES)
        else:
            parsers.append(_import_tool(f"commands.{name}").build_parser())
    return [*parsers, *(_import_tool(name).build_parser() for name in TOOLS)]


def _import_tool(name: str) -> Any:
    return importlib.import_module(f"hespas.tools.{name}")


def render_markdown() -> str:
    """The whole page."""
    all_parsers = build_all_parsers()
    shown = {
        name: f"study {next(iter(STUDIES))}" if name == "study" else name
        for name in hespas.COMMANDS
    }
    rows = [
        f"| [`hespas {name}`](#hespas-{shown[name].replace(' ', '-')}) | {text} |\n"
        for name, text in hespas.COMMANDS.items()
    ]
    opt_row = "| [`hespas-opt`](#hespas-opt) | runs single [passes](passes.md) and prints IR |\n"
    other_tools_row = "| the others | as [the published tools](../how-to/published-tools.md) |\n"
    sections = [text for parser in all_parsers for text in _format_parser_section(parser, "##")]
    return "".join([HEAD, *rows, opt_row, other_tools_row, *sections])


def _format_parser_section(parser: argparse.ArgumentParser, level: str) -> Iterator[str]:
    yield f"\n{level} {parser.prog}\n"
    if parser.description:
        yield f"\n```text\n{parser.description.strip()}\n```\n"
    subparsers: dict[str, argparse.ArgumentParser] = {}
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            subparsers = dict(action.choices)
            helps = {choice.dest: choice.help for choice in action._choices_actions}
            rows += [
                f"| `{name}` | {_escape_table_cell(helps.get(name) or '')} |\n"
                for name in subparsers
            ]
        elif action.help != argparse.SUPPRESS and "--help" not in action.option_strings:
            rows.append(
                f"| {_format_argument_spelling(action)} | {_escape_table_cell(_format_argument_help(action))} |\n"
            )
    if rows:
        yield "\n| argument | meaning |\n|---|---|\n"
        yield from rows
    for subparser in subparsers.values():
        yield from _format_parser_section(subparser, f"{level}#")


def _format_argument_spelling(action: argparse.Action) -> str:
    """``--name VALUE``, of each of its names, or the word that stands for a positional argument."""
    value = action.metavar if isinstance(action.metavar, str) else ""
    if not action.option_strings:
        word = value or action.dest
        word += " ..." if action.nargs in ("*", "+") else ""
        return f"`[{word}]`" if action.nargs in ("?", "*") else f"`{word}`"
    if isinstance(action.metavar, tuple):
        value = " ".join(action.metavar)
    elif action.nargs != 0 and not isinstance(action, argparse.BooleanOptionalAction):
        value = value or _format_choices(action) or action.dest.upper()
    else:
        value = ""
    return ", ".join(
        _format_table_code(f"{name} {value}".strip()) for name in action.option_strings
    )


def _format_choices(action: argparse.Action) -> str:
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""


def _format_argument_help(action: argparse.Action) -> str:
    text = (action.help or "") % vars(action)
    value = action.default
    if not action.option_strings or action.nargs == 0 or "default" in text:
        return text
    if value in (None, "", argparse.SUPPRESS) or value == [] or f"({value})" in text:
        return text
    return (
        f"{text} (default {value:g})" if isinstance(value, float) else f"{text} (default {value})"
    )


def _escape_table_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")


def _format_table_code(text: str) -> str:
    return f"`{text}`".replace("|", r"\|")


if __name__ == "__main__":
    print(render_markdown(), end="")
