// RUN: not hespas-opt %s --split-linear 2>&1 | filecheck %s

/// An op that came to a split module afterwards belongs to no region, so the split is not the one that is asked for.

// CHECK: error: 'builtin.module': split-linear: the module is already split by split-linear; run unsplit first
module attributes {hespas.communicators = {}, hespas.split = {strategy = "linear"}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @region_0(%x) {hespas.region = {digest = "0123456789abcdef", id = 0 : i64, ops = 1 : i64}} : (tensor<8xf32>) -> tensor<8xf32>
    %1 = stablehlo.negate %0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @region_0(%x: tensor<8xf32>) -> tensor<8xf32> attributes {hespas.region = {digest = "0123456789abcdef", id = 0 : i64, ops = 1 : i64}} {
    %0 = stablehlo.tanh %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
