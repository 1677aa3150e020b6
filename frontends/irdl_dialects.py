"""Dialects that an IRDL file defines, for ops that the bindings do not know.

The bindings of jaxlib cannot load IRDL. Their ops are therefore read as unregistered ones, and are
verified by xDSL, which interprets the definitions of ops. Attributes and types of such a dialect
are read as they are, and compared by name. xDSL's interpreter lacks attributes, regions, optional
and variadic operands, and constraints by name; ``_OpDefinitions`` adds them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.dialects.irdl import IRDL, irdl
from xdsl.dialects.irdl.irdl import DialectOp, OperationOp, VariadicityAttr
from xdsl.dialects.irdl.irdl_to_pyrdl import python_name
from xdsl.interpreter import Interpreter, PythonValues, impl, register_impls
from xdsl.interpreters.irdl import IRDLFunctions
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import (
    AllOf,
    AnyAttr,
    AttrConstraint,
    AttributeDef,
    EqAttrConstraint,
    OperandDef,
    OptOperandDef,
    OptResultDef,
    RegionDef,
    ResultDef,
    VarOperandDef,
    VarResultDef,
)
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from hespas.dialects.mlir import ir, list_dictionary_entries, read_properties, walk_operations
from hespas.dialects.xdsl_native import NATIVE
from hespas.support.errors import HespasError, extract_first_line

OPERAND_DEFS = {
    VariadicityAttr.SINGLE: OperandDef,
    VariadicityAttr.OPTIONAL: OptOperandDef,
    VariadicityAttr.VARIADIC: VarOperandDef,
}
RESULT_DEFS = {
    VariadicityAttr.SINGLE: ResultDef,
    VariadicityAttr.OPTIONAL: OptResultDef,
    VariadicityAttr.VARIADIC: VarResultDef,
}


@dataclass(frozen=True)
class _NameConstraint(AttrConstraint[Attribute]):
    """Constrain an attribute or type to one with a name, whatever its parameters are."""

    name: str

    def verify(self, attr: Attribute, constraint_context: Any) -> None:
        # What xDSL does not know stays an object of MLIR, whose text begins with its name.
        text = str(attr.data) if isinstance(attr, NATIVE) else attr.name
        found = re.match(r"[!#]?([\w.$-]+)", text)
        if found is None or found[1] != self.name:
            raise VerifyException(f"{text} is no {self.name}")

    def mapping_type_vars(self, type_var_mapping: Any) -> _NameConstraint:
        return self


@register_impls
class _OpDefinitions(IRDLFunctions):
    """Interprets what xDSL leaves out of the definition of an op."""

    def _find_op_def(self, interpreter: Interpreter, op: Any) -> Any:
        return self._get_op_def(interpreter, op.parent_op().qualified_name)

    def _list_value_defs(self, op: Any, args: PythonValues, kinds: Any) -> list[tuple[str, Any]]:
        variadicity = [each.data for each in op.variadicity.value]
        if sum(each != VariadicityAttr.SINGLE.data for each in variadicity) > 1:
            return [("values", kinds[VariadicityAttr.VARIADIC](AnyAttr()))]
        return [
            (python_name(name.data), kinds[each](constraint))
            for name, each, constraint in zip(op.names, op.variadicity.value, args, strict=True)
        ]

    def _share(self, interpreter: Interpreter, op: Any, constraint: Any) -> Any:
        """Return a constraint whose uses must all hold for one attribute, if it has several."""
        if op.output.has_more_than_one_use():
            return self.variable_wrap(interpreter, constraint)
        return constraint

    @impl(irdl.OperandsOp)
    def run_operands(self, interpreter: Interpreter, op: Any, args: PythonValues) -> PythonValues:
        values = self._list_value_defs(op, args, OPERAND_DEFS)
        self._find_op_def(interpreter, op).operands = values
        return ()

    @impl(irdl.ResultsOp)
    def run_results(self, interpreter: Interpreter, op: Any, args: PythonValues) -> PythonValues:
        values = self._list_value_defs(op, args, RESULT_DEFS)
        self._find_op_def(interpreter, op).results = values
        return ()

    @impl(irdl.AttributesOp)
    def run_attributes(self, interpreter: Interpreter, op: Any, args: PythonValues) -> PythonValues:
        names = [name.data for name in op.attribute_value_names]
        attributes = self._find_op_def(interpreter, op).attributes
        attributes |= {name: AttributeDef(each) for name, each in zip(names, args, strict=True)}
        return ()

    @impl(irdl.RegionOp)
    def run_region(self, interpreter: Interpreter, op: Any, args: PythonValues) -> PythonValues:
        return (RegionDef(),)

    @impl(irdl.RegionsOp)
    def run_regions(self, interpreter: Interpreter, op: Any, args: PythonValues) -> PythonValues:
        names = [python_name(name.data) for name in op.names]
        self._find_op_def(interpreter, op).regions = list(zip(names, args, strict=True))
        return ()

    @impl(irdl.IsOp)
    def run_is(self, interpreter: Interpreter, op: Any, args: PythonValues) -> PythonValues:
        is_foreign = isinstance(op.expected, builtin.UnregisteredAttr)
        name = op.expected.attr_name.data if is_foreign else ""
        constraint = _NameConstraint(name) if is_foreign else EqAttrConstraint(op.expected)
        return (self._share(interpreter, op, constraint),)

    @impl(irdl.BaseOp)
    def run_base(self, interpreter: Interpreter, op: Any, args: PythonValues) -> PythonValues:
        name = op.base_name.data.lstrip("!#") if op.base_name else _format_symbol(op.base_ref)
        # xDSL's names of builtin types and attributes are not MLIR's.
        constraint = AnyAttr() if name.startswith("builtin.") else _NameConstraint(name)
        return (self._share(interpreter, op, constraint),)

    @impl(irdl.ParametricOp)
    def run_parametric(self, interpreter: Interpreter, op: Any, args: PythonValues) -> PythonValues:
        constraint = _NameConstraint(_format_symbol(op.base_type))
        return (self._share(interpreter, op, constraint),)

    @impl(irdl.AllOfOp)
    def run_all_of(self, interpreter: Interpreter, op: Any, args: PythonValues) -> PythonValues:
        return (self._share(interpreter, op, AllOf(tuple(args))),)


def _format_symbol(reference: builtin.SymbolRefAttr) -> str:
    """Return the name ``dialect.type`` that ``@dialect::@type`` refers to."""
    return ".".join(each.data for each in (reference.root_reference, *reference.nested_references))


def _interpret_dialect(module: builtin.ModuleOp, op: DialectOp) -> Dialect:
    interpreter = Interpreter(module)
    interpreter.register_implementations(_OpDefinitions())
    interpreter.run_op(op, ())
    return IRDLFunctions.get_dialect(interpreter, op.sym_name.data)


@dataclass(frozen=True)
class IrdlDialects:
    """The dialects of IRDL files.

    Attributes:
        dialects: xDSL's form of them.
        op_names: The full names of their ops.
    """

    dialects: tuple[Dialect, ...]
    op_names: frozenset[str]

    def verify_module(self, module: ir.Module) -> None:
        """Verify the ops of these dialects in a module. Raises HespasError."""
        from hespas.dialects.xdsl_bridge import to_xdsl_attribute, to_xdsl_module

        context = Context(allow_unregistered=True)
        for dialect in (builtin.Builtin, *self.dialects):
            context.load_dialect(dialect)
        # Both modules list their ops in the same order.
        copies = list(to_xdsl_module(module, context).walk())
        for op, copy in zip(_list_ops(module.operation), copies, strict=True):
            if op.name in self.op_names:
                properties = list_dictionary_entries(read_properties(op))
                attributes = {
                    name: to_xdsl_attribute(attr, context)
                    for name, attr in properties
                    if attr is not None
                }
                defined = _build_defined_op(copy, context.get_op(op.name), attributes)
                try:
                    defined.verify(verify_nested_ops=False)
                except VerifyException as error:
                    raise HespasError(extract_first_line(str(error)), op=op) from None

    def check_known_ops(self, module: ir.Module) -> None:
        """Raise HespasError for an op that neither the bindings nor the files define."""

        def check_op(op: ir.Operation) -> ir.WalkResult:
            name = op.name
            if name not in self.op_names and not op.context.is_registered_operation(name):
                raise HespasError(
                    "the op is of an unknown dialect",
                    op=op,
                    remedy="define it in an IRDL file, or read it with "
                    "--allow-unregistered-dialect",
                )
            return ir.WalkResult.ADVANCE

        walk_operations(module.operation, check_op)


def _list_ops(root: ir.Operation) -> list[ir.Operation]:
    ops: list[ir.Operation] = []

    def collect_op(op: ir.Operation) -> ir.WalkResult:
        ops.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(collect_op, ir.WalkOrder.PRE_ORDER)
    return ops


def _build_defined_op(
    copy: Operation, definition: type[Operation], properties: dict[str, Attribute]
) -> Operation:
    """Build an op of a class; types that xDSL does not know make the copy an unregistered op."""
    return definition.create(
        operands=list(copy.operands),
        result_types=[result.type for result in copy.results],
        attributes=properties | copy.properties | copy.attributes,
        successors=list(copy.successors),
        regions=[copy.detach_region(region) for region in list(copy.regions)],
    )


def load_irdl_dialects(paths: Sequence[str]) -> IrdlDialects:
    """Load the dialects that IRDL files define.

    Raises:
        HespasError: A file cannot be read, or is not IRDL that xDSL knows.
    """
    dialects: list[Dialect] = []
    names: set[str] = set()
    paths_by_name: dict[str, str] = {}
    for path in paths:
        context = Context(allow_unregistered=True)  # for types of the dialects in constraints
        for dialect in (builtin.Builtin, IRDL):
            context.load_dialect(dialect)
        try:
            module = Parser(context, Path(path).read_text(), path).parse_module()
        except OSError as error:
            raise HespasError(f"cannot read it: {error.strerror}", where=path) from None
        except ParseError as error:  # its text is the place, the line, and the message
            place = extract_first_line(str(error))
            raise HespasError(
                f"not IRDL: {error.msg.rstrip('.')}",
                where=place,
                remedy="define the ops in an irdl.dialect",
            ) from None
        except (UnicodeDecodeError, VerifyException) as error:
            raise HespasError(f"not IRDL: {extract_first_line(str(error))}", where=path) from None
        for op in module.ops:
            if not isinstance(op, DialectOp):
                continue
            known = paths_by_name.setdefault(op.sym_name.data, path)
            if any(each.name == op.sym_name.data for each in dialects):
                message = f"the dialect {op.sym_name.data} is defined twice"
                remedy = f"leave out this file, or its definition in {known}"
                raise HespasError(message, where=path, remedy=remedy)
            for inner in list(op.body.block.ops):
                if isinstance(inner, OperationOp):
                    names.add(f"{op.sym_name.data}.{inner.sym_name.data}")
                else:  # xDSL does not interpret definitions of attributes
                    inner.detach()
            try:
                dialects.append(_interpret_dialect(module, op))
            except Exception as error:  # xDSL has no error of its own for what it cannot interpret
                reason = extract_first_line(str(error))
                raise HespasError(
                    f"xDSL cannot interpret it: {reason}",
                    where=path,
                    remedy="read the ops with --allow-unregistered-dialect, which verifies nothing",
                ) from None
    return IrdlDialects(tuple(dialects), frozenset(names))
