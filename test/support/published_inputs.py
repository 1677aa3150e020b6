"""A small program and configuration files of the published tools."""

from __future__ import annotations

import json
from pathlib import Path

PROGRAM = """
module @step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<64x256xbf16>, %w: tensor<256x256xbf16>) -> tensor<64x256xbf16> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<64x256xbf16>, tensor<256x256xbf16>) -> tensor<64x256xbf16>
    %1 = stablehlo.tanh %0 : tensor<64x256xbf16>
    %2 = "stablehlo.all_reduce"(%1) <{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
      %s = stablehlo.add %a, %b : tensor<bf16>
      stablehlo.return %s : tensor<bf16>
    }) : (tensor<64x256xbf16>) -> tensor<64x256xbf16>
    %3 = stablehlo.dot_general %2, %w, contracting_dims = [1] x [0]
      : (tensor<64x256xbf16>, tensor<256x256xbf16>) -> tensor<64x256xbf16>
    %4 = stablehlo.tanh %3 : tensor<64x256xbf16>
    return %4 : tensor<64x256xbf16>
  }
}
"""

EIGHT = PROGRAM.replace("num_partitions = 4", "num_partitions = 8").replace(
    "[[0, 1, 2, 3]]> : tensor<1x4xi64>", "[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>"
)

HARDWARE = {
    "peak_flops": 9.7e12,
    "per_datatype_flops": {"f32": 19.5e12, "tf32": 156e12, "bf16": 312e12, "ui8": 624e12},
    "memory_bandwidth": 1555e9,
}


def write_config(name="config.json", *, hardware=None, estimator=None, **keys):
    perf = {"method": "roofline", "hardware": {**HARDWARE, **(hardware or {})}, **(estimator or {})}
    config = {"mlir_file": "step.mlir", "output_dir": "out", "perf_estimator": perf, **keys}
    Path(name).write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    return name
