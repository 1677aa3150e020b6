"""The MLIR bindings: with ``xla.py`` the one module that touches jaxlib's private names.

``test/unit/test_bindings.py`` is the contract: it fails when a jaxlib release moves one of them.
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, func, mhlo, mpmd, sdy, stablehlo
from jaxlib.mlir.passmanager import PassManager

from hespas.dialects.attrs import TRIPS

__all__ = [
    "AxisGroups",
    "MeshShape",
    "PassManager",
    "capture_native_stderr",
    "clone_module",
    "collect_func_calls",
    "collect_functions",
    "collect_meshes",
    "decode_string_attr",
    "deserialize_portable_artifact",
    "func",
    "get_attribute",
    "get_call_target",
    "get_defining_op",
    "get_symbol_name",
    "has_private_symbol",
    "hlo_proto_to_stablehlo",
    "hlo_text_to_proto",
    "ir",
    "make_context",
    "read_axis_groups",
    "read_mesh_shape",
    "refine_dynamic_shapes",
    "register_passes",
    "replace_module_body",
    "run_xla_cost_analysis",
    "stablehlo",
    "to_canonical_text",
    "to_f64_attr",
    "to_i64_attr",
    "walk_operations",
]


def make_context() -> ir.Context:
    """A context with func, stablehlo, chlo, vhlo, mhlo, sdy, mpmd and upstream MLIR."""
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (sdy, mpmd, chlo, stablehlo):
        dialect.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    return context


_passes_registered = False


def register_passes() -> None:
    """Make the native passes (canonicalize, stablehlo-*, sdy-*, ...) known to ``PassManager``."""
    global _passes_registered
    if not _passes_registered:
        stablehlo.register_stablehlo_passes()
        mhlo.register_mhlo_passes()
        _passes_registered = True


@contextlib.contextmanager
def capture_native_stderr() -> Iterator[list[str]]:
    """Keeps what native code prints off the standard error; yields its lines, full at the end."""
    lines: list[str] = []
    try:
        saved = os.dup(2)
    except OSError:  # closed
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


def collect_functions(module: ir.Module) -> dict[str, ir.Operation]:
    """The module's ``func.func`` ops by symbol name, in order."""
    return _collect_symbol_ops(module, "func.func")


def collect_meshes(module: ir.Module) -> dict[str, ir.Operation]:
    """The module's ``sdy.mesh`` ops by symbol name."""
    return _collect_symbol_ops(module, "sdy.mesh")


def _collect_symbol_ops(module: ir.Module, kind: str) -> dict[str, ir.Operation]:
    return {
        get_symbol_name(op.operation): op.operation
        for op in module.body.operations
        if op.operation.name == kind
    }


def get_symbol_name(op: ir.Operation) -> str:
    """The symbol name of a function."""
    return cast(ir.StringAttr, op.attributes["sym_name"]).value


def get_attribute(op: ir.Operation, name: str) -> Any:
    """The attribute of that name, in its own class: the stubs know the base class only."""
    return op.attributes[name]


def to_i64_attr(value: int, context: ir.Context) -> ir.IntegerAttr:
    """The number as an ``i64`` attribute."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context), value)


def to_f64_attr(value: float, context: ir.Context) -> ir.FloatAttr:
    """The number as an ``f64`` attribute."""
    return ir.FloatAttr.get(ir.F64Type.get(context), value, ir.Location.unknown(context))


def decode_string_attr(attr: ir.Attribute) -> str:
    """The value of a string attribute; one of bytes, as of some backend_config, reads as text too.

    ``StringAttr.value`` fails for what is not UTF-8.
    """
    return cast(ir.StringAttr, attr).value_bytes.decode(errors="replace")


def get_call_target(op: ir.Operation) -> str:
    """The target of a custom call."""
    return decode_string_attr(op.attributes["call_target_name"])


def get_defining_op(value: ir.Value) -> ir.Operation | None:
    """The op that a value is the result of; None for a block argument."""
    owner: Any = value.owner
    return None if isinstance(value, ir.BlockArgument) else owner.operation


def has_private_symbol(function: ir.Operation) -> bool:
    """Whether a function is private."""
    attributes = function.attributes
    if "sym_visibility" not in attributes:
        return False
    return cast(ir.StringAttr, attributes["sym_visibility"]).value == "private"


def collect_func_calls(op: ir.Operation) -> Iterator[ir.Operation]:
    """Every ``func.call`` in ``op``, nested ones included."""
    call_ops: list[ir.Operation] = []

    def visit_op(inner: ir.Operation) -> ir.WalkResult:
        if inner.name == "func.call":
            call_ops.append(inner)
        return ir.WalkResult.ADVANCE

    op.walk(visit_op)
    yield from call_ops


def walk_operations(op: ir.Operation, visit: Callable[[ir.Operation], ir.WalkResult]) -> None:
    """``op.walk`` for a ``visit`` that may raise; MLIR's own turns its error into text."""
    raised: list[Exception] = []

    def visit_catching_errors(inner: ir.Operation) -> ir.WalkResult:
        try:
            return visit(inner)
        except Exception as error:
            raised.append(error)
            return ir.WalkResult.INTERRUPT

    op.walk(visit_catching_errors)
    if raised:
        raise raised[0]


def to_canonical_text(op: ir.Operation) -> str:
    """The op's text without operand names, locations and ``hespas.*`` attributes.

    Equal text means an equal op.

    Operands print as ``<<UNKNOWN SSA VALUE>>``, so the text names content, not position. It is
    printed from a detached clone: printing in place would number the whole parent each time.
    """
    clone = op.clone().operation
    text = cast(str, clone.get_asm(use_local_scope=True, assume_verified=True))
    if "hespas." not in text:
        return text

    def strip_hespas_attrs(inner: ir.Operation) -> ir.WalkResult:
        for name in [n for n in inner.attributes if n.startswith("hespas.") and n != TRIPS]:
            del inner.attributes[name]
        return ir.WalkResult.ADVANCE

    clone.walk(strip_hespas_attrs)
    return cast(str, clone.get_asm(use_local_scope=True, assume_verified=True))


def deserialize_portable_artifact(context: ir.Context, data: bytes) -> ir.Module:
    """The StableHLO module of a portable artifact (VHLO bytecode)."""
    return stablehlo.deserialize_portable_artifact(context, data)


def hlo_text_to_proto(text: str) -> bytes:
    """HLO text to a serialised HloModuleProto; raises RuntimeError."""
    # Imported here: it takes 0.1 s, and few inputs need it.
    from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

    return _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()


def hlo_proto_to_stablehlo(proto: bytes) -> bytes:
    """A serialised HloModuleProto to StableHLO bytecode; raises RuntimeError or ValueError."""
    from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]

    from hespas.dialects.hlo_groups import expand_mesh_axis_groups

    return _jax.mlir.hlo_to_stablehlo(expand_mesh_axis_groups(proto))


def run_xla_cost_analysis(module: ir.Module) -> dict[str, float]:
    """XLA's HloCostAnalysis of a module's entry, not compiled: 'flops', 'bytes accessed', ...

    Loop bodies are counted once. Raises RuntimeError for ops that have no HLO form. Calls
    of functions that the module lacks crash XLA: leave them out.
    """
    from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]
    from jaxlib.xla_client import make_cpu_client

    computation = _jax.mlir.mlir_module_to_xla_computation(
        str(module), use_tuple_args=False, return_tuple=False
    )
    return dict(_jax.hlo_module_cost_analysis(make_cpu_client(), computation.get_hlo_module()))


def refine_dynamic_shapes(module: ir.Module, types: list[str]) -> ir.Module:
    """A module of dynamic shapes for static argument types; checks its shape assertions.

    ``module`` is left changed and of no use. Raises RuntimeError.
    """
    import io

    from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]

    register_passes()
    refine = f"builtin.module(stablehlo-refine-arguments{{types={','.join(types)}}})"
    PassManager.parse(refine, module.context).run(module.operation)
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    refined = _jax.mlir.refine_polymorphic_shapes(buffer.getvalue())
    return ir.Module.parse(refined, module.context)


def replace_module_body(module: ir.Module, new: ir.Module) -> None:
    """Put the contents of ``new`` in place of the module's own; module attributes stay."""
    for op in list(module.body.operations):
        op.operation.erase()
    for op in list(new.body.operations):
        module.body.append(op)


def clone_module(module: ir.Module) -> ir.Module:
    """A module of the same contents in the same context."""
    new = ir.Module.create(module.operation.location)
    for name in module.operation.attributes:
        new.operation.attributes[name] = module.operation.attributes[name]
    for op in module.body.operations:
        new.body.append(op.operation.clone())
    return new


@dataclass(frozen=True)
class MeshShape:
    """A mesh: axis sizes, major first; device ids in row-major order, empty for 0, 1, 2 ..."""

    axes: dict[str, int]
    device_ids: tuple[int, ...] = ()

    @property
    def device_count(self) -> int:
        return math.prod(self.axes.values())


@dataclass(frozen=True)
class AxisGroups:
    """``#stablehlo.replica_group_mesh_axes``: a mesh or its symbol; (axis, pre-size, size or 0)."""

    mesh: MeshShape | str
    axes: tuple[tuple[str, int, int], ...]


def read_mesh_shape(mesh: ir.Operation) -> MeshShape:
    """The shape of an ``sdy.mesh``."""
    attr: Any = sdy.MeshAttr(mesh.attributes["mesh"])
    axes = {axis.name: axis.size for axis in map(sdy.MeshAxisAttr, attr.axes)}
    return MeshShape(axes, tuple(attr.device_ids))


def read_axis_groups(attr: ir.Attribute) -> AxisGroups | None:
    """``attr`` as groups by mesh axes, or None where it is of another form."""
    if not stablehlo.ReplicaGroupMeshAxesAttr.isinstance(attr):
        return None
    groups: Any = stablehlo.ReplicaGroupMeshAxesAttr(attr)
    axes = []
    for named in groups.axes:
        ref: Any = stablehlo.AxisRefAttr(named)
        part = ref.sub_axis_info
        info: Any = stablehlo.SubAxisInfoAttr(part) if part is not None else None
        axes.append((ref.name, info.pre_size, info.size) if info else (ref.name, 1, 0))
    if stablehlo.MeshAttr.isinstance(groups.mesh):
        mesh: Any = stablehlo.MeshAttr(groups.mesh)
        sizes = {axis.name: axis.size for axis in map(stablehlo.MeshAxisAttr, mesh.axes)}
        ids = tuple(mesh.device_ids) if mesh.device_ids is not None else ()
        return AxisGroups(MeshShape(sizes, ids), tuple(axes))
    return AxisGroups(groups.mesh.value, tuple(axes))
