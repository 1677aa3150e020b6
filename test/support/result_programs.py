"""Programs with layers and collectives for the tests of what reads results, and their runs."""

from __future__ import annotations

from pathlib import Path

from hespas.tools import hespas
from hespas.tools.console_scripts import run_tool_main


def layered(layers: int = 3, width: int = 256, devices: int = 4, names: str = "layer_{}") -> str:
    """An MLP of ``layers``, each a product, an all-reduce and an addition."""
    x = f"tensor<64x{width}xbf16>"
    group = ", ".join(map(str, range(devices)))
    lines = []
    for i in range(layers):
        name = names.format(i).replace("\\", "\\5C").replace('"', "\\22")
        at = f'loc("jit(f)/{name}/{{}}"("{name}.py":{i + 3}:4))'
        previous = f"%sum{i - 1}" if i else "%x"
        lines.append(
            f"""
    %dot{i} = stablehlo.dot_general {previous}, %w, contracting_dims = [1] x [0]
      : ({x}, tensor<{width}x{width}xbf16>) -> {x} {at.format("mlp/dot_general")}
    %all{i} = "stablehlo.all_reduce"(%dot{i}) <{{
      replica_groups = dense<[[{group}]]> : tensor<1x{devices}xi64>,
      channel_handle = #stablehlo.channel_handle<handle = {i + 1}, type = 1>,
      use_global_device_ids}}> ({{
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %s = stablehlo.add %a, %b : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }}) : ({x}) -> {x} {at.format("psum")}
    %sum{i} = stablehlo.add %all{i}, %x : {x} {at.format("norm/add")}"""
        )
    return f"""
module attributes {{mhlo.num_partitions = {devices} : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func @main(%x: {x}, %w: tensor<{width}x{width}xbf16>) -> {x} {{{"".join(lines)}
    return %sum{layers - 1} : {x}
  }}
}}
"""


def run(*argv: str) -> int:
    """The exit code of ``hespas``."""
    return run_tool_main(hespas.main, argv)


def result(
    folder: Path,
    *argv: str,
    program: str = "",
    node: str = "A100_SXM_40GB",
    system: str = "A100_SXM_40GB_4GPU",
    name: str = "step.mlir",
) -> str:
    """The output folder of a run, in ``folder``, of ``program`` or a layered one, as it is."""
    path = folder / name
    path.write_text(program or layered())
    out = folder / f"{name}.out"
    network = ["--system", system] if system else []
    form = () if {"--form", "--fuse"} & set(argv) else ("--form", "as-is")
    argv = ("--mlir", str(path), "--node", node, *network, "--output", str(out), *form, *argv)
    assert run("run", *argv) == 0
    return str(out)
