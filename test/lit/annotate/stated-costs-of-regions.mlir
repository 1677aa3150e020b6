// RUN: hespas-opt %s --split-linear=block-limit=2 --roofline-annotate=node=A100_SXM_40GB --verify-diagnostics

/// Stated costs of a region whose ops equal those of an earlier one are named, too.

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  %1 = stablehlo.sine %0 : tensor<8xf32>
  // expected-note @+1 {{roofline replaces costs that were stated}}
  %2 = stablehlo.tanh %1 {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 7000.0 : f64}} : tensor<8xf32>
  %3 = stablehlo.sine %2 : tensor<8xf32>
  return %3 : tensor<8xf32>
}
