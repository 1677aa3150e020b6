// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --verify-diagnostics
// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB | filecheck %s
// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB | hespas-opt --annotate=estimator=calibrated 2>&1 | filecheck %s --check-prefix=AGAIN

/// An annotate pass replaces all costs. Those that somebody has stated it names; those of an annotation it does not.

// CHECK-NOT: "mine"
// AGAIN-NOT: replaces
func.func @main(%x: tensor<8xf32>) -> tensor<8x1xf32> {
  // expected-note @+1 {{roofline replaces costs that were stated}}
  %0 = stablehlo.tanh %x {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 7000.0 : f64}} : tensor<8xf32>
  %1 = func.call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = func.call @f(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = stablehlo.reshape %2 {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 7.0 : f64}} : (tensor<8xf32>) -> tensor<8x1xf32>
  return %3 : tensor<8x1xf32>
}
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
