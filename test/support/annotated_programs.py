"""Programs whose costs are known in advance: a nanosecond per byte."""

from __future__ import annotations

X = "tensor<64x64xf32>"

BYTES = 64 * 64 * 4

# 1e9 bytes/s and a compute rate out of reach: a nanosecond per byte.
FLAT = "roofline-annotate{peak-flops=1e30 memory-bandwidth=1e9}"

REDUCE = f"""%{{0}} = "stablehlo.all_reduce"(%{{1}}) <{{{{replica_groups = dense<[[0, 1]]> :
    tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
    use_global_device_ids}}}}> ({{{{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}}}) : ({X}) -> {X}"""


def program(body: str, result: str, more: str = "") -> str:
    """A program of two arrays %x and %y, and a %which that is known at run time only."""
    return f"""module attributes {{mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%x: {X}, %y: {X}, %which: tensor<i1>) -> {X} {{
    {body}
    return %{result} : {X}
  }}
  {more}
}}"""


def loop(name: str, trips: int, body: str, result: str, start: str) -> str:
    """A loop over ``%acc``, as JAX's fori_loop makes it."""
    return f"""
    %{name}_0 = stablehlo.constant dense<0> : tensor<i32>
    %{name}:2 = stablehlo.while(%i = %{name}_0, %acc = %{start}) : tensor<i32>, {X}
     cond {{
      %n = stablehlo.constant dense<{trips}> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    }} do {{
      {body}
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %{result} : tensor<i32>, {X}
    }}"""


ADD = f"stablehlo.add %x, %y : {X}"
