// RUN: hespas-opt %s --split-linear --split-input-file | filecheck %s

/// A region of ops that have costs, or need none, costs their sum, and so does its call.

// CHECK-LABEL: module @costs
// CHECK: call @region_0(%arg0) {hespas.cost = {{{.*}}flops = 24 : i64, latency_ns = 5.000000e+00 : f64, read_bytes = 64
// CHECK: func.func private @region_0({{.*}} attributes {hespas.cost = {{{.*}}flops = 24 : i64, latency_ns = 5.0
// CHECK-NEXT: stablehlo.tanh {{.*}} {hespas.cost = {{{.*}}latency_ns = 2.0
module @costs {
  func.func @main(%x: tensor<8xf32>) -> tensor<2x4xf32> {
    %0 = stablehlo.tanh %x {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 16 : i64, latency_ns = 2.0 : f64, read_bytes = 32 : i64, write_bytes = 32 : i64}} : tensor<8xf32>
    %1 = stablehlo.negate %0 {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 8 : i64, latency_ns = 3.0 : f64, read_bytes = 32 : i64, write_bytes = 32 : i64}} : tensor<8xf32>
    %2 = stablehlo.reshape %1 : (tensor<8xf32>) -> tensor<2x4xf32>
    return %2 : tensor<2x4xf32>
  }
}

// -----

/// A region with an op whose cost is not known has none, nor has one of ops that take no time.

// CHECK-LABEL: module @unknown
// CHECK: call @region_0(%arg0) {hespas.region
// CHECK: call @region_1(%{{.*}}) {hespas.region
// CHECK: func.func private @region_0({{.*}} attributes {hespas.region
// CHECK: func.func private @region_1({{.*}} attributes {hespas.region
module @unknown attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8x2xf32> {
    %0 = stablehlo.tanh %x {hespas.cost = {bound = "memory", dtype = "f32", estimator = "other", flops = 16 : i64, latency_ns = 2.0 : f64, read_bytes = 32 : i64, write_bytes = 32 : i64}} : tensor<8xf32>
    %1 = stablehlo.negate %0 : tensor<8xf32>
    %2 = "stablehlo.all_gather"(%1) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<8xf32>) -> tensor<16xf32>
    %3 = stablehlo.reshape %2 : (tensor<16xf32>) -> tensor<4x4xf32>
    %4 = stablehlo.reshape %3 : (tensor<4x4xf32>) -> tensor<8x2xf32>
    return %4 : tensor<8x2xf32>
  }
}
