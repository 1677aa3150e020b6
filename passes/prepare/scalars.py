"""Evaluation of scalar values that the IR determines: constants and arithmetic on them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import field
from typing import Any

from hespas.dialects.mlir import (
    get_attribute,
    get_defining_op,
    get_symbol_name,
    has_static_shape,
    ir,
)
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import (
    BARRIERS,
    CALLEE,
    CONSTANTS,
    FORWARDING_OPS,
    FUSION,
    LOOPS,
    TUPLE_ELEMENTS,
    TUPLES,
)
from hespas.dialects.resources import read_resource
from hespas.passes.prepare.census import ModuleCensus
from hespas.support.records import record

Number = int | float | bool

# The result is the operand. Explicit shardings of JAX constrain the counters of loops, too.
_COPIES = FORWARDING_OPS | {"mhlo.bitcast"}
_SPREADS = {
    f"{dialect}.{kind}"
    for dialect in ("stablehlo", "mhlo")
    for kind in ("broadcast_in_dim", "reshape")
}
_FORWARDS = BARRIERS | _COPIES | _SPREADS | {
    "tensor.cast",
    *(f"{dialect}.{kind}" for dialect in ("stablehlo", "mhlo")
      for kind in ("convert", "slice", "transpose")),
}  # fmt: skip
# The kinds of ops whose elements are those of the operand at the same places.
ELEMENT_COPIES = frozenset(("convert", *(name.partition(".")[2] for name in FORWARDING_OPS)))
COMPARE: dict[str, Callable[[Number, Number], bool]] = {
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
}


def read_comparison_direction(compare: ir.Operation) -> str:
    """Read how a comparison compares its operands: a key of ``COMPARE``."""
    return str(compare.attributes["comparison_direction"]).rpartition(" ")[2].rstrip(">")


def _divide_numbers(a: Number, b: Number) -> Number | None:
    if not b:
        return None
    if isinstance(a, float):
        return a / b
    quotient = abs(a) // abs(b)  # integers round towards zero
    return quotient if (a < 0) == (b < 0) else -quotient


def _compute_remainder(a: Number, b: Number) -> Number | None:
    quotient = _divide_numbers(a, b)
    return None if quotient is None or isinstance(a, float) else a - b * quotient


def _shift_integer(by: Callable[[int, int], int], a: Number, b: Number) -> Number | None:
    """Shift an integer; None if the count exceeds every element type: the result is undefined."""
    return by(a, b) if isinstance(a, int) and isinstance(b, int) and 0 <= b < 64 else None


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "add": operator.add,
    "and": lambda a, b: a & b if isinstance(a, int) and isinstance(b, int) else None,
    "clamp": lambda low, x, high: min(max(x, low), high),
    "divide": _divide_numbers,
    "maximum": max,
    "minimum": min,
    "multiply": operator.mul,
    "negate": operator.neg,
    "not": lambda a: not a if isinstance(a, bool) else ~a if isinstance(a, int) else None,
    "or": lambda a, b: a | b if isinstance(a, int) and isinstance(b, int) else None,
    "remainder": _compute_remainder,
    "shift_left": lambda a, b: _shift_integer(operator.lshift, a, b),
    "shift_right_arithmetic": lambda a, b: _shift_integer(operator.rshift, a, b),
    "shift_right_logical": lambda a, b: _shift_integer(operator.rshift, a, b) if a >= 0 else None,
    "sign": lambda a: (a > 0) - (a < 0),
    "subtract": operator.sub,
    "xor": lambda a, b: a ^ b if isinstance(a, int) and isinstance(b, int) else None,
}

# The truth value of one operand that decides the result, whatever the other one is.
DECIDED_BY = {"and": False, "or": True}

MAX_ARRAYS = 64  # from which an element of an array is computed

IDEMPOTENT = ("and", "maximum", "minimum", "or")

# A generator that evaluates one value: it yields the values that it needs, and returns the result.
ScalarSteps = Generator[ir.Value, Number | None, Number | None]


def build_scalar_evaluator(census: ModuleCensus) -> ScalarEvaluator:
    """Build the evaluator of the scalars of a module."""
    callers: dict[str, list[ir.Operation]] = {}
    for contents in census.functions.values():
        for callee, op in contents.callees:
            callers.setdefault(callee, []).append(op)
    table = {name: contents.function for name, contents in census.functions.items()}
    return ScalarEvaluator(table, callers)


@record()
class ScalarEvaluator:
    """Evaluates scalars; ``callers`` lists the calls of each function by its name.

    A value is known only if all paths to it agree: a function's argument if all calls pass the same
    value, and a loop's argument if the body forwards it unchanged. ``disagreeing`` names the
    functions whose calls were found to pass different values, of which one at least is known.
    ``assumed`` has values that hold in one iteration of a loop.
    """

    functions: Mapping[str, ir.Operation]
    callers: Mapping[str, Sequence[ir.Operation]]
    assumed: Mapping[ir.Value, Number] = field(default_factory=dict)
    disagreeing: set[str] = field(default_factory=set)
    _known: dict[ir.Value, Number | None] = field(default_factory=dict)
    # Of each result of a body by the values of its arguments: a chain of functions that each call
    # the next one twice is evaluated once.
    _results: dict[tuple[ir.Value, tuple[Number | None, ...]], Number | None] = field(
        default_factory=dict
    )

    def restrict_to_call(self, name: str, call: ir.Operation) -> ScalarEvaluator:
        """Return an evaluator for which a function has this call only."""
        return ScalarEvaluator(self.functions, {**self.callers, name: [call]}, self.assumed)

    def assume(self, values: Mapping[ir.Value, Number]) -> ScalarEvaluator:
        """Return an evaluator for which more values are known."""
        return ScalarEvaluator(self.functions, self.callers, {**self.assumed, **values})

    def find_scalar_value(self, value: ir.Value) -> Number | None:
        """Find the value of a scalar or of equal elements; None if the IR does not determine it."""
        if value not in self._known:
            self._known[value] = None  # A value that depends on itself is unknown.
            self._known[value] = self.evaluate_with_bindings(value, {})
        return self._known[value]

    def find_element(self, array: ir.Value, index: Sequence[int]) -> Number | None:
        """Find an element of an array; None if the IR does not determine it."""
        steps, answer = self._evaluate_element(array, index, {}), None
        while True:
            try:
                value = steps.send(answer)
            except StopIteration as done:
                return done.value
            answer = self.find_scalar_value(value)

    def find_selected_branch(self, op: ir.Operation) -> int | None:
        """Find the branch that the IR selects, or None. A case out of range runs the last one."""
        selector = self.find_scalar_value(op.operands[0])
        if selector is None:
            return None
        if op.name.endswith(".if"):
            return 0 if selector else 1
        last = len(op.regions) - 1
        return int(selector) if 0 <= selector <= last else last

    def evaluate_with_bindings(
        self, value: ir.Value, bound: Mapping[ir.Value, Number]
    ) -> Number | None:
        """Evaluate a value, with the values in ``bound`` assumed."""
        known: dict[ir.Value, Number | None] = {**self.assumed, **bound}
        answer: Number | None = None
        # An explicit stack, because chains of ops may exceed Python's recursion limit.
        stack: list[tuple[ir.Value, ScalarSteps]] = []
        while True:
            if value in known:
                answer = known[value]
            else:
                known[value] = answer = None
                stack.append((value, self._start_evaluation(value)))
            while stack:
                current, steps = stack[-1]
                try:
                    value = steps.send(answer)
                    break
                except StopIteration as done:
                    known[current] = answer = done.value
                    stack.pop()
            else:
                return answer

    def _start_evaluation(self, value: ir.Value) -> ScalarSteps:
        if isinstance(value, ir.BlockArgument):
            return self._evaluate_argument(value)
        op = get_defining_op(value)
        assert op is not None
        return self._evaluate_result(op, ir.OpResult(value).result_number)

    def _evaluate_result(self, op: ir.Operation, number: int) -> ScalarSteps:
        name = op.name
        if name in CONSTANTS:
            return read_splat_constant(op)
        if name in _FORWARDS:
            operand_value = yield op.operands[number if name in BARRIERS else 0]
            return (
                operand_value
                if operand_value is None
                else cast_number(op.results[number].type, operand_value)
            )
        if name in TUPLE_ELEMENTS:
            maker = get_defining_op(op.operands[0])
            if maker is None or maker.name not in TUPLES:
                return None
            return (yield maker.operands[get_attribute(op, "index").value])
        if name in (FUSION, "func.call"):
            return (yield from self._evaluate_body(op, number))
        if name in LOOPS:
            return (yield op.operands[number]) if forwards_unchanged(op, number) else None
        return (yield from self._evaluate_arithmetic(op, get_op_kind(op)))

    def _evaluate_arithmetic(self, op: ir.Operation, kind: str) -> ScalarSteps:
        if kind == "select":
            condition = yield op.operands[0]
            return None if condition is None else (yield op.operands[1 if condition else 2])
        if kind == "get_dimension_size":
            return _find_dimension_size(op)
        if kind == "reduce":
            return (yield from self._evaluate_reduction(op))
        if kind == "dynamic_slice":
            return (yield from self._evaluate_slice(op))
        if kind != "compare" and kind not in ARITHMETIC:
            return None
        values: list[Number] = []
        for operand in op.operands:
            operand_value = yield operand
            if operand_value is None and kind not in DECIDED_BY:
                return None
            if operand_value is not None:
                values.append(operand_value)
        if len(values) < len(op.operands):
            deciding = DECIDED_BY[kind]
            return deciding if any(value is deciding for value in values) else None
        if kind == "compare":
            return COMPARE[read_comparison_direction(op)](*values)
        result = ARITHMETIC[kind](*values)
        return result if result is None else cast_number(op.results[0].type, result)

    def _evaluate_slice(self, op: ir.Operation) -> ScalarSteps:
        """Evaluate a slice of one element, such as that of a scan over ``arange``."""
        array, *starts = op.operands
        if not _has_one_element(op.results[0].type):
            return None
        index = []
        for value, size in zip(starts, ir.RankedTensorType(array.type).shape, strict=True):
            start = yield value
            if start is None:
                return None
            index.append(min(max(int(start), 0), size - 1))
        return (yield from self._evaluate_element(array, index, {}))

    def _evaluate_element(
        self, array: ir.Value, index: Sequence[int], known: dict[ir.Value, Number | None]
    ) -> ScalarSteps:
        """Evaluate an element of an array.

        The array is a constant, an iota, arithmetic on these, or one of equal elements. ``known``
        has the element of each array that was visited.
        """
        if array not in known and len(known) < MAX_ARRAYS:
            known[array] = None  # An array that depends on itself is unknown.
            known[array] = yield from self._compute_element(array, index, known)
        return known.get(array)

    def _compute_element(
        self, array: ir.Value, index: Sequence[int], known: dict[ir.Value, Number | None]
    ) -> ScalarSteps:
        if isinstance(array, ir.BlockArgument):
            elements = set()
            for source in self._list_sources(array):
                elements.add((yield from self._evaluate_element(source, index, known)))
            return elements.pop() if len(elements) == 1 else None
        op, number = get_defining_op(array), ir.OpResult(array).result_number
        assert op is not None
        kind, body = get_op_kind(op), get_body(op, self.functions)
        if body is not None:
            result = get_terminator(body).operands[number]
            return (yield from self._evaluate_element(result, index, known))
        if op.name in CONSTANTS:
            return _read_constant_element(op, index)
        if kind == "iota":
            return cast_number(array.type, index[get_attribute(op, "iota_dimension").value])
        is_copy = op.name in BARRIERS or kind in ELEMENT_COPIES
        if not is_copy and kind not in ARITHMETIC:
            return (yield array)
        operands = [op.operands[number if op.name in BARRIERS else 0]] if is_copy else op.operands
        numbers = []
        for operand in operands:
            element = yield from self._evaluate_element(operand, index, known)
            if element is None:
                return None
            numbers.append(element)
        result = numbers[0] if is_copy else ARITHMETIC[kind](*numbers)
        return result if result is None else cast_number(array.type, result)

    def _evaluate_reduction(self, op: ir.Operation) -> ScalarSteps:
        """Evaluate a reduction of equal elements that leaves them as they are, such as ``all``."""
        step = op.regions[0].blocks[0].operations[0].operation
        kind = get_op_kind(step)
        if len(op.operands) != 2 or len(op.regions[0].blocks[0].operations) != 2:
            return None
        if kind not in IDEMPOTENT or 0 in ir.RankedTensorType(op.operands[0].type).shape:
            return None
        element, start = (yield op.operands[0]), (yield op.operands[1])
        return None if element is None or start is None else ARITHMETIC[kind](element, start)

    def _evaluate_body(self, op: ir.Operation, number: int) -> ScalarSteps:
        """Evaluate a result of the body of a fusion or of a called function."""
        block = get_body(op, self.functions)
        if block is None:
            return None
        values: dict[ir.Value, Number | None] = {}
        for argument, operand in zip(block.arguments, op.operands, strict=True):
            values[argument] = yield operand
        key = get_terminator(block).operands[number], tuple(values.values())
        if key not in self._results:
            self._results[key] = None  # A result that depends on itself is unknown.
            inner = {each: value for each, value in values.items() if value is not None}
            self._results[key] = self.evaluate_with_bindings(key[0], inner)
        return self._results[key]

    def _evaluate_argument(self, value: ir.BlockArgument) -> ScalarSteps:
        sources = self._list_sources(value)
        parent = value.owner.owner.operation
        if parent.name != "func.func":
            return (yield sources[0]) if sources else None
        numbers = {self.find_scalar_value(source) for source in sources}
        if len(numbers) > 1:
            self.disagreeing.add(get_symbol_name(parent))
        return numbers.pop() if len(numbers) == 1 else None

    def _list_sources(self, value: ir.BlockArgument) -> list[ir.Value]:
        """List what an argument of a body is: several values of a function that is called often.

        The list is empty if the argument may be something else.
        """
        number, parent = value.arg_number, value.owner.owner.operation
        if parent.name == FUSION or (parent.name in LOOPS and forwards_unchanged(parent, number)):
            return [parent.operands[number]]
        if parent.name == "func.func":
            calls = self.callers.get(get_symbol_name(parent), ())
            if all(call.name in CALLEE for call in calls):
                return [call.operands[number] for call in calls]
        return []


def _has_one_element(kind: ir.Type) -> bool:
    return has_static_shape(kind) and set(ir.RankedTensorType(kind).shape) <= {1}


def _find_dimension_size(op: ir.Operation) -> Number | None:
    """Return the size of the dimension that an op asks for, if it is static."""
    kind, dim = op.operands[0].type, get_attribute(op, "dimension").value
    is_static = isinstance(kind, ir.RankedTensorType) and not kind.is_dynamic_dim(dim)
    # A bounded dimension is smaller at run time than its size in the type.
    return kind.get_dim_size(dim) if is_static and kind.encoding is None else None


def get_body(op: ir.Operation, functions: Mapping[str, ir.Operation]) -> ir.Block | None:
    """Return the body of a fusion or of the function that a call names; None if there is none."""
    name = op.name
    if name not in (FUSION, "func.call"):
        return None
    holder = functions.get(get_attribute(op, "callee").value) if name == "func.call" else op
    return holder.regions[0].blocks[0] if holder and len(holder.regions[0].blocks) else None


def get_op_kind(op: ir.Operation) -> str:
    """Return the name of an op without its dialect."""
    return op.name.partition(".")[2]


def forwards_unchanged(loop: ir.Operation, number: int) -> bool:
    """Return whether the body of a loop forwards its argument ``number`` unchanged."""
    body = loop.regions[1].blocks[0]
    return trace_value(get_terminator(body).operands[number], {}, {}) == body.arguments[number]


def trace_value(
    value: ir.Value,
    functions: Mapping[str, ir.Operation],
    stands_for: dict[ir.Value, ir.Value],
    *,
    spread: bool = False,
) -> ir.Value:
    """Return the equal value that an op computes, or that is an argument of a block outside bodies.

    The value is followed through copies, and in and out of the bodies of fusions and of called
    functions.

    Args:
        value: The value.
        functions: The functions of the module by name.
        stands_for: What the arguments of called functions are, which are added.
        spread: Whether copies for more elements, and of another shape, are followed, too.
    """
    copies = _COPIES | _SPREADS if spread else _COPIES
    seen: set[ir.Value] = set()
    while value not in seen:  # as in a function that calls itself
        seen.add(value)
        if value in stands_for:
            value = stands_for[value]
            continue
        if isinstance(value, ir.BlockArgument):
            holder = value.owner.owner.operation
            if holder.name != FUSION:
                break
            value = holder.operands[value.arg_number]
            continue
        op = get_defining_op(value)
        assert op is not None
        number = ir.OpResult(value).result_number
        body = get_body(op, functions)
        if body is not None:
            if op.name != FUSION:
                stands_for.update(zip(body.arguments, op.operands, strict=True))
            value = get_terminator(body).operands[number]
        elif op.name in BARRIERS:
            value = op.operands[number]
        elif op.name in copies:
            value = op.operands[0]
        else:
            break
    return value


def read_splat_constant(op: ir.Operation) -> Number | None:
    """Read the number that all elements of a constant have, or None."""
    attr = _read_elements(op)
    if attr is None or not len(attr) or not (attr.is_splat or len(attr) == 1):
        return None
    # The bindings cannot index elements of bf16, of 8-bit floats, and of integers below 8 bits.
    splat = attr.get_splat_value()
    is_float = isinstance(attr, ir.DenseFPElementsAttr)
    number = (ir.FloatAttr if is_float else ir.IntegerAttr)(splat).value
    return cast_number(op.results[0].type, number)


def _read_constant_element(op: ir.Operation, index: Sequence[int]) -> Number | None:
    """Read an element of a constant of integers; of another one only if all are equal."""
    attr = _read_elements(op)
    if not isinstance(attr, ir.DenseIntElementsAttr) or attr.is_splat:
        return read_splat_constant(op)
    kind = ir.RankedTensorType(op.results[0].type)
    position = 0
    for each, size in zip(index, kind.shape, strict=True):
        position = position * size + each
    try:
        return cast_number(kind, attr[position])
    except TypeError:  # integers below 8 bits: the bindings cannot index them
        return None


def _read_elements(op: ir.Operation) -> ir.DenseIntElementsAttr | ir.DenseFPElementsAttr | None:
    """Return the elements of a constant, or None if the bindings cannot read numbers from it."""
    try:
        attr = op.attributes["value"]
    except TypeError:  # complex elements: the bindings cannot hold them
        return None
    attr = read_resource(attr) or attr
    is_read = isinstance(attr, ir.DenseIntElementsAttr | ir.DenseFPElementsAttr)
    return attr if is_read else None


def cast_number(kind: ir.Type, number: Number) -> Number | None:
    """Convert a number to a tensor's element type.

    Integers wrap around; a number that is not finite has no integer value, which gives None.
    """
    element = kind.element_type if isinstance(kind, ir.ShapedType) else kind
    if isinstance(element, ir.IntegerType):
        if element.width == 1:
            return bool(number)
        if not math.isfinite(number):
            return None
        number = int(number) & ((1 << element.width) - 1)
        signed = not element.is_unsigned and number >> (element.width - 1)
        return number - (1 << element.width) if signed else number
    return float(number) if isinstance(element, ir.FloatType) else number


def find_counter_step(
    value: ir.Value, counter: ir.Value, scalars: ScalarEvaluator
) -> Number | None:
    """Find the sum of the constants that are added to a counter to get a value, or None."""
    total: Number = 0
    stands_for: dict[ir.Value, ir.Value] = {}
    while (value := trace_value(value, scalars.functions, stands_for)) != counter:
        op = get_defining_op(value)
        kind = "" if op is None else get_op_kind(op)
        if op is None or kind not in ("add", "subtract"):
            return None
        value, step_value = op.operands
        step = scalars.evaluate_with_bindings(step_value, {})
        if step is None and kind == "add":
            value, step_value = step_value, value
            step = scalars.evaluate_with_bindings(step_value, {})
        if step is None:
            return None
        total += step if kind == "add" else -step
    return total
