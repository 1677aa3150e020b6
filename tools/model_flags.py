"""Command-line flags of a configuration model, made from its fields."""

from __future__ import annotations

import argparse
import functools
import re
import types
from collections.abc import Collection, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hespas.configs.validation import Model, validate_config
from hespas.support.errors import HespasError, UsageError
from hespas.tools.commands.shared_flags import parse_key_values
from hespas.workflows.run_config import EXCLUDED, Flag, RunOptions, get_flag, list_run_options


def add_model_flags(
    parser: argparse.ArgumentParser,
    model: type[BaseModel],
    *,
    exclude: Collection[str] = (),
    title: str = "",
    overrides_record: bool = False,
) -> None:
    """Add a flag for each field of a configuration model.

    A field ``block_limit`` becomes ``--block-limit``. A truth value that is True by default becomes
    ``--no-NAME``, and one without a default both forms. No flag has a default, so that flags that
    are absent override nothing.

    Args:
        parser: The parser to extend.
        model: The model; fields are annotated with ``run_config.Flag``.
        exclude: The names of fields that get no flag.
        title: The title of the group of flags that belong to no other group.
        overrides_record: Whether the flags override a recorded value. Every truth value then has
            both forms, and no help names a default.
    """
    groups: dict[str, Any] = {"": parser.add_argument_group(title) if title else parser}
    for name, option in model.model_fields.items():
        if name in exclude:
            continue
        flag = get_flag(option)
        if flag.group not in groups:
            groups[flag.group] = parser.add_argument_group(flag.group)
        spelling, keywords = _describe_flag(name, option, flag, overrides_record=overrides_record)
        groups[flag.group].add_argument(spelling, default=None, **keywords)
        for switch, value in flag.switches.items():
            groups[flag.group].add_argument(
                switch, dest=name, action="store_const", const=value, help=argparse.SUPPRESS
            )


def add_run_option_flags(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the flags of the options of an estimate that a command hands on."""
    add_model_flags(
        parser, RunOptions, exclude=EXCLUDED[command], title="each estimate, as of hespas run"
    )


def read_run_options(command_line: argparse.Namespace, command: str) -> RunOptions:
    """Read the flags of ``add_run_option_flags``; raises UsageError."""
    flags = {name: getattr(command_line, name) for name in list_run_options(command)}
    return validate_flags(RunOptions, collect_set_flags(flags))


def validate_flags(model: type[Model], flags: dict[str, Any]) -> Model:
    """Check the values of flags, so that a wrong one is a usage error that names the flag."""
    try:
        return validate_config(model, flags, "")
    except HespasError as error:
        message = re.sub(
            r"^'(\w+)'", lambda key: f"--{key[1].replace('_', '-')}", error.message
        )  # the model names the key of a file
        raise UsageError(message, remedy=error.remedy) from None


def collect_set_flags(values: dict[str, Any]) -> dict[str, Any]:
    """Select the flags that are present, with ``KEY=VALUE`` lists as dictionaries.

    Raises:
        UsageError: An item of a list is not ``KEY=VALUE``.
    """
    return {
        name: parse_key_values(value, f"--{name.replace('_', '-')}")
        if isinstance(value, list)
        else value
        for name, value in values.items()
        if value is not None
    }


def spell_flag(name: str, option: FieldInfo) -> str:
    """Spell the flag of a field with its placeholder, such as ``--block-limit N``."""
    spelling, keywords = _describe_flag(name, option, get_flag(option))
    if keywords.get("action") is argparse.BooleanOptionalAction:
        return f"{spelling}, --no-{spelling.removeprefix('--')}"
    return f"{spelling} {keywords['metavar']}" if "metavar" in keywords else spelling


def _describe_flag(
    name: str, option: FieldInfo, flag: Flag, *, overrides_record: bool = False
) -> tuple[str, dict[str, Any]]:
    """Return the spelling of a flag and the other arguments of ``add_argument``."""
    spelling = f"--{name.replace('_', '-')}"
    text = (option.description or "").replace("%", "%%")
    kind = _strip_optional(option.annotation)
    if kind is bool:
        if option.default is None or overrides_record:
            return spelling, {"action": argparse.BooleanOptionalAction, "help": text}
        if option.default:
            spelling, text = f"--no-{spelling.removeprefix('--')}", flag.off_help
            return spelling, {"action": "store_false", "dest": name, "help": text}
        return spelling, {"action": "store_true", "help": text}
    if get_origin(kind) is dict:
        text += "; may be repeated"
        return spelling, {"action": "append", "metavar": flag.metavar or "KEY=VALUE", "help": text}
    if option.default is not None and not overrides_record:
        text += f" (default {option.default})"
    if get_origin(kind) is Literal:  # the model checks the choice and suggests the nearest one
        metavar = f"{{{','.join(get_args(kind))}}}"
        return spelling, {"metavar": metavar, "help": text}
    keywords: dict[str, Any] = {"metavar": flag.metavar or name.upper(), "help": text}
    if flag.separator:
        keywords |= {"action": functools.partial(_JoinAction, flag.separator)}
        keywords["help"] += "; may be repeated"
    return spelling, keywords if kind is str else {**keywords, "type": flag.parse_text or kind}


class _JoinAction(argparse.Action):
    """Joins the values of a flag that is repeated."""

    def __init__(self, separator: str, option_strings: Sequence[str], **options: Any) -> None:
        super().__init__(option_strings, **options)
        self.separator = separator

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        earlier = getattr(namespace, self.dest)
        setattr(namespace, self.dest, f"{earlier}{self.separator}{values}" if earlier else values)


def _strip_optional(annotation: Any) -> Any:
    """Return ``T`` for ``T | None``, and any other annotation as it is."""
    if get_origin(annotation) in (Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not type(None)]
        return members[0] if len(members) == 1 else annotation
    return annotation
