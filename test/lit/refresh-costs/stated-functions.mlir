// RUN: hespas-opt %s --refresh-costs --split-input-file --verify-diagnostics
// RUN: not hespas-opt %s --refresh-costs --refresh-costs --split-input-file 2>&1 | filecheck %s

/// A cost that is stated for a function with costs inside, or for the entry function, is refused unless it is their sum.

module @called attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, node = "A100_SXM_40GB", estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB}"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  // expected-error @+1 {{'mine' states a hespas.cost for the function, whose ops have costs, too; remove it, or the costs of the ops}}
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> attributes {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 300.0 : f64}} {
    %0 = stablehlo.sine %x {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 200.0 : f64}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

module @entry attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, node = "A100_SXM_40GB", estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB}"}} {
  // expected-error @+1 {{'mine' states a hespas.cost for the function}}
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 300.0 : f64}} {
    %0 = stablehlo.sine %x {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 200.0 : f64}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @equal
// CHECK: func.func @main({{.*}}latency_ns = 2.000000e+02
module @equal attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, node = "A100_SXM_40GB", estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB}"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 200.0 : f64}} {
    %0 = stablehlo.sine %x {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 200.0 : f64}} : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
