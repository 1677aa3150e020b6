"""The MLIR bindings. Only this module, ``xla.py`` and ``pjrt.py`` use private names of jaxlib.

``test/unit/test_bindings.py`` is the contract: it fails if a release of jaxlib moves one of them.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from hespas.support.errors import HespasError
from hespas.support.records import record
from hespas.support.supervised_process import run_native_code

# The bindings run Python code while they are imported, and drop what a signal raises in it.
with run_native_code("error: the import of the MLIR bindings"):
    from jaxlib.mlir import ir

    # Only the native parts of these five: the classes of their ops, whose modules take 0.03 s, are
    # imported by the bindings when they meet an op of the dialect.
    from jaxlib.mlir._mlir_libs import (
        _chlo,
        _jax_mlir_ext,
        _mlirHlo,
        _mosaic_gpu_ext,
        _sdyMpmd,
    )
    from jaxlib.mlir._mlir_libs import _sdy as sdy
    from jaxlib.mlir._mlir_libs._mlir import rewrite
    from jaxlib.mlir.dialects import func, stablehlo
    from jaxlib.mlir.passmanager import PassManager

# That of jaxlib 0.12 imports the module of its dialect before it is complete itself; JAX, which
# imports the module later, would miss its attributes.
if (_sdy_module := sys.modules.get("jaxlib.mlir.dialects.sdy")) is not None:
    for _name in {name for name in dir(sdy) if not name.startswith("_")} - set(dir(_sdy_module)):
        setattr(_sdy_module, _name, getattr(sdy, _name))

__all__ = [
    "DONATED",
    "FRONTEND",
    "UNREGISTERED_VARIABLE",
    "PassDiagnostic",
    "PassManager",
    "accept_unregistered_ops",
    "accepts_unregistered_ops",
    "attach_diagnostic_handler",
    "cache_ir_function",
    "capture_native_stderr",
    "clone_module",
    "collect_functions",
    "collect_meshes",
    "copy_attributes",
    "count_op_names",
    "create_before",
    "decode_string_attr",
    "deserialize_portable_artifact",
    "find_attribute",
    "find_ops",
    "forget_other_contexts",
    "func",
    "get_attribute",
    "get_call_target",
    "get_defining_op",
    "get_symbol_name",
    "has_diagnostic_handlers",
    "has_private_symbol",
    "has_static_shape",
    "hlo_proto_to_stablehlo",
    "hlo_text_to_proto",
    "ir",
    "list_dictionary_entries",
    "load_linalg",
    "make_context",
    "read_frontend_items",
    "read_frontend_text",
    "read_properties",
    "refine_dynamic_shapes",
    "register_inliner",
    "register_passes",
    "replace_module_body",
    "replace_op",
    "replace_results",
    "replace_tuple",
    "report_diagnostic",
    "require_kind",
    "sdy",
    "select_ops",
    "stablehlo",
    "take_frontend_text",
    "to_f64_attr",
    "to_i64_attr",
    "walk_operations",
    "write_frontend_items",
]

DONATED = "jax.buffer_donor"  # of an argument whose memory any result of its size may get
FRONTEND = "mhlo.frontend_attributes"  # what a framework passes through XLA, by name


# Whether ops of unknown dialects are accepted: for programs, and from a command to its workers.
UNREGISTERED_VARIABLE = "HESPAS_ALLOW_UNREGISTERED_DIALECT"


def accept_unregistered_ops() -> None:
    """Let contexts accept ops of unknown dialects, here and in worker processes."""
    os.environ[UNREGISTERED_VARIABLE] = "1"


def accepts_unregistered_ops() -> bool:
    """Return whether contexts accept ops of unknown dialects."""
    return os.environ.get(UNREGISTERED_VARIABLE) == "1"


@record(frozen=True)
class PassDiagnostic:
    """A warning or a remark of a pass of hespas, with the properties of ``ir.Diagnostic``.

    The bindings let Python emit errors only, so that handlers receive this object instead.
    """

    severity: Any
    location: ir.Location
    message: str
    notes: tuple[()] = ()


DiagnosticCallback = Callable[[Any], bool]
# The handlers that are attached, with the identity of the context of each, which is freed with its
# last module. Its handlers are detached then.
_handlers: list[tuple[int, Any, DiagnosticCallback]] = []


class Context(ir.Context):
    """A context whose diagnostic handlers also receive what passes of hespas report."""

    def attach_diagnostic_handler(self, callback: Any) -> Any:
        return attach_diagnostic_handler(self, callback)


def attach_diagnostic_handler(context: ir.Context, callback: DiagnosticCallback) -> Any:
    """Attach a handler for diagnostics of MLIR and of passes of hespas; returns MLIR's handler.

    The context may be of another library, such as JAX.
    """
    handler: Any = ir.Context.attach_diagnostic_handler(context, callback)
    _handlers[:] = [entry for entry in _handlers if entry[1].attached]
    _handlers.append((id(context), handler, callback))
    return handler


def _list_callbacks(context: ir.Context) -> list[DiagnosticCallback]:
    """List the callbacks that are attached to a context, the latest first."""
    return [
        callback
        for owner, handler, callback in reversed(_handlers)
        if owner == id(context) and handler.attached
    ]


def report_diagnostic(
    context: ir.Context, severity: str, message: str, location: ir.Location
) -> None:
    """Report a warning or a remark to the handlers of a context, the latest first.

    Args:
        context: The context.
        severity: ``WARNING`` or ``REMARK``.
        message: The message.
        location: Its place.
    """
    diagnostic = PassDiagnostic(getattr(ir.DiagnosticSeverity, severity), location, message)
    for callback in _list_callbacks(context):
        if callback(diagnostic):
            return


def has_diagnostic_handlers(context: ir.Context) -> bool:
    """Return whether ``report_diagnostic`` would reach a handler of a context."""
    return bool(_list_callbacks(context))


def make_context(*, allow_unregistered: bool = False) -> ir.Context:
    """Create a context with func, stablehlo, chlo, vhlo, mhlo, sdy, mpmd and upstream MLIR.

    Args:
        allow_unregistered: Whether it accepts ops of unknown dialects, in generic form.
    """
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (sdy, _sdyMpmd, _chlo, stablehlo):
        dialect.register_dialect(context)
    _mlirHlo.register_mhlo_dialect(context)
    register_inliner(context)
    context.allow_unregistered_dialects = allow_unregistered or accepts_unregistered_ops()
    return context


_caches: list[Any] = []
_cached_context = 0  # the identity of the context whose types and attributes the caches may hold

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Kind = TypeVar("_Kind", bound=ir.Attribute)


def cache_ir_function(maxsize: int) -> Callable[[_Function], _Function]:
    """Cache the results of a function of types or attributes, for modules of one context.

    A cached type keeps its context alive, with all its constants.
    """

    def decorate(function: _Function) -> _Function:
        cached: Any = functools.lru_cache(maxsize=maxsize)(function)
        _caches.append(cached)
        return cached

    return decorate


def forget_other_contexts(context: ir.Context) -> None:
    """Empty the caches of ``cache_ir_function`` if they are of another context."""
    global _cached_context
    if id(context) != _cached_context:
        for cached in _caches:
            cached.cache_clear()
        _cached_context = id(context)


def register_inliner(context: ir.Context) -> None:
    """Let MLIR's ``inline`` inline calls of func in a context, which it else leaves as they are.

    The only module of jaxlib with this function is that of Mosaic.
    """
    _mosaic_gpu_ext.register_inliner_extensions(context)


_passes_registered = False


def register_passes() -> None:
    """Register the native passes (canonicalize, stablehlo-*, sdy-*, ...) with ``PassManager``."""
    global _passes_registered
    if not _passes_registered:
        stablehlo.register_stablehlo_passes()
        _mlirHlo.register_mhlo_passes()
        _passes_registered = True


def load_linalg(context: ir.Context) -> bool:
    """Load linalg, which the bindings know only as a dialect of the passes that write it.

    Returns:
        Whether it was not loaded before.
    """
    if context.is_registered_operation("linalg.yield"):
        return False
    register_passes()
    manager = PassManager.parse("builtin.module(stablehlo-legalize-to-linalg)", context)
    manager.run(ir.Module.create(ir.Location.unknown(context)).operation)
    return True


@contextlib.contextmanager
def capture_native_stderr() -> Iterator[list[str]]:
    """Capture what native code prints to stderr.

    Yields a list, which receives the lines when the context ends.
    """
    lines: list[str] = []
    try:
        saved = os.dup(2)
    except OSError:  # stderr is closed
        yield lines
        return
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            lines += file.read().decode(errors="replace").splitlines()


def count_op_names(module: ir.Module) -> dict[str, int] | None:
    """Count the ops of each name natively, nested ones too, in 0.1 us for each op.

    Returns:
        The numbers by name; None if they cannot be read, because they are printed to stderr and
        stderr is closed, or another thread prints there.
    """
    manager = PassManager.parse("builtin.module(print-op-stats{json=true})", module.context)
    manager.enable_verifier(False)
    with capture_native_stderr() as lines:
        manager.run(module.operation)
    try:
        counts: dict[str, int] = json.loads("".join(lines))
    except ValueError:
        return None
    return counts


def collect_functions(module: ir.Module) -> dict[str, ir.Operation]:
    """Return the ``func.func`` ops of a module by symbol name, in order."""
    return collect_block_functions(module.body)


def collect_block_functions(block: ir.Block) -> dict[str, ir.Operation]:
    """Return the functions of the block of a module by symbol name, in order."""
    return _collect_symbol_ops(block, "func.func")


def collect_meshes(module: ir.Module) -> dict[str, ir.Operation]:
    """Return the ``sdy.mesh`` ops of a module by symbol name."""
    return _collect_symbol_ops(module.body, "sdy.mesh")


def _collect_symbol_ops(block: ir.Block, kind: str) -> dict[str, ir.Operation]:
    return {
        get_symbol_name(op.operation): op.operation
        for op in block.operations
        if op.operation.name == kind
    }


def get_symbol_name(op: ir.Operation) -> str:
    """Return the symbol name of an op.

    Raises:
        HespasError: It is not UTF-8.
    """
    attr = cast(ir.StringAttr, op.attributes["sym_name"])
    try:
        return attr.value
    except RuntimeError:
        raise HespasError(f"the symbol @{attr} is not UTF-8 text", op=op) from None


def drop_attributes(op: ir.Operation, *names: str) -> None:
    """Remove attributes from an op, those of the names that it has."""
    attributes = op.attributes
    for name in names:
        if name in attributes:
            del attributes[name]


def drop_inner_attributes(root: ir.Operation, *names: str) -> None:
    """Remove attributes from an op and from all ops in it."""

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        drop_attributes(op, *names)
        return ir.WalkResult.ADVANCE

    root.walk(visit_op)


BOUNDARY = ("arg_attrs", "res_attrs")  # where a function has the attributes of its values


def read_boundary_attrs(function: ir.Operation, where: str) -> list[Any]:
    """Read the attributes of each argument or result of a function; empty if none has any."""
    return list(get_attribute(function, where)) if where in function.attributes else []


def read_boundary_items(function: ir.Operation, where: str) -> list[dict[str, ir.Attribute]]:
    """Read what ``write_boundary_items`` writes, without what the bindings cannot represent."""
    return [
        {name: attr for name, attr in list_dictionary_entries(attrs) if attr is not None}
        for attrs in read_boundary_attrs(function, where)
    ]


def write_boundary_items(
    function: ir.Operation, where: str, rows: Sequence[Mapping[str, ir.Attribute]]
) -> None:
    """Write the attributes of each argument or result of a function; no rows leave none."""
    if rows:
        dictionaries = [ir.DictAttr.get(dict(row), function.context) for row in rows]
        function.attributes[where] = ir.ArrayAttr.get(dictionaries, function.context)
    else:
        drop_attributes(function, where)


def drop_boundary_attrs(function: ir.Operation, names: Collection[str]) -> None:
    """Remove attributes from a function's arguments and results."""
    for where in BOUNDARY:
        rows = read_boundary_items(function, where)
        remaining = [{k: value for k, value in row.items() if k not in names} for row in rows]
        write_boundary_items(function, where, remaining)


def get_attribute(op: ir.Operation, name: str) -> Any:
    """Return an attribute as ``Any``, because the stubs declare only the base class."""
    return op.attributes[name]


def copy_attributes(op: ir.Operation) -> dict[str, ir.Attribute]:
    """Return the attributes of an op, for another one to be created from.

    Discardable ones that the bindings cannot represent stay behind, as in rewrites of MLIR.
    """
    attributes = op.attributes
    copied: dict[str, ir.Attribute] = {}
    for name in attributes:
        try:
            copied[name] = attributes[name]
        except TypeError:
            if "." not in name:
                raise
    return copied


def find_attribute(op: ir.Operation, name: str) -> ir.Attribute | None:
    """Return an attribute, or None if the op lacks it or the bindings cannot represent it.

    They cannot represent dense elements of a complex type, and locations that are attributes.
    """
    try:
        return op.attributes.get(name)
    except TypeError:
        return None


def read_properties(op: ir.Operation) -> ir.DictAttr:
    """Read the properties of an unregistered op: ``"acme.scale"() <{factor = 2.0 : f32}>``.

    The bindings have those of registered ops among the attributes, but these only in the text.
    """
    bare = op.clone().operation
    for name in list(bare.attributes):
        del bare.attributes[name]
    text = str(bare.get_asm(use_local_scope=True, assume_verified=True, skip_regions=True))
    _, opening, rest = text.partition(" <{")
    for end in re.finditer("}>", rest if opening else ""):
        with contextlib.suppress(ir.MLIRError):
            return ir.DictAttr(ir.Attribute.parse("{" + rest[: end.start() + 1], op.context))
    return ir.DictAttr.get({}, op.context)


def list_dictionary_entries(attr: ir.DictAttr) -> list[tuple[str, ir.Attribute | None]]:
    """Return the entries of a dictionary; None for a value that the bindings cannot represent.

    ``NamedAttribute.attr`` ends the process for such a value, and ``NamedAttribute.name`` for a key
    that is not UTF-8.

    Raises:
        HespasError: A key is not UTF-8.
    """
    if "\\" in (text := str(attr)):
        _check_dictionary_keys(text)
    entries: list[tuple[str, ir.Attribute | None]] = []
    for position in range(len(attr)):
        name = attr[position].name
        try:
            entries.append((name, attr[name]))
        except TypeError:
            entries.append((name, None))
    return entries


def _check_dictionary_keys(text: str) -> None:
    """Raise HespasError if a key in the text of a dictionary is not UTF-8."""
    for key in re.findall(r'"((?:[^"\\]|\\.)*)" = ', text):
        escaped = re.sub(rb"\\([0-9A-F]{2})", lambda m: bytes.fromhex(m[1].decode()), key.encode())
        try:
            escaped.decode()
        except UnicodeDecodeError:
            raise HespasError(f'the key "{key}" of a dictionary attribute is not UTF-8') from None


def to_i64_attr(value: int, context: ir.Context) -> ir.IntegerAttr:
    """Return a number as an ``i64`` attribute.

    Raises:
        HespasError: The number needs more than 64 bits.
    """
    if not -(2**63) <= value < 2**63:
        raise HespasError(f"the program has a count of {value:.3e}, more than 64 bits can hold")
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context), value)


def to_f64_attr(value: float, context: ir.Context) -> ir.FloatAttr:
    """Return a number as an ``f64`` attribute."""
    return ir.FloatAttr.get(ir.F64Type.get(context), value, ir.Location.unknown(context))


def decode_string_attr(attr: ir.Attribute) -> str:
    """Return the value of a string attribute, with replacement characters for invalid UTF-8.

    Some ``backend_config`` strings hold bytes, for which ``StringAttr.value`` fails.
    """
    return cast(ir.StringAttr, attr).value_bytes.decode(errors="replace")


def require_kind(attr: ir.Attribute, kind: type[_Kind], name: str, op: ir.Operation) -> _Kind:
    """Return an attribute that another tool has written on an op, as one of a kind.

    MLIR verifies no discardable attribute whose dialect does not do so itself.

    Raises:
        HespasError: It is of another kind.
    """
    if isinstance(attr, kind):
        return attr
    remedy = "correct it, or remove it"
    raise HespasError(f"{name} is {attr}, no {_KIND_NOUNS[kind]}", op=op, remedy=remedy)


_KIND_NOUNS: dict[type[ir.Attribute], str] = {
    ir.ArrayAttr: "array",
    ir.BoolAttr: "truth value",
    ir.DictAttr: "dictionary",
    ir.IntegerAttr: "integer",
    ir.StringAttr: "string",
}


def get_call_target(op: ir.Operation) -> str:
    """Return the target of a custom call."""
    return decode_string_attr(op.attributes["call_target_name"])


def read_frontend_text(op: ir.Operation, name: str) -> str:
    """Return a frontend attribute of an op, which a framework passes through XLA; "" if missing."""
    attributes = find_attribute(op, FRONTEND)
    if isinstance(attributes, ir.DictAttr):
        for entry, value in list_dictionary_entries(attributes):
            if entry == name and isinstance(value, ir.StringAttr):
                return decode_string_attr(value)
    return ""


def read_frontend_items(op: ir.Operation) -> dict[str, ir.Attribute]:
    """Return all frontend attributes of an op by name; {} if it has none."""
    attributes = find_attribute(op, FRONTEND)
    if not isinstance(attributes, ir.DictAttr):
        return {}
    return {name: attr for name, attr in list_dictionary_entries(attributes) if attr is not None}


def write_frontend_items(op: ir.Operation, items: Mapping[str, ir.Attribute]) -> None:
    """Replace the frontend attributes of an op by others; none leave no dictionary."""
    if items:
        op.attributes[FRONTEND] = ir.DictAttr.get(dict(items), op.context)
    elif FRONTEND in op.attributes:
        del op.attributes[FRONTEND]


def take_frontend_text(op: ir.Operation, name: str) -> str | None:
    """Remove a frontend attribute from an op, and return its text; None if it has none."""
    items = read_frontend_items(op)
    value = items.pop(name, None)
    if value is None:
        return None
    write_frontend_items(op, items)
    return decode_string_attr(value)


def get_defining_op(value: ir.Value) -> ir.Operation | None:
    """Return the op whose result a value is, or None for a block argument."""
    if isinstance(value, ir.BlockArgument):
        return None
    owner: Any = value.owner
    return owner.operation


def list_users(value: ir.Value) -> list[ir.Operation]:
    """List the ops that read a value, once for each operand that it is, the last one first."""
    return [use.owner.operation for use in value.uses]


def has_users(value: ir.Value) -> bool:
    """Return whether an op reads a value."""
    return next(iter(value.uses), None) is not None


def erase_unused(ops: Collection[ir.Operation]) -> None:
    """Erase those of some ops, from the last to the first, whose first result nothing reads."""
    for op in reversed([*ops]):
        if not has_users(op.results[0]):
            op.erase()


def has_static_shape(kind: ir.Type) -> bool:
    """Return whether a type is a ranked tensor with static shape."""
    return isinstance(kind, ir.RankedTensorType) and kind.has_static_shape


def has_private_symbol(function: ir.Operation) -> bool:
    """Return whether a symbol has private visibility."""
    attributes = function.attributes
    if "sym_visibility" not in attributes:
        return False
    return cast(ir.StringAttr, attributes["sym_visibility"]).value == "private"


def find_ops(root: ir.Operation, names: Collection[str]) -> list[ir.Operation]:
    """Find the ops in ``root`` that have one of the names, those in the regions of an op before it.

    MLIR compares the names, as those of the roots of rewrite patterns that never match. In Python
    this takes ten times as long.
    """
    ops: list[ir.Operation] = []

    def collect_op(op: ir.OpView, _: rewrite.PatternRewriter) -> bool:
        ops.append(op.operation)
        return True  # no match

    with root.context:
        patterns = rewrite.RewritePatternSet()
        for name in sorted(names):
            patterns.add(name, collect_op)
        rewrite.walk_and_apply_patterns(root, patterns.freeze())
    return ops


def select_ops(root: ir.Operation, is_wanted: Callable[[ir.Operation], bool]) -> list[ir.Operation]:
    """Select the ops in ``root`` that fulfil a condition, in the order of ``find_ops``."""
    ops: list[ir.Operation] = []

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        if is_wanted(op):
            ops.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(visit_op)
    return ops


def walk_operations(
    op: ir.Operation | ir.OpView | ir.Module, visit: Callable[[ir.Operation], ir.WalkResult | None]
) -> None:
    """Walk like ``Operation.walk``, but raise the exceptions of ``visit``, which MLIR makes text.

    A ``visit`` that returns None goes on.
    """
    raised: list[BaseException] = []

    def visit_catching_errors(inner: ir.Operation) -> ir.WalkResult:
        try:
            return visit(inner) or ir.WalkResult.ADVANCE
        except BaseException as error:  # also of ^C
            raised.append(error)
            return ir.WalkResult.INTERRUPT

    op.operation.walk(visit_catching_errors)
    if raised:
        raise raised[0]


def deserialize_portable_artifact(context: ir.Context, data: bytes) -> ir.Module:
    """Return the StableHLO module in a portable artifact (VHLO bytecode)."""
    return stablehlo.deserialize_portable_artifact(context, data)


def hlo_text_to_proto(text: str) -> bytes:
    """Convert HLO text to a serialised HloModuleProto.

    Raises:
        RuntimeError: XLA cannot parse the text.
    """
    # The import takes 0.1 s, and few inputs need it.
    from jaxlib import _hlo

    return _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()


def hlo_proto_to_stablehlo(proto: bytes) -> bytes:
    """Convert a serialised HloModuleProto to StableHLO bytecode.

    This is XLA's importer. ``passes/compile/hlo_to_stablehlo.py`` keeps what it loses.

    Raises:
        RuntimeError: XLA cannot convert it.
        ValueError: The protobuf is damaged.
    """
    from jaxlib import _jax

    return _jax.mlir.hlo_to_stablehlo(proto)


def refine_dynamic_shapes(module: ir.Module, types: list[str]) -> ir.Module:
    """Return a module with static shapes for these argument types, its shape assertions checked.

    ``module`` is modified and must not be used afterwards.

    Raises:
        RuntimeError: The types do not fit the module.
    """
    from jaxlib import _jax

    register_passes()
    refine = f"builtin.module(stablehlo-refine-arguments{{types={','.join(types)}}})"
    PassManager.parse(refine, module.context).run(module.operation)
    refined = _jax.mlir.refine_polymorphic_shapes(to_mlir_bytecode(module))
    return ir.Module.parse(refined, module.context)


def to_mlir_bytecode(module: ir.Module | ir.Operation, version: int | None = None) -> bytes:
    """Serialise a module or a function to MLIR bytecode, including locations.

    Raises ValueError for a version that MLIR cannot write; by default it is the newest.
    """
    import io

    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer, version)
    return buffer.getvalue()


def create_before(
    place: ir.Operation,
    name: str,
    operands: Iterable[ir.Value],
    results: Iterable[ir.Type],
    attributes: Mapping[str, ir.Attribute],
    regions: int = 0,
) -> ir.Operation:
    """Create an op before another one, with its location."""
    return ir.Operation.create(
        name,
        results=list(results),
        operands=list(operands),
        attributes=dict(attributes),
        regions=regions,
        loc=place.location,
        ip=ir.InsertionPoint(place),
    )


def replace_results(op: ir.Operation, values: Iterable[ir.Value]) -> None:
    """Let what reads the results of an op read other values, and erase the op."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    op.erase()


def replace_tuple(op: ir.Operation, values: Sequence[ir.Value]) -> None:
    """Let what reads the elements of an op's tuple read values, and erase the op."""
    for element in list_users(op.results[0]):
        replace_results(element, [values[get_attribute(element, "index").value]])
    op.erase()


def replace_op(op: ir.Operation, name: str, attributes: Mapping[str, ir.Attribute]) -> None:
    """Replace an op by one of another name with its operands, results and location."""
    new = create_before(op, name, op.operands, op.results.types, attributes)
    replace_results(op, new.results)


def replace_module_body(module: ir.Module, new: ir.Module) -> None:
    """Replace the ops of ``module`` by those of ``new``; the attributes of ``module`` stay."""
    for op in list(module.body.operations):
        op.operation.erase()
    for op in list(new.body.operations):
        module.body.append(op)


def clone_module(module: ir.Module) -> ir.Module:
    """Return a copy of a module in the same context.

    Attributes of the module that the bindings cannot represent are not copied.
    """
    new = ir.Module.create(module.operation.location)
    for name in module.operation.attributes:
        attr = find_attribute(module.operation, name)
        if attr is not None:
            new.operation.attributes[name] = attr
    for op in module.body.operations:
        new.body.append(op.operation.clone())
    return new
