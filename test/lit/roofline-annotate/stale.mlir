// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB | filecheck %s

/// The cost that another tool left on an op that is free goes.

// CHECK: stablehlo.reshape
// CHECK-NOT: hespas.cost
// CHECK: return
func.func @main(%a: tensor<1024xf32>) -> tensor<32x32xf32> {
  %0 = stablehlo.reshape %a {hespas.cost = {bound = "memory", dtype = "none", estimator = "other", flops = 0 : i64, latency_ns = 5.0 : f64, read_bytes = 0 : i64, write_bytes = 0 : i64}} : (tensor<1024xf32>) -> tensor<32x32xf32>
  return %0 : tensor<32x32xf32>
}
