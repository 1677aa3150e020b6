"""The modules of the benchmarks: a real program, and generated ones of any size."""

from __future__ import annotations

import lzma
import os
import random
from pathlib import Path

from benchmarks import ROOT
from benchmarks.measure import build_tool_command, run_process

OPS_PER_LAYER = 20


def unpack_real_program(folder: Path) -> Path:
    """Unpack the largest available optimised Llama-3 training step into ``folder``."""
    shared = Path(os.environ.get("HESPAS_WORKLOADS", ROOT.parent / "shared" / "workloads"))
    for packed in (
        shared / "llama3" / "llama3-3b-opt-a100.mlir.xz",
        ROOT / "docs" / "examples" / "llama3-100m-opt-a100.mlir.xz",
    ):
        if packed.exists():
            plain = folder / packed.stem
            plain.write_bytes(lzma.decompress(packed.read_bytes()))
            return plain
    raise FileNotFoundError("no Llama-3 program is available")


def export_llama_step(folder: Path, layers: int) -> Path:
    """Export the unrolled training step of a small Llama-3 for 8 devices into ``folder``."""
    path = folder / f"llama-{layers}.mlir"
    step = f"llama --model 100m --mesh fsdp=8 --set layers={layers} --stage partitioned"
    run_process(build_tool_command("hespas", "export", *step.split(), "-o", str(path)))
    return path


def write_layered_module(folder: Path, ops: int) -> Path:
    """Write a chain of equal transformer-like layers with about ``ops`` ops.

    Each layer contains one collective.
    """
    lines = [
        LAYER.replace("@", f"{k}_").replace("PREVIOUS", f"x{k - 1}_")
        for k in range(ops // OPS_PER_LAYER)
    ]
    last = f"%x{ops // OPS_PER_LAYER - 1}_"
    text = (
        "module @layers attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n"
        "func.func public @main(%x-1_: tensor<256x512xbf16>, %w: tensor<512x512xbf16>)"
        " -> tensor<256x512xbf16> {\n"
        + "".join(lines)
        + f"return {last} : tensor<256x512xbf16>\n}} }}\n"
    ).replace("%x-1_", "%first")
    path = folder / f"layers-{ops}.mlir"
    path.write_text(text)
    return path


def write_random_module(folder: Path, ops: int, seed: int) -> Path:
    """Write a program with ``ops`` ops of random kinds, widths and data flow from a seed.

    Each op reads results of the same width among the latest ones; one of 250 is a collective. All
    values that nothing else reads are results.
    """
    rng = random.Random(seed)
    widths = [2 ** rng.randint(6, 10) for _ in range(4)]
    types = {width: f"tensor<256x{width}xbf16>" for width in widths}
    weights = {w: f"tensor<{w}x{w}xbf16>" for w in dict.fromkeys(widths)}
    lines: list[str] = []
    latest = {width: [f"%x{width}"] for width in weights}
    unread: dict[str, str] = {}
    for k in range(ops):
        width = rng.choice(widths)
        type_, values = types[width], latest[width]
        left, right, result = rng.choice(values), rng.choice(values), f"%v{k}"
        draw = rng.random()
        if draw < 1 / 250:
            lines.append(ALL_REDUCE.format(result=result, operand=left, type=type_))
            right = left
        elif draw < 0.1:
            lines.append(
                f"{result} = stablehlo.dot_general {left}, %w{width}, contracting_dims = [1] x [0]"
                f" : ({type_}, {weights[width]}) -> {type_}"
            )
            right = left
        elif draw < 0.5:
            lines.append(f"{result} = stablehlo.{rng.choice(UNARY)} {left} : {type_}")
            right = left
        else:
            lines.append(f"{result} = stablehlo.{rng.choice(BINARY)} {left}, {right} : {type_}")
        for value in (left, right):
            unread.pop(value, None)
        unread[result] = type_
        latest[width] = [*values[-7:], result]
    arguments = [f"%x{w}: {types[w]}, %w{w}: {weights[w]}" for w in weights]
    results = ", ".join(unread.values())
    path = folder / f"random-{ops}-{seed}.mlir"
    path.write_text(
        "module attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n"
        f"func.func public @main({', '.join(arguments)}) -> ({results}) {{\n"
        + "\n".join(lines)
        + f"\nreturn {', '.join(unread)} : {results}\n}} }}\n"
    )
    return path


UNARY = ("tanh", "exponential", "negate", "abs", "rsqrt", "logistic")
BINARY = ("add", "multiply", "subtract", "maximum", "divide")
ALL_REDUCE = """\
{result} = "stablehlo.all_reduce"({operand}) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}}> ({{
^bb0(%p: tensor<bf16>, %q: tensor<bf16>):
%r = stablehlo.add %p, %q : tensor<bf16>
stablehlo.return %r : tensor<bf16>
}}) : ({type}) -> {type}"""  # noqa: E501
T, W, S = "tensor<256x512xbf16>", "tensor<512x512xbf16>", "tensor<256x1xf32>"
LAYER = f"""\
%a@ = stablehlo.dot_general %PREVIOUS, %w, contracting_dims = [1] x [0] : ({T}, {W}) -> {T}
%b@ = stablehlo.tanh %a@ : {T}
%c@ = stablehlo.multiply %a@, %b@ : {T}
%d@ = stablehlo.add %c@, %PREVIOUS : {T}
%e@ = stablehlo.dot_general %d@, %w, contracting_dims = [1] x [0] : ({T}, {W}) -> {T}
%f@ = stablehlo.exponential %e@ : {T}
%g@ = stablehlo.add %f@, %d@ : {T}
%h@ = stablehlo.negate %g@ : {T}
%i@ = stablehlo.maximum %h@, %g@ : {T}
%j@ = stablehlo.dot_general %i@, %w, contracting_dims = [1] x [0] : ({T}, {W}) -> {T}
%k@ = stablehlo.subtract %j@, %i@ : {T}
%l@ = stablehlo.abs %k@ : {T}
%m@ = stablehlo.rsqrt %l@ : {T}
%n@ = stablehlo.multiply %m@, %k@ : {T}
%o@ = "stablehlo.all_reduce"(%n@) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids}}> ({{
^bb0(%p: tensor<bf16>, %q: tensor<bf16>):
%r = stablehlo.add %p, %q : tensor<bf16>
stablehlo.return %r : tensor<bf16>
}}) : ({T}) -> {T}
%x@ = stablehlo.add %o@, %PREVIOUS : {T}
"""  # noqa: E501
