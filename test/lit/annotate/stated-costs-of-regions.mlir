// RUN: hespas-opt %s --split-linear=block-limit=2 --roofline-annotate=node=A100_SXM_40GB --disable-output 2>&1 | filecheck %s

/// Stated costs of a region are named, too, if all its ops equal those of an earlier one.

// CHECK: stablehlo.tanh ({{.*}}:8:8), stablehlo.tanh ({{.*}}:11:8): roofline replaces costs that were stated
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // Both have the same cost.
  %0 = stablehlo.tanh %x {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 7000.0 : f64}} : tensor<8xf32>
  %1 = stablehlo.sine %0 : tensor<8xf32>
  %2 = stablehlo.sine %1 : tensor<8xf32>
  %3 = stablehlo.tanh %2 {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 7000.0 : f64}} : tensor<8xf32>
  return %3 : tensor<8xf32>
}
