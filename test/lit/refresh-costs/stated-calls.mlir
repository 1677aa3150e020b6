// RUN: hespas-opt %s --refresh-costs --split-input-file --verify-diagnostics
// RUN: not hespas-opt %s --refresh-costs --refresh-costs --split-input-file

/// A cost that is stated for some calls of a function, whose ops have none, is refused in any order: the others would
/// need costs of the ops, and then what the former states would be replaced by their sum.

module attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, node = "A100_SXM_40GB", estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB}"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @f(%x) {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 200.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
    // expected-error @+1 {{another call of @f states a hespas.cost, and this one has none; state it for each call of @f, or for the function}}
    %1 = call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.sine %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

module attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, node = "A100_SXM_40GB", estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB}"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{another call of @f states a hespas.cost, and this one has none; state it for each call of @f, or for the function}}
    %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = call @f(%0) {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 200.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.sine %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
