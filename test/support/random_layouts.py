"""Random programs of products, and of ops that keep, move, divide or drop their dimensions."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Shape = tuple[int, ...]
BATCH, POSITIONS, FEATURES = 2, 4, 8
MAX_SIZE = 4 * FEATURES  # of a dimension that concatenation or padding makes
MAX_RANK = 5


def format_type(shape: Sequence[int]) -> str:
    return f"tensor<{'x'.join(map(str, (*shape, 'f32')))}>"


@dataclass
class LayoutProgram:
    """A program of f32 values whose next op is drawn.

    Attributes:
        source: Draws the ops and what they read.
        arguments: The shapes of the arguments.
        values: The results so far, with their shapes.
        lines: The ops.
    """

    source: random.Random
    arguments: list[Shape] = field(default_factory=list)
    values: list[tuple[str, Shape]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def add_argument(self, shape: Shape) -> str:
        if shape not in self.arguments or self.source.random() < 0.7:
            self.arguments.append(shape)
            return f"%a{len(self.arguments) - 1}"
        return f"%a{self.arguments.index(shape)}"

    def add_op(self, text: str, shape: Sequence[int]) -> str:
        name = f"%{len(self.values)}"
        self.lines.append(f"{name} = stablehlo.{text}")
        self.values.append((name, tuple(shape)))
        return name

    def draw_value(self, is_suitable: Callable[[Shape], bool]) -> tuple[str, Shape] | None:
        """Draw a value, mostly one of the last."""
        values = [(name, shape) for name, shape in self.values if is_suitable(shape)]
        last = values[-8:] if self.source.random() < 0.7 else values
        return self.source.choice(last) if last else None

    def draw_like(self, shape: Shape) -> str:
        """Draw a value of a shape: a result, an argument, a broadcast or a constant."""
        kind = self.source.random()
        same = [name for name, other in self.values if other == shape]
        if kind < 0.45 and same:
            return self.source.choice(same)
        if kind < 0.65 or len(shape) < 2:
            return self.add_argument(shape)
        if kind < 0.9:
            dims = sorted(self.source.sample(range(len(shape)), len(shape) // 2))
            part = tuple(shape[dim] for dim in dims)
            read = self.draw_like(part) if len(part) > 1 else self.add_argument(part)
            return self.add_broadcast(read, part, dims, shape)
        return self.add_op(f"constant dense<2.0> : {format_type(shape)}", shape)

    def add_broadcast(self, name: str, part: Shape, dims: Sequence[int], shape: Shape) -> str:
        types = f"({format_type(part)}) -> {format_type(shape)}"
        return self.add_op(f"broadcast_in_dim {name}, dims = {list(dims)} : {types}", shape)

    def add_reshape(self, name: str, shape: Shape, new: Sequence[int]) -> None:
        self.add_op(f"reshape {name} : ({format_type(shape)}) -> {format_type(new)}", new)

    def add_matrix_product(self) -> None:
        """Add a product without a batch, whose result is divided into heads."""
        rows, columns = BATCH * POSITIONS, self.source.choice((2, 4)) * FEATURES
        shapes = (rows, 6), (6, columns)
        names = ", ".join(map(self.add_argument, shapes))
        types = f"({', '.join(map(format_type, shapes))}) -> {format_type((rows, columns))}"
        dims = "contracting_dims = [1] x [0]"
        name = self.add_op(f"dot_general {names}, {dims} : {types}", (rows, columns))
        heads = BATCH, POSITIONS, columns // FEATURES, FEATURES
        self.add_reshape(name, (rows, columns), heads)

    def add_batched_product(self, name: str, shape: Shape) -> None:
        """Add a product of a value with another one of its shape, in which both have a batch."""
        batch = [0] if len(shape) < 4 else [0, self.source.choice((1, 2))]
        dim = self.source.choice([dim for dim in range(1, len(shape)) if dim not in batch])
        names = [name, self.draw_like(shape)]
        self.source.shuffle(names)
        free = [size for at, size in enumerate(shape) if at not in (*batch, dim)]
        result = [*(shape[at] for at in batch), *free, *free]
        kind = format_type(shape)
        dims = f"batching_dims = {batch} x {batch}, contracting_dims = [{dim}] x [{dim}]"
        types = f"({kind}, {kind}) -> {format_type(result)}"
        self.add_op(f"dot_general {', '.join(names)}, {dims} : {types}", result)

    def add_random_op(self) -> None:
        """Add an op of a value, if one of this kind is possible."""
        drawn = self.draw_value(lambda shape: 2 <= len(shape) <= MAX_RANK)
        assert drawn is not None
        (name, shape), source, kind = drawn, self.source, format_type(drawn[1])
        at = source.randrange(len(shape))
        before, size, after = shape[:at], shape[at], shape[at + 1 :]
        match source.randrange(12):
            case 0:
                self.add_op(f"{source.choice(('tanh', 'negate'))} {name} : {kind}", shape)
            case 1 | 2:
                names = [name, self.draw_like(shape)]
                source.shuffle(names)
                self.add_op(f"multiply {', '.join(names)} : {kind}", shape)
            case 3 if size % 2 == 0:
                half = source.choice(((0, size // 2), (size // 2, size)))
                bounds = [half if dim == at else (0, n) for dim, n in enumerate(shape)]
                ranges = ", ".join(f"{low}:{high}" for low, high in bounds)
                new = *before, size // 2, *after
                self.add_op(f"slice {name} [{ranges}] : ({kind}) -> {format_type(new)}", new)
            case 4 if 2 * size <= MAX_SIZE:
                new, other = (*before, 2 * size, *after), self.draw_like(shape)
                types = f"({kind}, {kind}) -> {format_type(new)}"
                self.add_op(f"concatenate {name}, {other}, dim = {at} : {types}", new)
            case 5:
                dims = source.sample(range(len(shape)), len(shape))
                new = [shape[dim] for dim in dims]
                self.add_op(
                    f"transpose {name}, dims = {dims} : ({kind}) -> {format_type(new)}", new
                )
            case 6 if size % 2 == 0 and len(shape) < MAX_RANK:
                self.add_reshape(name, shape, (*before, 2, size // 2, *after))
            case 7 if after:
                self.add_reshape(name, shape, (*before, size * after[0], *after[1:]))
            case 8 if len(shape) < MAX_RANK:
                dims = [dim + (dim >= at) for dim in range(len(shape))]
                self.add_broadcast(name, shape, dims, (*before, 1, size, *after))
            case 9:
                new = *before, *after
                how = f"applies stablehlo.add across dimensions = [{at}]"
                types = f"({kind}, tensor<f32>) -> {format_type(new)}"
                total = self.add_op(f"reduce({name} init: %zero) {how} : {types}", new)
                if source.random() < 0.5:
                    dims = [dim for dim in range(len(shape)) if dim != at]
                    self.add_broadcast(total, new, dims, shape)
            case 10 if 2 * size <= MAX_SIZE:
                fill = source.choice(["%zero", *(n for n, other in self.values if not other)])
                low, none = (
                    [size if dim == at else 0 for dim in range(len(shape))],
                    [0] * len(shape),
                )
                new = *before, 2 * size, *after
                how = f"low = {low}, high = {none}, interior = {none}"
                types = f"({kind}, tensor<f32>) -> {format_type(new)}"
                self.add_op(f"pad {name}, {fill}, {how} : {types}", new)
            case 11 if len(shape) > 2 and 1 not in shape:
                self.add_batched_product(name, shape)
            case _:
                pass

    def render(self) -> str:
        """Return the text; all results are returned that nothing reads."""
        text = "\n".join(self.lines)
        read = Counter(re.findall(r"%\w+", text))
        returned = [(name, shape) for name, shape in self.values if read[name] == 1]
        kinds = ", ".join(format_type(shape) for _, shape in returned)
        arguments = ", ".join(f"%a{n}: {format_type(s)}" for n, s in enumerate(self.arguments))
        return f"""func.func @main({arguments}) -> ({kinds}) {{
%zero = stablehlo.constant dense<0.0> : tensor<f32>
{text}
return {", ".join(name for name, _ in returned)} : {kinds}
}}"""


def render_layout_program(seed: int) -> str:
    """Return the text of the random program of a number."""
    program = LayoutProgram(random.Random(seed))
    for _ in range(program.source.choice((1, 1, 2))):
        program.add_matrix_product()
    for _ in range(program.source.randint(4, 22)):
        program.add_random_op()
    return program.render()
