"""The options of a recipe: the keyword parameters of its ``build`` function, with their types."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from hespas.support.errors import HespasError, UsageError
from hespas.support.settings import BOOLS, list_union_types
from hespas.support.suggestions import suggest_nearest

MESH = "mesh"
REQUIRED = inspect.Parameter.empty
Built = TypeVar("Built")


@dataclass(frozen=True)
class MeshAxes:
    """The axes of a recipe's mesh, major axis first; a note of its parameter ``mesh``."""

    names: tuple[str, ...]

    def describe_axes(self) -> str:
        """Describe the axes, for the help of the option."""
        return f"devices along {', '.join(self.names)}"


@dataclass(frozen=True)
class RecipeOption:
    """An option: its types other than None, the values of a Literal, its default and its help.

    ``axes`` are those of the option ``mesh``, if the recipe names them. ``suggest`` returns the
    remedy for a text that is none of ``words``.
    """

    name: str
    kinds: tuple[type, ...]
    words: tuple[str | int, ...]
    optional: bool
    default: Any
    help: str
    axes: tuple[str, ...] = ()
    suggest: Callable[[str, list[str]], str] = suggest_nearest

    def describe_form(self) -> str:
        """Describe the accepted values: ``int``, ``bf16 | f32``."""
        names = [str(word) for word in self.words]
        names += ["AXIS=N,..." if kind is dict else kind.__name__ for kind in self.kinds]
        return " | ".join([*names, *(["none"] if self.optional else [])])

    def format_default(self) -> str:
        """Format the default as on the command line; the text is empty for a required option."""
        if self.default is REQUIRED:
            return ""
        if isinstance(self.default, dict):
            return ",".join(f"{key}={size}" for key, size in self.default.items())
        is_word = self.default is None or isinstance(self.default, bool)
        return str(self.default).lower() if is_word else str(self.default)


def expand_option_groups(build: Callable[..., Built]) -> Callable[..., Built]:
    """Replace the dataclass parameters of ``build`` by their fields, in place.

    Recipes can thus share a group of options as one value, while callers see plain options.
    """
    hints = get_type_hints(build, include_extras=True)
    groups: dict[str, type[Any]] = {}
    flat: list[inspect.Parameter] = []
    for parameter in inspect.signature(build).parameters.values():
        hint = hints[parameter.name]
        if is_dataclass(hint) and isinstance(hint, type):
            groups[parameter.name] = hint
            own = get_type_hints(hint, include_extras=True)
            fields = inspect.signature(hint).parameters.values()
            flat += [field.replace(annotation=own[field.name]) for field in fields]
        else:
            flat.append(parameter.replace(kind=parameter.POSITIONAL_OR_KEYWORD, annotation=hint))
    signature = inspect.Signature(flat)

    @functools.wraps(build)
    def call_with_groups(*args: Any, **keywords: Any) -> Built:
        arguments = signature.bind(*args, **keywords).arguments
        for name, group in groups.items():
            own = inspect.signature(group).parameters.keys() & arguments.keys()
            arguments[name] = group(**{field: arguments.pop(field) for field in own})
        return build(**arguments)

    call_with_groups.__signature__ = signature  # type: ignore[attr-defined]
    call_with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return call_with_groups


def _read_parameter_hints(build: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of the parameters of ``build``.

    The type of the result is left out, because only type checkers may know it.
    """
    function, annotations = inspect.unwrap(build), getattr(build, "__annotations__", {})
    hints = {name: hint for name, hint in annotations.items() if name != "return"}
    parameters = types.SimpleNamespace(__annotations__=hints)
    return get_type_hints(parameters, getattr(function, "__globals__", {}), include_extras=True)


def collect_options(build: Callable[..., Any]) -> list[RecipeOption]:
    """Collect the options of ``build``, ``mesh`` included.

    Raises:
        HespasError: If a parameter has an unsupported type.
    """
    hints = _read_parameter_hints(build)
    return [
        _parse_parameter(parameter, hints.get(parameter.name))
        for parameter in inspect.signature(build).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def _parse_parameter(parameter: inspect.Parameter, hint: Any) -> RecipeOption:
    text, axes = "", ()
    suggest: Callable[[str, list[str]], str] = suggest_nearest
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        text = next((note for note in notes if isinstance(note, str)), "")
        for note in notes:
            if isinstance(note, MeshAxes):
                text, axes = note.describe_axes(), note.names
            elif isinstance(note, types.FunctionType):
                suggest = note
    if hint is None or hint is Any:
        default = parameter.default
        hint = str if default is None or default is REQUIRED else type(default)
    parts = list_union_types(hint)
    words: list[str | int] = []
    kinds: list[type] = []
    for part in parts:
        origin = get_origin(part) or part
        if origin is Literal:
            words += get_args(part)
        elif origin in (int, float, bool, str):
            kinds.append(origin)
        elif parameter.name == MESH and origin in (dict, Mapping):
            kinds.append(dict)
        elif origin is not type(None):
            raise HespasError(
                f"the option '{parameter.name}' has a type that flags do not support: {part}"
            )
    return RecipeOption(
        parameter.name, tuple(kinds), tuple(words), type(None) in parts, parameter.default, text,
        axes, suggest,
    )  # fmt: skip


def bind_option_texts(
    build: Callable[..., Any],
    option_texts: Mapping[str, str],
    mesh: Mapping[str, int] | None,
    name: str,
) -> dict[str, Any]:
    """Convert option texts to keyword arguments for ``build``.

    Raises:
        UsageError: If an option is unknown, missing, or has an invalid value.
    """
    known = {option.name: option for option in collect_options(build)}
    values: dict[str, Any] = {}
    if mesh is not None:
        if MESH not in known:
            raise UsageError(f"{name} makes its own mesh and does not accept --mesh")
        values[MESH] = dict(mesh)
    known.pop(MESH, None)
    for key, text in option_texts.items():
        option = known.get(key.replace("-", "_"))
        if option is None:
            remedy = "use --mesh" if key == MESH else suggest_nearest(key, [*known])
            raise UsageError(f"{name} has no option '{key}'", remedy=remedy)
        values[option.name] = convert_option_text(option, text, name)
    missing = [o.name for o in known.values() if o.default is REQUIRED and o.name not in values]
    if missing:
        raise UsageError(
            f"{name} needs the option '{missing[0]}'",
            remedy=f"add --set {missing[0]}=..., or export the function with --arg or --spec",
        )
    return values


def convert_option_text(option: RecipeOption, text: str, name: str) -> Any:
    """Convert a text to the type of an option; raises UsageError if it does not match."""
    if option.optional and text.lower() == "none":
        return None
    for word in option.words:
        if text == str(word):
            return word
    if bool in option.kinds and text.lower() in BOOLS:
        return BOOLS[text.lower()]
    for kind in (int, float):
        if kind in option.kinds:
            try:
                return kind(text)
            except ValueError:
                pass
    if str in option.kinds:
        return text
    raise UsageError(
        f"{name}: '{option.name}' takes {option.describe_form()}, not '{text}'",
        remedy=option.suggest(text, [*map(str, option.words)]) if option.words else "",
    )
