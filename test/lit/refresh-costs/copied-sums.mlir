// RUN: hespas-opt %s --refresh-costs --split-input-file 2>&1 | filecheck %s

/// A cost of the estimator without a digest is a sum. A conversion that leaves it on another op has copied it: a free op loses
/// it, another one is estimated again, and so is a function whose calls alone have one.

// CHECK: stablehlo.tanh ({{.*}}copied-sums.mlir:{{[0-9]+}}:10) changed after the annotation: estimated again by roofline-annotate{node=A100_SXM_40GB}
// CHECK: @f ({{.*}}copied-sums.mlir:{{[0-9]+}}:3) changed after the annotation: estimated again by roofline-annotate{node=A100_SXM_40GB}
// CHECK: module @leaf
// CHECK: stablehlo.reshape %{{[a-z0-9]+}} :
// CHECK: stablehlo.tanh {{.*}}digest = "{{[0-9a-f]+}}_
module @leaf attributes {hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, node = "A100_SXM_40GB", estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB}"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8x1xf32> {
    %0 = stablehlo.reshape %x {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}} : (tensor<8xf32>) -> tensor<8x1xf32>
    %1 = stablehlo.tanh %0 {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}} : tensor<8x1xf32>
    return %1 : tensor<8x1xf32>
  }
}

// -----

// CHECK: module @call
// CHECK: call @f({{.*}}estimator = "roofline"
// CHECK-NOT: latency_ns = 6.400000e+01
// CHECK: stablehlo.tanh {{.*}}digest = "{{[0-9a-f]+}}_
module @call attributes {hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, node = "A100_SXM_40GB", estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB}"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @f(%x) {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = call @f(%0) {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64, digest = "0123456789abcdef_01234567_89ab"}} : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
