"""Arithmetic in the file of a sweep: derived values, conditions and lists of numbers.

An expression names the keys of a cell, as they are spelled or without ``let.``, and is evaluated by
walking its syntax tree: nothing but arithmetic, comparisons and the functions below is possible.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hespas.support.errors import HespasError
from hespas.support.suggestions import suggest_nearest

LET = "let."
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "ceil": math.ceil, "floor": math.floor, "int": int, "log2": math.log2,
    "max": max, "min": min, "round": round, "sqrt": math.sqrt,
}  # fmt: skip
_MAX_EXPONENT = 64  # of powers of whole numbers, which are exact
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
_LIST = re.compile(r"(range|linspace|logspace)\((.*)\)")


def _raise_to_power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and 0 <= exponent <= _MAX_EXPONENT:
        return base**exponent
    return math.pow(base, exponent)


_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: _raise_to_power,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


@dataclass(frozen=True)
class SweepExpression:
    """A parsed expression; ``text`` is how the file spells it."""

    text: str
    tree: ast.expr

    @classmethod
    def parse(cls, text: str) -> SweepExpression:
        """Parse an expression; raises HespasError if it contains anything but arithmetic."""
        text = text.strip()
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise HespasError(f"'{text}' is not an expression") from None
        expression = cls(text, tree)
        expression.list_names()  # walks all of it
        return expression

    def list_names(self) -> list[str]:
        """List the names that the expression uses."""
        names: list[str] = []
        self._collect_names(self.tree, names)
        return names

    def _collect_names(self, node: ast.expr, names: list[str]) -> None:
        name = _read_dotted_name(node)
        if name is not None:
            names.append(name)
            return
        for child in self._list_operands(node):
            self._collect_names(child, names)

    def _list_operands(self, node: ast.expr) -> list[ast.expr]:
        """List the operands of a node; raises HespasError if it is no arithmetic."""
        match node:
            case ast.Constant(value=int() | float() | str()):
                return []
            case ast.BinOp(op=op) if type(op) in _OPERATORS:
                return [node.left, node.right]
            case ast.UnaryOp(op=op) if type(op) in _OPERATORS:
                return [node.operand]
            case ast.BoolOp():
                return node.values
            case ast.Compare(ops=ops) if all(type(op) in _OPERATORS for op in ops):
                return [node.left, *node.comparators]
            case ast.IfExp():
                return [node.test, node.body, node.orelse]
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
                return node.args
        raise HespasError(
            f"'{self.text}' contains '{ast.unparse(node)}'",
            remedy=f"use numbers, keys, + - * / // % **, comparisons, and {', '.join(FUNCTIONS)}",
        )

    def evaluate(self, look_up: Callable[[str], Any]) -> Any:
        """Return the value; ``look_up`` gives that of a name. Raises HespasError."""
        try:
            return self._evaluate_node(self.tree, look_up)
        except (ArithmeticError, TypeError, ValueError) as error:
            raise HespasError(f"'{self.text}' has no value: {error}") from None

    def _evaluate_node(self, node: ast.expr, look_up: Callable[[str], Any]) -> Any:
        name = _read_dotted_name(node)
        if name is not None:
            return look_up(name)
        if isinstance(node, ast.IfExp):
            chosen = node.body if self._evaluate_node(node.test, look_up) else node.orelse
            return self._evaluate_node(chosen, look_up)
        operands = (self._evaluate_node(child, look_up) for child in self._list_operands(node))
        if isinstance(node, ast.BoolOp):  # the first operand may say whether the next has a value
            return all(operands) if isinstance(node.op, ast.And) else any(operands)
        values = list(operands)
        match node:
            case ast.Constant():
                return node.value
            case ast.Call(func=ast.Name(id=function)):
                return FUNCTIONS[function](*values)
            case ast.Compare():
                pairs = zip(node.ops, values, values[1:], strict=False)
                return all(_OPERATORS[type(op)](a, b) for op, a, b in pairs)
            case ast.BinOp() | ast.UnaryOp():
                return _OPERATORS[type(node.op)](*values)
        raise AssertionError(node)


def _read_dotted_name(node: ast.expr) -> str | None:
    """Return the name of a key such as ``node.tdp_w``; None for another node."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        prefix = _read_dotted_name(node.value)
        return None if prefix is None else f"{prefix}.{node.attr}"
    return None


@dataclass(frozen=True)
class DerivedValue:
    """A value that follows from others: ``= EXPRESSION``, or text with ``{EXPRESSION}``.

    Attributes:
        parts: Text and expressions in turn; one expression for ``=``.
        is_text: Whether the value is text.
    """

    parts: tuple[str | SweepExpression, ...]
    is_text: bool

    @classmethod
    def parse(cls, value: Any) -> DerivedValue | None:
        """Parse a value; None if it is not derived. Raises HespasError."""
        if not isinstance(value, str):
            return None
        if value.startswith("="):
            return cls((SweepExpression.parse(value[1:]),), is_text=False)
        pieces = _PLACEHOLDER.split(value)
        if len(pieces) == 1:
            return None
        parts = [SweepExpression.parse(p) if i % 2 else p for i, p in enumerate(pieces)]
        return cls(tuple(parts), is_text=True)

    def list_names(self) -> list[str]:
        """List the names that the value uses."""
        expressions = [part for part in self.parts if isinstance(part, SweepExpression)]
        return [name for expression in expressions for name in expression.list_names()]

    def evaluate(self, look_up: Callable[[str], Any]) -> Any:
        """Return the value in a cell; raises HespasError."""
        values = [part if isinstance(part, str) else part.evaluate(look_up) for part in self.parts]
        return "".join(map(_format_number, values)) if self.is_text else values[0]


def _format_number(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def resolve_name(name: str, known: Mapping[str, Any]) -> str:
    """Return the key that a name stands for; raises HespasError if there is none."""
    for key in (name, f"{LET}{name}"):
        if key in known:
            return key
    names = [key.removeprefix(LET) for key in known]
    raise HespasError(f"no key is named '{name}'", remedy=suggest_nearest(name, names))


def derive_cell(cell: Mapping[str, Any], derived: Mapping[str, DerivedValue]) -> dict[str, Any]:
    """Return the cell with the values of its derived keys; raises HespasError, also for a cycle."""
    values = dict(cell)
    pending: list[str] = []

    def look_up(name: str) -> Any:
        key = resolve_name(name, cell)
        value = values[key]
        if key not in derived or value is not cell[key]:
            return value
        if key in pending:
            raise HespasError(f"'{key}' depends on itself: {' -> '.join([*pending, key])}")
        pending.append(key)
        values[key] = derived[key].evaluate(look_up)
        pending.pop()
        return values[key]

    for key in derived:
        look_up(key)
    return values


def expand_number_list(key: str, text: str, limit: int) -> list[Any] | None:
    """Return the numbers of ``range``, ``linspace`` or ``logspace``; None for other text.

    Raises:
        HespasError: The arguments are wrong, or there are more than ``limit`` numbers.
    """
    match = _LIST.fullmatch(text.strip())
    if match is None:
        return None
    if match[1] == "range":
        return list(_parse_range(key, text, match[2], limit))
    try:
        first, last, count_text = match[2].split(",")
        start, stop, count = float(first), float(last), int(count_text)
        is_log = match[1] == "logspace"
        ends_positive = not is_log or (start > 0 and stop > 0)
        if count < 2 or not ends_positive or not math.isfinite(start + stop):
            raise ValueError
    except ValueError:
        remedy = f"write {match[1]}(A,B,COUNT): COUNT numbers from A to B, both included"
        raise HespasError(f"'{key}': '{text}' is not a list of numbers", remedy=remedy) from None
    _check_count(key, text, count, limit)
    shares = [i / (count - 1) for i in range(count)]
    numbers = [
        start * (stop / start) ** s if is_log else start + (stop - start) * s for s in shares
    ]
    rounded = [float(f"{number:.12g}") for number in (start, *numbers[1:-1], stop)]
    return [int(number) if number.is_integer() else number for number in rounded]


def _parse_range(key: str, text: str, arguments: str, limit: int) -> range:
    """Parse the arguments of a range, which are those of Python's; raises HespasError."""
    try:
        numbers = range(*map(int, arguments.split(",")))
        size = len(numbers)
    except (ValueError, TypeError, OverflowError):
        remedy = "write range(A,B,STEP): whole numbers from A to below B"
        raise HespasError(f"'{key}': '{text}' is not a range", remedy=remedy) from None
    _check_count(key, text, size, limit)
    return numbers


def _check_count(key: str, text: str, count: int, limit: int) -> None:
    if count > limit:
        message = f"'{key}': '{text}' has {count:,} numbers"
        raise HespasError(message, remedy=f"the limit is {limit:,}")
