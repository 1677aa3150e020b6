"""How the program of a layout is built, described and sketched.

It is built by a recipe, or from a function and the shapes it takes: in a worker process, which
starts JAX once for many, or in this one.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hespas.frontends.export.logical_axes import (
    LogicalAxisRules,
    find_logical_names,
    make_rule_shardings,
)
from hespas.support.data_files import parse_json_or_text
from hespas.support.errors import HespasError, UsageError
from hespas.support.output_file import write_atomically
from hespas.workflows.planning.layout_space import BATCH, SEQUENCE, ProgramInterface

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir
    from hespas.frontends.export.export_spec import ExportSpec
    from hespas.frontends.export.exportable import Exportable
    from hespas.workflows.planning.program_sketch import SketchOp

ShardingFunction = Callable[[Mapping[str, int]], tuple[Any, Any]]
"""From a mesh to the shardings of the arguments and of the result, as of ``Exportable``."""


@dataclass(frozen=True)
class LayoutBuilder(ABC):
    """Builds the program of each layout.

    Attributes:
        function: What is called for each.
        name: The name of the program.
        is_recipe: Whether a function of the mesh makes it.
        is_here: Whether it is a function of this process, which no worker could import.
    """

    is_recipe: ClassVar[bool] = False
    is_here: ClassVar[bool] = False

    function: Callable[..., Any]
    name: str

    @abstractmethod
    def describe_interface(self) -> ProgramInterface:
        """Describe the axes and options of the program."""

    @abstractmethod
    def build_program(self, options: Mapping[str, str], mesh: Mapping[str, int]) -> Exportable:
        """Build the program of a layout without lowering it; raises what the program raises."""

    def check_options(self, options: Mapping[str, str], mesh: Mapping[str, int]) -> None:
        """Raise HespasError if an option is wrong, whatever the mesh is."""
        self.build_program(options, mesh)

    def export_module(self, request: dict[str, Any], scratch: Path) -> Any:
        """Lower the program of a request to a module."""
        if self.is_here:
            from hespas.workflows.estimate_source import lower_exportable_module

            program = self.build_program(request["options"], request["mesh"])
            return lower_exportable_module(program, request["platform"])
        from hespas.workflows.studies.program_worker import export_module

        return export_module(request, scratch)


def find_layout_builder(request: Mapping[str, Any]) -> LayoutBuilder:
    """Find the builder of a request for ``frontends.export.export_worker``; raises HespasError."""
    from hespas.frontends.export import program_source
    from hespas.frontends.export.export_spec import ExportSpec

    function = program_source.find_program_function(request["program"])
    if request["spec"] is None:
        return RecipeBuilder(function, request["program"])
    name = request["program"].partition(":")[2].rpartition(".")[2]
    return SpecBuilder(function, name, ExportSpec.model_validate(request["spec"]))


@dataclass(frozen=True)
class RecipeBuilder(LayoutBuilder):
    """Calls a function of the mesh and options that returns an ``Exportable``, as recipes do."""

    is_recipe: ClassVar[bool] = True

    def describe_interface(self) -> ProgramInterface:
        from hespas.frontends.export import recipe_options

        options = recipe_options.collect_options(self.function)
        axes: tuple[str, ...] = ()
        default_axes: tuple[str, ...] = ()
        defaults: dict[str, str] = {}
        for option in options:
            if option.name != recipe_options.MESH:
                defaults[option.name] = option.format_default()
                continue
            axes = option.axes
            if isinstance(option.default, Mapping):
                default_axes = tuple(option.default)
        return ProgramInterface(axes, defaults, default_axes=default_axes)

    def check_options(self, options: Mapping[str, str], mesh: Mapping[str, int]) -> None:
        from hespas.frontends.export import recipe_options

        recipe_options.bind_option_texts(self.function, options, mesh, self.name)

    def build_program(self, options: Mapping[str, str], mesh: Mapping[str, int]) -> Exportable:
        from hespas.frontends.export import recipe_options
        from hespas.frontends.export.exportable import Exportable

        values = recipe_options.bind_option_texts(self.function, options, mesh, self.name)
        program = self.function(**values)
        if not isinstance(program, Exportable) or program.in_shardings is None:
            raise HespasError(
                "a plan needs an Exportable with in_shardings",
                where=self.name,
                remedy="to plan a function itself, describe its arguments and their logical axes",
            )
        return program


class FunctionRecipeBuilder(RecipeBuilder):
    """Calls such a function in this process."""

    is_here: ClassVar[bool] = True


@dataclass(frozen=True)
class SpecBuilder(LayoutBuilder):
    """Shards a function by a specification; the specification of a request has its layout."""

    spec: ExportSpec

    def describe_interface(self) -> ProgramInterface:
        return ProgramInterface.describe_function(self.spec.list_mesh_axes())

    def build_program(self, options: Mapping[str, str], mesh: Mapping[str, int]) -> Exportable:
        from hespas.frontends.export.export_spec import make_exportable

        return make_exportable(
            self.function, select_spec_layout(self.spec, mesh, options), self.name
        )


def select_spec_layout(
    spec: ExportSpec, mesh: Mapping[str, int], options: Mapping[str, str]
) -> ExportSpec:
    """Return a specification for a layout; options are static values, as JSON or text."""
    return spec.select_layout(
        mesh, {name: parse_json_or_text(text) for name, text in options.items()}
    )


@dataclass(frozen=True)
class FunctionBuilder(LayoutBuilder):
    """Shards a function of this process.

    Attributes:
        args: The shapes of the function's arguments, as trees.
        axes: The axes of the mesh, major axis first.
        shardings: The shardings of arguments and result over a mesh.
        rules: The rules that they follow from; None if they follow from none.
        donate: The numbers of the arguments whose memory the results may reuse.
        facts: Facts of the program: samples and tokens of a step.
        option_values: By option and text, the keyword argument of the function.
    """

    is_here: ClassVar[bool] = True

    args: tuple[Any, ...]
    axes: tuple[str, ...]
    shardings: ShardingFunction
    rules: LogicalAxisRules | None = None
    donate: tuple[int, ...] = ()
    facts: Mapping[str, int] = field(default_factory=dict)
    option_values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def describe_interface(self) -> ProgramInterface:
        return ProgramInterface.describe_function(self.axes)

    def check_options(self, options: Mapping[str, str], mesh: Mapping[str, int]) -> None:
        pass  # Python refuses a wrong keyword when the function is traced.

    def build_program(self, options: Mapping[str, str], mesh: Mapping[str, int]) -> Exportable:
        from hespas.frontends.export.exportable import Exportable

        in_shardings, out_shardings = self.shardings(mesh)
        keywords = {name: self.option_values[name][text] for name, text in options.items()}

        def call_function(*args: Any) -> Any:
            if self.rules is None:
                return self.function(*args, **keywords)
            with self.rules.enter_flax_context():
                return self.function(*args, **keywords)

        call_function.__wrapped__ = self.function  # type: ignore[attr-defined]
        return Exportable(
            self.name, call_function, self.args, mesh, tuple(in_shardings), out_shardings,
            self.donate, facts=self.facts,
        )  # fmt: skip


FUNCTION_SETTINGS = (
    "rules", "logical_axes", "out_logical_axes", "shardings", "mesh_axes", "donate_argnums",
)  # fmt: skip


def make_function_builder(
    program: str | Callable[..., Any],
    args: tuple[Any, ...],
    option_values: Mapping[str, Mapping[str, Any]],
    facts: Mapping[str, int],
    settings: Mapping[str, Any],
) -> tuple[LayoutBuilder | None, dict[str, Any]]:
    """Make the builder of a function of this process.

    Args:
        program: The function, or the name of a program.
        args: The arguments of the function; () if it builds an ``Exportable``.
        option_values: By option and text, the value of the option.
        facts: Facts of the program.
        settings: Those of ``FUNCTION_SETTINGS``, and others.

    Returns:
        The builder, or None for the name of a program; and the other settings.

    Raises:
        UsageError: The shardings follow from nothing, or are given for what takes none.
    """
    own = {name: settings[name] for name in FUNCTION_SETTINGS if name in settings}
    others = {name: value for name, value in settings.items() if name not in own}
    if isinstance(program, str) or not args:
        if args or own:
            raise UsageError(
                f"'{next(iter(own), 'an argument')}' belongs to a function with its arguments",
                remedy="pass the function itself, or describe its arguments in a file for spec=",
            )
        if isinstance(program, str):
            return None, others
        return FunctionRecipeBuilder(program, getattr(program, "__name__", "program")), others
    import jax

    shapes = jax.tree.map(_make_shape_struct, args)
    rules, shardings = _derive_shardings(shapes, own)
    axes = own.get("mesh_axes") or (rules.list_mesh_axes() if rules else ())
    name = getattr(program, "__name__", type(program).__name__)
    donated = tuple(own.get("donate_argnums", ()))
    builder = FunctionBuilder(
        program, name, shapes, tuple(axes), shardings, rules, donated, facts, option_values
    )
    return builder, others


def _derive_shardings(
    shapes: tuple[Any, ...], settings: Mapping[str, Any]
) -> tuple[LogicalAxisRules | None, ShardingFunction]:
    if ("rules" in settings) == ("shardings" in settings):
        raise UsageError(
            "the shardings of a function follow from rules of logical axes or from the mesh",
            remedy="give rules=..., or shardings=a function of the mesh",
        )
    if "shardings" in settings:
        return None, settings["shardings"]
    rules = LogicalAxisRules.from_table(settings["rules"])
    names = (settings.get("logical_axes"), settings.get("out_logical_axes"))
    return rules, make_sharding_function(shapes, rules, *names)


def make_sharding_function(
    args: Sequence[Any], rules: LogicalAxisRules, arguments: Any = None, results: Any = None
) -> ShardingFunction:
    """Make the shardings of a function by rules of logical axes.

    Args:
        args: The shapes of the arguments, which may carry the boxes of Flax.
        rules: The rules.
        arguments: For each argument a tree of ``PartitionSpec`` of logical axes, or None.
        results: The same for the result.

    Raises:
        UsageError: An argument has no logical axes, or there is no rule for one.
    """
    if arguments is not None and len(arguments) != len(args):
        raise UsageError(f"logical_axes has {len(arguments)} entries for {len(args)} arguments")
    names = [
        specs if specs is not None else find_logical_names(arg)
        for arg, specs in zip(args, arguments or [None] * len(args), strict=True)
    ]
    in_shardings = tuple(make_rule_shardings(one, rules) for one in names)
    if all(one is None for one in names):
        raise UsageError(
            "no argument has logical axes", remedy="name them in logical_axes, or box them in Flax"
        )
    out_shardings = make_rule_shardings(results, rules)
    return lambda mesh: (in_shardings, out_shardings)


def _make_shape_struct(leaf: Any) -> Any:
    """Return the shape of an array, or of what JAX makes an array."""
    import jax

    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    return jax.eval_shape(lambda array: array, leaf)


def run_task(payload: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Run one task of a plan in a worker process; raises what the program raises.

    Args:
        payload: ``task`` (``interface``, ``meshes``, ``specs`` or ``sketch``) and its data;
            ``export`` is a request for ``frontends.export.export_worker``.
        scratch: A folder for temporary files.
    """
    from hespas.workflows.studies.program_worker import prepare_jax

    prepare_jax()
    return answer_task(payload, find_layout_builder(payload["export"]), scratch)


def answer_task(payload: dict[str, Any], builder: LayoutBuilder, scratch: str) -> dict[str, Any]:
    """Answer one task of a plan; raises what the program raises."""
    request = payload["export"]
    if payload["task"] == "interface":
        interface = builder.describe_interface()
        return {
            "axes": interface.axes,
            "defaults": dict(interface.defaults),
            "default_axes": interface.default_axes,
        }
    if payload["task"] == "meshes":
        options, meshes = request["options"], payload["meshes"]
        builder.check_options(options, meshes[0])
        return {"meshes": [_describe_mesh(builder, options, mesh) for mesh in meshes]}
    if payload["task"] == "specs":
        program = builder.build_program(request["options"], request["mesh"])
        return {
            "specs": {
                name: str(spec)
                for name, _, spec in _list_specified_arguments(program, is_recipe=builder.is_recipe)
            }
        }
    module = builder.export_module(request, Path(scratch))
    ops = [op.to_json() for op in sketch_module(module, request["mesh"])]
    write_atomically(payload["output"], json.dumps(ops).encode())
    return {}


def _describe_mesh(
    builder: LayoutBuilder, options: Mapping[str, str], mesh: dict[str, int]
) -> dict[str, Any]:
    """Describe the program over a mesh by its facts, without lowering it."""
    from hespas.frontends.export.export_worker import describe_error

    try:
        program = builder.build_program(options, mesh)
        arguments = _list_specified_arguments(program, is_recipe=builder.is_recipe)
        return {
            "samples": _count_samples(builder, options, program.facts),
            "argument_bytes": sum(_count_local_bytes(*one, mesh, options) for one in arguments),
        }
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        described = describe_error(error)
        return {"error": "; ".join(filter(None, (described["message"], described["remedy"])))}


def _list_specified_arguments(
    program: Exportable, *, is_recipe: bool
) -> list[tuple[str, Any, Any]]:
    """List the name, the shape and the PartitionSpec of each array; None if XLA chooses it.

    The arrays of a recipe have the names in its state and its batch, or that of the parameter where
    an argument is an array; those of other functions begin with the parameter.
    """
    import inspect

    import jax
    from jax.sharding import PartitionSpec

    specs: list[Any] = []

    def repeat_spec(spec: Any, part: Any) -> None:
        specs.extend([spec] * len(jax.tree.leaves(part)))

    shardings = program.in_shardings or (None,) * len(program.args)
    jax.tree.map(
        repeat_spec,
        tuple(shardings),
        program.args,
        is_leaf=lambda leaf: leaf is None or isinstance(leaf, PartitionSpec),
    )
    leaves = jax.tree_util.tree_leaves_with_path(program.args)
    parameters = [*inspect.signature(program.function).parameters]
    return [
        (_name_array(path, parameters, is_recipe=is_recipe), leaf, spec)
        for (path, leaf), spec in zip(leaves, specs, strict=True)
    ]


def _name_array(path: Sequence[Any], parameters: Sequence[str], *, is_recipe: bool) -> str:
    """Name an array by its path, whose first key is the number of its argument.

    A box of Flax, whose only array is its ``value``, has the name of the array.
    """
    from jax.tree_util import GetAttrKey, keystr

    if path[-1] == GetAttrKey("value"):
        path = path[:-1]
    name = keystr(tuple(path[1:]), simple=True, separator=".")
    if is_recipe and name:
        return name
    number = path[0].idx
    parameter = str(parameters[number] if number < len(parameters) else number)
    return f"{parameter}.{name}" if name else parameter


def _count_samples(
    builder: LayoutBuilder, options: Mapping[str, str], facts: Mapping[str, Any]
) -> int:
    """Count the sequences or images of a step; raises HespasError if no fact says it."""
    interface = builder.describe_interface()
    if interface.is_batch_fixed:
        return 0
    for name in ("samples_per_step", "images_per_step"):
        if name in facts:
            return int(facts[name])
    if "tokens_per_step" not in facts:
        raise HespasError("a plan needs the fact tokens_per_step or samples_per_step")
    sequence = int(options.get(SEQUENCE) or interface.defaults.get(SEQUENCE) or 1)
    return int(facts["tokens_per_step"]) // sequence


def _count_local_bytes(
    name: str, leaf: Any, spec: Any, mesh: dict[str, int], options: Mapping[str, str]
) -> int:
    """Count the bytes of an array on one device: at least, where XLA chooses its sharding.

    Raises:
        UsageError: The mesh does not divide the array.
    """
    total_bytes = math.prod(leaf.shape) * leaf.dtype.itemsize
    if spec is None:
        return total_bytes // math.prod(mesh.values())
    parts = [part if isinstance(part, tuple) else (part,) for part in spec]
    for extent, part in zip(leaf.shape, parts, strict=False):
        axes = {axis: mesh[axis] for axis in part if axis in mesh}
        if extent % math.prod(axes.values()):
            text = ", ".join(f"{axis}={size}" for axis, size in axes.items())
            shape = "x".join(map(str, leaf.shape))
            is_batch = extent == 1 == int(options.get(BATCH, 0))
            raise UsageError(
                f"{name} of {shape} cannot be divided: {extent} over {text}",
                remedy=f"{BATCH} counts the samples of each batch shard" if is_batch else "",
            )
    return total_bytes // math.prod(mesh.get(axis, 1) for part in parts for axis in part)


def sketch_module(module: ir.Module, mesh: Mapping[str, int]) -> list[SketchOp]:
    """Prepare a program over ``mesh`` in place, and return its sketch; raises HespasError."""
    from hespas.passes import registry
    from hespas.passes.base import PassRun, build_pass
    from hespas.passes.pipeline import run_pipeline
    from hespas.workflows.planning.program_sketch import collect_sketch

    step = build_pass(registry.load_pass_class("prepare"), {})
    run_pipeline(module, [step], PassRun("program", note=lambda text: None))
    return collect_sketch(module, mesh)
