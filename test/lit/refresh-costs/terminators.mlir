// RUN: hespas-opt %s --refresh-costs --split-input-file --verify-diagnostics
// RUN: not hespas-opt %s --refresh-costs --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --split-input-file --verify-diagnostics
// RUN: not hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --split-input-file 2>&1 | filecheck %s

/// The end of a block takes no time: a cost that somebody has stated for it is refused, and one that another pass has
/// copied is removed.

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'mine' states a hespas.cost for the end of a block, which takes no time; remove it, or state it for another op of the block}}
  return {hespas.cost = {estimator = "mine", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 7000.0 : f64}} %x : tensor<8xf32>
}

// -----

func.func @main(%x: tensor<8xf32>, %p: tensor<i32>) -> tensor<8xf32> {
  %0 = "stablehlo.case"(%p) ({
    // expected-error @+1 {{'mine' states a hespas.cost for the end of a block}}
    "stablehlo.return"(%x) {hespas.cost = {estimator = "mine", flops = 1 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 0.0 : f64}} : (tensor<8xf32>) -> ()
  }) : (tensor<i32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// CHECK-LABEL: module @copied
// CHECK-NOT: hespas.cost
module @copied attributes {hespas.target = {devices = 1 : i64, replicas = 1 : i64, partitions = 1 : i64, node = "A100_SXM_40GB", estimator = "roofline 1", pipeline = "roofline-annotate{node=A100_SXM_40GB}"}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    return {hespas.cost = {estimator = "roofline", flops = 0 : i64, read_bytes = 0 : i64, write_bytes = 0 : i64, latency_ns = 7000.0 : f64}} %x : tensor<8xf32>
  }
}
