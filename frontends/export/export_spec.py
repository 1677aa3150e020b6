"""The specification of a plain function to export: shapes, shardings, mesh, static values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from hespas.configs.validation import validate_config
from hespas.frontends.export import array_text
from hespas.frontends.export.logical_axes import LogicalAxisRules
from hespas.support.data_files import read_file_text
from hespas.support.errors import HespasError, UsageError
from hespas.support.json_text import parse_json

if TYPE_CHECKING:
    from hespas.frontends.export.exportable import Exportable


class ExportSpec(BaseModel):
    """What a function needs in order to be lowered; its fields are the keys of a spec file.

    A tree is a list or mapping of trees. Its leaves are arrays (``bf16[8,4]@data,-``); the leaves
    of ``out_shardings`` are shardings (``@data,-``) or null.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    args: list[Any] = Field(
        default_factory=list, description="one tree of arrays for each argument"
    )
    mesh: dict[str, int] = Field(
        default_factory=dict, description="sizes of the mesh axes, major axis first"
    )
    out_shardings: Any = Field(None, description="shardings of the result, as a tree")
    rules: list[tuple[str, list[str]]] = Field(
        default_factory=list, description="mesh axes by logical axis, which arrays then name"
    )
    static: dict[str, Any] = Field(
        default_factory=dict, description="values of static keyword arguments"
    )
    donate: list[int] = Field(
        default_factory=list, description="numbers of the arguments to donate"
    )
    explicit_axes: list[str] = Field(
        default_factory=list, description="mesh axes in JAX's explicit mode"
    )
    name: str | None = Field(None, description="name of the program (default: the function's name)")

    @field_validator("args")
    @classmethod
    def _check_argument_arrays(cls, value: list[Any]) -> list[Any]:
        _check_leaves(value, _make_text_check(array_text.parse_array_spec, "an array"))
        return value

    @field_validator("out_shardings")
    @classmethod
    def _check_out_shardings(cls, value: Any) -> Any:
        check = _make_text_check(array_text.parse_sharding_axes, "a sharding")
        _check_leaves(value, lambda leaf: None if leaf is None else check(leaf))
        return value

    @field_validator("rules", mode="before")
    @classmethod
    def _read_rules(cls, value: Any) -> list[tuple[str, list[str]]]:
        rules = LogicalAxisRules.from_table(value).rules
        return [(rule.name, list(rule.mesh_axes)) for rule in rules]

    @field_validator("static")
    @classmethod
    def _check_static_values(cls, value: dict[str, Any]) -> dict[str, Any]:
        _check_leaves(value, _check_json_value)
        return value

    @field_validator("donate")
    @classmethod
    def _check_donated_numbers(cls, value: list[int]) -> list[int]:
        if any(number < 0 for number in value):
            raise ValueError("arguments are numbered from 0")
        return value

    @property
    def axis_rules(self) -> LogicalAxisRules | None:
        """The rules of logical axes; None if arrays name the axes of the mesh."""
        return LogicalAxisRules.from_table(self.rules) if self.rules else None

    def list_mesh_axes(self) -> tuple[str, ...]:
        """List the axes of the mesh, major axis first: those of ``mesh``, or as they are named."""
        named: dict[str, None] = {}
        if self.axis_rules is not None:
            named = dict.fromkeys(self.axis_rules.list_mesh_axes())
        else:
            _check_leaves(self.args, lambda leaf: named.update(_list_array_axes(leaf)))
        return tuple(dict.fromkeys((*self.mesh, *named)))

    def list_warnings(self) -> list[str]:
        """Describe the rules that match no array."""
        rules = self.axis_rules
        if rules is None:
            return []
        _check_leaves(self.args, lambda leaf: rules.used_names.update(_list_array_axes(leaf)))
        _check_leaves(
            self.out_shardings,
            lambda leaf: rules.used_names.update(
                _list_part_axes(leaf and array_text.parse_sharding_axes(leaf))
            ),
        )
        return rules.list_warnings()

    def select_layout(self, mesh: Mapping[str, int], static: Mapping[str, Any]) -> ExportSpec:
        """Return the specification over another mesh and with more static values."""
        values = {"mesh": dict(mesh), "static": {**self.static, **static}}
        return self.model_copy(update=values)


def _list_array_axes(text: str) -> dict[str, None]:
    return _list_part_axes(array_text.parse_array_spec(text).axes)


def _list_part_axes(axes: array_text.Axes | None) -> dict[str, None]:
    return dict.fromkeys(axis for part in axes or () for axis in part)


def _check_leaves(tree: Any, check: Callable[[Any], object]) -> None:
    """Call ``check`` on every leaf of a tree; it raises ValueError for an invalid leaf."""
    if isinstance(tree, dict):
        if not all(isinstance(key, str) for key in tree):
            raise ValueError("the keys of a mapping must be text")
        for part in tree.values():
            _check_leaves(part, check)
    elif isinstance(tree, list):
        for part in tree:
            _check_leaves(part, check)
    else:
        check(tree)


def _make_text_check(read: Callable[[str], object], noun: str) -> Callable[[Any], None]:
    """Make a check that a leaf is text which ``read`` can parse."""

    def check_text_leaf(leaf: Any) -> None:
        if not isinstance(leaf, str):
            raise ValueError(f"{json.dumps(leaf, default=str)} is not {noun}")
        try:
            read(leaf)
        except UsageError as error:
            raise ValueError(str(error).removeprefix("error: ")) from None

    return check_text_leaf


def _check_json_value(leaf: Any) -> None:
    """Check that a leaf can be sent to the worker as JSON."""
    if leaf is not None and not isinstance(leaf, (str, int, float)):
        raise ValueError(f"JSON has no values of type {type(leaf).__name__}; write it as text")


def read_export_spec(path: str) -> ExportSpec:
    """Read a specification from a JSON or YAML file; raises HespasError if it is invalid."""
    text = read_file_text(path)
    values = parse_json(text, path) if path.endswith(".json") else _parse_yaml_spec(text, path)
    if not isinstance(values, dict):
        raise HespasError("expected a mapping of keys to values", where=path)
    return validate_config(ExportSpec, values, path)


def _parse_yaml_spec(text: str, path: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise HespasError(
            "reading YAML needs PyYAML",
            where=path,
            remedy="pip install 'hespas[jax]', or use a .json file",
        ) from None
    try:
        values = yaml.safe_load(text)
        json.dumps(values, default=str, skipkeys=True)  # refuses what contains itself
        return values
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        remedy = 'put arrays within [] or {} into quotes: ["f32[8,8]"]' if "[" in text else ""
        raise HespasError(f"not valid YAML: {error.problem}", where=where, remedy=remedy) from None
    except RecursionError:
        raise HespasError("is nested too deeply", where=path) from None
    except (yaml.YAMLError, ValueError) as error:  # the latter of dates that do not exist, too
        raise HespasError(f"not valid YAML: {str(error).splitlines()[0]}", where=path) from None


def make_exportable(function: Callable[..., Any], spec: ExportSpec, name: str) -> Exportable:
    """Combine a function with the shapes and static values of its specification.

    Raises:
        HespasError: If the specification does not match the function's parameters.
    """
    import functools
    import inspect

    from hespas.frontends.export.exportable import Exportable

    if spec.static:
        known = inspect.signature(function).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
        unknown = [] if takes_any else [key for key in spec.static if key not in known]
        if unknown:
            from hespas.support.suggestions import suggest_nearest

            raise UsageError(
                f"{name} has no argument '{unknown[0]}'",
                remedy=suggest_nearest(unknown[0], [*known]),
            )
    for number in spec.donate:
        if number >= len(spec.args):
            raise UsageError(
                f"cannot donate argument {number}: the function has {len(spec.args)} arguments"
            )
    rules = spec.axis_rules
    return Exportable(
        spec.name or name,
        functools.partial(function, **spec.static) if spec.static else function,
        tuple(_map_array_leaves(tree, array_text.to_shape_struct) for tree in spec.args),
        mesh=spec.mesh,
        in_shardings=tuple(
            _map_array_leaves(tree, lambda leaf: _make_sharding(leaf.axes, rules))
            for tree in spec.args
        ),
        out_shardings=_convert_shardings(spec.out_shardings, rules),
        donate_argnums=tuple(spec.donate),
        explicit_axes=tuple(spec.explicit_axes),
    )


def _map_array_leaves(tree: Any, make: Callable[[array_text.ArraySpec], Any]) -> Any:
    if isinstance(tree, dict):
        return {key: _map_array_leaves(part, make) for key, part in tree.items()}
    if isinstance(tree, list):
        return [_map_array_leaves(part, make) for part in tree]
    return make(array_text.parse_array_spec(tree))


def _make_sharding(axes: array_text.Axes | None, rules: LogicalAxisRules | None) -> Any:
    """Make a ``PartitionSpec`` of axes of the mesh, or of logical axes if there are rules."""
    if axes is None or rules is None:
        return array_text.to_partition_spec(axes)
    for part in axes:
        if len(part) > 1:
            raise UsageError(
                f"'{'+'.join(part)}' are two logical axes of one dimension",
                remedy="name one, and list the mesh axes in its rule",
            )
    return array_text.to_partition_spec(
        rules.assign_mesh_axes([part[0] if part else None for part in axes])
    )


def _convert_shardings(tree: Any, rules: LogicalAxisRules | None) -> Any:
    """Convert lists to tuples, as functions return several values."""
    if isinstance(tree, dict):
        return {key: _convert_shardings(part, rules) for key, part in tree.items()}
    if isinstance(tree, list):
        return tuple(_convert_shardings(part, rules) for part in tree)
    return tree if tree is None else _make_sharding(array_text.parse_sharding_axes(tree), rules)
