"""What the cost of an op depends on: its content, which is equal for ops of equal costs.

The content of an op is its name, the attributes that count, the types of its operands and results,
its bodies with the flow of values between their ops, and the functions that it refers to; of a sort
with positions (``rules.stable_sorts``) also whether they are read. Names of values, locations and
all other attributes are no part of it. These attributes count:

- inherent attributes: those that the definition of the op declares;
- discardable attributes that its cost rule declares (``CostRule.discardable_attributes``);
- ``COST_INPUTS`` of hespas;
- of an unregistered op and of a custom call, whose definition declares nothing, all attributes but
  the other ones of hespas, and the properties of an unregistered op.

An attribute that equals its absence, because its value is the default, is no part of it either.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from hespas.dialects.attrs import (
    BRANCH,
    RECOMPUTED,
    RECOMPUTED_KERNEL,
    RECOMPUTED_ORIGIN,
    TRIPS,
    TRIPS_NOTE,
    CompilerEstimateAttr,
    Cost,
    KernelCostAttr,
    OnChipAttr,
)
from hespas.dialects.mlir import (
    FRONTEND,
    cache_ir_function,
    find_attribute,
    has_users,
    ir,
    list_dictionary_entries,
    read_properties,
)
from hespas.dialects.op_bodies import has_body
from hespas.dialects.op_kinds import CONSTANTS, CUSTOM_CALLS, LOOPS
from hespas.dialects.resources import format_elements
from hespas.estimators.rules.registry import STABLEHLO_DIALECTS, has_installed_rule
from hespas.estimators.rules.stable_sorts import list_unread_positions, may_have_positions
from hespas.estimators.work import find_cost_rule
from hespas.support.records import record

COST_INPUTS = frozenset(
    (TRIPS, TRIPS_NOTE, BRANCH, KernelCostAttr.NAME, CompilerEstimateAttr.NAME, OnChipAttr.NAME)
)

# Patterns of values that equal the absence of the attribute, by the name of the op without dialect.
# MLIR's text leaves some of them out, and portable artifacts all (VhloLegalizeToStablehlo.cpp).
_EMPTY, _ONES, _FALSE = "dense<>.*", "dense<1?>.*", "false"
_PRECISION = {"precision_config": r"\[(<precision DEFAULT>(, )?)*\]"}
_WINDOWS = {
    "base_dilations": _ONES,
    "lhs_dilation": _ONES,
    "padding": "dense<0?>.*",
    "rhs_dilation": _ONES,
    "window_dilations": _ONES,
    "window_reversal": "dense<(false)?>.*",
    "window_strides": _ONES,
}
_LOOKUPS = {"indices_are_sorted": _FALSE, "unique_indices": _FALSE}
_TRANSFERS = {"is_host_transfer": _FALSE, "source_target_pairs": _EMPTY}
_DEFAULTS = {
    "cholesky": {"lower": _FALSE},
    "compare": {"compare_type": "<comparison_type NOTYPE>"},
    "composite": {"composite_attributes": r"\{\}", "version": "0 : i32"},
    "convolution": {**_WINDOWS, **_PRECISION},
    "custom_call": {
        "api_version": "1 : i32",
        "backend_config": '""',
        "called_computations": r"\[\]",
        "custom_call_schedule": "<custom_call_schedule NONE>",
        "has_side_effect": _FALSE,
        "operand_layouts": r"\[\]",
        "output_operand_aliases": r"\[\]",
        "result_layouts": r"\[\]",
    },
    "dot": _PRECISION,
    "dot_general": _PRECISION,
    "dynamic_broadcast_in_dim": {
        "known_expanding_dimensions": _EMPTY,
        "known_nonexpanding_dimensions": _EMPTY,
    },
    "dynamic_conv": {**_WINDOWS, **_PRECISION},
    "dynamic_gather": _LOOKUPS,
    "gather": _LOOKUPS,
    "infeed": {"infeed_config": '""', "layout": r"\[\]"},
    "outfeed": {"outfeed_config": '""'},
    "recv": _TRANSFERS,
    "reduce_window": _WINDOWS,
    "scatter": _LOOKUPS,
    "select_and_scatter": _WINDOWS,
    "send": _TRANSFERS,
    "sort": {"dimension": "-1 : i64", "is_stable": _FALSE},
    "top_k": {"is_stable": "true"},
    "topk": {"is_stable": "true", "largest": "true"},
}
_COMMON_DEFAULTS = {
    "channel_handle": r"\.channel_handle<handle = 0",
    "result_accuracy": r"\.result_accuracy<mode = \.result_accuracy_mode<DEFAULT>>",
}
_DEFAULT_NAMES = frozenset(_COMMON_DEFAULTS).union(*_DEFAULTS.values())
_DIALECTS = ("stablehlo", "mhlo", "chlo")


@record(frozen=True, slots=True)
class ConstantValue:
    """The part of a content that is the value of a constant."""

    text: str


@record(frozen=True, slots=True)
class FunctionName:
    """The part of a content that is a symbol, mostly the name of a function."""

    text: str


ContentPart = str | ConstantValue | FunctionName


@record(frozen=True, slots=True, eq=False)
class OpContent:
    """The content of an op.

    Attributes:
        text: The content as text, with the values of constants and the names of functions.
        parts: The parts of the text.
        has_loop: Whether the op is or contains a loop.
    """

    text: str
    parts: tuple[ContentPart, ...]
    has_loop: bool = False

    def list_function_names(self) -> list[str]:
        """List the symbols that the op refers to, in order."""
        return [part.text for part in self.parts if isinstance(part, FunctionName)]

    def render(self, describe_function: Callable[[str], str], *, with_values: bool) -> str:
        """Return the text with other names of functions.

        Args:
            describe_function: Returns what stands for a symbol.
            with_values: Whether the values of constants are part of the text.
        """
        texts = []
        for part in self.parts:
            if isinstance(part, FunctionName):
                texts.append(describe_function(part.text))
            elif isinstance(part, ConstantValue):
                texts.append(part.text if with_values else "")
            else:
                texts.append(part)
        return "".join(texts)


def read_op_content(op: ir.Operation) -> OpContent:
    """Return the content of an op; that of a function is its type and its body."""
    writer = _ContentWriter()
    if op.name == "func.func":
        writer.write_function(op)
    else:
        writer.write_op(op, None)
    return writer.build_content()


def digest_kernel(op: ir.Operation) -> str:
    """Return a hash of the content of an op as a compiler sees it.

    What hespas says of the op does not count, nor what a framework passes through the compiler,
    which passes of hespas use and remove.

    As in digests of costs, the values of constants count in loops only. Where a constant is in the
    body, and whether several ops read it, does not count: passes of MLIR move and merge them.
    """
    writer = _ContentWriter(has_facts=False)
    writer.write_op(op, {})
    content = writer.build_content()
    text = content.render(lambda _: "", with_values=content.has_loop)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def render_op_text(op: ir.Operation) -> str:
    """Return the content of an op as text: ops with equal texts have equal costs."""
    return read_op_content(op).text


def counts_for_cost(op: ir.Operation, op_name: str, attribute: str) -> bool:
    """Return whether an attribute of an op is part of its content."""
    if attribute.startswith("hespas."):
        return attribute in COST_INPUTS
    key = op_name, op.context.is_registered_operation(op_name)  # in other contexts it may differ
    if key not in _inherent_names:
        _inherent_names[key] = _find_inherent_names(op, *key)
    inherent = _inherent_names[key]
    if inherent is None or attribute in inherent:
        return True
    rule = find_cost_rule(op_name)
    return rule is not None and attribute in rule.discardable_attributes


# By the name of the op, and whether it is registered.
_inherent_names: dict[tuple[str, bool], frozenset[str] | None] = {}


def _find_inherent_names(
    op: ir.Operation, op_name: str, is_registered: bool
) -> frozenset[str] | None:
    """Return the inherent attributes of ops of a name; None if any attribute may be inherent.

    They are among the properties that the bindings generate for the class of the op, beside its
    operands and results.
    """
    if op_name in CUSTOM_CALLS or not is_registered:
        return None
    if not (op_name.startswith(STABLEHLO_DIALECTS) or has_installed_rule(op_name)):
        return None  # a file may have its rule, which a later process does not load
    mro = type(op.opview).__mro__
    return frozenset(name.rstrip("_") for cls in mro[: mro.index(ir.OpView)] for name in vars(cls))


@record(slots=True)
class _ContentWriter:
    """Collects the parts of a content; ``has_facts`` is whether attributes of hespas count."""

    has_facts: bool = True
    has_loop: bool = False
    _parts: list[ContentPart] = field(default_factory=list)
    _constants: dict[ir.Value, ConstantValue] = field(default_factory=dict)  # without facts only

    def build_content(self) -> OpContent:
        parts = tuple(self.collect_parts())
        text = "".join(part if isinstance(part, str) else part.text for part in parts)
        return OpContent(text, parts, self.has_loop)

    def collect_parts(self) -> Iterator[ContentPart]:
        """Yield the parts, neighbouring texts joined."""
        texts: list[str] = []
        for part in self._parts:
            if isinstance(part, str):
                texts.append(part)
            else:
                yield "".join(texts)
                texts.clear()
                yield part
        yield "".join(texts)

    def write_function(self, function: ir.Operation) -> None:
        self._parts.append(str(function.attributes["function_type"]))
        self._write_regions(function, {})

    def write_op(self, op: ir.Operation, numbers: Mapping[ir.Value, int] | None) -> None:
        """Write an op.

        Args:
            op: The op.
            numbers: The numbers of the values that are defined in the content. None for the op
                itself, whose operands are not part of it.
        """
        name = op.name
        if name in LOOPS:
            self.has_loop = True
        self._parts.append(name)
        self._write_attributes(op, name)
        operands = op.operands
        if numbers is None:
            texts = [_render_type(value.type) for value in operands]
        else:
            texts = [
                f"%{numbers[value]}" if value in numbers else _render_type(value.type)
                for value in operands
            ]
        results = ", ".join([_render_type(type_) for type_ in op.results.types])
        self._parts.append(f"({', '.join(texts)}) -> ({results})")
        if self._constants:
            self._parts += [self._constants[one] for one in operands if one in self._constants]
        unread = _list_unread_positions(op, name) if numbers is None else ()
        if unread:
            self._parts.append(f" unread={unread}")
        if len(op.regions):
            self._write_regions(op, {} if numbers is None else dict(numbers))

    def _write_attributes(self, op: ir.Operation, name: str) -> None:
        if not op.context.is_registered_operation(name):
            properties = read_properties(op)
            if len(properties):
                self._parts.append(" ")
                self._write_value(properties)
        attributes = sorted(
            n
            for n in op.attributes
            if counts_for_cost(op, name, n)
            and (self.has_facts or (n not in COST_INPUTS and n != FRONTEND))
        )
        for attribute in attributes:
            value = find_attribute(op, attribute)
            may_be_default = attribute in _DEFAULT_NAMES
            if may_be_default and value is not None and _is_default(name, attribute, value):
                continue
            self._parts.append(f" {attribute}=")
            if value is None:
                self._write_printed(op, name, attribute)
            elif name in CONSTANTS:
                self._parts.append(ConstantValue(format_elements(value)))
            else:
                self._write_value(value)

    def _write_printed(self, op: ir.Operation, name: str, attribute: str) -> None:
        """Write an attribute that the bindings cannot represent, in the text of a bare op."""
        bare = op.clone().operation
        for other in [n for n in bare.attributes if n != attribute]:
            del bare.attributes[other]
        # Other printers read attributes that are gone now, and end the process.
        is_constant = name in CONSTANTS
        text = str(
            bare.get_asm(
                use_local_scope=True, assume_verified=True, print_generic_op_form=not is_constant
            )
        )
        self._parts.append(ConstantValue(text) if is_constant else text)

    def _write_value(self, value: ir.Attribute) -> None:
        if isinstance(value, ir.FlatSymbolRefAttr):
            self._parts.append(FunctionName(value.value))
        elif isinstance(value, ir.ArrayAttr):
            self._parts.append("[")
            for element in value:
                self._write_value(element)
                self._parts.append(",")
            self._parts.append("]")
        elif isinstance(value, ir.DictAttr):
            for name, element in list_dictionary_entries(value):
                self._parts.append(f"{name}=")
                if element is None:
                    self._parts.append(str(value))
                else:
                    self._write_value(element)
                self._parts.append(",")
        else:
            self._parts.append(_render_attribute(value))

    def _write_regions(self, op: ir.Operation, numbers: dict[ir.Value, int]) -> None:
        for region in op.regions:
            self._parts.append(" {")
            for block in region.blocks:
                types = []
                for argument in block.arguments:
                    numbers[argument] = len(numbers)
                    types.append(_render_type(argument.type))
                self._parts.append(f"({', '.join(types)})")
                for view in block.operations:
                    inner = view.operation
                    if not self.has_facts and inner.name in CONSTANTS:
                        self._constants[inner.results[0]] = ConstantValue(render_op_text(inner))
                        continue
                    self._parts.append(";")
                    self.write_op(inner, numbers)
                    for result in inner.results:
                        numbers[result] = len(numbers)
            self._parts.append("}")


@cache_ir_function(1 << 12)
def _is_default(op_name: str, attribute: str, value: ir.Attribute) -> bool:
    """Return whether an attribute of an op equals its absence."""
    dialect, _, name = op_name.partition(".")
    pattern = _DEFAULTS.get(name, {}).get(attribute) or _COMMON_DEFAULTS.get(attribute)
    if pattern is None or dialect not in _DIALECTS:
        return False
    text = _render_attribute(value).replace(f"#{dialect}", "")
    return re.fullmatch(pattern, text) is not None


@cache_ir_function(1 << 14)
def _render_type(type_: ir.Type) -> str:
    return str(type_)


@cache_ir_function(1 << 14)
def _render_attribute(value: ir.Attribute) -> str:
    """Return the text of an attribute in the form that it has after a portable artifact.

    An array is a tensor there, and a channel has no type.
    """
    text = str(value)
    if text.startswith(("#stablehlo.channel_handle", "#mhlo.channel_handle")):
        return text.partition(", type")[0]
    if not text.startswith("array<"):
        return text
    kind, _, elements = text[len("array<") : -1].partition(": ")
    values = elements.split(", ") if elements else []
    if len(set(values)) > 1:
        elements = f"[{elements}]"
    elif values:
        elements = values[0]
    return f"dense<{elements}> : tensor<{len(values)}x{kind}>"


def _list_unread_positions(op: ir.Operation, name: str) -> tuple[int, ...]:
    """List which of the positions in a sort or fusion nothing reads.

    Whether a body reads them, the body tells: an op whose results are all read has none.
    """
    if not may_have_positions(name) or all(map(has_users, op.results)):
        return ()
    return list_unread_positions(op)


def build_op_key(op: ir.Operation, name: str) -> object:
    """Build a key that ops share only if they are equal, for any purpose.

    It is cheaper to make than the content. It contains the types of the operands and results, all
    attributes but those of hespas that do not count, and the bodies with all attributes. Bodies are
    printed, because reading their ops one by one takes longer. Ops that share a function are one op
    on the IR, so that also counts what each of them has of its own: a cost that another tool has
    stated, and the mark of what XLA computes again.

    Args:
        op: The op.
        name: Its name.
    """
    if has_body(op, name):
        return _build_printed_key(op), _list_unread_positions(op, name)
    attributes = op.attributes
    counted: tuple[object, ...] = ()
    if not op.context.is_registered_operation(name):
        counted = (read_properties(op),)
    try:
        if attributes:
            counted += tuple(
                [
                    (n, attributes[n])
                    for n in attributes
                    if not n.startswith("hespas.") or _counts_for_key(attributes, n)
                ]
            )
        return name, counted, tuple([value.type for value in op.operands]), tuple(op.results.types)
    except TypeError:  # The bindings cannot represent constants with complex elements.
        return _build_printed_key(op)


def _counts_for_key(attributes: ir.OpAttributeMap, name: str) -> bool:
    """Return whether ops that differ in an attribute of hespas are not equal."""
    if name != Cost.NAME:
        return name in COST_INPUTS or name in (RECOMPUTED, RECOMPUTED_KERNEL, RECOMPUTED_ORIGIN)
    cost = attributes[name]
    return not isinstance(cost, ir.DictAttr) or "digest" not in cost


def _build_printed_key(op: ir.Operation) -> object:
    """Build a key for any op: the text of a detached copy.

    Printing in place would number the whole parent each time.
    """
    clone = op.clone().operation
    attributes = clone.attributes
    for name in [n for n in attributes if n.startswith("hespas.")]:
        if not _counts_for_key(attributes, name):
            del attributes[name]
    return clone.get_asm(use_local_scope=True, assume_verified=True, binary=True)
