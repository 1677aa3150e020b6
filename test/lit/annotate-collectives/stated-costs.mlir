// RUN: hespas-opt %s --annotate-collectives --split-input-file --verify-diagnostics
// RUN: not hespas-opt %s --annotate-collectives --split-input-file 2>&1 | filecheck %s

/// A collective has no cost. One that somebody has stated is refused, not dropped; one that another pass has copied from an
/// op that was estimated, or a sum of the estimator, is removed, and so is one of nothing.

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'mine' states a hespas.cost for a collective, which has none: the simulator computes its time; remove it, or state the cost of a custom call in place of the collective}}
  %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}> {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 5000.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// CHECK-LABEL: module @copied
// CHECK-NOT: hespas.cost
module @copied attributes {hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, node = "A100_SXM_40GB", estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB}"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-note @+1 {{changed after prepare: hespas.comm is written again}}
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}> {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 5000.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = "stablehlo.all_gather"(%0) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}> {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 5000.0 : f64, digest = "0123456789abcdef_01234567_89ab"}} : (tensor<8xf32>) -> tensor<8xf32>
    %2 = "stablehlo.all_gather"(%1) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}> {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 0.0 : f64}} : (tensor<8xf32>) -> tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}
