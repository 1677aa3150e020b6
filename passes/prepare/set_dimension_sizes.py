"""Setting the sizes of symbolic dimensions, which makes the shapes of a module static."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from hespas.dialects.mlir import (
    capture_native_stderr,
    decode_string_attr,
    find_ops,
    ir,
    refine_dynamic_shapes,
    replace_module_body,
    replace_results,
)
from hespas.dialects.mlir_diagnostics import ADVICE
from hespas.dialects.op_kinds import FUSION, SIZE_SETTERS
from hespas.passes.base import PassRun, option
from hespas.passes.prepare.census import ModuleCensus, collect_census
from hespas.passes.prepare.check_input import check_ranked_boundary
from hespas.passes.prepare.legalise import legalise_sizes
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.support.errors import HespasError
from hespas.support.records import record

DEFAULT_SIZE = 128  # size of a dimension that neither the user nor a bound in its type sets
COMPUTED_REMEDY = (
    "no argument has symbolic dimensions, so sizes are computed while the program runs: export it "
    "with static shapes, or with their bounds (#stablehlo.bounds)"
)
EXAMPLES = "b=8,s=1024", "arg0=8x1024x64"
PLACE = r"(?:<unknown>:0|(\S+:\d+:\d+)): error: (.*)"
SPECIFICATION = ".shape = ("  # JAX writes: args[0].shape = (b, floordiv(s, 2), 64)


@record(frozen=True)
class SetDimensionSizesPass(PrepareStep):
    """Set the sizes of symbolic dimensions, which makes all shapes static."""

    name: ClassVar[str] = "set-dimension-sizes"

    dims: str = option(
        "",
        "sizes of symbolic dimensions, such as b=8,s=1024 or arg0=8x1024x64; "
        "default: the bound in the type, or 128",
    )

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        return set_dimension_sizes(module, view.census, self.dims, run)


def set_dimension_sizes(module: ir.Module, census: ModuleCensus, dims: str, run: PassRun) -> bool:
    """Set static shapes of the entry's arguments, propagate them, and return whether any changed.

    Args:
        module: The module.
        census: Its census.
        dims: Items ``name=size`` or ``argN=AxBxC``, separated by commas. Other dimensions get the
            bound in their type, or else 128, with a warning.
        run: Receives the warning.

    Raises:
        HespasError: ``dims`` is wrong, or the module does not allow these sizes.
    """
    check_ranked_boundary(census)
    is_foreign = legalise_sizes(module, census)
    is_bounded = _apply_bounds(module, census, run)
    if is_bounded:
        census = collect_census(module)
    return _set_argument_sizes(module, census, dims, run) or is_bounded or is_foreign


def _format_remedy(run: PassRun) -> str:
    """Say how a user sets sizes: by a flag of a tool, an argument of Python, or by hespas-opt."""
    by_name, by_argument = (run.spell_option("dims", example) for example in EXAMPLES)
    if by_name != f"dims={EXAMPLES[0]}":
        return f"set them with {by_name}, or {by_argument}"
    return f'set them with hespas-opt --prepare=dims="{EXAMPLES[0]}", or dims="{EXAMPLES[1]}"'


def _set_argument_sizes(module: ir.Module, census: ModuleCensus, dims: str, run: PassRun) -> bool:
    """Set static shapes of the entry's arguments, as ``set_dimension_sizes`` does."""
    if all(map(_has_static_shape, census.boundary_types)):
        if dims:
            raise HespasError(f"prepare: dims={dims}, but the module has no symbolic dimensions")
        return False
    kinds = [argument.type for argument in census.entry.regions[0].blocks[0].arguments]
    dynamic = [i for i, kind in enumerate(kinds) if not _has_static_shape(kind)]
    remedy = _format_remedy(run) if dynamic else COMPUTED_REMEDY
    shapes, sizes = _parse_dims_option(dims, dynamic, remedy)
    names = _find_dimension_names(module, kinds, dynamic)
    assumed: dict[str, int] = {}
    types = []
    for i, kind in enumerate(kinds):
        if i in dynamic:
            shape = shapes.get(i) or _size_argument(kind, i, names[i], sizes, assumed)
            types.append(_format_static_type(kind, i, shape))
        else:
            types.append(str(kind))
    known = sorted({word for row in names.values() for word in _find_identifiers(row)})
    unused = [name for name in sizes if name not in known]
    if unused:
        text = f"no dimension is named '{unused[0]}'"
        raise HespasError(
            f"prepare: {text}",
            remedy="; or ".join([f"known: {', '.join(known)}"] * bool(known) + [remedy]),
        )
    if assumed:
        listed = ", ".join(f"{name}={size}" for name, size in assumed.items())
        run.warn(f"sizes assumed for symbolic dimensions: {listed}; {remedy}")
    stderr_lines: list[str] = []
    try:
        with capture_native_stderr() as stderr_lines:
            refined = refine_dynamic_shapes(_strip_bounds(module, kinds), types)
        replace_module_body(module, refined)
    except (RuntimeError, ir.MLIRError) as error:
        text = str(error).split("\n", 1)[0].rpartition("failed: ")[2].removeprefix("UNKNOWN: ")
        place = re.search(PLACE, text)
        where = place[1] if place and place[1] and not place[1].startswith("-:") else ""
        reason = stderr_lines[0].rpartition("error: ")[2] if stderr_lines else text
        reason = re.sub(ADVICE, "", place[2] if place else reason)
        message = f"the module does not allow these sizes: {reason}"
        raise HespasError(message, where=where, remedy=remedy) from None
    return True


BOUNDED = (  # such as tensor<?x1024xf32, #stablehlo.bounds<512, ?>>
    r"tensor<((?:[?\d]+x)+)(complex<\w+>|[\w.!]+), #stablehlo\.bounds<([^>]*)>>"
)


def _apply_bounds(module: ir.Module, census: ModuleCensus, run: PassRun) -> bool:
    """Give each bounded dimension the size of its bound; return whether there is any.

    XLA allocates and computes such dimensions at their bound, too. An op that sets the size of one
    then has no effect.
    """
    setters = census.select_ops_by_name(*SIZE_SETTERS)
    if census.select_ops_by_name(FUSION):  # the census does not look into them
        setters = find_ops(module.operation, SIZE_SETTERS)
    if not any("bounds<" in str(op.results[0].type) for op in setters):
        return False  # arguments may have bounds, which are sizes by default
    text = str(module.operation.get_asm(enable_debug_info=True))
    replace_module_body(
        module, ir.Module.parse(re.sub(BOUNDED, _write_bounds, text), module.context)
    )
    for op in find_ops(module.operation, SIZE_SETTERS):
        if op.operands[0].type == op.results[0].type:
            replace_results(op, [op.operands[0]])
    run.warn(
        "dimensions whose size stablehlo.set_dimension_size sets while the program runs have "
        "their bounds as sizes"
    )
    return True


def _write_bounds(match: re.Match[str]) -> str:
    """Return a type with the bounds of its dimensions as their sizes."""
    sizes = match[1].split("x")[:-1]
    bounds = [bound.strip() for bound in match[3].split(",")]
    static = [bound if size == "?" else size for size, bound in zip(sizes, bounds, strict=True)]
    return f"tensor<{''.join(f'{size}x' for size in static)}{match[2]}>"


def _has_static_shape(kind: ir.Type) -> bool:
    return not isinstance(kind, ir.ShapedType) or kind.has_static_shape


def _parse_dims_option(
    dims: str, dynamic: Sequence[int], remedy: str
) -> tuple[dict[int, list[int]], dict[str, int]]:
    """Parse the option into shapes by argument number and sizes by name."""
    shapes: dict[int, list[int]] = {}
    sizes: dict[str, int] = {}
    for item in filter(None, re.split(r"[,\s]+", dims)):
        name, _, text = item.partition("=")
        argument = re.fullmatch(r"arg(\d+)", name)
        if not re.fullmatch(r"\d+(x\d+)*", text):
            raise HespasError(f"prepare: cannot read '{item}' in dims", remedy=remedy)
        if argument:
            if int(argument[1]) not in dynamic:
                message = f"prepare: argument {argument[1]} has no symbolic dimensions"
                raise HespasError(message, remedy=remedy)
            shapes[int(argument[1])] = [int(size) for size in text.split("x")]
        elif "x" in text:
            raise HespasError(f"prepare: '{item}' in dims must be one size", remedy=remedy)
        else:
            sizes[name] = int(text)
    return shapes, sizes


def _find_dimension_names(
    module: ir.Module, kinds: Sequence[ir.Type], dynamic: Sequence[int]
) -> dict[int, list[str]]:
    """Find the names that JAX gives to dimensions, by argument number; otherwise ``argN_dimK``."""
    rows: list[list[str]] = []
    for op in find_ops(module.operation, ("stablehlo.custom_call",)):
        if not rows and "error_message" in op.attributes:
            text = decode_string_attr(op.attributes["error_message"])
            parts = text.partition("Obtained dimension")[0].split(SPECIFICATION)
            rows = [_read_dimensions(part) for part in parts[1:]]
    result = {
        i: [str(size) if size >= 0 else f"arg{i}_dim{k}" for k, size in enumerate(kinds[i].shape)]  # type: ignore[attr-defined]
        for i in dynamic
    }
    if [len(row) for row in rows] == [len(result[i]) for i in dynamic]:
        result = dict(zip(dynamic, rows, strict=True))
    return result


def _read_dimensions(text: str) -> list[str]:
    """Split a text at its commas, up to the bracket that closes it and outside inner brackets."""
    depth, names = 0, [""]
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
        if char == "," and not depth:
            names.append("")
        else:
            names[-1] += char
    return [name.strip() for name in names if name.strip()]


def _find_identifiers(row: Sequence[str]) -> list[str]:
    """Find the symbols in dimensions, without the names of functions."""
    return [word for name in row for word in re.findall(r"\b[A-Za-z_]\w*\b(?!\()", name)]


def _size_argument(
    kind: ir.Type, number: int, names: Sequence[str], sizes: dict[str, int], assumed: dict[str, int]
) -> list[int]:
    """Compute the shape of an argument from named sizes; add missing sizes to ``assumed``."""
    bounds = _parse_bounds(kind)
    shape = []
    for k, (size, name) in enumerate(zip(kind.shape, names, strict=True)):  # type: ignore[attr-defined]
        if size >= 0:
            shape.append(size)
            continue
        for word in _find_identifiers([name]):
            if word not in sizes:
                assumed.setdefault(word, bounds[k] if bounds else DEFAULT_SIZE)
        try:
            expression = ast.parse(name.replace("^", "**"), mode="eval").body  # JAX's powers
            shape.append(_evaluate_expression(expression, {**assumed, **sizes}))
        except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
            message = f"prepare: cannot evaluate the dimension '{name}' of argument {number}"
            raise HespasError(message, remedy=f'set dims="arg{number}=AxBx..."') from None
    return shape


def _parse_bounds(kind: ir.Type) -> list[int]:
    """Parse the bounds of a type's dimensions (``#stablehlo.bounds``); empty if it has none."""
    match = re.search(r"#stablehlo\.bounds<([^>]*)>", str(kind))
    if not match:
        return []
    return [DEFAULT_SIZE if b.strip() == "?" else int(b) for b in match[1].split(",")]


def _strip_bounds(module: ir.Module, kinds: Sequence[ir.Type]) -> ir.Module:
    """Remove bounds from types, because shape refinement does not support them."""
    if not any(map(_parse_bounds, kinds)):
        return module
    text = str(module.operation.get_asm(enable_debug_info=True))
    return ir.Module.parse(re.sub(r", #stablehlo\.bounds<[^>]*>", "", text), module.context)


def _format_static_type(kind: ir.Type, number: int, shape: Sequence[int]) -> str:
    old = list(kind.shape)  # type: ignore[attr-defined]
    fits = len(shape) == len(old) and all(o < 0 or o == s for o, s in zip(old, shape, strict=True))
    if not fits:
        text = "x".join(map(str, shape))
        raise HespasError(f"prepare: the shape {text} does not fit argument {number}, {kind}")
    return f"tensor<{''.join(f'{size}x' for size in shape)}{kind.element_type}>"  # type: ignore[attr-defined]


def _raise_to_power(base: int, exponent: int) -> int:
    """Raise to a power whose result is a size; raises ValueError for a larger one."""
    if exponent < 0 or exponent * abs(base).bit_length() > 63:
        raise ValueError(f"{base}**{exponent}")
    return base**exponent


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _raise_to_power,
}

_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv,
    "max": max,
    "min": min,
    "mod": operator.mod,
}


def _evaluate_expression(node: ast.expr, sizes: dict[str, int]) -> int:
    """Evaluate an integer expression over names; raises ValueError if it is not one."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name) if name in sizes:
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](
                _evaluate_expression(left, sizes), _evaluate_expression(right, sizes)
            )
        case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](
                _evaluate_expression(left, sizes), _evaluate_expression(right, sizes)
            )
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_evaluate_expression(inner, sizes)
    raise ValueError(ast.unparse(node))
