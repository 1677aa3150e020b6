"""Dialects that an IRDL file defines, for ops that the bindings do not know.

The bindings of jaxlib cannot load IRDL. Their ops are therefore read as unregistered ones, xDSL
parses the file, and this module verifies ops, types and attributes by MLIR's rules
(mlir/lib/Dialect/IRDL/IRDLVerifiers.cpp): a constraint holds for one attribute, so that all that it
is used for in one op must be equal.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.dialects.irdl import IRDL, irdl
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from hespas.dialects.mlir import (
    accepts_unregistered_ops,
    find_attribute,
    ir,
    list_dictionary_entries,
    read_properties,
    walk_operations,
)
from hespas.passes.pipeline import PassInstrumentation
from hespas.support.data_files import read_file_bytes
from hespas.support.errors import HespasError, extract_first_line
from hespas.support.suggestions import suggest_nearest

SINGLE, OPTIONAL = irdl.VariadicityEnum.SINGLE, irdl.VariadicityEnum.OPTIONAL
KNOWN = (
    irdl.AllOfOp, irdl.AnyOfOp, irdl.AnyOp, irdl.AttributesOp, irdl.BaseOp, irdl.IsOp,
    irdl.OperandsOp, irdl.ParametersOp, irdl.ParametricOp, irdl.RegionOp, irdl.RegionsOp,
    irdl.ResultsOp,
)  # fmt: skip
SIGILS = {irdl.TypeOp: "!", irdl.AttributeOp: "#", irdl.OperationOp: ""}
# MLIR's names of builtin types and attributes whose text is not their name.
BUILTIN = {
    "!builtin.complex": ir.ComplexType,
    "!builtin.function": ir.FunctionType,
    "!builtin.integer": ir.IntegerType,
    "!builtin.memref": ir.MemRefType,
    "!builtin.tensor": ir.RankedTensorType,
    "!builtin.tuple": ir.TupleType,
    "!builtin.unranked_memref": ir.UnrankedMemRefType,
    "!builtin.unranked_tensor": ir.UnrankedTensorType,
    "!builtin.vector": ir.VectorType,
    "#builtin.affine_map": ir.AffineMapAttr,
    "#builtin.array": ir.ArrayAttr,
    "#builtin.dense_array": (
        ir.DenseBoolArrayAttr, ir.DenseI8ArrayAttr, ir.DenseI16ArrayAttr, ir.DenseI32ArrayAttr,
        ir.DenseI64ArrayAttr, ir.DenseF32ArrayAttr, ir.DenseF64ArrayAttr,
    ),
    "#builtin.dense_intorfp_elements": ir.DenseElementsAttr,
    "#builtin.dense_resource_elements": ir.DenseResourceElementsAttr,
    "#builtin.dictionary": ir.DictAttr,
    "#builtin.float": ir.FloatAttr,
    "#builtin.integer": (ir.IntegerAttr, ir.BoolAttr),
    "#builtin.integer_set": ir.IntegerSetAttr,
    "#builtin.strided_layout": ir.StridedLayoutAttr,
    "#builtin.string": ir.StringAttr,
    "#builtin.symbol_ref": (ir.SymbolRefAttr, ir.FlatSymbolRefAttr),
    "#builtin.type": ir.TypeAttr,
    "#builtin.unit": ir.UnitAttr,
}  # fmt: skip
SCALAR = re.compile(r"!builtin\.(b?f\d+\w*|tf32|index|none)")
DEFINE_REMEDY = "define the ops in an irdl.dialect"
UNKNOWN_REMEDY = "define it in an IRDL file, or read it with --allow-unregistered-dialect"
NAME = re.compile(r"([!#][\w.$-]+)(<?)")
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|->|[<(\[{]|[>)\]}]|,')


@dataclass(frozen=True)
class _Definition:
    """The definition of an op, a type or an attribute.

    Attributes:
        name: The full name, of a type with ``!`` and of an attribute with ``#`` before it.
        path: The file.
        parts: What it says of operands, results, attributes, regions and parameters, by the name of
            IRDL's op.
        bases: The constraints that name types and attributes.
    """

    name: str
    path: str
    parts: Mapping[str, Any]
    bases: Sequence[Any]


@dataclass(frozen=True)
class IrdlDialects(PassInstrumentation):
    """The dialects of IRDL files: their definitions by name.

    Among the instrumentation of a pipeline it verifies what passes leave.
    """

    definitions: Mapping[str, _Definition]

    @functools.cached_property
    def _uses(self) -> re.Pattern[str]:
        """The pattern of a string, or of the name of a type or attribute of these dialects."""
        names = {name.lstrip("!#").partition(".")[0] for name in self.definitions}
        return re.compile(rf'"(?:[^"\\]|\\.)*"|[!#](?:{"|".join(names)})\.[\w.$-]+')

    def verify_module(self, module: ir.Module) -> None:
        """Verify what a module has of these dialects, and that each other op is known.

        Raises:
            HespasError: An op, a type or an attribute is not as its definition says, or an op has
                none, and ops of unknown dialects are not accepted.
        """
        verified: set[str] = set()

        def verify_op(op: ir.Operation) -> ir.WalkResult:
            attributes = dict(_list_attributes(op))
            definition = self.definitions.get(op.name)
            if definition is not None:
                _OpVerification(self, op, attributes).verify(definition)
            elif not accepts_unregistered_ops() and not op.context.is_registered_operation(op.name):
                raise HespasError("the op is of an unknown dialect", op=op, remedy=UNKNOWN_REMEDY)
            arguments = [
                arg for region in op.regions for block in region for arg in block.arguments
            ]
            types = [str(value.type) for value in (*op.results, *arguments)]
            for text in {*types, *map(str, attributes.values())} - verified:
                self._verify_uses(text, op)
                verified.add(text)
            return ir.WalkResult.ADVANCE

        walk_operations(module.operation, verify_op)

    def _verify_uses(self, text: str, op: ir.Operation) -> None:
        """Verify the types and attributes of these dialects in the text of an attribute."""
        for match in self._uses.finditer(text):
            if match[0].startswith('"'):
                continue
            definition = self.definitions.get(match[0])
            if definition is None:
                raise HespasError(f"no IRDL file defines {match[0]}", op=op)
            parts = definition.parts.get("irdl.parameters")
            constraints = parts.args if parts else ()
            parameters = _read_parameters(text[match.start() :])
            reason = _Assignment(self, op.context).explain_all(constraints, parameters)
            if reason:
                raise HespasError(f"{match[0]}: {reason}", op=op)

    def find_base(self, op: Any) -> str | None:
        """Return the name with ``!`` or ``#`` that a constraint refers to; None if it is none."""
        reference = _get_base(op)
        if isinstance(reference, builtin.StringAttr):
            name = reference.data
            is_foreign = NAME.fullmatch(name) and not name[1:].startswith("builtin.")
            return name if is_foreign or name in BUILTIN or SCALAR.fullmatch(name) else None
        name = ".".join(
            each.data for each in (reference.root_reference, *reference.nested_references)
        )
        return next((key for sigil in "!#" if (key := sigil + name) in self.definitions), None)


@dataclass(frozen=True)
class _Assignment:
    """The attributes that the constraints of a definition hold for, in one op or attribute."""

    dialects: IrdlDialects
    context: ir.Context
    attributes: dict[SSAValue, ir.Attribute] = field(default_factory=dict)

    def explain(self, constraint: SSAValue, attr: ir.Attribute) -> str:
        """Return why an attribute does not satisfy a constraint; "" if it does."""
        known = self.attributes.get(constraint)
        if known is not None:
            return "" if known == attr else f"{attr} is not {known}"
        reason = self._explain_first(constraint.owner, attr)
        if not reason:
            self.attributes[constraint] = attr
        return reason

    def _explain_first(self, op: Any, attr: ir.Attribute) -> str:
        if isinstance(op, irdl.IsOp):
            is_equal = attr == ir.Attribute.parse(str(op.expected), self.context)
            return "" if is_equal else f"{attr} is not {op.expected}"
        if isinstance(op, irdl.AllOfOp):
            return next(filter(None, (self.explain(each, attr) for each in op.args)), "")
        if isinstance(op, irdl.AnyOfOp):
            reasons = []
            for each in op.args:
                reasons.append(self.explain(each, attr))
                if not reasons[-1]:
                    return ""
            return " and ".join(reasons)
        if isinstance(op, irdl.BaseOp | irdl.ParametricOp):
            base = self.dialects.find_base(op)
            if not _has_base(attr, base or ""):
                return f"{attr} is no {base}"
            if isinstance(op, irdl.ParametricOp):
                return self.explain_all(op.args, _read_parameters(str(attr)))
        return ""

    def explain_all(self, constraints: Sequence[SSAValue], parameters: Sequence[str]) -> str:
        if len(constraints) != len(parameters):
            return f"it has {len(parameters)} parameters, and its definition {len(constraints)}"
        attributes = [ir.Attribute.parse(text, self.context) for text in parameters]
        pairs = zip(constraints, attributes, strict=True)
        return next(filter(None, (self.explain(each, attr) for each, attr in pairs)), "")


@dataclass(frozen=True)
class _OpVerification:
    """Verifies an op by its definition; the methods raise HespasError."""

    dialects: IrdlDialects
    op: ir.Operation
    attributes: Mapping[str, ir.Attribute]

    def verify(self, definition: _Definition) -> None:
        op, parts = self.op, definition.parts
        assignment = _Assignment(self.dialects, op.context)
        for kind, values in (("operand", op.operands), ("result", op.results)):
            groups = self._divide(kind, parts.get(f"irdl.{kind}s"), len(values))
            for (name, constraint), value in zip(groups, values, strict=True):
                self._check(f"{kind} {name}", assignment.explain(constraint, _to_attr(value.type)))
        attributes = parts.get("irdl.attributes")
        if attributes:
            names = attributes.attribute_value_names
            for name, constraint in zip(names, attributes.attribute_values, strict=True):
                attr = self.attributes.get(name.data)
                if attr is None:
                    self._check(f"attribute {name.data}", "it is missing")
                else:
                    self._check(f"attribute {name.data}", assignment.explain(constraint, attr))
        regions = parts.get("irdl.regions")
        constraints = regions.args if regions else ()
        self._check_count("region", len(constraints), len(op.regions))
        for region, constraint in zip(op.regions, constraints, strict=True):
            self._verify_region(region, constraint.owner, assignment)

    def _verify_region(self, region: ir.Region, spec: Any, assignment: _Assignment) -> None:
        blocks = list(region.blocks)
        if spec.number_of_blocks is not None:
            self._check_count("block", spec.number_of_blocks.value.data, len(blocks))
        if spec.constrained_arguments is not None:
            arguments = list(blocks[0].arguments) if blocks else []
            self._check_count("block argument", len(spec.entry_block_args), len(arguments))
            for argument, each in zip(arguments, spec.entry_block_args, strict=True):
                reason = assignment.explain(each, _to_attr(argument.type))
                self._check(f"block argument {argument.arg_number}", reason)

    def _divide(self, kind: str, spec: Any, count: int) -> list[tuple[str, SSAValue]]:
        """Return the name and the constraint of each operand or result."""
        kinds = [each.data for each in spec.variadicity.value] if spec else []
        flexible = sum(each is not SINGLE for each in kinds)
        if flexible > 1:
            attr = self.attributes.get(f"{kind}SegmentSizes")
            if not isinstance(attr, ir.DenseI32ArrayAttr):
                self._check(f"attribute {kind}SegmentSizes", "it is missing, or no array<i32>")
            sizes = list(attr)  # type: ignore[arg-type]
            self._check_count("segment size", len(kinds), len(sizes))
        else:
            rest = max(count - len(kinds) + flexible, 0)
            sizes = [1 if each is SINGLE else rest for each in kinds]
        for each, size in zip(kinds, sizes, strict=True):
            if size < 0 or (each is SINGLE and size != 1) or (each is OPTIONAL and size > 1):
                self._check(f"{kind}s", f"a group that is {each} has {size}")
        self._check_count(kind, sum(sizes), count)
        names = [each.data for each in spec.names] if spec else []
        groups = zip(names, spec.args if spec else (), sizes, strict=True)
        return [(name, constraint) for name, constraint, size in groups for _ in range(size)]

    def _check_count(self, kind: str, expected: int, count: int) -> None:
        self._check(
            f"number of {kind}s", f"{count} instead of {expected}" if count != expected else ""
        )

    def _check(self, what: str, reason: str) -> None:
        if reason:
            raise HespasError(f"{what}: {reason}", op=self.op)


def _list_attributes(op: ir.Operation) -> Iterator[tuple[str, ir.Attribute]]:
    """Yield the properties and attributes that the bindings can represent."""
    is_registered = op.context.is_registered_operation(op.name)
    properties = [] if is_registered else list_dictionary_entries(read_properties(op))
    for name, attr in (*properties, *((name, find_attribute(op, name)) for name in op.attributes)):
        if attr is not None:
            yield name, attr


def _to_attr(type_: ir.Type) -> ir.Attribute:
    return ir.TypeAttr.get(type_, type_.context)


def _has_base(attr: ir.Attribute, base: str) -> bool:
    """Return whether an attribute or type is one of a name, whatever its parameters are."""
    if base in BUILTIN:
        value: Any = attr.value if base[0] == "!" and isinstance(attr, ir.TypeAttr) else attr
        return isinstance(value, BUILTIN[base])  # type: ignore[arg-type]
    if SCALAR.fullmatch(base):
        return str(attr) == base.removeprefix("!builtin.")
    match = NAME.match(str(attr))
    return match is not None and match[1] == base


def _read_parameters(text: str) -> list[str]:
    """Return the texts of the parameters of the attribute or type that a text begins with."""
    match = NAME.match(text)
    if match is None or not match[2]:
        return []
    depth, start, parameters = 1, match.end(), []
    for word in WORD.finditer(text, start):
        depth += (word[0] in "<([{") - (word[0] in ">)]}")
        if depth == 0 or (depth == 1 and word[0] == ","):
            parameters.append(text[start : word.start()].strip())
            start = word.end()
        if depth == 0:
            break
    return parameters


def load_irdl_dialects(paths: Sequence[str]) -> IrdlDialects:
    """Load the dialects that IRDL files define.

    Raises:
        HespasError: A file cannot be read, is not IRDL, or has a definition with an error.
    """
    definitions: dict[str, _Definition] = {}
    paths_by_dialect: dict[str, str] = {}
    dialects = IrdlDialects(definitions)
    for path in paths:
        for dialect in _parse_dialects(path):
            name = dialect.sym_name.data
            if name in paths_by_dialect:
                message = f"the dialect {name} is defined twice"
                remedy = f"leave out this file, or its definition in {paths_by_dialect[name]}"
                raise HespasError(message, where=path, remedy=remedy)
            paths_by_dialect[name] = path
            for op in _list_body(dialect):
                definition = _read_definition(name, op, path)
                if definitions.setdefault(definition.name, definition) is not definition:
                    raise HespasError(f"{definition.name} is defined twice", where=path)
    for definition in definitions.values():
        for op in definition.bases:
            if dialects.find_base(op) is None:
                message = f"{definition.name}: {op.name} {_get_base(op)} is unknown"
                remedy = (
                    'write "!builtin.NAME", "#builtin.NAME", or @DIALECT::@NAME of a definition'
                )
                raise HespasError(message, where=definition.path, remedy=remedy)
    return dialects


def _parse_dialects(path: str) -> Iterable[Any]:
    context = Context(allow_unregistered=True)  # for types of the dialects in constraints
    for dialect in (builtin.Builtin, IRDL):
        context.load_dialect(dialect)
    try:
        text = read_file_bytes(path).decode()
    except UnicodeDecodeError:
        raise HespasError("not IRDL text", where=path, remedy="bytecode is not read") from None
    try:
        module = Parser(context, text, path).parse_module()
    except ParseError as error:  # its text is the place, the line, and the message
        raise _describe_syntax_error(error, text) from None
    except VerifyException as error:
        raise HespasError(f"not IRDL: {extract_first_line(str(error))}", where=path) from None
    dialects = [op for op in module.ops if isinstance(op, irdl.DialectOp)]
    if not dialects:
        raise HespasError("the file defines no dialect", where=path, remedy=DEFINE_REMEDY)
    return dialects


def _describe_syntax_error(error: ParseError, text: str) -> HespasError:
    """Return the error of a text that is not IRDL, at the name that it is about."""
    where, message = extract_first_line(str(error)), error.msg.rstrip(".")
    remedy = "" if "irdl.dialect" in text else DEFINE_REMEDY
    undefined = re.search(r"used but not defined: \[(%[\w.$-]+)", message)
    path, line, column = where.rsplit(":", 2)
    before = text.split("\n")[int(line) - 1][: int(column) - 1]
    unknown = re.search(r"[\w.$-]+\s*$", before)
    if undefined:
        use = re.search(rf"{re.escape(undefined[1])}(?![\w.$-])", text)
        start = use.start() if use else 0
        where = (
            f"{path}:{text.count(chr(10), 0, start) + 1}:{start - text.rfind(chr(10), 0, start)}"
        )
        message = f"the constraint {undefined[1]} is not defined"
    elif "builtin.unregistered" in message and unknown:
        name = unknown[0].strip()
        where = f"{path}:{line}:{unknown.start() + 1}"
        message = f"there is no op '{name}'"
        remedy = remedy or suggest_nearest(name, [op.name for op in IRDL.operations])
    return HespasError(f"not IRDL: {message}", where=where, remedy=remedy)


def _get_base(op: Any) -> builtin.SymbolRefAttr | builtin.StringAttr:
    """Return what a constraint refers to."""
    base: builtin.SymbolRefAttr | builtin.StringAttr
    base = op.base_type if isinstance(op, irdl.ParametricOp) else op.base_ref or op.base_name
    return base


def _list_body(op: Any) -> list[Any]:
    return [inner for block in op.body.blocks for inner in block.ops]


def _read_definition(dialect: str, op: Any, path: str) -> _Definition:
    """Read the definition of an op, type or attribute; raises HespasError if it has an error."""
    sigil = SIGILS.get(type(op))
    if sigil is None:
        message = f"the dialect {dialect} has {op.name}, which defines no op, type or attribute"
        raise HespasError(message, where=path)
    definition = _Definition(f"{sigil}{dialect}.{op.sym_name.data}", path, parts := {}, bases := [])
    constraints: set[SSAValue] = set()
    for inner in _list_body(op):
        problem = remedy = ""
        if not constraints.issuperset(inner.operands):
            problem = f"{inner.name} uses a constraint that is defined after it"
        elif not isinstance(inner, KNOWN):
            problem = f"{inner.name} cannot be verified"
            remedy = "read the ops with --allow-unregistered-dialect, which verifies nothing"
        elif isinstance(inner, irdl.BaseOp | irdl.ParametricOp):
            bases.append(inner)
        elif not inner.results:
            names = getattr(inner, "names" if hasattr(inner, "names") else "attribute_value_names")
            if len({*names}) < len(names):
                problem = f"{inner.name} has a name twice"
            elif parts.setdefault(inner.name, inner) is not inner:
                problem = f"there are two {inner.name}"
        if problem:
            raise HespasError(f"{definition.name}: {problem}", where=path, remedy=remedy)
        constraints.update(inner.results)
    return definition
