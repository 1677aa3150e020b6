"""Random programs of loops, branches, nested calls, asynchronous collectives and gaps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from support.annotated_programs import REDUCE, X
from support.random_costs import UNKNOWN

DEVICES = 2
UNARY = ("negate", "tanh", "exponential", "abs", "cosine", "sine", "logistic", "sqrt")
BINARY = ("add", "multiply", "subtract", "maximum")

Statement = tuple[Any, ...]
Body = list[Statement]


def draw_statements(leaves: st.SearchStrategy[Statement], max_size: int = 4) -> st.SearchStrategy:
    """Draw the statements of a body from leaves, and from loops and branches around bodies."""
    statements = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(st.just("loop"), st.integers(0, 3), st.lists(inner, min_size=1, max_size=3)),
            st.tuples(
                st.just("branch"),
                st.lists(st.lists(inner, min_size=1, max_size=3), min_size=2, max_size=3),
            ),
        ),
        max_leaves=8,
    )
    return st.lists(statements, min_size=1, max_size=max_size)


@st.composite
def programs(
    draw: Any, *, collectives: bool = True, gaps: bool = True, branches: bool = True
) -> str:
    """Draw the text of a program for two devices."""
    leaves = [
        st.tuples(st.just("op"), st.sampled_from((*UNARY, *BINARY, "dot_general"))),
        *([st.just(("all_reduce",)), st.tuples(st.just("async"), st.sampled_from(UNARY))]
          if collectives else []),
        *([st.just(("gap",))] if gaps else []),
    ]  # fmt: skip
    bodies: list[Body] = []
    for number in range(draw(st.integers(0, 2))):
        callees = [st.just(("call", callee)) for callee in range(number)]
        bodies.append(draw(draw_statements(st.one_of(*leaves, *callees), 3)))
    callees = [st.just(("call", callee)) for callee in range(len(bodies))]
    entry = draw(draw_statements(st.one_of(*leaves, *callees), 5))
    if not branches:
        entry, bodies = _drop_branches(entry), [_drop_branches(body) for body in bodies]
    return render_program(entry, bodies)


def bodies() -> st.SearchStrategy[Body]:
    """Draw a body with an op, and without calls, gaps, branches, asynchronous collectives."""
    ops = st.tuples(st.just("op"), st.sampled_from((*UNARY, *BINARY, "dot_general")))
    rest = draw_statements(st.one_of(ops, st.just(("all_reduce",)))).map(_drop_branches)
    return st.tuples(ops, rest).map(lambda pair: [pair[0], *pair[1]])


def _drop_branches(body: Body) -> Body:
    """Replace each branch by its first body, in a loop of one trip."""
    plain: Body = []
    for kind, *rest in body:
        if kind == "branch":
            plain.append(("loop", 1, _drop_branches(rest[0][0])))
        elif kind == "loop":
            plain.append(("loop", rest[0], _drop_branches(rest[1])))
        else:
            plain.append((kind, *rest))
    return plain


def render_program(entry: Body, bodies: list[Body]) -> str:
    """Render the text of a program whose entry function calls functions by their numbers."""
    functions = "\n".join(
        _render_function(f"func.func private @f{number}", body)
        for number, body in enumerate(bodies)
    )
    counts = f"mhlo.num_partitions = {DEVICES} : i32, mhlo.num_replicas = 1 : i32"
    return f"""module attributes {{{counts}}} {{
{_render_function("func.func public @main", entry)}
{functions}
}}
"""


def _render_function(head: str, body: Body) -> str:
    lines = _BodyRenderer()
    result = lines.render_body(body, "%x")
    text = "\n".join(lines.lines)
    parameters = f"%x: {X}, %bit: tensor<i1>, %index: tensor<i32>"
    return f"{head}({parameters}) -> {X} {{\n{text}\n return {result} : {X}\n}}"


@dataclass
class _BodyRenderer:
    """Renders statements; each replaces the value that is passed on."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def make_name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def render_body(self, body: Body, value: str) -> str:
        for statement in body:
            value = self.render_statement(statement, value)
        return value

    def render_inner(self, body: Body, value: str) -> tuple[str, str]:
        """Render a nested body; returns its text and its result."""
        outer, self.lines = self.lines, []
        result = self.render_body(body, value)
        text, self.lines = "\n".join(self.lines), outer
        return text, result

    def render_statement(self, statement: Statement, value: str) -> str:
        kind, *rest = statement
        name = self.make_name()
        result = f"%{name}"
        if kind == "op":
            self.lines.append(_render_op(rest[0], result, value))
        elif kind == "gap":
            self.lines.append(
                f"{result} = stablehlo.custom_call @{UNKNOWN}({value}) : ({X}) -> {X}"
            )
        elif kind == "call":
            types = f"({X}, tensor<i1>, tensor<i32>) -> {X}"
            self.lines.append(f"{result} = func.call @f{rest[0]}({value}, %bit, %index) : {types}")
        elif kind == "all_reduce":
            self.lines.append(REDUCE.format(name, value[1:]))
        elif kind == "async":
            self._render_async(rest[0], name, value)
        elif kind == "loop":
            self._render_loop(rest[0], rest[1], name, value)
            result = f"%{name}#1"
        else:
            texts = [self.render_inner(branch, value) for branch in rest[0]]
            regions = ", ".join(
                f"{{\n{text}\nstablehlo.return {inner} : {X}\n}}" for text, inner in texts
            )
            selector = "stablehlo.if", "%bit", "i1"
            if len(texts) > 2:
                selector = "stablehlo.case", "%index", "i32"
            op, index, dtype = selector
            self.lines.append(f'{result} = "{op}"({index}) ({regions}) : (tensor<{dtype}>) -> {X}')
        return result

    def _render_loop(self, trips: int, body: Body, name: str, value: str) -> None:
        """Render a loop as JAX's fori_loop makes it."""
        text, inner = self.render_inner(body, f"%{name}_acc")
        self.lines.append(
            f"""%{name}_0 = stablehlo.constant dense<0> : tensor<i32>
%{name}:2 = stablehlo.while(%{name}_i = %{name}_0, %{name}_acc = {value}) : tensor<i32>, {X}
cond {{
  %{name}_n = stablehlo.constant dense<{trips}> : tensor<i32>
  %{name}_lt = stablehlo.compare LT, %{name}_i, %{name}_n, SIGNED
    : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %{name}_lt : tensor<i1>
}} do {{
  {text}
  %{name}_1 = stablehlo.constant dense<1> : tensor<i32>
  %{name}_next = stablehlo.add %{name}_i, %{name}_1 : tensor<i32>
  stablehlo.return %{name}_next, {inner} : tensor<i32>, {X}
}}"""
        )

    def _render_async(self, op: str, name: str, value: str) -> None:
        """Render an all-reduce alongside an op; the result is their sum."""
        reduce = REDUCE.format(f"{name}_r", f"{name}_a")
        self.lines.append(
            f"""%{name}_s = "stablehlo.async_start"({value}) ({{
^bb0(%{name}_a: {X}):
{reduce}
stablehlo.return %{name}_r : {X}
}}) : ({X}) -> !stablehlo.future<{X}>
%{name}_o = stablehlo.{op} {value} : {X}
%{name}_d = "stablehlo.async_done"(%{name}_s) : (!stablehlo.future<{X}>) -> {X}
%{name} = stablehlo.add %{name}_o, %{name}_d : {X}"""
        )


def _render_op(op: str, result: str, value: str) -> str:
    if op == "dot_general":
        return (
            f"{result} = stablehlo.dot_general {value}, {value}, contracting_dims = [1] x [0] : "
            f"({X}, {X}) -> {X}"
        )
    operands = value if op in UNARY else f"{value}, {value}"
    return f"{result} = stablehlo.{op} {operands} : {X}"
