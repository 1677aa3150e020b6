"""Command-line flags of a configuration model, made from its fields."""

from __future__ import annotations

import argparse
import functools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic.fields import FieldInfo

from hespas.configs.validation import validate_config
from hespas.support.errors import UsageError
from hespas.support.settings import list_union_types
from hespas.tools.commands.shared_flags import KeyValueAction
from hespas.workflows.run_config import EXCLUDED, Flag, RunOptions, get_flag

Options = TypeVar("Options")


def add_model_flags(
    parser: argparse.ArgumentParser,
    model: type,
    *,
    exclude: Collection[str] = (),
    title: str = "",
    overrides_record: bool = False,
) -> None:
    """Add a flag for each described field of a configuration model, or dataclass of pydantic.

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
    for name, option in _list_fields(model, exclude).items():
        flag = get_flag(option)
        if flag.group not in groups:
            groups[flag.group] = parser.add_argument_group(flag.group)
        spelling, keywords = _describe_flag(name, option, flag, overrides_record=overrides_record)
        groups[flag.group].add_argument(spelling, dest=name, default=None, **keywords)
        for switch, value in flag.switches.items():
            groups[flag.group].add_argument(
                switch, dest=name, action="store_const", const=value, help=argparse.SUPPRESS
            )


def read_model_flags(
    model: type[Options],
    command_line: argparse.Namespace,
    *,
    exclude: Collection[str] = (),
    **others: Any,
) -> Options:
    """Make a value of a model from its flags, and other values, which come before flags.

    Raises:
        UsageError: A flag is wrong.
    """
    flags = {name: getattr(command_line, name) for name in _list_fields(model, exclude)}
    return validate_flags(model, {**collect_set_flags(flags), **others})


def _list_fields(model: Any, exclude: Collection[str] = ()) -> dict[str, FieldInfo]:
    fields = model.__pydantic_fields__.items()
    return {n: field for n, field in fields if field.description and n not in exclude}


def add_run_option_flags(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the flags of the options of an estimate that a command hands on."""
    add_model_flags(
        parser, RunOptions, exclude=EXCLUDED[command], title="each estimate, as of hespas run"
    )


def read_run_options(command_line: argparse.Namespace, command: str) -> RunOptions:
    """Read the flags of ``add_run_option_flags``; raises UsageError."""
    return read_model_flags(RunOptions, command_line, exclude=EXCLUDED[command])


def validate_flags(model: type[Options], flags: dict[str, Any]) -> Options:
    """Check the values of flags, so that a wrong one is a usage error that names the flag."""
    fields = _list_fields(model)

    def name_flag(key: re.Match[str]) -> str:
        return _spell_name(key[1], get_flag(fields[key[1]]) if key[1] in fields else Flag())

    try:
        return validate_config(model, flags, "", UsageError)
    except UsageError as error:  # the model names the key of a file
        error.message = re.sub(r"^'(\w+)'", name_flag, error.message)
        raise


def collect_set_flags(values: dict[str, Any]) -> dict[str, Any]:
    """Select the flags that are present."""
    return {name: value for name, value in values.items() if value is not None}


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
    spelling = _spell_name(name, flag)
    text = (option.description or "").replace("%", "%%")
    kind = _strip_optional(option.annotation)
    if kind is bool:
        if option.default is None or overrides_record:
            return spelling, {"action": argparse.BooleanOptionalAction, "help": text}
        if option.default:
            spelling, text = f"--no-{spelling.removeprefix('--')}", flag.off_help
            return spelling, {"action": "store_false", "help": text}
        return spelling, {"action": "store_true", "help": text}
    if get_origin(kind) in (dict, Mapping):
        text += "; may be repeated"
        metavar = flag.metavar or "KEY=VALUE"
        return spelling, {"action": KeyValueAction, "metavar": metavar, "help": text}
    default = option.default
    has_default = isinstance(default, int | float | str) and default != ""
    if has_default and "default" not in text and not overrides_record:
        text += f" (default {default:g})" if isinstance(default, float) else f" (default {default})"
    if get_origin(kind) is Literal:  # the model checks the choice and suggests the nearest one
        metavar = f"{{{','.join(get_args(kind))}}}"
        return spelling, {"metavar": metavar, "help": text}
    keywords: dict[str, Any] = {"metavar": flag.metavar or name.upper(), "help": text}
    if get_origin(kind) is Sequence and flag.parse_text is None:
        return spelling, {**keywords, "nargs": "+", "action": "extend"}
    if flag.separator:
        keywords |= {"action": functools.partial(_JoinAction, flag.separator)}
        keywords["help"] += "; may be repeated"
    return spelling, keywords if kind is str else {**keywords, "type": flag.parse_text or kind}


def _spell_name(name: str, flag: Flag) -> str:
    return f"--{flag.name or name.replace('_', '-')}"


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
    members = [each for each in list_union_types(annotation) if each is not type(None)]
    return members[0] if len(members) == 1 else annotation
