"""A folder of small programs of stages, for pipelines."""

from __future__ import annotations

from pathlib import Path

N = 1024
MATRIX = f"tensor<{N}x{N}xf32>"
PROGRAMS = {
    "forward": f"""
func.func @main(%w: {MATRIX}, %x: {MATRIX}) -> ({MATRIX}, {MATRIX}) {{
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({MATRIX}, {MATRIX}) -> {MATRIX}
  %1 = stablehlo.tanh %0 : {MATRIX}
  return %0, %1 : {MATRIX}, {MATRIX}
}}""",
    "backward": f"""
func.func @main(%w: {MATRIX}, %x: {MATRIX}, %kept: {MATRIX}, %g: {MATRIX})
    -> ({MATRIX}, {MATRIX}) {{
  %0 = stablehlo.dot_general %g, %w, contracting_dims = [1] x [1] : ({MATRIX}, {MATRIX}) -> {MATRIX}
  %1 = stablehlo.dot_general %x, %g, contracting_dims = [0] x [0] : ({MATRIX}, {MATRIX}) -> {MATRIX}
  %2 = stablehlo.multiply %0, %kept : {MATRIX}
  return %2, %1 : {MATRIX}, {MATRIX}
}}""",
    "update": f"""
func.func @main(%w: {MATRIX} {{tf.aliasing_output = 0 : i32}}, %sum: {MATRIX}) -> {MATRIX} {{
  %0 = stablehlo.subtract %w, %sum : {MATRIX}
  return %0 : {MATRIX}
}}""",
}


def write_stage_programs(folder: Path) -> Path:
    """Write the programs, which all stages have, and return the folder."""
    folder.mkdir()
    for part, text in PROGRAMS.items():
        facts = "" if part == "update" else (
            f"flops_per_step = {2 * N**3 * (1 + (part == 'backward'))}, tokens_per_step = {N}"
        )  # fmt: skip
        module = f"module attributes {{hespas.facts = {{{facts}}}}} {{{text}\n}}\n"
        (folder / f"stage.{part}.mlir").write_text(module)
    return folder
