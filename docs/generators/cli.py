"""The text of ``docs/reference/cli.md``."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

from docs.generators.markdown import format_codes, format_prose, format_table
from hespas.tools import hespas
from hespas.tools.commands.study import STUDIES, build_study_parser

HEAD = """# Command line

This page is generated from the parsers of the commands by `make generate`.

A wrong command line ends with exit code 2 and one line on stderr, any other failure with 1. Options
are written in full: there are no abbreviations.
"""
TOOLS = (
    "hespas_opt",
    "published.hespas_chakra_gen",
    "published.hespas_mlir_splitter",
    "published.hespas_mlir_analyzer",
)


def build_all_parsers() -> list[argparse.ArgumentParser]:
    """Build the parsers of all commands of ``hespas``, of each study, and of the other tools."""
    parsers: list[argparse.ArgumentParser] = []
    for name in hespas.COMMANDS:
        if name == "study":
            parsers += map(build_study_parser, STUDIES)
        else:
            parsers.append(_build_tool_parser(f"commands.{name}"))
    return [*parsers, *map(_build_tool_parser, TOOLS)]


def _build_tool_parser(module: str) -> argparse.ArgumentParser:
    return importlib.import_module(f"hespas.tools.{module}").build_parser()


def render_page() -> str:
    """Render the whole page."""
    parts = [HEAD]
    anchors = {"study": f"study-{next(iter(STUDIES))}"}
    for title, commands in hespas.COMMAND_GROUPS.items():
        rows = [
            (f"[`hespas {name}`](#hespas-{anchors.get(name, name)})", text)
            for name, text in commands.items()
        ]
        parts += ["\n", format_table((title, ""), rows)]
    published = "[the published tools](../how-to/published-tools.md)"
    others = [
        ("[`hespas-opt`](#hespas-opt)", "run single [passes](passes.md), print IR"),
        ("`hespas_chakra_gen` and others", f"the names of {published}"),
    ]
    parts += ["\n", format_table(("other tools", ""), others)]
    for parser in build_all_parsers():
        parts += _format_parser_section(parser, "##")
    return "".join(parts)


def _format_parser_section(parser: argparse.ArgumentParser, level: str) -> Iterator[str]:
    """Yield the parts of a parser's section, followed by those of its sub-commands."""
    yield f"\n{level} {parser.prog}\n"
    if parser.description:
        yield f"\n```text\n{parser.description.strip()}\n```\n"
    subparsers: dict[str, argparse.ArgumentParser] = {}
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            subparsers = dict(action.choices)
            helps = {choice.dest: choice.help for choice in action._choices_actions}
            rows += [(f"`{name}`", format_prose(helps.get(name) or "")) for name in subparsers]
        elif action.help != argparse.SUPPRESS and "--help" not in action.option_strings:
            meaning = format_prose(_format_argument_help(action))
            rows.append((_format_argument_spelling(action), meaning))
    if rows:
        yield "\n"
        yield format_table(("argument", "meaning"), rows)
    for subparser in subparsers.values():
        yield from _format_parser_section(subparser, f"{level}#")


def _format_argument_spelling(action: argparse.Action) -> str:
    """Format ``--name VALUE`` for each name of an option, or the word for a positional argument."""
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
    return format_codes(f"{name} {value}".strip() for name in action.option_strings)


def _format_choices(action: argparse.Action) -> str:
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""


def _format_argument_help(action: argparse.Action) -> str:
    text = (action.help or "") % vars(action)
    value = action.default
    if not action.option_strings or action.nargs == 0 or "default" in text:
        return text
    if value in (None, "", argparse.SUPPRESS) or value in ([], {}) or f"({value})" in text:
        return text
    return (
        f"{text} (default {value:g})" if isinstance(value, float) else f"{text} (default {value})"
    )
