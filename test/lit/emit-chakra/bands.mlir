// RUN: hespas-opt %s --split-individual --emit-chakra=output=%t --disable-output
// RUN: filecheck %s --input-file %t/module_stats.json

/// Kernels of one family share an error, which is added up; what is theirs alone adds as squares, but for the runs of one
/// kernel, which have one error. A kernel without a class shares its whole error with those of its estimator, and one
/// without a band is exact. Low and high are 507 less and plus the roots of the squares of 20, 2 * 3, 10 (30 above), and of
/// the own errors of two products and of a stream that runs twice. Ops are counted by tag.

// CHECK: "totals": {"count": 6, "time_ns": 507.0, {{.*}}"low_ns": 471.778799{{[0-9]*}}, "high_ns": 554.509449{{[0-9]*}}, "tags": {"extrapolated": 3, "unstable": 1}, "gaps": 0}
// CHECK: "classes": {
// CHECK-NEXT: "other": {"count": 2, "time_ns": 207.0
// CHECK-NEXT: "product.bf16": {"count": 1
// CHECK-NEXT: "product.f32": {"count": 1
// CHECK-NEXT: "stream": {"count": 2, "time_ns": 100.0
module @bands {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, high_ns = 120.0 : f64, kernel_class = "product.bf16", latency_ns = 100.0 : f64, low_ns = 80.0 : f64, read_bytes = 16 : i64, shared_high_ns = 110.0 : f64, shared_low_ns = 90.0 : f64, write_bytes = 16 : i64}} : tensor<4xf32>
    %1 = stablehlo.sine %0 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, high_ns = 120.0 : f64, kernel_class = "product.f32", latency_ns = 100.0 : f64, low_ns = 80.0 : f64, read_bytes = 16 : i64, shared_high_ns = 110.0 : f64, shared_low_ns = 90.0 : f64, write_bytes = 16 : i64}} : tensor<4xf32>
    %2 = stablehlo.cosine %1 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, high_ns = 60.0 : f64, kernel_class = "stream", latency_ns = 50.0 : f64, low_ns = 45.0 : f64, read_bytes = 16 : i64, shared_high_ns = 53.0 : f64, shared_low_ns = 47.0 : f64, tag = "extrapolated", write_bytes = 16 : i64}} : tensor<4xf32>
    %3 = stablehlo.cosine %2 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, high_ns = 60.0 : f64, kernel_class = "stream", latency_ns = 50.0 : f64, low_ns = 45.0 : f64, read_bytes = 16 : i64, shared_high_ns = 53.0 : f64, shared_low_ns = 47.0 : f64, tag = "extrapolated", write_bytes = 16 : i64}} : tensor<4xf32>
    %4 = stablehlo.negate %3 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, high_ns = 230.0 : f64, latency_ns = 200.0 : f64, low_ns = 190.0 : f64, read_bytes = 16 : i64, tag = "extrapolated unstable", write_bytes = 16 : i64}} : tensor<4xf32>
    %5 = stablehlo.abs %4 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 0 : i64, latency_ns = 7.0 : f64, read_bytes = 16 : i64, write_bytes = 16 : i64}} : tensor<4xf32>
    return %5 : tensor<4xf32>
  }
}
