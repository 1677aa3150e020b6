// RUN: hespas-opt %s --refresh-costs 2>&1 | filecheck %s

/// The cost of a function counts more than that of its calls, whether it stands on the function or on its ops; a call and a
/// branch without one get it.

// CHECK: @ops ({{.*}}functions.mlir:{{[0-9]+}}:3), @whole ({{.*}}functions.mlir:{{[0-9]+}}:3) changed after the annotation: the sums of costs are added up again
// CHECK: module @functions
// CHECK: call @ops({{.*}}latency_ns = 1.000000e+01
// CHECK: call @ops({{.*}}latency_ns = 1.000000e+01
// CHECK: call @whole({{.*}}latency_ns = 1.000000e+01
// CHECK: "stablehlo.if"
// CHECK: hespas.cost = {{.*}}latency_ns = 6.400000e+01
// CHECK: return
// CHECK: func.func private @ops
module @functions attributes {hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64}} {
  func.func @main(%x: tensor<8xf32>, %p: tensor<i1>) -> tensor<8xf32> {
    %0 = call @ops(%x) {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = call @ops(%0) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = call @whole(%1) {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
    %3 = "stablehlo.if"(%p) ({
      %4 = stablehlo.tanh %2 {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 64.0 : f64}} : tensor<8xf32>
      stablehlo.return %4 : tensor<8xf32>
    }, {
      stablehlo.return %2 : tensor<8xf32>
    }) {hespas.branch = 0 : i64} : (tensor<i1>) -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }
  func.func private @ops(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.tanh %x {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 10.0 : f64}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @whole(%x: tensor<8xf32>) -> tensor<8xf32> attributes {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 32 : i64, write_bytes = 32 : i64, latency_ns = 10.0 : f64}} {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
